/*
 * Records are encoded straight into the memory that is written; nothing is copied, except when the
 * open batch outgrows its write buffer. While one batch is under way the next gathers.
 *
 * Buffered mode differs in this only: a batch counts as written without a sync; `synced` follows
 * by DISK_SYNC now and then. A segment is synced whole before the next one's header is written, so
 * all unproven batches are always in the last segment; recovery relies on it.
 */
#include "store/log.h"

#include <errno.h>

#include "base/check.h"
#include "base/mem.h"
#include "store/internal.h"
#include "store/record.h"
#include "store/write_buffer.h"

enum {
    BACKLOG_MAX = 64 * 1024 * 1024, /* bytes that wait for the disk before pushes must wait */
    OPEN_AGE_US = 100 * 1000,       /* unpromised events wait so long for company */
    CLOCK_AGE_US = 1000 * 1000,     /* one batch in so long at most is written for its time alone */
    PROOF_AGE_US = 100 * 1000,      /* so long after the last batch an empty one proves it */
    FULL_AGE_US = 10 * 1000,        /* on a full disk commits gather, not to be mostly padding */
    CLEAN_AGE_US = 1000 * 1000,     /* the same while room is about to come */
    LATENCY_RECORDS = 4,            /* latency first: a commit of more is left to the thread */
};

struct batch {
    struct list link; /* log::sealed */
    uint64_t number;
    struct segment *segment;
    uint64_t offset;
    char *at;             /* in a write buffer */
    uint64_t payload_max; /* up to so much payload it stays where it is, in memory and on disk */
    uint32_t payload_bytes;
    uint32_t record_count; /* of events; an EPOCH record comes on top */
    bool wanted;           /* an answer waits for it */
    int64_t opened_us;
    uint64_t durable;  /* as its header says, once handed over */
    uint64_t seq_mark; /* the same */
};

enum commit_step { COMMIT_IDLE, COMMIT_HEADER, COMMIT_BATCH, COMMIT_SYNC };

struct log {
    struct store *store;
    const struct store_options *options;
    struct disk *disk;
    struct segments *segments;

    struct write_buffers buffers;
    struct batch *open; /* or NULL */
    struct list sealed; /* batch::link; the first may be under way */
    uint64_t sealed_bytes;
    enum relocating relocating;
    bool marks_copies; /* followers are to know what is none of their business */

    uint64_t batch_next; /* number for the next batch to be opened */
    uint64_t promised;   /* the last batch with a promised event; 0: none since the start */
    uint64_t written;    /* batches up to this one are written … */
    uint64_t synced;     /* … and up to this one durable */
    uint64_t proven;     /* the highest durable number that a durable batch tells */
    uint64_t last_full;  /* the last written batch with records */
    int64_t last_commit_us, last_sync_us;
    uint64_t seq_next;
    uint64_t seq_mark; /* durable: numbers below may be given */

    enum commit_step step;
    int64_t last_took_us; /* the last batch's commit */
    uint64_t inline_left; /* bytes that this turn may still write itself */
    bool latency_first;   /* see store_latency_first */
    struct disk_op commit;
    uint64_t sync_number; /* COMMIT_SYNC: what is durable when it is done … */
    uint64_t sync_mark;   /* … and the seq mark then */
    uint64_t written_mark;
    struct segment *written_segment; /* buffered: of the last written batch */
    char *head_block;                /* BLOCK bytes for a segment's header */
    uint64_t sync_wanted;            /* buffered: the first batch that somebody wants on disk … */
    uint64_t sync_wanted_last;       /* … and the last one; one sync need not wait for both */
    int64_t reopen_at_us;            /* no descriptor was free for a commit: when to try again */

    int64_t clock_us;        /* the time in the last batch of this life; INT64_MIN = none yet */
    int64_t clock_wanted_us; /* a batch must have this time or a later one … */
    int64_t clock_asked_us;  /* … since then */

    uint64_t batches, bytes_written, records;
    uint64_t syncs, sync_us_sum;
    uint64_t sync_us[SYNC_BUCKETS];
};

