/*
 * store_verify(): reads every byte of a store that is not open, and changes none. Checks the
 * manifest, headers, batches, records, bodies and padding, and that the log is followed by zeros or
 * by a tail that a crash can leave.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/map.h"
#include "base/mem.h"
#include "store/recovery/damage.h"
#include "store/recovery/history_survey.h"
#include "store/recovery/slice_survey.h"
#include "store/slices/far_image.h"
#include "store/verify.h"

enum { PROGRESS_BYTES = 16 * 1024 * 1024 };

/* The live jobs: records of jobs that no later record has ended or replaced. */
struct live_set {
    struct map map; /* by place; the values are indexes of `places` */
    uint64_t *places;
    uint32_t *idle; /* indexes that are free again */
    uint32_t count, cap, idle_count;
};

struct verify {
    struct disk *disk;
    const struct store_watcher *watcher;
    uint64_t reported_bytes, all_bytes; /* for progress */
    struct store_counts counts;
    struct directory directory;
    uint32_t tag;
    uint64_t batch_next; /* the number expected next */
    uint64_t proven;     /* the highest batch that the manifest or a batch shows to be durable */
    struct live_set live;
    struct slice_liveness_set liveness;
    uint64_t departed;         /* live jobs in slices whose old record is still in the log */
    bool log_damaged;          /* some batch is damaged: verify_damage() finds what was in it */
    struct buf damaged_bodies; /* places of jobs' records with a damaged body, uint64_t */
    struct batch_walk walk;
};

static void report(struct verify *verify, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void report(struct verify *verify, const char *format, ...)
{
    char line[512];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line, sizeof(line), format, args); /* cut if too long */
    va_end(args);
    verify->watcher->print_line(verify->watcher->ctx, line);
}

static void report_progress(struct verify *verify, uint64_t done_bytes)
{
    if (!verify->watcher->progress || done_bytes < verify->reported_bytes + PROGRESS_BYTES)
        return;
    verify->reported_bytes = done_bytes;
    verify->watcher->progress(verify->watcher->ctx, done_bytes, verify->all_bytes);
}

/* ---- the set of live jobs ---- */

static bool place_eq(const void *ctx, uint32_t number, const void *key)
{
    const struct live_set *live = ctx;
    return live->places[number] == *(const uint64_t *)key;
}

static uint64_t place_hash(uint64_t where)
{
    /* Fibonacci hashing: places are dense numbers. The high half is well mixed. */
    return where * UINT64_C(0x9e3779b97f4a7c15) >> 32;
}

static void live_add(struct live_set *live, uint64_t where)
{
    if (map_find(&live->map, place_hash(where), &where) != MAP_NONE)
        return;
    uint32_t number = live->idle_count ? live->idle[--live->idle_count] : live->count++;
    if (number >= live->cap) {
        live->cap = live->cap ? live->cap * 2 : 1024;
        live->places = mem_realloc(live->places, live->cap * sizeof(*live->places));
        live->idle = mem_realloc(live->idle, live->cap * sizeof(*live->idle));
    }
    live->places[number] = where;
    map_add(&live->map, place_hash(where), number);
}

static void live_remove(struct live_set *live, uint64_t where)
{
    uint32_t number = map_find(&live->map, place_hash(where), &where);
    if (number == MAP_NONE)
        return; /* the segment with the job was cleaned before */
    map_remove(&live->map, place_hash(where), number);
    live->idle[live->idle_count++] = number;
}

/* ---- batches ---- */

static void verify_job(struct verify *verify, const char *name, uint64_t offset, uint64_t where)
{
    const struct record *record = &verify->walk.record;
    verify->counts.jobs++;
    live_add(&verify->live, where);
    if (record_body_good(record))
        return;
    report(verify, "%s: offset %llu: the body of job %llu is damaged", name,
           (unsigned long long)offset, (unsigned long long)record->event.job.seq);
    verify->counts.bad++;
    buf_add(&verify->damaged_bodies, &where, sizeof(where));
}

/* Is this segment in the log? Then old records of jobs that went to a slice are still in it. */
static bool in_log(const struct verify *verify, uint32_t number)
{
    const struct directory *directory = &verify->directory;
    for (size_t i = 0; i < directory->used; i++)
        if (directory->found[i].number == number)
            return directory->found[i].head.batch_first >= directory->manifest.batch_first;
    return false;
}

