#include "store/log/cleaner.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/check.h"
#include "base/mem.h"
#include "store/log/cleaner_parts.h"

enum {
    STEP_RECORDS = 256,            /* records per step, up to 1 µs each */
    AHEAD_BYTES = 4 * 1024 * 1024, /* sealed and not written yet: the disk is busy enough, … */
    AHEAD_COPIES = BATCH_FULL,  /* … or of copies: what clients wait for is written after them */
    IDLE_PAUSE_US = 500 * 1000, /* the least pause between two segments cleaned while idle, … */
    IDLE_TIMES = 9,           /* … or 9 times what cleaning the first one took: 10 % of a core */
    JOB_NS = 700,             /* estimated time of a step for each job */
    PHASES = 2,               /* a job that goes to a slice is handled twice: walk and depart() */
    TURN_JOBS = 2048,         /* a turn begins no step after this many jobs (some 1.5 ms), … */
    STEP_JOBS = 128,          /* … each step counting as at least this many, … */
    TURN_COPIES = 512 * 1024, /* … nor after this many copied bytes, … */
    TURN_US = 2000,           /* … nor after this time, … */
    STEP_US = 250,            /* … nor after the estimate for the backlog: this time, and … */
    BYTES_A_US = 400,         /* … one µs for each 400 bytes */
};

/* ---- beginning ---- */

/* Starts at the segment's beginning. */
static void begin_walk(struct cleaner *cleaner)
{
    const struct segment *oldest = cleaner->segment;
    cleaner->reader.offset = BLOCK;
    cleaner->reader.batch_next = oldest->batch_first;
    cleaner->reader.seeking = false;
    cleaner->reader.tries = 0;
    cleaner->reader.retry_at_us = INT64_MIN;
    cleaner->lost_jobs = 0;
    cleaner->cursor = 0;
    cleaner->left = false;
    cleaner->step = CLEAN_WALK;
    cleaner_open_scan(cleaner);
}

static void start(struct cleaner *cleaner)
{
    struct segment *oldest = segments_first(cleaner->segments);
    struct segment *next = oldest ? segments_after(cleaner->segments, oldest) : NULL;
    if (!next || next->state != SEGMENT_HEADED || !cleaner_worth_it(cleaner, oldest))
        return;
    if (cleaner->store->now_us >= cleaner->pace.idle_us)
        cleaner->pace.idle_us = cleaner->store->now_us + IDLE_PAUSE_US;
    cleaner->segment_jobs = 0;
    if (!cleaner_let_go(cleaner, next->batch_first - 1) ||
        !history_let_go(cleaner->store->history, next->batch_first - 1))
        return;
    cleaner->segment = oldest;
    cleaner->spilled = !spill_begin(cleaner->spill, oldest);
    cleaner->copied_from = oldest->live_bytes + oldest->slice_log_bytes;
    begin_walk(cleaner);
}

/* ---- relocating ---- */

/*
 * Relocates a MOVE of a job whose record is in a slice, if it is the job's newest. The core appends
 * the job's present state, so older MOVEs of the job are not needed any more.
 */
static void relocate_placed(struct cleaner *cleaner)
{
    const struct event *event = &cleaner->reader.walk.record.event;
    const struct slices *slices = cleaner->store->slices;
    if (!slices_move_lives(slices, event->record.where, cleaner->segment->number))
        return;
    log_relocating(cleaner->log, RELOCATING);
    cleaner->store->callbacks->relocate(cleaner->store->callbacks, event, event->record.where);
    log_relocating(cleaner->log, RELOCATING_NOTHING);
}

/*
 * Has the record of a walked batch appended again; `where` is its place. A large one is alone in
 * its batch, so the window that it was read into is lent with it: the log takes it over rather than
 * copy megabytes in the turn.
 */
