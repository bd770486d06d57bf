/*
 * A sorted index of the topics by name, for listings: an array of sorted blocks, like a B+ tree of
 * two levels. With n topics an insertion or removal compares O(log n) names and moves O(sqrt n)
 * bytes; the next topic is O(1). Single-threaded.
 */
#ifndef LATERD_CORE_NAME_ORDER_H
#define LATERD_CORE_NAME_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

/* The name of a topic by its number. */
typedef struct bytes name_order_name(const void *ctx, uint32_t number);

struct name_block;

struct name_order {
    struct name_block **blocks; /* none of them is empty */
    uint32_t count, cap;
    name_order_name *name;
    const void *ctx;
};

/* A position between two names. Valid until the next change. */
struct name_place {
    uint32_t block, index;
};

void name_order_init(struct name_order *order, name_order_name *name, const void *ctx);
void name_order_fini(struct name_order *order);
void name_order_add(struct name_order *order, uint32_t number);    /* its name must not be there */
void name_order_remove(struct name_order *order, uint32_t number); /* its name must be there */

/* The position before the first name that is greater than `name`. O(log n). */
struct name_place name_order_after(const struct name_order *order, struct bytes name);
/* Returns the topic behind the position and advances it. False: there is none. O(1). */
bool name_order_next(const struct name_order *order, struct name_place *place,
                     uint32_t *out_number);

void name_order_valid(const struct name_order *order, uint32_t count); /* CHECKs it all */

#endif
