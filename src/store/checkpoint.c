/*
 * Cleans the log first in, first out: the oldest segment's live jobs are appended again at its end,
 * and when they are durable there and the manifest no longer names the segment, its file goes (S4).
 * docs/decisions/0004 says why in this order and not by emptiness.
 *
 * Invariant: a segment is removed only when no live job is left in it. A job that could not be
 * carried (its record has rotted) keeps its segment, and all later ones, where they are.
 */
#include "base/check.h"
#include "base/mem.h"
#include "store/internal.h"

enum {
    SLICE_BYTES = 256 * 1024,      /* read in one turn */
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
static uint64_t carry_bytes(const struct segment *segment)
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
    uint64_t need = carry_bytes(oldest);
    uint64_t slack = segment_bytes / 4 + 4 * BLOCK; /* for ends while the cleaner is at work */
    bool low = !segment_fits(store, need + slack, oldest->record_max);
    bool fits = !low || segment_fits(store, need, oldest->record_max);
    uint64_t step = low ? segment_bytes / 8 : segment_bytes / 2;
    uint64_t dead = dead_bytes(store);
    store->wish_bytes = fits ? 0 : need + 2 * BLOCK;
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
    if (checkpoint->broken || !next || next->state != SEGMENT_HEADED || !worth_it(store, oldest))
        return;
    checkpoint->segment = oldest;
    checkpoint->offset = BLOCK;
    checkpoint->batch_next = oldest->batch_first;
    checkpoint->step = CHECKPOINT_WALK;
    scan_init(&checkpoint->scan, store->disk, NULL, oldest->size_bytes, SLICE_BYTES);
    checkpoint->scan.number = oldest->number;
    checkpoint->scan.tag = store->tag;
}

static void give_up(struct store *store)
{
    store->checkpoint.broken = true;
    store->checkpoint.step = CHECKPOINT_IDLE;
    store->stats.damaged_segments++;
    scan_fini(&store->checkpoint.scan);
}

/* Offers every job of a batch to the ear. False: the batch cannot be read to its end. */
static bool carry_batch(struct store *store, const struct batch_head *head, const char *batch)
{
    struct checkpoint *checkpoint = &store->checkpoint;
    size_t at = BATCH_HEAD;
    size_t end = BATCH_HEAD + head->payload_bytes;
    struct record record;
    while (at < end) {
        if (record_decode(batch + at, end - at, &record))
            return false;
        if (record.event.kind == EVENT_JOB && record_body_good(&record)) {
            uint64_t where = where_of(checkpoint->segment->number, checkpoint->offset + at);
            uint64_t records = store->stats.records;
            store->ear->carry(store->ear, record.event.job.seq, where, record.event.content_type,
                              record.event.body);
            store->stats.carried_jobs += store->stats.records - records;
        }
        at += record.len;
    }
    return true;
}

/* Carries the next batch. False: the segment is damaged. */
static bool walk_batch(struct store *store)
{
    struct checkpoint *checkpoint = &store->checkpoint;
    enum format_verdict verdict;
    struct batch_head head;
    const char *batch;
    enum err err = segment_file(store, checkpoint->segment, &checkpoint->scan.file);
    if (!err)
        err = scan_batch(&checkpoint->scan, checkpoint->offset, &verdict, &head, &batch);
    if (err || verdict != FORMAT_GOOD || head.number != checkpoint->batch_next ||
        !carry_batch(store, &head, batch))
        return false;
    checkpoint->offset += batch_bytes(head.payload_bytes);
    checkpoint->batch_next++;
    return true;
}

static void walk(struct store *store)
{
    struct checkpoint *checkpoint = &store->checkpoint;
    struct segment *oldest = checkpoint->segment;
    uint64_t batch_end = segment_after(store, oldest)->batch_first;
    uint64_t limit = checkpoint->offset + SLICE_BYTES;
    if (store->sealed_bytes > AHEAD_BYTES)
        return;
    while (oldest->live_jobs > 0 && checkpoint->batch_next < batch_end &&
           checkpoint->offset < limit) {
        if (!walk_batch(store)) {
            give_up(store);
            return;
        }
    }
    if (oldest->live_jobs > 0 && checkpoint->batch_next < batch_end)
        return; /* go on in the next turn */
    if (oldest->live_jobs > 0) {
        give_up(store); /* somebody lives here whose record did not hold */
        return;
    }
    scan_fini(&checkpoint->scan);
    store->ear->carry_rest(store->ear);
    /* Even if nothing was carried: that the dead have died must be durable before they go. */
    checkpoint->batch_last = store_batch(store);
    if (store->open)
        store->open->wanted = true;
    checkpoint->step = CHECKPOINT_DURABLE;
}

static void removed(struct disk_op *op)
{
    struct store *store = op->owner;
    store->checkpoint.step = CHECKPOINT_IDLE;
    if (op->err) {
        wal_fail(store, op->sys_errno);
        return;
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
    checkpoint->step = CHECKPOINT_REMOVE;
    store->disk->verbs->submit(store->disk, &checkpoint->remove);
}

void checkpoint_turn(struct store *store)
{
    struct checkpoint *checkpoint = &store->checkpoint;
    if (store->failed || store->closing)
        return;
    switch (checkpoint->step) {
    case CHECKPOINT_IDLE: start(store); break;
    case CHECKPOINT_WALK: walk(store); break;
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

bool checkpoint_busy(const struct store *store)
{
    return store->checkpoint.step == CHECKPOINT_WALK && store->sealed_bytes <= AHEAD_BYTES &&
           !store->failed;
}
