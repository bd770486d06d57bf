/*
 * A disk without room, by the file system or by store.max_bytes: pushes are refused with the
 * reason, all else goes on, cleaning makes room, and a restart works (P8).
 */
#include "store_model.h"
#include "store_work.h"

#include "store/format.h"
#include "store/internal.h"

#include <errno.h>
#include <stdlib.h>

enum { JOBS_MAX = 2000, SEEDS = 200 };

static void open_full(struct model *model, uint64_t capacity, uint64_t max_bytes)
{
    model_init(model, 9);
    model->options.body_max = 1000;
    model->options.max_bytes = max_bytes;
    sim_disk_capacity(model->disk, capacity);
    assert_int_equal(model_open(model), OK);
}

static void step(struct model *model)
{
    model->now_us += 50000;
    store_turn(model->store, model->now_us);
    model_disk_works(model);
    store_poll(model->store);
}

/* Pushes until refused; says why. */
static enum err fill(struct model *model)
{
    for (int i = 0; i < JOBS_MAX; i++) {
        enum err err = model_push(model);
        step(model);
        if (err)
            return err;
    }
    return OK;
}

static void end_all(struct model *model)
{
    for (size_t i = 0; i < model->job_count; i++) {
        if (!model->jobs[i].live)
            continue;
        model_end(model, &model->jobs[i]);
        uint64_t batch = store_batch(model->store);
        for (int turns = 0; turns < 300 && model->acknowledged < batch; turns++)
            step(model);
        assert_true(model->acknowledged >= batch); /* each end is durable in the end */
    }
}

/* Whatever has happened, the store opens again with all that was acknowledged. */
static void end_checked(struct model *model)
{
    model_settle(model);
    model_close(model);
    assert_int_equal(model_open(model), OK);
    model_check(model);
    model_fini(model);
}

static void full_and_back(uint64_t capacity, uint64_t max_bytes, enum err reason)
{
    struct model model;
    open_full(&model, capacity, max_bytes);
    assert_int_equal(fill(&model), reason);
    assert_true(store_full(model.store));
    assert_true(model.job_count > 20);
    assert_true(store_next_us(model.store) < INT64_MAX); /* it asks again by itself */
    end_all(&model);
    for (int i = 0; i < 100; i++)
        step(&model);
    assert_false(model.failed);
    assert_false(store_full(model.store)); /* cleaning made room */
    assert_int_equal(model_push(&model), OK);
    end_checked(&model);
}

static void p8_full_disk_refuses_pushes_and_ends_jobs(void **state)
{
    (void)state;
    full_and_back(10 * MODEL_SEGMENT + 8192, 0, ERR_DISK_FULL);
}

static void p8_max_bytes_refuses_pushes_and_ends_jobs(void **state)
{
    (void)state;
    full_and_back(0, 10 * MODEL_SEGMENT + 8192, ERR_DISK_LIMIT);
}

static void p8_room_given_back_ends_the_refusals(void **state)
{
    (void)state;
    struct model model;
    open_full(&model, 8 * MODEL_SEGMENT + 8192, 0);
    assert_int_equal(fill(&model), ERR_DISK_FULL);
    sim_disk_capacity(model.disk, 0);
    for (int i = 0; i < 60; i++)
        step(&model); /* it is asked again once a second */
    assert_false(store_full(model.store));
    assert_int_equal(model_push(&model), OK);
    model_fini(&model);
}

static void p8_a_store_opens_on_a_full_disk(void **state)
{
    (void)state;
    for (int clean = 0; clean < 2; clean++) {
        struct model model;
        open_full(&model, 8 * MODEL_SEGMENT + 8192, 0);
        assert_int_equal(fill(&model), ERR_DISK_FULL);
        if (!clean)
            sim_disk_cut_at(model.disk, sim_disk_points(model.disk));
        model_close(&model);
        model.store = NULL;
        if (!clean)
            sim_disk_power(model.disk, 3);
        sim_disk_capacity(model.disk, sim_disk_used(model.disk)); /* not a byte is left */
        assert_int_equal(model_open(&model), OK);
        model_check(&model);
        step(&model);
        assert_int_equal(fill(&model), ERR_DISK_FULL);
        end_all(&model);
        model_fini_reopened(&model);
    }
}

