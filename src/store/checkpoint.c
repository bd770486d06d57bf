/*
 * Cleans the log first in, first out: the oldest segment's live jobs are appended again at its end,
 * and when they are durable there and the manifest no longer names the segment, its file goes (S4).
 * docs/decisions/0004 says why in this order and not by emptiness.
 *
 * A read that fails, or a batch that does not match its checksum, is tried again, later and later,
 * past the page cache. If that does not help the walk goes round the batch. Jobs whose records were
 * in it are known to the core all the same; they are carried without their bodies, marked so that
 * they are never delivered, and the segment's file is not removed but set aside.
 *
 * Invariant: a segment is removed only when no live job is left in it and all bodies were carried.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/check.h"
#include "base/mem.h"
#include "store/internal.h"

enum {
    SLICE_BYTES = 256 * 1024,      /* read in one turn */
    SLICE_RECORDS = 256,           /* looked at in one turn: up to 1 µs each */
    READ_TRIES = 10,               /* of a read that fails: 51 s … */
    READ_TRIES_FULL = 4,           /* … or 0.7 s while the disk is full */
    CHECK_TRIES = 4,               /* of a batch that does not match its checksum */
    TRY_AGAIN_US = 100 * 1000,     /* after the first failure; doubled after each */
    AHEAD_BYTES = 4 * 1024 * 1024, /* sealed and not written yet: the disk is busy enough */
    SEGMENTS_LEAST = 4,            /* below so many nothing is cleaned, unless wholly dead */
    SLACK_SEGMENTS = 2,
};

/* Bytes of the segments that can be cleaned: all but the last. Asked each turn: no walk. */
static uint64_t log_bytes(const struct store *store)
{
    return store->disk_bytes - segment_unused(store);
}

/*
 * What cleaning all of the log would free, as far as can be told: it is packed as tight as it gets
 * when every segment ends with half a record's worth of waste.
 */
static uint64_t gain_bytes(const struct store *store)
{
    uint64_t segment_bytes = store->options.segment_bytes;
    uint64_t record = store->live_jobs ? store->live_bytes / store->live_jobs : 0;
    uint64_t waste = BLOCK + (record < segment_bytes / 2 ? record / 2 : segment_bytes / 4);
    uint64_t live = store->live_bytes + store->live_bytes / 32; /* headers, padding */
    uint64_t packed = (live / (segment_bytes - waste) + 1) * segment_bytes;
    uint64_t used = log_bytes(store);
    return used > packed ? used - packed : 0;
}

/* Bytes of the log that hold no live job's record: what has died, waste and padding. */
static uint64_t dead_bytes(const struct store *store)
{
    uint64_t used = log_bytes(store) + segment_tail(store)->end;
    return used > store->live_bytes ? used - store->live_bytes : 0;
}

/* What carrying a segment's live jobs takes: a batch for each turn or full batch, all padded. */
static uint64_t relocate_bytes(const struct segment *segment)
{
    uint64_t live_bytes = segment->live_bytes;
    uint64_t batches = segment->size_bytes / SLICE_BYTES + 2 * (live_bytes / BATCH_FULL);
    return batch_bytes(live_bytes) + batches * BLOCK;
}

/*
 * On a full disk: is there something to gain, and room to gain it? Going round the whole log may be
 * needed to get at it, because the dead may lie in the middle. If a round is over, the next one
 * waits until more has died.
 *
 * Ends eat the room that cleaning needs. So when there is hardly more of it than the oldest segment
 * takes, that one is cleaned for the little that it gives: while a segment's live jobs fit into
 * what is left, the room of all that dies will come back.
 */
static bool worth_it_full(struct store *store, const struct segment *oldest)
{
    struct checkpoint *checkpoint = &store->checkpoint;
    uint64_t segment_bytes = store->options.segment_bytes;
    uint64_t need = relocate_bytes(oldest);
    uint64_t slack = segment_bytes / 4 + 4 * BLOCK; /* for ends while the cleaner is at work */
    bool low = !segment_fits(store, need + slack, oldest->record_max);
    bool fits = !low || segment_fits(store, need, oldest->record_max);
    uint64_t step = low ? segment_bytes / 8 : segment_bytes / 2;
    uint64_t dead = dead_bytes(store);
    store->wanted_bytes = fits ? 0 : need + 2 * BLOCK;
    if (!fits || (!low && gain_bytes(store) < step))
        return false;
    if (oldest->batch_first >= checkpoint->round_end) {
        if (!checkpoint->round_over && checkpoint->round_end) {
            checkpoint->round_over = true;
            checkpoint->round_dead = dead;
        }
        if (checkpoint->round_over && dead < checkpoint->round_dead + step)
            return false;
        checkpoint->round_over = false;
        checkpoint->round_end = store->batch_next;
    }
    return true;
}

