/* A core whose last replies and events are kept, and the commands that its tests give it. */
#ifndef LATERD_TEST_CORE_RECORDER_H
#define LATERD_TEST_CORE_RECORDER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
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

static inline struct stored keep_event(struct event_sink *sink, const struct event *event)
{
    (void)sink;
    bed.events[bed.event_count++ % REPLIES_MAX] = *event;
    return (struct stored){.where = ++bed.where, .bytes = 10};
}

static inline void receive(struct core_callbacks *callbacks, void *ctx, const struct reply *reply)
{
    (void)callbacks;
    unsigned place = bed.replies++ % REPLIES_MAX;
    bed.last[place].ctx = ctx;
    bed.last[place].reply = *reply;
    bed.last[place].reply.reserve = NULL; /* borrowed for the call */
    if (reply->jobs && reply->count)
        bed.last[place].job = reply->jobs[0];
    for (uint32_t i = 0; reply->topics && i < reply->count && i < 4; i++)
        bed.last[place].topics[i] = reply->topics[i];
}

static inline int setup_limits(struct core_limits limits)
{
    memset(&bed, 0, sizeof(bed));
    bed.sink.emit = keep_event;
    bed.callbacks.reply = receive;
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

static inline int setup(void **state)
{
    (void)state;
    return setup_limits((struct core_limits){.jobs = 1000000, .topics = 100, .waiters = 1000});
}

static inline int teardown(void **state)
{
    (void)state;
    core_valid(bed.core);
    core_free(bed.core);
    return mem_used() == 0 ? 0 : -1;
}

static inline const struct reply *last(void)
{
    return &bed.last[(bed.replies - 1) % REPLIES_MAX].reply;
}

static inline const struct job_view *last_job(void)
{
    return &bed.last[(bed.replies - 1) % REPLIES_MAX].job;
}

static inline const struct event *last_event(void)
{
    return &bed.events[(bed.event_count - 1) % REPLIES_MAX];
}

static inline enum err apply(const struct cmd *cmd)
{
    unsigned before = bed.replies;
    (void)core_apply(bed.core, bed.now_us, cmd, &bed);
    assert_int_equal(bed.replies, before + 1); /* each command is answered once */
    return last()->err;
}

static inline uint64_t push_cmd(struct cmd_push push)
{
    if (!push.topic.len)
        push.topic = BYTES("t");
    if (!push.ttr_us)
        push.ttr_us = 60 * SECOND;
    assert_int_equal(apply(&(struct cmd){.kind = CMD_PUSH, .push = push}), OK);
    return last_job()->ref.seq;
}

static inline uint64_t push_due(int64_t due_us)
{
    return push_cmd((struct cmd_push){.due_us = due_us});
}

static inline enum err reserve(void)
{
    struct bytes topic = BYTES("t");
    return apply(&(struct cmd){.kind = CMD_RESERVE,
                               .reserve = {.topics = &topic, .topic_count = 1, .max = 1}});
}

static inline enum err do_job(enum cmd_kind kind, uint64_t seq, uint64_t lease)
{
    return apply(&(struct cmd){.kind = kind, .job = {.ref = {.seq = seq}, .lease = lease}});
}

static inline enum err do_topic(enum cmd_kind kind, struct cmd_topic topic)
{
    if (!topic.topic.len)
        topic.topic = BYTES("t");
    return apply(&(struct cmd){.kind = kind, .topic = topic});
}

static inline enum job_state state_of(uint64_t seq)
{
    assert_int_equal(do_job(CMD_GET, seq, 0), OK);
    return last_job()->state;
}

static inline void tick_at(int64_t now_us)
{
    bed.now_us = now_us;
    while (core_tick(bed.core, now_us, 1000))
        ;
    core_valid(bed.core);
}

static inline uint64_t park(void *ctx, const char *topic, int64_t wait_us)
{
    struct bytes name = bytes_str(topic);
    uint64_t parked = core_apply(
        bed.core, bed.now_us,
        &(struct cmd){.kind = CMD_RESERVE,
                      .reserve = {.topics = &name, .topic_count = 1, .max = 1, .wait_us = wait_us}},
        ctx);
    return parked;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
