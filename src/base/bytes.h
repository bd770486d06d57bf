/*
 * Byte strings. `struct bytes` borrows, `struct buf` owns and grows. No NUL ends them. O(bytes).
 */
#ifndef LATERD_BASE_BYTES_H
#define LATERD_BASE_BYTES_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct bytes {
    const char *at;
    size_t len;
};

#define BYTES(literal) ((struct bytes){.at = (literal), .len = sizeof(literal) - 1})

static inline struct bytes bytes_of(const void *at, size_t len)
{
    return (struct bytes){.at = at, .len = len};
}

static inline struct bytes bytes_str(const char *text) /* up to its NUL */
{
    return (struct bytes){.at = text, .len = strlen(text)};
}

static inline bool bytes_eq(struct bytes a, struct bytes b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}

/* A word with the byte in all its places, to look at eight bytes at once. */
#define EACH_BYTE(byte) (0x0101010101010101u * (uint64_t)(byte))

/* ASCII letters compare without case. */
bool bytes_eq_nocase(struct bytes a, struct bytes b);

bool bytes_starts(struct bytes whole, struct bytes start); /* does it begin with `start`? */

/* <0, 0, >0 like memcmp; a shorter string sorts before a longer one it starts. */
int bytes_cmp(struct bytes a, struct bytes b);

/* Decimal digits only, no sign, no space, must fit. */
bool bytes_to_u64(struct bytes text, uint64_t *out_number);

/* How many bytes of it are well-formed UTF-8 (RFC 3629: no surrogates, nothing overlong, nothing
   past U+10FFFF), up to the first that is not. */
size_t bytes_utf8_prefix(struct bytes text);
/* Is all of it? */
bool bytes_is_utf8(struct bytes text);

/* Has it no control characters, DEL included? */
bool bytes_is_printable(struct bytes text);

/* A growable buffer; zeroed is empty and valid. [0, len) is content. */
struct buf {
    char *at;
    size_t len;
    size_t cap;
};

void buf_fini(struct buf *buf);
void buf_grow(struct buf *buf, size_t more, size_t most); /* see buf_reserve_to, which asks first */
void buf_add(struct buf *buf, const void *at, size_t len); /* not bytes of the buffer itself */
void buf_add_bytes(struct buf *buf, struct bytes bytes);
void buf_add_str(struct buf *buf, const char *text);
void buf_add_char(struct buf *buf, char c);
void buf_add_u64(struct buf *buf, uint64_t number); /* decimal */
void buf_add_i64(struct buf *buf, int64_t number);
void buf_addf(struct buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
void buf_drop(struct buf *buf, size_t count); /* forget the first `count` bytes (moves the rest) */
void buf_shrink(struct buf *buf, size_t keep_bytes); /* give memory back if empty and larger */
void buf_reset(struct buf *buf, size_t keep_bytes);  /* empty it, and do that */

/* Makes room for `more` further bytes; when it must grow it grows to at most `most` bytes in all,
 * if they are enough. Usually there is room. */
static inline void buf_reserve_to(struct buf *buf, size_t more, size_t most)
{
    if (buf->cap - buf->len < more)
        buf_grow(buf, more, most);
}

static inline void buf_reserve(struct buf *buf, size_t more)
{
    buf_reserve_to(buf, more, SIZE_MAX);
}

static inline struct bytes buf_bytes(const struct buf *buf)
{
    return (struct bytes){.at = buf->at, .len = buf->len};
}

#endif
