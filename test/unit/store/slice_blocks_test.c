/*
 * Which blocks of slices are read: those that the disk could not read again and again, and after a
 * start only those from which a job has to come.
 */
#include "slice_bed.h"
#include "store/slices/slices_parts.h"

static uint32_t slice_with(const struct model_job *job)
{
    return (uint32_t)(job->stored.where >> 32);
}

static void make_bad(struct model *model, uint32_t number, uint64_t start, uint64_t end)
{
    char name[DISK_NAME_MAX];
    (void)snprintf(name, sizeof(name), "slice-%08x", number);
    sim_disk_bad(model->disk, name, start, end);
}

static unsigned far_jobs(const struct model *model, uint32_t not_in)
{
    unsigned far = 0;
    for (size_t i = 0; i < model->job_count; i++)
        far += model->jobs[i].live && model->jobs[i].far && slice_with(&model->jobs[i]) != not_in;
    return far;
}

static uint32_t some_slice(const struct model *model)
{
    for (size_t i = 0; i < model->job_count; i++)
        if (model->jobs[i].far)
            return slice_with(&model->jobs[i]);
    fail();
    return 0;
}

/* Six seconds, in which the store must not want a turn at once each time. */
static void settle_idle(struct model *model)
{
    model_settle(model);
    assert_true(store_next_us(model->store) > model->now_us);
}

static void a_block_is_read_when_the_disk_is_well_again(void **state)
{
    (void)state;
    struct model model;
    struct store_stats stats;
    begin_far(&model, 200);
    uint32_t number = some_slice(&model);
    make_bad(&model, number, 0, UINT64_MAX);
    model.now_us += INT64_C(2000) * MODEL_DELAY_US;
    model_settle(&model);
    model_settle(&model);
    unsigned unread = far_jobs(&model, 0);
    assert_true(unread > 0 && far_jobs(&model, number) == 0);
    for (int i = 0; i < 12; i++)
        settle_idle(&model);
    assert_int_equal(far_jobs(&model, 0), unread);
    assert_int_equal(model.notices[STORE_UNREAD], 1);
    assert_non_null(strstr(model.noticed.text, "cannot read"));
    make_bad(&model, number, 0, 0);
    for (int i = 0; i < 6; i++)
        settle_idle(&model);
    assert_int_equal(far_jobs(&model, 0), 0);
    assert_int_equal(model.notices[STORE_DAMAGED], 0);
    store_stats(model.store, &stats);
    assert_int_equal(stats.damaged_segments, 0);
    model_fini(&model);
}

enum { FIRST_BLOCK = 5 * 4096 }; /* a byte of a slice's first block */

/* 4000 jobs in slices of several blocks; returns the number of one of these. */
static uint32_t begin_with_blocks(struct model *model)
{
    far_model(model, 5);
    model->delay_us = INT64_C(1000) * MODEL_DELAY_US;
    model->body_bytes = 500;
    model->options.segment_bytes = 16 * MODEL_SEGMENT;
    model->options.checkpoint_bytes = 2 * model->options.segment_bytes;
    assert_int_equal(model_open(model), OK);
    for (unsigned i = 0; i < 4000; i++) {
        assert_int_equal(model_push(model), OK);
        if (i % 8 == 0)
            model_turn(model);
    }
    model_settle(model);
    return some_slice(model);
}

static void the_blocks_behind_one_that_cannot_be_read_are_loaded(void **state)
{
    (void)state;
    struct model model;
    uint32_t number = begin_with_blocks(&model);
    unsigned all = far_jobs(&model, 0) - far_jobs(&model, number);
    make_bad(&model, number, FIRST_BLOCK, FIRST_BLOCK + 1);
    model.now_us += INT64_C(2000) * MODEL_DELAY_US;
    for (int i = 0; i < 12; i++)
        model_settle(&model);
    unsigned unread = far_jobs(&model, 0);
    print_message("%u of %u jobs of the slice are unread\n", unread, all);
    assert_true(unread > 0 && unread < all / 2 && far_jobs(&model, number) == 0);
    assert_int_equal(model.notices[STORE_UNREAD], 1);
    make_bad(&model, number, 0, 0);
    for (int i = 0; i < 6; i++)
        model_settle(&model);
    assert_int_equal(far_jobs(&model, 0), 0);
    model_fini(&model);
}

/* Does something with each job of the slice's first block. */
static void with_first_block(struct model *model, uint32_t number,
                             void (*act)(struct model *model, struct model_job *job))
{
    const struct slice *slice = segments_find(model->store->segments, number)->slice;
    uint64_t end = where_of(number, (uint64_t)slice->fences[1].offset * BLOCK);
    unsigned count = 0;
    for (size_t i = 0; i < model->job_count; i++) {
        struct model_job *job = &model->jobs[i];
        if (!job->live || slice_with(job) != number || job->stored.where >= end)
            continue;
        act(model, job);
        count++;
    }
    assert_true(count > 50);
}

/* After a start, with a disk that cannot read the first block of a slice whose jobs `act` has done
 * something with: are all far jobs loaded? */
static void start_without_first_block(void (*act)(struct model *model, struct model_job *job))
{
    struct model model;
    uint32_t number = begin_with_blocks(&model);
    with_first_block(&model, number, act);
    reopen(&model);
    make_bad(&model, number, FIRST_BLOCK, FIRST_BLOCK + 1);
    model.now_us += INT64_C(2000) * MODEL_DELAY_US;
    for (int i = 0; i < 12; i++)
        model_settle(&model);
    assert_int_equal(far_jobs(&model, 0), 0);
    assert_int_equal(model.notices[STORE_UNREAD], 0);
    make_bad(&model, number, 0, 0);
    model_check(&model);
    model_fini(&model);
}

