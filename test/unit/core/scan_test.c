/*
 * Searches through all jobs, which take many turns: what happens to the jobs that one has found
 * before it changes them, how many may be under way, and what they leave behind.
 */
#include "core/far.h"
#include "core_recorder.h"

enum { JOBS = 25000, OTHERS = 10000, LATER = 3600 };

static struct budget budget;

/* So many delayed jobs, one a millisecond later than the other, and nothing left of the budget. */
static void push_many(void)
{
    for (int i = 0; i < JOBS; i++)
        push_due(START + LATER * (int64_t)SECOND + i * 1000);
    budget = (struct budget){.left_ns = 0};
    core_use_budget(bed.core, &budget);
}

/* 0: it is answered. */
static uint64_t submit(enum cmd_kind kind, struct cmd_topic topic)
{
    topic.topic = BYTES("t");
    return core_apply(bed.core, bed.now_us, &(struct cmd){.kind = kind, .topic = topic}, &bed);
}

static uint64_t counted(enum job_state state)
{
    struct core_totals totals;
    core_totals(bed.core, &totals);
    return totals.jobs[state];
}

/* Slices, until so many jobs are ready. */
static void step_until_ready(uint64_t least)
{
    for (int i = 0; counted(JOB_READY) < least; i++) {
        assert_true(i < 1000);
        (void)core_tick(bed.core, bed.now_us, 1000);
    }
}

static void step_until_answered(unsigned replies)
{
    for (int i = 0; bed.replies == replies; i++) {
        assert_true(i < 10000);
        (void)core_tick(bed.core, bed.now_us, 1000);
    }
}

/* One of the first thousand that has not been kicked yet; each call gives another. */
static uint64_t still_delayed(uint64_t *after)
{
    do
        (*after)++;
    while (state_of(*after) != JOB_DELAYED);
    assert_true(*after <= 1000);
    return *after;
}

static void what_has_changed_since_it_was_found_is_not_kicked(void **state)
{
    (void)state;
    uint64_t seq = 0;
    push_many();
    assert_true(submit(CMD_KICK_TOPIC, (struct cmd_topic){.state = JOB_DELAYED, .max = 1000}) != 0);
    step_until_ready(250);
    assert_true(counted(JOB_READY) < 900);
    uint64_t reserved = still_delayed(&seq), moved = still_delayed(&seq),
             gone = still_delayed(&seq);
    assert_int_equal(do_job(CMD_RESERVE_JOB, reserved, 0), OK);
    assert_int_equal(apply(&(struct cmd){.kind = CMD_RESCHEDULE,
                                         .job = {.ref.seq = moved,
                                                 .has_due = true,
                                                 .due_us = START + 2 * LATER * (int64_t)SECOND}}),
                     OK);
    assert_int_equal(do_job(CMD_DELETE, gone, 0), OK);
    /* One of another topic gets its memory, and even its due time. */
    for (int i = 0; i < OTHERS; i++)
        push_cmd((struct cmd_push){.topic = BYTES("u"),
                                   .due_us = START + LATER * (int64_t)SECOND +
                                             (int64_t)(gone - 1) * 1000});
    unsigned replies = bed.replies;
    step_until_answered(replies);
    assert_int_equal(last()->count, 1000); /* others in their place */
    assert_int_equal(state_of(reserved), JOB_RESERVED);
    assert_int_equal(state_of(moved), JOB_DELAYED);
    assert_int_equal(counted(JOB_READY), 1000);
    assert_int_equal(do_topic(CMD_TOPIC, (struct cmd_topic){.topic = BYTES("u"), .brief = true}),
                     OK);
    assert_int_equal(bed.last[(bed.replies - 1) % REPLIES_MAX].topics[0].jobs[JOB_DELAYED], OTHERS);
}

/* It is not the number that is asked for that ends it, and not what is pushed meanwhile. */
static void a_kick_is_of_those_that_were_there_when_it_came(void **state)
{
    (void)state;
    push_many();
    assert_true(
        submit(CMD_KICK_TOPIC, (struct cmd_topic){.state = JOB_DELAYED, .max = UINT32_MAX}) != 0);
    step_until_ready(250);
    for (int i = 0; i < 100; i++)
        push_due(START + LATER * (int64_t)SECOND);
    unsigned replies = bed.replies;
    step_until_answered(replies);
    assert_int_equal(last()->count, JOBS);
    assert_int_equal(counted(JOB_DELAYED), 100);
}

static void a_kick_of_all_ends_though_some_have_gone(void **state)
{
    (void)state;
    uint64_t seq = 0;
    push_many();
    assert_true(submit(CMD_KICK_TOPIC, (struct cmd_topic){.state = JOB_DELAYED, .max = JOBS}) != 0);
    step_until_ready(250);
    while (state_of(++seq) != JOB_DELAYED)
        continue;
    assert_int_equal(do_job(CMD_DELETE, seq, 0), OK);
    unsigned replies = bed.replies;
    step_until_answered(replies);
    assert_int_equal(last()->count, JOBS - 1);
    assert_int_equal(counted(JOB_DELAYED), 0);
}

