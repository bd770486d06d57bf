/*
 * The core's events, which the engine stores. An event has the new state, not the change, so
 * replaying one twice, or a newer image of a job over an older one, gives the same state. That
 * allows the store to move records.
 */
#ifndef LATERD_CORE_EVENT_H
#define LATERD_CORE_EVENT_H

#include "core/happening.h"
#include "core/job.h"

enum event_kind {
    EVENT_JOB = 1,   /* a whole job: pushed, changed, or copied to a newer place */
    EVENT_MOVE = 2,  /* a job's state, times, lease and counts */
    EVENT_GONE = 3,  /* the job is finished, deleted or replaced, and never comes back */
    EVENT_TOPIC = 4, /* a topic's pause */
    /* 5 is not an event: store/record.h */
    EVENT_NOTE = 6,     /* what became of one attempt at a job */
    EVENT_SETTINGS = 7, /* a topic's settings; empty: it has none any more */
};

/* Why a job has gone. */
enum event_end {
    END_UNKNOWN = 0, /* written by an earlier version, or without a reader who needs it */
    END_FINISHED,
    END_DELETED,
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

/* The time and code of a note. */
struct note_head {
    int64_t at_us;
    uint32_t number; /* of the job's notes, from 1 */
    uint16_t code;
};

struct event {
    enum event_kind kind;
    /*
     * True: an answer waits for this event, so write it as soon as possible. False: none does (a
     * reservation, a ttr that ran out); it may go with the next batch.
     */
    bool promised;
    /* JOB, MOVE. GONE, NOTE: only .seq. SETTINGS: .seq is their version. */
    struct job_now job;
    struct note_head note; /* NOTE only */
    enum event_end end;    /* GONE only */
    /* Empty: the id is server-made. A log keeps the id of a MOVE or GONE only once it has had a
       follower. */
    struct bytes id;
    /* JOB only. All bytes, the id's too, are borrowed until emit() returns. */
    struct bytes topic; /* also of TOPIC and SETTINGS */
    int64_t ttr_us;
    int64_t created_us;
    uint32_t delay_s;
    const int64_t *retry_us; /* the schedule's waits */
    uint8_t retry_count;
    enum body_kind body_kind;
    enum ready_order order;
    struct bytes content_type;
    struct bytes body;       /* also the bytes of SETTINGS, and a NOTE's text */
    struct buf *memory;      /* cmd_push::memory, or NULL */
    struct bytes properties; /* up to JOB_PROPERTIES_MAX; mostly empty */
    /* TOPIC only: paused until then; 0 = not paused, INT64_MAX = until resumed. */
    int64_t pause_until_us;
    /*
     * JOB that replaces an older image of the job, or another job with its id, and GONE: the place
     * of the record that dies with this event; `where` 0 = none. MOVE of a far job: the place of
     * the job's record, which the log must state. In replay the store passes the place of the
     * record itself here, if event_has_place().
     */
    struct stored record;
};

/*
 * What the index has of a far job. Its record stays in a slice of the store, sorted by due time,
 * until that is near, or, if the job is ready or buried, until it is needed. Bytes are borrowed.
 */
struct far_job {
    uint64_t seq;
    uint64_t id_hash; /* of the client's id, with store_far_key(); 0: it has none */
    uint64_t where;   /* of its record: struct stored::where */
    struct bytes topic;
    enum job_state state; /* JOB_DELAYED, JOB_READY or JOB_BURIED */
    uint32_t priority;    /* of a ready one, … */
    int64_t rank_us;      /* … and job_rank_us() */
};

/* Is there data that lives at the place of the event's record, until it dies? */
static inline bool event_has_place(const struct event *event)
{
    return event->kind == EVENT_JOB || event->kind == EVENT_NOTE ||
           (event->kind == EVENT_SETTINGS && event->body.len > 0);
}

/* The job_rank_us() of the job of a JOB event. */
static inline int64_t event_rank_us(const struct event *event)
{
    return event->order == ORDER_ARRIVAL ? event->created_us : event->job.due_us;
}

/* What becomes of a job that has changed since its record in a slice was written. */
enum changed_verdict {
    CHANGED_LEAVES, /* it was emitted again: its record is in the log */
    CHANGED_WAITS,  /* it must stay where it is for now, though it may not change any more */
    CHANGED_STAYS,  /* it must stay until it changes */
};

/* The engine's callbacks. */
struct event_sink {
    /* Returns where the record is, if event_has_place(). */
    struct stored (*emit)(struct event_sink *sink, const struct event *event);
    /* The record of settings or of a note at this place died, without an event. Also called in
     * replay. May be NULL. */
    void (*died)(struct event_sink *sink, struct stored record);
    /* Called after the event that made it so. NULL: no history of jobs is kept. */
    void (*happened)(struct event_sink *sink, const struct happening *happening);
};

#endif
