/*
 * Returns free memory of the C library's heap to the system, a piece in a turn.
 *
 * free() would do it by itself, with all that is free at the heap's end at once, which takes
 * milliseconds; heap_return_begin() switches that off. What is done instead: a chunk of free memory
 * is allocated, its pages are dropped, and it is kept until no chunk of that size is free any more;
 * then all of them are freed again. So they are free memory as before, which takes no pages.
 *
 *     IDLE ──for a second far less is used than before──▶ DROPPING ──no more large chunks──┐
 *       ▲                                                                                  ▼
 *       └───────────────────────all chunks are free again─────────────────────────────── FREEING
 *
 * Blocks of 128 KiB and more are mapped, and go back to the system when they are freed; pieces
 * smaller than HEAP_RETURN_BYTES between others stay. With another C library, or a sanitizer's
 * heap, it does nothing.
 *
 * Main thread only; one for the process.
 */
#ifndef LATERD_OS_HEAP_RETURN_H
#define LATERD_OS_HEAP_RETURN_H

#include <stddef.h>
#include <stdint.h>

enum {
    HEAP_RETURN_BYTES = 1024 * 1024,    /* a chunk, of which there is one in a turn */
    HEAP_RETURN_FREES = 256,            /* chunks that are freed again in a turn */
    HEAP_RETURN_LESS = 4 * 1024 * 1024, /* it begins when so much less is used than before … */
    HEAP_RETURN_AFTER_US = 1000 * 1000, /* … for so long */
};

enum heap_return_state { HEAP_IDLE, HEAP_DROPPING, HEAP_FREEING };

/* A struct of zeros is idle. */
struct heap_return {
    enum heap_return_state state;
    size_t used_max;  /* IDLE: bytes that were used at most since the last time */
    int64_t since_us; /* IDLE: far less is used since then; 0: it is not */
    void *chunks;     /* a list: each begins with the address of the next one */
    uint64_t dropped; /* chunks so far, since the process began */
};

/* Before anything is allocated: sets up the C library's heap. */
void heap_return_begin(void);

/*
 * A piece of the work, if there is any: up to some 0.1 ms, most of it the kernel's. `used`: bytes
 * that are allocated now (mem_used()). Returns when it has more to do; INT64_MAX: when less is used
 * than now.
 */
int64_t heap_return_turn(struct heap_return *heap, int64_t now_us, size_t used);

#endif