/* Whatever the bodies' size and how they lie in the blocks, before and after a restart. */
static void p8_ends_go_on_for_bodies_of_every_size(void **state)
{
    (void)state;
    for (uint32_t body_max = 600; body_max < 24000; body_max += body_max / 3) {
        for (uint64_t segments = 6; segments < 14; segments++) {
            struct model model;
            model_init(&model, body_max + segments);
            model.options.body_max = body_max;
            sim_disk_capacity(model.disk, segments * MODEL_SEGMENT + 8192);
            assert_int_equal(model_open(&model), OK);
            assert_int_equal(fill(&model), ERR_DISK_FULL);
            for (size_t i = 0; i < 5 && i < model.job_count; i++)
                model_end(&model, &model.jobs[i]);
            model_settle(&model);
            sim_disk_cut_at(model.disk, sim_disk_points(model.disk));
            model_close(&model);
            model.store = NULL;
            sim_disk_power(model.disk, body_max);
            assert_int_equal(model_open(&model), OK);
            model_check(&model);
            end_all(&model);
            for (int i = 0; i < 60; i++)
                step(&model);
            assert_int_equal(model_push(&model), OK);
            model_fini(&model);
        }
    }
}

/* What one turn brings counts before the next one looks for room. (In a segment of a few blocks the
   last one that is not full would decide.) */
static void p8_a_burst_is_refused_as_soon_as_there_is_no_room_for_it(void **state)
{
    enum { SEGMENT = 8 * MODEL_SEGMENT };
    (void)state;
    struct model model;
    enum err err = OK;
    model_init(&model, 9);
    model.body_bytes = 900;
    model.options.segment_bytes = SEGMENT;
    model.options.max_bytes = 8 * SEGMENT + 8192;
    assert_int_equal(model_open(&model), OK);
    for (int i = 0; i < JOBS_MAX && !err; i++)
        err = model_push(&model);
    assert_int_equal(err, ERR_DISK_LIMIT);
    assert_int_equal(store_admit(model.store, 900), ERR_DISK_LIMIT);
    assert_in_range(model.job_count, 5 * SEGMENT / 1000, 6 * SEGMENT / 900);
    for (int i = 0; i < 100; i++)
        step(&model);
    assert_false(model.failed);
    end_all(&model);
    end_checked(&model);
}

/* The segment that a job needs at least is as long as its batch, with a header. */
static void p8_a_job_larger_than_max_bytes_is_refused(void **state)
{
    enum { MAX_BYTES = 16 * MODEL_SEGMENT };
    (void)state;
    struct model model;
    open_full(&model, 0, MAX_BYTES);
    assert_int_equal(store_admit(model.store, MAX_BYTES), ERR_DISK_LIMIT);
    assert_int_equal(store_admit(model.store, MAX_BYTES - 4096), ERR_DISK_LIMIT);
    model_fini(&model);
}

/*
 * Such a job gets a file of its own, for which there must be room besides what is kept, and for a
 * copy: else its batch, and with it all ends that come behind it, would wait for a file that can
 * never be made.
 */
static void p8_a_job_larger_than_a_segment_is_refused_if_its_file_has_no_room(void **state)
{
    enum { ROOM = 6 * MODEL_SEGMENT };
    (void)state;
    for (int limit = 0; limit < 2; limit++) {
        struct model model;
        enum err full = limit ? ERR_DISK_LIMIT : ERR_DISK_FULL;
        open_full(&model, limit ? 0 : ROOM, limit ? ROOM : 0);
        step(&model); /* both spares are there: 30 blocks are left */
        assert_false(store_full(model.store));
        assert_int_equal(store_admit(model.store, 2 * MODEL_SEGMENT), full);
        model.body_bytes = MODEL_SEGMENT; /* 10 blocks with the header of its file */
        assert_int_equal(model_push(&model), OK);
        assert_int_equal(model_push(&model), full); /* in the same turn, too */
        uint64_t batch = store_batch(model.store);
        for (int i = 0; i < 20; i++)
            step(&model);
        assert_true(model.acknowledged >= batch);
        assert_int_equal(model_push(&model), full);
        end_all(&model);
        for (int i = 0; i < 100; i++)
            step(&model);
        assert_false(model.failed);
        model.body_bytes = 900;
        assert_int_equal(model_push(&model), OK);
        end_checked(&model);
    }
}

