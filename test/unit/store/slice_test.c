/*
 * Far jobs leave the log for slices and come back, and nothing is lost, revived or invented on the
 * way, wherever it is cut off. Tiny segments: each life writes, loads, empties and removes slices.
 */
#include "slice_bed.h"
#include "store/log/cleaner_parts.h"
#include "store_lives.h"
#include "test/unit/support/every.h"

#include <errno.h>

static void a_life_writes_loads_and_removes_slices(void **state)
{
    (void)state;
    uint64_t spilled = 0, loaded = 0, peak = 0, checkpoints = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct model model;
        struct store_stats stats;
        far_model(&model, seed);
        sim_disk_cold(model.disk, seed % 2);
        assert_int_equal(model_open(&model), OK);
        for (int round = 0; round < 4; round++) {
            model_work(&model, TURNS);
            store_stats(model.store, &stats);
            peak = stats.slices > peak ? stats.slices : peak;
        }
        spilled += stats.spilled_jobs;
        loaded += stats.loaded_jobs;
        checkpoints += stats.checkpoints;
        model_settle(&model);
        model.now_us += INT64_C(100) * MODEL_DELAY_US; /* all of them are due */
        model_settle(&model);
        for (size_t i = 0; i < model.job_count; i++) {
            if (model.jobs[i].live && model.jobs[i].far)
                assert_true(model_state(&model.jobs[i]) != JOB_DELAYED); /* it waits for somebody */
            if (model.jobs[i].live)
                model_end(&model, &model.jobs[i]);
        }
        model_settle(&model);
        model.now_us += 4 * MODEL_DELAY_US;
        model_settle(&model);
        store_stats(model.store, &stats);
        assert_true(stats.slices == 0 && stats.slice_bytes == 0 && stats.live_jobs == 0);
        model_fini_reopened(&model);
    }
    print_message("spilled %llu loaded %llu peak %llu checkpoints %llu\n",
                  (unsigned long long)spilled, (unsigned long long)loaded, (unsigned long long)peak,
                  (unsigned long long)checkpoints);
    assert_true(spilled > 200 && loaded > 50 && peak > 5);
}

/* Many jobs of about half a KiB, of which some have become far. */
static void fill(struct model *model, unsigned buries, unsigned readies)
{
    far_model(model, 5);
    model->buries = buries;
    model->readies = readies;
    model->body_bytes = 500;
    model->delay_us = 4 * MODEL_DELAY_US;
    assert_int_equal(model_open(model), OK);
    for (unsigned i = 0; i < 1200; i++) {
        assert_int_equal(model_push(model), OK);
        if (i % 8 == 0)
            model_turn(model);
    }
    model_settle(model);
}

/* Those in this state are in slices of their own, however long they have been due, and not counted
   among those that fall due, until most of what the slices have has died: these are emptied. */
static void stay_until_they_die(struct model *model, enum job_state state)
{
    struct store_stats stats;
    unsigned count = far_of(model, state);
    assert_true(count > 100);
    reopen(model);
    assert_int_equal(far_of(model, state), count);
    model_check(model);
    store_stats(model->store, &stats);
    assert_true(store_far_due_until(model->store, INT64_MAX) + count <= stats.slice_jobs);
    model->now_us += INT64_C(100) * MODEL_DELAY_US;
    for (int i = 0; i < 3; i++) /* a survey of those that are due is ten seconds old, at most */
        model_settle(model);
    assert_true(far_of(model, state) >= count && far_of(model, JOB_DELAYED) == 0);
    assert_int_equal(store_far_due_until(model->store, INT64_MAX), 0);
    for (size_t i = 0; i < model->job_count; i++)
        if (model->jobs[i].live && model->jobs[i].far && i % 10)
            model_end(model, &model->jobs[i]);
    for (int i = 0; i < 10; i++) {
        model_settle(model);
        model->now_us += MODEL_DELAY_US;
    }
    store_stats(model->store, &stats);
    assert_true(stats.emptied_slices > 0);
    reopen(model);
    model_check(model);
}

static void buried_jobs_stay_in_slices_of_their_own(void **state)
{
    (void)state;
    struct model model;
    fill(&model, 2, 0);
    assert_true(far_of(&model, JOB_DELAYED) > 10);
    stay_until_they_die(&model, JOB_BURIED);
    model_fini(&model);
}

