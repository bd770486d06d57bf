/*
 * Loads delayed far jobs into memory before they are due: when the due time of a block's first job
 * is near, the disk's threads read the block, and its jobs are passed to the callbacks in portions.
 * Ready and buried jobs are loaded only on demand.
 *
 * Several blocks are read at a time, and may end in any order. Their jobs are passed on in the
 * order in which the blocks were begun, which is that of their due times; only one that could not
 * be read at once is overtaken, and is an unread block of its slice from then on. Nothing is known
 * of a job from its block before it is passed on: whether it still lives there is looked up then.
 *
 * Also compacts slices: if most of a slice is dead, its live jobs are brought to memory and their
 * records are relocated to the log, as the cleaner does; then the file is removed.
 */
#include "base/check.h"
#include "base/mem.h"
#include "base/time_us.h"
#include "store/slices/far_record.h"
#include "store/slices/slices_parts.h"

enum {
    LOADS_MAX = SLICE_LOADS_MAX,  /* blocks under way … */
    LOAD_BYTES = 512 * 1024,      /* … and their bytes, unless it is a single one */
    AHEAD_BYTES = 256 * 1024,     /* of a slice's next blocks that are due as well: read ahead */
    LOAD_RECORDS = 256,           /* records passed to the callbacks in one turn: some µs each */
    SKIP_BLOCKS = 1024,           /* without live records, skipped in one turn: 0.1 µs each */
    UNREAD_US = 30 * 1000 * 1000, /* between later tries of a slice's unreadable blocks */
    ROOM_US = 100 * 1000,         /* between checks whether memory is free again, … */
    REPORT_WAITS_US = 60 * 1000 * 1000, /* … and between reports that memory is short */
    EMPTY_BACKLOG = 1024 * 1024,        /* bytes of unwritten log above which emptying waits */
    SLACK_SEGMENTS = 2,                 /* dead bytes that are tolerated, besides the live bytes */
};

/* Used if the horizon is off, and slices of an earlier configuration exist. */
#define AHEAD_DEFAULT_US (INT64_C(15) * 60 * 1000000)

static int64_t ahead_us(const struct slices *slices)
{
    int64_t horizon_us = slices->store->options.horizon_us;
    return horizon_us > 0 ? horizon_us / 2 : AHEAD_DEFAULT_US;
}

/* When a block must be loaded; INT64_MAX: never, or there is none. One whose first job has been due
   must be since the opening, though the clock may have been set back then. */
static int64_t block_load_at(const struct slices *slices, const struct slice *slice, uint32_t block)
{
    const struct slice_fence *fence = &slice->fences[block];
    if (slice->head.state != JOB_DELAYED || block >= slice->head.blocks ||
        fence->offset >= slice->named)
        return INT64_MAX;
    int64_t at_us;
    bool low = __builtin_sub_overflow(fence->due_us, ahead_us(slices), &at_us);
    if (low || at_us == INT64_MIN)
        return INT64_MIN + 1;
    bool was_due = fence->due_us <= slice->due_by_us;
    return was_due ? time_earlier(at_us, slices->store->options.now_us) : at_us;
}

/* When the slice's next block has to be loaded; INT64_MAX: there is none. */
static int64_t load_at(const struct slices *slices, const struct slice *slice)
{
    if (slice->live_jobs == 0)
        return INT64_MAX;
    int64_t at_us = block_load_at(slices, slice, slice->begun);
    return slice->unread_count > 0 && slice->retry_at_us < at_us ? slice->retry_at_us : at_us;
}

/* ---- blocks that the disk could not read ---- */

static struct block_load *load_of(const struct list *link)
{
    return LIST_ENTRY(link, struct block_load, link);
}

/* slice::loaded: the blocks between it and slice::begun are under way, or nothing lives in them. */
static uint32_t loaded_of(const struct slices *slices, const struct slice *slice)
{
    const struct list *blocks = &slices->load.blocks;
    for (const struct list *at = blocks->next; at != blocks; at = at->next)
        if (load_of(at)->read.slice == slice && !load_of(at)->again)
            return load_of(at)->read.block; /* those behind it have higher numbers */
    return slice->begun;
}

