/*
 * Lives of a store that end badly: the power goes at some point, or a call of the disk fails. What
 * crash_test.c, slice_test.c and fault_test.c share.
 */
#ifndef LATERD_TEST_STORE_LIVES_H
#define LATERD_TEST_STORE_LIVES_H

#include "store_model.h"

struct plan {
    uint64_t seed; /* of the work */
    uint64_t cut_at;
    uint64_t power_seed; /* what survives */
    uint64_t nested;     /* a second cut so many points into the recovery; 0 = none */
    uint64_t second;     /* a second cut so many points into the life after it; the same */
    bool buffered;
    bool cold; /* nothing is in the page cache: the cleaner waits for the disk's threads */
};

/* Plays it. False: the life ended before the cut. */
typedef bool plan_life(const struct plan *plan);

static inline void plan_says(const struct plan *plan, const struct model *model, enum err err)
{
    if (err)
        print_error("seed %llu cut %llu nested %llu: %s: %s\n", (unsigned long long)plan->seed,
                    (unsigned long long)plan->cut_at, (unsigned long long)plan->nested,
                    model->error.file, model->error.text);
    assert_int_equal(err, OK);
}

static inline void plan_open(struct model *model, const struct plan *plan)
{
    plan_says(plan, model, model_open(model));
}

/* Cuts at each `step` of [from, below), and again so far into the recovery, by `nested_step`. */
static inline void cut_inside_recoveries(plan_life *life, uint64_t seed, uint64_t from,
                                         uint64_t below, uint64_t step, uint64_t nested_step)
{
    for (uint64_t cut_at = from; cut_at < below; cut_at += step)
        for (uint64_t nested = 1; nested < 60; nested += nested_step)
            (void)life(&(struct plan){
                .seed = seed, .cut_at = cut_at, .power_seed = cut_at + nested, .nested = nested});
}

/*
 * Four times: kill -9 after so many points of so many turns of work, and after the next opening the
 * power goes. The page cache outlives the first, not the second. The store is open afterwards.
 */
static inline void kill_then_cut(struct model *model, uint64_t power_seed, uint64_t points,
                                 int turns)
{
    assert_int_equal(model_open(model), OK);
    for (int round = 0; round < 4; round++) {
        sim_disk_cut_at(model->disk, sim_disk_points(model->disk) + points);
        model_work(model, turns);
        model_close(model);
        model->store = NULL;
        if (sim_disk_cut(model->disk))
            sim_disk_kill(model->disk);
        sim_disk_cut_at(model->disk, UINT64_MAX);
        assert_int_equal(model_open(model), OK);
        model_check(model);
        model_work(model, 5);
        sim_disk_cut_at(model->disk, sim_disk_points(model->disk));
        model_close(model);
        model->store = NULL;
        sim_disk_power(model->disk, power_seed + (uint64_t)round);
        assert_int_equal(model_open(model), OK);
        model_check(model);
    }
}

/*
 * The process has ended after call number `fail_at` failed. What the cache shows may be a lie: the
 * machine may lose its power, or not. All that was acknowledged must be found.
 */
static inline void open_after_fault(struct model *model, uint64_t seed, uint64_t fail_at)
{
    sim_disk_fail_at(model->disk, UINT64_MAX, 0);
    if (fail_at % 2)
        sim_disk_power(model->disk, fail_at);
    model->store = NULL;
    enum err err = model_open(model);
    if (err)
        print_error("seed %llu call %llu: %s\n", (unsigned long long)seed,
                    (unsigned long long)fail_at, model->error.text);
    assert_int_equal(err, OK);
    model_check(model);
}

#endif
