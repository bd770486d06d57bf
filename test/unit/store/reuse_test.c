/*
 * Files of segments that left the log become spares, with the bytes of the old segment in them:
 * these must never be taken for the new one's, and must not be taken away from who still reads
 * them.
 */
#include "store/internal.h"
#include "store/verify.h"
#include "store_model.h"
#include "store_reuse.h"
#include "store_work.h"

static uint64_t reused(const struct model *model)
{
    struct store_stats stats;
    store_stats(model->store, &stats);
    return stats.segments_reused;
}

static void power_cut(struct model *model, uint64_t seed)
{
    sim_disk_cut_at(model->disk, sim_disk_points(model->disk));
    model_close(model);
    sim_disk_power(model->disk, seed);
}

static void cut_off_and_reopen(struct model *model, uint64_t seed)
{
    power_cut(model, seed);
    assert_int_equal(model_open(model), OK);
    model_check(model);
}

static void files_of_old_segments_take_new_ones(void **state)
{
    (void)state;
    struct model model;
    reuse_open_bed(&model, 2);
    assert_true(reused(&model) > 0);
    model_fini_reopened(&model);
}

/* P1: what is behind the end is none of the log's, whatever it was once. */
static void p1_old_bytes_behind_the_end_are_not_replayed(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct model model;
        reuse_open_bed(&model, seed);
        cut_off_and_reopen(&model, seed);
        assert_string_equal(model.error.text, ""); /* and are no torn tail either */
        model_work(&model, 100);
        cut_off_and_reopen(&model, seed + 1);
        model_fini(&model);
    }
}

/* The blocks of a file, from `from` on. */
static char *copy_of(const struct model *model, const char *name, uint64_t *out_len)
{
    const char *at = sim_disk_file(model->disk, name, out_len);
    assert_non_null(at);
    char *copy = mem_aligned(BLOCK, (size_t)*out_len);
    memcpy(copy, at, (size_t)*out_len);
    return copy;
}

/*
 * The bytes of a client's job may begin a block and be a batch in all that a client can know:
 * store, segment, number, sum. It does not know the key.
 */
static void p1_a_body_that_looks_like_the_next_batch_is_not_replayed(void **state)
{
    (void)state;
    struct model model;
    reuse_open_bed(&model, 2);
    const struct segment *tail = segments_tail(model.store->segments);
    char name[DISK_NAME_MAX];
    uint64_t len, end = tail->end;
    struct batch_head head = {
        .number = log_synced(model.store->log) + 1,
        .durable = log_synced(model.store->log),
        .seq_mark = 1,
        .segment = tail->number,
        .store_tag = model.store->tag,
    };
    segment_name(tail->number, name);
    power_cut(&model, 1);
    char *bytes = copy_of(&model, name, &len);
    assert_true(end + BLOCK <= len);
    batch_sign(bytes + end, batch_head_encode(&head, bytes + end), 0);
    sim_disk_put(model.disk, name, bytes, (size_t)len);
    assert_int_equal(model_open(&model), OK);
    assert_int_equal(store_durable(model.store), head.number - 1);
    model_check(&model);
    model_fini(&model);
    mem_free(bytes);
}

/* Its header alone says the key of a segment. */
static void p1_a_used_segment_with_a_damaged_header_is_not_taken_for_a_spare(void **state)
{
    (void)state;
    struct model model;
    reuse_open_bed(&model, 2);
    char name[DISK_NAME_MAX];
    segment_name(segments_tail(model.store->segments)->number, name);
    power_cut(&model, 1);
    assert_true(sim_disk_flip(model.disk, name, 8 * 100));
    assert_int_equal(model_open(&model), ERR_CORRUPT);
    assert_true(model.error.text[0]);
    assert_true(sim_disk_flip(model.disk, name, 8 * 100)); /* nothing was changed */
    assert_int_equal(model_open(&model), OK);
    model_check(&model);
    model_fini(&model);
}

