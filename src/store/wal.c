/*
 * Owns the way of an event to the disk: the open batch, the sealed ones, the slabs they lie in,
 * and the one operation of the commit lane (S2).
 *
 * Records are encoded straight into the memory that is written; nothing is copied, except when the
 * open batch outgrows its slab. While one batch is under way the next gathers.
 *
 * Buffered mode differs in this only: a batch counts as written without a sync; `synced` follows
 * by DISK_SYNC now and then. A segment is synced whole before the next one's header is written, so
 * all unproven batches are always in the last segment; recovery relies on it.
 */
#include <errno.h>

#include "base/check.h"
#include "base/mem.h"
#include "store/internal.h"

static struct batch *first_sealed(const struct store *store)
{
    return list_empty(&store->sealed) ? NULL : LIST_ENTRY(store->sealed.next, struct batch, link);
}

/* ---- slabs ---- */

static struct write_buffer *last_slab(const struct store *store)
{
    return list_empty(&store->write_buffers)
               ? NULL
               : LIST_ENTRY(store->write_buffers.prev, struct write_buffer, link);
}

static void write_buffer_free(struct store *store, struct write_buffer *write_buffer)
{
    list_remove(&write_buffer->link);
    store->write_buffer_bytes -= write_buffer->cap;
    if (write_buffer->cap == store->write_buffer_usual && !store->write_buffer_idle) {
        store->write_buffer_idle = write_buffer; /* spares the kernel from zeroing its pages anew */
        return;
    }
    mem_free(write_buffer->at);
    mem_free(write_buffer);
}

/* Forgets the oldest images above options.recent_bytes whose batches are on disk. */
static void forget_old(struct store *store)
{
    while (store->write_buffer_bytes > store->options.recent_bytes) {
        struct write_buffer *oldest =
            LIST_ENTRY(store->write_buffers.next, struct write_buffer, link);
        if (oldest == last_slab(store) || oldest->batch_last > store->written)
            return;
        write_buffer_free(store, oldest);
    }
}

static struct write_buffer *write_buffer_new(struct store *store, size_t least)
{
    size_t usual = store->write_buffer_usual;
    size_t cap = usual;
    while (cap < least)
        cap *= 2;
    struct write_buffer *write_buffer = store->write_buffer_idle;
    if (write_buffer && cap == usual) {
        store->write_buffer_idle = NULL;
    } else {
        write_buffer = mem_alloc(sizeof(*write_buffer));
        write_buffer->at = mem_aligned(BLOCK, cap);
    }
    write_buffer->cap = cap;
    write_buffer->used = 0;
    write_buffer->batch_last = 0;
    store->write_buffer_bytes += cap;
    CHECK(store->write_buffers.prev); /* for clang's analyzer */
    list_add_tail(&store->write_buffers, &write_buffer->link);
    return write_buffer;
}

/* Gives the open batch memory for so many bytes of records, moving it if need be. */
static void make_room(struct store *store, size_t payload_bytes)
{
    struct batch *batch = store->open;
    struct write_buffer *write_buffer = last_slab(store);
    size_t need = batch_bytes(payload_bytes);
    bool follows = write_buffer && write_buffer->number == batch->segment->number &&
                   write_buffer->start + write_buffer->used == batch->offset;
    if (!follows || write_buffer->cap - write_buffer->used < need) {
        struct write_buffer *old = write_buffer;
        write_buffer = write_buffer_new(store, batch->at ? need * 2 : need);
        write_buffer->number = batch->segment->number;
        write_buffer->start = batch->offset;
        if (batch->at)
            memcpy(write_buffer->at, batch->at, BATCH_HEAD + batch->payload_bytes);
        if (old && old->used == 0)
            write_buffer_free(store, old); /* it held nothing but this batch */
        forget_old(store);
    }
    batch->at = write_buffer->at + write_buffer->used;
}

const char *wal_recent(const struct store *store, uint64_t where, size_t *out_len)
{
    uint32_t number = where_segment(where);
    uint64_t offset = where_offset(where);
    for (struct list *link = store->write_buffers.prev; link != &store->write_buffers;
         link = link->prev) {
        const struct write_buffer *write_buffer = LIST_ENTRY(link, struct write_buffer, link);
        if (write_buffer->number != number || offset < write_buffer->start)
            continue;
        size_t len = write_buffer->used;
        const struct batch *open = store->open;
        if (open && open->at == write_buffer->at + write_buffer->used)
            len += BATCH_HEAD + open->payload_bytes;
        if (offset - write_buffer->start >= len)
            return NULL;
        *out_len = len - (size_t)(offset - write_buffer->start);
        return write_buffer->at + (offset - write_buffer->start);
    }
    return NULL;
}

