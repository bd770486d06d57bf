/*
 * Opening, verifying and opening again a store whose files the input has damaged. The input is a
 * list of edits to a good store: file, place, bytes; the checksums are made right again when it
 * asks for that, so that the fuzzer gets behind them.
 */
#include <stdlib.h>
#include <xxhash.h>

#include "base/check.h"
#include "base/codec.h"
#include "base/mem.h"
#include "sim/disk.h"
#include "store/format.h"
#include "store/recovery/salvage.h"
#include "store/verify.h"

enum { SEGMENT = 16 * 1024, EDIT = 8 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum err replay(struct store_callbacks *callbacks, const struct event *event)
{
    (void)callbacks;
    CHECK(event->kind >= EVENT_JOB && event->kind <= EVENT_SETTINGS);
    return OK;
}

static enum err progress(struct store_callbacks *callbacks, const struct store_opening *opening)
{
    (void)callbacks;
    CHECK(opening->done_bytes <= opening->all_bytes);
    return OK;
}

static void durable(struct store_callbacks *callbacks, uint64_t batch)
{
    (void)callbacks;
    CHECK(batch > 0);
}

static void relocate(struct store_callbacks *callbacks, const struct event *event, uint64_t where)
{
    (void)callbacks;
    CHECK(event->kind >= EVENT_JOB && where);
}

static bool relocate_unread(struct store_callbacks *callbacks, uint64_t first, uint64_t end,
                            uint32_t *cursor)
{
    (void)callbacks;
    (void)cursor;
    CHECK(first < end);
    return false;
}

static void notice(struct store_callbacks *callbacks, enum store_notice what,
                   const struct store_error *error)
{
    (void)callbacks;
    (void)what;
    CHECK(error->text[0]);
}

static struct store_callbacks callbacks;

/* Those of a store without an owner, and a look at what they are given. */
static void set_callbacks(void)
{
    callbacks = store_idle_callbacks;
    callbacks.replay = replay;
    callbacks.progress = progress;
    callbacks.durable = durable;
    callbacks.synced = durable;
    callbacks.relocate = relocate;
    callbacks.relocate_unread = relocate_unread;
    callbacks.notice = notice;
}

static void print_line(void *ctx, const char *line)
{
    (void)ctx;
    CHECK(line[0]);
}

static enum err salvaged(struct salvage_callbacks *salvage_callbacks, const struct event *event,
                         enum salvage_trust trust)
{
    (void)salvage_callbacks;
    CHECK(trust <= SALVAGE_STRAY);
    CHECK(event->kind >= EVENT_JOB && event->kind <= EVENT_SETTINGS);
    return OK;
}

static void clock_salvaged(struct salvage_callbacks *salvage_callbacks, int64_t clock_us)
{
    (void)salvage_callbacks;
    (void)clock_us;
}

static void say_salvaged(struct salvage_callbacks *salvage_callbacks, const char *line)
{
    (void)salvage_callbacks;
    CHECK(line[0]);
}

/* Whatever the damage: an answer. */
static void salvage_store(struct sim_disk *disk)
{
    struct salvage_callbacks salvage_callbacks = {
        .replay = salvaged, .clock = clock_salvaged, .print_line = say_salvaged};
    struct salvage *salvage;
    struct store_error error;
    struct arena arena = {0};
    struct salvage_body body;
    if (salvage_open(sim_disk_port(disk), true, &salvage_callbacks, &salvage, &error))
        return;
    (void)salvage_replay(salvage); /* any verdict */
    for (uint64_t where = 0; where < 200; where += 3)
        (void)salvage_read(salvage, where, UINT64_C(1) << 32 | (512 + where), &arena, &body);
    arena_fini(&arena);
    salvage_close(salvage);
}

static struct store *open_store(struct sim_disk *disk, enum err *out_err)
{
    struct store *store = NULL;
    struct store_error error;
    struct store_options options = {
        .disk = sim_disk_port(disk), .segment_bytes = SEGMENT, .id_seed = 1, .now_us = 1};
    *out_err = store_open(&options, &callbacks, &store, &error);
    CHECK(*out_err == OK || error.text[0]);
    return store;
}

static void fill(struct store *store)
{
    struct stored last = {0};
    for (uint64_t seq = 1; seq <= 40; seq++) {
        struct event event = {
            .kind = EVENT_JOB,
            .promised = true,
            .job = {.seq = seq, .state = JOB_DELAYED},
            .topic = BYTES("topic"),
            .body = BYTES("a body of some bytes"),
        };
        struct stored now = store_append(store, &event);
        if (seq % 3 == 0) {
            struct event gone = {.kind = EVENT_GONE, .job.seq = seq - 1, .record = last};
            (void)store_append(store, &gone);
        }
        last = now;
        store_turn(store, (int64_t)seq * 1000);
        store_poll(store);
    }
}

/* Makes the checksums at a block right again, whatever kind of block it is. */
static void mend(char *file, uint64_t len, uint64_t block)
{
    char *at = file + block;
    struct batch_head head;
    put_u64(at + BLOCK - 8, XXH3_64bits(at, BLOCK - 8));
    if (batch_head_decode(at, len - block, &head) == FORMAT_GOOD)
        put_u64(at, XXH3_64bits(at + 8, batch_bytes(head.payload_bytes) - 8));
}

static void edit(struct sim_disk *disk, const uint8_t *at)
{
    static const char *const names[4] = {"MANIFEST", "wal-00000001", "wal-00000002",
                                         "wal-00000003"};
    uint64_t len = 0;
    const char *file = sim_disk_file(disk, names[at[0] & 3], &len);
    if (!file || len < BLOCK)
        return;
    uint64_t place = (uint64_t)get_u16(at + 2) % len;
    if (at[0] & 4)
        place = place / BLOCK * BLOCK + place % 256; /* near a block's head */
    if (place + 4 > len)
        return;
    char *copy = mem_alloc(len);
    memcpy(copy, file, len);
    memcpy(copy + place, at + 4, (size_t)(at[1] & 3) + 1);
    if (at[0] & 8)
        mend(copy, len, place / BLOCK * BLOCK);
    sim_disk_put(disk, names[at[0] & 3], copy, len);
    mem_free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sim_disk *disk = sim_disk_new();
    struct store_counts counts;
    enum err err;
    set_callbacks();
    sim_disk_eager(disk, true);
    struct store *store = open_store(disk, &err);
    CHECK(err == OK);
    fill(store);
    store_close(store);
    for (size_t at = 0; at + EDIT <= size && at < 32 * EDIT; at += EDIT)
        edit(disk, data + at);
    struct store_watcher watcher = {.print_line = print_line};
    (void)store_verify(sim_disk_port(disk), &watcher, &counts); /* any verdict, no crash */
    salvage_store(disk);
    store = open_store(disk, &err);
    if (!err) {
        for (int64_t turn = 0; turn < 20; turn++) {
            store_turn(store, 1000000 + turn * 100000);
            store_poll(store);
        }
        store_close(store);
        store = open_store(disk, &err); /* what opened once opens again */
        CHECK(err == OK);
        store_close(store);
    }
    sim_disk_free(disk);
    return 0;
}