/* P1, P5: any bit of what was acknowledged; the header among it. */
static void p1_a_flipped_bit_in_a_used_segment_is_noticed_or_harms_nothing(void **state)
{
    (void)state;
    unsigned refused = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct model model;
        reuse_open_bed(&model, 2);
        char name[DISK_NAME_MAX];
        const struct segment *tail = segments_tail(model.store->segments);
        uint64_t bit = seed * 2654435761 % ((tail->end - BLOCK) * 8); /* the last batch is empty */
        segment_name(tail->number, name);
        if (seed % 2)
            power_cut(&model, seed);
        else
            model_close(&model);
        assert_true(sim_disk_flip(model.disk, name, bit));
        enum err err = model_open(&model);
        if (!err)
            model_check(&model);
        else
            assert_true(model.error.text[0] && model.error.file[0]);
        refused += err != OK;
        model_fini(&model);
    }
    assert_true(refused > 100);
}

/*
 * Nor if the manifest does not know the segment yet: only its batches tell of it then, and their
 * sums cannot be compared without the key.
 */
static void p1_nor_is_one_that_the_manifest_does_not_know(void **state)
{
    (void)state;
    struct model model;
    reuse_open_bed(&model, 2);
    const struct segment *before = segments_tail(model.store->segments), *tail = before;
    while (tail == before || log_synced(model.store->log) < tail->batch_first) {
        assert_int_equal(model_push(&model), OK);
        store_turn(model.store, model.now_us);
        while (sim_disk_step(model.disk, LANE_COMMIT)) /* and the manifest waits for its lane */
            store_poll(model.store);
        tail = segments_tail(model.store->segments);
    }
    assert_true(tail->key != 0 && manifest_busy(model.store->manifest));
    char name[DISK_NAME_MAX];
    segment_name(tail->number, name);
    power_cut(&model, 1);
    assert_true(sim_disk_flip(model.disk, name, 8 * 100));
    assert_int_equal(model_open(&model), ERR_CORRUPT);
    assert_true(sim_disk_flip(model.disk, name, 8 * 100));
    assert_int_equal(model_open(&model), OK);
    model_check(&model);
    model_fini(&model);
}

static void count_line(void *ctx, const char *line)
{
    (void)line;
    ++*(unsigned *)ctx;
}

static void verify_finds_nothing_wrong_with_used_files(void **state)
{
    (void)state;
    struct model model;
    struct store_counts counts = {0};
    unsigned lines = 0;
    struct store_watcher watcher = {.print_line = count_line, .ctx = &lines};
    reuse_open_bed(&model, 2);
    for (int closed = 0; closed < 2; closed++) {
        if (closed)
            model_close(&model);
        else
            power_cut(&model, 1);
        lines = 0;
        assert_int_equal(store_verify(model.options.disk, &watcher, &counts), OK);
        assert_int_equal(lines, 0);
        assert_int_equal(counts.bad, 0);
        assert_int_equal(model_open(&model), OK);
        model_check(&model);
    }
    model_fini(&model);
}

/* P8: at any power cut while a file changes from one segment's to another's, nothing is lost. */
static void p8_a_power_cut_while_a_file_is_used_again_loses_nothing(void **state)
{
    (void)state;
    unsigned cuts = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct model model;
        reuse_open_bed(&model, seed);
        for (int turn = 0; turn < 2000 && model.store->cleaner && !model.failed; turn++) {
            if (cleaner_removing(model.store->cleaner)) {
                sim_disk_cut_at(model.disk, sim_disk_points(model.disk) + seed % 7);
                cuts++;
                break;
            }
            model_act(&model);
            model_turn(&model);
        }
        model_disk_works(&model);
        store_poll(model.store);
        cut_off_and_reopen(&model, seed);
        model_work(&model, 50);
        model_fini_reopened(&model);
    }
    assert_true(cuts > 30);
}

/* Cuts and openings, the first of which is cut off, too, until one succeeds. */
static void cut_twice_and_reopen(struct model *model, uint64_t seed)
{
    power_cut(model, seed);
    model->acknowledged = 0; /* with durability = interval nothing is promised */
    sim_disk_cut_at(model->disk, sim_disk_points(model->disk) + seed % 13);
    enum err err = model_open(model);
    if (!err)
        model_close(model);
    sim_disk_cut_at(model->disk, sim_disk_points(model->disk));
    sim_disk_power(model->disk, seed + 1);
    assert_int_equal(model_open(model), OK);
    model_check(model);
}

