#include "base/mem.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* The leak checker of sanitizers looks for pointers in the heap alone. */
#if defined(__SANITIZE_ADDRESS__)
#define IN_HEAP 1
#elif defined(__has_feature)
#define IN_HEAP __has_feature(address_sanitizer)
#else
#define IN_HEAP 0
#endif

enum { PAGE_BYTES = 4096 };

static atomic_size_t used; /* the one global: the heap is global too */

static _Noreturn void die(size_t asked)
{
    (void)fprintf(stderr, "laterd: out of memory (asked for %zu bytes)\n", asked);
    abort();
}

static void *count(void *at, size_t asked)
{
    if (!at)
        die(asked);
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

static size_t whole_pages(size_t size_bytes)
{
    return (size_bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

static void *pages_copied(void *old, size_t old_bytes, size_t new_bytes)
{
    void *at = mem_pages(new_bytes);
    memcpy(at, old, old_bytes < new_bytes ? old_bytes : new_bytes);
    mem_pages_free(old, old_bytes);
    return at;
}

#if IN_HEAP

void *mem_pages_resize(void *old, size_t old_bytes, size_t new_bytes)
{
    return pages_copied(old, old_bytes, new_bytes);
}

void *mem_pages(size_t size_bytes)
{
    return mem_zalloc(whole_pages(size_bytes));
}

void mem_pages_free(void *at, size_t size_bytes)
{
    (void)size_bytes;
    mem_free(at);
}

#else

void *mem_pages(size_t size_bytes)
{
    size_t size = whole_pages(size_bytes);
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        die(size);
    atomic_fetch_add_explicit(&used, size, memory_order_relaxed);
    return at;
}

void mem_pages_free(void *at, size_t size_bytes)
{
    size_t size = whole_pages(size_bytes);
    if (!at)
        return;
    atomic_fetch_sub_explicit(&used, size, memory_order_relaxed);
    if (munmap(at, size) != 0) /* it would split a mapping, and the process has too many mappings */
        (void)madvise(at, size, MADV_DONTNEED); /* frees the memory; only the addresses are lost */
}

void *mem_pages_resize(void *old, size_t old_bytes, size_t new_bytes)
{
    size_t from = whole_pages(old_bytes), to = whole_pages(new_bytes);
    void *at = mremap(old, from, to, MREMAP_MAYMOVE);
    if (at == MAP_FAILED) /* e.g. the process has too many mappings */
        return pages_copied(old, old_bytes, new_bytes);
    atomic_fetch_add_explicit(&used, to - from, memory_order_relaxed); /* modulo 2^64 */
    return at;
}

#endif

size_t mem_used(void)
{
    return atomic_load_explicit(&used, memory_order_relaxed);
}