/* ---- the order of the slices ---- */

/* It has more dead than live bytes, and can be emptied. */
static bool is_sparse(const struct slice *slice)
{
    return slice->dead_bytes > slice->live_bytes && slice->live_jobs > 0 && !slice->making &&
           !slice->stuck && slice->unread_count == 0;
}

/* The larger the share of dead bytes, the lower. Below 2^26 bytes the shift does not overflow. */
static int64_t empty_key(const struct slice *slice)
{
    return -(int64_t)((slice->dead_bytes << 30) / (slice->dead_bytes + slice->live_bytes));
}

void slice_load_order(struct slices *slices, struct slice *slice)
{
    if (!slices->opened)
        return;
    int64_t at_us = load_at(slices, slice);
    if (at_us == INT64_MAX)
        heap_remove(&slices->by_load, &slice->load_node);
    else
        heap_put(&slices->by_load, &slice->load_node, at_us);
    if (is_sparse(slice))
        heap_put(&slices->by_dead, &slice->empty_node, empty_key(slice));
    else
        heap_remove(&slices->by_dead, &slice->empty_node);
}

/* When its next block is loaded depends on deaths only if nothing is left. */
void slice_load_order_death(struct slices *slices, struct slice *slice)
{
    if (slice->live_jobs == 0 || is_sparse(slice))
        slice_load_order(slices, slice);
}

bool slice_load_ordered(const struct slices *slices, const struct slice *slice)
{
    int64_t at_us = load_at(slices, slice);
    bool sparse = is_sparse(slice);
    return slice->loaded == loaded_of(slices, slice) &&
           (slice->load_node.place != 0) == (at_us != INT64_MAX) &&
           (slice->empty_node.place != 0) == sparse &&
           (at_us == INT64_MAX || slice->load_node.key == at_us) &&
           (!sparse || slice->empty_node.key == empty_key(slice));
}

/* When the next block of any slice must be loaded. */
static int64_t first_load_us(const struct slices *slices)
{
    const struct heap_node *first = heap_first(&slices->by_load);
    return first ? first->key : INT64_MAX;
}

static bool has_room(const struct slices *slices)
{
    struct store_callbacks *callbacks = slices->store->callbacks;
    return !callbacks->far_room || callbacks->far_room(callbacks);
}

/*
 * Should a slice be emptied, and can the log take its live records? A slice is chosen when all
 * slices together have more dead than live bytes: then emptying writes at most as much as it frees.
 */
static bool wants_empty(const struct slices *slices)
{
    const struct store *store = slices->store;
    uint64_t bytes = segments_slice_bytes(slices->segments);
    bool chosen = slices->load.sparse ||
                  (heap_first(&slices->by_dead) &&
                   bytes > 2 * slices->live_bytes + SLACK_SEGMENTS * store->options.segment_bytes);
    return chosen && !segments_full(slices->segments) &&
           log_backlog_bytes(store->log) <= EMPTY_BACKLOG;
}

/* ---- the blocks under way ---- */

static void set_loaded(const struct slices *slices, struct slice *slice)
{
    slice->loaded = loaded_of(slices, slice);
}

/* The slice whose next block must be loaded now; NULL: there is none. */
static struct slice *first_due(const struct slices *slices)
{
    if (first_load_us(slices) > slices->store->now_us)
        return NULL;
    return LIST_ENTRY(heap_first(&slices->by_load), struct slice, load_node);
}

/* True: a block that could not be read is to be tried again now. */
static bool retries(const struct slices *slices, const struct slice *slice)
{
    return slice->unread_count > 0 && slice->retry_at_us <= slices->store->now_us;
}

/* The block of a slice that is due that is begun next. */
static uint32_t next_block(const struct slices *slices, const struct slice *slice)
{
    return retries(slices, slice) ? slice_next_unread(slice) : slice->begun;
}

