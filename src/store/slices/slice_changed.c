/*
 * Moves changed jobs out of slices. A far job that came back, was reserved and then buried, or
 * given back, or was put off, is not as its record in the slice says, and stays in memory. With
 * more buried jobs of that kind than store_options::buried_in_memory, more ready ones than
 * ready_in_memory, or more that are delayed until far beyond the horizon than put_off_in_memory,
 * the blocks that have their records are read one by one, and these records are appended to the
 * log. From there the cleaner takes them to slices of such jobs (spill.h), as it does with all
 * others. What else lives in the block stays where it is.
 *
 * Clients put off jobs in any order, and these would have come back only when they are due. So a
 * block is read for them only if they are an eighth of its jobs: then eight times the bytes that
 * are moved are read at most.
 *
 * Slices take their turns, the one that has waited longest first; once begun, a slice is gone
 * through to its end. So a block is read for many jobs that changed since its last turn, not for
 * each one, and jobs leave about in the order in which they changed. Each is asked for once
 * (callbacks->relocate_changed). One that must stay, because it is among the first of its topic, is
 * asked for again when the cleaner has copied its MOVE, once in a round of the log.
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
    BACKLOG = 1024 * 1024, /* bytes of unwritten log above which it waits */
    PUT_OFF_STAY = 10000,  /* the default of options.put_off_in_memory */
    PUT_OFF_SHARE = 8,     /* of a block's jobs at least this fraction was put off */
};

/* ---- which jobs there are ---- */

static struct slice *slice_of_link(struct list *link, enum slice_move_kind kind)
{
    struct slice_leavers *first = LIST_ENTRY(link, struct slice_leavers, link) - kind;
    return LIST_ENTRY(first, struct slice, leavers);
}

static void list_again(struct slices *slices, struct slice *slice, enum slice_move_kind kind)
{
    struct slice_leavers *leavers = &slice->leavers[kind];
    if (leavers->count == 0)
        list_remove(&leavers->link);
    else if (list_empty(&leavers->link) && !slice->leavers_stay)
        list_add_tail(&slices->changed.slices[kind], &leavers->link);
}

/* How many such jobs of the block can leave: all, or none while they are not worth its read. */
static uint32_t leave_of(const struct slice *slice, enum slice_move_kind kind, uint32_t block)
{
    uint32_t there = slice->leavers[kind].in_block[block];
    uint64_t least = kind == MOVE_FAR ? slice->fences[block].jobs : 1;
    uint64_t times = kind == MOVE_FAR ? PUT_OFF_SHARE : 1;
    return there * times >= least ? there : 0;
}

static void count(struct slices *slices, struct slice *slice, uint32_t unit,
                  enum slice_move_kind kind, bool more)
{
    if (kind >= MOVE_LEAVER_KINDS)
        return;
    struct slice_leavers *leavers = &slice->leavers[kind];
    uint32_t block = slice_block_at(slice, (uint64_t)unit * SLICE_UNIT);
    if (!leavers->in_block)
        leavers->in_block = mem_zalloc(slice->head.blocks * sizeof(*leavers->in_block));
    CHECK(more || leavers->in_block[block] > 0);
    uint32_t before = leave_of(slice, kind, block);
    leavers->in_block[block] += more ? 1 : UINT32_MAX; /* UINT32_MAX subtracts one */
    uint32_t after = leave_of(slice, kind, block);
    leavers->count = leavers->count - before + after;
    if (!slice->leavers_stay) /* else no others need leave for them */
        slices->changed.jobs[kind] = slices->changed.jobs[kind] - before + after;
    list_again(slices, slice, kind);
}

void slice_changed_count(struct slices *slices, struct slice *slice, uint32_t unit,
                         enum slice_move_kind kind)
{
    count(slices, slice, unit, kind, true);
}

void slice_changed_uncount(struct slices *slices, struct slice *slice, uint32_t unit,
                           enum slice_move_kind kind)
{
    count(slices, slice, unit, kind, false);
}

/* The next block from `block` on that has such jobs; UINT32_MAX: there is none. O(blocks). */
static uint32_t next_block(const struct slice *slice, enum slice_move_kind kind, uint32_t block)
{
    const struct slice_leavers *leavers = &slice->leavers[kind];
    for (; leavers->count > 0 && block < slice->head.blocks; block++)
        if (leave_of(slice, kind, block) > 0)
            return block;
    return UINT32_MAX;
}

