/*
 * Counts far jobs that are due by some time, from the fences of the blocks that are not loaded yet
 * and from the bits of dead records. So counts are exact except for the blocks into which a time
 * falls. A command that counts (slices_far_due()) visits the slices in the order of their numbers,
 * some in each turn. Statistics are answered at once: up to AT_ONCE slices are counted for each
 * answer. With more slices there is a survey: every ten seconds it visits all slices, some in each
 * turn, and answers describe the time when it began.
 */
#include "base/check.h"
#include "store/far.h"
#include "store/slices/slices_parts.h"

enum {
    AT_ONCE = 16,     /* slices that are counted at once for statistics … */
    TURN_SLICES = 16, /* … and slices that a survey visits in a turn: up to 256 fences each */
    SLICE_BYTES = 64 * 1024,      /* for progress: a slice in the first survey, its `dead` */
    SURVEY_US = 10 * 1000 * 1000, /* from the beginning of one survey to that of the next */
};

/* The spans that statistics show (embedded_stats(), slices_stats()). */
static const int64_t spans_us[DUE_SPANS] = {0,          60000000,    300000000,
                                            3600000000, 86400000000, INT64_MAX};

static int64_t limit_of(int64_t at_us, unsigned span)
{
    int64_t limit_us;
    return __builtin_add_overflow(at_us, spans_us[span], &limit_us) ? INT64_MAX : limit_us;
}

/* A block's jobs that are due by a limit within it, if their due times are spread evenly. */
static uint32_t part_of(uint32_t jobs, int64_t begin_us, int64_t end_us, int64_t limit_us)
{
    uint64_t span = (uint64_t)end_us - (uint64_t)begin_us;
    uint64_t part = (uint64_t)limit_us - (uint64_t)begin_us;
    return (uint32_t)(jobs * (part / (span / 1024 + 1)) / 1024);
}

/*
 * As add_slice(), block by block, of blocks that are not loaded. from[i]: jobs that count for limit
 * i and all later ones. If a limit falls into a block, a part of its jobs is added to `jobs` for
 * that limit.
 */
static void add_blocks(const struct slice *slice, const int64_t *limits_us, unsigned limits,
                       uint64_t *jobs)
{
    uint64_t from[FAR_DUE_TIMES_MAX] = {0}, due = 0;
    unsigned begun = 0, ended = 0;
    for (uint32_t i = slice->unread_count ? 0 : slice->loaded; i < slice->head.blocks; i++) {
        const struct slice_fence *fence = &slice->fences[i];
        int64_t end_us = i + 1 == slice->head.blocks ? slice->head.due_last_us : fence[1].due_us;
        while (begun < limits && limits_us[begun] < fence->due_us)
            begun++;
        if (begun == limits || fence->offset >= slice->named)
            break;
        if (slice_is_loaded(slice, i))
            continue;
        ended = ended < begun ? begun : ended;
        while (ended < limits && limits_us[ended] < end_us)
            ended++;
        uint32_t live = slice_block_live(slice, i);
        for (unsigned limit = begun; limit < ended; limit++)
            jobs[limit] += part_of(live, fence->due_us, end_us, limits_us[limit]);
        if (ended < limits)
            from[ended] += live;
    }
    for (unsigned i = 0; i < limits; i++) {
        due += from[i];
        jobs[i] += due;
    }
}

/*
 * Adds how many delayed jobs of the slice are due by each of these times, which are in ascending
 * order. O(limits) if none of them is between the slice's first and last due time and none of its
 * blocks is loaded; else O(blocks + limits + words of `dead`).
 */
static void add_slice(const struct slice *slice, const int64_t *limits_us, unsigned limits,
                      uint64_t *jobs)
{
    bool whole = slice->loaded == 0 && slice->unread_count == 0;
    unsigned first = 0, end = limits;
    CHECK(limits <= FAR_DUE_TIMES_MAX);
    if (slice->head.state != JOB_DELAYED)
        return;
    while (first < limits && limits_us[first] < slice->head.due_first_us)
        first++;
    while (whole && end > first && limits_us[end - 1] >= slice->head.due_last_us)
        jobs[--end] += slice->live_jobs;
    if (first < end)
        add_blocks(slice, limits_us + first, end - first, jobs + first);
}

