/*
 * Opening: replays the log's SLICE records, and at the end passes the live far jobs to the
 * callbacks. A slice's file is opened when the log first mentions the slice. A job's record is read
 * from it only if the log has a MOVE of that job, which is incomplete without the record.
 *
 * The log may mention a slice (by a death or a MOVE) before its first SLICE record: the original
 * SLICE records may have been cleaned, and a whole one follows further on. Until then its deaths
 * are not counted, because the whole record includes them.
 */
#include <stdio.h>

#include "base/check.h"
#include "base/codec.h"
#include "base/hash.h"
#include "base/mem.h"
#include "store/slices/far_image.h"
#include "store/slices/far_record.h"
#include "store/slices/slices_parts.h"

enum {
    RECORD_BYTES = 4096,           /* read at first of a record */
    REPLAY_AHEAD = 256 * 1024,     /* read ahead where changed records follow each other */
    REPLAYED_AT_ONCE = 64,         /* far jobs passed in one call of replay_far() */
    FETCH_HEADS = 16,              /* read ahead: headers of files, which stay open meanwhile; */
    FETCH_BYTES = 4 * 1024 * 1024, /* bytes of indexes, … */
    FETCH_INDEXES = 16,            /* … of at most so many slices, whose files stay open */
    HEAD_AS_BYTES = 64 * 1024,     /* for progress: opening a file counts as replaying so much */
    JOBS_BY_BYTE = 32, /* for progress: far_end() of so many jobs counts as reading one byte */
};

static enum err open_slice(struct disk *disk, uint32_t number, struct disk_file **out_file)
{
    char name[DISK_NAME_MAX];
    slice_name(number, name);
    enum err err = disk->verbs->open(disk, name, DISK_CACHED, out_file);
    if (!err)
        disk->verbs->exact(disk, *out_file);
    return err;
}

/*
 * Read-ahead: the log will mention most slices, and then the header and the fences of their file
 * are read. Where the fences are is in the header, which was requested FETCH_HEADS files ago.
 */
static void fetch_fences(struct disk *disk, struct disk_file *file, char *block)
{
    struct slice_head head;
    size_t got = 0;
    bool read = disk->verbs->read(disk, file, 0, block, BLOCK, &got) == OK && got == BLOCK;
    if (read && slice_head_decode(block, &head) == FORMAT_GOOD) /* else get_slice() tells of it */
        disk->verbs->fetch(disk, file, head.data_end, (uint64_t)head.blocks * SLICE_FENCE_BYTES);
    disk->verbs->close(disk, file);
}

static void fetch_head(struct disk *disk, const struct found_slice *found,
                       struct disk_file **out_file)
{
    if (!found->half_made && open_slice(disk, found->number, out_file) == OK)
        disk->verbs->fetch(disk, *out_file, 0, BLOCK);
}

enum err slices_begin(struct slices *slices, const struct directory *directory)
{
    struct disk *disk = slices->store->disk;
    struct disk_file *files[FETCH_HEADS] = {0};
    char *block = mem_aligned(BLOCK, BLOCK);
    enum err err = OK;
    slices->directory = directory;
    for (size_t i = 0; i < directory->slice_count + FETCH_HEADS; i++) {
        struct disk_file **file = &files[i % FETCH_HEADS];
        if (*file)
            fetch_fences(disk, *file, block);
        *file = NULL;
        if (i >= directory->slice_count || err)
            continue;
        fetch_head(disk, &directory->slices[i], file);
        err = store_opening_worked(slices->store, HEAD_AS_BYTES);
    }
    mem_free(block);
    return err;
}

/* ---- reading a file, waiting for the disk ---- */

/* Sets the error, and returns it. */
static enum err damaged(uint32_t number, uint64_t offset, const char *what,
                        struct store_error *out_error)
{
    char name[DISK_NAME_MAX];
    slice_name(number, name);
    store_error_set(out_error, name, offset,
                    "%s; it holds far jobs that were acknowledged. All that is intact can be "
                    "recovered with: later salvage DIR NEW; or restore the file from a backup. "
                    "Nothing was changed",
                    what);
    return ERR_CORRUPT;
}

