#include "store/slices/slices.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/time_us.h"
#include "store/far.h"
#include "store/slices/slices_parts.h"
#include "store/varint.h"

enum {
    /* Limits of one call of slices_write_again(): */
    REWRITE_BYTES = 64 * 1024,  /* appended to the log, about; … */
    REWRITE_WORDS = 256 * 1024, /* … and words of slice::dead read, at 1.3 ns each. A slice of 16
                                MiB has 8,192, … */
    REWRITE_STEP_WORDS = 512,   /* … and each slice counts as so many at least */
};

/* ---- the set of slices ---- */

struct slice *slices_add(struct slices *slices, const struct slice_head *head,
                         struct slice_fence *fences)
{
    struct slice *slice = mem_zalloc(sizeof(*slice));
    slice->head = *head;
    slice->fences = fences;
    slice->named = 1;
    slice->due_by_us = INT64_MIN;
    list_init(&slice->dead_link);
    slice_changed_add(slice);
    slice->segment = segments_add_slice(slices->segments, head->number, head->size_bytes, slice);
    list_add_tail(&slices->all, &slice->link);
    slices->count++;
    return slice;
}

/* A bloom filter of 256 bits, two for each topic: with twenty topics in a slice about one in forty
   others is a false positive. */
static void topic_bits(struct bytes topic, uint64_t out_bits[static 4])
{
    uint64_t hash = hash_of(topic.at, topic.len);
    memset(out_bits, 0, 4 * sizeof(*out_bits));
    for (unsigned i = 0; i < 2; i++, hash >>= 8)
        out_bits[hash >> 6 & 3] |= UINT64_C(1) << (hash & 63);
}

void slice_topic_bits(uint64_t bits[static 4], struct bytes topic)
{
    uint64_t more[4];
    topic_bits(topic, more);
    for (unsigned i = 0; i < 4; i++)
        bits[i] |= more[i];
}

void slice_note_topic(struct slice *slice, struct bytes topic)
{
    slice_topic_bits(slice->topics, topic);
}

bool slice_may_have(const struct slice *slice, struct bytes topic)
{
    uint64_t bits[4];
    topic_bits(topic, bits);
    for (unsigned i = 0; i < 4; i++) {
        if (bits[i] & ~slice->topics[i])
            return false;
    }
    return true;
}

/* ---- their records in the log ---- */

void slice_add_logged(struct slices *slices, struct slice *slice, size_t bytes)
{
    slice->logged_bytes += bytes;
    segments_add_slice_log(slices->segments, slice->logged_segment, bytes, 0);
}

void slice_set_logged(struct slices *slices, struct slice *slice, struct log_place at, size_t bytes)
{
    segments_remove_slice_log(slices->segments, slice->logged_segment, slice->logged_bytes, 0);
    slice->logged = at.batch;
    slice->logged_segment = at.segment;
    slice->logged_bytes = 0;
    slice_add_logged(slices, slice, bytes);
}

static void forget_move(struct slices *slices, struct slice *slice, uint32_t unit)
{
    struct slice_move move;
    if (!slice_moves_find(&slice->moves, unit, &move))
        return;
    segments_remove_slice_log(slices->segments, move.segment, move.bytes, 1);
    slice_moves_remove(&slice->moves, unit);
    slice_changed_uncount(slices, slice, unit, move.kind);
}

void slice_forget_moves(struct slices *slices, struct slice *slice, bool all)
{
    struct slice_moves old = slice->moves;
    struct slice_move move;
    uint32_t at = 0, unit;
    slice->moves = (struct slice_moves){0};
    while (slice_moves_next(&old, &at, &unit, &move)) {
        bool goes = all || slice_is_dead(slice, (uint64_t)unit * SLICE_UNIT);
        if (!goes) {
            slice_moves_set(&slice->moves, unit, move);
            continue;
        }
        segments_remove_slice_log(slices->segments, move.segment, move.bytes, 1);
        slice_changed_uncount(slices, slice, unit, move.kind);
    }
    slice_moves_fini(&old);
}

static struct slice *slice_at(const struct slices *slices, uint64_t where)
{
    const struct segment *segment = segments_find(slices->segments, where_segment(where));
    return segment ? segment->slice : NULL;
}

/*
 * What the job is after this MOVE. One that must stay in memory does so until it changes; of the
 * others a copy says how they are now: that a job fell due, for example, no event says.
 */
