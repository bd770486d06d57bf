/*
 * What one turn of the store may cost: bytes written by the main thread itself, files held open,
 * and what happens when no descriptor is left.
 */
#include "store/log/log_parts.h"
#include "store_model.h"
#include "store_work.h"

enum { MIB = 1024 * 1024, BACKLOG_JOBS = 3000, LARGE_COMMIT = 32 * 1024 };

static uint64_t bytes_written(const struct model *model)
{
    struct store_stats stats;
    store_stats(model->store, &stats);
    return stats.bytes_written;
}

/* All that is pushed in one turn waits for the disk. */
static void push_backlog(struct model *model, unsigned jobs)
{
    for (unsigned i = 0; i < jobs; i++)
        assert_int_equal(model_push(model), OK);
}

static void open_quick(struct model *model, uint64_t segment_bytes)
{
    model_init(model, 1);
    model->options.segment_bytes = segment_bytes;
    model->options.inline_us = 2000; /* the simulated disk is quicker */
    assert_int_equal(model_open(model), OK);
    model_settle(model);
}

static void a_turn_writes_at_most_256_kib_by_itself(void **state)
{
    (void)state;
    struct model model;
    open_quick(&model, 16 * MIB);
    push_backlog(&model, BACKLOG_JOBS);
    model_settle(&model);
    push_backlog(&model, BACKLOG_JOBS); /* into a segment whose header is written */
    uint64_t backlog = log_backlog_bytes(model.store->log);
    assert_true(backlog > 4 * MIB);
    while (model.acknowledged < store_batch(model.store)) {
        uint64_t before = bytes_written(&model);
        store_turn(model.store, ++model.now_us);
        assert_true(bytes_written(&model) - before <= LOG_INLINE_BYTES);
        (void)sim_disk_step(model.disk, LANE_COMMIT); /* the rest is the thread's */
        store_poll(model.store);
    }
    model_fini(&model);
}

/* Batches wait for the header of their segment, which the thread writes: when it has, the turn has
   just begun, and will write what comes until it ends. */
static void a_turn_writes_nothing_at_its_beginning(void **state)
{
    enum { ROUNDS = 40, JOBS = 20 };
    (void)state;
    struct model model;
    unsigned waited = 0;
    model_init(&model, 1);
    model.options.segment_bytes = 64 * 1024;
    model.options.inline_us = 2000; /* the simulated disk is quicker */
    assert_int_equal(model_open(&model), OK);
    for (unsigned i = 0; i < ROUNDS; i++) {
        push_backlog(&model, JOBS);
        store_turn(model.store, ++model.now_us);
        while (log_busy(model.store->log) || segments_making(model.store->segments)) {
            uint64_t before = bytes_written(&model), batches = model.acknowledged;
            bool commits = sim_disk_step(model.disk, LANE_COMMIT);
            if (!commits)
                (void)sim_disk_step(model.disk, LANE_BACKGROUND);
            store_poll(model.store);
            assert_true(model.acknowledged - batches <= commits);
            assert_true(bytes_written(&model) - before <= LOG_INLINE_BYTES);
            waited += commits && model.acknowledged == batches;
        }
    }
    assert_true(waited > 1);
    model_fini(&model);
}

static void a_backlog_is_cut_into_batches_of_256_kib(void **state)
{
    (void)state;
    struct model model;
    open_quick(&model, 16 * MIB);
    push_backlog(&model, BACKLOG_JOBS);
    store_valid(model.store); /* each batch is */
    model_settle(&model);
    struct store_stats stats;
    store_stats(model.store, &stats);
    assert_true(stats.batches > 16);
    assert_int_equal(model.acknowledged, store_batch(model.store));
    model_fini(&model);
}

/*
 * What clients wait for is written after what the cleaner has copied before: while the disk stands
 * still, it copies no more than a batch, and the one that was begun (decision 115).
 */
