/*
 * Numbers of 64 bits in one to ten bytes: seven bits a byte, the lowest first, the highest bit says
 * that there are more. Signed ones are folded first: 0, -1, 1, -2 … become 0, 1, 2, 3 …
 */
#ifndef LATERD_STORE_VARINT_H
#define LATERD_STORE_VARINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/* Of more than one byte, or none. */
static inline uint64_t varint_get_long(struct varint_reader *reader)
{
    uint64_t number = 0;
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
