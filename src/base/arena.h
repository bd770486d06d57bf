/*
 * Scratch memory that is given back all at once: one for a turn, one for a batch of requests.
 * A zeroed arena is empty and valid. Not for threads.
 */
#ifndef LATERD_BASE_ARENA_H
#define LATERD_BASE_ARENA_H

#include <stddef.h>

#include "base/bytes.h"

struct arena_block;

struct arena {
    struct arena_block *block; /* newest first */
    size_t used;               /* of the newest block */
    size_t held;               /* of all blocks together */
};

void arena_fini(struct arena *arena);
void arena_reset(struct arena *arena); /* keeps one block of up to 1 MiB for next time */
void *arena_alloc(struct arena *arena, size_t size_bytes); /* aligned to 16, not zeroed */
struct bytes arena_copy(struct arena *arena, struct bytes from);

#endif
