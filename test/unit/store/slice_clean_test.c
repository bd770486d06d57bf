/*
 * What slices cost in the background: the cleaner rests when there is nothing to gain, what is dead
 * goes, and jobs come back as there is memory for them.
 */
#include "slice_pace.h"
#include "store/log/cleaner_parts.h"
#include "store/slices/spill.h"

/* ---- what the log must say of slices ---- */

/* Jobs of so many bytes that are far for the whole test. */
static void begin_with(struct model *model, unsigned jobs, size_t body_bytes,
                       uint64_t segment_bytes)
{
    struct store_stats stats;
    far_model(model, 5);
    model->delay_us = INT64_C(1000) * MODEL_DELAY_US;
    model->body_bytes = body_bytes;
    model->options.segment_bytes = segment_bytes;
    assert_int_equal(model_open(model), OK);
    for (unsigned i = 0; i < jobs; i++) {
        assert_int_equal(model_push(model), OK);
        if (i % 8 == 0)
            model_turn(model);
    }
    settle_for(model, 5);
    store_stats(model->store, &stats);
    assert_true(stats.slice_jobs > jobs / 2);
}

/* Nobody has anything to write: the cleaner does not go round and round. */
static void assert_rests(struct model *model)
{
    struct store_stats before, after;
    store_stats(model->store, &before);
    settle_for(model, 3);
    store_stats(model->store, &after);
    print_message("%llu segments, %llu checkpoints, %llu records; later %llu, %llu, %llu\n",
                  (unsigned long long)before.segments, (unsigned long long)before.checkpoints,
                  (unsigned long long)before.records, (unsigned long long)after.segments,
                  (unsigned long long)after.checkpoints, (unsigned long long)after.records);
    assert_int_equal(after.checkpoints, before.checkpoints);
    assert_int_equal(after.records, before.records);
}

/* As many at a time as clients that are many send: those that stay in the log are in memory. */
static void far_jobs_that_come_fast_leave_the_log_as_fast(void **state)
{
    enum { ROUNDS = 480, AT_ONCE = 200, SEGMENT = 4 * 1024 * 1024 };
    (void)state;
    struct model model;
    struct store_stats stats;
    uint64_t most = 0;
    far_model(&model, 5);
    model.delay_us = INT64_C(1000) * MODEL_DELAY_US;
    model.body_bytes = 300;
    model.options.segment_bytes = SEGMENT;
    model.options.checkpoint_bytes = 2 * SEGMENT;
    assert_int_equal(model_open(&model), OK);
    for (unsigned turn = 0; turn < ROUNDS; turn++) {
        for (unsigned i = 0; i < AT_ONCE; i++)
            assert_int_equal(model_push(&model), OK);
        model_turn(&model);
        store_stats(model.store, &stats);
        most = stats.segments > most ? stats.segments : most;
    }
    assert_in_range(most, 3, 5); /* at one step a turn it grows all the time */
    model_fini(&model);
}

/* Few of them are as many bytes as thousands of small ones. */
static void a_turn_copies_little_of_large_far_jobs(void **state)
{
    enum { ROUNDS = 200, AT_ONCE = 12, SEGMENT = 4 * 1024 * 1024, LARGE = 28 * 1024 };
    enum { STEP_MAX = 2 * (256 * 1024 + LARGE), TURN_MAX = 512 * 1024 + STEP_MAX };
    (void)state;
    struct model model;
    struct store_stats stats;
    uint64_t step = 0, turn = 0;
    far_model(&model, 5);
    model.delay_us = INT64_C(1000) * MODEL_DELAY_US;
    model.body_bytes = LARGE;
    model.options.segment_bytes = SEGMENT;
    model.options.checkpoint_bytes = 2 * SEGMENT;
    assert_int_equal(model_open(&model), OK);
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < AT_ONCE; i++)
            assert_int_equal(model_push(&model), OK);
        store_turn(model.store, ++model.now_us);
        model_disk_works(&model);
        store_poll(model.store);
        const struct cleaner *cleaner = model.store->cleaner;
        step = cleaner->work.copied > step ? cleaner->work.copied : step;
        turn = cleaner->turn.copied > turn ? cleaner->turn.copied : turn;
    }
    store_stats(model.store, &stats);
    print_message("%llu jobs left; %llu bytes in a step, %llu in a turn\n",
                  (unsigned long long)stats.spilled_jobs, (unsigned long long)step,
                  (unsigned long long)turn);
    assert_true(stats.spilled_jobs > ROUNDS * AT_ONCE / 4);
    assert_true(step > 128 * 1024 && step <= STEP_MAX);
    assert_true(turn > step && turn <= TURN_MAX);
    model_fini(&model);
}

