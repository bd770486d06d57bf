/*
 * The core's promises, one by one. model_test has the random lives.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "core/core.h"

enum { SECOND = 1000000, START = 1000 * SECOND, REPLIES_MAX = 256 };

/* A core, its last replies and how many events of each kind there were. */
struct bed {
    struct event_sink sink;
    struct core_callbacks callbacks;
    struct core *core;
    int64_t now_us;
    unsigned replies;
    struct {
        void *ctx;
        struct reply reply;
        struct job_view job;
        struct topic_view topics[4];
    } last[REPLIES_MAX];
    struct event events[REPLIES_MAX]; /* without their bytes */
    unsigned event_count;
    uint64_t where;
};

static struct bed bed;

static struct stored keep_event(struct event_sink *sink, const struct event *event)
{
    (void)sink;
    bed.events[bed.event_count++ % REPLIES_MAX] = *event;
    return (struct stored){.where = ++bed.where, .bytes = 10};
}

static void hear(struct core_callbacks *callbacks, void *ctx, const struct reply *reply)
{
    (void)callbacks;
    unsigned place = bed.replies++ % REPLIES_MAX;
    bed.last[place].ctx = ctx;
    bed.last[place].reply = *reply;
    if (reply->jobs && reply->count)
        bed.last[place].job = reply->jobs[0];
    for (uint32_t i = 0; reply->topics && i < reply->count && i < 4; i++)
        bed.last[place].topics[i] = reply->topics[i];
}

static int setup_limits(struct core_limits limits)
{
    memset(&bed, 0, sizeof(bed));
    bed.sink.emit = keep_event;
    bed.callbacks.reply = hear;
    bed.now_us = START;
    bed.core = core_new(&(struct core_options){
        .limits = limits,
        .sink = &bed.sink,
        .callbacks = &bed.callbacks,
        .now_us = bed.now_us,
        .hash_key = 7,
        .lease_first = 100,
        .seq_first = 1,
    });
    return 0;
}

static int setup(void **state)
{
    (void)state;
    return setup_limits((struct core_limits){.jobs = 1000000, .topics = 100, .waiters = 1000});
}

static int teardown(void **state)
{
    (void)state;
    core_valid(bed.core);
    core_free(bed.core);
    return mem_used() == 0 ? 0 : -1;
}

static const struct reply *last(void)
{
    return &bed.last[(bed.replies - 1) % REPLIES_MAX].reply;
}

static const struct job_view *last_job(void)
{
    return &bed.last[(bed.replies - 1) % REPLIES_MAX].job;
}

static const struct event *last_event(void)
{
    return &bed.events[(bed.event_count - 1) % REPLIES_MAX];
}

static enum err apply(const struct cmd *cmd)
{
    unsigned before = bed.replies;
    (void)core_apply(bed.core, bed.now_us, cmd, &bed);
    assert_int_equal(bed.replies, before + 1); /* each command is answered once */
    return last()->err;
}

static uint64_t push_cmd(struct cmd_push push)
{
    if (!push.topic.len)
        push.topic = BYTES("t");
    if (!push.ttr_us)
        push.ttr_us = 60 * SECOND;
    assert_int_equal(apply(&(struct cmd){.kind = CMD_PUSH, .push = push}), OK);
    return last_job()->ref.seq;
}

static uint64_t push_due(int64_t due_us)
{
    return push_cmd((struct cmd_push){.due_us = due_us});
}

static enum err reserve(void)
{
    struct bytes topic = BYTES("t");
    return apply(&(struct cmd){.kind = CMD_RESERVE,
                               .reserve = {.topics = &topic, .topic_count = 1, .max = 1}});
}

static enum err do_job(enum cmd_kind kind, uint64_t seq, uint64_t lease)
{
    return apply(&(struct cmd){.kind = kind, .job = {.ref = {.seq = seq}, .lease = lease}});
}

