/*
 * A 4-ary heap: half as deep as a binary one, and four children of 16 bytes are one cache line.
 * Invariant: no entry comes before its parent; entries[job->prev] is the job's own.
 */
#include "core/ready_heap.h"

#include "base/check.h"
#include "base/mem.h"

enum {
    FIRST_CAP = 16,
    KEEP_CAP = 64,     /* a smaller array is never shrunk */
    DOUBLE_MAX = 1024, /* larger arrays grow by one part; large ones are remapped, not copied */
    PARTS = 16,        /* a part is a sixteenth of the array; it shrinks when two parts are empty */
    CUT_MAX = 32 * 1024, /* entries whose memory is freed at a time: 512 KiB */
};

static struct job *job_at(const struct pool *jobs, uint32_t number)
{
    return pool_at(jobs, number);
}

void ready_heap_fini(struct ready_heap *heap)
{
    mem_free(heap->entries);
    *heap = (struct ready_heap){0};
}

bool ready_heap_before(const struct job *a, const struct job *b)
{
    if (a->priority != b->priority)
        return a->priority < b->priority;
    int64_t a_rank_us = job_rank_us(a), b_rank_us = job_rank_us(b);
    return a_rank_us != b_rank_us ? a_rank_us < b_rank_us : a->seq < b->seq;
}

static bool before(const struct pool *jobs, const struct ready_heap_entry *a,
                   const struct ready_heap_entry *b)
{
    if (a->priority != b->priority)
        return a->priority < b->priority;
    if (a->rank_us != b->rank_us)
        return a->rank_us < b->rank_us;
    return job_at(jobs, a->job)->seq < job_at(jobs, b->job)->seq;
}

static void put(struct ready_heap *heap, const struct pool *jobs, uint32_t place,
                struct ready_heap_entry entry)
{
    heap->entries[place] = entry;
    job_at(jobs, entry.job)->prev = place;
}

/* Sifts the entry up from the free `place`. */
static void sift_up(struct ready_heap *heap, const struct pool *jobs, uint32_t place,
                    struct ready_heap_entry entry)
{
    while (place > 0) {
        uint32_t parent = (place - 1) / 4;
        if (!before(jobs, &entry, &heap->entries[parent]))
            break;
        put(heap, jobs, place, heap->entries[parent]);
        place = parent;
    }
    put(heap, jobs, place, entry);
}

/*
 * Sifts the entry down from the free `place`: the place goes to the bottom first, without a look at
 * the entry, which comes from there and most often stays near it. Three comparisons a level, not
 * four (I. Wegener, "BOTTOM-UP-HEAPSORT", 1993).
 */
static void sift_down(struct ready_heap *heap, const struct pool *jobs, uint32_t place,
                      struct ready_heap_entry entry)
{
    for (;;) {
        uint64_t first = (uint64_t)place * 4 + 1;
        if (first >= heap->count)
            break;
        uint32_t best = (uint32_t)first;
        uint32_t end = heap->count - best < 4 ? heap->count : best + 4;
        for (uint32_t child = best + 1; child < end; child++) {
            if (before(jobs, &heap->entries[child], &heap->entries[best]))
                best = child;
        }
        put(heap, jobs, place, heap->entries[best]);
        place = best;
    }
    sift_up(heap, jobs, place, entry);
}

void ready_heap_add(struct ready_heap *heap, const struct pool *jobs, uint32_t number)
{
    const struct job *job = job_at(jobs, number);
    if (heap->count == heap->cap) {
        heap->cap += heap->cap >= DOUBLE_MAX ? heap->cap / PARTS
                     : heap->cap             ? heap->cap
                                             : FIRST_CAP;
        heap->entries = mem_realloc(heap->entries, heap->cap * sizeof(*heap->entries));
    }
    heap->count++;
    sift_up(heap, jobs, heap->count - 1,
            (struct ready_heap_entry){
                .priority = job->priority, .job = number, .rank_us = job_rank_us(job)});
}

/* Frees memory after a burst. From large arrays early, because the jobs that left are reserved now,
   and reserved jobs need memory, too. */
static __attribute__((noinline)) void cut(struct ready_heap *heap)
{
    uint32_t surplus = heap->cap / (heap->cap > DOUBLE_MAX ? PARTS : 2);
    heap->cap -= surplus < CUT_MAX ? surplus : CUT_MAX;
    heap->entries = mem_realloc(heap->entries, heap->cap * sizeof(*heap->entries));
}

void ready_heap_remove(struct ready_heap *heap, const struct pool *jobs, uint32_t number)
{
    uint32_t place = job_at(jobs, number)->prev;
    CHECK(place < heap->count && heap->entries[place].job == number);
    heap->count--;
    if (place < heap->count) {
        struct ready_heap_entry last = heap->entries[heap->count];
        if (place > 0 && before(jobs, &last, &heap->entries[(place - 1) / 4]))
            sift_up(heap, jobs, place, last);
        else
            sift_down(heap, jobs, place, last);
    }
    uint32_t enough = heap->cap > DOUBLE_MAX ? heap->cap - heap->cap / PARTS * 2 : heap->cap / 4;
    if (heap->cap > KEEP_CAP && heap->count < enough)
        cut(heap);
}

uint32_t ready_heap_first(const struct ready_heap *heap)
{
    return heap->count ? heap->entries[0].job : POOL_NONE;
}

uint32_t ready_heap_next(const struct ready_heap *heap, const struct pool *jobs,
                         uint32_t *out_numbers, uint32_t max)
{
    uint32_t open[3 * READY_HEAP_NEXT_MAX + 1]; /* places whose parents were taken already */
    uint32_t open_count = heap->count > 0, taken = 0;
    CHECK(max <= READY_HEAP_NEXT_MAX);
    open[0] = 0;
    for (; taken < max && open_count > 0; taken++) {
        uint32_t best = 0;
        for (uint32_t i = 1; i < open_count; i++)
            if (before(jobs, &heap->entries[open[i]], &heap->entries[open[best]]))
                best = i;
        uint32_t place = open[best];
        out_numbers[taken] = heap->entries[place].job;
        open[best] = open[--open_count];
        for (uint32_t child = 4 * place + 1; child <= 4 * place + 4 && child < heap->count; child++)
            open[open_count++] = child;
    }
    return taken;
}

void ready_heap_valid(const struct ready_heap *heap, const struct pool *jobs)
{
    CHECK(heap->count <= heap->cap);
    for (uint32_t i = 0; i < heap->count; i++) {
        const struct ready_heap_entry *entry = &heap->entries[i];
        const struct job *job = job_at(jobs, entry->job);
        CHECK(job->prev == i);
        CHECK(job->priority == entry->priority && job_rank_us(job) == entry->rank_us);
        CHECK(i == 0 || !before(jobs, entry, &heap->entries[(i - 1) / 4]));
    }
}
