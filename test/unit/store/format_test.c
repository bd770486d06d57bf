/*
 * Ways to change the format without breaking it: feature bits, records that may be stepped over,
 * and the epoch.
 */
#include "store_model.h"
#include "store_work.h"

#include "base/codec.h"
#include "base/hash.h"
#include "store/format.h"
#include "store/record.h"

static void a_store_without_features_is_one_of_version_1(void **state)
{
    (void)state;
    char slot[BLOCK];
    struct manifest manifest = {.version = 1, .generation = 1, .batch_first = 1, .seq_mark = 1};
    manifest_encode(&manifest, slot);
    assert_int_equal(get_u32(slot + 8), 1);
    assert_true(bytes_all_zero(slot + 88, 4000));
    manifest.incompatible = FEATURE_FOLLOWERS;
    manifest_encode(&manifest, slot);
    assert_int_equal(get_u32(slot + 8), 2); /* which 0.1.0 refuses */
}

static void a_manifest_keeps_features_epoch_and_followers(void **state)
{
    (void)state;
    char slot[BLOCK];
    struct manifest back;
    struct manifest manifest = {
        .version = 1,
        .generation = 1,
        .batch_first = 1,
        .seq_mark = 1,
        .compatible = 1u << 31,
        .incompatible = FEATURE_EPOCH,
        .epoch = UINT64_MAX - 1,
        .followers = {[3] = {.name = "mysql", .cursor = 77},
                      [15] = {.name = "12345678901234567890123456789012", .dropped = true}}};
    manifest_encode(&manifest, slot);
    assert_int_equal(manifest_decode(slot, &back), FORMAT_GOOD);
    assert_int_equal(back.compatible, manifest.compatible);
    assert_int_equal(back.epoch, manifest.epoch);
    assert_int_equal(manifest_unknown_feature(&back), -1);
    for (int i = 0; i < FOLLOWERS_MAX; i++) {
        assert_memory_equal(back.followers[i].name, manifest.followers[i].name, FOLLOWER_NAME_MAX);
        assert_int_equal(back.followers[i].cursor, manifest.followers[i].cursor);
        assert_int_equal(back.followers[i].dropped, manifest.followers[i].dropped);
    }
}

/* Sets bits of both slots' words at `offset`, and signs them again. */
static void set_manifest_bits(struct model *model, size_t offset, uint32_t bits)
{
    uint64_t len = 0;
    char *slots = (char *)(uintptr_t)sim_disk_file(model->disk, MANIFEST_NAME, &len);
    assert_int_equal(len, MANIFEST_BYTES);
    for (char *slot = slots; slot < slots + MANIFEST_BYTES; slot += BLOCK) {
        if (bytes_all_zero(slot, BLOCK))
            continue;
        put_u32(slot + offset, get_u32(slot + offset) | bits);
        put_u64(slot + BLOCK - 8, hash_of(slot, BLOCK - 8));
    }
}

static void an_unknown_feature_is_refused_by_its_number(void **state)
{
    (void)state;
    struct model model;
    model_init(&model, 1);
    assert_int_equal(model_open(&model), OK);
    model_work(&model, 20);
    model_close(&model);
    set_manifest_bits(&model, 88, 1u << 30); /* compatible ones are not looked at … */
    assert_int_equal(model_open(&model), OK);
    model_check(&model);
    model_close(&model);
    set_manifest_bits(&model, 92, 1u << 17);
    assert_int_equal(model_open(&model), ERR_UNSUPPORTED);
    assert_non_null(strstr(model.error.text, "feature 17"));
    assert_non_null(strstr(model.error.text, "a newer one"));
    model_fini(&model);
}