static void relocate(struct cleaner *cleaner, struct event *event, uint64_t where)
{
    struct scan *scan = &cleaner->reader.scan;
    struct buf memory = {.at = scan->window, .len = scan->len, .cap = scan->cap};
    bool last = cleaner->reader.walk.at ==
                cleaner->reader.walk.end; /* of its batch: nothing borrows any more */
    if (last && event->body.len > SPILL_WINDOW / BATCH_FULL * cleaner->options->batch_full)
        event->memory = &memory;
    cleaner->store->callbacks->relocate(cleaner->store->callbacks, event, where);
    event->memory = NULL;
    if (!memory.at)
        scan_renew_window(scan, CLEANER_TURN_BYTES);
}

static void relocate_record(struct cleaner *cleaner)
{
    struct record *record = &cleaner->reader.walk.record;
    uint64_t where =
        where_of(cleaner->segment->number, cleaner->reader.offset + cleaner->reader.walk.record_at);
    uint64_t records = log_records(cleaner->log);
    bool lost =
        !log_has_bodies(cleaner->log, cleaner->reader.batch_next) && !record_body_good(record);
    if (lost && record->event.kind == EVENT_NOTE)
        return; /* CLEAN_UNREAD handles it */
    struct stored place = {.where = where, .bytes = (uint32_t)record->len};
    if (!lost && !cleaner->spilled && record->event.kind == EVENT_JOB &&
        spill_offer(cleaner->spill, record, place))
        return;
    /* The copy of a lost one is marked as damaged, too. */
    log_relocating(cleaner->log, lost ? RELOCATING_BODY_LOST : RELOCATING);
    if (lost)
        cleaner->store->callbacks->relocate(cleaner->store->callbacks, &record->event, where);
    else
        relocate(cleaner, &record->event, where);
    log_relocating(cleaner->log, RELOCATING_NOTHING);
    cleaner->relocated_jobs += log_records(cleaner->log) - records;
}

/* Calls callbacks->soon for the jobs of the current record and of those behind it. */
static void announce_soon(const struct cleaner *cleaner)
{
    struct store_callbacks *callbacks = cleaner->store->callbacks;
    const struct batch_walk *walk = &cleaner->reader.walk;
    uint64_t seqs[FAR_SOON_MAX];
    uint32_t count = 0;
    uint64_t seq;
    size_t at = walk->record_at, len;
    while (callbacks->soon && count < FAR_SOON_MAX && at < walk->end &&
           record_peek_seq(walk->batch + at, walk->end - at, &len, &seq) == OK) {
        at += len;
        if (seq)
            seqs[count++] = seq;
    }
    if (count > 0)
        callbacks->soon(callbacks, seqs, count, false);
}

static void relocate_one(struct cleaner *cleaner)
{
    const struct event *event = &cleaner->reader.walk.record.event;
    cleaner->work.jobs++;
    if (event_has_place(event))
        relocate_record(cleaner);
    else if (event->kind == EVENT_MOVE && event->record.where)
        relocate_placed(cleaner);
}

/* Relocates the next `*budget` records of the batch, or what is left of them. */
static void relocate_some(struct cleaner *cleaner, unsigned *budget)
{
    struct batch_walk *walk = &cleaner->reader.walk;
    enum err err = OK;
    for (unsigned i = 0; *budget > 0 && (err = batch_walk_next(walk)) == OK; --*budget, i++) {
        if (i % FAR_SOON_MAX == 0)
            announce_soon(cleaner);
        relocate_one(cleaner);
    }
    if (err == OK)
        return;
    if (err == ERR_CORRUPT) /* a bug, or another program's work */
        segments_damaged(cleaner->segments, cleaner->segment, cleaner->reader.offset + walk->at,
                         "a batch matches its checksum, but a record in it is not valid");
    cleaner->reader.offset += batch_bytes(walk->end - BATCH_HEAD);
    cleaner->work.bytes += batch_bytes(walk->end - BATCH_HEAD);
    cleaner->work.copied += batch_bytes(walk->end - BATCH_HEAD);
    cleaner->reader.batch_next++;
    cleaner->reader.batch = NULL;
}

