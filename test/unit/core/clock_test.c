/*
 * The core after a restart with a clock that was set back: what was due stays due, what was not
 * does not become so, and spans keep their length.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/mem.h"
#include "core/core.h"
#include "core/replay.h"

#define SECOND INT64_C(1000000)
#define HOUR   (3600 * SECOND)
#define START  (1000000 * SECOND) /* what the clock showed before the restart */

enum { EVENTS_MAX = 16 };

struct bed {
    struct event_sink sink;
    struct core_callbacks callbacks;
    struct core *core;
    int64_t now_us;
    struct reply reply;
    struct job_view job;
    struct event events[EVENTS_MAX]; /* without their bytes */
    unsigned event_count;
};

static struct bed bed;

static struct stored keep_event(struct event_sink *sink, const struct event *event)
{
    (void)sink;
    assert_true(bed.event_count < EVENTS_MAX);
    bed.events[bed.event_count++] = *event;
    return (struct stored){.where = 1000 + bed.event_count, .bytes = 10};
}

static void receive(struct core_callbacks *callbacks, void *ctx, const struct reply *reply)
{
    (void)callbacks;
    (void)ctx;
    bed.reply = *reply;
    if (reply->jobs && reply->count)
        bed.job = reply->jobs[0];
}

/* A core that begins at this time; what is replayed was logged before. */
static void begin(int64_t now_us)
{
    bed = (struct bed){.sink.emit = keep_event, .callbacks.reply = receive, .now_us = now_us};
    bed.core = core_new(&(struct core_options){
        .limits = {.jobs = 100, .topics = 10, .waiters = 10},
        .sink = &bed.sink,
        .callbacks = &bed.callbacks,
        .now_us = now_us,
    });
}

static void replayed(void)
{
    core_replayed(bed.core, bed.now_us);
    core_valid(bed.core);
}

static void end(void)
{
    core_valid(bed.core);
    core_free(bed.core);
    assert_int_equal(mem_used(), 0);
}

static struct event job_event(uint64_t seq, enum job_state state, int64_t due_us)
{
    return (struct event){
        .kind = EVENT_JOB,
        .job = {.seq = seq, .state = state, .due_us = due_us},
        .topic = BYTES("t"),
        .ttr_us = 60 * SECOND,
        .record = {.where = seq, .bytes = 1},
    };
}

static void replay_job(uint64_t seq, enum job_state state, int64_t due_us)
{
    struct event event = job_event(seq, state, due_us);
    assert_int_equal(core_replay(bed.core, &event), OK);
}

static void replay_lease(uint64_t seq, int64_t due_us, int64_t until_us)
{
    struct event event = job_event(seq, JOB_RESERVED, due_us);
    event.job.lease = seq;
    event.job.until_us = until_us;
    assert_int_equal(core_replay(bed.core, &event), OK);
}

static enum err apply(struct cmd cmd)
{
    (void)core_apply(bed.core, bed.now_us, &cmd, &bed);
    core_valid(bed.core);
    return bed.reply.err;
}

static enum job_state state_of(uint64_t seq)
{
    assert_int_equal(apply((struct cmd){.kind = CMD_GET, .job.ref.seq = seq}), OK);
    return bed.job.state;
}

static uint64_t reserve(bool bound)
{
    struct bytes topic = BYTES("t");
    enum err err = apply((struct cmd){
        .kind = CMD_RESERVE,
        .reserve = {.topics = &topic, .topic_count = 1, .max = 1, .bound = bound},
    });
    return err ? 0 : bed.job.ref.seq;
}

static void tick_at(int64_t now_us)
{
    bed.now_us = now_us;
    while (core_tick(bed.core, now_us, 1000))
        continue;
    core_valid(bed.core);
}

static void a_job_logged_as_ready_is_ready_whatever_the_clock_says(void **state)
{
    (void)state;
    begin(START - HOUR);
    replay_job(1, JOB_READY, START);
    replay_job(2, JOB_READY, START - 2 * SECOND);
    replayed();
    assert_int_equal(state_of(1), JOB_READY);
    assert_int_equal(reserve(false), 2); /* in the order they had */
    assert_int_equal(reserve(false), 1);
    end();
}

static void a_delayed_job_that_was_due_by_the_logs_clock_is_ready(void **state)
{
    (void)state;
    begin(START - HOUR);
    core_replay_clock(bed.core, START - 10 * SECOND);
    replay_job(1, JOB_DELAYED, START);
    replay_job(2, JOB_DELAYED, START - SECOND);
    replay_job(3, JOB_DELAYED, START + 1);
    core_replay_clock(bed.core, START); /* later on the log only says what time it was */
    replayed();
    assert_int_equal(state_of(1), JOB_READY);
    assert_int_equal(state_of(2), JOB_READY);
    assert_int_equal(state_of(3), JOB_DELAYED);
    assert_int_equal(reserve(false), 2);
    tick_at(START);
    assert_int_equal(state_of(3), JOB_DELAYED);
    tick_at(START + 1);
    assert_int_equal(state_of(3), JOB_READY);
    end();
}

