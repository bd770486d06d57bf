/* Common code of the core's benchmarks: a core whose events are dropped, and their options. */
#ifndef LATERD_BENCH_LONE_CORE_H
#define LATERD_BENCH_LONE_CORE_H

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "core/core.h"

/* As if each record had a place of its own, and 300 bytes. */
static inline struct stored drop_event(struct event_sink *sink, const struct event *event)
{
    (void)sink;
    (void)event;
    return (struct stored){.where = 1, .bytes = 300};
}

static inline struct core *lone_core_new(struct core_callbacks *callbacks, int64_t now_us)
{
    static struct event_sink sink = {.emit = drop_event};
    return core_new(&(struct core_options){
        .limits = {.jobs = UINT32_MAX, .topics = 16, .waiters = 16},
        .sink = &sink,
        .callbacks = callbacks,
        .now_us = now_us,
        .hash_key = 42,
        .lease_first = 1,
        .seq_first = 1,
    });
}

/* A core's reply, which must be a good one: has it reserved jobs? */
static inline bool has_reserved(const struct reply *reply)
{
    CHECK(reply->err == OK);
    return reply->kind == CMD_RESERVE;
}

/* NULL: the option is not there. */
static inline const char *text_after(char **args, int count, const char *name)
{
    for (int i = 1; i + 1 < count; i++) {
        if (strcmp(args[i], name) == 0)
            return args[i + 1];
    }
    return NULL;
}

/* The number behind the option `name`, or `otherwise` where it is not given. */
static inline uint64_t number_after(char **args, int count, const char *name, uint64_t otherwise)
{
    const char *text = text_after(args, count, name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

#endif