/* Their order is known at an opening, and no file is read but for its index. */
static void ready_jobs_stay_in_slices_of_their_own(void **state)
{
    (void)state;
    struct model model;
    fill(&model, 0, 2);
    assert_true(manifest_has(model.store->manifest, FEATURE_READY));
    assert_false(manifest_has(model.store->manifest, FEATURE_BURIED));
    stay_until_they_die(&model, JOB_READY);
    model_fini(&model);
}

/* So such a store is one that a laterd that knows slices of delayed jobs alone opens. */
static void without_buried_jobs_the_store_does_not_say_that_it_has_any(void **state)
{
    (void)state;
    struct model model;
    begin_far(&model, 200);
    assert_true(manifest_has(model.store->manifest, FEATURE_SLICES));
    assert_false(manifest_has(model.store->manifest, FEATURE_BURIED));
    assert_false(manifest_has(model.store->manifest, FEATURE_READY));
    model_fini(&model);
    far_model(&model, 2);
    assert_int_equal(model_open(&model), OK);
    model_work(&model, 4 * TURNS);
    assert_true(far_of(&model, JOB_BURIED) > 0);
    assert_true(manifest_has(model.store->manifest, FEATURE_BURIED));
    model_fini(&model);
}

static void a_few_old_jobs_do_not_pin_dead_slices(void **state)
{
    (void)state;
    struct model model;
    struct store_stats stats;
    begin_far(&model, 1000);
    store_stats(model.store, &stats);
    uint64_t before = stats.slice_bytes;
    for (size_t i = 0; i < model.job_count; i++)
        if (i % 10)
            model_end(&model, &model.jobs[i]);
    for (int i = 0; i < 10; i++) {
        model_settle(&model);
        model.now_us += MODEL_DELAY_US;
    }
    store_stats(model.store, &stats);
    assert_true(stats.emptied_slices > 3 && stats.live_jobs == 100);
    print_message("slices had %llu bytes, have %llu; disk %llu, emptied %llu\n",
                  (unsigned long long)before, (unsigned long long)stats.slice_bytes,
                  (unsigned long long)stats.disk_bytes, (unsigned long long)stats.emptied_slices);
    assert_true(stats.slice_bytes < before / 2);
    end_well(&model);
}

/* Each round of the cleaner tells of the slices again, and of what has changed in them. */
static void slices_outlive_the_log_that_told_of_them(void **state)
{
    (void)state;
    struct model model;
    struct store_stats stats;
    begin_far(&model, 200);
    change_some(&model, 200);
    model.delay_us = 1; /* what comes from now on is never far */
    for (int round = 0; round < 30; round++) {
        for (int i = 0; i < 40; i++) {
            assert_int_equal(model_push(&model), OK);
            model_turn(&model);
            model_end(&model, &model.jobs[model.job_count - 1]);
        }
        model_turn(&model);
    }
    store_stats(model.store, &stats);
    assert_true(stats.segment_first > 20 && stats.slices > 0);
    end_well(&model);
}

/* An engine that knows no far jobs, or a laterd without slices, must not open such a store. */
static void a_store_with_slices_says_so(void **state)
{
    (void)state;
    struct model model;
    begin_far(&model, 200);
    model_close(&model);
    model.callbacks.replay_far = NULL;
    assert_int_equal(model_open(&model), ERR_UNSUPPORTED);
    assert_non_null(strstr(model.error.file, "slice-"));
    model.callbacks.replay_far = model_replay_far;
    model.callbacks.spill = NULL; /* none goes there any more */
    model.options.horizon_us = 0;
    assert_int_equal(model_open(&model), OK);
    model_check(&model);
    model.now_us += INT64_C(2000) * MODEL_DELAY_US;
    model_settle(&model);
    for (size_t i = 0; i < model.job_count; i++)
        assert_false(model.jobs[i].far);
    model_fini(&model);
}

static void a_store_without_a_horizon_writes_no_slice(void **state)
{
    (void)state;
    struct model model;
    struct store_stats stats;
    far_model(&model, 3);
    model.options.horizon_us = 0;
    assert_int_equal(model_open(&model), OK);
    model_work(&model, TURNS);
    store_stats(model.store, &stats);
    assert_true(stats.checkpoints > 3 && stats.slices == 0 && stats.spilled_jobs == 0);
    model_fini(&model);
}

static void p1_p5_a_kill_and_then_a_cut_lose_no_far_job(void **state)
{
    (void)state;
    kill_then_cut_each(far_model, 40, 397, TURNS);
    kill_then_cut_each(far_model_in_runs, 41, 397, TURNS);
}

