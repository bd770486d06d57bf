/*
 * Invariants: a chunk with memory is on the `partial` list of its size (live and free objects), is
 * the `kept` one of its size or on `spare` (no live objects), or on no list (all objects live). The
 * only chunk on a `partial` list stays there when it runs empty; then none is `kept`. A chunk
 * without memory is on `absent`. A chunk that runs empty starts again as if new: none of its
 * objects counts as used.
 */
#include "base/pool.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/prefetch.h"

enum { BITS_MIN = 5, BITS_MAX = 12, CHUNK_BYTES = 512 * 1024 };

struct pool_chunk {
    uint32_t prev, next; /* chunks; see pool_list */
    uint16_t live;
    uint16_t used; /* objects taken since it was empty: every live one is below */
    uint16_t free; /* the first of those that were given back, or NO_FREE */
    uint16_t size; /* which of the pool's sizes its objects have */
};

#define NO_FREE UINT16_MAX

static const struct pool_list no_chunks = {.first = POOL_NONE, .last = POOL_NONE};
static const struct pool_size no_size = {.partial = {POOL_NONE, POOL_NONE}, .kept = POOL_NONE};

void pool_init(struct pool *pool, size_t size_bytes)
{
    pool_init_sizes(pool, size_bytes, 0, 1);
}

void pool_init_sizes(struct pool *pool, size_t size_bytes, size_t step_bytes, uint32_t sizes)
{
    uint32_t bits = BITS_MAX;
    size_t largest_bytes = size_bytes + (sizes - 1) * step_bytes;
    CHECK(size_bytes >= sizeof(uint32_t) && sizes > 0 && sizes <= UINT16_MAX);
    CHECK(largest_bytes < UINT32_MAX);
    while (bits > BITS_MIN && largest_bytes << bits > CHUNK_BYTES)
        bits--;
    *pool = (struct pool){
        .size_bytes = (uint32_t)size_bytes,
        .step_bytes = (uint32_t)step_bytes,
        .sizes = sizes,
        .bits = bits,
        .mask = (1u << bits) - 1,
        .first = no_size,
        .spare = no_chunks,
        .absent = POOL_NONE,
    };
}

static size_t chunk_bytes(const struct pool *pool, uint32_t chunk)
{
    return (size_t)pool->chunks[chunk].size_bytes << pool->bits;
}

void pool_fini(struct pool *pool)
{
    for (uint32_t i = 0; i < pool->chunk_count; i++)
        mem_pages_free(pool->chunks[i].at, chunk_bytes(pool, i));
    mem_free(pool->chunks);
    mem_free(pool->about);
    mem_free(pool->larger);
    pool_init_sizes(pool, pool->size_bytes, pool->step_bytes, pool->sizes);
}

/* ---- lists of chunks ---- */

static struct pool_size *size_at(struct pool *pool, uint32_t size)
{
    return size == 0 ? &pool->first : &pool->larger[size - 1];
}

static struct pool_size *size_of(struct pool *pool, uint32_t chunk)
{
    return size_at(pool, pool->about[chunk].size);
}

static void list_add(struct pool *pool, struct pool_list *list, uint32_t chunk)
{
    pool->about[chunk].prev = list->last;
    pool->about[chunk].next = POOL_NONE;
    if (list->last == POOL_NONE)
        list->first = chunk;
    else
        pool->about[list->last].next = chunk;
    list->last = chunk;
}

static void list_take(struct pool *pool, struct pool_list *list, uint32_t chunk)
{
    const struct pool_chunk *about = &pool->about[chunk];
    if (about->prev == POOL_NONE)
        list->first = about->next;
    else
        pool->about[about->prev].next = about->next;
    if (about->next == POOL_NONE)
        list->last = about->prev;
    else
        pool->about[about->next].prev = about->prev;
}

/* ---- chunks come and go ---- */

static uint32_t absent_chunk(struct pool *pool)
{
    uint32_t chunk = pool->absent;
    if (chunk != POOL_NONE) {
        pool->absent = pool->about[chunk].next;
        pool->absent_count--;
        return chunk;
    }
    chunk = pool->chunk_count;
    CHECK((uint64_t)(chunk + 1) << pool->bits < POOL_NONE);
    if ((chunk & (chunk - 1)) == 0) { /* the tables double at each power of two */
        size_t count = chunk ? chunk * (size_t)2 : 1;
        pool->chunks = mem_realloc(pool->chunks, count * sizeof(*pool->chunks));
        pool->about = mem_realloc(pool->about, count * sizeof(*pool->about));
    }
    pool->chunk_count++;
    return chunk;
}