/* Are more jobs of this kind in memory than should be, and can some of them leave? */
static bool too_many(const struct slices *slices, enum slice_move_kind kind)
{
    const struct store_options *options = &slices->store->options;
    uint64_t put_off = options->put_off_in_memory ? options->put_off_in_memory : PUT_OFF_STAY;
    uint64_t stay = kind == MOVE_READY    ? options->ready_in_memory
                    : kind == MOVE_BURIED ? options->buried_in_memory
                                          : put_off;
    return !list_empty(&slices->changed.slices[kind]) && slices->changed.jobs[kind] > stay;
}

/* Must a slice be chosen, or gone on with, and can the log take its records? */
static bool wanted(const struct slices *slices)
{
    const struct store *store = slices->store;
    bool chosen = slices->changed.slice != NULL;
    for (unsigned kind = 0; kind < MOVE_LEAVER_KINDS && !chosen; kind++)
        chosen = too_many(slices, (enum slice_move_kind)kind);
    return chosen && store->options.horizon_us > 0 && store->callbacks->relocate_changed &&
           !segments_full(slices->segments) && log_backlog_bytes(store->log) <= BACKLOG;
}

/* ---- the block ---- */

/* Kinds take their turns. */
static void choose_slice(struct slices *slices)
{
    struct slice_changed *changed = &slices->changed;
    do {
        changed->kind = (enum slice_move_kind)((changed->kind + 1) % MOVE_LEAVER_KINDS);
    } while (!too_many(slices, changed->kind)); /* wanted(): one of them is */
    changed->slice = slice_of_link(changed->slices[changed->kind].next, changed->kind);
    changed->block = 0;
}

/* Its turn is over. */
static void end_slice(struct slices *slices)
{
    struct slice_changed *changed = &slices->changed;
    struct slice *slice = changed->slice;
    changed->slice = NULL;
    list_remove(&slice->leavers[changed->kind].link);
    list_again(slices, slice, changed->kind);
}

static void end_block(struct slices *slices)
{
    struct slice_changed *changed = &slices->changed;
    changed->at_us = slices->store->now_us + block_read_pause_us(&changed->read);
    block_read_fini(&changed->read);
    changed->block = next_block(changed->slice, changed->kind, changed->block + 1);
    if (changed->block == UINT32_MAX)
        end_slice(slices);
}

static void stay_all(struct slices *slices, struct slice *slice)
{
    slice->leavers_stay = true;
    for (unsigned kind = 0; kind < MOVE_LEAVER_KINDS; kind++) {
        slices->changed.jobs[kind] -= slice->leavers[kind].count;
        list_remove(&slice->leavers[kind].link);
    }
}