/*
 * Is cleaning the oldest segment worth it? As long as the log is larger than twice what lives, a
 * pass over all of it writes at most as much as it frees.
 */
static bool worth_it(struct store *store, const struct segment *oldest)
{
    uint64_t segment_bytes = store->options.segment_bytes;
    if (oldest->live_jobs == 0)
        return true;
    if (store->full)
        return worth_it_full(store, oldest);
    uint64_t used = log_bytes(store) + segment_bytes;
    return used > SEGMENTS_LEAST * segment_bytes &&
           used > 2 * store->live_bytes + SLACK_SEGMENTS * segment_bytes;
}

static void start(struct store *store)
{
    struct checkpoint *checkpoint = &store->checkpoint;
    struct segment *oldest = segment_first(store);
    struct segment *next = oldest ? segment_after(store, oldest) : NULL;
    if (!next || next->state != SEGMENT_HEADED || !worth_it(store, oldest))
        return;
    checkpoint->segment = oldest;
    checkpoint->offset = BLOCK;
    checkpoint->batch_next = oldest->batch_first;
    checkpoint->batch = NULL;
    checkpoint->seeking = false;
    checkpoint->tries = 0;
    checkpoint->retry_at_us = INT64_MIN;
    checkpoint->lost_jobs = 0;
    checkpoint->cursor = 0;
    checkpoint->step = CHECKPOINT_WALK;
    scan_init(&checkpoint->scan, store->disk, NULL, oldest->size_bytes, SLICE_BYTES);
    checkpoint->scan.number = oldest->number;
    checkpoint->scan.tag = store->tag;
}

/* ---- what cannot be read ---- */

static void close_fresh(struct store *store)
{
    struct checkpoint *checkpoint = &store->checkpoint;
    if (checkpoint->fresh)
        store->disk->verbs->close(store->disk, checkpoint->fresh);
    checkpoint->fresh = NULL;
}

/* The segment's file; after a failure another one that shows what the disk really has. */
static enum err open_source(struct store *store)
{
    struct checkpoint *checkpoint = &store->checkpoint;
    checkpoint->scan.narrow = checkpoint->tries > 0 || checkpoint->seeking;
    if (checkpoint->tries == 0)
        return segment_file(store, checkpoint->segment, &checkpoint->scan.file);
    if (!checkpoint->fresh) {
        char name[DISK_NAME_MAX];
        segment_name(checkpoint->segment->number, name);
        enum err err = store->disk->verbs->open(store->disk, name, true, &checkpoint->fresh);
        if (err)
            return err;
    }
    checkpoint->scan.file = checkpoint->fresh;
    return OK;
}

static void tell_unread(struct store *store, enum err err)
{
    struct store_error error;
    char name[DISK_NAME_MAX];
    segment_name(store->checkpoint.segment->number, name);
    store_error_set(&error, name, store->checkpoint.offset, "batch %" PRIu64 ": %s",
                    store->checkpoint.batch_next,
                    err ? err_text(err) : "the checksum does not match");
    store->callbacks->notice(store->callbacks, STORE_UNREAD, &error);
}

/* The batch at `offset` could not be read, or (OK) is not what it must be. */
static void put_off(struct store *store, enum err err)
{
    struct checkpoint *checkpoint = &store->checkpoint;
    unsigned tries_max = !err ? CHECK_TRIES : store->full ? READ_TRIES_FULL : READ_TRIES;
    checkpoint->scan.len = 0; /* what was read is not to be believed a second time */
    checkpoint->batch = NULL;
    if (err == ERR_AGAIN) { /* no descriptor: that says nothing about the segment */
        checkpoint->retry_at_us = store->now_us + TRY_AGAIN_US;
        return;
    }
    if (checkpoint->tries == 0)
        tell_unread(store, err);
    if (++checkpoint->tries < tries_max) {
        checkpoint->retry_at_us =
            store->now_us + ((int64_t)TRY_AGAIN_US << (checkpoint->tries - 1));
        return;
    }
    close_fresh(store);
    checkpoint->tries = 0;
    checkpoint->seeking = true;
    segment_damaged(store, checkpoint->segment, checkpoint->offset,
                    err ? "a batch cannot be read" : "a batch does not match its checksum");
    checkpoint->offset += BLOCK;
}

