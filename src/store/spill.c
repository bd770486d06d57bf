#include "store/spill.h"

#include "base/check.h"
#include "base/far_hash.h"
#include "base/mem.h"
#include "store/far_record.h"
#include "store/internal.h"
#include "store/slice_build.h"
#include "store/slices.h"
#include "store/spill_gather.h"
#include "store/varint.h"

enum {
    GATHER_BYTES = 4 * 1024 * 1024, /* of a run, at least: records and what is known of them */
    TURN_JOBS = 512,                /* sorted and built in one turn, about */
    TURN_BYTES = 256 * 1024,        /* the same */
    AGAIN_US = 100 * 1000,          /* no descriptor was free */
    VISITED_US = 1000,  /* somebody goes through the jobs of a topic that are to depart */
    SLICES_MAX = 60000, /* alive: the core's index has 16 bits for them */
    ROOM_SEGMENTS = 4,  /* so much the disk must have besides */
    SLICES_FEW = 64,    /* above so many, small slices are not made: nothing merges them … */
    SEGMENT_SHARE = 64, /* … small: less than so much of a segment */
};

/* Slices have jobs of one kind. */
enum spill_kind { SPILL_DELAYED, SPILL_READY, SPILL_BURIED, SPILL_KINDS };

static const enum job_state kind_state[SPILL_KINDS] = {JOB_DELAYED, JOB_READY, JOB_BURIED};

enum spill_step { SPILL_IDLE, SPILL_GATHER, SPILL_BUILD, SPILL_WRITE, SPILL_REMOVE, SPILL_DEPART };

struct spill {
    struct store *store;
    enum spill_step step;
    uint32_t segment; /* that they leave */
    struct spill_gather gathered[SPILL_KINDS];
    bool leaves[SPILL_KINDS]; /* in this run; others wait for the next one */
    bool began[SPILL_KINDS];  /* to leave the segment, in an earlier run or in this one */
    enum spill_kind kind;     /* that is being built; SPILL_KINDS: all are */
    struct buf built;         /* uint32_t: those of the slice being made, in its order */
    size_t departing;         /* of `built`: the next to be asked */
    struct slice_build build;
    struct slice *slice; /* SPILL_DEPART */
    uint32_t block;      /* of its blocks of records: the next part */
    bool writing, written;
    struct disk_op op;
    int64_t retry_at_us;
    bool held_up;  /* SPILL_DEPART: by a visitor */
    bool given_up; /* no room: the rest is relocated */
    uint64_t departed_bytes, departed_jobs;
};

/* ---- gathering ---- */

static bool has_room(const struct store *store)
{
    uint64_t segment_bytes = store->options.segment_bytes;
    uint64_t max_bytes = store->options.max_bytes;
    uint64_t used = segments_bytes(store->segments) + segments_slice_bytes(store->segments);
    uint64_t free_bytes = store->disk->verbs->room(store->disk);
    return !segments_full(store->segments) && free_bytes / ROOM_SEGMENTS > segment_bytes &&
           (max_bytes == 0 || used + ROOM_SEGMENTS * segment_bytes <= max_bytes);
}

/* Is it enough for a slice? */
static bool is_enough(const struct spill *spill, enum spill_kind kind)
{
    const struct store *store = spill->store;
    if (!gather_left(&spill->gathered[kind]))
        return false;
    uint32_t few = store->options.slices_few ? store->options.slices_few : SLICES_FEW;
    return slices_count(store->slices) < few ||
           spill->gathered[kind].record_bytes >= store->options.segment_bytes / SEGMENT_SHARE;
}

static bool any_is_enough(const struct spill *spill)
{
    unsigned kind = 0;
    while (kind < SPILL_KINDS && !is_enough(spill, (enum spill_kind)kind))
        kind++;
    return kind < SPILL_KINDS;
}

static void drop_all(struct spill *spill)
{
    for (unsigned kind = 0; kind < SPILL_KINDS; kind++)
        gather_fini(&spill->gathered[kind]);
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
    const struct store *store = spill->store;
    struct store_callbacks *callbacks = store->callbacks;
    uint64_t bytes = spill_gathered_bytes(spill);
    uint64_t least = store->options.spill_bytes ? store->options.spill_bytes : GATHER_BYTES;
    return spill->step == SPILL_GATHER && bytes > least && any_is_enough(spill) &&
           callbacks->memory_left && bytes > callbacks->memory_left(callbacks);
}

static enum spill_kind kind_of(enum job_state state)
{
    unsigned kind = 0;
    while (kind < SPILL_KINDS && kind_state[kind] != state)
        kind++;
    CHECK(kind < SPILL_KINDS);
    return (enum spill_kind)kind;
}

