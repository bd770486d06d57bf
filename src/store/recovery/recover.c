/*
 * Opening a store: finds where the log ends, replays it, and makes the end durable.
 *
 * All batches before the last segment's first are durable (log_commit.c sees to it), so a bad one
 * among them is damage. In the last segment the first bad batch, number n, is a torn write at the
 * tail, unless a later batch, the manifest or a history file proves that n was durable. Not proven:
 * n looks like a write that a crash cut short, and nothing shows that it was acknowledged; the tail
 * is zeroed and reported. Proven: damage.h determines whether anything that lives depends on n. If
 * so, the opening fails with ERR_CORRUPT and a report; else the replay continues behind it, and
 * jobs that n ended are ended. Both leave the damaged bytes on disk as they are.
 */
#include <stdio.h>

#include "base/check.h"
#include "base/mem.h"
#include "store/recovery/recover_parts.h"

enum {
    PROGRESS_BYTES = 1024 * 1024, /* replayed in some milliseconds */
    FINDINGS_MAX = 100,           /* reported losses, one line each */
    LOOK_AHEAD = 12, /* records: what is fetched meanwhile takes as long as some 3 replays */
};

/* How far the records of a batch have been passed to callbacks->prefetch. */
struct look_ahead {
    const char *batch;
    size_t at, end; /* offsets in it */
};

/* ---- the table of segments ---- */

