/*
 * The power goes at every single point of a store's life, and again at points inside the recovery
 * that follows. Tiny segments: rotation, cleaning and removal happen in every run.
 */
#include "store_world.h"

#include <stdlib.h>

enum { TURNS = 150, SEEDS = 4, VARIANTS = 3 };

struct plan {
    uint64_t seed; /* of the work */
    uint64_t cut_at;
    uint64_t power_seed; /* what survives */
    uint64_t nested;     /* a second cut so many points into the recovery; 0 = none */
    bool buffered;
};

static void open_through_cuts(struct world *world, const struct plan *plan)
{
    if (plan->nested)
        sim_disk_cut_at(world->disk, sim_disk_points(world->disk) + plan->nested - 1);
    enum err err = world_open(world);
    if (err == OK && sim_disk_cut(world->disk)) /* a spare was being made */
        world_close(world);
    if (sim_disk_cut(world->disk)) {
        world->store = NULL;
        sim_disk_power(world->disk, plan->power_seed + 99);
        err = world_open(world);
    }
    if (err)
        print_error("seed %llu cut %llu nested %llu: %s: %s\n", (unsigned long long)plan->seed,
                    (unsigned long long)plan->cut_at, (unsigned long long)plan->nested,
                    world->trouble.file, world->trouble.text);
    assert_int_equal(err, OK);
    sim_disk_cut_at(world->disk, UINT64_MAX);
}

/* False: the life ended before the cut. */
static bool live_and_die(const struct plan *plan)
{
    struct world world;
    world_init(&world, plan->seed);
    world.options.buffered = plan->buffered;
    world.options.interval_us = plan->buffered ? 200000 : 0;
    sim_disk_cut_at(world.disk, plan->cut_at);
    if (world_open(&world) == OK) {
        world_work(&world, TURNS);
        world_close(&world);
    }
    bool cut = sim_disk_cut(world.disk);
    if (cut) {
        world.store = NULL;
        sim_disk_power(world.disk, plan->power_seed);
        if (plan->buffered)
            world.acknowledged = 0; /* no promise against power cuts; but never a mixture */
        open_through_cuts(&world, plan);
        world_check(&world);
        world_work(&world, 30);
        world_close(&world);
        assert_int_equal(world_open(&world), OK);
        world_check(&world);
    }
    world_fini(&world);
    return cut;
}

/* Otherwise the tests below would not see what they are for. */
static void a_life_has_cleaning_and_torn_tails_in_it(void **state)
{
    (void)state;
    uint64_t torn = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct world world;
        struct store_stats stats;
        world_init(&world, seed);
        assert_int_equal(world_open(&world), OK);
        world_work(&world, TURNS);
        store_stats(world.store, &stats);
        assert_true(stats.checkpoints > 3 && stats.carried_jobs > 0);
        world_push(&world);
        store_turn(world.store, world.now_us);
        sim_disk_cut_at(world.disk, sim_disk_points(world.disk) + 1);
        world_close(&world);
        sim_disk_power(world.disk, seed);
        assert_int_equal(world_open(&world), OK);
        store_stats(world.store, &stats);
        torn += stats.dropped_tail_bytes > 0;
        world_fini(&world);
    }
    assert_true(torn > 3);
}

static void p1_p5_p9_a_cut_at_every_point_loses_and_revives_nothing(void **state)
{
    (void)state;
    uint64_t lives = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        for (uint64_t variant = 0; variant < VARIANTS; variant++)
            for (uint64_t cut_at = 0; live_and_die(&(struct plan){
                     .seed = seed, .cut_at = cut_at, .power_seed = cut_at * 31 + variant});
                 cut_at++)
                lives++;
    print_message("%llu lives\n", (unsigned long long)lives);
    assert_true(lives > 3000);
}

static void p1_p5_p9_a_second_cut_inside_recovery_changes_nothing(void **state)
{
    (void)state;
    for (uint64_t cut_at = 3; cut_at < 400; cut_at += 13)
        for (uint64_t nested = 1; nested < 60; nested += 2)
            (void)live_and_die(&(struct plan){
                .seed = 7, .cut_at = cut_at, .power_seed = cut_at + nested, .nested = nested});
}

static void p9_buffered_mode_after_a_cut_is_a_moment_of_the_past(void **state)
{
    (void)state;
    for (uint64_t cut_at = 0; cut_at < 400; cut_at += 1)
        (void)live_and_die(&(struct plan){
            .seed = 11, .cut_at = cut_at, .power_seed = cut_at * 7, .buffered = true});
}

/* kill -9: the process goes, the page cache stays; the power may go later. */
static void p1_p5_a_kill_and_then_a_cut_lose_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 60; seed++) {
        struct world world;
        world_init(&world, seed);
        assert_int_equal(world_open(&world), OK);
        for (int round = 0; round < 4; round++) {
            sim_disk_cut_at(world.disk, sim_disk_points(world.disk) + seed * 5 % 97);
            world_work(&world, 60);
            world_close(&world);
            world.store = NULL;
            if (sim_disk_cut(world.disk))
                sim_disk_kill(world.disk);
            sim_disk_cut_at(world.disk, UINT64_MAX);
            assert_int_equal(world_open(&world), OK);
            world_check(&world);
            world_work(&world, 5);
            sim_disk_cut_at(world.disk, sim_disk_points(world.disk));
            world_close(&world);
            world.store = NULL;
            sim_disk_power(world.disk, seed + (uint64_t)round);
            assert_int_equal(world_open(&world), OK);
            world_check(&world);
        }
        world_fini(&world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_life_has_cleaning_and_torn_tails_in_it),
        cmocka_unit_test(p1_p5_p9_a_cut_at_every_point_loses_and_revives_nothing),
        cmocka_unit_test(p1_p5_p9_a_second_cut_inside_recovery_changes_nothing),
        cmocka_unit_test(p9_buffered_mode_after_a_cut_is_a_moment_of_the_past),
        cmocka_unit_test(p1_p5_a_kill_and_then_a_cut_lose_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
