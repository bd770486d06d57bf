#include "store/backup.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "store/history/history_format.h"
#include "store/recovery/directory.h"
#include "store/recovery/walker.h"
#include "store/slices/slice_format.h"

enum {
    ROUNDS_MAX = 1000, /* each round only handles new files, and so is shorter than the time to fill
                          a segment */
    WINDOW_BYTES = 1024 * 1024,
};

/* More than a store can use up between a backup and its end in a hundred years. */
#define RESTORED_SEQ_AHEAD   (UINT64_C(1) << 30)
#define RESTORED_LEASE_AHEAD (UINT64_C(1) << 44)

/* ---- holding files ---- */

struct capture {
    struct disk *disk;
    struct backup *backup;
    struct store_error *error;
    struct buf names;    /* names of the files in the directory, each with a NUL behind it */
    unsigned new_slices; /* slices and history files that were opened, or were removed, since this
                            was last set to 0 */
};

static bool is_of_history(const char *name)
{
    uint32_t number;
    bool half_made;
    return history_name_parse(name, &number, &half_made) && !half_made;
}

/* Is it the name of a file that is complete when it gets its name: a slice, or a history file? */
static bool never_changes(const char *name)
{
    uint32_t number;
    return slice_name_parse(name, &number) || is_of_history(name);
}

static void note_name(void *ctx, const char *name)
{
    struct capture *capture = ctx;
    uint32_t number;
    if (segment_name_parse(name, &number) || never_changes(name))
        buf_add(&capture->names, name, strlen(name) + 1);
}

static bool is_held(const struct backup *backup, const char *name)
{
    for (size_t i = backup->count; i > 0; i--) {
        if (strcmp(backup->files[i - 1].name, name) == 0)
            return true;
    }
    return false;
}

/* Does the segment match its name? Its file may have been reused since it was opened. */
static bool names(const struct backup_file *held)
{
    uint32_t number;
    return segment_name_parse(held->name, &number) && number == held->head.number;
}

/* Reads the last batch that a file of this store's history has. A damaged header says nothing. */
static void read_history_head(const struct backup *backup, const char *block, size_t len,
                              struct backup_file *held)
{
    struct history_head head;
    CHECK(held->is_slice && held->batch_last == 0);
    if (len == BLOCK && history_head_decode(block, &head) != FORMAT_BAD &&
        store_id_eq(&head.id, &backup->manifest.id))
        held->batch_last = head.batch_last;
}

/* Reads the header, if there is one. A spare has none, or it may be under way to the disk. */
static enum err read_head(struct capture *capture, struct backup_file *held, bool *out_good)
{
    const struct disk_verbs *verbs = capture->disk->verbs;
    char *block = mem_aligned(BLOCK, BLOCK);
    size_t len = 0;
    enum err err = verbs->size(capture->disk, held->file, &held->size_bytes);
    if (!err && (!held->is_slice || is_of_history(held->name)))
        err = verbs->read(capture->disk, held->file, 0, block, BLOCK, &len);
    enum format_verdict verdict = FORMAT_BLANK;
    if (!err && held->is_slice)
        read_history_head(capture->backup, block, len, held);
    else if (!err && len == BLOCK)
        verdict = segment_head_decode(block, &held->head);
    mem_free(block);
    *out_good = held->is_slice || (verdict == FORMAT_GOOD && names(held));
    if (err)
        store_error_set(capture->error, held->name, 0, "the file's header cannot be read");
    if (!err && verdict == FORMAT_NEWER) {
        store_error_set(capture->error, held->name, 0,
                        "this segment was written by a newer laterd: take its `later`");
        err = ERR_UNSUPPORTED;
    }
    return err;
}

static enum err hold(struct capture *capture, const char *name)
{
    struct backup *backup = capture->backup;
    struct backup_file held = {.size_bytes = 0};
    bool good = false;
    held.is_slice = never_changes(name);
    CHECK(strlen(name) < sizeof(held.name));
    (void)memcpy(held.name, name, strlen(name) + 1); /* names of the disk fit */
    enum err err = capture->disk->verbs->open(capture->disk, name, DISK_CACHED, &held.file);
    if (err == ERR_NOT_FOUND) {
        uint32_t number;
        bool half_made; /* it was merged meanwhile: another round finds the merged one */
        capture->new_slices += history_name_parse(name, &number, &half_made);
        return OK; /* it was cleaned meanwhile, which the next manifest shows */
    }
    if (err) {
        store_error_set(capture->error, name, 0,
                        err == ERR_AGAIN ? "no descriptor is free: raise the limit of open files "
                                           "(ulimit -n), one is needed for each file"
                                         : "the file cannot be opened");
        return err;
    }
    if (capture->disk->verbs->hold(capture->disk, held.file) == OK)
        err = read_head(capture, &held, &good); /* else it counts as a spare */
    if (err || !good) {
        capture->disk->verbs->close(capture->disk, held.file);
        return err;
    }
    backup->files = mem_realloc(backup->files, (backup->count + 1) * sizeof(*backup->files));
    backup->files[backup->count++] = held;
    capture->new_slices += held.is_slice;
    return OK;
}

