/*
 * A store on a simulated disk with the dullest possible core: a list of jobs, and a journal of all
 * that was ever appended with the batch it went into. After any crash the store must hold exactly
 * what the journal says up to the last batch it found, and that batch must not be older than the
 * last one it called durable.
 */
#ifndef LATERD_TEST_STORE_WORLD_H
#define LATERD_TEST_STORE_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/list.h"
#include "base/mem.h"
#include "sim/disk.h"
#include "store/store.h"

enum { WORLD_SEGMENT = 32 * 1024, WORLD_BODY_MAX = 3000 };

struct world_job {
    uint64_t seq;
    bool live;
    uint32_t version; /* of the body */
    uint32_t priority;
    struct stored stored;
};

/* One line of the journal: the job was like this from this batch on. */
struct world_entry {
    uint64_t batch;
    struct world_job job;
};

struct world {
    struct sim_disk *disk;
    struct store *store;
    struct store_ear ear;
    struct store_options options;
    struct store_trouble trouble;
    struct world_job *jobs;
    size_t job_count;
    struct world_entry *journal;
    size_t entry_count;
    uint64_t acknowledged; /* the last batch called durable */
    uint64_t seq_next, seq_highest, lease_highest;
    int64_t pause_us; /* of the one topic, as replayed */
    int64_t now_us;
    uint64_t random;
    bool failed;
    int failures;
};

static inline uint64_t world_random(struct world *world, uint64_t below)
{
    uint64_t z = world->random += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (z ^ z >> 31) % below;
}

static inline struct world_job *world_find(struct world *world, uint64_t seq)
{
    for (size_t i = 0; i < world->job_count; i++)
        if (world->jobs[i].seq == seq)
            return &world->jobs[i];
    return NULL;
}

static inline struct world_job *world_add(struct world *world, uint64_t seq)
{
    world->jobs = mem_realloc(world->jobs, (world->job_count + 1) * sizeof(*world->jobs));
    world->jobs[world->job_count] = (struct world_job){.seq = seq};
    return &world->jobs[world->job_count++];
}

/* The body of a job's version: its length and bytes follow from both. */
static inline struct bytes world_body(const struct world *world, uint64_t seq, uint32_t version,
                                      char *room)
{
    size_t len = 8 + (seq * 7919 + version * 104729) % (world->options.body_max - 8);
    for (size_t i = 0; i < len; i++)
        room[i] = (char)(seq * 31 + version * 17 + i);
    memcpy(room, &version, sizeof(version));
    return bytes_of(room, len);
}

/* ---- the ear ---- */

static inline enum err world_replay(struct store_ear *ear, const struct event *event)
{
    struct world *world = LIST_ENTRY(ear, struct world, ear);
    struct world_job *job = world_find(world, event->job.seq);
    switch (event->kind) {
    case EVENT_JOB:
        if (!job)
            job = world_add(world, event->job.seq);
        job->live = true;
        memcpy(&job->version, event->body.at, sizeof(job->version));
        job->priority = event->job.priority;
        job->stored = event->record;
        break;
    case EVENT_MOVE:
        if (job)
            job->priority = event->job.priority;
        break;
    case EVENT_GONE:
        if (job)
            job->live = false;
        break;
    case EVENT_TOPIC: world->pause_us = event->pause_until_us; break;
    }
    return OK;
}

static inline void world_progress(struct store_ear *ear, uint64_t done, uint64_t all)
{
    (void)ear;
    assert_true(done <= all);
}

static inline void world_durable(struct store_ear *ear, uint64_t batch)
{
    struct world *world = LIST_ENTRY(ear, struct world, ear);
    assert_true(batch >= world->acknowledged);
    assert_false(world->failed);
    world->acknowledged = batch;
}

static inline void world_failed(struct store_ear *ear, int sys_errno)
{
    struct world *world = LIST_ENTRY(ear, struct world, ear);
    (void)sys_errno;
    world->failed = true;
    world->failures++;
}

