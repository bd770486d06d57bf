/*
 * Times are compared as unsigned "ticks" (the sign bit flipped), so that digits of six bits order
 * them, negative times included. A tick without its lowest l digits is the number of its slot on
 * level l. The hand is the tick of now_us; its own slot numbers are the slots "under the hand".
 *
 * Invariants
 * W1 A slot's number on level l is above the hand's and belongs to the hand's turn of the level
 *    (the 64 slots with which it shares one slot of level l + 1) or to the next turn. So a ring of
 *    two turns has room for all; the lowest bit of the turn's number says which half it uses.
 * W2 One exception: slots under the hand (`emptying`). Their items move down, or are returned if
 *    due. The hand does not leave a slot that holds items.
 * W3 Items of the last level (DUE) were due when they were added.
 * W4 next_us is not after any item's time.
 * W5 An item is added to the lowest level that W1 allows. So nothing is added to the slot next to
 *    the hand's: when the hand comes to the slot before it, all that it will hold is known, and its
 *    items may move down to the next turn of the level below.
 *
 * So this turn's slots of a level all come before any slot of a higher level; only the next turn's
 * slots share their time with slots of higher levels.
 *
 * Crowded slots (of level AHEAD_LEVEL and up, with CROWDED items and more) are moved down ahead of
 * time: slot_ahead() says from when on. What is left to do at the slot's own time is small, or the
 * items came faster than anybody could move them.
 *
 * An item's `prev` holds its level in the top four bits, so removing needs no search: the slot is
 * the time's number on that level.
 */
#include "base/wheel.h"

#include <stdbool.h>

#include "base/check.h"
#include "base/prefetch.h"

enum {
    DUE = WHEEL_LEVELS, /* the level of items that were due when added; only its slot 0 is used */
    ALL_LEVELS = (1 << WHEEL_LEVELS) - 1, /* but DUE */
    DIGIT_BITS = 6,
    NONE = WHEEL_ITEMS_MAX, /* as `prev`: the first of its slot */
    LEVEL_SHIFT = 28,
    EXACT_MAX = 64,          /* items looked at to find the earliest of a slot */
    CROWDED = EXACT_MAX + 1, /* items that make a slot crowded */
    CROWDED_PLAN = 1024,     /* each time a slot grows by this many, its move is planned again */
    AHEAD_LEVEL = 2,         /* slots of 4 ms and up are moved down ahead of time … */
    AHEAD_PACE_US = 64,      /* … at this pace for each item … */
    AHEAD_STEPS = 128,       /* … in slices of this many items */
    EMPTYING_STEPS = 8,      /* every 8th step looks for what is due elsewhere */
    MILLE = 1000,
};

struct link {
    uint32_t prev; /* level << LEVEL_SHIFT | item */
    uint32_t next;
};

static struct link *link_of(const struct wheel *wheel, uint32_t item)
{
    return (struct link *)(void *)((char *)pool_at(wheel->pool, item) + wheel->link_at);
}

static inline int64_t when_of(const struct wheel *wheel, uint32_t item)
{
    return wheel->when(wheel->ctx, pool_at(wheel->pool, item));
}

static uint64_t tick_of(int64_t time_us)
{
    return (uint64_t)time_us ^ 1ull << 63;
}

static int64_t time_of(uint64_t tick)
{
    return (int64_t)(tick ^ 1ull << 63);
}

/* ---- slots ---- */

static uint64_t number_of(uint64_t tick, unsigned level)
{
    return level == DUE ? 0 : tick >> level * DIGIT_BITS;
}

static unsigned place_of(uint64_t number) /* in the level's ring */
{
    return number & (WHEEL_RING - 1);
}

static uint64_t start_of(uint64_t number, unsigned level)
{
    return number << level * DIGIT_BITS;
}

static uint64_t end_of(uint64_t number, unsigned level) /* inclusive */
{
    return start_of(number, level) | ((1ull << level * DIGIT_BITS) - 1);
}

/* The slots of `bits` on this level that come after the hand's, in its turn and in the next one. */
struct ahead {
    uint64_t turn; /* the number of the hand's turn */
    uint64_t now;
    uint64_t next;
};