static void copies_hold_up_a_commit_by_two_batches_at_most(void **state)
{
    enum { JOBS = 3000, BYTES_EACH = 8000, TURNS = 200 };
    (void)state;
    struct model model;
    struct store_stats stats = {0};
    open_quick(&model, 4 * MIB);
    model.body_bytes = BYTES_EACH;
    push_backlog(&model, JOBS);
    model_settle(&model);
    for (size_t i = JOBS / 4; i < JOBS; i++) /* then the log is worth cleaning */
        model_end(&model, &model.jobs[i]);
    while (stats.relocated_jobs == 0) {
        store_turn(model.store, ++model.now_us);
        model_disk_works(&model);
        store_poll(model.store);
        store_stats(model.store, &stats);
    }
    for (unsigned i = 0; i < TURNS; i++) {
        store_turn(model.store, ++model.now_us);
        while (sim_disk_step(model.disk, LANE_READ) || sim_disk_step(model.disk, LANE_BACKGROUND))
            store_poll(model.store);
        assert_true(log_backlog_copies(model.store->log) <= 2 * BATCH_FULL);
    }
    uint64_t relocated_jobs = stats.relocated_jobs;
    store_stats(model.store, &stats);
    assert_in_range(stats.relocated_jobs - relocated_jobs, 1, JOBS / 8); /* there are more */
    model_settle(&model);
    model_fini(&model);
}

/* What the next turn writes by itself, of so many new jobs. */
static uint64_t written_here(struct model *model, unsigned jobs)
{
    push_backlog(model, jobs);
    uint64_t before = bytes_written(model);
    store_turn(model->store, ++model->now_us);
    uint64_t here = bytes_written(model) - before;
    while (model->acknowledged < store_batch(model->store)) { /* and nothing more */
        (void)sim_disk_step(model->disk, LANE_COMMIT);
        store_poll(model->store);
        store_turn(model->store, ++model->now_us);
    }
    return here;
}

static void the_commits_after_a_slow_one_are_the_threads(void **state)
{
    enum { HALF_US = 1000, LARGE_JOBS = 40, THREADS = 4 };
    (void)state;
    struct model model;
    open_quick(&model, 16 * MIB);
    push_backlog(&model, 1);
    model_settle(&model); /* the segment's header is written */
    sim_disk_takes(model.disk, HALF_US - 1);
    for (unsigned i = 0; i < 8; i++)
        assert_true(written_here(&model, i % 2 ? 1 : LARGE_JOBS) > 0);
    sim_disk_takes(model.disk, HALF_US);
    assert_true(written_here(&model, 1) > 0); /* nobody knew */
    sim_disk_takes(model.disk, 1);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(written_here(&model, i % 2 ? 1 : LARGE_JOBS), 0);
    assert_true(written_here(&model, LARGE_JOBS) > LARGE_COMMIT);
    sim_disk_takes(model.disk, 20 * HALF_US);
    assert_true(written_here(&model, 1) > 0);
    for (unsigned i = 0; i < 4 * THREADS; i++) /* as long as it is slow */
        assert_int_equal(written_here(&model, 1), 0);
    assert_int_equal(model.acknowledged, store_batch(model.store));
    model_fini(&model);
}

static void p7_a_missing_descriptor_for_a_new_segment_is_no_failure(void **state)
{
    (void)state;
    struct model model;
    model_init(&model, 2);
    assert_int_equal(model_open(&model), OK);
    model_settle(&model);
    sim_disk_starve(model.disk, true);
    for (int i = 0; i < 300; i++) { /* many segments' worth */
        assert_int_equal(model_push(&model), OK);
        model_turn(&model);
    }
    model_settle(&model);
    assert_false(model.failed);
    assert_true(model.acknowledged < store_batch(model.store)); /* and nothing is said to be safe */
    assert_true(store_next_us(model.store) <=
                model.now_us + LOG_REOPEN_US); /* no spinning either */
    assert_true(store_next_us(model.store) > model.now_us - 30000);
    sim_disk_starve(model.disk, false);
    model_settle(&model);
    assert_int_equal(model.acknowledged, store_batch(model.store));
    model_fini_reopened(&model);
}

