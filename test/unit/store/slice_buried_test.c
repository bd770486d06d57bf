/*
 * Far jobs that came back and were buried: with more of them in memory than should stay, their
 * records leave the slices of delayed jobs for the log, and then for slices of buried ones. The
 * power goes at each point of it, each call of the disk fails, blocks cannot be read or are
 * damaged.
 */
#include "changed_lives.h"

enum { STAY = 50, SMALL = 20, PORTION = 256 };

/* ---- jobs that come back, and are buried ---- */

static void begin(struct model *model, uint64_t stay)
{
    begin_far(model, FAR_JOBS);
    model->options.buried_in_memory = stay;
    reopen(model);
    model_check(model);
}

/* Of all, two in three. Returns how many of them came from slices. */
static size_t bury_most(struct model *model)
{
    for (size_t i = 0; i < model->job_count; i++)
        if (i % 3)
            bury(model, &model->jobs[i]);
    assert_int_equal(model->store->slices->changed.jobs[MOVE_BURIED], misplaced(model, JOB_BURIED));
    return misplaced(model, JOB_BURIED);
}

/* They do not stay in memory because of where they came from. */
static void p8_so_many_buried_jobs_that_came_back_stay_in_memory(void **state)
{
    (void)state;
    for (int restarts = 0; restarts < 2; restarts++) {
        struct model model;
        begin(&model, STAY);
        all_come(&model);
        assert_true(bury_most(&model) > FAR_JOBS / 2);
        size_t buried = model_buried_in_memory(&model);
        if (restarts) {
            reopen(&model);
            model_check(&model);
            assert_true(misplaced(&model, JOB_BURIED) > FAR_JOBS / 2);
            assert_int_equal(model.store->slices->changed.jobs[MOVE_BURIED],
                             misplaced(&model, JOB_BURIED));
        }
        settle_for(&model, 2);
        assert_in_range(misplaced(&model, JOB_BURIED), 0, STAY);
        for (int i = 0; i < 3; i++)
            grow_log(&model);
        assert_in_range(model_buried_in_memory(&model), 0, STAY + OF_A_SEGMENT);
        assert_int_equal(far_of(&model, JOB_BURIED), buried - model_buried_in_memory(&model));
        model_fini_reopened(&model);
    }
}

static void no_more_of_them_is_written_than_has_to_be(void **state)
{
    (void)state;
    struct model model;
    begin(&model, FAR_JOBS);
    all_come(&model);
    size_t there = bury_most(&model);
    settle_for(&model, 2);
    assert_int_equal(model.store->slices->changed.moved, 0);
    assert_int_equal(misplaced(&model, JOB_BURIED), there);
    model_fini_reopened(&model);
}

static unsigned asked;

static enum changed_verdict count_asked(struct store_callbacks *callbacks,
                                        const struct event *event, uint64_t where,
                                        int64_t due_after_us)
{
    asked++;
    return model_relocate_changed(callbacks, event, where, due_after_us);
}

/* Others of their blocks are where they were, and nobody asks about them, though they changed. */
static void what_is_not_buried_stays_in_its_slice(void **state)
{
    (void)state;
    struct model model;
    begin(&model, 0);
    all_come(&model);
    (void)bury_most(&model);
    size_t others = 0;
    for (size_t i = 0; i < model.job_count; i += 3)
        others += store_slice_state(model.store, model.jobs[i].stored.where) == JOB_DELAYED;
    assert_true(others > 0);
    for (size_t i = 0; i < model.job_count; i += 6)
        if (model.jobs[i].live)
            model_move(&model, &model.jobs[i]);
    asked = 0;
    model.callbacks.relocate_changed = count_asked;
    uint64_t there = model.store->slices->changed.jobs[MOVE_BURIED];
    settle_for(&model, 2);
    assert_int_equal(model.store->slices->changed.moved, there);
    assert_int_equal(asked, there);
    assert_int_equal(misplaced(&model, JOB_BURIED), 0);
    for (size_t i = 0; i < model.job_count; i += 3)
        others -= store_slice_state(model.store, model.jobs[i].stored.where) == JOB_DELAYED;
    assert_true(others == 0 || model.store->slices->emptied > 0);
    model_fini_reopened(&model);
}

/* Small ones, so that a block has more of them than a turn may look at. */
static void p8_a_turn_looks_at_a_bounded_number_of_records(void **state)
{
    (void)state;
    struct model model;
    far_model(&model, 5);
    model.delay_us = INT64_C(1000) * MODEL_DELAY_US;
    model.body_bytes = SMALL;
    model.options.segment_bytes = 8 * MODEL_SEGMENT;
    assert_int_equal(model_open(&model), OK);
    for (unsigned i = 0; i < 4000; i++) {
        assert_int_equal(model_push(&model), OK);
        if (i % 16 == 0)
            model_turn(&model);
    }
    settle_for(&model, 4);
    all_come(&model);
    (void)bury_most(&model);
    uint64_t most = 0, before = model.store->slices->changed.moved;
    for (int i = 0; i < 2000; i++) {
        store_turn(model.store, model.now_us += 1000);
        model_disk_works(&model);
        store_poll(model.store);
        uint64_t moved = model.store->slices->changed.moved - before;
        most = moved > most ? moved : most;
        before += moved;
    }
    assert_int_equal(misplaced(&model, JOB_BURIED), 0);
    assert_in_range(most, PORTION / 2, PORTION);
    model_fini_reopened(&model);
}

