/*
 * Objects of one size, identified by 32-bit numbers that are valid while the object lives. Numbers
 * start at 0; POOL_NONE means no object. Objects never move. The first four bytes of a free object
 * link it to the next free one: read them only in live objects. Taking and giving are O(1).
 *
 * Memory comes in chunks of up to 512 KiB and 4,096 objects. New objects fill one chunk until it is
 * full, so that others run empty. Empty chunks are kept until pool_trim() frees them: freeing one
 * takes some 50 µs, so the caller decides when.
 *
 * A pool can have objects of several sizes (pool_init_sizes()), for structs with a tail of variable
 * length: all objects of a chunk have one size, and all chunks share one range of numbers.
 *
 * Single-threaded. Pure.
 */
#ifndef LATERD_BASE_POOL_H
#define LATERD_BASE_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define POOL_NONE UINT32_MAX

struct pool_chunk;

/* The first and last chunk of a list through pool_chunk::prev, next; POOL_NONE: it is empty. */
struct pool_list {
    uint32_t first, last;
};

/* Where a chunk's objects lie, beside each other because pool_at() needs both. */
struct pool_memory {
    char *at;            /* NULL: this chunk is absent (freed, or never made) */
    uint32_t size_bytes; /* of one of its objects */
};

/* The chunks of one size that have free objects. */
struct pool_size {
    struct pool_list partial; /* with live and free objects; the first is filled next */
    uint32_t kept;            /* an empty chunk that is kept, or POOL_NONE */
};

struct pool {
    struct pool_memory *chunks;
    uint32_t size_bytes;      /* of an object of size 0 */
    uint32_t step_bytes;      /* an object of size s has size_bytes + s * step_bytes */
    uint32_t sizes;           /* number of sizes */
    uint32_t bits;            /* a chunk has 2^bits objects */
    uint32_t mask;            /* 2^bits - 1: the part of a number within its chunk */
    uint32_t count;           /* live objects */
    uint32_t chunk_count;     /* places in `chunks` */
    uint32_t spare_count;     /* of `spare` */
    struct pool_chunk *about; /* [chunk_count]: the rest of what is known of each chunk */
    struct pool_size first;   /* size 0 */
    struct pool_size *larger; /* sizes 1 and up: [size - 1]; NULL: none was ever taken */
    struct pool_list spare;   /* empty chunks of any size, to be freed by pool_trim() */
    uint32_t absent;          /* a list through pool_chunk::next of absent chunks */
    uint32_t absent_count;
};

void pool_init(struct pool *pool, size_t size_bytes); /* size at least 4 */
/* The same for objects of `sizes` sizes: size s has size_bytes + s * step_bytes bytes. */
void pool_init_sizes(struct pool *pool, size_t size_bytes, size_t step_bytes, uint32_t sizes);
void pool_fini(struct pool *pool);
uint32_t pool_take(struct pool *pool);       /* the object is zeroed */
uint32_t pool_take_dirty(struct pool *pool); /* not zeroed: the caller writes all of it */
/* The same, an object of size number `size`, below `sizes`. */
uint32_t pool_take_sized(struct pool *pool, uint32_t size);
void pool_give(struct pool *pool, uint32_t number);

/* True: there is an empty chunk to free. One of each size is kept, so that a count that goes up and
 * down costs nothing. O(1). */
static inline bool pool_has_spare(const struct pool *pool)
{
    return pool->spare_count > 0;
}

/* For pool_trim(). */
bool pool_free_spare(struct pool *pool);
/* Frees one chunk if pool_has_spare(), in some 50 µs. True: there is one more. */
static inline bool pool_trim(struct pool *pool)
{
    return pool_has_spare(pool) && pool_free_spare(pool);
}

/*
 * True: the memory of this number's object may be read, because the object is live, or it was and
 * its chunk is still there. The caller must be able to tell a live object from a free one by a
 * field behind the first 4 bytes. O(1).
 */
bool pool_has(const struct pool *pool, uint32_t number);

/*
 * The first number at or after `number` that pool_has(), or POOL_NONE: goes through all live
 * objects in O(chunks + objects that were live). Giving objects meanwhile does no harm.
 */
uint32_t pool_next(const struct pool *pool, uint32_t number);

/* How many numbers pool_next() goes through at most. O(1). */
static inline uint64_t pool_span(const struct pool *pool)
{
    return (uint64_t)(pool->chunk_count - pool->absent_count) << pool->bits;
}

/* All numbers that were ever taken are below this. O(1). */
static inline uint64_t pool_end(const struct pool *pool)
{
    return (uint64_t)pool->chunk_count << pool->bits;
}

/*
 * True: one more object of each size would have a number below `numbers`. That is certain only if
 * this is called before every take. Numbers of freed chunks are used again, so they count as free.
 * O(1).
 */
static inline bool pool_fits(const struct pool *pool, uint64_t numbers)
{
    return pool_span(pool) + ((uint64_t)pool->sizes << pool->bits) <= numbers;
}

/* How large the object is. O(1). */
static inline uint32_t pool_bytes_of(const struct pool *pool, uint32_t number)
{
    return pool->chunks[number >> pool->bits].size_bytes;
}

void pool_valid(const struct pool *pool); /* CHECKs the chunks' lists and counts. O(objects) */

static inline void *pool_at(const struct pool *pool, uint32_t number)
{
    const struct pool_memory *chunk = &pool->chunks[number >> pool->bits];
    return chunk->at + (size_t)(number & pool->mask) * chunk->size_bytes;
}

#endif
