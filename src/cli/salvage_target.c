#include "cli/salvage_target.h"

#include <string.h>

#include "base/list.h"
#include "store/job_history.h"
#include "store/recovery/directory.h"
#include "store/stats.h"
#include "store/verify.h"

enum {
    SEGMENT_BYTES = 16 * 1024 * 1024, /* laterd's own default; it takes any */
    TURN_BYTES = 1024 * 1024,         /* appended before the disk gets them */
    HISTORY_TURN_BYTES = 64 * 1024,   /* of history: a turn can write so much to a file meanwhile */
};
/* The server that opens the store sets the real limit. */
#define HISTORY_US (INT64_C(36500) * 86400 * 1000000)

/* ---- callbacks of the store ---- */

static enum err replay(struct store_callbacks *callbacks, const struct event *event)
{
    (void)callbacks;
    (void)event;
    return ERR_CORRUPT; /* it was empty */
}

static void failed(struct store_callbacks *callbacks, int sys_errno)
{
    struct salvage_target *target = LIST_ENTRY(callbacks, struct salvage_target, callbacks);
    target->failed = true;
    target->sys_errno = sys_errno;
}

/* ---- life ---- */

static struct store_options options_of(struct disk *disk, int64_t now_us)
{
    return (struct store_options){
        .disk = disk,
        .segment_bytes = SEGMENT_BYTES,
        .recent_bytes = SEGMENT_BYTES,
        .buffered = true, /* closing syncs it */
        .body_max = UINT32_MAX,
        .now_us = now_us,
        .history_us = HISTORY_US,
        .never_cleans = true,
    };
}

/* Durably. */
static enum err rename_manifest(struct salvage_target *target, const char *from, const char *to)
{
    struct disk_op op = {
        .verb = DISK_RENAME, .lane = LANE_BACKGROUND, .data = to, .len = strlen(to)};
    memcpy(op.name, from, strlen(from) + 1);
    target->disk->verbs->run(target->disk, &op);
    if (op.err)
        failed(&target->callbacks, op.sys_errno);
    return op.err;
}

/* From now on the directory is none that opens: also while it has a manifest and no job yet. */
static enum err write_mark(struct salvage_target *target, struct store_error *out_error)
{
    static const char text[] = "later salvage has not completed this store\n";
    struct disk_op op = {.verb = DISK_REPLACE,
                         .lane = LANE_BACKGROUND,
                         .name = MANIFEST_UNFINISHED_NAME,
                         .data = text,
                         .len = sizeof(text) - 1};
    target->disk->verbs->run(target->disk, &op);
    if (op.err)
        store_error_set(out_error, MANIFEST_UNFINISHED_NAME, 0, "it cannot be written: %s",
                        strerror(op.sys_errno));
    return op.err;
}

enum err salvage_target_open(struct salvage_target *target, const struct salvage_start *start,
                             struct store_error *out_error)
{
    *target = (struct salvage_target){
        .disk = start->disk,
        .seq_first = start->seq_first,
        .now_us = start->now_us,
        .callbacks = store_idle_callbacks,
    };
    target->callbacks.replay = replay;
    target->callbacks.failed = failed;
    struct store_options options = options_of(start->disk, start->now_us);
    options.boot_first = start->boot;
    options.unfinished = true;
    enum err err = write_mark(target, out_error);
    if (!err)
        err = store_open(&options, &target->callbacks, &target->store, out_error);
    if (!err && rename_manifest(target, MANIFEST_NAME, MANIFEST_UNFINISHED_NAME)) {
        store_error_set(out_error, MANIFEST_NAME, 0, "it cannot be renamed");
        salvage_target_abandon(target);
        err = ERR_IO;
    }
    return err;
}

static void turn(struct salvage_target *target, int64_t now_us)
{
    target->pending = 0;
    store_turn(target->store, now_us);
    target->disk->verbs->wait(target->disk);
    store_poll(target->store);
}

enum err salvage_target_room(struct salvage_target *target, size_t bytes, int64_t now_us)
{
    enum err err = store_admit(target->store, bytes);
    while (err == ERR_AGAIN || (!err && target->pending > TURN_BYTES)) {
        turn(target, now_us);
        err = store_admit(target->store, bytes);
    }
    return err;
}

struct stored salvage_target_append(struct salvage_target *target, const struct event *event)
{
    struct event fresh = *event;
    fresh.record = (struct stored){0}; /* its older record is in another store */
    fresh.promised = true;
    target->pending +=
        event->content_type.len + event->body.len + event->properties.len + event->id.len + 256;
    return store_append(target->store, &fresh);
}

enum err salvage_target_history(struct salvage_target *target, const struct happening *happening,
                                int64_t now_us)
{
    target->history_given++;
    target->history_logged += !store_full(target->store);
    store_history_add(target->store, happening);
    target->pending += 64 + happening->id.len + happening->topic.len + happening->note.len;
    while (target->pending > HISTORY_TURN_BYTES && !target->failed)
        turn(target, now_us);
    return target->failed ? ERR_STORE_FAILED : OK;
}

/*
 * Entries that a full log had no room for may be in a file, or lost with the memory: only the next
 * opening finds out. If that fails, returns the certain number.
 */
static uint64_t history_found(struct salvage_target *target, uint64_t certain, int64_t now_us)
{
    struct store_callbacks callbacks = store_idle_callbacks;
    struct store_options options = options_of(target->disk, now_us);
    struct store_error error;
    struct store_stats stats;
    struct store *store;
    if (store_open(&options, &callbacks, &store, &error))
        return certain;
    store_stats(store, &stats);
    store_close(store);
    return stats.history_entries;
}

void salvage_target_abandon(struct salvage_target *target)
{
    store_close(target->store);
    target->store = NULL;
}

enum err salvage_target_close(struct salvage_target *target, uint64_t jobs,
                              const struct store_watcher *watcher)
{
    struct store_counts counts = {0};
    struct store_stats stats;
    store_stats(target->store, &stats);
    store_seq_note(target->store,
                   target->seq_first); /* earlier the next sync would be waited for */
    store_close(target->store);
    target->store = NULL;
    if (target->failed || rename_manifest(target, MANIFEST_UNFINISHED_NAME, MANIFEST_NAME))
        return ERR_STORE_FAILED;
    enum err err = store_verify(target->disk, watcher, &counts);
    if (err || counts.bad || counts.live_jobs != jobs) {
        /* It is reported either way. */
        (void)rename_manifest(target, MANIFEST_NAME, MANIFEST_UNFINISHED_NAME);
        return ERR_CORRUPT;
    }
    bool all = target->history_logged == target->history_given && stats.history_lost == 0;
    target->history_kept =
        all ? target->history_given : history_found(target, counts.history_entries, target->now_us);
    return OK;
}