enum { A_SEGMENT = 256 * 1024 };

/* Far jobs that were gathered, until the disk's thread has something to do with them. */
static void begin_slice(struct model *model, size_t body_bytes, uint64_t segment_bytes)
{
    enum { JOBS = 12000 };
    far_model(model, 5);
    model->delay_us = INT64_C(1000) * MODEL_DELAY_US;
    model->body_bytes = body_bytes;
    model->options.segment_bytes = segment_bytes;
    assert_int_equal(model_open(model), OK);
    for (unsigned i = 0; i < JOBS && !spill_busy(model->store->cleaner->spill); i++) {
        assert_int_equal(model_push(model), OK);
        store_turn(model->store, ++model->now_us);
        if (spill_busy(model->store->cleaner->spill))
            break;
        model_disk_works(model);
        store_poll(model->store);
    }
    assert_true(spill_busy(model->store->cleaner->spill));
}

/* Jobs end and change while their slice is made, and the store is closed before it is there. */
static void p1_a_store_closes_while_a_slice_is_made(void **state)
{
    (void)state;
    for (int changes = 0; changes < 2; changes++) {
        struct model model;
        struct store_stats stats;
        begin_slice(&model, 300, A_SEGMENT);
        uint64_t bytes = spill_gathered_bytes(model.store->cleaner->spill);
        assert_true(bytes > 0);
        for (size_t i = 0; changes && i < model.job_count; i += 3)
            model_end(&model, &model.jobs[i]);
        for (int turn = 0; turn < 3; turn++) /* what is at the disk is nobody else's */
            store_turn(model.store, ++model.now_us);
        assert_int_equal(spill_gathered_bytes(model.store->cleaner->spill), bytes);
        store_stats(model.store, &stats);
        assert_int_equal(stats.slices, 0);
        model_fini_reopened(&model);
    }
}

/* No descriptor was free: the slice that was made is written later, as it is. */
static void a_slice_is_made_once_though_it_is_written_later(void **state)
{
    (void)state;
    struct model model;
    struct store_stats stats;
    begin_slice(&model, 300, A_SEGMENT);
    sim_disk_starve(model.disk, true);
    model_disk_works(&model);
    store_poll(model.store);
    sim_disk_starve(model.disk, false);
    assert_false(spill_busy(model.store->cleaner->spill));
    assert_false(store_failed(model.store));
    model_settle(&model);
    store_stats(model.store, &stats);
    assert_true(stats.slices > 0 && stats.spilled_jobs > 0);
    model_fini_reopened(&model);
}

/* Memory is kept from one run to the next: for ten seconds, or until it is short. What is left of
   it so much later: it is given back a MiB in each turn. */
static size_t memory_after_a_run(int64_t later_us,
                                 uint64_t (*memory_left)(struct store_callbacks *callbacks))
{
    enum { TURN_MAX = 1024 * 1024 + 64 * 1024 };
    struct model model;
    begin_slice(&model, 2000, 16 * A_SEGMENT);
    model.callbacks.memory_left = memory_left;
    do {
        model_disk_works(&model);
        store_poll(model.store);
        store_turn(model.store, ++model.now_us);
    } while (!cleaner_idle(model.store->cleaner));
    model.now_us += later_us;
    size_t before = mem_used(), used = before;
    bool wakes = store_next_us(model.store) <= model.now_us;
    assert_true(wakes || later_us < 10000000);
    do {
        before = used;
        store_turn(model.store, model.now_us);
        used = mem_used();
        assert_true(before <= used + TURN_MAX);
    } while (used < before);
    assert_true(cleaner_idle(model.store->cleaner));
    model_fini(&model);
    return used;
}