/* Spares are made, closed for others, and cannot be opened again when they are to be written. */
static void p7_a_missing_descriptor_for_a_commit_is_no_failure(void **state)
{
    (void)state;
    struct model model;
    model_init(&model, 2);
    model.options.files_max = FILES_OPEN_MIN;
    assert_int_equal(model_open(&model), OK);
    model_settle(&model);
    push_backlog(&model, 200);
    for (int i = 0; i < 100; i++) { /* all files are made, nothing is written */
        store_turn(model.store, ++model.now_us);
        (void)sim_disk_step(model.disk, LANE_BACKGROUND);
        store_poll(model.store);
    }
    sim_disk_starve(model.disk, true);
    model_settle(&model);
    assert_false(model.failed);
    assert_true(model.acknowledged < store_batch(model.store));
    assert_true(store_next_us(model.store) <= model.now_us + LOG_REOPEN_US);
    sim_disk_starve(model.disk, false);
    model_settle(&model);
    assert_int_equal(model.acknowledged, store_batch(model.store));
    model_fini(&model);
}

static void no_more_files_are_open_than_was_said(void **state)
{
    (void)state;
    struct model model;
    model_init(&model, 4);
    model.options.files_max = 5;
    assert_int_equal(model_open(&model), OK);
    for (int i = 0; i < 400; i++) {
        assert_int_equal(model_push(&model), OK);
        if (i % 7 == 0)
            model_read(&model, model_pick(&model));
        model_turn(&model);
        assert_true(sim_disk_files_open(model.disk) <= 5 + 2); /* the manifest, one being made */
    }
    model_settle(&model);
    struct store_stats stats;
    store_stats(model.store, &stats);
    assert_true(stats.segments > 15);
    for (size_t i = 0; i < model.job_count; i++)
        model_read(&model, &model.jobs[i]);
    assert_true(sim_disk_files_open(model.disk) <= 5 + 1);
    assert_true(store_descriptors(5) >= 5 + 2);
    model_fini(&model);
}

/* A read of some segment's file. */
struct use {
    struct segments *segments;
    struct segment *segment;
    struct disk_op op;
    char block[DISK_ALIGN];
};

static void use_ended(struct disk_op *op)
{
    struct use *use = op->owner;
    assert_int_equal(op->err, OK);
    segments_read_end(use->segments, use->segment, op);
}

static void use_file(struct model *model, struct segment *segment)
{
    struct use use = {.segments = model->store->segments, .segment = segment};
    use.op = (struct disk_op){
        .into = use.block, .len = sizeof(use.block), .done = use_ended, .owner = &use};
    segments_read(use.segments, segment, &use.op);
    while (segment->reading > 0) {
        (void)sim_disk_step(model->disk, LANE_READ);
        store_poll(model->store);
    }
    assert_non_null(segment->file);
}

/* By a thread's reads alone, as of blocks of far jobs. */
static void a_file_that_is_read_again_and_again_stays_open(void **state)
{
    (void)state;
    struct model model;
    model_init(&model, 4);
    model.options.files_max = 5;
    assert_int_equal(model_open(&model), OK);
    push_backlog(&model, 400);
    model_settle(&model);
    struct segment *first = segments_first(model.store->segments), *other = first;
    use_file(&model, first);
    for (int i = 0; i < 10; i++) {
        other = segments_after(model.store->segments, other);
        assert_non_null(other);
        use_file(&model, other);
        assert_non_null(first->file);
        use_file(&model, first);
    }
    model_fini(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_turn_writes_at_most_256_kib_by_itself),
        cmocka_unit_test(a_turn_writes_nothing_at_its_beginning),
        cmocka_unit_test(a_backlog_is_cut_into_batches_of_256_kib),
        cmocka_unit_test(copies_hold_up_a_commit_by_two_batches_at_most),
        cmocka_unit_test(the_commits_after_a_slow_one_are_the_threads),
        cmocka_unit_test(p7_a_missing_descriptor_for_a_new_segment_is_no_failure),
        cmocka_unit_test(p7_a_missing_descriptor_for_a_commit_is_no_failure),
        cmocka_unit_test(no_more_files_are_open_than_was_said),
        cmocka_unit_test(a_file_that_is_read_again_and_again_stays_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