static bool no_room(struct store_callbacks *callbacks)
{
    (void)callbacks;
    return false;
}

static void p8_they_leave_though_memory_is_short(void **state)
{
    (void)state;
    struct model model;
    begin(&model, STAY);
    all_come(&model);
    model.callbacks.far_room = no_room;
    (void)bury_most(&model);
    settle_for(&model, 2);
    assert_in_range(misplaced(&model, JOB_BURIED), 0, STAY);
    model_fini_reopened(&model);
}

/* Jobs with notes of failed attempts: the core does not let them leave. */
static void those_that_must_stay_are_asked_for_once(void **state)
{
    (void)state;
    struct model model;
    begin(&model, 0);
    all_come(&model);
    for (size_t i = 0; i < model.job_count; i++)
        model.jobs[i].noted = true;
    for (size_t i = 0; i < model.job_count; i++)
        bury(&model, &model.jobs[i]);
    struct slices *slices = model.store->slices;
    uint64_t there = slices->changed.jobs[MOVE_BURIED];
    asked = 0;
    model.callbacks.relocate_changed = count_asked;
    assert_true(there > FAR_JOBS / 2);
    settle_for(&model, 2);
    assert_int_equal(asked, there);
    grow_log(&model); /* their MOVEs are written again */
    assert_int_equal(asked, there);
    assert_int_equal(slices->changed.jobs[MOVE_BURIED], 0);
    assert_int_equal(slices->changed.moved, 0);
    size_t one = 0;
    while (!model.jobs[one].live || !model.jobs[one].noted ||
           store_slice_state(model.store, model.jobs[one].stored.where) != JOB_DELAYED)
        one++;
    model_emit_move(&model, &model.jobs[one]); /* it has changed, as far as the store knows */
    settle_for(&model, 1);
    assert_int_equal(asked, there + 1);
    for (size_t i = 0; i < model.job_count; i++) { /* they are kicked, and buried again */
        if (!model.jobs[i].live || !model.jobs[i].noted)
            continue;
        model.jobs[i].buried = model.jobs[i].noted = false;
        model_emit_move(&model, &model.jobs[i]);
        bury(&model, &model.jobs[i]);
    }
    assert_int_equal(slices->changed.jobs[MOVE_BURIED], misplaced(&model, JOB_BURIED));
    settle_for(&model, 2);
    assert_int_equal(misplaced(&model, JOB_BURIED), 0);
    model_fini_reopened(&model);
}

static void long_blocks_are_read_at_the_pace_of_others(void **state)
{
    (void)state;
    struct model model;
    begin_long(&model, LONG);
    all_come(&model);
    (void)bury_most(&model);
    struct pace pace = watch_pace(&model, of_changed);
    print_message("%u blocks, %llu bytes\n", pace.blocks, (unsigned long long)pace.bytes);
    assert_true(pace.blocks > 10 && pace.bytes / pace.blocks > 3 * 64 * 1024);
    assert_int_equal(misplaced(&model, JOB_BURIED), 0);
    model_fini_reopened(&model);
}

/* ---- the disk ---- */

static size_t misplaced_in(const struct model *model, uint32_t number)
{
    size_t count = 0;
    for (size_t i = 0; i < model->job_count; i++)
        count += model->jobs[i].live && model->jobs[i].buried &&
                 where_segment(model->jobs[i].stored.where) == number;
    return count;
}

static int by_place(const void *a, const void *b)
{
    const struct model_job *one = *(struct model_job *const *)a,
                           *other = *(struct model_job *const *)b;
    return (one->stored.where > other->stored.where) - (one->stored.where < other->stored.where);
}

/* The changes are read in the order in which they were made: here that of the records. */
static void a_start_reads_ahead_of_records_that_changed_one_after_the_other(void **state)
{
    (void)state;
    struct model model;
    static struct model_job *jobs[2 * FAR_JOBS];
    size_t count = 0;
    begin(&model, UINT64_MAX);
    all_come(&model);
    reopen(&model);
    uint64_t before = sim_disk_fetched(model.disk);
    reopen(&model);
    uint64_t unchanged = sim_disk_fetched(model.disk) - before;
    for (size_t i = 0; i < model.job_count && count < 2 * FAR_JOBS; i++)
        if (model.jobs[i].live)
            jobs[count++] = &model.jobs[i];
    qsort(jobs, count, sizeof(*jobs), by_place);
    for (size_t i = 0; i < count; i++)
        bury(&model, jobs[i]);
    before = sim_disk_fetched(model.disk);
    reopen(&model);
    assert_true(sim_disk_fetched(model.disk) - before >= unchanged + 256 * 1024);
    model_fini_reopened(&model);
}