static void p8_memory_of_runs_is_given_back(void **state)
{
    enum { KEPT_US = 10 * 1000000, RECORDS = 3 * 1024 * 1024, IMAGE = 256 * 1024 };
    (void)state;
    size_t kept = memory_after_a_run(0, NULL);
    assert_true(memory_after_a_run(KEPT_US - 1000000, NULL) > kept - RECORDS / 2);
    assert_true(memory_after_a_run(KEPT_US, NULL) <= kept - RECORDS - IMAGE);
    assert_true(memory_after_a_run(0, no_memory_left) <= kept - RECORDS - IMAGE);
}

/* A clock that somebody looks at: each time so much later. */
static int64_t shown_us, look_us;
static unsigned looks;

static int64_t shown_clock(struct store_callbacks *callbacks)
{
    (void)callbacks;
    looks++;
    return shown_us += look_us;
}

/* How often the clock is looked at in a turn, at most: at its beginning, and after each step. */
static unsigned looks_of_cleaning(int64_t each_us)
{
    enum { ROUNDS = 150, AT_ONCE = 700, SEGMENT = 1024 * 1024 };
    struct model model;
    unsigned most = 0;
    far_model(&model, 5);
    model.callbacks.clock_us = shown_clock;
    model.delay_us = INT64_C(1000) * MODEL_DELAY_US;
    model.body_bytes = 300;
    model.options.segment_bytes = SEGMENT;
    model.options.checkpoint_bytes = 2 * SEGMENT;
    look_us = each_us;
    assert_int_equal(model_open(&model), OK);
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < AT_ONCE; i++)
            assert_int_equal(model_push(&model), OK);
        looks = 0;
        int64_t allowed_us = store_cleaning_us(model.store);
        store_turn(model.store, ++model.now_us);
        assert_in_range(allowed_us, 0, 2000);
        assert_true(looks <= 2 || allowed_us > 0); /* it has been announced */
        most = looks > most ? looks : most;
        model_disk_works(&model);
        store_poll(model.store);
    }
    model_fini(&model);
    return most;
}

static void cleaning_ends_for_a_turn_when_its_steps_take_long(void **state)
{
    (void)state;
    assert_true(looks_of_cleaning(0) > 5); /* by the estimate alone */
    assert_int_equal(looks_of_cleaning(1000), 1 + 2);
    assert_int_equal(looks_of_cleaning(10 * 1000), 1 + 1); /* and each turn does something */
}

static void the_cleaner_rests_when_changes_of_far_jobs_fill_segments(void **state)
{
    enum { JOBS = 3000, MOVE_BYTES = 64 };
    (void)state;
    struct model model;
    struct store_stats stats;
    begin_with(&model, JOBS, 300, MODEL_SEGMENT);
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < model.job_count; i++) {
            model_move(&model, &model.jobs[i]);
            if (i % 40 == 0)
                model_turn(&model);
        }
        settle_for(&model, 5);
        assert_rests(&model);
        store_stats(model.store, &stats);
        assert_true(stats.segments * MODEL_SEGMENT <=
                    5 * JOBS * MOVE_BYTES / 2 + 6 * MODEL_SEGMENT);
    }
    uint64_t records = stats.records;
    for (int i = 0; i < 40; i++) { /* some rounds of the log: each writes a change once */
        for (int k = 0; k < 40; k++) {
            assert_int_equal(model_push(&model), OK);
            model_end(&model, &model.jobs[model.job_count - 1]);
        }
        settle_for(&model, 1);
    }
    store_stats(model.store, &stats);
    print_message("%llu records\n", (unsigned long long)(stats.records - records));
    assert_true(stats.records - records < 40 * 40 * 2 + 12 * JOBS);
    model_close(&model);
    assert_int_equal(model_open(&model), OK);
    model_check(&model);
    settle_for(&model, 5);
    assert_rests(&model);
    model_fini(&model);
}

