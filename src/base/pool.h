/*
 * Objects of one size, named by 32-bit numbers that stay good while the object lives. Numbers
 * start at 0; POOL_NONE is none. Objects never move. The first four bytes of a free object
 * link the free ones: read them only of live objects. Taking and giving are O(1).
 */
#ifndef LATERD_BASE_POOL_H
#define LATERD_BASE_POOL_H

#include <stddef.h>
#include <stdint.h>

#define POOL_NONE UINT32_MAX

struct pool {
    char **chunks;
    uint32_t size_bytes; /* of one object */
    uint32_t count;      /* live objects */
    uint32_t used;       /* numbers ever handed out: every live number is below */
    uint32_t chunk_count;
    uint32_t free; /* first free number, or POOL_NONE */
};

enum { POOL_CHUNK_BITS = 12, POOL_CHUNK = 1 << POOL_CHUNK_BITS };

void pool_init(struct pool *pool, size_t size_bytes); /* size at least 4 */
void pool_fini(struct pool *pool);
uint32_t pool_take(struct pool *pool);       /* the object is zeroed */
uint32_t pool_take_dirty(struct pool *pool); /* it is not: the caller writes all of it */
void pool_give(struct pool *pool, uint32_t number);

static inline void *pool_at(const struct pool *pool, uint32_t number)
{
    return pool->chunks[number >> POOL_CHUNK_BITS] +
           (size_t)(number & (POOL_CHUNK - 1)) * pool->size_bytes;
}

#endif
