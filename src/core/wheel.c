/*
 * Times are compared as unsigned "ticks" (the sign bit flipped), so that digits of six bits order
 * them, negative times included.
 *
 * Invariants
 * W1 An item on level l differs from the hand (now_us) first in its l-th digit, where it is larger;
 *    it is in the slot of that digit. So all of a level is due before all of the next.
 * W2 One exception: the slot under the hand on level `moving`, which is being emptied: its items
 *    go down, or out if due. The hand stands at the slot's start until it is empty.
 * W3 Items of the last level (DUE) were due when they were added.
 * W4 next_us is not after any item's time.
 *
 * An item's `prev` holds its level in the top four bits, so removing needs no search: the slot is
 * the time's digit at that level.
 */
#include "core/wheel.h"

#include <stdbool.h>
#include <string.h>

#include "base/check.h"

enum {
    DUE = WHEEL_LEVELS, /* the level of items that were due when added; only its slot 0 is used */
    NOT_MOVING = WHEEL_LEVELS,
    DIGIT_BITS = 6,
    NONE = WHEEL_ITEMS_MAX, /* as `prev`: the first of its slot */
    LEVEL_SHIFT = 28,
    EXACT_MAX = 64,   /* items looked at to find the earliest of a slot */
    COUNT_MAX = 1000, /* items looked at to count those before a limit */
};

struct link {
    uint32_t prev; /* level << LEVEL_SHIFT | item */
    uint32_t next;
};

static struct link *link_of(const struct wheel *wheel, uint32_t item)
{
    return (struct link *)(void *)((char *)pool_at(wheel->pool, item) + wheel->link_at);
}

static int64_t when_of(const struct wheel *wheel, uint32_t item)
{
    return wheel->when(pool_at(wheel->pool, item));
}

static uint64_t tick_of(int64_t time_us)
{
    return (uint64_t)time_us ^ 1ull << 63;
}

static int64_t time_of(uint64_t tick)
{
    return (int64_t)(tick ^ 1ull << 63);
}

static unsigned digit(uint64_t tick, unsigned level)
{
    return level == DUE ? 0 : (unsigned)(tick >> level * DIGIT_BITS) & (WHEEL_SLOTS - 1);
}

/* The hand's digits above the level, then `slot`, then zeros. */
static uint64_t slot_start(const struct wheel *wheel, unsigned level, unsigned slot)
{
    unsigned above = (level + 1) * DIGIT_BITS;
    uint64_t tick = tick_of(wheel->now_us);
    tick = above >= 64 ? 0 : tick >> above << above;
    return tick | (uint64_t)slot << level * DIGIT_BITS;
}

static uint64_t slot_end(const struct wheel *wheel, unsigned level, unsigned slot) /* inclusive */
{
    return slot_start(wheel, level, slot) | ((1ull << level * DIGIT_BITS) - 1);
}

void wheel_init(struct wheel *wheel, const struct pool *pool, size_t link_at,
                int64_t (*when)(const void *item), int64_t now_us)
{
    *wheel = (struct wheel){
        .pool = pool,
        .link_at = link_at,
        .when = when,
        .now_us = now_us,
        .next_us = INT64_MAX,
        .moving = NOT_MOVING,
    };
    memset(wheel->slots, 0xff, sizeof(wheel->slots)); /* POOL_NONE everywhere */
}

static void put(struct wheel *wheel, uint32_t item, int64_t when_us)
{
    unsigned level = DUE;
    uint64_t tick = tick_of(when_us);
    if (when_us > wheel->now_us)
        level = (63u - (unsigned)__builtin_clzll(tick ^ tick_of(wheel->now_us))) / DIGIT_BITS;
    unsigned slot = digit(tick, level);
    uint32_t first = wheel->slots[level][slot];
    *link_of(wheel, item) =
        (struct link){.prev = (uint32_t)level << LEVEL_SHIFT | NONE, .next = first};
    if (first != POOL_NONE)
        link_of(wheel, first)->prev = (uint32_t)level << LEVEL_SHIFT | item;
    wheel->slots[level][slot] = item;
    wheel->occupied[level] |= 1ull << slot;
    wheel->counts[level][slot]++;
}

