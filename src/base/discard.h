/*
 * Frees large memory blocks a piece at a time: freeing many MiB at once takes milliseconds, too
 * long for one turn. A zeroed struct is empty and valid. mem_used() counts memory until it is
 * freed.
 *
 * Single-threaded. Pure.
 */
#ifndef LATERD_BASE_DISCARD_H
#define LATERD_BASE_DISCARD_H

#include "base/budget.h"
#include "base/bytes.h"

enum {
    DISCARD_PIECE_BYTES = 1024 * 1024, /* freed in one step */
    DISCARD_SMALL_BYTES = 256 * 1024,  /* smaller blocks are freed at once */
};

struct discarded;

struct discard {
    struct discarded *first;
    size_t bytes; /* that are not freed yet */
};

/* Takes over `bytes` of memory from mem_alloc() or mem_realloc(); NULL does nothing. O(1). */
void discard_memory(struct discard *discard, void *at, size_t bytes);
/* Takes over the buffer's memory and leaves it empty. O(1). */
void discard_buf(struct discard *discard, struct buf *buf);
/* For the next two, if there is something to free: most turns have nothing. */
bool discard_piece(struct discard *discard);
bool discard_pieces(struct discard *discard, struct budget *budget);
/* Frees a piece. True: there is more. About 100 µs. */
static inline bool discard_step(struct discard *discard)
{
    return discard->first && discard_piece(discard);
}
/* Frees pieces until the budget is spent, at least one. True: there is more. */
static inline bool discard_some(struct discard *discard, struct budget *budget)
{
    return discard->first && discard_pieces(discard, budget);
}
void discard_fini(struct discard *discard); /* frees everything at once */

#endif
