/* What the tests of slices share: models whose far jobs leave the log for slices; those of even
 * seeds bury jobs, those of seeds that are multiples of three have ready ones. */
#ifndef LATERD_TEST_STORE_SLICE_BED_H
#define LATERD_TEST_STORE_SLICE_BED_H

#include "store/far.h"
#include "store/stats.h"
#include "store_model.h"
#include "store_work.h"

enum { TURNS = 150 };

static inline void far_model(struct model *model, uint64_t seed)
{
    model_init(model, seed);
    model_use_slices(model);
    model->buries = seed % 2 ? 0 : 4;
    model->readies = seed % 3 ? 0 : 4;
}

static inline uint64_t no_memory_left(struct store_callbacks *callbacks)
{
    (void)callbacks;
    return 0;
}

/* A segment's far jobs leave the log in several runs. */
static inline void far_model_in_runs(struct model *model, uint64_t seed)
{
    far_model(model, seed);
    model->options.spill_bytes = 1;
    model->options.slices_few = 1;
    model->callbacks.memory_left = no_memory_left;
}

/* Jobs that stay far for the whole test, in slices. */
static inline void begin_far(struct model *model, unsigned jobs)
{
    struct store_stats stats;
    far_model(model, 5);
    model->delay_us = INT64_C(1000) * MODEL_DELAY_US;
    model->body_bytes = 500;
    assert_int_equal(model_open(model), OK);
    for (unsigned i = 0; i < jobs; i++) {
        assert_int_equal(model_push(model), OK);
        if (i % 8 == 0)
            model_turn(model);
    }
    model_settle(model);
    store_stats(model->store, &stats);
    assert_true(stats.slice_jobs > jobs / 2);
    assert_true(store_far_due_until(model->store, model->now_us) <= stats.slice_jobs / 8);
    assert_true(store_far_due_until(model->store, INT64_MAX) > jobs / 4);
    assert_true(store_far_due_until(model->store, INT64_MAX) <= stats.slice_jobs);
}

/* How many are far, in this state. */
static inline unsigned far_of(const struct model *model, enum job_state state)
{
    unsigned count = 0;
    for (size_t i = 0; i < model->job_count; i++) {
        const struct model_job *job = &model->jobs[i];
        count += job->live && job->far && model_state(job) == state;
    }
    return count;
}

/* Of the first jobs a fifth ends, and a fifth changes. */
static inline void change_some(struct model *model, size_t jobs)
{
    for (size_t i = 0; i < jobs; i += 5)
        model_end(model, &model->jobs[i]);
    for (size_t i = 1; i < jobs; i += 5)
        model_move(model, &model->jobs[i]);
}

static inline void reopen(struct model *model)
{
    model_close(model);
    assert_int_equal(model_open(model), OK);
}

/* Closes it, opens it again, and looks whether all is there. */
static inline void end_well(struct model *model)
{
    reopen(model);
    model_check(model);
    model_fini(model);
}

static inline void settle_for(struct model *model, int rounds)
{
    for (int i = 0; i < rounds; i++)
        model_settle(model);
}

#endif