static enum err do_topic(enum cmd_kind kind, struct cmd_topic topic)
{
    if (!topic.topic.len)
        topic.topic = BYTES("t");
    return apply(&(struct cmd){.kind = kind, .topic = topic});
}

static enum job_state state_of(uint64_t seq)
{
    assert_int_equal(do_job(CMD_GET, seq, 0), OK);
    return last_job()->state;
}

static void tick_at(int64_t now_us)
{
    bed.now_us = now_us;
    while (core_tick(bed.core, now_us, 1000))
        ;
    core_valid(bed.core);
}

static uint64_t park(void *ctx, const char *topic, int64_t wait_us)
{
    struct bytes name = bytes_str(topic);
    uint64_t parked = core_apply(
        bed.core, bed.now_us,
        &(struct cmd){.kind = CMD_RESERVE,
                      .reserve = {.topics = &name, .topic_count = 1, .max = 1, .wait_us = wait_us}},
        ctx);
    return parked;
}

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

/* ---- waiting ---- */

static void a_wait_ends_at_its_time_with_empty(void **state)
{
    (void)state;
    int ctx;
    assert_true(park(&ctx, "t", 50) != 0);
    assert_int_equal(core_next_us(bed.core), START + 50);
    tick_at(START + 49);
    assert_int_equal(bed.replies, 0);
    tick_at(START + 50);
    assert_int_equal(bed.replies, 1);
    assert_int_equal(last()->err, ERR_EMPTY);
}

static void a_drain_answers_all_who_wait(void **state)
{
    (void)state;
    int ctx;
    park(&ctx, "a", 50);
    park(&ctx, "b", INT64_MAX);
    assert_false(core_drain(bed.core, ERR_DRAINING));
    assert_int_equal(bed.replies, 2);
    assert_int_equal(last()->err, ERR_DRAINING);
}

static void a_topic_that_holds_nothing_is_not_in_use(void **state)
{
    (void)state;
    const struct cmd_topic pause = {.pause_until_us = START + 100, .in_use = true};
    assert_int_equal(do_topic(CMD_PAUSE, pause), ERR_NOT_FOUND);
    uint64_t seq = push_due(START);
    assert_int_equal(do_topic(CMD_PAUSE, pause), OK);
    assert_int_equal(do_job(CMD_DELETE, seq, 0), OK);
    assert_int_equal(do_topic(CMD_RESUME, pause), OK);
    assert_int_equal(do_topic(CMD_PAUSE, pause), ERR_NOT_FOUND);
}

static void a_topic_is_removed_when_it_holds_nothing(void **state)
{
    (void)state;
    int ctx;
    assert_int_equal(do_topic(CMD_REMOVE_TOPIC, (struct cmd_topic){0}), ERR_NOT_FOUND);
    uint64_t seq = push_due(START);
    assert_int_equal(do_topic(CMD_PAUSE, (struct cmd_topic){.pause_until_us = INT64_MAX}), OK);
    assert_int_equal(do_topic(CMD_REMOVE_TOPIC, (struct cmd_topic){0}), OK);
    assert_true(last()->more); /* its job is there; its pause is over, and the log knows */
    assert_int_equal(last_event()->kind, EVENT_TOPIC);
    assert_int_equal(reserve(), OK);
    assert_int_equal(do_job(CMD_DELETE, seq, 0), OK);
    park(&ctx, "t", 1000);
    assert_int_equal(do_topic(CMD_REMOVE_TOPIC, (struct cmd_topic){0}), OK);
    assert_true(last()->more);
    assert_false(core_drain(bed.core, ERR_DRAINING));
    assert_int_equal(do_topic(CMD_REMOVE_TOPIC, (struct cmd_topic){0}), OK);
    assert_false(last()->more);
    assert_int_equal(do_topic(CMD_TOPIC, (struct cmd_topic){0}), ERR_NOT_FOUND);
    const struct cmd_topic pause = {.pause_until_us = START + 100, .must_exist = true};
    assert_int_equal(do_topic(CMD_PAUSE, pause), ERR_NOT_FOUND);
    core_valid(bed.core);
}

