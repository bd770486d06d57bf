/*
 * Far jobs of one topic from blocks of many slices, merged into one order: that of due time and
 * number, or backwards. What was read of a block and not shown yet is kept, so that who goes
 * through all pages of a topic reads each block once.
 *
 *     block ──add──▶ runs: a heap by their next jobs ──take──▶ taken: on the present page
 *                                                                    └──begin──▶ gone
 *
 * A page may be asked for again, or but a part of it be used: what was taken stays until a later
 * page begins behind it.
 *
 * When it holds too much, the later half goes (`cut`): then nothing behind a bound is kept, and it
 * must be read once more when those before the bound are gone. So memory is bounded however many
 * slices there are, and a block is read a few times at most.
 *
 * Runs with few jobs are joined, so that what goes through all runs at once takes below a
 * millisecond with what one may hold (FAR_WALKS_BYTES), however few jobs each block has.
 *
 * Pure but for memory. Nobody outside this folder includes this.
 */
#ifndef LATERD_STORE_FAR_MERGE_H
#define LATERD_STORE_FAR_MERGE_H

#include "base/bytes.h"

/* Where a job stands in the order of its topic's delayed, or buried, ones. */
struct job_place {
    int64_t due_us;
    uint64_t seq;
};

struct far_run;

enum { FAR_MERGE_CLASSES = 8 };

/* A job that was read: its record, which is whole, lies in memory. */
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

/* Zeroed but for `backwards` and `after` is empty. */
struct far_merge {
    bool backwards;
    struct job_place after; /* jobs up to here are gone */
    struct far_run **runs;  /* a heap: those that have jobs that were not taken */
    uint32_t run_count, run_cap;
    struct far_run *small[FAR_MERGE_CLASSES]; /* of them: with 2^n jobs at least, to be joined */
    struct merge_taken *taken;                /* in order: shown on this page, `served` … */
    uint32_t taken_count, taken_cap;
    uint32_t kept, served; /* … of them, `kept` of which are still there */
    size_t bytes;          /* of memory that it holds, but for some for each run */
    bool cut;
    struct job_place bound; /* nothing behind this is kept */
};

void far_merge_fini(struct far_merge *merge);

/* Does `a` come before `b` in the order? */
bool far_merge_before(const struct far_merge *merge, const struct job_place *a,
                      const struct job_place *b);

/*
 * Adds the jobs of a block, copying their records; those behind the bound are left out. They need
 * not be in order, but it takes long if they are not. O(jobs and bytes), and if they are few each
 * is copied eight times more at most, later.
 */
void far_merge_add(struct far_merge *merge, const struct merge_job *jobs, uint32_t count);

/* A page begins behind this place. Jobs up to it are gone, and the others are shown again. */
void far_merge_begin(struct far_merge *merge, struct job_place after);
/* Could a page begin behind this place? Not in front of what is gone, nor behind what was taken. */
bool far_merge_has(const struct far_merge *merge, const struct job_place *after);
/* The next job of the page, or NULL: nothing is left. Good until the next call of another one. */
const struct merge_job *far_merge_next(const struct far_merge *merge);
/* The next job is on the page; or (drop) it does not live any more. O(log runs). */
void far_merge_take(struct far_merge *merge);
void far_merge_drop(struct far_merge *merge);

/* Nothing behind this place is to be kept. O(runs, log jobs of each). */
void far_merge_cut(struct far_merge *merge, struct job_place bound);
/* About the later half of what was not taken goes; at least one job stays. False: nothing went. */
bool far_merge_cut_half(struct far_merge *merge);
/* There was no living job up to the bound, none is kept: from now on there is no bound. */
void far_merge_pass_bound(struct far_merge *merge);

void far_merge_valid(const struct far_merge *merge); /* CHECKs. O(jobs) */

#endif
