/*
 * A k-way merge of the far jobs of one topic from blocks of many slices, by due time and number, or
 * backwards. Jobs that were read but not returned yet are kept, so a client that reads all pages of
 * a topic reads each block once.
 *
 *     block ──add──▶ runs: a heap by their next jobs ──take──▶ taken: on the present page
 *                                                                    └──begin──▶ gone
 *
 * A client may ask for a page again, or use only a part of it. So jobs that were taken for a page
 * are kept until a later page begins behind them.
 *
 * If it uses too much memory, the caller drops the later half (`cut`). Then jobs behind `bound` are
 * not kept, and their blocks have to be read again after the jobs before the bound have been
 * returned. So memory is bounded whatever the number of slices. That is rare: of many slices the
 * caller adds a part of a block of each only.
 *
 * Runs with less than 2 KiB are joined, so operations on all runs take some 2 ms at most within
 * FAR_WALKS_BYTES, however few jobs each block has. Larger ones are not: a run's memory is freed
 * when all of its jobs are gone.
 *
 * Single-threaded. Pure, except that it allocates memory. Used by src/store/slices only.
 */
#ifndef LATERD_STORE_FAR_MERGE_H
#define LATERD_STORE_FAR_MERGE_H

#include "base/bytes.h"

/* The sort key of a far job. */
struct job_place {
    int64_t due_us;
    uint64_t seq;
};

struct far_run;

enum { FAR_MERGE_CLASSES = 8 };

/* A job that was read; `record` is its whole record in memory. */
struct merge_job {
    struct job_place place;
    uint64_t where; /* of the record in its slice */
    const char *record;
    uint32_t len;
    uint32_t block; /* of the slice */
};

struct merge_taken {
    struct far_run *run;
    uint32_t job; /* of the run's */
};

/* A struct of zeros, with `backwards` and `after` set, is an empty merge. */
struct far_merge {
    bool backwards;
    struct job_place after; /* jobs up to this one have been dropped */
    bool rewound;           /* jobs up to `reached` had been taken, and will be returned again */
    struct job_place reached;
    struct far_run **runs; /* a heap of the runs that have jobs that were not taken */
    uint32_t run_count, run_cap;
    struct far_run *small[FAR_MERGE_CLASSES]; /* [n]: a run of 2^n jobs or more, to be joined */
    struct merge_taken *taken;                /* sorted; the page has returned `served` … */
    uint32_t taken_count, taken_cap;
    uint32_t kept, served; /* … of them, of which `kept` still live */
    size_t bytes;          /* of memory that it holds, without the arrays `runs` and `taken` */
    bool cut;
    struct job_place bound; /* with `cut`: jobs behind this are not kept */
};

void far_merge_fini(struct far_merge *merge);
/* Frees up to `most` taken jobs and runs. After it only far_merge_fini() and this function may be
   called. False: everything but the arrays is freed. O(most). */
bool far_merge_free_some(struct far_merge *merge, uint32_t most);

/* Does `a` come before `b` in the order? */
bool far_merge_before(const struct far_merge *merge, const struct job_place *a,
                      const struct job_place *b);

/*
 * Adds the jobs of a block and copies their records, except jobs behind the bound. `jobs` should be
 * sorted by due time: then O(jobs + bytes), else O(jobs^2). Jobs of a small block may be copied up
 * to FAR_MERGE_CLASSES times again when runs are joined.
 */
void far_merge_add(struct far_merge *merge, const struct merge_job *jobs, uint32_t count);

/* Begins a page behind this position: drops the jobs up to it; all later ones are returned again.
 */
void far_merge_begin(struct far_merge *merge, struct job_place after);
/* As if no job behind far_merge::after had been taken: more may be added that come between them. A
   page can still begin wherever one could before. O(jobs taken * log runs). */
void far_merge_rewind(struct far_merge *merge);
/* Can a page begin behind this position? No, if it lies before far_merge::after (jobs behind it
   were dropped) or behind the last job taken. */
bool far_merge_has(const struct far_merge *merge, const struct job_place *after);
/* The last job taken that lives, or was before far_merge_rewind(); or far_merge::after. */
const struct job_place *far_merge_last(const struct far_merge *merge);
/* The next job of the page; NULL: there is none. Valid until the next call that changes the merge.
 */
const struct merge_job *far_merge_next(const struct far_merge *merge);
/* Takes the next job for the page; or drops it, because it has ended. O(log runs). */
void far_merge_take(struct far_merge *merge);
void far_merge_drop(struct far_merge *merge);

/* Drops the jobs behind this position, and sets the bound. A run gives its memory back only if at
   least half of it is dropped. O(runs * log jobs of a run). */
void far_merge_cut(struct far_merge *merge, struct job_place bound);
/* Drops about the later half of the jobs that were not taken, but not all. False: dropped none. */
bool far_merge_cut_half(struct far_merge *merge);
/* No living job is left up to the bound: removes the bound. */
void far_merge_pass_bound(struct far_merge *merge);

void far_merge_valid(const struct far_merge *merge); /* CHECKs the invariants. O(jobs) */

#endif
