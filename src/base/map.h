/*
 * A hash table from a 64-bit hash to 32-bit numbers (of a pool). Keys live in the objects; a
 * function of the caller compares them. 32 bits of the hash are kept beside the number, so that
 * probing, moving and removing touch almost no other object than the one looked for.
 *
 * The table is made of segments, each a small table of its own: open addressing with linear
 * probing and backward-shift removal, 8 bytes a slot. A segment that is 7/8 full grows by a
 * quarter, one that is less than a quarter full shrinks: 9.2 to 12 bytes an entry while a table of
 * thousands grows, up to 32 while it shrinks. Of 16 segments and more one that falls empty keeps up
 * to 64 KiB: other entries that share it will come soon (core/index.c). There is one segment for
 * each 4,096 entries or somewhat more; as the table grows, the next one in order is split in two
 * (W. Litwin, "Linear Hashing: A New Tool for File and Table Addressing", VLDB 1980). So there is
 * never a second table beside the first, and no change takes long, however large the table: at most
 * one segment of some 10,000 entries is rewritten, in about 50 µs, once in hundreds of changes.
 * Other memory that is no longer used is returned to the system at once.
 *
 * The low bits of the hash choose the segment, the high bits of its low half the place in the
 * segment: both must be well mixed. Entries of equal hashes share a segment, however large it gets.
 *
 * Single-threaded. Pure.
 */
#ifndef LATERD_BASE_MAP_H
#define LATERD_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/prefetch.h"

#define MAP_NONE UINT32_MAX

struct map_segment {
    uint64_t *slots; /* hash's low half << 32 | number + 1; 0 = empty */
    uint32_t cap;    /* slots, one of them empty at least */
    uint32_t count;
};

/* Does object `number` have the key? */
typedef bool map_eq(const void *ctx, uint32_t number, const void *key);

struct map {
    struct map_segment *segments; /* NULL: nothing was ever added */
    uint32_t segment_count;
    uint32_t mask; /* the least power of two that is not below segment_count, minus 1 */
    size_t count;
    map_eq *eq;
    const void *ctx;
};

void map_init(struct map *map, map_eq *eq, const void *ctx);
void map_fini(struct map *map); /* the objects are the caller's */
uint32_t map_find(const struct map *map, uint64_t hash, const void *key); /* or MAP_NONE */
void map_add(struct map *map, uint64_t hash, uint32_t number);    /* the key must not be there */
void map_remove(struct map *map, uint64_t hash, uint32_t number); /* must be there */
/* How many entries it has. This and the three above are O(1), adding and removing amortized. */
size_t map_count(const struct map *map);
void map_valid(const struct map *map); /* CHECKs that each entry can be found. O(slots) */

/* The segment of this hash: one that was not split yet also holds the entries of its upper half.
 * There must be segments. */
static inline struct map_segment *map_segment_of(const struct map *map, uint64_t hash)
{
    uint32_t number = (uint32_t)hash & map->mask;
    if (number >= map->segment_count)
        number &= map->mask >> 1;
    return &map->segments[number];
}

/* Where a probe begins: the hash as a fraction of the slots. */
static inline uint32_t map_home(const struct map_segment *segment, uint64_t hash)
{
    return (uint32_t)((uint64_t)(uint32_t)hash * segment->cap >> 32);
}

/* Prefetches the place where this hash will be looked up or added: in a table of millions of
 * entries that fetch takes longer than most other work. */
static inline void map_prefetch(const struct map *map, uint64_t hash)
{
    if (!map->segments)
        return;
    const struct map_segment *segment = map_segment_of(map, hash);
    prefetch_write(&segment->slots[map_home(segment, hash)]);
}

/* The same for a removal, which moves what follows: most often that ends in the next line. */
static inline void map_prefetch_removal(const struct map *map, uint64_t hash)
{
    enum { LINE_SLOTS = 8 };
    if (!map->segments)
        return;
    const struct map_segment *segment = map_segment_of(map, hash);
    const uint64_t *home = &segment->slots[map_home(segment, hash)];
    prefetch_write(home);
    prefetch_write(home + LINE_SLOTS);
}

/* The number that map_find() compares first, or MAP_NONE: a guess, to prefetch its object. */
static inline uint32_t map_guess(const struct map *map, uint64_t hash)
{
    if (!map->segments)
        return MAP_NONE;
    const struct map_segment *segment = map_segment_of(map, hash);
    for (uint32_t i = map_home(segment, hash); segment->slots[i];) {
        if ((uint32_t)(segment->slots[i] >> 32) == (uint32_t)hash)
            return (uint32_t)segment->slots[i] - 1;
        if (++i == segment->cap)
            i = 0;
    }
    return MAP_NONE;
}

#endif
