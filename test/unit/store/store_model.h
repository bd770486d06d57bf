/*
 * A store on a simulated disk with the dullest possible core: a list of jobs, and a journal of all
 * that was ever appended with the batch it went into. After any crash the store must hold exactly
 * what the journal says up to the last batch it found, and that batch must not be older than the
 * last one it called durable.
 */
#ifndef LATERD_TEST_STORE_MODEL_H
#define LATERD_TEST_STORE_MODEL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/codec.h"
#include "base/list.h"
#include "base/mem.h"
#include "sim/disk.h"
#include "store/body.h"
#include "store/far.h"
#include "store/stats.h"
#include "store/store.h"
#include "test/unit/support/grow.h"
#include "test/unit/support/places.h"

enum {
    MODEL_SEGMENT = 32 * 1024,
    MODEL_BODY_MAX = 3000,
    MODEL_ROOM =
        256 * 1024, /* of a body, at most: static, a stack is probed for each of its pages */
    MODEL_DELAY_US = 20 * 1000 * 1000, /* of far jobs at most */
};

struct model_job {
    uint64_t seq;
    uint64_t id; /* a pushed job may replace another one with its id */
    bool live;
    bool body_lost;
    uint32_t version; /* of the body */
    uint32_t priority;
    struct stored stored;
    int64_t due_us;
    bool buried;
    bool ready;   /* pushed as a ready job, or given back since; else it is delayed */
    bool noted;   /* it stays in memory */
    bool leaving; /* it has not changed since it was spilled */
    bool far;     /* what is known of it lies in a slice */
    bool unknown; /* the same, and it has not been read since the opening */
};

/* One line of the journal: the job was like this from this batch on. */
struct model_entry {
    uint64_t batch;
    struct model_job job;
};

struct model {
    struct sim_disk *disk;
    struct store *store;
    struct store_callbacks callbacks;
    struct store_options options;
    struct store_error error;
    struct model_job *jobs;
    size_t job_count;
    bool backed_up;       /* a backup has its files open */
    bool disordered;      /* not each has a higher number than the one before: then … */
    struct places places; /* … where in `jobs` each is, by its number */
    struct model_entry *journal;
    size_t entry_count;
    uint64_t acknowledged; /* the last batch called durable */
    uint64_t seq_next, seq_highest, lease_highest;
    int64_t pause_us; /* of the one topic, as replayed */
    int64_t now_us;
    int64_t delay_us; /* of jobs, at most; 0: they have no due times */
    int64_t at_us;    /* … or are due at this instant, all */
    bool bursts;      /* turns of many changes, then turns of few */
    unsigned buries;  /* of so many jobs that are pushed about one is buried; 0: none is */
    unsigned readies; /* of the others, the same */
    uint64_t random;
    size_t body_bytes; /* of each body; 0: by chance, up to options.body_max */
    bool failed;
    int failures;
    struct model_job dead; /* one that a test ended … */
    uint64_t end_batch;    /* … in this batch */
    uint32_t rest_slices;  /* of relocate_rest */
    char findings[4096];   /* lines of the last opening */
    size_t findings_len;
    unsigned notices[STORE_FOLLOWER_DROPPED + 1];
    struct store_opening opening; /* as told last, … */
    unsigned openings;            /* … of so many times in the last opening */
    unsigned opening_ends_at;     /* which of them ends it; 0: none */
    bool relocating;
    unsigned lates;      /* of so many pushes about one brings its memory; 0: none does … */
    unsigned late, lent; /* … and so many bodies the log has taken over, of the cleaner these */
    unsigned far_room;   /* so many times there is memory for far jobs */
    void (*appended)(struct model *model, const struct event *event); /* or NULL */
    struct store_error noticed;                                       /* the last one */
    struct buf image;       /* of far jobs, as far as it has been read */
    uint32_t image_next;    /* the part that is written next */
    uint64_t older_dropped; /* records in the log of jobs that an image has */
};

static inline uint64_t model_random(struct model *model, uint64_t below)
{
    uint64_t z = model->random += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (z ^ z >> 31) % below;
}