/*
 * Others have filled the disk, also the room for a copy of a job that is larger than a segment.
 * What is dead in front of it brings that room back, if the cleaner copies only where it gains.
 */
static void p8_cleaning_in_front_of_a_large_job_brings_its_room_back(void **state)
{
    enum { SEGMENTS = 24, JOBS_EACH = 25, AT_ONCE = 8, LIVE_OF = 3 };
    (void)state;
    for (uint64_t left = MODEL_SEGMENT; left <= 2 * MODEL_SEGMENT; left += MODEL_SEGMENT) {
        struct model model;
        unsigned ended = 0;
        open_full(&model, 0, 0);
        model.body_bytes = 900;
        for (size_t i = 0; i < SEGMENTS * JOBS_EACH; i++) {
            assert_int_equal(model_push(&model), OK);
            if (i % JOBS_EACH == JOBS_EACH - 1)
                step(&model);
        }
        model.body_bytes = 5 * MODEL_SEGMENT;
        assert_int_equal(model_push(&model), OK);
        model_settle(&model);
        sim_disk_capacity(model.disk, sim_disk_used(model.disk) + left);
        for (size_t i = 0; i < SEGMENTS * JOBS_EACH; i++) {
            if (i % LIVE_OF == 0)
                continue;
            model_end(&model, &model.jobs[i]);
            if (++ended % AT_ONCE)
                continue;
            uint64_t batch = store_batch(model.store);
            for (int turns = 0; turns < 300 && model.acknowledged < batch; turns++)
                step(&model);
            assert_true(model.acknowledged >= batch);
        }
        for (int i = 0; i < 600; i++)
            step(&model);
        assert_false(store_full(model.store));
        model_fini(&model);
    }
}

/* Pushes small jobs and ends each, until so many were taken, or pushes are refused for 15 seconds.
   Returns how many were taken. */
static unsigned come_and_go(struct model *model, unsigned times)
{
    unsigned pushed = 0;
    for (unsigned refused = 0; pushed < times && refused < 300; refused++) {
        bool taken = model_push(model) == OK;
        step(model);
        if (!taken)
            continue;
        model_end(model, &model->jobs[model->job_count - 1]);
        uint64_t batch = store_batch(model->store);
        for (int turns = 0; turns < 300 && model->acknowledged < batch; turns++)
            step(model);
        assert_true(model->acknowledged >= batch);
        refused = 0;
        pushed++;
    }
    return pushed;
}

/*
 * A job that is larger than a segment lives long, in the oldest segment, and all behind it comes
 * and goes. The cleaner needs room for a copy of it; without one, either the log would wait for a
 * file that can never be made, or nothing could be cleaned until the job ends.
 */
static void p8_a_job_larger_than_a_segment_does_not_stop_the_cleaner(void **state)
{
    enum { TIMES = 400, FEWEST = 5, MOST = 24 };
    (void)state;
    unsigned went_on = 0;
    for (unsigned files = FEWEST; files <= MOST; files++)
        for (unsigned limit = 0; limit < 2; limit++) {
            struct model model;
            uint64_t room = files * MODEL_SEGMENT + 8192;
            open_full(&model, limit ? 0 : room, limit ? room : 0);
            step(&model);
            model.body_bytes = 3 * MODEL_SEGMENT;
            bool taken = model_push(&model) == OK;
            step(&model);
            model.body_bytes = 900;
            unsigned pushed = taken ? come_and_go(&model, TIMES) : 0;
            if (taken && pushed < TIMES)
                print_error("%u segments, %s: %u pushes\n", files, limit ? "limit" : "disk",
                            pushed);
            assert_true(!taken || pushed == TIMES);
            went_on += taken;
            model_fini(&model);
        }
    assert_in_range(went_on, MOST, 2 * (MOST - FEWEST));
}

