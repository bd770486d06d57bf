/*
 * What a LIST has found in memory beyond its page, kept for the next page: jobs in memory have no
 * order by due time, so without it each page would look at all of them.
 *
 *     scan of all jobs ──offer──▶ the first LIST_WALK_MAX behind the page ──heap──▶ page by page
 *                                      ▲
 *     a job enters that state ─────────┘
 *
 * It is a cache: a page that finds no walk which continues at its cursor looks at all jobs again. A
 * walk ends when it was not used for ten seconds, and when memory is short. A walk of a topic that
 * was forgotten is not found any more.
 *
 * Invariant: behind list_walk::after, and not behind list_walk::bound if it is `cut`, each job in
 * memory of that topic and state has an entry. An entry's job may have left that state since, and a
 * job may have several entries: list_walk_take() skips such entries.
 *
 * Single-threaded. Used by src/core only.
 */
#ifndef LATERD_CORE_LIST_WALK_H
#define LATERD_CORE_LIST_WALK_H

#include "base/cursor.h"
#include "base/list.h"
#include "core/job.h"
#include "core/top_k.h"

struct core;
struct topic;

enum {
    /* Entries (24 bytes each) that a scan finds for a walk; jobs that enter the state later may add
       three times as many. */
    LIST_WALK_MAX = 32 * 1024,
    LIST_WALKS_MAX = 4, /* walks that are kept; also scans under way that have a walk */
};

struct list_walk {
    struct list link; // core::walks, the longest unused first
    uint32_t topic;   /* its number, and topic::made: numbers are used again */
    uint64_t topic_made;
    enum job_state state;
    bool backwards;
    struct cursor after; /* the last entry that was taken, or where the first page begins */
    struct top_k found;  /* once it is `whole` a heap with the first in order on top */
    bool whole;          /* the scan is over */
    bool cut;            /* jobs behind `bound` may have no entry */
    struct top_k_entry bound;
    uint32_t skipped; /* entries that this page did not take */
    int64_t until_us; /* it ends then, if it is not used */
};

/* The walk that continues behind `after`, or NULL. O(walks). */
struct list_walk *list_walk_find(struct core *core, const struct topic *topic, enum job_state state,
                                 bool backwards, const struct cursor *after);
/* A new one, to which a scan offers all jobs behind `after`. NULL: too many scans have one. */
struct list_walk *list_walk_new(struct core *core, const struct topic *topic, enum job_state state,
                                bool backwards, const struct cursor *after);
/* NULL does nothing. O(1). */
void list_walk_end(struct list_walk *walk);

/* The scan has offered all jobs. O(entries). */
void list_walk_found(struct list_walk *walk);
/*
 * Takes the first entry whose job is still as it was; none is taken twice. ERR_NOT_FOUND: there is
 * none up to the bound; ERR_AGAIN: the page has skipped so many that to look for more would take
 * too long. O(entries skipped * log entries), which is spent of the budget.
 */
enum err list_walk_take(struct core *core, struct list_walk *walk,
                        struct top_k_entry *out_entry) MUST_USE;
/* Are there more jobs behind those that were taken, perhaps? The same order. */
bool list_walk_more(struct core *core, struct list_walk *walk);
/* The page is over: the next one begins behind the last entry that was taken. It may end another
 * walk. O(walks). */
void list_walk_keep(struct core *core, struct list_walk *walk);

/* The job has entered a state; call it if core::walks is not empty. O(walks * log entries). */
void list_walks_entered(struct core *core, uint32_t number);
/* Ends those that were not used for long; when memory is short, all but those of scans. */
void list_walks_expire(struct core *core);
int64_t list_walks_next_us(const struct core *core); /* when the next one ends; or INT64_MAX */
void list_walks_fini(struct core *core);
/* CHECKs the invariant. O(jobs * walks * entries): for tests. */
void list_walks_valid(const struct core *core);

#endif
