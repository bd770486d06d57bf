/*
 * The ready jobs of one topic: a 4-ary heap ordered by priority, then rank (the due time, or for
 * jobs of beanstalkd clients the time of arrival: job_rank_us), then number.
 * Each job knows its place (job::prev), so any job leaves in O(log n). An entry has a copy of the
 * first two parts of its job's key, so that a comparison rarely reads a job.
 */
#ifndef LATERD_CORE_READY_HEAP_H
#define LATERD_CORE_READY_HEAP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/pool.h"
#include "core/job.h"

struct ready_heap_entry {
    uint32_t priority;
    uint32_t job; /* number in the jobs' pool */
    int64_t rank_us;
};

struct ready_heap {
    struct ready_heap_entry *entries;
    uint32_t count;
    uint32_t cap;
};

void ready_heap_fini(struct ready_heap *heap);
void ready_heap_add(struct ready_heap *heap, const struct pool *jobs, uint32_t number);
void ready_heap_remove(struct ready_heap *heap, const struct pool *jobs, uint32_t number);
uint32_t ready_heap_first(const struct ready_heap *heap); /* or POOL_NONE. O(1) */
enum { READY_HEAP_NEXT_MAX = 32 };
/* The first jobs in order, `max` (up to READY_HEAP_NEXT_MAX) at most; returns how many.
   O(max^2). */
uint32_t ready_heap_next(const struct ready_heap *heap, const struct pool *jobs,
                         uint32_t *out_numbers, uint32_t max);

/* Does job a come before job b? The order among ready jobs, the same everywhere. */
bool ready_heap_before(const struct job *a, const struct job *b);

void ready_heap_valid(const struct ready_heap *heap, const struct pool *jobs);

#endif
