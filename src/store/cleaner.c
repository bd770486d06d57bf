#include "store/cleaner.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/check.h"
#include "base/mem.h"
#include "store/internal.h"
#include "store/record.h"
#include "store/scan.h"
#include "store/spill.h"

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
    IDLE_PAUSE_US = 2 * 1000 * 1000,     /* between two segments that nothing but time speaks for */
    FOLLOWER_BYTES = 1024 * 1024 * 1024, /* if options do not say */
    CHECKPOINT_BYTES = 256 * 1024 * 1024, /* the same */
};

enum clean_step {
    CLEAN_IDLE,
    CLEAN_WALK,     /* relocating the live jobs of the oldest segment */
    CLEAN_SPILL,    /* far jobs go to slices */
    CLEAN_UNREAD,   /* relocating those whose records cannot be read */
    CLEAN_SLICES,   /* telling again what was told of slices */
    CLEAN_REST,     /* relocating what has no place of its own */
    CLEAN_DURABLE,  /* waiting for the batch with the last of them */
    CLEAN_MANIFEST, /* waiting for the manifest that no longer names it */
    CLEAN_REMOVE,   /* waiting for the file to go */
};

struct cleaner {
    struct store *store;
    const struct store_options *options;
    struct disk *disk;
    struct segments *segments;
    struct log *log;
    enum clean_step step;
    struct segment *segment; /* the oldest, or NULL: idle */
    uint64_t offset;         /* CLEAN_WALK: the batch being relocated, or the next */
    uint64_t batch_next;     /* its number */
    const char *batch;       /* it, in the scan's window; NULL: not read yet … */
    struct batch_walk walk;  /* … and its records that are still to be relocated */
    bool seeking;            /* the batch at `offset` is damaged: looking for the next good one */
    unsigned tries;          /* how often it could not be read … */
    int64_t retry_at_us;     /* … and when it is tried again */
    struct disk_file *fresh; /* the same segment past the page cache, while retrying */
    bool reading;            /* the disk's threads bring the scan's window … */
    struct disk_op read;     /* … and say of it, … */
    enum err read_err;       /* … when it failed, why */
    uint64_t lost_jobs;      /* so many had no body that can be read */
    uint32_t cursor;         /* CLEAN_UNREAD, CLEAN_REST */
    uint64_t batch_last;     /* CLEAN_DURABLE: wait for this one */
    uint64_t round_end;      /* full: batches before this are of the round under way … */
    uint64_t round_dead;     /* … and when it was over, so many bytes were still not alive */
    bool round_over;
    struct spill *spill;
    bool spilled;             /* far jobs of the segment have gone, or cannot: none is offered */
    uint64_t checkpoint_from; /* bytes written: below, the log is not cleaned for far jobs' sake */
    uint64_t copied_from;     /* needed bytes of the segment when its cleaning began */
    uint64_t idle_end;   /* batches up to this one may go for far jobs' sake all the same, … */
    uint64_t idle_bytes; /* … up to a later one when so many bytes have come, … */
    int64_t idle_us;     /* … a segment at this time, at the earliest */
    struct scan scan;
    struct disk_op remove;
    char aside_name[DISK_NAME_MAX];
    uint64_t checkpoints, relocated_jobs;
};

/* Bytes of the segments that can be cleaned: all but the last. Asked each turn: no walk. */
static uint64_t log_bytes(const struct cleaner *cleaner)
{
    return segments_bytes(cleaner->segments) - segments_unused(cleaner->segments);
}

/*
 * What cleaning all of the log would free, as far as can be told: it is packed as tight as it gets
 * when every segment ends with half a record's worth of waste.
 */
static uint64_t gain_bytes(const struct cleaner *cleaner)
{
    uint64_t segment_bytes = cleaner->options->segment_bytes;
    uint64_t live_jobs = segments_live_jobs(cleaner->segments);
    uint64_t live_bytes = segments_live_bytes(cleaner->segments);
    uint64_t record = live_jobs ? live_bytes / live_jobs : 0;
    uint64_t waste = BLOCK + (record < segment_bytes / 2 ? record / 2 : segment_bytes / 4);
    uint64_t told_bytes = segments_told_bytes(cleaner->segments);
    uint64_t live = live_bytes + told_bytes;
    live += live / 32; /* headers, padding */
    uint64_t packed = (live / (segment_bytes - waste) + 1) * segment_bytes;
    uint64_t used = log_bytes(cleaner);
    return used > packed ? used - packed : 0;
}

