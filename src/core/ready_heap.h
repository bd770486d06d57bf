/*
 * The ready jobs of one topic: a 4-ary heap ordered by priority, then rank (the due time, or for
 * jobs of beanstalkd clients the time of arrival: job_rank_us), then number.
 * Each job knows its place (job::prev), so any job leaves in O(log n). Entries carry the key's
 * first parts, so that a comparison rarely touches a job.
 */
#ifndef LATERD_CORE_READY_HEAP_H
#define LATERD_CORE_READY_HEAP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/pool.h"
#include "core/job.h"

struct queue_entry {
    uint32_t priority;
    uint32_t job; /* number in the jobs' pool */
    int64_t rank_us;
};

struct queue {
    struct queue_entry *entries;
    uint32_t count;
    uint32_t cap;
};

void queue_fini(struct queue *queue);
void queue_add(struct queue *queue, const struct pool *jobs, uint32_t number);
void queue_remove(struct queue *queue, const struct pool *jobs, uint32_t number);
uint32_t queue_first(const struct queue *queue); /* or POOL_NONE */

/* Does job a come before job b? The order among ready jobs, the same everywhere. */
bool queue_before(const struct job *a, const struct job *b);

void queue_valid(const struct queue *queue, const struct pool *jobs);

#endif
