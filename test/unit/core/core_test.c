/*
 * The core's promises, one by one, and what becomes of single jobs. model_test has the random
 * lives.
 */
#include <stdio.h>

#include "core/replay.h"
#include "core_recorder.h"

/* ---- the promises ---- */

static void p3_no_job_is_handed_out_before_its_due_time(void **state)
{
    (void)state;
    push_due(START + 10);
    tick_at(START + 9);
    assert_int_equal(reserve(), ERR_EMPTY);
    assert_int_equal(core_next_us(bed.core), START + 10);
    tick_at(START + 10);
    assert_int_equal(reserve(), OK);
}

static void p4_a_stale_lease_cannot_finish(void **state)
{
    (void)state;
    uint64_t seq = push_cmd((struct cmd_push){.due_us = START, .ttr_us = 5});
    assert_int_equal(reserve(), OK);
    uint64_t first = last_job()->lease;
    tick_at(START + 5); /* its ttr runs out, another takes it */
    assert_int_equal(do_job(CMD_FINISH, seq, first), ERR_STALE_LEASE);
    assert_int_equal(do_job(CMD_FINISH, seq, 0), ERR_WRONG_STATE);
    assert_int_equal(reserve(), OK);
    uint64_t second = last_job()->lease;
    assert_int_not_equal(first, second);
    assert_int_equal(do_job(CMD_FINISH, seq, first), ERR_STALE_LEASE);
    assert_int_equal(do_job(CMD_TOUCH, seq, first), ERR_STALE_LEASE);
    assert_int_equal(do_job(CMD_RELEASE, seq, first), ERR_STALE_LEASE);
    assert_int_equal(do_job(CMD_BURY, seq, first), ERR_STALE_LEASE);
    assert_int_equal(do_job(CMD_DELETE, seq, first), ERR_STALE_LEASE);
    assert_int_equal(do_job(CMD_FINISH, seq, second), OK);
}

static void p4_a_reserved_job_is_not_handed_out_again_before_its_ttr_ran_out(void **state)
{
    (void)state;
    push_cmd((struct cmd_push){.due_us = START, .ttr_us = 100});
    assert_int_equal(reserve(), OK);
    tick_at(START + 99);
    assert_int_equal(reserve(), ERR_EMPTY);
    tick_at(START + 100);
    assert_int_equal(reserve(), OK);
    assert_int_equal(last_job()->counts.timeouts, 1);
    assert_int_equal(last_job()->attempt, 2);
}

static void p5_a_finished_job_is_gone_for_good(void **state)
{
    (void)state;
    uint64_t seq = push_due(START);
    assert_int_equal(reserve(), OK);
    assert_int_equal(do_job(CMD_FINISH, seq, 0), OK);
    assert_int_equal(last_event()->kind, EVENT_GONE);
    assert_true(last_event()->promised);
    assert_int_equal(last_event()->record.bytes, 10);
    tick_at(INT64_MAX);
    assert_int_equal(reserve(), ERR_EMPTY);
    assert_int_equal(do_job(CMD_GET, seq, 0), ERR_NOT_FOUND);
}

static void p6_a_cancelled_wait_takes_no_job(void **state)
{
    (void)state;
    int first, second;
    uint64_t parked = park(&first, "t", SECOND);
    assert_true(park(&second, "t", SECOND) != 0);
    push_due(START);
    core_cancel(bed.core, parked);
    unsigned before = bed.replies;
    assert_false(core_match(bed.core, bed.now_us, 10));
    assert_int_equal(bed.replies, before + 1);
    assert_ptr_equal(bed.last[before].ctx, &second);
    core_cancel(bed.core, parked); /* an old handle does nothing, */
    uint64_t again = park(&first, "t", SECOND);
    core_cancel(bed.core, parked); /* not even to who has its place now */
    push_due(START);
    core_match(bed.core, bed.now_us, 10);
    assert_ptr_equal(bed.last[bed.replies - 1].ctx, &first);
    assert_int_not_equal(again, parked);
}

