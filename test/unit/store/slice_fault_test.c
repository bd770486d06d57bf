/*
 * A store whose far jobs lie in slices meets the second half of their lives: blocks are loaded,
 * most jobs end or change, slices are emptied and removed, what the log says of them is told again.
 * Each call of the disk in it fails, the power goes at each point, twice in a row; and each part of
 * the log and of the manifest is damaged. (The first half, while slices are written: slice_test.c;
 * damage in slices: slice_damage_test.c.)
 */
#include "slice_bed.h"
#include "store/format.h"
#include "store/recovery/salvage.h"
#include "store/verify.h"
#include "store_files.h"
#include "store_lives.h"
#include "test/unit/support/every.h"

#include <errno.h>

enum { FAR_JOBS = 200 };

/* The same files and the same journal again, on a disk of their own. */
static void copy_model(struct model *to, const struct model *from, uint64_t seed)
{
    far_model(to, seed);
    copy_life(to, from);
}

/* What the store did while it was up, of all lives that the tests play. */
struct deeds {
    uint64_t loaded, emptied, checkpoints, failed;
};

static void note_deeds(const struct model *model, struct deeds *deeds)
{
    struct store_stats stats;
    store_stats(model->store, &stats);
    deeds->loaded += stats.loaded_jobs;
    deeds->emptied += stats.emptied_slices;
    deeds->checkpoints += stats.checkpoints;
    deeds->failed += model->failed;
}

/* Eight in ten end, one in ten changes. */
static void end_most(struct model *model)
{
    for (size_t i = 0; i < model->job_count && !model->failed; i++) {
        struct model_job *job = &model->jobs[i];
        if (!job->live || i % 10 == 0)
            continue;
        if (i % 10 == 5)
            model_move(model, job);
        else
            model_end(model, job);
        if (i % 4 == 0)
            model_turn(model);
    }
}

/* Twice: some work, in which slices are emptied; then so much time that half of what is left is
 * loaded. */
static void later_half(struct model *model, void *deeds)
{
    end_most(model);
    for (int i = 0; i < 60 && !model->failed; i++)
        model_turn(model);
    if (!model->failed)
        model_work(model, 30);
    model->now_us += model->delay_us / 2;
    for (int i = 0; i < 60 && !model->failed; i++)
        model_turn(model);
    note_deeds(model, deeds);
}

/* ---- calls that fail ---- */

/* Of the opening. False: it made fewer calls. */
static bool open_with_fault(const struct model *whole, uint64_t fail_at, int sys_errno,
                            uint64_t *refused)
{
    struct model model;
    copy_model(&model, whole, fail_at);
    sim_disk_fail_at(model.disk, fail_at, sys_errno);
    enum err err = model_open(&model);
    *refused += err != OK;
    bool reached = sim_disk_points(model.disk) > fail_at;
    assert_true(err ? reached && model.error.text[0] : true);
    model_close(&model);
    open_after_fault(&model, fail_at, fail_at);
    model_fini(&model);
    return reached;
}

static void p1_p7_a_failed_call_of_the_opening_loses_no_far_job(void **state)
{
    (void)state;
    static const int errors[] = {EIO, ENOSPC, EMFILE};
    struct model whole;
    uint64_t lives = 0, refused = 0;
    begin_far(&whole, FAR_JOBS);
    model_close(&whole);
    for (unsigned i = 0; i < 3; i++)
        for (uint64_t call = 0; open_with_fault(&whole, call, errors[i], &refused);
             call += sim_every())
            lives++;
    print_message("%llu openings, %llu refused\n", (unsigned long long)lives,
                  (unsigned long long)refused);
    assert_true(lives > 30 / sim_every() && refused > 10 / sim_every());
    model_fini(&whole);
}

static bool load_with_fault(const struct model *whole, uint64_t fail_at, int sys_errno,
                            struct deeds *deeds)
{
    struct model model;
    copy_model(&model, whole, fail_at);
    sim_disk_cold(model.disk, fail_at % 2);
    return live_after_fault(&model, fail_at, sys_errno, later_half, deeds);
}

