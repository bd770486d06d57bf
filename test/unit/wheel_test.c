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

#include "core/wheel.h"

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

static int64_t when_of(const void *item)
{
    return ((const struct item *)item)->when_us;
}

static void bed_init(struct bed *bed, int64_t now_us, uint64_t seed)
{
    bed->random = seed * 2 + 1;
    pool_init(&bed->pool, sizeof(struct item));
    wheel_init(&bed->wheel, &bed->pool, offsetof(struct item, prev), when_of, now_us);
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
    for (uint32_t i = 0; i < bed->pool.used; i++) {
        if (item_at(bed, i)->on && item_at(bed, i)->when_us < found)
            found = item_at(bed, i)->when_us;
    }
    return found;
}

static uint64_t count_until(struct bed *bed, int64_t limit_us)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < bed->pool.used; i++)
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
        uint32_t victim = (uint32_t)random_below(bed, bed->pool.used + 1);
        if (victim < bed->pool.used && item_at(bed, victim)->on && random_below(bed, 4) == 0) {
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
        now_us = add_clipped(now_us, random_span(&bed) / 64);
        pop_all(&bed, now_us, round % 3 == 0);
        wheel_valid(&bed.wheel);
        check_next(&bed, now_us);
        int64_t limit_us = add_clipped(now_us, random_span(&bed));
        assert_int_equal(wheel_count_until(&bed.wheel, limit_us), count_until(&bed, limit_us));
    }
    pop_all(&bed, INT64_MAX, false);
    assert_int_equal(bed.pool.count, 0);
    bed_fini(&bed);
}

static void random_lives_match_a_searched_array(void **state)
{
    (void)state;
    static const int64_t starts[] = {0, -5, INT64_MIN, 1790000000000000, INT64_MAX - 1000000};
    for (uint64_t seed = 1; seed <= 300; seed++) {
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_lives_match_a_searched_array),
        cmocka_unit_test(an_item_is_never_early_and_due_at_its_very_microsecond),
        cmocka_unit_test(the_ends_of_time_have_a_place),
        cmocka_unit_test(the_first_of_many_due_at_one_instant_comes_at_once),
        cmocka_unit_test(the_budget_bounds_the_work_of_a_call),
        cmocka_unit_test(a_removed_item_wakes_nobody_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