/* ---- who leaves the log ---- */

/* Pushes jobs of which one in `far_share` is far; of the others `near` live at a time. */
static void come_and_go(struct model *model, unsigned pushes, unsigned far_share, size_t near)
{
    size_t oldest = 0;
    for (unsigned i = 0; i < pushes; i++) {
        model->delay_us = i % far_share ? 1 : INT64_C(100000) * MODEL_DELAY_US;
        assert_int_equal(model_push(model), OK);
        for (; model->job_count - oldest > near; oldest++)
            if (oldest % far_share)
                model_end(model, &model->jobs[oldest]);
        if (i % 4 == 0)
            model_turn(model);
    }
    model_settle(model);
}

/* So such a store is one that an older laterd opens, whatever its horizon. */
static void a_log_below_the_checkpoint_keeps_its_far_jobs(void **state)
{
    (void)state;
    struct model model;
    struct store_stats stats;
    far_model(&model, 5);
    model.options.checkpoint_bytes = 64 * MODEL_SEGMENT;
    model.body_bytes = 200;
    assert_int_equal(model_open(&model), OK);
    come_and_go(&model, 2000, 20, 100);
    store_stats(model.store, &stats);
    assert_true(stats.checkpoints > 5 && stats.relocated_jobs > 50);
    assert_true(stats.spilled_jobs == 0 && stats.slices == 0);
    assert_false(manifest_has(model.store->manifest, FEATURE_SLICES));
    model_fini(&model);
}

/* Slices whose records are less than this part of a segment. */
static unsigned slices_below(const struct model *model, uint64_t part)
{
    const struct list *all = &model->store->slices->all;
    unsigned count = 0;
    for (const struct list *link = all->next; link != all; link = link->next) {
        const struct slice *slice = LIST_ENTRY(link, const struct slice, link);
        count += slice->live_bytes + slice->dead_bytes < model->options.segment_bytes / part;
    }
    return count;
}

/* Each segment has a far job or none. Nothing merges slices: each would be a file for thirty days.
 */
static void far_jobs_that_are_few_make_few_slices(void **state)
{
    enum { SLICES_FEW = 64, SEGMENT_SHARE = 64 };
    (void)state;
    struct model model;
    struct store_stats stats;
    far_model(&model, 5);
    model.body_bytes = 200;
    assert_int_equal(model_open(&model), OK);
    come_and_go(&model, 12000, 110, 700);
    store_stats(model.store, &stats);
    print_message("%llu checkpoints, %llu slices, %llu far jobs of %u\n",
                  (unsigned long long)stats.checkpoints, (unsigned long long)stats.slices,
                  (unsigned long long)stats.slice_jobs, 12000 / 110);
    assert_true(stats.checkpoints > 2 * SLICES_FEW);
    assert_true(stats.slices > SLICES_FEW / 4);
    assert_true(slices_below(&model, SEGMENT_SHARE) <= SLICES_FEW);
    model_fini(&model);
}

/* Each segment has some far jobs: enough for a slice while there are few. */
static void the_more_slices_there_are_the_larger_is_a_new_one(void **state)
{
    enum { FEW = 2, JOBS = 6000, FAR_EACH = 25 };
    (void)state;
    struct model model;
    struct store_stats stats;
    far_model(&model, 5);
    model.options.slices_few = FEW;
    model.body_bytes = 200;
    assert_int_equal(model_open(&model), OK);
    come_and_go(&model, JOBS, FAR_EACH, 700);
    store_stats(model.store, &stats);
    print_message("%llu checkpoints, %llu slices, %llu far jobs of %u; %u small ones\n",
                  (unsigned long long)stats.checkpoints, (unsigned long long)stats.slices,
                  (unsigned long long)stats.slice_jobs, JOBS / FAR_EACH, slices_below(&model, 16));
    assert_true(stats.slices >= 16 * FEW);
    assert_true(slices_below(&model, 16) <= 16 * FEW);
    model_fini(&model);
}

