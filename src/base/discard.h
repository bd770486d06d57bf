/*
 * Memory that nobody needs any more and that is given back a piece at a time: to free many MiB at
 * once takes the system milliseconds, in which nothing else would be done. Zeroed is empty and
 * valid. Until it is given back mem_used() counts it.
 *
 * One thread. Pure.
 */
#ifndef LATERD_BASE_DISCARD_H
#define LATERD_BASE_DISCARD_H

#include "base/bytes.h"

enum {
    DISCARD_PIECE_BYTES = 1024 * 1024, /* given back in a step … */
    DISCARD_SMALL_BYTES = 256 * 1024,  /* … and less than that at once */
};

struct discarded;

struct discard {
    struct discarded *first;
};

/* Takes memory of mem_alloc() or mem_realloc(), of so many bytes; NULL does nothing. O(1). */
void discard_memory(struct discard *discard, void *at, size_t bytes);
/* Takes the buffer's memory; it is empty then. O(1). */
void discard_buf(struct discard *discard, struct buf *buf);
/* Gives back a piece. True: there is more. */
bool discard_step(struct discard *discard);
void discard_fini(struct discard *discard); /* gives back all */

#endif