/* The power comes back; the recovery may be cut, too. */
static void open_through_cuts(struct model *model, const struct plan *plan)
{
    model->store = NULL;
    sim_disk_power(model->disk, plan->power_seed);
    sim_disk_cut_at(model->disk, UINT64_MAX);
    if (plan->nested) {
        sim_disk_cut_at(model->disk, sim_disk_points(model->disk) + plan->nested - 1);
        if (model_open(model) == OK)
            model_close(model);
        if (sim_disk_cut(model->disk))
            sim_disk_power(model->disk, plan->power_seed + 99);
        model->store = NULL;
        sim_disk_cut_at(model->disk, UINT64_MAX);
    }
    plan_open(model, plan);
    model_check(model);
}

/* False: the life ended before the cut. */
static bool live_in(void (*init)(struct model *model, uint64_t seed), const struct plan *plan)
{
    struct model model;
    init(&model, plan->seed);
    bool cut = live_until_cut(&model, plan, TURNS);
    if (cut) {
        open_through_cuts(&model, plan);
        if (plan->second) { /* in the middle of the next checkpoint, perhaps */
            sim_disk_cut_at(model.disk, sim_disk_points(model.disk) + plan->second);
            model_work(&model, TURNS);
            model_close(&model);
            open_through_cuts(&model, plan);
        }
        plan_go_on(&model, plan, 60);
    }
    model_fini(&model);
    return cut;
}

static bool live_and_die(const struct plan *plan)
{
    return live_in(far_model, plan);
}

/* The seed of a life in which jobs of all kinds leave segments in several runs. */
enum { RUNS_SEED = 6 };

static void a_life_in_short_runs_has_several_of_a_segment(void **state)
{
    (void)state;
    struct model model;
    unsigned turns = 0;
    far_model_in_runs(&model, RUNS_SEED);
    assert_int_equal(model_open(&model), OK);
    for (int turn = 0; turn < TURNS; turn++) {
        const struct cleaner *cleaner = model.store->cleaner;
        model_work(&model, 1);
        turns += cleaner->step == CLEAN_SPILL && (cleaner->walks_on || cleaner->left);
    }
    print_message("%u turns of runs that are not their segment's only one\n", turns);
    assert_true(turns > 10);
    model_fini(&model);
}

static void p1_p5_p9_a_cut_of_a_life_in_short_runs_loses_no_far_job(void **state)
{
    (void)state;
    unsigned lives = 0;
    struct plan plan = {.seed = RUNS_SEED};
    while (live_in(far_model_in_runs, &plan)) {
        plan.cut_at += 2 * sim_every();
        plan.power_seed = plan.cut_at * 31;
        plan.cold = plan.cut_at % 4;
        lives++;
    }
    print_message("%u lives\n", lives);
    assert_true(lives > 150 / sim_every());
}

static void p1_p5_p9_a_cut_at_every_point_loses_and_revives_no_far_job(void **state)
{
    (void)state;
    assert_true(cut_everywhere(live_and_die, 2, 1) > 800 / sim_every());
}

static void p1_p5_p9_a_second_cut_inside_recovery_loses_no_far_job(void **state)
{
    (void)state;
    cut_inside_recoveries(live_and_die, 1, 101, 440, 17, 3 * sim_every());
}

static void p1_p5_p9_two_cuts_in_a_row_lose_no_far_job(void **state)
{
    (void)state;
    for (uint64_t cut_at = 103; cut_at < 440; cut_at += 19)
        for (uint64_t second = 1; second < 240; second += 9 * sim_every())
            (void)live_and_die(&(struct plan){
                .seed = 2, .cut_at = cut_at, .power_seed = cut_at + second, .second = second});
}

/* ---- numbers of files ---- */

/* As while a listing is under way. */
static bool none_departs(struct store_callbacks *callbacks, uint64_t seq, struct stored record)
{
    (void)callbacks;
    (void)seq;
    (void)record;
    return false;
}

/* Some far jobs among many that come and go: slices are written, and go at once. */
static void come_and_go(struct model *model)
{
    for (int i = 0; i < 400 && !model->failed; i++) {
        model->delay_us = i % 60 ? 1 : INT64_C(1000) * MODEL_DELAY_US;
        (void)model_push(model);
        model_turn(model);
        if (!model->failed && i % 60 && model->job_count)
            model_end(model, &model->jobs[model->job_count - 1]);
    }
    model->delay_us = MODEL_DELAY_US;
}

