/* A core whose events are looked at, and a far job of it that comes back. */
#ifndef LATERD_TEST_CORE_FAR_BED_H
#define LATERD_TEST_CORE_FAR_BED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "core/far.h"
#include "core/replay.h"
#include "core_bed.h"

enum { SECOND = 1000000, START = 1000 * SECOND, TTR = 10 * SECOND, KEY = 5 };

static const struct core_limits limits = {.jobs = 3, .topics = 2, .waiters = 10};
static const struct stored slice = {.where = UINT64_C(9) << 32 | 40, .bytes = 50};
static struct core_bed bed;
static unsigned emitted;
static struct event last;

static inline struct stored note_event(struct event_sink *sink, const struct event *event)
{
    emitted++;
    last = *event;
    return core_bed_drop(sink, event);
}

static inline int setup(void **state)
{
    (void)state;
    core_bed_open(&bed, limits, START);
    core_use_far_key(bed.core, KEY);
    bed.sink.emit = note_event;
    emitted = 0;
    return 0;
}

static inline int teardown(void **state)
{
    (void)state;
    core_bed_close(&bed);
    return mem_used() == 0 ? 0 : -1;
}

static inline enum err push(const char *id, int64_t due_us)
{
    struct cmd_push push = {
        .id = bytes_str(id), .topic = BYTES("t"), .due_us = due_us, .ttr_us = TTR};
    (void)core_apply(bed.core, START, &(struct cmd){.kind = CMD_PUSH, .push = push}, &bed);
    return bed.reply.err;
}

static inline enum err ask(enum cmd_kind kind, uint64_t seq)
{
    struct cmd cmd = {.kind = kind, .job = {.ref = {.seq = seq}, .bound = false}};
    (void)core_apply(bed.core, START, &cmd, &bed);
    return bed.reply.err;
}

/* What the store reads again of the job `push` has made. */
static inline struct event record_of(uint64_t seq, const char *id)
{
    return (struct event){.kind = EVENT_JOB,
                          .job = {.seq = seq, .state = JOB_DELAYED, .due_us = START + SECOND},
                          .id = bytes_str(id),
                          .topic = BYTES("t"),
                          .ttr_us = TTR,
                          .record = slice};
}

static inline struct event depart(uint64_t seq, const char *id)
{
    struct event event = record_of(seq, id), out;
    assert_true(core_spill(bed.core, &event, 1, START, &out));
    assert_true(core_depart(bed.core, seq, slice));
    return event;
}

/* Job 1 was far and has come back; its move to ready. */
static inline struct event run_returned_job(void)
{
    assert_int_equal(push("a", START + SECOND), OK);
    struct event back = depart(1, "a");
    assert_true(core_arrive(bed.core, &back));
    assert_int_equal(ask(CMD_RUN, 1), OK);
    return last;
}

#endif
