/*
 * Records are encoded into the memory that is written; nothing is copied, except when the open
 * batch outgrows its write buffer. While one batch is being written, events go into the next.
 *
 * Buffered mode differs in this only: a batch counts as written without a sync; `synced` follows by
 * DISK_SYNC now and then. All of a segment is synced before the next one's header is written, so
 * all unproven batches are always in the last segment; recovery relies on it.
 */
#include "store/log/log.h"

#include "base/check.h"
#include "base/mem.h"
#include "store/history/history_format.h"
#include "store/log/log_parts.h"

enum { BACKLOG_MAX = 64 * 1024 * 1024 }; /* bytes that wait for the disk before pushes must wait */

/* ---- gathering ---- */

/* Gives the open batch memory for `payload_bytes` of records. May move it. */
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
    if (room > log->options->batch_full)
        room = log->options->batch_full;
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

uint64_t log_settled_end(const struct log *log, const struct segment *segment)
{
    for (const struct list *link = log->sealed.next; link != &log->sealed; link = link->next) {
        const struct batch *batch = LIST_ENTRY(link, const struct batch, link);
        if (batch->segment == segment)
            return batch->offset;
    }
    return log->open && log->open->segment == segment ? log->open->offset : segment->end;
}

/* A commit follows the other, so the struct of the last one is used again, without the heap. */
static struct batch *batch_new(struct log *log)
{
    struct batch *batch = log->idle ? log->idle : mem_alloc(sizeof(*batch));
    log->idle = NULL;
    *batch = (struct batch){0};
    return batch;
}

void log_drop_late_body(const struct log *log, struct batch *batch)
{
    if (!batch->late.record)
        return;
    if (log->options->discard)
        discard_buf(log->options->discard, &batch->late.memory);
    else
        buf_fini(&batch->late.memory);
    batch->late = (struct late_body){0};
}

void log_free_batch(struct log *log, struct batch *batch)
{
    log_drop_late_body(log, batch);
    if (log->idle)
        mem_free(batch);
    else
        log->idle = batch;
}

