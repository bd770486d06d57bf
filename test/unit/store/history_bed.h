/*
 * What the tests of jobs' history share: a store beside a list of all that happened, each with the
 * batch that it went into. After any crash a look-up finds what is of the batches that were found,
 * and nothing twice.
 */
#ifndef LATERD_TEST_STORE_HISTORY_BED_H
#define LATERD_TEST_STORE_HISTORY_BED_H

#include "store/job_history.h"
#include "store/verify.h"
#include "store_model.h"
#include "store_work.h"

enum { IDS = 12, LINES_MAX = 4096 };

/* One thing that happened; its lease is its number. */
struct line {
    unsigned id;
    uint64_t batch;
    bool promised; /* else it may be lost, though its batch is there */
    bool found;    /* for check_youngest() */
};

struct past {
    struct model model;
    struct line lines[LINES_MAX];
    size_t count;
};

static inline void past_init(struct past *past, uint64_t seed)
{
    past->count = 0;
    model_init(&past->model, seed);
    past->model.options.history_us = INT64_C(1000000) * 86400 * 30;
}

static inline struct bytes id_text(unsigned id, char *room)
{
    int len = snprintf(room, 32, "order-%u", id);
    return bytes_of(room, (size_t)len);
}

/* An odd id is the server's number. */
static inline void happen(struct past *past, unsigned id, bool promised, size_t note_bytes)
{
    static char note[JOB_NOTE_MAX];
    struct store *store = past->model.store;
    char room[32];
    if (past->count == LINES_MAX || past->model.failed)
        return;
    memset(note, 'n', sizeof(note));
    store_history_add(store, &(struct happening){
                                 .what = HAPPENED_RESERVED,
                                 .state = JOB_RESERVED,
                                 .promised = promised,
                                 .seq = id + 1,
                                 .at_us = past->model.now_us,
                                 .time_us = past->model.now_us + 1000,
                                 .lease = past->count,
                                 .id = id % 2 ? (struct bytes){0} : id_text(id, room),
                                 .note = bytes_of(note, note_bytes),
                             });
    /* A full disk gets nothing of it, until there is a file. */
    past->lines[past->count++] = (struct line){
        .id = id, .batch = store_batch(store), .promised = promised && !store_full(store)};
}

static inline void work(struct past *past, int turns)
{
    struct model *model = &past->model;
    for (int turn = 0; turn < turns && !model->failed; turn++) {
        for (uint64_t i = model_random(model, 4); i > 0 && !model->failed; i--) {
            model_act(model);
            happen(past, (unsigned)model_random(model, IDS), model_random(model, 4) > 0,
                   model_random(model, 20) ? 0 : 300);
        }
        model_turn(model);
    }
}

static inline void found(struct history_find *find)
{
    *(bool *)find->owner = true;
}

static inline void find(struct past *past, unsigned id, uint32_t max, struct history_find *out_find)
{
    struct model *model = &past->model;
    char room[32];
    bool ended = false;
    *out_find = (struct history_find){.max = max, .done = found, .owner = &ended};
    if (id % 2)
        out_find->ref.seq = id + 1;
    else
        out_find->ref.id = id_text(id, room);
    store_history_find(model->store, out_find);
    for (int i = 0; i < 1000 && !ended; i++) {
        store_turn(model->store, model->now_us);
        model_disk_works(model);
        store_poll(model->store);
    }
    assert_true(ended);
    out_find->owner = NULL;
    out_find->ref.id = (struct bytes){0};
}

/* What must be there is, in its order, once; what may be there is there once at most. */
static inline void check_id(struct past *past, unsigned id, uint64_t batch)
{
    struct history_find all;
    uint32_t at = 0;
    find(past, id, LINES_MAX, &all);
    assert_int_equal(all.err, OK);
    for (size_t i = 0; i < past->count; i++) {
        const struct line *line = &past->lines[i];
        bool there = at < all.count && all.happenings[at].lease == i;
        if (line->id != id || line->batch > batch) {
            assert_true(line->id == id || !there);
            continue;
        }
        if (!there && line->promised)
            print_error("line %zu of batch %llu, found to %llu\n", i,
                        (unsigned long long)line->batch, (unsigned long long)batch);
        assert_true(there || !line->promised);
        at += there;
    }
    assert_int_equal(at, all.count); /* nothing else, and nothing twice */
    store_history_find_end(past->model.store, &all);
}

