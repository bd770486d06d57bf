/*
 * A sealed batch's way to the disk: segments' headers, batches and syncs, one at a time, and when
 * each is due.
 */
#include <errno.h>

#include "base/check.h"
#include "store/log/log_parts.h"

enum {
    OPEN_AGE_US = 100 * 1000,   /* a batch of unpromised events only is written after this time */
    CLOCK_AGE_US = 1000 * 1000, /* the least time between batches that only carry the time */
    PROOF_AGE_US = 100 * 1000,  /* this long after the last batch an empty one proves it */
    FULL_AGE_US = 10 * 1000, /* on a full disk a batch waits so long, because of its padding, … */
    CLEAN_AGE_US = 1000 * 1000, /* … or so long while the cleaner is about to free room */
    COMMITS_MEANT = 16,         /* log_commit_bytes() is a mean of about this many commits */
    LATENCY_RECORDS = 4,        /* latency first: the thread makes commits of more records */
    THREADS_COMMITS = 4,        /* the thread makes this many after one of inline_us / 2 */
};

/* ---- the commit lane ---- */

/*
 * Should the turn make this commit itself? While the disk is quick, yes: requests that arrive
 * meanwhile wait in their sockets and share the next commit, and two thread switches and two
 * wake-ups are saved (docs/decisions/0009-commit-in-the-turn-while-the-disk-is-quick.md). The
 * disk's thread makes
 *   - the next commits after a slow one, so that a disk that stalls delays only answers that need
 *     it. Several, because slow commits come in groups, whatever their size
 *     (docs/decisions/0107-what-made-turns-of-a-soak-long.md);
 *   - large commits in latency-first mode, so that deliveries do not wait for them;
 *   - all above LOG_INLINE_BYTES in a turn: otherwise one turn would write a whole backlog.
 */
static bool may_commit_here(const struct log *log, const struct batch *batch, uint64_t bytes_max)
{
    bool busy = log->latency_first && batch->record_count > LATENCY_RECORDS;
    return !busy && batch_bytes(batch->payload_bytes) <= bytes_max && log->threads_commits == 0 &&
           log->options->inline_us;
}

/* The turn makes commits at its end only: what would follow an operation of the thread that is
   taken up at its beginning waits until then. */
static bool waits_for_end(const struct log *log, const struct batch *batch)
{
    return !log->ends_turn && may_commit_here(log, batch, LOG_INLINE_BYTES);
}

/* Runs on the thread that writes the batch: the checksum of 64 MiB alone takes milliseconds, and
   copying as much into fresh memory ten times as long. */
static void sign_batch(struct disk_op *op)
{
    const struct log *log = op->owner;
    const struct late_body *late = log->commit_late;
    if (late->record)
        record_put_body(late->record, late->body);
    batch_sign((void *)(uintptr_t)op->data, op->len, log->commit_key);
}

static void submit(struct log *log, enum commit_step step, bool here)
{
    CHECK(log->step == COMMIT_IDLE && step != COMMIT_IDLE);
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
    log->commit_sum -= log->commit_sum / COMMITS_MEANT;
    log->commit_sum += log->bytes_written - log->bytes_synced;
    log->bytes_synced = log->bytes_written;
}

uint64_t log_commit_bytes(const struct log *log)
{
    return log->commit_sum / COMMITS_MEANT;
}

/*
 * Has the manifest prove that the log's last segment is in use: if its file were lost, nothing else
 * would show that batches are missing.
 */
static void report_last_segment(struct log *log)
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
    CHECK(batch->number > log->written && log->sealed_bytes >= bytes);
    log->sealed_bytes -= bytes;
    log->sealed_copies -= batch->copied_bytes;
    log->batches++;
    log->bytes_written += bytes;
    log->written = batch->number;
    log->written_segment = batch->segment;
    segments_note_filled(batch->segment, log->commit.offset + log->commit.len + log->commit.zeros);
    if (!log->options->buffered) {
        CHECK(batch->durable <= log->synced);
        log->synced = batch->number;
        log->proven = batch->durable;
        log->seq_mark = batch->seq_mark;
        count_sync(log);
    }
    log->written_mark = batch->seq_mark;
    if (batch->record_count)
        log->last_full = batch->number;
    log->last_commit_us = log->store->now_us;
    log_free_batch(log, batch);
    write_buffers_trim(&log->buffers, log->options->recent_bytes, log->written);
    report_last_segment(log);
    log->store->callbacks->durable(log->store->callbacks, log->written);
    log_start_next(log); /* last: it may fail the store, after which nothing becomes durable (S5) */
}

static void sync_done(struct log *log)
{
    CHECK(log->sync_number >= log->synced && log->sync_number <= log->written);
    log->synced = log->sync_number;
    if (log->sync_wanted <= log->synced)
        log->sync_wanted = log->sync_wanted_last;
    log->seq_mark = log->sync_mark;
    log->last_sync_us = log->store->now_us;
    count_sync(log);
    report_last_segment(log);
    log->store->callbacks->synced(log->store->callbacks, log->synced);
    log_start_next(log);
}

