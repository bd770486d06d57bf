/*
 * Scratch memory that is given back all at once: one for a turn, one for a batch of requests.
 * A zeroed arena is empty and valid. Not for threads.
 */
#ifndef LATERD_BASE_ARENA_H
#define LATERD_BASE_ARENA_H

#include <stddef.h>

#include "base/bytes.h"
#include "base/discard.h"

struct arena_block;

struct arena {
    struct arena_block *block; /* newest first */
    char *next;                /* free in the newest block … */
    size_t left;               /* … so many bytes */
    size_t held;               /* of all blocks together */
};

void arena_fini(struct arena *arena);
void arena_reset(struct arena *arena); /* keeps one block of up to 1 MiB for next time */
/* The same for one that may be many MiB: what goes is given back by `discard`. O(blocks) */
void arena_fini_slowly(struct arena *arena, struct discard *discard);
void arena_reset_slowly(struct arena *arena, struct discard *discard);
void *arena_grow(struct arena *arena, size_t size_bytes); /* arena_alloc() from a new block */

/* Aligned to 16, not zeroed; good until the arena is reset or released. O(1) but for a block. */
static inline void *arena_alloc(struct arena *arena, size_t size_bytes)
{
    size_t size = (size_bytes + 15) & ~(size_t)15;
    if (arena->left <= size) /* none is left of an arena without blocks, whatever the size */
        return arena_grow(arena, size);
    void *at = arena->next;
    arena->next += size;
    arena->left -= size;
    return at;
}

struct bytes arena_copy(struct arena *arena, struct bytes from); /* lives as the arena's memory */

#endif
