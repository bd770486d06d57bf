/*
 * The hash table against an array of what should be in it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/map.h"
#include "base/mem.h"

enum { KEYS = 20000 };

/* Object n has key keys[n]; keys are their own hashes, cut down so that many collide. */
static uint64_t keys[KEYS];
static bool there[KEYS];

static bool key_is(const void *ctx, uint32_t number, const void *key)
{
    return ((const uint64_t *)ctx)[number] == *(const uint64_t *)key;
}

static uint64_t mixed(uint64_t *random) /* splitmix64 */
{
    uint64_t mix = *random += 0x9e3779b97f4a7c15ull;
    mix = (mix ^ mix >> 30) * 0xbf58476d1ce4e5b9ull;
    mix = (mix ^ mix >> 27) * 0x94d049bb133111ebull;
    return mix ^ mix >> 31;
}

static void check_all(const struct map *map, uint64_t hash_mask)
{
    size_t count = 0;
    for (uint32_t i = 0; i < KEYS; i++) {
        assert_int_equal(map_find(map, keys[i] & hash_mask, &keys[i]), there[i] ? i : MAP_NONE);
        count += there[i];
    }
    assert_int_equal(map_count(map), count);
    map_valid(map);
}

static void random_changes(uint64_t hash_mask, uint32_t key_count, int changes)
{
    uint64_t random = hash_mask;
    struct map map;
    map_init(&map, key_is, keys);
    for (uint32_t i = 0; i < KEYS; i++) {
        keys[i] = mixed(&random);
        there[i] = false;
    }
    for (int i = 0; i < changes; i++) {
        uint32_t number = (uint32_t)(mixed(&random) % key_count);
        if (there[number])
            map_remove(&map, keys[number] & hash_mask, number);
        else
            map_add(&map, keys[number] & hash_mask, number);
        there[number] = !there[number];
        if (i % (changes / 8) == 0)
            check_all(&map, hash_mask);
    }
    for (uint32_t i = 0; i < KEYS; i++) {
        if (there[i])
            map_remove(&map, keys[i] & hash_mask, i);
        there[i] = false;
    }
    check_all(&map, hash_mask);
    map_fini(&map);
    assert_int_equal(mem_used(), 0);
}

static void random_adds_and_removals_match_an_array(void **state)
{
    (void)state;
    random_changes(UINT64_MAX, KEYS, 200000);
    random_changes(UINT64_MAX, 100, 20000);
}

static void colliding_hashes_cost_time_but_no_entry(void **state)
{
    (void)state;
    random_changes(0xff, 1000, 20000);       /* 256 different hashes */
    random_changes(0, 60, 5000);             /* all the same */
    random_changes(0xfffffff0, KEYS, 50000); /* homes far apart, and wrapping around */
}

static void entries_are_found_at_every_point_of_growing(void **state)
{
    (void)state;
    struct map map;
    map_init(&map, key_is, keys);
    for (uint32_t i = 0; i < KEYS; i++)
        keys[i] = i * 0x9e3779b97f4a7c15ull;
    for (uint32_t i = 0; i < 3000; i++) {
        map_add(&map, keys[i], i);
        for (uint32_t j = i > 60 ? i - 60 : 0; j <= i; j++)
            assert_int_equal(map_find(&map, keys[j], &keys[j]), j);
        assert_int_equal(map_find(&map, keys[0], &keys[0]), 0);
        assert_int_equal(map_find(&map, keys[i + 1], &keys[i + 1]), MAP_NONE);
    }
    map_fini(&map);
}

static void p8_a_table_that_falls_empty_gives_its_memory_back(void **state)
{
    enum { MANY = 1000000 };
    (void)state;
    struct map map;
    uint64_t *all = mem_alloc(MANY * sizeof(*all)), random = 7;
    map_init(&map, key_is, all);
    size_t before = mem_used(), full;
    for (uint32_t i = 0; i < MANY; i++) {
        all[i] = mixed(&random);
        map_add(&map, all[i], i);
    }
    full = mem_used() - before;
    for (uint32_t i = 0; i < MANY; i++) {
        uint32_t number = (uint32_t)((uint64_t)i * 700001 % MANY); /* in another order */
        map_remove(&map, all[number], number);
        size_t left = MANY - 1 - i;
        if (i % 1000 == 0) {
            size_t used = mem_used() - before;
            assert_true(used <= full && used <= left * 36 + 16384);
            uint32_t other = (uint32_t)((uint64_t)(i + 1) * 700001 % MANY);
            assert_int_equal(map_find(&map, all[other], &all[other]), other);
            assert_int_equal(map_find(&map, all[number], &all[number]), MAP_NONE);
        }
    }
    assert_int_equal(map_count(&map), 0);
    map_valid(&map);
    assert_true(mem_used() - before <= 8192);
    map_add(&map, all[0], 0); /* and it is a table still */
    assert_int_equal(map_find(&map, all[0], &all[0]), 0);
    map_fini(&map);
    mem_free(all);
    assert_int_equal(mem_used(), 0);
}

