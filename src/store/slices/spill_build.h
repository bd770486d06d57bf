/*
 * Builds a slice from gathered jobs, on the disk's background thread, which writes the slice next.
 * No other thread touches these structs meanwhile.
 *
 * Pure, except that it allocates memory. Used by src/store/slices only.
 */
#ifndef LATERD_STORE_SPILL_BUILD_H
#define LATERD_STORE_SPILL_BUILD_H

#include "store/slices/slice_build.h"

struct spill_gather;

/* A job of the slice. */
struct leaving {
    uint64_t seq;
    uint64_t where;     /* place of its record in the slice */
    uint32_t len;       /* bytes of that record */
    uint32_t old_bytes; /* bytes of its record in the log */
};

struct spill_build {
    struct spill_gather *gather; /* the jobs; NULL: no slice is being built */
    uint64_t far_key;            /* store_far_key() */
    struct slice_build slice;    /* begun by the caller, completed by spill_build_run() */
    struct buf leaving;          /* struct leaving: the slice's jobs, in its order */
    uint64_t topics[4];          /* slice_topic_bits() of its topics */
};

/* Adds the next jobs of build->gather in order of due time until the slice is full or no jobs are
   left, and completes the slice. Any thread. O(bytes of the slice), plus O(jobs of `gather`) for
   sorting before its first slice. */
void spill_build_run(struct spill_build *build);

#endif
