/*
 * What the dullest correct model of the core remembers, for model_test.c: arrays of all jobs,
 * waiters and events of one random life.
 */
#ifndef LATERD_TEST_CORE_MODEL_H
#define LATERD_TEST_CORE_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cursor.h"
#include "core/core.h"

enum {
    SEQ_MAX = 4096, /* a life's pushes stay below */
    TOPICS = 3,
    WAITERS_MAX = 8,
    IDS = 12,
    EVENTS_MAX = 60000,
    STEPS = 1500,
    LIVES = 40,
    BURIED_STAY = 2, /* in memory, in every second life in which jobs depart; … */
    READY_STAY = 5,  /* … so do ready ones */
};

static inline struct bytes topic_name(int topic)
{
    static const char *const topic_names[TOPICS] = {"a", "b", "c"};
    return bytes_str(topic_names[topic]);
}

static inline struct bytes id_text(int id) /* half of them longer than a job holds itself */
{
    static const char *const texts[IDS] = {
        "0",
        "1",
        "two",
        "three",
        "fourth job",
        "@",
        "a-rather-long-id-that-is-kept-elsewhere-6",
        "a-rather-long-id-that-is-kept-elsewhere-7",
        "a-rather-long-id-that-is-kept-elsewhere-8",
        "exactly-23-bytes-long-9",
        "and-with-24-bytes-it-is10",
        "@007",
    };
    return id < 0 ? (struct bytes){0} : bytes_str(texts[id]);
}

struct model_job {
    enum job_state state; /* JOB_GONE: not there */
    int id;               /* -1: server-made */
    int topic;
    uint32_t priority;
    int64_t due_us, until_us, ttr_us;
    uint64_t lease;
    uint16_t failures;
    struct job_counts counts;
    int64_t waits_us[3];
    uint8_t wait_count;
    uint64_t where;       /* of the newest EVENT_JOB */
    uint64_t buried_rank; /* order of burying, as the events said it */
    uint32_t body_len;
    enum ready_order order;
    bool bound; /* reserved by a connection: the events do not tell */
    int64_t created_us;
    unsigned notes; /* of failed attempts so far */
    uint16_t last_code;
    int64_t last_note_us;
};

struct model_waiter {
    bool parked;
    uint64_t handle;
    uint64_t order; /* of parking */
    int64_t until_us;
    uint32_t max;
    bool listed, bound;
    int topics[2];
    int topic_count;
};

/* A whole event, kept. */
struct kept {
    struct event event;
    char id[64], topic[8];
    int64_t waits_us[3];
};

struct life {
    struct event_sink sink;
    struct core_callbacks callbacks;
    struct core *core;
    uint64_t seed, random;
    int step;
    int64_t now_us;
    uint64_t seq_next, lease_next, rank, front_rank, where, order;
    struct model_job jobs[SEQ_MAX];
    int64_t paused_until_us[TOPICS];
    uint64_t settings_version[TOPICS]; /* 0: none */
    bool lives[EVENTS_MAX];            /* a note or settings at this place */
    unsigned live_count;
    struct model_waiter waiters[WAITERS_MAX];
    struct kept *events;
    int event_count;
    /* In some lives jobs depart to slices and come back: see core_model_far.h. */
    struct kept records[SEQ_MAX]; /* .event.record.where is 0 of those that were never far */
    bool is_far[SEQ_MAX];
    uint64_t visitors[SEQ_MAX]; /* far jobs that have come back for the command under way */
    uint32_t visitor_count;
    /* The reply of the command under way. */
    bool replied;
    enum err err;
    struct reply reply;
    struct job_view views[64];
    char ids[64][64];
    char cursor[CURSOR_BYTES];
};

#endif