static struct ahead ahead_of(const struct wheel *wheel, const uint64_t bits[2], unsigned level)
{
    uint64_t number = tick_of(wheel->now_us) >> level * DIGIT_BITS;
    uint64_t turn = number >> DIGIT_BITS;
    uint64_t passed = (2ull << (number & (WHEEL_SLOTS - 1))) - 1; /* the hand's slot as well */
    return (struct ahead){.turn = turn, .now = bits[turn & 1] & ~passed, .next = bits[~turn & 1]};
}

static uint64_t first_of(const struct ahead *ahead) /* the number; there must be one */
{
    if (ahead->now)
        return ahead->turn << DIGIT_BITS | (unsigned)__builtin_ctzll(ahead->now);
    return (ahead->turn + 1) << DIGIT_BITS | (unsigned)__builtin_ctzll(ahead->next);
}

/* When to begin to move the slot's items down: not before the hand is in the preceding slot. */
static uint64_t slot_ahead(const struct wheel *wheel, unsigned level, uint64_t number)
{
    uint64_t width = 1ull << level * DIGIT_BITS;
    /* To be finished one slot of the level below early, because that level does the same. */
    uint64_t lead = (width >> DIGIT_BITS) +
                    (uint64_t)wheel->slots[level][place_of(number)].count * AHEAD_PACE_US;
    return start_of(number, level) - (lead < width ? lead : width);
}

/* ---- linking ---- */

void wheel_init(struct wheel *wheel, const struct pool *pool, size_t link_at, wheel_when *when,
                const void *ctx, int64_t now_us)
{
    *wheel = (struct wheel){
        .pool = pool,
        .link_at = link_at,
        .when = when,
        .ctx = ctx,
        .now_us = now_us,
        .next_us = INT64_MAX,
        .ahead_us = INT64_MAX,
    };
    for (unsigned level = 0; level <= DUE; level++) {
        for (unsigned place = 0; place < WHEEL_RING; place++)
            wheel->slots[level][place].first = POOL_NONE;
    }
}

/* The slot has become crowded, or has grown much: plan its move down. */
__attribute__((cold, noinline)) static void crowd(struct wheel *wheel, unsigned level,
                                                  uint64_t number)
{
    unsigned place = place_of(number);
    uint64_t *bits = &wheel->crowded[level][place / WHEEL_SLOTS];
    uint64_t bit = 1ull << place % WHEEL_SLOTS;
    wheel->crowded_count += !(*bits & bit);
    *bits |= bit;
    int64_t ahead_us = time_of(slot_ahead(wheel, level, number));
    if (ahead_us < wheel->ahead_us)
        wheel->ahead_us = ahead_us;
    if (ahead_us < wheel->next_us)
        wheel->next_us = ahead_us;
}

/* The slot has fewer than CROWDED items now. */
__attribute__((cold, noinline)) static void thin_out(struct wheel *wheel, unsigned level,
                                                     unsigned place)
{
    uint64_t bit = 1ull << place % WHEEL_SLOTS;
    if (level == DUE || !(wheel->crowded[level][place / WHEEL_SLOTS] & bit))
        return;
    wheel->crowded[level][place / WHEEL_SLOTS] &= ~bit;
    wheel->crowded_count--;
}

/* The slot has one item less. */
static inline void lose(struct wheel *wheel, struct wheel_slot *slot, unsigned level,
                        uint64_t number)
{
    unsigned place = place_of(number);
    uint32_t left = --slot->count;
    if (left == CROWDED - 1)
        thin_out(wheel, level, place);
    if (left > 0)
        return;
    uint64_t *bits = wheel->occupied[level];
    bits[place / WHEEL_SLOTS] &= ~(1ull << place % WHEEL_SLOTS);
    if (!(bits[0] | bits[1]))
        wheel->levels &= ~(1u << level);
    if (number == number_of(tick_of(wheel->now_us), level))
        wheel->emptying &= ~(1u << level);
}

/* For a time after the hand: the lowest level that W1 allows, and the slot's number there. */
static unsigned level_for(uint64_t hand, uint64_t tick, uint64_t *out_number)
{
    unsigned level = (63u - (unsigned)__builtin_clzll(tick - hand)) / DIGIT_BITS;
    unsigned shift = level * DIGIT_BITS;
    *out_number = tick >> shift;
    if (level > 0 && *out_number - (hand >> shift) == 1) { /* in the next turn of the one below */
        *out_number = tick >> (shift - DIGIT_BITS);
        level--;
    }
    return level;
}