/* Decides who makes the next commits, after one of a batch that took so long. */
static void note_commit(struct log *log, int64_t took_us)
{
    if (took_us >= log->options->inline_us / 2)
        log->threads_commits = THREADS_COMMITS;
    else if (log->threads_commits > 0)
        log->threads_commits--;
}

static void committed(struct disk_op *op)
{
    struct log *log = op->owner;
    enum commit_step step = log->step;
    log->step = COMMIT_IDLE;
    if (step == COMMIT_BATCH)
        note_commit(log, op->took_us);
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
    CHECK(false); /* no operation was under way */
}

/* Gets the file that a commit writes to. False: tried again after LOG_REOPEN_US, or failed (S5). */
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
    CHECK(log->written_segment && log->written > log->synced);
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
    CHECK(segment->state == SEGMENT_READY && segment->batch_first > 0);
    struct segment_head head = {
        .version = FORMAT_VERSION,
        .id = log->store->id,
        .number = segment->number,
        .batch_first = segment->batch_first,
        .seq_mark = log->seq_next + SEQ_AHEAD,
        .number_next = segments_number_next(log->segments),
        .size_bytes = segment->size_bytes,
        .key = segment->key,
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

/*
 * How many zeros the commit writes behind `end`. The first small commit to a range of the file
 * writes zeros ahead, so that only it, and not each later one, changes the file's extents. Not in
 * buffered mode, where the page cache combines writes.
 */
static size_t zeros_behind(const struct log *log, const struct segment *segment, uint64_t end)
{
    uint64_t left = segment->size_bytes - end;
    CHECK(end <= segment->size_bytes);
    if (end <= segment->filled || log->options->buffered || segments_in_bulk(log->segments))
        return 0;
    uint64_t most = log->options->zeros_bytes ? log->options->zeros_bytes : DISK_ZEROS_MAX;
    return (size_t)(left < most ? left : most);
}

static void start_batch(struct log *log, struct batch *batch)
{
    struct disk_file *file;
    if (waits_for_end(log, batch) || !manifest_has(log->store->manifest, batch->features) ||
        !commit_file(log, batch->segment, &file))
        return;
    CHECK(batch->number > log->written && batch->segment->state == SEGMENT_HEADED);
    CHECK(batch->offset % BLOCK == 0 && batch->offset >= BLOCK);
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
    log->commit_key = batch->segment->key;
    log->commit_late = &batch->late;
    log->commit.zeros = zeros_behind(log, batch->segment, batch->offset + log->commit.len);
    bool here = log->commit.zeros == 0 && may_commit_here(log, batch, log->inline_left);
    if (here)
        log->inline_left -= batch_bytes(batch->payload_bytes);
    CHECK(!here || log->ends_turn);
    submit(log, COMMIT_BATCH, here);
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

/* When must an empty batch prove that the last batch with records is durable? False: not needed. */
static bool proof_due_at(const struct log *log, int64_t *out_at_us)
{
    bool busy = log->open || log->step != COMMIT_IDLE || !list_empty(&log->sealed);
    if (busy || log->store->closing || log->options->buffered || log->last_full <= log->proven)
        return false;
    *out_at_us = log->last_commit_us + PROOF_AGE_US;
    return true;
}

/* When must an empty batch record the time? False: not needed. That a job became due has no event
   of its own. */
static bool clock_due_at(const struct log *log, int64_t *out_at_us)
{
    bool busy = log->open || log->step != COMMIT_IDLE || !list_empty(&log->sealed);
    if (busy || segments_full(log->segments) || log->clock_wanted_us <= log->clock_us)
        return false;
    *out_at_us = log->clock_requested_us + PROOF_AGE_US;
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

/* Proves the last batch by an empty one, or on a full disk, without a block for it, by the
   manifest. */
static void prove(struct log *log)
{
    if (segments_full(log->segments) || segments_room(log->segments) < BLOCK) {
        log->proven = log->last_full;
        manifest_write(log->store->manifest);
        return;
    }
    log_open_batch(log, 0);
    log->open->wanted = true;
}

void log_write_clock(struct log *log)
{
    int64_t clock_us;
    if (!log->store->failed && clock_due_at(log, &clock_us) &&
        segments_room(log->segments) >= BLOCK) {
        log_open_batch(log, 0);
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
        log_seal(log);
    CHECK(!log->ends_turn); /* `done` of a commit does not call this */
    log->ends_turn = true;
    log_start_next(log);
    log->ends_turn = false;
}

int64_t log_next_us(const struct log *log)
{
    int64_t at_us = INT64_MAX;
    int64_t next_us = INT64_MAX;
    if (log->store->failed || log->step != COMMIT_IDLE)
        return INT64_MAX; /* the end of the disk operation starts a turn */
    /*
     * A sealed batch needs no turn of its own. Usually its write has begun already: in the turn
     * that sealed it, or in which the last commit ended. If it waits for another operation of the
     * disk (its segment is being made, the manifest is being written), the end of that starts a
     * turn. If it waits for a descriptor, the next attempt is at reopen_at_us.
     */
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
