/* Lives in which all far jobs come back, and some are changed and leave their slices, which takes
 * some turns: the power goes twice, or a call fails. */
#ifndef LATERD_TEST_STORE_CHANGED_LIVES_H
#define LATERD_TEST_STORE_CHANGED_LIVES_H

#include <errno.h>

#include "changed_bed.h"
#include "store_files.h"
#include "store_lives.h"
#include "test/unit/support/every.h"

struct changed_lives {
    void (*change)(struct model *model, struct model_job *job, size_t number);
    void (*set)(struct model *model, uint64_t seed); /* options of a life */
    enum job_state state;                            /* of those that leave */
    struct model whole;
    uint64_t count, moved, left, failed;
};

/* All come back; some are changed, and some of those change again or end. */
static inline void change_and_live(struct model *model, void *to)
{
    struct changed_lives *lives = to;
    model->now_us += INT64_C(2000) * MODEL_DELAY_US;
    for (int i = 0; i < 60 && !model->failed; i++)
        model_turn(model);
    for (size_t i = 0; i < model->job_count && !model->failed; i++) {
        lives->change(model, &model->jobs[i], i);
        if (i % 7 == 0 && model->jobs[i / 2].live)
            model_move(model, &model->jobs[i / 2]);
        if (i % 11 == 0 && model->jobs[i / 3].live && !model->failed)
            model_end(model, &model->jobs[i / 3]);
        if (i % 4 == 0)
            model_turn(model);
    }
    if (!model->failed)
        model_work(model, 60);
    lives->moved += model->store->slices->changed.moved;
    lives->left += far_of(model, lives->state);
    lives->failed += model->failed;
}

static inline void copy_changed(struct changed_lives *lives, struct model *to, uint64_t seed)
{
    far_model(to, seed);
    copy_life(to, &lives->whole);
    lives->set(to, seed);
    sim_disk_cold(to->disk, seed % 2);
}

static inline bool cut_changed(struct changed_lives *lives, uint64_t cut_at)
{
    struct model model;
    copy_changed(lives, &model, cut_at);
    return live_and_die_twice(&model, cut_at, cut_at * 7 % 239, change_and_live, lives);
}

static inline void cut_all_changed(struct changed_lives *lives)
{
    begin_far(&lives->whole, FAR_JOBS / 2);
    model_close(&lives->whole);
    for (uint64_t cut_at = 0; cut_changed(lives, cut_at); cut_at += 2 * sim_every())
        lives->count++;
    print_message("%llu lives, moved %llu, far %llu\n", (unsigned long long)lives->count,
                  (unsigned long long)lives->moved, (unsigned long long)lives->left);
    assert_true(lives->count > 100 / sim_every());
    assert_true(lives->moved > 50 * lives->count);
    model_fini(&lives->whole);
}

static inline bool fail_changed(struct changed_lives *lives, uint64_t fail_at, int sys_errno)
{
    struct model model;
    copy_changed(lives, &model, fail_at);
    return live_after_fault(&model, fail_at, sys_errno, change_and_live, lives);
}

static inline void fail_all_changed(struct changed_lives *lives)
{
    static const int errors[] = {EIO, ENOSPC, EMFILE};
    begin_far(&lives->whole, FAR_JOBS / 2);
    model_close(&lives->whole);
    for (unsigned i = 0; i < 3; i++)
        for (uint64_t call = i; fail_changed(lives, call, errors[i]); call += 5 * sim_every())
            lives->count++;
    print_message("%llu lives, failed %llu, moved %llu\n", (unsigned long long)lives->count,
                  (unsigned long long)lives->failed, (unsigned long long)lives->moved);
    assert_true(lives->count > 100 / sim_every() && lives->failed > 20 / sim_every());
    assert_true(lives->moved > 50 * lives->count);
    model_fini(&lives->whole);
}

#endif