static struct core *copy_of_events(void)
{
    struct core *copy = core_new(&(struct core_options){
        .limits = {.jobs = 10, .topics = 10, .waiters = 10},
        .sink = &bed.sink,
        .callbacks = &bed.callbacks,
        .now_us = bed.now_us,
    });
    return copy;
}

static struct event job_event(uint64_t seq, const char *id, enum job_state state, int64_t due_us)
{
    return (struct event){.kind = EVENT_JOB,
                          .job = {.seq = seq, .state = state, .due_us = due_us},
                          .id = bytes_str(id),
                          .topic = BYTES("t"),
                          .ttr_us = 1,
                          .record = {.where = seq, .bytes = 1}};
}

static void p9_replay_bears_any_order_and_repetition(void **state)
{
    (void)state;
    struct core *copy = copy_of_events();
    struct event old = job_event(3, "x", JOB_DELAYED, START + 5);
    struct event new = job_event(9, "x", JOB_DELAYED, START + 7);
    struct event move = {.kind = EVENT_MOVE,
                         .job = {.seq = 9, .state = JOB_BURIED, .due_us = 1, .lease = 0}};
    struct event unknown = {.kind = EVENT_GONE, .job = {.seq = 77}};
    assert_int_equal(core_replay(copy, &move), OK); /* of a job not known yet: nothing */
    assert_int_equal(core_replay(copy, &new), OK);
    assert_int_equal(core_replay(copy, &old), OK); /* the newer holder of the id stays */
    assert_int_equal(core_replay(copy, &move), OK);
    assert_int_equal(core_replay(copy, &move), OK);
    assert_int_equal(core_replay(copy, &unknown), OK);
    core_replayed(copy, START);
    core_valid(copy);
    struct core_totals totals;
    core_totals(copy, &totals);
    assert_int_equal(totals.jobs[JOB_BURIED], 1);
    assert_int_equal(totals.jobs[JOB_DELAYED], 0);
    assert_int_equal(totals.seq_next, 78); /* numbers are never given again */
    core_free(copy);
}

static void p9_events_that_no_core_said_are_refused(void **state)
{
    (void)state;
    struct core *copy = copy_of_events();
    struct event event = job_event(1, "x", JOB_STATES, 0);
    assert_int_equal(core_replay(copy, &event), ERR_CORRUPT);
    event = job_event(0, "x", JOB_READY, 0);
    assert_int_equal(core_replay(copy, &event), ERR_CORRUPT);
    event = job_event(1, "x", JOB_READY, 0);
    event.topic.len = 0;
    assert_int_equal(core_replay(copy, &event), ERR_CORRUPT);
    event = job_event(1, "x", JOB_READY, 0);
    event.ttr_us = 0;
    assert_int_equal(core_replay(copy, &event), ERR_CORRUPT);
    core_replayed(copy, START);
    core_valid(copy);
    core_free(copy);
}

static void a_reserved_job_keeps_its_lease_over_a_restart(void **state)
{
    (void)state;
    struct core *copy = copy_of_events();
    struct event event = job_event(1, "x", JOB_RESERVED, 0);
    event.job.lease = 55;
    event.job.until_us = START + 9;
    assert_int_equal(core_replay(copy, &event), OK);
    core_replayed(copy, START);
    struct cmd cmd = {.kind = CMD_FINISH, .job = {.ref = {.seq = 1}, .lease = 55}};
    (void)core_apply(copy, START, &cmd, &bed);
    assert_int_equal(last()->err, OK);
    struct core_totals totals;
    core_totals(copy, &totals);
    assert_int_equal(totals.lease_next, 56);
    core_free(copy);
}

/* ---- limits (P8) ---- */

