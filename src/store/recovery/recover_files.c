/*
 * Handles files that do not belong to the log: spares, files that were not completed before a
 * crash, and segments that were cleaned already; and distinguishes them from segments of the log
 * whose header is damaged.
 */
#include "base/check.h"
#include "store/recovery/recover_parts.h"

static enum err remove_now(struct store *store, uint32_t number)
{
    struct disk_op op = {.verb = DISK_REMOVE, .lane = LANE_BACKGROUND};
    segment_name(number, op.name);
    store->disk->verbs->run(store->disk, &op);
    return op.err;
}

/*
 * Does a batch of this segment begin here? Checksums are not compared: in a reused file they depend
 * on a key in the segment's header, which is lost. On true walker::head is set.
 */
static bool bad_batch(const struct recovery *recovery, struct walker *walker)
{
    struct scan *scan = &walker->scan;
    const char *at;
    size_t len;
    if (!(recovery->directory.manifest.incompatible & FEATURE_REUSE) ||
        scan_bytes(scan, walker->offset, BLOCK, &at, &len) || len < BLOCK)
        return false;
    return batch_is_of(at, scan->number, scan->tag) &&
           batch_head_decode(at, scan->size_bytes - walker->offset, &walker->head) == FORMAT_GOOD;
}

/*
 * Has the file only zeros? ERR_CORRUPT: there is a batch of the log, so the segment's header is
 * damaged. A batch from before the log's beginning is no error: the segment was cleaned, because
 * the log begins with the first batch of a segment, and a crash came before it was removed.
 */
static enum err check_blank(struct recovery *recovery, struct walker *walker, bool *out_blank)
{
    enum place_kind kind;
    *out_blank = true;
    walker_move_to(walker, 0, 0);
    for (; (kind = walker_classify(walker)) != PLACE_END; walker_next(walker)) {
        enum err err = store_opening_worked(recovery->store, walker->bytes);
        if (err)
            return err;
        *out_blank = *out_blank && kind == PLACE_BLANK;
        if (kind == PLACE_UNREAD)
            return walker->err;
        if (kind == PLACE_BLANK || (kind == PLACE_BAD && !bad_batch(recovery, walker)))
            continue;
        if (walker->head.number < recovery->directory.manifest.batch_first)
            return OK;
        char name[DISK_NAME_MAX];
        segment_name(walker->scan.number, name);
        store_error_set(recovery->error, name, 0,
                        "the segment's header is damaged, and there are batches behind it (number "
                        "%llu …): restore the file from a backup; nothing was changed",
                        (unsigned long long)walker->head.number);
        return ERR_CORRUPT;
    }
    return OK;
}

static bool could_be_spare(const struct recovery *recovery, const struct found *found)
{
    return found->size_bytes == recovery->store->options.segment_bytes &&
           segments_want_spare(recovery->store->segments);
}

/* Takes a spare without reading it, because it was complete and synced: reading 16 MiB takes 16 to
   100 ms. */
static enum err take_spare(struct store *store, const struct found *found)
{
    struct disk_file *file;
    char name[DISK_NAME_MAX];
    segment_name(found->number, name);
    enum err err = store->disk->verbs->open(store->disk, name, DISK_FRESH, &file);
    if (!err)
        segments_take_spare(store->segments, found->number, found->size_bytes, file);
    return err;
}

/* Keeps a complete spare, and removes a file that a crash left incomplete. */
static enum err take_unused(struct recovery *recovery, struct found *found)
{
    struct store *store = recovery->store;
    struct walker walker;
    if (found->verdict == FORMAT_BLANK && could_be_spare(recovery, found) &&
        recovery_in_order(recovery))
        return take_spare(store, found);
    if (found->verdict == FORMAT_SPARE)
        return remove_now(store, found->number);
    bool blank = false;
    char name[DISK_NAME_MAX];
    segment_name(found->number, name);
    const struct walker_of of = directory_walker_of(&recovery->directory, found);
    enum err err = walker_open(&walker, store->disk, &of, DISK_FRESH);
    if (err)
        return err;
    err = check_blank(recovery, &walker, &blank);
    struct disk_file *file = walker.scan.file;
    walker_fini(&walker);
    bool spare = !err && blank && could_be_spare(recovery, found);
    if (!spare) {
        store->disk->verbs->close(store->disk, file);
        if (!err && !blank)
            store_error_set(
                recovery->error, name, 0,
                "notice: a segment without a header held nothing of the log; it was removed, "
                "nothing is lost");
        return err ? err : remove_now(store, found->number);
    }
    segments_take_spare(store->segments, found->number, found->size_bytes, file);
    struct disk_op op = {.verb = DISK_SYNC, .lane = LANE_BACKGROUND, .file = file};
    memcpy(op.name, name, sizeof(op.name)); /* its name may be in memory only, after a kill */
    store->disk->verbs->run(store->disk, &op);
    return op.err;
}

enum err recover_unused(struct recovery *recovery)
{
    struct directory *directory = &recovery->directory;
    enum err err = OK;
    CHECK(directory->used <= directory->count);
    for (size_t i = directory->used; i < directory->count && !err; i++)
        err = take_unused(recovery, &directory->found[i]);
    return err;
}

/* Are all batches of this segment, which precedes the log, intact? */
static enum err is_whole(struct recovery *recovery, size_t index, bool *out_whole)
{
    struct store *store = recovery->store;
    const struct found *found = &recovery->directory.found[index];
    uint64_t batch_end = index + 1 < recovery->directory.used
                             ? found[1].head.batch_first
                             : recovery->directory.manifest.batch_first;
    struct walker walker;
    const struct walker_of of = directory_walker_of(&recovery->directory, found);
    enum err err = walker_open(&walker, store->disk, &of, DISK_CACHED);
    if (err)
        return err;
    walker_move_to(&walker, BLOCK, found->head.batch_first);
    while (walker.expected < batch_end && walker_classify(&walker) == PLACE_BATCH)
        walker_next(&walker);
    *out_whole = walker.expected == batch_end;
    walker_close(&walker);
    return OK;
}

/* A crash came before the segment was set aside: lost bodies may still be found in it later. */
static enum err set_aside_now(struct store *store, uint32_t number)
{
    char aside[DISK_NAME_MAX];
    struct disk_op op = {.verb = DISK_RENAME, .lane = LANE_BACKGROUND, .data = aside};
    segment_name(number, op.name);
    aside_name(number, aside);
    store->disk->verbs->run(store->disk, &op);
    segments_set_aside(store->segments, op.err == OK);
    return op.err;
}

enum err recover_leftovers(struct recovery *recovery)
{
    CHECK(recovery->leftovers <= recovery->directory.used);
    enum err err = OK;
    for (size_t i = 0; i < recovery->leftovers && !err; i++) {
        bool whole = true;
        err = is_whole(recovery, i, &whole);
        if (!err)
            err = whole ? remove_now(recovery->store, recovery->directory.found[i].number)
                        : set_aside_now(recovery->store, recovery->directory.found[i].number);
    }
    return err;
}
