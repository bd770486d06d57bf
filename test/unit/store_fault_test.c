/*
 * Call 1, 2, 3 … of a life fails, with EIO and with ENOSPC. Whatever fails, nothing is called
 * durable that is not, a failed sync is never believed to have worked at the second try (S5), and
 * the next opening finds everything that was acknowledged.
 */
#include "store_world.h"

#include <errno.h>

enum { TURNS = 120 };

struct outcome {
    bool ended; /* the call was never reached */
    bool failed;
    bool refused;
};

static struct outcome live_with_fault(uint64_t seed, uint64_t fail_at, int sys_errno)
{
    struct world world;
    struct outcome outcome = {0};
    world_init(&world, seed);
    sim_disk_fail_at(world.disk, fail_at, sys_errno);
    if (world_open(&world) == OK) {
        world_work(&world, TURNS);
        world_settle(&world);
        outcome.failed = world.failed;
        assert_int_equal(store_failed(world.store), world.failed);
        assert_true(world.failures <= 1);
        if (world.failed)
            assert_int_equal(store_admit(world.store, 10), ERR_STORE_FAILED);
        world_close(&world);
    } else {
        outcome.refused = true;
        assert_true(world.trouble.text[0]);
    }
    outcome.ended = sim_disk_points(world.disk) <= fail_at;
    sim_disk_fail_at(world.disk, UINT64_MAX, 0);
    /* The process ends; what the cache shows may be a lie: the machine may lose its power, or not.
     */
    if (fail_at % 2)
        sim_disk_power(world.disk, fail_at);
    world.store = NULL;
    enum err err = world_open(&world);
    if (err)
        print_error("seed %llu call %llu: %s\n", (unsigned long long)seed,
                    (unsigned long long)fail_at, world.trouble.text);
    assert_int_equal(err, OK);
    world_check(&world);
    /* What is served now is durable now. */
    sim_disk_cut_at(world.disk, sim_disk_points(world.disk));
    world_close(&world);
    world.store = NULL;
    sim_disk_power(world.disk, fail_at + 1);
    assert_int_equal(world_open(&world), OK);
    world_check(&world);
    world_fini(&world);
    return outcome;
}

static void fail_every_call(int sys_errno, unsigned *out_failed, unsigned *out_refused)
{
    for (uint64_t seed = 1; seed <= 3; seed++) {
        for (uint64_t call = 0;; call++) {
            struct outcome outcome = live_with_fault(seed, call, sys_errno);
            *out_failed += outcome.failed;
            *out_refused += outcome.refused;
            if (outcome.ended)
                break;
        }
    }
}

static void p1_p7_a_failed_call_stops_acknowledging(void **state)
{
    (void)state;
    unsigned failed = 0, refused = 0;
    fail_every_call(EIO, &failed, &refused);
    print_message("failed %u, refused to open %u\n", failed, refused);
    assert_true(failed > 100 && refused > 10);
}

static void p1_p8_a_call_without_room_loses_nothing(void **state)
{
    (void)state;
    unsigned failed = 0, refused = 0;
    fail_every_call(ENOSPC, &failed, &refused);
    print_message("failed %u, refused to open %u\n", failed, refused);
    assert_true(failed > 50 && refused > 5);
}

/* The kernel's lie: the first sync fails, the second says yes, and the data is not on the disk. */
static void p7_after_a_failed_sync_nothing_is_acknowledged_or_served(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, 1);
    assert_int_equal(world_open(&world), OK);
    assert_int_equal(world_push(&world), OK);
    world_settle(&world);
    uint64_t before = world.acknowledged;
    assert_int_equal(world_push(&world), OK);
    store_turn(world.store, world.now_us);
    sim_disk_fail_at(world.disk, sim_disk_points(world.disk) + 1, EIO); /* write, then the sync */
    assert_true(sim_disk_step(world.disk, LANE_COMMIT));
    store_poll(world.store);
    assert_true(world.failed);
    world_settle(&world);
    assert_int_equal(world.acknowledged, before);
    world_close(&world);
    assert_int_equal(world_open(&world), OK);
    assert_int_equal(store_durable(world.store), before); /* read past the lying cache */
    world_check(&world);
    world_fini(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(p1_p7_a_failed_call_stops_acknowledging),
        cmocka_unit_test(p1_p8_a_call_without_room_loses_nothing),
        cmocka_unit_test(p7_after_a_failed_sync_nothing_is_acknowledged_or_served),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
