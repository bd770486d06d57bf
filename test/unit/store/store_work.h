/* What tests of the store do with a model of it (store_model.h): jobs that come, change and end at
 * random, turn after turn. */
#ifndef LATERD_TEST_STORE_WORK_H
#define LATERD_TEST_STORE_WORK_H

#include "sim/valid.h"
#include "store_check.h"
#include "store_model.h"

static inline void model_note(struct model *model, const struct model_job *job)
{
    model->journal = grow_by_one(model->journal, model->entry_count, sizeof(*model->journal));
    model->journal[model->entry_count++] =
        (struct model_entry){.batch = store_batch(model->store), .job = *job};
}

/* Pushes a job, in place of another one or of none. */
static inline enum err model_push_over(struct model *model, uint64_t over_seq)
{
    static char room[MODEL_ROOM];
    struct bytes body = model_body(model, model->seq_next, 1, room);
    enum err err = store_admit(model->store, body.len + 4);
    if (!err && over_seq && !model_bring(model, model_find(model, over_seq)))
        err = ERR_IO;
    if (err)
        return err;
    struct model_job *job = model_add(model, model->seq_next++);
    struct model_job *over = over_seq ? model_find(model, over_seq) : NULL;
    if (model->at_us)
        job->due_us = model->at_us;
    else if (model->delay_us)
        job->due_us = model->now_us + (int64_t)model_random(model, (uint64_t)model->delay_us);
    job->buried = model->buries && model_random(model, model->buries) == 0;
    job->ready = !job->buried && model->readies && model_random(model, model->readies) == 0;
    job->priority = job->ready ? (uint32_t)model_random(model, 3) : job->priority;
    model->seq_highest = job->seq;
    store_seq_note(model->store, model->seq_next);
    job->live = true;
    job->version = 1;
    job->id = over ? over->id : job->seq;
    if (over) {
        over->live = false;
        job->stored = over->stored;
    }
    job->stored = model_emit(model, job, BYTES("text"), body);
    model_note(model, job);
    if (over)
        model_note(model, over); /* in the same batch: never both, never none */
    return OK;
}

static inline enum err model_push(struct model *model)
{
    return model_push_over(model, 0);
}

static inline struct model_job *model_pick(struct model *model)
{
    for (int tries = 0; tries < 20 && model->job_count; tries++) {
        struct model_job *job = &model->jobs[model_random(model, model->job_count)];
        if (job->live)
            return job;
    }
    return NULL;
}

static inline void model_change(struct model *model, struct model_job *job)
{
    static char room[MODEL_ROOM];
    struct bytes body = model_body(model, job->seq, job->version + 1, room);
    if (store_admit(model->store, body.len + 4) || !model_bring(model, job))
        return;
    job->version++;
    job->stored = model_emit(model, job, BYTES("text"), body);
    model_note(model, job);
}

static inline void model_move(struct model *model, struct model_job *job)
{
    if (!model_bring(model, job))
        return;
    job->priority++;
    job->buried = job->buried && model_random(model, 2); /* or it is kicked */
    model_emit_move(model, job);
    model_note(model, job);
}

static inline void model_end(struct model *model, struct model_job *job)
{
    if (!model_bring(model, job))
        return;
    struct event event = {
        .kind = EVENT_GONE,
        .promised = true,
        .job = {.seq = job->seq},
        .record = job->stored,
    };
    (void)model_append(model, &event);
    job->live = false;
    model_note(model, job);
}

/* One turn; the disk does what chance says. */
static inline void model_turn(struct model *model)
{
    model->now_us += (int64_t)model_random(model, 60000);
    store_turn(model->store, model->now_us);
    if (model_random(model, 4) != 0)
        (void)sim_disk_step(model->disk, LANE_COMMIT);
    if (model_random(model, 2) != 0)
        (void)sim_disk_step(model->disk, LANE_BACKGROUND);
    (void)sim_disk_step(model->disk, LANE_READ);
    store_poll(model->store);
    if (valid_now())
        store_valid(model->store);
}

/* The disk does all that waits. */
static inline void model_disk_works(struct model *model)
{
    for (int lane = 0; lane < LANE_COUNT; lane++)
        while (sim_disk_step(model->disk, (enum disk_lane)lane))
            continue;
}

/* Turns until the disk has nothing to do any more. */
static inline void model_settle(struct model *model)
{
    for (int i = 0; i < 200; i++) {
        store_turn(model->store, model->now_us);
        model->now_us += 30000;
        model_disk_works(model);
        store_poll(model->store);
        if (i == 199 || valid_now())
            store_valid(model->store);
    }
}

static inline void model_act(struct model *model)
{
    uint64_t dice = model_random(model, 11);
    struct model_job *job = model_pick(model);
    if (dice < 4 || !job)
        (void)model_push(model);
    else if (dice < 5)
        model_change(model, job);
    else if (dice < 7)
        model_move(model, job);
    else if (dice < 10)
        model_end(model, job);
    else
        (void)model_push_over(model, job->seq);
}

/* `turns` turns of mixed work, or until the store fails. In bursts: 25 turns of large commits, then
 * 50 of small ones. */
static inline void model_work(struct model *model, int turns)
{
    for (int turn = 0; turn < turns && !model->failed; turn++) {
        bool burst = model->bursts && turn % 75 < 25;
        for (uint64_t i = model_random(model, burst ? 24 : 4); i > 0 && !model->failed; i--)
            model_act(model);
        model_turn(model);
    }
}

#endif
