#include "store/recovery/walker.h"

#include "base/check.h"

enum { WINDOW_BYTES = 1024 * 1024 };

enum err walker_open(struct walker *walker, struct disk *disk, const struct walker_of *of,
                     enum disk_cache cache)
{
    struct disk_file *file;
    char name[DISK_NAME_MAX];
    segment_name(of->number, name);
    enum err err = disk->verbs->open(disk, name, cache, &file);
    if (err)
        return err;
    *walker = (struct walker){.offset = BLOCK};
    scan_init(&walker->scan, disk, file, of->size_bytes, WINDOW_BYTES);
    walker->scan.number = of->number;
    walker->scan.tag = of->tag;
    walker->scan.key = of->key;
    return OK;
}

void walker_fini(struct walker *walker)
{
    scan_fini(&walker->scan);
}

void walker_close(struct walker *walker)
{
    walker->scan.disk->verbs->close(walker->scan.disk, walker->scan.file);
    walker_fini(walker);
}

void walker_move_to(struct walker *walker, uint64_t offset, uint64_t expected)
{
    CHECK(offset % BLOCK == 0);
    walker->offset = offset;
    walker->expected = expected;
}

static enum place_kind look(struct walker *walker)
{
    struct scan *scan = &walker->scan;
    enum format_verdict verdict;
    const char *at;
    size_t len;
    walker->err = scan_batch(scan, walker->offset, &verdict, &walker->head, &walker->batch);
    if (!walker->err && verdict == FORMAT_GOOD) {
        walker->bytes = batch_bytes(walker->head.payload_bytes);
        return walker->head.number == walker->expected ? PLACE_BATCH : PLACE_OTHER;
    }
    if (!walker->err)
        walker->err = scan_bytes(scan, walker->offset, BLOCK, &at, &len);
    if (walker->err)
        return PLACE_UNREAD;
    if (scan->key && len == BLOCK && !batch_is_of(at, scan->number, scan->tag))
        return PLACE_BLANK;
    return bytes_all_zero(at, len) ? PLACE_BLANK : PLACE_BAD;
}

enum place_kind walker_classify(struct walker *walker)
{
    struct scan *scan = &walker->scan;
    bool narrow = scan->narrow;
    scan->narrow =
        narrow || (walker->offset >= walker->narrow_from && walker->offset < walker->narrow_until);
    walker->bytes = BLOCK;
    walker->kind = PLACE_END;
    if (walker->offset < scan->size_bytes)
        walker->kind = look(walker);
    if (walker->kind == PLACE_UNREAD && !scan->narrow) {
        walker->narrow_from = walker->offset;
        walker->narrow_until = walker->offset + scan->cap;
        scan->narrow = true;
        scan_discard(scan);
        walker->kind = look(walker);
    }
    CHECK(walker->bytes > 0 && walker->bytes % BLOCK == 0);
    CHECK(walker->kind == PLACE_END || walker->offset + walker->bytes <= scan->size_bytes ||
          walker->bytes == BLOCK); /* a batch is whole in the file */
    scan->narrow = narrow;
    return walker->kind;
}

void walker_next(struct walker *walker)
{
    CHECK(walker->kind != PLACE_END);
    walker->expected += walker->kind == PLACE_BATCH;
    walker->offset += walker->bytes;
}

bool walker_seek(struct walker *walker, uint64_t after, uint64_t below)
{
    for (;; walker_next(walker)) {
        enum place_kind kind = walker_classify(walker);
        if (kind == PLACE_END)
            return false;
        bool batch = kind == PLACE_BATCH || kind == PLACE_OTHER;
        if (batch && walker->head.number > after && walker->head.number < below)
            return true;
    }
}

/* Reads the header of the damaged batch that begins here, if it can be read. */
static bool head_of_bad(struct walker *walker, bool own, struct batch_head *out_head)
{
    struct scan *scan = &walker->scan;
    const char *at;
    size_t len;
    uint64_t room = scan->size_bytes - walker->offset;
    bool read = scan_bytes(scan, walker->offset, BLOCK, &at, &len) == OK && len == BLOCK;
    return read && (!own || batch_is_of(at, scan->number, scan->tag)) &&
           batch_head_decode(at, room, out_head) == FORMAT_GOOD;
}

uint64_t walker_durable(struct walker *walker)
{
    struct batch_head head;
    if (walker->kind == PLACE_BATCH || walker->kind == PLACE_OTHER)
        return walker->head.durable;
    return walker->kind == PLACE_BAD && head_of_bad(walker, true, &head) ? head.durable : 0;
}

/*
 * The end of the damaged batch that begins here, by its header. In a reused file the batch's other
 * blocks cannot be told from blocks of the earlier segment.
 */
static uint64_t end_of_bad(struct walker *walker)
{
    struct batch_head head;
    if (!head_of_bad(walker, false, &head))
        return walker->scan.size_bytes;
    return walker->offset + batch_bytes(head.payload_bytes);
}

uint64_t walker_blank_from(struct walker *walker, bool *out_batches)
{
    uint64_t end = walker->offset;
    bool batches = false;
    for (;; walker_next(walker)) {
        enum place_kind kind = walker_classify(walker);
        if (kind == PLACE_END)
            break;
        batches = batches || kind == PLACE_BATCH || kind == PLACE_OTHER;
        if (kind != PLACE_BLANK)
            end = walker->offset + walker->bytes;
        if (kind == PLACE_BAD && walker->scan.key && end_of_bad(walker) > end)
            end = end_of_bad(walker);
    }
    if (out_batches)
        *out_batches = batches;
    return end;
}