static void a_paused_topic_gives_nothing_until_the_pause_is_over(void **state)
{
    (void)state;
    int ctx;
    push_due(START);
    assert_int_equal(do_topic(CMD_PAUSE, (struct cmd_topic){.pause_until_us = START + 100}), OK);
    assert_int_equal(last_event()->kind, EVENT_TOPIC);
    assert_int_equal(reserve(), ERR_EMPTY);
    park(&ctx, "t", 1000);
    assert_false(core_match(bed.core, START, 10));
    tick_at(START + 100);
    core_match(bed.core, bed.now_us, 10);
    assert_int_equal(last()->err, OK);
    assert_ptr_equal(bed.last[bed.replies - 1].ctx, &ctx);
}

static void a_waiter_on_a_topic_listed_twice_is_answered_once(void **state)
{
    (void)state;
    struct bytes topics[] = {BYTES("t"), BYTES("t"), BYTES("u")};
    uint64_t parked = core_apply(
        bed.core, START,
        &(struct cmd){.kind = CMD_RESERVE,
                      .reserve = {.topics = topics, .topic_count = 3, .max = 1, .wait_us = 10}},
        &bed);
    assert_true(parked != 0);
    core_valid(bed.core);
    assert_int_equal(do_topic(CMD_TOPIC, (struct cmd_topic){0}), OK);
    assert_int_equal(bed.last[bed.replies - 1].topics[0].waiters, 1);
    push_due(START);
    push_cmd((struct cmd_push){.topic = BYTES("u")});
    unsigned before = bed.replies;
    core_match(bed.core, START, 10);
    assert_int_equal(bed.replies, before + 1);
}

static void the_first_of_100000_due_together_is_served_in_the_first_slice(void **state)
{
    (void)state;
    int ctx;
    for (int i = 0; i < 100000; i++)
        push_due(START + SECOND);
    park(&ctx, "t", 10 * SECOND);
    bed.now_us = START + SECOND;
    assert_true(core_tick(bed.core, bed.now_us, 1000)); /* one slice, with more to do */
    unsigned before = bed.replies;
    core_match(bed.core, bed.now_us, 1000);
    assert_int_equal(bed.replies, before + 1);
    struct core_totals totals;
    core_totals(bed.core, &totals);
    assert_true(totals.jobs[JOB_DELAYED] >= 98000);
}

/* ---- topics and long scans ---- */

static void topics_are_paged_by_name(void **state)
{
    (void)state;
    static const char *const names[] = {"pear", "fig", "apple", "plum", "date"};
    for (int i = 0; i < 5; i++)
        push_cmd((struct cmd_push){.topic = bytes_str(names[i])});
    struct cmd cmd = {.kind = CMD_TOPICS, .topic = {.topic = BYTES("apple"), .max = 3}};
    assert_int_equal(apply(&cmd), OK);
    assert_int_equal(last()->count, 3);
    assert_true(last()->more);
    const struct topic_view *topics = bed.last[bed.replies - 1].topics;
    assert_true(bytes_eq(topics[0].name, BYTES("date")));
    assert_true(bytes_eq(topics[1].name, BYTES("fig")));
    assert_true(bytes_eq(topics[2].name, BYTES("pear")));
    assert_int_equal(do_topic(CMD_TOPIC, (struct cmd_topic){.topic = BYTES("none")}),
                     ERR_NOT_FOUND);
}

static uint64_t park_scan(enum cmd_kind kind, struct cmd_topic topic)
{
    uint64_t parked = 0;
    topic.topic = BYTES("t");
    parked = core_apply(bed.core, bed.now_us, &(struct cmd){.kind = kind, .topic = topic}, &bed);
    return parked;
}

