/*
 * What the files of a command on topics share, and nobody else: fanout.c asks each partition, and
 * kicks and clears; fanout_jobs.c makes one page of the jobs that each shows, fanout_topics.c one
 * sum of what each says of its topics.
 *
 * Invariant: `jobs` and `topics` are sorted, and hold no more than a page (all topics, if all are
 * asked for).
 */
#ifndef LATERD_ENGINE_REDIS_FANOUT_PARTS_H
#define LATERD_ENGINE_REDIS_FANOUT_PARTS_H

#include "base/cursor.h"
#include "engine/redis/script_parts.h"
#include "port/engine.h"

enum part_state { PART_IDLE, PART_ASKED, PART_DONE };

struct part {
    enum part_state state;
    bool absent;      /* it does not know the topic, or does not use it */
    uint32_t share;   /* KICK_TOPIC, CLEAR_TOPIC: of `max`, of the call under way */
    uint32_t known;   /* KICK_TOPIC, CLEAR_TOPIC: jobs that were counted; 0: none, or not counted */
    uint32_t changed; /* KICK_TOPIC, CLEAR_TOPIC: jobs so far */
    bool touched;     /* KICK_TOPIC, CLEAR_TOPIC: was asked to change some, and may have */
    struct buf from;  /* where its slice goes on; empty: from the start */
};

/* A job on the page and what orders it there. */
struct ordered {
    int64_t first;
    int64_t second;
    struct job_view view;
};

struct fanout {
    const struct script_space *space;
    struct cmd cmd; /* its topic is our own copy */
    struct arena arena;
    enum err err;
    bool found;           /* a partition knows the topic */
    bool more;            /* REMOVE_TOPIC: a partition keeps it */
    bool in_all;          /* PAUSE: in every partition, for one has or uses the topic */
    enum job_state state; /* KICK_TOPIC: which ones; CLEAR_TOPIC LIST PEEK: as asked */
    uint32_t page_max;
    uint32_t asked;   /* calls under way */
    uint32_t changed; /* KICK_TOPIC, CLEAR_TOPIC: jobs so far */
    uint32_t shares;  /* KICK_TOPIC, CLEAR_TOPIC: of all calls under way */
    bool counts;      /* KICK_TOPIC, CLEAR_TOPIC: jobs are counted, none is changed meanwhile */
    bool counted;     /* … they were */
    bool directed;    /* KICK_TOPIC: by earlier counts, only where these say that there are some */
    bool goes_on;     /* LIST: behind `after`, where the page before ended */
    struct cursor after; /* see ordered_of() */
    struct ordered *jobs;
    uint32_t job_count;
    struct topic_view *topics;
    uint32_t topic_count, topic_cap;
    uint64_t due_within[STATS_SPANS]; /* TOPICS, all */
    uint64_t *due;                    /* DUE: by each of cmd.topic.until_us, which is ours */
    struct bytes last; /* TOPICS: a partition has more after this name; empty: none has */
    struct part parts[];
};

static inline uint32_t fanout_least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Jobs in this state lie in order of time, other topics' between them; else in that of places. */
static inline bool fanout_by_time(enum job_state state)
{
    return state == JOB_RESERVED;
}

static inline void fanout_add_big_endian(struct buf *out, uint64_t number, unsigned bytes)
{
    while (bytes-- > 0)
        buf_add_char(out, (char)(number >> (8 * bytes)));
}

/* ---- fanout_jobs.c: LIST and PEEK ---- */

/* The page begins where the last one ended. ERR_INVALID: none did there. */
enum err fanout_begin_at_cursor(struct fanout *fanout, struct bytes cursor) MUST_USE;
/* Appends the call for the partition's next slice of jobs. */
void fanout_ask_list(struct fanout *fanout, struct buf *out, const struct script_call *call);
/* The slice: O(jobs of the page) for each job. ERR_CORRUPT: no script says so. */
enum err fanout_take_jobs(struct fanout *fanout, struct part *part,
                          const struct script_answer *answer, const struct bytes *parts,
                          uint32_t count) MUST_USE;
/* What it shows is the fanout's. */
void fanout_reply_jobs(struct fanout *fanout, struct reply *reply);

/* ---- fanout_topics.c: TOPIC, TOPICS, DUE, and what is done to a topic ---- */

void fanout_ask_topic(struct fanout *fanout, struct buf *out, const struct script_call *call);
void fanout_ask_due(struct fanout *fanout, struct buf *out, const struct script_call *call);
/* ERR_CORRUPT: no script says so. */
enum err fanout_take_topics(struct fanout *fanout, struct part *part,
                            const struct script_answer *answer, const struct bytes *parts,
                            uint32_t count) MUST_USE;
enum err fanout_take_due(struct fanout *fanout, struct part *part,
                         const struct script_answer *answer, const struct bytes *parts,
                         uint32_t count) MUST_USE;
/* What it shows is the fanout's. */
void fanout_reply_topics(struct fanout *fanout, struct reply *reply);

#endif
