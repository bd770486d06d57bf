/*
 * What is due becomes ready, whatever else is due, and is in one place; what an older layout had of
 * it is converted: the scripts on a simulated Redis, one call after another.
 */
#include "redis_scripts_bed.h"
#include "test/unit/support/every.h"

/* ---- what is due ---- */

static struct script_answer promote(void)
{
    struct script_call call = next_call();
    script_encode_promote(&request, &spaces[0], &call, 200, false);
    return ask(0);
}

/* Far more than a call makes ready. */
static unsigned burst_jobs(void)
{
    return sim_every() == 1 ? 4000 : 1500;
}

/* Two topics have far more at one instant than a call makes ready; others have a job then, before,
 * between and behind these. */
static void p3_a_burst_of_one_topic_makes_no_other_late(void **state)
{
    const unsigned burst = burst_jobs();
    static const char *const others[] = {"a", "cc", "zzzz"};
    int64_t due_us = now_us + SECOND_US;
    (void)state;
    for (unsigned i = 0; i < burst; i++) {
        (void)push("b", due_us);
        (void)push("ddd", due_us);
    }
    for (unsigned i = 0; i < 3; i++)
        (void)push(others[i], due_us);
    now_us = due_us + 10;
    most_work = 0;
    struct script_answer answer = promote();
    assert_true(answer.more);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(reserve(0, others[i], 1, false).count, 1);
    assert_in_range(reserve(0, "b", 1000, false).count, 200 / 5, 200); /* their shares */
    assert_in_range(reserve(0, "ddd", 1000, false).count, 200 / 5, 200);
    unsigned calls = 1;
    for (; answer.more; calls++)
        answer = promote();
    assert_in_range(calls, 2 * burst / 200, 2 * burst / 200 + 1); /* it loses nothing by that */
    assert_in_range(most_work, 1, WORK_MAX);
    now_us++;
    assert_int_equal(reserve(0, "b", 1000, false).count, 1000);
}

static void p3_what_is_due_behind_a_burst_is_not_late(void **state)
{
    const unsigned burst = burst_jobs();
    int64_t due_us = now_us + SECOND_US;
    (void)state;
    for (unsigned i = 0; i < burst; i++)
        (void)push("burst", due_us + i);
    (void)push("later", due_us + burst + 1);
    now_us = due_us + 5000;
    most_work = 0;
    assert_true(promote().more);
    assert_int_equal(reserve(0, "later", 1, false).count, 1);
    assert_in_range(most_work, 1, WORK_MAX);
}

/* The other one's jobs fall due all the time while a burst that is spread over time is made ready.
 */
static void p3_no_job_waits_for_another_topics_burst(void **state)
{
    int64_t due_us = now_us + SECOND_US;
    unsigned calls = 0;
    (void)state;
    for (unsigned i = 0; i < 4400; i++) /* more than 20 calls take */
        (void)push("burst", due_us + i / 4);
    for (unsigned i = 0; i < 20; i++)
        (void)push("other", due_us + 100 * i);
    for (now_us = due_us; calls < 20; calls++, now_us += 100) {
        most_work = 0;
        assert_true(promote().more || calls == 0);
        assert_int_equal(reserve(0, "other", 10, false).count, 1);
        assert_in_range(most_work, 1, WORK_MAX);
    }
}

/* So many topics have a burst that not all are served by one call. */
static void p3_a_topic_waits_for_others_bursts_for_one_round_at_most(void **state)
{
    enum { BURSTS = 200 };
    const unsigned each = sim_every() == 1 ? 40 : 10; /* as long a round, fewer of them */
    int64_t due_us = now_us + SECOND_US;
    char name[16];
    unsigned calls = 1;
    (void)state;
    for (unsigned i = 0; i < BURSTS * each; i++) {
        (void)snprintf(name, sizeof(name), "burst-%u", i % BURSTS);
        (void)push(name, due_us);
    }
    (void)push("later", due_us + 5);
    now_us = due_us + 10;
    most_work = 0;
    while (promote().more && reserve(0, "later", 1, false).count == 0)
        calls++;
    assert_in_range(calls, 2, 1 + BURSTS / 25);
    assert_in_range(most_work, 1, WORK_MAX);
    for (calls = 0; promote().more; calls++)
        assert_in_range(calls, 0, BURSTS * each / 100);
    for (unsigned i = 0; i < BURSTS; i++) {
        (void)snprintf(name, sizeof(name), "burst-%u", i);
        assert_int_equal(reserve(0, name, 100, false).count, each);
    }
}

/* The first one was deleted: its topic is looked at for nothing, once, and then not before it is
 * due.
 */
