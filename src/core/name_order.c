/*
 * Invariants: each block holds 1 to BLOCK_NAMES numbers; their names ascend within a block and from
 * block to block.
 */
#include "core/name_order.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"

enum { BLOCK_NAMES = 256 };

struct name_block {
    uint32_t count;
    uint32_t numbers[BLOCK_NAMES];
};

void name_order_init(struct name_order *order, name_order_name *name, const void *ctx)
{
    *order = (struct name_order){.name = name, .ctx = ctx};
}

void name_order_fini(struct name_order *order)
{
    for (uint32_t i = 0; i < order->count; i++)
        mem_free(order->blocks[i]);
    mem_free(order->blocks);
    name_order_init(order, order->name, order->ctx);
}

enum end { BEFORE, UP_TO }; /* without `name` itself, or with it */

/* How many names of the block come before `name`, or up to it. */
static uint32_t count_names(const struct name_order *order, const struct name_block *block,
                            enum end end, struct bytes name)
{
    uint32_t low = 0, high = block->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int compared = bytes_cmp(order->name(order->ctx, block->numbers[middle]), name);
        if (compared < 0 || (end == UP_TO && compared == 0))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The last block that begins at or before `name`; the first block if all begin behind it. */
static uint32_t block_of(const struct name_order *order, struct bytes name)
{
    uint32_t low = 0, high = order->count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        struct bytes first = order->name(order->ctx, order->blocks[middle]->numbers[0]);
        if (bytes_cmp(first, name) <= 0)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static struct name_block *add_block(struct name_order *order, uint32_t place)
{
    if (order->count == order->cap) {
        order->cap = order->cap ? order->cap * 2 : 4;
        order->blocks = mem_realloc(order->blocks, order->cap * sizeof(struct name_block *));
    }
    memmove(order->blocks + place + 1, order->blocks + place,
            (order->count - place) * sizeof(struct name_block *));
    struct name_block *block = mem_alloc(sizeof(*block));
    block->count = 0;
    order->blocks[place] = block;
    order->count++;
    return block;
}

/* Moves the upper half of a full block to a new one behind it. */
static void split(struct name_order *order, uint32_t place)
{
    struct name_block *upper = add_block(order, place + 1);
    struct name_block *full = order->blocks[place];
    upper->count = full->count / 2;
    full->count -= upper->count;
    memcpy(upper->numbers, full->numbers + full->count, upper->count * sizeof(uint32_t));
}

void name_order_add(struct name_order *order, uint32_t number)
{
    struct bytes name = order->name(order->ctx, number);
    if (order->count == 0)
        (void)add_block(order, 0); /* found again below */
    uint32_t place = block_of(order, name);
    if (order->blocks[place]->count == BLOCK_NAMES) {
        split(order, place);
        place = block_of(order, name);
    }
    struct name_block *block = order->blocks[place];
    uint32_t index = count_names(order, block, BEFORE, name);
    memmove(block->numbers + index + 1, block->numbers + index,
            (block->count - index) * sizeof(uint32_t));
    block->numbers[index] = number;
    block->count++;
}

void name_order_remove(struct name_order *order, uint32_t number)
{
    struct bytes name = order->name(order->ctx, number);
    CHECK(order->count > 0);
    uint32_t place = block_of(order, name);
    struct name_block *block = order->blocks[place];
    uint32_t index = count_names(order, block, BEFORE, name);
    CHECK(index < block->count && block->numbers[index] == number);
    block->count--;
    memmove(block->numbers + index, block->numbers + index + 1,
            (block->count - index) * sizeof(uint32_t));
    if (block->count)
        return;
    mem_free(block);
    order->count--;
    memmove(order->blocks + place, order->blocks + place + 1,
            (order->count - place) * sizeof(struct name_block *));
}

struct name_place name_order_after(const struct name_order *order, struct bytes name)
{
    if (order->count == 0)
        return (struct name_place){0};
    uint32_t block = block_of(order, name);
    return (struct name_place){block, count_names(order, order->blocks[block], UP_TO, name)};
}

bool name_order_next(const struct name_order *order, struct name_place *place, uint32_t *out_number)
{
    if (place->block < order->count && place->index == order->blocks[place->block]->count)
        *place = (struct name_place){.block = place->block + 1};
    if (place->block >= order->count)
        return false;
    *out_number = order->blocks[place->block]->numbers[place->index++];
    return true;
}

void name_order_valid(const struct name_order *order, uint32_t count)
{
    struct name_place place = {0};
    struct bytes before = {0};
    uint32_t number, seen = 0;
    for (; name_order_next(order, &place, &number); seen++) {
        struct bytes name = order->name(order->ctx, number);
        CHECK(seen == 0 || bytes_cmp(before, name) < 0);
        before = name;
    }
    CHECK(seen == count);
    for (uint32_t i = 0; i < order->count; i++)
        CHECK(order->blocks[i]->count > 0 && order->blocks[i]->count <= BLOCK_NAMES);
}