static void put(struct wheel *wheel, uint32_t item, int64_t when_us)
{
    unsigned level = DUE;
    uint64_t number = 0;
    if (when_us > wheel->now_us)
        level = level_for(tick_of(wheel->now_us), tick_of(when_us), &number);
    unsigned place = place_of(number);
    struct wheel_slot *slot = &wheel->slots[level][place];
    uint32_t first = slot->first;
    uint32_t level_bits = (uint32_t)level << LEVEL_SHIFT;
    *link_of(wheel, item) = (struct link){.prev = level_bits | NONE, .next = first};
    slot->first = item;
    if (first != POOL_NONE) {
        link_of(wheel, first)->prev = level_bits | item;
    } else {
        wheel->occupied[level][place / WHEEL_SLOTS] |= 1ull << place % WHEEL_SLOTS;
        wheel->levels |= 1u << level;
    }
    if (++slot->count % CROWDED_PLAN == CROWDED && level >= AHEAD_LEVEL && level != DUE)
        crowd(wheel, level, number);
}

static void take(struct wheel *wheel, uint32_t item, int64_t when_us)
{
    struct link link = *link_of(wheel, item);
    unsigned level = link.prev >> LEVEL_SHIFT;
    uint64_t number = number_of(tick_of(when_us), level);
    struct wheel_slot *slot = &wheel->slots[level][place_of(number)];
    uint32_t prev = link.prev & NONE;
    CHECK(slot->count > 0);
    if (prev == NONE) {
        CHECK(slot->first == item);
        slot->first = link.next;
    } else {
        link_of(wheel, prev)->next = link.next;
    }
    if (link.next != POOL_NONE)
        link_of(wheel, link.next)->prev = link.prev;
    lose(wheel, slot, level, number);
}

