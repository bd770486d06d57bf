/*
 * Byte strings. `struct bytes` borrows, `struct buf` owns and grows. They are not terminated by
 * NUL. All functions are O(bytes).
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

/* Copies the bytes to `to`, which has room for them; returns the address behind. */
static inline char *bytes_put(char *to, struct bytes from)
{
    if (from.len)
        memcpy(to, from.at, from.len);
    return to + from.len;
}

/* The same, after which `*bytes` is the copy. */
static inline char *bytes_move_to(char *to, struct bytes *bytes)
{
    char *end = bytes_put(to, *bytes);
    bytes->at = to;
    return end;
}

/* A word of eight times this byte, for code that tests eight bytes at once. */
#define EACH_BYTE(byte) (0x0101010101010101u * (uint64_t)(byte))

/* ASCII letters compare without case. */
bool bytes_eq_nocase(struct bytes a, struct bytes b);

bool bytes_starts(struct bytes whole, struct bytes start); /* true: `whole` begins with `start` */
/* The same, but ASCII letters compare without case. */
static inline bool bytes_starts_nocase(struct bytes whole, struct bytes start)
{
    return whole.len >= start.len && bytes_eq_nocase(bytes_of(whole.at, start.len), start);
}

/* <0, 0, >0 like memcmp; a shorter string sorts before a longer one it starts. */
int bytes_cmp(struct bytes a, struct bytes b);

/* False: not a number. Only decimal digits, at least one, without sign or space, that fit into 64
   bits. */
bool bytes_to_u64(struct bytes text, uint64_t *out_number);

/* How many bytes at the beginning of the text are well-formed UTF-8 (RFC 3629: no surrogates,
   nothing overlong, nothing past U+10FFFF). */
size_t bytes_utf8_prefix(struct bytes text);
/* True: all of the text is well-formed UTF-8. */
bool bytes_is_utf8(struct bytes text);

/* True: the text has no ASCII control characters (DEL is one). */
bool bytes_is_printable(struct bytes text);

/* A growable buffer; zeroed is empty and valid. [0, len) is content. */
struct buf {
    char *at;
    size_t len;
    size_t cap;
};

void buf_fini(struct buf *buf);
/* For buf_reserve_to(). Cold: calls of it lie apart from the appends that have room. */
void buf_grow(struct buf *buf, size_t more, size_t most) __attribute__((cold));
void buf_add_u64(struct buf *buf, uint64_t number); /* decimal */
void buf_add_i64(struct buf *buf, int64_t number);
void buf_addf(struct buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
void buf_drop(struct buf *buf, size_t count); /* removes the first `count` bytes; moves the rest */
/* Frees the memory of an empty buffer whose capacity is over `keep_bytes`. */
void buf_shrink(struct buf *buf, size_t keep_bytes);
void buf_reset(struct buf *buf, size_t keep_bytes); /* empties the buffer, then buf_shrink() */

/* Makes room for `more` further bytes. A buffer that must grow grows to at most `most` bytes in
 * all, or to just what is needed if that is more. */
static inline void buf_reserve_to(struct buf *buf, size_t more, size_t most)
{
    if (buf->cap - buf->len < more)
        buf_grow(buf, more, most);
}

static inline void buf_reserve(struct buf *buf, size_t more)
{
    buf_reserve_to(buf, more, SIZE_MAX);
}

/* Not bytes of the buffer itself. Inline, as the ones below, so that a literal is a store or two.
 */
static inline void buf_add(struct buf *buf, const void *at, size_t len)
{
    if (len == 0)
        return;
    buf_reserve(buf, len);
    memcpy(buf->at + buf->len, at, len);
    buf->len += len;
}

static inline void buf_add_bytes(struct buf *buf, struct bytes bytes)
{
    buf_add(buf, bytes.at, bytes.len);
}

static inline void buf_add_char(struct buf *buf, char c)
{
    buf_reserve(buf, 1);
    buf->at[buf->len++] = c;
}

static inline void buf_add_str(struct buf *buf, const char *text)
{
    buf_add(buf, text, strlen(text));
}

/* Moves the memory of `from` to `to`, which has none. Returns `to`. */
static inline struct buf *buf_take(struct buf *to, struct buf *from)
{
    *to = *from;
    *from = (struct buf){0};
    return to;
}

static inline struct bytes buf_bytes(const struct buf *buf)
{
    return (struct bytes){.at = buf->at, .len = buf->len};
}

#endif
