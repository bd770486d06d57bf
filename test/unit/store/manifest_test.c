/*
 * The store's root and its openings: slots, boots, clean ends, numbers never given twice, versions.
 */
#include "base/mem.h"
#include "store_model.h"
#include "store_work.h"

#include <errno.h>

#include "base/codec.h"
#include "base/hash.h"
#include "store/format.h"
#include "store/internal.h"

static struct manifest *decode(struct model *model, int slot, struct manifest *room)
{
    uint64_t len = 0;
    const char *at = sim_disk_file(model->disk, MANIFEST_NAME, &len);
    assert_int_equal(len, MANIFEST_BYTES);
    return manifest_decode(at + (size_t)slot * BLOCK, room) == FORMAT_GOOD ? room : NULL;
}

static void a_manifest_comes_back_and_no_flip_is_believed(void **state)
{
    (void)state;
    struct manifest manifest = {
        .version = FORMAT_VERSION,
        .id.bytes = {1, 2, 3},
        .generation = 9,
        .boot = 4,
        .batch_first = 100,
        .durable = 120,
        .seq_mark = 5000,
        .number_next = 17,
        .lease_mark = 77,
        .clean = true,
    };
    struct manifest back;
    char slot[BLOCK];
    manifest_encode(&manifest, slot);
    assert_int_equal(manifest_decode(slot, &back), FORMAT_GOOD);
    assert_true(store_id_eq(&manifest.id, &back.id) && back.clean && back.durable == 120 &&
                back.seq_mark == 5000 && back.number_next == 17 && back.batch_first == 100 &&
                back.boot == 4 && back.generation == 9 && back.lease_mark == 77);
    for (size_t bit = 0; bit < BLOCK * 8; bit++) {
        slot[bit / 8] = (char)(slot[bit / 8] ^ 1 << bit % 8);
        assert_int_equal(manifest_decode(slot, &back), FORMAT_BAD);
        slot[bit / 8] = (char)(slot[bit / 8] ^ 1 << bit % 8);
    }
    memset(slot, 0, sizeof(slot));
    assert_int_equal(manifest_decode(slot, &back), FORMAT_BLANK);
}

static void segment_names_are_exact(void **state)
{
    (void)state;
    char name[DISK_NAME_MAX];
    uint32_t number = 0;
    segment_name(0x2a, name);
    assert_string_equal(name, "wal-0000002a");
    assert_true(segment_name_parse(name, &number));
    assert_int_equal(number, 0x2a);
    assert_false(segment_name_parse("wal-0000002A", &number));
    assert_false(segment_name_parse("wal-0000002", &number));
    assert_false(segment_name_parse("wal-0000002a.tmp", &number));
    assert_false(segment_name_parse("wal-00000000", &number));
}

/* A new store, closed; the manifest in a slot of it. */
static struct manifest *model_manifest(struct model *model, int slot, struct manifest *room)
{
    model_init(model, 1);
    assert_int_equal(model_open(model), OK);
    model_close(model);
    struct manifest *manifest = decode(model, slot, room);
    assert_non_null(manifest);
    manifest->generation += 10;
    return manifest;
}

/* Closes the store, in order or by a power cut. */
static void end(struct model *model, bool clean)
{
    if (!clean)
        sim_disk_cut_at(model->disk, sim_disk_points(model->disk));
    model_close(model);
    model->store = NULL;
    if (!clean)
        sim_disk_power(model->disk, 1);
}

/* Opens the store, whose leases begin above *given, and gives 1,000 of them before it is closed. */
static void open_and_give_leases(struct model *model, uint64_t *given, bool clean)
{
    assert_int_equal(model_open(model), OK);
    assert_true(store_lease_first(model->store) > *given);
    *given = store_lease_first(model->store) + 1000;
    store_lease_note(model->store, *given + 1);
    end(model, clean);
}

