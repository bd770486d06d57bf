/*
 * Small blocks of many sizes, from pools by size: 29 sizes from 32 to 4,096 bytes, so that at most
 * a fifth of a block over 32 bytes is unused. Unlike heap memory, freed blocks are returned to the
 * system chunk by chunk (see pool.h), wherever longer-lived blocks lie. Larger blocks come from the
 * heap.
 *
 * A block has a handle and an address, both valid until blocks_give(); blocks never move. Handle 0
 * means no block. All calls are O(1). Single-threaded.
 */
#ifndef LATERD_BASE_BLOCKS_H
#define LATERD_BASE_BLOCKS_H

#include "base/pool.h"

enum { BLOCKS_SIZES = 29 };

struct blocks {
    struct pool pools[BLOCKS_SIZES];
    uint32_t spare; /* bit i: pools[i] may have an empty chunk to free */
};

void blocks_init(struct blocks *blocks);
void blocks_fini(struct blocks *blocks); /* blocks over 4,096 bytes must be given back first */
uint64_t blocks_take(struct blocks *blocks, size_t size_bytes); /* not zeroed; 8-aligned */
void *blocks_at(const struct blocks *blocks, uint64_t handle);  /* the address; handle is not 0 */
void blocks_give(struct blocks *blocks, uint64_t handle);       /* 0 does nothing */

bool blocks_trim(struct blocks *blocks); /* as pool_trim() */

#endif