/*
 * Skips blocks whose jobs have all ended or are in memory, without reading them. After a start
 * these are most blocks whose due times are past: it is not stored which ones were loaded. *blocks:
 * how many more may be skipped in this turn. True: some were skipped, so that another slice may be
 * the first.
 */
static bool skip_come(struct slices *slices, struct slice *slice, unsigned *blocks)
{
    unsigned before = *blocks;
    while (*blocks > 0 && load_at(slices, slice) <= slices->store->now_us &&
           slice_block_has_come(slice, next_block(slices, slice))) {
        if (retries(slices, slice))
            slice_note_read(slice, slice_next_unread(slice));
        else
            slice->begun++;
        (*blocks)--;
    }
    if (*blocks == before)
        return false;
    set_loaded(slices, slice);
    slice_load_order(slices, slice);
    return true;
}

static bool may_begin(const struct slices *slices, const struct slice *slice)
{
    const struct slice_load *load = &slices->load;
    struct store_callbacks *callbacks = slices->store->callbacks;
    size_t bytes = slice_block_bytes(slice, next_block(slices, slice));
    /* Then one at a time: blocks under way must not take the memory that their jobs need. */
    bool scarce = callbacks->memory_left && callbacks->memory_left(callbacks) < LOAD_BYTES;
    return load->count == 0 ||
           (load->count < LOADS_MAX && load->bytes + bytes <= LOAD_BYTES && !scarce);
}

static void put_off(struct block_read *read, enum err err);

static struct block_load *load_new(struct slices *slices, struct slice *slice, uint32_t block)
{
    struct block_load *load = mem_zalloc(sizeof(*load));
    block_read_init(&load->read, slices, slice, block, put_off);
    list_init(&load->link);
    return load;
}

/* It was loaded, or is given up for now. Returns its slice. */
static struct slice *leave(struct block_load *load)
{
    struct slices *slices = load->read.slices;
    struct slice *slice = load->read.slice;
    if (load->emptying) {
        CHECK(slices->load.emptying == load);
        slices->load.emptying = NULL;
    } else {
        list_remove(&load->link);
        slices->load.count--;
        slices->load.bytes -= load->read.len;
    }
    if (load->again)
        slice->retry_at_us = slices->store->now_us; /* the next one, if there is one */
    set_loaded(slices, slice);
    block_read_fini(&load->read);
    mem_free(load);
    return slice;
}

/* Advances to the next block of the slice that is being emptied. */
static void advance_sparse(struct slices *slices, struct slice *slice)
{
    struct slice_load *load = &slices->load;
    CHECK(load->sparse == slice && load->sparse_block < slice->head.blocks);
    load->sparse_block++;
    if (load->sparse_block > slice->begun)
        slice->begun = load->sparse_block;
    set_loaded(slices, slice);
    bool all = load->sparse_block == slice->head.blocks ||
               slice->fences[load->sparse_block].offset >= slice->named;
    if (!all && slice->live_jobs > 0)
        return;
    slice->stuck = slice->live_jobs > 0;
    slices->emptied += !slice->stuck;
    load->sparse = NULL;
}

/* All of the block's records have been passed on. */
static void advance(struct block_load *load)
{
    struct slices *slices = load->read.slices;
    bool emptying = load->emptying;
    slice_note_read(load->read.slice, load->read.block);
    struct slice *slice = leave(load);
    if (emptying)
        advance_sparse(slices, slice);
    slice_load_order(slices, slice);
}

static void report_unread(struct slices *slices, const struct slice *slice, uint32_t block)
{
    struct store_callbacks *callbacks = slices->store->callbacks;
    struct store_error error;
    char name[DISK_NAME_MAX];
    segments_file_name(slice->segment, name);
    store_error_set(&error, name, slice_block_begin(slice, block),
                    "the disk cannot read a block of far jobs: it is tried again every %d s, and "
                    "they do not come due until then; look at the disk",
                    UNREAD_US / 1000000);
    callbacks->notice(callbacks, STORE_UNREAD, &error);
}

