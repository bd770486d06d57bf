/*
 * Backups of a store that works: between any two calls of the capture the store goes on, writes,
 * rolls its segments and cleans. Whatever is captured opens, and holds exactly what the journal
 * says up to one batch: one that is not older than what was durable when the capture began.
 */
#include "store/backup.h"

#include "store/job_history.h"
#include "store/verify.h"
#include "store_model.h"
#include "store_work.h"
#include "test/unit/support/every.h"

enum { SEEDS = 60, TURNS_BEFORE = 400, LIVE_MAX = 12, FAR_MAX = 60 };

static size_t live_count(const struct model *model)
{
    size_t live = 0;
    for (size_t i = 0; i < model->job_count; i++)
        live += model->jobs[i].live;
    return live;
}

/* Work with few jobs alive at a time, so that the log is cleaned all the while. */
static void churn(struct model *model, int turns)
{
    size_t most = model->delay_us ? FAR_MAX : LIVE_MAX;
    for (int turn = 0; turn < turns; turn++) {
        model_work(model, 1);
        if (turn % 2) { /* else the cleaner stays behind */
            model_disk_works(model);
            store_poll(model->store);
        }
        for (size_t live = live_count(model); live > most; live--) {
            struct model_job *job = model_pick(model);
            if (job)
                model_end(model, job);
        }
    }
    assert_false(model->failed);
}

/* The disk as the capture sees it: the store works before each call. */
struct busy_disk {
    struct disk port; /* first */
    struct model *model;
    bool works;    /* now and then, before a call */
    bool opens;    /* the store, before the log is read */
    unsigned late; /* so many files more become others' after they were opened */
    bool splits;   /* it lists the history after the store has made more of it, … */
    bool stales;   /* … and the manifest that tells of that is not written yet */
    struct disk_file *manifest;
    char stale[MANIFEST_BYTES]; /* the manifest as it was read first */
    unsigned manifests;         /* so often it was opened, … */
    unsigned reads; /* … and read since it was opened twice: that itself, then the log */
};

static struct disk *work_first(struct disk *port)
{
    struct busy_disk *busy = (struct busy_disk *)port;
    if (busy->works && model_random(busy->model, 3) == 0)
        churn(busy->model, 1);
    return sim_disk_port(busy->model->disk);
}

/* One of the two parts of a listing. */
struct part {
    void (*each)(void *ctx, const char *name);
    void *ctx;
    bool history;
};

static void list_part(void *ctx, const char *name)
{
    const struct part *part = ctx;
    if ((strncmp(name, "hist-", 5) == 0) == part->history)
        part->each(part->ctx, name);
}

/* So much happens that it is written to a file. */
static void make_history(struct model *model)
{
    static char note[JOB_NOTE_MAX];
    struct store_stats stats = {0};
    for (int i = 0; i < 2000 && stats.history_files == 0; i++) {
        store_history_add(model->store, &(struct happening){.what = HAPPENED_RESERVED,
                                                            .state = JOB_RESERVED,
                                                            .promised = true,
                                                            .seq = 1,
                                                            .at_us = model->now_us,
                                                            .time_us = model->now_us + 1000,
                                                            .note = bytes_of(note, sizeof(note))});
        model_settle(model);
        store_stats(model->store, &stats);
    }
    assert_int_equal(stats.history_files, 1);
}

static enum err busy_list(struct disk *port, void (*each)(void *ctx, const char *name), void *ctx)
{
    struct busy_disk *busy = (struct busy_disk *)port;
    struct disk *disk = work_first(port);
    if (!busy->splits)
        return disk->verbs->list(disk, each, ctx);
    struct part part = {.each = each, .ctx = ctx};
    enum err err = disk->verbs->list(disk, list_part, &part);
    make_history(busy->model);
    busy->splits = false;
    part.history = true;
    return err ? err : disk->verbs->list(disk, list_part, &part);
}

static enum err busy_open(struct disk *port, const char *name, enum disk_cache cache,
                          struct disk_file **out_file)
{
    struct busy_disk *busy = (struct busy_disk *)port;
    struct disk *disk = work_first(port);
    enum err err = disk->verbs->open(disk, name, cache, out_file);
    bool manifest = strcmp(name, MANIFEST_NAME) == 0;
    busy->manifests += manifest;
    busy->manifest = manifest && !err ? *out_file : NULL;
    return err;
}

static void busy_close(struct disk *port, struct disk_file *file)
{
    struct disk *disk = sim_disk_port(((struct busy_disk *)port)->model->disk);
    disk->verbs->close(disk, file);
}

static enum err busy_hold(struct disk *port, struct disk_file *file)
{
    struct busy_disk *busy = (struct busy_disk *)port;
    struct disk *disk = work_first(port);
    if (busy->late > 0) {
        busy->late--;
        churn(busy->model, 200);
    }
    return disk->verbs->hold(disk, file);
}