static void a_deleted_jobs_due_time_does_no_harm(void **state)
{
    int64_t due_us = now_us + SECOND_US;
    (void)state;
    uint64_t seq = push("t", due_us).seq;
    (void)push("t", due_us + 7);
    struct script_call call = next_call();
    struct cmd cmd = {.kind = CMD_DELETE, .job.ref.seq = seq};
    script_encode(&request, &spaces[0], &call, &cmd);
    assert_int_equal(ask(0).err, OK);
    now_us = due_us;
    struct script_answer answer = promote();
    assert_int_equal(answer.count, 0);
    assert_int_equal(answer.next_us, due_us + 7);
    now_us += 7;
    answer = promote();
    assert_int_equal(answer.count, 1);
    assert_int_equal(answer.next_us, INT64_MAX);
    assert_int_equal(REDIS("ZCARD", "{laterd:0}:d"), 1); /* the filler */
}

/* What one topic has is made ready in the order in which it is due. */
static void a_topics_jobs_become_ready_in_their_order(void **state)
{
    int64_t due_us = now_us + SECOND_US;
    (void)state;
    for (int64_t i = 0; i < 600; i++) {
        (void)push("t", due_us + i / 3);
        (void)push("u", due_us + i);
    }
    now_us = due_us + 1000;
    struct script_answer answer = {.more = true};
    int64_t last_us = 0;
    while (answer.more) {
        answer = promote();
        (void)reserve(0, "t", 1000, false);
        for (uint32_t i = 1; i + 1 < part_count; i++) {
            int64_t at_us = (int64_t)get_u64(parts[i].at + 8 + JOB_HEAD_DUE);
            assert_true(at_us >= last_us);
            last_us = at_us;
        }
    }
    assert_int_equal(last_us, due_us + 199);
}

static void many_leases_end_in_small_steps(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 300; i++)
        (void)push("t", 1);
    assert_int_equal(reserve(0, "t", 300, false).count, 300);
    now_us += 2 * SECOND_US;
    most_work = 0;
    unsigned calls = 1;
    while (promote().more)
        calls++;
    assert_int_equal(calls, 30);
    assert_in_range(most_work, 1, WORK_MAX / 4); /* its commands are all changes */
    assert_int_equal(reserve(0, "t", 300, false).count, 300);
}

/* ---- what layout 2 left ---- */

/* The delayed jobs where layout 2 had them: their places are members of `d`, by their due times. */
static void give_layout_2(void)
{
    (void)REDIS(
        "EVAL",
        "local all = redis.call('ZRANGEBYLEX', KEYS[2], '[w', '(x')\n"
        "redis.call('ZREMRANGEBYLEX', KEYS[2], '[w', '(x')\n"
        "for _, at in ipairs(redis.call('ZRANGE', KEYS[1], 0, -2)) do\n"
        "    redis.call('ZREM', KEYS[1], at)\n"
        "end\n"
        "for _, at in ipairs(all) do\n"
        "    local len = string.byte(at, 2)\n"
        "    local due, priority, name = string.match(at, '^(........)(....)(........)', 3 + len)\n"
        "    redis.call('ZADD', KEYS[1], struct.unpack('>I8', due),\n"
        "        string.sub(at, 2, 2 + len) .. priority .. due .. name)\n"
        "end\n"
        "redis.call('HSET', KEYS[3], 'v', '2', 's', redis.call('HGET', KEYS[3], 'p'))\n"
        "redis.call('HDEL', KEYS[3], 'p', 'l')\n",
        "3", "{laterd:0}:d", "{laterd:0}:o", "{laterd:0}:h");
}

/* Topics begin with a zero, the filler is the last. */
static uint64_t old_places(void)
{
    return REDIS("EVAL",
                 "local all, count = redis.call('ZRANGE', KEYS[1], 0, -2), 0\n"
                 "for i = 1, #all do count = count + (string.byte(all[i]) > 0 and 1 or 0) end\n"
                 "return count\n",
                 "1", "{laterd:0}:d");
}

/* Many of one instant, and topics whose first jobs are due then, too. */
static void p8_what_layout_2_left_is_moved_in_small_steps(void **state)
{
    int64_t due_us = now_us + 1000 * SECOND_US;
    char name[16];
    (void)state;
    for (unsigned i = 0; i < 1000; i++)
        (void)push("t", i < 500 ? due_us : due_us + i);
    uint64_t seq = push("t", due_us + 2000).seq;
    for (unsigned i = 0; i < 400; i++) {
        (void)snprintf(name, sizeof(name), "old-%u", i);
        (void)push(name, due_us);
    }
    give_layout_2();
    assert_int_equal(old_places(), 1401);
    assert_int_equal(open_as(0, 256).err, OK);
    for (unsigned i = 0; i < 400; i++) {
        (void)snprintf(name, sizeof(name), "new-%u", i);
        (void)push(name, due_us);
    }
    struct script_call call = next_call();
    struct cmd cmd = {.kind = CMD_DELETE, .job.ref.seq = seq};
    script_encode(&request, &spaces[0], &call, &cmd);
    assert_int_equal(ask(0).err, OK);
    most_work = 0;
    unsigned calls = 0;
    for (int64_t next_us = now_us; next_us <= now_us; calls++) {
        struct script_answer answer = promote();
        assert_false(answer.more); /* others' scripts run between */
        next_us = answer.next_us - 2000;
    }
    assert_in_range(calls, 1400 / 60, 1400 / 60 + 10);
    assert_in_range(most_work, 1, WORK_MAX);
    assert_int_equal(old_places(), 0);
    assert_int_equal(REDIS("HEXISTS", "{laterd:0}:h", "k"), 0);
    now_us = due_us + 1000;
    while (promote().more)
        ;
    assert_int_equal(reserve(0, "t", 1000, false).count, 1000);
    assert_int_equal(reserve(0, "old-399", 9, false).count, 1);
    assert_int_equal(reserve(0, "new-0", 9, false).count, 1);
}

