/*
 * The image of the far jobs' index that a close in order leaves: the next opening takes it, or
 * reads the slices' indexes if it is damaged, torn, old or another store's. (All lives of
 * slice_test.c and slice_fault_test.c have images, too.)
 */
#include "slice_bed.h"
#include "store/slices/far_image.h"
#include "store/slices/slice_format.h"
#include "store/slices/slices_parts.h"
#include "store/verify.h"
#include "store_files.h"
#include "test/unit/support/every.h"

#include <errno.h>

enum { FAR_JOBS = 200 };

static bool took_image(const struct model *model)
{
    struct store_stats stats;
    store_stats(model->store, &stats);
    return stats.far_image;
}

static bool has_image(const struct model *model)
{
    uint64_t len;
    return sim_disk_file(model->disk, FAR_IMAGE_NAME, &len) != NULL;
}

static void count_line(void *ctx, const char *line)
{
    (void)line;
    ++*(unsigned *)ctx;
}

/* So many findings of store_verify(), which says something only if there is one. */
static uint64_t verified_bad(const struct model *model)
{
    unsigned lines = 0;
    struct store_counts counts;
    const struct store_watcher watcher = {.print_line = count_line, .ctx = &lines};
    assert_int_equal(store_verify(model->options.disk, &watcher, &counts), OK);
    assert_int_equal(lines > 0, counts.bad > 0);
    return counts.bad;
}

static void copy_model(struct model *to, const struct model *from)
{
    far_model(to, 5);
    copy_life(to, from);
}

static void copy_image(struct model *to, const struct model *from)
{
    uint64_t len;
    const char *at = sim_disk_file(from->disk, FAR_IMAGE_NAME, &len);
    assert_non_null(at);
    sim_disk_put(to->disk, FAR_IMAGE_NAME, at, len);
}

/* The one that is so many behind the first whose record lies in a slice. */
static struct model_job *far_job(struct model *model, unsigned behind)
{
    size_t i = 0;
    for (;; i++) {
        assert_true(i < model->job_count);
        struct model_job *job = &model->jobs[i];
        bool in_slice = store_slice_state(model->store, job->stored.where) != JOB_GONE;
        if (job->live && in_slice && behind-- == 0)
            return job;
    }
}

/* Some jobs have ended, some changed, some came back and are in memory. Closed in order. */
static void build(struct model *model)
{
    begin_far(model, FAR_JOBS);
    change_some(model, FAR_JOBS);
    model_settle(model);
    model->now_us += model->delay_us / 4;
    model_settle(model);
    model_close(model);
    assert_true(has_image(model));
}

static void add_head(void *ctx, const char *name)
{
    uint64_t *heads = ctx;
    uint32_t number;
    *heads += slice_name_parse(name, &number) ? DISK_ALIGN : 0;
}

/* Of the slices, none of which may have been removed. */
static uint64_t fences_of(const struct model *model)
{
    const struct list *all = &model->store->slices->all;
    uint64_t bytes = 0;
    for (struct list *at = all->next; at != all; at = at->next)
        bytes += (uint64_t)slice_of(at)->head.blocks * SLICE_FENCE_BYTES;
    return bytes;
}

/* Of the slices that have jobs, with the names of their topics. */
static uint64_t indexes_of(const struct model *model)
{
    const struct list *all = &model->store->slices->all;
    uint64_t bytes = 0;
    for (struct list *at = all->next; at != all; at = at->next) {
        const struct slice *slice = slice_of(at);
        bytes += slice->live_jobs ? slice->head.topics_bytes + slice->head.index_bytes : 0;
    }
    return bytes;
}

static uint64_t model_loose_reads;

static void add_loose_reads(void *ctx, const char *name)
{
    struct model *model = ctx;
    uint32_t number;
    model_loose_reads +=
        slice_name_parse(name, &number) ? sim_disk_loose_reads(model->disk, name) : 0;
}

/* Of slices. */
static uint64_t loose_reads(struct model *model)
{
    struct disk *disk = model->options.disk;
    model_loose_reads = 0;
    assert_int_equal(disk->verbs->list(disk, add_loose_reads, model), OK);
    return model_loose_reads;
}

/* It opens, has what it should have, and lives on. */
static void opens(struct model *model, bool by_image)
{
    uint64_t heads = 0, fetched = sim_disk_fetched(model->disk), loose = loose_reads(model);
    struct disk *disk = model->options.disk;
    assert_int_equal(disk->verbs->list(disk, add_head, &heads), OK);
    enum err err = model_open(model);
    if (err)
        print_error("%s: %s\n", model->error.file, model->error.text);
    assert_int_equal(err, OK);
    assert_int_equal(took_image(model), by_image);
    assert_int_equal(loose_reads(model), loose);
    fetched = sim_disk_fetched(model->disk) - fetched;
    /* And indexes, if not by the image. Ahead of records that changed 256 KiB each, with either. */
    uint64_t ahead = heads + fences_of(model) + (by_image ? 0 : indexes_of(model));
    assert_true(fetched >= ahead && (fetched - ahead) % (256 * 1024) == 0);
    assert_false(has_image(model));
    model_check(model);
    store_valid(model->store);
}