/* CLEAN_MOVES if there are live MOVEs left, which are in batches that cannot be read. */
static enum clean_step after_unread(const struct cleaner *cleaner)
{
    bool moves = cleaner->segment->slice_log_moves > 0 && cleaner->store->callbacks->relocate_moves;
    return moves ? CLEAN_MOVES : CLEAN_SLICES;
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
    cleaner->step = after_unread(cleaner);
}

/* Loses nothing: the jobs are in memory, and their present state is appended. */
static void relocate_moves(struct cleaner *cleaner)
{
    struct store_callbacks *callbacks = cleaner->store->callbacks;
    log_relocating(cleaner->log, RELOCATING);
    bool more = callbacks->relocate_moves(callbacks, &cleaner->cursor);
    log_relocating(cleaner->log, RELOCATING_NOTHING);
    if (more)
        return;
    cleaner->cursor = 0;
    cleaner->step = CLEAN_SLICES;
}

bool cleaner_wants_move(const struct cleaner *cleaner, uint64_t where)
{
    return cleaner->step == CLEAN_MOVES &&
           slices_move_lives(cleaner->store->slices, where, cleaner->segment->number);
}

static void relocate_rest(struct cleaner *cleaner);

/* Appends again what batches of this segment said about slices. */
static void write_slices(struct cleaner *cleaner)
{
    uint64_t batch = segments_after(cleaner->segments, cleaner->segment)->batch_first;
    if (slices_write_again(cleaner->store->slices, batch))
        return;
    cleaner->step = CLEAN_REST;
    relocate_rest(cleaner);
}

/* Everything live that can be read was relocated, or has moved to slices. */
static void begin_rest(struct cleaner *cleaner)
{
    cleaner->step = cleaner->segment->live_jobs > 0 ? CLEAN_UNREAD : after_unread(cleaner);
    if (cleaner->step == CLEAN_SLICES)
        write_slices(cleaner); /* usually it fits into one batch */
}

/* Moves far jobs to slices. Jobs that changed meanwhile stay; another walk relocates them. */
static void spill(struct cleaner *cleaner)
{
    bool left;
    if (!spill_turn(cleaner->spill, !cleaner->walks_on, &cleaner->work, &left))
        return;
    if (cleaner->walks_on) {
        cleaner->walks_on = false;
        cleaner->left |= left;
        cleaner->spilled = !spill_go_on(cleaner->spill, cleaner->segment);
        cleaner->step = CLEAN_WALK;
        cleaner_open_scan(cleaner);
        return;
    }
    if ((left || cleaner->left) && cleaner->segment->live_jobs > 0)
        begin_walk(cleaner);
    else
        begin_rest(cleaner);
}

/* The run of far jobs is full: writes it to a slice, then the walk continues at the next batch. */
static void spill_before_more(struct cleaner *cleaner)
{
    cleaner_close_scan(cleaner);
    cleaner->walks_on = true;
    cleaner->step = CLEAN_SPILL;
}

/* The pause between two segments cleaned while idle: other programs may need the processor. */
static int64_t idle_pause_us(const struct cleaner *cleaner)
{
    int64_t pause_us = (int64_t)cleaner->segment_jobs * JOB_NS / 1000 * IDLE_TIMES;
    return pause_us > IDLE_PAUSE_US ? pause_us : IDLE_PAUSE_US;
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
    cleaner->pace.wait_times = cleaner_wait_times(cleaner, copied, departed);
    cleaner->pace.checkpoint_from =
        cleaner_bytes_appended(cleaner) + copied * cleaner->pace.wait_times;
    cleaner->pace.idle_us = cleaner->store->now_us + idle_pause_us(cleaner);
    /* Even if nothing was relocated: the ends of the dead jobs must be durable before their records
       are removed. */
    cleaner->batch_last = log_batch(cleaner->log);
    log_want_open(cleaner->log);
    cleaner->step = CLEAN_DURABLE;
}

/*
 * A bounded part of the walk: each pass of the loop reads one batch, tests one block, or relocates
 * some of a batch's records. A batch of one huge record is read in one piece.
 */
