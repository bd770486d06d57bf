/*
 * Where in an array of a test's model the items with a number are: a hash table with open
 * addresses. Nothing is removed, so the caller looks whether the item that it finds at a place has
 * the number.
 */
#ifndef LATERD_TEST_PLACES_H
#define LATERD_TEST_PLACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"

struct places {
    uint32_t *slots; /* a place plus one each, or 0; they are a power of two … */
    size_t mask;     /* … and so many, less one */
    size_t count;    /* of them that are not 0 */
};

/* Empties it; there are at least so many slots, 64 or more. */
static inline void places_make(struct places *places, size_t slots_least)
{
    size_t slots = 64;
    while (slots < slots_least)
        slots *= 2;
    mem_free(places->slots);
    *places = (struct places){mem_zalloc(slots * sizeof(*places->slots)), slots - 1, 0};
}

static inline bool places_full(const struct places *places)
{
    return 2 * (places->count + 1) > places->mask;
}

static inline size_t places_home(const struct places *places, uint64_t number)
{
    return (number * UINT64_C(0x9e3779b97f4a7c15) >> 32) & places->mask;
}

static inline void places_add(struct places *places, uint64_t number, size_t at)
{
    size_t slot = places_home(places, number);
    while (places->slots[slot])
        slot = (slot + 1) & places->mask;
    places->slots[slot] = (uint32_t)at + 1;
    places->count++;
}

/* One place after the other at which the number may be; `step` is 0 at first. False: no further. */
static inline bool places_next(const struct places *places, uint64_t number, size_t *step,
                               size_t *out_at)
{
    size_t slot = (places_home(places, number) + (*step)++) & places->mask;
    if (!places->slots[slot])
        return false;
    *out_at = places->slots[slot] - 1;
    return true;
}

#endif
