#include "store/slices/spill.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "store/far.h"
#include "store/internal.h"
#include "store/slices/far_record.h"
#include "store/slices/slices.h"
#include "store/slices/spill_build.h"
#include "store/slices/spill_gather.h"
#include "store/varint.h"

enum {
    GATHER_BYTES = 4 * 1024 * 1024, /* of a run's gathered copies, at least */
    AGAIN_US = 100 * 1000,          /* until the next try, if no descriptor was free */
    VISITED_US = 1000,              /* between checks of far_visited() */
    HELD_BLOCKS = 16,       /* that depart after a hold-up, before the next command may cause one */
    SLICES_MAX = 60000,     /* at the same time: the core's index has 16 bits for a slice */
    ROOM_SEGMENTS = 4,      /* free space that the disk must have besides */
    KEEP_US = 10 * 1000000, /* how long memory is kept for the next run: new pages are dear */
    /* The least size of a new slice, because nothing merges slices: least_bytes(). */
    SLICES_FEW = 64,    /* slices of any size, up to this number */
    SEGMENT_SHARE = 64, /* from then on: this fraction of a segment */
    FEW_TIMES = 16, /* from this many times SLICES_FEW on, and at each MORE_SHARE times that … */
    MORE_SHARE = 4, /* … this many times as much … */
    SEGMENT_MOST = 4, /* … up to this fraction of a segment */
};

/* Slices have jobs of one kind. */
enum spill_kind { SPILL_DELAYED, SPILL_READY, SPILL_BURIED, SPILL_KINDS };

static const enum job_state kind_state[SPILL_KINDS] = {JOB_DELAYED, JOB_READY, JOB_BURIED};

enum spill_step { SPILL_IDLE, SPILL_GATHER, SPILL_BUILD, SPILL_WRITE, SPILL_REMOVE, SPILL_DEPART };

struct spill {
    struct store *store;
    enum spill_step step;
    uint32_t segment; /* that the jobs leave */
    struct spill_gather gathered[SPILL_KINDS];
    struct gather_room room;
    bool leaves[SPILL_KINDS]; /* kinds that leave in this run; others wait for the next one */
    bool began[SPILL_KINDS];  /* kinds that have left the segment, in this run or an earlier one */
    enum spill_kind kind;     /* that is being built; SPILL_KINDS: all are built */
    struct spill_build build; /* only the disk's thread uses it while `writing`, and its jobs */
    bool built;               /* the slice is complete; used as `build` is */
    size_t departing;         /* index in build.leaving of the next job to depart */
    struct slice *slice;      /* SPILL_DEPART */
    uint32_t block;           /* the slice's next block to depart */
    bool writing, written;
    struct disk_op op;
    int64_t retry_at_us;
    /* SPILL_DEPART: blocks that depart, once far_visited() is false, before the next command on
       their topics begins; else 0. */
    uint32_t held_blocks;
    bool given_up;         /* the disk is full: the other jobs are relocated */
    char *window;          /* spill_keep_window(); or NULL */
    int64_t keep_until_us; /* until then unused memory is kept */
    uint64_t departed_bytes, departed_jobs;
};

/* ---- gathering ---- */

uint64_t spill_room_bytes(const struct store *store)
{
    return ROOM_SEGMENTS * store->options.segment_bytes;
}

bool spill_would_have_room(const struct store *store, uint64_t freed)
{
    uint64_t need = spill_room_bytes(store) + segments_copies_max(store->segments);
    uint64_t max_bytes = store->options.max_bytes;
    uint64_t used = segments_store_bytes(store->segments), kept = used > freed ? used - freed : 0;
    uint64_t free_bytes = store->disk->verbs->room(store->disk);
    return (free_bytes > need || freed > need - free_bytes) &&
           (max_bytes == 0 || kept + need <= max_bytes);
}

static bool has_room(const struct store *store)
{
    return !segments_full(store->segments) && spill_would_have_room(store, 0);
}

/* More was gathered than memory is left. */
static bool is_scarce(const struct spill *spill)
{
    struct store_callbacks *callbacks = spill->store->callbacks;
    return callbacks->memory_left &&
           spill_gathered_bytes(spill) > callbacks->memory_left(callbacks);
}

/*
 * The least bytes of records of a slice. The more slices there are, the larger a new one is, so
 * that their number grows with the jobs in them, and not with the segments that were cleaned. Jobs
 * that are too few go round in the log, in memory, until a segment has enough of them: a quarter of
 * the log at most. Not while memory is short.
 */