static void p3_a_job_logged_after_the_clock_was_set_back_is_not_due_by_the_old_clock(void **state)
{
    (void)state;
    begin(START - HOUR + 5 * SECOND);
    core_replay_clock(bed.core, START);
    replay_job(1, JOB_DELAYED, START);
    core_replay_clock(bed.core, START - HOUR); /* a restart */
    replay_job(2, JOB_DELAYED, START - HOUR + 10 * SECOND);
    struct event moved = {
        .kind = EVENT_MOVE,
        .job = {.seq = 1, .state = JOB_DELAYED, .due_us = START - HOUR + 20 * SECOND}};
    struct event other = job_event(3, JOB_DELAYED, START);
    core_replay_clock(bed.core, START - HOUR + 1);
    replayed();
    assert_int_equal(state_of(1), JOB_READY); /* it was due before the restart */
    assert_int_equal(state_of(2), JOB_DELAYED);
    end();

    begin(START - HOUR + 5 * SECOND); /* the same log, a bit longer */
    core_replay_clock(bed.core, START);
    replay_job(1, JOB_DELAYED, START);
    core_replay_clock(bed.core, START - HOUR);
    assert_int_equal(core_replay(bed.core, &moved), OK); /* released with a delay */
    assert_int_equal(core_replay(bed.core, &other), OK);
    replayed();
    assert_int_equal(state_of(1), JOB_DELAYED);
    assert_int_equal(state_of(3), JOB_DELAYED);
    end();
}

static void p3_a_version_that_logged_no_time_is_not_believed_that_a_job_was_ready(void **state)
{
    (void)state;
    begin(START - HOUR);
    core_replay_clock(bed.core, 0); /* it said so of jobs that were reserved early, by name */
    replay_job(1, JOB_READY, START);
    replay_job(2, JOB_READY, START - HOUR);
    struct event at_once = job_event(4, JOB_READY, START);
    at_once.created_us = START; /* it was due when it was pushed */
    assert_int_equal(core_replay(bed.core, &at_once), OK);
    core_replay_clock(bed.core, START - HOUR);
    replay_job(3, JOB_READY, START);
    replayed();
    assert_int_equal(state_of(1), JOB_DELAYED);
    assert_int_equal(state_of(2), JOB_READY);
    assert_int_equal(state_of(3), JOB_READY);
    assert_int_equal(state_of(4), JOB_READY);
    end();
}

static void a_job_that_goes_back_undelivered_is_still_ready(void **state)
{
    (void)state;
    for (int bound = 0; bound < 2; bound++) {
        begin(START - HOUR);
        replay_job(1, JOB_READY, START);
        replayed();
        assert_int_equal(reserve(bound), 1);
        struct cmd back = {.kind = CMD_RELEASE, .job = {.ref.seq = 1, .why = RELEASE_UNDELIVERED}};
        assert_int_equal(apply(back), OK);
        assert_int_equal(bed.job.state, JOB_READY);
        assert_int_equal(bed.job.due_us, START);
        assert_int_equal(bed.events[bed.event_count - 1].job.state, JOB_READY);
        assert_int_equal(reserve(bound), 1);
        back.job.has_delay = true; /* its body could not be read */
        back.job.due_us = bed.now_us + SECOND;
        assert_int_equal(apply(back), OK);
        assert_int_equal(bed.job.state, JOB_DELAYED);
        assert_int_equal(bed.job.due_us, bed.now_us + SECOND);
        end();
    }
}

static void a_released_or_rescheduled_job_waits_for_its_new_due_time(void **state)
{
    (void)state;
    begin(START - HOUR);
    replay_job(1, JOB_READY, START);
    replayed();
    assert_int_equal(reserve(false), 1);
    struct cmd release = {.kind = CMD_RELEASE,
                          .job = {.ref.seq = 1, .has_delay = true, .due_us = START - HOUR + 1}};
    assert_int_equal(apply(release), OK);
    assert_int_equal(bed.job.state, JOB_DELAYED);
    struct cmd later = {.kind = CMD_RESCHEDULE,
                        .job = {.ref.seq = 1, .has_due = true, .due_us = START - HOUR + 2}};
    assert_int_equal(apply(later), OK);
    tick_at(START - HOUR + 1);
    assert_int_equal(state_of(1), JOB_DELAYED);
    tick_at(START - HOUR + 2);
    assert_int_equal(state_of(1), JOB_READY);
    end();
}

/* A reserved job that was due goes back as ready; one that was reserved early, by name, does not.
 */
static void a_lease_from_before_the_restart_remembers_whether_the_job_was_due(void **state)
{
    (void)state;
    begin(START - HOUR);
    core_replay_clock(bed.core, START);
    replay_lease(1, START, START + 30 * SECOND);
    replay_lease(2, START + 1, START + 30 * SECOND);
    replayed();
    for (uint64_t seq = 1; seq <= 2; seq++) {
        assert_int_equal(apply((struct cmd){.kind = CMD_RELEASE,
                                            .job = {.ref.seq = seq, .why = RELEASE_UNDELIVERED}}),
                         OK);
        assert_int_equal(bed.job.state, seq == 1 ? JOB_READY : JOB_DELAYED);
    }
    end();
}

