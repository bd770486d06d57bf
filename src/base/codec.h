/*
 * Numbers in little-endian bytes, for everything that is written to disk. Nothing is
 * struct-copied to disk.
 */
#ifndef LATERD_BASE_CODEC_H
#define LATERD_BASE_CODEC_H

#include <stdint.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "codec.h copies little-endian machine words; a big-endian port must swap here"
#endif

#define CODEC_PAIR(bits)                                                                           \
    static inline void put_u##bits(void *at, uint##bits##_t number)                                \
    {                                                                                              \
        memcpy(at, &number, sizeof(number));                                                       \
    }                                                                                              \
    static inline uint##bits##_t get_u##bits(const void *at)                                       \
    {                                                                                              \
        uint##bits##_t number;                                                                     \
        memcpy(&number, at, sizeof(number));                                                       \
        return number;                                                                             \
    }

CODEC_PAIR(8)
CODEC_PAIR(16)
CODEC_PAIR(32)
CODEC_PAIR(64)
#undef CODEC_PAIR

#endif
