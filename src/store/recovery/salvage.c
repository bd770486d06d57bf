#include "store/recovery/salvage.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/codec.h"
#include "base/mem.h"
#include "store/recovery/history_rescue.h"
#include "store/recovery/history_survey.h"
#include "store/recovery/salvage_parts.h"
#include "store/slices/far_record.h"

enum { PROGRESS_BYTES = 16 * 1024 * 1024 };

/*
 * If the manifest is lost, the number of openings is derived from the log's clock, in hours: above
 * the true one, and higher each time, so that no lease is given twice. Leases of a new store are
 * boot << 44 | count.
 */
#define BOOT_UNKNOWN  (UINT64_C(1) << 16)
#define BOOT_EPOCH_US (INT64_C(1577836800) * 1000000) /* 2020 */
#define BOOT_HOUR_US  (INT64_C(3600) * 1000000)
#define BOOT_MAX      ((UINT64_C(1) << 20) - 4)

void salvage_print(struct salvage *salvage, const char *line)
{
    salvage->callbacks->print_line(salvage->callbacks, line);
}

/* ---- opening ---- */

void salvage_report_fault(struct salvage *salvage, const char *file, const char *fault)
{
    char line[DISK_NAME_MAX + 200];
    (void)snprintf(line, sizeof(line), "%s: %s", file, fault);
    salvage_print(salvage, line);
    salvage->counts.bad_files++;
}

static void report_aside(void *ctx, const char *name, const char *text)
{
    salvage_report_fault(ctx, name, text);
}

/*
 * Finds the first intact batch of a segment with a damaged header, with the key of a reused file,
 * which it sets, or without a key. The key is tried first: a reused file may contain batches
 * that need no key. False: there is none.
 */
static bool find_batch(const struct salvage *salvage, struct walker *walker)
{
    uint64_t secret = salvage->directory.manifest.secret;
    if (secret) {
        walker->scan.key = segment_key(secret, walker->scan.number);
        if (walker_seek(walker, 0, UINT64_MAX))
            return true;
        walker->scan.key = 0;
        walker_move_to(walker, BLOCK, 0);
    }
    return walker_seek(walker, 0, UINT64_MAX);
}

/* A file that is not read. If it was renamed, its own name is told: with that it would be. */
static void report_unused(struct salvage *salvage, const struct found *found, const char *name)
{
    char fault[160], own[DISK_NAME_MAX];
    bool renamed = found->head.number > 0 && found->head.number != found->number &&
                   store_id_eq(&found->head.id, &salvage->directory.manifest.id);
    segment_name(found->head.number, own);
    (void)snprintf(fault, sizeof(fault), "%s%s%s", found->fault,
                   renamed ? "; rename it back for that: " : "", renamed ? own : "");
    salvage_report_fault(salvage, name, fault);
}

/* Identifies a segment with a damaged header by its first batch. A spare has only zeros. */
static void identify(struct salvage *salvage, struct found *found)
{
    struct walker walker;
    char name[DISK_NAME_MAX];
    segment_name(found->number, name);
    const struct walker_of of = directory_walker_of(&salvage->directory, found);
    if (!found->fault && walker_open(&walker, salvage->disk, &of, DISK_FRESH))
        found->fault = "it cannot be opened; it is not read";
    if (found->fault) {
        report_unused(salvage, found, name);
        return;
    }
    if (find_batch(salvage, &walker)) {
        bool first = walker.offset == BLOCK || walker.head.number == 1;
        found->head = (struct segment_head){.number = found->number,
                                            .batch_first = walker.head.number - (first ? 0 : 1),
                                            .size_bytes = found->size_bytes,
                                            .key = walker.scan.key};
        found->verdict = FORMAT_GOOD;
        salvage_report_fault(salvage, name, "its header is damaged; its batches are read");
    } else {
        walker_move_to(&walker, 0, 0);
        if (walker_blank_from(&walker, NULL) > 0)
            salvage_report_fault(
                salvage, name,
                "its header is damaged, and no batch can be found in it; it is a spare file "
                "that held nothing, unless batches are missing");
    }
    walker_close(&walker);
}

static void report_manifest(struct salvage *salvage)
{
    struct directory *directory = &salvage->directory;
    if (!directory->manifest_there) {
        salvage_report_fault(
            salvage, MANIFEST_NAME,
            "it is damaged or missing; all segments are taken, so jobs that ended long ago "
            "may be among them, and segments may be missing at either end of the log");
    } else if (directory->slot_damaged) {
        salvage_report_fault(salvage, MANIFEST_NAME,
                             "one of its two copies is damaged; the other is used");
    }
}

