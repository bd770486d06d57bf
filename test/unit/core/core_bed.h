/* A core by itself: what happens to its jobs is not kept, but its last reply is. */
#ifndef LATERD_TEST_CORE_BED_H
#define LATERD_TEST_CORE_BED_H

#include <string.h>

#include "base/cursor.h"
#include "base/list.h"
#include "core/core.h"

struct core_bed {
    struct event_sink sink;
    struct core_callbacks callbacks;
    struct core *core;
    unsigned replies;
    struct reply reply;
    struct job_view first;   /* of its jobs */
    struct topic_view topic; /* the first of its topics */
    char cursor[CURSOR_BYTES];
};

static inline struct stored core_bed_drop(struct event_sink *sink, const struct event *event)
{
    (void)sink;
    (void)event;
    return (struct stored){.where = 1, .bytes = 10};
}

static inline void core_bed_reply(struct core_callbacks *callbacks, void *ctx,
                                  const struct reply *reply)
{
    struct core_bed *bed = LIST_ENTRY(callbacks, struct core_bed, callbacks);
    (void)ctx;
    bed->replies++;
    bed->reply = *reply;
    if (reply->jobs && reply->count)
        bed->first = reply->jobs[0];
    if (reply->topics && reply->count)
        bed->topic = reply->topics[0];
    if (reply->cursor.len) /* borrowed until we return */
        memcpy(bed->cursor, reply->cursor.at, CURSOR_BYTES);
    bed->reply.cursor.at = bed->cursor;
}

static inline void core_bed_open(struct core_bed *bed, struct core_limits limits, int64_t now_us)
{
    *bed = (struct core_bed){.sink.emit = core_bed_drop, .callbacks.reply = core_bed_reply};
    bed->core = core_new(&(struct core_options){
        .limits = limits,
        .sink = &bed->sink,
        .callbacks = &bed->callbacks,
        .now_us = now_us,
        .hash_key = 7,
        .lease_first = 1,
        .seq_first = 1,
    });
}

static inline void core_bed_close(struct core_bed *bed)
{
    core_valid(bed->core);
    core_free(bed->core);
}

#endif
