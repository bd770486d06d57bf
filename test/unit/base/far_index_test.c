/*
 * The index of far jobs' places against an array of what should be in it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/far_hash.h"
#include "base/far_index.h"
#include "base/mem.h"
#include "test/unit/support/every.h"

enum { PAIRS = 40000 };

static struct {
    uint64_t hash, where;
    bool there;
} pairs[PAIRS];

static uint64_t mixed(uint64_t *random) /* splitmix64 */
{
    uint64_t mix = *random += 0x9e3779b97f4a7c15ull;
    mix = (mix ^ mix >> 30) * 0xbf58476d1ce4e5b9ull;
    mix = (mix ^ mix >> 27) * 0x94d049bb133111ebull;
    return mix ^ mix >> 31;
}

static void make_pairs(uint64_t seed, uint64_t hash_mask, uint32_t files)
{
    uint64_t random = seed;
    for (uint32_t i = 0; i < PAIRS; i++) {
        pairs[i].hash = mixed(&random) & hash_mask;
        pairs[i].where = (1 + mixed(&random) % files) << 32 | (i * 64 + 8);
        pairs[i].there = false;
    }
}

static bool finds(const struct far_index *index, uint64_t hash, uint64_t where)
{
    static uint64_t found[PAIRS]; /* a test may put all under one hash */
    uint32_t count = far_index_find(index, hash, found, PAIRS);
    for (uint32_t i = 0; i < count; i++) {
        if (found[i] == where)
            return true;
    }
    return false;
}

/* Under the sanitizers each seventh is looked up: far_index_valid() goes through all entries. */
static void check_all(const struct far_index *index)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < PAIRS; i++) {
        count += pairs[i].there;
        if (sim_every() > 1 && i % 7 != 0)
            continue;
        assert_int_equal(far_index_has(index, pairs[i].hash, pairs[i].where), pairs[i].there);
        if (pairs[i].there)
            assert_true(finds(index, pairs[i].hash, pairs[i].where));
    }
    assert_int_equal(index->count, count);
    far_index_valid(index);
}

static void toggle(struct far_index *index, uint32_t i)
{
    if (pairs[i].there) {
        assert_false(far_index_add(index, pairs[i].hash, pairs[i].where)); /* it is there */
        assert_true(far_index_remove(index, pairs[i].hash, pairs[i].where));
    } else {
        assert_true(far_index_add(index, pairs[i].hash, pairs[i].where));
    }
    pairs[i].there = !pairs[i].there;
}

static void live(uint64_t seed, uint64_t hash_mask, uint32_t files, uint32_t pair_count,
                 uint32_t changes)
{
    uint64_t random = seed;
    struct far_index index;
    far_index_init(&index);
    make_pairs(seed, hash_mask, files);
    for (uint32_t i = 0; i < changes; i++) {
        toggle(&index, (uint32_t)(mixed(&random) % pair_count));
        if (i % (changes / 8) == 0)
            check_all(&index);
    }
    for (uint32_t i = 0; i < PAIRS; i++) {
        if (pairs[i].there)
            toggle(&index, i);
    }
    check_all(&index);
    assert_int_equal(index.count, 0);
    far_index_fini(&index);
    assert_int_equal(mem_used(), 0);
}

/* With fewer under the sanitizers shards grow and shrink all the same: most pairs come and go. */
static uint32_t changes_of(uint32_t all)
{
    return sim_every() == 1 ? all : all / 3;
}

static void random_adds_and_removals_match_an_array(void **state)
{
    (void)state;
    live(1, UINT64_MAX, 500, PAIRS, changes_of(200000));
    live(2, UINT64_MAX, 3, 200, 20000);
}

/* All in a handful of shards, so that these grow and shrink. */
static void crowded_shards_grow_and_shrink(void **state)
{
    (void)state;
    live(3, UINT64_MAX >> 10, 40, PAIRS, changes_of(150000));
    live(4, UINT64_MAX >> 13, 40, 8000, 30000);
}

/* Fingerprints at the end of their range lie at the end of the array, which has room for them. */
static void prints_that_crowd_at_one_end_are_kept(void **state)
{
    (void)state;
    live(5, UINT64_C(0xffff), 7, 600, 5000); /* one fingerprint */
    uint64_t random = 6;
    struct far_index index;
    far_index_init(&index);
    make_pairs(6, UINT64_MAX, 7);
    for (uint32_t i = 0; i < 2000; i++) {
        pairs[i].hash = UINT64_C(0x0007ffffff000000) | (mixed(&random) & 0xffffff);
        toggle(&index, i);
    }
    for (uint32_t i = 0; i < 2000; i++)
        assert_true(far_index_has(&index, pairs[i].hash, pairs[i].where));
    far_index_valid(&index);
    far_index_fini(&index);
    assert_int_equal(mem_used(), 0);
}

/* False: some came twice. */
static bool end_gathering(struct far_index *index)
{
    bool whole = true, more = true;
    while (more)
        whole = far_index_gather_end(index, &more) && whole;
    return whole;
}

