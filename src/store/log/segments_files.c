/*
 * The open files of segments and slices, and their reads.
 */
#include "base/check.h"
#include "store/log/segments_parts.h"
#include "store/slices/slices.h"

void segments_file_name(const struct segment *segment, char out_name[DISK_NAME_MAX])
{
    if (segment->state == SEGMENT_SLICE)
        slice_name(segment->number, out_name);
    else
        segment_name(segment->number, out_name);
}

void segments_close_file(struct segments *segments, struct segment *segment)
{
    segment->close_after_reads = segment->reading > 0;
    if (!segment->file || segment->close_after_reads)
        return;
    segments->disk->verbs->close(segments->disk, segment->file);
    CHECK(segments->files_open > 0);
    segment->file = NULL;
    segments->files_open--;
    list_remove(&segment->open_link);
}

/*
 * May its file be closed? Not while a commit or a read uses it, nor while it may have unsynced
 * writes: a sync of a new descriptor would not report errors of writes through the old one.
 */
static bool closable(const struct segments *segments, const struct segment *segment)
{
    const struct segment *next = segments_after(segments, segment);
    if (segment->reading > 0 || log_writes_to(segments->store->log, segment->file))
        return false;
    if (segment->state == SEGMENT_READY || segment->state == SEGMENT_SLICE)
        return true; /* it holds zeros, or never changes, and is synced */
    return segment->batch_first && next && next->state == SEGMENT_HEADED;
}

/* Closes the file that was not used for longest. Of many segments few cannot be closed. */
static void close_idlest(struct segments *segments)
{
    for (struct list *link = segments->open_files.next; link != &segments->open_files;
         link = link->next) {
        struct segment *segment = LIST_ENTRY(link, struct segment, open_link);
        if (closable(segments, segment)) {
            segments_close_file(segments, segment);
            return;
        }
    }
}

void segments_opened(struct segments *segments, struct segment *segment, struct disk_file *file)
{
    if (segments->files_open >= segments->options->files_max)
        close_idlest(segments);
    CHECK(!segment->file && file);
    segment->file = file;
    segments->files_open++;
    list_add_tail(&segments->open_files, &segment->open_link);
}

static void note_used(struct segments *segments, struct segment *segment)
{
    list_remove(&segment->open_link);
    list_add_tail(&segments->open_files, &segment->open_link);
}

/* Its reads: not one after the other through the file, but blocks and records here and there. */
static bool is_exact(const struct segment *segment)
{
    return segment->state == SEGMENT_SLICE;
}

enum err segments_file(struct segments *segments, struct segment *segment,
                       struct disk_file **out_file)
{
    if (!segment->file) {
        struct disk_file *file;
        char name[DISK_NAME_MAX];
        segments_file_name(segment, name);
        enum err err = segments->disk->verbs->open(segments->disk, name, DISK_CACHED, &file);
        if (err)
            return err;
        if (is_exact(segment))
            segments->disk->verbs->exact(segments->disk, file);
        segments_opened(segments, segment, file);
    } else {
        note_used(segments, segment);
    }
    *out_file = segment->file;
    return OK;
}

void segments_pin(struct segment *segment)
{
    segment->pins++;
}

void segments_unpin(struct segment *segment)
{
    CHECK(segment->pins > segment->reading);
    segment->pins--;
}

void segments_read(struct segments *segments, struct segment *segment, struct disk_op *op)
{
    CHECK(op->into && op->len > 0 && op->done);
    segment->pins++;
    segment->reading++;
    op->verb = DISK_READ;
    op->lane = LANE_READ;
    if (!op->fresh) {
        op->file = segment->file;
        if (op->file)
            note_used(segments, segment);
    }
    op->exact = is_exact(segment);
    segments_file_name(segment, op->name);
    segments->disk->verbs->submit(segments->disk, op);
}

/* Keeps a file that the read opened, unless the segment has an open file already. */
static void take_file(struct segments *segments, struct segment *segment, const struct disk_op *op)
{
    if (!op->file || op->fresh || op->file == segment->file)
        return;
    if (segment->file)
        segments->disk->verbs->close(segments->disk, op->file);
    else
        segments_opened(segments, segment, op->file);
}

bool segments_is_direct(const struct segments *segments, const struct segment *segment)
{
    return segment->file ? segments->disk->verbs->is_direct(segments->disk, segment->file)
                         : !segments->options->buffered;
}

enum err segments_read_cached(struct segments *segments, struct segment *segment, uint64_t offset,
                              void *at, size_t len, size_t *out_len)
{
    struct disk_file *file;
    if (!segment->file)
        return ERR_AGAIN; /* opening it may wait for the disk */
    enum err err = segments_file(segments, segment, &file);
    return err ? err
               : segments->disk->verbs->read_cached(segments->disk, file, offset, at, len, out_len);
}

void segments_read_end(struct segments *segments, struct segment *segment, struct disk_op *op)
{
    CHECK(segment->reading > 0 && segment->pins >= segment->reading);
    take_file(segments, segment, op);
    segment->pins--;
    segment->reading--;
    if (segment->close_after_reads && segment->reading == 0)
        segments_close_file(segments, segment);
}
