/* What laterd answers to clients of beanstalkd: words, numbers, bodies, and statistics as YAML. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "proto/beanstalk/beanstalk.h"
#include "test/unit/support/assert_bytes.h"

/* ---- answers ---- */

static void answers_are_as_in_the_protocol(void **state)
{
    struct buf out = {0};
    (void)state;
    for (unsigned word = 0; word < BEANSTALK_WORDS; word++)
        beanstalk_encode(&out, (enum beanstalk_word)word);
    assert_bytes(buf_bytes(&out),
                 BYTES("OUT_OF_MEMORY\r\nINTERNAL_ERROR\r\nBAD_FORMAT\r\nUNKNOWN_COMMAND\r\n"
                       "EXPECTED_CRLF\r\nJOB_TOO_BIG\r\nDRAINING\r\nTIMED_OUT\r\nDEADLINE_SOON\r\n"
                       "DELETED\r\nRELEASED\r\nBURIED\r\nTOUCHED\r\nKICKED\r\nNOT_IGNORED\r\n"
                       "NOT_FOUND\r\nPAUSED\r\n"));
    out.len = 0;
    beanstalk_encode_inserted(&out, 1);
    beanstalk_encode_inserted(&out, UINT64_MAX);
    beanstalk_encode_reserved(&out, UINT64_MAX, BYTES("a\r\nb"));
    beanstalk_encode_reserved(&out, 7, (struct bytes){0});
    beanstalk_encode_found(&out, 12, BYTES("0123456789"));
    beanstalk_encode_kicked(&out, 0);
    beanstalk_encode_kicked(&out, UINT32_MAX);
    beanstalk_encode_watching(&out, 10);
    beanstalk_encode_using(&out, BYTES("default"));
    beanstalk_encode_ok(&out, BYTES("---\n- default\n"));
    assert_bytes(buf_bytes(&out),
                 BYTES("INSERTED 1\r\nINSERTED 18446744073709551615\r\n"
                       "RESERVED 18446744073709551615 4\r\na\r\nb\r\nRESERVED 7 0\r\n\r\n"
                       "FOUND 12 10\r\n0123456789\r\nKICKED 0\r\nKICKED 4294967295\r\n"
                       "WATCHING 10\r\nUSING default\r\nOK 14\r\n---\n- default\n\r\n"));
    buf_fini(&out);
}

static void numbers_of_every_length_are_written_whole(void **state)
{
    (void)state;
    for (uint64_t power = 1; power; power = power > UINT64_MAX / 10 ? 0 : power * 10) {
        for (uint64_t number = power - 1; number <= power + 1; number++) {
            struct buf got = {0}, want = {0};
            beanstalk_encode_inserted(&got, number);
            buf_addf(&want, "INSERTED %llu\r\n", (unsigned long long)number);
            assert_bytes(buf_bytes(&got), buf_bytes(&want));
            buf_fini(&got);
            buf_fini(&want);
        }
    }
}

/* ---- YAML ---- */

static const int64_t second = 1000000;

static void a_job_is_shown_as_beanstalkd_shows_it(void **state)
{
    struct buf out = {0};
    struct job_view job = {
        .ref = {.seq = 42},
        .topic = BYTES("mail"),
        .state = JOB_DELAYED,
        .priority = 5,
        .created_us = 1000 * second,
        .due_us = 1100 * second,
        .delay_s = 100,
        .ttr_us = 30 * second,
        .counts = {.reserves = 1, .timeouts = 2, .releases = 3, .buries = 4, .kicks = 5},
    };
    (void)state;
    beanstalk_yaml_job(&out, &job, 1000 * second + 1);
    assert_bytes(buf_bytes(&out),
                 BYTES("---\nid: 42\ntube: \"mail\"\nstate: delayed\npri: 5\nage: 0\ndelay: 100\n"
                       "ttr: 30\ntime-left: 99\nfile: 0\nreserves: 1\ntimeouts: 2\nreleases: 3\n"
                       "buries: 4\nkicks: 5\n"));
    out.len = 0;
    job.state = JOB_RESERVED;
    job.until_us = 1130 * second;
    beanstalk_yaml_job(&out, &job, 1102 * second + second / 2);
    assert_non_null(memmem(out.at, out.len, "state: reserved\n", 16));
    assert_non_null(memmem(out.at, out.len, "age: 102\ndelay: 100\nttr: 30\ntime-left: 27\n", 42));
    out.len = 0;
    job.state = JOB_READY;
    job.due_us = 999 * second;
    beanstalk_yaml_job(&out, &job, 1102 * second);
    assert_non_null(memmem(out.at, out.len, "delay: 100\nttr: 30\ntime-left: 0\n", 32));
    buf_fini(&out);
}

static void a_tube_is_shown_as_beanstalkd_shows_it(void **state)
{
    struct buf out = {0};
    struct topic_view topic = {
        .jobs = {[JOB_DELAYED] = 4, [JOB_READY] = 2, [JOB_RESERVED] = 3, [JOB_BURIED] = 5},
        .urgent = 1,
        .waiters = 9,
        .pause_until_us = 1100 * second,
        .pause_us = 120 * second,
        .pushed = 6,
        .finished = 7,
        .deleted = 4,
        .pauses = 12,
    };
    struct beanstalk_tube_stats tube = {
        .topic = &topic, .name = BYTES("1.5"), .using = 7, .watching = 8};
    (void)state;
    beanstalk_yaml_tube(&out, &tube, 1000 * second + 1);
    assert_bytes(buf_bytes(&out),
                 BYTES("---\nname: \"1.5\"\ncurrent-jobs-urgent: 1\ncurrent-jobs-ready: 2\n"
                       "current-jobs-reserved: 3\ncurrent-jobs-delayed: 4\ncurrent-jobs-buried: 5\n"
                       "total-jobs: 6\ncurrent-using: 7\ncurrent-watching: 8\ncurrent-waiting: 9\n"
                       "cmd-delete: 11\ncmd-pause-tube: 12\npause: 120\npause-time-left: 99\n"));
    out.len = 0;
    tube.topic = NULL;
    beanstalk_yaml_tube(&out, &tube, 1000 * second);
    assert_non_null(memmem(out.at, out.len, "current-jobs-ready: 0\n", 22));
    assert_non_null(memmem(out.at, out.len, "pause: 0\npause-time-left: 0\n", 28));
    buf_fini(&out);
}

