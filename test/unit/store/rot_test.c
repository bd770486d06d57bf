/*
 * Every bit of a small store is flipped in turn. An opening must then fail and say where, or lose
 * nothing; never be silent about acknowledged data.
 */
#include "store/internal.h"
#include "store/job_history.h"
#include "store/record.h"
#include "store/recovery/salvage_parts.h"
#include "store/verify.h"
#include "store_files.h"
#include "store_model.h"
#include "store_work.h"
#include "test/unit/support/every.h"

enum { ROT_SEGMENT = 16 * 1024 };
#define HISTORY_US (INT64_C(86400) * 1000000)

/* Behind the record of the job that was pushed last, if the store keeps a history. */
static void note_push(struct model *model)
{
    store_history_add(model->store, &(struct happening){.what = HAPPENED_PUSHED,
                                                        .state = JOB_DELAYED,
                                                        .promised = true,
                                                        .seq = model->seq_next - 1,
                                                        .at_us = model->now_us,
                                                        .time_us = model->now_us + 1000,
                                                        .topic = BYTES("topic")});
}

/* A store with a handful of jobs over two segments, closed in order or cut off from the power. */
static void build_with(struct model *model, bool clean, int64_t history_us)
{
    model_init(model, 5);
    model->options.history_us = history_us;
    model->options.segment_bytes = ROT_SEGMENT;
    model->options.body_max = 60;
    assert_int_equal(model_open(model), OK);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(model_push(model), OK);
        note_push(model);
        if (i == 2)
            model_end(model, model_pick(model));
        model_settle(model);
    }
    assert_int_equal(model->acknowledged, store_batch(model->store));
    if (!clean)
        sim_disk_cut_at(model->disk, sim_disk_points(model->disk));
    model_close(model);
    if (!clean)
        sim_disk_power(model->disk, 1);
}

static void build(struct model *model, bool clean)
{
    build_with(model, clean, 0);
}

/* The same files again, on a disk of their own, with one bit turned. */
static void copy_disk(struct model *to, const struct model *from, const struct file_list *list)
{
    model_init(to, 1);
    to->options.segment_bytes = ROT_SEGMENT;
    to->options.body_max = 60;
    copy_files(to, from, list);
    /* The last batch is an empty one, there to prove the others: it may go unnoticed. */
    to->acknowledged = from->journal[from->entry_count - 1].batch;
    to->seq_highest = from->seq_highest;
    to->lease_highest = from->lease_highest;
    to->journal = grown_copy(from->journal, from->entry_count, sizeof(*to->journal));
    to->entry_count = from->entry_count;
}

static void quiet(void *ctx, const char *line)
{
    (void)line;
    ++*(unsigned *)ctx;
}

struct tally {
    unsigned refused, noticed, harmless, seen_by_verify;
    bool closed_in_order;
};

/* Zeros behind the end of a log that was closed in order are not looked at when it is opened. What
   has rotted there is found by a later start, or written over: nothing is lost either way. */
static bool in_blank_block(const struct model *model, const char *name, uint64_t bit)
{
    uint64_t len = 0, block = bit / 8 / BLOCK * BLOCK;
    const char *at = sim_disk_file(model->disk, name, &len);
    return strncmp(name, "wal-", 4) == 0 && bytes_all_zero(at + block, BLOCK);
}

static void go_on(struct model *model)
{
    for (int i = 0; i < 3; i++) {
        assert_int_equal(model_push(model), OK);
        model_settle(model);
    }
    sim_disk_cut_at(model->disk, sim_disk_points(model->disk));
    model_close(model);
    sim_disk_power(model->disk, 1);
    assert_int_equal(model_open(model), OK);
    model_check(model);
}

static void flip_and_open(const struct model *whole, const struct file_list *list, size_t file,
                          uint64_t bit, struct tally *tally)
{
    struct model model;
    struct store_counts counts = {0};
    unsigned lines = 0;
    copy_disk(&model, whole, list);
    assert_true(sim_disk_flip(model.disk, list->names[file], bit));
    enum err verified = store_verify(
        model.options.disk, &(struct store_watcher){.print_line = quiet, .ctx = &lines}, &counts);
    tally->seen_by_verify += lines > 0;
    assert_true(verified == OK || lines > 0);
    assert_true(lines > 0); /* verify reads every byte: no flip escapes it */
    enum err err = model_open(&model);
    if (err) {
        assert_true(model.error.text[0] && model.error.file[0]);
        assert_int_equal(model.store, NULL);
        /* It is told why: */
        assert_true(verified || counts.hit_jobs + counts.hit_topics + counts.unknown > 0);
        tally->refused++;
    } else {
        model_check(&model); /* nothing is lost */
        if (model.error.text[0])
            tally->noticed++;
        else if (tally->closed_in_order && in_blank_block(whole, list->names[file], bit))
            go_on(&model);
        else
            tally->harmless++;
    }
    model_fini(&model);
}