/*
 * P1: of several batches that were not synced, any may be on the disk. Those behind one that is not
 * must be gone when the log comes there again.
 */
static void p1_batches_behind_a_lost_one_are_not_replayed_later(void **state)
{
    (void)state;
    uint64_t dropped = 0, used = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct model model;
        struct store_stats stats;
        model_init(&model, seed);
        model.body_bytes = 64;
        model.options.buffered = true;
        model.options.interval_us = 1000 * 1000 * 1000;
        assert_int_equal(model_open(&model), OK);
        for (int round = 0; round < 8; round++) {
            if (round % 3 == 0)
                reuse_fill(&model);
            used += segments_tail(model.store->segments)->key != 0;
            for (uint64_t turn = 1 + model_random(&model, 6); turn > 0; turn--) {
                assert_int_equal(model_push(&model), OK); /* a block, as all are */
                model.now_us += 5000;
                store_turn(model.store, model.now_us);
                model_disk_works(&model);
                store_poll(model.store);
            }
            cut_twice_and_reopen(&model, seed * 31 + (uint64_t)round);
            store_stats(model.store, &stats);
            dropped += stats.dropped_tail_bytes > 0;
        }
        model_fini_reopened(&model);
    }
    print_message("%llu of used files, %llu torn\n", (unsigned long long)used,
                  (unsigned long long)dropped);
    assert_true(used > 200 && dropped > 20);
}

/* How many files are used again until the oldest segment has left the log, with its own. */
static uint64_t reused_until_first_leaves(struct model *model)
{
    uint32_t number = segments_first(model->store->segments)->number;
    uint64_t before = reused(model);
    for (int turn = 0; segments_find(model->store->segments, number); turn++) {
        assert_true(turn < 2000);
        assert_int_equal(model_push(model), OK);
        reuse_end_old_jobs(model);
        model_turn(model);
    }
    return reused(model) - before;
}

/* Where a disk has damaged something it may do so again. */
static void a_file_with_damage_in_it_is_not_used_again(void **state)
{
    (void)state;
    struct model model;
    reuse_open_bed(&model, 2);
    assert_int_equal(reused_until_first_leaves(&model), 1);
    segments_note_damage(model.store->segments, segments_first(model.store->segments));
    assert_int_equal(reused_until_first_leaves(&model), 0);
    model_fini_reopened(&model);
}

/* Slices and history need the room, too. */
static void files_are_given_back_near_the_limit(void **state)
{
    (void)state;
    struct model model;
    struct store_stats stats;
    reuse_open_bed(&model, 2);
    assert_int_equal(reused_until_first_leaves(&model), 1);
    store_stats(model.store, &stats);
    model.store->options.max_bytes = stats.disk_bytes + MODEL_SEGMENT - BLOCK;
    assert_int_equal(reused_until_first_leaves(&model), 0);
    model_fini_reopened(&model);
}

static void step(struct model *model)
{
    model->now_us += 50000;
    store_turn(model->store, model->now_us);
    model_disk_works(model);
    store_poll(model->store);
}

static void files_are_given_back_while_the_disk_is_full(void **state)
{
    (void)state;
    struct model model;
    struct store_stats stats;
    uint64_t freed = 0;
    model_init(&model, 2);
    model.options.body_max = 1000;
    sim_disk_capacity(model.disk, 12 * (uint64_t)MODEL_SEGMENT);
    assert_int_equal(model_open(&model), OK);
    while (model_push(&model) == OK)
        step(&model);
    for (size_t i = 0; i < model.job_count; i++) {
        bool full = segments_full(model.store->segments) != OK;
        uint64_t before = reused(&model);
        store_stats(model.store, &stats);
        uint64_t checkpoints = stats.checkpoints;
        model_end(&model, &model.jobs[i]);
        step(&model);
        if (!full || segments_full(model.store->segments) == OK)
            continue;
        assert_int_equal(reused(&model), before);
        store_stats(model.store, &stats);
        freed += stats.checkpoints - checkpoints;
    }
    assert_true(freed > 0);
    model_fini_reopened(&model);
}