static void give_up_for_now(struct block_load *load)
{
    const struct block_read *read = &load->read;
    struct slices *slices = read->slices;
    uint32_t block = read->block;
    bool read_meanwhile = load->again && !slice_is_unread(read->slice, block);
    /* Not of a first failure beside another's: that one is tried again when the other is done. */
    bool reports = !read->slice->block_unread && (read->tries >= BLOCK_READ_TRIES || load->again);
    struct slice *slice = leave(load);
    slice->block_unread |= reports;
    if (!read_meanwhile)
        slice_note_unread(slice, block, slices->store->now_us + UNREAD_US);
    slice_load_order(slices, slice);
    if (slices->load.sparse == slice && !slices->load.emptying) /* else empty_some() does it */
        slices->load.sparse = NULL; /* it is chosen again when all of it can be read */
    if (reports)
        report_unread(slices, slice, block);
}

/* ---- reading ---- */

/* The block is tried again soon. Until then others, of its slice too, are loaded. */
static void let_overtake(struct block_load *load)
{
    struct slices *slices = load->read.slices;
    struct slice *slice = load->read.slice;
    slice_note_unread(slice, load->read.block, INT64_MAX);
    load->again = true;
    set_loaded(slices, slice);
    slice_load_order(slices, slice);
}

/* No read of the block is good: each record has its own sums, so the intact ones are used. */
static void use_damaged(struct block_load *load)
{
    segments_damaged(
        load->read.slices->segments, load->read.slice->segment, block_read_offset(&load->read),
        "a block of far jobs is damaged: jobs whose records in it cannot be read will "
        "not come due; stop laterd, and recover the others with: later salvage DIR NEW");
    load->damaged = true;
    block_read_use_damaged(&load->read);
}

/* The block cannot be read, or (OK) is damaged. */
static void put_off(struct block_read *read, enum err err)
{
    struct block_load *load = LIST_ENTRY(read, struct block_load, read);
    bool enough = read->tries >= BLOCK_READ_TRIES;
    bool others = read->tries == 1 && read->slice->unread_count > 0;
    if (err && (enough || others))
        give_up_for_now(load);
    else if (enough)
        use_damaged(load);
    else if (!load->again && !load->emptying)
        let_overtake(load);
}

/*
 * How many bytes behind this block are of blocks that will be read soon: the disk reads them
 * meanwhile, in one piece. Its system cannot know: it would read ahead in any slice, and far.
 */
static uint64_t ahead_of(const struct slices *slices, struct slice *slice, uint32_t block)
{
    uint32_t next = block + 1, end = next;
    if (slice->requested > next)
        return 0;
    while (block_load_at(slices, slice, end) <= slices->store->now_us &&
           !slice_block_has_come(slice, end) &&
           slice_block_end(slice, end) - slice_block_end(slice, block) <= AHEAD_BYTES)
        end++;
    slice->requested = end;
    return slice_block_end(slice, end - 1) - slice_block_end(slice, block);
}

static void start_read(struct block_load *load)
{
    struct block_read *read = &load->read;
    bool first = read->tries == 0 && !load->again && !load->emptying;
    block_read_start(read, load->again,
                     first ? ahead_of(read->slices, read->slice, read->block) : 0);
}

/* ---- passing records to the callbacks ---- */

static void relocate(struct slices *slices, const struct record *record)
{
    struct log *log = slices->store->log;
    struct store_callbacks *callbacks = slices->store->callbacks;
    log_relocating(log, record_body_good(record) ? RELOCATING : RELOCATING_BODY_LOST);
    callbacks->relocate(callbacks, &record->event, record->event.record.where);
    log_relocating(log, RELOCATING_NOTHING);
}