/* Each line that is found is of the id, and they are in order. */
static inline void mark_found(struct past *past, unsigned id)
{
    struct history_find all;
    find(past, id, LINES_MAX, &all);
    assert_int_equal(all.err, OK);
    for (uint32_t i = 0; i < all.count; i++) {
        struct line *line = &past->lines[all.happenings[i].lease];
        assert_true(all.happenings[i].lease < past->count && line->id == id);
        assert_true(i == 0 || all.happenings[i].lease > all.happenings[i - 1].lease);
        line->found = true;
    }
    store_history_find_end(past->model.store, &all);
}

/*
 * The disk was full once: the oldest files may have gone, with all of their batches. Returns the
 * last one that is gone, or 0; all behind it is there.
 */
static inline uint64_t check_youngest(struct past *past)
{
    uint64_t gone = 0, durable = store_durable(past->model.store);
    for (size_t i = 0; i < past->count; i++)
        past->lines[i].found = false;
    for (unsigned id = 0; id < IDS; id++)
        mark_found(past, id);
    for (size_t i = 0; i < past->count; i++) {
        const struct line *line = &past->lines[i];
        if (line->id < IDS && line->promised && line->batch <= durable && !line->found)
            gone = line->batch;
    }
    for (size_t i = 0; i < past->count; i++) { /* others may lie in a later batch than they say */
        const struct line *line = &past->lines[i];
        assert_true(!line->promised || !line->found || line->batch > gone);
    }
    return gone;
}

static inline void check(struct past *past)
{
    uint64_t batch = store_durable(past->model.store);
    for (unsigned id = 0; id < IDS; id++)
        check_id(past, id, batch);
}

/* What the crash took is not of the past any more. */
static inline void forget(struct past *past, uint64_t batch)
{
    for (size_t i = 0; i < past->count; i++)
        if (past->lines[i].batch > batch)
            past->lines[i].id = IDS;
}

/* One more file, of so many entries of 300 bytes and what else happens. */
static inline void add_file(struct past *past, unsigned entries)
{
    struct store_stats stats;
    store_stats(past->model.store, &stats);
    uint64_t files = stats.history_files;
    for (unsigned i = 0; i < entries; i++)
        happen(past, 2, true, 300);
    for (int i = 0; i < 1000 && stats.history_files <= files; i++) {
        struct model_job *job = model_pick(&past->model);
        if (job)
            model_end(&past->model, job);
        (void)model_push(&past->model);
        model_turn(&past->model);
        store_stats(past->model.store, &stats);
    }
    assert_true(stats.history_files > files);
    model_settle(&past->model);
}

/* The file with this place among those on the disk, by number; its size. */
static inline uint64_t name_of_file(const struct past *past, unsigned place, char *out_name)
{
    uint64_t bytes = 0;
    for (unsigned number = 0; number < 1000; number++) {
        (void)snprintf(out_name, DISK_NAME_MAX, "hist-%08x", number);
        if (sim_disk_file(past->model.disk, out_name, &bytes) && place-- == 0)
            return bytes;
    }
    fail();
    return 0;
}

/* ---- stores with files to damage ---- */

enum { FILES = 4 };

struct findings {
    unsigned lines;
    char file[DISK_NAME_MAX]; /* of the first */
    char text[1024];          /* all of them */
};

static inline void note_line(void *ctx, const char *line)
{
    struct findings *findings = ctx;
    const char *colon = strchr(line, ':');
    size_t len = strlen(findings->text);
    assert_non_null(colon);
    (void)snprintf(findings->text + len, sizeof(findings->text) - len, "%s\n", line);
    if (findings->lines++ == 0)
        (void)snprintf(findings->file, sizeof(findings->file), "%.*s", (int)(colon - line), line);
}

static inline struct findings verify(struct past *past, struct store_counts *out_counts)
{
    struct findings findings = {0};
    struct store_watcher watcher = {.print_line = note_line, .ctx = &findings};
    assert_int_equal(store_verify(past->model.options.disk, &watcher, out_counts), OK);
    assert_int_equal(out_counts->bad > 0, findings.lines > 0);
    return findings;
}

/* A store with some files of history, closed. */
static inline void build(struct past *past)
{
    struct store_counts counts;
    past_init(past, 21);
    assert_int_equal(model_open(&past->model), OK);
    for (unsigned i = 0; i < FILES; i++) {
        for (unsigned id = 0; id < IDS; id++)
            happen(past, id, true, 40);
        add_file(past, 150); /* two blocks */
    }
    model_close(&past->model);
    assert_int_equal(verify(past, &counts).lines, 0);
    assert_int_equal(counts.history_files, FILES);
}

#endif