/* False: the life ended before the kill. */
static bool live_and_be_killed(uint64_t seed, uint64_t cut_at)
{
    struct plan plan = {.seed = seed, .cut_at = cut_at};
    struct model model;
    far_model(&model, seed);
    model.callbacks.depart = none_departs;
    model.body_bytes = 400;
    sim_disk_cut_at(model.disk, cut_at);
    if (model_open(&model) == OK) {
        come_and_go(&model);
        model_close(&model);
    }
    bool cut = sim_disk_cut(model.disk);
    model.store = NULL;
    if (cut) {
        sim_disk_kill(model.disk);
        sim_disk_cut_at(model.disk, UINT64_MAX);
        plan_open(&model, &plan);
        model_check(&model);
        for (int i = 0; i < 12; i++)
            plan_go_on(&model, &plan, 5);
    }
    model_fini(&model);
    return cut;
}

/* What the log still says of a slice that has gone must not be taken for what has its number now.
 */
static void p1_no_number_is_given_again_after_a_kill(void **state)
{
    (void)state;
    uint64_t lives = 0;
    for (uint64_t seed = 1; seed <= 2; seed++)
        for (uint64_t cut_at = 20; live_and_be_killed(seed, cut_at); cut_at += 2 * sim_every())
            lives++;
    print_message("%llu lives\n", (unsigned long long)lives);
    assert_true(lives > 800 / sim_every());
}

/* The end of a job names a place in a file of that number, which has gone. */
static enum err open_with_number(uint32_t number, struct store_stats *out_stats,
                                 struct store_error *out_error)
{
    struct model model;
    far_model(&model, 1);
    assert_int_equal(model_open(&model), OK);
    assert_int_equal(model_push(&model), OK);
    assert_int_equal(model_push(&model), OK);
    model_turn(&model);
    model_end(&model, &model.jobs[0]);
    model.jobs[0].stored.where = (uint64_t)number << 32 | 512;
    model_end(&model, &model.jobs[0]);
    model_turn(&model);
    model_close(&model);
    enum err err = model_open(&model);
    *out_error = model.error;
    if (!err) {
        model_check(&model);
        model_work(&model, 3 * TURNS);
        store_stats(model.store, out_stats);
    }
    model_fini(&model);
    return err;
}

static void a_number_that_cannot_have_been_given_is_damage(void **state)
{
    static const uint32_t numbers[] = {UINT32_MAX, UINT32_MAX - 1, INT32_MAX, 20 * 1000 * 1000};
    struct store_stats stats;
    struct store_error error;
    (void)state;
    assert_int_equal(open_with_number(1000, &stats, &error), OK);
    assert_true(stats.segment_tail > 1000);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
        assert_int_equal(open_with_number(numbers[i], &stats, &error), ERR_CORRUPT);
        assert_memory_equal(error.file, "wal-", 4);
        assert_non_null(strstr(error.text, "is not valid"));
    }
}

/* ---- calls that fail ---- */

static void count_slice(void *ctx, const char *name)
{
    *(uint64_t *)ctx += strncmp(name, "slice-", 6) == 0;
}

/* No file stays that nobody knows of, and that no limit counts. */
static void assert_no_stray_slice(struct model *model)
{
    struct disk *disk = sim_disk_port(model->disk);
    struct store_stats stats;
    uint64_t files = 0;
    model_settle(model);
    store_stats(model->store, &stats);
    if (disk->verbs->list(disk, count_slice, &files) == OK) /* else that is the call that fails */
        assert_int_equal(files, stats.slices);
}

static void live_with_fault(uint64_t fail_at, int sys_errno, bool *out_ended)
{
    struct model model;
    far_model(&model, 1);
    sim_disk_fail_at(model.disk, fail_at, sys_errno);
    if (model_open(&model) == OK) {
        model_work(&model, TURNS);
        if (!model.failed)
            model_settle(&model);
        assert_int_equal(store_failed(model.store), model.failed);
        if (!model.failed)
            assert_no_stray_slice(&model);
        model_close(&model);
    }
    *out_ended = sim_disk_points(model.disk) <= fail_at;
    (void)open_after_fault(&model, 1, fail_at);
    model_work(&model, 40);
    model_fini(&model);
}

static void p1_p7_p8_a_failed_call_loses_no_far_job(void **state)
{
    (void)state;
    static const int errors[] = {EIO, ENOSPC, EMFILE};
    for (unsigned i = 0; i < 3; i++) {
        bool ended = false;
        for (uint64_t call = i; !ended; call += 3 * sim_every())
            live_with_fault(call, errors[i], &ended);
    }
}

