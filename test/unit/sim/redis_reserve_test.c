/*
 * Reserve has a short way for the common case and a long one for all others (scripts/reserve.lua,
 * reserve_slow.lua): on a simulated Redis, whatever is there, both give the same answer and leave
 * the same behind. And what comes late, or finds nothing, costs no more than it must.
 */
#include "redis_scripts_bed.h"
#include "sim/random.h"
#include "test/unit/support/every.h"

enum {
    LIVES = 100,
    STEPS_MAX = 24,
    LONG_BODY = 1500, /* not in the job's record */
    ONE_WAY_MAX = 80, /* words and parts of one request that goes the short way */
};

static struct sim_random dice;
static char body[LONG_BODY];

static uint32_t roll(uint32_t sides)
{
    return (uint32_t)sim_random_below(&dice, sides);
}

/* ---- what is there ---- */

static void push_any(void)
{
    static const int64_t retry_us[] = {0, SECOND_US};
    char id[16];
    struct script_call call = next_call();
    int id_len = snprintf(id, sizeof(id), "id-%llu", (unsigned long long)number);
    struct cmd cmd = {
        .kind = CMD_PUSH,
        .push = {.topic = BYTES("t"),
                 .id = bytes_of(id, roll(2) ? (size_t)id_len : 0),
                 .due_us = now_us - roll(3) * 1000,
                 .ttr_us = roll(8) ? 60 * SECOND_US : 1500 * 1000,
                 .priority = roll(4) ? 7 : roll(100000),
                 .order = roll(3) ? ORDER_DUE : ORDER_ARRIVAL,
                 .body = bytes_of(body, roll(20) ? roll(100) : LONG_BODY),
                 .content_type = roll(5) ? BYTES("") : BYTES("text/plain"),
                 .properties = roll(20) ? BYTES("") : BYTES("{}"),
                 .retry_us = retry_us,
                 .retry_count = (uint8_t)roll(3)},
    };
    script_encode(&request, &spaces[0], &call, &cmd);
    assert_int_equal(ask(0).err, OK);
}

/* Some that have heads, and notes. */
static void release_some(uint32_t count)
{
    uint64_t leases[8], seqs[8];
    struct script_answer answer = reserve(1, "t", count, false);
    struct script_parts said = {.at = parts, .count = part_count};
    struct arena arena = {0};
    assert_int_equal(script_read(&spaces[1], CMD_RESERVE, &said, &arena, &answer), OK);
    for (uint32_t i = 0; i < answer.reply.count; i++) {
        leases[i] = answer.reply.jobs[i].lease;
        seqs[i] = answer.reply.jobs[i].ref.seq;
    }
    for (uint32_t i = 0; i < answer.reply.count; i++) {
        struct script_call call = next_call();
        struct cmd cmd = {.kind = CMD_RELEASE, .job = {.ref.seq = seqs[i], .lease = leases[i]}};
        if (roll(2)) {
            cmd.job.note = BYTES("it failed");
            cmd.job.note_code = 500;
        }
        script_encode(&request, &spaces[1], &call, &cmd);
        (void)ask(0);
    }
    arena_fini(&arena);
}

static void any_queue(void)
{
    for (uint32_t steps = roll(STEPS_MAX); steps > 0; steps--) {
        switch (roll(8)) {
        case 0: now_us += 70 * 1000; break; /* another bucket */
        case 1: release_some(1 + roll(3)); break;
        case 2: (void)reserve_as(roll(DAEMONS), "t", 1 + roll(2), roll(2), roll(2)); break;
        case 3:
            (void)reserve_marking(roll(DAEMONS), "t", roll(2), false,
                                  roll(3) ? SCRIPT_MARK_WAIT : SCRIPT_MARK_HINT);
            break;
        default: push_any();
        }
    }
    now_us += roll(3) ? 10 : 2 * SECOND_US;
}

/* ---- both ways ---- */

struct outcome {
    uint64_t digest; /* of all that Redis has */
    struct buf said; /* the answer, but for the last part's second half */
    unsigned notices;
};