/* They are mostly in the order of their numbers. */
static inline struct model_job *model_find(struct model *model, uint64_t seq)
{
    size_t low = 0, high = model->job_count, step = 0, at = 0;
    while (model->disordered && places_next(&model->places, seq, &step, &at))
        if (at < model->job_count && model->jobs[at].seq == seq)
            return &model->jobs[at]; /* a test may have taken away the job of another place */
    if (model->disordered)
        return NULL;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (model->jobs[middle].seq == seq)
            return &model->jobs[middle];
        if (model->jobs[middle].seq < seq)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

static inline struct model_job *model_add(struct model *model, uint64_t seq)
{
    model->jobs = grow_by_one(model->jobs, model->job_count, sizeof(*model->jobs));
    bool was = model->disordered;
    model->disordered |= model->job_count && model->jobs[model->job_count - 1].seq > seq;
    model->jobs[model->job_count++] = (struct model_job){.seq = seq};
    if (model->disordered && (!was || places_full(&model->places))) {
        places_make(&model->places, 4 * model->job_count);
        for (size_t i = 0; i < model->job_count; i++)
            places_add(&model->places, model->jobs[i].seq, i);
    } else if (model->disordered) {
        places_add(&model->places, seq, model->job_count - 1);
    }
    return &model->jobs[model->job_count - 1];
}

/* The body of a job's version: its length and bytes follow from both. */
static inline struct bytes model_body(const struct model *model, uint64_t seq, uint32_t version,
                                      char *room)
{
    size_t len = model->body_bytes;
    if (!len)
        len = 8 + (seq * 7919 + version * 104729) % (model->options.body_max - 8);
    static char ramp[512]; /* whose pieces of 256 bytes are copied */
    for (size_t i = 0; ramp[511] == 0 && i < sizeof(ramp); i++)
        ramp[i] = (char)i;
    for (size_t i = 0; i < len; i += 256)
        memcpy(room + i, ramp + (seq * 31 + version * 17) % 256, len - i < 256 ? len - i : 256);
    memcpy(room, &version, sizeof(version));
    return bytes_of(room, len);
}

/* ---- the ear ---- */

/* As the core has it: of two jobs with one id the one pushed later counts. False: not this one. */
static inline bool model_replayed_id(struct model *model, const struct event *event, uint64_t id)
{
    for (size_t i = 0; i < model->job_count; i++) {
        struct model_job *other = &model->jobs[i];
        if (!other->live || other->id != id || other->seq == event->job.seq)
            continue;
        if (other->seq > event->job.seq)
            return false;
        other->live = false;
    }
    return true;
}

static inline enum err model_replay(struct store_callbacks *callbacks, const struct event *event)
{
    struct model *model = LIST_ENTRY(callbacks, struct model, callbacks);
    struct model_job *job = model_find(model, event->job.seq);
    uint64_t id = 0;
    switch (event->kind) {
    case EVENT_JOB:
        memcpy(&id, event->id.at, sizeof(id));
        if (!model_replayed_id(model, event, id))
            break;
        if (!job)
            job = model_add(model, event->job.seq);
        job->live = true;
        job->id = id;
        memcpy(&job->version, event->body.at, sizeof(job->version));
        job->priority = event->job.priority;
        job->stored = event->record;
        job->due_us = event->job.due_us;
        job->buried = event->job.state == JOB_BURIED;
        job->ready = event->job.state == JOB_READY;
        job->far = job->unknown = false;
        break;
    case EVENT_MOVE:
        if (job) {
            job->priority = event->job.priority;
            job->due_us = event->job.due_us;
            job->buried = event->job.state == JOB_BURIED;
            job->ready = event->job.state == JOB_READY;
        }
        break;
    case EVENT_GONE:
        if (job)
            job->live = false;
        break;
    case EVENT_TOPIC: model->pause_us = event->pause_until_us; break;
    case EVENT_NOTE:
    case EVENT_SETTINGS: break; /* the engine's tests have them */
    }
    return OK;
}

static inline enum err model_progress(struct store_callbacks *callbacks,
                                      const struct store_opening *opening)
{
    struct model *model = LIST_ENTRY(callbacks, struct model, callbacks);
    assert_true(opening->done_bytes <= opening->all_bytes);
    assert_true(opening->indexes || !model->opening.indexes);
    assert_true(opening->indexes != model->opening.indexes ||
                opening->done_bytes >= model->opening.done_bytes);
    model->opening = *opening;
    return ++model->openings == model->opening_ends_at ? ERR_NOT_LEADER : OK;
}

static inline void model_finding(struct store_callbacks *callbacks, const char *line)
{
    struct model *model = LIST_ENTRY(callbacks, struct model, callbacks);
    if (model->findings_len + strlen(line) + 2 < sizeof(model->findings))
        model->findings_len +=
            (size_t)snprintf(model->findings + model->findings_len, strlen(line) + 2, "%s\n", line);
}

static inline void model_synced(struct store_callbacks *callbacks, uint64_t batch)
{
    (void)callbacks;
    (void)batch;
}

static inline void model_durable(struct store_callbacks *callbacks, uint64_t batch)
{
    struct model *model = LIST_ENTRY(callbacks, struct model, callbacks);
    assert_true(batch >= model->acknowledged);
    assert_false(model->failed);
    model->acknowledged = batch;
}

static inline void model_failed(struct store_callbacks *callbacks, int sys_errno)
{
    struct model *model = LIST_ENTRY(callbacks, struct model, callbacks);
    (void)sys_errno;
    model->failed = true;
    model->failures++;
}

/* Appends the job; job->stored is the record that it takes the place of. */
/* All events go this way; the cleaner's copies are none. */
static inline struct stored model_append(struct model *model, const struct event *event)
{
    bool brings = event->memory && event->memory->at;
    struct stored stored = store_append(model->store, event);
    if (brings && !event->memory->at)
        ++*(model->relocating ? &model->lent : &model->late);
    if (model->appended && !model->relocating)
        model->appended(model, event);
    return stored;
}

static inline enum job_state model_state(const struct model_job *job)
{
    return job->buried ? JOB_BURIED : job->ready ? JOB_READY : JOB_DELAYED;
}

static inline struct stored model_emit_of(struct model *model, const struct model_job *job,
                                          struct bytes content_type, struct bytes body,
                                          struct buf *memory)
{
    uint64_t id = job->id ? job->id : job->seq;
    struct event event = {
        .kind = EVENT_JOB,
        .promised = true,
        .job = {.seq = job->seq,
                .state = model_state(job),
                .priority = job->priority,
                .due_us = job->due_us},
        .id = bytes_of(&id, sizeof(id)),
        .topic = BYTES("topic"),
        .content_type = content_type,
        .body = body,
        .memory = memory,
        .record = job->stored,
    };
    return model_append(model, &event);
}

/* A client's: its body may be in memory that the log may take over. What the log does not take over
   is gone afterwards. */
static inline struct stored model_emit(struct model *model, const struct model_job *job,
                                       struct bytes content_type, struct bytes body)
{
    struct buf memory = {0};
    if (!model->lates || model_random(model, model->lates) > 0)
        return model_emit_of(model, job, content_type, body, NULL);
    buf_add_bytes(&memory, body);
    struct stored stored = model_emit_of(model, job, content_type, buf_bytes(&memory), &memory);
    if (memory.at)
        memset(memory.at, 0xee, memory.cap);
    buf_fini(&memory);
    return stored;
}

static inline void model_emit_move(struct model *model, const struct model_job *job)
{
    struct event event = {
        .kind = EVENT_MOVE,
        .promised = job->priority % 2,
        .job = {.seq = job->seq,
                .state = model_state(job),
                .priority = job->priority,
                .due_us = job->due_us},
        .record = job->stored,
    };
    (void)model_append(model, &event);
}

static inline void model_relocate(struct store_callbacks *callbacks, const struct event *event,
                                  uint64_t where)
{
    struct model *model = LIST_ENTRY(callbacks, struct model, callbacks);
    struct model_job *job = model_find(model, event->job.seq);
    model->relocating = true;
    bool there = job && job->live && !job->far && job->stored.where == where;
    if (there && event->kind == EVENT_MOVE)
        model_emit_move(model, job);
    else if (there && event->kind == EVENT_JOB)
        job->stored = model_emit_of(model, job, event->content_type, event->body, event->memory);
    model->relocating = false;
}

/* ---- far jobs ---- */

static inline size_t model_buried_in_memory(const struct model *model)
{
    size_t count = 0;
    for (size_t i = 0; i < model->job_count; i++)
        count += model->jobs[i].live && model->jobs[i].buried && !model->jobs[i].far;
    return count;
}

static inline enum changed_verdict model_relocate_changed(struct store_callbacks *callbacks,
                                                          const struct event *event, uint64_t where,
                                                          int64_t due_after_us)
{
    struct model *model = LIST_ENTRY(callbacks, struct model, callbacks);
    const struct model_job *job = model_find(model, event->job.seq);
    assert_true(job && job->live && !job->far && job->stored.where == where);
    assert_true(event->kind == EVENT_JOB);
    if (model_state(job) == JOB_DELAYED && job->due_us <= due_after_us)
        return CHANGED_WAITS;
    if (job->noted)
        return CHANGED_STAYS;
    model_relocate(callbacks, event, where);
    return CHANGED_LEAVES;
}

static inline bool model_spill(struct store_callbacks *callbacks, const struct event *event,
                               uint64_t where, int64_t due_after_us, struct event *out_job)
{
    struct model *model = LIST_ENTRY(callbacks, struct model, callbacks);
    struct model_job *job = model_find(model, event->job.seq);
    if (!job || !job->live || job->stored.where != where || job->noted ||
        (model_state(job) == JOB_DELAYED && job->due_us <= due_after_us) ||
        (job->buried && model->options.buried_in_memory &&
         model_buried_in_memory(model) <= model->options.buried_in_memory))
        return false;
    *out_job = *event;
    out_job->job = (struct job_now){.seq = job->seq,
                                    .state = model_state(job),
                                    .priority = job->priority,
                                    .due_us = job->due_us};
    out_job->record = (struct stored){0};
    job->leaving = true;
    return true;
}

static inline bool model_depart(struct store_callbacks *callbacks, uint64_t seq,
                                struct stored record)
{
    struct model *model = LIST_ENTRY(callbacks, struct model, callbacks);
    struct model_job *job = model_find(model, seq);
    if (!job || !job->live || !job->leaving)
        return false;
    job->stored = record;
    job->leaving = false;
    job->far = true;
    return true;
}

/* A record in a slice is this job as it is, or nothing is known of it yet. */
static inline void model_learn(struct model_job *job, const struct event *event)
{
    uint32_t version;
    memcpy(&version, event->body.at, sizeof(version));
    assert_true(job->unknown || version == job->version);
    assert_true((job->unknown && !job->ready) ||
                (job->priority == event->job.priority && job->due_us == event->job.due_us));
    assert_int_equal(event->job.state, model_state(job));
    job->version = version;
    job->priority = event->job.priority;
    job->due_us = event->job.due_us;
    memcpy(&job->id, event->id.at, sizeof(job->id));
    job->unknown = false;
}

static inline bool model_arrive(struct store_callbacks *callbacks, const struct event *event)
{
    struct model *model = LIST_ENTRY(callbacks, struct model, callbacks);
    struct model_job *job = model_find(model, event->job.seq);
    if (!job || !job->live || !job->far || job->stored.where != event->record.where)
        return false;
    model_learn(job, event);
    job->stored = event->record;
    job->far = false;
    return true;
}

static inline void model_replay_one(struct model *model, const struct far_job *far)
{
    struct model_job *job = model_find(model, far->seq);
    assert_true(bytes_eq(far->topic, BYTES("topic")) && far->id_hash);
    if (job && job->live) /* or the core would not look whether it has it in memory */
        assert_true(store_may_be_far(model->callbacks.store, job->stored.where));
    if (job && job->live && job->stored.where == far->where)
        return;
    if (!job)
        job = model_add(model, far->seq);
    job->live = job->far = job->unknown = true;
    job->buried = far->state == JOB_BURIED;
    job->ready = far->state == JOB_READY;
    if (job->ready) { /* the order in which they are handed out is known without their records */
        job->priority = far->priority;
        job->due_us = far->rank_us;
    }
    job->stored = (struct stored){.where = far->where};
}

static inline enum err model_replay_far(struct store_callbacks *callbacks,
                                        const struct far_job *jobs, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        model_replay_one(LIST_ENTRY(callbacks, struct model, callbacks), &jobs[i]);
    return OK;
}

static inline void model_add_u64(struct buf *out, uint64_t number)
{
    char bytes[8];
    put_u64(bytes, number);
    buf_add(out, bytes, sizeof(bytes));
}

/* The image of far jobs: all in the first part, and of each other one its number. */
static inline bool model_far_image(struct store_callbacks *callbacks, uint32_t part,
                                   struct buf *out)
{
    struct model *model = LIST_ENTRY(callbacks, struct model, callbacks);
    assert_int_equal(part, model->image_next++ % FAR_PARTS);
    model_add_u64(out, part);
    for (size_t i = 0; part == 0 && i < model->job_count; i++) {
        const struct model_job *job = &model->jobs[i];
        if (!job->live || store_slice_state(model->store, job->stored.where) == JOB_GONE)
            continue;
        model_add_u64(out, job->seq);
        model_add_u64(out, job->stored.where);
        model_add_u64(out, job->priority);
        model_add_u64(out, (uint64_t)job->due_us);
    }
    return true;
}

/* They count when all parts have come. */
static inline enum err model_far_image_take(struct store_callbacks *callbacks, uint32_t part,
                                            struct bytes image)
{
    struct model *model = LIST_ENTRY(callbacks, struct model, callbacks);
    assert_true(image.len >= 8 && get_u64(image.at) == part);
    if (part == 0)
        buf_reset(&model->image, SIZE_MAX);
    buf_add(&model->image, image.at + 8, image.len - 8);
    for (size_t at = 0; part == FAR_PARTS - 1 && at < model->image.len; at += 32) {
        struct far_job far = {.seq = get_u64(model->image.at + at),
                              .id_hash = 1,
                              .where = get_u64(model->image.at + at + 8),
                              .priority = (uint32_t)get_u64(model->image.at + at + 16),
                              .rank_us = (int64_t)get_u64(model->image.at + at + 24),
                              .topic = BYTES("topic")};
        far.state = store_slice_state(callbacks->store, far.where);
        assert_true(far.state != JOB_GONE);
        const struct model_job *job = model_find(model, far.seq);
        assert_true(!job || !job->live || job->stored.where == far.where); /* nor an older record */
        model_replay_one(model, &far);
    }
    return OK;
}

static inline void model_drop_older(struct store_callbacks *callbacks, const struct far_job *jobs,
                                    uint32_t count)
{
    struct model *model = LIST_ENTRY(callbacks, struct model, callbacks);
    for (uint32_t i = 0; i < count; i++) {
        struct model_job *job = model_find(model, jobs[i].seq);
        if (!job || !job->live || job->stored.where == jobs[i].where)
            continue;
        job->live = false;
        model->older_dropped++;
    }
}

static inline void model_far_image_drop(struct store_callbacks *callbacks)
{
    LIST_ENTRY(callbacks, struct model, callbacks)->image.len = 0;
}

static inline void model_far_fetched(struct far_fetch *fetch)
{
    *(bool *)fetch->owner = true;
}

/* What the page cache has of a far job is read at once, into the caller's room alone. */
static inline void model_read_cached(struct model *model, const struct model_job *job)
{
    struct far_room room;
    struct event event;
    if (store_far_cached(model->store, job->stored.where, &room, &event))
        return;
    const char *begin = (const char *)&room, *end = begin + sizeof(room);
    assert_int_equal(event.job.seq, job->seq);
    assert_true(event.body.at >= begin && event.body.at + event.body.len <= end);
    const char *retry = (const char *)event.retry_us;
    assert_true(retry >= begin && retry + event.retry_count * sizeof(int64_t) <= end);
}

/* Reads a far job's record, waiting for the disk if need be. False: the disk has failed. */
static inline bool model_fetch_far(struct model *model, struct model_job *job)
{
    bool ended = false;
    struct far_fetch fetch = {
        .where = job->stored.where, .done = model_far_fetched, .owner = &ended};
    store_far_fetch(model->store, &fetch);
    while (!ended) {
        model->now_us += 1000;
        store_turn(model->store, model->now_us);
        (void)sim_disk_step(model->disk, LANE_READ);
        store_poll(model->store);
    }
    bool good = fetch.err == OK;
    if (good) {
        assert_int_equal(fetch.event.job.seq, job->seq);
        model_read_cached(model, job);
        if (job->far) { /* else it has been loaded meanwhile */
            model_learn(job, &fetch.event);
            job->stored = fetch.event.record;
        }
    }
    store_far_fetch_end(model->store, &fetch);
    return good;
}

/* Before anything is done with a job it is in memory, as an engine sees to it. */
static inline bool model_bring(struct model *model, struct model_job *job)
{
    job->leaving = false;
    if (!job->far)
        return true;
    if (!model_fetch_far(model, job) || model->failed)
        return false;
    job->far = false;
    return true;
}

static inline void model_emit_pause(struct model *model, int64_t until_us)
{
    struct event event = {.kind = EVENT_TOPIC, .topic = BYTES("topic"), .pause_until_us = until_us};
    (void)model_append(model, &event);
}

/* In slices of three jobs. A job's body is lost: it is that of no version. */
static inline bool model_relocate_unread(struct store_callbacks *callbacks, uint64_t first,
                                         uint64_t end, uint32_t *cursor)
{
    struct model *model = LIST_ENTRY(callbacks, struct model, callbacks);
    for (int i = 0; i < 3 && *cursor < model->job_count; i++) {
        struct model_job *job = &model->jobs[(*cursor)++];
        if (!job->live || job->stored.where < first || job->stored.where >= end)
            continue;
        model->relocating = true;
        job->stored = model_emit(model, job, BYTES("text"), BYTES("lost its body"));
        model->relocating = false;
        job->body_lost = true;
    }
    return *cursor < model->job_count;
}

/* The same of jobs that have changed, but whose records lie in slices. */
static inline bool model_relocate_moves(struct store_callbacks *callbacks, uint32_t *cursor)
{
    struct model *model = LIST_ENTRY(callbacks, struct model, callbacks);
    for (int i = 0; i < 3 && *cursor < model->job_count; i++) {
        struct model_job *job = &model->jobs[(*cursor)++];
        if (!job->live || job->far || !store_move_unread(model->store, job->stored.where))
            continue;
        model->relocating = true;
        model_emit_move(model, job);
        model->relocating = false;
    }
    return *cursor < model->job_count;
}

static inline bool model_relocate_rest(struct store_callbacks *callbacks, uint64_t first,
                                       uint64_t end, uint32_t *cursor)
{
    assert_true(first < end);
    struct model *model = LIST_ENTRY(callbacks, struct model, callbacks);
    model->relocating = true;
    model_emit_pause(model, 12345);
    model->relocating = false;
    return ++*cursor < model->rest_slices;
}

static inline void model_notice(struct store_callbacks *callbacks, enum store_notice notice,
                                const struct store_error *error)
{
    struct model *model = LIST_ENTRY(callbacks, struct model, callbacks);
    model->notices[notice]++;
    model->noticed = *error;
}

/* ---- life ---- */

static inline void model_init(struct model *model, uint64_t seed)
{
    *model = (struct model){.random = seed, .now_us = 1000000, .seq_next = 1};
    model->disk = sim_disk_new();
    model->callbacks = (struct store_callbacks){
        .replay = model_replay,
        .progress = model_progress,
        .finding = model_finding,
        .durable = model_durable,
        .synced = model_synced,
        .failed = model_failed,
        .relocate = model_relocate,
        .relocate_unread = model_relocate_unread,
        .relocate_rest = model_relocate_rest,
        .notice = model_notice,
    };
    model->options = (struct store_options){
        .disk = sim_disk_port(model->disk),
        .segment_bytes = MODEL_SEGMENT,
        .recent_bytes = 1,
        .body_max = MODEL_BODY_MAX,
        .id_seed = 42,
        .inline_us = seed % 2 ? 2000 : 0, /* odd seeds commit in the turn */
        .ready_in_memory = UINT64_MAX,
    };
}

/* From the next opening on jobs have due times, and far ones leave the log early. */
static inline void model_use_slices(struct model *model)
{
    model->delay_us = MODEL_DELAY_US;
    model->options.horizon_us = MODEL_DELAY_US / 10;
    model->options.checkpoint_bytes = 2 * MODEL_SEGMENT;
    model->callbacks.spill = model_spill;
    model->callbacks.depart = model_depart;
    model->callbacks.arrive = model_arrive;
    model->callbacks.replay_far = model_replay_far;
    model->callbacks.far_image = model_far_image;
    model->callbacks.far_image_take = model_far_image_take;
    model->callbacks.drop_older = model_drop_older;
    model->callbacks.far_image_drop = model_far_image_drop;
    model->options.image_jobs = 1;
    model->callbacks.relocate_moves = model_relocate_moves;
    model->callbacks.relocate_changed = model_relocate_changed;
}

/* From the next opening on many bodies are larger than a batch may be, and half of those that
 * clients push are in memory that the log takes over. */
static inline void model_use_late(struct model *model)
{
    model->lates = 2;
    model->options.batch_full = DISK_ALIGN;
    model->options.body_max = 6 * DISK_ALIGN;
    model->options.segment_bytes = 2 * MODEL_SEGMENT;
}

static inline void model_fini(struct model *model)
{
    store_close(model->store);
    assert_true(model->backed_up || sim_disk_removed_open(model->disk) == 0);
    sim_disk_free(model->disk);
    mem_free(model->jobs);
    mem_free(model->places.slots);
    mem_free(model->journal);
    buf_fini(&model->image);
}

static inline enum err model_open(struct model *model)
{
    model->options.now_us = model->now_us;
    model->job_count = 0;
    model->disordered = false;
    model->failed = false;
    model->findings_len = 0;
    model->findings[0] = '\0';
    model->opening = (struct store_opening){0};
    model->openings = 0;
    return store_open(&model->options, &model->callbacks, &model->store, &model->error);
}

static inline void model_close(struct model *model)
{
    store_close(model->store);
    model->store = NULL;
}

#endif
