/*
 * The store's root and its openings: slots, boots, clean ends, numbers never given twice, versions.
 */
#include "store_world.h"

#include "store/format.h"

static struct manifest *decode(struct world *world, int slot, struct manifest *room)
{
    uint64_t len = 0;
    const char *at = sim_disk_file(world->disk, MANIFEST_NAME, &len);
    assert_int_equal(len, MANIFEST_BYTES);
    return manifest_decode(at + (size_t)slot * BLOCK, room) == FORMAT_GOOD ? room : NULL;
}

static void a_manifest_comes_back_and_no_flip_is_believed(void **state)
{
    (void)state;
    struct manifest manifest = {
        .version = FORMAT_VERSION,
        .id.bytes = {1, 2, 3},
        .generation = 9,
        .boot = 4,
        .batch_first = 100,
        .durable = 120,
        .seq_mark = 5000,
        .number_next = 17,
        .clean = true,
    };
    struct manifest back;
    char slot[BLOCK];
    manifest_encode(&manifest, slot);
    assert_int_equal(manifest_decode(slot, &back), FORMAT_GOOD);
    assert_true(store_id_eq(&manifest.id, &back.id) && back.clean && back.durable == 120 &&
                back.seq_mark == 5000 && back.number_next == 17 && back.batch_first == 100 &&
                back.boot == 4 && back.generation == 9);
    for (size_t bit = 0; bit < BLOCK * 8; bit++) {
        slot[bit / 8] = (char)(slot[bit / 8] ^ 1 << bit % 8);
        assert_int_equal(manifest_decode(slot, &back), FORMAT_BAD);
        slot[bit / 8] = (char)(slot[bit / 8] ^ 1 << bit % 8);
    }
    memset(slot, 0, sizeof(slot));
    assert_int_equal(manifest_decode(slot, &back), FORMAT_BLANK);
}

static void segment_names_are_exact(void **state)
{
    (void)state;
    char name[DISK_NAME_MAX];
    uint32_t number = 0;
    segment_name(0x2a, name);
    assert_string_equal(name, "wal-0000002a");
    assert_true(segment_name_parse(name, &number));
    assert_int_equal(number, 0x2a);
    assert_false(segment_name_parse("wal-0000002A", &number));
    assert_false(segment_name_parse("wal-0000002", &number));
    assert_false(segment_name_parse("wal-0000002a.tmp", &number));
    assert_false(segment_name_parse("wal-00000000", &number));
}

static void p4_each_opening_has_leases_of_its_own(void **state)
{
    (void)state;
    struct world world;
    uint64_t before = 0;
    world_init(&world, 1);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(world_open(&world), OK);
        assert_true(store_lease_first(world.store) > before + (UINT64_C(1) << 43));
        before = store_lease_first(world.store);
        world_close(&world);
    }
    assert_int_equal(world_open(&world), OK);
    world_fini(&world);
}

static void a_clean_end_keeps_the_exact_next_number(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, 1);
    assert_int_equal(world_open(&world), OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(world_push(&world), OK);
    world_close(&world);
    assert_int_equal(world_open(&world), OK);
    assert_int_equal(store_seq_first(world.store), 4);
    sim_disk_cut_at(world.disk, sim_disk_points(world.disk));
    world_close(&world);
    world.store = NULL;
    sim_disk_power(world.disk, 1);
    assert_int_equal(world_open(&world), OK);
    assert_true(store_seq_first(world.store) >= 4 + SEQ_AHEAD);
    assert_int_equal(world.trouble.text[0], 0);
    world_fini(&world);
}

static void a_damaged_slot_is_noticed_and_costs_only_numbers(void **state)
{
    (void)state;
    for (int slot = 0; slot < 2; slot++) {
        struct world world;
        world_init(&world, 1);
        assert_int_equal(world_open(&world), OK);
        assert_int_equal(world_push(&world), OK);
        uint64_t lease = store_lease_first(world.store);
        world_close(&world);
        assert_true(sim_disk_flip(world.disk, MANIFEST_NAME, (uint64_t)slot * BLOCK * 8 + 300));
        assert_int_equal(world_open(&world), OK);
        assert_non_null(strstr(world.trouble.text, "notice"));
        assert_true(store_lease_first(world.store) > lease);
        world_check(&world);
        world_fini(&world);
    }
}

static void a_newer_version_is_refused(void **state)
{
    (void)state;
    struct world world;
    struct manifest room;
    char slots[MANIFEST_BYTES] = {0};
    world_init(&world, 1);
    assert_int_equal(world_open(&world), OK);
    world_close(&world);
    struct manifest *manifest = decode(&world, 1, &room);
    assert_non_null(manifest);
    manifest->version = FORMAT_VERSION + 1;
    manifest->generation += 10;
    manifest_encode(manifest, slots);
    sim_disk_put(world.disk, MANIFEST_NAME, slots, sizeof(slots));
    assert_int_equal(world_open(&world), ERR_UNSUPPORTED);
    assert_non_null(strstr(world.trouble.text, "newer"));
    world_fini(&world);
}

static void a_cut_manifest_is_refused(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, 1);
    assert_int_equal(world_open(&world), OK);
    world_close(&world);
    sim_disk_put(world.disk, MANIFEST_NAME, "short", 5);
    assert_int_equal(world_open(&world), ERR_CORRUPT);
    world_fini(&world);
}

static void a_second_opener_is_locked_out(void **state)
{
    (void)state;
    struct world world;
    struct store *second = NULL;
    struct store_trouble trouble;
    world_init(&world, 1);
    assert_int_equal(world_open(&world), OK);
    assert_int_equal(store_open(&world.options, &world.ear, &second, &trouble), ERR_LOCKED);
    assert_non_null(strstr(trouble.text, "another"));
    world_fini(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_manifest_comes_back_and_no_flip_is_believed),
        cmocka_unit_test(segment_names_are_exact),
        cmocka_unit_test(p4_each_opening_has_leases_of_its_own),
        cmocka_unit_test(a_clean_end_keeps_the_exact_next_number),
        cmocka_unit_test(a_damaged_slot_is_noticed_and_costs_only_numbers),
        cmocka_unit_test(a_newer_version_is_refused),
        cmocka_unit_test(a_cut_manifest_is_refused),
        cmocka_unit_test(a_second_opener_is_locked_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
