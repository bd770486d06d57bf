/*
 * Makes a slice of jobs that were gathered. What it touches is nobody else's meanwhile: it is done
 * by the disk's thread, before that writes the slice.
 *
 * Pure but for memory. Nobody outside this folder includes this.
 */
#ifndef LATERD_STORE_SPILL_BUILD_H
#define LATERD_STORE_SPILL_BUILD_H

#include "store/slices/slice_build.h"

struct spill_gather;

/* A job of the slice. */
struct leaving {
    uint64_t seq;
    uint64_t where;     /* its record will be there */
    uint32_t len;       /* of that record */
    uint32_t old_bytes; /* of that in the log */
};

struct spill_build {
    struct spill_gather *gather; /* of which it is made; NULL: none is being made */
    uint64_t far_key;            /* store_far_key() */
    struct slice_build slice;    /* begun; ended by spill_build_run() */
    struct buf leaving;          /* struct leaving: the slice's jobs, in its order */
    uint64_t topics[4];          /* slice_topic_bits() of its topics */
};

/* The next of build->gather, in order of due time, until the slice is full or has all. Any thread.
   O(bytes of the slice), and when it is the first of `gather` once O(jobs of it). */
void spill_build_run(struct spill_build *build);

#endif
