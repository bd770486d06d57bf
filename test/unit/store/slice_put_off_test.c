/*
 * Far jobs that came back and were put off until far beyond the horizon: with more of them in
 * memory than should stay, their records leave the slices that they came from for the log, and then
 * for new slices, if they are many of a block. The power goes at each point of it, each call of the
 * disk fails.
 */
#include "changed_lives.h"

enum { STAY = 1 };

static uint64_t jobs_of(const struct model *model)
{
    return model->store->slices->changed.jobs[MOVE_FAR];
}

static void begin(struct model *model, uint64_t stay)
{
    begin_far(model, FAR_JOBS);
    model->options.put_off_in_memory = stay;
    reopen(model);
    model_check(model);
    all_come(model);
}

static void put_off(struct model *model, struct model_job *job)
{
    if (!job->live || model_state(job) != JOB_DELAYED || !model_bring(model, job))
        return;
    job->due_us = model->now_us + INT64_C(1000) * MODEL_DELAY_US;
    job->priority++;
    model_emit_move(model, job);
    model_note(model, job);
}

/* How many were put off and are in memory; `misplaced`: those whose records lie in slices. */
static size_t in_memory(const struct model *model, bool misplaced)
{
    size_t count = 0;
    for (size_t i = 0; i < model->job_count; i++) {
        const struct model_job *job = &model->jobs[i];
        bool counts = job->live && model_state(job) == JOB_DELAYED && !job->far &&
                      job->due_us > model->now_us + MODEL_DELAY_US;
        count += counts &&
                 (!misplaced || store_slice_state(model->store, job->stored.where) == JOB_DELAYED);
    }
    return count;
}

/* One of so many. Returns how many came from slices. */
static size_t put_off_one_of(struct model *model, size_t many)
{
    for (size_t i = 0; i < model->job_count; i++)
        if (i % many == 0)
            put_off(model, &model->jobs[i]);
    return in_memory(model, true);
}

/* A consumer gives each job back until tomorrow, and takes it again then. */
static void p8_jobs_that_were_put_off_leave_memory_again(void **state)
{
    (void)state;
    for (int restarts = 0; restarts < 2; restarts++) {
        struct model model;
        begin(&model, STAY);
        for (int day = 0; day < 3; day++) {
            size_t there = put_off_one_of(&model, 1);
            print_message("%zu were put off, %zu of them in slices, %llu leave\n",
                          in_memory(&model, false), there, (unsigned long long)jobs_of(&model));
            assert_true(there > FAR_JOBS / 4 && jobs_of(&model) == there);
            if (restarts) {
                reopen(&model);
                model_check(&model);
                assert_in_range(in_memory(&model, true), there / 2, there); /* some have left */
                assert_int_equal(jobs_of(&model), in_memory(&model, true));
            }
            settle_for(&model, 3);
            assert_in_range(in_memory(&model, true), 0, STAY);
            for (int i = 0; i < 3; i++)
                grow_log(&model);
            assert_in_range(in_memory(&model, false), 0, STAY + OF_A_SEGMENT);
            all_come(&model);
        }
        model_fini_reopened(&model);
    }
}

static void no_more_of_them_is_written_than_has_to_be(void **state)
{
    (void)state;
    struct model model;
    begin(&model, FAR_JOBS);
    size_t there = put_off_one_of(&model, 2);
    settle_for(&model, 2);
    assert_int_equal(model.store->slices->changed.moved, 0);
    assert_int_equal(in_memory(&model, true), there);
    model_fini_reopened(&model);
}

/* A block is not read for one job of many: it would be read for each that is put off. */
static void a_block_is_not_read_for_few(void **state)
{
    (void)state;
    struct model model;
    begin(&model, STAY);
    size_t there = put_off_one_of(&model, 20);
    assert_true(there > 10 * STAY);
    assert_in_range(jobs_of(&model), 0, there / 4); /* some blocks have few jobs */
    settle_for(&model, 2);
    assert_in_range(model.store->slices->changed.moved, 0, there / 4);
    assert_true(in_memory(&model, true) >= there / 4 * 3);
    (void)put_off_one_of(&model, 2); /* now they are many */
    assert_true(jobs_of(&model) > there);
    settle_for(&model, 3);
    assert_in_range(in_memory(&model, true), 0, STAY);
    model_fini_reopened(&model);
}

/* Beyond the horizon, but the cleaner would come by too late. */
static void those_that_are_due_soon_stay(void **state)
{
    (void)state;
    struct model model;
    begin(&model, STAY);
    for (size_t i = 0; i < model.job_count; i++) {
        struct model_job *job = &model.jobs[i];
        if (!job->live || model_state(job) != JOB_DELAYED || !model_bring(&model, job))
            continue;
        job->due_us = model.now_us + model.options.horizon_us * 3 / 2;
        model_emit_move(&model, job);
        model_note(&model, job);
    }
    assert_int_equal(jobs_of(&model), 0);
    settle_for(&model, 2);
    assert_int_equal(model.store->slices->changed.moved, 0);
    model_fini_reopened(&model);
}

/* ---- the end of a life ---- */

/* Most are put off, some are given back or buried. */
static void change_most(struct model *model, struct model_job *job, size_t number)
{
    if (number % 9 == 0)
        bury(model, job);
    else if (number % 5 == 0)
        give_back(model, job);
    else
        put_off(model, job);
}

static void set_few(struct model *model, uint64_t seed)
{
    model->options.put_off_in_memory = STAY + seed % 3 * 10;
}

static void p1_p5_p9_cuts_while_jobs_that_were_put_off_leave_their_slices_lose_none(void **state)
{
    (void)state;
    struct changed_lives lives = {.change = change_most, .set = set_few, .state = JOB_DELAYED};
    cut_all_changed(&lives);
    assert_true(lives.left > 20 * lives.count);
}

static void p1_p7_a_failed_call_while_jobs_leave_their_slices_loses_none(void **state)
{
    (void)state;
    struct changed_lives lives = {.change = change_most, .set = set_few, .state = JOB_DELAYED};
    fail_all_changed(&lives);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(p8_jobs_that_were_put_off_leave_memory_again),
        cmocka_unit_test(no_more_of_them_is_written_than_has_to_be),
        cmocka_unit_test(a_block_is_not_read_for_few),
        cmocka_unit_test(those_that_are_due_soon_stay),
        cmocka_unit_test(p1_p5_p9_cuts_while_jobs_that_were_put_off_leave_their_slices_lose_none),
        cmocka_unit_test(p1_p7_a_failed_call_while_jobs_leave_their_slices_loses_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
