/*
 * Invariants: an entry is in the segment of its hash, and no empty slot stands between its home
 * and its place; a segment is at most 7/8 full. Segments from mask / 2 + 1 on were made by splits;
 * the last one is the upper half of the one that was split last.
 */
#include "base/map.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"

enum {
    SLOTS_STEP = 16,     /* of segments below a page */
    PAGE_SLOTS = 512,    /* larger ones are whole pages */
    KEEP_SLOTS = 512,    /* a segment of this size or less does not shrink, … */
    KEEP_MORE = 8192,    /* … one of this size if there are many: it is soon filled again, … */
    KEEP_MORE_FROM = 16, /* … from this many on */
    SPLIT_COUNT = 4096,  /* mean entries per segment above which the next one is split … */
    MERGE_COUNT = 2048,  /* … and below which the last one is merged with its lower half */
};

static uint64_t slot_of(uint64_t hash, uint32_t number)
{
    return (uint64_t)(uint32_t)hash << 32 | (number + 1);
}

static uint64_t hash_of(uint64_t slot)
{
    return slot >> 32;
}

/* ---- a segment ---- */

/* Slots for this many entries: then 16/23 full, or less because of whole pages. */
static uint32_t cap_for(uint32_t count)
{
    uint32_t cap = count + count / 4 + count / 8 + count / 16 + 1;
    uint32_t step = cap > PAGE_SLOTS - SLOTS_STEP ? PAGE_SLOTS : SLOTS_STEP;
    return (cap + step - 1) / step * step;
}

static void slots_free(uint64_t *slots, uint32_t cap)
{
    if (cap < PAGE_SLOTS)
        mem_free(slots);
    else
        mem_pages_free(slots, cap * sizeof(*slots));
}

static uint64_t *slots_new(uint32_t cap)
{
    size_t size_bytes = cap * sizeof(uint64_t);
    return cap < PAGE_SLOTS ? mem_zalloc(size_bytes) : mem_pages(size_bytes);
}

/* An empty segment for this many entries. */
static struct map_segment segment_for(uint32_t count)
{
    uint32_t cap = cap_for(count);
    return (struct map_segment){.slots = slots_new(cap), .cap = cap};
}

static uint32_t next_of(const struct map_segment *segment, uint32_t i)
{
    return i + 1 == segment->cap ? 0 : i + 1;
}

static void segment_put(struct map_segment *segment, uint64_t slot)
{
    uint32_t i = map_home(segment, hash_of(slot));
    while (segment->slots[i])
        i = next_of(segment, i);
    segment->slots[i] = slot;
    segment->count++;
}

/* Puts all entries of `from` into a segment that has room for them. In place order their homes rise
 * (except for those that wrapped around the end), so this reads and writes memory in order. */
static void segment_take_all(struct map_segment *segment, const struct map_segment *from)
{
    uint64_t *slots = segment->slots;
    uint32_t cap = segment->cap;
    for (const uint64_t *at = from->slots, *end = at + from->cap; at < end; at++) {
        if (!*at)
            continue;
        uint32_t i = map_home(segment, hash_of(*at));
        while (slots[i])
            i = i + 1 == cap ? 0 : i + 1;
        slots[i] = *at;
    }
    segment->count += from->count;
}

/* Gives an array other than `from_cap` slots. All of them are empty then. */
static uint64_t *slots_resize(uint64_t *slots, uint32_t from_cap, uint32_t cap)
{
    if (from_cap < PAGE_SLOTS || cap < PAGE_SLOTS) {
        slots_free(slots, from_cap);
        return slots_new(cap);
    }
    slots = mem_pages_resize(slots, from_cap * sizeof(*slots), cap * sizeof(*slots));
    memset(slots, 0, (cap < from_cap ? cap : from_cap) * sizeof(*slots));
    return slots;
}

/*
 * Empties the segment and gives it slots for this many entries. Returns those that it had, on the
 * heap: to copy and to clear them costs less than new slots, most of whose pages the kernel must
 * map and zero again.
 */