static uint64_t least_bytes(const struct spill *spill, bool scarce)
{
    const struct store_options *options = &spill->store->options;
    uint32_t count = slices_count(spill->store->slices);
    uint64_t few = options->slices_few ? options->slices_few : SLICES_FEW;
    uint64_t most = options->segment_bytes / SEGMENT_MOST;
    uint64_t least = options->segment_bytes / SEGMENT_SHARE;
    if (count < few)
        return 0;
    for (few *= FEW_TIMES; count >= few && least < most && !scarce; few *= MORE_SHARE)
        least *= MORE_SHARE;
    return least;
}

/* Are there enough jobs of this kind for a slice? */
static bool is_enough(const struct spill *spill, enum spill_kind kind, bool scarce)
{
    const struct spill_gather *gathered = &spill->gathered[kind];
    return gather_left(gathered) && gathered->record_bytes >= least_bytes(spill, scarce);
}

static bool any_is_enough(const struct spill *spill, bool scarce)
{
    unsigned kind = 0;
    while (kind < SPILL_KINDS && !is_enough(spill, (enum spill_kind)kind, scarce))
        kind++;
    return kind < SPILL_KINDS;
}

static void drop_all(struct spill *spill)
{
    for (unsigned kind = 0; kind < SPILL_KINDS; kind++)
        gather_fini(&spill->gathered[kind], &spill->room);
}

bool spill_begin(struct spill *spill, const struct segment *segment)
{
    CHECK(spill_gathered_bytes(spill) == 0);
    spill->departed_bytes = 0;
    for (unsigned kind = 0; kind < SPILL_KINDS; kind++)
        spill->began[kind] = false;
    return spill_go_on(spill, segment);
}

bool spill_go_on(struct spill *spill, const struct segment *segment)
{
    const struct store *store = spill->store;
    CHECK(spill->step == SPILL_IDLE);
    if (!cleaner_wants_checkpoint(store->cleaner) || !has_room(store) ||
        slices_count(store->slices) >= SLICES_MAX) {
        drop_all(spill);
        return false;
    }
    spill->segment = segment->number;
    spill->given_up = false;
    spill->step = SPILL_GATHER;
    return true;
}

uint64_t spill_gathered_bytes(const struct spill *spill)
{
    uint64_t bytes = 0;
    for (unsigned kind = 0; kind < SPILL_KINDS; kind++)
        bytes += gather_bytes(&spill->gathered[kind]);
    return bytes;
}

bool spill_full(const struct spill *spill)
{
    const struct store_options *options = &spill->store->options;
    uint64_t least = options->spill_bytes ? options->spill_bytes : GATHER_BYTES;
    return spill->step == SPILL_GATHER && spill_gathered_bytes(spill) > least && is_scarce(spill) &&
           any_is_enough(spill, true);
}

static enum spill_kind kind_of(enum job_state state)
{
    unsigned kind = 0;
    while (kind < SPILL_KINDS && kind_state[kind] != state)
        kind++;
    CHECK(kind < SPILL_KINDS);
    return (enum spill_kind)kind;
}

bool spill_offer(struct spill *spill, struct record *record, struct stored place)
{
    struct store *store = spill->store;
    struct event *job = &record->event;
    struct far_draft draft;
    int64_t after_us;
    if (spill->step != SPILL_GATHER || place.bytes > GATHER_RECORD_MAX ||
        __builtin_add_overflow(store->now_us, store->options.horizon_us, &after_us) ||
        !store->callbacks->spill(store->callbacks, job, place.where, after_us, job) ||
        !far_record_fits(job))
        return false;
    far_record_begin(job, &draft);
    if (draft.len > GATHER_RECORD_MAX)
        return false;
    gather_add(&spill->gathered[kind_of(job->job.state)], &spill->room, job, &draft,
               record->body_sum, place.bytes);
    return true;
}

/* ---- the end ---- */

/* The slice is complete, or was given up. Most of its memory is kept, the rest freed in pieces. */
static void end_slice(struct spill *spill)
{
    slice_build_reset(&spill->build.slice, &spill->room.spent);
    spill->build.leaving.len = 0;
    spill->build.gather = NULL;
    spill->built = false;
    spill->slice = NULL;
    spill->held_blocks = 0;
}

/* Ends the run. Jobs that wait for the next run are kept. */
static void reset(struct spill *spill)
{
    end_slice(spill);
    spill->keep_until_us = spill->store->now_us + KEEP_US;
    spill->step = SPILL_IDLE;
}

