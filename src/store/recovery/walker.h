/*
 * Goes along a segment's file and says of each place what lies there: the one who knows how batches
 * follow one another, and what is none. Recovery, verify, salvage and the survey of damage differ
 * in what they make of it.
 *
 * A place is looked at, then passed, or the walker is put elsewhere. The disk is waited for. Where
 * a large piece cannot be read, each place in it is asked for alone.
 */
#ifndef LATERD_STORE_WALKER_H
#define LATERD_STORE_WALKER_H

#include "store/recovery/scan.h"

enum place_kind {
    PLACE_BATCH,  /* the batch that is expected there */
    PLACE_OTHER,  /* a whole batch of this store and segment, with another number */
    PLACE_BLANK,  /* a block of zeros */
    PLACE_BAD,    /* a block of anything else: torn, or damaged */
    PLACE_UNREAD, /* a block, or the batch that begins there, that the disk cannot read */
    PLACE_END,    /* nothing: it is the end of the file */
};

struct walker {
    struct scan scan;
    uint64_t offset;        /* the place, a multiple of BLOCK */
    uint64_t expected;      /* number of the batch that should be there */
    enum place_kind kind;   /* of the place, when it was looked at */
    uint64_t bytes;         /* that lie there: a batch or a block … */
    struct batch_head head; /* … and of a batch its head, … */
    const char *batch;      /* … and all of it, good until the next look */
    enum err err;           /* PLACE_UNREAD: why */
    /* A read of these bytes has failed: what lies there is read piece by piece. */
    uint64_t narrow_from, narrow_until;
};

/* Opens the file. `fresh`: see open() of port/disk.h. Walking begins behind the header. */
enum err walker_open(struct walker *walker, struct disk *disk, uint32_t number, uint64_t size_bytes,
                     uint32_t tag, bool fresh) MUST_USE;
void walker_close(struct walker *walker);
/* The same, but the file stays open, and is the caller's. */
void walker_fini(struct walker *walker);

/* Goes to a place, and expects that batch there. */
void walker_go(struct walker *walker, uint64_t offset, uint64_t expected);
/* What is there? O(bytes of it). */
enum place_kind walker_look(struct walker *walker);
/* Goes behind what was looked at; behind the batch that was expected the next one is. */
void walker_pass(struct walker *walker);
/*
 * Looks at this place and those behind it for a whole batch with a number above `after` and below
 * `below`. False: there is none, and it is the end of the file.
 */
bool walker_seek(struct walker *walker, uint64_t after, uint64_t below);
/*
 * From this place on up to the end: where all that is left is zeros. `*out_batches` (may be NULL):
 * whether there is a whole batch before.
 */
uint64_t walker_blank_from(struct walker *walker, bool *out_batches);

#endif
