#include "base/mem.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static atomic_size_t used; /* the one global: the heap is global too */

static void *count(void *at, size_t asked)
{
    if (!at) {
        (void)fprintf(stderr, "laterd: out of memory (asked for %zu bytes)\n", asked);
        abort();
    }
    atomic_fetch_add_explicit(&used, malloc_usable_size(at), memory_order_relaxed);
    return at;
}

void *mem_alloc(size_t size_bytes)
{
    return count(malloc(size_bytes ? size_bytes : 1), size_bytes);
}

void *mem_zalloc(size_t size_bytes)
{
    return count(calloc(1, size_bytes ? size_bytes : 1), size_bytes);
}

void *mem_realloc(void *old, size_t size_bytes)
{
    if (old)
        atomic_fetch_sub_explicit(&used, malloc_usable_size(old), memory_order_relaxed);
    return count(realloc(old, size_bytes ? size_bytes : 1), size_bytes);
}

void *mem_aligned(size_t align, size_t size_bytes)
{
    return count(aligned_alloc(align, (size_bytes + align - 1) / align * align), size_bytes);
}

void mem_free(void *at)
{
    if (!at)
        return;
    atomic_fetch_sub_explicit(&used, malloc_usable_size(at), memory_order_relaxed);
    free(at);
}

size_t mem_used(void)
{
    return atomic_load_explicit(&used, memory_order_relaxed);
}
