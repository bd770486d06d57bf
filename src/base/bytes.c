#include "base/bytes.h"

#include <stdio.h>

#include "base/ascii.h"
#include "base/check.h"
#include "base/decimal.h"
#include "base/mem.h"

enum { LARGE_BYTES = 1024 * 1024 };

/* The eight letters at `at`: a capital gets the bit that its small letter has. */
static uint64_t lower_word(const char *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof(word));
    uint64_t ascii = ~word & EACH_BYTE(0x80);
    uint64_t low = word & EACH_BYTE(0x7f);
    uint64_t from_a = low + EACH_BYTE(0x80 - 'A');   /* the top bit: 'A' or above */
    uint64_t past_z = low + EACH_BYTE(0x7f - 'Z');   /* above 'Z' */
    return word | ((from_a & ~past_z & ascii) >> 2); /* 0x80 >> 2 is 0x20 */
}

/* Are the eight letters at `a` those at `b`, but for their case? Mostly they are the same bytes. */
static bool same_word(const char *a, const char *b)
{
    return memcmp(a, b, sizeof(uint64_t)) == 0 || lower_word(a) == lower_word(b);
}

bool bytes_eq_nocase(struct bytes a, struct bytes b)
{
    if (a.len != b.len)
        return false;
    if (a.len >= sizeof(uint64_t)) {
        size_t last = a.len - sizeof(uint64_t); /* a word that may lie across the one before */
        for (size_t i = 0; i < last; i += sizeof(uint64_t)) {
            if (!same_word(a.at + i, b.at + i))
                return false;
        }
        return same_word(a.at + last, b.at + last);
    }
    for (size_t i = 0; i < a.len; i++) {
        if (ascii_lower(a.at[i]) != ascii_lower(b.at[i]))
            return false;
    }
    return true;
}

bool bytes_starts(struct bytes whole, struct bytes start)
{
    return whole.len >= start.len && bytes_eq(bytes_of(whole.at, start.len), start);
}

int bytes_cmp(struct bytes a, struct bytes b)
{
    size_t common = a.len < b.len ? a.len : b.len;
    int order = common ? memcmp(a.at, b.at, common) : 0;
    if (order)
        return order;
    return a.len < b.len ? -1 : a.len > b.len;
}

bool bytes_to_u64(struct bytes text, uint64_t *out_number)
{
    uint64_t number = 0;
    if (text.len == 0 || text.len > DECIMAL_U64_DIGITS)
        return false;
    size_t fits = text.len < DECIMAL_U64_DIGITS ? text.len : DECIMAL_U64_DIGITS - 1;
    for (size_t i = 0; i < fits; i++) { /* so many digits always fit */
        unsigned digit = (unsigned char)text.at[i] - (unsigned)'0';
        if (digit > 9)
            return false;
        number = number * 10 + digit;
    }
    for (size_t i = fits; i < text.len; i++) {
        unsigned digit = (unsigned char)text.at[i] - (unsigned)'0';
        if (digit > 9 || __builtin_mul_overflow(number, 10u, &number) ||
            __builtin_add_overflow(number, digit, &number))
            return false;
    }
    *out_number = number;
    return true;
}

/* How many bytes the sequence that starts here has, by its first byte and second's range. */
static size_t utf8_step(const unsigned char *at, size_t left)
{
    unsigned char low = 0x80, high = 0xbf;
    size_t len;
    if (at[0] < 0x80)
        return 1;
    if (at[0] >= 0xc2 && at[0] <= 0xdf)
        len = 2;
    else if ((at[0] & 0xf0) == 0xe0)
        len = 3;
    else if (at[0] >= 0xf0 && at[0] <= 0xf4)
        len = 4;
    else
        return 0;
    if (at[0] == 0xe0)
        low = 0xa0;
    else if (at[0] == 0xed)
        high = 0x9f;
    else if (at[0] == 0xf0)
        low = 0x90;
    else if (at[0] == 0xf4)
        high = 0x8f;
    if (left < len || at[1] < low || at[1] > high)
        return 0;
    for (size_t i = 2; i < len; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    }
    return len;
}