static enum err busy_size(struct disk *port, struct disk_file *file, uint64_t *out_bytes)
{
    struct disk *disk = work_first(port);
    return disk->verbs->size(disk, file, out_bytes);
}

static enum err busy_read(struct disk *port, struct disk_file *file, uint64_t offset, void *at,
                          size_t len, size_t *out_len)
{
    struct busy_disk *busy = (struct busy_disk *)port;
    struct disk *disk = work_first(port);
    if (busy->opens && busy->manifests == 2 && busy->reads++ == 1) {
        assert_int_equal(model_open(busy->model), OK);
        assert_int_equal(model_push(busy->model), OK);
        model_settle(busy->model);
    }
    enum err err = disk->verbs->read(disk, file, offset, at, len, out_len);
    if (busy->stales && file == busy->manifest && busy->manifests <= 2) {
        assert_true(!err && offset == 0 && *out_len == sizeof(busy->stale));
        memcpy(busy->manifests == 1 ? busy->stale : at, busy->manifests == 1 ? at : busy->stale,
               sizeof(busy->stale));
    }
    return err;
}

static const struct disk_verbs busy_verbs = {
    .list = busy_list,
    .open = busy_open,
    .close = busy_close,
    .hold = busy_hold,
    .size = busy_size,
    .read = busy_read,
};

static struct busy_disk busy_disk_of(struct model *model, bool works)
{
    return (struct busy_disk){.port.verbs = &busy_verbs, .model = model, .works = works};
}

/* Puts the backup's files onto another disk, as `later backup` and `later restore` do. */
static void put_files(struct backup *backup, struct sim_disk *to, bool restored)
{
    char slots[MANIFEST_BYTES];
    struct store_error error;
    for (size_t i = 0; i < backup->count; i++) {
        const struct backup_file *file = &backup->files[i];
        char *bytes = mem_zalloc(file->size_bytes);
        size_t len = 0;
        assert_int_equal(
            backup->disk->verbs->read(backup->disk, file->file, 0, bytes, file->used_bytes, &len),
            OK);
        assert_int_equal(len, file->used_bytes);
        sim_disk_put(to, file->name, bytes, file->size_bytes);
        mem_free(bytes);
    }
    backup_manifest(backup, slots);
    if (restored)
        assert_int_equal(backup_restored(slots, &error), OK);
    sim_disk_put(to, MANIFEST_NAME, slots, sizeof(slots));
}

/* A model whose store is on another disk, and which expects what `model` expects. */
static void model_like(const struct model *model, struct model *other)
{
    model_init(other, 7);
    other->backed_up = true;
    if (model->delay_us)
        model_use_slices(other);
    other->options = model->options;
    other->options.disk = sim_disk_port(other->disk);
    other->body_bytes = model->body_bytes;
    other->rest_slices = model->rest_slices;
    other->now_us = model->now_us;
    other->entry_count = model->entry_count;
    other->journal = grown_copy(model->journal, model->entry_count, sizeof(*other->journal));
}

static void say_nothing(void *ctx, const char *line)
{
    (void)ctx;
    (void)line;
}

static void verifies(struct model *model)
{
    struct store_watcher watcher = {.print_line = say_nothing};
    struct store_counts counts;
    assert_int_equal(store_verify(sim_disk_port(model->disk), &watcher, &counts), OK);
    assert_int_equal(counts.bad, 0);
}

/* Opens what was captured; `model` goes on as if nothing had happened. */
static void open_and_compare(struct model *model, struct backup *backup, uint64_t least,
                             bool restored)
{
    struct model other;
    model_like(model, &other);
    put_files(backup, other.disk, restored);
    verifies(&other);
    assert_int_equal(model_open(&other), OK);
    assert_true(store_durable(other.store) >= backup->batch);
    assert_true(backup->batch >= least);
    if (restored) { /* the first numbers are those that the old store never gave since */
        assert_true(store_seq_first(other.store) > model->seq_highest);
        assert_true(store_lease_first(other.store) > model->lease_highest);
    }
    other.seq_highest = 0; /* it may be an older state than the model's */
    other.lease_highest = 0;
    model_check(&other);
    churn(&other, 100); /* it goes on */
    model_settle(&other);
    model_fini(&other);
}

/* What a store has besides its log, or in it. */
enum having {
    NOTHING_ELSE,
    SLICES,
    LATE_BODIES, /* whose memory the log takes over: see model_use_late() */
};