static void verify_death(struct verify *verify, const struct record *record)
{
    uint64_t where = record->event.record.where;
    if (!where || record->event.kind == EVENT_MOVE)
        return; /* a MOVE names its job's record, which lives */
    live_remove(&verify->live, where);
    slice_liveness_mark_dead(&verify->liveness, where);
}

static void verify_slice_record(struct verify *verify, const struct slice_record *record)
{
    slice_liveness_apply(&verify->liveness, record);
    if (record->left && in_log(verify, record->left))
        verify->departed += record->jobs;
}

static void verify_batch(struct verify *verify, const char *name, uint64_t offset,
                         const struct batch_head *head, const char *batch)
{
    struct batch_walk *walk = &verify->walk;
    const struct record *record = &walk->record;
    enum err err;
    batch_walk_init(walk, batch, head->payload_bytes);
    walk->shows_slices = true;
    while ((err = batch_walk_next(walk)) == OK) {
        if (record->is_slice) {
            verify_slice_record(verify, &record->slice);
            continue;
        }
        if (record->event.kind == EVENT_JOB)
            verify_job(verify, name, offset + walk->record_at,
                       where_of(head->segment, offset + walk->record_at));
        if (record->event.kind >= EVENT_NOTE && !record_body_good(record)) {
            report(verify, "%s: offset %llu: %s damaged", name,
                   (unsigned long long)(offset + walk->record_at),
                   record->event.kind == EVENT_NOTE ? "the note of an attempt is"
                                                    : "settings of a topic are");
            verify->counts.bad++;
            verify->counts.hit_topics += record->event.kind == EVENT_SETTINGS;
        }
        verify_death(verify, record);
    }
    if (err == ERR_CORRUPT) {
        report(verify, "%s: offset %llu: a record of batch %llu is not valid", name,
               (unsigned long long)(offset + walk->at), (unsigned long long)head->number);
        verify->counts.bad++;
        verify->counts.unknown++;
        return;
    }
    size_t end = walk->end;
    uint32_t count = walk->count;
    verify->counts.records += count;
    if (count != head->record_count ||
        !bytes_all_zero(batch + end, batch_bytes(end - BATCH_HEAD) - end)) {
        report(verify,
               "%s: offset %llu: batch %llu has %u records, says %u, or its padding is not "
               "zero",
               name, (unsigned long long)offset, (unsigned long long)head->number, count,
               head->record_count);
        verify->counts.bad++;
        verify->counts.unknown += count != head->record_count;
    }
}

/* Reads the rest of a segment. *out_dirty: bytes that are not zero. Returns the error of a block
   that cannot be read, if there is one. */
static enum err verify_rest(struct verify *verify, struct walker *walker, uint64_t *out_dirty)
{
    enum place_kind kind;
    enum err unread = OK;
    *out_dirty = 0;
    for (; (kind = walker_classify(walker)) != PLACE_END; walker_next(walker)) {
        if (kind == PLACE_BLANK)
            continue;
        *out_dirty += walker->bytes;
        if (kind == PLACE_UNREAD)
            unread = walker->err;
        else if (walker_durable(walker) > verify->proven)
            verify->proven = walker_durable(walker);
    }
    return unread;
}

static void check_end(struct verify *verify, const char *name, uint64_t offset, uint64_t dirty,
                      uint64_t batch_end)
{
    bool last = batch_end == UINT64_MAX;
    if (!last && verify->batch_next != batch_end) {
        report(verify, "%s: offset %llu: batch %llu is damaged; batches up to %llu are lost", name,
               (unsigned long long)offset, (unsigned long long)verify->batch_next,
               (unsigned long long)(batch_end - 1));
        verify->counts.bad++;
        verify->log_damaged = true;
        verify->batch_next = batch_end;
    } else if (last && verify->batch_next <= verify->proven) {
        report(verify,
               "%s: offset %llu: batch %llu was durable and is damaged; batches up to %llu "
               "at least are lost",
               name, (unsigned long long)offset, (unsigned long long)verify->batch_next,
               (unsigned long long)verify->proven);
        verify->counts.bad++;
        verify->log_damaged = true;
    } else if (dirty && last) {
        report(verify,
               "%s: offset %llu: %llu bytes of a torn tail, as a crash leaves it; nothing shows "
               "that they were acknowledged",
               name, (unsigned long long)offset, (unsigned long long)dirty);
    } else if (dirty) {
        report(verify, "%s: offset %llu: %llu bytes behind the segment's end are not zero", name,
               (unsigned long long)offset, (unsigned long long)dirty);
        verify->counts.bad++;
    }
}