static void delayed_jobs_are_cleared_in_slices_up_to_max(void **state)
{
    (void)state;
    for (int i = 0; i < 30000; i++)
        push_due(START + SECOND);
    assert_true(
        park_scan(CMD_CLEAR_TOPIC, (struct cmd_topic){.max = 25000, .state = JOB_DELAYED}) != 0);
    while (core_tick(bed.core, START, 1000))
        ;
    assert_int_equal(last()->kind, CMD_CLEAR_TOPIC);
    assert_int_equal(last()->count, 25000);
    assert_true(last()->more);
}

static void what_falls_due_is_counted_by_span(void **state)
{
    (void)state;
    for (int i = 0; i < 500; i++)
        push_due(START + 1 + (int64_t)i * SECOND);
    int64_t spans_us[] = {60 * SECOND, 300 * SECOND, INT64_MAX};
    uint64_t counts[3];
    core_due_within(bed.core, START, spans_us, counts, 3);
    assert_int_equal(counts[0], 60);
    assert_int_equal(counts[1], 300);
    assert_int_equal(counts[2], 500);
}

static void lateness_is_counted_at_hand_over(void **state)
{
    (void)state;
    push_due(START + 10);
    tick_at(START + 10 + 300);
    assert_int_equal(reserve(), OK);
    struct core_totals totals;
    core_totals(bed.core, &totals);
    assert_int_equal(totals.lateness_histogram.sum_us, 300);
    unsigned half = 500;
    for (int span = LATENESS_ALL_TIME; span <= LATENESS_LAST_MINUTE; span++) {
        int64_t bound_us;
        lateness_quantiles_us(&totals.lateness, (enum lateness_span)span, START + 310, &half,
                              &bound_us, 1);
        assert_true(bound_us > 300 && bound_us <= 600);
    }
}

static void unread_jobs_are_carried_in_slices_without_their_bodies(void **state)
{
    (void)state;
    uint64_t seqs[5];
    for (int i = 0; i < 5; i++)
        seqs[i] = push_cmd((struct cmd_push){.due_us = START + SECOND, .body = BYTES("body")});
    uint64_t where = bed.where; /* of the last; each has the next place */
    unsigned before = bed.event_count;
    unsigned slices = 1;
    uint32_t cursor = 0;
    while (core_relocate_unread(bed.core, where - 2, where, &cursor, 2))
        slices++;
    assert_true(slices > 2);
    assert_int_equal(bed.event_count, before + 2);
    const struct event *event = last_event();
    assert_int_equal(event->kind, EVENT_JOB);
    assert_int_equal(event->job.seq, seqs[3]);
    assert_int_equal(event->job.due_us, START + SECOND);
    assert_int_equal(event->record.where, where - 1); /* it dies there */
    assert_int_equal(event->body.len, 0);
    cursor = 0;
    while (core_relocate_unread(bed.core, where - 2, where, &cursor, 100))
        continue;
    assert_int_equal(bed.event_count, before + 2); /* they live elsewhere now */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

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
        TEST(unread_jobs_are_carried_in_slices_without_their_bodies),
        TEST(a_job_pushed_as_buried_waits_for_a_kick),
        TEST(a_wait_ends_at_its_time_with_empty),
        TEST(a_drain_answers_all_who_wait),
        TEST(a_topic_that_holds_nothing_is_not_in_use),
        TEST(a_topic_is_removed_when_it_holds_nothing),
        TEST(a_paused_topic_gives_nothing_until_the_pause_is_over),
        TEST(a_waiter_on_a_topic_listed_twice_is_answered_once),
        TEST(the_first_of_100000_due_together_is_served_in_the_first_slice),
        TEST(topics_are_paged_by_name),
        TEST(delayed_jobs_are_cleared_in_slices_up_to_max),
        TEST(what_falls_due_is_counted_by_span),
        TEST(lateness_is_counted_at_hand_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
