/*
 * Blocks of far jobs are read several at a time: in whatever order the reads end, jobs come in that
 * of their due times, and only a block that the disk cannot read is overtaken.
 */
#include "built_slice.h"
#include "slice_bed.h"
#include "test/unit/support/every.h"

enum {
    LIVES = 50,
    SLICES = 12,
    JOBS = 16,
    JOB_BYTES = 20000, /* four jobs in a block, about */
    READS = SLICE_LOADS_MAX,
    TURN_US = 1000,
    TURNS_MAX = 20000,
    BYTES_MAX = 512 * 1024, /* of all blocks under way */
};

#define HOUR_US (INT64_C(3600) * 1000000)

/* What arrived, and the most that was under way. */
struct arrivals {
    struct model model;
    int64_t block_us; /* due time of the first job of the block that the last job was in */
    unsigned count, out_of_order, early; /* early: before all blocks in front were loaded */
    unsigned reads_most;
    size_t bytes_most;
};

static uint32_t block_of(const struct slice *slice, uint64_t where)
{
    uint32_t block = 0;
    while (block + 1 < slice->head.blocks &&
           (uint64_t)slice->fences[block + 1].offset * BLOCK <= where_offset(where))
        block++;
    return block;
}

static bool arrive(struct store_callbacks *callbacks, const struct event *event)
{
    struct arrivals *seen = LIST_ENTRY(callbacks, struct arrivals, model.callbacks);
    uint64_t where = event->record.where;
    const struct slice *slice =
        segments_find(seen->model.store->segments, where_segment(where))->slice;
    uint32_t block = block_of(slice, where);
    int64_t block_us = slice->fences[block].due_us;
    bool arrived = model_arrive(callbacks, event);
    seen->count += arrived;
    seen->out_of_order += block_us < seen->block_us;
    seen->early += block > slice->loaded;
    seen->block_us = block_us;
    return arrived;
}

static void begin(struct arrivals *seen, uint64_t shuffle)
{
    *seen = (struct arrivals){.block_us = INT64_MIN};
    model_init(&seen->model, 2);
    model_use_slices(&seen->model);
    seen->model.callbacks.arrive = arrive;
    seen->model.options.horizon_us = HOUR_US;
    seen->model.options.checkpoint_bytes = UINT64_C(1) << 40;
    seen->model.options.segment_bytes = UINT64_C(1) << 20;
    sim_disk_shuffle_reads(seen->model.disk, shuffle);
    assert_int_equal(model_open(&seen->model), OK);
}

/* One read ends in a turn. */
static void turn(struct arrivals *seen)
{
    struct model *model = &seen->model;
    model->now_us += TURN_US;
    store_turn(model->store, model->now_us);
    if (valid_now())
        store_valid(model->store);
    unsigned reads = sim_disk_waiting(model->disk, LANE_READ);
    size_t bytes = model->store->slices->load.bytes;
    seen->reads_most = reads > seen->reads_most ? reads : seen->reads_most;
    seen->bytes_most = bytes > seen->bytes_most ? bytes : seen->bytes_most;
    (void)sim_disk_step(model->disk, LANE_COMMIT);
    (void)sim_disk_step(model->disk, LANE_BACKGROUND);
    (void)sim_disk_step(model->disk, LANE_READ);
    store_poll(model->store);
}

/* Slices that overlap. */
static void add_slices(struct arrivals *seen, size_t job_bytes)
{
    struct model *model = &seen->model;
    for (int i = 0; i < SLICES; i++)
        (void)build_slice(model, model->now_us + HOUR_US + (i * 7 % SLICES) * INT64_C(100000000),
                          JOBS, job_bytes);
}

static void load_all(struct arrivals *seen)
{
    seen->model.now_us += 100 * HOUR_US;
    for (unsigned turns = 0; seen->count < SLICES * JOBS; turns++) {
        assert_true(turns < TURNS_MAX);
        turn(seen);
    }
}

static void jobs_come_in_the_order_of_their_blocks_however_the_reads_end(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= sim_lives(LIVES); seed++) {
        struct arrivals seen;
        begin(&seen, seed);
        add_slices(&seen, JOB_BYTES);
        load_all(&seen);
        assert_int_equal(seen.out_of_order, 0);
        assert_int_equal(seen.early, 0);
        assert_int_equal(seen.reads_most, READS);
        model_fini(&seen.model);
    }
}

/* Those behind a slice's first block. */
static uint64_t later_blocks(const struct slices *slices)
{
    uint64_t bytes = 0;
    for (struct list *at = slices->all.next; at != &slices->all; at = at->next)
        bytes += slice_of(at)->head.data_end - slice_block_end(slice_of(at), 0);
    return bytes;
}

static uint64_t loose_reads(struct model *model)
{
    uint64_t reads = 0;
    char name[DISK_NAME_MAX];
    const struct list *all = &model->store->slices->all;
    for (struct list *at = all->next; at != all; at = at->next) {
        slice_name(slice_of(at)->head.number, name);
        reads += sim_disk_loose_reads(model->disk, name);
    }
    return reads;
}