/* ---- what is dead ---- */

static size_t body_len(const struct model *model, const struct model_job *job)
{
    static char room[MODEL_ROOM];
    return model_body(model, job->seq, job->version, room).len;
}

/* More jobs live than are dead, but they are the small ones. */
static void small_jobs_do_not_pin_large_dead_ones(void **state)
{
    enum { LARGE = 1600, RECORD_BYTES = 64 };
    (void)state;
    for (int again = 0; again < 2; again++) {
        struct model model;
        struct store_stats stats;
        unsigned ended = 0, live = 0;
        uint64_t live_bytes = 0;
        begin_with(&model, 600, 0, MODEL_SEGMENT);
        for (size_t i = 0; i < model.job_count; i++) {
            struct model_job *job = &model.jobs[i];
            size_t len = body_len(&model, job);
            if (len > LARGE)
                model_end(&model, job);
            ended += len > LARGE;
            live += len <= LARGE;
            live_bytes += len <= LARGE ? len + RECORD_BYTES : 0;
        }
        assert_true(ended < live);
        if (again) { /* what is dead is known after a restart, too */
            model_close(&model);
            assert_int_equal(model_open(&model), OK);
            model_check(&model);
        }
        for (int i = 0; i < 20; i++) {
            settle_for(&model, 1);
            model.now_us += MODEL_DELAY_US;
        }
        store_stats(model.store, &stats);
        print_message("slices have %llu bytes, %llu of them live\n",
                      (unsigned long long)stats.slice_bytes, (unsigned long long)live_bytes);
        assert_true(stats.emptied_slices > 3);
        assert_true(stats.slice_bytes <= live_bytes * 5 / 2 + 2 * MODEL_SEGMENT);
        model_fini_reopened(&model);
    }
}

static const struct block_read *emptying(const struct slices *slices)
{
    return slices->load.emptying ? &slices->load.emptying->read : NULL;
}

/* What lives of a block is written again, so a long one takes the disk for longer. */
static void slices_are_emptied_at_a_pace_of_bytes(void **state)
{
    (void)state;
    static const size_t sizes[] = {LONG, 1000};
    for (int i = 0; i < 2; i++) {
        struct model model;
        begin_long(&model, sizes[i]);
        for (size_t job = 0; job < model.job_count; job++)
            if (job % 4)
                model_end(&model, &model.jobs[job]);
        struct pace pace = watch_pace(&model, emptying);
        print_message("%u blocks, %llu bytes\n", pace.blocks, (unsigned long long)pace.bytes);
        assert_true(pace.blocks > 10);
        assert_true((pace.bytes / pace.blocks > 3 * 64 * 1024) == (sizes[i] == LONG));
        model_fini_reopened(&model);
    }
}

/* ---- what cannot be read ---- */

/* Jobs come and end until the oldest segments have gone. */
static void roll_log(struct model *model, uint64_t past)
{
    struct store_stats stats;
    do {
        for (int i = 0; i < 40; i++) {
            assert_int_equal(model_push(model), OK);
            model_turn(model);
            model_end(model, &model->jobs[model->job_count - 1]);
        }
        settle_for(model, 1);
        store_stats(model->store, &stats);
    } while (stats.segment_first <= past);
}

/*
 * The log has changes of far jobs in a segment that the disk cannot read when it is cleaned: how
 * these jobs are is known, and is written again. `odd`: only some of the blocks are bad.
 */