static struct map_segment segment_renew(struct map_segment *segment, uint32_t count)
{
    size_t size_bytes = segment->cap * sizeof(*segment->slots);
    struct map_segment old = *segment;
    old.slots = mem_alloc(size_bytes);
    memcpy(old.slots, segment->slots, size_bytes);
    segment->cap = cap_for(count);
    segment->slots = slots_resize(segment->slots, old.cap, segment->cap);
    segment->count = 0;
    return old;
}

static void segment_resize(struct map_segment *segment, uint32_t count)
{
    struct map_segment old = segment_renew(segment, count);
    segment_take_all(segment, &old);
    mem_free(old.slots);
}

static bool is_full(const struct map_segment *segment)
{
    return segment->count >= segment->cap / 8 * 7;
}

static uint32_t steps_to(const struct map_segment *segment, uint32_t from, uint32_t to)
{
    return to >= from ? to - from : to + segment->cap - from;
}

/* Removes the slot and closes the gap, so that no probe ends early. Without a branch that depends
   on an entry, which would be guessed wrongly half of the time: each is written to the gap, and
   those that may not stand there are written over. */
static void segment_cut(struct map_segment *segment, uint32_t gap)
{
    uint64_t *slots = segment->slots;
    for (uint32_t i = next_of(segment, gap); slots[i]; i = next_of(segment, i)) {
        uint32_t home = map_home(segment, hash_of(slots[i]));
        /* May the entry at i stand in the gap? Only if its home is not in (gap, i]. */
        bool moves = steps_to(segment, home, i) >= steps_to(segment, gap, i);
        slots[gap] = slots[i];
        gap = moves ? i : gap;
    }
    slots[gap] = 0;
    segment->count--;
}

/* ---- segments come and go ---- */

static void set_segment_count(struct map *map, uint32_t count)
{
    map->segments = mem_realloc(map->segments, count * sizeof(*map->segments));
    map->segment_count = count;
    map->mask = count < 2 ? 0 : UINT32_MAX >> __builtin_clz(count - 1);
}

/* How many entries of the segment have these lowest bits of their hashes. */
static uint32_t count_of(const struct map_segment *segment, uint32_t mask, uint32_t bits)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < segment->cap; i++)
        count += segment->slots[i] && ((uint32_t)hash_of(segment->slots[i]) & mask) == bits;
    return count;
}

/* Splits the next segment in order: one more bit of the hash decides which entries move to the new
 * segment. */
static void split(struct map *map)
{
    uint32_t number = map->segment_count; /* of the new one */
    set_segment_count(map, number + 1);
    struct map_segment *lower = &map->segments[number & map->mask >> 1];
    struct map_segment *upper = &map->segments[number];
    uint32_t upper_count = count_of(lower, map->mask, number);
    struct map_segment old = segment_renew(lower, lower->count - upper_count);
    *upper = segment_for(upper_count);
    for (uint32_t i = 0; i < old.cap; i++) {
        uint64_t slot = old.slots[i];
        if (slot)
            segment_put(((uint32_t)hash_of(slot) & map->mask) == number ? upper : lower, slot);
    }
    mem_free(old.slots);
}

/* Undoes the last split. */
static void merge(struct map *map)
{
    uint32_t upper_number = map->segment_count - 1;
    struct map_segment upper = map->segments[upper_number];
    struct map_segment *lower = &map->segments[upper_number & map->mask >> 1];
    segment_resize(lower, lower->count + upper.count);
    segment_take_all(lower, &upper);
    slots_free(upper.slots, upper.cap);
    set_segment_count(map, upper_number);
}

/* ---- the table ---- */

void map_init(struct map *map, map_eq *eq, const void *ctx)
{
    *map = (struct map){.eq = eq, .ctx = ctx};
}