static void walk(struct cleaner *cleaner)
{
    CHECK(!cleaner->reader.reading); /* into the window */
    struct segment *oldest = cleaner->segment;
    uint64_t batch_end = segments_after(cleaner->segments, oldest)->batch_first;
    uint64_t limit = cleaner->reader.offset + CLEANER_TURN_BYTES;
    unsigned budget = STEP_RECORDS;
    while ((oldest->live_jobs > 0 || oldest->slice_log_moves > 0) &&
           cleaner->reader.batch_next < batch_end) {
        if (cleaner->reader.offset >= limit || budget == 0)
            return; /* continued in the next turn */
        if (!cleaner->reader.batch && !cleaner->reader.seeking && !cleaner->spilled &&
            spill_full(cleaner->spill)) {
            spill_before_more(cleaner);
            return;
        }
        if (cleaner->reader.batch)
            relocate_some(cleaner, &budget);
        else if (cleaner->reader.seeking ? !cleaner_seek_batch(cleaner, batch_end)
                                         : !cleaner_read_batch(cleaner))
            return;
    }
    cleaner_close_scan(cleaner);
    bool offered = !cleaner->spilled;
    cleaner->spilled = true;
    if (offered) {
        cleaner->step = CLEAN_SPILL;
        spill(cleaner); /* there may be nothing to do */
    } else if (cleaner->left && oldest->live_jobs > 0) {
        begin_walk(cleaner);
    } else {
        begin_rest(cleaner);
    }
}

/* ---- the end of the segment ---- */

static bool keeps_file(const struct cleaner *cleaner)
{
    return cleaner->lost_jobs > 0 || cleaner->segment->live_jobs > 0;
}

static void report_set_aside(struct cleaner *cleaner)
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
        report_set_aside(cleaner);
    }
    uint64_t size_bytes = cleaner->segment->size_bytes;
    segments_drop_first(cleaner->segments);
    if (op->verb == DISK_REUSE && op->file)
        segments_reused(cleaner->segments, cleaner->reuse_number, size_bytes, op->file);
    cleaner->segment = NULL;
    cleaner->checkpoints++;
}

static void forget(struct cleaner *cleaner)
{
    manifest_forget(cleaner->store->manifest,
                    segments_after(cleaner->segments, cleaner->segment)->batch_first);
    cleaner->step = CLEAN_MANIFEST;
}

/* Its file will not be removed, but become a spare. */
static void reuse(struct cleaner *cleaner)
{
    CHECK(!keeps_file(cleaner) && !cleaner->segment->file);
    cleaner->reuse_number = segments_take_number(cleaner->segments);
    spare_head_encode(&cleaner->store->id, cleaner->spare_head);
    cleaner->remove.verb = DISK_REUSE;
    cleaner->remove.data = cleaner->spare_head;
    cleaner->remove.len = BLOCK;
    segment_name(cleaner->reuse_number, cleaner->remove.to_name);
}

/* The file is closed first: the last close of a removed file frees its pages and blocks, which
 * takes the kernel milliseconds. */
static void remove_segment(struct cleaner *cleaner)
{
    CHECK(cleaner->segment->pins == 0);
    segments_close_file(cleaner->segments, cleaner->segment);
    cleaner->remove = (struct disk_op){
        .verb = DISK_REMOVE, .lane = LANE_BACKGROUND, .done = removed, .owner = cleaner};
    segment_name(cleaner->segment->number, cleaner->remove.name);
    if (keeps_file(cleaner)) {
        aside_name(cleaner->segment->number, cleaner->aside_name);
        cleaner->remove.verb = DISK_RENAME;
        cleaner->remove.data = cleaner->aside_name;
    } else if (segments_may_reuse(cleaner->segments, cleaner->segment) &&
               manifest_has(cleaner->store->manifest, FEATURE_REUSE)) {
        reuse(cleaner);
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
    case CLEAN_MOVES: relocate_moves(cleaner); return;
    case CLEAN_SLICES: write_slices(cleaner); return;
    case CLEAN_REST: relocate_rest(cleaner); return;
    case CLEAN_IDLE:
    case CLEAN_DURABLE:
    case CLEAN_MANIFEST:
    case CLEAN_REMOVE: return;
    }
}

