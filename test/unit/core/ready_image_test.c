/*
 * The image of far jobs that a stop leaves, when ready ones are among them: after the next start
 * they are ready, as many as before, and handed out in order.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#include "base/far_hash.h"
#include "base/mem.h"
#include "core/far_image.h"
#include "core/front.h"
#include "core/replay.h"
#include "core_bed.h"
#include "far_ends.h"

enum {
    SECOND = 1000000,
    START = 1000 * SECOND,
    TTR = 10 * SECOND,
    KEY = 5,
    JOBS = 240,
    OF_READY = 9, /* the slices' numbers */
    OF_DELAYED = 10,
    ORDER_FIRST = FAR_IMAGE_PARTS + 2, /* the part that the order begins with */
};

static const struct core_limits limits = {
    .jobs = 100000, .topics = 10, .waiters = 10, .ready_in_memory = 1};
static struct core_bed bed;
static char id_room[32], topic_room[2];
static struct buf parts[CORE_FAR_IMAGE_PARTS];

static int setup(void **state)
{
    (void)state;
    core_bed_open(&bed, limits, START);
    core_use_far_key(bed.core, KEY);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (uint32_t part = 0; part < CORE_FAR_IMAGE_PARTS; part++)
        buf_fini(&parts[part]);
    core_bed_close(&bed);
    return mem_used() == 0 ? 0 : -1;
}

/* Every third one is delayed at first. */
static bool is_delayed(uint64_t seq)
{
    return seq % 3 == 0;
}

static uint32_t priority_of(uint64_t seq)
{
    return (uint32_t)(seq * 7919 % 5) * 512; /* some are urgent */
}

static int64_t due_of(uint64_t seq)
{
    return START + (is_delayed(seq) ? SECOND + (int64_t)(seq * 37 % 100) : 0);
}

/* As a store would have read it. */
static struct event record_of(uint64_t seq)
{
    int len =
        seq % 4 ? snprintf(id_room, sizeof(id_room), "an-id-%llu", (unsigned long long)seq) : 0;
    topic_room[0] = (char)('a' + seq % 2);
    uint64_t slice = is_delayed(seq) ? OF_DELAYED : OF_READY;
    return (struct event){.kind = EVENT_JOB,
                          .job = {.seq = seq,
                                  .state = is_delayed(seq) ? JOB_DELAYED : JOB_READY,
                                  .due_us = due_of(seq),
                                  .priority = priority_of(seq)},
                          .id = bytes_of(id_room, (size_t)len),
                          .topic = bytes_of(topic_room, 1),
                          .ttr_us = TTR,
                          .created_us = START,
                          .record = {.where = slice << 32 | seq, .bytes = 50}};
}

static enum job_state state_at(void *ctx, uint64_t where)
{
    (void)ctx;
    return where >> 32 == OF_READY ? JOB_READY : where >> 32 == OF_DELAYED ? JOB_DELAYED : JOB_GONE;
}

static const struct far_places places = {.state_at = state_at};

static void do_cmd(const struct cmd *cmd)
{
    (void)core_apply(bed.core, START, cmd, &bed);
    assert_int_equal(bed.reply.err, OK);
}

static void push_far(uint64_t seq)
{
    struct event event = record_of(seq), out;
    do_cmd(&(struct cmd){.kind = CMD_PUSH,
                         .push = {.id = event.id,
                                  .topic = event.topic,
                                  .due_us = event.job.due_us,
                                  .ttr_us = TTR,
                                  .priority = event.job.priority}});
    assert_true(core_spill(bed.core, &event, 1, START, &out) &&
                core_depart(bed.core, seq, event.record));
}

static struct core_totals totals_of(const struct core *core)
{
    struct core_totals totals;
    core_totals(core, &totals);
    return totals;
}

static void arrive(uint64_t seq)
{
    struct event event = record_of(seq);
    assert_true(core_arrive(bed.core, &event));
}