/* By the system it would be guesses: of blocks that are due in a week, too. */
static void a_slice_is_read_ahead_as_far_as_its_blocks_are_due(void **state)
{
    (void)state;
    struct arrivals seen;
    begin(&seen, 1);
    add_slices(&seen, JOB_BYTES);
    struct model *model = &seen.model;
    uint64_t fetched = sim_disk_fetched(model->disk), behind = later_blocks(model->store->slices);
    model->now_us += HOUR_US / 2 + 1000000; /* the first block of one slice is due */
    for (int i = 0; i < 10; i++)
        turn(&seen);
    assert_in_range(seen.count, 1, JOBS / 2);
    assert_int_equal(sim_disk_fetched(model->disk), fetched);
    struct list *first = model->store->slices->all.next; /* the slice of i = 0 */
    behind -= slice_of(first)->fences[2].offset * BLOCK - slice_block_end(slice_of(first), 0);
    load_all(&seen);
    assert_int_equal(sim_disk_fetched(model->disk), fetched + behind);
    assert_int_equal(loose_reads(model), 0);
    model_fini(model);
}

static void p8_blocks_under_way_have_a_bounded_number_of_bytes(void **state)
{
    (void)state;
    static const size_t sizes[] = {JOB_BYTES, 200 * 1024, 600 * 1024};
    static const unsigned reads[] = {READS, 2, 1};
    for (unsigned i = 0; i < 3; i++) {
        struct arrivals seen;
        begin(&seen, i);
        add_slices(&seen, sizes[i]);
        load_all(&seen);
        assert_int_equal(seen.reads_most, reads[i]);
        assert_true(seen.bytes_most <= BYTES_MAX || reads[i] == 1);
        assert_int_equal(seen.out_of_order, 0);
        assert_int_equal(seen.model.store->slices->load.bytes, 0);
        model_fini(&seen.model);
    }
}

static uint64_t little_memory_left(struct store_callbacks *callbacks)
{
    (void)callbacks;
    return BYTES_MAX - 1;
}

/* Else they could have the memory that their own jobs need, and wait for it without end. */
static void p8_one_block_is_under_way_while_memory_is_short(void **state)
{
    (void)state;
    struct arrivals seen;
    begin(&seen, 1);
    seen.model.callbacks.memory_left = little_memory_left;
    add_slices(&seen, JOB_BYTES);
    load_all(&seen);
    assert_int_equal(seen.reads_most, 1);
    assert_int_equal(seen.out_of_order, 0);
    model_fini(&seen.model);
}

static void make_bad(struct model *model, const struct slice *slice, uint32_t block)
{
    char name[DISK_NAME_MAX];
    slice_name(slice->head.number, name);
    uint64_t start = (uint64_t)slice->fences[block].offset * BLOCK;
    sim_disk_bad(model->disk, name, start, start + 1);
}

/* It counts as a block that was not loaded, and the others of its slice are loaded. */
static void a_block_that_cannot_be_read_holds_up_no_other(void **state)
{
    enum { AFTER_US = 1000 * 1000 };
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct arrivals seen;
        begin(&seen, seed);
        struct model *model = &seen.model;
        struct slice *bad = build_slice(model, model->now_us + HOUR_US, JOBS, JOB_BYTES);
        add_slices(&seen, JOB_BYTES);
        make_bad(model, bad, 0);
        model->now_us += 100 * HOUR_US;
        int64_t start_us = model->now_us;
        while (seen.count < SLICES * JOBS + JOBS - bad->fences[0].jobs) {
            turn(&seen);
            assert_true(model->now_us < start_us + AFTER_US);
            assert_false(slice_is_loaded(bad, 0));
        }
        turn(&seen);
        assert_true(slice_is_unread(bad, 0) && bad->loaded == bad->head.blocks);
        assert_int_equal(seen.early, 0);
        assert_int_equal(model->notices[STORE_UNREAD], 0);
        while (model->now_us < start_us + 5 * AFTER_US)
            turn(&seen);
        assert_int_equal(model->notices[STORE_UNREAD], 1);
        sim_disk_bad(model->disk, "", 0, 0);
        for (int i = 0; i < 40 && seen.count < SLICES * JOBS + JOBS; i++) {
            model->now_us += AFTER_US;
            turn(&seen);
        }
        assert_int_equal(seen.count, SLICES * JOBS + JOBS);
        turn(&seen);
        assert_int_equal(bad->unread_count, 0);
        model_fini(model);
    }
}

/* So many blocks of the slice could not be read. */
static void until_unread(struct arrivals *seen, const struct slice *bad, uint32_t blocks)
{
    for (int i = 0; bad->unread_count < blocks; i++) {
        assert_true(i < 10000);
        turn(seen);
    }
}