static struct batch *first_sealed(const struct log *log)
{
    return list_empty(&log->sealed) ? NULL : LIST_ENTRY(log->sealed.next, struct batch, link);
}

/* ---- gathering ---- */

/* Gives the open batch memory for so many bytes of records, moving it if need be. */
static void make_room(struct log *log, size_t payload_bytes)
{
    struct batch *batch = log->open;
    struct write_buffer *buffer = write_buffers_last(&log->buffers);
    size_t need = batch_bytes(payload_bytes);
    bool follows = buffer && buffer->number == batch->segment->number &&
                   buffer->start + buffer->used == batch->offset;
    if (!follows || buffer->cap - buffer->used < need) {
        struct write_buffer *old = buffer;
        buffer = write_buffers_add(&log->buffers, batch->at ? need * 2 : need);
        buffer->number = batch->segment->number;
        buffer->start = batch->offset;
        if (batch->at)
            memcpy(buffer->at, batch->at, BATCH_HEAD + batch->payload_bytes);
        if (old && old->used == 0)
            write_buffers_drop(&log->buffers, old); /* it held nothing but this batch */
        write_buffers_trim(&log->buffers, log->options->recent_bytes, log->written);
    }
    batch->at = buffer->at + buffer->used;
    uint64_t room = buffer->cap - buffer->used;
    uint64_t in_segment = batch->segment->size_bytes - batch->offset;
    if (in_segment < room)
        room = in_segment;
    if (room > BATCH_FULL)
        room = BATCH_FULL;
    batch->payload_max = room / BLOCK * BLOCK - BATCH_HEAD;
}

const char *log_recent(const struct log *log, uint64_t where, size_t *out_len)
{
    uint64_t offset = where_offset(where);
    const struct write_buffer *buffer =
        write_buffers_find(&log->buffers, where_segment(where), offset);
    if (!buffer)
        return NULL;
    size_t len = buffer->used;
    const struct batch *open = log->open;
    if (open && open->at == buffer->at + buffer->used)
        len += BATCH_HEAD + open->payload_bytes;
    if (offset - buffer->start >= len)
        return NULL;
    *out_len = len - (size_t)(offset - buffer->start);
    return buffer->at + (offset - buffer->start);
}

/* Of the record that each batch begins with. */
static uint32_t lead_bytes(const struct log *log)
{
    return log->options->epoch ? RECORD_EPOCH_BYTES : 0;
}

uint64_t log_settled_end(const struct log *log, const struct segment *segment)
{
    uint64_t end = segment->end;
    for (const struct list *link = log->buffers.list.next; link != &log->buffers.list;
         link = link->next) {
        const struct write_buffer *buffer = LIST_ENTRY(link, const struct write_buffer, link);
        if (buffer->number == segment->number && buffer->start < end)
            end = buffer->start;
    }
    return end;
}

static void open_batch(struct log *log, size_t payload_bytes)
{
    struct segment *tail = segments_tail(log->segments);
    payload_bytes += lead_bytes(log);
    uint64_t need = batch_bytes(payload_bytes);
    if (!tail || tail->size_bytes - tail->end < need)
        tail = segments_next(log->segments, need, log->batch_next);
    struct batch *batch = mem_zalloc(sizeof(*batch));
    batch->number = log->batch_next++;
    batch->segment = tail;
    batch->offset = tail->end;
    batch->opened_us = log->store->now_us;
    log->open = batch;
    make_room(log, payload_bytes);
    if (log->options->epoch) {
        record_epoch_encode(log->options->epoch, batch->at + BATCH_HEAD);
        batch->payload_bytes = RECORD_EPOCH_BYTES;
    }
}

static void seal(struct log *log)
{
    struct batch *batch = log->open;
    uint64_t bytes = batch_bytes(batch->payload_bytes);
    struct write_buffer *buffer = write_buffers_last(&log->buffers);
    log->open = NULL;
    buffer->used += bytes;
    buffer->batch_last = batch->number;
    segments_grow(batch->segment, bytes);
    log->sealed_bytes += bytes;
    list_add_tail(&log->sealed, &batch->link);
}

