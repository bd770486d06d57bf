/*
 * What the core gives the engine to store. Events state how things are, not how they changed:
 * replaying one twice, or a job's newer image over its older one, gives the same state. That is
 * what lets the store move records about.
 */
#ifndef LATERD_CORE_EVENT_H
#define LATERD_CORE_EVENT_H

#include "core/job.h"

enum event_kind {
    EVENT_JOB = 1,   /* a whole job: pushed, changed, or carried to a newer place */
    EVENT_MOVE = 2,  /* a job's state, times, lease and counts */
    EVENT_GONE = 3,  /* the job is finished, deleted or replaced, and never comes back */
    EVENT_TOPIC = 4, /* a topic's pause */
};

/* What both a whole job and a move carry. */
struct job_now {
    uint64_t seq;
    enum job_state state;
    uint32_t priority;
    int64_t due_us;
    int64_t until_us;
    uint64_t lease;
    uint16_t failures;
    struct job_counts counts;
};

struct event {
    enum event_kind kind;
    /*
     * True: an answer waits for this, write it at the next chance. False: no answer waits for it (a
     * reservation, a ttr that ran out); it may be written with the next batch.
     */
    bool promised;
    struct job_now job; /* JOB, MOVE; of GONE only .seq */
    /* JOB only. All bytes are borrowed until emit() returns. */
    struct bytes id;    /* empty: server-made */
    struct bytes topic; /* also of TOPIC */
    int64_t ttr_us;
    int64_t created_us;
    uint32_t delay_s;
    const int64_t *retry_us; /* the schedule's waits */
    uint8_t retry_count;
    enum body_kind body_kind;
    enum ready_order order;
    struct bytes content_type;
    struct bytes body;
    /* TOPIC only: paused until then; 0 = not paused, INT64_MAX = until resumed. */
    int64_t pause_until_us;
    /*
     * JOB over an older image, or in place of another job with its id, and GONE: where the record
     * that now dies is. `where` 0 = none. In replay the store passes here, for JOB, where the
     * record is.
     */
    struct stored record;
};

/* The engine's callback. For EVENT_JOB it returns where the job's record now is. */
struct event_sink {
    struct stored (*emit)(struct event_sink *sink, const struct event *event);
};

#endif