static void take(struct wheel *wheel, uint32_t item, int64_t when_us)
{
    struct link link = *link_of(wheel, item);
    unsigned level = link.prev >> LEVEL_SHIFT;
    unsigned slot = digit(tick_of(when_us), level);
    uint32_t prev = link.prev & NONE;
    CHECK(wheel->counts[level][slot] > 0);
    if (prev == NONE) {
        CHECK(wheel->slots[level][slot] == item);
        wheel->slots[level][slot] = link.next;
    } else {
        link_of(wheel, prev)->next = link.next;
    }
    if (link.next != POOL_NONE)
        link_of(wheel, link.next)->prev = link.prev;
    wheel->counts[level][slot]--;
    if (wheel->slots[level][slot] == POOL_NONE)
        wheel->occupied[level] &= ~(1ull << slot);
}

void wheel_add(struct wheel *wheel, uint32_t item)
{
    CHECK(item < WHEEL_ITEMS_MAX);
    int64_t when_us = when_of(wheel, item);
    put(wheel, item, when_us);
    wheel->count++;
    if (when_us < wheel->next_us)
        wheel->next_us = when_us;
}

void wheel_remove(struct wheel *wheel, uint32_t item)
{
    CHECK(wheel->count > 0);
    take(wheel, item, when_of(wheel, item));
    wheel->count--;
    if (wheel->count == 0)
        wheel->next_us = INT64_MAX;
}

/* The slot that is half moved, else the first occupied one. False: nothing but due ones. */
static bool first_slot(const struct wheel *wheel, unsigned *out_level, unsigned *out_slot)
{
    if (wheel->moving != NOT_MOVING) {
        unsigned slot = digit(tick_of(wheel->now_us), wheel->moving);
        if (wheel->occupied[wheel->moving] >> slot & 1) {
            *out_level = wheel->moving;
            *out_slot = slot;
            return true;
        }
    }
    for (unsigned level = 0; level < WHEEL_LEVELS; level++) {
        if (wheel->occupied[level]) {
            *out_level = level;
            *out_slot = (unsigned)__builtin_ctzll(wheel->occupied[level]);
            return true;
        }
    }
    return false;
}

/* A time that is not after any item's, and exact where that is cheap. */
static int64_t earliest(const struct wheel *wheel)
{
    unsigned level, slot;
    if (wheel->slots[DUE][0] != POOL_NONE)
        return wheel->now_us;
    if (!first_slot(wheel, &level, &slot))
        return INT64_MAX;
    int64_t start_us = time_of(slot_start(wheel, level, slot));
    if (level == 0 || level == wheel->moving || wheel->counts[level][slot] > EXACT_MAX)
        return start_us;
    int64_t earliest_us = INT64_MAX;
    for (uint32_t item = wheel->slots[level][slot]; item != POOL_NONE;
         item = link_of(wheel, item)->next) {
        int64_t when_us = when_of(wheel, item);
        if (when_us < earliest_us)
            earliest_us = when_us;
    }
    return earliest_us;
}

/* Nothing (more) is due at now_us. */
static uint32_t run_dry(struct wheel *wheel, int64_t now_us)
{
    if (now_us >= wheel->now_us) {
        wheel->now_us = now_us; /* no occupied slot starts before: every item keeps its place */
        wheel->moving = NOT_MOVING;
    }
    wheel->next_us = earliest(wheel);
    return POOL_NONE;
}

/* Takes one item out of the slot under the hand; sends it down unless it is due. */
static bool move_one(struct wheel *wheel, unsigned level, unsigned slot, int64_t now_us,
                     uint32_t *out_item)
{
    uint32_t item = wheel->slots[level][slot];
    int64_t when_us = when_of(wheel, item);
    take(wheel, item, when_us);
    if (when_us > now_us) {
        put(wheel, item, when_us);
        return false;
    }
    *out_item = item;
    return true;
}