static void notify_record(struct block_load *load)
{
    struct slices *slices = load->read.slices;
    struct store_callbacks *callbacks = slices->store->callbacks;
    struct slice *slice = load->read.slice;
    struct record *record = &load->read.walk.record;
    uint64_t offset = block_read_offset(&load->read) + load->read.walk.record_at;
    if (!record->is_far || slice_is_dead(slice, offset))
        return;
    record->event.record = (struct stored){.where = where_of(slice->head.number, offset),
                                           .bytes = (uint32_t)record->len};
    bool near = !load->emptying && callbacks->near;
    slices->loaded_jobs += near ? callbacks->near(callbacks, &record->event)
                                : callbacks->arrive(callbacks, &record->event);
    if (load->emptying)
        relocate(slices, record);
}

/*
 * A step through a damaged block. Only far jobs' records have sums of their own, so nothing else is
 * believed, not even its length. *out_there: walk->record is such a record; if a client has put it
 * into a body, no job is far there, and the core ignores it. ERR_NOT_FOUND: the end.
 */
static enum err next_intact(struct batch_walk *walk, bool *out_there)
{
    size_t left = walk->end - walk->at;
    if (left < FAR_RECORD_MIN)
        return ERR_NOT_FOUND;
    *out_there =
        record_decode(walk->batch + walk->at, left, &walk->record) == OK && walk->record.is_far;
    walk->record_at = walk->at;
    walk->at += *out_there ? walk->record.len : 8; /* records begin at multiples of eight */
    return OK;
}

/* The block matches its checksum, but a record in it is not valid: a bug, or another program's
   work. The intact records behind it are found by their own sums. */
static void note_invalid(struct block_load *load)
{
    segments_damaged(
        load->read.slices->segments, load->read.slice->segment,
        block_read_offset(&load->read) + load->read.walk.at,
        "a block of far jobs matches its checksum, but a record in it is not valid: its job will "
        "not come due; stop laterd, and recover the others with: later salvage DIR NEW");
    load->damaged = true;
}

/* *records: how many more may be passed on in this turn. */
static void pass_on(struct block_load *load, unsigned *records)
{
    struct batch_walk *walk = &load->read.walk;
    enum err err = OK;
    for (; *records > 0 && !err; (*records)--) {
        bool there = true;
        err = load->damaged ? next_intact(walk, &there) : batch_walk_next(walk);
        if (!err && there)
            notify_record(load);
    }
    if (err == ERR_CORRUPT)
        note_invalid(load);
    else if (err)
        advance(load);
}

/* There is no memory for the jobs of this block, which should be loaded. */
static void wait_for_room(struct slices *slices, const struct slice *slice, uint32_t block)
{
    struct slice_load *load = &slices->load;
    struct store *store = slices->store;
    struct store_error error;
    char name[DISK_NAME_MAX];
    load->room_at_us = store->now_us + ROOM_US;
    load->waits = true;
    if (store->now_us < load->report_waits_us)
        return;
    load->report_waits_us = store->now_us + REPORT_WAITS_US;
    segments_file_name(slice->segment, name);
    store_error_set(
        &error, name, slice_block_begin(slice, block),
        "far jobs should be loaded, and limits.memory_bytes is reached: they wait on disk, and "
        "may come late; pushes are refused until they are loaded");
    store->callbacks->notice(store->callbacks, STORE_FAR_WAITS, &error);
}

/* Starts reads that are tried again. */
static void retry(struct block_load *load)
{
    if (block_read_due(&load->read))
        start_read(load);
}

/* The block whose records are passed on next; NULL: it is still being read, or there is none. */
static struct block_load *first_there(const struct slices *slices)
{
    const struct list *blocks = &slices->load.blocks;
    for (const struct list *at = blocks->next; at != blocks; at = at->next)
        if (load_of(at)->begun) /* one that it has overtaken may be there since */
            return load_of(at);
    for (const struct list *at = blocks->next; at != blocks; at = at->next) {
        struct block_load *load = load_of(at);
        if (load->read.there)
            return load;
        if (!load->again)
            return NULL;
    }
    return NULL;
}

