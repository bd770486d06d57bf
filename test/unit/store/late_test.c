/*
 * Bodies whose memory the log takes over, in lives that end badly. The disk's thread copies them
 * when it writes them, and the cleaner lends its window. Each record larger than a block is such a
 * one here. Meanwhile bodies are read, many before they are in their files.
 */
#include "store/internal.h"
#include "store_lives.h"

#include <errno.h>

enum {
    TURNS = 60,
    READERS = 4,
    STEP = 7, /* cuts and failures at each so many points */
};

/* Somebody who reads a body as it was when it was asked for. */
struct reader {
    struct model_fetch fetch;
    uint32_t version;
    bool reads;
};

struct seen {
    struct reader readers[READERS];
    unsigned late, lent, read, waited; /* `waited`: for the body to be in its file */
    unsigned full;                     /* turns with a full disk */
    bool faulty;                       /* a read may fail */
};

static void begin_read(struct model *model, struct reader *reader, struct seen *seen)
{
    static char room[MODEL_ROOM];
    struct model_job *job = model_pick(model);
    if (!job || job->far || job->body_lost)
        return;
    struct bytes want = model_body(model, job->seq, job->version, room);
    struct body_place place = {job->seq, job->stored.where, 4, want.len, 0, false};
    struct arena arena = {0};
    struct body_content content;
    enum err err = store_read(model->store, &place, &arena, &content);
    if (!err)
        assert_true(bytes_eq(content.body, want));
    arena_fini(&arena);
    assert_true(err == OK || err == ERR_AGAIN || model->failed);
    if (err != ERR_AGAIN)
        return;
    *reader = (struct reader){
        .fetch = {.fetch = {.place = place, .done = model_fetched}},
        .version = job->version,
        .reads = true,
    };
    seen->waited += store_batch(model->store) > store_durable(model->store);
    store_fetch(model->store, &reader->fetch.fetch);
}

static void look_at(struct model *model, struct reader *reader, struct seen *seen)
{
    static char room[MODEL_ROOM];
    struct body_fetch *fetch = &reader->fetch.fetch;
    if (!reader->fetch.ended)
        return;
    if (!fetch->err)
        assert_true(bytes_eq(fetch->content.body,
                             model_body(model, fetch->place.seq, reader->version, room)));
    else
        assert_true(model->failed || sim_disk_cut(model->disk) ||
                    (fetch->err == ERR_IO && seen->faulty));
    seen->read += fetch->err == OK;
    store_fetch_end(model->store, fetch);
    reader->reads = false;
}

static void look_at_all(struct model *model, struct seen *seen)
{
    for (unsigned i = 0; i < READERS; i++)
        if (seen->readers[i].reads)
            look_at(model, &seen->readers[i], seen);
}

static void work(struct model *model, int turns, struct seen *seen)
{
    for (int turn = 0; turn < turns && !model->failed; turn++) {
        for (uint64_t i = model_random(model, 4); i > 0 && !model->failed; i--)
            model_act(model);
        struct reader *reader = &seen->readers[model_random(model, READERS)];
        if (reader->reads && model_random(model, 3) == 0) {
            store_fetch_end(model->store, &reader->fetch.fetch); /* its client has gone */
            reader->reads = false;
        } else if (!reader->reads) {
            begin_read(model, reader, seen);
        }
        model_turn(model);
        seen->full += store_full(model->store);
        look_at_all(model, seen);
    }
}

/* After a failure, too, each read ends. */
static void end_reads(struct model *model, struct seen *seen)
{
    for (int turn = 0; turn < 100; turn++) {
        store_turn(model->store, model->now_us += 30000);
        if (!model->failed)
            (void)sim_disk_step(model->disk, LANE_COMMIT);
        model_disk_works(model);
        store_poll(model->store);
        look_at_all(model, seen);
    }
    for (unsigned i = 0; i < READERS; i++)
        assert_false(seen->readers[i].reads);
}

static void live(struct model *model, void *deeds)
{
    struct seen *seen = deeds;
    unsigned late = model->late, lent = model->lent;
    work(model, TURNS, seen);
    end_reads(model, seen);
    seen->late += model->late - late;
    seen->lent += model->lent - lent;
}

static void make(struct model *model, uint64_t seed, struct discard *discard)
{
    model_init(model, seed);
    model_use_late(model);
    model->options.discard = seed % 3 ? discard : NULL;
    sim_disk_cold(model->disk, seed % 5 < 2);
    if (seed % 2)
        model_use_slices(model);
}

static void tell(const struct seen *seen, uint64_t lives)
{
    print_message("%llu lives: %u bodies taken over, %u lent by the cleaner, %u read, %u of them "
                  "asked for while something was to be written\n",
                  (unsigned long long)lives, seen->late, seen->lent, seen->read, seen->waited);
    assert_true(seen->late > lives && seen->lent > 0 && seen->read > 0 && seen->waited > 0);
}

/* A life in which something happens at this point; ends the model. False: it ended before. */
typedef bool life_until(struct model *model, uint64_t at, int sys_errno, struct seen *seen);

/* Lives of these seeds, each with every point. */
static void play_each(uint64_t seeds, life_until *life, int sys_errno)
{
    struct seen seen = {.faulty = sys_errno != 0};
    struct discard discard = {0};
    uint64_t lives = 0;
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        bool reached = true;
        for (uint64_t at = 0; reached; at += STEP * sim_every(), lives++) {
            struct model model;
            make(&model, seed, &discard);
            reached = life(&model, at, sys_errno, &seen);
            discard_fini(&discard);
        }
    }
    tell(&seen, lives);
}

static bool cut_at(struct model *model, uint64_t at, int sys_errno, struct seen *seen)
{
    (void)sys_errno;
    return live_and_die_twice(model, at, 1 + at % 97, live, seen);
}

static bool fail_at(struct model *model, uint64_t at, int sys_errno, struct seen *seen)
{
    return live_after_fault(model, at, sys_errno, live, seen);
}

static void p1_p5_a_cut_at_every_point_loses_no_late_body(void **state)
{
    (void)state;
    play_each(8, cut_at, 0);
}

static void p1_p7_a_failed_call_loses_no_late_body(void **state)
{
    (void)state;
    play_each(6, fail_at, EIO);
}

static void p1_p8_a_call_without_room_loses_no_late_body(void **state)
{
    (void)state;
    play_each(6, fail_at, ENOSPC);
}

/* Room for a few segments: the log is cleaned, and pushes are refused, again and again. */
static void p8_a_full_disk_loses_no_late_body(void **state)
{
    (void)state;
    struct seen seen = {0};
    uint64_t lives = sim_lives(60);
    for (uint64_t seed = 1; seed <= lives; seed++) {
        struct model model;
        make(&model, seed, NULL);
        uint64_t room = (3 + seed % 3) * model.options.segment_bytes + 2 * BLOCK;
        if (seed % 2)
            sim_disk_capacity(model.disk, room);
        else
            model.options.max_bytes = room;
        assert_int_equal(model_open(&model), OK);
        for (int i = 0; i < 4; i++)
            live(&model, &seen);
        assert_false(model.failed);
        model_fini_reopened(&model);
    }
    tell(&seen, lives);
    print_message("%u turns with a full disk\n", seen.full);
    assert_true(seen.full > lives);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(p1_p5_a_cut_at_every_point_loses_no_late_body),
        cmocka_unit_test(p1_p7_a_failed_call_loses_no_late_body),
        cmocka_unit_test(p1_p8_a_call_without_room_loses_no_late_body),
        cmocka_unit_test(p8_a_full_disk_loses_no_late_body),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
