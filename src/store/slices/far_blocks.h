/*
 * An iterator over the blocks of all slices that may contain far jobs of one topic in one state, in
 * the order of due time, or backwards. Within a slice, blocks are in that order already.
 *
 * Jobs of delayed slices whose blocks have been loaded are in memory, or are far and ready by now.
 * So a search for ready jobs visits the loaded blocks of delayed slices as well, and a search for
 * delayed jobs skips them.
 *
 * To find the first block, all slices have to be examined, a portion in each turn. The next blocks
 * of the FAR_BLOCKS_KEPT_MAX slices that come first are kept in a sorted array; when these have
 * been read, all slices are examined again. So neither the memory of a page nor the work of a turn
 * grows with the number of slices.
 *
 * Slices may be added, removed or loaded between the calls: a kept block is checked again before it
 * is returned. A new slice has a higher number than all examined ones, so it is found as well.
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

enum { FAR_BLOCKS_KEPT_MAX = 128 };

/* Sort key of a block. */
struct block_place {
    int64_t at_us;   /* due time of its first job; backwards: ~(due time of its last job) */
    uint64_t seq;    /* number of that job, or 0: not known; backwards: ~number, or 0 */
    uint32_t number; /* of the slice */
    uint32_t rank;   /* the block's position in the slice; backwards: ~position */
};

struct far_blocks {
    struct slices *slices;
    struct bytes topic;    /* borrowed */
    enum job_state state;  /* of the jobs: JOB_DELAYED, JOB_READY or JOB_BURIED */
    struct job_place from; /* only jobs behind this one are wanted */
    bool backwards;
    bool begun;              /* `last` is set */
    struct block_place last; /* the block returned last */
    uint32_t next_number;    /* slices from this number on have not been examined */
    struct block_place kept[FAR_BLOCKS_KEPT_MAX]; /* sorted */
    uint32_t kept_count;
    bool cut;                 /* some blocks did not fit into `kept`: … */
    struct block_place bound; /* … none of them comes before this */
    struct block_place next;  /* after BLOCKS_ENOUGH: no further block comes before this */
};

enum far_blocks_verdict {
    BLOCKS_NEXT,   /* the outputs are the next block */
    BLOCKS_NONE,   /* there are no more blocks */
    BLOCKS_ENOUGH, /* all remaining blocks come behind `until` */
    BLOCKS_ORDER,  /* first read the index of *out_slice and call far_blocks_learn() */
    BLOCKS_LATER,  /* `*looks` is used up: call again in the next turn */
};

/*
 * Returns the next block; with `bounded`, only if it may contain a job that is not behind `until`.
 * Decreases `*looks` by the number of slices examined. Writes both outputs on BLOCKS_NEXT, and
 * *out_slice on BLOCKS_ORDER. O(slices examined * log FAR_BLOCKS_KEPT_MAX).
 */
enum far_blocks_verdict far_blocks_next(struct far_blocks *blocks, bool bounded,
                                        struct job_place until, uint32_t *looks,
                                        struct slice **out_slice, uint32_t *out_block);

/* Does the job come before every job in the blocks from this position on? O(1). */
bool far_blocks_precedes(const struct far_blocks *blocks, const struct job_place *job,
                         const struct block_place *place);

/* Sets slice_fence::seq from `seqs`: the numbers of the first job of each block, then of the
   slice's last job. NULL: the index is damaged, so they stay unknown. O(blocks). */
void far_blocks_learn(struct slice *slice, const uint64_t *seqs);

/* Can the block contain far jobs in the state that is searched for? O(1). */
bool far_blocks_wants(const struct far_blocks *blocks, const struct slice *slice, uint32_t block);

/* The block has come into use. False: blocks behind it have already been returned, so this iterator
   will not return it. O(1). */
bool far_blocks_finds(const struct far_blocks *blocks, const struct slice *slice, uint32_t block);

#endif