/* ---- gathering ---- */

static void open_batch(struct store *store, size_t payload_bytes)
{
    struct segment *tail = segment_tail(store);
    uint64_t need = batch_bytes(payload_bytes);
    if (!tail || tail->size_bytes - tail->end < need)
        tail = segment_next(store, need, store->batch_next);
    struct batch *batch = mem_zalloc(sizeof(*batch));
    batch->number = store->batch_next++;
    batch->segment = tail;
    batch->offset = tail->end;
    batch->opened_us = store->now_us;
    store->open = batch;
    make_room(store, payload_bytes);
}

void wal_seal(struct store *store)
{
    struct batch *batch = store->open;
    uint64_t bytes = batch_bytes(batch->payload_bytes);
    struct write_buffer *write_buffer = last_slab(store);
    store->open = NULL;
    write_buffer->used += bytes;
    write_buffer->batch_last = batch->number;
    batch->segment->end += bytes;
    store->sealed_bytes += bytes;
    list_add_tail(&store->sealed, &batch->link);
}

/*
 * Where a live job's record goes: to the end of the log. This is the seam for time-slice files:
 * a job that is due beyond the horizon will, when the checkpoint carries it, be given a place in
 * the slice of its due time instead, and only a short record of that place comes here.
 */
static uint64_t place_record(struct store *store, size_t len)
{
    struct batch *batch = store->open;
    if (batch) {
        size_t payload = batch->payload_bytes + len;
        uint64_t room = batch->segment->size_bytes - batch->offset;
        bool full = batch->record_count > 0 && batch_bytes(payload) > BATCH_FULL;
        if (full || batch_bytes(payload) > room) {
            wal_seal(store);
            batch = NULL;
        } else {
            make_room(store, payload);
        }
    }
    if (!batch) {
        open_batch(store, len);
        batch = store->open;
    }
    return batch->offset + BATCH_HEAD + batch->payload_bytes;
}

struct stored store_append(struct store *store, const struct event *event)
{
    struct stored stored = {0};
    if (event->kind == EVENT_JOB && event->job.seq >= store->seq_next)
        store->seq_next = event->job.seq + 1;
    if (store->failed)
        return event->record; /* nothing is kept any more; the old place stays readable */
    size_t len = record_bytes(event);
    uint64_t offset = place_record(store, len);
    struct batch *batch = store->open;
    record_encode(event, len, batch->at + (offset - batch->offset));
    if (event->kind == EVENT_JOB && store->checkpoint.body_lost)
        record_spoil(batch->at + (offset - batch->offset));
    batch->payload_bytes += (uint32_t)len;
    batch->record_count++;
    if (event->promised) {
        batch->wanted = true;
        store->promised = batch->number;
    }
    store->stats.records++;
    if (event->kind == EVENT_JOB) {
        stored.where = where_of(batch->segment->number, offset);
        stored.bytes = (uint32_t)len;
        segment_live(store, batch->segment, stored);
    }
    if ((event->kind == EVENT_JOB || event->kind == EVENT_GONE) && event->record.where) {
        bool lived = segment_dies(store, event->record);
        CHECK(lived); /* the core has told of a record that never was, or died before */
    }
    return stored;
}

uint64_t store_batch(const struct store *store)
{
    return store->batch_next - 1;
}

uint64_t store_promised(const struct store *store)
{
    return store->promised;
}

uint64_t store_durable(const struct store *store)
{
    return store->written;
}

uint64_t store_synced(const struct store *store)
{
    return store->synced;
}

void store_want_sync(struct store *store)
{
    /* The target of a wish that is not met yet stays: under load there is always a newer batch. */
    store->sync_wanted_last = store_batch(store);
    if (store->sync_wanted <= store->synced)
        store->sync_wanted = store->sync_wanted_last;
    if (store->open)
        store->open->wanted = true;
}

void store_latency_first(struct store *store, bool latency_first)
{
    store->latency_first = latency_first;
}