static enum err read_head(struct slices *slices, struct disk_file *file, uint32_t number,
                          struct slice_head *out_head, struct slice_fence **out_fences)
{
    struct disk *disk = slices->store->disk;
    char *block = mem_aligned(BLOCK, BLOCK);
    uint64_t size_bytes = 0;
    enum err err = directory_read_all(disk, file, 0, block, BLOCK);
    if (!err)
        err = disk->verbs->size(disk, file, &size_bytes);
    enum format_verdict verdict = err ? FORMAT_BAD : slice_head_decode(block, out_head);
    mem_free(block);
    if (err)
        return err;
    if (verdict != FORMAT_GOOD)
        return verdict == FORMAT_NEWER ? ERR_UNSUPPORTED : ERR_CORRUPT;
    if (out_head->number != number || out_head->size_bytes != size_bytes ||
        !store_id_eq(&out_head->id, &slices->store->id))
        return ERR_CORRUPT;
    size_t len = (size_t)out_head->blocks * SLICE_FENCE_BYTES;
    char *section = mem_alloc(len);
    struct slice_fence *fences = mem_alloc(out_head->blocks * sizeof(*fences));
    err = directory_read_all(disk, file, out_head->data_end, section, len);
    if (!err)
        err = slice_fences_decode(out_head, section, fences);
    mem_free(section);
    if (err)
        mem_free(fences);
    else
        *out_fences = fences;
    return err;
}

/* Gets the slice, from its file if it is not known. If the file is missing, it has no fences. */
static enum err get_slice(struct slices *slices, uint32_t number, struct slice **out_slice,
                          struct store_error *out_error)
{
    struct segment *segment = segments_find(slices->segments, number);
    struct disk *disk = slices->store->disk;
    struct slice_head head = {.number = number};
    struct slice_fence *fences = NULL;
    struct disk_file *file = NULL;
    char name[DISK_NAME_MAX];
    if (segment && !segment->slice)
        return damaged(number, 0, "a segment of the log has its number", out_error);
    if (segment) {
        *out_slice = segment->slice;
        return OK;
    }
    slice_name(number, name);
    if (directory_has_slice(slices->directory, number)) {
        enum err err = open_slice(disk, number, &file);
        if (!err)
            err = read_head(slices, file, number, &head, &fences);
        if (file)
            disk->verbs->close(disk, file);
        if (err == ERR_UNSUPPORTED) {
            store_error_set(out_error, name, 0,
                            "this slice was written by a newer laterd: run that version");
            return err;
        }
        if (err == ERR_CORRUPT)
            return damaged(number, 0, "the slice's header or fences are damaged", out_error);
        if (err) {
            store_error_set(out_error, name, 0, "the slice's header cannot be read");
            return err;
        }
    }
    *out_slice = slices_add(slices, &head, fences);
    return OK;
}

/* ---- the log's records ---- */

/* Counts the records. False: no block of records begins at `from`, or ends at `to`. */
static bool count_jobs(const struct slice *slice, uint32_t from, uint32_t to, uint32_t *out_jobs)
{
    bool begins = false, ends = to == slice->head.data_end / BLOCK;
    *out_jobs = 0;
    for (uint32_t i = 0; i < slice->head.blocks; i++) {
        uint32_t offset = slice->fences[i].offset;
        begins = begins || offset == from;
        ends = ends || offset == to;
        if (offset >= from && offset < to)
            *out_jobs += slice->fences[i].jobs;
    }
    return begins && ends;
}

static void set_live(struct slices *slices, struct slice *slice, uint32_t live, uint32_t dead)
{
    /* Subtract, then add: a negative difference of two 32-bit counts would be wrong in 64 bits. */
    slices->live_jobs = slices->live_jobs - slice->live_jobs + live;
    slices->dead_jobs = slices->dead_jobs - slice->dead_jobs + dead;
    slice->live_jobs = live;
    slice->dead_jobs = dead;
}

/* Applies a SLICE record. ERR_CORRUPT: the slice has no such blocks or records. */
static enum err apply(struct slices *slices, struct slice *slice, const struct slice_record *record)
{
    uint32_t jobs = record->jobs; /* if the file is missing, no more is known */
    if (slice->fences && !count_jobs(slice, record->from, record->to, &jobs))
        return ERR_CORRUPT;
    if (record->jobs > jobs || (slice->fences && !slice_set_dead(slice, record)))
        return ERR_CORRUPT;
    uint32_t dead = jobs - record->jobs;
    if (record->whole)
        set_live(slices, slice, record->jobs, dead);
    else
        set_live(slices, slice, slice->live_jobs + record->jobs, slice->dead_jobs + dead);
    slice->named = record->to;
    slice_forget_moves(slices, slice, false);
    return OK;
}