/* The life of that seed, and a reserve behind it. `long_way`: the topic is named twice. */
static struct outcome live(void **state, uint64_t seed, bool long_way)
{
    const struct bytes topics[] = {BYTES("t"), BYTES("t")};
    struct outcome outcome = {0};
    (void)start(state);
    dice = (struct sim_random){seed};
    any_queue();
    (void)notices("r0 t");
    struct script_call call = next_call();
    call.least_us = call.queue_us = now_us - 10000;
    call.most_us = roll(4) ? now_us + 10000 : now_us - 5000;
    struct cmd_reserve cmd = {.topics = topics,
                              .topic_count = long_way ? 2 : 1,
                              .max = roll(4) ? 1 + (roll(2) ? roll(32) : 0) : 0,
                              .bound = roll(2),
                              .ttr_us = roll(4) ? 0 : 5 * SECOND_US};
    uint32_t max = cmd.max;
    cmd.max += roll(2); /* more are wanted: what is left is counted */
    script_encode_reserve(
        &request, &spaces[0], &call, &cmd,
        &(struct script_share){.max = max, .mark = (enum script_mark)roll(max ? 3 : 4)});
    (void)ask(0);
    for (uint32_t i = 0; i + 1 < part_count; i++)
        script_add(&outcome.said, parts[i]);
    script_add(&outcome.said, bytes_of(parts[part_count - 1].at, 13));
    outcome.notices = notices("w0 ");
    outcome.digest = sim_redis_digest(redis);
    (void)stop(state);
    return outcome;
}

static void both_ways_to_reserve_answer_and_leave_the_same(void **state)
{
    for (uint64_t seed = 1; seed <= sim_lives(LIVES); seed++) {
        struct outcome a = live(state, seed, false), b = live(state, seed, true);
        if (a.said.len != b.said.len || memcmp(a.said.at, b.said.at, a.said.len) != 0)
            fail_msg("seed %llu: another answer", (unsigned long long)seed);
        if (a.digest != b.digest || a.notices != b.notices)
            fail_msg("seed %llu: something else is left", (unsigned long long)seed);
        buf_fini(&a.said);
        buf_fini(&b.said);
    }
}

/* ---- what it costs ---- */

/* A push, a reserve and a finish of that many jobs, each that long under way; the most work. */
static uint64_t work_of_a_cycle(uint32_t late_us)
{
    struct bytes topic = BYTES("t");
    struct cmd_reserve reserve = {.topics = &topic, .topic_count = 1, .max = 1};
    struct cmd push = {.kind = CMD_PUSH,
                       .push = {.topic = topic, .id = BYTES("x"), .ttr_us = 60 * SECOND_US}};
    struct cmd finish = {.kind = CMD_FINISH, .job.ref.id = BYTES("x")};
    most_work = 0;
    for (unsigned i = 0; i < 3; i++) {
        struct script_call call = next_call();
        call.least_us = call.queue_us = now_us - 10000;
        call.most_us = now_us + 10000;
        now_us += late_us;
        if (i == 1)
            script_encode_reserve(&request, &spaces[0], &call, &reserve,
                                  &(struct script_share){.max = 1, .mark = SCRIPT_NO_MARK});
        else
            script_encode(&request, &spaces[0], &call, i ? &finish : &push);
        assert_int_equal(ask(0).err, OK);
    }
    return most_work;
}

/* Else a Redis that is behind would get even slower, and stay behind. */
static void what_comes_late_costs_hardly_more_than_what_does_not(void **state)
{
    (void)state;
    (void)push("t", now_us); /* the topic is known */
    (void)reserve(0, "t", 1, false);
    uint64_t in_time = work_of_a_cycle(0);
    assert_in_range(in_time, 1, ONE_WAY_MAX);
    assert_in_range(work_of_a_cycle(50 * 1000), in_time, in_time + 5);
}

/* ---- order ---- */

struct pushed {
    uint64_t seq;
    int64_t created_us; /* as the answer says */
};