/* From `i` on, past ASCII bytes: four words at a time, then one, then single bytes. */
static size_t skip_ascii(struct bytes text, size_t i)
{
    uint64_t words[4];
    for (; text.len - i >= sizeof(words); i += sizeof(words)) {
        memcpy(words, text.at + i, sizeof(words));
        if ((words[0] | words[1] | words[2] | words[3]) & EACH_BYTE(0x80))
            break;
    }
    for (; text.len - i >= sizeof(words[0]); i += sizeof(words[0])) {
        memcpy(words, text.at + i, sizeof(words[0]));
        if (words[0] & EACH_BYTE(0x80))
            break;
    }
    while (i < text.len && (unsigned char)text.at[i] < 0x80)
        i++;
    return i;
}

size_t bytes_utf8_prefix(struct bytes text)
{
    const unsigned char *at = (const unsigned char *)text.at;
    size_t i = 0;
    while (i < text.len) {
        i = skip_ascii(text, i);
        if (i == text.len)
            break;
        size_t step = utf8_step(at + i, text.len - i);
        if (step == 0)
            break;
        i += step;
    }
    return i;
}

bool bytes_is_utf8(struct bytes text)
{
    return bytes_utf8_prefix(text) == text.len;
}

/* Has any of the eight bytes a control character? (Bit Twiddling Hacks) */
static bool has_control(uint64_t word)
{
    uint64_t del = word ^ EACH_BYTE(0x7f);
    uint64_t found = ((word - EACH_BYTE(' ')) & ~word) | ((del - EACH_BYTE(1)) & ~del);
    return (found & EACH_BYTE(0x80)) != 0;
}

bool bytes_is_printable(struct bytes text)
{
    size_t i = 0;
    for (uint64_t word; text.len - i >= sizeof(word); i += sizeof(word)) {
        memcpy(&word, text.at + i, sizeof(word));
        if (has_control(word))
            return false;
    }
    for (; i < text.len; i++) {
        unsigned char c = (unsigned char)text.at[i];
        if (c < ' ' || c == 0x7f)
            return false;
    }
    return true;
}

void buf_fini(struct buf *buf)
{
    mem_free(buf->at);
    *buf = (struct buf){0};
}

/* Doubles; large ones grow by a quarter, for which the system only maps more pages. */
static size_t grown(size_t cap)
{
    return cap == 0 ? 256 : cap < LARGE_BYTES ? cap * 2 : cap + cap / 4;
}

void buf_grow(struct buf *buf, size_t more, size_t most)
{
    size_t cap = buf->cap;
    while (cap - buf->len < more)
        cap = grown(cap);
    if (cap > most && most - buf->len >= more && most >= buf->len)
        cap = most;
    buf->at = mem_realloc(buf->at, cap);
    buf->cap = cap;
}

void buf_add_u64(struct buf *buf, uint64_t number)
{
    char digits[DECIMAL_U64_DIGITS], *end = digits + sizeof(digits);
    const char *first = decimal_put_before(end, number);
    buf_add(buf, first, (size_t)(end - first));
}

void buf_add_i64(struct buf *buf, int64_t number)
{
    if (number < 0)
        buf_add_char(buf, '-');
    buf_add_u64(buf, number < 0 ? 0 - (uint64_t)number : (uint64_t)number);
}

void buf_addf(struct buf *buf, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    buf_reserve(buf, 128);
    int wanted = vsnprintf(buf->at + buf->len, buf->cap - buf->len, format, args);
    va_end(args);
    CHECK(wanted >= 0);
    if ((size_t)wanted >= buf->cap - buf->len) {
        buf_reserve(buf, (size_t)wanted + 1);
        va_start(args, format);
        wanted = vsnprintf(buf->at + buf->len, buf->cap - buf->len, format, args);
        va_end(args);
    }
    buf->len += (size_t)wanted;
}

void buf_drop(struct buf *buf, size_t count)
{
    CHECK(count <= buf->len);
    buf->len -= count;
    if (buf->len)
        memmove(buf->at, buf->at + count, buf->len);
}

void buf_shrink(struct buf *buf, size_t keep_bytes)
{
    if (buf->len == 0 && buf->cap > keep_bytes)
        buf_fini(buf);
}

void buf_reset(struct buf *buf, size_t keep_bytes)
{
    buf->len = 0;
    buf_shrink(buf, keep_bytes);
}
