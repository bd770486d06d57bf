/*
 * Numbers of jobs, to be taken in the order of their ranks; those of one rank in the order of their
 * numbers. A job may be in it twice. 16 to 32 bytes for each. Pure.
 */
#ifndef LATERD_DISPATCH_RANK_HEAP_H
#define LATERD_DISPATCH_RANK_HEAP_H

#include <stddef.h>
#include <stdint.h>

struct ranked_job {
    int64_t rank_us;
    uint64_t seq;
};

/* Zeroed is empty. */
struct rank_heap {
    struct ranked_job *at;
    size_t count, cap;
};

/* Empties it, and frees its memory. */
void rank_heap_fini(struct rank_heap *heap);
/* O(log jobs). */
void rank_heap_add(struct rank_heap *heap, struct ranked_job job);
/* Removes the first job: at[0], which there must be. O(log jobs). */
void rank_heap_drop(struct rank_heap *heap);

#endif