static void clean_unread_changes(bool odd)
{
    struct model model;
    struct store_stats stats;
    char name[DISK_NAME_MAX];
    begin_with(&model, 300, 500, MODEL_SEGMENT);
    for (size_t i = 0; i < model.job_count; i++)
        if (model.jobs[i].live && !model.jobs[i].far)
            model_end(&model, &model.jobs[i]);
    model.delay_us = 1; /* what comes from now on is never far */
    settle_for(&model, 2);
    store_stats(model.store, &stats);
    roll_log(&model, stats.segment_tail);
    store_stats(model.store, &stats);
    uint64_t before = stats.segment_tail, number = before;
    while (number == before) { /* a new segment */
        assert_int_equal(model_push(&model), OK);
        model_turn(&model);
        model_end(&model, &model.jobs[model.job_count - 1]);
        model_turn(&model);
        store_stats(model.store, &stats);
        number = stats.segment_tail;
    }
    unsigned moved = 0;
    for (size_t i = 0; i < model.job_count && moved < 4; i += 7) {
        if (!model.jobs[i].live || !model.jobs[i].far)
            continue;
        model_move(&model, &model.jobs[i]);
        model_move(&model, &model.jobs[i]);
        moved++;
    }
    store_stats(model.store, &stats);
    assert_true(moved == 4 && stats.segment_tail == number);
    (void)snprintf(name, sizeof(name), "wal-%08x", (unsigned)number);
    sim_disk_bad(model.disk, name, 4096, odd ? 3 * 4096 : UINT64_MAX);
    roll_log(&model, number);
    assert_true(model.notices[STORE_UNREAD] > 0);
    assert_int_equal(model.notices[STORE_SET_ASIDE], 0); /* nothing is lost */
    sim_disk_bad(model.disk, name, 0, 0);
    for (int again = 0; again < 2; again++) {
        model_close(&model);
        assert_int_equal(model_open(&model), OK);
        model_check(&model);
        store_valid(model.store);
    }
    model_fini(&model);
}

static void p1_a_change_of_a_far_job_in_a_batch_that_cannot_be_read_is_kept(void **state)
{
    (void)state;
    clean_unread_changes(false);
    clean_unread_changes(true);
}

/* ---- nothing is written any more ---- */

static unsigned far_jobs(const struct model *model)
{
    unsigned far = 0;
    for (size_t i = 0; i < model->job_count; i++)
        far += model->jobs[i].live && model->jobs[i].far;
    return far;
}

static unsigned distant_jobs(const struct model *model)
{
    unsigned distant = 0;
    for (size_t i = 0; i < model->job_count; i++)
        distant += model->jobs[i].due_us > model->now_us + MODEL_DELAY_US;
    return distant;
}

/* Others in the same segments, which are copied, must not hold them up without a limit. */
static void far_jobs_leave_the_log_though_nothing_more_is_written(void **state)
{
    enum { JOBS = 1500, IN_6_S = 7 };
    (void)state;
    struct model model;
    struct store_stats before, after;
    for (int again = 0; again < 2; again++) {
        far_model(&model, 5);
        model.body_bytes = 300;
        model.options.horizon_us = again ? 0 : MODEL_DELAY_US / 10;
        assert_int_equal(model_open(&model), OK);
        for (unsigned i = 0; i < JOBS; i++) {
            model.delay_us = i % 4 ? 1 : INT64_C(1000) * MODEL_DELAY_US;
            assert_int_equal(model_push(&model), OK);
            if (i % 8 == 0)
                model_turn(&model);
        }
        if (again) { /* the horizon is new */
            settle_for(&model, 1);
            model_close(&model);
            model.options.horizon_us = MODEL_DELAY_US / 10;
            assert_int_equal(model_open(&model), OK);
        }
        store_stats(model.store, &before);
        settle_for(&model, 1); /* 6 s */
        store_stats(model.store, &after);
        assert_true(after.checkpoints >= before.checkpoints + IN_6_S); /* one each 2 s: 4 */
        settle_for(&model, 30);
        unsigned distant = distant_jobs(&model);
        print_message("%u far jobs of %u\n", far_jobs(&model), distant);
        assert_true(far_jobs(&model) > distant - distant / 10);
        assert_rests(&model);
        model_fini(&model);
    }
}