static void p4_each_opening_has_leases_of_its_own(void **state)
{
    (void)state;
    for (int clean = 0; clean < 2; clean++) {
        struct model model;
        uint64_t given = 0;
        model_init(&model, 1);
        for (int i = 0; i < 5; i++)
            open_and_give_leases(&model, &given, clean);
        assert_int_equal(model_open(&model), OK);
        model_fini(&model);
    }
}

static void p4_leases_go_on_above_those_of_a_store_that_has_no_mark_of_them(void **state)
{
    (void)state;
    static const uint64_t boots[] = {1, 5, (1 << 20) - 2}; /* 2^20 boots used up all leases once */
    for (size_t i = 0; i < 3; i++) {
        struct model model;
        struct manifest room;
        char slots[MANIFEST_BYTES] = {0};
        struct manifest *manifest = model_manifest(&model, 0, &room);
        manifest->boot = boots[i];
        manifest->lease_mark = 0;
        manifest_encode(manifest, slots + (manifest->generation & 1) * BLOCK);
        manifest->generation++;
        manifest_encode(manifest, slots + (manifest->generation & 1) * BLOCK);
        sim_disk_put(model.disk, MANIFEST_NAME, slots, sizeof(slots));
        uint64_t given = (boots[i] << 44) + (UINT64_C(1) << 43); /* by the earlier version */
        for (int opening = 0; opening < 5; opening++)
            open_and_give_leases(&model, &given, opening % 2);
        assert_int_equal(model_open(&model), OK);
        model_fini(&model);
    }
}

static void p4_a_life_may_give_any_number_of_leases(void **state)
{
    (void)state;
    for (int steps = 1; steps <= 20; steps++) { /* up to ten times what an opening sets aside */
        struct model model;
        model_init(&model, 1);
        assert_int_equal(model_open(&model), OK);
        uint64_t given = store_lease_first(model.store);
        for (int i = 0; i < steps; i++) {
            given += LEASE_AHEAD / 2;
            store_lease_note(model.store, given + 1);
            while (sim_disk_step(model.disk, LANE_BACKGROUND))
                store_poll(model.store);
        }
        end(&model, false);
        assert_int_equal(model_open(&model), OK);
        assert_true(store_lease_first(model.store) > given);
        model_fini(&model);
    }
}

/* After a crash numbers go on behind the mark: what is given beyond it would be given again. */
static void p4_pushes_wait_when_few_numbers_are_left_below_the_mark(void **state)
{
    (void)state;
    struct model model;
    model_init(&model, 1);
    assert_int_equal(model_open(&model), OK);
    uint64_t mark = manifest_seq_mark(model.store->manifest);
    store_seq_note(model.store, mark - SEQ_AHEAD / 8 - 1);
    assert_int_equal(store_admit(model.store, 10), OK);
    store_seq_note(model.store, mark - SEQ_AHEAD / 8);
    assert_int_equal(store_admit(model.store, 10), ERR_AGAIN);
    model_fini(&model);
}

/* Has the manifest written; it is under way on the disk's thread. */
static void begin_to_write_manifest(struct model *model)
{
    assert_false(manifest_busy(model->store->manifest));
    store_lease_note(model->store, store_lease_first(model->store) + LEASE_AHEAD);
    assert_true(manifest_busy(model->store->manifest));
}

/* A process that is killed may leave a slot in the page cache alone. The next one goes on with what
   that says, and writes the other slot: a power cut must not take both. */
static void p2_a_slot_that_a_killed_process_wrote_is_synced_before_the_other_is_written(
    void **state)
{
    enum { POINTS = 60, SEEDS = 60 };
    (void)state;
    for (uint64_t points = 0; points < POINTS; points++) {
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            struct model model;
            model_init(&model, 1);
            assert_int_equal(model_open(&model), OK);
            assert_int_equal(model_push(&model), OK);
            model_settle(&model);
            begin_to_write_manifest(&model);
            sim_disk_cut_at(model.disk, sim_disk_points(model.disk) + 1); /* before its sync */
            (void)sim_disk_step(model.disk, LANE_BACKGROUND);
            model_close(&model);
            sim_disk_kill(model.disk);
            sim_disk_cut_at(model.disk, sim_disk_points(model.disk) + points);
            if (model_open(&model) == OK)
                model_close(&model);
            sim_disk_power(model.disk, seed);
            assert_int_equal(model_open(&model), OK);
            model_check(&model);
            model_fini(&model);
        }
    }
}