/* The block cannot be read, or (OK) is damaged: the changed jobs of this slice stay in memory. */
static void give_up(struct slices *slices, enum err err)
{
    struct slice_changed *changed = &slices->changed;
    struct slice *slice = changed->slice;
    uint64_t offset = slice_block_begin(slice, changed->block);
    block_read_fini(&changed->read);
    stay_all(slices, slice);
    changed->slice = NULL;
    if (!err) {
        segments_damaged(slices->segments, slice->segment, offset,
                         "a block of far jobs is damaged: changed ones of this slice stay in "
                         "memory; stop laterd, and look at it with: later verify DIR");
        return;
    }
    struct store_error error;
    char name[DISK_NAME_MAX];
    segments_file_name(slice->segment, name);
    store_error_set(&error, name, offset,
                    "the disk cannot read a block of far jobs: changed ones of this slice stay in "
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
    struct slice_changed *changed = &slices->changed;
    if (!changed->slice)
        choose_slice(slices);
    changed->block = next_block(changed->slice, changed->kind, changed->block);
    if (changed->block == UINT32_MAX) {
        end_slice(slices);
        return;
    }
    block_read_init(&changed->read, slices, changed->slice, changed->block, read_failed);
    block_read_start(&changed->read, false, 0);
}

/* ---- its records ---- */

/* The job is one of those that this is for: its record goes to the log, or it must stay. */
static void move_record(struct slices *slices, struct record *record, uint64_t offset)
{
    struct slice_changed *changed = &slices->changed;
    struct slice *slice = changed->slice;
    struct log *log = slices->store->log;
    const struct store *store = slices->store;
    struct store_callbacks *callbacks = store->callbacks;
    uint64_t where = where_of(slice->head.number, offset);
    int64_t after_us = time_add(store->now_us, store->options.horizon_us);
    record->event.record = (struct stored){.where = where, .bytes = (uint32_t)record->len};
    log_relocating(log, record_body_good(record) ? RELOCATING : RELOCATING_BODY_LOST);
    enum changed_verdict verdict =
        callbacks->relocate_changed(callbacks, &record->event, where, after_us);
    log_relocating(log, RELOCATING_NOTHING);
    changed->moved += verdict == CHANGED_LEAVES;
    if (verdict != CHANGED_LEAVES) /* else the record has died */
        slices_set_kind(slices, slice, slice_unit(offset),
                        verdict == CHANGED_STAYS ? MOVE_STAYS : MOVE_OTHER);
}

/* Goes through the next records of the block. */
static void pass_some(struct slices *slices)
{
    struct slice_changed *changed = &slices->changed;
    struct batch_walk *walk = &changed->read.walk;
    uint64_t begin = block_read_offset(&changed->read);
    enum err err = OK;
    for (unsigned i = 0; i < RECORDS && !err; i++) {
        struct slice_move move;
        err = batch_walk_next(walk);
        uint64_t offset = begin + walk->record_at;
        /* A dead record has no move. */
        if (!err && walk->record.is_far &&
            slice_moves_find(&changed->slice->moves, slice_unit(offset), &move) &&
            move.kind == changed->kind)
            move_record(slices, &walk->record, offset);
    }
    if (err == ERR_CORRUPT) /* a bug, or another program's work */
        give_up(slices, OK);
    else if (err)
        end_block(slices);
}

/* ---- the turn ---- */

/* When there is something to do, if it is wanted. */
static int64_t due_us(const struct slice_changed *changed)
{
    const struct block_read *read = &changed->read;
    return read->there ? INT64_MIN : read->slice ? read->retry_at_us : changed->at_us;
}

void slice_changed_turn(struct slices *slices)
{
    struct slice_changed *changed = &slices->changed;
    struct block_read *read = &changed->read;
    if (read->reading || slices->store->now_us < due_us(changed) || !wanted(slices))
        return;
    if (read->there)
        pass_some(slices);
    else if (read->slice)
        block_read_start(read, false, 0);
    else
        begin_block(slices);
}

int64_t slice_changed_next_us(const struct slices *slices)
{
    const struct slice_changed *changed = &slices->changed;
    if (changed->read.reading || !wanted(slices)) /* a disk operation that ends starts a turn */
        return INT64_MAX;
    int64_t now_us = slices->store->now_us, at_us = due_us(changed);
    return at_us > now_us ? at_us : now_us;
}

bool slice_changed_busy(const struct slices *slices)
{
    return slices->changed.read.reading;
}

/* ---- life ---- */

void slice_changed_init(struct slices *slices)
{
    for (unsigned kind = 0; kind < MOVE_LEAVER_KINDS; kind++)
        list_init(&slices->changed.slices[kind]);
    slices->changed.at_us = INT64_MIN;
}

void slice_changed_add(struct slice *slice)
{
    for (unsigned kind = 0; kind < MOVE_LEAVER_KINDS; kind++)
        list_init(&slice->leavers[kind].link);
}

void slice_changed_forget(struct slices *slices, struct slice *slice)
{
    struct slice_changed *changed = &slices->changed;
    if (changed->slice == slice) {
        block_read_fini(&changed->read);
        changed->slice = NULL;
    }
    for (unsigned kind = 0; kind < MOVE_LEAVER_KINDS; kind++) {
        CHECK(slice->leavers[kind].count == 0);
        list_remove(&slice->leavers[kind].link);
        mem_free(slice->leavers[kind].in_block);
    }
}

/* Counts such jobs of the slice again, by its moves. 0: they stay. */
static uint32_t count_again(const struct slice *slice, enum slice_move_kind kind)
{
    const struct slice_leavers *leavers = &slice->leavers[kind];
    uint32_t at = 0, unit, count = 0, in_blocks = 0, leave = 0;
    for (struct slice_move move; slice_moves_next(&slice->moves, &at, &unit, &move);)
        count += move.kind == kind;
    for (uint32_t block = 0; leavers->in_block && block < slice->head.blocks; block++) {
        in_blocks += leavers->in_block[block];
        leave += leave_of(slice, kind, block);
    }
    bool listed = !list_empty(&leavers->link);
    CHECK(in_blocks == count && leave == leavers->count);
    CHECK(listed == (leave > 0 && !slice->leavers_stay));
    return slice->leavers_stay ? 0 : leave;
}

void slice_changed_valid(const struct slices *slices)
{
    const struct slice_changed *changed = &slices->changed;
    for (unsigned kind = 0; kind < MOVE_LEAVER_KINDS; kind++) {
        uint64_t jobs = 0;
        for (const struct list *at = slices->all.next; at != &slices->all; at = at->next)
            jobs +=
                count_again(LIST_ENTRY(at, const struct slice, link), (enum slice_move_kind)kind);
        CHECK(jobs == changed->jobs[kind]);
    }
    block_read_valid(&changed->read);
    CHECK(!changed->read.slice ||
          (changed->read.slice == changed->slice && changed->read.block == changed->block));
}