static uint64_t due_now(const struct slices *slices, int64_t limit_us)
{
    uint64_t due = 0;
    for (const struct list *link = slices->all.next; link != &slices->all; link = link->next)
        add_slice(LIST_ENTRY(link, const struct slice, link), &limit_us, 1, &due);
    return due;
}

/* ---- the survey ---- */

static void begin(struct slices *slices)
{
    slices->counting = (struct slice_due){.at_us = slices->store->now_us};
    slices->due_next = 0;
}

/* False: the survey is complete. */
static bool count_one(struct slices *slices)
{
    const struct segment *segment = segments_slice_from(slices->segments, slices->due_next);
    int64_t limits_us[DUE_SPANS];
    if (!segment) {
        slices->due = slices->counting;
        slices->due_next = UINT32_MAX;
        return false;
    }
    for (unsigned i = 0; i < DUE_SPANS; i++)
        limits_us[i] = limit_of(slices->counting.at_us, i);
    add_slice(segment->slice, limits_us, DUE_SPANS, slices->counting.jobs);
    slices->due_next = segment->number + 1;
    slices->looks++;
    return true;
}

/* No survey was made yet. */
void slice_due_init(struct slices *slices)
{
    slices->due.at_us = slices->counting.at_us = INT64_MIN;
    slices->due_next = UINT32_MAX;
}

enum err slice_due_all(struct slices *slices)
{
    enum err err = OK;
    if (slices->count <= AT_ONCE)
        return OK;
    begin(slices);
    while (!err && count_one(slices))
        err = store_opening_worked(slices->store, SLICE_BYTES);
    return err;
}

static bool is_under_way(const struct slices *slices)
{
    return slices->due_next != UINT32_MAX;
}

/* When the next survey begins. */
static int64_t next_survey_us(const struct slices *slices)
{
    int64_t at_us = slices->counting.at_us;
    return at_us > INT64_MAX - SURVEY_US ? INT64_MAX : at_us + SURVEY_US;
}

void slice_due_turn(struct slices *slices)
{
    if (slices->count <= AT_ONCE) {
        slice_due_init(slices); /* so one begins at once when there are more slices */
        return;
    }
    if (!is_under_way(slices) && slices->store->now_us < next_survey_us(slices))
        return;
    if (!is_under_way(slices))
        begin(slices);
    for (unsigned i = 0; i < TURN_SLICES && count_one(slices); i++)
        continue;
}

int64_t slice_due_next_us(const struct slices *slices)
{
    int64_t now_us = slices->store->now_us, next_us = next_survey_us(slices);
    if (slices->count <= AT_ONCE)
        return INT64_MAX;
    return is_under_way(slices) || next_us < now_us ? now_us : next_us;
}

/* ---- answers ---- */

uint64_t slices_far_due_until(const struct slices *slices, int64_t limit_us)
{
    const struct slice_due *due = &slices->due;
    if (slices->count <= AT_ONCE || due->at_us == INT64_MIN)
        return due_now(slices, limit_us);
    unsigned nearest = 0;
    while (nearest + 1 < DUE_SPANS && limit_of(due->at_us, nearest) < limit_us)
        nearest++;
    /* `nearest` ends at or behind the limit: takes the span before it if that is nearer. */
    if (nearest > 0 &&
        limit_us - limit_of(due->at_us, nearest - 1) < limit_of(due->at_us, nearest) - limit_us)
        nearest--;
    return due->jobs[nearest];
}

bool slices_far_due(struct slices *slices, struct far_due *due, uint32_t most)
{
    for (uint32_t i = 0; i < most; i++) {
        const struct segment *segment = segments_slice_from(slices->segments, due->next_slice);
        if (!segment)
            return false;
        add_slice(segment->slice, due->until_us, due->count, due->jobs);
        slices->looks++;
        if (segment->number == UINT32_MAX)
            return false;
        due->next_slice = segment->number + 1;
    }
    return true;
}