static void leases_and_pauses_keep_their_length(void **state)
{
    (void)state;
    begin(START - HOUR);
    core_replay_clock(bed.core, START);
    replay_lease(1, START, START + 30 * SECOND);
    replay_lease(2, START, START - SECOND); /* it ran out before the restart */
    struct event paused = {
        .kind = EVENT_TOPIC, .topic = BYTES("t"), .pause_until_us = START + 20 * SECOND};
    assert_int_equal(core_replay(bed.core, &paused), OK);
    paused.topic = BYTES("over");
    paused.pause_until_us = START;
    assert_int_equal(core_replay(bed.core, &paused), OK);
    paused.topic = BYTES("forever");
    paused.pause_until_us = INT64_MAX;
    assert_int_equal(core_replay(bed.core, &paused), OK);
    replayed();
    assert_int_equal(bed.event_count, 3); /* the log is told of both leases and the one pause */
    assert_int_equal(core_next_us(bed.core), START - HOUR - SECOND);
    tick_at(START - HOUR);
    assert_int_equal(state_of(1), JOB_RESERVED);
    assert_int_equal(state_of(2), JOB_READY);
    assert_int_equal(core_next_us(bed.core), START - HOUR + 20 * SECOND);
    assert_int_equal(reserve(false), 0);
    tick_at(START - HOUR + 20 * SECOND);
    assert_int_equal(reserve(false), 2);
    tick_at(START - HOUR + 30 * SECOND - 1);
    assert_int_equal(state_of(1), JOB_RESERVED);
    tick_at(START - HOUR + 30 * SECOND);
    assert_int_equal(state_of(1), JOB_READY);
    end();
}

static void a_clock_that_was_not_set_back_changes_no_lease(void **state)
{
    (void)state;
    begin(START + SECOND);
    core_replay_clock(bed.core, START);
    replay_lease(1, START, START + 30 * SECOND);
    replayed();
    assert_int_equal(bed.event_count, 0);
    tick_at(START + 30 * SECOND - 1);
    assert_int_equal(state_of(1), JOB_RESERVED);
    tick_at(START + 30 * SECOND);
    assert_int_equal(state_of(1), JOB_READY);
    end();
}

/* The log knows nothing of a bound lease; what it says of such a job must hold after a crash. */
static void p3_a_job_held_early_is_logged_as_delayed(void **state)
{
    (void)state;
    begin(START);
    struct cmd push = {.kind = CMD_PUSH,
                       .push = {.topic = BYTES("t"), .due_us = START + HOUR, .ttr_us = SECOND}};
    assert_int_equal(apply(push), OK);
    uint64_t seq = bed.job.ref.seq;
    assert_int_equal(
        apply((struct cmd){.kind = CMD_RESERVE_JOB, .job = {.ref.seq = seq, .bound = true}}), OK);
    assert_int_equal(apply((struct cmd){.kind = CMD_TOUCH, .job.ref.seq = seq}), OK);
    const struct event *event = &bed.events[bed.event_count - 1];
    assert_int_equal(event->kind, EVENT_MOVE);
    assert_int_equal(event->job.state, JOB_DELAYED);
    end();
}

static void what_the_clock_does_alone_is_told_to_the_store(void **state)
{
    (void)state;
    begin(START);
    assert_true(core_unlogged_us(bed.core) == INT64_MIN);
    struct cmd push = {.kind = CMD_PUSH,
                       .push = {.topic = BYTES("t"), .due_us = START + 5, .ttr_us = SECOND}};
    assert_int_equal(apply(push), OK);
    tick_at(START + 4);
    assert_true(core_unlogged_us(bed.core) == INT64_MIN);
    tick_at(START + 7);
    assert_int_equal(core_unlogged_us(bed.core), START + 7);
    struct cmd pause = {.kind = CMD_PAUSE,
                        .topic = {.topic = BYTES("t"), .pause_until_us = START + 20}};
    assert_int_equal(apply(pause), OK);
    tick_at(START + 21);
    assert_int_equal(core_unlogged_us(bed.core), START + 21);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_logged_as_ready_is_ready_whatever_the_clock_says),
        cmocka_unit_test(a_delayed_job_that_was_due_by_the_logs_clock_is_ready),
        cmocka_unit_test(p3_a_job_logged_after_the_clock_was_set_back_is_not_due_by_the_old_clock),
        cmocka_unit_test(p3_a_version_that_logged_no_time_is_not_believed_that_a_job_was_ready),
        cmocka_unit_test(a_job_that_goes_back_undelivered_is_still_ready),
        cmocka_unit_test(a_released_or_rescheduled_job_waits_for_its_new_due_time),
        cmocka_unit_test(a_lease_from_before_the_restart_remembers_whether_the_job_was_due),
        cmocka_unit_test(leases_and_pauses_keep_their_length),
        cmocka_unit_test(a_clock_that_was_not_set_back_changes_no_lease),
        cmocka_unit_test(p3_a_job_held_early_is_logged_as_delayed),
        cmocka_unit_test(what_the_clock_does_alone_is_told_to_the_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
