#include "base/pool.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"

void pool_init(struct pool *pool, size_t size_bytes)
{
    CHECK(size_bytes >= sizeof(uint32_t) && size_bytes < UINT32_MAX);
    *pool = (struct pool){.size_bytes = (uint32_t)size_bytes, .free = POOL_NONE};
}

void pool_fini(struct pool *pool)
{
    for (uint32_t i = 0; i < pool->chunk_count; i++)
        mem_free(pool->chunks[i]);
    mem_free(pool->chunks);
    *pool = (struct pool){.size_bytes = pool->size_bytes, .free = POOL_NONE};
}

static void grow(struct pool *pool)
{
    uint32_t count = pool->chunk_count;
    if ((count & (count - 1)) == 0) /* the table doubles at each power of two */
        pool->chunks = mem_realloc(pool->chunks, (count ? count * 2u : 1u) * sizeof(char *));
    /* Aligned, so that an object of two cache lines is in two and not in three. */
    pool->chunks[count] = mem_aligned(128, (size_t)POOL_CHUNK * pool->size_bytes);
    pool->chunk_count = count + 1;
}

uint32_t pool_take_dirty(struct pool *pool)
{
    uint32_t number = pool->free;
    if (number != POOL_NONE) {
        memcpy(&pool->free, pool_at(pool, number), sizeof(pool->free));
    } else {
        CHECK(pool->used < POOL_NONE - 1);
        number = pool->used++;
        if (number >> POOL_CHUNK_BITS == pool->chunk_count)
            grow(pool);
    }
    pool->count++;
    return number;
}

uint32_t pool_take(struct pool *pool)
{
    uint32_t number = pool_take_dirty(pool);
    memset(pool_at(pool, number), 0, pool->size_bytes);
    return number;
}

void pool_give(struct pool *pool, uint32_t number)
{
    CHECK(number < pool->used && pool->count > 0);
    memcpy(pool_at(pool, number), &pool->free, sizeof(pool->free));
    pool->free = number;
    pool->count--;
}
