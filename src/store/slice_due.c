/*
 * About how many far jobs are due before long: counted from the fences of the blocks that are not
 * loaded yet. A few slices are counted when somebody asks. Of many a survey is kept: every ten
 * seconds it goes through them by their numbers, some in each turn, and answers are as of its
 * beginning.
 */
#include "store/slices_parts.h"

enum {
    AT_ONCE = 16,                 /* slices that are counted when somebody asks … */
    TURN_SLICES = 16,             /* … and in one turn: 256 fences each, at most */
    SURVEY_US = 10 * 1000 * 1000, /* from the beginning of one survey to that of the next */
};

/* What is asked for (embedded_stats(), slices_stats()). */
static const int64_t spans_us[DUE_SPANS] = {0,          60000000,    300000000,
                                            3600000000, 86400000000, INT64_MAX};

static int64_t limit_of(int64_t at_us, unsigned span)
{
    int64_t limit_us;
    return __builtin_add_overflow(at_us, spans_us[span], &limit_us) ? INT64_MAX : limit_us;
}

/*
 * Adds how many jobs of the slice are due by each of these times, which rise: blocks that end by
 * then, and the one that only begins for half. O(blocks + limits).
 */
static void add_slice(const struct slice *slice, const int64_t *limits_us, unsigned limits,
                      uint64_t *jobs)
{
    uint64_t all = (uint64_t)slice->live_jobs + slice->dead_jobs;
    uint64_t from[DUE_SPANS] = {0}; /* jobs that count from this limit on */
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
        while (ended < limits && limits_us[ended] < end_us)
            ended++;
        from[begun] += fence->jobs / 2;
        if (ended < limits)
            from[ended] += fence->jobs - fence->jobs / 2;
    }
    uint64_t due = 0;
    for (unsigned i = 0; i < limits && all > 0; i++) {
        due += from[i];
        jobs[i] += due * slice->live_jobs / all;
    }
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

/* False: it has come to the end. */
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

/* There has been none. */
void slice_due_init(struct slices *slices)
{
    slices->due.at_us = slices->counting.at_us = INT64_MIN;
    slices->due_next = UINT32_MAX;
}

void slice_due_all(struct slices *slices)
{
    if (slices->count <= AT_ONCE)
        return;
    begin(slices);
    while (count_one(slices))
        continue;
}

static bool is_under_way(const struct slices *slices)
{
    return slices->due_next != UINT32_MAX;
}

/* When the next one begins. */
static int64_t next_survey_us(const struct slices *slices)
{
    int64_t at_us = slices->counting.at_us;
    return at_us > INT64_MAX - SURVEY_US ? INT64_MAX : at_us + SURVEY_US;
}

void slice_due_turn(struct slices *slices)
{
    if (slices->count <= AT_ONCE) {
        slice_due_init(slices); /* when there are many, one begins at once */
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

/* ---- who asks ---- */

uint64_t slices_far_due_until(const struct slices *slices, int64_t limit_us)
{
    const struct slice_due *due = &slices->due;
    if (slices->count <= AT_ONCE || due->at_us == INT64_MIN)
        return due_now(slices, limit_us);
    unsigned nearest = 0;
    while (nearest + 1 < DUE_SPANS && limit_of(due->at_us, nearest) < limit_us)
        nearest++;
    /* Of the span that ends behind the limit and the one before it. */
    if (nearest > 0 &&
        limit_us - limit_of(due->at_us, nearest - 1) < limit_of(due->at_us, nearest) - limit_us)
        nearest--;
    return due->jobs[nearest];
}