/* Two blocks of a slice fail, in either order; one can be read soon, the other never. */
static void a_block_that_stays_unread_beside_one_that_does_not_is_reported(void **state)
{
    enum { LATER_US = 120 * 1000 * 1000, STEP_US = 100 * 1000 };
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct arrivals seen;
        begin(&seen, seed);
        struct model *model = &seen.model;
        struct slice *bad = build_slice(model, model->now_us + HOUR_US, JOBS, JOB_BYTES);
        char name[DISK_NAME_MAX];
        slice_name(bad->head.number, name);
        sim_disk_bad(model->disk, name, (uint64_t)bad->fences[0].offset * BLOCK,
                     (uint64_t)bad->fences[1].offset * BLOCK + 1);
        model->now_us += 100 * HOUR_US;
        until_unread(&seen, bad, 2);
        make_bad(model, bad, 1);
        for (int64_t until_us = model->now_us + LATER_US; model->now_us < until_us;) {
            model->now_us += STEP_US;
            turn(&seen);
        }
        assert_int_equal(bad->unread_count, 1);
        assert_int_equal(model->notices[STORE_UNREAD], 1);
        model_fini(model);
    }
}

/* A block that cannot be read and of which nothing lives is not tried again. */
static void an_unread_block_whose_jobs_have_ended_is_done_with(void **state)
{
    (void)state;
    struct arrivals seen;
    begin(&seen, 0);
    struct model *model = &seen.model;
    struct slice *bad = build_slice(model, model->now_us + HOUR_US, JOBS, JOB_BYTES);
    make_bad(model, bad, 1);
    model->now_us += 100 * HOUR_US;
    until_unread(&seen, bad, 1);
    for (size_t i = 0; i < model->job_count; i++) {
        struct model_job *job = &model->jobs[i];
        if (block_of(bad, job->stored.where) != 1)
            continue;
        job->far = false; /* what its end says of it is known: it need not be read */
        model_end(model, job);
    }
    for (int i = 0; i < 40; i++) {
        model->now_us += 1000 * 1000;
        turn(&seen);
    }
    assert_int_equal(bad->unread_count, 0);
    assert_int_equal(bad->loaded, bad->head.blocks);
    model_fini(model);
}

/* No block of the slice of some far job can be read for a while. */
static void make_some_slice_bad(struct model *model)
{
    const struct model_job *job = model_pick(model);
    char name[DISK_NAME_MAX];
    for (int tries = 0; tries < 100 && job && !(job->far && model_state(job) == JOB_DELAYED);
         tries++)
        job = model_pick(model);
    if (!job || !job->far)
        return;
    slice_name(where_segment(job->stored.where), name);
    sim_disk_bad(model->disk, name, DISK_ALIGN, UINT64_MAX);
}

static unsigned unread_blocks(const struct model *model)
{
    const struct list *all = &model->store->slices->all;
    unsigned count = 0;
    for (const struct list *link = all->next; link != all; link = link->next)
        count += LIST_ENTRY(link, const struct slice, link)->unread_count;
    return count;
}

/* Jobs end and change, slices are made, emptied and removed while blocks are read, in any order, or
   cannot be read. */
static void p2_p5_lives_in_which_reads_of_blocks_end_in_any_order(void **state)
{
    (void)state;
    uint64_t loaded = 0, emptied = 0, unread = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct model model;
        struct store_stats stats;
        far_model(&model, seed);
        sim_disk_cold(model.disk, seed % 2);
        sim_disk_shuffle_reads(model.disk, seed);
        assert_int_equal(model_open(&model), OK);
        for (int round = 0; round < 3; round++) {
            model_work(&model, TURNS);
            model.now_us += model.delay_us / 2; /* much is due at once */
            make_some_slice_bad(&model);
            model_work(&model, TURNS / 2);
            unread += unread_blocks(&model);
            sim_disk_bad(model.disk, "", 0, 0);
            if (round == 1) {
                model_close(&model);
                sim_disk_kill(model.disk);
                assert_int_equal(model_open(&model), OK);
                model_check(&model);
            }
        }
        store_stats(model.store, &stats);
        loaded += stats.loaded_jobs;
        emptied += stats.emptied_slices;
        for (int i = 0; i < 10; i++) { /* all of them are due, and unread blocks tried again */
            model.now_us += INT64_C(100) * MODEL_DELAY_US;
            model_settle(&model);
        }
        assert_int_equal(far_of(&model, JOB_DELAYED), 0);
        model_fini_reopened(&model);
    }
    print_message("loaded %llu, emptied %llu, unread %llu\n", (unsigned long long)loaded,
                  (unsigned long long)emptied, (unsigned long long)unread);
    assert_true(loaded > 200 && emptied > 10 && unread > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_come_in_the_order_of_their_blocks_however_the_reads_end),
        cmocka_unit_test(a_slice_is_read_ahead_as_far_as_its_blocks_are_due),
        cmocka_unit_test(p8_blocks_under_way_have_a_bounded_number_of_bytes),
        cmocka_unit_test(p8_one_block_is_under_way_while_memory_is_short),
        cmocka_unit_test(a_block_that_cannot_be_read_holds_up_no_other),
        cmocka_unit_test(a_block_that_stays_unread_beside_one_that_does_not_is_reported),
        cmocka_unit_test(an_unread_block_whose_jobs_have_ended_is_done_with),
        cmocka_unit_test(p2_p5_lives_in_which_reads_of_blocks_end_in_any_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