static uint64_t kept_bytes(const struct spill *spill)
{
    const struct spill_build *build = &spill->build;
    return gather_room_bytes(&spill->room) + build->leaving.cap + slice_build_kept(&build->slice) +
           (spill->window ? SPILL_WINDOW : 0);
}

char *spill_take_window(struct spill *spill)
{
    char *window = spill->window ? spill->window : mem_aligned(BLOCK, SPILL_WINDOW);
    spill->window = NULL;
    return window;
}

void spill_keep_window(struct spill *spill, char *window)
{
    mem_free(spill->window);
    spill->window = window;
}

/* Frees some of the memory that is kept. */
static void keep_less(struct spill *spill)
{
    discard_buf(&spill->room.spent, &spill->build.leaving);
    discard_buf(&spill->room.spent, &spill->build.slice.index);
    if (gather_room_less(&spill->room))
        return;
    if (slice_build_kept(&spill->build.slice))
        slice_build_less(&spill->build.slice);
    else
        spill_keep_window(spill, NULL);
}

void spill_rest(struct spill *spill)
{
    struct store_callbacks *callbacks = spill->store->callbacks;
    CHECK(spill->step == SPILL_IDLE);
    (void)discard_step(&spill->room.spent);
    uint64_t kept = kept_bytes(spill);
    if (kept == 0)
        return;
    bool scarce = callbacks->memory_left && callbacks->memory_left(callbacks) < kept;
    if (scarce || spill->store->now_us >= spill->keep_until_us)
        keep_less(spill);
}

int64_t spill_rest_us(const struct spill *spill)
{
    if (spill->room.spent.bytes)
        return spill->store->now_us;
    return kept_bytes(spill) ? spill->keep_until_us : INT64_MAX;
}

/* ---- building and writing, by the disk's thread ---- */

static void begin_slice(struct spill *spill)
{
    struct store *store = spill->store;
    slice_build_begin(&spill->build.slice, &store->id, segments_take_number(store->segments));
    spill->build.slice.head.state = kind_state[spill->kind];
    spill->build.gather = &spill->gathered[spill->kind];
    spill->build.far_key = store_far_key(store);
    spill->step = SPILL_WRITE;
}

static void give(struct disk_op *op, struct disk_pieces *to)
{
    struct spill *spill = op->owner;
    spill->build.slice.to = to;
    spill_build_run(&spill->build);
    spill->build.slice.to = NULL;
    spill->built = true;
}

static void written(struct disk_op *op)
{
    struct spill *spill = op->owner;
    CHECK(spill->writing);
    spill->writing = false;
    CHECK(spill->built || op->err);
    if (op->err == ERR_AGAIN && !spill->built)
        spill->retry_at_us = spill->store->now_us + AGAIN_US;
    else if (op->err == ERR_DISK_FULL)
        spill->given_up = true;
    else if (op->err)
        store_fail(spill->store, op->sys_errno);
    else
        spill->written = true;
}

static void write_slice(struct spill *spill)
{
    struct store *store = spill->store;
    static const uint32_t of_kind[SPILL_KINDS] = {
        [SPILL_READY] = FEATURE_READY, [SPILL_BURIED] = FEATURE_BURIED};
    uint32_t features = FEATURE_SLICES | of_kind[spill->kind];
    if (!manifest_has(store->manifest, features))
        return; /* the end of the manifest's write starts a turn */
    spill->op = (struct disk_op){
        .verb = DISK_REPLACE,
        .lane = LANE_BACKGROUND,
        .give = give,
        .done = written,
        .owner = spill,
    };
    slice_name(spill->build.slice.head.number, spill->op.name);
    spill->writing = true;
    store->disk->verbs->submit(store->disk, &spill->op);
}

/* Errors are ignored: the next opening removes a file that is left. */
static void removed(struct disk_op *op)
{
    struct spill *spill = op->owner;
    CHECK(spill->writing && spill->step == SPILL_REMOVE);
    spill->writing = false;
}

/* The disk was full before the slice was durable. Its file may have its name already. */
static void remove_slice(struct spill *spill)
{
    struct disk *disk = spill->store->disk;
    spill->op = (struct disk_op){
        .verb = DISK_REMOVE, .lane = LANE_BACKGROUND, .done = removed, .owner = spill};
    slice_name(spill->build.slice.head.number, spill->op.name);
    spill->writing = true;
    spill->step = SPILL_REMOVE;
    disk->verbs->submit(disk, &spill->op);
}

/* ---- departing ---- */

