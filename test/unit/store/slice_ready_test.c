/*
 * Far jobs that came back, were taken and given back: with more of them in memory than should stay,
 * their records leave the slices that they came from for the log, and then for slices of ready
 * jobs. Among them are some that are buried. The power goes at each point of it, each call of the
 * disk fails, blocks cannot be read.
 */
#include "changed_lives.h"

enum { STAY = 50 };

static uint64_t jobs_of(const struct model *model, enum slice_move_kind kind)
{
    return model->store->slices->changed.jobs[kind];
}

static void begin_staying(struct model *model, uint64_t ready, uint64_t buried)
{
    begin_far(model, FAR_JOBS);
    model->options.ready_in_memory = ready;
    model->options.buried_in_memory = buried;
    reopen(model);
    model_check(model);
    all_come(model);
}

static void begin(struct model *model, uint64_t stay)
{
    begin_staying(model, stay, UINT64_MAX);
}

/* Of all, two in three. Returns how many of them came from slices. */
static size_t give_back_most(struct model *model)
{
    for (size_t i = 0; i < model->job_count; i++)
        if (i % 3)
            give_back(model, &model->jobs[i]);
    assert_int_equal(jobs_of(model, MOVE_READY), misplaced(model, JOB_READY));
    return misplaced(model, JOB_READY);
}

static size_t ready_in_memory(const struct model *model)
{
    size_t count = 0;
    for (size_t i = 0; i < model->job_count; i++) {
        const struct model_job *job = &model->jobs[i];
        count += job->live && model_state(job) == JOB_READY && !job->far;
    }
    return count;
}

/* They do not stay in memory because of where they came from. */
static void p8_so_many_jobs_that_were_given_back_stay_in_memory(void **state)
{
    (void)state;
    for (int restarts = 0; restarts < 2; restarts++) {
        struct model model;
        begin(&model, STAY);
        assert_true(give_back_most(&model) > FAR_JOBS / 2);
        size_t ready = ready_in_memory(&model);
        if (restarts) {
            reopen(&model);
            model_check(&model);
            assert_true(misplaced(&model, JOB_READY) > FAR_JOBS / 2);
            assert_int_equal(jobs_of(&model, MOVE_READY), misplaced(&model, JOB_READY));
        }
        settle_for(&model, 2);
        assert_in_range(misplaced(&model, JOB_READY), 0, STAY);
        for (int i = 0; i < 3; i++)
            grow_log(&model);
        assert_in_range(ready_in_memory(&model), 0, STAY + OF_A_SEGMENT);
        assert_int_equal(far_of(&model, JOB_READY), ready - ready_in_memory(&model));
        model_fini_reopened(&model);
    }
}

static void no_more_of_them_is_written_than_has_to_be(void **state)
{
    (void)state;
    struct model model;
    begin(&model, FAR_JOBS);
    size_t there = give_back_most(&model);
    settle_for(&model, 2);
    assert_int_equal(model.store->slices->changed.moved, 0);
    assert_int_equal(misplaced(&model, JOB_READY), there);
    model_fini_reopened(&model);
}

/* Those that wait and were not taken are as their records say: they stay in their slices. */
static void what_is_not_changed_stays_in_its_slice(void **state)
{
    (void)state;
    struct model model;
    begin(&model, 0);
    uint64_t there = give_back_most(&model);
    settle_for(&model, 2);
    assert_int_equal(model.store->slices->changed.moved, there);
    assert_int_equal(misplaced(&model, JOB_READY), 0);
    assert_true(misplaced(&model, JOB_DELAYED) > 0 || model.store->slices->emptied > 0);
    model_fini_reopened(&model);
}

static unsigned asked;
static bool in_front; /* the first half of the jobs may not leave */

static enum changed_verdict count_asked(struct store_callbacks *callbacks,
                                        const struct event *event, uint64_t where,
                                        int64_t due_after_us)
{
    asked++;
    if (in_front && event->job.seq <= FAR_JOBS / 2)
        return CHANGED_WAITS;
    return model_relocate_changed(callbacks, event, where, due_after_us);
}