/* Of near jobs nothing leaves, and a start must not write all of them again. */
static void a_log_of_near_jobs_is_not_written_again_at_each_start(void **state)
{
    enum { JOBS = 1500 };
    (void)state;
    struct model model;
    struct store_stats before, after;
    far_model(&model, 5);
    model.body_bytes = 300;
    model.options.horizon_us = MODEL_DELAY_US;
    model.delay_us = 1;
    assert_int_equal(model_open(&model), OK);
    for (unsigned i = 0; i < JOBS; i++) {
        assert_int_equal(model_push(&model), OK);
        if (i % 8 == 0)
            model_turn(&model);
    }
    settle_for(&model, 30);
    for (int start = 0; start < 3; start++) {
        model_close(&model);
        assert_int_equal(model_open(&model), OK);
        model_check(&model);
        store_stats(model.store, &before);
        settle_for(&model, 30);
        store_stats(model.store, &after);
        print_message("%llu jobs relocated\n",
                      (unsigned long long)(after.relocated_jobs - before.relocated_jobs));
        assert_true(after.segments > 2);
        assert_true(after.relocated_jobs - before.relocated_jobs < JOBS / 2);
    }
    model_fini(&model);
}

/* Near jobs come and stay: hardly one leaves the log, and to look for such must not write them all
   again as they come. */
static void near_jobs_that_come_are_not_written_again_and_again(void **state)
{
    enum { JOBS = 4000, FAR_SHARE = 100 };
    (void)state;
    struct model model;
    struct store_stats stats;
    far_model(&model, 5);
    model.body_bytes = 300;
    model.options.horizon_us = MODEL_DELAY_US;
    assert_int_equal(model_open(&model), OK);
    for (unsigned i = 0; i < JOBS; i++) {
        model.delay_us = i % FAR_SHARE ? 1 : INT64_C(1000) * MODEL_DELAY_US;
        assert_int_equal(model_push(&model), OK);
        if (i % 8 == 0)
            model_turn(&model);
        if (i % 200 == 0)
            model_settle(&model);
    }
    store_stats(model.store, &stats);
    print_message("%llu jobs relocated, of %d\n", (unsigned long long)stats.relocated_jobs, JOBS);
    assert_true(stats.relocated_jobs < JOBS);
    model_fini(&model);
}

/* ---- memory ---- */

static bool far_room(struct store_callbacks *callbacks)
{
    struct model *model = LIST_ENTRY(callbacks, struct model, callbacks);
    return model->far_room > 0 && model->far_room--;
}

static void p8_far_jobs_wait_until_there_is_memory(void **state)
{
    enum { PORTION = 256, GIVEN = SLICE_LOADS_MAX + 4 }; /* of them four to read blocks */
    (void)state;
    struct model model;
    struct store_stats stats;
    begin_with(&model, 2000, 300, MODEL_SEGMENT);
    unsigned far = far_jobs(&model);
    model.callbacks.far_room = far_room;
    model.now_us += INT64_C(2000) * MODEL_DELAY_US;
    settle_for(&model, 2);
    assert_int_equal(far_jobs(&model), far);
    assert_true(store_far_waits(model.store));
    store_turn(model.store, model.now_us);
    assert_true(store_next_us(model.store) > model.now_us); /* it does not ask all the time */
    store_stats(model.store, &stats);
    assert_true(stats.far_waits && stats.far_late_jobs > far / 2 && stats.far_late_jobs <= far);
    assert_int_equal(model.notices[STORE_FAR_WAITS], 1);
    assert_non_null(strstr(model.noticed.text, "limits.memory_bytes"));
    model.far_room = GIVEN;
    settle_for(&model, 1);
    assert_true(far_jobs(&model) < far && far_jobs(&model) + GIVEN * PORTION >= far);
    assert_true(store_far_waits(model.store)); /* until all are there */
    model.far_room = UINT32_MAX;
    settle_for(&model, 20);
    assert_int_equal(far_jobs(&model), 0);
    assert_false(store_far_waits(model.store));
    store_stats(model.store, &stats);
    assert_true(!stats.far_waits && stats.far_late_jobs == 0);
    model_fini(&model);
}

