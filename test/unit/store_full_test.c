/*
 * A disk without room, by the file system or by store.max_bytes: pushes are refused with the
 * reason, all else goes on, cleaning makes room, and a restart works (P8).
 */
#include "store_world.h"

#include <errno.h>

enum { JOBS_MAX = 400 };

static void open_full(struct world *world, uint64_t capacity, uint64_t max_bytes)
{
    world_init(world, 9);
    world->options.body_max = 1000;
    world->options.max_bytes = max_bytes;
    sim_disk_capacity(world->disk, capacity);
    assert_int_equal(world_open(world), OK);
}

static void step(struct world *world)
{
    world->now_us += 50000;
    store_turn(world->store, world->now_us);
    while (sim_disk_step(world->disk, LANE_COMMIT) || sim_disk_step(world->disk, LANE_BACKGROUND))
        continue;
    store_poll(world->store);
}

/* Pushes until refused; says why. */
static enum err fill(struct world *world)
{
    for (int i = 0; i < JOBS_MAX; i++) {
        enum err err = world_push(world);
        if (err)
            return err;
        step(world);
    }
    return OK;
}

static void end_all(struct world *world)
{
    for (size_t i = 0; i < world->job_count; i++) {
        if (!world->jobs[i].live)
            continue;
        world_end(world, &world->jobs[i]);
        uint64_t batch = store_batch(world->store);
        for (int turns = 0; turns < 300 && world->acknowledged < batch; turns++)
            step(world);
        assert_true(world->acknowledged >= batch); /* each end is durable in the end */
    }
}

static void full_and_back(uint64_t capacity, uint64_t max_bytes, enum err reason)
{
    struct world world;
    open_full(&world, capacity, max_bytes);
    assert_int_equal(fill(&world), reason);
    assert_true(store_full(world.store));
    assert_true(world.job_count > 20);
    assert_true(store_next_us(world.store) < INT64_MAX); /* it asks again by itself */
    end_all(&world);
    for (int i = 0; i < 100; i++)
        step(&world);
    assert_false(world.failed);
    assert_false(store_full(world.store)); /* cleaning made room */
    assert_int_equal(world_push(&world), OK);
    world_settle(&world);
    world_close(&world);
    assert_int_equal(world_open(&world), OK);
    world_check(&world);
    world_fini(&world);
}

static void p8_full_disk_refuses_pushes_and_ends_jobs(void **state)
{
    (void)state;
    full_and_back(10 * WORLD_SEGMENT + 8192, 0, ERR_DISK_FULL);
}

static void p8_max_bytes_refuses_pushes_and_ends_jobs(void **state)
{
    (void)state;
    full_and_back(0, 10 * WORLD_SEGMENT + 8192, ERR_DISK_LIMIT);
}

static void p8_room_given_back_ends_the_refusals(void **state)
{
    (void)state;
    struct world world;
    open_full(&world, 8 * WORLD_SEGMENT + 8192, 0);
    assert_int_equal(fill(&world), ERR_DISK_FULL);
    sim_disk_capacity(world.disk, 0);
    for (int i = 0; i < 60; i++)
        step(&world); /* it is asked again once a second */
    assert_false(store_full(world.store));
    assert_int_equal(world_push(&world), OK);
    world_fini(&world);
}

static void p8_a_store_opens_on_a_full_disk(void **state)
{
    (void)state;
    for (int clean = 0; clean < 2; clean++) {
        struct world world;
        open_full(&world, 8 * WORLD_SEGMENT + 8192, 0);
        assert_int_equal(fill(&world), ERR_DISK_FULL);
        if (!clean)
            sim_disk_cut_at(world.disk, sim_disk_points(world.disk));
        world_close(&world);
        world.store = NULL;
        if (!clean)
            sim_disk_power(world.disk, 3);
        sim_disk_capacity(world.disk, sim_disk_used(world.disk)); /* not a byte is left */
        assert_int_equal(world_open(&world), OK);
        world_check(&world);
        step(&world);
        assert_int_equal(fill(&world), ERR_DISK_FULL);
        end_all(&world);
        world_close(&world);
        assert_int_equal(world_open(&world), OK);
        world_check(&world);
        world_fini(&world);
    }
}

static void p8_disk_use_follows_the_live_jobs(void **state)
{
    (void)state;
    struct world world;
    struct store_stats stats;
    world_init(&world, 4);
    world.options.body_max = 1000;
    assert_int_equal(world_open(&world), OK);
    for (int i = 0; i < 3000; i++) {
        assert_int_equal(world_push(&world), OK);
        struct world_job *job = &world.jobs[world.job_count - 1];
        step(&world);
        if (i % 200 != 0) {
            world_end(&world, job);
            world.job_count--;     /* the model is slow with many jobs … */
            world.entry_count = 0; /* … and this test needs no journal */
        }
        step(&world);
    }
    store_stats(world.store, &stats);
    assert_int_equal(stats.live_jobs, 15);
    assert_true(stats.disk_bytes <= 8 * WORLD_SEGMENT);
    assert_true(stats.checkpoints > 50);
    world_fini(&world);
}

static void a_record_larger_than_a_segment_has_one_of_its_own(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, 4);
    assert_int_equal(world_open(&world), OK);
    struct bytes big = bytes_of(mem_zalloc(5 * WORLD_SEGMENT), 5 * WORLD_SEGMENT);
    memset((char *)(uintptr_t)big.at, 'x', big.len);
    struct world_job job = {.seq = 1, .live = true, .priority = 3};
    assert_int_equal(world_push(&world), OK);
    assert_int_equal(store_admit(world.store, big.len), OK);
    job.seq = 2;
    job.stored = world_emit(&world, &job, BYTES("text"), big);
    world.seq_next = 3;
    assert_int_equal(world_push(&world), OK);
    world_settle(&world);
    assert_int_equal(world.acknowledged, store_batch(world.store));
    struct bytes content_type, body;
    struct arena arena = {0};
    world_close(&world);
    assert_int_equal(world_open(&world), OK);
    job = *world_find(&world, 2);
    assert_int_equal(
        store_read(world.store, 2, job.stored.where, 4, big.len, &arena, &content_type, &body), OK);
    assert_true(bytes_eq(body, big));
    arena_fini(&arena);
    mem_free((char *)(uintptr_t)big.at);
    world_fini(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(p8_full_disk_refuses_pushes_and_ends_jobs),
        cmocka_unit_test(p8_max_bytes_refuses_pushes_and_ends_jobs),
        cmocka_unit_test(p8_room_given_back_ends_the_refusals),
        cmocka_unit_test(p8_a_store_opens_on_a_full_disk),
        cmocka_unit_test(p8_disk_use_follows_the_live_jobs),
        cmocka_unit_test(a_record_larger_than_a_segment_has_one_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
