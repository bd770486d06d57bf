/*
 * Scratch memory that is given back all at once: one for a turn, one for a batch of requests.
 * A zeroed arena is empty and valid. Single-threaded.
 */
#ifndef LATERD_BASE_ARENA_H
#define LATERD_BASE_ARENA_H

#include <stddef.h>

#include "base/bytes.h"
#include "base/discard.h"

struct arena_block;

struct arena {
    struct arena_block *block; /* newest first */
    char *next;                /* the first free byte of the newest block */
    size_t left;               /* free bytes from there on */
    size_t held;               /* bytes of all blocks together */
};

void arena_fini(struct arena *arena);  /* O(blocks), as arena_reset() */
void arena_reset(struct arena *arena); /* keeps one block of up to 1 MiB for next time */
/* The same for an arena that may hold many MiB: `discard` frees its blocks, a piece at a time.
   O(blocks) */
void arena_fini_deferred(struct arena *arena, struct discard *discard);
void arena_reset_deferred(struct arena *arena, struct discard *discard);
void *arena_grow(struct arena *arena, size_t size_bytes); /* for arena_alloc(): from a new block */

/* Aligned to 16, not zeroed; valid until arena_reset() or arena_fini(). Never NULL. O(1) unless a
   new block is needed. */
static inline void *arena_alloc(struct arena *arena, size_t size_bytes)
{
    size_t size = (size_bytes + 15) & ~(size_t)15;
    if (arena->left <= size) /* equal, too: an arena without blocks has left == 0 */
        return arena_grow(arena, size);
    void *at = arena->next;
    arena->next += size;
    arena->left -= size;
    return at;
}

/* A copy of the bytes, valid as long as other memory of the arena. O(bytes). */
struct bytes arena_copy(struct arena *arena, struct bytes from);

#endif