static void flip_all(bool clean, int64_t history_us)
{
    struct model model;
    struct file_list list = {0};
    struct tally tally = {.closed_in_order = clean};
    build_with(&model, clean, history_us);
    list_files(&model, &list);
    for (size_t i = 0; i < list.count; i++) {
        uint64_t len = 0;
        (void)sim_disk_file(model.disk, list.names[i], &len);
        /* Zeros are alike: of them some bits do. All else is flipped bit by bit. */
        const char *at = sim_disk_file(model.disk, list.names[i], &len);
        for (uint64_t bit = 0; bit < len * 8; bit += sim_every())
            if (at[bit / 8] != 0 || bit % 1021 == 0)
                flip_and_open(&model, &list, i, bit, &tally);
    }
    print_message("refused %u, noticed %u, harmless %u\n", tally.refused, tally.noticed,
                  tally.harmless);
    assert_true(tally.refused > 0 && tally.noticed > 0);
    assert_int_equal(tally.harmless, 0); /* what lost nothing is reported all the same */
    model_fini(&model);
}

static void p2_no_flipped_bit_of_a_clean_store_loses_silently(void **state)
{
    (void)state;
    flip_all(true, 0);
}

static void p2_no_flipped_bit_of_a_proven_store_loses_silently(void **state)
{
    (void)state;
    flip_all(false, 0);
}

static void p2_no_flipped_bit_of_a_store_with_history_loses_silently(void **state)
{
    (void)state;
    flip_all(true, HISTORY_US);
}

static void flipped_bodies_are_never_served(void **state)
{
    (void)state;
    struct model model;
    char name[DISK_NAME_MAX] = "wal-00000001";
    model_init(&model, 3);
    model.options.recent_bytes = 1;
    model.options.segment_bytes =
        4 * 1024 * 1024; /* more than one write buffer: bodies come from disk */
    assert_int_equal(model_open(&model), OK);
    assert_int_equal(model_push(&model), OK);
    struct model_job job = model.jobs[0];
    model_close(&model);
    assert_int_equal(model_open(&model), OK);
    struct bytes content_type = {0}, body = {0};
    struct arena arena = {0};
    static char room[MODEL_ROOM];
    size_t len = model_body(&model, job.seq, 1, room).len;
    uint64_t at = (job.stored.where & UINT32_MAX) * 8 + 104;
    struct body_place place = {job.seq, job.stored.where, 4, len, 0, false};
    for (uint64_t bit = at * 8; bit < (at + 4 + len) * 8; bit += 7) {
        assert_true(sim_disk_flip(model.disk, name, bit));
        assert_int_equal(model_body_at(&model, &place, &arena, &content_type, &body), ERR_DAMAGED);
        assert_true(sim_disk_flip(model.disk, name, bit));
    }
    assert_int_equal(model_body_at(&model, &place, &arena, &content_type, &body), OK);
    place.seq++;
    assert_int_equal(model_body_at(&model, &place, &arena, &content_type, &body), ERR_DAMAGED);
    arena_fini(&arena);
    model_fini(&model);
}

/* A store with a topic's pause and settings, each in a batch of its own, among jobs. */
static void build_topics(struct model *model)
{
    model_init(model, 5);
    model->options.segment_bytes = ROT_SEGMENT;
    model->options.body_max = 60;
    assert_int_equal(model_open(model), OK);
    assert_int_equal(model_push(model), OK);
    model_settle(model);
    model_emit_pause(model, 12345);
    model_settle(model);
    struct event settings = {.kind = EVENT_SETTINGS,
                             .job.seq = model->seq_next++,
                             .topic = BYTES("topic"),
                             .body = BYTES("{\"retries\":3}")};
    (void)store_append(model->store, &settings);
    model_settle(model);
    assert_int_equal(model_push(model), OK);
    model_settle(model);
    model_close(model);
}

