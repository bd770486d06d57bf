/*
 * malloc() and free() are called directly: what is held here is free memory, and must not count as
 * used (mem_used()).
 */
#include "os/heap_return.h"

#include <malloc.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE_BYTES = 4096 };

void heap_return_begin(void)
{
    (void)mallopt(M_MMAP_THRESHOLD, 128 * 1024); /* another libc may ignore both */
    (void)mallopt(M_TRIM_THRESHOLD, -1);
}

/* False: no more large chunks are free. */
static bool drop_one(struct heap_return *heap)
{
    uintptr_t heap_end = (uintptr_t)sbrk(0);
    char *chunk = malloc(HEAP_RETURN_BYTES);
    if (!chunk || (uintptr_t)chunk + HEAP_RETURN_BYTES > heap_end) {
        free(chunk); /* a mapping of its own, or, where no more are allowed, the heap has grown */
        return false;
    }
    uintptr_t first =
        ((uintptr_t)chunk + sizeof(void *) + PAGE_BYTES - 1) & ~(uintptr_t)(PAGE_BYTES - 1);
    uintptr_t end = ((uintptr_t)chunk + HEAP_RETURN_BYTES) & ~(uintptr_t)(PAGE_BYTES - 1);
    *(void **)(void *)chunk = heap->chunks;
    heap->chunks = chunk;
    heap->dropped++;
    (void)madvise((void *)first, end - first, MADV_DONTNEED); /* else it stays */
    return true;
}

/* False: there are no more. */
static bool free_some(struct heap_return *heap)
{
    for (unsigned i = 0; i < HEAP_RETURN_FREES && heap->chunks; i++) {
        void *chunk = heap->chunks;
        heap->chunks = *(void **)chunk;
        free(chunk);
    }
    return heap->chunks != NULL;
}

static int64_t look(struct heap_return *heap, int64_t now_us, size_t used)
{
    if (used > heap->used_max)
        heap->used_max = used;
    if (heap->used_max - used < HEAP_RETURN_LESS) {
        heap->since_us = 0;
        return INT64_MAX;
    }
    if (!heap->since_us)
        heap->since_us = now_us;
    if (now_us - heap->since_us < HEAP_RETURN_AFTER_US)
        return heap->since_us + HEAP_RETURN_AFTER_US;
    heap->state = HEAP_DROPPING;
    heap->used_max = used;
    heap->since_us = 0;
    return now_us;
}

int64_t heap_return_turn(struct heap_return *heap, int64_t now_us, size_t used)
{
    switch (heap->state) {
    case HEAP_IDLE: return look(heap, now_us, used);
    case HEAP_DROPPING:
        if (!drop_one(heap))
            heap->state = HEAP_FREEING;
        return now_us;
    case HEAP_FREEING:
        if (!free_some(heap))
            heap->state = HEAP_IDLE;
        return heap->state == HEAP_IDLE ? INT64_MAX : now_us;
    }
    return INT64_MAX; /* there is no other state */
}