static enum slice_move_kind kind_of(const struct slices *slices, const struct slice *slice,
                                    const struct event *event, uint32_t unit, bool copy)
{
    const struct store *store = slices->store;
    int64_t horizon_us = store->options.horizon_us;
    /* Twice: it is still beyond the horizon when the cleaner comes by its record in the log. */
    int64_t far_us = time_add(time_add(store->now_us, horizon_us), horizon_us);
    struct slice_move last;
    if (copy && slice_moves_find(&slice->moves, unit, &last) && last.kind == MOVE_STAYS)
        return MOVE_STAYS;
    if (event->job.state == JOB_BURIED)
        return MOVE_BURIED;
    if (event->job.state == JOB_READY)
        return MOVE_READY;
    bool far = event->job.state == JOB_DELAYED && horizon_us > 0 && event->job.due_us > far_us;
    return far ? MOVE_FAR : MOVE_OTHER;
}

void slices_moved(struct slices *slices, const struct event *event, uint32_t segment, size_t bytes,
                  bool copy)
{
    struct slice *slice = slice_at(slices, event->record.where);
    uint64_t offset = where_offset(event->record.where);
    uint32_t unit = slice_unit(offset);
    if (!slice || offset >= slice->head.data_end || slice_is_dead(slice, offset))
        return;
    struct slice_move move = {.segment = segment,
                              .bytes = (uint32_t)bytes,
                              .kind = kind_of(slices, slice, event, unit, copy)};
    forget_move(slices, slice, unit);
    slice_moves_set(&slice->moves, unit, move);
    segments_add_slice_log(slices->segments, segment, bytes, 1);
    slice_changed_count(slices, slice, unit, move.kind);
}

void slices_set_kind(struct slices *slices, struct slice *slice, uint32_t unit,
                     enum slice_move_kind kind)
{
    struct slice_move move;
    if (!slice_moves_find(&slice->moves, unit, &move))
        return;
    slice_changed_uncount(slices, slice, unit, move.kind);
    move.kind = kind;
    slice_moves_set(&slice->moves, unit, move);
    slice_changed_count(slices, slice, unit, kind);
}

bool slices_move_lives(const struct slices *slices, uint64_t where, uint32_t segment)
{
    const struct slice *slice = slice_at(slices, where);
    struct slice_move move;
    return slice && slice_moves_find(&slice->moves, slice_unit(where_offset(where)), &move) &&
           move.segment == segment;
}

/* ---- dropping ---- */

void slices_drop(struct slices *slices, struct slice *slice)
{
    slice_forget_moves(slices, slice, true);
    segments_remove_slice_log(slices->segments, slice->logged_segment, slice->logged_bytes, 0);
    slice_load_forget(slices, slice);
    slice_changed_forget(slices, slice);
    segments_drop_slice(slices->segments, slice->segment);
    list_remove(&slice->link);
    list_remove(&slice->dead_link);
    slices->live_jobs -= slice->live_jobs;
    slices->dead_jobs -= slice->dead_jobs;
    slices->live_bytes -= slice->live_bytes;
    slices->count--;
    if (slices->count == 0)
        slices->load.waits = false; /* without slices there is no turn that would find it */
    mem_free(slice->fences);
    mem_free(slice->dead);
    mem_free(slice->unread);
    mem_free(slice->in_memory);
    mem_free(slice);
}

static const struct slice *departing(const struct store *store)
{
    return store->failed || store->closing ? NULL : cleaner_held_up(store->cleaner);
}

bool store_far_departs(const struct store *store)
{
    return departing(store) != NULL;
}

bool store_far_departs_of(const struct store *store, struct bytes topic)
{
    const struct slice *slice = departing(store);
    return slice && slice_may_have(slice, topic);
}

bool store_far_waits(const struct store *store)
{
    return store->slices->load.waits;
}

enum job_state store_slice_state(const struct store *store, uint64_t where)
{
    const struct slice *slice = slice_at(store->slices, where);
    return slice ? (enum job_state)slice->head.state : JOB_GONE;
}

bool store_far_was_later(const struct store *store)
{
    return store->slices->due_by_us > store->options.now_us;
}

int64_t store_far_due_by(const struct store *store, uint64_t where)
{
    const struct slice *slice = slice_at(store->slices, where);
    return slice ? slice->due_by_us : INT64_MIN;
}

/* Segments are freed one by one, the oldest first. So of the segments that still exist, jobs can
   have left only those up to slices::left_last. */
bool store_may_be_far(const struct store *store, uint64_t where)
{
    const struct slices *slices = store->slices;
    const struct segment *left = segments_find(slices->segments, slices->left_last);
    const struct segment *segment = segments_find(slices->segments, where_segment(where));
    return !segment || segment->slice ||
           (slices->left_last && left && segment->batch_first <= left->batch_first);
}

