/*
 * Feeds the journal with the entries that changes leave in Redis (scripts/entry.lua). One daemon
 * does it for the whole queue: the one that has the lease in partition 0. What MySQL has is said by
 * MySQL alone: its cursor, changed in one transaction with the rows, has the last entry of each
 * partition, and its epoch fences who believes wrongly that it is the one.
 *
 *     Redis ≥ read and given ≥ committed in MySQL ≥ gone from Redis
 *
 * Each read begins with the last entry that was read. If that is not there, or is another, Redis
 * has another history than MySQL, and nothing more is written.
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
    const char *label;           /* by which people know this daemon */
    /* The entries of a journal that was given up are gone: opening the partition begins another. */
    void (*given_up)(void *owner, uint32_t partition);
    void *owner;
};

enum { REDIS_LABEL_MAX = JOURNAL_WRITER_MAX, FEED_HEAD_BYTES = 25 };

/* A partition's. */
struct feed_stream {
    struct redis_journal_feed *feed;
    uint32_t partition;
    uint64_t entry, mark; /* read so far; 0: nothing */
    uint64_t committed;   /* in MySQL; 0: nothing that we know of */
    uint64_t committed_mark;
    uint64_t dropped; /* all before this one are gone */
    uint64_t waiting_bytes, last;
    uint64_t waiting; /* entries, while `committed` is not known, */
    int64_t first_us; /* and when the first of them was; 0: none waits */
    uint32_t at_once; /* entries asked for */
    int64_t look_us;
    int64_t not_before_us;      /* nothing is asked */
    int64_t looked_us;          /* last, without reading */
    char head[FEED_HEAD_BYTES]; /* of the last entry that was read, */
    bool has_head;              /* if it is known */
    bool looks;                 /* asked without reading */
    bool refuses;               /* pushes, as it said last: the journal is too far behind; see
                                   feed_stream_refuses() */
    uint64_t used;              /* the partition's, when it was looked at */
    uint64_t handover;          /* in which it was asked, */
    uint64_t told;              /* and in which it has said last what waits; 0: never */
    bool asked;
};

struct redis_journal_feed {
    struct journal_control control;
    struct journal_feed_options options;
    struct feed_stream *streams; /* NULL: there is no journal here */
    struct timer tick;
    struct journal *journal;      /* NULL: we are not the one */
    struct journal_status status; /* as it was told last */
    struct queue given;           // read batches: see journal_feed.c
    struct queue left;            // journals that are ending: left_journal::place
    struct arena arena;
    uint8_t identity[JOURNAL_STORE_BYTES]; /* the queue's */
    uint64_t number;                       /* of the last batch */
    size_t held_bytes;                     /* that the journal has: as told, and given since */
    uint64_t handovers;                    /* times that we became the one */
    int64_t lease_asked_us;                /* last */
    int64_t open_us;                       /* not opened before */
    int64_t lease_until_us;                /* we are the one until then, by our clock */
    enum journal_state state;              /* since state_us; 0: it was not looked at yet */
    int64_t state_us;
    bool lease_asked, leaving;
    bool joined;       /* its cursor is known */
    bool knows_places; /* the journal before this one was fenced, and nobody else had the
                          lease since: each stream has what was committed */
    bool broken;       /* it and Redis do not fit: told, and nothing is read any more */
    bool refuses;      /* a partition refuses pushes: MySQL is too far behind */
    bool reports_lag;  /* that has changed: the lease is asked for at once, and says so */
    int64_t report_us; /* then that is told again */
    char leader[REDIS_LABEL_MAX]; /* the label of another that writes it, as far as we know */
    struct redis_restore restore;
    struct redis_resync *resync; /* NULL: there is no journal here */
};

/* Has the partition said how it is, since we are the one? */
static inline bool feed_stream_has_told(const struct feed_stream *stream)
{
    return stream->told == stream->feed->handovers;
}

/* Does it refuse pushes, as it has said since then? */
static inline bool feed_stream_refuses(const struct feed_stream *stream)
{
    return stream->refuses && feed_stream_has_told(stream);
}

void redis_journal_init(struct redis_journal_feed *feed,
                        const struct journal_feed_options *options);
/* Closes the journal; entries that it has not committed are still in Redis. */
void redis_journal_fini(struct redis_journal_feed *feed);
/* From now on we may become the one. */
void redis_journal_start(struct redis_journal_feed *feed);
/* We are no longer: others need not wait for the lease to end. */
void redis_journal_leave(struct redis_journal_feed *feed);
/* For a resync: the journal, which has been stopped, is closed, and opened again with the next
 * look. */
void redis_journal_reopen(struct redis_journal_feed *feed);
/* Who brings jobs back; NULL: there is no journal here. */
struct restore *redis_journal_restore(struct redis_journal_feed *feed);
/* For that: are we the one? Is more being written to MySQL? The partition's last entry there, and
   bytes of entries that wait in Redis, as it said last. */
bool redis_journal_leads(const struct redis_journal_feed *feed);
uint64_t redis_journal_has(const struct redis_journal_feed *feed, uint32_t partition);
uint64_t redis_journal_waiting(const struct redis_journal_feed *feed, uint32_t partition);
bool redis_journal_writes(const struct redis_journal_feed *feed);
/* Has this daemon, which writes, seen that pushes are refused, as MySQL is too far behind? */
bool redis_journal_refuses(const struct redis_journal_feed *feed);

/* ---- journal_describe.c ---- */

/* How it is, and its resync; NULL: there is no journal here. */
struct journal_control *redis_journal_control(struct redis_journal_feed *feed);
/* Age of the oldest change that MySQL lacks; 0: none. */
int64_t redis_journal_lag_us(const struct redis_journal_feed *feed);
/* Since when it is as it is: often. */
void redis_journal_note_state(struct redis_journal_feed *feed);
void redis_journal_describe(const struct redis_journal_feed *feed, struct metric_sink *sink);

#endif
