/*
 * An iterator over the blocks of all slices that may contain far jobs of one topic in one state, in
 * the order of due time, or backwards. Within a slice, blocks are in that order already.
 *
 * Jobs of delayed slices whose blocks have been loaded are in memory, or are far and ready by now.
 * So a search for ready jobs visits the loaded blocks of delayed slices as well, and a search for
 * delayed jobs skips them.
 *
 * All slices are examined once, a portion in each turn; from then on their next blocks are in a
 * heap, 40 bytes for each slice. So neither the work of a turn nor of a block grows with the number
 * of slices, but for the depth of the heap.
 *
 * With many slices there is not enough memory for a block of each. Then the caller uses a part of a
 * block only, and gives the rest back: far_blocks_put_back(). That has a place in the order, too.
 *
 * Slices may be added, removed or loaded between the calls: an entry is checked again before it is
 * returned. A new slice has a higher number than all examined ones, so it is found as well.
 *
 * Blocks whose first jobs have equal due times are ordered by the number of the first job
 * (slice_fence::seq); otherwise all of them would have to be read before the first job is known.
 * Slices written before this opening do not have these numbers in memory: BLOCKS_ORDER asks the
 * caller to read the slice's index once. If the index is damaged, all of the slice's blocks with
 * that due time come first. A block is returned without reading the index if no neighbour in its
 * slice has the same due time, because reading one block costs less than reading the index.
 *
 * Main thread only. Used by src/store/slices only.
 */
#ifndef LATERD_STORE_FAR_BLOCKS_H
#define LATERD_STORE_FAR_BLOCKS_H

#include "base/bytes.h"
#include "core/job.h"
#include "store/slices/far_merge.h"

struct slice;
struct slices;

/* Sort key of a block. */
struct block_place {
    int64_t at_us;   /* due time of its first job; backwards: ~(due time of its last job) */
    uint64_t seq;    /* number of that job, or 0: not known; backwards: ~number, or 0 */
    uint32_t number; /* of the slice */
    uint32_t rank;   /* the block's position in the slice; backwards: ~position */
};

/* What is left of a block: `records` records. `at`: bytes from the block's begin to the first one's
   begin, or backwards to the last one's end. Zeros: all of the block. */
struct block_rest {
    uint32_t at, records;
};

struct block_entry {
    struct block_place place;
    struct block_rest rest;
    bool added; /* the slice's other blocks have an entry of their own, or are not wanted */
};

/* A part of a block: of `slice`, … */
struct block_part {
    struct slice *slice;
    uint32_t block;
    struct block_rest rest; /* … all of the block, or what is left of it */
    bool divisible;         /* a part of it may be put back */
};

struct far_blocks {
    struct slices *slices;
    struct bytes topic;    /* borrowed */
    enum job_state state;  /* of the jobs: JOB_DELAYED, JOB_READY or JOB_BURIED */
    struct job_place from; /* only jobs behind this one are wanted */
    bool backwards;
    bool begun;               /* `last` is set */
    struct block_place last;  /* what was returned last */
    uint32_t next_number;     /* slices from this number on have not been examined */
    struct block_entry *heap; /* the next part of each of the others, and those that were added */
    uint32_t count, cap;
    struct block_place next; /* after BLOCKS_ENOUGH: no further part comes before this */
};

enum far_blocks_verdict {
    BLOCKS_NEXT,   /* *out_part is next */
    BLOCKS_NONE,   /* there are no more */
    BLOCKS_ENOUGH, /* all remaining ones come behind `until` */
    BLOCKS_ORDER,  /* first read the index of out_part->slice and call far_blocks_learn() */
    BLOCKS_LATER,  /* `*looks` is used up: call again in the next turn */
};

/* Frees its memory. */
void far_blocks_fini(struct far_blocks *blocks);
/* Adds the block if parts behind it were returned already. Otherwise it does nothing, because
   far_blocks_next() will return the block. O(log slices). */
void far_blocks_add(struct far_blocks *blocks, const struct slice *slice, uint32_t block);
/* Begins again behind this place. O(1). */
void far_blocks_restart(struct far_blocks *blocks, struct job_place from);
/* Bytes of memory. */
static inline size_t far_blocks_bytes(const struct far_blocks *blocks)
{
    return blocks->cap * sizeof(*blocks->heap);
}

/*
 * Returns the next part; with `bounded`, only if it may contain a job that is not behind `until`.
 * Decreases `*looks` by the number of slices examined. Writes *out_part on BLOCKS_NEXT and, of it
 * the slice, on BLOCKS_ORDER. O((slices examined + 1) * log slices).
 */
enum far_blocks_verdict far_blocks_next(struct far_blocks *blocks, bool bounded,
                                        struct job_place until, uint32_t *looks,
                                        struct block_part *out_part);

/* Puts back `rest`, not empty, of the part that was returned last, which is `divisible`. Its jobs
   are behind `behind`, a place in that part. O(log slices). */
void far_blocks_put_back(struct far_blocks *blocks, const struct block_part *part,
                         struct block_rest rest, struct job_place behind);

/* Does the job come before every job in the blocks from this position on? O(1). */
bool far_blocks_precedes(const struct far_blocks *blocks, const struct job_place *job,
                         const struct block_place *place);

/* Sets slice_fence::seq from `seqs`: the numbers of the first job of each block, then of the
   slice's last job. NULL: the index is damaged, so they stay unknown. O(blocks). */
void far_blocks_learn(struct slice *slice, const uint64_t *seqs);

/* Can the block contain far jobs in the state that is searched for? O(1). */
bool far_blocks_wants(const struct far_blocks *blocks, const struct slice *slice, uint32_t block);

/* Is no job of the block behind this place? False if that is not known. O(1). */
bool far_blocks_passed(const struct far_blocks *blocks, const struct slice *slice, uint32_t block,
                       const struct job_place *from);

/* The block has come into use. False: parts behind it have already been returned, so this iterator
   will not return it; or jobs up to `taken` have been taken, and it may have some in front of that.
   O(1). */
bool far_blocks_finds(const struct far_blocks *blocks, const struct slice *slice, uint32_t block,
                      const struct job_place *taken);

#endif