/* Opens all files that are not open yet. */
static enum err hold_new(struct capture *capture)
{
    capture->names.len = 0;
    enum err err = capture->disk->verbs->list(capture->disk, note_name, capture);
    if (err)
        store_error_set(capture->error, "", 0, "the directory cannot be listed");
    for (size_t at = 0; at < capture->names.len && !err;) {
        const char *name = capture->names.at + at;
        at += strlen(name) + 1;
        if (!is_held(capture->backup, name))
            err = hold(capture, name);
    }
    return err;
}

/* ---- the state at one time ---- */

static int by_batch(const void *left, const void *right)
{
    const struct backup_file *a = left;
    const struct backup_file *b = right;
    if (a->is_slice || b->is_slice)
        return a->is_slice != b->is_slice ? a->is_slice - b->is_slice : strcmp(a->name, b->name);
    if (a->head.batch_first != b->head.batch_first)
        return a->head.batch_first < b->head.batch_first ? -1 : 1;
    return a->head.number < b->head.number ? -1 : a->head.number > b->head.number;
}

/* Drops files that the log does not need any more, and sorts the others. */
static void drop_dead(struct backup *backup)
{
    size_t kept = 0;
    if (backup->count > 0)
        qsort(backup->files, backup->count, sizeof(*backup->files), by_batch);
    for (size_t i = 0; i < backup->count; i++) {
        struct backup_file *file = &backup->files[i];
        if (file->is_slice || (file->head.batch_first >= backup->manifest.batch_first &&
                               store_id_eq(&file->head.id, &backup->manifest.id)))
            backup->files[kept++] = *file;
        else
            backup->disk->verbs->close(backup->disk, file->file);
    }
    backup->count = backup->segments = kept;
    while (backup->segments && backup->files[backup->segments - 1].is_slice)
        backup->segments--;
    CHECK(backup->segments <= backup->count);
    for (size_t i = 0; i < kept; i++) {
        backup->files[i].sealed = i + 1 != backup->segments;
        backup->files[i].used_bytes = backup->files[i].size_bytes;
    }
}

/* Is the log's first segment there, if there is a log? */
static bool is_whole(const struct backup *backup)
{
    if (backup->segments == 0)
        return backup->manifest.durable < backup->manifest.batch_first;
    return backup->files[0].head.batch_first == backup->manifest.batch_first;
}

/* Finds the end of the last segment, as of now. Later batches are not part of the backup. */
static enum err find_end(struct backup *backup, struct store_error *error)
{
    if (backup->segments == 0)
        return OK;
    struct backup_file *tail = &backup->files[backup->segments - 1];
    const struct manifest *manifest = &backup->manifest;
    /* the end of a store that was closed cleanly, even if another process has opened it
       since */
    uint64_t last = manifest->clean ? manifest->durable : UINT64_MAX;
    struct walker walker = {.offset = BLOCK, .expected = tail->head.batch_first};
    bool batches = false;
    scan_init(&walker.scan, backup->disk, tail->file, tail->size_bytes, WINDOW_BYTES);
    walker.scan.number = tail->head.number;
    walker.scan.tag = store_tag(&manifest->id);
    walker.scan.key = tail->head.key;
    while (walker.expected <= last && walker_classify(&walker) == PLACE_BATCH) {
        backup->clock_us = walker.head.clock_us;
        walker_next(&walker);
    }
    backup->batch = walker.expected - 1;
    tail->used_bytes = walker.offset;
    CHECK(walker.offset >= BLOCK && walker.offset % BLOCK == 0);
    enum err err = walker.kind == PLACE_UNREAD ? walker.err : OK;
    if (!err && walker.expected <= last) {
        /* Damage with batches behind it is kept in the backup, for verify and salvage to report. */
        uint64_t end = walker_blank_from(&walker, &batches);
        tail->used_bytes = batches ? end : tail->used_bytes;
    }
    walker_fini(&walker);
    if (err)
        store_error_set(error, tail->name, walker.offset, "the disk cannot read the segment");
    return err;
}