static void jobs_of_a_slice_that_cannot_be_read_stay(void **state)
{
    (void)state;
    struct model model;
    char name[DISK_NAME_MAX];
    begin(&model, 0);
    all_come(&model);
    (void)bury_most(&model);
    uint32_t number = slice_with(&model, MOVE_BURIED)->head.number;
    size_t stay = misplaced_in(&model, number);
    slice_name(number, name);
    sim_disk_bad(model.disk, name, DISK_ALIGN, UINT64_MAX);
    settle_for(&model, 4);
    assert_true(stay > 0);
    assert_int_equal(misplaced(&model, JOB_BURIED), stay);
    assert_int_equal(misplaced_in(&model, number), stay);
    assert_int_equal(model.store->slices->changed.jobs[MOVE_BURIED],
                     0); /* others need not leave for them */
    assert_int_equal(model.notices[STORE_UNREAD], 1);
    assert_non_null(strstr(model.noticed.text, "until the next start"));
    sim_disk_bad(model.disk, "", 0, 0);
    settle_for(&model, 2);
    assert_int_equal(misplaced(&model, JOB_BURIED), stay);
    reopen(&model);
    settle_for(&model, 2);
    assert_int_equal(misplaced(&model, JOB_BURIED), 0);
    model_fini_reopened(&model);
}

static void jobs_of_a_damaged_block_stay_and_it_is_told(void **state)
{
    (void)state;
    struct model model;
    char name[DISK_NAME_MAX];
    begin(&model, 0);
    all_come(&model);
    (void)bury_most(&model);
    const struct slice *slice = slice_with(&model, MOVE_BURIED);
    size_t stay = misplaced_in(&model, slice->head.number);
    uint32_t block = 0;
    while (slice->leavers[MOVE_BURIED].in_block[block] == 0)
        block++;
    slice_name(slice->head.number, name);
    assert_true(sim_disk_flip(model.disk, name, slice->fences[block].offset * BLOCK * 8ul + 4000));
    settle_for(&model, 4);
    assert_in_range(misplaced(&model, JOB_BURIED), 1,
                    stay); /* some were in blocks in front of it */
    assert_int_equal(misplaced_in(&model, slice->head.number), misplaced(&model, JOB_BURIED));
    assert_int_equal(model.notices[STORE_DAMAGED], 1);
    assert_non_null(strstr(model.noticed.text, "later verify"));
    model_fini(&model);
}

/* No descriptor is free for a while. */
static void a_shortage_of_descriptors_gives_up_nothing(void **state)
{
    (void)state;
    struct model model;
    begin(&model, 0);
    all_come(&model);
    (void)bury_most(&model);
    sim_disk_starve(model.disk, true);
    settle_for(&model, 1);
    sim_disk_starve(model.disk, false);
    settle_for(&model, 2);
    assert_int_equal(misplaced(&model, JOB_BURIED), 0);
    model_fini_reopened(&model);
}

/* ---- the end of a life ---- */

static void bury_two_of_three(struct model *model, struct model_job *job, size_t number)
{
    if (number % 3)
        bury(model, job);
}

static void set_few(struct model *model, uint64_t seed)
{
    model->options.buried_in_memory = seed % 3 * 10;
}

static void p1_p5_p9_cuts_while_buried_jobs_leave_their_slices_lose_none(void **state)
{
    (void)state;
    struct changed_lives lives = {.change = bury_two_of_three, .set = set_few, .state = JOB_BURIED};
    cut_all_changed(&lives);
    assert_true(lives.left > 50 * lives.count);
}

static void p1_p7_a_failed_call_while_buried_jobs_leave_their_slices_loses_none(void **state)
{
    (void)state;
    struct changed_lives lives = {.change = bury_two_of_three, .set = set_few, .state = JOB_BURIED};
    fail_all_changed(&lives);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(p8_so_many_buried_jobs_that_came_back_stay_in_memory),
        cmocka_unit_test(no_more_of_them_is_written_than_has_to_be),
        cmocka_unit_test(what_is_not_buried_stays_in_its_slice),
        cmocka_unit_test(p8_a_turn_looks_at_a_bounded_number_of_records),
        cmocka_unit_test(p8_they_leave_though_memory_is_short),
        cmocka_unit_test(those_that_must_stay_are_asked_for_once),
        cmocka_unit_test(long_blocks_are_read_at_the_pace_of_others),
        cmocka_unit_test(jobs_of_a_slice_that_cannot_be_read_stay),
        cmocka_unit_test(jobs_of_a_damaged_block_stay_and_it_is_told),
        cmocka_unit_test(a_start_reads_ahead_of_records_that_changed_one_after_the_other),
        cmocka_unit_test(a_shortage_of_descriptors_gives_up_nothing),
        cmocka_unit_test(p1_p5_p9_cuts_while_buried_jobs_leave_their_slices_lose_none),
        cmocka_unit_test(p1_p7_a_failed_call_while_buried_jobs_leave_their_slices_loses_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
