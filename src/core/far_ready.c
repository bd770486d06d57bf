/*
 * Invariant: no entry comes before its parent.
 */
#include "core/far_ready.h"

#include "base/check.h"
#include "base/mem.h"

enum {
    FIRST_CAP = 16,
    DOUBLE_MAX = 1024, /* larger arrays grow by one part */
    PARTS = 16,        /* a part is a sixteenth of the array; it shrinks when two parts are empty */
    CUT_MAX = 16 * 1024, /* entries whose memory is freed at a time: 448 KiB */
};

_Static_assert(sizeof(struct far_ready_entry) == 28, "docs/memory.md says what an entry takes");

void far_ready_fini(struct far_ready *heap)
{
    mem_free(heap->entries);
    *heap = (struct far_ready){0};
}

bool far_ready_precedes(const struct far_ready_entry *a, const struct far_ready_entry *b)
{
    if (a->priority != b->priority)
        return a->priority < b->priority;
    return a->rank_us != b->rank_us ? a->rank_us < b->rank_us : a->seq < b->seq;
}

bool far_ready_before(const struct far_ready_entry *entry, const struct job *job)
{
    struct far_ready_entry other = {
        .priority = job->priority, .rank_us = job_rank_us(job), .seq = job->seq};
    return far_ready_precedes(entry, &other);
}

/* Sifts the entry up from the free `place`. */
static void sift_up(struct far_ready *heap, uint32_t place, struct far_ready_entry entry)
{
    struct far_ready_entry *at = heap->entries;
    for (; place > 0 && far_ready_precedes(&entry, &at[(place - 1) / 4]); place = (place - 1) / 4)
        at[place] = at[(place - 1) / 4];
    at[place] = entry;
}

/* The first child of `place` in order; UINT32_MAX: it has none. */
static uint32_t first_child(const struct far_ready *heap, uint32_t place)
{
    uint64_t first = (uint64_t)place * 4 + 1, best = first;
    if (first >= heap->count)
        return UINT32_MAX;
    for (uint64_t child = first + 1; child < first + 4 && child < heap->count; child++)
        if (far_ready_precedes(&heap->entries[child], &heap->entries[best]))
            best = child;
    return (uint32_t)best;
}

/* Sifts the entry down from the free `place`. */
static void sift_down(struct far_ready *heap, uint32_t place, struct far_ready_entry entry)
{
    struct far_ready_entry *at = heap->entries;
    uint32_t child;
    while ((child = first_child(heap, place)) != UINT32_MAX &&
           far_ready_precedes(&at[child], &entry)) {
        at[place] = at[child];
        place = child;
    }
    at[place] = entry;
}

void far_ready_add(struct far_ready *heap, const struct far_ready_entry *entry)
{
    if (heap->count == heap->cap) {
        uint32_t more = heap->cap < DOUBLE_MAX ? heap->cap : heap->cap / PARTS;
        heap->cap = heap->cap ? heap->cap + more : FIRST_CAP;
        heap->entries = mem_realloc(heap->entries, heap->cap * sizeof(*heap->entries));
    }
    sift_up(heap, heap->count++, *entry);
}

void far_ready_begin(struct far_ready *heap, uint32_t entries)
{
    CHECK(heap->cap == 0 && entries > 0);
    heap->cap = entries;
    heap->entries = mem_alloc(entries * sizeof(*heap->entries));
}

bool far_ready_append(struct far_ready *heap, const struct far_ready_entry *entry)
{
    uint32_t place = heap->count;
    CHECK(place < heap->cap);
    if (place > 0 && far_ready_precedes(entry, &heap->entries[(place - 1) / 4]))
        return false;
    heap->entries[heap->count++] = *entry;
    return true;
}

/* Frees memory of a large array, CUT_MAX entries at a time. */
static void cut(struct far_ready *heap)
{
    uint32_t surplus = heap->cap / PARTS;
    heap->cap -= surplus < CUT_MAX ? surplus : CUT_MAX;
    heap->entries = mem_realloc(heap->entries, heap->cap * sizeof(*heap->entries));
}

void far_ready_remove(struct far_ready *heap, uint32_t place)
{
    CHECK(place < heap->count);
    struct far_ready_entry last = heap->entries[--heap->count];
    if (heap->count == 0) {
        far_ready_fini(heap);
        return;
    }
    if (place < heap->count) {
        bool up = place > 0 && far_ready_precedes(&last, &heap->entries[(place - 1) / 4]);
        if (up)
            sift_up(heap, place, last);
        else
            sift_down(heap, place, last);
    }
    if (heap->cap > DOUBLE_MAX && heap->count < heap->cap - heap->cap / PARTS * 2)
        cut(heap);
}

/* Places of the heap whose parents were taken already: a binary heap in the order of the
   entries. */
struct open_places {
    const struct far_ready_entry *entries;
    uint32_t count;
    uint32_t at[3 * FAR_READY_NEXT_MAX + 1];
};

static bool open_before(const struct open_places *open, uint32_t a, uint32_t b)
{
    return far_ready_precedes(&open->entries[a], &open->entries[b]);
}

static void open_add(struct open_places *open, uint32_t place)
{
    uint32_t i = open->count++;
    for (; i > 0 && open_before(open, place, open->at[(i - 1) / 2]); i = (i - 1) / 2)
        open->at[i] = open->at[(i - 1) / 2];
    open->at[i] = place;
}

static uint32_t open_take(struct open_places *open)
{
    uint32_t first = open->at[0], last = open->at[--open->count], i = 0;
    for (uint32_t child; (child = 2 * i + 1) < open->count; i = child) {
        if (child + 1 < open->count && open_before(open, open->at[child + 1], open->at[child]))
            child++;
        if (!open_before(open, open->at[child], last))
            break;
        open->at[i] = open->at[child];
    }
    open->at[i] = last;
    return first;
}

uint32_t far_ready_next(const struct far_ready *heap, uint32_t *out_places, uint32_t max)
{
    struct open_places open;
    uint32_t taken = 0;
    CHECK(max <= FAR_READY_NEXT_MAX);
    open.entries = heap->entries;
    open.count = 0;
    if (heap->count > 0)
        open_add(&open, 0);
    while (taken < max && open.count > 0) {
        uint32_t place = open_take(&open);
        out_places[taken++] = place;
        uint64_t child = (uint64_t)place * 4 + 1;
        for (uint64_t end = child + 4; child < end && child < heap->count; child++)
            open_add(&open, (uint32_t)child);
    }
    return taken;
}

void far_ready_valid(const struct far_ready *heap)
{
    CHECK(heap->count <= heap->cap);
    for (uint32_t i = 1; i < heap->count; i++)
        CHECK(!far_ready_precedes(&heap->entries[i], &heap->entries[(i - 1) / 4]));
}