static void p1_an_opening_takes_the_image_of_the_stop_before(void **state)
{
    (void)state;
    struct model model;
    build(&model);
    for (int i = 0; i < 4; i++) {
        opens(&model, true);
        model_work(&model, 20);
        model_settle(&model);
        model.now_us += model.delay_us / 8;
        model_settle(&model);
        model_close(&model);
        assert_true(has_image(&model));
    }
    opens(&model, true);
    model.now_us += 2 * model.delay_us;
    model_settle(&model); /* all come back */
    for (size_t i = 0; i < model.job_count; i++)
        assert_false(model.jobs[i].far && !model.jobs[i].buried);
    model_fini(&model);
}

static uint64_t slice_jobs(const struct model *model)
{
    struct store_stats stats;
    store_stats(model->store, &stats);
    return stats.slice_jobs;
}

static void change_if_far(struct model *model, struct model_job *job, bool ends)
{
    if (!job->live || store_slice_state(model->store, job->stored.where) == JOB_GONE)
        return;
    if (ends)
        model_end(model, job);
    else
        model_move(model, job);
}

/*
 * A segment that jobs have left, and that is in the log still, has older records of them. `ends`:
 * and some of those jobs end or change before the stop.
 */
static unsigned stop_while_the_log_is_cleaned(uint64_t seed, unsigned rounds, bool ends)
{
    struct model model;
    unsigned older = 0;
    far_model(&model, seed);
    assert_int_equal(model_open(&model), OK);
    for (unsigned i = 0; i < rounds; i++) {
        model_work(&model, 3);
        for (size_t at = i % 7; ends && at < model.job_count; at += 7)
            change_if_far(&model, &model.jobs[at], at % 2);
        bool far = slice_jobs(&model) > 0;
        model_close(&model);
        assert_int_equal(has_image(&model), far);
        uint64_t before = model.older_dropped;
        assert_int_equal(model_open(&model), OK);
        assert_int_equal(took_image(&model), far);
        older += model.older_dropped > before;
        model_check(&model);
        store_valid(model.store);
    }
    model_fini(&model);
    return older;
}

static void p1_a_stop_while_the_log_is_cleaned_leaves_an_image(void **state)
{
    (void)state;
    unsigned older = 0, rounds = 60;
    for (uint64_t seed = 5; seed < 9; seed++) {
        older += stop_while_the_log_is_cleaned(seed, rounds, false);
        older += stop_while_the_log_is_cleaned(seed, rounds, true);
    }
    print_message("in %u of %u starts the log had older records\n", older, 8 * rounds);
    assert_in_range(older, 10, 8 * rounds - 10);
}

static void few_far_jobs_are_worth_no_image(void **state)
{
    (void)state;
    struct model model;
    build(&model);
    opens(&model, true);
    model_close(&model);
    model.options.image_jobs = 0;
    opens(&model, true);
    model_close(&model);
    assert_false(has_image(&model));
    opens(&model, false);
    model_fini(&model);
}

/* In the simulator each operation takes a microsecond, and an image has some hundred. */
static void p1_an_image_that_takes_too_long_is_given_up(void **state)
{
    (void)state;
    struct model model;
    build(&model);
    model.options.image_us = 50;
    opens(&model, true);
    model_close(&model);
    assert_false(has_image(&model));
    assert_null(sim_disk_file(model.disk, FAR_IMAGE_TMP_NAME, &(uint64_t){0}));
    model.options.image_us = 0;
    opens(&model, false);
    model_close(&model);
    opens(&model, true);
    model_fini(&model);
}

static void p1_no_flipped_bit_of_an_image_changes_a_far_job(void **state)
{
    (void)state;
    struct model whole;
    uint64_t len = 0;
    build(&whole);
    (void)sim_disk_file(whole.disk, FAR_IMAGE_NAME, &len);
    assert_true(len > 4096);
    assert_int_equal(verified_bad(&whole), 0);
    for (uint64_t byte = 0; byte < len; byte += 5 * sim_every()) {
        struct model model;
        copy_model(&model, &whole);
        assert_true(sim_disk_flip(model.disk, FAR_IMAGE_NAME, byte * 8 + byte % 8));
        assert_int_equal(verified_bad(&model), 1);
        opens(&model, false);
        model_fini(&model);
    }
    model_fini(&whole);
}

