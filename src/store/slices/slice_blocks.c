/*
 * What is known of a slice's blocks without reading them: how many of a block's records live, which
 * blocks the disk could not read, and from which no job has to come.
 */
#include <assert.h>

#include "base/check.h"
#include "base/mem.h"
#include "store/slices/slices_parts.h"

enum { LISTING_AHEAD = 256 * 1024 }; /* bytes */

uint32_t slice_block_live(const struct slice *slice, uint32_t block)
{
    const struct slice_fence *fence = &slice->fences[block];
    uint32_t unit = slice_unit(slice_block_begin(slice, block)), dead = 0;
    uint32_t end =
        slice_unit(slice_block_end(slice, block)); /* both are multiples of 64: whole words */
    for (; slice->dead && unit < end; unit += 64)
        dead += (uint32_t)__builtin_popcountll(slice->dead[unit / 64]);
    return fence->jobs > dead ? fence->jobs - dead : 0;
}

static_assert(BLOCK / SLICE_UNIT % 64 == 0, "a block's bits are whole words");

void slice_note_unread(struct slice *slice, uint32_t block, int64_t retry_at_us)
{
    bool again = slice_is_unread(slice, block);
    if (again || slice->unread_count == 0) {
        slice->unread_next = block + 1;
        slice->retry_at_us = retry_at_us;
    }
    CHECK(block < slice->head.blocks && slice->unread_count <= slice->head.blocks);
    if (!slice->unread)
        slice->unread = mem_zalloc((slice->head.blocks / 64 + 1) * sizeof(*slice->unread));
    slice->unread_count += !again;
    slice->unread[block / 64] |= UINT64_C(1) << block % 64;
}

void slice_note_read(struct slice *slice, uint32_t block)
{
    if (!slice_is_unread(slice, block))
        return;
    CHECK(slice->unread_count > 0);
    slice->unread[block / 64] &= ~(UINT64_C(1) << block % 64);
    slice->unread_count--;
    slice->block_unread = slice->block_unread && slice->unread_count > 0;
}

uint32_t slice_next_unread(const struct slice *slice)
{
    uint32_t block = slice->unread_next;
    for (uint32_t i = 0; i <= slice->head.blocks; i++, block++) {
        if (block >= slice->head.blocks)
            block = 0;
        if (slice_is_unread(slice, block))
            break;
    }
    return block;
}

uint32_t slice_block_at(const struct slice *slice, uint64_t offset)
{
    uint32_t from = 0, to = slice->head.blocks;
    while (to - from > 1) {
        uint32_t middle = from + (to - from) / 2;
        if (slice_block_begin(slice, middle) <= offset)
            from = middle;
        else
            to = middle;
    }
    return from;
}

void slice_note_in_memory(struct slice *slice)
{
    struct slice_move move;
    uint32_t at = 0, unit, blocks = slice->head.blocks;
    if (slice->moves.count == 0)
        return;
    uint32_t *moved = mem_zalloc(blocks * sizeof(*moved));
    slice->in_memory = mem_zalloc((blocks / 64 + 1) * sizeof(*slice->in_memory));
    while (slice_moves_next(&slice->moves, &at, &unit, &move))
        moved[slice_block_at(slice, (uint64_t)unit * SLICE_UNIT)]++;
    for (uint32_t block = 0; block < blocks; block++)
        if (moved[block] > 0 && moved[block] == slice_block_live(slice, block))
            slice->in_memory[block / 64] |= UINT64_C(1) << block % 64;
    mem_free(moved);
}

bool slice_block_has_come(const struct slice *slice, uint32_t block)
{
    bool in_memory = slice->in_memory && slice->in_memory[block / 64] >> block % 64 & 1;
    return in_memory || slice_block_live(slice, block) == 0;
}

/*
 * The first read of a slice may be all that the listing wants of it: nothing is read ahead. When a
 * second part of the same block is read, the rest of that block is; when the next block is read,
 * LISTING_AHEAD bytes behind it are, and as much again when the last of those blocks is read.
 */
uint64_t slice_listing_ahead(struct slice *slice, uint32_t block, uint64_t end)
{
    bool same = slice->listed == block + 1, next = slice->listed > 0 && slice->listed == block;
    uint32_t to = block + 1;
    slice->listed = block + 1;
    if (!same && !next) {
        slice->listed_to = 0;
        return 0;
    }
    while (next && to < slice->head.blocks &&
           slice_block_end(slice, to) - slice_block_end(slice, block) <= LISTING_AHEAD)
        to++;
    if (slice->listed_to > block + 1 || slice->listed_to >= to ||
        slice_block_end(slice, to - 1) <= end)
        return 0;
    slice->listed_to = to;
    return slice_block_end(slice, to - 1) - end;
}