static void p8_each_limit_has_its_own_error_and_nothing_changes(void **state)
{
    (void)state;
    core_free(bed.core);
    setup_limits((struct core_limits){.jobs = 2, .topics = 2, .waiters = 1});
    struct cmd cmd = {.kind = CMD_PUSH,
                      .push = {.topic = BYTES("one"), .ttr_us = 1, .id = BYTES("id")}};
    assert_int_equal(apply(&cmd), OK);
    cmd.push.topic = BYTES("two");
    cmd.push.id = (struct bytes){0};
    assert_int_equal(apply(&cmd), OK);
    uint64_t two = last_job()->ref.seq;
    unsigned events = bed.event_count;
    cmd.push.topic = BYTES("three");
    assert_int_equal(apply(&cmd), ERR_JOBS_LIMIT);
    cmd.push.id = BYTES("id");
    cmd.push.if_exists = IF_EXISTS_REPLACE;
    assert_int_equal(apply(&cmd), ERR_TOPICS_LIMIT); /* replacing needs no room for a job */
    assert_int_equal(bed.event_count, events);
    assert_int_equal(do_job(CMD_DELETE, two, 0), OK);
    assert_int_equal(apply(&cmd), OK); /* topic two was idle and made room */
    int ctx;
    assert_true(park(&ctx, "three", 5) == 0); /* there is a job */
    assert_true(park(&ctx, "three", 5) != 0);
    assert_true(park(&ctx, "three", 5) == 0);
    assert_int_equal(last()->err, ERR_WAITERS_LIMIT);
}

static void p8_pushes_are_refused_above_the_memory_limit(void **state)
{
    (void)state;
    core_free(bed.core);
    setup_limits((struct core_limits){.jobs = 2, .topics = 2, .waiters = 1, .memory_bytes = 1});
    struct cmd cmd = {.kind = CMD_PUSH, .push = {.topic = BYTES("t"), .ttr_us = 1}};
    assert_int_equal(apply(&cmd), ERR_MEMORY_LIMIT);
}

/* ---- pushing ---- */

static void a_client_cannot_choose_a_name_that_the_server_may_make(void **state)
{
    (void)state;
    struct cmd cmd = {.kind = CMD_PUSH,
                      .push = {.topic = BYTES("t"), .ttr_us = 1, .id = BYTES("@12")}};
    assert_int_equal(apply(&cmd), ERR_INVALID);
    cmd.push.id = BYTES("@012");
    assert_int_equal(apply(&cmd), OK);
}

static void a_replaced_job_is_gone_and_its_lease_is_stale(void **state)
{
    (void)state;
    struct cmd_push push = {
        .id = BYTES("x"), .due_us = START, .if_exists = IF_EXISTS_REPLACE, .body = BYTES("1")};
    uint64_t old = push_cmd(push);
    assert_int_equal(reserve(), OK);
    uint64_t lease = last_job()->lease;
    size_t events = bed.event_count;
    uint64_t new = push_cmd(push);
    assert_true(last()->replaced);
    assert_int_not_equal(old, new);
    assert_int_equal(bed.event_count, events + 1); /* one: a crash must not leave neither */
    assert_int_equal(last_event()->kind, EVENT_JOB);
    struct cmd finish = {.kind = CMD_FINISH, .job = {.ref = {.id = BYTES("x")}, .lease = lease}};
    assert_int_equal(apply(&finish), ERR_STALE_LEASE);
}

static void jobs_come_by_priority_then_due_time_then_arrival(void **state)
{
    (void)state;
    uint64_t last_one = push_cmd((struct cmd_push){.priority = 2, .due_us = START - 9});
    uint64_t third = push_cmd((struct cmd_push){.priority = 1, .due_us = START - 1});
    uint64_t fourth = push_cmd((struct cmd_push){.priority = 1, .due_us = START - 1});
    uint64_t second = push_cmd((struct cmd_push){.priority = 1, .due_us = START - 2});
    uint64_t first = push_cmd((struct cmd_push){.priority = 0, .due_us = START});
    uint64_t order[] = {first, second, third, fourth, last_one};
    for (int i = 0; i < 5; i++) {
        assert_int_equal(reserve(), OK);
        assert_int_equal(last_job()->ref.seq, order[i]);
    }
}