static void p1_an_image_that_was_cut_or_grown_is_not_taken(void **state)
{
    (void)state;
    struct model whole;
    uint64_t len = 0;
    build(&whole);
    const char *at = sim_disk_file(whole.disk, FAR_IMAGE_NAME, &len);
    for (uint64_t cut = 0; cut < len; cut += 61 * sim_every()) {
        struct model model;
        copy_model(&model, &whole);
        sim_disk_put(model.disk, FAR_IMAGE_NAME, at, cut);
        opens(&model, false);
        model_fini(&model);
    }
    model_fini(&whole);
}

/* Two lives from one directory: as many openings, the same batches, but other jobs end. */
static void p1_an_image_of_another_run_is_not_taken(void **state)
{
    (void)state;
    struct model whole, one, other;
    build(&whole);
    copy_model(&one, &whole);
    copy_model(&other, &whole);
    opens(&one, true);
    opens(&other, true);
    model_end(&one, far_job(&one, 2));
    model_end(&other, far_job(&other, 3));
    model_settle(&one);
    model_settle(&other);
    assert_int_equal(store_durable(one.store), store_durable(other.store));
    model_close(&one);
    model_close(&other);
    copy_image(&other, &one);
    opens(&other, false);
    opens(&one, true);
    model_fini(&one);
    model_fini(&other);
    model_fini(&whole);
}

static void p1_an_image_from_before_is_not_taken(void **state)
{
    (void)state;
    struct model model, before;
    build(&before);
    copy_model(&model, &before);
    opens(&model, true);
    model_close(&model); /* nothing but the time was written since */
    copy_image(&model, &before);
    opens(&model, false);
    model_end(&model, far_job(&model, 2));
    model_settle(&model);
    sim_disk_kill(model.disk); /* not closed in order, with an image that is */
    model.acknowledged = store_durable(model.store);
    model_close(&model);
    model_fini(&model);
    model_fini(&before);
}

/* An image of the right opening and batch, but the manifest says that more may have been written.
 */
static void p1_an_image_is_not_taken_after_a_kill(void **state)
{
    (void)state;
    struct model model;
    build(&model);
    uint64_t points = sim_disk_points(model.disk);
    opens(&model, true);
    points = sim_disk_points(model.disk) - points;
    model_close(&model);
    for (uint64_t cut_at = 0; cut_at < points + 40; cut_at++) {
        struct model life;
        copy_model(&life, &model);
        sim_disk_cut_at(life.disk, cut_at);
        if (!model_open(&life))
            model_end(&life, far_job(&life, 2));
        model_close(&life);
        life.store = NULL;
        if (cut_at % 2)
            sim_disk_kill(life.disk);
        else
            sim_disk_power(life.disk, cut_at);
        sim_disk_cut_at(life.disk, UINT64_MAX);
        assert_int_equal(model_open(&life), OK);
        assert_false(has_image(&life));
        model_check(&life);
        model_fini(&life);
    }
    model_fini(&model);
}

/* The power goes, or a call fails, at each point of a stop and of the start behind it. */
static void p1_p7_no_stop_that_fails_loses_a_far_job(void **state)
{
    (void)state;
    struct model whole;
    unsigned taken = 0, made = 0;
    build(&whole);
    for (uint64_t at = 0; at < 400; at += sim_every()) {
        struct model model;
        copy_model(&model, &whole);
        opens(&model, true);
        model_end(&model, far_job(&model, 2));
        uint64_t point = sim_disk_points(model.disk) + at / 2;
        if (at % 2)
            sim_disk_cut_at(model.disk, point);
        else
            sim_disk_fail_at(model.disk, point, at % 4 ? ENOSPC : EIO);
        model_close(&model);
        model.store = NULL;
        if (sim_disk_cut(model.disk))
            sim_disk_power(model.disk, at);
        sim_disk_cut_at(model.disk, UINT64_MAX);
        sim_disk_fail_at(model.disk, UINT64_MAX, 0);
        made += has_image(&model);
        assert_int_equal(model_open(&model), OK);
        taken += took_image(&model);
        model_check(&model);
        model_fini(&model);
    }
    print_message("%u images, %u taken\n", made, taken);
    assert_true(made >= taken && taken > 0);
    model_fini(&whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(p1_an_opening_takes_the_image_of_the_stop_before),
        cmocka_unit_test(p1_a_stop_while_the_log_is_cleaned_leaves_an_image),
        cmocka_unit_test(few_far_jobs_are_worth_no_image),
        cmocka_unit_test(p1_an_image_that_takes_too_long_is_given_up),
        cmocka_unit_test(p1_no_flipped_bit_of_an_image_changes_a_far_job),
        cmocka_unit_test(p1_an_image_that_was_cut_or_grown_is_not_taken),
        cmocka_unit_test(p1_an_image_of_another_run_is_not_taken),
        cmocka_unit_test(p1_an_image_from_before_is_not_taken),
        cmocka_unit_test(p1_an_image_is_not_taken_after_a_kill),
        cmocka_unit_test(p1_p7_no_stop_that_fails_loses_a_far_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