/* ---- the commit lane ---- */

/*
 * While the disk is quick the commit is made here and now: clients whose requests come meanwhile
 * wait in their sockets and share the next commit, and two thread switches and two wake-ups are
 * saved (docs/decisions/0009-commit-in-the-turn-while-the-disk-is-quick.md). After a slow one
 * the disk's thread does it, so that a disk that stalls holds up only those who need it. So does it
 * where jobs are handed out so fast that they would have to wait for one another's commits, and
 * with all that is more than a turn may take: a backlog would else be written in one turn.
 */
static bool commit_here(struct store *store, const struct batch *batch)
{
    uint64_t bytes = batch_bytes(batch->payload_bytes);
    bool busy = store->latency_first && batch->record_count > HURRIED_RECORDS;
    if (busy || bytes > store->inline_left || store->last_took_us >= store->options.inline_us)
        return false;
    store->inline_left -= bytes;
    return true;
}

/* On the thread that writes it: of a job of 64 MiB the checksum alone takes milliseconds. */
static void sign_batch(struct disk_op *op)
{
    batch_sign((void *)(uintptr_t)op->data, op->len);
}

static void submit(struct store *store, enum commit_step step, bool here)
{
    store->step = step;
    store->commit.lane = LANE_COMMIT;
    store->commit.owner = store;
    if (here)
        store->disk->verbs->run(store->disk, &store->commit);
    else
        store->disk->verbs->submit(store->disk, &store->commit);
}

static void count_sync(struct store *store)
{
    int64_t took_us = store->commit.took_us;
    unsigned bucket = 0;
    while (bucket < SYNC_BUCKETS - 1 && took_us >= (int64_t)16 << bucket)
        bucket++;
    store->stats.syncs++;
    store->stats.sync_us_sum += (uint64_t)took_us;
    store->stats.sync_us[bucket]++;
}

/*
 * The manifest proves that the log's last segment was in use: were its file lost, header and all,
 * nothing else would tell of its batches.
 */
static void tell_of_last_segment(struct store *store)
{
    uint64_t first = store->written_segment->batch_first;
    if (store->synced >= first && store->manifest.durable < first)
        manifest_write(store);
}

static void batch_done(struct store *store)
{
    struct batch *batch = first_sealed(store);
    list_remove(&batch->link);
    uint64_t bytes = batch_bytes(batch->payload_bytes);
    store->sealed_bytes -= bytes;
    store->stats.batches++;
    store->stats.bytes_written += bytes;
    store->written = batch->number;
    store->written_segment = batch->segment;
    if (!store->options.buffered) {
        store->synced = batch->number;
        store->proven = batch->durable;
        store->seq_mark = batch->seq_mark;
        count_sync(store);
    }
    store->written_mark = batch->seq_mark;
    if (batch->record_count)
        store->last_full = batch->number;
    store->last_commit_us = store->now_us;
    mem_free(batch);
    forget_old(store);
    tell_of_last_segment(store);
    wal_start_next(store); /* first, so that the disk is busy while the ear is told */
    store->callbacks->durable(store->callbacks, store->written);
}

static void sync_done(struct store *store)
{
    store->synced = store->sync_number;
    if (store->sync_wanted <= store->synced)
        store->sync_wanted = store->sync_wanted_last;
    store->seq_mark = store->sync_mark;
    store->last_sync_us = store->now_us;
    count_sync(store);
    tell_of_last_segment(store);
    wal_start_next(store);
    store->callbacks->synced(store->callbacks, store->synced);
}

/*
 * The segment before it gets no batch any more, and all of its batches are durable. Its file was
 * open for writing: what is read of it from now on opens it again, for reading alone.
 */
static void headed(struct store *store, struct segment *segment)
{
    segment->state = SEGMENT_HEADED;
    if (segment->link.prev != &store->log)
        segment_close(store, LIST_ENTRY(segment->link.prev, struct segment, link));
}

static void committed(struct disk_op *op)
{
    struct store *store = op->owner;
    enum commit_step step = store->step;
    store->step = COMMIT_IDLE;
    if (step == COMMIT_BATCH)
        store->last_took_us = op->took_us;
    if (op->err)
        wal_fail(store, op->sys_errno);
    if (store->failed)
        return; /* S5, even if this one has reached the disk: the other lane may have failed */
    switch (step) {
    case COMMIT_HEADER:
        headed(store, first_sealed(store)->segment);
        wal_start_next(store);
        return;
    case COMMIT_BATCH: batch_done(store); return;
    case COMMIT_SYNC: sync_done(store); return;
    case COMMIT_IDLE: break;
    }
    CHECK(false); /* an operation ended that was not under way */
}

