/*
 * Moves buried jobs out of slices of other jobs. A far job that came back, was reserved and then
 * buried keeps its record in the slice that it came from, and stays in memory. With more such jobs
 * than store_options::buried_in_memory, the blocks that have their records are read one by one, and
 * these records are appended to the log. From there the cleaner takes them to slices of buried jobs
 * (spill.h), as it does with all others. What else lives in the block stays where it is.
 *
 * Slices take their turns, the one that has waited longest first; once begun, a slice is gone
 * through to its end. So a block is read for many jobs that were buried since its last turn, not
 * for each one, and jobs leave about in the order in which they were buried.
 *
 * It needs no memory for jobs, and goes on when limits.memory_bytes is reached: that is when it
 * helps most.
 */
#include "base/check.h"
#include "base/mem.h"
#include "base/time_us.h"
#include "store/slices/far_record.h"
#include "store/slices/slices_parts.h"

enum {
    RECORDS = 256,         /* looked at in one turn: up to some µs each */
    PAUSE_US = 5 * 1000,   /* between two blocks: 13 MB/s */
    BACKLOG = 1024 * 1024, /* bytes of unwritten log above which it waits */
};

/* ---- which jobs there are ---- */

void slice_buried_count(struct slices *slices, struct slice *slice, uint32_t unit, bool more)
{
    uint32_t block = slice_block_at(slice, (uint64_t)unit * SLICE_UNIT);
    uint32_t by = more ? 1 : UINT32_MAX; /* UINT32_MAX subtracts one */
    if (!slice->buried_in)
        slice->buried_in = mem_zalloc(slice->head.blocks * sizeof(*slice->buried_in));
    CHECK(more || slice->buried_in[block] > 0);
    slice->buried_in[block] += by;
    slice->buried += by;
    if (!slice->buried_unread) /* else they stay: no others need leave for them */
        slices->buried.jobs += more ? 1 : UINT64_MAX;
    if (slice->buried == 0)
        list_remove(&slice->buried_link);
    else if (list_empty(&slice->buried_link) && !slice->buried_unread)
        list_add_tail(&slices->buried.slices, &slice->buried_link);
}

/* The next block from `block` on that has such jobs; UINT32_MAX: there is none. O(blocks). */
static uint32_t next_block(const struct slice *slice, uint32_t block)
{
    for (; slice->buried > 0 && block < slice->head.blocks; block++)
        if (slice->buried_in[block] > 0)
            return block;
    return UINT32_MAX;
}

/* Must a slice be chosen, or gone on with, and can the log take its records? */
static bool wanted(const struct slices *slices)
{
    const struct store *store = slices->store;
    const struct slice_buried *buried = &slices->buried;
    bool chosen = buried->slice ||
                  (!list_empty(&buried->slices) && buried->jobs > store->options.buried_in_memory);
    return chosen && store->options.horizon_us > 0 && store->callbacks->relocate_buried &&
           !segments_full(slices->segments) && log_backlog_bytes(store->log) <= BACKLOG;
}

/* ---- the block ---- */

/* Its turn is over. */
static void end_slice(struct slices *slices)
{
    struct slice_buried *buried = &slices->buried;
    struct slice *slice = buried->slice;
    buried->slice = NULL;
    list_remove(&slice->buried_link);
    if (slice->buried > 0 && !slice->buried_unread)
        list_add_tail(&slices->buried.slices, &slice->buried_link);
}

static void end_block(struct slices *slices)
{
    struct slice_buried *buried = &slices->buried;
    int64_t blocks = (int64_t)(buried->read.len / SLICE_BLOCK_BYTES); /* one long job is many */
    block_read_fini(&buried->read);
    buried->at_us = slices->store->now_us + PAUSE_US * (blocks > 0 ? blocks : 1);
    buried->block = next_block(buried->slice, buried->block + 1);
    if (buried->block == UINT32_MAX)
        end_slice(slices);
}

/* The block cannot be read, or (OK) is damaged: such jobs of this slice stay in memory. */
static void give_up(struct slices *slices, enum err err)
{
    struct slice_buried *buried = &slices->buried;
    struct slice *slice = buried->slice;
    uint64_t offset = slice_block_begin(slice, buried->block);
    slice->buried_unread = true;
    buried->jobs -= slice->buried;
    block_read_fini(&buried->read);
    end_slice(slices);
    if (!err) {
        segments_damaged(slices->segments, slice->segment, offset,
                         "a block of far jobs is damaged: buried ones of this slice stay in "
                         "memory; stop laterd, and look at it with: later verify DIR");
        return;
    }
    struct store_error error;
    char name[DISK_NAME_MAX];
    segments_file_name(slice->segment, name);
    store_error_set(&error, name, offset,
                    "the disk cannot read a block of far jobs: buried ones of this slice stay in "
                    "memory until the next start; look at the disk");
    slices->store->callbacks->notice(slices->store->callbacks, STORE_UNREAD, &error);
}

static void read_failed(struct block_read *read, enum err err)
{
    if (read->tries == BLOCK_READ_TRIES)
        give_up(read->slices, err);
}

