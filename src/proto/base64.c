#include "proto/base64.h"

static const char standard[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char url[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/* 0 … 63, or -1. */
static inline int value_of(char c, const char *alphabet)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == alphabet[62] ? 62 : c == alphabet[63] ? 63 : -1;
}

static inline bool read_digits(struct bytes text, const char *alphabet, struct arena *arena,
                               struct bytes *out_data)
{
    unsigned char *start = arena_alloc(arena, text.len / 4 * 3 + 3), *to = start;
    uint32_t bits = 0, count = 0;
    for (size_t i = 0; i < text.len; i++) {
        int value = value_of(text.at[i], alphabet);
        if (value < 0)
            return false;
        bits = bits << 6 | (uint32_t)value;
        count += 6;
        if (count >= 8) {
            count -= 8;
            *to++ = (unsigned char)(bits >> count);
        }
    }
    if (bits & ((1u << count) - 1))
        return false; /* two texts must not mean the same bytes */
    *out_data = bytes_of(start, (size_t)(to - start));
    return true;
}

static inline void write_digits(struct buf *out, struct bytes data, const char *alphabet,
                                bool padded)
{
    const unsigned char *from = (const unsigned char *)data.at;
    buf_reserve(out, (data.len + 2) / 3 * 4);
    for (size_t i = 0; i < data.len; i += 3) {
        size_t left = data.len - i;
        uint32_t bits = (uint32_t)from[i] << 16 | (left > 1 ? (uint32_t)from[i + 1] << 8 : 0) |
                        (left > 2 ? from[i + 2] : 0);
        char four[4] = {
            alphabet[bits >> 18],
            alphabet[bits >> 12 & 63],
            left > 1 ? alphabet[bits >> 6 & 63] : '=',
            left > 2 ? alphabet[bits & 63] : '=',
        };
        buf_add(out, four, padded || left > 2 ? sizeof(four) : left + 1);
    }
}

bool base64_read(struct bytes text, struct arena *arena, struct bytes *out_data)
{
    size_t padding = 0;
    if (text.len % 4)
        return false;
    while (padding < 2 && padding < text.len && text.at[text.len - 1 - padding] == '=')
        padding++;
    return read_digits(bytes_of(text.at, text.len - padding), standard, arena, out_data);
}

void base64_write(struct buf *out, struct bytes data)
{
    write_digits(out, data, standard, true);
}

bool base64url_read(struct bytes text, struct arena *arena, struct bytes *out_data)
{
    return text.len % 4 != 1 && read_digits(text, url, arena, out_data);
}

void base64url_write(struct buf *out, struct bytes data)
{
    write_digits(out, data, url, false);
}