static void begin(struct model *model, uint64_t seed, enum having having)
{
    model_init(model, seed);
    model->backed_up = true;
    if (having == SLICES)
        model_use_slices(model);
    model->rest_slices = 2;
    if (having == LATE_BODIES)
        model_use_late(model);
    /* A late body is a commit of its own: with many the cleaner would stay behind. */
    model->options.body_max = having == LATE_BODIES ? DISK_ALIGN * 5 / 4 : 1500;
    assert_int_equal(model_open(model), OK);
    churn(model, TURNS_BEFORE);
}

static void under_load(enum having having)
{
    const unsigned lives = sim_lives(SEEDS);
    unsigned rounds = 0, late = 0;
    size_t slices = 0;
    for (uint64_t seed = 1; seed <= lives; seed++) {
        struct model model;
        struct backup backup;
        struct store_error error;
        begin(&model, seed, having);
        struct busy_disk busy = busy_disk_of(&model, true);
        uint64_t least = model.acknowledged;
        assert_int_equal(backup_capture(&busy.port, &backup, &error), OK);
        rounds += backup.rounds;
        slices += backup.count - backup.segments;
        churn(&model, 200); /* the files are copied while the store cleans */
        busy.works = false;
        open_and_compare(&model, &backup, least, seed % 2);
        backup_release(&backup);
        churn(&model, 20);
        late += model.late;
        model_fini(&model);
    }
    assert_true(rounds > lives + lives / 4); /* it did change under the capture's eyes */
    assert_true(having == SLICES ? slices > lives : slices == 0);
    assert_true(having == LATE_BODIES ? late > lives : late == 0);
}

static void p2_a_backup_taken_under_load_is_the_store_at_one_instant(void **state)
{
    (void)state;
    under_load(NOTHING_ELSE);
}

/* P2: between the opening of a file and the lock its segment is cleaned, and another one written.
 */
static void p2_a_backup_has_no_file_that_became_another_segment(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct model model;
        struct backup backup;
        struct store_error error;
        begin(&model, seed, NOTHING_ELSE);
        struct busy_disk busy = busy_disk_of(&model, false);
        busy.late = 1 + (unsigned)(seed % 3);
        uint64_t least = model.acknowledged;
        assert_int_equal(backup_capture(&busy.port, &backup, &error), OK);
        open_and_compare(&model, &backup, least, true);
        backup_release(&backup);
        model_fini(&model);
    }
}

/*
 * A directory is not listed at one instant: a segment that was a spare then may have batches when a
 * history file with them is listed. Such a backup would lack what was acknowledged.
 */
static void p2_a_backup_ends_behind_its_history(void **state)
{
    (void)state;
    struct model model;
    struct backup backup;
    struct store_error error;
    model_init(&model, 3);
    model.backed_up = true;
    model.options.history_us = INT64_C(86400) * 1000000;
    model.options.never_cleans = true;
    assert_int_equal(model_open(&model), OK);
    assert_int_equal(model_push(&model), OK);
    model_settle(&model);
    struct busy_disk busy = busy_disk_of(&model, false);
    busy.splits = busy.stales = true;
    uint64_t least = model.acknowledged;
    assert_int_equal(backup_capture(&busy.port, &backup, &error), OK);
    assert_int_equal(backup.rounds, 2);
    open_and_compare(&model, &backup, least, true);
    backup_release(&backup);
    model_fini(&model);
}

static void p2_a_backup_taken_under_load_has_the_slices_that_its_log_needs(void **state)
{
    (void)state;
    under_load(SLICES);
}

static void p2_a_backup_taken_under_load_has_bodies_whose_memory_the_log_took_over(void **state)
{
    (void)state;
    under_load(LATE_BODIES);
}

static unsigned faults_of(struct model *model)
{
    struct store_watcher watcher = {.print_line = say_nothing};
    struct store_counts counts = {0};
    assert_int_equal(store_verify(sim_disk_port(model->disk), &watcher, &counts), OK);
    return (unsigned)counts.bad;
}

/* The end of a running store's log may be torn, that of a backup may not. */
static void p2_damage_at_the_end_of_a_backup_is_no_torn_tail(void **state)
{
    unsigned hits = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct model model, flipped, shorter;
        struct backup backup;
        struct store_error error;
        begin(&model, seed, NOTHING_ELSE);
        struct busy_disk busy = busy_disk_of(&model, true);
        assert_int_equal(backup_capture(&busy.port, &backup, &error), OK);
        assert_true(backup.segments > 1);
        const struct backup_file *tail = &backup.files[backup.segments - 1];
        model_like(&model, &flipped);
        model_like(&model, &shorter);
        put_files(&backup, flipped.disk, seed % 2);
        put_files(&backup, shorter.disk, seed % 2);
        if (tail->used_bytes > BLOCK) { /* its last batch */
            hits++;
            uint64_t bit = (tail->used_bytes - BLOCK + 1) * 8;
            assert_true(sim_disk_flip(flipped.disk, tail->name, bit));
            assert_true(faults_of(&flipped) > 0);
            assert_true(sim_disk_delete(shorter.disk, tail->name));
            assert_true(faults_of(&shorter) > 0);
            assert_int_equal(model_open(&shorter), ERR_CORRUPT);
        }
        backup_release(&backup);
        model_fini(&shorter);
        model_fini(&flipped);
        model_fini(&model);
    }
    assert_true(hits > 5);
}