enum err slices_replay(struct slices *slices, const struct slice_record *record,
                       struct log_place at, struct store_error *out_error)
{
    struct slice *slice;
    if (!segments_note_number(slices->segments, record->number) ||
        !segments_note_number(slices->segments, record->left))
        return ERR_CORRUPT;
    if (!segments_leave(slices->segments, record->left, record->left ? record->jobs : 0,
                        record->left_bytes))
        return ERR_CORRUPT;
    slices->left_last = record->left ? record->left : slices->left_last;
    enum err err = get_slice(slices, record->number, &slice, out_error);
    if (err)
        return err;
    slice->left = record->left ? record->left : slice->left;
    bool first = record->from == 1, follows = slice->logged && record->from == slice->named;
    if (!first && !follows)
        return slice->logged ? ERR_CORRUPT : OK; /* a whole record follows further on */
    size_t bytes = slice_record_bytes(record);
    if (record->whole || !slice->logged)
        slice_set_logged(slices, slice, at, bytes);
    else if (first)
        return ERR_CORRUPT;
    else
        slice_add_logged(slices, slice, bytes);
    if (slice->logged == at.batch) { /* slices::all is sorted by slice::logged */
        list_remove(&slice->link);
        list_add_tail(&slices->all, &slice->link);
    }
    return apply(slices, slice, record);
}

/* Changes of jobs come mostly in the order of their records: reads on ahead of the one at this
 * offset. */
static void fetch_on(struct disk *disk, struct disk_file *file, struct slice *slice,
                     uint64_t offset)
{
    bool follows = offset >= slice->replayed && offset - slice->replayed <= SLICE_BLOCK_BYTES;
    if (follows && offset + RECORD_BYTES > slice->fetched) {
        disk->verbs->fetch(disk, file, offset, REPLAY_AHEAD);
        slice->fetched = offset + REPLAY_AHEAD;
    }
    slice->replayed = offset;
}

/* Reads the record at this offset into `bytes`, and decodes it. */
static enum err read_record(struct slices *slices, struct slice *slice, uint64_t offset,
                            struct buf *bytes, struct record *out_record)
{
    struct disk *disk = slices->store->disk;
    struct disk_file *file;
    uint64_t left = slice->head.size_bytes - offset;
    size_t len = left < RECORD_BYTES ? (size_t)left : RECORD_BYTES;
    enum err err = segments_file(slices->segments, slice->segment, &file);
    if (!err)
        fetch_on(disk, file, slice, offset);
    for (int i = 0; i < 2 && !err; i++) {
        buf_reset(bytes, SIZE_MAX);
        buf_reserve(bytes, len);
        err = directory_read_all(disk, file, offset, bytes->at, len);
        size_t whole = err ? 0 : get_u32(bytes->at);
        if (err || whole <= len || whole > left)
            break;
        len = whole;
    }
    if (err)
        return err;
    bool good = record_decode(bytes->at, len, out_record) == OK && out_record->is_far;
    return good ? OK : ERR_CORRUPT;
}

enum err slices_replay_placed(struct slices *slices, uint64_t seq, uint64_t where,
                              struct store_error *out_error)
{
    struct store_callbacks *callbacks = slices->store->callbacks;
    uint64_t offset = where_offset(where);
    struct buf bytes = {0};
    struct record record;
    struct slice *slice;
    enum err err = get_slice(slices, where_segment(where), &slice, out_error);
    if (err || !slice->fences || (slice->logged && slice_is_dead(slice, offset)))
        return err; /* the job ended later, or its slice was removed; or it ended before: a copy */
    if (offset <= BLOCK || offset >= slice->head.data_end)
        return ERR_CORRUPT;
    err = read_record(slices, slice, offset, &bytes, &record);
    if (!err && record.event.job.seq != seq)
        err = ERR_CORRUPT;
    if (err) {
        (void)damaged(slice->head.number, offset, "a job's record is damaged", out_error);
    } else {
        record.event.record = (struct stored){.where = where, .bytes = (uint32_t)record.len};
        err = callbacks->replay(callbacks, &record.event);
    }
    buf_fini(&bytes);
    return err;
}

/* ---- the log's clock ---- */