/* The copy begins with the epoch, as the job's batch does, for which its last block may lack
   room. */
static void p8_room_for_a_copy_is_that_of_the_job(void **state)
{
    (void)state;
    struct model model;
    model_init(&model, 9);
    model.options.epoch = 1;
    model.body_bytes = 2 * MODEL_SEGMENT;
    assert_int_equal(model_open(&model), OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(model_push(&model), OK);
        const struct segment *own = segments_tail(model.store->segments);
        assert_int_equal(own->live_jobs, 1);
        assert_int_equal(segments_copies(model.store->segments, own), own->size_bytes);
        model_settle(&model);
        size_t left = (size_t)batch_bytes(own->live_bytes) - BATCH_HEAD - own->live_bytes;
        model.body_bytes += left / 8 * 8; /* without the epoch the next one fills its blocks */
    }
    model_fini(&model);
}

/* With a lower segment_bytes the last file has room for more than fits into two usual ones, and
   records about slices are copied, too. */
static void p8_room_for_copies_is_kept_for_records_about_slices(void **state)
{
    (void)state;
    struct model model;
    model_init(&model, 9);
    model.options.segment_bytes = 4 * MODEL_SEGMENT;
    assert_int_equal(model_open(&model), OK);
    assert_int_equal(model_push(&model), OK);
    model_settle(&model);
    model_close(&model);
    model.options.segment_bytes = MODEL_SEGMENT;
    assert_int_equal(model_open(&model), OK);
    struct segments *segments = model.store->segments;
    uint32_t number = segments_tail(segments)->number;
    segments_add_slice_log(segments, number, 2 * MODEL_SEGMENT, 1);
    segments_valid(segments);
    assert_true(segments_copies_max(segments) > 2 * MODEL_SEGMENT);
    segments_remove_slice_log(segments, number, 2 * MODEL_SEGMENT, 1);
    model_fini(&model);
}

/* It is the disk that lacks room, though there is a limit, too, which is far away. */
static void a_job_larger_than_a_segment_is_refused_for_the_right_reason(void **state)
{
    (void)state;
    struct model model;
    open_full(&model, 4 * MODEL_SEGMENT, 1000 * MODEL_SEGMENT);
    step(&model);
    assert_false(store_full(model.store));
    assert_int_equal(store_admit(model.store, 2 * MODEL_SEGMENT), ERR_DISK_FULL);
    model_fini(&model);
}

/* Many jobs of a few bytes: the records that end them take about as much as they did. */
static void p8_ends_of_many_small_jobs_have_room(void **state)
{
    enum { A_TURN = 40 };
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct model model;
        enum err err = OK;
        model_init(&model, seed);
        model.options.body_max = 16;
        model.body_bytes = 8;
        sim_disk_capacity(model.disk, (7 + seed) * MODEL_SEGMENT + 8192);
        assert_int_equal(model_open(&model), OK);
        for (int i = 0; i < 20 * JOBS_MAX && !err; i++) {
            err = model_push(&model);
            if (err || i % A_TURN == 0)
                step(&model);
        }
        assert_int_equal(err, ERR_DISK_FULL);
        size_t live = 0;
        for (size_t i = 0; i < model.job_count; i++)
            live += model.jobs[i].live;
        for (size_t left = live, stride = 7919; left > 0;) { /* in no order */
            for (size_t i = 0; i < A_TURN && left > 0; i++) {
                struct model_job *job = &model.jobs[(left * stride) % model.job_count];
                while (!job->live)
                    job = job == &model.jobs[model.job_count - 1] ? model.jobs : job + 1;
                model_end(&model, job);
                left--;
            }
            uint64_t batch = store_batch(model.store);
            for (int turns = 0; turns < 300 && model.acknowledged < batch; turns++)
                step(&model);
            assert_true(model.acknowledged >= batch);
        }
        end_checked(&model);
    }
}

