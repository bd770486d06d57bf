/*
 * Lives of a store that end badly: the power goes at some point, or a call of the disk fails. What
 * crash_test.c, slice_test.c and fault_test.c share.
 */
#ifndef LATERD_TEST_STORE_LIVES_H
#define LATERD_TEST_STORE_LIVES_H

#include "store_model.h"
#include "store_work.h"
#include "test/unit/support/every.h"

struct plan {
    uint64_t seed; /* of the work */
    uint64_t cut_at;
    uint64_t power_seed; /* what survives */
    uint64_t nested;     /* a second cut so many points into the recovery; 0 = none */
    uint64_t second;     /* a second cut so many points into the life after it; the same */
    bool buffered;
    bool cold; /* nothing is in the page cache: the cleaner waits for the disk's threads */
};

/* Opens a new model, which works and is closed. False: all that came before the cut. */
static inline bool live_until_cut(struct model *model, const struct plan *plan, int turns)
{
    sim_disk_cold(model->disk, plan->cold);
    sim_disk_cut_at(model->disk, plan->cut_at);
    if (model_open(model) == OK) {
        model_work(model, turns);
        model_close(model);
    }
    return sim_disk_cut(model->disk);
}

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

/* It goes on with so many turns of work; and once more opened, it has what it should have. */
static inline void plan_go_on(struct model *model, const struct plan *plan, int turns)
{
    model_work(model, turns);
    model_close(model);
    plan_open(model, plan);
    model_check(model);
}

/*
 * Lives of so many seeds, each cut at every point, with so many outcomes of each cut. Returns how
 * many lives there were; prints it, too.
 */
static inline uint64_t cut_everywhere(plan_life *life, uint64_t seeds, uint64_t variants)
{
    uint64_t lives = 0;
    for (uint64_t seed = 1; seed <= seeds; seed++)
        for (uint64_t variant = 0; variant < variants; variant++)
            for (uint64_t cut_at = 0;
                 life(&(struct plan){.seed = seed,
                               .cut_at = cut_at,
                               .power_seed = cut_at * 31 + variant,
                               .cold = variants > 1 ? variant == 0 : cut_at % 2});
                 cut_at += sim_every())
                lives++;
    print_message("%llu lives\n", (unsigned long long)lives);
    return lives;
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

/* The same of the seeds below `seeds`, each killed after another number of points below `points`.
 */
static inline void kill_then_cut_each(void (*init)(struct model *model, uint64_t seed),
                                      uint64_t seeds, uint64_t points, int turns)
{
    for (uint64_t seed = 1; seed < seeds; seed++) {
        struct model model;
        init(&model, seed);
        kill_then_cut(&model, seed, seed * 17 % points, turns);
        model_fini(&model);
    }
}

/*
 * The process has ended after call number `fail_at` failed. What the cache shows may be a lie: the
 * machine may lose its power, or not. All that was acknowledged must be found. Returns the last
 * batch that was found: reading bodies takes turns, which may write more.
 */
static inline uint64_t open_after_fault(struct model *model, uint64_t seed, uint64_t fail_at)
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
    uint64_t found = store_durable(model->store);
    model_check(model);
    return found;
}

/* After a cut: the process was killed, or the power went. All that was acknowledged must be found.
 */
static inline void open_after_cut(struct model *model, uint64_t seed, bool kill)
{
    model_close(model);
    model->store = NULL;
    if (kill)
        sim_disk_kill(model->disk);
    else
        sim_disk_power(model->disk, seed);
    sim_disk_cut_at(model->disk, UINT64_MAX);
    enum err err = model_open(model);
    if (err)
        print_error("cut %llu: %s: %s\n", (unsigned long long)seed, model->error.file,
                    model->error.text);
    assert_int_equal(err, OK);
    model_check(model);
}

/* What a life does while its store is up; what it notes of that goes to `deeds`. */
typedef void live_fn(struct model *model, void *deeds);

/*
 * The life of a store that is not open yet. The first cut is at `cut_at`; the second one `second`
 * points into the life behind it. Every third is a kill -9, after which the power goes. False: no
 * first cut. Ends the model.
 */
static inline bool live_and_die_twice(struct model *model, uint64_t cut_at, uint64_t second,
                                      live_fn *live, void *deeds)
{
    assert_int_equal(model_open(model), OK);
    model_check(model);
    sim_disk_cut_at(model->disk, sim_disk_points(model->disk) + cut_at);
    live(model, deeds);
    bool cut = sim_disk_cut(model->disk);
    if (cut) {
        open_after_cut(model, cut_at, cut_at % 3 == 0);
        sim_disk_cut_at(model->disk, sim_disk_points(model->disk) + second);
        live(model, deeds);
        open_after_cut(model, cut_at + second, false);
        live(model, deeds);
        open_after_cut(model, cut_at, true);
    }
    model_fini(model);
    return cut;
}

/* The same with a call that fails. False: the life ended before it. */
static inline bool live_after_fault(struct model *model, uint64_t fail_at, int sys_errno,
                                    live_fn *live, void *deeds)
{
    assert_int_equal(model_open(model), OK);
    model_check(model);
    fail_at += sim_disk_points(model->disk);
    sim_disk_fail_at(model->disk, fail_at, sys_errno);
    live(model, deeds);
    if (!model->failed)
        model_settle(model);
    model_close(model);
    bool reached = sim_disk_points(model->disk) > fail_at;
    open_after_fault(model, fail_at, fail_at);
    live(model, deeds);
    model_fini_reopened(model);
    return reached;
}

#endif
