/*
 * How many far jobs the cleaner gathers before they leave the log: little while memory is short,
 * and not less than a slice needs.
 */
#include "slice_bed.h"
#include "store/log/cleaner_parts.h"
#include "store/slices/slices_parts.h"
#include "store/slices/spill.h"

/* Cleans segments with so many far jobs each. Returns the most that a run has gathered. */
static uint64_t clean_large_segments(uint64_t (*memory_left)(struct store_callbacks *callbacks),
                                     uint32_t slices_few, uint64_t *out_slices)
{
    enum { SEGMENT = 4 * 1024 * 1024, PUSHES = 6000, LARGE = 2000 };
    struct model model;
    struct store_stats stats;
    uint64_t most = 0;
    far_model(&model, 5);
    model.delay_us = INT64_C(1000) * MODEL_DELAY_US;
    model.body_bytes = LARGE;
    model.options.segment_bytes = SEGMENT;
    model.options.spill_bytes = slices_few ? SEGMENT / 32 : SEGMENT / 16;
    model.options.slices_few = slices_few;
    model.callbacks.memory_left = memory_left;
    assert_int_equal(model_open(&model), OK);
    for (unsigned i = 0; i < PUSHES; i++) {
        assert_int_equal(model_push(&model), OK);
        if (i % 3 == 0) /* some change while they are on the way */
            model_act(&model);
        model_turn(&model);
        uint64_t bytes = spill_gathered_bytes(model.store->cleaner->spill);
        most = bytes > most ? bytes : most;
    }
    store_stats(model.store, &stats);
    assert_true(stats.slice_jobs > PUSHES / 3);
    settle_for(&model, 5);
    store_stats(model.store, &stats);
    *out_slices = stats.slices;
    model_fini_reopened(&model);
    return most;
}

/* Segments may have up to a GiB. */
static void p8_a_run_gathers_little_while_memory_is_short(void **state)
{
    enum { SEGMENT = 4 * 1024 * 1024, A_BATCH = 64 * 1024 };
    (void)state;
    uint64_t slices, few;
    assert_true(clean_large_segments(NULL, 0, &few) > SEGMENT / 4);
    uint64_t most = clean_large_segments(no_memory_left, 0, &slices);
    print_message("%llu bytes, %llu slices, not %llu\n", (unsigned long long)most,
                  (unsigned long long)slices, (unsigned long long)few);
    assert_in_range(most, SEGMENT / 32, SEGMENT / 16 + A_BATCH);
    assert_true(slices > 2 * few);
}

/* Memory is short only while the cleaner has its window, as it is when a run has just become too
   large. */
static uint64_t little_beside_the_window(struct store_callbacks *callbacks)
{
    enum { LEFT = 100 * 1024 };
    const struct cleaner *cleaner = callbacks->store->cleaner;
    return LEFT + (cleaner->reader.scan.window ? 0 : CLEANER_TURN_BYTES);
}

/* Its slices are small for so many, but a run that ends because memory is short must end. */
static void p8_a_run_ends_though_its_window_was_what_made_memory_short(void **state)
{
    enum { FEW = 1, TIMES = 16 };
    (void)state;
    uint64_t slices;
    (void)clean_large_segments(little_beside_the_window, FEW, &slices);
    assert_true(slices > 2 * FEW * TIMES);
}

/*
 * With many slices, runs that memory makes short, and small jobs of three kinds none of which alone
 * is enough for a slice in most of the runs.
 */
static void small_jobs_of_several_kinds_leave_in_short_runs(void **state)
{
    enum { SEGMENT = 512 * 1024, PUSHES = 25000, AT_ONCE = 40 };
    (void)state;
    struct model model;
    struct store_stats stats;
    far_model_in_runs(&model, 6);
    model.buries = 12; /* far fewer than the others */
    model.body_bytes = 8;
    model.options.slices_few = 1;
    model.options.segment_bytes = SEGMENT;
    model.options.checkpoint_bytes = 2 * SEGMENT;
    model.delay_us = INT64_C(1000) * MODEL_DELAY_US;
    assert_int_equal(model_open(&model), OK);
    for (unsigned i = 0; i < PUSHES; i++) {
        assert_int_equal(model_push(&model), OK);
        if (i % AT_ONCE == 0)
            model_turn(&model);
    }
    settle_for(&model, 5);
    store_stats(model.store, &stats);
    print_message("%llu jobs left, %llu were relocated, %llu slices\n",
                  (unsigned long long)stats.spilled_jobs, (unsigned long long)stats.relocated_jobs,
                  (unsigned long long)stats.slices);
    assert_true(stats.spilled_jobs > PUSHES / 2);
    assert_true(stats.relocated_jobs < stats.spilled_jobs / 50);
    assert_true(far_of(&model, JOB_BURIED) > 0 && far_of(&model, JOB_READY) > 0);
    model_fini_reopened(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(p8_a_run_gathers_little_while_memory_is_short),
        cmocka_unit_test(p8_a_run_ends_though_its_window_was_what_made_memory_short),
        cmocka_unit_test(small_jobs_of_several_kinds_leave_in_short_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