/* Writes the first job again, without waiting for room; returns the record's bytes, or more. */
static size_t append_again(struct model *model)
{
    static char room[MODEL_ROOM];
    struct model_job *job = &model->jobs[0];
    job->version++;
    struct bytes body = model_body(model, job->seq, job->version, room);
    job->stored = model_emit(model, job, BYTES("text"), body);
    model_note(model, job);
    return job->stored.bytes;
}

/* A burst fills the three files that are ready, and one record more waits for the next file. */
static void fill_what_is_ready(struct model *model)
{
    struct store_stats stats;
    assert_int_equal(model_push(model), OK);
    model_settle(model);
    for (stats.segments = 1; stats.segments < 4; store_stats(model->store, &stats))
        (void)append_again(model);
}

/* Nobody has room for a whole file: that record must get the last few blocks. */
static void last_blocks(struct model *model)
{
    fill_what_is_ready(model);
    uint64_t batch = store_batch(model->store);
    for (int i = 0; i < 100; i++)
        step(model);
    assert_false(model->failed);
    assert_true(model->acknowledged >= batch);
    end_checked(model);
}

static void p8_what_waits_takes_the_last_blocks_of_a_disk(void **state)
{
    (void)state;
    for (uint64_t blocks = 2; blocks < 8; blocks++) {
        struct model model;
        open_full(&model, 8192 + 3 * MODEL_SEGMENT + blocks * 4096, 0);
        last_blocks(&model);
        open_full(&model, 0, 8192 + 3 * MODEL_SEGMENT + blocks * 4096);
        last_blocks(&model);
    }
}

/* Numbers that were given to what was not written must not be given again, so it is no clean end.
 */
static void p4_an_end_that_cannot_write_all_is_not_clean(void **state)
{
    (void)state;
    struct model model;
    struct manifest manifest;
    uint64_t len;
    open_full(&model, 8192 + 3 * MODEL_SEGMENT, 0);
    fill_what_is_ready(&model);
    assert_false(model.failed);
    model_close(&model);
    const char *slots = sim_disk_file(model.disk, MANIFEST_NAME, &len);
    for (unsigned slot = 0; slot < 2; slot++)
        assert_true(manifest_decode(slots + (size_t)slot * BLOCK, &manifest) != FORMAT_GOOD ||
                    !manifest.clean);
    sim_disk_capacity(model.disk, 0);
    assert_int_equal(model_open(&model), OK);
    model_check(&model);
    model_fini(&model);
}

/*
 * A batch is open in that file when the file is made half as large. More records come before the
 * disk has written those in front: they must not go beyond the new end.
 */
static void p8_an_open_batch_ends_with_its_file_that_was_made_smaller(void **state)
{
    (void)state;
    struct model model;
    open_full(&model, 8192 + 3 * MODEL_SEGMENT + 5 * DISK_ALIGN, 0);
    fill_what_is_ready(&model);
    step(&model);
    uint64_t open = store_batch(model.store);
    assert_true(model.acknowledged < open);
    for (size_t bytes = 0; bytes < MODEL_SEGMENT / 2;) {
        bytes += append_again(&model);
        store_valid(model.store);
    }
    assert_true(store_batch(model.store) > open); /* a whole file would have had room for all */
    sim_disk_capacity(model.disk, 0);
    end_checked(&model);
}

static struct model_job *pick_live(struct model *model)
{
    struct model_job *job;
    do
        job = &model->jobs[model_random(model, model->job_count)];
    while (!job->live);
    return job;
}

/*
 * Ends three quarters of the jobs, here and there in the log, many or few at a time, with a power
 * cut by chance. Then pushes must come back, whatever lies where.
 */