void map_fini(struct map *map)
{
    for (uint32_t i = 0; i < map->segment_count; i++)
        slots_free(map->segments[i].slots, map->segments[i].cap);
    mem_free(map->segments);
    map_init(map, map->eq, map->ctx);
}

uint32_t map_find(const struct map *map, uint64_t hash, const void *key)
{
    if (!map->segments)
        return MAP_NONE;
    const struct map_segment *segment = map_segment_of(map, hash);
    const uint64_t *slots = segment->slots;
    for (uint32_t i = map_home(segment, hash); slots[i]; i = next_of(segment, i)) {
        if ((uint32_t)(slots[i] >> 32) == (uint32_t)hash &&
            map->eq(map->ctx, (uint32_t)slots[i] - 1, key))
            return (uint32_t)slots[i] - 1;
    }
    return MAP_NONE;
}

/*
 * The slow paths are separate functions, so that the fast ones need fewer registers. Splits are
 * decided here, too: segments differ in size, so one of them grows soon enough.
 */
static __attribute__((noinline)) void add_with_room(struct map *map, uint64_t hash, uint32_t number)
{
    if (!map->segments) {
        set_segment_count(map, 1);
        map->segments[0] = segment_for(1);
    }
    if (map->count >= (size_t)map->segment_count * SPLIT_COUNT)
        split(map);
    struct map_segment *segment = map_segment_of(map, hash);
    if (is_full(segment))
        segment_resize(segment, segment->count + 1);
    segment_put(segment, slot_of(hash, number));
    map->count++;
}

static __attribute__((noinline)) void shrink(struct map *map, struct map_segment *segment)
{
    uint32_t keep = map->segment_count < KEEP_MORE_FROM ? KEEP_SLOTS : KEEP_MORE;
    uint32_t count = segment->count > keep / 2 ? segment->count : keep / 2;
    if (map->count < (size_t)(map->segment_count - 1) * MERGE_COUNT)
        merge(map);
    else if (segment->cap > keep && cap_for(count) < segment->cap)
        segment_resize(segment, count);
}

void map_add(struct map *map, uint64_t hash, uint32_t number)
{
    CHECK(number < MAP_NONE - 1);
    struct map_segment *segment = map->segments ? map_segment_of(map, hash) : NULL;
    if (!segment || is_full(segment)) {
        add_with_room(map, hash, number);
        return;
    }
    segment_put(segment, slot_of(hash, number));
    map->count++;
}

void map_remove(struct map *map, uint64_t hash, uint32_t number)
{
    uint64_t slot = slot_of(hash, number);
    CHECK(map->segments);
    struct map_segment *segment = map_segment_of(map, hash);
    uint32_t place = map_home(segment, hash);
    while (segment->slots[place] != slot) {
        CHECK(segment->slots[place]); /* it is there */
        place = next_of(segment, place);
    }
    segment_cut(segment, place);
    map->count--;
    if (segment->count < segment->cap / 4)
        shrink(map, segment);
}

size_t map_count(const struct map *map)
{
    return map->count;
}

/* ---- validity ---- */

static void valid_segment(const struct map *map, const struct map_segment *segment)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < segment->cap; i++) {
        if (!segment->slots[i])
            continue;
        count++;
        CHECK(map_segment_of(map, hash_of(segment->slots[i])) == segment);
        for (uint32_t at = map_home(segment, hash_of(segment->slots[i])); at != i;
             at = next_of(segment, at))
            CHECK(segment->slots[at]);
    }
    CHECK(count == segment->count && count <= segment->cap / 8 * 7);
}

void map_valid(const struct map *map)
{
    size_t count = 0;
    for (uint32_t i = 0; i < map->segment_count; i++) {
        valid_segment(map, &map->segments[i]);
        count += map->segments[i].count;
    }
    CHECK(count == map->count);
    CHECK(map->segment_count < 2 ||
          (map->segment_count - 1 > map->mask / 2 && map->segment_count - 1 <= map->mask));
}