/* Bytes of an entry while a table grows, at every fill: there is no second table beside it. */
static void a_growing_table_takes_at_most_twelve_bytes_an_entry(void **state)
{
    enum { MANY = 300000, FEW = 10000 }; /* pages are too coarse for fewer */
    (void)state;
    struct map map;
    uint64_t random = 11;
    size_t before = mem_used(), most = 0;
    map_init(&map, key_is, keys); /* is never asked */
    for (uint32_t i = 0; i < MANY; i++) {
        map_add(&map, mixed(&random), i);
        size_t used = (mem_used() - before) * 100 / (i + 1);
        if (i >= FEW && used > most)
            most = used;
    }
    map_valid(&map);
    assert_in_range(most, 1000, 1250); /* hundredths */
    map_fini(&map);
    assert_int_equal(mem_used(), 0);
}

static void each_segment_is_split_in_its_turn_and_merged_again(void **state)
{
    enum { MANY = 4096 * 9 };
    (void)state;
    struct map map;
    map_init(&map, key_is, keys);
    for (uint32_t i = 0; i < MANY; i++) {
        map_add(&map, i * 0x9e3779b97f4a7c15ull >> 32, i);
        assert_in_range(map.segment_count, i / 5500 + 1, i / 4096 + 1);
    }
    map_valid(&map);
    for (uint32_t i = MANY; i-- > 0;) {
        map_remove(&map, i * 0x9e3779b97f4a7c15ull >> 32, i);
        if (map.segment_count > 1)
            assert_true(i > map.segment_count * 400);
        if (i % 2048 == 0)
            map_valid(&map);
    }
    map_fini(&map);
    assert_int_equal(mem_used(), 0);
}

enum { OF_SEGMENT = 5 };

/* Of entries of one segment. */
static uint64_t group_hash(uint32_t number)
{
    return ((uint64_t)(number * 0x9e3779b9u) & ~UINT64_C(31)) | OF_SEGMENT;
}

/* As when jobs of neighbouring numbers, which share a segment, leave and others come. */
static void a_segment_of_many_keeps_its_memory_for_the_next_entries(void **state)
{
    enum { OTHERS = 4096 * 20, GROUP = 4096 };
    (void)state;
    struct map map;
    size_t most = 0;
    map_init(&map, key_is, keys);
    for (uint32_t i = 0; i < OTHERS; i++) { /* none in that segment, nor in that of its split */
        uint64_t hash = i * 0x9e3779b97f4a7c15ull >> 32;
        map_add(&map, hash % 16 == OF_SEGMENT ? hash + 1 : hash, i);
    }
    assert_true(map.segment_count >= 16);
    for (int round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < GROUP; i++)
            map_add(&map, group_hash(i), OTHERS + i);
        most = round == 0 ? mem_used() : most;
        assert_int_equal(mem_used(), most);
        for (uint32_t i = 0; i < GROUP; i++)
            map_remove(&map, group_hash(i), OTHERS + i);
        assert_int_equal(mem_used(), most);
        map_valid(&map);
    }
    map_fini(&map);
    assert_int_equal(mem_used(), 0);
}

/* Grows and shrinks over and over, with additions and removals in any proportion. */
static void entries_are_found_at_every_point_of_shrinking(void **state)
{
    (void)state;
    struct map map;
    uint64_t random = 3;
    map_init(&map, key_is, keys);
    for (uint32_t i = 0; i < KEYS; i++) {
        keys[i] = mixed(&random);
        there[i] = false;
    }
    for (int wave = 0; wave < 6; wave++) {
        for (int step = 0; step < 60000; step++) {
            uint32_t number = (uint32_t)(mixed(&random) % KEYS);
            bool add = mixed(&random) % 8 < (wave % 2 ? 1 : 7);
            if (add == there[number])
                continue;
            if (add)
                map_add(&map, keys[number], number);
            else
                map_remove(&map, keys[number], number);
            there[number] = add;
            for (uint32_t near = number > 5 ? number - 5 : 0; near <= number; near++)
                assert_int_equal(map_find(&map, keys[near], &keys[near]),
                                 there[near] ? near : MAP_NONE);
            if (step % 10000 == 0)
                check_all(&map, UINT64_MAX);
        }
    }
    map_fini(&map);
    assert_int_equal(mem_used(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_adds_and_removals_match_an_array),
        cmocka_unit_test(colliding_hashes_cost_time_but_no_entry),
        cmocka_unit_test(entries_are_found_at_every_point_of_growing),
        cmocka_unit_test(entries_are_found_at_every_point_of_shrinking),
        cmocka_unit_test(a_growing_table_takes_at_most_twelve_bytes_an_entry),
        cmocka_unit_test(each_segment_is_split_in_its_turn_and_merged_again),
        cmocka_unit_test(a_segment_of_many_keeps_its_memory_for_the_next_entries),
        cmocka_unit_test(p8_a_table_that_falls_empty_gives_its_memory_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