/*
 * Far jobs that stay in the log take memory, so the log must not grow while they arrive fast: while
 * it is too large, each appended byte, also of the cleaner's copies, adds to the backlog.
 */
static void count_behind(struct cleaner *cleaner)
{
    uint64_t appended = cleaner_bytes_appended(cleaner), before = cleaner->appended;
    cleaner->appended = appended;
    if (!cleaner_is_behind(cleaner))
        cleaner->behind_bytes = 0;
    else if (appended > before)
        cleaner->behind_bytes += PHASES * (appended - before);
}

static bool goes_on(const struct cleaner *cleaner)
{
    return cleaner->behind_bytes > 0 &&
           (cleaner->step == CLEAN_WALK || cleaner->step == CLEAN_SPILL) &&
           cleaner_next_us(cleaner) <= cleaner->store->now_us;
}

static int64_t clock_us(const struct cleaner *cleaner)
{
    struct store_callbacks *callbacks = cleaner->store->callbacks;
    return callbacks->clock_us ? callbacks->clock_us(callbacks) : 0;
}

/* The clock is read after each step, because steps take several times the estimate where memory is
   slow or the processor is shared. */
static void work_some(struct cleaner *cleaner)
{
    int64_t until_us = clock_us(cleaner) + cleaner->allowed_us;
    struct clean_work *turn = &cleaner->turn;
    uint64_t jobs = 0;
    *turn = (struct clean_work){0};
    do {
        cleaner->work = (struct clean_work){0};
        work(cleaner);
        jobs += cleaner->work.jobs > STEP_JOBS ? cleaner->work.jobs : STEP_JOBS;
        turn->jobs += cleaner->work.jobs;
        turn->bytes += cleaner->work.bytes;
        turn->copied += cleaner->work.copied;
        cleaner->segment_jobs += cleaner->work.jobs;
        uint64_t done = cleaner->work.bytes;
        cleaner->behind_bytes = done < cleaner->behind_bytes ? cleaner->behind_bytes - done : 0;
    } while (jobs < TURN_JOBS && turn->copied < TURN_COPIES && goes_on(cleaner) &&
             clock_us(cleaner) < until_us);
}

static void take_turn(struct cleaner *cleaner)
{
    switch (cleaner->step) {
    case CLEAN_IDLE:
        start(cleaner);
        if (cleaner->step == CLEAN_IDLE)
            spill_rest(cleaner->spill);
        break;
    case CLEAN_WALK:
    case CLEAN_SPILL:
    case CLEAN_UNREAD:
    case CLEAN_MOVES:
    case CLEAN_SLICES:
    case CLEAN_REST:
        if (cleaner_next_us(cleaner) <= cleaner->store->now_us)
            work_some(cleaner);
        break;
    case CLEAN_DURABLE:
        if (log_synced(cleaner->log) >= cleaner->batch_last)
            forget(cleaner);
        else
            log_want_sync(cleaner->log); /* in buffered mode perhaps nothing else requests it */
        break;
    case CLEAN_MANIFEST:
        if (manifest_forgotten(cleaner->store->manifest) &&
            cleaner->segment->pins == 0) /* reads of bodies that began before the relocation */
            remove_segment(cleaner);
        break;
    case CLEAN_REMOVE: break;
    }
}

/* How long the cleaner may run in the next turn, in microseconds. Determined at the end of this
 * one, because the other stages of the next turn get that much less time. */
static int64_t next_allowed_us(const struct cleaner *cleaner)
{
    if (!goes_on(cleaner))
        return 0;
    uint64_t wanted_us = STEP_US + cleaner->behind_bytes / BYTES_A_US;
    return wanted_us < TURN_US ? (int64_t)wanted_us : TURN_US;
}

int64_t cleaner_allowed_us(const struct cleaner *cleaner)
{
    return cleaner->allowed_us;
}