void log_open_batch(struct log *log, size_t payload_bytes)
{
    struct segment *tail = segments_tail(log->segments);
    payload_bytes += lead_bytes(log);
    uint64_t need = batch_bytes(payload_bytes);
    if (!tail || tail->size_bytes - tail->end < need)
        tail = segments_next(log->segments, need, log->batch_next);
    struct batch *batch = batch_new(log);
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

void log_seal(struct log *log)
{
    struct batch *batch = log->open;
    uint64_t bytes = batch_bytes(batch->payload_bytes);
    struct write_buffer *buffer = write_buffers_last(&log->buffers);
    log->open = NULL;
    buffer->used += bytes;
    buffer->batch_last = batch->number;
    segments_grow(batch->segment, bytes);
    log->sealed_bytes += bytes;
    log->sealed_copies += batch->copied_bytes;
    list_add_tail(&log->sealed, &batch->link);
}

/*
 * Returns the file offset for the next record: behind the last one of the open batch, or in a new
 * batch if the open one would become too long.
 */
static uint64_t place_record(struct log *log, size_t len)
{
    struct batch *batch = log->open;
    if (batch && batch->payload_bytes + len > batch->payload_max) {
        size_t payload = batch->payload_bytes + len;
        uint64_t room = batch->segment->size_bytes - batch->offset;
        bool full = batch->record_count > 0 && batch_bytes(payload) > log->options->batch_full;
        if (full || batch_bytes(payload) > room) {
            log_seal(log);
            batch = NULL;
        } else {
            make_room(log, payload);
        }
    }
    if (!batch) {
        log_open_batch(log, len);
        batch = log->open;
    }
    return batch->offset + BATCH_HEAD + batch->payload_bytes;
}

/* Marks a record that the cleaner appends: as a copy, and if its body is lost. */
static void mark(struct log *log, const struct event *event, char *record)
{
    if (event->kind == EVENT_JOB && log->relocating == RELOCATING_BODY_LOST) {
        record_invalidate(record);
        log->bodies_lost++;
    }
    if (log->marks_copies)
        record_mark_copy(record);
}

/* Adds a record of `len` bytes, which the caller fills in. */
static char *add_record(struct log *log, size_t len, uint64_t *out_offset)
{
    *out_offset = place_record(log, len);
    struct batch *batch = log->open;
    batch->payload_bytes += (uint32_t)len;
    batch->record_count++;
    log->records++;
    return batch->at + (*out_offset - batch->offset);
}

/* Does the event's record name the place of the job's record, in a slice? */
static bool writes_place(const struct event *event)
{
    return event->kind == EVENT_MOVE && event->record.where;
}

static uint32_t features_of(const struct event *event)
{
    uint32_t features = event->properties.len || event->kind > EVENT_TOPIC ? FEATURE_DELIVERY : 0;
    return features | (writes_place(event) ? FEATURE_SLICES : 0);
}

static bool comes_late(const struct log *log, const struct event *event)
{
    return event->kind == EVENT_JOB && event->memory && event->body.len > log->options->batch_full;
}

/* Writes the record into the batch: all of it, or what does not come late. */
static void encode(const struct log *log, const struct event *event, size_t len, char *record)
{
    struct batch *batch = log->open;
    if (!comes_late(log, event)) {
        record_encode(event, len, record);
        return;
    }
    CHECK(batch->record_count == 1 && !batch->late.record); /* so make_room() never moves it */
    record_encode_without_body(event, len, record);
    batch->late =
        (struct late_body){.record = record, .body = event->body, .memory = *event->memory};
    *event->memory = (struct buf){0};
}

static struct stored append(struct log *log, const struct event *event)
{
    struct stored stored = {0};
    bool has_place = event_has_place(event);
    bool numbered = event->kind == EVENT_JOB || event->kind == EVENT_SETTINGS;
    if (numbered && event->job.seq >= log->seq_next)
        log->seq_next = event->job.seq + 1;
    if (log->store->failed)
        return event->record; /* nothing is appended any more; the old place stays readable */
    uint64_t offset;
    size_t len = record_bytes(event);
    char *record = add_record(log, len, &offset);
    struct batch *batch = log->open;
    encode(log, event, len, record);
    if (log->relocating) {
        mark(log, event, record);
        batch->copied_bytes += len;
    } else {
        log->new_bytes += len;
    }
    batch->features |= features_of(event);
    if (writes_place(event))
        slices_moved(log->store->slices, event, batch->segment->number, len, log->relocating);
    if (event->promised) {
        batch->wanted = true;
        log->promised = batch->number;
    }
    if (has_place) {
        stored.where = where_of(batch->segment->number, offset);
        stored.bytes = (uint32_t)len;
        segments_record_lives(log->segments, batch->segment, stored);
    }
    if ((event->kind == EVENT_JOB || event->kind == EVENT_GONE) && event->record.where) {
        bool lived = segments_record_died(log->segments, event->record);
        CHECK(lived); /* else the core named a record that never existed, or is dead already */
    }
    return stored;
}

/*
 * A MOVE or GONE has its job's id only if there are followers, who know jobs by their ids. A MOVE
 * has the place of its job's record only if that lies in a slice: recovery reads a record in the
 * log before the MOVE anyway.
 */
struct stored log_append(struct log *log, const struct event *event)
{
    bool is_of_job = event->kind == EVENT_MOVE || event->kind == EVENT_GONE;
    bool names = event->id.len > 0 && !log->marks_copies;
    bool places = writes_place(event) && !segments_is_slice(log->segments, event->record.where);
    if (!is_of_job || (!names && !places))
        return append(log, event);
    struct event brief = *event;
    if (names)
        brief.id = (struct bytes){0};
    if (places)
        brief.record = (struct stored){0};
    return append(log, &brief);
}

uint64_t log_append_slice(struct log *log, const struct slice_record *record)
{
    uint64_t offset;
    if (log->store->failed)
        return log_batch(log);
    char *at = add_record(log, slice_record_bytes(record), &offset);
    slice_record_encode(record, at);
    log->open->features |= FEATURE_SLICES;
    return log->open->number;
}

void log_append_history(struct log *log, struct bytes entry, bool promised)
{
    uint64_t offset;
    if (log->store->failed)
        return;
    char *at = add_record(log, history_record_bytes(entry.len), &offset);
    history_record_encode(entry, at);
    if (promised) {
        log->open->wanted = true;
        log->promised = log->open->number;
    }
}

bool log_is_open(const struct log *log)
{
    return log->open != NULL;
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
    write_buffers_init(&log->buffers, segment_bytes, store->options.discard);
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
        log_drop_late_body(log, batch);
        mem_free(batch);
    }
    if (log->open)
        log_drop_late_body(log, log->open);
    mem_free(log->open);
    mem_free(log->idle);
    write_buffers_fini(&log->buffers);
    mem_free(log->head_block);
    mem_free(log);
}

