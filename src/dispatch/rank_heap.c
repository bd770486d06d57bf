#include "dispatch/rank_heap.h"

#include <stdbool.h>

#include "base/check.h"
#include "base/mem.h"

enum { CAP_MIN = 64 };

static bool before(struct ranked_job a, struct ranked_job b)
{
    return a.rank_us != b.rank_us ? a.rank_us < b.rank_us : a.seq < b.seq;
}

void rank_heap_fini(struct rank_heap *heap)
{
    mem_free(heap->at);
    *heap = (struct rank_heap){0};
}

void rank_heap_add(struct rank_heap *heap, struct ranked_job job)
{
    if (heap->count == heap->cap) {
        heap->cap = heap->cap ? 2 * heap->cap : CAP_MIN;
        heap->at = mem_realloc(heap->at, heap->cap * sizeof(*heap->at));
    }
    size_t at = heap->count++;
    for (size_t parent; at > 0 && before(job, heap->at[parent = (at - 1) / 2]); at = parent)
        heap->at[at] = heap->at[parent];
    heap->at[at] = job;
}

void rank_heap_drop(struct rank_heap *heap)
{
    CHECK(heap->count > 0);
    struct ranked_job last = heap->at[--heap->count];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < heap->count; at = child) {
        if (child + 1 < heap->count && before(heap->at[child + 1], heap->at[child]))
            child++;
        if (!before(heap->at[child], last))
            break;
        heap->at[at] = heap->at[child];
    }
    heap->at[at] = last;
}
