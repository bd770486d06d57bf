/*
 * Arrays of tests that grow by one item at a time. Their room doubles: under the sanitizers each
 * realloc is a copy, and a large one is given back to the system.
 */
#ifndef LATERD_TEST_GROW_H
#define LATERD_TEST_GROW_H

#include <stddef.h>
#include <string.h>

#include "base/mem.h"

/* Room for one more than `count` items of `item_bytes`; `items` is NULL or was made by this. */
static inline void *grow_by_one(void *items, size_t count, size_t item_bytes)
{
    if (count & (count - 1))
        return items;
    return mem_realloc(items, (count ? count * 2 : 1) * item_bytes);
}

/* A copy that can grow so, too. */
static inline void *grown_copy(const void *items, size_t count, size_t item_bytes)
{
    size_t room = 1;
    while (room < count)
        room *= 2;
    void *copy = mem_alloc(room * item_bytes);
    if (count)
        memcpy(copy, items, count * item_bytes);
    return copy;
}

#endif
