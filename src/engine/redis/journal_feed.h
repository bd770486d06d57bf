/*
 * Feeds the journal with the entries that changes leave in Redis (scripts/entry.lua). One daemon,
 * the writer, does it for the whole queue: the one that has the lease in partition 0. Only MySQL
 * decides what MySQL has: its cursor, changed in one transaction with the rows, holds the last
 * entry of each partition, and its epoch fences a daemon that wrongly believes it is the writer.
 *
 *     Redis ≥ read and given ≥ committed in MySQL ≥ gone from Redis
 *
 * Each read begins with the last entry that was read before (the anchor). If that is missing or
 * differs, Redis has another history than MySQL, and nothing more is written.
 *
 * Single-threaded.
 */
#ifndef LATERD_ENGINE_REDIS_JOURNAL_FEED_H
#define LATERD_ENGINE_REDIS_JOURNAL_FEED_H

#include "engine/redis/journal_entry.h"
#include "engine/redis/journal_restore.h"
#include "engine/redis/journal_resync.h"
#include "engine/redis/script_request.h"
#include "port/journal_control.h"

struct journal_feed_options {
    const struct script_space *space;
    struct script_requests *calls;
    struct loop *loop;
    struct journal_maker *maker; /* NULL: there is no journal here */
    const char *label;           /* of this daemon, for people */
    /* Called when the entries of a journal that was given up are deleted: the partition must be
       opened again, which begins another journal. */
    void (*given_up)(void *owner, uint32_t partition);
    void *owner;
};

enum { REDIS_LABEL_MAX = JOURNAL_WRITER_MAX, FEED_HEAD_BYTES = 25 };

/* A partition's. */
struct feed_stream {
    struct redis_journal_feed *feed;
    uint32_t partition;
    uint64_t entry, mark; /* of the last entry that was read; 0: none */
    uint64_t committed;   /* the last entry that MySQL is known to have; 0: none */
    uint64_t committed_mark;
    uint64_t dropped; /* all entries before this one were deleted from Redis */
    /* As Redis has reported last: */
    uint64_t last;              /* its last entry */
    uint64_t waiting_bytes;     /* of entries in Redis */
    uint64_t waiting;           /* number of entries in Redis, while `committed` is not known */
    int64_t first_us;           /* time of the first of them; 0: none */
    uint32_t at_once;           /* entries asked for */
    int64_t look_us;            /* when to read again, if nothing happens there */
    int64_t not_before_us;      /* nothing is asked until then */
    int64_t looked_us;          /* when it was asked last */
    char head[FEED_HEAD_BYTES]; /* of the last entry that was read */
    bool has_head;              /* if it is known */
    bool asks_lag;              /* the call under way reads no entries */
    bool refuses;               /* the partition's last answer: it refuses pushes, because the
                                   journal is too far behind; see feed_stream_refuses() */
    uint64_t used;              /* calls to the partition at the time of the last look */
    uint64_t handover;          /* feed's `handovers` when the call was sent … */
    uint64_t reported;          /* … and when the lag was reported last; 0: never */
    bool pending;
};

struct redis_journal_feed {
    struct journal_control control;
    struct journal_feed_options options;
    struct feed_stream *streams; /* NULL: there is no journal here */
    struct timer tick;
    struct journal *journal;      /* NULL: we are not the writer */
    struct journal_status status; /* as it was reported last */
    struct queue given;           // read batches: see journal_feed.c
    struct queue left;            // journals that are ending: left_journal::place
    struct arena arena;
    uint8_t identity[JOURNAL_STORE_BYTES]; /* the queue's */
    uint64_t number;                       /* of the last batch */
    size_t held_bytes;                     /* of batches that the journal holds */
    uint64_t handovers;                    /* how often we became the writer */
    int64_t lease_sent_us;                 /* last */
    int64_t open_us;                       /* not opened before */
    int64_t lease_until_us;                /* we are the writer until then, by our clock */
    enum journal_state state;              /* since state_us; state_us 0: not determined yet */
    int64_t state_us;
    bool lease_pending, leaving;
    bool joined;          /* its cursor is known */
    bool knows_positions; /* the former journal was fenced, and no other daemon had the lease since:
                          feed_stream::committed is valid in all streams */
    bool broken;          /* journal and Redis do not match: logged, and nothing more is read */
    bool refuses;         /* a partition refuses pushes: MySQL is too far behind */
    bool reports_lag;     /* `refuses` has changed: the next lease call, sent at once, reports it */
    int64_t report_us;    /* when to log journal_behind again */
    char leader[REDIS_LABEL_MAX]; /* the label of another daemon that is the writer, if known */
    struct redis_restore restore;
    struct redis_resync *resync; /* NULL: there is no journal here */
};

/* True: the partition has reported its lag since we became the writer. */
static inline bool feed_stream_has_reported(const struct feed_stream *stream)
{
    return stream->reported == stream->feed->handovers;
}

/* True: it has reported since then that it refuses pushes. */
static inline bool feed_stream_refuses(const struct feed_stream *stream)
{
    return stream->refuses && feed_stream_has_reported(stream);
}

void redis_journal_init(struct redis_journal_feed *feed,
                        const struct journal_feed_options *options);
/* Closes the journal; entries that it has not committed are still in Redis. */
void redis_journal_fini(struct redis_journal_feed *feed);
/* From now on we may become the writer. */
void redis_journal_start(struct redis_journal_feed *feed);
/* Gives the lease back, so that others need not wait for its end. */
void redis_journal_leave(struct redis_journal_feed *feed);
/* For a resync: closes the journal, which was stopped, and opens it again in the next step. */
void redis_journal_reopen(struct redis_journal_feed *feed);
/* The reader of rows, for restores; NULL: there is no journal here. */
struct restore *redis_journal_restore(struct redis_journal_feed *feed);
/* For restores: true: we are the writer. */
bool redis_journal_leads(const struct redis_journal_feed *feed);
uint64_t redis_journal_has(const struct redis_journal_feed *feed, uint32_t partition);
uint64_t redis_journal_waiting(const struct redis_journal_feed *feed, uint32_t partition);
bool redis_journal_writes(const struct redis_journal_feed *feed);
/* True: this daemon is the writer, and a partition refuses pushes because MySQL is too far behind.
 */
bool redis_journal_refuses(const struct redis_journal_feed *feed);

/* ---- journal_describe.c ---- */

/* The journal's health and resync; NULL: there is no journal here. */
struct journal_control *redis_journal_control(struct redis_journal_feed *feed);
/* Age of the oldest change that MySQL lacks; 0: none. */
int64_t redis_journal_lag_us(const struct redis_journal_feed *feed);
/* Updates `state` and state_us; to be called often. */
void redis_journal_note_state(struct redis_journal_feed *feed);
void redis_journal_describe(const struct redis_journal_feed *feed, struct metric_sink *sink);

#endif
