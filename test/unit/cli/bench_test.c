/* The load generator's prebuilt requests: lengths that are true, ids and due times in place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/bench/bench.h"

static void length_is_true(struct bytes request)
{
    const char *length = memmem(request.at, request.len, "Content-Length: ", 16);
    const char *end = memmem(request.at, request.len, "\r\n\r\n", 4);
    uint64_t number;
    assert_non_null(length);
    assert_non_null(end);
    const char *line = memchr(length, '\r', (size_t)(request.at + request.len - length));
    assert_true(bytes_to_u64(bytes_of(length + 16, (size_t)(line - length) - 16), &number));
    assert_int_equal(number, (size_t)(request.at + request.len - end) - 4);
}

static bool holds(const struct buf *out, const char *text)
{
    return memmem(out->at, out->len, text, strlen(text)) != NULL;
}

static void set_up(struct bench *bench, enum bench_scenario scenario, enum bench_dialect dialect)
{
    *bench = (struct bench){
        .mark = 0xabc,
        .base_us = INT64_C(1700000000123000),
        .options = {.scenario = scenario,
                    .dialect = dialect,
                    .topic = "t",
                    .batch = 3,
                    .jobs = 1000,
                    .rate = 500,
                    .body_bytes = 10,
                    .id_bytes = 20},
    };
    bench_forms(bench, "host:1");
}

static void a_push_has_its_number_and_due_time_in_place(void **state)
{
    struct bench bench;
    struct buf out = {0};
    (void)state;
    set_up(&bench, BENCH_DUE, SPEAK_V1);
    bench_add_push(&bench, 7, &out);
    length_is_true(buf_bytes(&out));
    assert_true(holds(&out, "POST /v1/topics/t/jobs HTTP/1.1\r\n"));
    assert_true(holds(&out, "{\"id\":\"000abc-0000000000007\",\"due\":1700000000137,"));
    assert_true(holds(&out, "\"body\":\"abcdefghij\"}"));
    uint64_t number;
    assert_true(bench_number_of(&bench, BYTES("000abc-0000000000007"), &number));
    assert_int_equal(number, 7);
    assert_false(bench_number_of(&bench, BYTES("000abd-0000000000007"), &number));
    assert_false(bench_number_of(&bench, BYTES("000abc-0000000001000"), &number));
    assert_false(bench_number_of(&bench, BYTES("@12"), &number));
    buf_fini(&out);
    bench_forms_fini(&bench);
}

static void the_other_dialect_is_spoken_too(void **state)
{
    struct bench bench;
    struct buf push = {0}, reserve = {0}, finish = {0};
    (void)state;
    set_up(&bench, BENCH_PUT, SPEAK_DELAY_QUEUE);
    bench_add_push(&bench, 7, &push);
    bench_add_reserve(&bench, &reserve);
    bench_add_finish(&bench, &(struct bench_job){.id = BYTES("x1"), .lease = BYTES("")}, &finish);
    length_is_true(buf_bytes(&push));
    length_is_true(buf_bytes(&reserve));
    length_is_true(buf_bytes(&finish));
    assert_true(holds(&push, "\"topic\":\"t\",\"delay\":86400,\"ttr\":60,"));
    assert_true(holds(&finish, "POST /finish HTTP/1.1\r\n"));
    assert_true(holds(&finish, "\r\n\r\n{\"id\":\"x1\"}"));
    buf_fini(&push);
    buf_fini(&reserve);
    buf_fini(&finish);
    bench_forms_fini(&bench);
}

static void each_job_of_an_answer_is_found_with_its_own_lease(void **state)
{
    struct bench bench = {.options = {.dialect = SPEAK_V1}};
    struct load_answer answer = {
        .body = BYTES("{\"jobs\":[{\"id\":\"a\",\"lease\":\"1\",\"body\":\"\"},{\"id\":\"b\"},"
                      "{\"id\":\"c\",\"lease\":\"3\"}]}")};
    struct bench_job job;
    (void)state;
    assert_true(bench_next_job(&bench, &answer, &job));
    assert_true(bytes_eq(job.id, BYTES("a")) && bytes_eq(job.lease, BYTES("\"1\"")));
    assert_true(bench_next_job(&bench, &answer, &job));
    assert_true(bytes_eq(job.id, BYTES("b")) && job.lease.len == 0);
    assert_true(bench_next_job(&bench, &answer, &job));
    assert_true(bytes_eq(job.id, BYTES("c")) && bytes_eq(job.lease, BYTES("\"3\"")));
    assert_false(bench_next_job(&bench, &answer, &job));
}

static void a_finish_carries_the_lease(void **state)
{
    struct bench bench;
    struct buf out = {0};
    (void)state;
    set_up(&bench, BENCH_CYCLE, SPEAK_V1);
    bench_add_finish(&bench, &(struct bench_job){.id = BYTES("@1"), .lease = BYTES("\"77\"")},
                     &out);
    length_is_true(buf_bytes(&out));
    assert_true(holds(&out, "POST /v1/jobs/@1/finish HTTP/1.1\r\n"));
    assert_true(holds(&out, "\r\n\r\n{\"lease\":\"77\"}"));
    buf_fini(&out);
    bench_forms_fini(&bench);
}

static void a_cancel_names_the_job_as_its_push_did(void **state)
{
    struct bench bench;
    struct buf out = {0};
    (void)state;
    set_up(&bench, BENCH_CANCEL, SPEAK_V1);
    bench_add_cancel(&bench, 7, &out);
    assert_true(
        bytes_eq(buf_bytes(&out),
                 BYTES("DELETE /v1/jobs/000abc-0000000000007 HTTP/1.1\r\nHost: host:1\r\n\r\n")));
    buf_fini(&out);
    bench_forms_fini(&bench);
}

static void beanstalkd_is_spoken_to_in_its_own_words(void **state)
{
    struct bench bench;
    struct buf out = {0};
    uint64_t ids[] = {5, 42};
    (void)state;
    set_up(&bench, BENCH_CANCEL, SPEAK_BEANSTALK);
    assert_true(bytes_eq(buf_bytes(&bench.hello), BYTES("use t\r\nwatch t\r\nignore default\r\n")));
    bench.ids = ids;
    bench_add_push(&bench, 7, &out);
    bench_add_reserve(&bench, &out);
    bench_add_finish(&bench, &(struct bench_job){.id = BYTES("9")}, &out);
    bench_add_cancel(&bench, 1, &out);
    assert_true(bytes_eq(buf_bytes(&out), BYTES("put 0 0 60 10\r\nabcdefghij\r\n"
                                                "reserve\r\ndelete 9\r\ndelete 42\r\n")));
    buf_fini(&out);
    bench_forms_fini(&bench);
}

static void a_timed_job_of_beanstalkd_is_known_by_its_body(void **state)
{
    struct bench bench = {.mark = 0xabc,
                          .delay_s = 3,
                          .options = {.scenario = BENCH_DUE,
                                      .dialect = SPEAK_BEANSTALK,
                                      .topic = "t",
                                      .jobs = 1000,
                                      .body_bytes = 24,
                                      .id_bytes = 20}};
    struct load_answer answer = {.status = 200, .id = BYTES("17")};
    struct buf out = {0};
    struct bench_job job;
    uint64_t number;
    (void)state;
    bench_forms(&bench, "host:1");
    bench_add_push(&bench, 7, &out);
    assert_true(bytes_eq(buf_bytes(&out), BYTES("put 0 3 60 24\r\n000abc-0000000000007uvwx\r\n")));
    answer.body = bytes_of(out.at + 15, 24);
    assert_true(bench_next_job(&bench, &answer, &job));
    assert_true(bytes_eq(job.id, BYTES("17")));
    assert_true(bench_number_of(&bench, job.name, &number));
    assert_int_equal(number, 7);
    assert_false(bench_next_job(&bench, &answer, &job));
    buf_fini(&out);
    bench_forms_fini(&bench);
}

static void due_times_within_a_span_are_spread_over_it_and_the_same_each_time(void **state)
{
    struct bench bench;
    struct buf out = {0};
    (void)state;
    set_up(&bench, BENCH_CANCEL, SPEAK_V1);
    bench_forms_fini(&bench);
    bench.options.within_us = INT64_C(30) * 86400 * 1000000;
    bench_forms(&bench, "host:1");
    uint64_t late = 0;
    for (uint64_t i = 0; i < 1000; i++) {
        int64_t after_us = bench_due_us(&bench, i) - bench.base_us;
        assert_true(after_us >= 0 && after_us < bench.options.within_us);
        late += after_us > bench.options.within_us / 2;
    }
    assert_in_range(late, 400, 600);
    char due[32];
    (void)snprintf(due, sizeof(due), "\"due\":%lld,", (long long)bench_due_us(&bench, 7) / 1000);
    bench_add_push(&bench, 7, &out);
    length_is_true(buf_bytes(&out));
    assert_true(holds(&out, due));
    buf_fini(&out);
    bench_forms_fini(&bench);
}

static void a_delay_within_a_span_goes_to_beanstalkd_in_whole_seconds(void **state)
{
    struct bench bench;
    struct buf out = {0};
    (void)state;
    set_up(&bench, BENCH_PUT, SPEAK_BEANSTALK);
    bench_forms_fini(&bench);
    bench.options.within_us = INT64_C(1000) * 1000000;
    bench_forms(&bench, "host:1");
    char put[64];
    (void)snprintf(put, sizeof(put), "put 0 %010lld 60 10\r\nabcdefghij\r\n",
                   (long long)(bench_due_us(&bench, 7) - bench.base_us) / 1000000);
    bench_add_push(&bench, 7, &out);
    assert_true(bytes_eq(buf_bytes(&out), bytes_str(put)));
    buf_fini(&out);
    bench_forms_fini(&bench);
}

static void random_victims_are_each_met_once(void **state)
{
    struct bench bench = {.options = {.scenario = BENCH_CANCEL, .there = 1000}};
    bool met[1000] = {false};
    uint64_t in_order = 0;
    (void)state;
    assert_int_equal(bench_victim(&(struct bench){.target = 1000}, 5), 5);
    for (uint64_t i = 0; i < 1000; i++) {
        uint64_t victim = bench_victim(&bench, i);
        assert_true(victim < 1000 && !met[victim]);
        met[victim] = true;
        in_order += victim == i;
    }
    assert_true(in_order < 50);
}

static void a_later_run_goes_on_behind_the_victims_of_the_first(void **state)
{
    struct bench bench = {.options = {.scenario = BENCH_CANCEL, .there = 1000}};
    uint64_t victim = bench_victim(&bench, 300);
    (void)state;
    bench.options.skip = 250;
    assert_int_equal(bench_victim(&bench, 50), victim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_push_has_its_number_and_due_time_in_place),
        cmocka_unit_test(the_other_dialect_is_spoken_too),
        cmocka_unit_test(each_job_of_an_answer_is_found_with_its_own_lease),
        cmocka_unit_test(a_finish_carries_the_lease),
        cmocka_unit_test(a_cancel_names_the_job_as_its_push_did),
        cmocka_unit_test(beanstalkd_is_spoken_to_in_its_own_words),
        cmocka_unit_test(a_timed_job_of_beanstalkd_is_known_by_its_body),
        cmocka_unit_test(due_times_within_a_span_are_spread_over_it_and_the_same_each_time),
        cmocka_unit_test(a_delay_within_a_span_goes_to_beanstalkd_in_whole_seconds),
        cmocka_unit_test(random_victims_are_each_met_once),
        cmocka_unit_test(a_later_run_goes_on_behind_the_victims_of_the_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
