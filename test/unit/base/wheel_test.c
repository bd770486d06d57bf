/*
 * The wheel against the dullest correct thing: an array that is searched from end to end.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/wheel.h"
#include "test/unit/support/every.h"

enum { ITEMS_MAX = 4096 };

struct item {
    uint32_t unused; /* the pool's while the item is free */
    uint32_t prev, next;
    int64_t when_us;
    bool on;
};

struct bed {
    struct pool pool;
    struct wheel wheel;
    uint64_t random;
};

static int64_t when_of(const void *ctx, const void *item)
{
    assert_non_null(ctx);
    return ((const struct item *)item)->when_us;
}

static void bed_init(struct bed *bed, int64_t now_us, uint64_t seed)
{
    bed->random = seed * 2 + 1;
    pool_init(&bed->pool, sizeof(struct item));
    wheel_init(&bed->wheel, &bed->pool, offsetof(struct item, prev), when_of, bed, now_us);
}

static void bed_fini(struct bed *bed)
{
    pool_fini(&bed->pool);
}

static uint64_t random_below(struct bed *bed, uint64_t bound) /* xorshift64* */
{
    bed->random ^= bed->random >> 12;
    bed->random ^= bed->random << 25;
    bed->random ^= bed->random >> 27;
    return (bed->random * 0x2545f4914f6cdd1dull >> 11) % bound;
}

static struct item *item_at(struct bed *bed, uint32_t number)
{
    return pool_at(&bed->pool, number);
}

static uint32_t add(struct bed *bed, int64_t when_us)
{
    uint32_t number = pool_take(&bed->pool);
    item_at(bed, number)->when_us = when_us;
    item_at(bed, number)->on = true;
    wheel_add(&bed->wheel, number);
    return number;
}

static void drop(struct bed *bed, uint32_t number)
{
    item_at(bed, number)->on = false;
    pool_give(&bed->pool, number);
}

/* The earliest time of all items, found by looking at each. */
static int64_t earliest(struct bed *bed)
{
    int64_t found = INT64_MAX;
    for (uint32_t i = pool_next(&bed->pool, 0); i != POOL_NONE; i = pool_next(&bed->pool, i + 1)) {
        if (item_at(bed, i)->on && item_at(bed, i)->when_us < found)
            found = item_at(bed, i)->when_us;
    }
    return found;
}

static uint64_t count_until(struct bed *bed, int64_t limit_us)
{
    uint64_t count = 0;
    for (uint32_t i = pool_next(&bed->pool, 0); i != POOL_NONE; i = pool_next(&bed->pool, i + 1))
        count += item_at(bed, i)->on && item_at(bed, i)->when_us <= limit_us;
    return count;
}

static int64_t add_clipped(int64_t time_us, int64_t span_us)
{
    int64_t sum;
    return __builtin_add_overflow(time_us, span_us, &sum) ? INT64_MAX : sum;
}

/* A span of any size: as likely microseconds as centuries. */
static int64_t random_span(struct bed *bed)
{
    return (int64_t)random_below(bed, 1ull << random_below(bed, 62));
}

/* Pops with a small budget until it says that nothing is due, with other work in between. */
static void pop_all(struct bed *bed, int64_t now_us, bool interleave)
{
    for (;;) {
        uint32_t budget = 1 + (uint32_t)random_below(bed, 40);
        uint32_t number = wheel_pop(&bed->wheel, now_us, &budget);
        if (number != POOL_NONE) {
            assert_true(item_at(bed, number)->on);
            assert_true(item_at(bed, number)->when_us <= now_us); /* never early */
            drop(bed, number);
        } else if (budget > 0) {
            break;
        }
        if (!interleave)
            continue;
        uint32_t victim = (uint32_t)random_below(bed, ITEMS_MAX);
        if (pool_has(&bed->pool, victim) && item_at(bed, victim)->on && random_below(bed, 4) == 0) {
            wheel_remove(&bed->wheel, victim);
            drop(bed, victim);
        }
        if (bed->pool.count < ITEMS_MAX / 2 && random_below(bed, 8) == 0)
            add(bed, add_clipped(now_us, random_span(bed) - 100));
    }
    assert_true(earliest(bed) > now_us || bed->pool.count == 0); /* none is left behind */
    if (bed->pool.count == 0)
        assert_int_equal(wheel_next_us(&bed->wheel), INT64_MAX);
}

static void check_next(struct bed *bed, int64_t now_us)
{
    int64_t next_us = wheel_next_us(&bed->wheel);
    assert_true(next_us <= earliest(bed));
    assert_true(next_us > now_us || bed->pool.count == 0);
}

