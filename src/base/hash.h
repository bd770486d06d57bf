/*
 * Checksums: XXH3-64, with the widest vector instructions that the processor has. The library's
 * plain entry points are built for the oldest x86-64 and take three times as long on a job's body.
 */
#ifndef LATERD_BASE_HASH_H
#define LATERD_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>
#if defined(__x86_64__)
#include <xxh_x86dispatch.h> /* lets XXH3_64bits… choose at run time */
#else
#include <xxhash.h>
#endif

/*
 * What the library chose leaves the upper halves of the vector registers full. As long as they are,
 * the processor makes each instruction on a lower half, of which our code is full, wait for what
 * was in that register before, which may be on its way from memory: by `perf` that was up to a
 * tenth of all that a server did.
 */
static inline void hash_leave_vectors(size_t len)
{
/* With AVX the compiler itself uses whole registers. */
#if defined(__x86_64__) && !defined(__AVX__)
    enum { SHORT_MAX = 240 }; /* bytes that are hashed without vectors */
    if (len > SHORT_MAX && __builtin_cpu_supports("avx"))
        __asm__ volatile("vzeroupper");
#else
    (void)len;
#endif
}

static inline uint64_t hash_of(const void *at, size_t len)
{
    uint64_t hash = XXH3_64bits(at, len);
    hash_leave_vectors(len);
    return hash;
}

static inline uint64_t hash_seeded(const void *at, size_t len, uint64_t seed)
{
    uint64_t hash = XXH3_64bits_withSeed(at, len, seed);
    hash_leave_vectors(len);
    return hash;
}

#endif
