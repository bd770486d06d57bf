/*
 * How the cleaner reads the oldest segment: batch by batch, through a window that the disk's
 * threads fill. What cannot be read, or does not match its checksum, is read again past the page
 * cache, with growing delays; after the last try it is passed over, block by block, to the next
 * good batch.
 */
#include <inttypes.h>

#include "base/check.h"
#include "store/log/cleaner_parts.h"

enum {
    READ_TRIES = 10,           /* of a read that fails: 51 s … */
    READ_TRIES_FULL = 4,       /* … or 0.7 s while the disk is full */
    CHECK_TRIES = 4,           /* of a batch that does not match its checksum */
    TRY_AGAIN_US = 100 * 1000, /* after the first failure; doubled after each */
};

/* ---- the window ---- */

static void read_ended(struct disk_op *op)
{
    struct cleaner *cleaner = op->owner;
    struct clean_reader *reader = &cleaner->reader;
    CHECK(reader->reading && cleaner->step == CLEAN_WALK);
    reader->reading = false;
    segments_read_end(cleaner->segments, cleaner->segment, op);
    if (op->fresh)
        reader->fresh = op->file;
    reader->read_err = op->err;
    if (!op->err)
        scan_read_ended(&reader->scan, op->got);
}

/* scan::read_window: what is in the page cache is read at once, all else by the disk's threads. A
   log that is written past the page cache is read past it: it is read once, and then goes. */
static enum err read_window(struct scan *scan, size_t want, size_t *out_len)
{
    struct cleaner *cleaner = scan->owner;
    struct clean_reader *reader = &cleaner->reader;
    struct segment *segment = cleaner->segment;
    enum err err = reader->read_err;
    bool fresh = reader->tries > 0;
    bool direct = !fresh && segments_is_direct(cleaner->segments, segment);
    reader->read_err = OK;
    if (err)
        return err;                              /* of the read that has just ended */
    err = fresh || direct || want > SPILL_WINDOW /* a batch of one large record */
              ? ERR_AGAIN
              : segments_read_cached(cleaner->segments, segment, scan->start, scan->window, want,
                                     out_len);
    if (err != ERR_AGAIN)
        return err;
    reader->reading = true;
    reader->read = (struct disk_op){
        .file = reader->fresh,
        .fresh = fresh,
        .direct = direct,
        .into = scan->window,
        .len = want,
        .offset = scan->start,
        .done = read_ended,
        .owner = cleaner,
    };
    segments_read(cleaner->segments, segment, &reader->read);
    return ERR_AGAIN;
}

static void close_fresh(struct cleaner *cleaner)
{
    if (cleaner->reader.fresh)
        cleaner->disk->verbs->close(cleaner->disk, cleaner->reader.fresh);
    cleaner->reader.fresh = NULL;
}

void cleaner_open_scan(struct cleaner *cleaner)
{
    const struct segment *oldest = cleaner->segment;
    struct scan *scan = &cleaner->reader.scan;
    CHECK(!scan->window && !cleaner->reader.reading);
    cleaner->reader.batch = NULL;
    if (segments_is_direct(cleaner->segments, oldest))
        scan_init_in(scan, cleaner->disk, NULL, oldest->size_bytes,
                     spill_take_window(cleaner->spill), SPILL_WINDOW);
    else
        scan_init(scan, cleaner->disk, NULL, oldest->size_bytes, CLEANER_TURN_BYTES);
    scan->read_window = read_window;
    scan->owner = cleaner;
    scan->number = oldest->number;
    scan->tag = cleaner->store->tag;
    scan->key = oldest->key;
}

void cleaner_close_scan(struct cleaner *cleaner)
{
    struct scan *scan = &cleaner->reader.scan;
    struct discard *discard = cleaner->store->options.discard;
    close_fresh(cleaner);
    if (scan->cap == SPILL_WINDOW)
        spill_keep_window(cleaner->spill, scan_take_window(scan));
    else if (scan->window && discard)
        discard_memory(discard, scan_take_window(scan), scan->cap);
    scan_fini(scan);
    cleaner->reader.batch = NULL;
    cleaner->reader.read_err = OK;
}