/* False: there is no memory for them. A block that was begun is passed on to its end, which takes
   little more memory: until then no list of ready jobs has its jobs that are far and ready. */
static bool pass_some(struct slices *slices, unsigned *records)
{
    struct block_load *load;
    while (*records > 0 && (load = first_there(slices))) {
        if (!load->begun && !has_room(slices)) {
            wait_for_room(slices, load->read.slice, load->read.block);
            return false;
        }
        load->begun = true;
        pass_on(load, records);
    }
    return true;
}

/* ---- what to read next ---- */

static void begin(struct slices *slices, struct slice *slice)
{
    struct block_load *load = load_new(slices, slice, next_block(slices, slice));
    load->again = retries(slices, slice);
    if (load->again)
        slice->retry_at_us = INT64_MAX; /* one at a time of a slice */
    else
        slice->begun++;
    list_add_tail(&slices->load.blocks, &load->link);
    slices->load.count++;
    slices->load.bytes += load->read.len;
    slice_load_order(slices, slice);
    start_read(load);
}

/* Begins blocks that must be loaded now. True: no other must be. */
static bool begin_some(struct slices *slices)
{
    unsigned blocks = SKIP_BLOCKS;
    struct slice *due;
    while ((due = first_due(slices)) && blocks > 0) {
        if (skip_come(slices, due, &blocks))
            continue;
        if (!may_begin(slices, due))
            break;
        if (!has_room(slices)) {
            wait_for_room(slices, due, next_block(slices, due));
            break;
        }
        begin(slices, due);
    }
    return !due;
}

/* ---- slices that are emptied ---- */

static void choose_to_empty(struct slices *slices)
{
    struct slice_load *load = &slices->load;
    int64_t now_us = slices->store->now_us;
    if (load->emptying || now_us < load->sparse_us || !wants_empty(slices))
        return;
    if (!has_room(slices)) {
        load->sparse_us = now_us + ROOM_US;
        return;
    }
    if (!load->sparse) {
        load->sparse = LIST_ENTRY(heap_first(&slices->by_dead), struct slice, empty_node);
        load->sparse_block = 0;
    }
    load->emptying = load_new(slices, load->sparse, load->sparse_block);
    load->emptying->emptying = true;
    load->sparse_us = now_us + block_read_pause_us(&load->emptying->read);
    start_read(load->emptying);
}

static void empty_some(struct slices *slices, unsigned *records)
{
    struct slice_load *load = &slices->load;
    struct block_load *emptying = load->emptying;
    if (!emptying || emptying->read.reading)
        return;
    if (emptying->read.slice->unread_count > 0) { /* as give_up_for_now() does */
        (void)leave(emptying);
        load->sparse = NULL;
    } else if (!emptying->read.there) {
        retry(emptying);
    } else if (has_room(slices)) {
        pass_on(emptying, records);
    } else { /* later from the start: others may have to be loaded now */
        (void)leave(emptying);
        load->sparse_us = slices->store->now_us + ROOM_US;
    }
}

/* ---- the turn ---- */

void slice_load_turn(struct slices *slices)
{
    struct slice_load *load = &slices->load;
    unsigned records = LOAD_RECORDS;
    if (slices->store->now_us < load->room_at_us)
        return;
    for (struct list *at = load->blocks.next; at != &load->blocks; at = at->next)
        retry(load_of(at));
    if (!pass_some(slices, &records)) {
        if (load->emptying && load->emptying->read.there)
            (void)leave(load->emptying); /* others need its memory; it is begun again */
        return;
    }
    empty_some(slices, &records);
    if (!begin_some(slices))
        return;
    load->waits = load->waits && load->count > 0; /* else no block must be loaded now */
    choose_to_empty(slices);
}

/* When the block needs a turn; INT64_MAX: the end of its read starts one. */
static int64_t load_next_us(const struct block_load *load)
{
    const struct block_read *read = &load->read;
    return read->reading ? INT64_MAX : read->there ? INT64_MIN : read->retry_at_us;
}