/* Of a block whose jobs have all ended nothing is needed. After a start these are most blocks that
 * are due, and jobs of later ones would come late if all were read. */
static void p3_a_start_reads_no_block_whose_jobs_have_ended(void **state)
{
    (void)state;
    start_without_first_block(model_end);
}

/* The same of blocks whose jobs have changed, as buried ones have: the replay has read them. */
static void p3_a_start_reads_no_block_whose_jobs_are_in_memory(void **state)
{
    (void)state;
    start_without_first_block(model_move);
}

static unsigned moves_left; /* of move_all_but_one(): it leaves out the one with which this is 1 */

static void move_all_but_one(struct model *model, struct model_job *job)
{
    if (moves_left-- != 1)
        model_move(model, job);
}

/* But a single job that is not in memory is brought with its block. */
static void a_start_reads_a_block_of_which_one_job_is_not_in_memory(void **state)
{
    (void)state;
    struct model model;
    uint32_t number = begin_with_blocks(&model);
    moves_left = 20;
    with_first_block(&model, number, move_all_but_one);
    reopen(&model);
    model.now_us += INT64_C(2000) * MODEL_DELAY_US;
    for (int i = 0; i < 12; i++)
        model_settle(&model);
    assert_int_equal(far_jobs(&model, 0), 0);
    model_fini(&model);
}

static unsigned jobs_in(const struct model *model, uint32_t number)
{
    unsigned count = 0;
    for (size_t i = 0; i < model->job_count; i++)
        count += model->jobs[i].live && slice_with(&model->jobs[i]) == number;
    return count;
}

/* Of those in the slice (or, `in` false, of all others) one in `keep` stays. */
static void end_most(struct model *model, uint32_t number, bool in, unsigned keep)
{
    unsigned left = 0;
    for (size_t i = 0; i < model->job_count; i++) {
        struct model_job *job = &model->jobs[i];
        if (job->live && (slice_with(job) == number) == in && left++ % keep)
            model_end(model, job);
    }
}

static void a_slice_is_emptied_when_the_disk_is_well_again(void **state)
{
    (void)state;
    struct model model;
    struct store_stats stats;
    begin_far(&model, 1000);
    uint32_t number = some_slice(&model);
    end_most(&model, number, true, 20); /* it is the sparsest */
    make_bad(&model, number, 0, UINT64_MAX);
    end_most(&model, number, false, 10);
    unsigned stay = jobs_in(&model, number);
    assert_true(stay > 0);
    for (int i = 0; i < 12; i++)
        settle_idle(&model);
    store_stats(model.store, &stats);
    assert_true(stats.emptied_slices > 3); /* others */
    assert_int_equal(jobs_in(&model, number), stay);
    assert_int_equal(model.notices[STORE_UNREAD], 1);
    make_bad(&model, number, 0, 0);
    for (int i = 0; i < 6; i++)
        settle_idle(&model);
    for (unsigned i = 0; i < 1000; i++) { /* there must be more that is dead */
        assert_int_equal(model_push(&model), OK);
        if (i % 8 == 0)
            model_turn(&model);
    }
    model_settle(&model);
    end_most(&model, number, false, 10);
    model_settle(&model); /* there is much to empty */
    for (int i = 0; i < 12; i++)
        settle_idle(&model);
    assert_int_equal(jobs_in(&model, number), 0);
    end_well(&model);
}

static uint64_t listing_ahead(struct slice *slice, uint32_t block, uint32_t quarters)
{
    uint64_t bytes = slice_block_end(slice, block) - (uint64_t)slice->fences[block].offset * BLOCK;
    return slice_listing_ahead(slice, block,
                               slice_block_end(slice, block) - bytes * (4 - quarters) / 4);
}

/* Nothing for a page that ends with its first part, and no byte twice. */
static void a_listing_that_goes_on_reads_ahead(void **state)
{
    (void)state;
    enum { BLOCKS = 12, BYTES = SLICE_BLOCK_BYTES };
    struct slice_fence fences[BLOCKS] = {0};
    for (uint32_t i = 0; i < BLOCKS; i++)
        fences[i].offset = 1 + i * (BYTES / BLOCK);
    struct slice slice = {.fences = fences,
                          .head = {.blocks = BLOCKS, .data_end = BLOCK + (uint64_t)BLOCKS * BYTES}};
    for (int again = 0; again < 2; again++) {
        assert_int_equal(listing_ahead(&slice, 0, 2), 0);
        assert_int_equal(listing_ahead(&slice, 0, 3), BYTES / 4);
        assert_int_equal(listing_ahead(&slice, 0, 4), 0);
        assert_int_equal(listing_ahead(&slice, 1, 4), 4 * BYTES);
        for (uint32_t block = 2; block < 5; block++)
            assert_int_equal(listing_ahead(&slice, block, 4), 0);
        assert_int_equal(listing_ahead(&slice, 5, 4), 4 * BYTES);
        assert_int_equal(listing_ahead(&slice, 9, 4), 0); /* of another listing */
        assert_int_equal(listing_ahead(&slice, 10, 4), BYTES);
        assert_int_equal(listing_ahead(&slice, 11, 4), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_is_read_when_the_disk_is_well_again),
        cmocka_unit_test(the_blocks_behind_one_that_cannot_be_read_are_loaded),
        cmocka_unit_test(p3_a_start_reads_no_block_whose_jobs_have_ended),
        cmocka_unit_test(p3_a_start_reads_no_block_whose_jobs_are_in_memory),
        cmocka_unit_test(a_start_reads_a_block_of_which_one_job_is_not_in_memory),
        cmocka_unit_test(a_listing_that_goes_on_reads_ahead),
        cmocka_unit_test(a_slice_is_emptied_when_the_disk_is_well_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