/* The same for the first item of a slot, which there must be. */
static uint32_t take_first(struct wheel *wheel, unsigned level, uint64_t number)
{
    struct wheel_slot *slot = &wheel->slots[level][place_of(number)];
    uint32_t item = slot->first;
    uint32_t next = link_of(wheel, item)->next;
    slot->first = next;
    if (next != POOL_NONE)
        link_of(wheel, next)->prev = (uint32_t)level << LEVEL_SHIFT | NONE;
    lose(wheel, slot, level, number);
    return item;
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

/* An item has left the wheel. */
static void count_down(struct wheel *wheel)
{
    CHECK(wheel->count > 0);
    if (--wheel->count == 0)
        wheel->next_us = wheel->ahead_us = INT64_MAX;
}

void wheel_remove(struct wheel *wheel, uint32_t item)
{
    take(wheel, item, when_of(wheel, item));
    count_down(wheel);
}

void wheel_prefetch(const struct wheel *wheel, uint32_t item)
{
    struct link link = *link_of(wheel, item);
    uint32_t prev = link.prev & NONE;
    if (prev != NONE)
        prefetch_write(link_of(wheel, prev));
    if (link.next != POOL_NONE)
        prefetch_write(link_of(wheel, link.next));
}

/* ---- what comes next ---- */

/* The slot after the hand that begins first; slots under the hand do not count. */
struct first {
    bool found;
    unsigned level;
    uint64_t start;
};

static struct first first_slot(const struct wheel *wheel)
{
    struct first first = {.start = UINT64_MAX};
    for (uint32_t left = wheel->levels & ALL_LEVELS; left; left &= left - 1) {
        unsigned level = (unsigned)__builtin_ctz(left);
        struct ahead ahead = ahead_of(wheel, wheel->occupied[level], level);
        if (!(ahead.now | ahead.next))
            continue;
        uint64_t start = start_of(first_of(&ahead), level);
        if (start < first.start || !first.found)
            first = (struct first){.found = true, .level = level, .start = start};
        if (ahead.now)
            break; /* all higher levels' slots are later */
    }
    return first;
}

/* The time of the slot's earliest item where that is cheap to find, else when the slot begins. */
static int64_t slot_earliest(const struct wheel *wheel, unsigned level, uint64_t number)
{
    unsigned place = place_of(number);
    if (level == 0 || wheel->slots[level][place].count > EXACT_MAX)
        return time_of(start_of(number, level));
    int64_t earliest_us = INT64_MAX;
    for (uint32_t item = wheel->slots[level][place].first; item != POOL_NONE;
         item = link_of(wheel, item)->next) {
        int64_t when_us = when_of(wheel, item);
        if (when_us < earliest_us)
            earliest_us = when_us;
    }
    return earliest_us;
}

/* A time that is not after any item's, and exact where that is cheap. Nothing is due. */
static int64_t earliest(const struct wheel *wheel)
{
    int64_t earliest_us = INT64_MAX;
    for (uint32_t left = wheel->levels & ALL_LEVELS; left; left &= left - 1) {
        unsigned level = (unsigned)__builtin_ctz(left);
        struct ahead ahead = ahead_of(wheel, wheel->occupied[level], level);
        if (!(ahead.now | ahead.next))
            continue;
        uint64_t number = first_of(&ahead);
        if (time_of(start_of(number, level)) < earliest_us) {
            int64_t slot_us = slot_earliest(wheel, level, number);
            if (slot_us < earliest_us)
                earliest_us = slot_us;
        }
        if (ahead.now)
            break; /* as in first_slot() */
    }
    return earliest_us;
}

static void hand_to(struct wheel *wheel, int64_t now_us) /* no slot begins before */
{
    if (now_us > wheel->now_us)
        wheel->now_us = now_us;
}

/* Nothing (more) is due at now_us: the first slot, if there is one, begins later. */
static uint32_t run_dry(struct wheel *wheel, int64_t now_us, const struct first *first)
{
    hand_to(wheel, now_us);
    if (first->found && first->level == 0)
        wheel->next_us = time_of(first->start); /* of one microsecond: exact, and none is before */
    else
        wheel->next_us = earliest(wheel);
    if (wheel->ahead_us < wheel->next_us)
        wheel->next_us = wheel->ahead_us;
    return POOL_NONE;
}

/* ---- moving down ahead of time ---- */

/* Until the next slice of a slot whose move has begun: at our pace, or faster if it is late. */
static uint64_t slice_wait(const struct wheel *wheel, unsigned level, uint64_t number, uint64_t now)
{
    uint64_t start = start_of(number, level);
    uint64_t ready = start - (1ull << (level - 1) * DIGIT_BITS);
    uint64_t end = now < ready ? ready : start;
    uint64_t left = now < end ? end - now : 0;
    uint64_t count = wheel->slots[level][place_of(number)].count;
    if (left >= count * AHEAD_PACE_US)
        return AHEAD_STEPS * AHEAD_PACE_US;
    uint64_t wait = left * AHEAD_STEPS / count;
    return wait ? wait : 1;
}

/* Sets ahead_us, later than now_us. On each level the first crowded slot is the first to move. */
static void plan_ahead(struct wheel *wheel, int64_t now_us)
{
    uint64_t now = tick_of(now_us), next = tick_of(INT64_MAX);
    for (unsigned level = AHEAD_LEVEL; level < WHEEL_LEVELS && wheel->crowded_count; level++) {
        struct ahead ahead = ahead_of(wheel, wheel->crowded[level], level);
        if (!(ahead.now | ahead.next))
            continue;
        uint64_t number = first_of(&ahead);
        uint64_t at = slot_ahead(wheel, level, number);
        if (at <= now)
            at = now + slice_wait(wheel, level, number, now);
        if (at < next)
            next = at;
    }
    wheel->ahead_us = time_of(next);
}

/* Moves up to `steps` items of the slot after the hand's down. Returns how many it moved. */
static uint32_t move_slice(struct wheel *wheel, unsigned level, uint32_t steps)
{
    uint64_t number = number_of(tick_of(wheel->now_us), level) + 1;
    const struct wheel_slot *slot = &wheel->slots[level][place_of(number)];
    uint32_t moved = 0;
    for (; moved < steps && slot->first != POOL_NONE; moved++) {
        uint32_t item = take_first(wheel, level, number);
        put(wheel, item, when_of(wheel, item)); /* to a lower level: W5 */
    }
    return moved;
}

/* One slice for the slots whose time to move down has come, lower levels first. */
static void move_ahead(struct wheel *wheel, int64_t now_us, uint32_t *budget)
{
    uint64_t now = tick_of(now_us);
    struct first first = first_slot(wheel);
    bool due = wheel->emptying || wheel->slots[DUE][0].first != POOL_NONE ||
               (first.found && first.start <= now);
    if (!due)
        hand_to(wheel, now_us);
    uint32_t steps = *budget / 2 + *budget % 2;
    if (steps > AHEAD_STEPS)
        steps = AHEAD_STEPS;
    for (unsigned level = AHEAD_LEVEL; level < WHEEL_LEVELS && steps > 0; level++) {
        uint64_t number = number_of(tick_of(wheel->now_us), level) + 1;
        unsigned place = place_of(number);
        bool crowded = wheel->crowded[level][place / WHEEL_SLOTS] >> place % WHEEL_SLOTS & 1;
        if (!crowded || slot_ahead(wheel, level, number) > now)
            continue;
        uint32_t moved = move_slice(wheel, level, steps);
        steps -= moved;
        *budget -= moved;
    }
    plan_ahead(wheel, now_us);
}

/* ---- taking ---- */

/* Moves the hand to the beginning of the first slot after it. */
static void turn_to(struct wheel *wheel, uint64_t start)
{
    wheel->now_us = time_of(start);
    for (unsigned level = 0; level < WHEEL_LEVELS; level++) {
        uint64_t number = number_of(start, level);
        unsigned place = place_of(number);
        if (start_of(number, level) != start)
            break;
        if (wheel->occupied[level][place / WHEEL_SLOTS] >> place % WHEEL_SLOTS & 1)
            wheel->emptying |= 1u << level;
    }
}

/*
 * The level whose slot under the hand has the next item; moves the hand if it has to. A slot under
 * the hand with very many items must not delay others, so every EMPTYING_STEPS this looks for what
 * is due elsewhere. False: nothing is due, and *out_first is the slot that comes first.
 */
static bool next_level(struct wheel *wheel, uint64_t now, unsigned *out_level,
                       struct first *out_first)
{
    unsigned level = WHEEL_LEVELS;
    if (wheel->emptying) {
        level = (unsigned)__builtin_ctz(wheel->emptying);
        *out_level = level;
        if (++wheel->steps % EMPTYING_STEPS)
            return true;
    }
    struct first first = first_slot(wheel);
    bool due = first.found && first.start <= now;
    if (level < WHEEL_LEVELS &&
        (!due || number_of(first.start, level) != number_of(tick_of(wheel->now_us), level)))
        return true; /* nothing is due within this slot's time: W2 */
    if (!due) {
        *out_first = first;
        return false;
    }
    turn_to(wheel, first.start);
    *out_level = (unsigned)__builtin_ctz(wheel->emptying);
    return true;
}

/* Takes one item out of the slot under the hand; sends it down unless it is due. */
static bool move_one(struct wheel *wheel, unsigned level, int64_t now_us, uint32_t *out_item)
{
    uint32_t item = take_first(wheel, level, number_of(tick_of(wheel->now_us), level));
    int64_t when_us = when_of(wheel, item);
    if (when_us > now_us) {
        put(wheel, item, when_us);
        return false;
    }
    *out_item = item;
    return true;
}

uint32_t wheel_pop_due(struct wheel *wheel, int64_t now_us, uint32_t *budget)
{
    if (now_us >= wheel->ahead_us)
        move_ahead(wheel, now_us, budget);
    while (*budget > 0) {
        unsigned level = DUE;
        struct first first;
        if (wheel->slots[DUE][0].first == POOL_NONE &&
            !next_level(wheel, tick_of(now_us), &level, &first))
            return run_dry(wheel, now_us, &first);
        --*budget;
        uint32_t item;
        if (move_one(wheel, level, now_us, &item)) {
            count_down(wheel);
            return item;
        }
    }
    return POOL_NONE;
}

/* ---- counting ---- */

/* How many of a slot that straddles the limit are at or before it. */
static uint64_t count_slot(const struct wheel *wheel, unsigned level, uint64_t number,
                           int64_t limit_us, uint32_t looks)
{
    unsigned place = place_of(number);
    uint64_t count = wheel->slots[level][place].count;
    if (count > looks) {
        uint64_t start = start_of(number, level);
        uint64_t width = end_of(number, level) - start;
        uint64_t part = (tick_of(limit_us) - start) / (width / MILLE + 1); /* per mille */
        return count * part / MILLE;
    }
    uint64_t below = 0;
    for (uint32_t item = wheel->slots[level][place].first; item != POOL_NONE;
         item = link_of(wheel, item)->next)
        below += when_of(wheel, item) <= limit_us;
    return below;
}

/* Of one turn of a level. */
static uint64_t count_turn(const struct wheel *wheel, unsigned level, uint64_t turn,
                           int64_t limit_us, uint32_t looks)
{
    uint64_t count = 0, limit = tick_of(limit_us);
    for (uint64_t left = wheel->occupied[level][turn & 1]; left; left &= left - 1) {
        uint64_t number = turn << DIGIT_BITS | (unsigned)__builtin_ctzll(left);
        if (start_of(number, level) > limit)
            break;
        if (end_of(number, level) <= limit)
            count += wheel->slots[level][place_of(number)].count;
        else
            count += count_slot(wheel, level, number, limit_us, looks);
    }
    return count;
}

uint64_t wheel_count_until(const struct wheel *wheel, int64_t limit_us, uint32_t looks)
{
    uint64_t count = limit_us >= wheel->now_us ? wheel->slots[DUE][0].count : 0;
    for (unsigned level = 0; level < WHEEL_LEVELS; level++) {
        uint64_t turn = number_of(tick_of(wheel->now_us), level) >> DIGIT_BITS;
        count += count_turn(wheel, level, turn, limit_us, looks);
        count += count_turn(wheel, level, turn + 1, limit_us, looks);
    }
    return count;
}

/* ---- validity ---- */

static void valid_item(const struct wheel *wheel, uint32_t item, unsigned level, unsigned place)
{
    int64_t when_us = when_of(wheel, item);
    CHECK(wheel->next_us <= when_us);
    if (level == DUE) {
        CHECK(when_us <= wheel->now_us && place == 0);
        return;
    }
    uint64_t number = number_of(tick_of(when_us), level);
    uint64_t hand = number_of(tick_of(wheel->now_us), level);
    CHECK(place_of(number) == place);
    CHECK(number > hand || (number == hand && wheel->emptying >> level & 1));
    CHECK((number >> DIGIT_BITS) - (hand >> DIGIT_BITS) <= 1);
}

/* Returns whether the slot is crowded. */
static bool valid_slot(const struct wheel *wheel, unsigned level, unsigned place)
{
    uint64_t bit = 1ull << place % WHEEL_SLOTS;
    uint32_t count = 0, prev = NONE;
    for (uint32_t item = wheel->slots[level][place].first; item != POOL_NONE; count++) {
        const struct link *link = link_of(wheel, item);
        CHECK(link->prev == ((uint32_t)level << LEVEL_SHIFT | prev));
        valid_item(wheel, item, level, place);
        prev = item;
        item = link->next;
    }
    CHECK(wheel->slots[level][place].count == count);
    CHECK(!(wheel->occupied[level][place / WHEEL_SLOTS] & bit) == !count);
    if (level == DUE)
        return false;
    bool crowded = count >= CROWDED && level >= AHEAD_LEVEL;
    CHECK(!(wheel->crowded[level][place / WHEEL_SLOTS] & bit) == !crowded);
    if (place == place_of(number_of(tick_of(wheel->now_us), level)))
        CHECK((wheel->emptying >> level & 1) == (count > 0));
    return crowded;
}

void wheel_valid(const struct wheel *wheel)
{
    uint32_t total = 0, crowded = 0;
    for (unsigned level = 0; level <= DUE; level++) {
        for (unsigned place = 0; place < WHEEL_RING; place++) {
            crowded += valid_slot(wheel, level, place);
            total += wheel->slots[level][place].count;
        }
        bool any = wheel->occupied[level][0] | wheel->occupied[level][1];
        CHECK((wheel->levels >> level & 1) == any);
    }
    CHECK(total == wheel->count && crowded == wheel->crowded_count);
    CHECK(!crowded || wheel->ahead_us < INT64_MAX || wheel->emptying);
    CHECK(wheel->next_us <= wheel->ahead_us || wheel->next_us <= wheel->now_us);
}
