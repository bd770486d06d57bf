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

static inline uint64_t hash_of(const void *at, size_t len)
{
    return XXH3_64bits(at, len);
}

static inline uint64_t hash_seeded(const void *at, size_t len, uint64_t seed)
{
    return XXH3_64bits_withSeed(at, len, seed);
}

#endif