/* The file that a commit is to write. False: there is none now; it is tried again, or S5. */
static bool commit_file(struct store *store, struct segment *segment, struct disk_file **out_file)
{
    enum err err = segment_file(store, segment, out_file);
    if (err == ERR_AGAIN)
        store->reopen_at_us = store->now_us + REOPEN_US;
    else if (err)
        wal_fail(store, EIO);
    return err == OK;
}

static void start_sync(struct store *store)
{
    store->sync_number = store->written;
    store->sync_mark = store->written_mark;
    store->commit = (struct disk_op){
        .verb = DISK_SYNC, .file = store->written_segment->file, .done = committed};
    submit(store, COMMIT_SYNC, false);
}

static void start_header(struct store *store, struct segment *segment)
{
    struct disk_file *file;
    if (!commit_file(store, segment, &file))
        return;
    struct segment_head head = {
        .version = FORMAT_VERSION,
        .id = store->id,
        .number = segment->number,
        .batch_first = segment->batch_first,
        .seq_mark = store->seq_next + SEQ_AHEAD,
        .number_next = store->number_next,
        .size_bytes = segment->size_bytes,
    };
    segment_head_encode(&head, store->head_block);
    store->commit = (struct disk_op){
        .verb = DISK_WRITE_SYNC,
        .file = file,
        .data = store->head_block,
        .len = BLOCK,
        .done = committed,
    };
    submit(store, COMMIT_HEADER, false);
}

static void start_batch(struct store *store, struct batch *batch)
{
    struct disk_file *file;
    if (!commit_file(store, batch->segment, &file))
        return;
    batch->durable = store->synced;
    batch->seq_mark = store->seq_next + SEQ_AHEAD;
    store->clock_us = store->now_us;
    struct batch_head head = {
        .number = batch->number,
        .durable = batch->durable,
        .seq_mark = batch->seq_mark,
        .clock_us = store->now_us,
        .segment = batch->segment->number,
        .store_tag = store->tag,
        .payload_bytes = batch->payload_bytes,
        .record_count = batch->record_count,
    };
    store->commit = (struct disk_op){
        .verb = store->options.buffered ? DISK_WRITE : DISK_WRITE_SYNC,
        .file = file,
        .data = batch->at,
        .len = batch_head_encode(&head, batch->at),
        .offset = batch->offset,
        .prepare = sign_batch,
        .done = committed,
    };
    submit(store, COMMIT_BATCH, commit_here(store, batch));
}

static bool sync_due(const struct store *store)
{
    if (store->written <= store->synced)
        return false;
    int64_t interval_us = store->options.interval_us;
    bool mark_near = store->seq_next + SEQ_AHEAD / 2 > store->seq_mark;
    bool wanted = store->sync_wanted > store->synced && store->written >= store->sync_wanted;
    return wanted || store->closing || mark_near ||
           (interval_us > 0 && store->now_us - store->last_sync_us >= interval_us);
}

void wal_start_next(struct store *store)
{
    bool waits = store->now_us < store->reopen_at_us && !store->closing;
    if (store->failed || store->step != COMMIT_IDLE || waits)
        return;
    struct batch *batch = first_sealed(store);
    struct segment *segment = batch ? batch->segment : NULL;
    bool ready = segment && segment->state == SEGMENT_READY;
    if (sync_due(store) || (ready && store->written > store->synced))
        start_sync(store);
    else if (ready)
        start_header(store, segment);
    else if (segment && segment->state == SEGMENT_HEADED)
        start_batch(store, batch);
}

void wal_fail(struct store *store, int sys_errno)
{
    if (store->failed)
        return;
    store->failed = true;
    store->callbacks->failed(store->callbacks, sys_errno);
}

/* ---- the turn ---- */

/* It is time to tell on disk that the last batch with records is durable. */
static bool proof_due_at(const struct store *store, int64_t *out_at_us)
{
    bool busy = store->open || store->step != COMMIT_IDLE || !list_empty(&store->sealed);
    if (busy || store->closing || store->options.buffered || store->last_full <= store->proven)
        return false;
    *out_at_us = store->last_commit_us + PROOF_AGE_US;
    return true;
}