static inline struct stored world_emit(struct world *world, const struct world_job *job,
                                       struct bytes content_type, struct bytes body)
{
    struct event event = {
        .kind = EVENT_JOB,
        .promised = true,
        .job = {.seq = job->seq, .state = JOB_DELAYED, .priority = job->priority},
        .topic = BYTES("topic"),
        .content_type = content_type,
        .body = body,
        .record = job->stored,
    };
    return store_append(world->store, &event);
}

static inline void world_carry(struct store_ear *ear, uint64_t seq, uint64_t where,
                               struct bytes content_type, struct bytes body)
{
    struct world *world = LIST_ENTRY(ear, struct world, ear);
    struct world_job *job = world_find(world, seq);
    if (job && job->live && job->stored.where == where)
        job->stored = world_emit(world, job, content_type, body);
}

static inline void world_emit_pause(struct world *world, int64_t until_us)
{
    struct event event = {.kind = EVENT_TOPIC, .topic = BYTES("topic"), .pause_until_us = until_us};
    (void)store_append(world->store, &event);
}

static inline void world_carry_rest(struct store_ear *ear)
{
    world_emit_pause(LIST_ENTRY(ear, struct world, ear), 12345);
}

/* ---- life ---- */

static inline void world_init(struct world *world, uint64_t seed)
{
    *world = (struct world){.random = seed, .now_us = 1000000, .seq_next = 1};
    world->disk = sim_disk_new();
    world->ear = (struct store_ear){
        .replay = world_replay,
        .progress = world_progress,
        .durable = world_durable,
        .failed = world_failed,
        .carry = world_carry,
        .carry_rest = world_carry_rest,
    };
    world->options = (struct store_options){
        .disk = sim_disk_port(world->disk),
        .segment_bytes = WORLD_SEGMENT,
        .recent_bytes = 1,
        .body_max = WORLD_BODY_MAX,
        .id_seed = 42,
    };
}

static inline void world_fini(struct world *world)
{
    store_close(world->store);
    sim_disk_free(world->disk);
    mem_free(world->jobs);
    mem_free(world->journal);
}

static inline enum err world_open(struct world *world)
{
    world->options.now_us = world->now_us;
    world->job_count = 0;
    world->failed = false;
    return store_open(&world->options, &world->ear, &world->store, &world->trouble);
}

static inline void world_close(struct world *world)
{
    store_close(world->store);
    world->store = NULL;
}

/* What the journal says about each job up to the batch; later lines are forgotten. */
static inline void world_expect(struct world *world, uint64_t batch)
{
    size_t kept = 0;
    size_t live = 0;
    while (kept < world->entry_count && world->journal[kept].batch <= batch)
        kept++;
    world->entry_count = kept;
    for (size_t i = 0; i < kept; i++) {
        const struct world_job *want = &world->journal[i].job;
        bool newest = true;
        for (size_t j = i + 1; j < kept && newest; j++)
            newest = world->journal[j].job.seq != want->seq;
        if (!newest)
            continue;
        const struct world_job *have = world_find(world, want->seq);
        assert_int_equal(want->live, have && have->live);
        if (!want->live)
            continue;
        live++;
        assert_int_equal(want->version, have->version);
        assert_int_equal(want->priority, have->priority);
    }
    for (size_t i = 0; i < world->job_count; i++)
        live -= world->jobs[i].live;
    assert_int_equal(live, 0); /* nothing was invented */
}

static inline void world_read(struct world *world, const struct world_job *job)
{
    char room[WORLD_BODY_MAX];
    struct arena arena = {0};
    struct bytes content_type, body;
    struct bytes want = world_body(world, job->seq, job->version, room);
    assert_int_equal(store_read(world->store, job->seq, job->stored.where, 4, want.len, &arena,
                                &content_type, &body),
                     OK);
    assert_true(bytes_eq(content_type, BYTES("text")));
    assert_true(bytes_eq(body, want));
    arena_fini(&arena);
}

