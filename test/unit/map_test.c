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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_adds_and_removals_match_an_array),
        cmocka_unit_test(colliding_hashes_cost_time_but_no_entry),
        cmocka_unit_test(entries_are_found_at_every_point_of_growing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