static void a_backup_of_a_closed_store_is_closed_too(void **state)
{
    (void)state;
    struct model model;
    struct backup backup;
    struct store_error error;
    begin(&model, 3, NOTHING_ELSE);
    uint64_t least = model.acknowledged;
    model_close(&model);
    struct busy_disk busy = busy_disk_of(&model, false);
    assert_int_equal(backup_capture(&busy.port, &backup, &error), OK);
    assert_true(backup.manifest.clean);
    assert_int_equal(backup.rounds, 1);
    open_and_compare(&model, &backup, least, false);
    backup_release(&backup);
    model_fini(&model);
}

/* Opened, and with new batches, after its clean manifest was read: those are not of the backup. */
static void ends_where_a_clean_manifest_says(uint64_t seed)
{
    struct model model;
    struct backup backup, later;
    struct store_error error;
    begin(&model, seed, NOTHING_ELSE);
    model_settle(&model);
    uint64_t end = model.acknowledged;
    model_close(&model);
    struct busy_disk busy = busy_disk_of(&model, false);
    busy.opens =
        true; /* before the second reading of the manifest ends, or before that of the log */
    assert_int_equal(backup_capture(&busy.port, &backup, &error), OK);
    assert_non_null(model.store);
    busy.opens = false;
    assert_true(backup.manifest.clean);
    assert_int_equal(backup.batch, backup.manifest.durable);
    assert_int_equal(backup_capture(&busy.port, &later, &error), OK);
    assert_true(later.batch > end);
    open_and_compare(&model, &later, end, false);
    open_and_compare(&model, &backup, end, false);
    backup_release(&backup);
    backup_release(&later);
    model_fini(&model);
}

static void a_backup_ends_where_a_clean_manifest_says(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 8; seed++) /* a last segment may be full */
        ends_where_a_clean_manifest_says(seed);
}

static void an_empty_store_and_none_are_told_apart(void **state)
{
    (void)state;
    struct model model;
    struct backup backup;
    struct store_error error;
    model_init(&model, 5);
    model.backed_up = true;
    struct busy_disk busy = busy_disk_of(&model, false);
    assert_int_equal(backup_capture(&busy.port, &backup, &error), ERR_NOT_FOUND);
    assert_int_equal(model_open(&model), OK);
    assert_int_equal(backup_capture(&busy.port, &backup, &error), OK);
    open_and_compare(&model, &backup, 0, true);
    backup_release(&backup);
    model_fini(&model);
}

static void a_backup_says_what_is_missing_or_too_new(void **state)
{
    (void)state;
    struct model model;
    struct backup backup;
    struct store_error error;
    char first[DISK_NAME_MAX];
    begin(&model, 6, NOTHING_ELSE);
    model_settle(&model);
    struct busy_disk busy = busy_disk_of(&model, false);
    assert_int_equal(backup_capture(&busy.port, &backup, &error), OK);
    memcpy(first, backup.files[0].name, sizeof(first));
    backup_release(&backup);
    sim_disk_starve(model.disk, true);
    assert_int_equal(backup_capture(&busy.port, &backup, &error), ERR_AGAIN);
    sim_disk_starve(model.disk, false);
    assert_true(sim_disk_delete(model.disk, first));
    assert_int_equal(backup_capture(&busy.port, &backup, &error), ERR_CORRUPT);
    assert_non_null(strstr(error.text, "files are missing"));
    model_fini(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(p2_a_backup_taken_under_load_is_the_store_at_one_instant),
        cmocka_unit_test(p2_a_backup_has_no_file_that_became_another_segment),
        cmocka_unit_test(p2_a_backup_ends_behind_its_history),
        cmocka_unit_test(p2_a_backup_taken_under_load_has_the_slices_that_its_log_needs),
        cmocka_unit_test(p2_a_backup_taken_under_load_has_bodies_whose_memory_the_log_took_over),
        cmocka_unit_test(p2_damage_at_the_end_of_a_backup_is_no_torn_tail),
        cmocka_unit_test(a_backup_of_a_closed_store_is_closed_too),
        cmocka_unit_test(a_backup_ends_where_a_clean_manifest_says),
        cmocka_unit_test(an_empty_store_and_none_are_told_apart),
        cmocka_unit_test(a_backup_says_what_is_missing_or_too_new),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