/* Consumers come to them soon, or a connection holds them: that is asked once in a round of the
   log, when the cleaner copies their MOVEs. */
static void those_that_must_wait_are_asked_for_once_a_round(void **state)
{
    (void)state;
    struct model model;
    begin(&model, 0);
    size_t there = give_back_most(&model);
    model.callbacks.relocate_changed = count_asked;
    asked = 0;
    in_front = true;
    settle_for(&model, 4); /* what leaves makes the cleaner go round once */
    size_t wait = misplaced(&model, JOB_READY), before = asked;
    assert_in_range(asked, there, there + 2 * wait);
    assert_true(wait > FAR_JOBS / 8 && wait < there);
    assert_int_equal(jobs_of(&model, MOVE_READY), 0);
    settle_for(&model, 4); /* nothing is written */
    assert_int_equal(asked, before);
    in_front = false; /* others have come in front of them */
    for (int i = 0; i < 3; i++)
        grow_log(&model);
    settle_for(&model, 2);
    assert_int_equal(misplaced(&model, JOB_READY), 0);
    assert_in_range(asked, before + wait / 2, before + wait); /* some came out of sparse slices */
    model_fini_reopened(&model);
}

/* Jobs with notes of failed attempts: the core does not let them leave. */
static void those_that_must_stay_are_asked_for_once(void **state)
{
    (void)state;
    struct model model;
    begin(&model, 0);
    for (size_t i = 0; i < model.job_count; i++)
        model.jobs[i].noted = true;
    for (size_t i = 0; i < model.job_count; i++)
        give_back(&model, &model.jobs[i]);
    uint64_t there = jobs_of(&model, MOVE_READY);
    asked = 0;
    in_front = false;
    model.callbacks.relocate_changed = count_asked;
    assert_true(there > FAR_JOBS / 2);
    settle_for(&model, 2);
    assert_int_equal(asked, there);
    for (int i = 0; i < 3; i++)
        grow_log(&model); /* their MOVEs are written again */
    assert_int_equal(asked, there);
    assert_int_equal(jobs_of(&model, MOVE_READY), 0);
    assert_int_equal(model.store->slices->changed.moved, 0);
    model_fini_reopened(&model);
}

/* Each half of the jobs. */
static void change_all(struct model *model)
{
    for (size_t i = 0; i < model->job_count; i++)
        if (i % 2)
            bury(model, &model->jobs[i]);
        else
            give_back(model, &model->jobs[i]);
}

/* The others are not held up until the last of them has left. */
static void buried_and_ready_ones_take_their_turns(void **state)
{
    (void)state;
    struct model model;
    begin_staying(&model, 0, 0);
    change_all(&model);
    uint64_t before[] = {jobs_of(&model, MOVE_BURIED), jobs_of(&model, MOVE_READY)};
    assert_true(before[MOVE_BURIED] > FAR_JOBS / 4 && before[MOVE_READY] > FAR_JOBS / 4);
    for (int i = 0; jobs_of(&model, MOVE_BURIED) + jobs_of(&model, MOVE_READY) > FAR_JOBS / 2;
         i++) {
        assert_true(i < 1000);
        store_turn(model.store, model.now_us += 1000);
        model_disk_works(&model);
        store_poll(model.store);
    }
    assert_true(jobs_of(&model, MOVE_BURIED) < before[MOVE_BURIED] * 7 / 8);
    assert_true(jobs_of(&model, MOVE_READY) < before[MOVE_READY] * 7 / 8);
    settle_for(&model, 2);
    assert_int_equal(misplaced(&model, JOB_BURIED) + misplaced(&model, JOB_READY), 0);
    model_fini_reopened(&model);
}

