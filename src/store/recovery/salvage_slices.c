#include "store/recovery/salvage_parts.h"

#include <inttypes.h>
#include <stdio.h>

#include "store/slices/far_record.h"

/* damage_reader::batch: reads a good batch's records about slices. */
static enum err gather_liveness(void *ctx, const struct good_batch *batch)
{
    struct salvage *salvage = ctx;
    struct batch_walk walk;
    const struct record *record = &walk.record;
    if (batch->head->seq_mark > salvage->seq_mark)
        salvage->seq_mark = batch->head->seq_mark;
    batch_walk_init(&walk, batch->at, batch->head->payload_bytes);
    walk.shows_slices = true;
    while (batch_walk_next(&walk) == OK) {
        if (record->is_slice)
            slice_liveness_apply(&salvage->liveness, &record->slice);
        else if (record->event.record.where && record->event.kind != EVENT_MOVE)
            slice_liveness_mark_dead(&salvage->liveness, record->event.record.where);
    }
    return OK;
}

/* A job that is in its place proves that its number was given out, also if the log's end is lost.
 */
static void note_seq(struct salvage *salvage, uint64_t seq)
{
    if (seq < UINT64_MAX && seq + 1 > salvage->far_seq_end)
        salvage->far_seq_end = seq + 1;
}

static enum err replay_far(void *ctx, const struct record *record, uint64_t where)
{
    struct salvage *salvage = ctx;
    struct event event = record->event;
    note_seq(salvage, event.job.seq);
    if (!slice_liveness_is_live(&salvage->liveness, where))
        return OK;
    event.record = (struct stored){.where = where, .bytes = (uint32_t)record->len};
    return salvage->callbacks->replay(salvage->callbacks, &event, SALVAGE_INTACT);
}

/* slice_reader::stray: they are replayed when all that is known of slices has been. */
static enum err note_stray(void *ctx, const struct record *record, uint64_t where)
{
    struct salvage *salvage = ctx;
    (void)record;
    strays_note_slice(&salvage->strays, where_segment(where));
    return OK;
}

static void report_lost_far(void *ctx, uint64_t seq, uint64_t where)
{
    struct salvage *salvage = ctx;
    char line[160];
    if (!slice_liveness_is_live(&salvage->liveness, where))
        return;
    (void)snprintf(line, sizeof(line),
                   SLICE_NAME ": offset %" PRIu64 ": the record of job @%" PRIu64
                              " is damaged; it is lost",
                   where_segment(where), where_offset(where), seq);
    salvage_print(salvage, line);
    salvage->counts.lost_jobs++;
}

static void report_far_fault(void *ctx, const char *name, uint64_t offset, const char *text,
                             bool whole)
{
    struct salvage *salvage = ctx;
    char fault[200];
    (void)snprintf(fault, sizeof(fault), "offset %" PRIu64 ": %s", offset, text);
    salvage_report_fault(salvage, name, fault);
    salvage->counts.opaque_regions += !whole;
}

/* Replays what the log says lives. */
static enum err replay_known_slices(struct salvage *salvage)
{
    const struct slice_reader reader = {.ctx = salvage,
                                        .job = replay_far,
                                        .stray = note_stray,
                                        .lost = report_lost_far,
                                        .fault = report_far_fault};
    enum err err = OK;
    salvage->callbacks->clock(salvage->callbacks, 0);
    for (size_t i = 0; i < salvage->liveness.count && !err; i++) {
        const struct slice_liveness *slice = &salvage->liveness.at[i];
        char name[DISK_NAME_MAX], fault[120];
        uint64_t bytes;
        if (slice->live == 0)
            continue;
        bool there = directory_has_slice(&salvage->directory, slice->number);
        if (there)
            err = slice_survey(salvage->disk, &salvage->directory.manifest.id, slice->number,
                               &reader, &bytes);
        if (there && err != ERR_IO && err != ERR_AGAIN && err != ERR_NOT_FOUND)
            continue;
        (void)snprintf(fault, sizeof(fault), "it %s; %" PRIu64 " jobs were in it",
                       there ? "cannot be opened" : "is missing", slice->live);
        slice_name(slice->number, name);
        salvage_report_fault(salvage, name, fault);
        salvage->counts.lost_jobs += slice->live;
        err = OK;
    }
    return err;
}

/* Can a batch be lost that said which jobs of a slice live? */
static bool may_lack_liveness(const struct salvage *salvage)
{
    bool lost = salvage->begin_lost || !salvage->directory.manifest_there;
    for (size_t i = 0; i < salvage->damage.region_count && !lost; i++)
        lost = salvage->damage.regions[i].opaque;
    return lost;
}

static void report_unknown(struct salvage *salvage, uint32_t number)
{
    char line[120];
    if (salvage->told == number)
        return;
    salvage->told = number;
    (void)snprintf(line, sizeof(line),
                   SLICE_NAME ": the log does not say which of its jobs live: all are taken",
                   number);
    salvage_print(salvage, line);
}

