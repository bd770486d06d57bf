#include "base/map.h"

#include "base/check.h"
#include "base/mem.h"

enum {
    FIRST_SLOTS = 16,
    MOVE_SLOTS = 16,
    KEEP_SLOTS = 64,       /* a table of so many does not shrink */
    CUT_SLOTS = 64 * 1024, /* the old table gives so many back at a time: 512 KiB */
};

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

static bool slot_is(const struct map *map, uint64_t slot, uint64_t hash, const void *key)
{
    return (uint32_t)(slot >> 32) == (uint32_t)hash && slot != GONE &&
           map->eq(map->ctx, (uint32_t)slot - 1, key);
}

static uint32_t now_find(const struct map *map, uint64_t hash, const void *key)
{
    const struct map_table *now = &map->now;
    if (!now->slots)
        return MAP_NONE;
    for (size_t i = (size_t)(uint32_t)hash & now->mask; now->slots[i]; i = (i + 1) & now->mask) {
        if (slot_is(map, now->slots[i], hash, key))
            return (uint32_t)now->slots[i] - 1;
    }
    return MAP_NONE;
}

/* The old table's slots from `left` on are as if GONE: a probe goes on at the first slot. */
static size_t old_from(const struct map *map, size_t i)
{
    return i < map->left ? i : 0;
}

static uint32_t old_find(const struct map *map, uint64_t hash, const void *key)
{
    const struct map_table *old = &map->old;
    if (!old->slots)
        return MAP_NONE;
    size_t i = old_from(map, (size_t)(uint32_t)hash & old->mask);
    for (size_t probes = 0; probes < map->left && old->slots[i]; probes++) {
        if (slot_is(map, old->slots[i], hash, key))
            return (uint32_t)old->slots[i] - 1;
        i = old_from(map, i + 1);
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
static size_t now_place(const struct map_table *now, uint64_t slot)
{
    if (!now->slots)
        return SIZE_MAX;
    for (size_t i = home_of(now, slot); now->slots[i]; i = (i + 1) & now->mask) {
        if (now->slots[i] == slot)
            return i;
    }
    return SIZE_MAX;
}

static size_t old_place(const struct map *map, uint64_t slot)
{
    const struct map_table *old = &map->old;
    if (!old->slots)
        return SIZE_MAX;
    size_t i = old_from(map, home_of(old, slot));
    for (size_t probes = 0; probes < map->left && old->slots[i]; probes++) {
        if (old->slots[i] == slot)
            return i;
        i = old_from(map, i + 1);
    }
    return SIZE_MAX;
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
        uint64_t slot = map->old.slots[--map->left];
        if (slot != 0 && slot != GONE) {
            map->old.count--;
            table_put(&map->now, slot);
        }
        if (map->left % CUT_SLOTS == 0 && map->left)
            map->old.slots = mem_realloc(map->old.slots, map->left * sizeof(uint64_t));
    }
}

/* From now on all goes to a table of this size. */
static void resize(struct map *map, size_t slot_count)
{
    CHECK(!map->old.slots); /* 16 slots moved a change: done long before the next resize */
    map->old = map->now;
    map->left = map->old.mask + 1;
    table_start(&map->now, slot_count);
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
    uint32_t number = now_find(map, hash, key);
    return number != MAP_NONE ? number : old_find(map, hash, key);
}

void map_add(struct map *map, uint64_t hash, uint32_t number)
{
    CHECK(number < MAP_NONE - 1);
    move_some(map);
    if (!map->now.slots)
        table_start(&map->now, FIRST_SLOTS);
    if ((map->now.count + map->old.count + 1) * 4 > (map->now.mask + 1) * 3)
        resize(map, (map->now.mask + 1) * 2);
    table_put(&map->now, slot_of(hash, number));
}

void map_remove(struct map *map, uint64_t hash, uint32_t number)
{
    uint64_t slot = slot_of(hash, number);
    size_t place = now_place(&map->now, slot);
    if (place != SIZE_MAX) {
        table_cut(&map->now, place);
    } else {
        place = old_place(map, slot);
        CHECK(place != SIZE_MAX);
        map->old.slots[place] = GONE;
        map->old.count--;
    }
    move_some(map);
    size_t slot_count = map->now.mask + 1;
    if (!map->old.slots && slot_count > KEEP_SLOTS && map->now.count * 8 < slot_count)
        resize(map, slot_count / 2);
}

size_t map_count(const struct map *map)
{
    return map->now.count + map->old.count;
}
