/*
 * Sixteen bytes of a text at once: every processor we know has registers for so many. A comparison
 * with a byte gives a block of marks: all bits where it holds, none elsewhere.
 */
#ifndef LATERD_BASE_BLOCK16_H
#define LATERD_BASE_BLOCK16_H

#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

typedef uint8_t block16 __attribute__((vector_size(16)));

static inline block16 block16_at(const char *at)
{
    block16 bytes;
    memcpy(&bytes, at, sizeof(bytes));
    return bytes;
}

/* The top bit of each byte; that of the first byte is the lowest. */
static inline unsigned block16_top_bits(block16 bytes)
{
#ifdef __SSE2__
    return (unsigned)_mm_movemask_epi8((__m128i)bytes);
#else
    unsigned bits = 0;
    for (unsigned i = 0; i < sizeof(bytes); i++)
        bits |= (unsigned)bytes[i] >> 7 << i;
    return bits;
#endif
}

/* How many bytes come before the first mark; 16: there is none. */
static inline unsigned block16_unmarked(block16 marks)
{
    return (unsigned)__builtin_ctz(block16_top_bits(marks) | 1u << sizeof(marks));
}

#endif