static enum err replay_unknown(void *ctx, const struct record *record, uint64_t where)
{
    struct salvage *salvage = ctx;
    struct event event = record->event;
    note_seq(salvage, event.job.seq);
    if (slice_liveness_knows(&salvage->liveness, where))
        return OK;
    event.record = (struct stored){.where = where, .bytes = (uint32_t)record->len};
    report_unknown(salvage, where_segment(where));
    enum err err = salvage->callbacks->replay(salvage->callbacks, &event, SALVAGE_STRAY);
    return err == ERR_CORRUPT ? OK : err; /* a newer record of it is there */
}

/* The index names it, its record is damaged, and whether it lived is lost as well. */
static void count_unknown(void *ctx, uint64_t seq, uint64_t where)
{
    struct salvage *salvage = ctx;
    (void)seq;
    if (slice_liveness_knows(&salvage->liveness, where) || salvage->opaque == where_segment(where))
        return;
    salvage->opaque = where_segment(where);
    salvage->counts.opaque_regions++;
}

/* Jobs of which lost batches said that they live: all of a slice, perhaps. One that has ended comes
   back if its end has left the log. Behind those that are known to live; of two records the newer
   slice's is right. */
static enum err replay_unknown_slices(struct salvage *salvage)
{
    const struct directory *directory = &salvage->directory;
    enum err err = OK;
    for (size_t i = 0; i < directory->slice_count && !err; i++) {
        uint32_t number = directory->slices[i].number;
        bool again = slice_liveness_count(&salvage->liveness, number) > 0;
        const struct slice_reader reader = {.ctx = salvage,
                                            .job = replay_unknown,
                                            .stray = note_stray,
                                            .lost = again ? count_unknown : NULL,
                                            .fault = again ? NULL : report_far_fault};
        uint64_t bytes;
        if (directory->slices[i].half_made)
            continue;
        err = slice_survey(salvage->disk, &directory->manifest.id, number, &reader, &bytes);
        if (err == ERR_IO || err == ERR_AGAIN || err == ERR_NOT_FOUND)
            err = OK; /* nothing says that a job in it lives */
    }
    return err;
}

static enum err skip_known(void *ctx, const struct record *record, uint64_t where)
{
    (void)ctx;
    (void)record;
    (void)where;
    return OK;
}

static enum err replay_stray_far(void *ctx, const struct record *record, uint64_t where)
{
    struct salvage *salvage = ctx;
    struct event event = record->event;
    bool known = slice_liveness_knows(&salvage->liveness, where);
    if (known ? !slice_liveness_is_live(&salvage->liveness, where) : !salvage->lacks_liveness)
        return OK;
    if (!strays_believes(&salvage->strays, event.job.seq)) {
        salvage_report_unbelieved(salvage, event.job.seq);
        return OK;
    }
    if (!known)
        report_unknown(salvage, where_segment(where));
    event.record = (struct stored){.where = where, .bytes = (uint32_t)record->len};
    enum err err = salvage->callbacks->replay(salvage->callbacks, &event, SALVAGE_STRAY);
    if (!err)
        strays_add(&salvage->strays, &event);
    return err == ERR_CORRUPT ? OK : err;
}

/* Behind all far jobs that are in their places, but before the log, which has later changes. */
static enum err replay_strays(struct salvage *salvage)
{
    const struct slice_reader reader = {
        .ctx = salvage, .job = skip_known, .stray = replay_stray_far};
    enum err err = OK;
    for (size_t i = 0; i < salvage->strays.slice_count && !err; i++) {
        uint64_t bytes;
        err = slice_survey(salvage->disk, &salvage->directory.manifest.id,
                           salvage->strays.slices[i], &reader, &bytes);
        if (err == ERR_IO || err == ERR_AGAIN || err == ERR_NOT_FOUND)
            err = OK; /* it was read before: what is in it was counted */
    }
    strays_sort(&salvage->strays);
    return err;
}

/* False: there are no slices, and the log need not be read for them. */
static bool uses_slices(const struct salvage *salvage)
{
    const struct directory *directory = &salvage->directory;
    return directory->slice_count > 0 || !directory->manifest_there ||
           directory->manifest.incompatible & FEATURE_SLICES;
}

enum err salvage_replay_slices(struct salvage *salvage)
{
    struct damage_reader liveness = {
        .batch = gather_liveness, .region = salvage_skip_region, .ctx = salvage};
    enum err err = OK;
    if (uses_slices(salvage))
        err = damage_read(&salvage->damage, &liveness);
    if (!err)
        err = replay_known_slices(salvage);
    salvage->lacks_liveness = !err && may_lack_liveness(salvage);
    if (salvage->lacks_liveness)
        err = replay_unknown_slices(salvage);
    uint64_t seq_end = salvage->seq_mark;
    if (salvage->far_seq_end > seq_end)
        seq_end = salvage->far_seq_end;
    if (salvage->directory.manifest_there)
        salvage->strays.seq_end = seq_end + 2 * SEQ_AHEAD;
    return err ? err : replay_strays(salvage);
}
