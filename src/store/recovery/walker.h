/*
 * Walks through a segment's file and classifies what is at each position: a batch, zeros, damage.
 * Shared by recovery, verify, salvage and the survey of damage, so that all agree on where batches
 * are.
 *
 * walker_classify() classifies the current position; then walker_next() or walker_move_to() changes
 * it. Waits for the disk. If a large read fails, its blocks are read one by one.
 */
#ifndef LATERD_STORE_WALKER_H
#define LATERD_STORE_WALKER_H

#include "store/recovery/scan.h"

enum place_kind {
    PLACE_BATCH,  /* the expected batch */
    PLACE_OTHER,  /* a whole batch of this store and segment, with another number */
    PLACE_BLANK,  /* a block of zeros, or, in a file that was used again, of the earlier segment */
    PLACE_BAD,    /* a block of other bytes: a torn write, or damage */
    PLACE_UNREAD, /* a block, or a batch beginning there, that the disk cannot read */
    PLACE_END,    /* the end of the file */
};

struct walker {
    struct scan scan;
    uint64_t offset;        /* the current position, a multiple of BLOCK */
    uint64_t expected;      /* number of the batch that should be there */
    enum place_kind kind;   /* result of the last walker_classify() */
    uint64_t bytes;         /* length of the batch or block there … */
    struct batch_head head; /* … a batch's header … */
    const char *batch;      /* … and its bytes, valid until the next walker_classify() */
    enum err err;           /* PLACE_UNREAD: the error */
    /* A read of this range failed: it is read block by block. */
    uint64_t narrow_from, narrow_until;
};

/* Which segment, and of which store. */
struct walker_of {
    uint32_t number;
    uint32_t tag;
    uint64_t size_bytes;
    uint64_t key; /* segment_key() if its file was used again, else 0 */
};

/* Opens the file. Begins behind the segment's header. On an
   error, of that open(), there is nothing to close. */
enum err walker_open(struct walker *walker, struct disk *disk, const struct walker_of *of,
                     enum disk_cache cache) MUST_USE;
void walker_close(struct walker *walker);
/* As walker_close(), but leaves the file open; it is the caller's. */
void walker_fini(struct walker *walker);

/* Moves to this offset, where batch `expected` should be. */
void walker_move_to(struct walker *walker, uint64_t offset, uint64_t expected);
/* Classifies what is at the current position. O(its bytes). */
enum place_kind walker_classify(struct walker *walker);
/* Moves behind what walker_classify() found; after PLACE_BATCH the next number is expected. */
void walker_next(struct walker *walker);
/*
 * Searches from the current position on for a whole batch with a number above `after` and below
 * `below`. False: there is none; the position is the end of the file. O(bytes of the file).
 */
bool walker_seek(struct walker *walker, uint64_t after, uint64_t below);
/*
 * After PLACE_BATCH or PLACE_OTHER: the batch that its header calls durable. After PLACE_BAD the
 * same, if a header of this store and segment can be read there: one batch is under way at a time,
 * so of a torn one, which was never acknowledged, this is true as well. Else 0.
 */
uint64_t walker_durable(struct walker *walker);
/*
 * The offset, at or behind the current position, from which on the file has nothing of the segment.
 * `*out_batches` (may be NULL): is there a whole batch between? O(bytes of the file).
 */
uint64_t walker_blank_from(struct walker *walker, bool *out_batches);

#endif