/* Is there a good batch at `offset`? One block on each call. */
static bool seek_batch(struct store *store, uint64_t batch_end)
{
    struct checkpoint *checkpoint = &store->checkpoint;
    enum format_verdict verdict = FORMAT_BAD;
    struct batch_head head;
    const char *batch;
    if (checkpoint->offset >= checkpoint->segment->end) {
        checkpoint->batch_next = batch_end;
        return true;
    }
    enum err err = open_source(store);
    if (err == ERR_AGAIN) {
        put_off(store, err);
        return false;
    }
    if (!err)
        err = scan_batch(&checkpoint->scan, checkpoint->offset, &verdict, &head, &batch);
    bool good = !err && verdict == FORMAT_GOOD && head.number > checkpoint->batch_next &&
                head.number < batch_end;
    checkpoint->seeking = !good;
    if (good)
        checkpoint->batch_next = head.number;
    else
        checkpoint->offset += BLOCK;
    return true;
}

/* ---- carrying ---- */

/* Brings the next batch into the window. False: it is put off. */
static bool read_batch(struct store *store)
{
    struct checkpoint *checkpoint = &store->checkpoint;
    enum format_verdict verdict = FORMAT_BAD;
    struct batch_head head;
    enum err err = open_source(store);
    if (!err)
        err =
            scan_batch(&checkpoint->scan, checkpoint->offset, &verdict, &head, &checkpoint->batch);
    if (err || verdict != FORMAT_GOOD || head.number != checkpoint->batch_next) {
        put_off(store, err);
        return false;
    }
    close_fresh(store);
    checkpoint->tries = 0;
    checkpoint->at = BATCH_HEAD;
    checkpoint->end = BATCH_HEAD + head.payload_bytes;
    return true;
}

static void relocate_job(struct store *store, const struct record *record)
{
    struct checkpoint *checkpoint = &store->checkpoint;
    uint64_t where = where_of(checkpoint->segment->number, checkpoint->offset + checkpoint->at);
    uint64_t records = store->stats.records;
    checkpoint->body_lost = !record_body_good(record); /* it stays so, wherever it goes */
    store->callbacks->relocate(store->callbacks, record->event.job.seq, where,
                               record->event.content_type, record->event.body);
    checkpoint->body_lost = false;
    store->stats.relocated_jobs += store->stats.records - records;
}

/* Offers the next jobs of the batch to the ear. */
static void relocate_some(struct store *store, unsigned *budget)
{
    struct checkpoint *checkpoint = &store->checkpoint;
    struct record record;
    for (; checkpoint->at<checkpoint->end && * budget> 0; --*budget) {
        if (record_decode(checkpoint->batch + checkpoint->at, checkpoint->end - checkpoint->at,
                          &record)) { /* whole, and not a batch of ours: a bug, or sabotage */
            segment_damaged(store, checkpoint->segment, checkpoint->offset + checkpoint->at,
                            "a record is whole but cannot be");
            checkpoint->at = checkpoint->end;
            break;
        }
        if (record.event.kind == EVENT_JOB)
            relocate_job(store, &record);
        checkpoint->at += record.len;
    }
    if (checkpoint->at < checkpoint->end)
        return;
    checkpoint->offset += batch_bytes(checkpoint->end - BATCH_HEAD);
    checkpoint->batch_next++;
    checkpoint->batch = NULL;
}

static void relocate_unread(struct store *store)
{
    struct checkpoint *checkpoint = &store->checkpoint;
    uint64_t first = (uint64_t)checkpoint->segment->number << 32;
    uint64_t records = store->stats.records;
    checkpoint->body_lost = true;
    bool more = store->callbacks->relocate_unread(store->callbacks, first,
                                                  first + (UINT64_C(1) << 32), &checkpoint->cursor);
    checkpoint->body_lost = false;
    checkpoint->lost_jobs += store->stats.records - records;
    if (more)
        return;
    checkpoint->cursor = 0;
    checkpoint->step = CHECKPOINT_REST;
}

static void relocate_rest(struct store *store)
{
    struct checkpoint *checkpoint = &store->checkpoint;
    if (store->callbacks->relocate_rest(store->callbacks, &checkpoint->cursor))
        return;
    /* Even if nothing was carried: that the dead have died must be durable before they go. */
    checkpoint->batch_last = store_batch(store);
    if (store->open)
        store->open->wanted = true;
    checkpoint->step = CHECKPOINT_DURABLE;
}

/*
 * A slice of the walk: each step of the loop is one batch read, one block looked at, or some of a
 * batch's records carried. A batch of one huge record is read in one piece all the same.
 */