static bool room_comes_back(uint64_t seed)
{
    struct model model;
    model_init(&model, seed);
    model.options.body_max = 200u << model_random(&model, 8);
    model.options.segment_bytes = 2 * MODEL_SEGMENT; /* 15 ends fit into one, at worst */
    sim_disk_capacity(model.disk, (100 + model_random(&model, 80)) * DISK_ALIGN);
    assert_int_equal(model_open(&model), OK);
    assert_int_equal(fill(&model), ERR_DISK_FULL);
    uint64_t together = 1u << model_random(&model, 5);
    size_t left = model.job_count / 4;
    for (size_t live = model.job_count; live > left; live--) {
        model_end(&model, pick_live(&model));
        if (model_random(&model, together) == 0)
            step(&model);
    }
    model_settle(&model);
    assert_true(model.acknowledged >= store_batch(model.store)); /* each end went on */
    if (seed % 3 == 0) {
        sim_disk_cut_at(model.disk, sim_disk_points(model.disk));
        model_close(&model);
        model.store = NULL;
        sim_disk_power(model.disk, seed);
        assert_int_equal(model_open(&model), OK);
        model_check(&model);
    }
    for (int turns = 0; turns < 200; turns++)
        step(&model);
    assert_false(model.failed);
    bool back = model_push(&model) == OK;
    end_checked(&model);
    return back;
}

static void all_seeds(bool (*life)(uint64_t seed), const char *else_what)
{
    const char *asked = getenv("SIM_SEEDS");
    uint64_t seeds = asked ? strtoull(asked, NULL, 10) : SEEDS;
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        bool good = life(seed);
        if (!good)
            print_error("seed %llu: %s\n", (unsigned long long)seed, else_what);
        assert_true(good);
    }
}

static void p8_ending_three_quarters_lets_pushes_in_again(void **state)
{
    (void)state;
    all_seeds(room_comes_back, "no push came back");
}

/* A short turn; of `slow` that pass, one finds that a file was made, synced or removed. */
static void short_turn(struct model *model, uint64_t slow)
{
    model->now_us += 100 + (int64_t)model_random(model, 1500);
    store_turn(model->store, model->now_us);
    for (int lane = 0; lane < LANE_COUNT; lane++)
        if (model_random(model, lane == LANE_BACKGROUND ? slow : 3) == 0)
            (void)sim_disk_step(model->disk, (enum disk_lane)lane);
    store_poll(model->store);
}

/* Turns until all is durable. False: not within five seconds. */
static bool becomes_durable(struct model *model, uint64_t slow)
{
    uint64_t batch = store_batch(model->store);
    int64_t until_us = model->now_us + 5000000;
    while (model->acknowledged < batch && model->now_us < until_us)
        short_turn(model, slow);
    return model->acknowledged >= batch;
}

/* Ends a part of the jobs, each when the one before is durable. False: one never was. */
static bool end_alone(struct model *model, bool in_order, uint64_t slow, size_t quarters)
{
    size_t live = 0;
    for (size_t i = 0; i < model->job_count; i++)
        live += model->jobs[i].live;
    for (size_t i = 0; i < live * quarters / 4; i++) {
        struct model_job *job = in_order ? model->jobs : pick_live(model);
        while (!job->live)
            job++;
        model_end(model, job);
        if (!becomes_durable(model, slow))
            return false;
    }
    return true;
}

/*
 * Each end alone takes a block, and of bodies like these a segment can be full to the last one:
 * cleaning it takes as much room as it gives. While the disk is slow to remove files and to make
 * them, ends must not take the room without which nothing can be cleaned.
 */
static bool lone_ends_leave_room_to_clean(uint64_t seed)
{
    struct model model;
    model_init(&model, seed);
    model.options.body_max = 12000;
    model.body_bytes = 12000;
    model.options.segment_bytes = 256 * 1024;
    uint64_t slow = 1u << model_random(&model, 9);
    sim_disk_capacity(model.disk, (600 + model_random(&model, 400)) * DISK_ALIGN);
    assert_int_equal(model_open(&model), OK);
    while (model_push(&model) == OK)
        assert_true(becomes_durable(&model, slow));
    assert_true(store_full(model.store));
    bool back = end_alone(&model, seed % 2, slow, 3);
    int64_t until_us = model.now_us + 15000000;
    while (back && model_push(&model) != OK && model.now_us < until_us)
        short_turn(&model, slow);
    back = back && model.now_us < until_us;
    end_checked(&model);
    return back;
}

static void p8_lone_ends_leave_room_to_clean(void **state)
{
    (void)state;
    all_seeds(lone_ends_leave_room_to_clean, "ends or pushes stop");
}