/* After an opening: P1, P5, and that no number is given twice. */
static inline void world_check(struct world *world)
{
    struct store_stats stats;
    uint64_t found = store_durable(world->store);
    assert_true(found >= world->acknowledged);
    world->acknowledged = found;
    world_expect(world, found);
    assert_true(store_seq_first(world->store) > world->seq_highest);
    assert_true(store_lease_first(world->store) > world->lease_highest);
    world->seq_next = store_seq_first(world->store);
    world->lease_highest = store_lease_first(world->store) + 1000;
    store_stats(world->store, &stats);
    uint64_t live = 0;
    for (size_t i = 0; i < world->job_count; i++) {
        live += world->jobs[i].live;
        if (world->jobs[i].live)
            world_read(world, &world->jobs[i]);
    }
    assert_int_equal(stats.live_jobs, live);
}

/* ---- work ---- */

static inline void world_note(struct world *world, const struct world_job *job)
{
    world->journal =
        mem_realloc(world->journal, (world->entry_count + 1) * sizeof(*world->journal));
    world->journal[world->entry_count++] =
        (struct world_entry){.batch = store_batch(world->store), .job = *job};
}

static inline enum err world_push(struct world *world)
{
    char room[WORLD_BODY_MAX];
    struct bytes body = world_body(world, world->seq_next, 1, room);
    enum err err = store_admit(world->store, body.len + 4);
    if (err)
        return err;
    struct world_job *job = world_add(world, world->seq_next++);
    world->seq_highest = job->seq;
    store_seq_note(world->store, world->seq_next);
    job->live = true;
    job->version = 1;
    job->stored = world_emit(world, job, BYTES("text"), body);
    world_note(world, job);
    return OK;
}

static inline struct world_job *world_pick(struct world *world)
{
    for (int tries = 0; tries < 20 && world->job_count; tries++) {
        struct world_job *job = &world->jobs[world_random(world, world->job_count)];
        if (job->live)
            return job;
    }
    return NULL;
}

static inline void world_change(struct world *world, struct world_job *job)
{
    char room[WORLD_BODY_MAX];
    struct bytes body = world_body(world, job->seq, job->version + 1, room);
    if (store_admit(world->store, body.len + 4))
        return;
    job->version++;
    job->stored = world_emit(world, job, BYTES("text"), body);
    world_note(world, job);
}

static inline void world_move(struct world *world, struct world_job *job)
{
    job->priority++;
    struct event event = {
        .kind = EVENT_MOVE,
        .promised = job->priority % 2,
        .job = {.seq = job->seq, .state = JOB_READY, .priority = job->priority},
    };
    (void)store_append(world->store, &event);
    world_note(world, job);
}

static inline void world_end(struct world *world, struct world_job *job)
{
    struct event event = {
        .kind = EVENT_GONE,
        .promised = true,
        .job = {.seq = job->seq},
        .record = job->stored,
    };
    (void)store_append(world->store, &event);
    job->live = false;
    world_note(world, job);
}

/* One turn; the disk does what chance says. */
static inline void world_turn(struct world *world)
{
    world->now_us += (int64_t)world_random(world, 60000);
    store_turn(world->store, world->now_us);
    if (world_random(world, 4) != 0)
        (void)sim_disk_step(world->disk, LANE_COMMIT);
    if (world_random(world, 2) != 0)
        (void)sim_disk_step(world->disk, LANE_BACKGROUND);
    store_poll(world->store);
}

/* Turns until the disk has nothing to do any more. */
static inline void world_settle(struct world *world)
{
    for (int i = 0; i < 200; i++) {
        store_turn(world->store, world->now_us);
        world->now_us += 30000;
        while (sim_disk_step(world->disk, LANE_COMMIT) ||
               sim_disk_step(world->disk, LANE_BACKGROUND))
            continue;
        store_poll(world->store);
    }
}

static inline void world_act(struct world *world)
{
    uint64_t dice = world_random(world, 10);
    struct world_job *job = world_pick(world);
    if (dice < 4 || !job)
        (void)world_push(world);
    else if (dice < 5)
        world_change(world, job);
    else if (dice < 7)
        world_move(world, job);
    else
        world_end(world, job);
}

/* `turns` turns of mixed work, or until the store fails. */
static inline void world_work(struct world *world, int turns)
{
    for (int turn = 0; turn < turns && !world->failed; turn++) {
        for (uint64_t i = world_random(world, 4); i > 0; i--)
            world_act(world);
        world_turn(world);
    }
}

#endif