static void p1_p7_p8_a_failed_call_while_slices_come_back_loses_no_far_job(void **state)
{
    (void)state;
    static const int errors[] = {EIO, ENOSPC, EMFILE};
    struct model whole;
    struct deeds deeds = {0};
    uint64_t lives = 0;
    begin_far(&whole, FAR_JOBS);
    model_close(&whole);
    for (unsigned i = 0; i < 3; i++)
        for (uint64_t call = i; load_with_fault(&whole, call, errors[i], &deeds);
             call += 2 * sim_every())
            lives++;
    print_message("%llu lives, failed %llu, loaded %llu, emptied %llu, checkpoints %llu\n",
                  (unsigned long long)lives, (unsigned long long)deeds.failed,
                  (unsigned long long)deeds.loaded, (unsigned long long)deeds.emptied,
                  (unsigned long long)deeds.checkpoints);
    assert_true(lives > 200 / sim_every() && deeds.failed > 50 / sim_every());
    assert_true(deeds.loaded > lives && deeds.emptied > lives && deeds.checkpoints > 2 * lives);
    model_fini(&whole);
}

/* ---- the power goes ---- */

/* The second cut is in the checkpoint that begins again. */
static bool load_and_die_twice(const struct model *whole, uint64_t cut_at, struct deeds *deeds)
{
    struct model model;
    copy_model(&model, whole, cut_at);
    return live_and_die_twice(&model, cut_at, cut_at * 7 % 239, later_half, deeds);
}

static void p1_p5_p9_two_cuts_in_a_row_while_slices_come_back_lose_no_far_job(void **state)
{
    (void)state;
    struct model whole;
    struct deeds deeds = {0};
    uint64_t lives = 0;
    begin_far(&whole, FAR_JOBS);
    model_close(&whole);
    for (uint64_t cut_at = 0; load_and_die_twice(&whole, cut_at, &deeds); cut_at += sim_every())
        lives++;
    print_message("%llu lives, loaded %llu, emptied %llu, checkpoints %llu\n",
                  (unsigned long long)lives, (unsigned long long)deeds.loaded,
                  (unsigned long long)deeds.emptied, (unsigned long long)deeds.checkpoints);
    assert_true(lives > 150 / sim_every());
    assert_true(deeds.loaded > lives && deeds.emptied > lives && deeds.checkpoints > 2 * lives);
    model_fini(&whole);
}

/* ---- damage in the log and in the manifest ---- */

static void count_line(void *ctx, const char *line)
{
    (void)line;
    ++*(unsigned *)ctx;
}

struct tally {
    unsigned refused, opened;
};

static void flip_and_open(const struct model *whole, const char *name, uint64_t bit, bool told,
                          struct tally *tally)
{
    struct model model;
    struct store_counts counts = {0};
    unsigned lines = 0;
    copy_model(&model, whole, 1);
    assert_true(sim_disk_flip(model.disk, name, bit));
    enum err err =
        store_verify(model.options.disk,
                     &(struct store_watcher){.print_line = count_line, .ctx = &lines}, &counts);
    assert_true(lines > 0 || !told);
    (void)err;
    if (model_open(&model)) {
        assert_true(model.error.text[0] && model.error.file[0]);
        tally->refused++;
    } else {
        model_check(&model); /* nothing is lost, nobody is revived */
        tally->opened++;
    }
    model_fini(&model);
}

/* Slices of which some jobs have ended and others changed, told once whole and changed since. */
static void build(struct model *model)
{
    struct file_list list;
    begin_far(model, FAR_JOBS);
    change_some(model, FAR_JOBS);
    model_settle(model);
    model->acknowledged = store_durable(model->store);
    model_close(model);
    list_files(model, &list);
    assert_true(list.count > 4);
}

/* The last batch is an empty one, there to prove the others: it may go unnoticed. */
static void forgive_the_last(struct model *model)
{
    model->acknowledged = model->journal[model->entry_count - 1].batch;
}