static void verify_tells_of_each_flip_that_stops_a_start(void **state)
{
    (void)state;
    struct model whole;
    struct file_list list = {0};
    unsigned refused = 0, only_topics = 0;
    const char *name = "wal-00000001";
    uint64_t len = 0;
    build_topics(&whole);
    list_files(&whole, &list);
    const char *at = sim_disk_file(whole.disk, name, &len);
    for (uint64_t bit = 0; bit < len * 8; bit += sim_every()) {
        if (at[bit / 8] == 0 && bit % 1021 != 0)
            continue;
        struct model model;
        struct store_counts counts = {0};
        unsigned lines = 0;
        struct store_watcher watcher = {.print_line = quiet, .ctx = &lines};
        copy_disk(&model, &whole, &list);
        assert_true(sim_disk_flip(model.disk, name, bit));
        enum err verified = store_verify(model.options.disk, &watcher, &counts);
        if (model_open(&model)) {
            refused++;
            assert_true(verified || counts.hit_jobs + counts.hit_topics + counts.unknown > 0);
            only_topics += !verified && counts.hit_jobs + counts.unknown == 0;
        }
        model_fini(&model);
    }
    print_message("refused %u, %u of them for a topic only\n", refused, only_topics);
    assert_true(refused > only_topics && only_topics > 0);
    model_fini(&whole);
}

/* ---- what damage touches ---- */

/* Jobs in batches of their own; the third is ended, and a fourth replaces the second. */
static void build_mixed(struct model *model, int64_t history_us)
{
    model_init(model, 5);
    model->options.history_us = history_us;
    model->options.body_max = 200;
    model->options.segment_bytes = 1024 * 1024;
    assert_int_equal(model_open(model), OK);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(model_push(model), OK);
        note_push(model);
        model_settle(model);
    }
    model->dead = model->jobs[2];
    model_end(model, &model->jobs[2]);
    model->end_batch = store_batch(model->store);
    model_settle(model);
    assert_int_equal(model_push(model), OK);
    model_settle(model);
    model_close(model);
}

static void flip_record(struct model *model, uint64_t where, uint64_t behind)
{
    uint64_t at = (where & UINT32_MAX) * 8 + behind;
    assert_true(sim_disk_flip(model->disk, "wal-00000001", at * 8));
}

static struct store_counts verified_counts(struct model *model)
{
    struct store_counts counts = {0};
    unsigned lines = 0;
    struct store_watcher watcher = {.print_line = quiet, .ctx = &lines};
    assert_int_equal(store_verify(model->options.disk, &watcher, &counts), OK);
    return counts;
}

static void flip_dead_record(int64_t history_us)
{
    for (uint64_t behind = 0; behind < 120; behind += 8) {
        struct model model;
        struct store_stats stats;
        build_mixed(&model, history_us);
        flip_record(&model, model.dead.stored.where, behind);
        struct store_counts counts = verified_counts(&model);
        enum err err = model_open(&model);
        if (behind == 0 || err) { /* the length: where it ends is not sure */
            assert_int_equal(err, ERR_CORRUPT);
            assert_true(behind < 8 || (behind >= 80 && behind < 104));
            model_fini(&model);
            continue;
        }
        assert_non_null(strstr(model.error.text, "notice"));
        assert_true(counts.bad == 1 && counts.hit_jobs == 0 && counts.unknown == 0);
        assert_int_equal(counts.hit_topics, 0);
        model_check(&model);
        store_stats(model.store, &stats);
        assert_int_equal(stats.damaged_segments, 1);
        assert_int_equal(model_push(&model), OK); /* and it goes on */
        model_settle(&model);
        for (int restart = 0; restart < 2; restart++) {
            model_close(&model);
            assert_int_equal(model_open(&model), OK);
            model_check(&model);
        }
        model_fini(&model);
    }
}

static void p2_a_flipped_byte_in_a_dead_record_stops_no_start(void **state)
{
    (void)state;
    flip_dead_record(0);
    flip_dead_record(HISTORY_US); /* what happened to it lies behind it */
}