/* A slice is being emptied, which can wait, when there is no memory any more. */
static void p8_they_do_not_wait_for_a_slice_that_is_emptied(void **state)
{
    (void)state;
    struct model model;
    begin_with(&model, 600, 300, MODEL_SEGMENT);
    model.callbacks.far_room = far_room;
    for (size_t i = 0; i < model.job_count; i++)
        if (i % 4)
            model_end(&model, &model.jobs[i]);
    model.far_room = 1; /* a block is chosen and read, and then there is none for its jobs */
    for (int i = 0; i < 20 && model.far_room; i++) {
        settle_for(&model, 1);
        model.now_us += MODEL_DELAY_US;
    }
    assert_int_equal(model.far_room, 0);
    assert_int_equal(model.notices[STORE_FAR_WAITS], 0);
    model.now_us += INT64_C(2000) * MODEL_DELAY_US;
    settle_for(&model, 2);
    assert_true(store_far_waits(model.store));
    assert_int_equal(model.notices[STORE_FAR_WAITS], 1);
    model.far_room = UINT32_MAX;
    settle_for(&model, 20);
    assert_int_equal(far_jobs(&model), 0);
    assert_false(store_far_waits(model.store));
    model_fini(&model);
}

/* The last far jobs end while they wait for memory: nothing is left that would come, and nobody is
   refused any more. */
static void p8_they_do_not_wait_when_all_have_ended(void **state)
{
    (void)state;
    struct model model;
    struct store_stats stats;
    begin_with(&model, 600, 300, MODEL_SEGMENT);
    model.callbacks.far_room = far_room;
    model.now_us += INT64_C(2000) * MODEL_DELAY_US;
    size_t last = 0;
    while (!model.jobs[last].far)
        last++;
    for (size_t i = 0; i < model.job_count; i++)
        if (i != last)
            model_end(&model, &model.jobs[i]);
    settle_for(&model, 1);
    assert_true(store_far_waits(model.store));
    store_turn(model.store, model.now_us); /* there is no room: it looks again in a while, … */
    model_end(&model, &model.jobs[last]);
    for (int i = 0; i < 20; i++) { /* … and in less the slice has gone */
        store_turn(model.store, model.now_us += 1000);
        model_disk_works(&model);
        store_poll(model.store);
    }
    store_stats(model.store, &stats);
    assert_int_equal(stats.slices, 0);
    settle_for(&model, 1);
    assert_false(store_far_waits(model.store));
    store_stats(model.store, &stats);
    assert_false(stats.far_waits);
    model_fini(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(far_jobs_that_come_fast_leave_the_log_as_fast),
        cmocka_unit_test(a_turn_copies_little_of_large_far_jobs),
        cmocka_unit_test(p1_a_store_closes_while_a_slice_is_made),
        cmocka_unit_test(a_slice_is_made_once_though_it_is_written_later),
        cmocka_unit_test(p8_memory_of_runs_is_given_back),
        cmocka_unit_test(cleaning_ends_for_a_turn_when_its_steps_take_long),
        cmocka_unit_test(the_cleaner_rests_when_changes_of_far_jobs_fill_segments),
        cmocka_unit_test(a_log_below_the_checkpoint_keeps_its_far_jobs),
        cmocka_unit_test(far_jobs_that_are_few_make_few_slices),
        cmocka_unit_test(the_more_slices_there_are_the_larger_is_a_new_one),
        cmocka_unit_test(small_jobs_do_not_pin_large_dead_ones),
        cmocka_unit_test(slices_are_emptied_at_a_pace_of_bytes),
        cmocka_unit_test(p1_a_change_of_a_far_job_in_a_batch_that_cannot_be_read_is_kept),
        cmocka_unit_test(far_jobs_leave_the_log_though_nothing_more_is_written),
        cmocka_unit_test(a_log_of_near_jobs_is_not_written_again_at_each_start),
        cmocka_unit_test(near_jobs_that_come_are_not_written_again_and_again),
        cmocka_unit_test(p8_far_jobs_wait_until_there_is_memory),
        cmocka_unit_test(p8_they_do_not_wait_for_a_slice_that_is_emptied),
        cmocka_unit_test(p8_they_do_not_wait_when_all_have_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
