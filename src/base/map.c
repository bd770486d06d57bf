#include "base/map.h"

#include "base/check.h"
#include "base/mem.h"

enum { FIRST_SLOTS = 16, MOVE_SLOTS = 16 };

/* In the old table alone: an entry was here. It keeps probes whole; the table does not last. */
#define GONE ((uint64_t)UINT32_MAX)

static uint64_t slot_of(uint64_t hash, uint32_t number)
{
    return (uint64_t)(uint32_t)hash << 32 | (number + 1);
}

static size_t home_of(const struct map_table *table, uint64_t slot)
{
    return (size_t)(slot >> 32) & table->mask;
}

static void table_put(struct map_table *table, uint64_t slot)
{
    size_t i = home_of(table, slot);
    while (table->slots[i])
        i = (i + 1) & table->mask;
    table->slots[i] = slot;
    table->count++;
}

static void table_start(struct map_table *table, size_t slot_count)
{
    *table = (struct map_table){
        .slots = mem_zalloc(slot_count * sizeof(uint64_t)),
        .mask = slot_count - 1,
    };
}

static uint32_t table_find(const struct map *map, const struct map_table *table, uint64_t hash,
                           const void *key)
{
    if (!table->slots)
        return MAP_NONE;
    for (size_t i = (size_t)(uint32_t)hash & table->mask; table->slots[i];
         i = (i + 1) & table->mask) {
        uint32_t number = (uint32_t)table->slots[i] - 1;
        if ((uint32_t)(table->slots[i] >> 32) == (uint32_t)hash && table->slots[i] != GONE &&
            map->eq(map->ctx, number, key))
            return number;
    }
    return MAP_NONE;
}

/* Takes the slot out and closes the gap, so that no probe ends early. */
static void table_cut(struct map_table *table, size_t gap)
{
    for (size_t i = (gap + 1) & table->mask; table->slots[i]; i = (i + 1) & table->mask) {
        size_t home = home_of(table, table->slots[i]);
        /* May the entry at i stand in the gap? Only if its home is not in (gap, i]. */
        if (((i - home) & table->mask) >= ((i - gap) & table->mask)) {
            table->slots[gap] = table->slots[i];
            gap = i;
        }
    }
    table->slots[gap] = 0;
    table->count--;
}

/* Where the slot stands, or SIZE_MAX. */
static size_t table_place(const struct map_table *table, uint64_t slot)
{
    if (!table->slots)
        return SIZE_MAX;
    for (size_t i = home_of(table, slot); table->slots[i]; i = (i + 1) & table->mask) {
        if (table->slots[i] == slot)
            return i;
    }
    return SIZE_MAX;
}

static void old_leave(struct map_table *old, size_t place)
{
    old->slots[place] = GONE;
    old->count--;
}

/* Moves some entries from the old table to the new one. */
static void move_some(struct map *map)
{
    size_t budget = MOVE_SLOTS;
    while (map->old.slots && budget--) {
        if (map->old.count == 0) {
            mem_free(map->old.slots);
            map->old = (struct map_table){0};
            return;
        }
        uint64_t slot = map->old.slots[map->moved];
        if (slot != 0 && slot != GONE) {
            old_leave(&map->old, map->moved);
            table_put(&map->now, slot);
        }
        map->moved++;
    }
}

void map_init(struct map *map, map_eq *eq, const void *ctx)
{
    *map = (struct map){.eq = eq, .ctx = ctx};
}

void map_fini(struct map *map)
{
    mem_free(map->now.slots);
    mem_free(map->old.slots);
    map_init(map, map->eq, map->ctx);
}

uint32_t map_find(const struct map *map, uint64_t hash, const void *key)
{
    uint32_t number = table_find(map, &map->now, hash, key);
    return number != MAP_NONE ? number : table_find(map, &map->old, hash, key);
}

void map_add(struct map *map, uint64_t hash, uint32_t number)
{
    CHECK(number < MAP_NONE - 1);
    move_some(map);
    if (!map->now.slots)
        table_start(&map->now, FIRST_SLOTS);
    if ((map->now.count + map->old.count + 1) * 4 > (map->now.mask + 1) * 3) {
        CHECK(!map->old.slots); /* 16 slots moved a change: done long before the next growth */
        map->old = map->now;
        map->moved = 0;
        table_start(&map->now, (map->old.mask + 1) * 2);
    }
    table_put(&map->now, slot_of(hash, number));
}

void map_remove(struct map *map, uint64_t hash, uint32_t number)
{
    uint64_t slot = slot_of(hash, number);
    size_t place = table_place(&map->now, slot);
    if (place != SIZE_MAX) {
        table_cut(&map->now, place);
    } else {
        place = table_place(&map->old, slot);
        CHECK(place != SIZE_MAX);
        old_leave(&map->old, place);
    }
    move_some(map);
}

size_t map_count(const struct map *map)
{
    return map->now.count + map->old.count;
}
