/*
 * The order of the ready jobs of one topic that are not in memory: a 4-ary heap by priority, rank
 * and number, as ready_heap.h has of those that are. 28 bytes each, and a sixteenth where it grows.
 *
 * Nothing leads from a job to its entry. An entry says only that no job behind it is handed out
 * before the record at its place has been read. One whose job ended, or came back for good, is
 * stale: far.c removes it when it is the first, and others, some with each change, while they are
 * more than half.
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
    job_word where; /* of its record */
};

struct far_ready {
    struct far_ready_entry *entries;
    uint32_t count;
    uint32_t cap;
    uint32_t swept; /* the next entry that is looked at whether it is stale */
};

void far_ready_fini(struct far_ready *heap);
void far_ready_add(struct far_ready *heap, const struct far_ready_entry *entry);
/* An empty heap is to have so many entries, at least 1, which follow in the order of its places. */
void far_ready_begin(struct far_ready *heap, uint32_t entries);
/* The next of those that far_ready_begin() was told of. False: it comes before its parent, and is
   not taken. O(1). */
bool far_ready_append(struct far_ready *heap, const struct far_ready_entry *entry)
    __attribute__((warn_unused_result));
/* Removes the entry at a place below `count`; the first one's is 0. O(log n). */
void far_ready_remove(struct far_ready *heap, uint32_t place);
/* Does entry a come before entry b? */
bool far_ready_precedes(const struct far_ready_entry *a, const struct far_ready_entry *b);
/* Does the entry come before this job in memory? False for the job's own entry. */
bool far_ready_before(const struct far_ready_entry *entry, const struct job *job);

enum { FAR_READY_NEXT_MAX = 256 };
/* Places of the first entries in order, `max` (up to FAR_READY_NEXT_MAX) at most; returns how
   many. O(max log max). */
uint32_t far_ready_next(const struct far_ready *heap, uint32_t *out_places, uint32_t max);

void far_ready_valid(const struct far_ready *heap);

#endif