/* Moves from the damage at `offset` to the next batch of the log. False: there is none. */
static bool skip_damage(struct verify *verify, const char *name, struct walker *walker,
                        uint64_t offset, uint64_t batch_end)
{
    bool last = batch_end == UINT64_MAX;
    char batches[DAMAGE_BATCHES_ROOM];
    if (last && verify->batch_next > verify->proven)
        return false; /* the log's end */
    walker_move_to(walker, offset + BLOCK, verify->batch_next);
    if (!walker_seek(walker, verify->batch_next, last ? verify->proven + 2 : batch_end))
        return false;
    uint64_t number = walker->head.number;
    report(verify, "%s: offset %llu to %llu: %s %s damaged", name, (unsigned long long)offset,
           (unsigned long long)walker->offset,
           damage_batches(verify->batch_next, number - 1, batches),
           verify->batch_next == number - 1 ? "is" : "are");
    verify->counts.bad++;
    verify->log_damaged = true;
    verify->batch_next = number;
    return true;
}

/* Verifies good batches from the walker's position up to the first that is not good. */
static void verify_good(struct verify *verify, const char *name, struct walker *walker,
                        uint64_t batch_end)
{
    uint64_t before = verify->counts.bytes - walker->scan.size_bytes;
    walker_move_to(walker, walker->offset, verify->batch_next);
    while (walker->expected < batch_end && walker_classify(walker) == PLACE_BATCH) {
        verify_batch(verify, name, walker->offset, &walker->head, walker->batch);
        if (walker->head.durable > verify->proven)
            verify->proven = walker->head.durable;
        verify->counts.batches++;
        walker_next(walker);
        report_progress(verify, before + walker->offset);
    }
    verify->batch_next = walker->expected;
}

static enum err verify_batches(struct verify *verify, const char *name, struct walker *walker,
                               uint64_t batch_end)
{
    uint64_t dirty, offset;
    enum err err = OK; /* the first of all calls */
    do {
        verify_good(verify, name, walker, batch_end);
        offset = walker->offset;
        enum err rest = verify_rest(verify, walker, &dirty);
        err = err ? err : rest;
    } while (verify->batch_next < batch_end &&
             skip_damage(verify, name, walker, offset, batch_end));
    check_end(verify, name, offset, dirty, batch_end);
    return err;
}

/* Opens a segment's file for the walker, which the caller closes, and fills in its name. */
static enum err open_segment(struct verify *verify, const struct found *found,
                             struct walker *walker, char name[static DISK_NAME_MAX])
{
    segment_name(found->number, name);
    const struct walker_of of = directory_walker_of(&verify->directory, found);
    enum err err = walker_open(walker, verify->disk, &of, DISK_FRESH);
    if (!err)
        verify->counts.bytes += found->size_bytes;
    return err;
}

static enum err verify_segment(struct verify *verify, const struct found *found, uint64_t batch_end)
{
    char name[DISK_NAME_MAX];
    struct walker walker;
    enum err err = open_segment(verify, found, &walker, name);
    if (err)
        return err;
    verify->counts.segments++;
    err = verify_batches(verify, name, &walker, batch_end);
    if (err) {
        report(verify, "%s: the disk cannot read it", name);
        verify->counts.bad++;
        verify->log_damaged = true;
    }
    walker_close(&walker);
    return OK; /* the other segments are read, too */
}

/* Were all batches of the log found, so that no other file can have some? Called after the log was
 * read. After a kill there may be more of them than the manifest says. */
static bool log_is_whole(const struct verify *verify)
{
    return verify->directory.manifest.clean && !verify->log_damaged &&
           verify->counts.unknown == 0 && verify->batch_next > verify->proven;
}