/* A disk that fills up: nothing is lost, jobs end, and there is room again. */
static void p8_a_full_disk_keeps_far_jobs(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        struct model model;
        far_model(&model, seed);
        if (seed % 2)
            model.options.max_bytes = 10 * MODEL_SEGMENT;
        else
            sim_disk_capacity(model.disk, 12 * MODEL_SEGMENT);
        assert_int_equal(model_open(&model), OK);
        model_work(&model, 4 * TURNS);
        assert_false(model.failed);
        model_settle(&model);
        if (seed % 2) {
            struct store_stats stats;
            store_stats(model.store, &stats);
            assert_true(stats.disk_bytes <= model.options.max_bytes);
        }
        model_close(&model);
        assert_int_equal(model_open(&model), OK);
        model_check(&model);
        for (size_t i = 0; i < model.job_count; i++)
            if (model.jobs[i].live)
                model_end(&model, &model.jobs[i]);
        model_settle(&model);
        assert_false(store_full(model.store));
        model_fini(&model);
    }
}

/* So many bytes that opening them is told of more than once. */
static void push_large_and_close(struct model *model)
{
    model->body_bytes = 20000;
    for (unsigned i = 0; i < 200; i++) {
        assert_int_equal(model_push(model), OK);
        if (i % 8 == 0)
            model_turn(model);
    }
    model_settle(model);
    model_close(model);
}

/* For each MiB of the log, then of the slices' indexes; never less than before (store_model.h). */
static void an_opening_tells_how_far_it_is(void **state)
{
    (void)state;
    struct model model;
    begin_far(&model, 400);
    push_large_and_close(&model);
    assert_int_equal(model_open(&model), OK);
    assert_true(model.openings > 0);
    assert_true(model.store->opening.indexes);
    assert_int_equal(model.store->opening.done_bytes, model.store->opening.all_bytes);
    model_fini(&model);
}

/* Who leads no longer ends the opening at once, wherever it is, and leaves a whole store behind. */
static void an_opening_can_be_ended_and_done_again(void **state)
{
    (void)state;
    struct model model;
    far_model(&model, 5);
    model.delay_us = INT64_C(1000) * MODEL_DELAY_US;
    assert_int_equal(model_open(&model), OK);
    push_large_and_close(&model);
    unsigned ended = 0;
    for (model.opening_ends_at = 1; model_open(&model) == ERR_NOT_LEADER;
         model.opening_ends_at++, ended++)
        assert_int_equal(model.openings, model.opening_ends_at);
    assert_non_null(model.store);
    assert_true(ended > 2 && ended == model.openings);
    model_check(&model);
    model_fini(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_life_writes_loads_and_removes_slices),
        cmocka_unit_test(buried_jobs_stay_in_slices_of_their_own),
        cmocka_unit_test(ready_jobs_stay_in_slices_of_their_own),
        cmocka_unit_test(without_buried_jobs_the_store_does_not_say_that_it_has_any),
        cmocka_unit_test(a_few_old_jobs_do_not_pin_dead_slices),
        cmocka_unit_test(slices_outlive_the_log_that_told_of_them),
        cmocka_unit_test(an_opening_tells_how_far_it_is),
        cmocka_unit_test(an_opening_can_be_ended_and_done_again),
        cmocka_unit_test(a_store_with_slices_says_so),
        cmocka_unit_test(a_store_without_a_horizon_writes_no_slice),
        cmocka_unit_test(p1_p5_a_kill_and_then_a_cut_lose_no_far_job),
        cmocka_unit_test(a_life_in_short_runs_has_several_of_a_segment),
        cmocka_unit_test(p1_p5_p9_a_cut_of_a_life_in_short_runs_loses_no_far_job),
        cmocka_unit_test(p1_p5_p9_a_cut_at_every_point_loses_and_revives_no_far_job),
        cmocka_unit_test(p1_p5_p9_a_second_cut_inside_recovery_loses_no_far_job),
        cmocka_unit_test(p1_p5_p9_two_cuts_in_a_row_lose_no_far_job),
        cmocka_unit_test(p1_no_number_is_given_again_after_a_kill),
        cmocka_unit_test(a_number_that_cannot_have_been_given_is_damage),
        cmocka_unit_test(p1_p7_p8_a_failed_call_loses_no_far_job),
        cmocka_unit_test(p8_a_full_disk_keeps_far_jobs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
