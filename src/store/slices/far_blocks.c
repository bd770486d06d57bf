#include "store/slices/far_blocks.h"

#include "base/check.h"
#include "store/slices/slices_parts.h"

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

/* No job of the block is behind this one: that which the next block begins with, or the last. */
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

/* Where a block of no slice would stand that begins with such a job, in front of all others. */
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

/* ---- blocks that begin at one instant ---- */

/* Does the next block, or the one before it, begin at the same instant? Of the last block: or is
   its last job due then? */
static bool is_tied(const struct slice *slice, uint32_t block)
{
    int64_t at_us = first_of(slice, block).due_us;
    return end_of(slice, block).due_us == at_us ||
           (block > 0 && first_of(slice, block - 1).due_us == at_us);
}

/* Of such blocks the place is not given out before it is known for good. */
static bool needs_order(const struct slice *slice, uint32_t block)
{
    bool last = block + 1 == slice->head.blocks;
    return !slice->order_known && (is_tied(slice, block) || (!last && is_tied(slice, block + 1)));
}

/* Places of others may have been given out already: they stay as they are. */
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

/* Does it come before what is wanted? Where its number is not known: is it due before that? */
static bool is_passed(const struct far_blocks *blocks, struct job_place job)
{
    const struct job_place *from = &blocks->from;
    bool same = job.due_us == from->due_us && job.seq;
    if (blocks->backwards)
        return job.due_us > from->due_us || (same && job.seq >= from->seq);
    return job.due_us < from->due_us || (same && job.seq <= from->seq);
}

/* It comes before what is wanted, or was given out. So do all before it, in the order. */
static bool is_over(const struct far_blocks *blocks, const struct slice *slice, uint32_t block)
{
    struct block_place place = place_of(blocks, slice, block);
    bool out = blocks->backwards ? slice->fences[block].offset >= slice->named ||
                                       is_passed(blocks, first_of(slice, block))
                                 : is_passed(blocks, end_of(slice, block));
    return out || (blocks->begun && !is_behind(&place, &blocks->last));
}

/* The n-th block of the slice in the order. */
static uint32_t nth(const struct far_blocks *blocks, const struct slice *slice, uint32_t n)
{
    return blocks->backwards ? slice->head.blocks - 1 - n : n;
}

/* How many blocks are over, at the beginning of the order. */
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

/* The first block from the n-th on that is wanted: those that are loaded come first in a slice, but
   for some that could not be read. */
static uint32_t first_wanted(const struct far_blocks *blocks, const struct slice *slice, uint32_t n)
{
    uint32_t count = slice->head.blocks, loaded = slice->loaded;
    bool behind = wants_loaded(blocks, slice) == blocks->backwards; /* the others come first */
    uint32_t from = blocks->backwards ? count - loaded : loaded;
    if (behind && slice->unread_count == 0 && n < from)
        n = from;
    while (n < count && !far_blocks_wants(blocks, slice, nth(blocks, slice, n)))
        n += slice->unread_count > 0 ? 1 : count;
    return n;
}

/* The slice's first block that is not over, and is wanted, and in use. False: there is none. */
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

/* ---- those that come first ---- */

static void keep(struct far_blocks *blocks, const struct block_place *place)
{
    uint32_t low = 0, high = blocks->kept_count;
    if (blocks->cut && !is_behind(&blocks->bound, place))
        return; /* like all behind it it is found again */
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (is_behind(place, &blocks->kept[middle]))
            low = middle + 1;
        else
            high = middle;
    }
    bool full = blocks->kept_count == FAR_BLOCKS_KEPT_MAX;
    if (full) {
        blocks->cut = true;
        blocks->bound = low < blocks->kept_count ? blocks->kept[--blocks->kept_count] : *place;
        if (low == FAR_BLOCKS_KEPT_MAX)
            return;
    }
    memmove(&blocks->kept[low + 1], &blocks->kept[low],
            (blocks->kept_count - low) * sizeof(*blocks->kept));
    CHECK(low <= blocks->kept_count && blocks->kept_count < FAR_BLOCKS_KEPT_MAX);
    blocks->kept[low] = *place;
    blocks->kept_count++;
}

/* Jobs of the topic that are wanted? */
static bool may_have(const struct far_blocks *blocks, const struct slice *slice)
{
    bool possible = slice->head.state == blocks->state || wants_loaded(blocks, slice);
    return possible && slice_may_have(slice, blocks->topic);
}

static void look_at(struct far_blocks *blocks, const struct slice *slice)
{
    struct block_place place;
    if (may_have(blocks, slice) && first_block(blocks, slice, &place))
        keep(blocks, &place);
}

/*
 * Looks at slices that were not looked at. False: not at all of them. The one that is being made,
 * the last, is to be looked at each time: parts of it come.
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

/* The first of those that are kept, as it is now: it may have been read, or be gone. False: none.
 */
static bool first_kept(struct far_blocks *blocks, struct block_place *out_place)
{
    while (blocks->kept_count > 0) {
        struct block_place kept = blocks->kept[0];
        const struct slice *slice = slice_with(blocks, kept.number);
        bool there = slice && first_block(blocks, slice, out_place);
        if (there && !is_behind(out_place, &kept))
            return true;
        memmove(&blocks->kept[0], &blocks->kept[1], --blocks->kept_count * sizeof(*blocks->kept));
        if (there)
            keep(blocks, out_place); /* the slice's next one, further back */
    }
    return false;
}

/* Of the slice that is being made. */
static bool first_in_making(const struct far_blocks *blocks, struct block_place *out_place)
{
    const struct segment *segment =
        segments_slice_from(blocks->slices->segments, blocks->next_number);
    return segment && may_have(blocks, segment->slice) &&
           first_block(blocks, segment->slice, out_place);
}

static bool first_of_all(struct far_blocks *blocks, struct block_place *out_place)
{
    struct block_place place;
    bool found = first_kept(blocks, out_place);
    if (!first_in_making(blocks, &place) || (found && is_behind(&place, out_place)))
        return found;
    *out_place = place;
    return true;
}

/* Those that were left out come next: all slices are looked at again. */
static void begin_again(struct far_blocks *blocks)
{
    blocks->next_number = 0;
    blocks->kept_count = 0;
    blocks->cut = false;
}

enum far_blocks_verdict far_blocks_next(struct far_blocks *blocks, bool bounded,
                                        struct job_place until, uint32_t *looks,
                                        struct slice **out_slice, uint32_t *out_block)
{
    while (look_at_more(blocks, looks)) {
        struct block_place place;
        bool found = first_of_all(blocks, &place);
        bool left_out = blocks->cut && (!found || !is_behind(&blocks->bound, &place));
        if (!found && !left_out)
            return BLOCKS_NONE;
        blocks->next = left_out ? blocks->bound : place;
        if (bounded && far_blocks_precedes(blocks, &until, &blocks->next))
            return BLOCKS_ENOUGH;
        if (left_out) {
            begin_again(blocks);
            continue;
        }
        *out_slice = slice_with(blocks, place.number);
        CHECK(*out_slice);
        if (needs_order(*out_slice, block_of(blocks, &place)))
            return BLOCKS_ORDER;
        blocks->begun = true;
        blocks->last = place;
        *out_block = block_of(blocks, &place);
        CHECK(*out_slice && *out_block < (*out_slice)->head.blocks);
        return BLOCKS_NEXT;
    }
    return BLOCKS_LATER;
}

bool far_blocks_finds(const struct far_blocks *blocks, const struct slice *slice, uint32_t block)
{
    struct block_place place = place_of(blocks, slice, block);
    return !blocks->begun || is_behind(&place, &blocks->last);
}