/* Verifies a file without a good header: a spare has only zeros, else it is damaged, or the header
 * of a segment is. */
static enum err verify_unused(struct verify *verify, const struct found *found)
{
    char name[DISK_NAME_MAX];
    struct walker walker;
    uint64_t dirty = 0;
    if (found->verdict == FORMAT_SPARE)
        return OK; /* the next opening removes it */
    enum err err = open_segment(verify, found, &walker, name);
    if (err)
        return err;
    walker_move_to(&walker, 0, 0);
    err = verify_rest(verify, &walker, &dirty);
    if (err || dirty) {
        bool spare = !err && log_is_whole(verify);
        report(verify, "%s: %s", name,
               err     ? "the disk cannot read it"
               : spare ? "a spare file is damaged; nothing was in it, and the next start removes it"
                       : "the header of this segment is damaged, or it is a damaged spare file");
        verify->counts.bad++;
        verify->counts.spares += spare;
    }
    walker_close(&walker);
    return OK;
}

/* ---- slices ---- */

static enum err slice_job(void *ctx, const struct record *record, uint64_t where)
{
    struct verify *verify = ctx;
    (void)record;
    verify->counts.slice_jobs++;
    verify->counts.live_jobs += slice_liveness_is_live(&verify->liveness, where);
    return OK;
}

static void slice_lost(void *ctx, uint64_t seq, uint64_t where)
{
    struct verify *verify = ctx;
    if (!slice_liveness_is_live(&verify->liveness, where))
        return;
    report(verify, SLICE_NAME ": offset %llu: the record of job @%llu is damaged",
           where_segment(where), (unsigned long long)where_offset(where), (unsigned long long)seq);
    verify->counts.bad++;
    verify->counts.hit_jobs++;
}

static void slice_fault(void *ctx, const char *name, uint64_t offset, const char *text, bool whole)
{
    struct verify *verify = ctx;
    report(verify, "%s: offset %llu: %s", name, (unsigned long long)offset, text);
    verify->counts.bad++;
    verify->counts.unknown += !whole;
}

/* Called after the log was read, because that says which slices must exist. */
static void verify_slices(struct verify *verify)
{
    const struct directory *directory = &verify->directory;
    const struct slice_reader reader = {
        .ctx = verify, .job = slice_job, .lost = slice_lost, .fault = slice_fault};
    for (size_t i = 0; i < directory->slice_count; i++) {
        uint32_t number = directory->slices[i].number;
        uint64_t bytes = 0;
        if (directory->slices[i].half_made || slice_liveness_count(&verify->liveness, number) == 0)
            continue; /* the next opening removes it */
        verify->counts.slices++;
        if (slice_survey(verify->disk, &directory->manifest.id, number, &reader, &bytes)) {
            report(verify, SLICE_NAME ": the disk cannot read it", number);
            verify->counts.bad++;
            verify->counts.unknown++;
        }
        verify->counts.bytes += bytes;
    }
    for (size_t i = 0; i < verify->liveness.count; i++) {
        const struct slice_liveness *slice = &verify->liveness.at[i];
        if (slice->live == 0 || directory_has_slice(directory, slice->number))
            continue;
        report(verify, SLICE_NAME ": it is missing; %llu jobs that live were in it", slice->number,
               (unsigned long long)slice->live);
        verify->counts.bad++;
        verify->counts.hit_jobs += slice->live;
    }
}

static void history_fault(void *ctx, const char *name, uint64_t offset, const char *text)
{
    struct verify *verify = ctx;
    report(verify, "%s: offset %llu: %s; it holds what happened to jobs, and no job is concerned",
           name, (unsigned long long)offset, text);
    verify->counts.bad++;
}

static enum err verify_history(struct verify *verify)
{
    struct history_survey survey = {
        .fault = history_fault, .ctx = verify, .id = &verify->directory.manifest.id};
    enum err err = history_survey(verify->disk, &survey);
    verify->counts.history_files = survey.files;
    verify->counts.history_entries = survey.entries;
    verify->counts.bytes += survey.bytes;
    return err;
}

/* Verifies the image of the far index, on which no job depends. After a crash it is outdated, and
   the next opening removes it. */
