#include "store/slices/far_blocks.h"

#include "base/check.h"
#include "base/mem.h"
#include "store/slices/slices_parts.h"

enum { FIRST_CAP = 16 };

/* ---- the order ---- */

static bool is_behind(const struct block_place *a, const struct block_place *b)
{
    if (a->at_us != b->at_us)
        return a->at_us > b->at_us;
    if (a->seq != b->seq)
        return a->seq > b->seq;
    return a->number != b->number ? a->number > b->number : a->rank > b->rank;
}

/* The block's first job; `seq` is 0 if it is not known. */
static struct job_place first_of(const struct slice *slice, uint32_t block)
{
    CHECK(block < slice->head.blocks);
    return (struct job_place){slice->fences[block].due_us, slice->fences[block].seq};
}

/* An upper bound of the block's jobs: the first job of the next block, or the slice's last job. */
static struct job_place end_of(const struct slice *slice, uint32_t block)
{
    if (block + 1 < slice->head.blocks)
        return first_of(slice, block + 1);
    return (struct job_place){slice->head.due_last_us, slice->seq_last};
}

static struct block_place place_of(const struct far_blocks *blocks, const struct slice *slice,
                                   uint32_t block)
{
    struct job_place end = end_of(slice, block), first = first_of(slice, block);
    if (blocks->backwards)
        return (struct block_place){.at_us = ~end.due_us,
                                    .seq = end.seq ? ~end.seq : 0,
                                    .number = slice->head.number,
                                    .rank = ~block};
    return (struct block_place){
        .at_us = first.due_us, .seq = first.seq, .number = slice->head.number, .rank = block};
}

/* The sort key of a job: in front of all blocks that begin with this job. */
static struct block_place place_of_job(const struct far_blocks *blocks, const struct job_place *job)
{
    if (blocks->backwards)
        return (struct block_place){.at_us = ~job->due_us, .seq = ~job->seq};
    return (struct block_place){.at_us = job->due_us, .seq = job->seq};
}

bool far_blocks_precedes(const struct far_blocks *blocks, const struct job_place *job,
                         const struct block_place *place)
{
    struct block_place at = place_of_job(blocks, job);
    return at.at_us != place->at_us ? at.at_us < place->at_us : at.seq < place->seq;
}

/* ---- blocks that begin at the same due time ---- */

/* Does the next block, or the one before, begin at the same due time? For the last block: or does
   its last job have that due time? */
static bool is_tied(const struct slice *slice, uint32_t block)
{
    int64_t at_us = first_of(slice, block).due_us;
    return end_of(slice, block).due_us == at_us ||
           (block > 0 && first_of(slice, block - 1).due_us == at_us);
}

/* True: the index must be read before the block's place is used, because places must not change. */
static bool needs_order(const struct slice *slice, uint32_t block)
{
    bool last = block + 1 == slice->head.blocks;
    return !slice->order_known && (is_tied(slice, block) || (!last && is_tied(slice, block + 1)));
}

/* Sets them for tied blocks only: the places of others may be in use already. */
void far_blocks_learn(struct slice *slice, const uint64_t *seqs)
{
    uint32_t count = slice->head.blocks;
    for (uint32_t i = 0; seqs && !slice->order_known && i < count; i++)
        if (is_tied(slice, i))
            slice->fences[i].seq = seqs[i];
    if (seqs && !slice->order_known && first_of(slice, count - 1).due_us == slice->head.due_last_us)
        slice->seq_last = seqs[count];
    slice->order_known = true;
}

static uint32_t block_of(const struct far_blocks *blocks, const struct block_place *place)
{
    return blocks->backwards ? ~place->rank : place->rank;
}

/* ---- the next block of one slice ---- */

/* Is the job not behind `from`? If its number is not known: is it due before `from`? */
static bool is_passed(const struct far_blocks *blocks, struct job_place job,
                      const struct job_place *from)
{
    bool same = job.due_us == from->due_us && job.seq;
    if (blocks->backwards)
        return job.due_us > from->due_us || (same && job.seq >= from->seq);
    return job.due_us < from->due_us || (same && job.seq <= from->seq);
}