/* It is time to tell on disk what time it is: nothing else says what has fallen due. */
static bool clock_due_at(const struct store *store, int64_t *out_at_us)
{
    bool busy = store->open || store->step != COMMIT_IDLE || !list_empty(&store->sealed);
    if (busy || store->full || store->clock_wanted_us <= store->clock_us)
        return false;
    *out_at_us = store->clock_asked_us + PROOF_AGE_US;
    if (store->clock_us > INT64_MIN && *out_at_us < store->clock_us + CLOCK_AGE_US)
        *out_at_us = store->clock_us + CLOCK_AGE_US;
    return true;
}

static int64_t open_due_at(const struct store *store)
{
    const struct batch *open = store->open;
    enum checkpoint_step step = store->checkpoint.step;
    bool cleaning = step == CHECKPOINT_MANIFEST || step == CHECKPOINT_REMOVE;
    int64_t full_us = cleaning ? CLEAN_AGE_US : FULL_AGE_US;
    int64_t age_us = !open->wanted ? OPEN_AGE_US : store->full ? full_us : 0;
    return open->opened_us + age_us;
}

/* By an empty batch. A full disk has no block for that: there the manifest tells. */
static void prove(struct store *store)
{
    if (store->full || segment_room(store) < BLOCK) {
        store->proven = store->last_full;
        manifest_write(store);
        return;
    }
    open_batch(store, 0);
    store->open->wanted = true;
}

void wal_write_clock(struct store *store)
{
    int64_t clock_us;
    if (!store->failed && clock_due_at(store, &clock_us) && segment_room(store) >= BLOCK) {
        open_batch(store, 0);
        store->open->wanted = true;
    }
}

void wal_turn(struct store *store)
{
    int64_t proof_us, clock_us;
    if (store->failed)
        return;
    store->inline_left = INLINE_BYTES;
    if (proof_due_at(store, &proof_us) && store->now_us >= proof_us)
        prove(store);
    if (clock_due_at(store, &clock_us) && store->now_us >= clock_us)
        wal_write_clock(store);
    bool idle = store->step == COMMIT_IDLE && list_empty(&store->sealed);
    if (store->open && idle && (store->closing || store->now_us >= open_due_at(store)))
        wal_seal(store);
    wal_start_next(store);
}

int64_t wal_next_us(const struct store *store)
{
    int64_t at_us = INT64_MAX;
    int64_t next_us = INT64_MAX;
    if (store->failed || store->step != COMMIT_IDLE)
        return INT64_MAX; /* the disk wakes us */
    if (store->open && list_empty(&store->sealed))
        next_us = open_due_at(store);
    else if (!list_empty(&store->sealed) && store->reopen_at_us > store->now_us)
        next_us = store->reopen_at_us;
    if (proof_due_at(store, &at_us) && at_us < next_us)
        next_us = at_us;
    if (clock_due_at(store, &at_us) && at_us < next_us && segment_room(store) >= BLOCK)
        next_us = at_us;
    if (store->options.interval_us > 0 && store->written > store->synced &&
        store->last_sync_us + store->options.interval_us < next_us)
        next_us = store->last_sync_us + store->options.interval_us;
    return next_us;
}

/* ---- life ---- */

void wal_init(struct store *store)
{
    list_init(&store->write_buffers);
    list_init(&store->sealed);
    uint64_t segment_bytes = store->options.segment_bytes;
    store->write_buffer_usual = segment_bytes < SLAB_BYTES ? (size_t)segment_bytes : SLAB_BYTES;
    store->head_block = mem_aligned(BLOCK, BLOCK);
}

void wal_fini(struct store *store)
{
    while (!list_empty(&store->sealed)) { /* only after a failure */
        struct batch *batch = first_sealed(store);
        list_remove(&batch->link);
        mem_free(batch);
    }
    mem_free(store->open);
    while (!list_empty(&store->write_buffers))
        write_buffer_free(store, last_slab(store));
    if (store->write_buffer_idle) {
        mem_free(store->write_buffer_idle->at);
        mem_free(store->write_buffer_idle);
    }
    mem_free(store->head_block);
}
