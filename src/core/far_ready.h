/*
 * The ready jobs of one topic that are not in memory: a 4-ary heap by priority, rank and number, as
 * ready_heap.h is for ready jobs in memory. 28 bytes an entry; a large array grows by a sixteenth.
 *
 * A job does not know its entry, so an entry is not removed when its job ends or comes back to
 * memory: it becomes stale. front.c removes stale entries when they are the first, and, with each
 * change, a few others while more than half are stale.
 *
 * Single-threaded. Pure, except that it allocates memory.
 */
#ifndef LATERD_CORE_FAR_READY_H
#define LATERD_CORE_FAR_READY_H

#include <stdbool.h>
#include <stdint.h>

#include "core/job.h"

struct far_ready_entry {
    uint32_t priority;
    job_time_us rank_us; /* job_rank_us() */
    job_word seq;
    job_word where; /* struct stored::where of its record */
};

struct far_ready {
    struct far_ready_entry *entries;
    uint32_t count;
    uint32_t cap;
    uint32_t swept; /* the next entry to be checked for being stale */
};

void far_ready_fini(struct far_ready *heap);
void far_ready_add(struct far_ready *heap, const struct far_ready_entry *entry);
/* Reserves an empty heap for `entries` entries, at least 1, which far_ready_append() adds in the
   order of the array of an existing heap. */
void far_ready_begin(struct far_ready *heap, uint32_t entries);
/* Appends the next entry. False: it comes before its parent, so this is not a heap; not added.
 * O(1).
 */
bool far_ready_append(struct far_ready *heap, const struct far_ready_entry *entry)
    __attribute__((warn_unused_result));
/* Removes the entry at this position of the array, below `count`; 0 is the first. O(log n). */
void far_ready_remove(struct far_ready *heap, uint32_t place);
/* Does entry a come before entry b? */
bool far_ready_precedes(const struct far_ready_entry *a, const struct far_ready_entry *b);
/* Does the entry come before this job in memory? False for the job's own entry. */
bool far_ready_before(const struct far_ready_entry *entry, const struct job *job);

enum { FAR_READY_NEXT_MAX = 256 };
/* Writes the positions of the first entries in order, at most `max` (up to FAR_READY_NEXT_MAX);
   returns how many. O(max log max). */
uint32_t far_ready_next(const struct far_ready *heap, uint32_t *out_places, uint32_t max);

void far_ready_valid(const struct far_ready *heap);

#endif
