/*
 * A store whose last segment lies in a file that was another segment's before, for the tests of
 * such files.
 */
#ifndef LATERD_TEST_STORE_REUSE_H
#define LATERD_TEST_STORE_REUSE_H

#include "store/internal.h"
#include "store_model.h"
#include "store_work.h"

enum { REUSE_JOBS = 40, REUSE_ROUNDS = 400 };

/* All but the newest jobs end. */
static inline void reuse_end_old_jobs(struct model *model)
{
    size_t live = 0;
    for (size_t i = model->job_count; i-- > 0;) {
        live += model->jobs[i].live;
        if (model->jobs[i].live && live > REUSE_JOBS)
            model_end(model, &model->jobs[i]);
    }
}

/* Jobs come and end until the log's last segment lies in a file that was used before. */
static inline void reuse_fill(struct model *model)
{
    for (int round = 0; round < REUSE_ROUNDS; round++) {
        const struct segment *tail = segments_tail(model->store->segments);
        if (tail && tail->key && tail->end > 2 * BLOCK && tail->end < MODEL_SEGMENT - BLOCK)
            return;
        for (unsigned i = 0; i < REUSE_JOBS / 4; i++)
            assert_int_equal(model_push(model), OK);
        reuse_end_old_jobs(model);
        model_settle(model);
    }
    fail_msg("%s", "no segment was used again");
}

static inline void reuse_open_bed(struct model *model, uint64_t seed)
{
    model_init(model, seed);
    assert_int_equal(model_open(model), OK);
    reuse_fill(model);
}

#endif