uint64_t slices_live_jobs(const struct slices *slices)
{
    return slices->live_jobs;
}

uint32_t slices_count(const struct slices *slices)
{
    return slices->count;
}

/* ---- live records ---- */

static uint32_t units_of(const struct slice *slice)
{
    return slice_unit(slice->head.data_end);
}

static void set_dead(struct slice *slice, uint32_t unit)
{
    if (!slice->dead)
        slice->dead = mem_zalloc((units_of(slice) / 64 + 1) * sizeof(*slice->dead));
    slice->dead[unit / 64] |= UINT64_C(1) << unit % 64;
}

bool slice_set_dead(struct slice *slice, const struct slice_record *record)
{
    if (record->dead_bytes == 0)
        return true;
    struct varint_reader reader = {record->dead, record->dead + record->dead_bytes, true};
    uint32_t unit = slice_unit((uint64_t)record->from * BLOCK);
    while (reader.at < reader.end) {
        unit += (uint32_t)varint_get(&reader); /* slice_record_decode() has checked them */
        if (unit >= units_of(slice))
            return false;
        set_dead(slice, unit);
    }
    return true;
}

/* If no record lives: its file may be removed as soon as the last death is on disk. */
static void note_dead(struct slices *slices, struct slice *slice)
{
    if (slice->live_jobs == 0 && !slice->making && list_empty(&slice->dead_link))
        list_add_tail(&slices->dead, &slice->dead_link);
}

bool slices_record_died(struct slices *slices, struct slice *slice, struct stored record)
{
    uint64_t offset = where_offset(record.where);
    uint64_t bytes = record.bytes < slice->live_bytes ? record.bytes : slice->live_bytes;
    forget_move(slices, slice, slice_unit(offset));
    if (!slice->logged)
        return true; /* a SLICE record follows in the log, and includes this death */
    if (slice->live_jobs == 0)
        return false;
    if (slice->fences) {
        if (offset <= BLOCK || offset >= (uint64_t)slice->named * BLOCK ||
            slice_is_dead(slice, offset))
            return false;
        set_dead(slice, slice_unit(offset));
    }
    slice->live_jobs--;
    slice->dead_jobs++;
    slice->live_bytes -= bytes;
    slice->dead_bytes += bytes;
    slices->live_bytes -= bytes;
    slices->live_jobs--;
    slices->dead_jobs++;
    slice->death_last = log_batch(slices->store->log);
    slice_load_order_death(slices, slice);
    note_dead(slices, slice);
    return true;
}

/* ---- making ---- */

/* The place of the record that was just appended. */
static struct log_place log_tail_place(const struct slices *slices, uint64_t batch)
{
    return (struct log_place){.batch = batch, .segment = segments_tail(slices->segments)->number};
}

void slices_name_part(struct slices *slices, struct slice *slice, const struct slice_record *part,
                      uint64_t live_bytes, uint64_t dead_bytes)
{
    CHECK(part->from == slice->named && !part->whole && part->to > part->from);
    uint32_t jobs = 0;
    for (uint32_t i = 0; i < slice->head.blocks; i++)
        if (slice->fences[i].offset >= part->from && slice->fences[i].offset < part->to) {
            jobs += slice->fences[i].jobs;
            far_pages_named(slices->store->far_pages, slice, i);
        }
    bool possible = slice_set_dead(slice, part);
    slices->left_last = part->left ? part->left : slices->left_last;
    CHECK(possible && jobs >= part->jobs);
    uint64_t batch = log_append_slice(slices->store->log, part);
    slice->named = part->to;
    slice->live_jobs += part->jobs;
    slice->dead_jobs += jobs - part->jobs;
    slice->live_bytes += live_bytes;
    slice->dead_bytes += dead_bytes;
    slices->live_bytes += live_bytes;
    slices->live_jobs += part->jobs;
    slices->dead_jobs += jobs - part->jobs;
    slice->death_last = batch;
    size_t bytes = slice_record_bytes(part);
    if (slice->logged) {
        slice_add_logged(slices, slice, bytes);
    } else {
        slice_set_logged(slices, slice, log_tail_place(slices, batch), bytes);
        list_remove(&slice->link); /* slices::all is sorted by slice::logged */
        list_add_tail(&slices->all, &slice->link);
    }
    slice_load_order(slices, slice);
}

void slices_made(struct slices *slices, struct slice *slice)
{
    slice->making = false;
    slice_load_order(slices, slice);
    note_dead(slices, slice);
}

/* ---- cleaning the log ---- */