uint32_t wheel_pop(struct wheel *wheel, int64_t now_us, uint32_t *budget)
{
    if (now_us < wheel->next_us)
        return POOL_NONE;
    while (*budget > 0) {
        unsigned level = DUE, slot = 0;
        if (wheel->slots[DUE][0] == POOL_NONE) {
            if (!first_slot(wheel, &level, &slot))
                return run_dry(wheel, now_us);
            uint64_t start = slot_start(wheel, level, slot);
            if (start > tick_of(now_us))
                return run_dry(wheel, now_us);
            wheel->now_us = time_of(start);
            wheel->moving = level;
        }
        --*budget;
        uint32_t item;
        if (move_one(wheel, level, slot, now_us, &item)) {
            wheel->count--;
            if (wheel->count == 0)
                wheel->next_us = INT64_MAX;
            return item;
        }
    }
    return POOL_NONE;
}

int64_t wheel_next_us(const struct wheel *wheel)
{
    return wheel->next_us;
}

/* How many of a slot that straddles the limit are at or before it. */
static uint64_t count_slot(const struct wheel *wheel, unsigned level, unsigned slot,
                           int64_t limit_us)
{
    uint64_t count = wheel->counts[level][slot];
    if (count > COUNT_MAX) {
        uint64_t start = slot_start(wheel, level, slot);
        uint64_t width = slot_end(wheel, level, slot) - start;
        uint64_t part = (tick_of(limit_us) - start) / (width / COUNT_MAX + 1); /* per mille */
        return count / COUNT_MAX * part;
    }
    uint64_t below = 0;
    for (uint32_t item = wheel->slots[level][slot]; item != POOL_NONE;
         item = link_of(wheel, item)->next)
        below += when_of(wheel, item) <= limit_us;
    return below;
}

uint64_t wheel_count_until(const struct wheel *wheel, int64_t limit_us)
{
    uint64_t limit = tick_of(limit_us);
    uint64_t count = limit_us >= wheel->now_us ? wheel->counts[DUE][0] : 0;
    for (unsigned level = 0; level < WHEEL_LEVELS; level++) {
        for (uint64_t left = wheel->occupied[level]; left; left &= left - 1) {
            unsigned slot = (unsigned)__builtin_ctzll(left);
            if (slot_start(wheel, level, slot) > limit)
                break;
            if (slot_end(wheel, level, slot) <= limit)
                count += wheel->counts[level][slot];
            else
                count += count_slot(wheel, level, slot, limit_us);
        }
    }
    return count;
}

static void valid_item(const struct wheel *wheel, uint32_t item, unsigned level, unsigned slot)
{
    int64_t when_us = when_of(wheel, item);
    CHECK(wheel->next_us <= when_us);
    if (level == DUE) {
        CHECK(when_us <= wheel->now_us);
        return;
    }
    uint64_t tick = tick_of(when_us), hand = tick_of(wheel->now_us);
    CHECK(digit(tick, level) == slot);
    if (level == wheel->moving && slot == digit(hand, level)) {
        CHECK(tick >= hand && tick <= slot_end(wheel, level, slot));
        return;
    }
    CHECK(tick > hand);
    CHECK((63u - (unsigned)__builtin_clzll(tick ^ hand)) / DIGIT_BITS == level);
}

void wheel_valid(const struct wheel *wheel)
{
    uint32_t total = 0;
    for (unsigned level = 0; level <= DUE; level++) {
        for (unsigned slot = 0; slot < WHEEL_SLOTS; slot++) {
            uint32_t count = 0, prev = NONE;
            for (uint32_t item = wheel->slots[level][slot]; item != POOL_NONE; count++) {
                const struct link *link = link_of(wheel, item);
                CHECK(link->prev == ((uint32_t)level << LEVEL_SHIFT | prev));
                valid_item(wheel, item, level, slot);
                prev = item;
                item = link->next;
            }
            CHECK(wheel->counts[level][slot] == count);
            CHECK((wheel->occupied[level] >> slot & 1) == (count > 0));
            total += count;
        }
    }
    CHECK(total == wheel->count);
}