static void a_file_of_another_size_is_not_used_again(void **state)
{
    (void)state;
    struct model model;
    reuse_open_bed(&model, 2);
    model_close(&model);
    model.options.segment_bytes = 2 * MODEL_SEGMENT;
    assert_int_equal(model_open(&model), OK);
    model_check(&model);
    assert_int_equal(reused_until_first_leaves(&model), 0);
    model_fini_reopened(&model);
}

/* P9: feature 6 is in the manifest before the first such file; without one no byte differs. */
static void p9_the_manifest_says_so_before_a_file_is_used_again(void **state)
{
    (void)state;
    struct model model;
    struct manifest manifest;
    uint64_t len;
    model_init(&model, 2);
    assert_int_equal(model_open(&model), OK);
    model_settle(&model);
    model_close(&model);
    const char *slots = sim_disk_file(model.disk, MANIFEST_NAME, &len);
    for (int slot = 0; slot < 2; slot++) {
        assert_int_equal(manifest_decode(slots + (size_t)slot * BLOCK, &manifest), FORMAT_GOOD);
        assert_true(!(manifest.incompatible & FEATURE_REUSE) && manifest.secret == 0);
    }
    model_fini(&model);
    reuse_open_bed(&model, 2);
    uint64_t secret = model.store->secret;
    slots = sim_disk_file(model.disk, MANIFEST_NAME, &len);
    for (int slot = 0; slot < 2; slot++) {
        assert_int_equal(manifest_decode(slots + (size_t)slot * BLOCK, &manifest), FORMAT_GOOD);
        assert_true((manifest.incompatible & FEATURE_REUSE) && manifest.secret == secret);
    }
    model.options.id_seed++; /* a new secret would be another one */
    cut_off_and_reopen(&model, 1);
    assert_true(secret != 0 && model.store->secret == secret);
    model_fini(&model);
}

/* P9: a manifest that was brought back by hand, or whose newer slot is damaged. */
static void p9_a_store_with_used_files_says_so_whatever_its_manifest_said(void **state)
{
    (void)state;
    struct model model;
    struct manifest manifest;
    uint64_t len;
    reuse_open_bed(&model, 2);
    power_cut(&model, 1);
    char *slots = copy_of(&model, MANIFEST_NAME, &len);
    for (size_t slot = 0; slot < 2; slot++) {
        assert_int_equal(manifest_decode(slots + slot * BLOCK, &manifest), FORMAT_GOOD);
        manifest.incompatible &= ~(uint32_t)FEATURE_REUSE;
        manifest_encode(&manifest, slots + slot * BLOCK);
    }
    sim_disk_put(model.disk, MANIFEST_NAME, slots, (size_t)len);
    mem_free(slots);
    assert_int_equal(model_open(&model), OK);
    model_check(&model);
    assert_true(manifest_has(model.store->manifest, FEATURE_REUSE)); /* durably */
    model_fini_reopened(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_of_old_segments_take_new_ones),
        cmocka_unit_test(p1_old_bytes_behind_the_end_are_not_replayed),
        cmocka_unit_test(p1_a_body_that_looks_like_the_next_batch_is_not_replayed),
        cmocka_unit_test(p1_a_used_segment_with_a_damaged_header_is_not_taken_for_a_spare),
        cmocka_unit_test(p1_nor_is_one_that_the_manifest_does_not_know),
        cmocka_unit_test(p1_a_flipped_bit_in_a_used_segment_is_noticed_or_harms_nothing),
        cmocka_unit_test(verify_finds_nothing_wrong_with_used_files),
        cmocka_unit_test(p8_a_power_cut_while_a_file_is_used_again_loses_nothing),
        cmocka_unit_test(a_file_with_damage_in_it_is_not_used_again),
        cmocka_unit_test(files_are_given_back_near_the_limit),
        cmocka_unit_test(files_are_given_back_while_the_disk_is_full),
        cmocka_unit_test(a_file_of_another_size_is_not_used_again),
        cmocka_unit_test(p1_batches_behind_a_lost_one_are_not_replayed_later),
        cmocka_unit_test(p9_the_manifest_says_so_before_a_file_is_used_again),
        cmocka_unit_test(p9_a_store_with_used_files_says_so_whatever_its_manifest_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