/* They fall due before they are moved. */
static void p8_what_layout_2_left_becomes_ready_when_it_is_due(void **state)
{
    int64_t due_us = now_us + SECOND_US;
    (void)state;
    for (unsigned i = 0; i < 500; i++)
        (void)push("t", due_us + i);
    for (unsigned i = 0; i < 2000; i++)
        (void)push("later", due_us + 10 * SECOND_US);
    give_layout_2();
    assert_int_equal(open_as(0, 256).err, OK);
    now_us = due_us;
    (void)promote();
    (void)promote();
    assert_int_equal(reserve(0, "t", 9, false).count, 1);
    now_us += 500;
    unsigned calls = 1;
    while (promote().more)
        calls++;
    assert_in_range(calls, 500 / 100, 500 / 50 + 2);
    assert_int_equal(reserve(0, "t", 1000, false).count, 499);
}

/* ---- a partition without its hash ---- */

/* The request is refused, as the partition must be opened again; nothing was done. */
static bool is_closed(const struct cmd *cmd)
{
    struct buf *out = sim_redis_output(conn);
    struct script_call call = next_call();
    script_encode(&request, &spaces[0], &call, cmd);
    out->len = 0;
    sim_redis_input(conn, buf_bytes(&request));
    request.len = 0;
    return bytes_starts(buf_bytes(out), BYTES("-LATERDCLOSED"));
}

static uint64_t delayed_places(void)
{
    return REDIS("ZLEXCOUNT", "{laterd:0}:o", "[w", "(x");
}

/* Else a change would stop when it has put the job into its new place, and before the job says so:
   it would be put back into the old one, too, and be handed out twice. */
static void p4_a_job_that_is_changed_when_the_hash_is_lost_has_one_place(void **state)
{
    struct cmd later = {.kind = CMD_RESCHEDULE,
                        .job = {.has_due = true, .due_us = now_us + 120 * INT64_C(1000000)}};
    struct cmd release = {.kind = CMD_RELEASE, .job = {.has_delay = true}};
    (void)state;
    later.job.ref.seq = push("t", now_us + 60 * INT64_C(1000000)).seq;
    release.job.ref.seq = push("t", 1).seq;
    release.job.due_us = now_us + 120 * INT64_C(1000000);
    assert_int_equal(reserve(0, "t", 1, false).count, 1);
    (void)REDIS("DEL", "{laterd:0}:h");
    assert_true(is_closed(&later));
    assert_true(is_closed(&release));
    assert_int_equal(open_as(0, 256).err, OK);
    rebuild_all();
    assert_int_equal(delayed_places(), 1);
    struct script_call call = next_call();
    script_encode(&request, &spaces[0], &call, &later);
    assert_int_equal(ask(0).err, OK);
    call = next_call();
    script_encode(&request, &spaces[0], &call, &release);
    assert_int_equal(ask(0).err, OK);
    assert_int_equal(delayed_places(), 2);
    assert_int_equal(REDIS("ZCARD", "{laterd:0}:l"), 1); /* what stays there */
}

int main(void)
{
#define STARTED(test) cmocka_unit_test_setup_teardown(test, start, stop)
    const struct CMUnitTest tests[] = {
        STARTED(p3_a_burst_of_one_topic_makes_no_other_late),
        STARTED(p3_what_is_due_behind_a_burst_is_not_late),
        STARTED(p3_no_job_waits_for_another_topics_burst),
        STARTED(p3_a_topic_waits_for_others_bursts_for_one_round_at_most),
        STARTED(a_deleted_jobs_due_time_does_no_harm),
        STARTED(a_topics_jobs_become_ready_in_their_order),
        STARTED(p8_what_layout_2_left_is_moved_in_small_steps),
        STARTED(p8_what_layout_2_left_becomes_ready_when_it_is_due),
        STARTED(many_leases_end_in_small_steps),
        STARTED(p4_a_job_that_is_changed_when_the_hash_is_lost_has_one_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
