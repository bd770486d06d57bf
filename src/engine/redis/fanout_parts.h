/*
 * Shared by the files of commands on topics only: fanout.c asks the partitions, and kicks and
 * clears; fanout_jobs.c merges the jobs that they show into one page; fanout_topics.c sums their
 * figures of topics.
 *
 * Invariant: `jobs` and `topics` are sorted; `jobs` holds no more than a page.
 */
#ifndef LATERD_ENGINE_REDIS_FANOUT_PARTS_H
#define LATERD_ENGINE_REDIS_FANOUT_PARTS_H

#include "base/cursor.h"
#include "engine/redis/fanout.h"
#include "engine/redis/script_parts.h"
#include "port/engine.h"

enum part_state { PART_IDLE, PART_CALLED, PART_DONE };

struct part {
    enum part_state state;
    bool absent;      /* it does not know the topic, or does not use it */
    uint32_t share;   /* KICK_TOPIC, CLEAR_TOPIC: jobs that the call under way may change */
    uint32_t known;   /* KICK_TOPIC, CLEAR_TOPIC: jobs that were counted; 0: none, or not counted */
    uint32_t changed; /* KICK_TOPIC, CLEAR_TOPIC: jobs so far */
    bool touched; /* KICK_TOPIC, CLEAR_TOPIC: was asked to change jobs, so some may have changed */
    struct buf from; /* where its next slice begins; empty: at the start */
};

/* A job on the page, and the values by which the page is sorted. */
struct ordered {
    int64_t first;
    int64_t second;
    struct job_view view;
};

struct fanout {
    const struct script_space *space;
    struct cmd cmd; /* its topic is a copy in `arena` */
    struct arena arena;
    enum err err;
    bool found;           /* a partition knows the topic */
    bool more;            /* REMOVE_TOPIC: a partition still has it, as it has jobs there */
    bool in_all;          /* PAUSE: every partition is asked, since one has or uses the topic */
    enum job_state state; /* KICK_TOPIC: which ones; CLEAR_TOPIC LIST PEEK: as asked */
    uint32_t page_max;
    uint32_t calls;   /* calls under way */
    uint32_t changed; /* KICK_TOPIC, CLEAR_TOPIC: jobs so far */
    uint32_t shares;  /* KICK_TOPIC, CLEAR_TOPIC: of all calls under way */
    bool counts;      /* KICK_TOPIC, CLEAR_TOPIC: calls only count jobs, none changes any */
    bool counted;     /* … the counting is done */
    bool directed;    /* KICK_TOPIC: only partitions that have jobs by earlier counts are asked */
    bool goes_on;     /* LIST: the page begins after `after`, where the page before ended */
    struct cursor after; /* see ordered_of() */
    struct ordered *jobs;
    uint32_t job_count;
    struct topic_view **topics; /* in `arena`: all that were answered */
    uint32_t topic_count, topic_cap;
    struct topic_view *shown;         /* the page of them that the last reply showed */
    struct topic_view sums;           /* of all topics, but for their times */
    struct bytes page_after;          /* TOPICS with `stats`: the page begins after this name */
    uint64_t due_within[STATS_SPANS]; /* TOPICS, all */
    uint64_t *due;     /* DUE: jobs due by each of cmd.topic.until_us, a copy in `arena` */
    struct bytes last; /* TOPICS: a partition has more after this name; empty: none has */
    struct part parts[];
};

static inline uint32_t fanout_least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* True: jobs in this state are in order of time, those of all topics mixed. False: in the order of
 * places, each topic's side by side. */
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

/* Begins the page where the last one ended. ERR_INVALID: not a cursor of such a page. */
enum err fanout_begin_at_cursor(struct fanout *fanout, struct bytes cursor) MUST_USE;
/* Appends the call for the partition's next slice of jobs. */
void fanout_encode_list(struct fanout *fanout, struct buf *out, const struct script_call *call);
/* Adds the slice to the page: O(jobs of the page) for each job. ERR_CORRUPT: not an answer of the
 * script. */
enum err fanout_take_jobs(struct fanout *fanout, struct part *part,
                          const struct script_answer *answer, const struct bytes *parts,
                          uint32_t count) MUST_USE;
/* The reply's jobs belong to the fanout. */
void fanout_reply_jobs(struct fanout *fanout, struct reply *reply);

/* ---- fanout_topics.c: TOPIC, TOPICS, DUE, and changes of a topic ---- */

void fanout_encode_topic(struct fanout *fanout, struct buf *out, const struct script_call *call);
void fanout_encode_due(struct fanout *fanout, struct buf *out, const struct script_call *call);
/* ERR_CORRUPT: not an answer of the script. */
enum err fanout_take_topics(struct fanout *fanout, struct part *part,
                            const struct script_answer *answer, const struct bytes *parts,
                            uint32_t count) MUST_USE;
enum err fanout_take_due(struct fanout *fanout, struct part *part,
                         const struct script_answer *answer, const struct bytes *parts,
                         uint32_t count) MUST_USE;
/* The reply's topics and times belong to the fanout. */
void fanout_reply_topics(struct fanout *fanout, struct reply *reply);

#endif
