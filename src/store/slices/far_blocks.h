/*
 * Which block of far jobs is to be read next by who goes through those of one topic, delayed, ready
 * or buried ones, in the order of their due times, or backwards: the blocks of all slices of such
 * jobs, each slice's in their order, as one. Jobs of blocks that have been loaded are in memory, or
 * far and ready: such blocks of slices of delayed jobs are wanted by who goes through ready ones.
 *
 * All slices that may have the topic must be looked at before the first block is known: some in
 * each turn. The next block of each of those that come first is kept, KEPT_MAX of them; when these
 * have been read, all are looked at once more. So what a page takes of memory does not grow with
 * the number of slices, nor does what a turn looks at.
 *
 * Slices may come, go and be loaded meanwhile: what is kept is looked at again before it is given
 * out. A new slice has a higher number than all that were looked at, so that it is found, too.
 *
 * Of blocks that are due at one instant the numbers of their first jobs say which comes first: else
 * all of them would have to be read before the first job is known. A slice that was made before
 * this opening does not know them: its index has to be read once (BLOCKS_ORDER). Where that is
 * damaged all of its blocks at the instant come first. So does a block of such a slice that is
 * alone in beginning at the instant: to read it takes less than to read the index.
 *
 * Nobody outside this folder includes this.
 */
#ifndef LATERD_STORE_FAR_BLOCKS_H
#define LATERD_STORE_FAR_BLOCKS_H

#include "base/bytes.h"
#include "core/job.h"
#include "store/slices/far_merge.h"

struct slice;
struct slices;

enum { FAR_BLOCKS_KEPT_MAX = 128 };

/* Where a block stands in the order in which they are read. */
struct block_place {
    int64_t at_us;   /* no job in it is due before; backwards: ~at_us, and none is due after that */
    uint64_t seq;    /* of those that are due then, none has a lower number; backwards: ~seq, … */
    uint32_t number; /* of the slice */
    uint32_t rank;   /* the block; backwards: ~block */
};

struct far_blocks {
    struct slices *slices;
    struct bytes topic;    /* borrowed */
    enum job_state state;  /* slices of such jobs */
    struct job_place from; /* jobs that come before this in the order are not wanted, nor it */
    bool backwards;
    bool begun;
    struct block_place last; /* given out */
    uint32_t next_number;    /* slices from this number on are to be looked at */
    struct block_place kept[FAR_BLOCKS_KEPT_MAX]; /* in order */
    uint32_t kept_count;
    bool cut;                 /* not all could be kept: … */
    struct block_place bound; /* … of those that were left out none comes before this */
    struct block_place next;  /* after BLOCKS_ENOUGH: the place of the next one, or before it */
};

enum far_blocks_verdict {
    BLOCKS_NEXT,   /* here is one */
    BLOCKS_NONE,   /* there is no more */
    BLOCKS_ENOUGH, /* all that there are are behind what is wanted */
    BLOCKS_ORDER,  /* of this slice the order must be known first: slice_fence::seq */
    BLOCKS_LATER,  /* no more slices may be looked at in this turn */
};

/*
 * The next block. With `bounded`, only if it may have a job that is not behind `until`.
 * Lowers `*looks` by the slices that it has looked at, when it is 0 it says BLOCKS_LATER. The
 * outputs are written on BLOCKS_NEXT only, and on BLOCKS_ORDER the slice.
 */
enum far_blocks_verdict far_blocks_next(struct far_blocks *blocks, bool bounded,
                                        struct job_place until, uint32_t *looks,
                                        struct slice **out_slice, uint32_t *out_block);

/* Does the job come before all that may be in blocks from this place on? O(1). */
bool far_blocks_precedes(const struct far_blocks *blocks, const struct job_place *job,
                         const struct block_place *place);

/* The numbers of the first jobs of all its blocks, in order, and of the last job; NULL: they cannot
   be known. O(blocks). */
void far_blocks_learn(struct slice *slice, const uint64_t *seqs);

/* May jobs in this state be far in the block? O(1). */
bool far_blocks_wants(const struct far_blocks *blocks, const struct slice *slice, uint32_t block);

/*
 * A block is in use from now on. False: blocks behind it have been given out already, so that it
 * will be passed over. O(1).
 */
bool far_blocks_finds(const struct far_blocks *blocks, const struct slice *slice, uint32_t block);

#endif