void log_begin(struct log *log, const struct log_begin *begin)
{
    CHECK(begin->batch_next > 0);
    CHECK(log->batch_next == 0 && !log->open && list_empty(&log->sealed)); /* once, and first */
    log->batch_next = log->own_from = begin->batch_next;
    log->written = log->synced = log->proven = log->last_full = begin->batch_next - 1;
    log->seq_next = begin->seq_next;
    log->written_segment = segments_tail(log->segments);
}

void log_begin_marks(struct log *log, uint64_t seq_mark)
{
    log->seq_mark = log->written_mark = seq_mark;
}

/* ---- state ---- */

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
        log->clock_requested_us = at_us;
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
    /* The target of a pending request stays: under load there is always a newer batch. */
    log->sync_wanted_last = log_batch(log);
    if (log->sync_wanted <= log->synced)
        log->sync_wanted = log->sync_wanted_last;
    log_want_open(log);
}

void log_latency_first(struct log *log, bool latency_first)
{
    log->latency_first = latency_first;
}

void log_seal_open(struct log *log)
{
    if (log->open)
        log_seal(log);
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

uint64_t log_bodies_lost(const struct log *log)
{
    return log->bodies_lost;
}

bool log_has_bodies(const struct log *log, uint64_t batch)
{
    return batch >= log->own_from && log->bodies_lost == 0;
}

uint64_t log_backlog_bytes(const struct log *log)
{
    return log->sealed_bytes;
}

uint64_t log_backlog_copies(const struct log *log)
{
    return log->sealed_copies;
}

uint64_t log_bytes_written(const struct log *log)
{
    return log->bytes_written;
}

uint64_t log_new_bytes(const struct log *log)
{
    return log->new_bytes;
}

uint64_t log_open_bytes(const struct log *log, const struct segment *segment)
{
    const struct batch *open = log->open;
    return open && open->segment == segment ? batch_bytes(open->payload_bytes) : 0;
}

void log_segment_shrunk(struct log *log, const struct segment *segment)
{
    struct batch *open = log->open;
    if (!open || open->segment != segment)
        return;
    uint64_t room = (segment->size_bytes - open->offset) / BLOCK * BLOCK;
    CHECK(room >= batch_bytes(open->payload_bytes));
    if (open->payload_max > room - BATCH_HEAD)
        open->payload_max = room - BATCH_HEAD;
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
    CHECK(batch->record_count <= 1 ||
          batch_bytes(batch->payload_bytes) <= log->options->batch_full);
    const char *at = log_recent(log, where_of(segment->number, batch->offset), &(size_t){0});
    CHECK(at == batch->at); /* L3 */
}

void log_valid(const struct log *log)
{
    uint64_t number = log->written;
    uint64_t bytes = 0, copied_bytes = 0;
    for (const struct list *link = log->sealed.next; link != &log->sealed; link = link->next) {
        const struct batch *batch = LIST_ENTRY(link, struct batch, link);
        CHECK(batch->number == ++number); /* L2 */
        CHECK(batch->offset + batch_bytes(batch->payload_bytes) <= batch->segment->end);
        batch_valid(log, batch);
        bytes += batch_bytes(batch->payload_bytes);
        copied_bytes += batch->copied_bytes;
    }
    if (log->open) {
        CHECK(log->open->number == ++number && log->open->segment == segments_tail(log->segments));
        CHECK(log->open->offset == log->open->segment->end);
        batch_valid(log, log->open);
    }
    CHECK(number + 1 == log->batch_next); /* S1 */
    CHECK(bytes == log->sealed_bytes && copied_bytes == log->sealed_copies);
    CHECK(log->proven <= log->synced && log->synced <= log->written); /* L1 */
    CHECK(log->last_full <= log->written && log->promised < log->batch_next);
    CHECK(log->sync_number <= log->written && log->sync_wanted <= log->sync_wanted_last);
    CHECK(log->step != COMMIT_BATCH || !list_empty(&log->sealed));
    CHECK(log->options->buffered || log->synced == log->written);
    CHECK(log->relocating == RELOCATING_NOTHING);
    write_buffers_valid(&log->buffers);
}