static void note_begin_lost(struct salvage *salvage)
{
    salvage->begin_lost = true;
    salvage->counts.opaque_regions++;
}

/* Reports segments that are missing at the log's beginning, and lengths that are wrong. Others that
   are missing are found when the batches are read. */
static void report_segments(struct salvage *salvage)
{
    const struct directory *directory = &salvage->directory;
    const struct manifest *manifest = &directory->manifest;
    char fault[160];
    uint64_t durable =
        manifest->durable > directory->history_last ? manifest->durable : directory->history_last;
    if (salvage->first_segment == directory->used && directory->manifest_there &&
        durable >= manifest->batch_first) {
        (void)snprintf(fault, sizeof(fault),
                       "batches %" PRIu64 " to %" PRIu64 " are missing: no segment that had them "
                       "is here",
                       manifest->batch_first, durable);
        salvage_report_fault(salvage, "wal-*", fault);
        note_begin_lost(salvage);
    }
    for (size_t i = salvage->first_segment; i < directory->used; i++) {
        const struct found *found = &directory->found[i];
        char name[DISK_NAME_MAX];
        segment_name(found->number, name);
        if (i == salvage->first_segment && directory->manifest_there &&
            found->head.batch_first > manifest->batch_first) {
            (void)snprintf(fault, sizeof(fault),
                           "batches %" PRIu64 " to %" PRIu64 " are missing: this segment is the "
                           "first that is here, and another one was",
                           manifest->batch_first, found->head.batch_first - 1);
            salvage_report_fault(salvage, name, fault);
            note_begin_lost(salvage);
        }
        if (found->head.size_bytes != found->size_bytes) {
            (void)snprintf(fault, sizeof(fault),
                           "it has %" PRIu64 " bytes and had %" PRIu64 ": it was cut, or has grown",
                           found->size_bytes, found->head.size_bytes);
            salvage_report_fault(salvage, name, fault);
            salvage->counts.cut_files += found->size_bytes < found->head.size_bytes;
        }
    }
}

static void choose_segments(struct salvage *salvage)
{
    struct directory *directory = &salvage->directory;
    report_manifest(salvage);
    directory->history_last = history_last_batch(salvage->disk, &directory->manifest.id);
    for (size_t i = directory->used; i < directory->count; i++)
        if (directory->found[i].verdict != FORMAT_SPARE)
            identify(salvage, &directory->found[i]);
    directory_sort(directory);
    while (salvage->first_segment < directory->used &&
           directory->found[salvage->first_segment].head.batch_first <
               directory->manifest.batch_first)
        salvage->first_segment++;
    salvage->seq_mark = directory->manifest.seq_mark;
    report_segments(salvage);
    for (size_t i = salvage->first_segment; i < directory->used; i++) {
        struct found *found = &directory->found[i];
        if (found->size_bytes > found->head.size_bytes) /* what is behind was never the log's */
            found->size_bytes = found->head.size_bytes;
        salvage->all_bytes += found->size_bytes;
        if (found->head.seq_mark > salvage->seq_mark)
            salvage->seq_mark = found->head.seq_mark;
    }
}

enum err salvage_open(struct disk *disk, bool lock, struct salvage_callbacks *callbacks,
                      struct salvage **out_salvage, struct store_error *out_error)
{
    *out_error = (struct store_error){0};
    enum err err = lock ? disk->verbs->lock(disk, DISK_TO_READ) : OK;
    if (err)
        return err;
    struct salvage *salvage = mem_zalloc(sizeof(*salvage));
    salvage->disk = disk;
    salvage->locked = lock;
    salvage->callbacks = callbacks;
    err = directory_read_lenient(disk, &salvage->directory, out_error);
    if (!err && !salvage->directory.manifest_there && salvage->directory.count == 0)
        err = ERR_NOT_FOUND;
    if (!err && !salvage->directory.manifest_there && salvage->directory.used == 0) {
        store_error_set(out_error, MANIFEST_NAME, 0,
                        "the manifest and the headers of all segments are damaged");
        err = ERR_CORRUPT;
    }
    if (err) {
        salvage_close(salvage);
        return err;
    }
    choose_segments(salvage);
    salvage->aside = (struct aside){
        .disk = disk, .id = &salvage->directory.manifest.id, .fault = report_aside, .ctx = salvage};
    *out_salvage = salvage;
    return OK;
}