/*
 * Where a live job's record goes: to the end of the log. This is the seam for time-slice files:
 * a job that is due beyond the horizon will, when the checkpoint carries it, be given a place in
 * the slice of its due time instead, and only a short record of that place comes here.
 */
static uint64_t place_record(struct log *log, size_t len)
{
    struct batch *batch = log->open;
    if (batch && batch->payload_bytes + len > batch->payload_max) {
        size_t payload = batch->payload_bytes + len;
        uint64_t room = batch->segment->size_bytes - batch->offset;
        bool full = batch->record_count > 0 && batch_bytes(payload) > BATCH_FULL;
        if (full || batch_bytes(payload) > room) {
            seal(log);
            batch = NULL;
        } else {
            make_room(log, payload);
        }
    }
    if (!batch) {
        open_batch(log, len);
        batch = log->open;
    }
    return batch->offset + BATCH_HEAD + batch->payload_bytes;
}

/* The record is one of the cleaner's. */
static void mark(const struct log *log, const struct event *event, char *record)
{
    if (event->kind == EVENT_JOB && log->relocating == RELOCATING_BODY_LOST)
        record_spoil(record);
    if (log->marks_copies)
        record_mark_copy(record);
}

struct stored log_append(struct log *log, const struct event *event)
{
    struct stored stored = {0};
    if (event->kind == EVENT_JOB && event->job.seq >= log->seq_next)
        log->seq_next = event->job.seq + 1;
    if (log->store->failed)
        return event->record; /* nothing is kept any more; the old place stays readable */
    size_t len = record_bytes(event);
    uint64_t offset = place_record(log, len);
    struct batch *batch = log->open;
    record_encode(event, len, batch->at + (offset - batch->offset));
    if (log->relocating)
        mark(log, event, batch->at + (offset - batch->offset));
    batch->payload_bytes += (uint32_t)len;
    batch->record_count++;
    if (event->promised) {
        batch->wanted = true;
        log->promised = batch->number;
    }
    log->records++;
    if (event->kind == EVENT_JOB) {
        stored.where = where_of(batch->segment->number, offset);
        stored.bytes = (uint32_t)len;
        segments_live(log->segments, batch->segment, stored);
    }
    if ((event->kind == EVENT_JOB || event->kind == EVENT_GONE) && event->record.where) {
        bool lived = segments_dies(log->segments, event->record);
        CHECK(lived); /* the core has told of a record that never was, or died before */
    }
    return stored;
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
static bool commit_here(struct log *log, const struct batch *batch)
{
    uint64_t bytes = batch_bytes(batch->payload_bytes);
    bool busy = log->latency_first && batch->record_count > LATENCY_RECORDS;
    if (busy || bytes > log->inline_left || log->last_took_us >= log->options->inline_us)
        return false;
    log->inline_left -= bytes;
    return true;
}

/* On the thread that writes it: of a job of 64 MiB the checksum alone takes milliseconds. */
static void sign_batch(struct disk_op *op)
{
    batch_sign((void *)(uintptr_t)op->data, op->len);
}

static void submit(struct log *log, enum commit_step step, bool here)
{
    log->step = step;
    log->commit.lane = LANE_COMMIT;
    log->commit.owner = log;
    if (here)
        log->disk->verbs->run(log->disk, &log->commit);
    else
        log->disk->verbs->submit(log->disk, &log->commit);
}

static void count_sync(struct log *log)
{
    int64_t took_us = log->commit.took_us;
    unsigned bucket = 0;
    while (bucket < SYNC_BUCKETS - 1 && took_us >= (int64_t)16 << bucket)
        bucket++;
    log->syncs++;
    log->sync_us_sum += (uint64_t)took_us;
    log->sync_us[bucket]++;
}

/*
 * The manifest proves that the log's last segment was in use: were its file lost, header and all,
 * nothing else would tell of its batches.
 */
static void tell_of_last_segment(struct log *log)
{
    uint64_t first = log->written_segment->batch_first;
    if (log->synced >= first && manifest_durable(log->store->manifest) < first)
        manifest_write(log->store->manifest);
}

static void batch_done(struct log *log)
{
    struct batch *batch = first_sealed(log);
    list_remove(&batch->link);
    uint64_t bytes = batch_bytes(batch->payload_bytes);
    log->sealed_bytes -= bytes;
    log->batches++;
    log->bytes_written += bytes;
    log->written = batch->number;
    log->written_segment = batch->segment;
    if (!log->options->buffered) {
        log->synced = batch->number;
        log->proven = batch->durable;
        log->seq_mark = batch->seq_mark;
        count_sync(log);
    }
    log->written_mark = batch->seq_mark;
    if (batch->record_count)
        log->last_full = batch->number;
    log->last_commit_us = log->store->now_us;
    mem_free(batch);
    write_buffers_trim(&log->buffers, log->options->recent_bytes, log->written);
    tell_of_last_segment(log);
    log->store->callbacks->durable(log->store->callbacks, log->written);
    log_start_next(log); /* last: it may fail the store, after which nothing becomes durable (S5) */
}

static void sync_done(struct log *log)
{
    log->synced = log->sync_number;
    if (log->sync_wanted <= log->synced)
        log->sync_wanted = log->sync_wanted_last;
    log->seq_mark = log->sync_mark;
    log->last_sync_us = log->store->now_us;
    count_sync(log);
    tell_of_last_segment(log);
    log->store->callbacks->synced(log->store->callbacks, log->synced);
    log_start_next(log);
}

static void committed(struct disk_op *op)
{
    struct log *log = op->owner;
    enum commit_step step = log->step;
    log->step = COMMIT_IDLE;
    if (step == COMMIT_BATCH)
        log->last_took_us = op->took_us;
    if (op->err)
        store_fail(log->store, op->sys_errno);
    if (log->store->failed)
        return; /* S5, even if this one has reached the disk: the other lane may have failed */
    switch (step) {
    case COMMIT_HEADER:
        segments_headed(log->segments, first_sealed(log)->segment);
        log_start_next(log);
        return;
    case COMMIT_BATCH: batch_done(log); return;
    case COMMIT_SYNC: sync_done(log); return;
    case COMMIT_IDLE: break;
    }
    CHECK(false); /* an operation ended that was not under way */
}

/* The file that a commit is to write. False: there is none now; it is tried again, or S5. */
static bool commit_file(struct log *log, struct segment *segment, struct disk_file **out_file)
{
    enum err err = segments_file(log->segments, segment, out_file);
    if (err == ERR_AGAIN)
        log->reopen_at_us = log->store->now_us + LOG_REOPEN_US;
    else if (err)
        store_fail(log->store, EIO);
    return err == OK;
}

static void start_sync(struct log *log)
{
    log->sync_number = log->written;
    log->sync_mark = log->written_mark;
    log->commit =
        (struct disk_op){.verb = DISK_SYNC, .file = log->written_segment->file, .done = committed};
    submit(log, COMMIT_SYNC, false);
}

static void start_header(struct log *log, struct segment *segment)
{
    struct disk_file *file;
    if (!commit_file(log, segment, &file))
        return;
    struct segment_head head = {
        .version = FORMAT_VERSION,
        .id = log->store->id,
        .number = segment->number,
        .batch_first = segment->batch_first,
        .seq_mark = log->seq_next + SEQ_AHEAD,
        .number_next = segments_number_next(log->segments),
        .size_bytes = segment->size_bytes,
    };
    segment_head_encode(&head, log->head_block);
    log->commit = (struct disk_op){
        .verb = DISK_WRITE_SYNC,
        .file = file,
        .data = log->head_block,
        .len = BLOCK,
        .done = committed,
    };
    submit(log, COMMIT_HEADER, false);
}

static void start_batch(struct log *log, struct batch *batch)
{
    struct disk_file *file;
    if (!commit_file(log, batch->segment, &file))
        return;
    batch->durable = log->synced;
    batch->seq_mark = log->seq_next + SEQ_AHEAD;
    log->clock_us = log->store->now_us;
    struct batch_head head = {
        .number = batch->number,
        .durable = batch->durable,
        .seq_mark = batch->seq_mark,
        .clock_us = log->store->now_us,
        .segment = batch->segment->number,
        .store_tag = log->store->tag,
        .payload_bytes = batch->payload_bytes,
        .record_count = batch->record_count + (log->options->epoch > 0),
    };
    log->commit = (struct disk_op){
        .verb = log->options->buffered ? DISK_WRITE : DISK_WRITE_SYNC,
        .file = file,
        .data = batch->at,
        .len = batch_head_encode(&head, batch->at),
        .offset = batch->offset,
        .prepare = sign_batch,
        .done = committed,
    };
    submit(log, COMMIT_BATCH, commit_here(log, batch));
}

static bool sync_due(const struct log *log)
{
    if (log->written <= log->synced)
        return false;
    int64_t interval_us = log->options->interval_us;
    bool mark_near = log->seq_next + SEQ_AHEAD / 2 > log->seq_mark;
    bool wanted = log->sync_wanted > log->synced && log->written >= log->sync_wanted;
    return wanted || log->store->closing || mark_near ||
           (interval_us > 0 && log->store->now_us - log->last_sync_us >= interval_us);
}

void log_start_next(struct log *log)
{
    bool waits = log->store->now_us < log->reopen_at_us && !log->store->closing;
    if (log->store->failed || log->step != COMMIT_IDLE || waits)
        return;
    struct batch *batch = first_sealed(log);
    struct segment *segment = batch ? batch->segment : NULL;
    bool ready = segment && segment->state == SEGMENT_READY;
    if (sync_due(log) || (ready && log->written > log->synced))
        start_sync(log);
    else if (ready)
        start_header(log, segment);
    else if (segment && segment->state == SEGMENT_HEADED)
        start_batch(log, batch);
}

/* ---- the turn ---- */

/* It is time to tell on disk that the last batch with records is durable. */
static bool proof_due_at(const struct log *log, int64_t *out_at_us)
{
    bool busy = log->open || log->step != COMMIT_IDLE || !list_empty(&log->sealed);
    if (busy || log->store->closing || log->options->buffered || log->last_full <= log->proven)
        return false;
    *out_at_us = log->last_commit_us + PROOF_AGE_US;
    return true;
}

/* It is time to tell on disk what time it is: nothing else says what has fallen due. */
static bool clock_due_at(const struct log *log, int64_t *out_at_us)
{
    bool busy = log->open || log->step != COMMIT_IDLE || !list_empty(&log->sealed);
    if (busy || segments_full(log->segments) || log->clock_wanted_us <= log->clock_us)
        return false;
    *out_at_us = log->clock_asked_us + PROOF_AGE_US;
    if (log->clock_us > INT64_MIN && *out_at_us < log->clock_us + CLOCK_AGE_US)
        *out_at_us = log->clock_us + CLOCK_AGE_US;
    return true;
}

static int64_t open_due_at(const struct log *log)
{
    const struct batch *open = log->open;
    bool full = segments_full(log->segments) != OK;
    bool waits = full && cleaner_gives_room(log->store->cleaner, open->number);
    int64_t wanted_us = waits ? CLEAN_AGE_US : full ? FULL_AGE_US : 0;
    int64_t age_us = open->wanted ? wanted_us : OPEN_AGE_US;
    return open->opened_us + age_us;
}

/* By an empty batch. A full disk has no block for that: there the manifest tells. */
static void prove(struct log *log)
{
    if (segments_full(log->segments) || segments_room(log->segments) < BLOCK) {
        log->proven = log->last_full;
        manifest_write(log->store->manifest);
        return;
    }
    open_batch(log, 0);
    log->open->wanted = true;
}

void log_write_clock(struct log *log)
{
    int64_t clock_us;
    if (!log->store->failed && clock_due_at(log, &clock_us) &&
        segments_room(log->segments) >= BLOCK) {
        open_batch(log, 0);
        log->open->wanted = true;
    }
}

void log_turn(struct log *log)
{
    int64_t proof_us, clock_us;
    if (log->store->failed)
        return;
    log->inline_left = LOG_INLINE_BYTES;
    if (proof_due_at(log, &proof_us) && log->store->now_us >= proof_us)
        prove(log);
    if (clock_due_at(log, &clock_us) && log->store->now_us >= clock_us)
        log_write_clock(log);
    bool idle = log->step == COMMIT_IDLE && list_empty(&log->sealed);
    if (log->open && idle && (log->store->closing || log->store->now_us >= open_due_at(log)))
        seal(log);
    log_start_next(log);
}

int64_t log_next_us(const struct log *log)
{
    int64_t at_us = INT64_MAX;
    int64_t next_us = INT64_MAX;
    if (log->store->failed || log->step != COMMIT_IDLE)
        return INT64_MAX; /* the disk wakes us */
    if (log->open && list_empty(&log->sealed))
        next_us = open_due_at(log);
    else if (!list_empty(&log->sealed) && log->reopen_at_us > log->store->now_us)
        next_us = log->reopen_at_us;
    if (proof_due_at(log, &at_us) && at_us < next_us)
        next_us = at_us;
    if (clock_due_at(log, &at_us) && at_us < next_us && segments_room(log->segments) >= BLOCK)
        next_us = at_us;
    if (log->options->interval_us > 0 && log->written > log->synced &&
        log->last_sync_us + log->options->interval_us < next_us)
        next_us = log->last_sync_us + log->options->interval_us;
    return next_us;
}

/* ---- life ---- */

struct log *log_new(struct store *store)
{
    struct log *log = mem_zalloc(sizeof(*log));
    uint64_t segment_bytes = store->options.segment_bytes;
    log->store = store;
    log->options = &store->options;
    log->disk = store->disk;
    log->segments = store->segments;
    log->last_commit_us = log->last_sync_us = store->now_us;
    log->clock_us = log->clock_wanted_us = INT64_MIN;
    list_init(&log->sealed);
    write_buffers_init(&log->buffers, segment_bytes);
    log->head_block = mem_aligned(BLOCK, BLOCK);
    return log;
}

void log_free(struct log *log)
{
    if (!log)
        return;
    CHECK(log->step == COMMIT_IDLE);
    while (!list_empty(&log->sealed)) { /* only after a failure */
        struct batch *batch = first_sealed(log);
        list_remove(&batch->link);
        mem_free(batch);
    }
    mem_free(log->open);
    write_buffers_fini(&log->buffers);
    mem_free(log->head_block);
    mem_free(log);
}

void log_begin(struct log *log, const struct log_begin *begin)
{
    CHECK(begin->batch_next > 0);
    CHECK(log->batch_next == 0 && !log->open && list_empty(&log->sealed)); /* once, and first */
    log->batch_next = begin->batch_next;
    log->written = log->synced = log->proven = log->last_full = begin->batch_next - 1;
    log->seq_next = begin->seq_next;
    log->written_segment = segments_tail(log->segments);
}

void log_begin_marks(struct log *log, uint64_t seq_mark)
{
    log->seq_mark = log->written_mark = seq_mark;
}

/* ---- what others ask ---- */

void log_relocating(struct log *log, enum relocating what)
{
    CHECK(what == RELOCATING_NOTHING || log->relocating == RELOCATING_NOTHING);
    log->relocating = what;
}

void log_mark_copies(struct log *log)
{
    log->marks_copies = true;
}

void log_seq_note(struct log *log, uint64_t seq_next)
{
    if (seq_next > log->seq_next)
        log->seq_next = seq_next;
}

void log_clock_note(struct log *log, int64_t at_us)
{
    if (log->clock_wanted_us <= log->clock_us)
        log->clock_asked_us = at_us;
    log->clock_wanted_us = at_us;
}

uint64_t log_batch(const struct log *log)
{
    return log->batch_next - 1;
}

uint64_t log_promised(const struct log *log)
{
    return log->promised;
}

uint64_t log_written(const struct log *log)
{
    return log->written;
}

uint64_t log_synced(const struct log *log)
{
    return log->synced;
}

void log_want_sync(struct log *log)
{
    /* The target of a wish that is not met yet stays: under load there is always a newer batch. */
    log->sync_wanted_last = log_batch(log);
    if (log->sync_wanted <= log->synced)
        log->sync_wanted = log->sync_wanted_last;
    log_want_open(log);
}

void log_latency_first(struct log *log, bool latency_first)
{
    log->latency_first = latency_first;
}

void log_cut(struct log *log)
{
    if (log->open)
        seal(log);
}

void log_want_open(struct log *log)
{
    if (log->open)
        log->open->wanted = true;
}

uint64_t log_seq_next(const struct log *log)
{
    return log->seq_next;
}

bool log_is_behind(const struct log *log)
{
    return log->sealed_bytes > BACKLOG_MAX || log->seq_next + SEQ_AHEAD / 8 >= log->seq_mark;
}

uint64_t log_records(const struct log *log)
{
    return log->records;
}

uint64_t log_backlog_bytes(const struct log *log)
{
    return log->sealed_bytes;
}

uint64_t log_open_bytes(const struct log *log, const struct segment *segment)
{
    const struct batch *open = log->open;
    return open && open->segment == segment ? batch_bytes(open->payload_bytes) : 0;
}

bool log_writes_to(const struct log *log, const struct disk_file *file)
{
    return log->step != COMMIT_IDLE && log->commit.file == file;
}

bool log_busy(const struct log *log)
{
    return log->step != COMMIT_IDLE;
}

bool log_empty(const struct log *log)
{
    return !log->open && list_empty(&log->sealed) && log->step == COMMIT_IDLE &&
           log->synced >= log->written;
}

void log_stats(const struct log *log, struct store_stats *out_stats)
{
    out_stats->batches = log->batches;
    out_stats->bytes_written = log->bytes_written;
    out_stats->records = log->records;
    out_stats->syncs = log->syncs;
    out_stats->sync_us_sum = log->sync_us_sum;
    memcpy(out_stats->sync_us, log->sync_us, sizeof(log->sync_us));
}

/* ---- invariants ---- */

static void batch_valid(const struct log *log, const struct batch *batch)
{
    const struct segment *segment = batch->segment;
    uint64_t end = batch->offset + batch_bytes(batch->payload_bytes);
    CHECK(batch->number >= segment->batch_first && batch->number < log->batch_next);
    CHECK(batch->offset >= BLOCK && batch->offset % BLOCK == 0);
    CHECK(end <= segment->size_bytes);
    CHECK(batch->durable < batch->number);
    CHECK((batch->payload_bytes == lead_bytes(log)) == (batch->record_count == 0));
    CHECK(batch->record_count <= 1 || batch_bytes(batch->payload_bytes) <= BATCH_FULL);
    const char *at = log_recent(log, where_of(segment->number, batch->offset), &(size_t){0});
    CHECK(at == batch->at); /* it lies where its place says */
}

void log_valid(const struct log *log)
{
    uint64_t number = log->written;
    uint64_t bytes = 0;
    for (const struct list *link = log->sealed.next; link != &log->sealed; link = link->next) {
        const struct batch *batch = LIST_ENTRY(link, struct batch, link);
        CHECK(batch->number == ++number); /* L2 */
        CHECK(batch->offset + batch_bytes(batch->payload_bytes) <= batch->segment->end);
        batch_valid(log, batch);
        bytes += batch_bytes(batch->payload_bytes);
    }
    if (log->open) {
        CHECK(log->open->number == ++number && log->open->segment == segments_tail(log->segments));
        CHECK(log->open->offset == log->open->segment->end);
        batch_valid(log, log->open);
    }
    CHECK(number + 1 == log->batch_next); /* S1 */
    CHECK(bytes == log->sealed_bytes);
    CHECK(log->proven <= log->synced && log->synced <= log->written); /* L1 */
    CHECK(log->last_full <= log->written && log->promised < log->batch_next);
    CHECK(log->sync_number <= log->written && log->sync_wanted <= log->sync_wanted_last);
    CHECK(log->step != COMMIT_BATCH || !list_empty(&log->sealed));
    CHECK(log->options->buffered || log->synced == log->written);
    CHECK(log->relocating == RELOCATING_NOTHING);
    write_buffers_valid(&log->buffers);
}