/* A spare one of this size, if it is among the first ones; or POOL_NONE. */
static uint32_t spare_chunk(const struct pool *pool, uint32_t size)
{
    enum { LOOKED_AT = 32 };
    uint32_t chunk = pool->spare.first;
    for (unsigned i = 0; i < LOOKED_AT && chunk != POOL_NONE; i++) {
        if (pool->about[chunk].size == size)
            return chunk;
        chunk = pool->about[chunk].next;
    }
    return POOL_NONE;
}

/* No chunk of this size has room: begins an empty one, or a new one. */
static void begin_chunk(struct pool *pool, uint32_t size)
{
    struct pool_size *of_size = size_at(pool, size);
    uint32_t chunk = of_size->kept, spare = spare_chunk(pool, size);
    if (chunk != POOL_NONE) {
        of_size->kept = POOL_NONE;
    } else if (spare != POOL_NONE) {
        chunk = spare;
        list_take(pool, &pool->spare, chunk);
        pool->spare_count--;
    } else {
        chunk = absent_chunk(pool);
        /* Pages are aligned, so an object of two cache lines is in two and not in three. */
        pool->chunks[chunk].size_bytes = pool->size_bytes + size * pool->step_bytes;
        pool->chunks[chunk].at = mem_pages(chunk_bytes(pool, chunk));
        pool->about[chunk] = (struct pool_chunk){.free = NO_FREE, .size = (uint16_t)size};
    }
    list_add(pool, &of_size->partial, chunk);
}

static __attribute__((noinline)) void end_chunk(struct pool *pool, uint32_t chunk)
{
    pool->about[chunk].used = 0;
    pool->about[chunk].free = NO_FREE;
    struct pool_size *of_size = size_of(pool, chunk);
    uint32_t surplus;
    if (of_size->partial.first == of_size->partial.last) {
        surplus = of_size->kept; /* instead of this chunk, which stays for the next object */
        of_size->kept = POOL_NONE;
    } else {
        list_take(pool, &of_size->partial, chunk);
        surplus = of_size->kept == POOL_NONE ? POOL_NONE : chunk;
        if (surplus == POOL_NONE)
            of_size->kept = chunk;
    }
    if (surplus != POOL_NONE) {
        list_add(pool, &pool->spare, surplus);
        pool->spare_count++;
    }
}

bool pool_free_spare(struct pool *pool)
{
    uint32_t chunk = pool->spare.last;
    list_take(pool, &pool->spare, chunk);
    pool->spare_count--;
    mem_pages_free(pool->chunks[chunk].at, chunk_bytes(pool, chunk));
    pool->chunks[chunk].at = NULL; /* nor is any of it live */
    pool->about[chunk].next = pool->absent;
    pool->absent = chunk;
    pool->absent_count++;
    return pool_has_spare(pool);
}

/* ---- objects ---- */

static char *object_at(const struct pool *pool, uint32_t chunk, uint32_t place)
{
    return pool->chunks[chunk].at + (size_t)place * pool->chunks[chunk].size_bytes;
}

/* The slow paths are separate functions, so that the fast one saves no registers of its caller. */
static __attribute__((noinline)) void end_partial(struct pool *pool, uint32_t chunk)
{
    list_take(pool, &size_of(pool, chunk)->partial, chunk);
}

static __attribute__((noinline)) void begin_partial(struct pool *pool, uint32_t chunk)
{
    struct pool_size *of_size = size_of(pool, chunk);
    uint32_t first = of_size->partial.first;
    if (first != POOL_NONE && pool->about[first].live == 0) { /* it is no more the only one */
        list_take(pool, &of_size->partial, first);
        of_size->kept = first;
    }
    list_add(pool, &of_size->partial, chunk);
}

static __attribute__((noinline)) uint32_t take_from_new(struct pool *pool, uint32_t size)
{
    begin_chunk(pool, size);
    return pool_take_sized(pool, size);
}

/* The tables of sizes 1 and up are made with the first object of such a size. */
static __attribute__((noinline, cold)) void begin_larger(struct pool *pool)
{
    pool->larger = mem_alloc((pool->sizes - 1) * sizeof(*pool->larger));
    for (uint32_t i = 0; i + 1 < pool->sizes; i++)
        pool->larger[i] = no_size;
}

uint32_t pool_take_dirty(struct pool *pool)
{
    return pool_take_sized(pool, 0);
}

/* Takes the first of the free objects, and prefetches the next one, which is most likely taken
   next: they lie in the order in which they were given back. */
static void take_free(struct pool *pool, uint32_t chunk, uint32_t place)
{
    uint16_t *free = &pool->about[chunk].free;
    memcpy(free, object_at(pool, chunk, place), sizeof(*free));
    const char *next = object_at(pool, chunk, *free);
    prefetch_write(next); /* NO_FREE: another address; any may be prefetched */
    prefetch_write(next + pool->chunks[chunk].size_bytes - 1);
}