static void note_due(struct slices *slices, struct slice *slice, int64_t clock_us)
{
    if (clock_us > slice->due_by_us)
        slice->due_by_us = clock_us;
    if (clock_us > slices->due_by_us)
        slices->due_by_us = clock_us;
}

/* The clock's last time before it was set back, or before the end of the log: what is due by then
   in the slices that the log has mentioned so far has been due. Not in those that are made later.
 */
static void note_log_clock(struct slices *slices)
{
    for (struct list *link = slices->all.next; link != &slices->all; link = link->next)
        note_due(slices, slice_of(link), slices->log_clock_us);
}

void slices_replay_clock(struct slices *slices, int64_t clock_us)
{
    if (clock_us == 0)
        return;
    if (clock_us < slices->log_clock_us)
        note_log_clock(slices);
    slices->log_clock_us = clock_us;
}

/* ---- the far jobs ---- */

static enum err read_topics(const struct slice_head *head, const char *section,
                            struct bytes *out_names)
{
    struct slice_topics topics = {section, section + head->topics_bytes};
    enum err err = OK;
    for (uint32_t i = 0; i < head->topics && !err; i++)
        err = slice_topics_next(&topics, &out_names[i]);
    return err || topics.at != topics.end ? ERR_CORRUPT : OK;
}

static uint64_t index_bytes(const struct slice *slice)
{
    return slice->head.topics_bytes + slice->head.index_bytes;
}

/* Reading of a slice's index: the callback for its live jobs, … */
struct index_reading {
    enum err (*take)(struct store_callbacks *callbacks, const struct far_job *jobs, uint32_t count);
    struct buf room; /* … kept from one slice to the next: new memory costs more than reading */
    uint64_t first;  /* out: offset of the first record that is in use, … */
    uint64_t dead_bytes; /* … and bytes of the dead records behind it */
};

/* Passes the live jobs to the callback. ERR_CORRUPT: their number is not that of the log. */
static enum err pass_jobs(struct slices *slices, const struct slice *slice,
                          struct index_reading *reading, const char *section,
                          const struct bytes *topics)
{
    uint64_t named_end = (uint64_t)slice->named * BLOCK, first = named_end, dead_bytes = 0;
    struct store_callbacks *callbacks = slices->store->callbacks;
    struct far_job jobs[REPLAYED_AT_ONCE];
    struct slice_index index;
    uint32_t live = 0, count = 0;
    bool was_dead = false;
    enum err err, take_err = OK;
    slice_index_init(&index, &slice->head, section);
    while (!take_err && (err = slice_index_next(&index)) == OK) {
        if (index.offset >= named_end)
            continue;
        /* A record's bytes are counted up to the next record, or to the end of its block. */
        bool dead = slice_is_dead(slice, index.offset);
        if (first == named_end)
            first = index.offset;
        if (dead != was_dead)
            dead_bytes +=
                dead ? 0 - index.offset
                     : index.offset; /* adds the end of each dead stretch and subtracts its begin */
        was_dead = dead;
        if (dead)
            continue;
        live++;
        jobs[count++] = (struct far_job){
            .seq = index.seq,
            .id_hash = index.id_hash,
            .where = where_of(slice->head.number, index.offset),
            .topic = topics[index.topic],
            .state = slice->head.state,
            .priority = index.priority,
            .rank_us = index.rank_us,
        };
        if (count < REPLAYED_AT_ONCE)
            continue;
        take_err = reading->take(callbacks, jobs, count);
        count = 0;
    }
    if (!take_err)
        take_err = reading->take(callbacks, jobs, count);
    reading->first = first;
    reading->dead_bytes = dead_bytes + (was_dead ? named_end : 0);
    if (take_err)
        return take_err;
    return err == ERR_NOT_FOUND && live == slice->live_jobs ? OK : ERR_CORRUPT;
}