/* Many items in one slot of some level: their times share all but the lowest digits. */
static void add_crowd(struct bed *bed, int64_t now_us)
{
    unsigned bits = 12 + (unsigned)random_below(bed, 19);
    int64_t base_us = add_clipped(now_us, (int64_t)random_below(bed, 4ull << bits));
    for (uint64_t i = 60 + random_below(bed, 600); i > 0 && bed->pool.count < ITEMS_MAX; i--)
        add(bed, add_clipped(base_us, (int64_t)random_below(bed, 1ull << bits)));
}

/* To when the wheel wants to be called, several times: so crowds move down ahead of time. */
static int64_t follow(struct bed *bed, int64_t now_us)
{
    for (uint64_t calls = random_below(bed, 40); calls > 0; calls--) {
        int64_t next_us = wheel_next_us(&bed->wheel);
        if (next_us == INT64_MAX)
            break;
        now_us = next_us > now_us ? next_us : now_us;
        uint32_t budget = 1 + (uint32_t)random_below(bed, 100);
        uint32_t number = wheel_pop(&bed->wheel, now_us, &budget);
        if (number != POOL_NONE) {
            assert_true(item_at(bed, number)->on && item_at(bed, number)->when_us <= now_us);
            drop(bed, number);
        }
        wheel_valid(&bed->wheel);
        uint32_t victim = (uint32_t)random_below(bed, bed->pool.count * 2 + 1);
        if (pool_has(&bed->pool, victim) && item_at(bed, victim)->on) {
            wheel_remove(&bed->wheel, victim);
            drop(bed, victim);
        }
        if (bed->pool.count < ITEMS_MAX / 2 && random_below(bed, 4) == 0)
            add(bed, add_clipped(now_us, random_span(bed) - 100));
    }
    return now_us;
}

static void live(uint64_t seed, int64_t start_us) /* a failure is reproduced by the seed */
{
    struct bed bed;
    bed_init(&bed, start_us, seed);
    int64_t now_us = start_us;
    for (int round = 0; round < 60 && now_us < INT64_MAX; round++) {
        uint64_t adds = random_below(&bed, 100);
        int64_t same_us = add_clipped(now_us, random_span(&bed));
        for (uint64_t i = 0; i < adds && bed.pool.count < ITEMS_MAX; i++) {
            if (random_below(&bed, 4) == 0)
                add(&bed, same_us);
            else
                add(&bed, add_clipped(now_us, random_span(&bed) - 10));
        }
        wheel_valid(&bed.wheel);
        if (seed % 2)
            add_crowd(&bed, now_us);
        if (random_below(&bed, 2))
            now_us = follow(&bed, now_us);
        else
            now_us = add_clipped(now_us, random_span(&bed) / 64);
        pop_all(&bed, now_us, round % 3 == 0);
        wheel_valid(&bed.wheel);
        check_next(&bed, now_us);
        int64_t limit_us = add_clipped(now_us, random_span(&bed));
        if (bed.pool.count <= 1000) /* of more, the count is an estimate */
            assert_int_equal(wheel_count_until(&bed.wheel, limit_us, 1000),
                             count_until(&bed, limit_us));
    }
    pop_all(&bed, INT64_MAX, false);
    assert_int_equal(bed.pool.count, 0);
    bed_fini(&bed);
}

static void random_lives_match_a_searched_array(void **state)
{
    (void)state;
    static const int64_t starts[] = {0, -5, INT64_MIN, 1790000000000000, INT64_MAX - 1000000};
    for (uint64_t seed = 1; seed <= 300; seed += sim_every()) {
        live(seed, starts[seed % 5]);
    }
}

static void an_item_is_never_early_and_due_at_its_very_microsecond(void **state)
{
    (void)state;
    static const int64_t starts[] = {0, -1000000, 1790000000000000};
    for (unsigned s = 0; s < 3; s++) {
        for (unsigned bit = 0; bit < 62; bit++) {
            struct bed bed;
            bed_init(&bed, starts[s], 1);
            int64_t when_us = add_clipped(starts[s], (int64_t)(1ull << bit));
            add(&bed, when_us);
            assert_int_equal(wheel_next_us(&bed.wheel), when_us);
            uint32_t budget = 100;
            assert_int_equal(wheel_pop(&bed.wheel, when_us - 1, &budget), POOL_NONE);
            assert_int_equal(wheel_pop(&bed.wheel, when_us, &budget), 0);
            bed_fini(&bed);
        }
    }
}