/* Old bytes are in it, which nobody reads. */
static bool is_spare(const char *file, uint64_t len)
{
    struct segment_head head;
    return len >= BLOCK && segment_head_decode(file, &head) == FORMAT_SPARE;
}

static void p2_no_flipped_bit_of_the_log_loses_a_far_job_silently(void **state)
{
    (void)state;
    struct model whole;
    struct file_list list;
    struct tally tally = {0};
    build(&whole);
    forgive_the_last(&whole);
    list_files(&whole, &list);
    for (size_t i = 0; i < list.count; i++) {
        uint64_t len = 0;
        const char *at = sim_disk_file(whole.disk, list.names[i], &len);
        if (memcmp(list.names[i], "slice-", 6) == 0 || strcmp(list.names[i], "far-index") == 0)
            continue;                   /* slice_damage_test.c, far_image_test.c */
        bool told = !is_spare(at, len); /* of all other files verify reads every byte */
        for (uint64_t byte = 0; byte < len; byte++)
            if (byte % (at[byte] ? 7 * sim_every() : 1021 * sim_every()) == 0)
                flip_and_open(&whole, list.names[i], byte * 8 + byte % 8, told, &tally);
    }
    print_message("refused %u, opened %u\n", tally.refused, tally.opened);
    assert_true(tally.refused > 200 / sim_every() && tally.opened > 20 / sim_every());
    model_fini(&whole);
}

/* ---- a slice that the disk cannot read ---- */

/* Whichever segment of the log mentions it: the log is not damaged. */
static void the_slice_that_cannot_be_read_is_named(void **state)
{
    (void)state;
    struct model whole;
    struct file_list list;
    unsigned slices = 0;
    begin_far(&whole, FAR_JOBS);
    for (int i = 0; i < 40;
         i++) { /* the log goes on, so that earlier segments mention the slices */
        assert_int_equal(model_push(&whole), OK);
        model_turn(&whole);
    }
    model_close(&whole);
    list_files(&whole, &list);
    for (size_t i = 0; i < list.count; i++) {
        struct model model;
        if (memcmp(list.names[i], "slice-", 6) != 0)
            continue;
        copy_model(&model, &whole, i);
        sim_disk_bad(model.disk, list.names[i], 0, DISK_ALIGN);
        assert_int_equal(model_open(&model), ERR_IO);
        assert_string_equal(model.error.file, list.names[i]);
        assert_non_null(strstr(model.error.text, "header cannot be read"));
        model_fini(&model);
        slices++;
    }
    assert_true(slices > 0);
    model_fini(&whole);
}

/* Whatever its name: the table of segments is not made as large. */
static void a_file_with_the_highest_number_is_refused(void **state)
{
    (void)state;
    static const char zeros[MODEL_SEGMENT];
    static const char *const names[] = {"wal-ffffffff", "wal-fffffffe", "slice-ffffffff"};
    for (unsigned i = 0; i < 3; i++) {
        struct model model;
        begin_far(&model, FAR_JOBS); /* there are slices, too */
        model_close(&model);
        sim_disk_put(model.disk, names[i], zeros, sizeof(zeros));
        assert_int_equal(model_open(&model), ERR_CORRUPT);
        assert_non_null(strstr(model.error.text, "which no store has"));
        assert_true(sim_disk_delete(model.disk, names[i]));
        assert_int_equal(model_open(&model), OK);
        model_fini(&model);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_slice_that_cannot_be_read_is_named),
        cmocka_unit_test(a_file_with_the_highest_number_is_refused),
        cmocka_unit_test(p1_p7_a_failed_call_of_the_opening_loses_no_far_job),
        cmocka_unit_test(p1_p7_p8_a_failed_call_while_slices_come_back_loses_no_far_job),
        cmocka_unit_test(p1_p5_p9_two_cuts_in_a_row_while_slices_come_back_lose_no_far_job),
        cmocka_unit_test(p2_no_flipped_bit_of_the_log_loses_a_far_job_silently),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