static enum err read_index(struct slices *slices, struct slice *slice,
                           struct index_reading *reading)
{
    const struct slice_head *head = &slice->head;
    struct disk *disk = slices->store->disk;
    struct disk_file *file;
    size_t len = (size_t)(head->topics_bytes + head->index_bytes);
    enum err err = segments_file(slices->segments, slice->segment, &file);
    if (err)
        return err;
    buf_reset(&reading->room, SIZE_MAX);
    buf_reserve(&reading->room, len);
    char *sections = reading->room.at;
    struct bytes *topics = mem_alloc(head->topics * sizeof(*topics));
    const char *index = sections + head->topics_bytes;
    err = directory_read_all(disk, file, slice_topics_at(head), sections, len);
    if (!err && (hash_of(sections, (size_t)head->topics_bytes) != head->topics_sum ||
                 hash_of(index, (size_t)head->index_bytes) != head->index_sum))
        err = ERR_CORRUPT;
    if (!err)
        err = read_topics(head, sections, topics);
    for (uint32_t i = 0; i < head->topics && !err; i++)
        slice_note_topic(slice, topics[i]);
    if (!err)
        err = pass_jobs(slices, slice, reading, index, topics);
    mem_free(topics);
    return err;
}

static enum err drop_older(struct store_callbacks *callbacks, const struct far_job *jobs,
                           uint32_t count)
{
    callbacks->drop_older(callbacks, jobs, count);
    return OK;
}

/* May the log have older records of jobs that live in the slice? */
static bool has_older(const struct slices *slices, const struct slice *slice)
{
    return slice->left && slice->live_jobs > 0 && segments_find(slices->segments, slice->left);
}

enum err slices_drop_older(struct slices *slices)
{
    struct index_reading reading = {.take = drop_older};
    enum err err = OK;
    for (struct list *link = slices->all.next; link != &slices->all && !err; link = link->next) {
        struct slice *slice = slice_of(link);
        if (!has_older(slices, slice))
            continue;
        err = store_opening_worked(slices->store, index_bytes(slice));
        if (!err && read_index(slices, slice, &reading))
            err = ERR_NOT_FOUND;
    }
    buf_fini(&reading.room);
    return err;
}

static void count_bytes(struct slices *slices, struct slice *slice,
                        const struct index_reading *reading)
{
    uint64_t end = (uint64_t)slice->named * BLOCK;
    uint64_t live_bytes = end - reading->first - reading->dead_bytes;
    slice->dead_bytes += reading->dead_bytes;
    slice->live_bytes += live_bytes;
    slices->live_bytes += live_bytes;
}

/* Checks the slice after the replay, and reads its index. An error ends the opening. */
static enum err settle(struct slices *slices, struct slice *slice, struct index_reading *reading,
                       struct store_error *out_error)
{
    uint32_t number = slice->head.number;
    if (slice->live_jobs == 0 || !slice->logged)
        return OK; /* it is dropped */
    if (!slice->fences)
        return damaged(number, 0, "the slice is missing", out_error);
    if (!slices->store->callbacks->replay_far || !slices->store->callbacks->arrive) {
        char name[DISK_NAME_MAX];
        slice_name(number, name);
        store_error_set(out_error, name, 0, "this engine does not know far jobs");
        return ERR_UNSUPPORTED;
    }
    enum err err = slices->from_image ? OK : read_index(slices, slice, reading);
    if (!err && !slices->from_image)
        count_bytes(slices, slice, reading);
    if (err == ERR_CORRUPT)
        return damaged(number, slice_topics_at(&slice->head),
                       "the slice's topics or index are damaged", out_error);
    slice_note_in_memory(slice);
    if (err) {
        char name[DISK_NAME_MAX];
        slice_name(number, name);
        store_error_set(out_error, name, 0, "the slice's index cannot be read");
    }
    slice->death_last = 0;
    return err;
}

static bool is_read(const struct slices *slices, const struct slice *slice)
{
    return !slices->from_image && slice->logged && slice->live_jobs > 0 && slice->fences;
}

/* Read-ahead of indexes. */
struct fetching {
    struct list *next; /* slice::link of the first slice that was not requested */
    uint64_t bytes;    /* requested and not read yet, … */
    uint32_t indexes;  /* … in so many slices */
};

/* Requests the next indexes, so that the start does not wait for the disk at each slice. */
static void fetch_indexes(struct slices *slices, struct fetching *fetching)
{
    struct disk *disk = slices->store->disk;
    while (fetching->next != &slices->all && fetching->bytes < FETCH_BYTES &&
           fetching->indexes < FETCH_INDEXES) {
        struct slice *slice = slice_of(fetching->next);
        struct disk_file *file;
        fetching->next = fetching->next->next;
        if (!is_read(slices, slice))
            continue;
        fetching->bytes += index_bytes(slice);
        fetching->indexes++;
        if (!segments_file(slices->segments, slice->segment, &file))
            disk->verbs->fetch(disk, file, slice_topics_at(&slice->head), index_bytes(slice));
    }
}