bool spill_offer(struct spill *spill, const struct event *event, struct stored record)
{
    struct store *store = spill->store;
    struct event job;
    int64_t after_us;
    if (spill->step != SPILL_GATHER || record.bytes > GATHER_RECORD_MAX ||
        __builtin_add_overflow(store->now_us, store->options.horizon_us, &after_us) ||
        !store->callbacks->spill(store->callbacks, event, record.where, after_us, &job))
        return false;
    size_t len = far_record_fits(&job) ? far_record_bytes(&job) : SIZE_MAX;
    if (len > GATHER_RECORD_MAX)
        return false;
    gather_add(&spill->gathered[kind_of(job.job.state)], &job, record, len);
    return true;
}

/* ---- the end ---- */

/* What waits for the next run stays. */
static void reset(struct spill *spill)
{
    buf_fini(&spill->built);
    slice_build_fini(&spill->build);
    spill->slice = NULL;
    spill->held_up = false;
    spill->step = SPILL_IDLE;
}

/* ---- building ---- */

static struct spill_gather *gathered_now(struct spill *spill)
{
    CHECK(spill->kind < SPILL_KINDS);
    return &spill->gathered[spill->kind];
}

/* Moves the job, which was the first of those gathered, into the slice. */
static void build_one(struct spill *spill, uint32_t number)
{
    struct spilled *job = gather_job(gathered_now(spill), number);
    struct record record;
    enum err err = record_decode(job->record, job->len, &record);
    CHECK(!err && record.is_far); /* we wrote it a moment ago */
    struct bytes id = record.event.id;
    uint64_t id_hash = far_hash_id(store_far_key(spill->store), id);
    uint64_t offset = slice_build_add(&spill->build, &record.event, id_hash, job->record, job->len);
    job->where = where_of(spill->build.head.number, offset);
    buf_add(&spill->built, &number, sizeof(number));
}

/*
 * Those of the next jobs that the slice and the turn have room for; the others wait for the next
 * slice, or the next turn. True: the slice is full.
 */
static bool build_next(struct spill *spill, struct clean_work *work)
{
    struct spill_gather *gather = gathered_now(spill);
    struct turn_of next[GATHER_AHEAD];
    uint32_t count = gather_take(gather, next), i = 0;
    bool full = false;
    for (; i < count && work->bytes < TURN_BYTES; i++) {
        uint32_t len = gather_job(gather, next[i].job)->len;
        full = !slice_build_room(&spill->build, len);
        if (full)
            break;
        build_one(spill, next[i].job);
        work->jobs++;
        work->bytes += len;
    }
    for (; i < count; i++)
        gather_put_back(gather, next[i]);
    return full;
}

/* True: the slice is full, or has all. */
static bool build_some(struct spill *spill, struct clean_work *work)
{
    struct clean_work done = {0};
    const struct spill_gather *gather = gathered_now(spill);
    bool full = false;
    if (!spill->build.image) {
        slice_build_begin(&spill->build, &spill->store->id,
                          segments_take_number(spill->store->segments));
        spill->build.head.state = kind_state[spill->kind];
    }
    while (!full && done.jobs < TURN_JOBS && done.bytes < TURN_BYTES && gather_left(gather))
        full = build_next(spill, &done);
    work->jobs += done.jobs;
    work->bytes += done.bytes;
    work->copied += done.bytes;
    full = full || !gather_left(gather);
    if (full)
        slice_build_end(&spill->build);
    return full;
}

/* ---- writing ---- */

static void written(struct disk_op *op)
{
    struct spill *spill = op->owner;
    CHECK(spill->writing);
    spill->writing = false;
    if (op->err == ERR_AGAIN)
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
        return; /* its write makes a turn */
    spill->op = (struct disk_op){
        .verb = DISK_REPLACE,
        .lane = LANE_BACKGROUND,
        .data = spill->build.image,
        .len = spill->build.len,
        .done = written,
        .owner = spill,
    };
    slice_name(spill->build.head.number, spill->op.name);
    spill->writing = true;
    store->disk->verbs->submit(store->disk, &spill->op);
}

/* At worst it is a leftover: the next opening removes it. */
static void removed(struct disk_op *op)
{
    struct spill *spill = op->owner;
    CHECK(spill->writing && spill->step == SPILL_REMOVE);
    spill->writing = false;
}

/* The disk was full before the slice was durable, but perhaps not before it had its name. */
static void remove_slice(struct spill *spill)
{
    struct disk *disk = spill->store->disk;
    spill->op = (struct disk_op){
        .verb = DISK_REMOVE, .lane = LANE_BACKGROUND, .done = removed, .owner = spill};
    slice_name(spill->build.head.number, spill->op.name);
    spill->writing = true;
    spill->step = SPILL_REMOVE;
    disk->verbs->submit(disk, &spill->op);
}

/* ---- departing ---- */

static void note_topics(struct spill *spill)
{
    const struct slice_head *head = &spill->build.head;
    const char *section = spill->build.image + slice_topics_at(head);
    struct slice_topics topics = {section, section + head->topics_bytes};
    struct bytes name;
    while (slice_topics_next(&topics, &name) == OK)
        slice_note_topic(spill->slice, name);
}

static const struct spilled *built_at(struct spill *spill, size_t number)
{
    uint32_t job;
    memcpy(&job, spill->built.at + number * sizeof(job), sizeof(job));
    return gather_job(gathered_now(spill), job);
}