void salvage_close(struct salvage *salvage)
{
    if (!salvage)
        return;
    if (salvage->file_number)
        salvage->disk->verbs->close(salvage->disk, salvage->file);
    if (salvage->locked)
        salvage->disk->verbs->unlock(salvage->disk);
    aside_fini(&salvage->aside);
    strays_fini(&salvage->strays);
    damage_fini(&salvage->damage);
    slice_liveness_fini(&salvage->liveness);
    directory_fini(&salvage->directory);
    mem_free(salvage);
}

/* ---- events ---- */

void salvage_report_unbelieved(struct salvage *salvage, uint64_t seq)
{
    char line[120];
    (void)snprintf(line, sizeof(line),
                   "job @%" PRIu64 ": what a damaged block of far jobs says of it is not believed",
                   seq);
    salvage_print(salvage, line);
}

/* Replays an event that is in its place in the log. Strays that hide its job end first: they may be
   what a client has written. */
static enum err replay_in_place(struct salvage *salvage, const struct event *event,
                                enum salvage_trust trust)
{
    struct event gone = {.kind = EVENT_GONE};
    enum err err = OK;
    while (!err && strays_hides(&salvage->strays, event, &gone.job.seq)) {
        salvage_report_unbelieved(salvage, gone.job.seq);
        err = salvage->callbacks->replay(salvage->callbacks, &gone, SALVAGE_INTACT);
    }
    return err ? err : salvage->callbacks->replay(salvage->callbacks, event, trust);
}

static enum err replay_good(void *ctx, const struct good_batch *batch)
{
    struct salvage *salvage = ctx;
    enum err err;
    struct batch_walk walk;
    struct event *event = &walk.record.event;
    salvage->callbacks->clock(salvage->callbacks, batch->head->clock_us);
    batch_walk_init(&walk, batch->at, batch->head->payload_bytes);
    walk.shows_history = true;
    while ((err = batch_walk_next(&walk)) == OK) {
        if (walk.record.is_history) {
            salvage->has_history = true;
            continue;
        }
        event->record = (struct stored){0};
        if (event_has_place(event))
            event->record.where = where_of(batch->number, batch->offset + walk.record_at);
        if (event->job.lease != UINT64_MAX && event->job.lease > salvage->lease_max)
            salvage->lease_max = event->job.lease;
        err = replay_in_place(salvage, event, SALVAGE_INTACT);
        if (err)
            break;
    }
    if (err == ERR_NOT_FOUND)
        err = OK; /* the end of the batch */
    if (batch->head->clock_us > salvage->clock_max_us)
        salvage->clock_max_us = batch->head->clock_us;
    if (batch->head->seq_mark > salvage->seq_mark)
        salvage->seq_mark = batch->head->seq_mark;
    salvage->counts.batches++;
    salvage->done_bytes += batch_bytes(batch->head->payload_bytes);
    if (salvage->callbacks->progress &&
        salvage->done_bytes - salvage->reported_bytes >= PROGRESS_BYTES) {
        salvage->reported_bytes = salvage->done_bytes;
        salvage->callbacks->progress(salvage->callbacks, salvage->done_bytes, salvage->all_bytes);
    }
    return err;
}

/* The scan of an opaque region also finds records inside bodies, which a client has written. */
static enum err replay_stray(struct salvage *salvage, const struct suspect *suspect,
                             const struct event *event)
{
    char line[120];
    enum err err = suspect->seq_known
                       ? ERR_CORRUPT
                       : salvage->callbacks->replay(salvage->callbacks, event, SALVAGE_STRAY);
    if (err != ERR_CORRUPT)
        return err;
    (void)snprintf(line, sizeof(line),
                   "job @%" PRIu64 ": what the damaged batch says of it is not believed",
                   suspect->seq);
    salvage_print(salvage, line);
    return OK;
}

static enum err replay_suspect(struct salvage *salvage, const struct suspect *suspect)
{
    bool stray = salvage->damage.regions[suspect->region].opaque && !suspect->proven;
    struct record record;
    char line[400];
    struct event gone = {.kind = EVENT_GONE, .job = {.seq = suspect->died_seq}};
    enum err err = suspect->proven
                       ? salvage->callbacks->replay(salvage->callbacks, &gone, SALVAGE_INTACT)
                       : OK;
    bool is_note = suspect->kind == EVENT_NOTE; /* an intact one is kept in any case */
    bool done = suspect->dead || suspect->harmless || suspect->superseded;
    if (err || (done && !is_note) || record_decode(suspect->at, suspect->len, &record))
        return err;
    damage_describe(suspect, line, sizeof(line));
    salvage_print(salvage, line);
    if (suspect->kind == EVENT_GONE)
        return OK; /* not proven: a job twice is better than a lost job */
    bool summed = event_has_place(&record.event);
    if (summed && !suspect->body_good) {
        salvage->counts.lost_jobs += suspect->kind == EVENT_JOB;
        return OK;
    }
    record.event.record = (struct stored){0};
    if (summed)
        record.event.record.where = suspect->where;
    if (suspect->kind == EVENT_JOB && stray)
        return replay_stray(salvage, suspect, &record.event);
    err = replay_in_place(salvage, &record.event, SALVAGE_DOUBTFUL);
    return err == ERR_CORRUPT ? OK : err; /* invalid because of the damage */
}