static void p8_disk_use_follows_the_live_jobs(void **state)
{
    (void)state;
    struct model model;
    struct store_stats stats;
    model_init(&model, 4);
    model.options.body_max = 1000;
    assert_int_equal(model_open(&model), OK);
    for (int i = 0; i < 3000; i++) {
        assert_int_equal(model_push(&model), OK);
        struct model_job *job = &model.jobs[model.job_count - 1];
        step(&model);
        if (i % 200 != 0) {
            model_end(&model, job);
            model.job_count--;     /* the model is slow with many jobs … */
            model.entry_count = 0; /* … and this test needs no journal */
        }
        step(&model);
    }
    store_stats(model.store, &stats);
    assert_int_equal(stats.live_jobs, 15);
    assert_true(stats.disk_bytes <= 8 * MODEL_SEGMENT);
    assert_true(stats.checkpoints > 50);
    model_fini(&model);
}

static void a_record_larger_than_a_segment_has_one_of_its_own(void **state)
{
    (void)state;
    struct model model;
    model_init(&model, 4);
    assert_int_equal(model_open(&model), OK);
    struct bytes big = bytes_of(mem_zalloc(5 * MODEL_SEGMENT), 5 * MODEL_SEGMENT);
    memset((char *)(uintptr_t)big.at, 'x', big.len);
    struct model_job job = {.seq = 1, .live = true, .priority = 3};
    assert_int_equal(model_push(&model), OK);
    assert_int_equal(store_admit(model.store, big.len), OK);
    job.seq = 2;
    job.stored = model_emit(&model, &job, BYTES("text"), big);
    model.seq_next = 3;
    assert_int_equal(model_push(&model), OK);
    model_settle(&model);
    assert_int_equal(model.acknowledged, store_batch(model.store));
    struct bytes content_type = {0}, body = {0};
    struct arena arena = {0};
    model_close(&model);
    assert_int_equal(model_open(&model), OK);
    job = *model_find(&model, 2);
    struct body_place place = {2, job.stored.where, 4, big.len, 0, false};
    assert_int_equal(model_body_at(&model, &place, &arena, &content_type, &body), OK);
    assert_true(bytes_eq(body, big));
    arena_fini(&arena);
    mem_free((char *)(uintptr_t)big.at);
    model_fini(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(p8_cleaning_in_front_of_a_large_job_brings_its_room_back),
        cmocka_unit_test(p8_a_burst_is_refused_as_soon_as_there_is_no_room_for_it),
        cmocka_unit_test(p8_a_job_larger_than_max_bytes_is_refused),
        cmocka_unit_test(p8_a_job_larger_than_a_segment_is_refused_if_its_file_has_no_room),
        cmocka_unit_test(p8_a_job_larger_than_a_segment_does_not_stop_the_cleaner),
        cmocka_unit_test(p8_room_for_a_copy_is_that_of_the_job),
        cmocka_unit_test(p8_room_for_copies_is_kept_for_records_about_slices),
        cmocka_unit_test(a_job_larger_than_a_segment_is_refused_for_the_right_reason),
        cmocka_unit_test(p8_ends_of_many_small_jobs_have_room),
        cmocka_unit_test(p8_full_disk_refuses_pushes_and_ends_jobs),
        cmocka_unit_test(p8_max_bytes_refuses_pushes_and_ends_jobs),
        cmocka_unit_test(p8_room_given_back_ends_the_refusals),
        cmocka_unit_test(p8_a_store_opens_on_a_full_disk),
        cmocka_unit_test(p8_ends_go_on_for_bodies_of_every_size),
        cmocka_unit_test(p8_what_waits_takes_the_last_blocks_of_a_disk),
        cmocka_unit_test(p4_an_end_that_cannot_write_all_is_not_clean),
        cmocka_unit_test(p8_an_open_batch_ends_with_its_file_that_was_made_smaller),
        cmocka_unit_test(p8_ending_three_quarters_lets_pushes_in_again),
        cmocka_unit_test(p8_lone_ends_leave_room_to_clean),
        cmocka_unit_test(p8_disk_use_follows_the_live_jobs),
        cmocka_unit_test(a_record_larger_than_a_segment_has_one_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