bool far_blocks_passed(const struct far_blocks *blocks, const struct slice *slice, uint32_t block,
                       const struct job_place *from)
{
    struct job_place last = blocks->backwards ? first_of(slice, block) : end_of(slice, block);
    return is_passed(blocks, last, from);
}

/* The block has no job behind `from`, or was returned. The same is true of all blocks before it. */
static bool is_over(const struct far_blocks *blocks, const struct slice *slice, uint32_t block)
{
    struct block_place place = place_of(blocks, slice, block);
    bool unnamed = blocks->backwards && slice->fences[block].offset >= slice->named;
    return unnamed || far_blocks_passed(blocks, slice, block, &blocks->from) ||
           (blocks->begun && !is_behind(&place, &blocks->last));
}

/* The n-th block of the slice in the order. */
static uint32_t nth(const struct far_blocks *blocks, const struct slice *slice, uint32_t n)
{
    return blocks->backwards ? slice->head.blocks - 1 - n : n;
}

/* How many blocks at the beginning of the order are over. O(log blocks) */
static uint32_t count_over(const struct far_blocks *blocks, const struct slice *slice)
{
    uint32_t low = 0, high = slice->head.blocks;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (is_over(blocks, slice, nth(blocks, slice, middle)))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool wants_loaded(const struct far_blocks *blocks, const struct slice *slice)
{
    return blocks->state == JOB_READY && slice->head.state == JOB_DELAYED;
}

bool far_blocks_wants(const struct far_blocks *blocks, const struct slice *slice, uint32_t block)
{
    return slice_is_loaded(slice, block) == wants_loaded(blocks, slice);
}

/* The first block from the n-th on that is wanted. Loaded blocks come first in a slice, except
   blocks that could not be read. */
static uint32_t first_wanted(const struct far_blocks *blocks, const struct slice *slice, uint32_t n)
{
    uint32_t count = slice->head.blocks, loaded = slice->loaded;
    bool behind = wants_loaded(blocks, slice) == blocks->backwards; /* unwanted ones come first */
    uint32_t from = blocks->backwards ? count - loaded : loaded;
    if (behind && slice->unread_count == 0 && n < from)
        n = from;
    while (n < count && !far_blocks_wants(blocks, slice, nth(blocks, slice, n)))
        n += slice->unread_count > 0 ? 1 : count;
    return n;
}

/* The slice's first block that is not over, is wanted and is in use. False: there is none. */
static bool first_block(const struct far_blocks *blocks, const struct slice *slice,
                        struct block_place *out_place)
{
    if (slice->live_jobs == 0 || !slice->fences)
        return false;
    uint32_t n = first_wanted(blocks, slice, count_over(blocks, slice));
    if (n >= slice->head.blocks || slice->fences[nth(blocks, slice, n)].offset >= slice->named)
        return false;
    *out_place = place_of(blocks, slice, nth(blocks, slice, n));
    return true;
}

/* ---- the heap ---- */

static bool entry_behind(const struct block_entry *a, const struct block_entry *b)
{
    return is_behind(&a->place, &b->place);
}

/* Sifts `entry` down from the free place `at`. */
static void sift_down(struct far_blocks *blocks, uint32_t at, struct block_entry entry)
{
    struct block_entry *heap = blocks->heap;
    for (uint32_t child; (child = 2 * at + 1) < blocks->count; at = child) {
        if (child + 1 < blocks->count && entry_behind(&heap[child], &heap[child + 1]))
            child++;
        if (!entry_behind(&entry, &heap[child]))
            break;
        heap[at] = heap[child];
    }
    heap[at] = entry;
}

static void push(struct far_blocks *blocks, struct block_entry entry)
{
    if (blocks->count == blocks->cap) {
        blocks->cap = blocks->cap ? 2 * blocks->cap : FIRST_CAP;
        blocks->heap = mem_realloc(blocks->heap, far_blocks_bytes(blocks));
    }
    struct block_entry *heap = blocks->heap;
    uint32_t at = blocks->count++;
    for (; at > 0 && entry_behind(&heap[(at - 1) / 2], &entry); at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = entry;
}

static void pop(struct far_blocks *blocks)
{
    CHECK(blocks->count > 0);
    struct block_entry last = blocks->heap[--blocks->count];
    CHECK(!is_behind(&blocks->heap[0].place, &last.place));
    if (blocks->count > 0)
        sift_down(blocks, 0, last);
}

/* ---- the first of all ---- */

/* Can the slice have jobs of that topic and state? May be a false positive. */
static bool may_have(const struct far_blocks *blocks, const struct slice *slice)
{
    bool possible = slice->head.state == blocks->state || wants_loaded(blocks, slice);
    return possible && slice_may_have(slice, blocks->topic);
}

static void look_at(struct far_blocks *blocks, const struct slice *slice)
{
    struct block_entry entry = {.rest = {0}};
    if (may_have(blocks, slice) && first_block(blocks, slice, &entry.place))
        push(blocks, entry);
}

/*
 * Examines slices that were not examined yet. False: `*looks` was used up before the last one. The
 * slice that is being made, the last one, is not put into the heap: it is examined in each call
 * (first_in_making()), because parts are added to it.
 */
static bool look_at_more(struct far_blocks *blocks, uint32_t *looks)
{
    const struct segment *segment;
    while ((segment = segments_slice_from(blocks->slices->segments, blocks->next_number)) &&
           !segment->slice->making) {
        if (*looks == 0)
            return false;
        --*looks;
        blocks->slices->looks++;
        look_at(blocks, segment->slice);
        blocks->next_number = segment->number + 1;
    }
    return true;
}

static struct slice *slice_with(const struct far_blocks *blocks, uint32_t number)
{
    const struct segment *segment = segments_find(blocks->slices->segments, number);
    return segment ? segment->slice : NULL;
}

/* Can the rest of a block still be used? */
static bool rest_is_there(const struct far_blocks *blocks, const struct slice *slice,
                          const struct block_entry *entry)
{
    return entry->rest.records > 0 && slice->live_jobs > 0 &&
           far_blocks_wants(blocks, slice, block_of(blocks, &entry->place));
}

/* The heap's first entry after an update, as slices change. False: there is none. */
static bool first_entry(struct far_blocks *blocks, struct block_entry *out_entry)
{
    while (blocks->count > 0) {
        struct block_entry entry = blocks->heap[0];
        const struct slice *slice = slice_with(blocks, entry.place.number);
        if (slice && rest_is_there(blocks, slice, &entry)) {
            *out_entry = entry;
            return true;
        }
        *out_entry = (struct block_entry){.rest = {0}};
        bool there = !entry.added && slice && first_block(blocks, slice, &out_entry->place);
        if (there && !is_behind(&out_entry->place, &entry.place)) {
            blocks->heap[0] = *out_entry; /* its place did not move back: still the first */
            return true;
        }
        if (there)
            sift_down(blocks, 0, *out_entry); /* the slice's next block */
        else
            pop(blocks);
    }
    return false;
}

/* The first block of the slice that is being made. */
static bool first_in_making(const struct far_blocks *blocks, struct block_place *out_place)
{
    const struct segment *segment =
        segments_slice_from(blocks->slices->segments, blocks->next_number);
    return segment && may_have(blocks, segment->slice) &&
           first_block(blocks, segment->slice, out_place);
}

/* *out_kept: it is in the heap. */
static bool first_of_all(struct far_blocks *blocks, struct block_entry *out_entry, bool *out_kept)
{
    struct block_place place;
    *out_kept = first_entry(blocks, out_entry);
    if (!first_in_making(blocks, &place) || (*out_kept && is_behind(&place, &out_entry->place)))
        return *out_kept;
    *out_entry = (struct block_entry){.place = place};
    *out_kept = false;
    return true;
}

enum far_blocks_verdict far_blocks_next(struct far_blocks *blocks, bool bounded,
                                        struct job_place until, uint32_t *looks,
                                        struct block_part *out_part)
{
    struct block_entry entry;
    bool kept;
    if (!look_at_more(blocks, looks))
        return BLOCKS_LATER;
    if (!first_of_all(blocks, &entry, &kept))
        return BLOCKS_NONE;
    blocks->next = entry.place;
    if (bounded && far_blocks_precedes(blocks, &until, &blocks->next))
        return BLOCKS_ENOUGH;
    uint32_t block = block_of(blocks, &entry.place);
    *out_part = (struct block_part){.slice = slice_with(blocks, entry.place.number),
                                    .block = block,
                                    .rest = entry.rest,
                                    .divisible = kept};
    CHECK(out_part->slice && block < out_part->slice->head.blocks);
    if (entry.rest.records == 0 && needs_order(out_part->slice, block))
        return BLOCKS_ORDER;
    if (!blocks->begun || is_behind(&entry.place, &blocks->last))
        blocks->last = entry.place; /* else far_blocks_add() added it behind its turn */
    blocks->begun = true;
    CHECK(!kept || blocks->heap[0].place.number == entry.place.number);
    if (kept)
        blocks->heap[0].rest = (struct block_rest){0}; /* returned: first_entry() replaces it */
    return BLOCKS_NEXT;
}

/* The place of what is left of a block: right behind the last job used, but not behind the slice's
   next block, whose first number may not be known. */
static struct block_place place_behind(const struct far_blocks *blocks,
                                       const struct block_part *part, struct job_place behind)
{
    const struct slice *slice = part->slice;
    struct block_place place = place_of_job(blocks, &behind);
    bool last = blocks->backwards ? part->block == 0 : part->block + 1 == slice->head.blocks;
    place.seq++;
    if (!last) {
        uint32_t block = blocks->backwards ? part->block - 1 : part->block + 1;
        struct block_place next = place_of(blocks, slice, block);
        if (is_behind(&place, &next))
            place = next;
    }
    place.number = slice->head.number;
    place.rank = blocks->backwards ? ~part->block : part->block;
    return place;
}

void far_blocks_put_back(struct far_blocks *blocks, const struct block_part *part,
                         struct block_rest rest, struct job_place behind)
{
    CHECK(part->divisible && rest.records > 0 && blocks->count > 0);
    CHECK(blocks->heap[0].place.number == part->slice->head.number);
    struct block_entry entry = blocks->heap[0]; /* where the part came from */
    entry.place = place_behind(blocks, part, behind);
    entry.rest = rest;
    sift_down(blocks, 0, entry);
}

/* Nothing behind the block was returned: far_blocks_next() will return it. */
static bool is_ahead(const struct far_blocks *blocks, const struct slice *slice, uint32_t block)
{
    struct block_place place = place_of(blocks, slice, block);
    return !blocks->begun || is_behind(&place, &blocks->last);
}

void far_blocks_add(struct far_blocks *blocks, const struct slice *slice, uint32_t block)
{
    CHECK(block < slice->head.blocks && slice->fences[block].jobs > 0);
    if (is_ahead(blocks, slice, block))
        return;
    uint64_t begin = (uint64_t)slice->fences[block].offset * BLOCK;
    uint32_t bytes = (uint32_t)(slice_block_end(slice, block) - begin);
    push(blocks, (struct block_entry){.place = place_of(blocks, slice, block),
                                      .rest = {.at = blocks->backwards ? bytes : BATCH_HEAD,
                                               .records = slice->fences[block].jobs},
                                      .added = true});
}

void far_blocks_restart(struct far_blocks *blocks, struct job_place from)
{
    blocks->from = from;
    blocks->begun = false;
    blocks->next_number = 0;
    blocks->count = 0;
}

void far_blocks_fini(struct far_blocks *blocks)
{
    mem_free(blocks->heap);
    blocks->heap = NULL;
    blocks->count = blocks->cap = 0;
}

bool far_blocks_finds(const struct far_blocks *blocks, const struct slice *slice, uint32_t block,
                      const struct job_place *taken)
{
    struct block_place place = place_of(blocks, slice, block);
    return is_ahead(blocks, slice, block) &&
           (!blocks->begun || far_blocks_precedes(blocks, taken, &place));
}
