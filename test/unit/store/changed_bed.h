/* Far jobs that came back and were buried, or taken and given back: what the tests of their way out
 * of the slices share. */
#ifndef LATERD_TEST_STORE_CHANGED_BED_H
#define LATERD_TEST_STORE_CHANGED_BED_H

#include "slice_pace.h"

enum { FAR_JOBS = 400, OF_A_SEGMENT = 3 * MODEL_SEGMENT / 500 };

/* All jobs come to memory. */
static inline void all_come(struct model *model)
{
    model->now_us += INT64_C(2000) * MODEL_DELAY_US;
    settle_for(model, 6);
    assert_int_equal(far_of(model, JOB_DELAYED), 0);
}

static inline void bury(struct model *model, struct model_job *job)
{
    if (!job->live || job->buried || !model_bring(model, job))
        return;
    job->buried = true;
    job->priority++;
    model_emit_move(model, job);
    model_note(model, job);
}

/* Somebody took the job, and did not end it. */
static inline void give_back(struct model *model, struct model_job *job)
{
    if (!job->live || job->buried || !model_bring(model, job))
        return;
    job->ready = true;
    job->priority++;
    model_emit_move(model, job);
    model_note(model, job);
}

/* How many are in this state whose records lie in slices of other jobs, and may leave. */
static inline size_t misplaced(const struct model *model, enum job_state state)
{
    size_t count = 0;
    for (size_t i = 0; i < model->job_count; i++) {
        const struct model_job *job = &model->jobs[i];
        bool counts = job->live && model_state(job) == state && !job->far && !job->noted;
        count += counts && store_slice_state(model->store, job->stored.where) == JOB_DELAYED;
    }
    return count;
}

/* The cleaner comes by what is in the log. */
static inline void grow_log(struct model *model)
{
    for (unsigned i = 0; i < 300; i++) {
        assert_int_equal(model_push(model), OK);
        model_end(model, &model->jobs[model->job_count - 1]);
        if (i % 4 == 0)
            model_turn(model);
    }
    model_settle(model);
}

/* A slice that has such jobs. */
static inline struct slice *slice_with(const struct model *model, enum slice_move_kind kind)
{
    struct list *all = &model->store->slices->all;
    for (struct list *link = all->next; link != all; link = link->next)
        if (slice_of(link)->leavers[kind].count > 0)
            return slice_of(link);
    fail();
    return NULL;
}

static inline const struct block_read *of_changed(const struct slices *slices)
{
    return &slices->changed.read;
}

#endif