static void p7_a_manifest_that_cannot_be_written_fails_the_store(void **state)
{
    (void)state;
    for (uint64_t point = 0; point < 2; point++) { /* its write, its sync */
        struct model model;
        model_init(&model, 1);
        assert_int_equal(model_open(&model), OK);
        model_settle(&model);
        begin_to_write_manifest(&model);
        sim_disk_fail_at(model.disk, sim_disk_points(model.disk) + point, EIO);
        (void)sim_disk_step(model.disk, LANE_BACKGROUND);
        store_poll(model.store);
        assert_true(model.failed);
        assert_int_equal(store_admit(model.store, 10), ERR_STORE_FAILED);
        sim_disk_fail_at(model.disk, UINT64_MAX, 0);
        model_close(&model);
        assert_int_equal(model_open(&model), OK);
        model_fini(&model);
    }
}

/* Half of what was set aside is left then: the mark is durable before leases reach it. */
static void p4_the_mark_of_leases_moves_when_half_of_them_are_given(void **state)
{
    (void)state;
    struct model model;
    model_init(&model, 1);
    assert_int_equal(model_open(&model), OK);
    model_settle(&model);
    uint64_t half = store_lease_first(model.store) + LEASE_AHEAD / 2;
    store_lease_note(model.store, half);
    assert_false(manifest_busy(model.store->manifest));
    store_lease_note(model.store, half + 1);
    assert_true(manifest_busy(model.store->manifest));
    model_fini(&model);
}

/* Nothing but the manifest tells of a slice that has gone: what the log still says of it must not
   be taken for another file's. */
static void a_number_whose_file_has_gone_is_not_given_again(void **state)
{
    (void)state;
    struct model model;
    uint32_t number = 0;
    model_init(&model, 1);
    assert_int_equal(model_open(&model), OK);
    assert_int_equal(model_push(&model), OK);
    model_settle(&model);
    for (int i = 0; i < 10; i++)
        number = segments_take_number(model.store->segments);
    end(&model, true);
    assert_int_equal(model_open(&model), OK);
    assert_true(segments_number_next(model.store->segments) > number);
    model_fini(&model);
}

/* By which an image of far jobs is known for that of the last end, and leases were once made. */
static void each_opening_has_a_number_of_its_own(void **state)
{
    (void)state;
    struct model model;
    uint64_t boot = 0;
    model_init(&model, 1);
    for (int i = 0; i < 6; i++) {
        struct manifest slots[2];
        assert_int_equal(model_open(&model), OK);
        end(&model, i % 2);
        uint64_t newest = 0;
        for (int slot = 0; slot < 2; slot++)
            if (decode(&model, slot, &slots[slot]) && slots[slot].boot > newest)
                newest = slots[slot].boot;
        assert_true(newest > boot);
        boot = newest;
    }
    assert_int_equal(model_open(&model), OK);
    model_fini(&model);
}

/* What needs several features waits for all of them, whichever there are. */
static void features_are_durable_before_they_are_used(void **state)
{
    enum { TWO = FEATURE_SLICES | FEATURE_READY };
    (void)state;
    struct model model;
    struct manifest room;
    model_init(&model, 1);
    assert_int_equal(model_open(&model), OK);
    model_settle(&model);
    struct manifest_writer *writer = model.store->manifest;
    for (unsigned features = FEATURE_SLICES; features <= TWO; features += FEATURE_READY) {
        assert_false(manifest_has(writer, features));
        assert_true(manifest_busy(writer));
        assert_false(manifest_has(writer, features));
        model_settle(&model);
        assert_true(manifest_has(writer, features));
    }
    end(&model, true);
    assert_true((decode(&model, 0, &room) && (room.incompatible & TWO) == TWO) ||
                (decode(&model, 1, &room) && (room.incompatible & TWO) == TWO));
    assert_int_equal(model_open(&model), OK);
    model_fini(&model);
}