static void p5_a_flipped_byte_beside_an_end_revives_nobody(void **state)
{
    (void)state;
    struct model model;
    build_mixed(&model, 0);
    uint64_t len = 0;
    const char *file = sim_disk_file(model.disk, "wal-00000001", &len);
    uint64_t at = DISK_ALIGN;
    while (at < len) { /* the batch with the end */
        uint64_t number = 0;
        memcpy(&number, file + at + 16, sizeof(number));
        if (number == model.end_batch)
            break;
        at += DISK_ALIGN;
    }
    assert_true(at < len);
    unsigned opened = 0;
    for (uint64_t bit = at * 8; bit < (at + 200) * 8; bit += sim_every()) {
        assert_true(sim_disk_flip(model.disk, "wal-00000001", bit));
        if (model_open(&model) == OK) {
            assert_false(model_find(&model, model.dead.seq)->live);
            opened++;
            sim_disk_cut_at(model.disk, sim_disk_points(model.disk)); /* so that all is as it was */
            model_close(&model);
            sim_disk_kill(model.disk);
        }
        model.store = NULL;
        assert_true(sim_disk_flip(model.disk, "wal-00000001", bit));
    }
    assert_true(opened > 400 / sim_every()); /* in the header, and in the padding */
    model_fini(&model);
}

/* A record that was spoiled on purpose is as it was written: the damage is somewhere else. */
static void p2_a_lost_change_beside_a_spoiled_body_is_not_silent(void **state)
{
    (void)state;
    for (int spoiled = 0; spoiled < 2; spoiled++) {
        struct model model;
        static char room[MODEL_ROOM];
        uint64_t len = 0;
        build_mixed(&model, 0);
        assert_int_equal(model_open(&model), OK);
        struct model_job *job = &model.jobs[4];
        if (spoiled)
            log_relocating(model.store->log, RELOCATING_BODY_LOST);
        job->stored = model_emit(&model, job, BYTES("text"),
                                 model_body(&model, job->seq, job->version, room));
        log_relocating(model.store->log, RELOCATING_NOTHING);
        uint64_t where = job->stored.where;
        uint64_t record_len = job->stored.bytes;
        struct event move = {
            .kind = EVENT_MOVE,
            .promised = true,
            .job = {.seq = model.jobs[7].seq, .state = JOB_DELAYED, .priority = 4242},
        };
        (void)store_append(model.store, &move); /* into the same batch */
        model_settle(&model);
        model_end(&model, job);
        model_settle(&model);
        model_close(&model);
        const char *file = sim_disk_file(model.disk, "wal-00000001", &len);
        assert_int_equal(file[(where & UINT32_MAX) * 8 + record_len + 4], EVENT_MOVE);
        flip_record(&model, where, record_len + 10); /* the number of the job that it changes */
        assert_int_equal(model_open(&model), ERR_CORRUPT);
        model_fini(&model);
    }
}

static void damage_of_a_live_job_is_refused_with_its_name(void **state)
{
    (void)state;
    struct model model;
    char wanted[64];
    build_mixed(&model, 0);
    struct model_job job = model.jobs[7];
    flip_record(&model, job.stored.where, 110); /* in its body */
    struct store_counts counts = verified_counts(&model);
    assert_true(counts.bad == 1 && counts.hit_jobs == 1 && counts.unknown == 0);
    assert_int_equal(model_open(&model), ERR_CORRUPT);
    (void)snprintf(wanted, sizeof(wanted), "job @%llu (id", (unsigned long long)job.seq);
    assert_non_null(strstr(model.findings, wanted));
    assert_non_null(strstr(model.findings, "due 1970"));
    assert_non_null(strstr(model.findings, "its body is damaged"));
    assert_non_null(strstr(model.error.text, "later salvage DIR NEW"));
    assert_true(strlen(model.error.text) < sizeof(model.error.text) - 1); /* it was not cut */
    model_fini(&model);
}

/* Lives of any kind, and damage of any kind: a store that opens has what was acknowledged. */
static void damage_randomly(struct model *model, const struct file_list *list)
{
    const char *name = list->names[model_random(model, list->count)];
    uint64_t len = 0;
    (void)sim_disk_file(model->disk, name, &len);
    uint64_t count = 1 + model_random(model, 3);
    if (strncmp(name, "wal-", 4) != 0 || !len)
        return;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t at = model_random(model, len);
        uint64_t bytes = model_random(model, 3) ? 1 : 512;
        for (uint64_t byte = at; byte < at + bytes && byte < len; byte++)
            (void)sim_disk_flip(model->disk, name, byte * 8 + model_random(model, 8));
    }
}

