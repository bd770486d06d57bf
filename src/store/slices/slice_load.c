/*
 * Loads delayed far jobs into memory before they are due: when the due time of a block's first job
 * is near, the disk's threads read the block, and its jobs are passed to the callbacks in portions.
 * Ready and buried jobs are loaded only on demand.
 *
 * Also compacts slices: if most of a slice is dead, its live jobs are brought to memory and their
 * records are relocated to the log, as the cleaner does; then the file is removed.
 */
#include "base/check.h"
#include "base/mem.h"
#include "store/slices/far_record.h"
#include "store/slices/slices_parts.h"

enum {
    LOAD_BYTES = 2 * SLICE_BLOCK_BYTES,
    LOAD_RECORDS = 256,           /* records passed to the callbacks in one turn: some µs each */
    SKIP_BLOCKS = 1024,           /* without live records, skipped in one turn: 0.1 µs each */
    LOAD_TRIES = 6,               /* of an unreadable block: 3 s; then others are loaded first */
    TRY_AGAIN_US = 100 * 1000,    /* after the first failure; doubled after each */
    UNREAD_US = 30 * 1000 * 1000, /* between later tries of a slice's unreadable blocks */
    EMPTY_PAUSE_US = 5 * 1000,    /* between two blocks of a slice that is emptied: 13 MB/s */
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

/* When the first block that was never tried must be loaded; INT64_MAX: there is none. */
static int64_t first_at(const struct slices *slices, const struct slice *slice)
{
    const struct slice_fence *fence = &slice->fences[slice->loaded];
    if (slice->head.state != JOB_DELAYED || slice->loaded == slice->head.blocks ||
        fence->offset >= slice->named)
        return INT64_MAX;
    int64_t at_us;
    bool low = __builtin_sub_overflow(fence->due_us, ahead_us(slices), &at_us);
    return low || at_us == INT64_MIN ? INT64_MIN + 1 : at_us;
}

/* When the slice's next block has to be loaded; INT64_MAX: there is none. */
static int64_t load_at(const struct slices *slices, const struct slice *slice)
{
    if (slice->live_jobs == 0)
        return INT64_MAX;
    int64_t at_us = first_at(slices, slice);
    return slice->unread_count > 0 && slice->retry_at_us < at_us ? slice->retry_at_us : at_us;
}

/* ---- blocks that the disk could not read ---- */

/* The block could not be read: it is tried again later. A slice's unread blocks are tried one by
   one, and other blocks are loaded in the meantime. */
static void note_unread(struct slice *slice, uint32_t block, int64_t retry_at_us)
{
    bool again = slice_is_unread(slice, block);
    if (again || slice->unread_count == 0) {
        slice->unread_next = block + 1;
        slice->retry_at_us = retry_at_us;
    }
    CHECK(block < slice->head.blocks && slice->unread_count <= slice->head.blocks);
    if (!slice->unread)
        slice->unread = mem_zalloc((slice->head.blocks / 64 + 1) * sizeof(*slice->unread));
    slice->unread_count += !again;
    slice->unread[block / 64] |= UINT64_C(1) << block % 64;
}

static void note_read(struct slice *slice, uint32_t block)
{
    if (!slice_is_unread(slice, block))
        return;
    CHECK(slice->unread_count > 0);
    slice->unread[block / 64] &= ~(UINT64_C(1) << block % 64);
    slice->unread_count--;
}

/* The unread block to try next; there must be one. */
static uint32_t next_unread(const struct slice *slice)
{
    uint32_t block = slice->unread_next;
    for (uint32_t i = 0; i <= slice->head.blocks; i++, block++) {
        if (block >= slice->head.blocks)
            block = 0;
        if (slice_is_unread(slice, block))
            break;
    }
    return block;
}

/* ---- what to read next ---- */

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
    return (slice->load_node.place != 0) == (at_us != INT64_MAX) &&
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

static void choose_to_empty(struct slices *slices)
{
    struct slice_load *load = &slices->load;
    int64_t now_us = slices->store->now_us;
    if (now_us < load->sparse_us || !wants_empty(slices))
        return;
    if (!has_room(slices)) {
        load->sparse_us = now_us + ROOM_US;
        return;
    }
    if (!load->sparse) {
        load->sparse = LIST_ENTRY(heap_first(&slices->by_dead), struct slice, empty_node);
        load->sparse_block = 0;
    }
    load->slice = load->sparse;
    load->block = load->sparse_block;
    load->emptying = true;
    load->sparse_us = now_us + EMPTY_PAUSE_US;
}

/*
 * Skips blocks whose jobs have all ended, without reading them. After a start these are most blocks
 * whose due times are past: it is not stored which ones were loaded. *blocks: how many more may be
 * skipped in this turn. True: some were skipped, so that another slice may be the first.
 */
static bool skip_dead(struct slices *slices, struct slice *slice, unsigned *blocks)
{
    uint32_t before = slice->loaded;
    while (*blocks > 0 && first_at(slices, slice) <= slices->store->now_us &&
           slice_block_live(slice, slice->loaded) == 0) {
        slice->loaded++;
        (*blocks)--;
    }
    if (slice->loaded == before)
        return false;
    slice_load_order(slices, slice);
    return true;
}

/* The slice whose next block must be loaded now; NULL: there is none. */
static struct slice *first_due(struct slices *slices)
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

static void choose(struct slices *slices)
{
    struct slice_load *load = &slices->load;
    unsigned blocks = SKIP_BLOCKS;
    struct slice *due = first_due(slices);
    while (due && !retries(slices, due) && skip_dead(slices, due, &blocks))
        due = first_due(slices);
    if (due && blocks > 0) {
        load->slice = due;
        load->block = retries(slices, due) ? next_unread(due) : due->loaded;
        load->emptying = false;
    } else if (!due) {
        load->waits = false; /* no block must be loaded now */
        choose_to_empty(slices);
    }
}

/* ---- reading ---- */

static void forget_block(struct slice_load *load)
{
    CHECK(!load->reading);
    load->slice = NULL;
    load->there = load->damaged = false;
    load->tries = 0;
    load->retry_at_us = INT64_MIN; /* the next block need not wait */
}

/* The block was loaded, or is given up for now. */
static struct slice *leave(struct slices *slices)
{
    struct slice_load *load = &slices->load;
    struct slice *slice = load->slice;
    CHECK(slice && load->block < slice->head.blocks);
    forget_block(load);
    if (!load->emptying && load->block == slice->loaded)
        slice->loaded++;
    return slice;
}

/* Advances to the next block of the slice that is being emptied. */
static void advance_sparse(struct slices *slices, struct slice *slice)
{
    struct slice_load *load = &slices->load;
    CHECK(load->sparse == slice && load->sparse_block < slice->head.blocks);
    load->sparse_block++;
    if (load->sparse_block > slice->loaded)
        slice->loaded = load->sparse_block;
    bool all = load->sparse_block == slice->head.blocks ||
               slice->fences[load->sparse_block].offset >= slice->named;
    if (!all && slice->live_jobs > 0)
        return;
    slice->stuck = slice->live_jobs > 0;
    slices->emptied += !slice->stuck;
    load->sparse = NULL;
}

static void advance(struct slices *slices)
{
    struct slice *slice = leave(slices);
    note_read(slice, slices->load.block);
    if (slices->load.emptying)
        advance_sparse(slices, slice);
    slice_load_order(slices, slice);
}

static void give_up_for_now(struct slices *slices)
{
    struct slice_load *load = &slices->load;
    struct store *store = slices->store;
    struct slice *slice = leave(slices);
    bool first = slice->unread_count == 0;
    note_unread(slice, load->block, store->now_us + UNREAD_US);
    slice_load_order(slices, slice);
    if (load->sparse == slice)
        load->sparse = NULL; /* it is chosen again when all of it can be read */
    if (!first)
        return;
    struct store_error error;
    char name[DISK_NAME_MAX];
    segments_file_name(slice->segment, name);
    store_error_set(&error, name, (uint64_t)slice->fences[load->block].offset * BLOCK,
                    "the disk cannot read a block of far jobs: it is tried again every %d s, and "
                    "they do not come due until then; look at the disk",
                    UNREAD_US / 1000000);
    store->callbacks->notice(store->callbacks, STORE_UNREAD, &error);
}

/* The block cannot be read, or (OK) is damaged. */
static void put_off(struct slices *slices, enum err err)
{
    struct slice_load *load = &slices->load;
    int64_t now_us = slices->store->now_us;
    if (err == ERR_AGAIN) { /* no free descriptor: no error of the slice */
        load->retry_at_us = now_us + TRY_AGAIN_US;
        return;
    }
    load->retry_at_us = now_us + ((int64_t)TRY_AGAIN_US << load->tries);
    bool enough = ++load->tries >= LOAD_TRIES;
    if (err && (enough || load->slice->unread_count > 0)) {
        give_up_for_now(slices);
        return;
    }
    if (!enough)
        return;
    segments_damaged(
        slices->segments, load->slice->segment,
        (uint64_t)load->slice->fences[load->block].offset * BLOCK,
        "a block of far jobs is damaged: jobs whose records in it cannot be read will "
        "not come due; stop laterd, and recover the others with: later salvage DIR NEW");
    /* Each record has its own sums: the intact ones are used. */
    load->there = load->damaged = true;
    batch_walk_init(&load->walk, load->bytes, (uint32_t)(load->op.got - BATCH_HEAD));
}

static bool is_good(const struct slices *slices, size_t len, struct batch_head *out_head)
{
    const struct slice_load *load = &slices->load;
    return batch_head_decode(load->bytes, len, out_head) == FORMAT_GOOD &&
           out_head->number == load->block + 1 && out_head->segment == load->slice->head.number &&
           out_head->store_tag == slices->store->tag && batch_whole(out_head, load->bytes, 0);
}

static void read_ended(struct disk_op *op)
{
    struct slices *slices = op->owner;
    struct slice_load *load = &slices->load;
    struct batch_head head;
    CHECK(load->reading && load->slice);
    load->reading = false;
    segments_read_end(slices->segments, load->slice->segment, op);
    if (op->fresh && op->file)
        slices->store->disk->verbs->close(slices->store->disk, op->file);
    if (op->err || op->got <= BATCH_HEAD || !is_good(slices, op->got, &head)) {
        put_off(slices, op->err ? op->err : op->got <= BATCH_HEAD ? ERR_IO : OK);
        return;
    }
    load->there = true;
    batch_walk_init(&load->walk, load->bytes, head.payload_bytes);
}

static void start_read(struct slices *slices)
{
    struct slice_load *load = &slices->load;
    uint64_t offset = (uint64_t)load->slice->fences[load->block].offset * BLOCK;
    size_t len = (size_t)(slice_block_end(load->slice, load->block) - offset);
    bool again = load->tries > 0 || slice_is_unread(load->slice, load->block);
    CHECK(!load->reading && len > 0 && len % BLOCK == 0);
    if (len > load->cap) {
        mem_free(load->bytes);
        load->cap = len > LOAD_BYTES ? len : LOAD_BYTES;
        load->bytes = mem_aligned(BLOCK, load->cap);
    }
    load->op = (struct disk_op){
        .into = load->bytes,
        .len = len,
        .offset = offset,
        .fresh = again, /* past the page cache */
        .done = read_ended,
        .owner = slices,
    };
    load->reading = true;
    segments_read(slices->segments, load->slice->segment, &load->op);
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

static void notify_record(struct slices *slices)
{
    struct slice_load *load = &slices->load;
    struct store_callbacks *callbacks = slices->store->callbacks;
    struct slice *slice = load->slice;
    struct record *record = &load->walk.record;
    uint64_t offset = (uint64_t)slice->fences[load->block].offset * BLOCK + load->walk.record_at;
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
static void note_invalid(struct slices *slices)
{
    struct slice_load *load = &slices->load;
    segments_damaged(
        slices->segments, load->slice->segment,
        (uint64_t)load->slice->fences[load->block].offset * BLOCK + load->walk.at,
        "a block of far jobs matches its checksum, but a record in it is not valid: its job will "
        "not come due; stop laterd, and recover the others with: later salvage DIR NEW");
    load->damaged = true;
}

static void report_some(struct slices *slices)
{
    struct slice_load *load = &slices->load;
    enum err err = OK;
    for (unsigned i = 0; i < LOAD_RECORDS && !err; i++) {
        bool there = true;
        err = load->damaged ? next_intact(&load->walk, &there) : batch_walk_next(&load->walk);
        if (!err && there)
            notify_record(slices);
    }
    if (err == ERR_CORRUPT)
        note_invalid(slices);
    else if (err)
        advance(slices);
}

/* There is no memory for the block's jobs. */
static void wait_for_room(struct slices *slices)
{
    struct slice_load *load = &slices->load;
    struct store *store = slices->store;
    struct store_error error;
    char name[DISK_NAME_MAX];
    if (load->emptying) { /* later from the start: others may have to be loaded now */
        (void)leave(slices);
        load->sparse_us = store->now_us + ROOM_US;
        return;
    }
    load->retry_at_us = store->now_us + ROOM_US;
    load->waits = true;
    if (store->now_us < load->report_waits_us)
        return;
    load->report_waits_us = store->now_us + REPORT_WAITS_US;
    segments_file_name(load->slice->segment, name);
    store_error_set(
        &error, name, (uint64_t)load->slice->fences[load->block].offset * BLOCK,
        "far jobs should be loaded, and limits.memory_bytes is reached: they wait on disk, and "
        "may come late; pushes are refused until they are loaded");
    store->callbacks->notice(store->callbacks, STORE_FAR_WAITS, &error);
}

void slice_load_turn(struct slices *slices)
{
    struct slice_load *load = &slices->load;
    if (load->reading || slices->store->now_us < load->retry_at_us)
        return;
    if (!load->slice)
        choose(slices);
    if (!load->slice)
        return;
    if (!has_room(slices))
        wait_for_room(slices);
    else if (load->there)
        report_some(slices);
    else
        start_read(slices);
}

int64_t slice_load_next_us(const struct slices *slices)
{
    const struct slice_load *load = &slices->load;
    int64_t now_us = slices->store->now_us, next_us = first_load_us(slices);
    if (load->reading)
        return INT64_MAX; /* its end starts a turn */
    if (load->slice)
        next_us = load->retry_at_us;
    else if (load->waits)
        next_us = now_us; /* a turn checks whether blocks still wait */
    else if (load->sparse_us < next_us && wants_empty(slices))
        next_us = load->sparse_us;
    return next_us > now_us ? next_us : now_us;
}

void slice_load_init(struct slices *slices)
{
    slices->load.retry_at_us = slices->load.sparse_us = INT64_MIN;
    slices->load.report_waits_us = INT64_MIN;
}

void slice_load_forget(struct slices *slices, struct slice *slice)
{
    struct slice_load *load = &slices->load;
    if (load->slice == slice)
        forget_block(load);
    if (load->sparse == slice)
        load->sparse = NULL;
    heap_remove(&slices->by_load, &slice->load_node);
    heap_remove(&slices->by_dead, &slice->empty_node);
}

void slice_load_fini(struct slices *slices)
{
    mem_free(slices->load.bytes);
}