static void the_server_is_shown_as_beanstalkd_shows_it(void **state)
{
    static const char want[] =
        "---\ncurrent-jobs-urgent: 1\ncurrent-jobs-ready: 2\ncurrent-jobs-reserved: 3\n"
        "current-jobs-delayed: 4\ncurrent-jobs-buried: 5\ncmd-put: 100\ncmd-peek: 101\n"
        "cmd-peek-ready: 102\ncmd-peek-delayed: 103\ncmd-peek-buried: 104\ncmd-reserve: 105\n"
        "cmd-reserve-with-timeout: 106\ncmd-delete: 107\ncmd-release: 108\ncmd-use: 109\n"
        "cmd-watch: 110\ncmd-ignore: 111\ncmd-bury: 112\ncmd-kick: 113\ncmd-touch: 114\n"
        "cmd-stats: 115\ncmd-stats-job: 116\ncmd-stats-tube: 117\ncmd-list-tubes: 118\n"
        "cmd-list-tube-used: 119\ncmd-list-tubes-watched: 120\ncmd-pause-tube: 121\n"
        "job-timeouts: 6\ntotal-jobs: 7\nmax-job-size: 65535\ncurrent-tubes: 8\n"
        "current-connections: 9\ncurrent-producers: 10\ncurrent-workers: 11\n"
        "current-waiting: 12\ntotal-connections: 13\npid: 14\nversion: \"1.2\"\n"
        "rusage-utime: 1.000002\nrusage-stime: 0.500000\nuptime: 15\nbinlog-oldest-index: 16\n"
        "binlog-current-index: 17\nbinlog-records-migrated: 18\nbinlog-records-written: 19\n"
        "binlog-max-size: 10485760\ndraining: true\nid: 937c1b8e3db48ac1\nhostname: \"vm\"\n"
        "os: \"#1 SMP \\\"x\\\" \\\\ 1:2\"\nplatform: \"x86_64\"\n";
    struct beanstalk_stats stats = {
        .jobs = {[JOB_DELAYED] = 4, [JOB_READY] = 2, [JOB_RESERVED] = 3, [JOB_BURIED] = 5},
        .urgent = 1,
        .timeouts = 6,
        .total_jobs = 7,
        .max_job_size = 65535,
        .tubes = 8,
        .connections = 9,
        .producers = 10,
        .workers = 11,
        .waiting = 12,
        .total_connections = 13,
        .pid = 14,
        .version = BYTES("1.2"),
        .user_us = 1000002,
        .system_us = 500000,
        .uptime_s = 15,
        .binlog_oldest = 16,
        .binlog_current = 17,
        .binlog_migrated = 18,
        .binlog_written = 19,
        .binlog_max_bytes = 10485760,
        .draining = true,
        .id = BYTES("937c1b8e3db48ac1"),
        .hostname = BYTES("vm"),
        .os = BYTES("#1 SMP \"x\" \\ 1:2"),
        .platform = BYTES("x86_64"),
    };
    struct buf out = {0};
    (void)state;
    for (unsigned cmd = 0; cmd < BEANSTALK_COUNTED; cmd++)
        stats.cmds[cmd] = 100 + cmd;
    beanstalk_yaml_stats(&out, &stats);
    assert_bytes(buf_bytes(&out), bytes_str(want));
    buf_fini(&out);
}

static void a_list_has_tubes_plain_and_strange_topics_quoted(void **state)
{
    struct buf out = {0};
    (void)state;
    beanstalk_yaml_list(&out);
    beanstalk_yaml_list_add(&out, BYTES("default"));
    beanstalk_yaml_list_add(&out, BYTES("123"));
    beanstalk_yaml_list_add(&out, BYTES("- x: \"y\"\\"));
    beanstalk_yaml_list_add(&out, BYTES("\n\x7f"));
    beanstalk_yaml_list_add(&out, BYTES("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"));
    beanstalk_yaml_list_add(&out, BYTES("\xc3\xff"));
    assert_bytes(buf_bytes(&out),
                 BYTES("---\n- default\n- 123\n- \"- x: \\\"y\\\"\\\\\"\n- \"\\x0a\\x7f\"\n"
                       "- \"\\xe9\\u20ac\\U0001f600\"\n- \"\\xc3\\xff\"\n"));
    buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_as_in_the_protocol),
        cmocka_unit_test(numbers_of_every_length_are_written_whole),
        cmocka_unit_test(a_job_is_shown_as_beanstalkd_shows_it),
        cmocka_unit_test(a_tube_is_shown_as_beanstalkd_shows_it),
        cmocka_unit_test(the_server_is_shown_as_beanstalkd_shows_it),
        cmocka_unit_test(a_list_has_tubes_plain_and_strange_topics_quoted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
