/*
 * A hierarchical timing wheel: 11 levels of 64 slots, level 0 one microsecond wide, so any
 * 64-bit time has a place and every timer fires at its exact microsecond, never before.
 *
 * Items live in a pool; the wheel links them through three of their fields. Adding and removing
 * are O(1); an item moves down at most once per level on its way (10 times for a far one).
 * After G. Varghese and T. Lauck, "Hashed and Hierarchical Timing Wheels" (SOSP 1987); the level
 * is the highest 6-bit digit in which the time differs from now, as in W. Ahern's timeout.c.
 */
#ifndef LATERD_CORE_WHEEL_H
#define LATERD_CORE_WHEEL_H

#include <stddef.h>
#include <stdint.h>

#include "base/pool.h"

enum {
    WHEEL_LEVELS = 11,
    WHEEL_SLOTS = 64,
    WHEEL_ITEMS_MAX = 0x0fffffff, /* numbers of items are below: `prev` also holds the level */
};

struct wheel {
    const struct pool *pool;
    size_t link_at;                      /* offset of `uint32_t prev, next` in an item */
    int64_t (*when)(const void *item);   /* the item's time, microseconds */
    int64_t now_us;                      /* how far the hand has come */
    int64_t next_us;                     /* no item is due before this */
    uint32_t count;                      /* items on the wheel */
    uint32_t moving;                     /* level whose slot under the hand is half moved down */
    uint64_t occupied[WHEEL_LEVELS + 1]; /* one bit a slot */
    uint32_t slots[WHEEL_LEVELS + 1][WHEEL_SLOTS];  /* first items; the last level has one slot: */
    uint32_t counts[WHEEL_LEVELS + 1][WHEEL_SLOTS]; /* items that were due when they were added */
};

/*
 * Items are objects of `pool`; at `link_at` they have `uint32_t prev, next`, which belong to the
 * wheel while the item is on it. `when` tells an item's time and must not change meanwhile.
 */
void wheel_init(struct wheel *wheel, const struct pool *pool, size_t link_at,
                int64_t (*when)(const void *item), int64_t now_us);
void wheel_add(struct wheel *wheel, uint32_t item);
void wheel_remove(struct wheel *wheel, uint32_t item);

/*
 * Takes one item whose time is at or before `now_us`, or POOL_NONE. Spends at most `*budget`
 * steps (one step looks at one item or slot) and lowers it; POOL_NONE with *budget 0 means
 * "call again". A due item met while its slot moves down is taken at once, so the first of
 * 100,000 items due together comes in O(1). Items come roughly in time order.
 */
uint32_t wheel_pop(struct wheel *wheel, int64_t now_us, uint32_t *budget);

/*
 * When to call wheel_pop next: no item's time is before it, and it is the earliest item's time
 * exactly, unless the earliest slot holds more than 64 items (then it is when that slot must move
 * down) or the earliest item was removed since the last wheel_pop that ran dry. So an early call
 * is made at most once for each removed item. INT64_MAX when empty. O(1).
 */
int64_t wheel_next_us(const struct wheel *wheel);

/*
 * How many items have a time at or before the limit. O(levels * 64): slots know how many they
 * hold. At most one slot a level straddles the limit; up to 1,000 items of it are looked at, more
 * are taken to be spread evenly.
 */
uint64_t wheel_count_until(const struct wheel *wheel, int64_t limit_us);

void wheel_valid(const struct wheel *wheel); /* CHECKs every link and place. O(items) */

#endif
