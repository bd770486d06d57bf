/*
 * Variable-length integers (LEB128): 64-bit numbers in one to ten bytes, seven bits a byte, lowest
 * first; the highest bit of a byte says that another byte follows. Signed numbers are
 * zigzag-encoded first: 0, -1, 1, -2 … become 0, 1, 2, 3 …
 */
#ifndef LATERD_STORE_VARINT_H
#define LATERD_STORE_VARINT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/codec.h"

enum { VARINT_MAX = 10 }; /* bytes of one */

/* Writes the number; returns where the next one goes. */
static inline char *varint_put(char *at, uint64_t number)
{
    while (number >= 0x80) {
        *at++ = (char)(number | 0x80);
        number >>= 7;
    }
    *at++ = (char)number;
    return at;
}

struct varint_reader {
    const char *at, *end;
    bool good; /* false once a number was cut off or had more than 64 bits */
};

/* The seven bits of each of eight bytes, the first one's lowest. */
static inline uint64_t varint_join(uint64_t bytes)
{
    bytes &= UINT64_C(0x7f7f7f7f7f7f7f7f);
    bytes = (bytes & UINT64_C(0x007f007f007f007f)) | (bytes & UINT64_C(0x7f007f007f007f00)) >> 1;
    bytes = (bytes & UINT64_C(0x00003fff00003fff)) | (bytes & UINT64_C(0x3fff00003fff0000)) >> 2;
    return (bytes & UINT64_C(0x0fffffff)) | (bytes & UINT64_C(0x0fffffff00000000)) >> 4;
}

/*
 * varint_get() for a number of more than one byte, or if there is none. Numbers of up to 8 bytes
 * are read without a branch on their length, which the processor could not predict.
 */
static inline uint64_t varint_get_long(struct varint_reader *reader)
{
    uint64_t number = 0;
    if (reader->end - reader->at >= 8) {
        uint64_t bytes = get_u64(reader->at), last = ~bytes & UINT64_C(0x8080808080808080);
        if (last) {
            reader->at += __builtin_ctzll(last) / 8 + 1;
            return varint_join(bytes & (last ^ (last - 1)));
        }
    }
    for (unsigned shift = 0; shift < 64 && reader->at < reader->end; shift += 7) {
        uint8_t byte = (uint8_t)*reader->at++;
        if (shift == 63 && byte > 1)
            break;
        number |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return number;
    }
    reader->good = false;
    return 0;
}

/* The next number; 0 if there is none. */
static inline uint64_t varint_get(struct varint_reader *reader)
{
    if (reader->at < reader->end && (uint8_t)*reader->at < 0x80)
        return (uint8_t)*reader->at++;
    return varint_get_long(reader);
}

static inline uint64_t varint_fold(int64_t number)
{
    return ((uint64_t)number << 1) ^ (number < 0 ? UINT64_MAX : 0);
}

static inline int64_t varint_unfold(uint64_t number)
{
    return (int64_t)((number >> 1) ^ (0 - (number & 1)));
}

#endif
