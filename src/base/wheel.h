/*
 * A hierarchical timing wheel: 11 levels of slots, a slot of level 0 one microsecond wide and each
 * level 64 times as wide as the one below, so any 64-bit time has a place and every timer fires at
 * its exact microsecond, never before it.
 *
 * Items live in a pool; the wheel links them through fields of theirs. Adding and removing are
 * O(1); an item moves down at most once per level on its way (10 times for a far one). A slot that
 * holds many items is moved down ahead of time and in slices (see wheel_pop), so an item is not
 * late because many others share a slot with it or with what comes after it. Single-threaded. Pure.
 *
 * After G. Varghese and T. Lauck, "Hashed and Hierarchical Timing Wheels" (SOSP 1987). Each level
 * has room for the 64 slots of this turn and the 64 of the next, so a slot can be moved down before
 * the hand reaches it.
 */
#ifndef LATERD_BASE_WHEEL_H
#define LATERD_BASE_WHEEL_H

#include <stddef.h>
#include <stdint.h>

#include "base/pool.h"

enum {
    WHEEL_LEVELS = 11,
    WHEEL_SLOTS = 64,             /* of one turn of a level */
    WHEEL_RING = 2 * WHEEL_SLOTS, /* this turn's and the next one's */
    WHEEL_ITEMS_MAX = 0x0fffffff, /* numbers of items are below: `prev` also holds the level */
};

struct wheel_slot {
    uint32_t first; /* item, or POOL_NONE */
    uint32_t count;
};

/* An item's time, microseconds. `ctx` is the wheel's, `item` in its pool. */
typedef int64_t wheel_when(const void *ctx, const void *item);

struct wheel {
    const struct pool *pool;
    size_t link_at;                         /* offset of `uint32_t prev, next` in an item */
    wheel_when *when;                       /* the item's time, microseconds */
    const void *ctx;                        /* what `when` is given */
    int64_t now_us;                         /* the position of the hand */
    int64_t next_us;                        /* no item is due before this */
    int64_t ahead_us;                       /* when a slice of a crowded slot is to be moved down */
    uint32_t count;                         /* items on the wheel */
    uint32_t crowded_count;                 /* bits set in `crowded` */
    uint32_t levels;                        /* bit l: level l holds items */
    uint32_t emptying;                      /* bit l: level l's slot under the hand holds items */
    uint32_t steps;                         /* counts steps: next_level() */
    uint64_t occupied[WHEEL_LEVELS + 1][2]; /* one bit a slot */
    uint64_t crowded[WHEEL_LEVELS][2];      /* the same: slots to be moved down ahead of time */
    /* The last level has one slot: items that were due when they were added. */
    struct wheel_slot slots[WHEEL_LEVELS + 1][WHEEL_RING];
};

/*
 * Items are objects of `pool`; at `link_at` they have `uint32_t prev, next`, which belong to the
 * wheel while the item is on it. `when` returns an item's time, which must not change while the
 * item is on the wheel; it is called with `ctx`.
 */
void wheel_init(struct wheel *wheel, const struct pool *pool, size_t link_at, wheel_when *when,
                const void *ctx, int64_t now_us);
void wheel_add(struct wheel *wheel, uint32_t item);
void wheel_remove(struct wheel *wheel, uint32_t item);
/* Prefetches the item's neighbours, before wheel_remove(). */
void wheel_prefetch(const struct wheel *wheel, uint32_t item);

/* For wheel_pop(), from next_us on. */
uint32_t wheel_pop_due(struct wheel *wheel, int64_t now_us, uint32_t *budget);

/*
 * Takes one item whose time is at or before `now_us` off the wheel and returns it; POOL_NONE: none
 * was found. Spends at most `*budget` steps (one step looks at one item or slot) and lowers it;
 * POOL_NONE with *budget 0 means "call again". All items due at now_us have been taken when it
 * returns POOL_NONE with budget left. Items come roughly in time order.
 *
 * A slot with more than 64 items is moved down before its time comes: up to half of the budget, and
 * at most 128 steps at one now_us, go into that, when it is time for a slice. If the slot's time
 * comes before that is finished, its items move down while others fall due: those that are due are
 * returned at once, and every eighth step looks for due items elsewhere. So the first of 100,000
 * due together comes in O(1), and a slot of any size makes no other item late.
 */
static inline uint32_t wheel_pop(struct wheel *wheel, int64_t now_us, uint32_t *budget)
{
    return now_us < wheel->next_us ? POOL_NONE : wheel_pop_due(wheel, now_us, budget);
}

/*
 * When to call wheel_pop next. No item's time is before it. It is the earliest item's time exactly,
 * except in two cases: the earliest item was removed since the last wheel_pop that returned
 * POOL_NONE (so an early call is made at most once for each removed item), or a slot with more than
 * 64 items is to be moved down. Such a slot asks for one call per 128 of its items, 8 ms apart,
 * closer together only if the time left demands it. INT64_MAX when empty. O(1).
 */
static inline int64_t wheel_next_us(const struct wheel *wheel)
{
    return wheel->next_us;
}

/*
 * How many items have a time at or before the limit. O(levels * 64), because slots count their
 * items. A slot that contains the limit (one per level, and on two levels at most unless the hand
 * is late) is read item by item if it has at most `looks` items; else its items are assumed to
 * be spread evenly over its time, so that the result is an estimate.
 */
uint64_t wheel_count_until(const struct wheel *wheel, int64_t limit_us, uint32_t looks);

void wheel_valid(const struct wheel *wheel); /* CHECKs every link and place. O(items) */

#endif
