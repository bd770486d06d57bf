/*
 * Encodes commands for Redis (RESP arrays of bulk strings; redis.io/docs, "protocol specification")
 * at the end of a buffer. Words may have any bytes. Pure; O(bytes).
 */
#ifndef LATERD_CLIENT_REDIS_RESP_H
#define LATERD_CLIENT_REDIS_RESP_H

#include "base/bytes.h"

/* Begins a command of `words` words; that many calls of resp_add…() must follow. */
static inline void resp_begin(struct buf *out, unsigned words)
{
    buf_add_char(out, '*');
    buf_add_u64(out, words);
    buf_add(out, "\r\n", 2);
}

static inline void resp_add(struct buf *out, struct bytes word)
{
    buf_add_char(out, '$');
    buf_add_u64(out, word.len);
    buf_add(out, "\r\n", 2);
    buf_add_bytes(out, word);
    buf_add(out, "\r\n", 2);
}

static inline void resp_add_str(struct buf *out, const char *word)
{
    resp_add(out, bytes_str(word));
}

/* As decimal text. */
static inline void resp_add_u64(struct buf *out, uint64_t number)
{
    char digits[24];
    struct bytes text = {.at = digits + sizeof(digits), .len = 0};
    do {
        digits[sizeof(digits) - ++text.len] = (char)('0' + number % 10);
        number /= 10;
    } while (number);
    text.at = digits + sizeof(digits) - text.len;
    resp_add(out, text);
}

#endif