static enum err read_manifest(struct capture *capture, struct manifest *out_manifest)
{
    struct directory root = {0};
    enum err err = directory_manifest(capture->disk, &root, capture->error);
    if (!err && !root.manifest_there)
        err = ERR_NOT_FOUND;
    if (!err)
        *out_manifest = root.manifest;
    return err;
}

/* Has a file of the history batches that lie behind the end? */
static bool history_is_ahead(const struct backup *backup)
{
    for (size_t i = 0; i < backup->count; i++)
        if (backup->files[i].batch_last > backup->batch)
            return true;
    return false;
}

/* Opens slices that were made while the end of the tail was determined: the log before that end may
   mention them. */
static enum err hold_new_slices(struct capture *capture)
{
    size_t count = capture->backup->count;
    enum err err = hold_new(capture);
    struct backup *backup = capture->backup;
    if (err || capture->new_slices > 0)
        return err;
    CHECK(backup->count >= count);
    capture->new_slices = backup->count > count && history_is_ahead(backup);
    if (capture->new_slices)
        return OK; /* their segment is among those that were opened now */
    for (; backup->count > count; backup->count--) /* segments: behind the end */
        backup->disk->verbs->close(backup->disk, backup->files[backup->count - 1].file);
    return OK;
}

static enum err settle(struct capture *capture)
{
    struct backup *backup = capture->backup;
    struct manifest after;
    for (backup->rounds = 1; backup->rounds <= ROUNDS_MAX; backup->rounds++) {
        enum err err = read_manifest(capture, &backup->manifest);
        if (!err)
            err = hold_new(capture);
        if (!err)
            err = read_manifest(capture, &after);
        if (err)
            return err;
        if (after.generation != backup->manifest.generation)
            continue;
        drop_dead(backup);
        if (is_whole(backup)) {
            err = find_end(backup, capture->error);
            capture->new_slices = 0;
            if (!err)
                err = hold_new_slices(capture);
            if (err || capture->new_slices == 0)
                return err;
            continue;
        }
        store_error_set(capture->error, MANIFEST_NAME, 0,
                        "the log begins with batch %llu, and no segment does: files are missing",
                        (unsigned long long)backup->manifest.batch_first);
        return ERR_CORRUPT;
    }
    store_error_set(capture->error, MANIFEST_NAME, 0,
                    "the store changes faster than it can be looked at: try again");
    return ERR_AGAIN;
}

enum err backup_capture(struct disk *disk, struct backup *out_backup, struct store_error *out_error)
{
    struct backup backup = {.disk = disk};
    struct capture capture = {.disk = disk, .backup = &backup, .error = out_error};
    *out_error = (struct store_error){0};
    enum err err = settle(&capture);
    buf_fini(&capture.names);
    if (err)
        backup_release(&backup);
    else
        *out_backup = backup;
    return err;
}

void backup_release(struct backup *backup)
{
    for (size_t i = 0; i < backup->count; i++)
        backup->disk->verbs->close(backup->disk, backup->files[i].file);
    mem_free(backup->files);
    *backup = (struct backup){0};
}

/* ---- manifests ---- */

static void encode(struct manifest *manifest, char *slots)
{
    /* Both slots have the same contents, so that neither counts as damaged. */
    manifest->generation += 2;
    manifest_encode(manifest, slots + (manifest->generation & 1) * BLOCK);
    manifest->generation--;
    manifest_encode(manifest, slots + (manifest->generation & 1) * BLOCK);
}

void backup_manifest(const struct backup *backup, char *slots)
{
    struct manifest manifest = backup->manifest;
    /* Else damage in the last batches, or a missing last segment, would look like what a crash
       leaves. */
    if (backup->batch > manifest.durable)
        manifest.durable = backup->batch;
    encode(&manifest, slots);
}

enum err backup_restored(char *slots, struct store_error *out_error)
{
    struct directory root = {0};
    enum err err = directory_slots(slots, &root, out_error);
    if (err)
        return err;
    struct manifest *manifest = &root.manifest;
    manifest->clean = false; /* a clean store's marks would be used without a margin */
    manifest->seq_mark += RESTORED_SEQ_AHEAD;
    manifest->lease_mark += manifest->lease_mark ? RESTORED_LEASE_AHEAD : 0;
    for (unsigned i = 0; i < FOLLOWERS_MAX; i++)
        manifest->followers[i].dropped = manifest->followers[i].name[0] != '\0';
    encode(manifest, slots);
    return OK;
}
