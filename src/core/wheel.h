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

enum { WHEEL_LEVELS = 11, WHEEL_SLOTS = 64 };

struct wheel {
    const struct pool *pool;
    size_t link_at; /* offset of `uint32_t prev, next` in an item */
    int64_t now_us;
    uint32_t count;                  /* items on the wheel */
    uint32_t due;                    /* list of items that were due when they were added */
    uint64_t occupied[WHEEL_LEVELS]; /* one bit a slot */
    uint32_t slots[WHEEL_LEVELS][WHEEL_SLOTS];
    int64_t (*when)(const void *item); /* the item's time, microseconds */
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
 * When to call wheel_pop next: the earliest item's time exactly, or, when the first occupied
 * slot holds more than 64 items, a time not after it. INT64_MAX when empty. O(levels + 64).
 */
int64_t wheel_next_us(const struct wheel *wheel);

void wheel_valid(const struct wheel *wheel); /* CHECKs every link and place. O(items) */

#endif
