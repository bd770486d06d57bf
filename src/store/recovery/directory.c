#include "store/recovery/directory.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "store/slices/far_image.h"
#include "store/slices/slice_format.h"

void store_error_set(struct store_error *error, const char *file, uint64_t offset,
                     const char *format, ...)
{
    va_list args;
    (void)snprintf(error->file, sizeof(error->file), "%s", file); /* cut if too long */
    error->offset = offset;
    va_start(args, format);
    (void)vsnprintf(error->text, sizeof(error->text), format, args); /* cut if too long */
    va_end(args);
}

/* ---- the manifest ---- */

static enum err read_slots(struct disk *disk, char *slots, size_t *out_len,
                           struct store_error *out_error)
{
    struct disk_file *file;
    uint64_t size_bytes = 0;
    enum err err = disk->verbs->open(disk, MANIFEST_NAME, DISK_FRESH, &file);
    if (err)
        return err;
    err = disk->verbs->size(disk, file, &size_bytes);
    if (!err)
        err = disk->verbs->read(disk, file, 0, slots, MANIFEST_BYTES, out_len);
    disk->verbs->close(disk, file);
    if (err) {
        store_error_set(out_error, MANIFEST_NAME, 0, "the manifest cannot be read");
    } else if (size_bytes != MANIFEST_BYTES || *out_len != MANIFEST_BYTES) {
        store_error_set(
            out_error, MANIFEST_NAME, 0,
            "the manifest must have %d bytes; it was cut or grown: restore the directory from a "
            "backup, or bring the jobs over with: later salvage DIR NEW",
            MANIFEST_BYTES);
        err = ERR_CORRUPT;
    }
    return err;
}

enum err directory_slots(const char *slots, struct directory *directory,
                         struct store_error *out_error)
{
    struct manifest slot[2];
    enum format_verdict verdict[2];
    for (int i = 0; i < 2; i++)
        verdict[i] = manifest_decode(slots + (size_t)i * BLOCK, &slot[i]);
    if (verdict[0] == FORMAT_NEWER || verdict[1] == FORMAT_NEWER) {
        store_error_set(out_error, MANIFEST_NAME, 0,
                        "this store was written by a newer laterd: run that version");
        return ERR_UNSUPPORTED;
    }
    if (verdict[0] != FORMAT_GOOD && verdict[1] != FORMAT_GOOD) {
        store_error_set(
            out_error, MANIFEST_NAME, 0,
            "both copies of the manifest are damaged: restore the directory from a backup, or "
            "bring the jobs over with: later salvage DIR NEW");
        return ERR_CORRUPT;
    }
    int newest = verdict[0] == FORMAT_GOOD ? 0 : 1;
    if (verdict[0] == FORMAT_GOOD && verdict[1] == FORMAT_GOOD)
        newest = slot[1].generation > slot[0].generation ? 1 : 0;
    CHECK(verdict[newest] == FORMAT_GOOD);
    directory->manifest = slot[newest];
    directory->manifest_there = true;
    int unknown = manifest_unknown_feature(&directory->manifest);
    if (unknown >= 0) {
        store_error_set(out_error, MANIFEST_NAME, 0,
                        "this store uses feature %d of the format, which this version does not "
                        "know; nothing was changed: run the laterd that wrote it, or a newer one",
                        unknown);
        return ERR_UNSUPPORTED;
    }
    /* The other slot is blank only until the second writing. */
    enum format_verdict other = verdict[1 - newest];
    directory->slot_damaged =
        other == FORMAT_BAD || (other == FORMAT_BLANK && slot[newest].generation > 1);
    return OK;
}

enum err directory_manifest(struct disk *disk, struct directory *directory,
                            struct store_error *out_error)
{
    char *slots = mem_aligned(BLOCK, MANIFEST_BYTES);
    size_t len = 0;
    enum err err = read_slots(disk, slots, &len, out_error);
    if (err == ERR_NOT_FOUND)
        err = OK; /* a new store, perhaps */
    else if (!err)
        err = directory_slots(slots, directory, out_error);
    mem_free(slots);
    return err;
}

/* ---- the segments ---- */

/* True: the name is a slice's. */
static bool found_slice(struct directory *directory, const char *name)
{
    struct found_slice slice = {0};
    slice.half_made = slice_tmp_name_parse(name, &slice.number);
    if (!slice.half_made && !slice_name_parse(name, &slice.number))
        return false;
    directory->slices =
        mem_realloc(directory->slices, (directory->slice_count + 1) * sizeof(slice));
    directory->slices[directory->slice_count++] = slice;
    return true;
}

static void found_name(void *ctx, const char *name)
{
    struct directory *directory = ctx;
    uint32_t number;
    if (found_slice(directory, name))
        return;
    directory->unfinished |= strcmp(name, MANIFEST_UNFINISHED_NAME) == 0;
    directory->image_there |= strcmp(name, FAR_IMAGE_NAME) == 0;
    directory->image_half_made |= strcmp(name, FAR_IMAGE_TMP_NAME) == 0;
    if (!segment_name_parse(name, &number)) {
        directory->set_aside += aside_name_parse(name, &number);
        return; /* not of the log */
    }
    directory->found =
        mem_realloc(directory->found, (directory->count + 1) * sizeof(*directory->found));
    directory->found[directory->count++] = (struct found){.number = number};
}