/* Words of slice::dead that write_slice() reads. */
static uint32_t words_of(const struct slice *slice)
{
    return slice->dead ? slice_unit((uint64_t)slice->named * BLOCK) / 64 : 0;
}

/* Appends a record that describes all of a slice. Returns its bytes. */
static size_t write_slice(struct slices *slices, struct slice *slice)
{
    struct buf dead = {0};
    uint32_t last = slice_unit(BLOCK), end = slice_unit((uint64_t)slice->named * BLOCK);
    slices->words += words_of(slice);
    for (uint32_t word = last / 64; slice->dead && word * 64 < end; word++) {
        for (uint64_t bits = slice->dead[word]; bits; bits &= bits - 1) {
            char room[VARINT_MAX];
            uint32_t unit = word * 64 + (uint32_t)__builtin_ctzll(bits);
            buf_add(&dead, room, (size_t)(varint_put(room, unit - last) - room));
            last = unit;
        }
    }
    struct slice_record whole = {
        .number = slice->head.number,
        .whole = true,
        .from = 1,
        .to = slice->named,
        .jobs = slice->live_jobs,
        .dead = dead.at,
        .dead_bytes = (uint32_t)dead.len,
    };
    size_t bytes = slice_record_bytes(&whole);
    uint64_t batch = log_append_slice(slices->store->log, &whole);
    slice_set_logged(slices, slice, log_tail_place(slices, batch), bytes);
    buf_fini(&dead);
    return bytes;
}

/* Its SLICE record is now the newest: moves it to the end of slices::all. */
static void move_back(struct slices *slices, struct slice *slice)
{
    list_remove(&slice->link);
    list_add_tail(&slices->all, &slice->link);
}

bool slices_write_again(struct slices *slices, uint64_t batch)
{
    size_t bytes = 0;
    uint32_t words = 0;
    /* slices::all is sorted by slice::logged. */
    while (!list_empty(&slices->all)) {
        struct slice *slice = slice_of(slices->all.next);
        bool unlogged = slice->logged == 0; /* it has no SLICE record yet: at most one such slice */
        if (slice->logged >= batch || (unlogged && slices->count == 1))
            return false;
        if (bytes >= REWRITE_BYTES || words >= REWRITE_WORDS)
            return true;
        words += REWRITE_STEP_WORDS > words_of(slice) ? REWRITE_STEP_WORDS : words_of(slice);
        if (slice->live_jobs > 0 || slice->making)
            bytes += unlogged ? 0 : write_slice(slices, slice);
        else
            slice_set_logged(slices, slice, log_tail_place(slices, log_batch(slices->store->log)),
                             0); /* no record is needed: it will be removed */
        move_back(slices, slice);
    }
    return false;
}

/* ---- removing ---- */

static void removed(struct disk_op *op)
{
    struct slices *slices = op->owner;
    CHECK(slices->removing);
    slices->removing = false;
    if (op->err)
        store_fail(slices->store, op->sys_errno);
}

/* Removes the file of the slice that has been dead for longest, if it may be removed. */
static void remove_one(struct slices *slices)
{
    if (slices->removing || list_empty(&slices->dead))
        return;
    struct slice *slice = LIST_ENTRY(slices->dead.next, struct slice, dead_link);
    CHECK(slice->live_jobs == 0 && !slice->making);
    if (slice->segment->pins > 0 || log_synced(slices->store->log) < slice->death_last)
        return;
    slices->remove = (struct disk_op){
        .verb = DISK_REMOVE, .lane = LANE_BACKGROUND, .done = removed, .owner = slices};
    slice_name(slice->head.number, slices->remove.name);
    slices_drop(slices, slice);
    slices->removing = true;
    slices->store->disk->verbs->submit(slices->store->disk, &slices->remove);
}

void slices_turn(struct slices *slices)
{
    if (slices->store->failed || slices->store->closing || slices->count == 0)
        return;
    slice_load_turn(slices);
    slice_changed_turn(slices);
    slice_due_turn(slices);
    remove_one(slices);
}

int64_t slices_next_us(const struct slices *slices)
{
    if (slices->store->failed || slices->count == 0)
        return INT64_MAX;
    int64_t next_us = time_earlier(slice_load_next_us(slices), slice_due_next_us(slices));
    return time_earlier(next_us, slice_changed_next_us(slices));
}

bool slices_busy(const struct slices *slices)
{
    return slices->removing || slice_load_busy(slices) || slice_changed_busy(slices);
}

/* ---- counts ---- */

