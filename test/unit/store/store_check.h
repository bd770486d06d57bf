/* Whether a store that was opened has what its model (store_model.h) says. */
#ifndef LATERD_TEST_STORE_CHECK_H
#define LATERD_TEST_STORE_CHECK_H

#include "store_model.h"

static inline int model_compare_entries(const void *left, const void *right)
{
    const struct model_entry *one = *(const struct model_entry *const *)left;
    const struct model_entry *other = *(const struct model_entry *const *)right;
    if (one->job.seq != other->job.seq)
        return one->job.seq < other->job.seq ? -1 : 1;
    return one < other ? -1 : one > other;
}

/* What the journal says about each job up to the batch; later lines are forgotten. */
static inline void model_expect(struct model *model, uint64_t batch)
{
    size_t kept = 0;
    size_t live = 0;
    while (kept < model->entry_count && model->journal[kept].batch <= batch)
        kept++;
    model->entry_count = kept;
    const struct model_entry **lines = mem_alloc((kept + 1) * sizeof(*lines));
    for (size_t i = 0; i < kept; i++)
        lines[i] = &model->journal[i];
    qsort(lines, kept, sizeof(*lines), model_compare_entries);
    for (size_t i = 0; i < kept; i++) {
        const struct model_job *want = &lines[i]->job;
        if (i + 1 < kept && lines[i + 1]->job.seq == want->seq)
            continue; /* there is a newer one */
        const struct model_job *have = model_find(model, want->seq);
        assert_int_equal(want->live, have && have->live);
        if (!want->live)
            continue;
        live++;
        assert_int_equal(want->version, have->version);
        assert_int_equal(want->priority, have->priority);
        assert_int_equal(model_state(want), model_state(have));
    }
    mem_free(lines);
    for (size_t i = 0; i < model->job_count; i++)
        live -= model->jobs[i].live;
    assert_int_equal(live, 0); /* nothing was invented */
}

struct model_fetch {
    struct body_fetch fetch;
    bool ended;
};

static inline void model_fetched(struct body_fetch *fetch)
{
    LIST_ENTRY(fetch, struct model_fetch, fetch)->ended = true;
}

/* Reads a body as an engine does, waiting for the disk if need be. */
static inline enum err model_body_at(struct model *model, const struct body_place *place,
                                     struct arena *arena, struct bytes *out_content_type,
                                     struct bytes *out_body)
{
    struct model_fetch waited = {.fetch = {.place = *place, .done = model_fetched}};
    struct body_content content;
    enum err err = store_read(model->store, place, arena, &content);
    if (!err) {
        *out_content_type = content.content_type;
        *out_body = content.body;
    }
    if (err != ERR_AGAIN)
        return err;
    store_fetch(model->store, &waited.fetch);
    while (!waited.ended) {
        model->now_us += 10000;
        store_turn(model->store, model->now_us);
        if (model->lates) /* it may wait until it is in its file */
            for (int lane = 0; lane < LANE_COUNT; lane++)
                (void)sim_disk_step(model->disk, (enum disk_lane)lane);
        (void)sim_disk_step(model->disk, LANE_READ);
        store_poll(model->store);
    }
    if (!waited.fetch.err) {
        *out_content_type = arena_copy(arena, waited.fetch.content.content_type);
        *out_body = arena_copy(arena, waited.fetch.content.body);
    }
    err = waited.fetch.err;
    store_fetch_end(model->store, &waited.fetch);
    return err;
}

static inline void model_read(struct model *model, const struct model_job *job)
{
    static char room[MODEL_ROOM];
    struct arena arena = {0};
    struct bytes content_type = {0}, body = {0};
    struct bytes want = model_body(model, job->seq, job->version, room);
    struct body_place place = {job->seq, job->stored.where, 4, want.len, 0, false};
    assert_int_equal(model_body_at(model, &place, &arena, &content_type, &body), OK);
    assert_true(bytes_eq(content_type, BYTES("text")));
    assert_true(bytes_eq(body, want));
    arena_fini(&arena);
}

/* After an opening: P1, P5, and that no number is given twice. */
static inline void model_check(struct model *model)
{
    struct store_stats stats;
    uint64_t found = store_durable(model->store);
    assert_true(found >= model->acknowledged);
    model->acknowledged = found;
    for (size_t i = 0; i < model->job_count; i++)
        if (model->jobs[i].live && model->jobs[i].unknown)
            assert_true(model_fetch_far(model, &model->jobs[i]));
    model_expect(model, found);
    assert_true(store_seq_first(model->store) > model->seq_highest);
    assert_true(store_lease_first(model->store) > model->lease_highest);
    model->seq_next = store_seq_first(model->store);
    model->lease_highest = store_lease_first(model->store) + 1000;
    store_lease_note(model->store, model->lease_highest + 1);
    store_stats(model->store, &stats);
    uint64_t live = 0;
    for (size_t i = 0; i < model->job_count; i++) {
        live += model->jobs[i].live;
        if (model->jobs[i].live)
            model_read(model, &model->jobs[i]);
    }
    assert_int_equal(stats.live_jobs, live);
}

/* Opens the store again, checks what it has, and ends. */
static inline void model_fini_reopened(struct model *model)
{
    model_close(model);
    assert_int_equal(model_open(model), OK);
    model_check(model);
    model_fini(model);
}

#endif