/* Some pairs come twice. */
static void gather_pairs(struct far_index *index, uint64_t expected, uint32_t twice)
{
    far_index_gather(index, expected);
    for (uint32_t i = 0; i < PAIRS; i++) {
        struct far_pair pair = {pairs[i].hash, pairs[i].where}, both[] = {pair, pair};
        assert_true(far_index_gather_add(index, both, i < twice ? 2 : 1));
        pairs[i].there = true;
    }
    assert_int_equal(end_gathering(index), twice == 0);
}

static void what_was_gathered_is_as_if_it_was_added(void **state)
{
    (void)state;
    static const struct {
        uint64_t mask, expected;
        uint32_t twice;
    } cases[] = {
        {UINT64_MAX, PAIRS, 0},       {UINT64_MAX, 0, 3},        {UINT64_MAX, PAIRS / 2, 1000},
        {UINT64_MAX >> 10, PAIRS, 0}, {UINT64_MAX >> 13, 77, 5}, {UINT64_MAX, PAIRS * 50, 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint64_t random = i;
        struct far_index index;
        far_index_init(&index);
        make_pairs(i, cases[i].mask, 40);
        gather_pairs(&index, cases[i].expected, cases[i].twice);
        check_all(&index);
        for (uint32_t change = 0; change < changes_of(20000); change++)
            toggle(&index, (uint32_t)(mixed(&random) % PAIRS));
        check_all(&index);
        far_index_fini(&index);
        assert_int_equal(mem_used(), 0);
    }
}

static void take_parts(struct far_index *from, struct far_index *to, uint32_t first)
{
    struct buf image = {0};
    far_index_image_files(from, &image);
    assert_true(far_index_take_files(to, buf_bytes(&image)));
    for (uint32_t i = 0; i < FAR_IMAGE_PARTS; i++) {
        uint32_t part = (first + i) % FAR_IMAGE_PARTS;
        buf_reset(&image, SIZE_MAX);
        far_index_image_part(from, part, &image);
        assert_int_equal(far_index_taken(to), i > 0 && to->count == from->count);
        assert_true(far_index_take_part(to, part, buf_bytes(&image)));
    }
    assert_true(far_index_taken(to));
    buf_fini(&image);
}

static void an_image_has_all_entries(void **state)
{
    (void)state;
    static const uint64_t masks[] = {UINT64_MAX, UINT64_MAX >> 10, UINT64_MAX >> 13, 0xffff};
    for (size_t i = 0; i < sizeof(masks) / sizeof(masks[0]); i++) {
        uint64_t random = i;
        struct far_index index, copy;
        far_index_init(&index);
        make_pairs(i, masks[i], 40);
        for (uint32_t change = 0; change < changes_of(20000); change++)
            toggle(&index, (uint32_t)(mixed(&random) % (i == 3 ? 900 : PAIRS)));
        far_index_init(&copy);
        take_parts(&index, &copy, (uint32_t)i);
        check_all(&copy);
        for (uint32_t change = 0; change < changes_of(20000); change++)
            toggle(&copy, (uint32_t)(mixed(&random) % (i == 3 ? 900 : PAIRS)));
        check_all(&copy);
        far_index_fini(&index);
        far_index_fini(&copy);
        assert_int_equal(mem_used(), 0);
    }
}

/* Whatever is taken of a damaged part, the index holds together. */
static void a_damaged_part_is_refused_or_is_another_index(void **state)
{
    (void)state;
    struct far_index index;
    struct buf files = {0}, part = {0};
    uint64_t random = 3;
    unsigned refused = 0;
    far_index_init(&index);
    make_pairs(1, UINT64_MAX >> 13, 4);
    for (uint32_t i = 0; i < 60; i++)
        toggle(&index, i);
    far_index_image_files(&index, &files);
    far_index_image_part(&index, 0, &part);
    far_index_fini(&index);
    for (uint32_t try = 0; try < 20000; try++) {
        struct buf *hurt = try % 8 ? &part : &files;
        size_t at = mixed(&random) % hurt->len, cut = try % 5 ? 0 : mixed(&random) % hurt->len;
        char bit = (char)(1 << try % 8);
        hurt->at[at] = (char)(hurt->at[at] ^ bit);
        hurt->len -= cut;
        far_index_init(&index);
        bool good = far_index_take_files(&index, buf_bytes(&files)) &&
                    far_index_take_part(&index, 0, buf_bytes(&part));
        refused += !good;
        if (good)
            far_index_valid(&index);
        far_index_fini(&index);
        hurt->len += cut;
        hurt->at[at] = (char)(hurt->at[at] ^ bit);
    }
    buf_fini(&files);
    buf_fini(&part);
    assert_in_range(refused, 5000, 19999);
    assert_int_equal(mem_used(), 0);
}

static void gathering_refuses_what_an_entry_cannot_tell(void **state)
{
    (void)state;
    struct far_index index;
    far_index_init(&index);
    struct far_pair good[] = {{1, UINT64_C(1) << 32 | 8}, {2, UINT64_C(1) << 32 | 16}};
    struct far_pair bad[] = {good[0], good[1], {3, UINT64_C(1) << 32 | FAR_OFFSET_END}};
    far_index_gather(&index, 5);
    assert_true(far_index_gather_add(&index, good, 2));
    assert_false(far_index_gather_add(&index, bad, 3));
    far_index_fini(&index); /* in the midst of it */
    assert_int_equal(mem_used(), 0);
}

/* However many are given at once, of whichever files. */
static void pairs_of_many_files_are_gathered_at_once(void **state)
{
    (void)state;
    static struct far_pair all[PAIRS];
    struct far_index index;
    far_index_init(&index);
    make_pairs(11, UINT64_MAX, 500);
    for (uint32_t i = 0; i < PAIRS; i++) {
        all[i] = (struct far_pair){pairs[i].hash, pairs[i].where};
        pairs[i].there = true;
    }
    far_index_gather(&index, PAIRS);
    for (uint32_t done = 0, count = 0; done < PAIRS; done += count++) {
        count = count < PAIRS - done ? count : PAIRS - done;
        assert_true(far_index_gather_add(&index, &all[done], count));
    }
    assert_true(end_gathering(&index));
    check_all(&index);
    far_index_fini(&index);
    assert_int_equal(mem_used(), 0);
}

static void what_an_entry_cannot_tell_is_refused(void **state)
{
    (void)state;
    struct far_index index;
    far_index_init(&index);
    assert_false(far_index_add(&index, 1, UINT64_C(1) << 32 | FAR_OFFSET_END));
    for (uint64_t file = 1; file <= 65535; file++)
        assert_true(far_index_add(&index, file << 40, file << 32 | 5));
    assert_false(far_index_add(&index, 1, UINT64_C(70000) << 32 | 5));
    assert_true(far_index_remove(&index, UINT64_C(7) << 40, UINT64_C(7) << 32 | 5));
    assert_true(far_index_add(&index, 1, UINT64_C(70000) << 32 | 5)); /* its slot is free */
    assert_false(far_index_remove(&index, UINT64_C(7) << 40, UINT64_C(7) << 32 | 5));
    far_index_valid(&index);
    far_index_fini(&index);
    assert_int_equal(mem_used(), 0);
}

/* It was the last one that was used, and its last entry has gone. */
static void the_place_of_a_file_that_was_given_back_is_for_any_file(void **state)
{
    const uint64_t five = UINT64_C(5) << 32, six = UINT64_C(6) << 32;
    (void)state;
    struct far_index index;
    far_index_init(&index);
    assert_true(far_index_add(&index, 1, five));
    assert_true(far_index_remove(&index, 1, five));
    assert_false(far_index_has(&index, 1, five));
    assert_true(far_index_add(&index, 2, five));
    assert_true(far_index_add(&index, 3, six));
    assert_true(finds(&index, 2, five) && finds(&index, 3, six));
    assert_true(far_index_remove(&index, 2, five));
    assert_true(far_index_has(&index, 3, six));
    far_index_valid(&index);
    far_index_fini(&index);
    assert_int_equal(mem_used(), 0);
}

static void p8_an_entry_takes_ten_bytes_or_so(void **state)
{
    (void)state;
    /* The sanitizers change no size. */
    const uint32_t most = sim_every() == 1 ? 1000000 : 300000;
    uint64_t random = 9;
    struct far_index index;
    far_index_init(&index);
    for (uint32_t i = 1; i <= most; i++) {
        uint64_t where = (uint64_t)(1 + i / 50000) << 32 | (i % 50000 * 300);
        assert_true(far_index_add(&index, mixed(&random), where));
        if (i == 300000 || i == 650000 || i == 1000000)
            assert_in_range(index.bytes / (i / 100), 960, 1250); /* a sixth is free at least */
    }
    far_index_fini(&index);
}

/* It is on disk. */
static void the_hash_of_an_id_is_what_it_was(void **state)
{
    (void)state;
    assert_int_equal(far_hash_id(42, BYTES("")), 0);
    assert_int_equal(far_hash_id(42, BYTES("order-17")), UINT64_C(0xbe36904cc1f65d76));
    assert_int_not_equal(far_hash_id(43, BYTES("order-17")), far_hash_id(42, BYTES("order-17")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_adds_and_removals_match_an_array),
        cmocka_unit_test(crowded_shards_grow_and_shrink),
        cmocka_unit_test(prints_that_crowd_at_one_end_are_kept),
        cmocka_unit_test(what_was_gathered_is_as_if_it_was_added),
        cmocka_unit_test(an_image_has_all_entries),
        cmocka_unit_test(a_damaged_part_is_refused_or_is_another_index),
        cmocka_unit_test(gathering_refuses_what_an_entry_cannot_tell),
        cmocka_unit_test(pairs_of_many_files_are_gathered_at_once),
        cmocka_unit_test(what_an_entry_cannot_tell_is_refused),
        cmocka_unit_test(the_place_of_a_file_that_was_given_back_is_for_any_file),
        cmocka_unit_test(p8_an_entry_takes_ten_bytes_or_so),
        cmocka_unit_test(the_hash_of_an_id_is_what_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