static void topics_are_taken_in_listed_order_or_the_best_of_all(void **state)
{
    (void)state;
    push_cmd((struct cmd_push){.topic = BYTES("a"), .priority = 5});
    uint64_t b = push_cmd((struct cmd_push){.topic = BYTES("b"), .priority = 1});
    struct bytes topics[] = {BYTES("nothing"), BYTES("a"), BYTES("b")};
    struct cmd cmd = {.kind = CMD_RESERVE,
                      .reserve = {.topics = topics, .topic_count = 3, .max = 1}};
    assert_int_equal(apply(&cmd), OK);
    assert_int_equal(last_job()->ref.seq, b);
    push_cmd((struct cmd_push){.topic = BYTES("b"), .priority = 1});
    cmd.reserve.listed_order = true;
    assert_int_equal(apply(&cmd), OK);
    assert_true(bytes_eq(last_job()->topic, BYTES("a")));
}

/* ---- failing ---- */

static void failures_follow_the_schedule_and_then_the_job_is_buried(void **state)
{
    (void)state;
    static const int64_t waits_us[] = {10, 0};
    uint64_t seq = push_cmd(
        (struct cmd_push){.due_us = START, .ttr_us = 5, .retry_us = waits_us, .retry_count = 2});
    assert_int_equal(reserve(), OK);
    tick_at(START + 5); /* first failure: its ttr ran out */
    assert_int_equal(state_of(seq), JOB_DELAYED);
    assert_int_equal(last_job()->due_us, START + 15);
    assert_false(last_event()->promised);
    tick_at(START + 15);
    assert_int_equal(reserve(), OK);
    assert_int_equal(do_job(CMD_RELEASE, seq, 0), OK); /* second: again at once */
    assert_int_equal(state_of(seq), JOB_READY);
    assert_int_equal(reserve(), OK);
    assert_int_equal(do_job(CMD_RELEASE, seq, 0), OK); /* third: used up, but never dropped */
    assert_int_equal(state_of(seq), JOB_BURIED);
    assert_int_equal(do_job(CMD_KICK, seq, 0), OK);
    assert_int_equal(state_of(seq), JOB_READY);
    assert_int_equal(last_job()->failures, 0);
}

static void an_undelivered_job_goes_back_as_if_untried(void **state)
{
    (void)state;
    uint64_t seq = push_due(START - 50);
    assert_int_equal(reserve(), OK);
    struct cmd cmd = {.kind = CMD_RELEASE,
                      .job = {.ref = {.seq = seq}, .why = RELEASE_UNDELIVERED}};
    assert_int_equal(apply(&cmd), OK);
    assert_int_equal(state_of(seq), JOB_READY);
    assert_int_equal(last_job()->due_us, START - 50);
    assert_int_equal(last_job()->failures, 0);
    assert_int_equal(last_job()->attempt, 0);
}

static void a_job_put_off_undelivered_has_not_been_tried(void **state)
{
    (void)state;
    uint64_t seq = push_due(START - 50);
    assert_int_equal(reserve(), OK);
    struct cmd cmd = {.kind = CMD_RELEASE,
                      .job = {.ref = {.seq = seq},
                              .why = RELEASE_UNDELIVERED,
                              .has_delay = true,
                              .due_us = START + SECOND}};
    assert_int_equal(apply(&cmd), OK);
    assert_int_equal(state_of(seq), JOB_DELAYED);
    assert_int_equal(last_job()->due_us, START + SECOND);
    assert_int_equal(last_job()->failures, 0);
    assert_int_equal(last_job()->attempt, 0);
}