static int64_t replayed_us;

static void note_clock(struct store_callbacks *callbacks, int64_t clock_us)
{
    (void)callbacks;
    replayed_us = clock_us > replayed_us ? clock_us : replayed_us;
}

static void a_clean_end_keeps_the_clock_that_was_noted_last(void **state)
{
    (void)state;
    enum { NOTED_US = 1700000000 };
    struct model model;
    model_init(&model, 1);
    assert_int_equal(model_open(&model), OK);
    store_turn(model.store, NOTED_US);
    store_clock_note(model.store, NOTED_US); /* of jobs that fell due: nothing else is written */
    end(&model, true);
    model.callbacks.clock = note_clock;
    assert_int_equal(model_open(&model), OK);
    assert_true(replayed_us >= NOTED_US);
    model_fini(&model);
}

static void a_clean_end_keeps_the_exact_next_number(void **state)
{
    (void)state;
    struct model model;
    model_init(&model, 1);
    assert_int_equal(model_open(&model), OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(model_push(&model), OK);
    model_close(&model);
    assert_int_equal(model_open(&model), OK);
    assert_int_equal(store_seq_first(model.store), 4);
    sim_disk_cut_at(model.disk, sim_disk_points(model.disk));
    model_close(&model);
    model.store = NULL;
    sim_disk_power(model.disk, 1);
    assert_int_equal(model_open(&model), OK);
    assert_true(store_seq_first(model.store) >= 4 + SEQ_AHEAD);
    assert_int_equal(model.error.text[0], 0);
    model_fini(&model);
}

static void a_damaged_slot_is_noticed_and_costs_only_numbers(void **state)
{
    (void)state;
    for (int slot = 0; slot < 2; slot++) {
        struct model model;
        model_init(&model, 1);
        assert_int_equal(model_open(&model), OK);
        assert_int_equal(model_push(&model), OK);
        uint64_t lease = store_lease_first(model.store);
        model_close(&model);
        assert_true(sim_disk_flip(model.disk, MANIFEST_NAME, (uint64_t)slot * BLOCK * 8 + 300));
        assert_int_equal(model_open(&model), OK);
        assert_non_null(strstr(model.error.text, "notice"));
        assert_true(store_lease_first(model.store) > lease);
        model_check(&model);
        model_fini(&model);
    }
}

static void a_newer_version_is_refused(void **state)
{
    (void)state;
    struct model model;
    struct manifest room;
    char slots[MANIFEST_BYTES] = {0};
    struct manifest *manifest = model_manifest(&model, 1, &room);
    manifest_encode(manifest, slots);
    put_u32(slots + 8, FORMAT_VERSION_FEATURES + 1);
    put_u64(slots + BLOCK - 8, hash_of(slots, BLOCK - 8));
    sim_disk_put(model.disk, MANIFEST_NAME, slots, sizeof(slots));
    assert_int_equal(model_open(&model), ERR_UNSUPPORTED);
    assert_non_null(strstr(model.error.text, "newer"));
    model_fini(&model);
}

static void a_cut_manifest_is_refused(void **state)
{
    (void)state;
    struct model model;
    model_init(&model, 1);
    assert_int_equal(model_open(&model), OK);
    model_close(&model);
    sim_disk_put(model.disk, MANIFEST_NAME, "short", 5);
    assert_int_equal(model_open(&model), ERR_CORRUPT);
    model_fini(&model);
}

static void a_second_opener_is_locked_out(void **state)
{
    (void)state;
    struct model model;
    struct store *second = NULL;
    struct store_error error;
    model_init(&model, 1);
    assert_int_equal(model_open(&model), OK);
    assert_int_equal(store_open(&model.options, &model.callbacks, &second, &error), ERR_LOCKED);
    assert_non_null(strstr(error.text, "another"));
    model_fini(&model);
}

/* Reads of whole segments take as long as the replay of some 10,000 jobs. */
static void a_store_closed_in_order_is_opened_without_reading_zeros(void **state)
{
    (void)state;
    for (int clean = 0; clean < 2; clean++) {
        struct model model;
        int64_t reads = 0;
        model_init(&model, 1);
        model.options.segment_bytes = 8 * 1024 * 1024;
        assert_int_equal(model_open(&model), OK);
        assert_int_equal(model_push(&model), OK);
        model_settle(&model);
        end(&model, clean);
        sim_disk_cold(model.disk, true);
        sim_disk_read_waits(model.disk, &reads, 1);
        assert_int_equal(model_open(&model), OK);
        sim_disk_read_waits(model.disk, NULL, 0);
        if (clean)
            assert_in_range(reads, 1, 8); /* the manifest, three headers, the log */
        else
            assert_in_range(reads, 24, 64); /* three segments, 1 MiB at a time */
        sim_disk_cold(model.disk, false);
        model_check(&model);
        model_fini(&model);
    }
}

/* Of 1 MiB each, after a cut. *out_bytes: those of the log. */
static int64_t reads_of_a_start(unsigned batches, uint64_t *out_bytes)
{
    struct model model;
    int64_t reads = 0;
    model_init(&model, 1);
    model.options.segment_bytes = 8 * 1024 * 1024; /* one has all */
    model.body_bytes = model.options.body_max = 30 * 1024;
    assert_int_equal(model_open(&model), OK);
    for (unsigned i = 0; i < batches; i++) {
        assert_int_equal(model_push(&model), OK);
        model_settle(&model);
    }
    *out_bytes = segments_first(model.store->segments)->end;
    end(&model, false);
    sim_disk_cold(model.disk, true);
    sim_disk_read_waits(model.disk, &reads, 1);
    assert_int_equal(model_open(&model), OK);
    sim_disk_read_waits(model.disk, NULL, 0);
    sim_disk_cold(model.disk, false);
    model_check(&model);
    model_fini(&model);
    return reads;
}

/* What may be written again is behind it, and that alone is read a second time. */
static void what_is_proven_durable_is_read_once(void **state)
{
    (void)state;
    uint64_t bytes;
    int64_t least = reads_of_a_start(1, &bytes);
    assert_true(bytes < 1024 * 1024);
    assert_in_range(reads_of_a_start(180, &bytes), least, least + 2);
    assert_in_range(bytes, 5 * 1024 * 1024, 7 * 1024 * 1024);
}

/* Takes the batch of the job out of the log's only segment: there are zeros. */
static void lose_batch(struct model *model, const struct model_job *job)
{
    static const char name[] = "wal-00000001";
    uint64_t len = 0, block = (job->stored.where & UINT32_MAX) * 8 / BLOCK * BLOCK;
    const char *at = sim_disk_file(model->disk, name, &len);
    char *copy = mem_alloc(len);
    memcpy(copy, at, len);
    memset(copy + block, 0, BLOCK);
    sim_disk_put(model->disk, name, copy, len);
    mem_free(copy);
}

/* A manifest that says so and is older than the log: a copy that was put back by hand. */
static void a_manifest_older_than_the_log_is_not_believed_to_be_its_end(void **state)
{
    (void)state;
    for (int lost = 0; lost < 2; lost++) {
        struct model model;
        char slots[MANIFEST_BYTES];
        uint64_t len = 0;
        model_init(&model, 1);
        model.options.body_max = 60;
        model.options.segment_bytes = 1024 * 1024; /* one has all */
        assert_int_equal(model_open(&model), OK);
        assert_int_equal(model_push(&model), OK);
        model_settle(&model);
        end(&model, true);
        memcpy(slots, sim_disk_file(model.disk, MANIFEST_NAME, &len), sizeof(slots));
        assert_int_equal(model_open(&model), OK);
        for (int i = 0; i < 4; i++) {
            assert_int_equal(model_push(&model), OK);
            model_settle(&model);
        }
        end(&model, false);
        sim_disk_put(model.disk, MANIFEST_NAME, slots, sizeof(slots));
        if (lost)
            lose_batch(&model, &model.jobs[2]); /* later ones say that it was durable */
        assert_int_equal(model_open(&model), lost ? ERR_CORRUPT : OK);
        if (!lost)
            model_check(&model);
        model_fini(&model);
    }
}

/* As embedded/relocate.c has it: what is told ahead is only for speed, so no other test needs it.
 */
struct told {
    struct model model;
    uint64_t last;    /* the highest number that was told of */
    unsigned replays; /* of jobs that had been told of before */
};

static void note_prefetched(struct store_callbacks *callbacks, const struct job_ref *ref)
{
    struct told *told = (struct told *)LIST_ENTRY(callbacks, struct model, callbacks);
    if (ref->seq > told->last)
        told->last = ref->seq;
}

static enum err replay_expected(struct store_callbacks *callbacks, const struct event *event)
{
    struct told *told = (struct told *)LIST_ENTRY(callbacks, struct model, callbacks);
    told->replays += event->job.seq <= told->last;
    return model_replay(callbacks, event);
}

static void each_job_is_told_of_before_it_is_replayed(void **state)
{
    (void)state;
    struct told told = {.last = 0};
    struct model *model = &told.model;
    model_init(model, 1);
    model->options.segment_bytes = 1024 * 1024;
    assert_int_equal(model_open(model), OK);
    for (int i = 0; i < 100; i++)
        assert_int_equal(model_push(model), OK);
    model_settle(model);
    end(model, true);
    model->callbacks.prefetch = note_prefetched;
    model->callbacks.replay = replay_expected;
    assert_int_equal(model_open(model), OK);
    assert_true(told.replays >= 100);
    assert_int_equal(told.last, model->seq_highest);
    model_check(model);
    model_fini(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_manifest_comes_back_and_no_flip_is_believed),
        cmocka_unit_test(segment_names_are_exact),
        cmocka_unit_test(p4_each_opening_has_leases_of_its_own),
        cmocka_unit_test(p4_leases_go_on_above_those_of_a_store_that_has_no_mark_of_them),
        cmocka_unit_test(p4_a_life_may_give_any_number_of_leases),
        cmocka_unit_test(p4_pushes_wait_when_few_numbers_are_left_below_the_mark),
        cmocka_unit_test(
            p2_a_slot_that_a_killed_process_wrote_is_synced_before_the_other_is_written),
        cmocka_unit_test(p7_a_manifest_that_cannot_be_written_fails_the_store),
        cmocka_unit_test(p4_the_mark_of_leases_moves_when_half_of_them_are_given),
        cmocka_unit_test(a_number_whose_file_has_gone_is_not_given_again),
        cmocka_unit_test(each_opening_has_a_number_of_its_own),
        cmocka_unit_test(features_are_durable_before_they_are_used),
        cmocka_unit_test(a_clean_end_keeps_the_clock_that_was_noted_last),
        cmocka_unit_test(a_clean_end_keeps_the_exact_next_number),
        cmocka_unit_test(a_damaged_slot_is_noticed_and_costs_only_numbers),
        cmocka_unit_test(a_newer_version_is_refused),
        cmocka_unit_test(a_cut_manifest_is_refused),
        cmocka_unit_test(a_second_opener_is_locked_out),
        cmocka_unit_test(a_store_closed_in_order_is_opened_without_reading_zeros),
        cmocka_unit_test(what_is_proven_durable_is_read_once),
        cmocka_unit_test(a_manifest_older_than_the_log_is_not_believed_to_be_its_end),
        cmocka_unit_test(each_job_is_told_of_before_it_is_replayed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