static void begin_departing(struct spill *spill)
{
    const struct slice_head *head = &spill->build.head;
    size_t size = head->blocks * sizeof(struct slice_fence);
    struct slice_fence *fences = mem_alloc(size);
    enum err err = slice_fences_decode(head, spill->build.image + head->data_end, fences);
    CHECK(!err); /* we wrote them a moment ago */
    spill->slice = slices_add(spill->store->slices, head, fences);
    spill->slice->making = true;
    spill->slice->order_known = true;
    uint32_t first = 0;
    for (uint32_t i = 0; i < head->blocks; first += fences[i++].jobs)
        fences[i].seq = built_at(spill, first)->seq;
    spill->slice->seq_last = built_at(spill, head->jobs - 1)->seq;
    note_topics(spill);
    spill->block = 0;
    spill->departing = 0;
    spill->written = false;
}

/* The next ones of so many will be asked for. */
static void announce_soon(struct spill *spill, uint32_t left)
{
    struct store_callbacks *callbacks = spill->store->callbacks;
    uint64_t seqs[FAR_SOON_MAX];
    uint32_t count = left < FAR_SOON_MAX ? left : FAR_SOON_MAX;
    for (uint32_t i = 0; i < count; i++)
        seqs[i] = built_at(spill, spill->departing + i)->seq;
    if (callbacks->soon)
        callbacks->soon(callbacks, seqs, count, true);
}

/* Asks the core for the jobs of one block. */
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
        const struct spilled *job = built_at(spill, spill->departing);
        if (i % FAR_SOON_MAX == 0)
            announce_soon(spill, fence->jobs - i);
        struct stored record = {.where = job->where, .bytes = job->len};
        if (store->callbacks->depart(store->callbacks, job->seq, record)) {
            part.jobs++;
            part.left_bytes += job->old.bytes;
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

/* Does somebody go through the jobs of a topic that the slice may have? */
static bool is_visited(const struct spill *spill)
{
    struct store_callbacks *callbacks = spill->store->callbacks;
    struct bytes topic;
    return callbacks->far_visited && callbacks->far_visited(callbacks, &topic) &&
           slice_may_have(spill->slice, topic);
}

static void depart_some(struct spill *spill, struct clean_work *work)
{
    spill->held_up = is_visited(spill);
    if (spill->held_up) {
        spill->retry_at_us = spill->store->now_us + VISITED_US;
        return;
    }
    depart_block(spill, work);
    if (spill->block < spill->slice->head.blocks)
        return;
    slices_made(spill->store->slices, spill->slice);
    spill->slice = NULL;
    slice_build_fini(&spill->build);
    buf_fini(&spill->built);
    spill->step = SPILL_BUILD;
}

/* ---- the turn ---- */

/*
 * Kinds that are not enough for a slice wait for more of them. In the last run none of them leaves,
 * but what is left of those that had been enough does: that is one small slice beside large ones.
 */
static void begin_building(struct spill *spill, bool last)
{
    bool any = false;
    for (unsigned kind = 0; kind < SPILL_KINDS; kind++) {
        bool rest = last && spill->began[kind] && gather_left(&spill->gathered[kind]);
        spill->leaves[kind] = rest || is_enough(spill, (enum spill_kind)kind);
        spill->began[kind] |= spill->leaves[kind];
        any |= spill->leaves[kind];
        if (last && !spill->leaves[kind])
            gather_fini(&spill->gathered[kind]);
    }
    spill->kind = SPILL_DELAYED;
    spill->step = any ? SPILL_BUILD : SPILL_IDLE;
}

/* Of the kind there is more to be built. */
static bool goes_on_with(const struct spill *spill, enum spill_kind kind)
{
    return spill->leaves[kind] && (spill->build.image || gather_left(&spill->gathered[kind]));
}

/* The next slice, of the next kind if of this one there are no more. True: it is to be written. */
static bool build(struct spill *spill, struct clean_work *work)
{
    while (spill->kind < SPILL_KINDS && !goes_on_with(spill, spill->kind)) {
        if (spill->leaves[spill->kind])
            gather_fini(&spill->gathered[spill->kind]); /* all have been asked */
        spill->kind++;
    }
    if (spill->kind < SPILL_KINDS)
        return build_some(spill, work);
    spill->step = SPILL_IDLE;
    return false;
}

bool spill_turn(struct spill *spill, bool last, struct clean_work *work, bool *out_left)
{
    *out_left = false;
    if (spill->writing || spill->store->now_us < spill->retry_at_us)
        return false;
    switch (spill->step) {
    case SPILL_IDLE: return true;
    case SPILL_GATHER: begin_building(spill, last); break;
    case SPILL_BUILD:
        if (build(spill, work))
            spill->step = SPILL_WRITE;
        break;
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
    *out_left = true; /* if any: some may have changed meanwhile */
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

bool spill_held_up(const struct spill *spill)
{
    return spill->held_up;
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
    mem_free(spill);
}