static void p3_a_job_reserved_early_and_undelivered_keeps_its_due_time(void **state)
{
    (void)state;
    uint64_t seq = push_due(START + 100 * SECOND);
    struct cmd back = {.kind = CMD_RELEASE,
                       .job = {.ref = {.seq = seq}, .why = RELEASE_UNDELIVERED}};
    assert_int_equal(do_job(CMD_RESERVE_JOB, seq, 0), OK);
    assert_int_equal(apply(&back), OK);
    assert_int_equal(state_of(seq), JOB_DELAYED);
    assert_int_equal(do_job(CMD_RESERVE_JOB, seq, 0), OK);
    back.job.has_delay = true; /* its body could not be read: not again before so long */
    back.job.due_us = START + SECOND;
    assert_int_equal(apply(&back), OK);
    assert_int_equal(state_of(seq), JOB_DELAYED);
    assert_int_equal(last_job()->due_us, START + 100 * SECOND);
    assert_int_equal(do_job(CMD_RESERVE_JOB, seq, 0), OK);
    assert_int_equal(do_job(CMD_RELEASE, seq, 0), OK); /* a failed attempt: again at once */
    assert_int_equal(state_of(seq), JOB_READY);
}

static void a_damaged_job_is_buried(void **state)
{
    (void)state;
    uint64_t seq = push_due(START);
    core_bury_damaged(bed.core, START, seq, 0); /* not reserved: nothing */
    assert_int_equal(state_of(seq), JOB_READY);
    assert_int_equal(reserve(), OK);
    core_bury_damaged(bed.core, START, seq, last_job()->lease + 1); /* not by this one: nothing */
    assert_int_equal(state_of(seq), JOB_RESERVED);
    core_bury_damaged(bed.core, START, seq, last_job()->lease);
    assert_int_equal(state_of(seq), JOB_BURIED);
}

static void a_job_pushed_as_buried_waits_for_a_kick(void **state)
{
    (void)state;
    uint64_t seq = push_cmd((struct cmd_push){.due_us = START, .buried = true});
    assert_int_equal(last_job()->state, JOB_BURIED);
    assert_int_equal(last_event()->job.state, JOB_BURIED);
    tick_at(START + SECOND);
    assert_int_equal(reserve(), ERR_EMPTY);
    assert_int_equal(do_job(CMD_KICK, seq, 0), OK);
    assert_int_equal(reserve(), OK);
    assert_int_equal(last_job()->attempt, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(p3_no_job_is_handed_out_before_its_due_time),
        TEST(p4_a_stale_lease_cannot_finish),
        TEST(p4_a_reserved_job_is_not_handed_out_again_before_its_ttr_ran_out),
        TEST(p5_a_finished_job_is_gone_for_good),
        TEST(p6_a_cancelled_wait_takes_no_job),
        TEST(p8_each_limit_has_its_own_error_and_nothing_changes),
        TEST(p8_pushes_are_refused_above_the_memory_limit),
        TEST(p9_replay_bears_any_order_and_repetition),
        TEST(p9_events_that_no_core_said_are_refused),
        TEST(a_reserved_job_keeps_its_lease_over_a_restart),
        TEST(a_client_cannot_choose_a_name_that_the_server_may_make),
        TEST(a_replaced_job_is_gone_and_its_lease_is_stale),
        TEST(jobs_come_by_priority_then_due_time_then_arrival),
        TEST(topics_are_taken_in_listed_order_or_the_best_of_all),
        TEST(failures_follow_the_schedule_and_then_the_job_is_buried),
        TEST(an_undelivered_job_goes_back_as_if_untried),
        TEST(a_job_put_off_undelivered_has_not_been_tried),
        TEST(p3_a_job_reserved_early_and_undelivered_keeps_its_due_time),
        TEST(a_damaged_job_is_buried),
        TEST(a_job_pushed_as_buried_waits_for_a_kick),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