static int64_t next_us(const struct slices *slices)
{
    const struct slice_load *load = &slices->load;
    const struct slice *due = first_due(slices);
    int64_t next = first_there(slices) ? INT64_MIN : INT64_MAX;
    for (const struct list *at = load->blocks.next; at != &load->blocks; at = at->next)
        if (!load_of(at)->read.there)
            next = time_earlier(next, load_next_us(load_of(at)));
    if (load->emptying)
        next = time_earlier(next, load_next_us(load->emptying));
    if (due)
        return may_begin(slices, due) ? INT64_MIN : next;
    next = time_earlier(next, first_load_us(slices));
    if (load->waits && load->count == 0)
        return INT64_MIN; /* a turn notes that nothing waits any more */
    if (!load->emptying && load->sparse_us < next && wants_empty(slices))
        next = load->sparse_us;
    return next;
}

int64_t slice_load_next_us(const struct slices *slices)
{
    int64_t now_us = slices->store->now_us, room_us = slices->load.room_at_us,
            next = next_us(slices);
    next = next > room_us ? next : room_us;
    return next > now_us ? next : now_us;
}

/* ---- life ---- */

bool slice_load_busy(const struct slices *slices)
{
    const struct list *blocks = &slices->load.blocks;
    bool busy = slices->load.emptying && slices->load.emptying->read.reading;
    for (const struct list *at = blocks->next; at != blocks; at = at->next)
        busy |= load_of(at)->read.reading;
    return busy;
}

void slice_load_init(struct slices *slices)
{
    list_init(&slices->load.blocks);
    slices->load.room_at_us = slices->load.sparse_us = INT64_MIN;
    slices->load.report_waits_us = INT64_MIN;
}

void slice_load_forget(struct slices *slices, struct slice *slice)
{
    struct slice_load *load = &slices->load;
    for (struct list *at = load->blocks.next, *next; at != &load->blocks; at = next) {
        next = at->next;
        if (load_of(at)->read.slice == slice)
            (void)leave(load_of(at));
    }
    if (load->emptying && load->emptying->read.slice == slice)
        (void)leave(load->emptying);
    if (load->sparse == slice)
        load->sparse = NULL;
    heap_remove(&slices->by_load, &slice->load_node);
    heap_remove(&slices->by_dead, &slice->empty_node);
}

void slice_load_fini(struct slices *slices)
{
    struct slice_load *load = &slices->load;
    while (!list_empty(&load->blocks))
        (void)leave(load_of(load->blocks.next));
    if (load->emptying)
        (void)leave(load->emptying);
}

static void load_valid(const struct block_load *load)
{
    const struct block_read *read = &load->read;
    CHECK(read->slice);
    block_read_valid(read);
    CHECK(load->again || load->emptying ||
          (read->block >= read->slice->loaded && read->block < read->slice->begun));
}

void slice_load_valid(const struct slices *slices)
{
    const struct slice_load *load = &slices->load;
    size_t bytes = 0;
    unsigned count = 0;
    for (const struct list *at = load->blocks.next; at != &load->blocks; at = at->next) {
        const struct block_load *block = load_of(at);
        load_valid(block);
        for (const struct list *to = at->next; to != &load->blocks; to = to->next)
            CHECK(load_of(to)->read.slice != block->read.slice || block->again ||
                  load_of(to)->again || load_of(to)->read.block > block->read.block);
        CHECK(!block->emptying && (!block->begun || block->read.there));
        bytes += block->read.len;
        count++;
    }
    CHECK(count == load->count && count <= LOADS_MAX && bytes == load->bytes);
    CHECK(count <= 1 || bytes <= LOAD_BYTES);
    if (load->emptying) {
        load_valid(load->emptying);
        CHECK(load->emptying->emptying && load->emptying->read.slice == load->sparse &&
              load->emptying->read.block == load->sparse_block);
    }
}
