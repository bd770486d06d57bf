/*
 * Reads one whole block of a slice by the disk's threads, and tries again if that fails. Used by
 * slice_load.c and slice_changed.c; listings read parts of blocks (far_page.c).
 *
 * A read fails if the disk cannot read the block, or if the block does not match its checksum: the
 * second may have happened on the way from the disk, so later reads go past the page cache. If no
 * descriptor is free, that is no failure of the block, and is not counted.
 *
 * Main thread only. Used by src/store/slices only.
 */
#ifndef LATERD_STORE_BLOCK_READ_H
#define LATERD_STORE_BLOCK_READ_H

#include "store/record.h"
#include "store/slices/slices.h"

enum { BLOCK_READ_TRIES = 6 }; /* in about three seconds; then its owner should give up */

/* `failed` and `read` are the owner's to read; it may write none of them. */
struct block_read {
    struct slices *slices;
    struct slice *slice; /* NULL: none; all is zero */
    uint32_t block;      /* its number */
    bool reading;
    bool there;             /* the block is in memory, and `walk` goes through its records */
    bool good;              /* of the last read: it matches its checksum */
    uint32_t payload_bytes; /* if it does */
    char *bytes;
    size_t len;
    struct disk_op op;
    struct batch_walk walk;
    unsigned tries;      /* reads that have failed */
    int64_t retry_at_us; /* after a failure: when to start the next read */
    /* Called when a read has failed and was counted; OK: the block does not match its checksum. May
       end the read. */
    void (*failed)(struct block_read *read, enum err err);
};

/* Nothing is read yet. Allocates memory for the block. */
void block_read_init(struct block_read *read, struct slices *slices, struct slice *slice,
                     uint32_t block, void (*failed)(struct block_read *read, enum err err));
/* Frees the memory. No read may be under way. Does nothing if all is zero. */
void block_read_fini(struct block_read *read);
/* Starts the read, past the page cache if `fresh` or one has failed. `ahead`: disk_op::ahead. The
   slice must stay until it has ended. */
void block_read_start(struct block_read *read, bool fresh, uint64_t ahead);
/* No read of the block is good: `walk` will go through all bytes that came, good or not. */
void block_read_use_damaged(struct block_read *read);
/* Is it time for the (next) read? */
bool block_read_due(const struct block_read *read);
/* How long whoever reads in the background waits after a block: 13 MB/s, however long it is. */
int64_t block_read_pause_us(const struct block_read *read);
/* Where the block begins in its file. */
uint64_t block_read_offset(const struct block_read *read);
void block_read_valid(const struct block_read *read); /* CHECKs */

#endif