static enum err load_head(struct disk *disk, struct found *found, const struct manifest *manifest,
                          struct store_error *out_error)
{
    char name[DISK_NAME_MAX];
    struct disk_file *file;
    size_t len = 0;
    segment_name(found->number, name);
    enum err err = disk->verbs->open(disk, name, DISK_FRESH, &file);
    if (err)
        return err;
    char *block = mem_aligned(BLOCK, BLOCK);
    err = disk->verbs->size(disk, file, &found->size_bytes);
    if (!err)
        err = disk->verbs->read(disk, file, 0, block, BLOCK, &len);
    disk->verbs->close(disk, file);
    if (!err)
        found->verdict = len == BLOCK ? segment_head_decode(block, &found->head)
                                      : FORMAT_BLANK; /* its making was cut short */
    mem_free(block);
    if (err) {
        store_error_set(out_error, name, 0, "the segment's header cannot be read");
        return err;
    }
    if (found->verdict == FORMAT_NEWER) {
        store_error_set(out_error, name, 0,
                        "this segment was written by a newer laterd: run that version");
        return ERR_UNSUPPORTED;
    }
    if (found->verdict != FORMAT_GOOD)
        return OK;
    if (!store_id_eq(&found->head.id, &manifest->id)) {
        store_error_set(out_error, name, 0,
                        "this segment belongs to another store: two stores' files are mixed in the "
                        "directory; move it out, or restore from a backup");
        return ERR_CORRUPT;
    }
    if (found->head.number != found->number || found->head.size_bytes != found->size_bytes) {
        store_error_set(
            out_error, name, 0,
            "this is segment %u of %llu bytes, and the file has %llu: it was renamed or cut, or "
            "has grown; restore it from a backup, or bring over what is intact: later salvage DIR "
            "NEW",
            found->head.number, (unsigned long long)found->head.size_bytes,
            (unsigned long long)found->size_bytes);
        return ERR_CORRUPT;
    }
    return OK;
}

static int by_order(const void *left, const void *right)
{
    const struct found *a = left;
    const struct found *b = right;
    bool a_used = a->verdict == FORMAT_GOOD;
    bool b_used = b->verdict == FORMAT_GOOD;
    if (a_used != b_used)
        return a_used ? -1 : 1;
    if (a_used && a->head.batch_first != b->head.batch_first)
        return a->head.batch_first < b->head.batch_first ? -1 : 1;
    return a->number < b->number ? -1 : a->number > b->number;
}

static int newest_first(const void *left, const void *right)
{
    const struct found_slice *a = left;
    const struct found_slice *b = right;
    return a->number > b->number ? -1 : a->number < b->number;
}

void directory_sort(struct directory *directory)
{
    if (directory->count > 0)
        qsort(directory->found, directory->count, sizeof(*directory->found), by_order);
    if (directory->slice_count > 0)
        qsort(directory->slices, directory->slice_count, sizeof(*directory->slices), newest_first);
    directory->used = 0;
    while (directory->used < directory->count &&
           directory->found[directory->used].verdict == FORMAT_GOOD)
        directory->used++;
    CHECK(directory->used <= directory->count);
}

/* Is what the manifest and the names of files say a store, or a directory for a new one? */
static enum err check_names(const struct directory *directory, bool unfinished,
                            struct store_error *out_error)
{
    if (directory->unfinished && !unfinished) {
        store_error_set(out_error, MANIFEST_UNFINISHED_NAME, 0,
                        "later salvage was ended before this store was whole, and jobs are "
                        "missing: remove the directory, and salvage the old store again");
        return ERR_CORRUPT;
    }
    if (!directory->manifest_there && directory->count > 0) {
        store_error_set(
            out_error, MANIFEST_NAME, 0,
            "there is no manifest, and segments are there (%zu): restore the manifest from a "
            "backup, bring the "
            "jobs over with: later salvage DIR NEW; or move the segments out to begin a new store",
            directory->count);
        return ERR_CORRUPT;
    }
    return OK;
}

static enum err read_names(struct disk *disk, bool unfinished, struct directory *out_directory,
                           struct store_error *out_error)
{
    struct directory directory = {0};
    enum err err = directory_manifest(disk, &directory, out_error);
    if (!err)
        err = disk->verbs->list(disk, found_name, &directory);
    if (!err)
        err = check_names(&directory, unfinished, out_error);
    for (size_t i = 0; i < directory.count && !err; i++)
        err = load_head(disk, &directory.found[i], &directory.manifest, out_error);
    if (err) {
        directory_fini(&directory);
        return err;
    }
    directory_sort(&directory);
    *out_directory = directory;
    return OK;
}