static uint64_t higher(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static enum err number_segments(struct recovery *recovery)
{
    struct store *store = recovery->store;
    const struct directory *directory = &recovery->directory;
    uint64_t next = directory->manifest.number_next;
    for (size_t i = 0; i < directory->count; i++) {
        const struct found *found = &directory->found[i];
        next = higher(next, (uint64_t)found->number + 1);
        if (i < directory->used)
            next = higher(next, found->head.number_next);
    }
    for (size_t i = 0; i < directory->slice_count; i++)
        next = higher(next, (uint64_t)directory->slices[i].number + 1);
    uint64_t base = next;
    for (size_t i = 0; i < directory->count; i++)
        if (directory->found[i].number < base)
            base = directory->found[i].number;
    if (next == 0 || next > UINT32_MAX || next - base > SEGMENT_SPAN_MAX) {
        store_error_set(recovery->error, "wal-*", 0,
                        "the numbers of segments and slices are from %08llx to %08llx, which no "
                        "store has: move the file that does not belong here out, or restore from a "
                        "backup",
                        (unsigned long long)base, (unsigned long long)(next ? next - 1 : 0));
        return ERR_CORRUPT;
    }
    segments_begin(store->segments, (uint32_t)base, (uint32_t)next);
    return OK;
}

/* The log ends before a batch that a history file has. */
static enum err fail_behind_history(struct recovery *recovery, uint64_t first, uint64_t last)
{
    char batches[DAMAGE_BATCHES_ROOM];
    store_error_set(
        recovery->error, "hist-*", 0,
        "%s %s not in the log, and the jobs' history has them: they were acknowledged. Put back "
        "what is missing, restore a backup, or: later salvage DIR NEW. If these files are not of "
        "this log, move them out",
        damage_batches(first, last, batches), first == last ? "is" : "are");
    return ERR_CORRUPT;
}

static enum err fail_missing(struct recovery *recovery, uint64_t first, uint64_t last)
{
    char batches[DAMAGE_BATCHES_ROOM];
    const struct directory *directory = &recovery->directory;
    if (last == directory->history_last && last > directory->manifest.durable)
        return fail_behind_history(recovery, first, last);
    store_error_set(
        recovery->error, "wal-*", 0,
        "%s %s missing with the segment: acknowledged changes are lost without it. Put the file "
        "back, restore the directory from a backup, or bring over what is intact: later salvage "
        "DIR NEW",
        damage_batches(first, last, batches), first == last ? "is" : "are");
    return ERR_CORRUPT;
}

static enum err take_segments(struct recovery *recovery)
{
    struct store *store = recovery->store;
    const struct directory *directory = &recovery->directory;
    const struct manifest *manifest = &directory->manifest;
    size_t at = 0;
    while (at < directory->used && directory->found[at].head.batch_first < manifest->batch_first)
        at++;
    recovery->leftovers = at;
    segments_set_aside(store->segments, directory->set_aside);
    recovery->clean = manifest->clean && !directory->slot_damaged;
    recovery->batch_next = manifest->batch_first;
    recovery->proven = manifest->durable;
    recovery->seq_mark = manifest->seq_mark;
    for (; at < directory->used; at++) {
        const struct found *found = &directory->found[at];
        (void)segments_take(store->segments, found->number, found->size_bytes,
                            found->head.batch_first, found->head.key);
        store->opening.all_bytes += found->size_bytes;
        if (found->head.batch_first - 1 > recovery->proven)
            recovery->proven = found->head.batch_first - 1;
        if (!recovery->clean && found->head.seq_mark > recovery->seq_mark)
            recovery->seq_mark = found->head.seq_mark;
    }
    const struct segment *first = segments_first(store->segments);
    if (first && first->batch_first != manifest->batch_first)
        return fail_missing(recovery, manifest->batch_first, first->batch_first - 1);
    return OK;
}

/* ---- replay ---- */

/* May cleaning move the job to a slice, unless a later record changes it? */
static bool is_distant(const struct store *store, const struct event *event)
{
    int64_t after_us;
    return event->kind == EVENT_JOB && event->job.state == JOB_DELAYED &&
           !__builtin_add_overflow(store->now_us, store->options.horizon_us, &after_us) &&
           event->job.due_us > after_us;
}

/* Replays a MOVE of a job that lies in a slice: passes on its record before it. */
static enum err replay_placed(struct recovery *recovery, struct segment *segment)
{
    const struct event *event = &recovery->walk.record.event;
    struct slices *slices = recovery->store->slices;
    uint64_t where = event->record.where;
    if (!segments_note_number(recovery->store->segments, where_segment(where)))
        return ERR_CORRUPT;
    enum err err = slices_replay_placed(slices, event->job.seq, where, recovery->error);
    if (!err)
        slices_moved(slices, event, segment->number, recovery->walk.record.len, false);
    return err;
}

static enum err replay_record(struct recovery *recovery, struct segment *segment, uint64_t offset)
{
    struct store *store = recovery->store;
    struct event *event = &recovery->walk.record.event;
    struct stored died = event->record;
    event->record = (struct stored){0};
    if (died.where && !segments_note_number(store->segments, where_segment(died.where)))
        return ERR_CORRUPT;
    if (event->kind == EVENT_MOVE)
        died = (struct stored){0}; /* a MOVE names its job's record, which lives */
    if (event_has_place(event)) {
        event->record.where = where_of(segment->number, offset);
        event->record.bytes = (uint32_t)recovery->walk.record.len;
        segments_record_lives(store->segments, segment, event->record);
        if (is_distant(store, event))
            store->distant_bytes += event->record.bytes;
    }
    bool numbered = event->kind == EVENT_JOB || event->kind == EVENT_SETTINGS;
    if (numbered && event->job.seq >= recovery->seq_mark)
        recovery->seq_mark = event->job.seq + 1;
    bool counted =
        died.where && !(recovery->surveyed && damage_covers(&recovery->damage, died.where));
    if (counted && !segments_record_died(store->segments, died))
        return ERR_CORRUPT;
    store->recovered_events++;
    return store->callbacks->replay(store->callbacks, event);
}

/* The epoch of the leader that wrote a batch. ERR_CORRUPT: lower than that of an earlier batch. */
static enum err note_epoch(struct recovery *recovery, uint64_t epoch)
{
    if (epoch < recovery->epoch)
        return ERR_CORRUPT;
    recovery->epoch = epoch;
    return OK;
}

/* Replays a SLICE record, or a MOVE of a job in a slice. Does nothing with other records. */
static enum err replay_of_slices(struct recovery *recovery, struct segment *segment, uint64_t batch)
{
    const struct record *record = &recovery->walk.record;
    if (record->is_slice)
        return slices_replay(recovery->store->slices, &record->slice,
                             (struct log_place){.batch = batch, .segment = segment->number},
                             recovery->error);
    if (record->is_far)
        return ERR_CORRUPT; /* FAR records are only valid in slices */
    if (record->event.kind == EVENT_MOVE && record->event.record.where)
        return replay_placed(recovery, segment);
    return OK;
}

/* Prefetches for the next record of the batch. If it is damaged, the replay will report that. */
static void look_ahead(struct recovery *recovery, struct look_ahead *ahead)
{
    struct store_callbacks *callbacks = recovery->store->callbacks;
    struct job_ref ref;
    size_t len;
    if (ahead->at >= ahead->end ||
        record_peek(ahead->batch + ahead->at, ahead->end - ahead->at, &len, &ref) != OK) {
        ahead->at = ahead->end;
        return;
    }
    ahead->at += len;
    if (ref.seq)
        callbacks->prefetch(callbacks, &ref);
}

/* Begins prefetching for a batch: LOOK_AHEAD records ahead of the replay. */
static struct look_ahead begin_look_ahead(struct recovery *recovery, const struct batch_walk *walk)
{
    struct look_ahead ahead = {.batch = walk->batch, .at = walk->at, .end = walk->end};
    if (!recovery->store->callbacks->prefetch)
        ahead.at = ahead.end;
    for (int i = 0; i < LOOK_AHEAD; i++)
        look_ahead(recovery, &ahead);
    return ahead;
}

static enum err replay_batch(struct recovery *recovery, struct segment *segment, uint64_t offset,
                             const struct batch_head *head, const char *batch)
{
    struct store_callbacks *callbacks = recovery->store->callbacks;
    struct batch_walk *walk = &recovery->walk;
    enum err err;
    if (callbacks->clock)
        callbacks->clock(callbacks, head->clock_us);
    slices_replay_clock(recovery->store->slices, head->clock_us);
    batch_walk_init(walk, batch, head->payload_bytes);
    walk->shows_slices = walk->shows_history = true;
    struct look_ahead ahead = begin_look_ahead(recovery, walk);
    while ((err = batch_walk_next(walk)) == OK) {
        look_ahead(recovery, &ahead);
        if (walk->record.is_history) {
            history_replay(recovery->store->history, walk->record.entry, head->number);
            continue;
        }
        err = replay_of_slices(recovery, segment, head->number);
        if (!err && !walk->record.is_slice)
            err = replay_record(recovery, segment, offset + walk->record_at);
        if (err)
            break;
    }
    if (err == ERR_NOT_FOUND)
        err = walk->count == head->record_count ? note_epoch(recovery, walk->epoch) : ERR_CORRUPT;
    if (err && !recovery->error->text[0]) {
        char name[DISK_NAME_MAX];
        segment_name(segment->number, name);
        store_error_set(
            recovery->error, name, offset + walk->record_at,
            "batch %llu matches its checksum, but a record in it is not valid (%s): this is a "
            "bug, or another program's work; please report it and restore from a backup",
            (unsigned long long)head->number, err_text(err));
    }
    if (err)
        return err == ERR_INVALID ? ERR_CORRUPT : err;
    if (head->durable > recovery->proven)
        recovery->proven = head->durable;
    if (!recovery->clean && head->seq_mark > recovery->seq_mark)
        recovery->seq_mark = head->seq_mark;
    return OK;
}

enum err store_opening_worked(struct store *store, uint64_t bytes)
{
    store->unreported_bytes += bytes;
    if (store->unreported_bytes < PROGRESS_BYTES)
        return OK;
    store->unreported_bytes = 0;
    return store->callbacks->progress(store->callbacks, &store->opening);
}

enum err store_opening_read(struct store *store, uint64_t bytes)
{
    struct store_opening *opening = &store->opening;
    if (bytes <= opening->all_bytes - opening->done_bytes)
        opening->done_bytes += bytes;
    return store_opening_worked(store, bytes);
}

/* ---- damage ---- */

/* Sets the error for damaged batches on which live jobs depend. Returns ERR_CORRUPT. */
static enum err fail_damaged(struct recovery *recovery, const struct segment *segment,
                             uint64_t first, uint64_t last)
{
    char name[DISK_NAME_MAX];
    segment_name(segment->number, name);
    store_error_set(
        recovery->error, name, segment->end,
        "batch %llu was durable and is damaged, up to batch %llu at least; what it held was "
        "acknowledged. All that is intact can be recovered with: later salvage DIR NEW; or restore "
        "the file from a backup. Nothing was changed",
        (unsigned long long)first, (unsigned long long)last);
    return ERR_CORRUPT;
}

/* *left: how many suspects may still be reported, of all regions. */
static void report_region(struct recovery *recovery, const struct region *region, unsigned *left)
{
    const struct damage *damage = &recovery->damage;
    struct store_callbacks *callbacks = recovery->store->callbacks;
    char line[400], batches[DAMAGE_BATCHES_ROOM];
    (void)snprintf(line, sizeof(line), SEGMENT_NAME ": bytes %llu to %llu, %s: %s", region->number,
                   (unsigned long long)region->start, (unsigned long long)region->end,
                   damage_batches(region->batch_first, region->batch_last, batches),
                   region->harmless ? "damaged; nothing that lives was in it"
                   : region->opaque ? "damaged; not all that was in it can be told"
                                    : "damaged");
    callbacks->finding(callbacks, line);
    for (size_t i = region->first_suspect; i < region->suspect_end; i++) {
        const struct suspect *suspect = &damage->suspects[i];
        if (suspect->harmless || suspect->dead || *left == 0)
            continue;
        damage_describe(suspect, line, sizeof(line));
        callbacks->finding(callbacks, line);
        if (--*left == 0)
            callbacks->finding(callbacks,
                               "and more; `later verify` and `later salvage` tell of all");
    }
}

/* Surveys the damage in all of the log, once, and reports it if something depends on it. */
static enum err survey(struct recovery *recovery)
{
    bool harmless = true;
    unsigned left = FINDINGS_MAX;
    if (recovery->surveyed)
        return OK;
    enum err err = damage_survey(recovery->store->disk, &recovery->directory, recovery->leftovers,
                                 &recovery->damage);
    if (err)
        return err;
    recovery->surveyed = true;
    for (size_t i = 0; i < recovery->damage.region_count; i++)
        harmless = harmless && recovery->damage.regions[i].harmless;
    for (size_t i = 0; i < recovery->damage.region_count && !harmless; i++)
        report_region(recovery, &recovery->damage.regions[i], &left);
    return OK;
}

/* Ends the jobs that are proven to have been ended in the region. */
static enum err replay_region(struct recovery *recovery, const struct region *region)
{
    struct store *store = recovery->store;
    enum err err = OK;
    for (size_t i = region->first_suspect; i < region->suspect_end && !err; i++) {
        const struct suspect *suspect = &recovery->damage.suspects[i];
        struct event gone = {.kind = EVENT_GONE, .job = {.seq = suspect->died_seq}};
        if (!suspect->proven || damage_covers(&recovery->damage, suspect->died.where))
            continue;
        if (!segments_record_died(store->segments, suspect->died))
            return ERR_CORRUPT;
        err = store->callbacks->replay(store->callbacks, &gone);
    }
    return err;
}

/*
 * Skips a damaged region at the segment's end so far, where batch `batch_next` should be. ERR_IO or
 * ERR_CORRUPT, if something live depends on damaged bytes; then the error is set.
 */
static enum err skip_region(struct recovery *recovery, struct segment *segment)
{
    enum err err = survey(recovery);
    if (err)
        return err;
    const struct region *region = damage_region(&recovery->damage, segment->number, segment->end);
    if (!region) {
        char name[DISK_NAME_MAX];
        segment_name(segment->number, name);
        store_error_set(
            recovery->error, name, segment->end,
            "this place was read in two ways, now good, now bad: start again, and do not "
            "trust the disk or the memory");
        return ERR_IO;
    }
    if (region->start == region->end)
        return fail_missing(recovery, region->batch_first, region->batch_last);
    for (size_t i = 0; i < recovery->damage.region_count; i++)
        if (!recovery->damage.regions[i].harmless)
            return fail_damaged(recovery, segment, region->batch_first, region->batch_last);
    err = replay_region(recovery, region);
    if (err)
        return err;
    segments_grow(segment, region->end - segment->end);
    segments_note_damage(recovery->store->segments, segment);
    recovery->batch_next = region->batch_last + 1;
    recovery->skipped_regions++;
    return OK;
}

/* ---- a segment ---- */

/*
 * The place of an intact batch. known[0] is never above the first unproven batch, and mostly right
 * in front of it, so that find_unproven() need not read all of the segment a second time.
 */
static void note_place(struct recovery *recovery, uint64_t number, uint64_t offset)
{
    struct batch_place *known = recovery->known;
    if (known[1].number > recovery->proven + 1)
        return;
    known[0] = known[1];
    known[1] = (struct batch_place){.number = number, .offset = offset};
}

/*
 * Replays batches from the segment's end so far up to (not including) `batch_end`, or up to the
 * first that is not intact, which is no error. ERR_IO with PLACE_UNREAD: the disk cannot read it;
 * other errors are those of replay_batch().
 */
static enum err replay_good(struct recovery *recovery, struct segment *segment,
                            struct walker *walker, uint64_t batch_end)
{
    walker_move_to(walker, segment->end, recovery->batch_next);
    while (walker->expected < batch_end) {
        enum place_kind kind = walker_classify(walker);
        if (kind == PLACE_UNREAD) {
            char name[DISK_NAME_MAX];
            segment_name(segment->number, name);
            store_error_set(
                recovery->error, name, walker->offset,
                "the disk cannot read this place; if that stays so, all else can be recovered "
                "with: later salvage DIR NEW");
            return walker->err;
        }
        if (kind != PLACE_BATCH)
            return OK;
        enum err err =
            replay_batch(recovery, segment, walker->offset, &walker->head, walker->batch);
        if (err)
            return err;
        note_place(recovery, walker->expected, walker->offset);
        segments_grow(segment, walker->bytes);
        uint64_t bytes = walker->bytes;
        walker_next(walker);
        recovery->batch_next = walker->expected;
        err = store_opening_read(recovery->store, bytes);
        if (err)
            return err;
    }
    return OK;
}

/* Replays a segment that is not the last: all its batches were durable. */
static enum err replay_segment(struct recovery *recovery, struct segment *segment,
                               struct walker *walker, uint64_t batch_end)
{
    for (;;) {
        enum err err = replay_good(recovery, segment, walker, batch_end);
        if (err && walker->kind != PLACE_UNREAD)
            return err; /* of a record: no damage of the log */
        if (!err && recovery->batch_next == batch_end)
            return OK;
        uint64_t stopped = recovery->batch_next;
        enum err skip_err = skip_region(recovery, segment);
        if (skip_err)
            return err ? err : skip_err;
        CHECK(recovery->batch_next > stopped);
        *recovery->error = (struct store_error){0};
    }
}

/* ---- the log ---- */

bool recovery_in_order(const struct recovery *recovery)
{
    return recovery->clean && !recovery->surveyed &&
           recovery->batch_next == recovery->directory.manifest.durable + 1;
}

/*
 * Replays the last segment, up to the first batch that is not intact and not proven durable. After
 * a clean close, the zeros behind the end are not read, except for the first block, by which an
 * outdated manifest is noticed: reading them takes longer than the replay of some 10,000 jobs.
 */
static enum err replay_last(struct recovery *recovery, struct segment *segment,
                            struct walker *walker)
{
    const struct batch_place first = {.number = segment->batch_first, .offset = BLOCK};
    recovery->known[0] = recovery->known[1] = first;
    for (;;) {
        enum err err = replay_good(recovery, segment, walker, UINT64_MAX);
        bool blank = walker->kind == PLACE_BLANK || walker->kind == PLACE_END;
        if (!err && blank && recovery_in_order(recovery))
            return OK;
        if (!err)
            err = recover_survey_tail(recovery, segment, walker);
        if (err)
            return err;
        if (recovery->batch_next > recovery->proven)
            return recover_settle_tail(recovery, segment, walker);
        if (recovery->dirty_end == segment->end)
            return fail_missing(recovery, recovery->batch_next, recovery->proven);
        err = skip_region(recovery, segment);
        if (err)
            return err;
    }
}

static enum err replay_log(struct recovery *recovery)
{
    struct store *store = recovery->store;
    enum err err = OK;
    for (struct segment *segment = segments_first(store->segments); segment && !err;
         segment = segments_after(store->segments, segment)) {
        const struct segment *next = segments_after(store->segments, segment);
        struct walker walker;
        const struct walker_of of = {segment->number, store->tag, segment->size_bytes,
                                     segment->key};
        err = walker_open(&walker, store->disk, &of, next ? DISK_CACHED : DISK_FRESH);
        if (err)
            return err;
        if (!next) /* the last one stays open for writing */
            segments_opened(store->segments, segment, walker.scan.file);
        err = next ? replay_segment(recovery, segment, &walker, next->batch_first)
                   : replay_last(recovery, segment, &walker);
        if (err && !recovery->error->text[0]) {
            char name[DISK_NAME_MAX];
            segment_name(segment->number, name);
            store_error_set(recovery->error, name, segment->end,
                            "the log's end cannot be made safe");
        }
        if (next)
            walker_close(&walker);
        else
            walker_fini(&walker);
    }
    if (!err && recovery->batch_next <= recovery->proven)
        return fail_missing(recovery, recovery->batch_next, recovery->proven);
    return err;
}

/* ---- all steps ---- */

/*
 * The first lease to give. A store without a lease mark is new, or was written by a version whose
 * leases were boot << 44 | count: start above those. A damaged slot may have had a mark that was
 * higher by up to LEASE_AHEAD.
 */
static uint64_t first_lease(const struct store *store, const struct directory *directory)
{
    if (directory->manifest.lease_mark == 0)
        return store->boot << 44 | 1;
    return directory->manifest.lease_mark + (directory->slot_damaged ? LEASE_AHEAD : 0);
}

/* If a slot is damaged, it may have been the newer one, with a higher boot count and higher
   marks. */
static bool marks_doubtful(const struct recovery *recovery)
{
    return recovery->directory.slot_damaged || recovery->skipped_regions > 0;
}

/* A former leader must not write behind a later leader. */
static enum err check_epoch(struct recovery *recovery)
{
    uint64_t epoch = recovery->store->options.epoch;
    if (recovery->directory.manifest.epoch > recovery->epoch)
        recovery->epoch = recovery->directory.manifest.epoch;
    if (epoch >= recovery->epoch)
        return OK;
    if (epoch == 0)
        store_error_set(recovery->error, MANIFEST_NAME, 0,
                        "this store was led in epoch %llu of an election, and [member] is not set: "
                        "set its url as it was, or to 'alone', which leads without an election",
                        (unsigned long long)recovery->epoch);
    else
        store_error_set(recovery->error, MANIFEST_NAME, 0,
                        "this store was led in epoch %llu, and this laterd leads in epoch %llu: "
                        "another laterd has led it since",
                        (unsigned long long)recovery->epoch, (unsigned long long)epoch);
    return ERR_UNSUPPORTED;
}

/* Hands over to log, followers and manifest what recovery has found. */
static enum err begin_parts(struct recovery *recovery)
{
    struct store *store = recovery->store;
    struct directory *directory = &recovery->directory;
    struct manifest *manifest = &directory->manifest;
    bool doubtful = marks_doubtful(recovery);
    store->boot = directory->manifest.boot + (doubtful ? 2 : 1);
    store->seq_first = recovery->seq_mark + (doubtful ? 2 * SEQ_AHEAD : 0);
    store->lease_first = first_lease(store, directory);
    enum err err = recover_secret(recovery);
    if (err)
        return err;
    store->secret = manifest->secret;
    manifest->epoch = store->options.epoch;
    if (manifest->epoch)
        manifest->incompatible |= FEATURE_EPOCH;
    log_begin(store->log, &(struct log_begin){.batch_next = recovery->batch_next,
                                              .seq_next = store->seq_first});
    followers_begin(store->followers, manifest);
    return manifest_begin(store->manifest, &directory->manifest, store->lease_first);
}

static enum err write_manifest(struct recovery *recovery)
{
    struct store *store = recovery->store;
    enum err err = manifest_write_now(store->manifest);
    log_begin_marks(store->log, manifest_seq_mark(store->manifest));
    if (err)
        store_error_set(recovery->error, MANIFEST_NAME, 0, "the manifest cannot be written");
    else if (recovery->skipped_regions)
        store_error_set(
            recovery->error, "wal-*", 0,
            "notice: %u damaged places in the log held only what has ended since; nothing is "
            "lost, and cleaning will remove them",
            recovery->skipped_regions);
    else if (marks_doubtful(recovery) && !recovery->error->text[0])
        store_error_set(recovery->error, MANIFEST_NAME, 0,
                        "notice: one of the manifest's two copies was damaged; nothing is lost");
    return err == ERR_DISK_FULL ? ERR_IO : err;
}

/* A history file is written when its batches are durable (H3), so it proves them as the manifest
   does. */
static enum err begin_history(struct recovery *recovery)
{
    struct history *history = recovery->store->history;
    enum err err = history_begin(history, recovery->error);
    recovery->directory.history_last = history_covered(history);
    recovery->proven = higher(recovery->proven, recovery->directory.history_last);
    return err;
}

static enum err recover_all(struct recovery *recovery)
{
    struct store *store = recovery->store;
    enum err err =
        store->options.unfinished
            ? directory_read_unfinished(store->disk, &recovery->directory, recovery->error)
            : directory_read(store->disk, &recovery->directory, recovery->error);
    if (!err && !recovery->directory.manifest_there)
        err = recover_new(recovery);
    if (err)
        return err;
    store->id = recovery->directory.manifest.id;
    store->tag = store_tag(&store->id);
    err = number_segments(recovery);
    if (!err)
        err = take_segments(recovery);
    if (!err)
        err = slices_begin(store->slices, &recovery->directory);
    if (!err)
        err = begin_history(recovery);
    if (!err)
        err = replay_log(recovery);
    if (!err)
        err = slices_replayed(store->slices,
                              recovery_in_order(recovery) ? &recovery->directory.manifest : NULL,
                              recovery->error);
    if (!err)
        err = check_epoch(recovery);
    if (!err)
        err = begin_parts(recovery);
    if (!err)
        err = recover_unused(recovery);
    if (!err)
        err = write_manifest(recovery);
    if (!err)
        err = recover_leftovers(recovery);
    return err ? err : slices_remove_leftovers(store->slices);
}

enum err recover(struct store *store, struct store_error *out_error)
{
    struct recovery *recovery = mem_zalloc(sizeof(*recovery));
    recovery->store = store;
    recovery->error = out_error;
    enum err err = recover_all(recovery);
    directory_fini(&recovery->directory);
    damage_fini(&recovery->damage);
    mem_free(recovery);
    if (err && !out_error->text[0])
        store_error_set(out_error, ".", 0, "the store's files cannot be read or written (%s)",
                        err_text(err));
    return err == ERR_NOT_FOUND ? ERR_IO : err;
}