/* Of records that must be in the log: of live jobs, and of what is so of slices. */
static uint64_t needed_bytes(const struct cleaner *cleaner)
{
    return segments_live_bytes(cleaner->segments) + segments_told_bytes(cleaner->segments);
}

/* Bytes of the log that hold no such record: what has died, waste and padding. */
static uint64_t dead_bytes(const struct cleaner *cleaner)
{
    uint64_t used = log_bytes(cleaner) + segments_tail(cleaner->segments)->end;
    uint64_t live_bytes = needed_bytes(cleaner);
    return used > live_bytes ? used - live_bytes : 0;
}

/* What relocating what is needed of a segment takes: a batch for each turn or full batch, all
   padded. */
static uint64_t relocate_bytes(const struct segment *segment)
{
    uint64_t live_bytes = segment->live_bytes + segment->told_bytes;
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
static bool worth_it_full(struct cleaner *cleaner, const struct segment *oldest)
{
    uint64_t segment_bytes = cleaner->options->segment_bytes;
    uint64_t need = relocate_bytes(oldest);
    uint64_t slack = segment_bytes / 4 + 4 * BLOCK; /* for ends while the cleaner is at work */
    bool low = segments_lack(cleaner->segments, need + slack, oldest->record_max) > 0;
    uint64_t lack = low ? segments_lack(cleaner->segments, need, oldest->record_max) : 0;
    uint64_t step = low ? segment_bytes / 8 : segment_bytes / 2;
    uint64_t dead = dead_bytes(cleaner);
    segments_cleaner_wants(cleaner->segments, lack);
    if (lack || (!low && gain_bytes(cleaner) < step))
        return false;
    if (oldest->batch_first >= cleaner->round_end) {
        if (!cleaner->round_over && cleaner->round_end) {
            cleaner->round_over = true;
            cleaner->round_dead = dead;
        }
        if (cleaner->round_over && dead < cleaner->round_dead + step)
            return false;
        cleaner->round_over = false;
        cleaner->round_end = log_batch(cleaner->log) + 1;
    }
    return true;
}

/* Written, or to be written. */
static uint64_t bytes_appended(const struct cleaner *cleaner)
{
    const struct segment *tail = segments_tail(cleaner->segments);
    return log_bytes_written(cleaner->log) + log_backlog_bytes(cleaner->log) +
           log_open_bytes(cleaner->log, tail);
}

static uint64_t checkpoint_limit(const struct cleaner *cleaner)
{
    uint64_t bytes = cleaner->options->checkpoint_bytes;
    return bytes ? bytes : CHECKPOINT_BYTES;
}

/* Is the log large, and could far jobs leave it? */
static bool wants_checkpoint(const struct cleaner *cleaner)
{
    return cleaner->options->horizon_us > 0 && cleaner->store->callbacks->spill &&
           log_bytes(cleaner) > checkpoint_limit(cleaner) && !segments_full(cleaner->segments);
}

/*
 * Far jobs are to leave the log when nothing more is written, too: slowly, and once. A job that a
 * round has left in the log does not become far later, so the next round comes when half as much
 * that is new has come since this one began.
 */
static bool in_idle_round(const struct cleaner *cleaner, const struct segment *oldest)
{
    return oldest->batch_first <= cleaner->idle_end ||
           log_new_bytes(cleaner->log) >= cleaner->idle_bytes;
}

/*
 * What is relocated at such a cleaning is written once more: so it goes no faster than new bytes
 * come, or than time passes.
 */
static bool worth_a_checkpoint(struct cleaner *cleaner, const struct segment *oldest)
{
    if (!wants_checkpoint(cleaner))
        return false;
    if (log_bytes_written(cleaner->log) >= cleaner->checkpoint_from)
        return true;
    if (cleaner->store->now_us < cleaner->idle_us || !in_idle_round(cleaner, oldest))
        return false;
    if (oldest->batch_first > cleaner->idle_end) {
        cleaner->idle_end = log_batch(cleaner->log);
        cleaner->idle_bytes = log_new_bytes(cleaner->log) + log_bytes(cleaner) / 2;
    }
    return true;
}

/* When an idle store has something to clean. */
static int64_t idle_next_us(const struct cleaner *cleaner)
{
    const struct segment *oldest = segments_first(cleaner->segments);
    const struct segment *next = oldest ? segments_after(cleaner->segments, oldest) : NULL;
    bool wants = next && next->state == SEGMENT_HEADED && !cleaner->store->failed &&
                 wants_checkpoint(cleaner) && in_idle_round(cleaner, oldest);
    return wants ? cleaner->idle_us : INT64_MAX;
}

/*
 * Is cleaning the oldest segment worth it? As long as the log is larger than twice what is needed,
 * a pass over all of it writes at most as much as it frees. So does cleaning one without live jobs,
 * unless it is full of what is told of slices.
 */
static bool worth_it(struct cleaner *cleaner, const struct segment *oldest)
{
    uint64_t segment_bytes = cleaner->options->segment_bytes;
    if (oldest->live_jobs == 0 && oldest->told_bytes < oldest->size_bytes / 2)
        return true;
    if (segments_full(cleaner->segments))
        return worth_it_full(cleaner, oldest);
    uint64_t used = log_bytes(cleaner) + segment_bytes;
    if (worth_a_checkpoint(cleaner, oldest))
        return true;
    return used > SEGMENTS_LEAST * segment_bytes &&
           used > 2 * needed_bytes(cleaner) + SLACK_SEGMENTS * segment_bytes;
}

/*
 * May batches up to this one go? Followers keep them, up to a limit; on a full disk not at all,
 * because what is kept for them is refused to clients.
 */
static bool let_go(struct cleaner *cleaner, uint64_t batch)
{
    struct followers *followers = cleaner->store->followers;
    uint64_t limit = cleaner->options->follower_bytes;
    if (!followers_need(followers, batch))
        return true;
    if (!segments_full(cleaner->segments) && log_bytes(cleaner) <= (limit ? limit : FOLLOWER_BYTES))
        return false;
    followers_drop(followers, batch);
    return true;
}

/* ---- reading ---- */

static void read_ended(struct disk_op *op)
{
    struct cleaner *cleaner = op->owner;
    CHECK(cleaner->reading && cleaner->step == CLEAN_WALK);
    cleaner->reading = false;
    segments_read_end(cleaner->segments, cleaner->segment, op);
    if (op->fresh)
        cleaner->fresh = op->file;
    cleaner->read_err = op->err;
    if (!op->err)
        scan_brought(&cleaner->scan, op->got);
}

/* At once what is in memory; else, and past the page cache, the disk's threads read. */
static enum err bring(struct scan *scan, size_t want, size_t *out_len)
{
    struct cleaner *cleaner = scan->owner;
    struct segment *segment = cleaner->segment;
    enum err err = cleaner->read_err;
    bool fresh = cleaner->tries > 0;
    cleaner->read_err = OK;
    if (err)
        return err; /* of the read that has just ended */
    err = fresh ? ERR_AGAIN
                : segments_read_cached(cleaner->segments, segment, scan->start, scan->window, want,
                                       out_len);
    if (err != ERR_AGAIN)
        return err;
    cleaner->reading = true;
    cleaner->read = (struct disk_op){
        .file = cleaner->fresh,
        .fresh = fresh,
        .into = scan->window,
        .len = want,
        .offset = scan->start,
        .done = read_ended,
        .owner = cleaner,
    };
    segments_read(cleaner->segments, segment, &cleaner->read);
    return ERR_AGAIN;
}

/* ---- beginning ---- */

/* From the segment's beginning on. */
static void begin_walk(struct cleaner *cleaner)
{
    const struct segment *oldest = cleaner->segment;
    cleaner->offset = BLOCK;
    cleaner->batch_next = oldest->batch_first;
    cleaner->batch = NULL;
    cleaner->seeking = false;
    cleaner->tries = 0;
    cleaner->retry_at_us = INT64_MIN;
    cleaner->lost_jobs = 0;
    cleaner->cursor = 0;
    cleaner->step = CLEAN_WALK;
    scan_init(&cleaner->scan, cleaner->disk, NULL, oldest->size_bytes, SLICE_BYTES);
    cleaner->scan.bring = bring;
    cleaner->scan.owner = cleaner;
    cleaner->scan.number = oldest->number;
    cleaner->scan.tag = cleaner->store->tag;
}

static void start(struct cleaner *cleaner)
{
    struct segment *oldest = segments_first(cleaner->segments);
    struct segment *next = oldest ? segments_after(cleaner->segments, oldest) : NULL;
    if (!next || next->state != SEGMENT_HEADED || !worth_it(cleaner, oldest))
        return;
    if (cleaner->store->now_us >= cleaner->idle_us)
        cleaner->idle_us = cleaner->store->now_us + IDLE_PAUSE_US;
    if (!let_go(cleaner, next->batch_first - 1) ||
        !history_let_go(cleaner->store->history, next->batch_first - 1))
        return;
    cleaner->segment = oldest;
    cleaner->spilled = !spill_begin(cleaner->spill, oldest);
    cleaner->copied_from = oldest->live_bytes + oldest->told_bytes;
    begin_walk(cleaner);
}

/* ---- what cannot be read ---- */

static void close_fresh(struct cleaner *cleaner)
{
    if (cleaner->fresh)
        cleaner->disk->verbs->close(cleaner->disk, cleaner->fresh);
    cleaner->fresh = NULL;
}

/*
 * Looks for a batch at `offset`. ERR_AGAIN while cleaner::reading: that is to be asked again when
 * the disk has read it. After a failure it is read past the page cache: what the disk really has.
 */
static enum err look(struct cleaner *cleaner, enum format_verdict *out_verdict,
                     struct batch_head *out_head, const char **out_batch)
{
    *out_verdict = FORMAT_BAD;
    cleaner->scan.narrow = cleaner->tries > 0 || cleaner->seeking;
    return scan_batch(&cleaner->scan, cleaner->offset, out_verdict, out_head, out_batch);
}

static void tell_unread(struct cleaner *cleaner, enum err err)
{
    struct store_error error;
    char name[DISK_NAME_MAX];
    segment_name(cleaner->segment->number, name);
    store_error_set(&error, name, cleaner->offset, "batch %" PRIu64 ": %s", cleaner->batch_next,
                    err ? err_text(err) : "the checksum does not match");
    cleaner->store->callbacks->notice(cleaner->store->callbacks, STORE_UNREAD, &error);
}

/* The batch at `offset` could not be read, or (OK) is not what it must be. */
static void put_off(struct cleaner *cleaner, enum err err)
{
    unsigned tries_max = !err                               ? CHECK_TRIES
                         : segments_full(cleaner->segments) ? READ_TRIES_FULL
                                                            : READ_TRIES;
    scan_forget(&cleaner->scan);
    cleaner->batch = NULL;
    if (err == ERR_AGAIN) { /* no descriptor: that says nothing about the segment */
        cleaner->retry_at_us = cleaner->store->now_us + TRY_AGAIN_US;
        return;
    }
    if (cleaner->tries == 0)
        tell_unread(cleaner, err);
    if (++cleaner->tries < tries_max) {
        cleaner->retry_at_us =
            cleaner->store->now_us + ((int64_t)TRY_AGAIN_US << (cleaner->tries - 1));
        return;
    }
    close_fresh(cleaner);
    cleaner->tries = 0;
    cleaner->seeking = true;
    segments_damaged(cleaner->segments, cleaner->segment, cleaner->offset,
                     err ? "a batch cannot be read" : "a batch does not match its checksum");
    cleaner->offset += BLOCK;
}

/* Is there a good batch at `offset`? One block on each call. False: it is not known yet. */
static bool seek_batch(struct cleaner *cleaner, uint64_t batch_end)
{
    enum format_verdict verdict;
    struct batch_head head;
    const char *batch;
    if (cleaner->offset >= cleaner->segment->end) {
        cleaner->batch_next = batch_end;
        return true;
    }
    enum err err = look(cleaner, &verdict, &head, &batch);
    if (cleaner->reading)
        return false;
    if (err == ERR_AGAIN) {
        put_off(cleaner, err);
        return false;
    }
    bool good = !err && verdict == FORMAT_GOOD && head.number > cleaner->batch_next &&
                head.number < batch_end;
    cleaner->seeking = !good;
    if (good)
        cleaner->batch_next = head.number;
    else
        cleaner->offset += BLOCK;
    return true;
}

/* ---- relocating ---- */

/* Brings the next batch into the window. False: it is put off, or being read. */
static bool read_batch(struct cleaner *cleaner)
{
    enum format_verdict verdict;
    struct batch_head head;
    enum err err = look(cleaner, &verdict, &head, &cleaner->batch);
    if (cleaner->reading)
        return false;
    if (err || verdict != FORMAT_GOOD || head.number != cleaner->batch_next) {
        put_off(cleaner, err);
        return false;
    }
    close_fresh(cleaner);
    cleaner->tries = 0;
    batch_walk_init(&cleaner->walk, cleaner->batch, head.payload_bytes);
    return true;
}

/*
 * A MOVE of a job whose record is in a slice: it says of the job what that does not. Only if no
 * later one does: what is appended again for the first of a job is the last word for all.
 */
static void relocate_placed(struct cleaner *cleaner)
{
    const struct event *event = &cleaner->walk.record.event;
    const struct slices *slices = cleaner->store->slices;
    if (!slices_move_lives(slices, event->record.where, cleaner->segment->number))
        return;
    log_relocating(cleaner->log, RELOCATING);
    cleaner->store->callbacks->relocate(cleaner->store->callbacks, event, event->record.where);
    log_relocating(cleaner->log, RELOCATING_NOTHING);
}

static void relocate_record(struct cleaner *cleaner)
{
    const struct record *record = &cleaner->walk.record;
    uint64_t where = where_of(cleaner->segment->number, cleaner->offset + cleaner->walk.record_at);
    uint64_t records = log_records(cleaner->log);
    bool lost = !record_body_good(record); /* it stays so, wherever it goes */
    if (lost && record->event.kind == EVENT_NOTE)
        return; /* CLEAN_UNREAD sees to it */
    struct stored place = {.where = where, .bytes = (uint32_t)record->len};
    if (!lost && !cleaner->spilled && record->event.kind == EVENT_JOB &&
        spill_offer(cleaner->spill, &record->event, place))
        return;
    log_relocating(cleaner->log, lost ? RELOCATING_BODY_LOST : RELOCATING);
    cleaner->store->callbacks->relocate(cleaner->store->callbacks, &record->event, where);
    log_relocating(cleaner->log, RELOCATING_NOTHING);
    cleaner->relocated_jobs += log_records(cleaner->log) - records;
}

/* Offers the next jobs of the batch to the callbacks. */
static void relocate_some(struct cleaner *cleaner, unsigned *budget)
{
    struct batch_walk *walk = &cleaner->walk;
    enum err err = OK;
    for (; *budget > 0 && (err = batch_walk_next(walk)) == OK; --*budget)
        if (event_has_place(&walk->record.event))
            relocate_record(cleaner);
        else if (walk->record.event.kind == EVENT_MOVE && walk->record.event.record.where)
            relocate_placed(cleaner);
    if (err == OK)
        return;
    if (err == ERR_CORRUPT) /* whole, and not a batch of ours: a bug, or sabotage */
        segments_damaged(cleaner->segments, cleaner->segment, cleaner->offset + walk->at,
                         "a record is whole but cannot be");
    cleaner->offset += batch_bytes(walk->end - BATCH_HEAD);
    cleaner->batch_next++;
    cleaner->batch = NULL;
}

static void relocate_unread(struct cleaner *cleaner)
{
    uint64_t first = (uint64_t)cleaner->segment->number << 32;
    uint64_t lost = log_bodies_lost(cleaner->log);
    log_relocating(cleaner->log, RELOCATING_BODY_LOST);
    bool more = cleaner->store->callbacks->relocate_unread(
        cleaner->store->callbacks, first, first + (UINT64_C(1) << 32), &cleaner->cursor);
    log_relocating(cleaner->log, RELOCATING_NOTHING);
    cleaner->lost_jobs += log_bodies_lost(cleaner->log) - lost;
    if (more)
        return;
    cleaner->cursor = 0;
    cleaner->step = CLEAN_SLICES;
}

static void relocate_rest(struct cleaner *cleaner);

/* What batches of the segment told of slices must be in the log without it. */
static void tell_slices(struct cleaner *cleaner)
{
    uint64_t batch = segments_after(cleaner->segments, cleaner->segment)->batch_first;
    if (slices_tell_again(cleaner->store->slices, batch))
        return;
    cleaner->step = CLEAN_REST;
    relocate_rest(cleaner);
}

/* All that can be read and is live has been relocated, or has gone to slices. */
static void begin_rest(struct cleaner *cleaner)
{
    cleaner->step = cleaner->segment->live_jobs > 0 ? CLEAN_UNREAD : CLEAN_SLICES;
    if (cleaner->step == CLEAN_SLICES)
        tell_slices(cleaner); /* it is little, mostly: one batch takes all */
}

/* Far jobs go to slices. What has changed meanwhile is relocated: another walk finds it. */
static void spill(struct cleaner *cleaner)
{
    bool left;
    if (!spill_turn(cleaner->spill, &left))
        return;
    if (left && cleaner->segment->live_jobs > 0)
        begin_walk(cleaner);
    else
        begin_rest(cleaner);
}

static void relocate_rest(struct cleaner *cleaner)
{
    struct store_callbacks *callbacks = cleaner->store->callbacks;
    uint64_t first = (uint64_t)cleaner->segment->number << 32;
    log_relocating(cleaner->log, RELOCATING);
    bool more =
        callbacks->relocate_rest(callbacks, first, first + (UINT64_C(1) << 32), &cleaner->cursor);
    log_relocating(cleaner->log, RELOCATING_NOTHING);
    if (more)
        return;
    uint64_t departed = spill_departed_bytes(cleaner->spill);
    uint64_t copied = cleaner->copied_from > departed ? cleaner->copied_from - departed : 0;
    cleaner->checkpoint_from = bytes_appended(cleaner) + copied;
    cleaner->idle_us = cleaner->store->now_us + IDLE_PAUSE_US;
    /* Even if nothing was relocated: that the dead have died must be durable before they go. */
    cleaner->batch_last = log_batch(cleaner->log);
    log_want_open(cleaner->log);
    cleaner->step = CLEAN_DURABLE;
}

/*
 * A slice of the walk: each step of the loop is one batch looked at, one block looked at, or some
 * of a batch's records relocated. A batch of one huge record is read in one piece all the same.
 */
static void walk(struct cleaner *cleaner)
{
    CHECK(!cleaner->reading); /* into the window */
    struct segment *oldest = cleaner->segment;
    uint64_t batch_end = segments_after(cleaner->segments, oldest)->batch_first;
    uint64_t limit = cleaner->offset + SLICE_BYTES;
    unsigned budget = SLICE_RECORDS;
    while ((oldest->live_jobs > 0 || oldest->told_moves > 0) && cleaner->batch_next < batch_end) {
        if (cleaner->offset >= limit || budget == 0)
            return; /* go on in the next turn */
        if (cleaner->batch)
            relocate_some(cleaner, &budget);
        else if (cleaner->seeking ? !seek_batch(cleaner, batch_end) : !read_batch(cleaner))
            return;
    }
    close_fresh(cleaner);
    scan_fini(&cleaner->scan);
    cleaner->batch = NULL;
    cleaner->read_err = OK;
    if (!cleaner->spilled) {
        cleaner->spilled = true;
        cleaner->step = CLEAN_SPILL;
        spill(cleaner); /* there may be nothing to do */
    } else {
        begin_rest(cleaner);
    }
}

/* ---- the end of the segment ---- */

static bool keeps_file(const struct cleaner *cleaner)
{
    return cleaner->lost_jobs > 0 || cleaner->segment->live_jobs > 0;
}

static void tell_set_aside(struct cleaner *cleaner)
{
    struct store_error error;
    store_error_set(&error, cleaner->aside_name, 0,
                    "%" PRIu64
                    " jobs lost their bodies and will be buried, not delivered; the rest of "
                    "the segment was relocated",
                    cleaner->lost_jobs);
    cleaner->store->callbacks->notice(cleaner->store->callbacks, STORE_SET_ASIDE, &error);
}

static void removed(struct disk_op *op)
{
    struct cleaner *cleaner = op->owner;
    CHECK(cleaner->step == CLEAN_REMOVE && op == &cleaner->remove);
    cleaner->step = CLEAN_IDLE;
    if (op->err) {
        cleaner->segment = NULL;
        store_fail(cleaner->store, op->sys_errno);
        return;
    }
    if (op->verb == DISK_RENAME) {
        segments_set_aside(cleaner->segments, 1);
        tell_set_aside(cleaner);
    }
    segments_drop_first(cleaner->segments);
    cleaner->segment = NULL;
    cleaner->checkpoints++;
}

static void forget(struct cleaner *cleaner)
{
    manifest_forget(cleaner->store->manifest,
                    segments_after(cleaner->segments, cleaner->segment)->batch_first);

    cleaner->step = CLEAN_MANIFEST;
}

static void remove_segment(struct cleaner *cleaner)
{
    cleaner->remove = (struct disk_op){
        .verb = DISK_REMOVE, .lane = LANE_BACKGROUND, .done = removed, .owner = cleaner};
    segment_name(cleaner->segment->number, cleaner->remove.name);
    if (keeps_file(cleaner)) {
        aside_name(cleaner->segment->number, cleaner->aside_name);
        cleaner->remove.verb = DISK_RENAME;
        cleaner->remove.data = cleaner->aside_name;
    }
    cleaner->step = CLEAN_REMOVE;
    cleaner->disk->verbs->submit(cleaner->disk, &cleaner->remove);
}

/* ---- the turn ---- */

static void work(struct cleaner *cleaner)
{
    switch (cleaner->step) {
    case CLEAN_WALK: walk(cleaner); return;
    case CLEAN_SPILL: spill(cleaner); return;
    case CLEAN_UNREAD: relocate_unread(cleaner); return;
    case CLEAN_SLICES: tell_slices(cleaner); return;
    case CLEAN_REST: relocate_rest(cleaner); return;
    case CLEAN_IDLE:
    case CLEAN_DURABLE:
    case CLEAN_MANIFEST:
    case CLEAN_REMOVE: return;
    }
}

void cleaner_turn(struct cleaner *cleaner)
{
    if (cleaner->store->failed || cleaner->store->closing)
        return;
    switch (cleaner->step) {
    case CLEAN_IDLE: start(cleaner); break;
    case CLEAN_WALK:
    case CLEAN_SPILL:
    case CLEAN_UNREAD:
    case CLEAN_SLICES:
    case CLEAN_REST:
        if (cleaner_next_us(cleaner) <= cleaner->store->now_us)
            work(cleaner);
        break;
    case CLEAN_DURABLE:
        if (log_synced(cleaner->log) >= cleaner->batch_last)
            forget(cleaner);
        else
            log_want_sync(cleaner->log); /* buffered mode: nobody else may ask for it */
        break;
    case CLEAN_MANIFEST:
        if (manifest_forgotten(cleaner->store->manifest) &&
            cleaner->segment->pins == 0) /* bodies that were asked for before they moved */
            remove_segment(cleaner);
        break;
    case CLEAN_REMOVE: break;
    }
}

int64_t cleaner_next_us(const struct cleaner *cleaner)
{
    if (cleaner->step == CLEAN_IDLE)
        return idle_next_us(cleaner);
    bool works = cleaner->step > CLEAN_IDLE && cleaner->step < CLEAN_DURABLE;
    if (!works || cleaner->reading || cleaner->store->failed ||
        log_backlog_bytes(cleaner->log) > AHEAD_BYTES)
        return INT64_MAX; /* the disk is busy enough: its next end makes a turn */
    if (cleaner->step == CLEAN_SPILL)
        return spill_next_us(cleaner->spill);
    return cleaner->retry_at_us > cleaner->store->now_us ? cleaner->retry_at_us
                                                         : cleaner->store->now_us;
}

bool cleaner_idle(const struct cleaner *cleaner)
{
    return cleaner->step == CLEAN_IDLE;
}

bool cleaner_gives_room(const struct cleaner *cleaner, uint64_t batch)
{
    bool waits = cleaner->step == CLEAN_DURABLE && batch <= cleaner->batch_last;
    return (cleaner->step != CLEAN_IDLE && !waits) || segments_making(cleaner->segments);
}

bool cleaner_held_up(const struct cleaner *cleaner)
{
    return spill_held_up(cleaner->spill);
}

bool cleaner_removing(const struct cleaner *cleaner)
{
    return cleaner->step == CLEAN_REMOVE;
}

bool cleaner_busy(const struct cleaner *cleaner)
{
    return cleaner->reading || cleaner->step == CLEAN_REMOVE || spill_busy(cleaner->spill);
}

/* ---- life ---- */

struct cleaner *cleaner_new(struct store *store)
{
    struct cleaner *cleaner = mem_zalloc(sizeof(*cleaner));
    cleaner->store = store;
    cleaner->options = &store->options;
    cleaner->disk = store->disk;
    cleaner->segments = store->segments;
    cleaner->log = store->log;
    cleaner->spill = spill_new(store);
    return cleaner;
}

void cleaner_free(struct cleaner *cleaner)
{
    if (!cleaner)
        return;
    CHECK(!cleaner_busy(cleaner));
    close_fresh(cleaner);
    scan_fini(&cleaner->scan);
    spill_free(cleaner->spill);
    mem_free(cleaner);
}

void cleaner_stats(const struct cleaner *cleaner, struct store_stats *out_stats)
{
    out_stats->checkpoints = cleaner->checkpoints;
    out_stats->relocated_jobs = cleaner->relocated_jobs;
    out_stats->spilled_jobs = spill_departed_jobs(cleaner->spill);
}

void cleaner_valid(const struct cleaner *cleaner)
{
    const struct segment *oldest = cleaner->segment;
    bool walks = cleaner->step == CLEAN_WALK;
    CHECK((cleaner->step == CLEAN_IDLE) == (oldest == NULL));
    CHECK(!cleaner->batch || walks);
    CHECK(!cleaner->fresh || (walks && cleaner->tries > 0));
    CHECK(!cleaner->reading || (walks && !cleaner->batch && oldest->reading > 0));
    CHECK(!cleaner->reading || cleaner->read.into == cleaner->scan.window);
    CHECK(!cleaner->read_err || (walks && !cleaner->reading));
    CHECK(walks == (cleaner->scan.window != NULL));
    CHECK(!cleaner->round_over || cleaner->round_end > 0);
    if (!oldest)
        return;
    const struct segment *next = segments_after(cleaner->segments, oldest);
    CHECK(oldest == segments_first(cleaner->segments) && oldest->state == SEGMENT_HEADED);
    CHECK(next && next->state == SEGMENT_HEADED); /* all of its batches are durable */
    CHECK(cleaner->offset >= BLOCK && cleaner->offset % BLOCK == 0);
    CHECK(cleaner->offset <= oldest->end);
    CHECK(cleaner->batch_next >= oldest->batch_first && cleaner->batch_next <= next->batch_first);
    CHECK(!cleaner->batch || cleaner->walk.batch == cleaner->batch);
    /* S4: nothing of it lives, or it is kept under another name; all else is durable elsewhere. */
    CHECK(cleaner->step < CLEAN_DURABLE || oldest->live_jobs == 0 || oldest->damaged);
    CHECK(cleaner->step < CLEAN_MANIFEST || log_synced(cleaner->log) >= cleaner->batch_last);
    CHECK(cleaner->step != CLEAN_REMOVE || manifest_forgotten(cleaner->store->manifest));
}
