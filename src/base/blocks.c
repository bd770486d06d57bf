/*
 * A handle holds the index of the size plus one in its top byte, and the number in the pool below.
 * The handle of a block from the heap is its address, whose top byte is 0.
 */
#include "base/blocks.h"

#include "base/check.h"
#include "base/mem.h"

enum { SMALLEST = 32, LARGEST = 4096, SIZE_SHIFT = 56 };

/* Sizes are 32 and then four in each doubling: 40 48 56 64, 80 96 112 128, … */
static unsigned size_of(size_t size_bytes)
{
    if (size_bytes <= SMALLEST)
        return 0;
    unsigned top = 63u - (unsigned)__builtin_clzll(size_bytes - 1);
    unsigned quarter = (unsigned)((size_bytes - 1) >> (top - 2)) & 3;
    return (top - 5) * 4 + quarter + 1;
}

static size_t bytes_of_size(unsigned size)
{
    unsigned doublings = (size + 3) / 4, quarter = (size + 3) % 4;
    return size == 0 ? SMALLEST : ((size_t)5 + quarter) << (doublings + 2);
}

void blocks_init(struct blocks *blocks)
{
    blocks->spare = 0;
    for (unsigned size = 0; size < BLOCKS_SIZES; size++)
        pool_init(&blocks->pools[size], bytes_of_size(size));
}

void blocks_fini(struct blocks *blocks)
{
    for (unsigned size = 0; size < BLOCKS_SIZES; size++)
        pool_fini(&blocks->pools[size]);
    blocks->spare = 0;
}

uint64_t blocks_take(struct blocks *blocks, size_t size_bytes)
{
    if (size_bytes > LARGEST) {
        uint64_t handle = (uintptr_t)mem_alloc(size_bytes);
        CHECK(handle >> SIZE_SHIFT == 0);
        return handle;
    }
    unsigned size = size_of(size_bytes);
    return (uint64_t)(size + 1) << SIZE_SHIFT | pool_take_dirty(&blocks->pools[size]);
}

void *blocks_at(const struct blocks *blocks, uint64_t handle)
{
    unsigned size = (unsigned)(handle >> SIZE_SHIFT);
    if (size == 0)
        return (void *)(uintptr_t)handle;
    return pool_at(&blocks->pools[size - 1], (uint32_t)handle);
}

void blocks_give(struct blocks *blocks, uint64_t handle)
{
    unsigned size = (unsigned)(handle >> SIZE_SHIFT);
    if (size == 0) {
        mem_free((void *)(uintptr_t)handle);
        return;
    }
    struct pool *pool = &blocks->pools[size - 1];
    pool_give(pool, (uint32_t)handle);
    if (pool_has_spare(pool))
        blocks->spare |= 1u << (size - 1);
}

bool blocks_trim(struct blocks *blocks)
{
    if (blocks->spare) {
        unsigned size = (unsigned)__builtin_ctz(blocks->spare);
        if (!pool_trim(&blocks->pools[size]))
            blocks->spare &= ~(1u << size);
    }
    return blocks->spare != 0;
}
