/*
 * Hints to the processor to bring a line of memory to its cache, because it will be read or written
 * soon. Any address is allowed.
 *
 * For GCC 12 a function that does nothing but __builtin_prefetch() has no effect, so it drops calls
 * of it. The empty statement, which it must keep, tells it that there is one.
 */
#ifndef LATERD_BASE_PREFETCH_H
#define LATERD_BASE_PREFETCH_H

static inline void prefetch_read(const void *at)
{
    __builtin_prefetch(at, 0);
    __asm__ volatile("");
}

static inline void prefetch_write(const void *at)
{
    __builtin_prefetch(at, 1);
    __asm__ volatile("");
}

#endif