static enum err replay_region(void *ctx, struct region *region)
{
    struct salvage *salvage = ctx;
    char line[200], batches[DAMAGE_BATCHES_ROOM];
    enum err err = OK;
    bool missing = region->start == region->end, one = region->batch_first == region->batch_last;
    (void)snprintf(line, sizeof(line),
                   SEGMENT_NAME ": bytes %" PRIu64 " to %" PRIu64 ": %s %s %s%s", region->number,
                   region->start, region->end,
                   damage_batches(region->batch_first, region->batch_last, batches),
                   one ? "is" : "are", missing ? "missing" : "damaged",
                   region->harmless ? "; nothing that lives was there"
                   : region->opaque ? "; not all that was there can be told"
                                    : "");
    salvage_print(salvage, line);
    salvage->counts.damaged_batches += region->batch_last - region->batch_first + 1;
    salvage->counts.opaque_regions += region->opaque;
    salvage->callbacks->clock(salvage->callbacks, 0); /* a damaged header has no valid time */
    for (size_t i = region->first_suspect; i < region->suspect_end && !err; i++)
        err = replay_suspect(salvage, &salvage->damage.suspects[i]);
    return err;
}

enum err salvage_replay(struct salvage *salvage)
{
    struct damage_reader reader = {.batch = replay_good, .region = replay_region, .ctx = salvage};
    enum err err =
        damage_survey(salvage->disk, &salvage->directory, salvage->first_segment, &salvage->damage);
    if (!err)
        err = salvage_replay_slices(salvage);
    return err ? err : damage_read(&salvage->damage, &reader);
}

enum err salvage_skip_region(void *ctx, struct region *region)
{
    (void)ctx;
    (void)region;
    return OK;
}

/* ---- history ---- */

struct history_reading {
    struct salvage *salvage;
    struct history_rescue *rescue;
    bool notes; /* entries go to history_rescue_note(); else to the callback */
};

static void fault_history(void *ctx, const char *name, uint64_t offset, const char *text)
{
    struct salvage *salvage = ctx;
    char fault[200];
    (void)snprintf(fault, sizeof(fault), "offset %" PRIu64 ": %s", offset, text);
    salvage_report_fault(salvage, name, fault);
}

static enum err notify_happening(void *ctx, const struct happening *happening)
{
    struct salvage *salvage = ctx;
    salvage->counts.history++;
    return salvage->callbacks->happened(salvage->callbacks, happening);
}

static enum err read_history(void *ctx, const struct good_batch *batch)
{
    struct history_reading *reading = ctx;
    struct batch_walk walk;
    struct happening happening;
    size_t len;
    enum err err = OK;
    if (history_rescue_covers(reading->rescue, batch->head->number))
        return OK;
    batch_walk_init(&walk, batch->at, batch->head->payload_bytes);
    walk.shows_history = true;
    while (!err && batch_walk_next(&walk) == OK) {
        struct bytes entry = walk.record.entry;
        if (!walk.record.is_history || history_entry_decode(entry.at, entry.len, &happening, &len))
            continue;
        if (reading->notes)
            history_rescue_note(reading->rescue, entry);
        else
            err = notify_happening(reading->salvage, &happening);
    }
    return err;
}

enum err salvage_history(struct salvage *salvage)
{
    struct history_reading reading = {.salvage = salvage};
    struct damage_reader reader = {
        .batch = read_history, .region = salvage_skip_region, .ctx = &reading};
    enum err err =
        history_rescue_new(&(struct history_rescue_options){.disk = salvage->disk,
                                                            .id = &salvage->directory.manifest.id,
                                                            .fault = fault_history,
                                                            .ctx = salvage},
                           &reading.rescue);
    if (err)
        return err;
    reading.notes = true;
    if (salvage->has_history && history_rescue_is_incomplete(reading.rescue))
        err = damage_read(&salvage->damage, &reader);
    reading.notes = false;
    if (!err)
        err = history_rescue_replay(reading.rescue, notify_happening, salvage);
    if (!err && salvage->has_history)
        err = damage_read(&salvage->damage, &reader);
    history_rescue_free(reading.rescue);
    return err;
}