static void all_of_a_slice_that_cannot_be_read_stay(void **state)
{
    (void)state;
    struct model model;
    char name[DISK_NAME_MAX];
    begin_staying(&model, 0, 0);
    change_all(&model);
    slice_name(slice_with(&model, MOVE_READY)->head.number, name);
    sim_disk_bad(model.disk, name, DISK_ALIGN, UINT64_MAX);
    settle_for(&model, 4);
    assert_true(misplaced(&model, JOB_BURIED) > 0 && misplaced(&model, JOB_READY) > 0);
    assert_int_equal(jobs_of(&model, MOVE_BURIED) + jobs_of(&model, MOVE_READY), 0);
    assert_int_equal(model.notices[STORE_UNREAD], 1);
    sim_disk_bad(model.disk, "", 0, 0);
    reopen(&model);
    settle_for(&model, 2);
    assert_int_equal(misplaced(&model, JOB_BURIED) + misplaced(&model, JOB_READY), 0);
    model_fini_reopened(&model);
}

/* ---- the end of a life ---- */

/* Most are given back, some are buried. */
static void change_most(struct model *model, struct model_job *job, size_t number)
{
    if (number % 5 == 0)
        bury(model, job);
    else if (number % 3)
        give_back(model, job);
}

static void set_few(struct model *model, uint64_t seed)
{
    model->options.ready_in_memory = seed % 3 * 10;
    model->options.buried_in_memory = seed % 2 * 10;
}

static void p1_p5_p9_cuts_while_ready_jobs_leave_their_slices_lose_none(void **state)
{
    (void)state;
    struct changed_lives lives = {.change = change_most, .set = set_few, .state = JOB_READY};
    cut_all_changed(&lives);
    assert_true(lives.left > 20 * lives.count);
}

static void p1_p7_a_failed_call_while_ready_jobs_leave_their_slices_loses_none(void **state)
{
    (void)state;
    struct changed_lives lives = {.change = change_most, .set = set_few, .state = JOB_READY};
    fail_all_changed(&lives);
}

/* ---- for want of memory ---- */

/* They were due soon when the cleaner came by, and stayed; nobody takes them. Pushes are refused
   for want of memory, so no new records have it come by again. */
static void p8_jobs_that_fell_due_in_the_log_leave_when_memory_is_short(void **state)
{
    enum { JOBS = 400 };
    (void)state;
    struct model model;
    struct store_stats stats;
    far_model(&model, 5);
    model.delay_us = 1;
    model.body_bytes = 500;
    assert_int_equal(model_open(&model), OK);
    for (unsigned i = 0; i < JOBS; i++) {
        assert_int_equal(model_push(&model), OK);
        if (i % 8 == 0)
            model_turn(&model);
    }
    settle_for(&model, 10);
    for (size_t i = 0; i < model.job_count; i += 2)
        model.jobs[i].ready = true; /* which no event says; the others stay */
    model.now_us += INT64_C(3600) * 1000000;
    settle_for(&model, 10);
    store_stats(model.store, &stats);
    assert_int_equal(stats.slice_jobs, 0);
    model.callbacks.memory_left = no_memory_left;
    settle_for(&model, 10);
    store_stats(model.store, &stats);
    print_message("%llu of %d jobs have left\n", (unsigned long long)stats.slice_jobs, JOBS);
    assert_true(stats.slice_jobs > JOBS / 4);
    uint64_t checkpoints = stats.checkpoints;
    settle_for(&model, 10); /* what cannot leave is not written again and again */
    store_stats(model.store, &stats);
    assert_int_equal(stats.checkpoints, checkpoints);
    model_fini(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(p8_so_many_jobs_that_were_given_back_stay_in_memory),
        cmocka_unit_test(no_more_of_them_is_written_than_has_to_be),
        cmocka_unit_test(what_is_not_changed_stays_in_its_slice),
        cmocka_unit_test(those_that_must_wait_are_asked_for_once_a_round),
        cmocka_unit_test(those_that_must_stay_are_asked_for_once),
        cmocka_unit_test(buried_and_ready_ones_take_their_turns),
        cmocka_unit_test(all_of_a_slice_that_cannot_be_read_stay),
        cmocka_unit_test(p1_p5_p9_cuts_while_ready_jobs_leave_their_slices_lose_none),
        cmocka_unit_test(p1_p7_a_failed_call_while_ready_jobs_leave_their_slices_loses_none),
        cmocka_unit_test(p8_jobs_that_fell_due_in_the_log_leave_when_memory_is_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