static void verify_image(struct verify *verify)
{
    uint64_t bytes;
    const struct directory *directory = &verify->directory;
    if (!directory->image_there || !directory->manifest.clean)
        return;
    const char *wrong = far_image_check(verify->disk, &directory->manifest, &bytes);
    verify->counts.bytes += bytes;
    if (!wrong) {
        if (bytes == 0)
            report(verify,
                   FAR_IMAGE_NAME ": the image of the index of far jobs is not of this stop, "
                                  "and will not be used");
        return;
    }
    report(verify,
           FAR_IMAGE_NAME ": %s; the next opening reads the slices' indexes instead, and no job "
                          "is concerned",
           wrong);
    verify->counts.bad++;
}

static void report_followers(struct verify *verify)
{
    for (unsigned i = 0; i < FOLLOWERS_MAX; i++) {
        const struct manifest_follower *follower = &verify->directory.manifest.followers[i];
        if (follower->name[0])
            report(verify, "follower %.*s: has read up to batch %llu%s", FOLLOWER_NAME_MAX,
                   follower->name, (unsigned long long)follower->cursor,
                   follower->dropped ? "; it was dropped: the log is not kept for it" : "");
    }
}

/* ---- jobs affected by the damage ---- */

static int compare_seqs(const void *a, const void *b)
{
    uint64_t left, right;
    memcpy(&left, a, sizeof(left));
    memcpy(&right, b, sizeof(right));
    return left < right ? -1 : left > right;
}

static bool is_of_job(enum event_kind kind)
{
    return kind == EVENT_JOB || kind == EVENT_GONE || kind == EVENT_MOVE;
}

/* Reports what was in the region, and adds the numbers of the jobs concerned to `seqs`. */
static void report_region(struct verify *verify, const struct damage *damage,
                          const struct region *region, struct buf *seqs)
{
    char line[400], batches[DAMAGE_BATCHES_ROOM];
    bool missing = region->start == region->end, unknown = region->opaque || missing;
    report(verify, SEGMENT_NAME ": offset %llu, %s: %s", region->number,
           (unsigned long long)region->start,
           damage_batches(region->batch_first, region->batch_last, batches),
           region->harmless ? "nothing that lives was there"
           : unknown        ? "not all that was there can be told"
                            : "what lives, or may, was there");
    verify->counts.unknown += unknown;
    for (size_t i = region->first_suspect; i < region->suspect_end && !region->harmless; i++) {
        const struct suspect *suspect = &damage->suspects[i];
        if (suspect->harmless)
            continue; /* `dead` or `superseded` do not suffice: it may be about another job */
        damage_describe(suspect, line, sizeof(line));
        report(verify, "%s", line);
        if (is_of_job(suspect->kind))
            buf_add(seqs, &suspect->seq, sizeof(suspect->seq));
        else
            verify->counts.hit_topics += suspect->kind != EVENT_NOTE;
    }
}

/* How many different numbers there are. Sorts them. */
static uint64_t count_seqs(struct buf *seqs)
{
    uint64_t count = 0;
    size_t size = sizeof(uint64_t);
    if (seqs->len > 0)
        qsort(seqs->at, seqs->len / size, size, compare_seqs);
    for (size_t at = 0; at < seqs->len; at += size)
        count += at == 0 || memcmp(seqs->at + at - size, seqs->at + at, size) != 0;
    return count;
}

/* Called last: counts the jobs and topics that the damage in the log concerns. */
static void verify_damage(struct verify *verify)
{
    const struct directory *directory = &verify->directory;
    struct damage damage;
    struct buf seqs = {0};
    size_t first = 0;
    for (size_t at = 0; at < verify->damaged_bodies.len; at += sizeof(uint64_t)) {
        uint64_t where;
        memcpy(&where, verify->damaged_bodies.at + at, sizeof(where));
        verify->counts.hit_jobs +=
            map_find(&verify->live.map, place_hash(where), &where) != MAP_NONE;
    }
    while (first < directory->used &&
           directory->found[first].head.batch_first < directory->manifest.batch_first)
        first++;
    if (!verify->log_damaged)
        return;
    if (damage_survey(verify->disk, directory, first, &damage)) {
        verify->counts.unknown++; /* two reads of the same bytes gave different results */
        return;
    }
    for (size_t i = 0; i < damage.region_count; i++)
        report_region(verify, &damage, &damage.regions[i], &seqs);
    verify->counts.hit_jobs += count_seqs(&seqs);
    buf_fini(&seqs);
    damage_fini(&damage);
}