static void a_walk_steps_over_what_may_be_stepped_over_and_no_more(void **state)
{
    (void)state;
    _Alignas(8) char batch[BATCH_HEAD + 256] = {0};
    struct batch_walk walk;
    struct event event = {.kind = EVENT_GONE, .job = {.seq = 9}};
    char *at = batch + BATCH_HEAD;
    record_epoch_encode(4, at);
    at += RECORD_EPOCH_BYTES;
    put_u32(at, 24); /* of a kind that nobody knows */
    put_u8(at + 4, RECORD_SKIP | 33);
    at += 24;
    record_encode(&event, RECORD_GONE, at);
    record_mark_copy(at);
    at += RECORD_GONE;
    batch_walk_init(&walk, batch, (uint32_t)(at - batch - BATCH_HEAD));
    assert_int_equal(batch_walk_next(&walk), OK);
    assert_int_equal(walk.record.event.job.seq, 9);
    assert_true(walk.record.copy);
    assert_int_equal(walk.epoch, 4);
    assert_int_equal(batch_walk_next(&walk), ERR_NOT_FOUND);
    assert_int_equal(walk.count, 3);
    put_u8(batch + BATCH_HEAD + RECORD_EPOCH_BYTES + 4, 33);
    batch_walk_init(&walk, batch, (uint32_t)(at - batch - BATCH_HEAD));
    assert_int_equal(batch_walk_next(&walk), ERR_CORRUPT);
    put_u8(batch + BATCH_HEAD + RECORD_EPOCH_BYTES + 4, RECORD_SKIP);
    put_u32(batch + BATCH_HEAD + RECORD_EPOCH_BYTES, 4096); /* longer than the batch */
    batch_walk_init(&walk, batch, (uint32_t)(at - batch - BATCH_HEAD));
    assert_int_equal(batch_walk_next(&walk), ERR_CORRUPT);
}

static void an_epoch_never_falls(void **state)
{
    (void)state;
    static const uint64_t epochs[] = {0, 0, 3, 3, 9, UINT64_MAX - 1};
    struct model model;
    model_init(&model, 5);
    for (unsigned i = 0; i < sizeof(epochs) / sizeof(*epochs); i++) {
        model.options.epoch = epochs[i];
        assert_int_equal(model_open(&model), OK);
        model_check(&model);
        model_work(&model, 80); /* with checkpoints */
        if (i % 2) {
            sim_disk_cut_at(model.disk, sim_disk_points(model.disk));
            model_close(&model);
            sim_disk_power(model.disk, i);
        }
        model_close(&model);
        if (epochs[i] == 0)
            continue;
        model.options.epoch = epochs[i] - 1;
        assert_int_equal(model_open(&model), ERR_UNSUPPORTED);
        assert_non_null(strstr(model.error.text, "another laterd has led it since"));
    }
    model_fini(&model);
}

/* The manifest alone is no proof: both its slots may be older than the log. */
static void an_epoch_that_only_the_log_tells_counts(void **state)
{
    (void)state;
    struct model model;
    model_init(&model, 5);
    model.options.epoch = 7;
    assert_int_equal(model_open(&model), OK);
    model_work(&model, 20);
    model_close(&model);
    uint64_t len = 0;
    char *slots = (char *)(uintptr_t)sim_disk_file(model.disk, MANIFEST_NAME, &len);
    for (char *slot = slots; slot < slots + MANIFEST_BYTES; slot += BLOCK) {
        put_u64(slot + 96, 2);
        put_u64(slot + BLOCK - 8, hash_of(slot, BLOCK - 8));
    }
    model.options.epoch = 6;
    assert_int_equal(model_open(&model), ERR_UNSUPPORTED);
    model.options.epoch = 7;
    assert_int_equal(model_open(&model), OK);
    model_check(&model);
    model_fini(&model);
}

/* An empty batch that proves the last one is one with a record then: it needs no proof itself. */
static void with_an_epoch_a_store_becomes_quiet(void **state)
{
    (void)state;
    struct model model;
    struct store_stats before, after;
    model_init(&model, 5);
    model.options.epoch = 1;
    assert_int_equal(model_open(&model), OK);
    model_work(&model, 20);
    model_settle(&model);
    store_stats(model.store, &before);
    model_settle(&model);
    store_stats(model.store, &after);
    assert_int_equal(before.batches, after.batches);
    model_fini(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_store_without_features_is_one_of_version_1),
        cmocka_unit_test(a_manifest_keeps_features_epoch_and_followers),
        cmocka_unit_test(an_unknown_feature_is_refused_by_its_number),
        cmocka_unit_test(a_walk_steps_over_what_may_be_stepped_over_and_no_more),
        cmocka_unit_test(an_epoch_never_falls),
        cmocka_unit_test(an_epoch_that_only_the_log_tells_counts),
        cmocka_unit_test(with_an_epoch_a_store_becomes_quiet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