static const struct leaving *leaving_at(const struct spill *spill, size_t number)
{
    return (const struct leaving *)(const void *)spill->build.leaving.at + number;
}

static void begin_departing(struct spill *spill)
{
    const struct slice_head *head = &spill->build.slice.head;
    size_t size = head->blocks * sizeof(struct slice_fence);
    struct slice_fence *fences = mem_alloc(size);
    enum err err = slice_fences_decode(head, spill->build.slice.fences.at, fences);
    CHECK(!err); /* this process has just encoded them */
    spill->slice = slices_add(spill->store->slices, head, fences);
    spill->slice->making = true;
    spill->slice->order_known = true;
    uint32_t first = 0;
    for (uint32_t i = 0; i < head->blocks; first += fences[i++].jobs)
        fences[i].seq = leaving_at(spill, first)->seq;
    spill->slice->seq_last = leaving_at(spill, head->jobs - 1)->seq;
    memcpy(spill->slice->topics, spill->build.topics, sizeof(spill->slice->topics));
    spill->block = 0;
    spill->departing = 0;
    spill->written = false;
}

/* Announces the next jobs to the core, which prefetches them. `left`: jobs left in the block. */
static void announce_soon(struct spill *spill, uint32_t left)
{
    struct store_callbacks *callbacks = spill->store->callbacks;
    uint64_t seqs[FAR_SOON_MAX];
    uint32_t count = left < FAR_SOON_MAX ? left : FAR_SOON_MAX;
    for (uint32_t i = 0; i < count; i++)
        seqs[i] = leaving_at(spill, spill->departing + i)->seq;
    if (callbacks->soon)
        callbacks->soon(callbacks, seqs, count, true);
}

/* Has the core remove one block's jobs from memory; jobs that changed meanwhile are dead there. */
static void depart_block(struct spill *spill, struct clean_work *work)
{
    struct store *store = spill->store;
    struct slice *slice = spill->slice;
    const struct slice_fence *fence = &slice->fences[spill->block];
    bool last = spill->block + 1 == slice->head.blocks;
    struct buf dead = {0};
    uint64_t live_bytes = 0, dead_bytes = 0;
    struct slice_record part = {
        .number = slice->head.number,
        .from = fence->offset,
        .to = last ? (uint32_t)(slice->head.data_end / BLOCK) : fence[1].offset,
        .left = spill->segment,
    };
    uint32_t unit = slice_unit((uint64_t)fence->offset * BLOCK);
    for (uint32_t i = 0; i < fence->jobs; i++, spill->departing++) {
        const struct leaving *job = leaving_at(spill, spill->departing);
        if (i % FAR_SOON_MAX == 0)
            announce_soon(spill, fence->jobs - i);
        struct stored record = {.where = job->where, .bytes = job->len};
        if (store->callbacks->depart(store->callbacks, job->seq, record)) {
            part.jobs++;
            part.left_bytes += job->old_bytes;
            live_bytes += job->len;
            continue;
        }
        dead_bytes += job->len;
        char room[VARINT_MAX];
        uint32_t of_job = slice_unit(where_offset(job->where));
        buf_add(&dead, room, (size_t)(varint_put(room, of_job - unit) - room));
        unit = of_job;
    }
    work->jobs += fence->jobs;
    work->bytes += live_bytes + dead_bytes;
    part.left = part.jobs ? part.left : 0;
    part.dead = dead.at;
    part.dead_bytes = (uint32_t)dead.len;
    bool left = segments_leave(store->segments, spill->segment, part.jobs, part.left_bytes);
    CHECK(left);
    slices_name_part(store->slices, slice, &part, live_bytes, dead_bytes);
    spill->departed_bytes += part.left_bytes;
    spill->departed_jobs += part.jobs;
    spill->block++;
    buf_fini(&dead);
}

static bool may_have(const void *slice, struct bytes topic)
{
    return slice_may_have(slice, topic);
}

/* Is a walk through the jobs of a topic under way that the slice may have? */
static bool is_visited(const struct spill *spill)
{
    struct store_callbacks *callbacks = spill->store->callbacks;
    return callbacks->far_visited && callbacks->far_visited(callbacks, may_have, spill->slice);
}

static void depart_some(struct spill *spill, struct clean_work *work)
{
    if (is_visited(spill)) {
        spill->held_blocks = HELD_BLOCKS;
        spill->retry_at_us = spill->store->now_us + VISITED_US;
        return;
    }
    depart_block(spill, work);
    spill->held_blocks -= spill->held_blocks > 0;
    if (spill->block < spill->slice->head.blocks)
        return;
    slices_made(spill->store->slices, spill->slice);
    end_slice(spill);
    spill->step = SPILL_BUILD;
}