void cleaner_read_fini(struct cleaner *cleaner)
{
    close_fresh(cleaner);
    scan_fini(&cleaner->reader.scan);
}

/* ---- batches ---- */

/*
 * Is there a batch at `offset`? ERR_AGAIN with clean_reader::reading: call again when the read has
 * ended. After a failure it is read past the page cache, to see what the disk really has.
 */
static enum err look(struct clean_reader *reader, enum format_verdict *out_verdict,
                     struct batch_head *out_head, const char **out_batch)
{
    *out_verdict = FORMAT_BAD;
    reader->scan.narrow = reader->tries > 0 || reader->seeking;
    return scan_batch(&reader->scan, reader->offset, out_verdict, out_head, out_batch);
}

static void report_unread(struct cleaner *cleaner, enum err err)
{
    struct store_error error;
    char name[DISK_NAME_MAX];
    segment_name(cleaner->segment->number, name);
    store_error_set(&error, name, cleaner->reader.offset, "batch %" PRIu64 ": %s",
                    cleaner->reader.batch_next,
                    err ? err_text(err) : "the checksum does not match");
    cleaner->store->callbacks->notice(cleaner->store->callbacks, STORE_UNREAD, &error);
}

/* Plans a retry of the batch at `offset`, which could not be read, or (OK) is not the expected one.
   After the last try: the segment is damaged, and the search for the next good batch begins. */
static void put_off(struct cleaner *cleaner, enum err err)
{
    struct clean_reader *reader = &cleaner->reader;
    int64_t now_us = cleaner->store->now_us;
    unsigned tries_max = !err                               ? CHECK_TRIES
                         : segments_full(cleaner->segments) ? READ_TRIES_FULL
                                                            : READ_TRIES;
    scan_discard(&reader->scan);
    reader->batch = NULL;
    if (err == ERR_AGAIN) { /* no descriptor is free: no error of the segment */
        reader->retry_at_us = now_us + TRY_AGAIN_US;
        return;
    }
    if (reader->tries == 0)
        report_unread(cleaner, err);
    if (++reader->tries < tries_max) {
        reader->retry_at_us = now_us + ((int64_t)TRY_AGAIN_US << (reader->tries - 1));
        return;
    }
    close_fresh(cleaner);
    reader->tries = 0;
    reader->seeking = true;
    segments_damaged(cleaner->segments, cleaner->segment, reader->offset,
                     err ? "a batch cannot be read" : "a batch does not match its checksum");
    reader->offset += BLOCK;
}

bool cleaner_read_batch(struct cleaner *cleaner)
{
    struct clean_reader *reader = &cleaner->reader;
    enum format_verdict verdict;
    struct batch_head head;
    CHECK(!reader->batch && !reader->seeking);
    enum err err = look(reader, &verdict, &head, &reader->batch);
    if (reader->reading)
        return false;
    if (err || verdict != FORMAT_GOOD || head.number != reader->batch_next) {
        put_off(cleaner, err);
        return false;
    }
    close_fresh(cleaner);
    reader->tries = 0;
    batch_walk_init(&reader->walk, reader->batch, head.payload_bytes);
    return true;
}

bool cleaner_seek_batch(struct cleaner *cleaner, uint64_t batch_end)
{
    struct clean_reader *reader = &cleaner->reader;
    enum format_verdict verdict;
    struct batch_head head;
    const char *batch;
    CHECK(reader->seeking && !reader->batch);
    if (reader->offset >= cleaner->segment->end) {
        reader->batch_next = batch_end;
        return true;
    }
    enum err err = look(reader, &verdict, &head, &batch);
    if (reader->reading)
        return false;
    if (err == ERR_AGAIN) {
        put_off(cleaner, err);
        return false;
    }
    bool good = !err && verdict == FORMAT_GOOD && head.number > reader->batch_next &&
                head.number < batch_end;
    reader->seeking = !good;
    if (good)
        reader->batch_next = head.number;
    else
        reader->offset += BLOCK;
    return true;
}