struct salvaged {
    struct salvage_callbacks callbacks;
    struct model *model;
    unsigned events;
};

static enum err salvage_event(struct salvage_callbacks *callbacks, const struct event *event,
                              enum salvage_trust trust)
{
    struct salvaged *salvaged = LIST_ENTRY(callbacks, struct salvaged, callbacks);
    salvaged->events++;
    if (trust != SALVAGE_INTACT)
        return OK; /* it may be of a job that never was */
    return model_replay(&salvaged->model->callbacks, event);
}

static void salvage_clock(struct salvage_callbacks *callbacks, int64_t clock_us)
{
    (void)callbacks;
    assert_true(clock_us >= 0);
}

static void salvage_line(struct salvage_callbacks *callbacks, const char *line)
{
    (void)callbacks;
    assert_true(line[0]);
}

/* Jobs that live after salvage have the body that was pushed, or none. */
static unsigned salvage_all(struct model *model)
{
    struct salvaged salvaged = {
        .callbacks = {.replay = salvage_event, .clock = salvage_clock, .print_line = salvage_line},
        .model = model};
    struct salvage *salvage;
    static char room[MODEL_ROOM];
    unsigned good = 0;
    model->job_count = 0;
    assert_int_equal(
        salvage_open(model->options.disk, true, &salvaged.callbacks, &salvage, &model->error), OK);
    assert_int_equal(salvage_replay(salvage), OK);
    for (size_t i = 0; i < model->job_count; i++) {
        const struct model_job *job = &model->jobs[i];
        struct salvage_body body;
        struct arena arena = {0};
        if (job->live && !salvage_read(salvage, job->seq, job->stored.where, &arena, &body)) {
            assert_true(bytes_eq(body.event.body, model_body(model, job->seq, job->version, room)));
            good++;
        }
        arena_fini(&arena);
    }
    salvage_close(salvage);
    return good;
}

static void p2_p5_random_damage_is_refused_or_loses_and_revives_nothing(void **state)
{
    (void)state;
    const unsigned lives = sim_lives(60);
    unsigned refused = 0, opened = 0, skipped = 0;
    for (uint64_t seed = 1; seed <= lives; seed++) {
        struct model whole;
        struct file_list list = {0};
        model_init(&whole, seed);
        whole.options.body_max = seed % 3 ? 300 : 1500;
        whole.options.segment_bytes = 64 * 1024;
        assert_int_equal(model_open(&whole), OK);
        model_work(&whole, 60);
        model_settle(&whole);
        model_close(&whole);
        list_files(&whole, &list);
        for (int damage = 0; damage < 30; damage++) {
            struct model model;
            copy_disk(&model, &whole, &list);
            model.options = whole.options;
            model.options.disk = sim_disk_port(model.disk);
            model.acknowledged = whole.journal[whole.entry_count - 1].batch;
            model.random = seed * 1000 + (uint64_t)damage;
            damage_randomly(&model, &list);
            unsigned salvaged = salvage_all(&model);
            enum err err = model_open(&model);
            refused += err != OK;
            opened += err == OK;
            for (size_t i = 0; i < model.job_count && !err; i++)
                salvaged -= model.jobs[i].live;
            assert_true(err || salvaged == 0); /* it takes all that an opening would */
            if (!err) {
                skipped += strstr(model.error.text, "held only") != NULL;
                model_check(&model);
                model_settle(&model);
            }
            model_fini(&model);
        }
        model_fini(&whole);
    }
    print_message("refused %u, opened %u, %u of them past damage\n", refused, opened, skipped);
    assert_true(skipped > lives / 3 && refused > lives / 3);
}

enum { STRAY_SEQ = 1000 };

struct believed {
    struct salvage_callbacks callbacks;
    uint64_t hit;    /* the job in the damaged batch */
    bool gone, back; /* the stray has ended, and then the job came */
};

static enum err believe(struct salvage_callbacks *callbacks, const struct event *event,
                        enum salvage_trust trust)
{
    struct believed *believed = LIST_ENTRY(callbacks, struct believed, callbacks);
    believed->gone |= event->kind == EVENT_GONE && event->job.seq == STRAY_SEQ;
    if (event->kind == EVENT_JOB && event->job.seq == believed->hit) {
        assert_int_equal(trust, SALVAGE_DOUBTFUL);
        assert_true(believed->gone);
        believed->back = true;
    }
    return OK;
}

