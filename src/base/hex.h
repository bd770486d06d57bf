/* Hexadecimal digits, and percent-encoding (RFC 3986) of the words in URLs. */
#ifndef LATERD_BASE_HEX_H
#define LATERD_BASE_HEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

/* The value of a digit of either case, 0 to 15; -1: not a digit. */
static inline int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The value of the two digits at `at`, 0 to 255; -1: there are no two digits. */
static inline int hex_byte(struct bytes text, size_t at)
{
    int high = at + 1 < text.len ? hex_digit(text.at[at]) : -1;
    int low = at + 1 < text.len ? hex_digit(text.at[at + 1]) : -1;
    return high < 0 || low < 0 ? -1 : high << 4 | low;
}

enum { HEX_U32_DIGITS = 8 };

/* Reads a number of exactly HEX_U32_DIGITS digits, none in upper case, as names of files have it.
   False: `at`, which may end sooner with a NUL, has another form. */
static inline bool hex_lower_u32(const char *at, uint32_t *out_number)
{
    uint32_t number = 0;
    for (int i = 0; i < HEX_U32_DIGITS; i++) {
        int digit = at[i] >= 'A' && at[i] <= 'F' ? -1 : hex_digit(at[i]);
        if (digit < 0)
            return false;
        number = number << 4 | (uint32_t)digit;
    }
    *out_number = number;
    return true;
}

/* Writes two digits in lower case for each byte, and a NUL: 2 * count + 1 bytes. */
static inline void hex_write(const uint8_t *bytes, size_t count, char *room)
{
    for (size_t i = 0; i < count; i++) {
        *room++ = "0123456789abcdef"[bytes[i] >> 4];
        *room++ = "0123456789abcdef"[bytes[i] & 15];
    }
    *room = '\0';
}

/*
 * Decodes percent-encoding into `room`, terminated by NUL. False: a % without two digits, a NUL
 * (plain or encoded), or more than room_bytes - 1 bytes; `room` is then undefined. O(bytes).
 */
static inline bool percent_decode(struct bytes text, char *room, size_t room_bytes)
{
    size_t len = 0;
    for (size_t i = 0; i < text.len; i++) {
        int byte = (unsigned char)text.at[i];
        if (byte == '%') {
            byte = hex_byte(text, i + 1);
            i += 2;
        }
        if (byte <= 0 || len + 1 >= room_bytes)
            return false;
        room[len++] = (char)byte;
    }
    room[len] = '\0';
    return true;
}

#endif
