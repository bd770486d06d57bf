/*
 * A hash table from a 64-bit hash to 32-bit numbers (of a pool). Keys live in the objects; the
 * caller says by a function whether an object has the key looked for. Open addressing with
 * linear probing and backward-shift removal; eight bytes a slot, 1/8 to 3/4 full. Of the hash
 * 32 bits are kept beside the number, so that neither probing, moving nor removing touches an
 * object that is not (almost surely) the one asked for.
 *
 * Growing and shrinking are incremental: each change moves a few old slots, and what is empty is
 * given back piece by piece, so no single call takes long, however large the table (the trick is
 * Redis'; a stop-the-world rehash of ten million slots would make every waiting client 0.5 s late).
 */
#ifndef LATERD_BASE_MAP_H
#define LATERD_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAP_NONE UINT32_MAX

struct map_table {
    uint64_t *slots; /* hash's low half << 32 | number + 1; 0 = empty */
    size_t mask;     /* slot count - 1 */
    size_t count;
};

/* Does object `number` have the key? */
typedef bool map_eq(const void *ctx, uint32_t number, const void *key);

struct map {
    struct map_table now;
    struct map_table old; /* being emptied, last slot first, while slots != NULL */
    size_t left;          /* its slots below this are still there; those above held entries once */
    map_eq *eq;
    const void *ctx;
};

void map_init(struct map *map, map_eq *eq, const void *ctx);
void map_fini(struct map *map); /* the objects are the caller's */
uint32_t map_find(const struct map *map, uint64_t hash, const void *key); /* or MAP_NONE */
void map_add(struct map *map, uint64_t hash, uint32_t number);    /* the key must not be there */
void map_remove(struct map *map, uint64_t hash, uint32_t number); /* must be there */
size_t map_count(const struct map *map); /* entries. This and the three above are O(1) */

/* Asks the processor to fetch where this hash will be looked for or added: in a table of millions
 * that takes longer than most of what can be done meanwhile. */
static inline void map_prefetch(const struct map *map, uint64_t hash)
{
    __builtin_prefetch(&map->now.slots[(size_t)(uint32_t)hash & map->now.mask], 1);
}

/* The number that map_find() looks at first, or MAP_NONE: a guess, good to fetch its object. */
static inline uint32_t map_guess(const struct map *map, uint64_t hash)
{
    const struct map_table *now = &map->now;
    size_t i = (size_t)(uint32_t)hash & now->mask;
    while (now->slots && now->slots[i]) {
        if ((uint32_t)(now->slots[i] >> 32) == (uint32_t)hash)
            return (uint32_t)now->slots[i] - 1;
        i = (i + 1) & now->mask;
    }
    return MAP_NONE;
}

#endif
