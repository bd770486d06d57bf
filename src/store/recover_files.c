/*
 * Files that are not of the log: spares, files that a crash left half made, and segments that were
 * cleaned already. They are told from segments whose header has rotted, which are of the log.
 */
#include "base/mem.h"
#include "store/recover_parts.h"

enum { WINDOW_BYTES = 1024 * 1024 };

static enum err remove_now(struct store *store, uint32_t number)
{
    struct disk_op op = {.verb = DISK_REMOVE, .lane = LANE_BACKGROUND};
    segment_name(number, op.name);
    store->disk->verbs->run(store->disk, &op);
    return op.err;
}

/*
 * Is there nothing in the file but zeros? ERR_CORRUPT if there is a batch of the log: its header
 * has rotted. A batch from before the log says that all of the segment is dead, because the log
 * begins with a segment's first: a crash came before the removal, and rot after it.
 */
static enum err look_into(struct recovery *recovery, const struct found *found,
                          struct disk_file *file, bool *out_blank)
{
    struct scan scan;
    enum err err = OK;
    bool blank = true;
    bool dead = false;
    scan_init(&scan, recovery->store->disk, file, found->size_bytes, WINDOW_BYTES);
    scan.number = found->number;
    scan.tag = recovery->store->tag;
    for (uint64_t offset = 0; offset < found->size_bytes && !err && !dead; offset += BLOCK) {
        const char *at;
        size_t len;
        enum format_verdict verdict;
        struct batch_head head;
        err = scan_bytes(&scan, offset, BLOCK, &at, &len);
        if (err || bytes_all_zero(at, len))
            continue;
        blank = false;
        err = scan_batch(&scan, offset, &verdict, &head, &at);
        if (err || verdict != FORMAT_GOOD)
            continue;
        dead = head.number < recovery->directory.manifest.batch_first;
        if (!dead) {
            char name[DISK_NAME_MAX];
            segment_name(found->number, name);
            store_error_set(
                recovery->error, name, 0,
                "the segment's header is damaged, and there are batches behind it (number "
                "%llu …): restore the file from a backup; nothing was changed",
                (unsigned long long)head.number);
            err = ERR_CORRUPT;
        }
    }
    scan_fini(&scan);
    *out_blank = blank;
    return err;
}

/* A spare is taken as one; what a crash left half made is removed. */
static enum err take_unused(struct recovery *recovery, struct found *found)
{
    struct store *store = recovery->store;
    struct disk_file *file;
    bool blank = false;
    char name[DISK_NAME_MAX];
    segment_name(found->number, name);
    enum err err = store->disk->verbs->open(store->disk, name, true, &file);
    if (err)
        return err;
    err = look_into(recovery, found, file, &blank);
    bool spare = !err && blank && found->size_bytes == store->options.segment_bytes &&
                 segments_want_spare(store->segments);
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
    for (size_t i = directory->used; i < directory->count && !err; i++)
        err = take_unused(recovery, &directory->found[i]);
    return err;
}

/* Are all batches of a segment before the log as they were written? */
static enum err is_whole(struct recovery *recovery, size_t index, bool *out_whole)
{
    struct store *store = recovery->store;
    const struct found *found = &recovery->directory.found[index];
    uint64_t batch_end = index + 1 < recovery->directory.used
                             ? found[1].head.batch_first
                             : recovery->directory.manifest.batch_first;
    uint64_t number = found->head.batch_first;
    uint64_t offset = BLOCK;
    struct disk_file *file;
    struct scan scan;
    char name[DISK_NAME_MAX];
    segment_name(found->number, name);
    enum err err = store->disk->verbs->open(store->disk, name, false, &file);
    if (err)
        return err;
    scan_init(&scan, store->disk, file, found->size_bytes, WINDOW_BYTES);
    scan.number = found->number;
    scan.tag = store->tag;
    for (bool good = true; good && number < batch_end;) {
        enum format_verdict verdict = FORMAT_BAD;
        struct batch_head head;
        const char *batch;
        good = !scan_batch(&scan, offset, &verdict, &head, &batch) && verdict == FORMAT_GOOD &&
               head.number == number;
        number += good;
        offset += good ? batch_bytes(head.payload_bytes) : 0;
    }
    scan_fini(&scan);
    store->disk->verbs->close(store->disk, file);
    *out_whole = number == batch_end;
    return OK;
}

/* A crash came before it was set aside: bodies that were lost may still be found in it some day. */
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
