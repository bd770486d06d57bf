/*
 * Which segments are filled with zeros before they are written to: those for small commits, each of
 * which would else change the file's extents.
 */
#include "store/internal.h"
#include "store_model.h"
#include "store_work.h"

enum { SEGMENT = 1024 * 1024, LARGE_JOBS = 100, SEGMENTS = 6 };

static void open_bed(struct model *model)
{
    model_init(model, 1);
    model->options.segment_bytes = SEGMENT;
    model->options.bulk_bytes = 0;   /* as laterd has it */
    model->options.inline_us = 2000; /* the simulated disk is quicker */
    assert_int_equal(model_open(model), OK);
    model_settle(model);
}

/* So many segments more are in the log, written by commits of so many jobs. */
static void fill_segments(struct model *model, uint32_t count, unsigned jobs)
{
    struct store_stats stats;
    store_stats(model->store, &stats);
    uint64_t until = stats.segments + count;
    while (stats.segments < until) {
        for (unsigned i = 0; i < jobs; i++)
            assert_int_equal(model_push(model), OK);
        model_settle(model);
        store_stats(model->store, &stats);
    }
}

static void small_commits_have_zeros_ahead(void **state)
{
    (void)state;
    struct model model;
    open_bed(&model);
    fill_segments(&model, SEGMENTS, 1);
    struct store_stats stats;
    store_stats(model.store, &stats);
    assert_true(sim_disk_zeros(model.disk) >= (uint64_t)stats.segments * SEGMENT);
    assert_int_equal(sim_disk_zeros(model.disk) % SEGMENT, 0);
    model_fini(&model);
}

static void large_commits_have_none_and_lose_nothing(void **state)
{
    (void)state;
    struct model model;
    open_bed(&model);
    fill_segments(&model, 2, LARGE_JOBS); /* spares were made before anything was known */
    uint64_t before = sim_disk_zeros(model.disk);
    fill_segments(&model, SEGMENTS, LARGE_JOBS);
    assert_true(log_commit_bytes(model.store->log) > 48 * 1024);
    assert_int_equal(sim_disk_zeros(model.disk), before);
    model_fini_reopened(&model);
}

static void zeros_come_back_with_small_commits(void **state)
{
    (void)state;
    struct model model;
    open_bed(&model);
    fill_segments(&model, SEGMENTS, LARGE_JOBS);
    fill_segments(&model, 3, 1); /* the last one, and the spares */
    uint64_t before = sim_disk_zeros(model.disk);
    fill_segments(&model, 2, 1);
    assert_int_equal(sim_disk_zeros(model.disk), before + 2 * SEGMENT);
    model_fini(&model);
}

/* A reserved segment meets small commits: one in 64 of them writes zeros for those that follow. */
static void small_commits_in_a_reserved_segment_write_zeros_behind_themselves(void **state)
{
    (void)state;
    struct model model;
    struct store_stats before, after;
    open_bed(&model);
    fill_segments(&model, SEGMENTS, LARGE_JOBS);
    for (int i = 0; i < 64; i++) { /* until commits count as small */
        assert_int_equal(model_push(&model), OK);
        model_settle(&model);
    }
    store_stats(model.store, &before);
    const struct segment *tail = segments_tail(model.store->segments);
    uint64_t zeros = sim_disk_zeros(model.disk), filled = tail->filled;
    assert_true(filled > tail->end && filled < tail->size_bytes);
    while (tail->filled == filled) {
        assert_int_equal(model_push(&model), OK);
        assert_int_equal(sim_disk_zeros(model.disk), zeros);
        model_settle(&model);
    }
    store_stats(model.store, &after);
    assert_true(after.batches - before.batches > 8);
    assert_int_equal(sim_disk_zeros(model.disk) - zeros, DISK_ZEROS_MAX);
    fill_segments(&model, 4, 1);
    model_fini_reopened(&model);
}

/* Room is the same with zeros and without: what has been placed can be written. */
static void p8_a_full_disk_takes_what_has_room_in_a_reserved_segment(void **state)
{
    (void)state;
    struct model model;
    open_bed(&model);
    fill_segments(&model, SEGMENTS, LARGE_JOBS);
    sim_disk_capacity(model.disk, sim_disk_used(model.disk)); /* no file can grow or be made */
    unsigned pushed = 0;
    while (model_push(&model) == OK) {
        model_settle(&model);
        pushed++;
    }
    assert_true(pushed > 0 && !model.failed);
    assert_int_equal(model.acknowledged, store_batch(model.store));
    sim_disk_capacity(model.disk, 0);
    model.now_us += 2000000; /* it is asked again once a second */
    model_settle(&model);
    assert_int_equal(model_push(&model), OK);
    model_fini_reopened(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_commits_have_zeros_ahead),
        cmocka_unit_test(large_commits_have_none_and_lose_nothing),
        cmocka_unit_test(zeros_come_back_with_small_commits),
        cmocka_unit_test(small_commits_in_a_reserved_segment_write_zeros_behind_themselves),
        cmocka_unit_test(p8_a_full_disk_takes_what_has_room_in_a_reserved_segment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
