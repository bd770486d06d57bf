/*
 * Invariants: a chunk that is there is on `partial` (live and free objects), on `empty` (no live
 * ones), or on neither (all are live); one that is not there is on `absent`. A chunk that runs
 * empty begins again as if new: none of its objects was ever handed out.
 */
#include "base/pool.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"

enum { BITS_MIN = 5, BITS_MAX = 12, CHUNK_BYTES = 512 * 1024 };

struct pool_chunk {
    uint32_t prev, next; /* chunks; see pool_list */
    uint16_t live;
    uint16_t used; /* objects of it ever handed out: every live one is below */
    uint16_t free; /* first of the given ones, or NO_FREE */
};

#define NO_FREE UINT16_MAX

static const struct pool_list no_chunks = {.first = POOL_NONE, .last = POOL_NONE};

void pool_init(struct pool *pool, size_t size_bytes)
{
    uint32_t bits = BITS_MAX;
    CHECK(size_bytes >= sizeof(uint32_t) && size_bytes < UINT32_MAX);
    while (bits > BITS_MIN && size_bytes << bits > CHUNK_BYTES)
        bits--;
    *pool = (struct pool){
        .size_bytes = (uint32_t)size_bytes,
        .bits = bits,
        .mask = (1u << bits) - 1,
        .partial = no_chunks,
        .empty = no_chunks,
        .absent = POOL_NONE,
    };
}

static size_t chunk_bytes(const struct pool *pool)
{
    return (size_t)pool->size_bytes << pool->bits;
}

void pool_fini(struct pool *pool)
{
    for (uint32_t i = 0; i < pool->chunk_count; i++)
        mem_pages_free(pool->chunks[i], chunk_bytes(pool));
    mem_free(pool->chunks);
    mem_free(pool->about);
    pool_init(pool, pool->size_bytes);
}

/* ---- lists of chunks ---- */

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

/* There is room in no chunk that has been begun: an empty one is. */
static void begin_chunk(struct pool *pool)
{
    uint32_t chunk = pool->empty.first;
    if (chunk != POOL_NONE) {
        list_take(pool, &pool->empty, chunk);
        pool->empty_count--;
    } else {
        chunk = absent_chunk(pool);
        /* Pages are aligned, so an object of two cache lines is in two and not in three. */
        pool->chunks[chunk] = mem_pages(chunk_bytes(pool));
        pool->about[chunk] = (struct pool_chunk){.free = NO_FREE};
    }
    list_add(pool, &pool->partial, chunk);
}

static __attribute__((noinline)) void end_chunk(struct pool *pool, uint32_t chunk)
{
    pool->about[chunk].used = 0;
    pool->about[chunk].free = NO_FREE;
    list_take(pool, &pool->partial, chunk);
    list_add(pool, &pool->empty, chunk);
    pool->empty_count++;
}

bool pool_trim(struct pool *pool)
{
    if (!pool_has_spare(pool))
        return false;
    uint32_t chunk = pool->empty.last;
    list_take(pool, &pool->empty, chunk);
    pool->empty_count--;
    mem_pages_free(pool->chunks[chunk], chunk_bytes(pool));
    pool->chunks[chunk] = NULL; /* nor is any of it live */
    pool->about[chunk].next = pool->absent;
    pool->absent = chunk;
    pool->absent_count++;
    return pool_has_spare(pool);
}

/* ---- objects ---- */

/* The slow ways are kept out of the fast one: it then needs no registers of its caller. */
static __attribute__((noinline)) void end_partial(struct pool *pool, uint32_t chunk)
{
    list_take(pool, &pool->partial, chunk);
}

static __attribute__((noinline)) void begin_partial(struct pool *pool, uint32_t chunk)
{
    list_add(pool, &pool->partial, chunk);
}

static __attribute__((noinline)) uint32_t take_from_new(struct pool *pool)
{
    begin_chunk(pool);
    return pool_take_dirty(pool);
}

uint32_t pool_take_dirty(struct pool *pool)
{
    uint32_t chunk = pool->partial.first;
    if (chunk == POOL_NONE)
        return take_from_new(pool);
    uint32_t first = chunk << pool->bits, number;
    struct pool_chunk *about = &pool->about[chunk];
    if (about->free != NO_FREE) {
        number = first + about->free;
        memcpy(&about->free, pool_at(pool, number), sizeof(about->free));
    } else {
        number = first + about->used++;
    }
    pool->count++;
    if (++about->live >> pool->bits)
        end_partial(pool, chunk);
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
    uint32_t chunk = number >> pool->bits;
    CHECK(chunk < pool->chunk_count);
    struct pool_chunk *about = &pool->about[chunk];
    CHECK(about->live > 0 && (number & pool->mask) < about->used);
    memcpy(pool_at(pool, number), &about->free, sizeof(about->free));
    about->free = (uint16_t)(number & pool->mask);
    pool->count--;
    if (about->live >> pool->bits)
        begin_partial(pool, chunk);
    if (--about->live == 0)
        end_chunk(pool, chunk);
}

bool pool_has(const struct pool *pool, uint32_t number)
{
    uint32_t chunk = number >> pool->bits;
    return chunk < pool->chunk_count && pool->chunks[chunk] &&
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

static uint32_t valid_list(const struct pool *pool, const struct pool_list *list, bool empty)
{
    uint32_t count = 0, prev = POOL_NONE;
    for (uint32_t chunk = list->first; chunk != POOL_NONE; chunk = pool->about[chunk].next) {
        const struct pool_chunk *about = &pool->about[chunk];
        CHECK(pool->chunks[chunk] && about->prev == prev && (about->live == 0) == empty);
        CHECK(!(about->live >> pool->bits));
        prev = chunk;
        count++;
    }
    CHECK(list->last == prev);
    return count;
}

void pool_valid(const struct pool *pool)
{
    uint32_t count = 0, full = 0, there = 0;
    for (uint32_t i = 0; i < pool->chunk_count; i++) {
        if (!pool->chunks[i])
            continue;
        valid_chunk(pool, i);
        there++;
        count += pool->about[i].live;
        full += (uint32_t)pool->about[i].live >> pool->bits;
    }
    CHECK(count == pool->count && there == pool->chunk_count - pool->absent_count);
    CHECK(valid_list(pool, &pool->empty, true) == pool->empty_count);
    CHECK(valid_list(pool, &pool->partial, false) + pool->empty_count + full == there);
}