static void fetched(const struct slices *slices, struct fetching *fetching,
                    const struct slice *slice)
{
    if (!is_read(slices, slice))
        return;
    CHECK(fetching->indexes > 0); /* fetch_indexes() has counted it */
    fetching->bytes -= index_bytes(slice);
    fetching->indexes--;
}

static enum err settle_all(struct slices *slices, struct store_error *out_error)
{
    struct fetching fetching = {.next = slices->all.next};
    struct index_reading reading = {.take = slices->store->callbacks->replay_far};
    enum err err = OK;
    for (struct list *link = slices->all.next; link != &slices->all && !err;) {
        struct slice *slice = slice_of(link);
        link = link->next;
        fetch_indexes(slices, &fetching);
        fetched(slices, &fetching, slice);
        err = store_opening_read(slices->store, index_bytes(slice));
        if (!err)
            err = settle(slices, slice, &reading, out_error);
        if (!err && (slice->live_jobs == 0 || !slice->logged))
            slices_drop(slices, slice);
    }
    buf_fini(&reading.room);
    return err;
}

/* Passes the far jobs of all slices to the callbacks, from the indexes. */
static enum err read_indexes(struct slices *slices, struct store_error *out_error)
{
    struct store_callbacks *callbacks = slices->store->callbacks;
    bool any_far = slices->live_jobs > 0 && callbacks->replay_far;
    if (any_far && callbacks->far_begin)
        callbacks->far_begin(callbacks, slices->live_jobs);
    enum err err = settle_all(slices, out_error);
    bool more = any_far && callbacks->far_end;
    while (!err && more) {
        err = callbacks->far_end(callbacks, &more);
        if (!err)
            err = store_opening_worked(slices->store, slices->live_jobs / JOBS_BY_BYTE);
    }
    return err;
}

enum err slices_replayed(struct slices *slices, const struct manifest *clean,
                         struct store_error *out_error)
{
    struct store_opening *opening = &slices->store->opening;
    *opening = (struct store_opening){.indexes = true};
    note_log_clock(slices);
    for (struct list *link = slices->all.next; link != &slices->all; link = link->next)
        opening->all_bytes += index_bytes(slice_of(link));
    enum err err = far_image_read(slices->store, clean);
    slices->from_image = !err;
    if (!err)
        err = settle_all(slices, out_error);
    else if (err == ERR_NOT_FOUND)
        err = read_indexes(slices, out_error);
    if (err == ERR_CORRUPT && !out_error->text[0])
        store_error_set(
            out_error, "slice-*", 0,
            "two entries of the slices' indexes are the same: this is a bug, or another "
            "program's work; please report it and restore from a backup");
    if (err)
        return err;
    slices->opened = true;
    for (struct list *link = slices->all.next; link != &slices->all; link = link->next)
        slice_load_order(slices, slice_of(link));
    return slice_due_all(slices);
}

enum err slices_remove_leftovers(struct slices *slices)
{
    const struct directory *directory = slices->directory;
    enum err err = OK;
    for (size_t i = 0; i < directory->slice_count && !err; i++) {
        const struct found_slice *found = &directory->slices[i];
        if (!found->half_made && segments_find(slices->segments, found->number))
            continue;
        struct disk_op op = {.verb = DISK_REMOVE, .lane = LANE_BACKGROUND};
        slice_name(found->number, op.name);
        if (found->half_made)
            slice_tmp_name(found->number, op.name);
        slices->store->disk->verbs->run(slices->store->disk, &op);
        err = op.err;
    }
    static const char *const names[] = {FAR_IMAGE_NAME, FAR_IMAGE_TMP_NAME};
    const bool there[] = {directory->image_there, directory->image_half_made};
    for (size_t i = 0; i < sizeof(there) / sizeof(there[0]) && !err; i++) {
        struct disk_op op = {.verb = DISK_REMOVE, .lane = LANE_BACKGROUND};
        (void)snprintf(op.name, sizeof(op.name), "%s", names[i]); /* fits */
        if (there[i])
            slices->store->disk->verbs->run(slices->store->disk, &op);
        err = op.err;
    }
    slices->directory = NULL;
    return err;
}
