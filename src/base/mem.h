/*
 * All heap memory comes from here. Any thread. Never returns NULL: when the system has no memory
 * left, the process writes that to standard error and aborts, which loses nothing that was
 * acknowledged. The operator's limit (limits.memory_bytes) is checked against mem_used() long
 * before that.
 */
#ifndef LATERD_BASE_MEM_H
#define LATERD_BASE_MEM_H

#include <stddef.h>

void *mem_alloc(size_t size_bytes); /* not zeroed, aligned for any type */
void *mem_zalloc(size_t size_bytes);
void *mem_realloc(void *old, size_t size_bytes);    /* old may be NULL */
void *mem_aligned(size_t align, size_t size_bytes); /* align: power of two; free by mem_free */
void mem_free(void *at);                            /* NULL does nothing */

/*
 * Whole pages, zeroed, which are returned to the system when they are freed. Each call takes some
 * microseconds, plus time for each page that was used.
 */
void *mem_pages(size_t size_bytes);
void mem_pages_free(void *at, size_t size_bytes); /* the size given to mem_pages(). NULL: nothing */
/* Other pages of `new_bytes` with the first bytes of `old`, which are freed; what is added is
   zeroed. Pages are not copied, they get another address: only added ones have to be faulted in. */
void *mem_pages_resize(void *old, size_t old_bytes, size_t new_bytes);

/* Bytes that are allocated now, by all threads. One atomic load. */
size_t mem_used(void);

#endif