enum err directory_read(struct disk *disk, struct directory *out_directory,
                        struct store_error *out_error)
{
    return read_names(disk, false, out_directory, out_error);
}

enum err directory_read_unfinished(struct disk *disk, struct directory *out_directory,
                                   struct store_error *out_error)
{
    return read_names(disk, true, out_directory, out_error);
}

/* Its own id, as long as no other is known. */
static void read_head(struct disk *disk, struct found *found, struct directory *directory)
{
    char name[DISK_NAME_MAX];
    struct disk_file *file;
    size_t len = 0;
    segment_name(found->number, name);
    found->verdict = FORMAT_BAD;
    if (disk->verbs->open(disk, name, DISK_FRESH, &file)) {
        found->fault = "it cannot be opened, or is no file; it is not read";
        return;
    }
    char *block = mem_aligned(BLOCK, BLOCK);
    struct segment_head *head = &found->head;
    if (disk->verbs->size(disk, file, &found->size_bytes) == OK &&
        disk->verbs->read(disk, file, 0, block, BLOCK, &len) == OK)
        found->verdict = len == BLOCK ? segment_head_decode(block, head) : FORMAT_BLANK;
    if (found->verdict != FORMAT_GOOD && found->size_bytes > SEGMENT_FILE_MAX)
        found->size_bytes = SEGMENT_FILE_MAX; /* a sparse file has any length */
    disk->verbs->close(disk, file);
    mem_free(block);
    if (found->verdict != FORMAT_GOOD)
        return;
    if (!directory->manifest_there && directory->manifest.version == 0) {
        directory->manifest.version = head->version;
        directory->manifest.id = head->id;
    }
    if (!store_id_eq(&head->id, &directory->manifest.id))
        found->fault = "it belongs to another store; it is not read";
    else if (head->number != found->number)
        found->fault = "by its header it is another segment: it was renamed; it is not read";
    if (found->fault)
        found->verdict = FORMAT_BAD;
}

enum err directory_read_lenient(struct disk *disk, struct directory *out_directory,
                                struct store_error *out_error)
{
    struct directory directory = {0};
    enum err err = directory_manifest(disk, &directory, out_error);
    if (err == ERR_CORRUPT || err == ERR_IO)
        err = OK; /* the segments have almost the same information */
    if (!err)
        err = disk->verbs->list(disk, found_name, &directory);
    for (size_t i = 0; i < directory.count && !err; i++) {
        read_head(disk, &directory.found[i], &directory);
        if (directory.found[i].verdict == FORMAT_NEWER) {
            store_error_set(out_error, MANIFEST_NAME, 0,
                            "this store was written by a newer laterd: take its `later`");
            err = ERR_UNSUPPORTED;
        }
    }
    if (err) {
        directory_fini(&directory);
        return err;
    }
    directory_sort(&directory);
    *out_directory = directory;
    return OK;
}

struct walker_of directory_walker_of(const struct directory *directory, const struct found *found)
{
    return (struct walker_of){
        .number = found->number,
        .tag = store_tag(&directory->manifest.id),
        .size_bytes = found->size_bytes,
        .key = found->verdict == FORMAT_GOOD ? found->head.key : 0,
    };
}

bool directory_has_slice(const struct directory *directory, uint32_t number)
{
    for (size_t i = 0; i < directory->slice_count; i++)
        if (directory->slices[i].number == number && !directory->slices[i].half_made)
            return true;
    return false;
}

enum err directory_read_all(struct disk *disk, struct disk_file *file, uint64_t offset, void *at,
                            size_t len)
{
    size_t got = 0;
    enum err err = disk->verbs->read(disk, file, offset, at, len, &got);
    return err ? err : got == len ? OK : ERR_CORRUPT;
}

enum err directory_read_file(struct disk *disk, const char *name, uint64_t bytes_max,
                             struct file_bytes *out_file)
{
    struct disk_file *file;
    uint64_t size_bytes = 0;
    enum err err = disk->verbs->open(disk, name, DISK_FRESH, &file);
    if (err)
        return err;
    bool unread = disk->verbs->size(disk, file, &size_bytes) != OK;
    if (unread)
        size_bytes = 0;
    uint64_t len = size_bytes < bytes_max ? size_bytes : bytes_max;
    size_t room = (size_t)((len + BLOCK - 1) / BLOCK * BLOCK + BLOCK);
    char *bytes = mem_aligned(BLOCK, room);
    memset(bytes, 0, room);
    for (uint64_t at = 0; at < len; at += BLOCK) {
        size_t got;
        unread |= disk->verbs->read(disk, file, at, bytes + at, BLOCK, &got) != OK;
    }
    memset(bytes + len, 0, room - len);
    disk->verbs->close(disk, file);
    *out_file = (struct file_bytes){bytes, (size_t)len, size_bytes, unread};
    return OK;
}

void directory_fini(struct directory *directory)
{
    mem_free(directory->found);
    mem_free(directory->slices);
    *directory = (struct directory){0};
}