/* The search goes through the places of all jobs: the first one may end while it is at others. */
static void p5_a_job_that_ends_while_it_is_looked_for_is_not_shown(void **state)
{
    (void)state;
    push_many();
    assert_true(submit(CMD_PEEK, (struct cmd_topic){.state = JOB_DELAYED}) != 0);
    (void)core_tick(bed.core, bed.now_us, 1000);
    assert_int_equal(do_job(CMD_DELETE, 1, 0), OK);
    unsigned replies = bed.replies;
    step_until_answered(replies);
    assert_int_equal(last()->kind, CMD_PEEK);
    assert_int_equal(last()->err, ERR_NOT_FOUND);
}

static int setup_two(void **state)
{
    (void)state;
    return setup_limits((struct core_limits){.jobs = 1000000, .topics = 100, .waiters = 2});
}

/* Consumers that wait and searches are limited together. */
static void p8_what_finds_no_place_to_wait_is_answered(void **state)
{
    (void)state;
    int ctx;
    push_many();
    assert_true(park(&ctx, "u", INT64_MAX) != 0);
    assert_true(submit(CMD_KICK_TOPIC, (struct cmd_topic){.state = JOB_DELAYED, .max = 1}) != 0);
    assert_int_equal(submit(CMD_KICK_TOPIC, (struct cmd_topic){.state = JOB_DELAYED, .max = 1}), 0);
    assert_int_equal(last()->err, ERR_WAITERS_LIMIT);
    /* Some are gone already: that is said, and that there are more. */
    assert_int_equal(submit(CMD_CLEAR_TOPIC, (struct cmd_topic){.state = JOB_DELAYED, .max = JOBS}),
                     0);
    assert_int_equal(last()->err, OK);
    assert_true(last()->count > 0 && last()->more);
    assert_int_equal(counted(JOB_DELAYED) + last()->count, JOBS);
}

/* The handle of one that has ended is not that of the next one in its place. */
static void an_old_handle_cancels_nothing(void **state)
{
    (void)state;
    push_many();
    uint64_t first = submit(CMD_KICK_TOPIC, (struct cmd_topic){.state = JOB_DELAYED, .max = 1});
    assert_true(first != 0);
    unsigned replies = bed.replies;
    step_until_answered(replies);
    uint64_t second = submit(CMD_KICK_TOPIC, (struct cmd_topic){.state = JOB_DELAYED, .max = 1});
    assert_true(second != 0 && second != first);
    core_cancel(bed.core, first);
    replies = bed.replies;
    step_until_answered(replies);
    assert_int_equal(last()->count, 1);
    assert_int_equal(counted(JOB_READY), 2);
}

static bool any_topic(const void *ctx, struct bytes topic)
{
    (void)ctx;
    (void)topic;
    return true;
}

static bool no_topic(const void *ctx, struct bytes topic)
{
    (void)ctx;
    (void)topic;
    return false;
}

/* While one is under way no far job may leave memory behind it. */
static void searches_are_told_of_as_long_as_they_are_under_way(void **state)
{
    enum { MANY = 70, ASKED = 64 };
    uint64_t parked[MANY];
    (void)state;
    push_many();
    assert_false(core_searches(bed.core, any_topic, NULL));
    for (unsigned i = 0; i < MANY; i++) {
        assert_int_equal(core_searches_many(bed.core), i >= ASKED);
        parked[i] = submit(CMD_KICK_TOPIC, (struct cmd_topic){.state = JOB_DELAYED, .max = 1});
        assert_true(parked[i] != 0);
        assert_true(core_searches(bed.core, any_topic, NULL));
        assert_int_equal(core_searches(bed.core, no_topic, NULL), i + 1 > ASKED); /* not asked */
    }
    for (unsigned i = 0; i < MANY; i++)
        core_cancel(bed.core, parked[i]);
    assert_false(core_searches(bed.core, any_topic, NULL));
    assert_false(core_searches_many(bed.core));
}

static void cleared_jobs_count_as_deleted(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++)
        push_due(i < 3 ? START : START + SECOND);
    assert_int_equal(do_topic(CMD_CLEAR_TOPIC, (struct cmd_topic){.state = JOB_READY, .max = 2}),
                     OK);
    assert_int_equal(last()->count, 2);
    assert_true(last()->more);
    assert_int_equal(do_topic(CMD_CLEAR_TOPIC, (struct cmd_topic){.state = JOB_DELAYED, .max = 9}),
                     OK);
    assert_int_equal(last()->count, 2);
    assert_false(last()->more);
    assert_int_equal(do_topic(CMD_TOPIC, (struct cmd_topic){.brief = true}), OK);
    assert_int_equal(bed.last[(bed.replies - 1) % REPLIES_MAX].topics[0].deleted, 4);
    struct core_totals totals;
    core_totals(bed.core, &totals);
    assert_int_equal(totals.deleted, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_has_changed_since_it_was_found_is_not_kicked),
        TEST(a_kick_is_of_those_that_were_there_when_it_came),
        TEST(a_kick_of_all_ends_though_some_have_gone),
        TEST(p5_a_job_that_ends_while_it_is_looked_for_is_not_shown),
        cmocka_unit_test_setup_teardown(p8_what_finds_no_place_to_wait_is_answered, setup_two,
                                        teardown),
        TEST(an_old_handle_cancels_nothing),
        TEST(searches_are_told_of_as_long_as_they_are_under_way),
        TEST(cleared_jobs_count_as_deleted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