/* Jobs in all places where ready ones may be. */
static void fill(void)
{
    struct core_front front;
    struct bytes topic = BYTES("a");
    /* Two that stay, so that those that fall due need not. */
    for (int i = 0; i < 2; i++)
        do_cmd(&(struct cmd){.kind = CMD_PUSH,
                             .push = {.topic = BYTES("c"), .due_us = START, .ttr_us = TTR}});
    for (uint64_t seq = 3; seq < JOBS; seq++)
        push_far(seq);
    (void)core_match(bed.core, START + 2 * SECOND, 10);
    (void)core_tick(bed.core, START + 2 * SECOND, 1000);
    for (uint64_t seq = 3; seq < JOBS - 9; seq++) { /* of the others no block has been loaded */
        struct event event = record_of(seq);
        assert_int_equal(core_near(bed.core, &event), is_delayed(seq));
    }
    arrive(3); /* visitors, from slices of both kinds … */
    arrive(4);
    for (uint64_t seq = 6; seq < 60; seq += 5) { /* … and those that ended: their entries stay */
        arrive(seq);
        do_cmd(&(struct cmd){.kind = CMD_DELETE, .job.ref.seq = seq});
    }
    struct cmd reserve = {
        .kind = CMD_RESERVE,
        .reserve = {.topics = &topic, .topic_count = 1, .max = 1, .wait_us = SECOND}};
    uint64_t parked = core_apply(bed.core, START, &reserve, &bed);
    assert_true(parked != 0 && core_front(bed.core, &front) && front.count > 4);
    core_front_unread(bed.core, front.topic, front.jobs[0].seq, front.jobs[0].where);
    for (unsigned i = 1; i < 4; i++) { /* somebody waited for them, who left */
        struct event event = record_of(front.jobs[i].seq);
        assert_true(core_front_arrive(bed.core, &event));
    }
    core_cancel(bed.core, parked);
    core_valid(bed.core);
}

static void make_image(void)
{
    struct core_totals before = totals_of(bed.core);
    for (uint32_t part = 0; part < CORE_FAR_IMAGE_PARTS; part++)
        assert_true(core_far_image(bed.core, &places, part, &parts[part]));
    core_valid(bed.core);
    struct core_totals after = totals_of(bed.core);
    assert_memory_equal(before.jobs, after.jobs, sizeof(before.jobs));
    assert_int_equal(before.far_ready, after.far_ready);
    assert_int_equal(before.urgent, after.urgent);
}

static enum err take_image(struct core *core)
{
    enum err err = OK;
    for (uint32_t part = 0; part < CORE_FAR_IMAGE_PARTS && !err; part++)
        err = core_far_image_take(core, &places, part, buf_bytes(&parts[part]));
    return err;
}

/* What the log has: not one of them, or only the two that stay. */
static void open_next(struct core_bed *next)
{
    core_bed_open(next, limits, START);
    core_use_far_key(next->core, KEY);
    for (uint64_t seq = 1; seq <= 2; seq++) {
        struct event event = {.kind = EVENT_JOB,
                              .job = {.seq = seq, .state = JOB_READY, .due_us = START},
                              .topic = BYTES("c"),
                              .ttr_us = TTR,
                              .created_us = START,
                              .record = {.where = 1, .bytes = 10}};
        assert_int_equal(core_replay(next->core, &event), OK);
    }
}

static bool comes_after(uint64_t seq, uint64_t before)
{
    uint32_t a = priority_of(before), b = priority_of(seq);
    int64_t due_a = due_of(before), due_b = due_of(seq);
    return a != b ? a < b : due_a != due_b ? due_a < due_b : before < seq;
}

/* Reserves the first job of the topic, whose records are read as they are wanted. 0: none. */
static uint64_t reserve_first(struct core_bed *next, struct bytes topic)
{
    struct core_front front;
    struct cmd cmd = {.kind = CMD_RESERVE,
                      .reserve = {.topics = &topic, .topic_count = 1, .max = 1}};
    next->first.ref.seq = 0;
    uint64_t parked = core_apply(next->core, START + 2 * SECOND, &cmd, next);
    while (parked && next->first.ref.seq == 0) {
        if (core_front(next->core, &front)) {
            for (uint32_t i = 0; i < front.count; i++) {
                struct event event = record_of(front.jobs[i].seq);
                assert_true(front.jobs[i].where == event.record.where);
                assert_true(core_front_arrive(next->core, &event));
            }
        }
        (void)core_match(next->core, START + 2 * SECOND, 10);
    }
    return next->first.ref.seq;
}

static unsigned reserve_all(struct core_bed *next, struct bytes topic)
{
    unsigned count = 0;
    for (uint64_t seq, before = 0; (seq = reserve_first(next, topic)) != 0; before = seq, count++)
        assert_true(before == 0 || comes_after(seq, before));
    return count;
}

static void p2_ready_jobs_of_an_image_are_as_many_as_before_and_in_order(void **state)
{
    (void)state;
    fill();
    make_image();
    struct core_bed next;
    open_next(&next);
    assert_int_equal(take_image(next.core), OK);
    core_replayed(next.core, START);
    core_valid(next.core);
    struct core_totals ours = totals_of(bed.core), theirs = totals_of(next.core);
    assert_memory_equal(ours.jobs, theirs.jobs, sizeof(ours.jobs));
    assert_true(theirs.jobs[JOB_DELAYED] == 3); /* they are due, but nobody has read that */
    assert_int_equal(ours.urgent, theirs.urgent);
    assert_int_equal(theirs.far_ready, ours.jobs[JOB_READY] - 2);
    unsigned all = reserve_all(&next, BYTES("a")) + reserve_all(&next, BYTES("b"));
    assert_int_equal(all, theirs.far_ready);
    core_bed_close(&next);
}