/* Begins to read the next block that has such jobs. */
static void begin_block(struct slices *slices)
{
    struct slice_buried *buried = &slices->buried;
    if (!buried->slice) {
        buried->slice = LIST_ENTRY(buried->slices.next, struct slice, buried_link);
        buried->block = 0;
    }
    buried->block = next_block(buried->slice, buried->block);
    if (buried->block == UINT32_MAX) {
        end_slice(slices);
        return;
    }
    block_read_init(&buried->read, slices, buried->slice, buried->block, read_failed);
    block_read_start(&buried->read, false, 0);
}

/* ---- its records ---- */

/* The job is one of those that this is for: its record goes to the log, or it must stay. */
static void move_record(struct slices *slices, struct record *record, uint64_t offset)
{
    struct slice_buried *buried = &slices->buried;
    struct slice *slice = buried->slice;
    struct log *log = slices->store->log;
    struct store_callbacks *callbacks = slices->store->callbacks;
    uint64_t where = where_of(slice->head.number, offset);
    record->event.record = (struct stored){.where = where, .bytes = (uint32_t)record->len};
    log_relocating(log, record_body_good(record) ? RELOCATING : RELOCATING_BODY_LOST);
    bool moved = callbacks->relocate_buried(callbacks, &record->event, where);
    log_relocating(log, RELOCATING_NOTHING);
    buried->moved += moved;
    if (!moved)
        slices_buried_stays(slices, slice, slice_unit(offset));
}

/* Goes through the next records of the block. */
static void pass_some(struct slices *slices)
{
    struct slice_buried *buried = &slices->buried;
    struct batch_walk *walk = &buried->read.walk;
    uint64_t begin = block_read_offset(&buried->read);
    enum err err = OK;
    for (unsigned i = 0; i < RECORDS && !err; i++) {
        struct slice_move move;
        err = batch_walk_next(walk);
        uint64_t offset = begin + walk->record_at;
        /* A dead record has no move. */
        if (!err && walk->record.is_far &&
            slice_moves_find(&buried->slice->moves, slice_unit(offset), &move) &&
            move.kind == MOVE_BURIED)
            move_record(slices, &walk->record, offset);
    }
    if (err == ERR_CORRUPT) /* a bug, or another program's work */
        give_up(slices, OK);
    else if (err)
        end_block(slices);
}

/* ---- the turn ---- */

/* When there is something to do, if it is wanted. */
static int64_t due_us(const struct slice_buried *buried)
{
    const struct block_read *read = &buried->read;
    return read->there ? INT64_MIN : read->slice ? read->retry_at_us : buried->at_us;
}

void slice_buried_turn(struct slices *slices)
{
    struct slice_buried *buried = &slices->buried;
    struct block_read *read = &buried->read;
    if (read->reading || slices->store->now_us < due_us(buried) || !wanted(slices))
        return;
    if (read->there)
        pass_some(slices);
    else if (read->slice)
        block_read_start(read, false, 0);
    else
        begin_block(slices);
}

int64_t slice_buried_next_us(const struct slices *slices)
{
    const struct slice_buried *buried = &slices->buried;
    if (buried->read.reading || !wanted(slices)) /* a disk operation that ends starts a turn */
        return INT64_MAX;
    int64_t now_us = slices->store->now_us, at_us = due_us(buried);
    return at_us > now_us ? at_us : now_us;
}

bool slice_buried_busy(const struct slices *slices)
{
    return slices->buried.read.reading;
}

/* ---- life ---- */

void slice_buried_init(struct slices *slices)
{
    list_init(&slices->buried.slices);
    slices->buried.at_us = INT64_MIN;
}

void slice_buried_forget(struct slices *slices, struct slice *slice)
{
    struct slice_buried *buried = &slices->buried;
    CHECK(slice->buried == 0);
    if (buried->slice == slice) {
        block_read_fini(&buried->read);
        buried->slice = NULL;
    }
    list_remove(&slice->buried_link);
    mem_free(slice->buried_in);
}

/* Counts such jobs of the slice again, by its moves. 0: they stay. */
static uint32_t count_again(const struct slice *slice)
{
    uint32_t at = 0, unit, count = 0, in_blocks = 0;
    for (struct slice_move move; slice_moves_next(&slice->moves, &at, &unit, &move);)
        count += move.kind == MOVE_BURIED;
    for (uint32_t block = 0; slice->buried_in && block < slice->head.blocks; block++)
        in_blocks += slice->buried_in[block];
    bool listed = !list_empty(&slice->buried_link);
    CHECK(count == slice->buried && in_blocks == count);
    CHECK(listed == (count > 0 && !slice->buried_unread));
    return slice->buried_unread ? 0 : count;
}

void slice_buried_valid(const struct slices *slices)
{
    const struct slice_buried *buried = &slices->buried;
    uint64_t jobs = 0;
    for (const struct list *at = slices->all.next; at != &slices->all; at = at->next)
        jobs += count_again(LIST_ENTRY(at, const struct slice, link));
    CHECK(jobs == buried->jobs);
    block_read_valid(&buried->read);
    CHECK(!buried->read.slice ||
          (buried->read.slice == buried->slice && buried->read.block == buried->block));
}