uint32_t pool_take_sized(struct pool *pool, uint32_t size)
{
    if (size > 0 && !pool->larger) {
        CHECK(size < pool->sizes);
        begin_larger(pool);
    }
    uint32_t chunk = size_at(pool, size)->partial.first;
    if (chunk == POOL_NONE)
        return take_from_new(pool, size);
    struct pool_chunk *about = &pool->about[chunk];
    uint32_t place = about->free; /* in the chunk */
    if (place != NO_FREE)
        take_free(pool, chunk, place);
    else
        place = about->used++;
    pool->count++;
    if (++about->live > pool->mask)
        end_partial(pool, chunk);
    return chunk << pool->bits | place;
}

uint32_t pool_take(struct pool *pool)
{
    uint32_t number = pool_take_dirty(pool);
    memset(pool_at(pool, number), 0, pool->size_bytes);
    return number;
}

void pool_give(struct pool *pool, uint32_t number)
{
    uint32_t chunk = number >> pool->bits, place = number & pool->mask;
    CHECK(chunk < pool->chunk_count);
    struct pool_chunk *about = &pool->about[chunk];
    CHECK(about->live > 0 && place < about->used);
    memcpy(object_at(pool, chunk, place), &about->free, sizeof(about->free));
    about->free = (uint16_t)place;
    pool->count--;
    if (about->live-- > pool->mask)
        begin_partial(pool, chunk);
    if (about->live == 0)
        end_chunk(pool, chunk);
}

bool pool_has(const struct pool *pool, uint32_t number)
{
    uint32_t chunk = number >> pool->bits;
    return chunk < pool->chunk_count && pool->chunks[chunk].at &&
           (number & pool->mask) < pool->about[chunk].used;
}

uint32_t pool_next(const struct pool *pool, uint32_t number)
{
    while (number >> pool->bits < pool->chunk_count) {
        if (pool_has(pool, number))
            return number;
        number = ((number >> pool->bits) + 1) << pool->bits; /* nor has it any behind it */
    }
    return POOL_NONE;
}

/* ---- validity ---- */

static void valid_chunk(const struct pool *pool, uint32_t chunk)
{
    const struct pool_chunk *about = &pool->about[chunk];
    uint32_t free = 0;
    for (uint16_t at = about->free; at != NO_FREE; free++) {
        CHECK(at < about->used);
        memcpy(&at, pool_at(pool, (chunk << pool->bits) + at), sizeof(at));
    }
    CHECK(about->live + free == about->used && about->used <= 1u << pool->bits);
}

static uint32_t valid_list(const struct pool *pool, const struct pool_list *list)
{
    uint32_t count = 0, prev = POOL_NONE;
    for (uint32_t chunk = list->first; chunk != POOL_NONE; chunk = pool->about[chunk].next) {
        CHECK(pool->chunks[chunk].at && pool->about[chunk].prev == prev);
        bool alone = list->first == list->last;
        CHECK(pool->about[chunk].live == 0 || list != &pool->spare);
        CHECK(pool->about[chunk].live > 0 || list == &pool->spare || alone);
        CHECK(!(pool->about[chunk].live >> pool->bits));
        prev = chunk;
        count++;
    }
    CHECK(list->last == prev);
    return count;
}

/* Chunks of this size that have free objects, without spare ones. */
static uint32_t valid_size(const struct pool *pool, const struct pool_size *of_size, uint32_t size)
{
    uint32_t kept = of_size->kept, chunk = of_size->partial.first;
    CHECK(kept == POOL_NONE || (pool->about[kept].live == 0 && pool->about[kept].size == size));
    CHECK(kept == POOL_NONE || chunk == POOL_NONE || pool->about[chunk].live > 0);
    for (; chunk != POOL_NONE; chunk = pool->about[chunk].next)
        CHECK(pool->about[chunk].size == size);
    return valid_list(pool, &of_size->partial) + (kept != POOL_NONE);
}

void pool_valid(const struct pool *pool)
{
    uint32_t count = 0, listed = 0, there = 0;
    for (uint32_t i = 0; i < pool->chunk_count; i++) {
        if (!pool->chunks[i].at)
            continue;
        valid_chunk(pool, i);
        there++;
        count += pool->about[i].live;
        listed += (uint32_t)pool->about[i].live >> pool->bits; /* full ones are on no list */
        CHECK(pool->chunks[i].size_bytes ==
              pool->size_bytes + pool->about[i].size * pool->step_bytes);
    }
    CHECK(count == pool->count && there == pool->chunk_count - pool->absent_count);
    CHECK(valid_list(pool, &pool->spare) == pool->spare_count);
    listed += pool->spare_count + valid_size(pool, &pool->first, 0);
    for (uint32_t size = 1; pool->larger && size < pool->sizes; size++)
        listed += valid_size(pool, &pool->larger[size - 1], size);
    CHECK(listed == there);
}