/* The log has changes of some that were in memory at the stop: they are there, and not far. */
static void p2_a_ready_job_that_the_log_has_moved_is_not_far_as_well(void **state)
{
    (void)state;
    fill();
    make_image();
    struct core_bed next;
    open_next(&next);
    for (uint64_t seq = 3; seq <= 4; seq++) {
        struct event event = record_of(seq);
        assert_int_equal(core_replay(next.core, &event), OK);
        event = (struct event){.kind = EVENT_MOVE,
                               .job = {.seq = seq,
                                       .state = JOB_BURIED,
                                       .due_us = due_of(seq),
                                       .priority = priority_of(seq)}};
        assert_int_equal(core_replay(next.core, &event), OK);
    }
    assert_int_equal(take_image(next.core), OK);
    core_replayed(next.core, START);
    core_valid(next.core);
    struct core_totals ours = totals_of(bed.core), theirs = totals_of(next.core);
    assert_int_equal(theirs.jobs[JOB_BURIED], 2);
    assert_int_equal(theirs.jobs[JOB_READY], ours.jobs[JOB_READY] - 2);
    unsigned all = reserve_all(&next, BYTES("a")) + reserve_all(&next, BYTES("b"));
    assert_int_equal(all, theirs.far_ready);
    core_bed_close(&next);
}

/* Counts and order are the other's, or they are refused, and nothing of them is left. */
static void of_an_order_that_is_refused_nothing_is_left(void **state)
{
    (void)state;
    unsigned refused = 0, tried = 0;
    fill();
    make_image();
    for (uint32_t part = FAR_IMAGE_PARTS + 1; part < CORE_FAR_IMAGE_PARTS; part += 3) {
        for (size_t byte = 0; byte < parts[part].len; byte++, tried++) {
            struct core_bed next;
            parts[part].at[byte] ^= (char)0x80;
            open_next(&next);
            if (take_image(next.core)) {
                refused++;
                core_far_begin(next.core, 0, NULL);
                assert_int_equal(end_far(next.core), OK);
                core_replayed(next.core, START);
                core_valid(next.core);
                assert_int_equal(totals_of(next.core).far, 0);
                assert_int_equal(totals_of(next.core).urgent, 2);
            }
            core_free(next.core);
            parts[part].at[byte] ^= (char)0x80;
        }
    }
    assert_true(refused > tried / 8);
}

/* Some of an order is missing, or there is more of it than there are jobs. */
static void an_order_that_is_not_whole_is_refused(void **state)
{
    (void)state;
    fill();
    make_image();
    struct buf *last = &parts[CORE_FAR_IMAGE_PARTS - 1], *first = &parts[ORDER_FIRST];
    size_t len = last->len;
    assert_true(len > 28 && first->len > 28);
    for (int i = 0; i < 3; i++) {
        struct core_bed next;
        open_next(&next);
        last->len = i == 0 ? len - 28 : i == 1 ? len - 1 : len;
        if (i == 2)
            buf_add(last, first->at, 28);
        assert_int_equal(take_image(next.core), ERR_CORRUPT);
        core_replayed(next.core, START);
        core_valid(next.core);
        core_bed_close(&next);
    }
}

static void p8_an_image_is_given_up_when_its_order_takes_too_much_memory(void **state)
{
    (void)state;
    core_bed_close(&bed);
    core_bed_open(
        &bed,
        (struct core_limits){.jobs = 100000, .topics = 10, .waiters = 10, .memory_bytes = 64 << 20},
        START);
    core_use_far_key(bed.core, KEY);
    for (uint64_t seq = 1; seq < 10; seq++)
        push_far(seq);
    struct core_totals before = totals_of(bed.core);
    for (uint32_t part = 0; part < ORDER_FIRST; part++)
        assert_true(core_far_image(bed.core, &places, part, &parts[part]));
    char *ballast = mem_alloc(64 << 20);
    assert_false(core_far_image(bed.core, &places, ORDER_FIRST, &parts[ORDER_FIRST]));
    mem_free(ballast);
    core_valid(bed.core);
    assert_int_equal(totals_of(bed.core).far, before.far);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(p2_ready_jobs_of_an_image_are_as_many_as_before_and_in_order),
        TEST(p2_a_ready_job_that_the_log_has_moved_is_not_far_as_well),
        TEST(of_an_order_that_is_refused_nothing_is_left),
        TEST(an_order_that_is_not_whole_is_refused),
        TEST(p8_an_image_is_given_up_when_its_order_takes_too_much_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
