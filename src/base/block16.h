/*
 * Sixteen bytes of a text at once: every processor we know has registers for so many. A comparison
 * with a byte gives a block of marks: all bits where it holds, none elsewhere.
 */
#ifndef LATERD_BASE_BLOCK16_H
#define LATERD_BASE_BLOCK16_H

#include <stdint.h>
#include <string.h>

typedef uint8_t block16 __attribute__((vector_size(16)));

static inline block16 block16_at(const char *at)
{
    block16 bytes;
    memcpy(&bytes, at, sizeof(bytes));
    return bytes;
}

/* The two halves; the first byte is the lowest of the first one (little-endian). */
static inline void block16_halves(block16 bytes, uint64_t out_halves[static 2])
{
    memcpy(out_halves, &bytes, sizeof(bytes));
}

/* How many bytes come before the first mark; 16: there is none. */
static inline unsigned block16_unmarked(block16 marks)
{
    uint64_t halves[2];
    block16_halves(marks, halves);
    if (!(halves[0] | halves[1]))
        return sizeof(marks);
    return (unsigned)(halves[0] ? __builtin_ctzll(halves[0]) : 64 + __builtin_ctzll(halves[1])) / 8;
}

#endif
