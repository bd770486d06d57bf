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
 * The library's vector code leaves values in the upper halves of the vector registers. Until these
 * are cleared, each instruction that writes a lower half, and our code has many, must wait for the
 * register's previous value, which may still be on its way from memory (a false dependency). By
 * `perf` that took up to a tenth of a server's time.
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
