#include "store/slices/slice_moves.h"

#include "base/check.h"
#include "base/mem.h"

/* A slot: segment << 32 | kind << 29 | bytes / 8 << 23 | unit + 1; 0 is empty. */
enum { UNIT_BITS = 23, BYTES_BITS = 6, KIND_AT = UNIT_BITS + BYTES_BITS, KINDS = 8 };
enum { SLOTS_MIN = 16 };

static uint32_t unit_of(uint64_t slot)
{
    return (uint32_t)(slot & ((UINT32_C(1) << UNIT_BITS) - 1)) - 1;
}

static struct slice_move move_of(uint64_t slot)
{
    return (struct slice_move){
        .segment = (uint32_t)(slot >> 32),
        .bytes = (uint32_t)(slot >> UNIT_BITS & ((1 << BYTES_BITS) - 1)) * 8,
        .kind = (enum slice_move_kind)(slot >> KIND_AT & (KINDS - 1)),
    };
}

/* Fibonacci hashing: units of adjacent jobs differ by about ten only. */
static uint32_t home(const struct slice_moves *moves, uint32_t unit)
{
    return (uint32_t)((unit * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & moves->mask;
}

/* The unit's slot, or the empty slot where it would be added. */
static uint32_t place(const struct slice_moves *moves, uint32_t unit)
{
    CHECK(moves->count <= moves->mask); /* so an empty slot ends the search */
    uint32_t at = home(moves, unit);
    while (moves->slots[at] && unit_of(moves->slots[at]) != unit)
        at = (at + 1) & moves->mask;
    return at;
}

static void grow(struct slice_moves *moves)
{
    struct slice_moves larger = {.count = moves->count};
    uint32_t slots = moves->slots ? 2 * (moves->mask + 1) : SLOTS_MIN;
    larger.slots = mem_zalloc(slots * sizeof(*larger.slots));
    larger.mask = slots - 1;
    for (uint32_t at = 0; moves->slots && at <= moves->mask; at++) {
        if (moves->slots[at])
            larger.slots[place(&larger, unit_of(moves->slots[at]))] = moves->slots[at];
    }
    CHECK(larger.mask > moves->mask || !moves->slots);
    mem_free(moves->slots);
    *moves = larger;
}

void slice_moves_fini(struct slice_moves *moves)
{
    mem_free(moves->slots);
    *moves = (struct slice_moves){0};
}

bool slice_moves_find(const struct slice_moves *moves, uint32_t unit, struct slice_move *out_move)
{
    uint64_t slot = moves->slots ? moves->slots[place(moves, unit)] : 0;
    if (!slot)
        return false;
    *out_move = move_of(slot);
    return true;
}

void slice_moves_set(struct slice_moves *moves, uint32_t unit, struct slice_move move)
{
    CHECK(unit + 1 < UINT32_C(1) << UNIT_BITS && move.bytes % 8 == 0);
    CHECK(move.bytes / 8 < 1 << BYTES_BITS);
    if (!moves->slots || moves->count >= (moves->mask + 1) / 4 * 3)
        grow(moves);
    uint64_t *slot = &moves->slots[place(moves, unit)];
    moves->count += *slot == 0;
    *slot = (uint64_t)move.segment << 32 | (uint64_t)move.kind << KIND_AT |
            (uint64_t)(move.bytes / 8) << UNIT_BITS | (unit + 1);
}

void slice_moves_remove(struct slice_moves *moves, uint32_t unit)
{
    uint32_t hole = moves->slots ? place(moves, unit) : 0;
    if (!moves->slots || !moves->slots[hole])
        return;
    if (--moves->count == 0) {
        slice_moves_fini(moves);
        return;
    }
    /* Entries behind the hole move into it, unless that is in front of their home. */
    for (uint32_t at = (hole + 1) & moves->mask; moves->slots[at]; at = (at + 1) & moves->mask) {
        uint32_t from = home(moves, unit_of(moves->slots[at]));
        if (((at - from) & moves->mask) < ((at - hole) & moves->mask))
            continue;
        moves->slots[hole] = moves->slots[at];
        hole = at;
    }
    moves->slots[hole] = 0;
}

bool slice_moves_next(const struct slice_moves *moves, uint32_t *at, uint32_t *out_unit,
                      struct slice_move *out_move)
{
    while (moves->slots && *at <= moves->mask) {
        uint64_t slot = moves->slots[(*at)++];
        if (!slot)
            continue;
        *out_unit = unit_of(slot);
        *out_move = move_of(slot);
        return true;
    }
    return false;
}