static void the_ends_of_time_have_a_place(void **state)
{
    (void)state;
    struct bed bed;
    bed_init(&bed, 0, 1);
    add(&bed, INT64_MAX);
    add(&bed, INT64_MIN);
    add(&bed, 0);
    wheel_valid(&bed.wheel);
    uint32_t budget = 100;
    assert_int_not_equal(wheel_pop(&bed.wheel, 0, &budget), POOL_NONE);
    assert_int_not_equal(wheel_pop(&bed.wheel, 0, &budget), POOL_NONE);
    assert_int_equal(wheel_pop(&bed.wheel, INT64_MAX - 1, &budget), POOL_NONE);
    assert_int_equal(wheel_pop(&bed.wheel, INT64_MAX, &budget), 0);
    assert_int_equal(wheel_next_us(&bed.wheel), INT64_MAX);
    bed_fini(&bed);
}

static void the_first_of_many_due_at_one_instant_comes_at_once(void **state)
{
    (void)state;
    struct bed bed;
    bed_init(&bed, 1000, 1);
    for (int i = 0; i < 100000; i++)
        add(&bed, 5000000);
    uint32_t budget = 5;
    assert_int_not_equal(wheel_pop(&bed.wheel, 5000000, &budget), POOL_NONE);
    assert_true(wheel_next_us(&bed.wheel) <= 5000000);
    int left = 99999;
    while (left > 0) {
        budget = 1000;
        while (wheel_pop(&bed.wheel, 5000000, &budget) != POOL_NONE)
            left--;
    }
    assert_int_equal(bed.wheel.count, 0);
    bed_fini(&bed);
}

static void the_budget_bounds_the_work_of_a_call(void **state)
{
    (void)state;
    struct bed bed;
    bed_init(&bed, 0, 1);
    for (int i = 0; i < 5000; i++) /* one slot of level 4, none due when it moves down */
        add(&bed, 17000000 + 1000 + i);
    wheel_remove(&bed.wheel, add(&bed, 17000400)); /* makes it look into the slot early */
    uint32_t budget = 10, calls = 0;
    int64_t now_us = 17000500;
    do {
        budget = 10;
        assert_int_equal(wheel_pop(&bed.wheel, now_us, &budget), POOL_NONE);
        wheel_valid(&bed.wheel);
        calls++;
    } while (budget == 0);
    assert_true(calls >= 500);
    assert_true(wheel_next_us(&bed.wheel) <= 17001000);
    bed_fini(&bed);
}

static void a_removed_item_wakes_nobody_twice(void **state)
{
    (void)state;
    struct bed bed;
    bed_init(&bed, 0, 1);
    uint32_t early = add(&bed, 1000);
    add(&bed, 9000);
    wheel_remove(&bed.wheel, early);
    assert_int_equal(wheel_next_us(&bed.wheel), 1000); /* one early call … */
    uint32_t budget = 100;
    assert_int_equal(wheel_pop(&bed.wheel, 1000, &budget), POOL_NONE);
    assert_int_equal(wheel_next_us(&bed.wheel), 9000); /* … and then it knows */
    bed_fini(&bed);
}

static void a_crowd_that_is_removed_leaves_nothing_to_be_done(void **state)
{
    (void)state;
    enum { MANY = 100 };
    struct bed bed;
    uint32_t numbers[MANY];
    bed_init(&bed, 0, 1);
    for (int i = 0; i < MANY; i++)
        numbers[i] = add(&bed, 100000000);
    assert_true(wheel_next_us(&bed.wheel) < 100000000); /* to move them down ahead of time */
    for (int i = 0; i < MANY; i++)
        wheel_remove(&bed.wheel, numbers[i]);
    wheel_valid(&bed.wheel);
    assert_int_equal(wheel_next_us(&bed.wheel), INT64_MAX);
    bed_fini(&bed);
}

enum { CROWD = 200000, TICK_US = 1000, TICK_STEPS = 256 };

#define SLOT_US INT64_C(1073741824) /* of level 5: 17.9 minutes */

/*
 * CROWD items fall due between `from_us` and `until_us` after the beginning of a slot, and from two
 * seconds before it (or from `start_us` on) to four after it one more falls due each millisecond.
 * The wheel gets TICK_STEPS steps each millisecond from `start_us` on. Returns by how much the
 * latest of those in between was late.
 */
static int64_t lateness_beside_a_crowd(int64_t start_us, int64_t from_us, int64_t until_us)
{
    struct bed bed;
    int64_t slot_us = 1000 * SLOT_US, latest_us = 0;
    bed_init(&bed, slot_us - SLOT_US - 1, 7);
    uint32_t crowd_end = 0;
    for (int i = 0; i < CROWD; i++)
        crowd_end = add(&bed, slot_us + from_us +
                                  (int64_t)random_below(&bed, (uint64_t)(until_us - from_us))) +
                    1;
    int64_t next_us = slot_us + (start_us > -2000000 ? start_us : -2000000);
    for (int64_t now_us = slot_us + start_us; now_us < slot_us + 4100000; now_us += TICK_US) {
        for (; next_us < now_us + 500000 && next_us < slot_us + 4000000; next_us += TICK_US)
            add(&bed, next_us + 999 - (int64_t)random_below(&bed, 900));
        uint32_t budget = TICK_STEPS, number;
        while ((number = wheel_pop(&bed.wheel, now_us, &budget)) != POOL_NONE) {
            int64_t late_us = now_us - item_at(&bed, number)->when_us;
            assert_true(late_us >= 0);
            if (number >= crowd_end && late_us > latest_us && now_us > slot_us + start_us)
                latest_us = late_us;
        }
    }
    bed_fini(&bed);
    return latest_us;
}