/* The last answer's job. */
static struct pushed job_told(enum cmd_kind kind, struct bytes asked)
{
    struct script_parts said = {.at = parts, .count = part_count, .request = asked};
    struct script_answer answer;
    struct arena arena = {0};
    assert_int_equal(script_read(&spaces[0], kind, &said, &arena, &answer), OK);
    assert_int_equal(answer.reply.count, 1);
    const struct job_view *job = &answer.reply.jobs[0];
    struct pushed told = {.seq = job->ref.seq, .created_us = job->created_us};
    arena_fini(&arena);
    return told;
}

/* 0: it is made now. */
static struct pushed push_made(const char *topic, enum ready_order order, int64_t made_us)
{
    struct script_call call = next_call();
    struct cmd cmd = {
        .kind = CMD_PUSH,
        .push = {.topic = bytes_str(topic),
                 .ttr_us = 60 * SECOND_US,
                 .order = order,
                 .created_us = made_us},
    };
    script_encode(&request, &spaces[0], &call, &cmd);
    size_t len = request.len;
    (void)ask(0);
    return job_told(CMD_PUSH, bytes_of(request.at, len)); /* it is there until the next one */
}

static struct pushed push_by_arrival(const char *topic)
{
    return push_made(topic, ORDER_ARRIVAL, 0);
}

/* … and each was made when its push was told that it was. */
static void take_in_order(const char *topic, const struct pushed *pushed, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(reserve(0, topic, 1, false).count, 1);
        struct pushed taken = job_told(CMD_RESERVE, (struct bytes){0});
        assert_int_equal(taken.seq, pushed[i].seq);
        assert_int_equal(taken.created_us, pushed[i].created_us);
    }
}

/* It is made when the queue that it comes from says, not when it came. */
static void the_answer_to_a_push_of_a_moved_job_says_when_it_was_made(void **state)
{
    static const enum ready_order orders[] = {ORDER_DUE, ORDER_ARRIVAL};
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        int64_t made_us = now_us - (i + 1) * INT64_C(3600) * SECOND_US;
        struct pushed pushed = push_made("t", orders[i], made_us);
        assert_int_equal(pushed.created_us, made_us);
        take_in_order("t", &pushed, 1);
    }
}

/* Redis' clock may be set back by a little; or a call comes late, and is held at a bound that those
 * behind it are not held at. */
static void p5_order_of_arrival_is_kept_though_the_clock_goes_back_by_a_little(void **state)
{
    static const int64_t steps_us[] = {0, 0, 90000, -20000, 1, -29000, 0, 500, 60000};
    enum { COUNT = sizeof(steps_us) / sizeof(*steps_us) };
    static const char *const topics[] = {"one", "two"};
    struct pushed pushed[COUNT];
    (void)state;
    for (unsigned t = 0; t < 2; t++) {
        for (unsigned i = 0; i < COUNT; i++) {
            now_us += steps_us[i];
            pushed[i] = push_by_arrival(topics[t]);
        }
        take_in_order(topics[t], pushed, COUNT);
    }
}

/* As under load, where one number takes as many microseconds as there are partitions. */
static void p5_order_of_arrival_is_kept_while_numbers_run_ahead_of_the_clock(void **state)
{
    static const int64_t ahead_us[] = {0, 49000, 51000, 60000, 3600 * INT64_C(1000000)};
    enum { COUNT = sizeof(ahead_us) / sizeof(*ahead_us) };
    struct pushed pushed[COUNT];
    (void)state;
    for (unsigned i = 0; i < COUNT; i++) {
        give_last(now_us + ahead_us[i]);
        pushed[i] = push_by_arrival("t");
        now_us += 10;
    }
    take_in_order("t", pushed, COUNT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            p5_order_of_arrival_is_kept_though_the_clock_goes_back_by_a_little, start, stop),
        cmocka_unit_test_setup_teardown(
            p5_order_of_arrival_is_kept_while_numbers_run_ahead_of_the_clock, start, stop),
        cmocka_unit_test_setup_teardown(the_answer_to_a_push_of_a_moved_job_says_when_it_was_made,
                                        start, stop),
        cmocka_unit_test(both_ways_to_reserve_answer_and_leave_the_same),
        cmocka_unit_test_setup_teardown(what_comes_late_costs_hardly_more_than_what_does_not, start,
                                        stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