void cleaner_turn(struct cleaner *cleaner)
{
    if (cleaner->store->failed || cleaner->store->closing) {
        cleaner->allowed_us = 0;
        return;
    }
    count_behind(cleaner);
    take_turn(cleaner);
    cleaner->allowed_us = next_allowed_us(cleaner);
}

int64_t cleaner_next_us(const struct cleaner *cleaner)
{
    if (cleaner->step == CLEAN_IDLE) {
        int64_t next_us = cleaner_idle_next_us(cleaner), rest_us = spill_rest_us(cleaner->spill);
        return next_us < rest_us ? next_us : rest_us;
    }
    bool works = cleaner->step > CLEAN_IDLE && cleaner->step < CLEAN_DURABLE;
    if (!works || cleaner->reader.reading || cleaner->store->failed ||
        log_backlog_bytes(cleaner->log) > AHEAD_BYTES ||
        log_backlog_copies(cleaner->log) > AHEAD_COPIES)
        return INT64_MAX; /* the next disk operation that ends causes a turn */
    if (cleaner->step == CLEAN_SPILL)
        return spill_next_us(cleaner->spill);
    return cleaner->reader.retry_at_us > cleaner->store->now_us ? cleaner->reader.retry_at_us
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

const struct slice *cleaner_held_up(const struct cleaner *cleaner)
{
    return cleaner_next_us(cleaner) == INT64_MAX ? NULL : spill_held_up(cleaner->spill);
}

bool cleaner_removing(const struct cleaner *cleaner)
{
    return cleaner->step == CLEAN_REMOVE;
}

bool cleaner_busy(const struct cleaner *cleaner)
{
    return cleaner->reader.reading || cleaner->step == CLEAN_REMOVE || spill_busy(cleaner->spill);
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
    cleaner->spare_head = mem_aligned(BLOCK, BLOCK);
    return cleaner;
}

void cleaner_free(struct cleaner *cleaner)
{
    if (!cleaner)
        return;
    CHECK(!cleaner_busy(cleaner));
    cleaner_read_fini(cleaner);
    spill_free(cleaner->spill);
    mem_free(cleaner->spare_head);
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
    CHECK(!cleaner->reader.batch || walks);
    CHECK(!cleaner->reader.fresh || (walks && cleaner->reader.tries > 0));
    CHECK(!cleaner->reader.reading || (walks && !cleaner->reader.batch && oldest->reading > 0));
    CHECK(!cleaner->reader.reading || cleaner->reader.read.into == cleaner->reader.scan.window);
    CHECK(!cleaner->reader.read_err || (walks && !cleaner->reader.reading));
    CHECK(walks == (cleaner->reader.scan.window != NULL));
    CHECK(!cleaner->pace.round_over || cleaner->pace.round_end > 0);
    if (!oldest)
        return;
    const struct segment *next = segments_after(cleaner->segments, oldest);
    CHECK(oldest == segments_first(cleaner->segments) && oldest->state == SEGMENT_HEADED);
    CHECK(next && next->state == SEGMENT_HEADED); /* all of its batches are durable */
    CHECK(cleaner->reader.offset >= BLOCK && cleaner->reader.offset % BLOCK == 0);
    CHECK(cleaner->reader.offset <= oldest->end);
    CHECK(cleaner->reader.batch_next >= oldest->batch_first &&
          cleaner->reader.batch_next <= next->batch_first);
    CHECK(!cleaner->reader.batch || cleaner->reader.walk.batch == cleaner->reader.batch);
    /* S4: no live record is left, or the file is kept under another name; all else is durable
       elsewhere. */
    CHECK(cleaner->step < CLEAN_DURABLE || oldest->live_jobs == 0 || oldest->damaged);
    CHECK(cleaner->step < CLEAN_DURABLE || oldest->slice_log_moves == 0);
    CHECK(cleaner->step < CLEAN_MANIFEST || log_synced(cleaner->log) >= cleaner->batch_last);
    CHECK(cleaner->step != CLEAN_REMOVE || manifest_forgotten(cleaner->store->manifest));
}