static void a_crowd_in_one_slot_makes_no_other_item_late(void **state)
{
    (void)state;
    /* Far on in the slot, at its beginning, and all at one instant of it. */
    static const int64_t crowds_us[][2] = {
        {60000000, 900000000}, {5000000, 20000000}, {9000000, 9000001}};
    for (size_t i = 0; i < 3; i++)
        assert_true(lateness_beside_a_crowd(-60000000, crowds_us[i][0], crowds_us[i][1]) < TICK_US);
}

static void a_crowd_that_could_not_be_moved_in_time_makes_no_other_item_late(void **state)
{
    (void)state;
    /* The first call comes when it is too late to move the crowd ahead of time. */
    assert_true(lateness_beside_a_crowd(-TICK_US, 60000000, 900000000) < 2 * TICK_US);
    assert_true(lateness_beside_a_crowd(TICK_US, 60000000, 900000000) < 2 * TICK_US);
}

/* How often the wheel wants to be called until `end_us`, and the shortest time between two calls.
 */
static unsigned calls_until(struct bed *bed, int64_t end_us, int64_t *out_shortest_us)
{
    unsigned calls = 0;
    int64_t last_us = INT64_MIN / 2;
    *out_shortest_us = INT64_MAX;
    while (wheel_next_us(&bed->wheel) < end_us) {
        int64_t now_us = wheel_next_us(&bed->wheel);
        if (now_us - last_us < *out_shortest_us)
            *out_shortest_us = now_us - last_us;
        last_us = now_us;
        uint32_t budget = TICK_STEPS;
        while (wheel_pop(&bed->wheel, now_us, &budget) != POOL_NONE) {
        }
        calls++;
    }
    return calls;
}

static void a_crowd_asks_for_few_calls_while_it_moves_down(void **state)
{
    (void)state;
    struct bed bed;
    int64_t start_us = 1000 * SLOT_US, shortest_us;
    bed_init(&bed, start_us + 1, 3);
    for (int i = 0; i < CROWD; i++) /* one slot, far on in it, some slots away */
        add(&bed, start_us + 10 * SLOT_US + SLOT_US / 2 + (int64_t)random_below(&bed, 100000000));
    assert_int_equal(calls_until(&bed, start_us + 9 * SLOT_US + SLOT_US / 2, &shortest_us), 0);
    unsigned calls = calls_until(&bed, start_us + 10 * SLOT_US + SLOT_US / 4, &shortest_us);
    assert_in_range(calls, CROWD / 128, CROWD / 128 + 10);
    assert_true(shortest_us >= 8000);
    bed_fini(&bed);
}

static void far_items_wake_nobody_before_their_time(void **state)
{
    (void)state;
    struct bed bed;
    int64_t shortest_us, day_us = INT64_C(86400000000);
    bed_init(&bed, 1790000000000000, 3);
    assert_int_equal(calls_until(&bed, INT64_MAX, &shortest_us), 0);
    for (int i = 0; i < 60; i++)
        add(&bed, 1790000000000000 + 3650 * day_us + i * day_us);
    assert_int_equal(calls_until(&bed, 1790000000000000 + 3650 * day_us, &shortest_us), 0);
    assert_int_equal(calls_until(&bed, INT64_MAX, &shortest_us), 60);
    bed_fini(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_lives_match_a_searched_array),
        cmocka_unit_test(an_item_is_never_early_and_due_at_its_very_microsecond),
        cmocka_unit_test(the_ends_of_time_have_a_place),
        cmocka_unit_test(the_first_of_many_due_at_one_instant_comes_at_once),
        cmocka_unit_test(the_budget_bounds_the_work_of_a_call),
        cmocka_unit_test(a_removed_item_wakes_nobody_twice),
        cmocka_unit_test(a_crowd_that_is_removed_leaves_nothing_to_be_done),
        cmocka_unit_test(a_crowd_in_one_slot_makes_no_other_item_late),
        cmocka_unit_test(a_crowd_that_could_not_be_moved_in_time_makes_no_other_item_late),
        cmocka_unit_test(a_crowd_asks_for_few_calls_while_it_moves_down),
        cmocka_unit_test(far_items_wake_nobody_before_their_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