static void walk(struct store *store)
{
    struct checkpoint *checkpoint = &store->checkpoint;
    struct segment *oldest = checkpoint->segment;
    uint64_t batch_end = segment_after(store, oldest)->batch_first;
    uint64_t limit = checkpoint->offset + SLICE_BYTES;
    unsigned budget = SLICE_RECORDS;
    while (oldest->live_jobs > 0 && checkpoint->batch_next < batch_end) {
        if (checkpoint->offset >= limit || budget == 0)
            return; /* go on in the next turn */
        if (checkpoint->batch)
            relocate_some(store, &budget);
        else if (checkpoint->seeking ? !seek_batch(store, batch_end) : !read_batch(store))
            return;
    }
    close_fresh(store);
    scan_fini(&checkpoint->scan);
    checkpoint->batch = NULL;
    checkpoint->step = oldest->live_jobs > 0 ? CHECKPOINT_UNREAD : CHECKPOINT_REST;
    if (checkpoint->step == CHECKPOINT_REST)
        relocate_rest(store); /* it is little, mostly: one batch takes both */
}

/* ---- the end of the segment ---- */

static bool keeps_file(const struct checkpoint *checkpoint)
{
    return checkpoint->lost_jobs > 0 || checkpoint->segment->live_jobs > 0;
}

static void tell_set_aside(struct store *store)
{
    struct store_error error;
    store_error_set(&error, store->checkpoint.aside_name, 0,
                    "%" PRIu64
                    " jobs lost their bodies and will be buried, not delivered; the rest of "
                    "the segment was carried",
                    store->checkpoint.lost_jobs);
    store->callbacks->notice(store->callbacks, STORE_SET_ASIDE, &error);
}

static void removed(struct disk_op *op)
{
    struct store *store = op->owner;
    store->checkpoint.step = CHECKPOINT_IDLE;
    if (op->err) {
        wal_fail(store, op->sys_errno);
        return;
    }
    if (op->verb == DISK_RENAME) {
        store->damaged_segments++;
        tell_set_aside(store);
    }
    segment_drop(store, store->checkpoint.segment);
    store->log_count--;
    store->stats.checkpoints++;
    store->retry_at_us = store->now_us; /* there may be room now */
}

static void forget(struct store *store)
{
    struct checkpoint *checkpoint = &store->checkpoint;
    store->manifest.batch_first = segment_after(store, checkpoint->segment)->batch_first;
    manifest_write(store);
    checkpoint->step = CHECKPOINT_MANIFEST;
}

static void remove_segment(struct store *store)
{
    struct checkpoint *checkpoint = &store->checkpoint;
    checkpoint->remove = (struct disk_op){
        .verb = DISK_REMOVE, .lane = LANE_BACKGROUND, .done = removed, .owner = store};
    segment_name(checkpoint->segment->number, checkpoint->remove.name);
    if (keeps_file(checkpoint)) {
        aside_name(checkpoint->segment->number, checkpoint->aside_name);
        checkpoint->remove.verb = DISK_RENAME;
        checkpoint->remove.data = checkpoint->aside_name;
    }
    checkpoint->step = CHECKPOINT_REMOVE;
    store->disk->verbs->submit(store->disk, &checkpoint->remove);
}

/* ---- the turn ---- */

void checkpoint_turn(struct store *store)
{
    struct checkpoint *checkpoint = &store->checkpoint;
    if (store->failed || store->closing)
        return;
    switch (checkpoint->step) {
    case CHECKPOINT_IDLE: start(store); break;
    case CHECKPOINT_WALK:
    case CHECKPOINT_UNREAD:
    case CHECKPOINT_REST:
        if (checkpoint_next_us(store) > store->now_us)
            break;
        if (checkpoint->step == CHECKPOINT_WALK)
            walk(store);
        else if (checkpoint->step == CHECKPOINT_UNREAD)
            relocate_unread(store);
        else
            relocate_rest(store);
        break;
    case CHECKPOINT_DURABLE:
        if (store->synced >= checkpoint->batch_last)
            forget(store);
        else
            store_want_sync(store); /* buffered mode: nobody else may ask for it */
        break;
    case CHECKPOINT_MANIFEST:
        if (store->manifest_durable_first == store->manifest.batch_first)
            remove_segment(store);
        break;
    case CHECKPOINT_REMOVE: break;
    }
}

int64_t checkpoint_next_us(const struct store *store)
{
    const struct checkpoint *checkpoint = &store->checkpoint;
    bool works = checkpoint->step == CHECKPOINT_WALK || checkpoint->step == CHECKPOINT_UNREAD ||
                 checkpoint->step == CHECKPOINT_REST;
    if (!works || store->failed || store->sealed_bytes > AHEAD_BYTES)
        return INT64_MAX; /* the disk is busy enough: its next end makes a turn */
    return checkpoint->retry_at_us > store->now_us ? checkpoint->retry_at_us : store->now_us;
}

void checkpoint_fini(struct store *store)
{
    close_fresh(store);
    scan_fini(&store->checkpoint.scan);
}