/* ---- the turn ---- */

/*
 * Kinds with too few jobs for a slice wait for more. In the last run they do not leave, unless
 * others of their kind have left this segment: that makes one small slice besides large ones.
 *
 * Only spill_full() ends a run before the last one. What was enough for it is enough here, although
 * memory may be less scarce now: the walk has freed its window. Else nothing would leave, and the
 * walk would find the run full again, forever.
 */
static void begin_building(struct spill *spill, bool last)
{
    bool scarce = !last || is_scarce(spill);
    bool any = false;
    for (unsigned kind = 0; kind < SPILL_KINDS; kind++) {
        bool rest = last && spill->began[kind] && gather_left(&spill->gathered[kind]);
        spill->leaves[kind] = rest || is_enough(spill, (enum spill_kind)kind, scarce);
        spill->began[kind] |= spill->leaves[kind];
        any |= spill->leaves[kind];
        if (last && !spill->leaves[kind])
            gather_fini(&spill->gathered[kind], &spill->room);
    }
    spill->kind = SPILL_DELAYED;
    spill->step = any ? SPILL_BUILD : SPILL_IDLE;
}

/* Begins the next slice: of the next kind if no jobs of this one are left. */
static void build(struct spill *spill)
{
    while (spill->kind < SPILL_KINDS &&
           !(spill->leaves[spill->kind] && gather_left(&spill->gathered[spill->kind]))) {
        if (spill->leaves[spill->kind])
            gather_fini(&spill->gathered[spill->kind],
                        &spill->room); /* all have departed or stayed */
        spill->kind++;
    }
    if (spill->kind < SPILL_KINDS)
        begin_slice(spill);
    else
        spill->step = SPILL_IDLE;
}

bool spill_turn(struct spill *spill, bool last, struct clean_work *work, bool *out_left)
{
    *out_left = false;
    (void)discard_step(&spill->room.spent);
    if (spill->writing || spill->store->now_us < spill->retry_at_us)
        return false;
    switch (spill->step) {
    case SPILL_IDLE: return true;
    case SPILL_GATHER: begin_building(spill, last); break;
    case SPILL_BUILD: build(spill); break;
    case SPILL_WRITE:
        if (spill->written) {
            begin_departing(spill);
            spill->step = SPILL_DEPART;
        } else if (spill->given_up) {
            remove_slice(spill);
        } else {
            write_slice(spill);
        }
        break;
    case SPILL_REMOVE: spill->step = SPILL_IDLE; break;
    case SPILL_DEPART: depart_some(spill, work); break;
    }
    if (spill->step != SPILL_IDLE)
        return false;
    *out_left = true; /* jobs that changed meanwhile, if any, are still there */
    reset(spill);
    if (last || spill->given_up)
        drop_all(spill);
    return true;
}

int64_t spill_next_us(const struct spill *spill)
{
    bool waits = spill->writing || (spill->step == SPILL_WRITE && !spill->written &&
                                    manifest_busy(spill->store->manifest));
    if (waits)
        return INT64_MAX;
    int64_t now_us = spill->store->now_us;
    return spill->retry_at_us > now_us ? spill->retry_at_us : now_us;
}

bool spill_busy(const struct spill *spill)
{
    return spill->writing;
}

const struct slice *spill_held_up(const struct spill *spill)
{
    CHECK(!spill->held_blocks || (spill->slice && spill->step == SPILL_DEPART));
    return spill->held_blocks ? spill->slice : NULL;
}

uint64_t spill_departed_bytes(const struct spill *spill)
{
    return spill->departed_bytes;
}

uint64_t spill_departed_jobs(const struct spill *spill)
{
    return spill->departed_jobs;
}

/* ---- life ---- */

struct spill *spill_new(struct store *store)
{
    struct spill *spill = mem_zalloc(sizeof(*spill));
    spill->store = store;
    spill->retry_at_us = INT64_MIN;
    return spill;
}

void spill_free(struct spill *spill)
{
    if (!spill)
        return;
    CHECK(!spill->writing);
    if (spill->slice)
        spill->slice->making = false;
    reset(spill);
    drop_all(spill);
    gather_room_fini(&spill->room);
    spill_keep_window(spill, NULL);
    slice_build_fini(&spill->build.slice);
    buf_fini(&spill->build.leaving);
    mem_free(spill);
}