/* An upper bound of how often the store was opened. */
static uint64_t boots_of(const struct salvage *salvage)
{
    uint64_t boot = salvage->directory.manifest.boot;
    if (!salvage->directory.manifest_there) {
        int64_t since_us = salvage->clock_max_us - BOOT_EPOCH_US;
        boot = BOOT_UNKNOWN + (since_us > 0 ? (uint64_t)(since_us / BOOT_HOUR_US) : 0);
    }
    if (salvage->lease_max >> 44 > boot)
        boot = salvage->lease_max >> 44;
    return boot < BOOT_MAX ? boot : BOOT_MAX;
}

void salvage_counts(const struct salvage *salvage, struct salvage_counts *out_counts)
{
    bool damaged = salvage->counts.bad_files > 0 || salvage->counts.damaged_batches > 0;
    *out_counts = salvage->counts;
    out_counts->segments = salvage->directory.used - salvage->first_segment;
    out_counts->seq_first = salvage->seq_mark + (damaged ? 2 * SEQ_AHEAD : 0);
    out_counts->boot = boots_of(salvage) + (damaged ? 2 : 1);
}

/* ---- bodies ---- */

/* Is it a segment's number? Then a slice of that number is of another store: they share a row. */
static bool is_segment(const struct salvage *salvage, uint32_t number)
{
    size_t i = salvage->first_segment;
    while (i < salvage->directory.used && salvage->directory.found[i].number != number)
        i++;
    return i < salvage->directory.used;
}

static void name_file(const struct salvage *salvage, uint32_t number, char name[DISK_NAME_MAX])
{
    segment_name(number, name);
    if (!is_segment(salvage, number) && directory_has_slice(&salvage->directory, number))
        slice_name(number, name);
}

void salvage_place(const struct salvage *salvage, uint64_t where, char name[DISK_NAME_MAX],
                   uint64_t *out_offset)
{
    name_file(salvage, where_segment(where), name);
    *out_offset = where_offset(where);
}

static enum err open_segment(struct salvage *salvage, uint32_t number)
{
    char name[DISK_NAME_MAX];
    if (salvage->file_number == number)
        return OK;
    if (salvage->file_number)
        salvage->disk->verbs->close(salvage->disk, salvage->file);
    salvage->file_number = 0;
    name_file(salvage, number, name);
    enum err err = salvage->disk->verbs->open(salvage->disk, name, DISK_CACHED, &salvage->file);
    if (!err)
        salvage->file_number = number;
    return err;
}

static enum err read_record(struct salvage *salvage, uint64_t where, enum event_kind kind,
                            struct arena *arena, struct record *out_record)
{
    char front[8];
    size_t got = 0;
    uint64_t offset = where_offset(where), size_bytes = 0;
    enum err err = open_segment(salvage, where_segment(where));
    if (!err)
        err = salvage->disk->verbs->size(salvage->disk, salvage->file, &size_bytes);
    if (!err)
        err = salvage->disk->verbs->read(salvage->disk, salvage->file, offset, front, 8, &got);
    size_t len = !err && got == 8 ? get_u32(front) : 0;
    if (len < (kind == EVENT_JOB ? FAR_RECORD_MIN : RECORD_NOTE_HEAD) || size_bytes < offset ||
        len > size_bytes - offset)
        return ERR_DAMAGED; /* a damaged length must not decide how much memory is taken */
    char *at = arena_alloc(arena, len);
    err = salvage->disk->verbs->read(salvage->disk, salvage->file, offset, at, len, &got);
    if (err || got != len || record_decode(at, len, out_record) || out_record->event.kind != kind ||
        !record_body_good(out_record))
        return ERR_DAMAGED;
    return OK;
}

enum err salvage_read(struct salvage *salvage, uint64_t seq, uint64_t where, struct arena *arena,
                      struct salvage_body *out_body)
{
    struct record record;
    enum err err = read_record(salvage, where, EVENT_JOB, arena, &record);
    bool aside = err || record.event.job.seq != seq;
    if (aside && aside_read(&salvage->aside, seq, arena, &record))
        return ERR_DAMAGED;
    *out_body = (struct salvage_body){record.event, aside};
    return OK;
}

enum err salvage_read_note(struct salvage *salvage, uint64_t seq, uint64_t where,
                           struct arena *arena, struct event *out_event)
{
    struct record record;
    enum err err = read_record(salvage, where, EVENT_NOTE, arena, &record);
    if (err || record.event.job.seq != seq)
        return ERR_DAMAGED;
    *out_event = record.event;
    return OK;
}