static enum err verify_directory(struct verify *verify)
{
    const struct directory *directory = &verify->directory;
    const struct manifest *manifest = &directory->manifest;
    enum err err = OK;
    verify->tag = store_tag(&manifest->id);
    verify->directory.history_last = history_last_batch(verify->disk, &manifest->id);
    verify->proven = manifest->durable;
    if (directory->history_last > verify->proven)
        verify->proven = directory->history_last;
    verify->batch_next = manifest->batch_first;
    verify->counts.bytes += MANIFEST_BYTES;
    verify->all_bytes = MANIFEST_BYTES;
    for (size_t i = 0; i < directory->count; i++)
        verify->all_bytes += directory->found[i].size_bytes;
    if (directory->slot_damaged) {
        report(verify, "%s: one of its two copies is damaged; the other is used", MANIFEST_NAME);
        verify->counts.bad++;
    }
    for (size_t i = 0; i < directory->used && !err; i++) {
        const struct found *found = &directory->found[i];
        if (found->head.batch_first < manifest->batch_first)
            continue; /* it was cleaned; the next opening removes it */
        if (found->head.batch_first > verify->batch_next) {
            char batches[DAMAGE_BATCHES_ROOM];
            uint64_t last_missing = found->head.batch_first - 1;
            report(verify, "%s %s missing with the segment",
                   damage_batches(verify->batch_next, last_missing, batches),
                   verify->batch_next == last_missing ? "is" : "are");
            verify->counts.bad++;
            verify->counts.unknown++;
            verify->batch_next = found->head.batch_first;
        }
        bool last = i + 1 == directory->used;
        err = verify_segment(verify, found,
                             last ? UINT64_MAX : directory->found[i + 1].head.batch_first);
    }
    if (!err && directory->used == 0 && verify->batch_next <= verify->proven) {
        report(verify, "all segments are missing");
        verify->counts.bad++;
        verify->counts.unknown++;
    }
    verify_slices(verify);
    verify_image(verify);
    if (!err)
        err = verify_history(verify);
    report_followers(verify);
    if (directory->set_aside)
        report(verify, "%u damaged segments were set aside, as wal-….damaged",
               directory->set_aside);
    for (size_t i = directory->used; i < directory->count && !err; i++)
        err = verify_unused(verify, &directory->found[i]);
    verify_damage(verify);
    return err;
}

/* Live jobs whose records are in the log. Damaged batches may have had old records of jobs that
   have departed: then it is a guess. */
static uint64_t live_in_log(const struct verify *verify)
{
    uint64_t records = map_count(&verify->live.map);
    return records > verify->departed ? records - verify->departed : 0;
}

enum err store_verify(struct disk *disk, const struct store_watcher *watcher,
                      struct store_counts *out_counts)
{
    struct store_error error = {0};
    struct verify *verify = mem_zalloc(sizeof(*verify));
    verify->disk = disk;
    verify->watcher = watcher;
    enum err err = disk->verbs->lock(disk, DISK_TO_READ);
    if (err) {
        mem_free(verify);
        return err;
    }
    map_init(&verify->live.map, place_eq, &verify->live);
    err = directory_read(disk, &verify->directory, &error);
    if (err && error.file[0])
        report(verify, "%s: offset %llu: %s", error.file, (unsigned long long)error.offset,
               error.text[0] ? error.text : err_text(err));
    if (!err && !verify->directory.manifest_there) {
        report(verify, "there is no store in this directory");
        err = ERR_NOT_FOUND;
    } else if (!err) {
        err = verify_directory(verify);
    }
    verify->counts.live_jobs += live_in_log(verify);
    if (!err)
        *out_counts = verify->counts;
    directory_fini(&verify->directory);
    slice_liveness_fini(&verify->liveness);
    map_fini(&verify->live.map);
    buf_fini(&verify->damaged_bodies);
    mem_free(verify->live.places);
    mem_free(verify->live.idle);
    mem_free(verify);
    disk->verbs->unlock(disk);
    return err;
}
