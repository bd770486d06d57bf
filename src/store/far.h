/*
 * Far jobs: those whose records lie in slices, and which the core need not have in memory. Reads
 * one, the first ones of a topic, and counts those that come soon.
 */
#ifndef LATERD_STORE_FAR_H
#define LATERD_STORE_FAR_H

#include "store/store.h"

/* Some jobs cannot depart until no command goes through their topic's jobs (far_visited); no
 * command on far jobs should begin before they have. */
bool store_far_departs(const struct store *store);
/* The same of jobs of this topic: no command that searches them should begin. */
bool store_far_departs_of(const struct store *store, struct bytes topic);
/* Far jobs whose due time is near wait because callbacks->far_room() returned false; until all of
   them are in memory, nothing else should take memory that becomes free. O(1). */
bool store_far_waits(const struct store *store);

/* For callbacks->relocate_moves: is the last MOVE of the job whose record lies there unreadable?
   O(log slices). */
bool store_move_unread(const struct store *store, uint64_t where);

/* The state of the jobs in the slice at this place; JOB_GONE: no slice is there. O(log slices). */
enum job_state store_slice_state(const struct store *store, uint64_t where);

/*
 * A far job whose record is at this place, and which is due by this time, has been due: if the
 * clock was set back over a restart, it was ahead of that before, when the log was written.
 * INT64_MIN: nothing is known. O(log slices).
 */
int64_t store_far_due_by(const struct store *store, uint64_t where);
/* Was the clock set back, so that store_far_due_by() may say more than the clock does? O(1). */
bool store_far_was_later(const struct store *store);

/* In callbacks->far_begin: may replay_far() name a job whose record is at this place, because that
 * is in a slice, or in a segment from which jobs have moved to one? O(log slices). */
bool store_may_be_far(const struct store *store, uint64_t where);

/* The seed for hashes of clients' ids in slices' indexes; fixed for the life of the store. O(1). */
uint64_t store_far_key(const struct store *store);

/*
 * The record of one far job that is read by the disk's threads. The caller sets `where`, `done` and
 * `owner`, and must not move the struct from store_far_fetch() to store_far_fetch_end().
 */
struct far_fetch {
    uint64_t where;
    /* Called once when it has ended, from store_poll() or store_turn(), never from
     * store_far_fetch(); may call only store_far_fetch_end(). `err` is set, and on OK `event`, an
     * EVENT_JOB with all of the record, valid until store_far_fetch_end(). */
    void (*done)(struct far_fetch *fetch);
    void *owner;  /* for done */
    enum err err; /* out: OK, ERR_IO, ERR_DAMAGED (no record begins there, or it is damaged) */
    struct event event;    /* out */
    struct far_read *read; /* the store's */
};

enum { FAR_ROOM_BYTES = 4096 };

struct far_room {
    int64_t retry_us[RETRY_STEPS_MAX];
    _Alignas(8) char bytes[FAR_ROOM_BYTES];
};

/*
 * Reads the record at a place in a slice without waiting. `out_event`, as that of a far_fetch,
 * borrows from `room`. ERR_AGAIN: it is not all in memory, or too long for the room; ERR_DAMAGED.
 * O(its bytes).
 */
enum err store_far_cached(struct store *store, uint64_t where, struct far_room *room,
                          struct event *out_event) MUST_USE;

/*
 * Reads the record at a place in a slice: one read of the disk, or two if it is long, unless it is
 * in memory. There is no limit on fetches; some are read at a time, the others wait in order. The
 * slice is kept until the record has been read. O(1).
 */
void store_far_fetch(struct store *store, struct far_fetch *fetch);
/* Frees what it brought; if it has not ended, it never will. O(1). Does nothing to an ended one. */
void store_far_fetch_end(struct store *store, struct far_fetch *fetch);
/* The memory that the event of an ended fetch lies in, for event::memory: who takes it over keeps
   it until the event is not used any more. */
struct buf *store_far_fetch_memory(struct far_fetch *fetch);

enum { FAR_PAGE_BODY_MAX = 64 * 1024 };

/*
 * The first far jobs of a topic, in the order of due time and number, or the last ones, backwards.
 * The caller sets the fields above `done`, `done` and `owner`, and must not move the struct from
 * store_far_page() to store_far_page_end().
 */
struct far_page {
    struct bytes topic;
    enum job_state state; /* JOB_DELAYED, JOB_READY or JOB_BURIED */
    int64_t due_us;       /* only jobs that come after (backwards: before) this due time … */
    uint64_t seq;         /* … and number */
    bool backwards;       /* in descending order, from the last one on */
    uint32_t max;         /* number of jobs at most; at least 1 */
    /* False: only the length of a body is set. True: the same of those above FAR_PAGE_BODY_MAX,
       which would take too long to copy: their .body.at is NULL. They count in the page's size. */
    bool with_bodies;
    /* Called once when it has ended, from store_far_page(), store_poll() or store_turn(). `err` is
     * set, and on OK all below it, valid until store_far_page_end(). */
    void (*done)(struct far_page *page);
    void *owner;                /* for done */
    enum err err;               /* out: OK, ERR_IO, ERR_AGAIN (no descriptor is free) */
    uint32_t count;             /* out: may be less than `max` if the jobs are long */
    struct event *events;       /* out: EVENT_JOBs with their places */
    bool more;                  /* out: there may be more jobs behind them */
    struct far_page_read *read; /* the store's */
};

/*
 * Reads the blocks of slices that may have such jobs, one by one: few blocks if many of the jobs
 * that are due early belong to the topic; if few do, all blocks of the slices that have any. Jobs
 * that arrive or end meanwhile may be included or not. Each turn handles 256 slices at most, for
 * all pages.
 *
 * What was read of a block behind the page is kept for the page that begins there. So a caller that
 * reads all pages in order reads each block once, forwards or backwards. If memory does not suffice
 * for a block of each slice, blocks are read in parts (far_page.h), backwards a few times each.
 * With max 1 nothing is kept.
 */
void store_far_page(struct store *store, struct far_page *page);
/* Frees what it brought; if it has not ended, it never will. O(1). Does nothing to an ended one. */
void store_far_page_end(struct store *store, struct far_page *page);

/*
 * About how many far jobs are due by `limit_us`. With few slices they are counted. With many this
 * is the result of a survey of the last ten seconds, for the nearest of these times: now, in 1 min,
 * 5 min, 1 h, 1 d, ever. O(16 slices' blocks).
 */
uint64_t store_far_due_until(const struct store *store, int64_t limit_us);

enum { FAR_DUE_TIMES_MAX = 64 };

/* How many far jobs are due by given times. The caller sets the fields above `next_slice`. */
struct far_due {
    const int64_t *until_us; /* the times, ascending, … */
    uint32_t count;          /* … at most FAR_DUE_TIMES_MAX */
    uint64_t *jobs;          /* for each time, the number of jobs due by then is added here */
    uint32_t next_slice;     /* internal; 0 at first */
};

/*
 * Counts in up to `most` more slices. False: all slices have been counted. Exact, except that jobs
 * of a block (64 KiB) in which one of the times falls are assumed to be spread evenly over the
 * block's time, and that jobs that depart, end or arrive between the calls may be counted or not.
 * O(times) for a slice; O(its blocks and dead bits) if a time falls into it.
 */
bool store_far_due(struct store *store, struct far_due *due, uint32_t most);

#endif