/* What a client may have written must not replace a job that is in its place, though that is in a
   damaged batch. */
static void p2_a_stray_hides_no_job_of_a_damaged_batch(void **state)
{
    (void)state;
    struct model model;
    struct salvage *salvage;
    struct store_error error;
    build_mixed(&model, 0);
    const struct model_job *hit = &model.jobs[6];
    struct believed believed = {
        .callbacks = {.replay = believe, .clock = salvage_clock, .print_line = salvage_line},
        .hit = hit->seq,
    };
    flip_record(&model, hit->stored.where, 68); /* the priority */
    assert_int_equal(salvage_open(model.options.disk, true, &believed.callbacks, &salvage, &error),
                     OK);
    struct event stray = {.kind = EVENT_JOB, .job = {.seq = STRAY_SEQ}};
    stray.id = bytes_of(&hit->id, sizeof(hit->id));
    strays_add(&salvage->strays, &stray);
    assert_int_equal(salvage_replay(salvage), OK);
    assert_true(believed.back);
    salvage_close(salvage);
    model_fini(&model);
}

/* Takes one file away, or mixes in another's. */
static void a_missing_segment_is_named(void **state)
{
    (void)state;
    for (unsigned number = 1; number <= 2; number++) {
        struct model model;
        char name[DISK_NAME_MAX];
        build(&model, number == 1);
        (void)snprintf(name, sizeof(name), "wal-%08x", number);
        assert_true(sim_disk_delete(model.disk, name));
        assert_int_equal(model_open(&model), ERR_CORRUPT);
        assert_non_null(strstr(model.error.text, "missing"));
        model_fini(&model);
    }
}

/* No batch follows that could tell of the lost ones: the manifest must. */
static void a_missing_last_segment_is_named(void **state)
{
    (void)state;
    for (int clean = 0; clean < 2; clean++) {
        struct model model;
        struct file_list list = {0};
        build(&model, clean);
        list_files(&model, &list);
        const char *last = NULL;
        for (size_t i = 0; i < list.count; i++) {
            uint64_t len = 0;
            const char *at = sim_disk_file(model.disk, list.names[i], &len);
            bool used = strncmp(list.names[i], "wal-", 4) == 0 && !bytes_all_zero(at, (size_t)len);
            if (used && (!last || strcmp(list.names[i], last) > 0))
                last = list.names[i];
        }
        assert_non_null(last);
        assert_true(sim_disk_delete(model.disk, last));
        assert_int_equal(model_open(&model), ERR_CORRUPT);
        assert_non_null(strstr(model.error.text, "missing"));
        model_fini(&model);
    }
}

/* Power went between the manifest that no longer names a segment and its removal; then it rots. */
static void rot_in_a_dead_segment_stops_no_start(void **state)
{
    (void)state;
    struct model model;
    char name[] = "wal-00000001";
    uint64_t len = 0;
    model_init(&model, 5);
    model.options.segment_bytes = ROT_SEGMENT;
    model.options.body_max = 60;
    assert_int_equal(model_open(&model), OK);
    assert_int_equal(model_push(&model), OK);
    model_settle(&model);
    const char *at = sim_disk_file(model.disk, name, &len);
    char *copy = mem_alloc(len);
    memcpy(copy, at, len);
    for (int i = 0; i < 40 && sim_disk_file(model.disk, name, &len); i++) {
        assert_int_equal(model_push(&model), OK);
        model_end(&model, model_pick(&model));
        model_settle(&model);
    }
    assert_null(sim_disk_file(model.disk, name, &len)); /* it was cleaned */
    model_close(&model);
    for (int block = 0; block < 3; block++) {
        sim_disk_put(model.disk, name, copy, ROT_SEGMENT);
        assert_true(sim_disk_flip(model.disk, name, 3));
        if (block)
            assert_true(sim_disk_flip(model.disk, name, (uint64_t)block * DISK_ALIGN * 8 + 77));
        assert_int_equal(model_open(&model), OK);
        assert_non_null(strstr(model.error.text, "notice"));
        assert_null(sim_disk_file(model.disk, name, &len));
        model_check(&model);
        model_close(&model);
    }
    mem_free(copy);
    model.store = NULL;
    model_fini(&model);
}