void slices_stats(const struct slices *slices, struct store_stats *out_stats)
{
    out_stats->slices = slices->count;
    out_stats->slice_bytes = segments_slice_bytes(slices->segments);
    out_stats->slice_jobs = slices->live_jobs;
    out_stats->live_jobs += slices->live_jobs;
    out_stats->loaded_jobs = slices->loaded_jobs;
    out_stats->far_image = slices->from_image;
    out_stats->far_waits = slices->load.waits;
    if (slices->load.waits)
        out_stats->far_late_jobs = slices_far_due_until(slices, slices->store->now_us);
    out_stats->emptied_slices = slices->emptied;
}

/* ---- life ---- */

struct slices *slices_new(struct store *store)
{
    struct slices *slices = mem_zalloc(sizeof(*slices));
    slices->store = store;
    slices->segments = store->segments;
    list_init(&slices->all);
    list_init(&slices->dead);
    slices->log_clock_us = slices->due_by_us = INT64_MIN;
    slice_load_init(slices);
    slice_changed_init(slices);
    slice_due_init(slices);
    return slices;
}

void slices_free(struct slices *slices)
{
    if (!slices)
        return;
    CHECK(!slices_busy(slices));
    slice_load_fini(slices);
    while (!list_empty(&slices->all))
        slices_drop(slices, slice_of(slices->all.next));
    CHECK(slices->count == 0 && slices->live_jobs == 0);
    mem_free(slices);
}

static uint32_t bits_set(const struct slice *slice)
{
    uint32_t count = 0;
    for (uint32_t word = 0; slice->dead && word <= units_of(slice) / 64; word++)
        count += (uint32_t)__builtin_popcountll(slice->dead[word]);
    return count;
}

static uint32_t blocks_unread(const struct slice *slice)
{
    uint32_t count = 0;
    for (uint32_t block = 0; block < slice->head.blocks; block++)
        count += slice_is_unread(slice, block);
    return count;
}

/* Bytes of the log's records that describe the slice. */
static uint64_t logged_valid(const struct slices *slices, const struct slice *slice)
{
    const struct segments *segments = slices->segments;
    uint64_t bytes = segments_find(segments, slice->logged_segment) ? slice->logged_bytes : 0;
    uint32_t at = 0, unit, count = 0;
    for (struct slice_move move; slice_moves_next(&slice->moves, &at, &unit, &move); count++) {
        CHECK(!slice_is_dead(slice, (uint64_t)unit * SLICE_UNIT));
        bytes += segments_find(segments, move.segment) ? move.bytes : 0;
    }
    CHECK(count == slice->moves.count);
    return bytes;
}

void slices_valid(const struct slices *slices)
{
    uint64_t live = 0, dead = 0, live_bytes = 0, logged = 0, logged_bytes = 0;
    uint32_t count = 0;
    heap_valid(&slices->by_load);
    heap_valid(&slices->by_dead);
    for (const struct list *link = slices->all.next; link != &slices->all; link = link->next) {
        const struct slice *slice = LIST_ENTRY(link, const struct slice, link);
        const struct segment *segment = slice->segment;
        CHECK(segment->slice == slice && segment->number == slice->head.number);
        CHECK(segment->size_bytes == slice->head.size_bytes);
        CHECK(slice->named >= 1 && slice->named <= slice->head.data_end / BLOCK);
        CHECK((uint64_t)slice->live_jobs + slice->dead_jobs <= slice->head.jobs);
        CHECK(bits_set(slice) == slice->dead_jobs); /* T1 */
        CHECK(slice->logged == 0 || slice->logged >= logged);
        CHECK(slice->logged || slice->making); /* T2 */
        CHECK(slice->loaded <= slice->begun && slice->begun <= slice->head.blocks);
        CHECK(blocks_unread(slice) == slice->unread_count);
        CHECK(list_empty(&slice->dead_link) || slice->live_jobs == 0);
        CHECK(slice_load_ordered(slices, slice)); /* T4 */
        logged = slice->logged ? slice->logged : logged;
        logged_bytes += logged_valid(slices, slice);
        CHECK(slice->live_bytes + slice->dead_bytes <= slice->head.data_end);
        live += slice->live_jobs;
        live_bytes += slice->live_bytes;
        dead += slice->dead_jobs;
        count++;
    }
    slice_load_valid(slices);
    slice_changed_valid(slices);
    CHECK(live_bytes == slices->live_bytes);
    CHECK(logged_bytes == segments_slice_log_bytes(slices->segments)); /* T2 */
    CHECK(live == slices->live_jobs && dead == slices->dead_jobs && count == slices->count);
}