static void a_missing_manifest_is_named(void **state)
{
    (void)state;
    struct model model;
    build(&model, true);
    assert_true(sim_disk_delete(model.disk, "MANIFEST"));
    assert_int_equal(model_open(&model), ERR_CORRUPT);
    assert_non_null(strstr(model.error.text, "no manifest"));
    model_fini(&model);
}

static void another_stores_segment_is_named(void **state)
{
    (void)state;
    struct model model, other;
    uint64_t len = 0;
    build(&model, true);
    model_init(&other, 5);
    other.options.id_seed = 43;
    other.options.segment_bytes = ROT_SEGMENT;
    assert_int_equal(model_open(&other), OK);
    assert_int_equal(model_push(&other), OK);
    model_settle(&other);
    const char *at = sim_disk_file(other.disk, "wal-00000001", &len);
    sim_disk_put(model.disk, "wal-00000001", at, len);
    assert_int_equal(model_open(&model), ERR_CORRUPT);
    assert_non_null(strstr(model.error.text, "another store"));
    model_fini(&other);
    model_fini(&model);
}

/* Many acknowledged batches at the end of a log that was cut off are damaged, but not their
   headers, each of which says that the batch before it was durable: that is no torn tail. */
static void p2_a_damaged_end_whose_headers_can_be_read_is_no_torn_tail(void **state)
{
    enum { JOBS = 30, DAMAGED = 11, CONTENT = RECORD_JOB_HEAD };
    (void)state;
    for (int damaged = 1; damaged <= DAMAGED; damaged += DAMAGED - 1) {
        struct model model;
        uint64_t places[JOBS];
        model_init(&model, 5);
        model.options.segment_bytes = 256 * 1024; /* all are in the first one */
        model.options.body_max = 60;
        assert_int_equal(model_open(&model), OK);
        for (int i = 0; i < JOBS; i++) {
            assert_int_equal(model_push(&model), OK);
            for (int turns = 0; turns < 100 && model.acknowledged < store_batch(model.store);
                 turns++) {
                model.now_us += 100;
                store_turn(model.store, model.now_us);
                model_disk_works(&model);
                store_poll(model.store);
            }
            assert_int_equal(model.acknowledged, store_batch(model.store));
            places[i] = model.jobs[i].stored.where;
        }
        sim_disk_cut_at(model.disk, sim_disk_points(model.disk));
        model_close(&model);
        sim_disk_power(model.disk, 1);
        for (int i = JOBS - damaged; i < JOBS; i++) {
            char name[DISK_NAME_MAX];
            segment_name(where_segment(places[i]), name);
            assert_true(sim_disk_flip(model.disk, name, (where_offset(places[i]) + CONTENT) * 8));
        }
        model.acknowledged = 0;
        /* Of the last one alone nothing is known: it could be torn. */
        assert_int_equal(model_open(&model), damaged > 1 ? ERR_CORRUPT : OK);
        if (damaged > 1)
            assert_non_null(strstr(model.error.text, "later salvage"));
        model_fini(&model);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(p2_no_flipped_bit_of_a_clean_store_loses_silently),
        cmocka_unit_test(p2_no_flipped_bit_of_a_proven_store_loses_silently),
        cmocka_unit_test(p2_no_flipped_bit_of_a_store_with_history_loses_silently),
        cmocka_unit_test(verify_tells_of_each_flip_that_stops_a_start),
        cmocka_unit_test(flipped_bodies_are_never_served),
        cmocka_unit_test(p2_a_flipped_byte_in_a_dead_record_stops_no_start),
        cmocka_unit_test(p5_a_flipped_byte_beside_an_end_revives_nobody),
        cmocka_unit_test(p2_a_lost_change_beside_a_spoiled_body_is_not_silent),
        cmocka_unit_test(damage_of_a_live_job_is_refused_with_its_name),
        cmocka_unit_test(p2_a_damaged_end_whose_headers_can_be_read_is_no_torn_tail),
        cmocka_unit_test(p2_p5_random_damage_is_refused_or_loses_and_revives_nothing),
        cmocka_unit_test(p2_a_stray_hides_no_job_of_a_damaged_batch),
        cmocka_unit_test(a_missing_segment_is_named),
        cmocka_unit_test(a_missing_last_segment_is_named),
        cmocka_unit_test(rot_in_a_dead_segment_stops_no_start),
        cmocka_unit_test(a_missing_manifest_is_named),
        cmocka_unit_test(another_stores_segment_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
