#include "proto/json.h"

#include "base/block16.h"
#include "base/hex.h"

/* ---- bytes that are escaped ---- */

/* The output for a byte: `len` bytes of `text`; 0: unchanged. Eight bytes, to be copied as a
   word. */
struct escape {
    char text[7];
    uint8_t len;
};

#define SHORT(c, letter)   [c] = {{'\\', letter}, 2}
#define LONG(c, high, low) [c] = {{'\\', 'u', '0', '0', high, low}, 6}
#define CONTROLS                                                                                   \
    LONG(0, '0', '0'), LONG(1, '0', '1'), LONG(2, '0', '2'), LONG(3, '0', '3'), LONG(4, '0', '4'), \
        LONG(5, '0', '5'), LONG(6, '0', '6'), LONG(7, '0', '7'), LONG(8, '0', '8'),                \
        SHORT('\t', 't'), SHORT('\n', 'n'), LONG(11, '0', 'b'), LONG(12, '0', 'c'),                \
        SHORT('\r', 'r'), LONG(14, '0', 'e'), LONG(15, '0', 'f'), LONG(16, '1', '0'),              \
        LONG(17, '1', '1'), LONG(18, '1', '2'), LONG(19, '1', '3'), LONG(20, '1', '4'),            \
        LONG(21, '1', '5'), LONG(22, '1', '6'), LONG(23, '1', '7'), LONG(24, '1', '8'),            \
        LONG(25, '1', '9'), LONG(26, '1', 'a'), LONG(27, '1', 'b'), LONG(28, '1', 'c'),            \
        LONG(29, '1', 'd'), LONG(30, '1', 'e'), LONG(31, '1', 'f'), SHORT('"', '"'),               \
        SHORT('\\', '\\')

static const struct escape plain_escapes[256] = {CONTROLS};
static const struct escape html_escapes[256] = {CONTROLS, LONG('<', '3', 'c'), LONG('>', '3', 'e'),
                                                LONG('&', '2', '6')};
#undef SHORT
#undef LONG
#undef CONTROLS

static inline const struct escape *escapes_of(enum json_style style)
{
    return style == JSON_STYLE_HTML ? html_escapes : plain_escapes;
}

/* ---- plain bytes ---- */

/*
 * How many bytes come before the first quote, backslash or control character; in HTML style also
 * before the first '<', '>', '&' or byte that U+2028 begins with.
 */
static inline unsigned plain_bytes(block16 bytes, enum json_style style)
{
    block16 special = (block16)((bytes == '"') | (bytes == '\\') | (bytes < 0x20));
    if (style == JSON_STYLE_HTML)
        special |= (block16)((bytes == '<') | (bytes == '>') | (bytes == '&') | (bytes == 0xe2));
    return block16_unmarked(special);
}

/*
 * Past all plain bytes. *ascii becomes false if any of them is not ASCII; maybe also for a byte
 * behind them.
 */
static inline const char *skip(const char *at, const char *end, enum json_style style, bool *ascii)
{
    block16 all = {0};
    unsigned plain = sizeof(all);
    while (plain == sizeof(all) && end - at >= (ptrdiff_t)sizeof(all)) {
        block16 bytes = block16_at(at);
        plain = plain_bytes(bytes, style);
        all |= bytes;
        at += plain;
    }
    if (block16_top_bits(all))
        *ascii = false;
    if (plain < sizeof(all))
        return at;
    for (; at < end && !escapes_of(style)[(unsigned char)*at].len; at++) {
        if ((unsigned char)*at >= 0x80)
            *ascii = false;
    }
    return at;
}

/* Two functions, so that each compares with the bytes of its style alone. */
static const char *skip_plain(const char *at, const char *end, bool *ascii)
{
    return skip(at, end, JSON_STYLE_PLAIN, ascii);
}

static const char *skip_plain_html(const char *at, const char *end, bool *ascii)
{
    return skip(at, end, JSON_STYLE_HTML, ascii);
}

/* ---- reading ---- */

void json_init(struct json *json, struct bytes text, uint32_t depth_max)
{
    const char *start = text.at ? text.at : "";
    *json = (struct json){
        .at = start,
        .end = start + text.len,
        .depth_max = depth_max < JSON_DEPTH_MAX ? depth_max : JSON_DEPTH_MAX,
    };
}

static bool wrong(struct json *json, const char *what)
{
    if (!json->wrong) {
        json->wrong = what;
        json->wrong_at = json->at;
    }
    return false;
}

/* The text is JSON as far as it was read, but not what is wanted. */
static bool unwanted(struct json *json, const char *what)
{
    if (!json->wrong)
        json->wrong = what;
    return false;
}

static bool too_deep(struct json *json)
{
    json->too_deep = true;
    return unwanted(json, "the JSON is nested deeper than limits.json_depth");
}

/* The next character that is not white space, not taken; '\0' at the end (never valid JSON). */
static char peek(struct json *json)
{
    while (json->at < json->end) {
        char c = *json->at;
        if (c != ' ' && c != '\n' && c != '\r' && c != '\t')
            return c;
        json->at++;
    }
    return '\0';
}

static bool take(struct json *json, char c)
{
    if (peek(json) != c || json->at == json->end)
        return false;
    json->at++;
    return true;
}

/* Four hex digits; -1: they are not. */
static int32_t hex_unit(const char *at, const char *end)
{
    int32_t unit = 0;
    if (end - at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        int digit = hex_digit(at[i]);
        if (digit < 0)
            return -1;
        unit = unit << 4 | digit;
    }
    return unit;
}

/* The second half of a pair whose first is `unit`, if `at` has such an escape; -1: it is none. */
static int32_t second_half(int32_t unit, const char *at, const char *end)
{
    int32_t low = -1;
    if (unit >= 0xd800 && unit <= 0xdbff && end - at >= 2 && at[0] == '\\' && at[1] == 'u')
        low = hex_unit(at + 2, end);
    return low >= 0xdc00 && low <= 0xdfff ? low : -1;
}

static bool is_half(int32_t unit)
{
    return unit >= 0xd800 && unit <= 0xdfff;
}

/* Past the escape at json->at, which is a backslash. */
static bool scan_escape(struct json *json)
{
    const char *at = json->at + 1;
    if (at == json->end)
        return wrong(json, "a string does not end");
    if (*at != 'u') {
        if (*at == '\0' || !strchr("\"\\/bfnrt", *at))
            return wrong(json, "a string has an unknown escape");
        json->at = at + 1;
        return true;
    }
    int32_t unit = hex_unit(at + 1, json->end);
    if (unit < 0)
        return wrong(json, "a \\u escape needs four hex digits");
    at += 5;
    bool pair = second_half(unit, at, json->end) >= 0;
    if (is_half(unit) && !pair && !json->takes_halves)
        return wrong(json, "a \\u escape is half of a surrogate pair");
    at += pair ? 6 : 0;
    json->at = at;
    return true;
}

/* At the opening quote. */
static bool scan_string(struct json *json, struct json_value *out_value)
{
    const char *start = ++json->at;
    bool escaped = false, ascii = true;
    for (;;) {
        json->at = skip_plain(json->at, json->end, &ascii);
        if (json->at == json->end)
            return wrong(json, "a string does not end");
        if (*json->at == '"')
            break;
        if (*json->at != '\\')
            return wrong(json, "a string has a control character that is not escaped");
        escaped = true;
        if (!scan_escape(json))
            return false;
    }
    struct bytes text = bytes_of(start, (size_t)(json->at - start));
    json->at++;
    if (!ascii && !bytes_is_utf8(text)) {
        json->at = start - 1;
        return wrong(json, "a string is not valid UTF-8");
    }
    *out_value = (struct json_value){.kind = JSON_KIND_STRING, .escaped = escaped, .text = text};
    return true;
}

static bool scan_digits(struct json *json)
{
    const char *start = json->at;
    while (json->at < json->end && *json->at >= '0' && *json->at <= '9')
        json->at++;
    return json->at > start;
}

static bool scan_number(struct json *json, struct json_value *out_value)
{
    const char *start = json->at;
    if (*json->at == '-')
        json->at++;
    const char *digits = json->at;
    if (!scan_digits(json) || (*digits == '0' && json->at - digits > 1))
        return wrong(json, "a number is malformed");
    if (json->at < json->end && *json->at == '.') {
        json->at++;
        if (!scan_digits(json))
            return wrong(json, "a number is malformed");
    }
    if (json->at < json->end && (*json->at | 0x20) == 'e') {
        json->at++;
        if (json->at < json->end && (*json->at == '+' || *json->at == '-'))
            json->at++;
        if (!scan_digits(json))
            return wrong(json, "a number is malformed");
    }
    *out_value = (struct json_value){.kind = JSON_KIND_NUMBER,
                                     .text = bytes_of(start, (size_t)(json->at - start))};
    return true;
}

static bool scan_word(struct json *json, struct bytes word, enum json_kind kind,
                      struct json_value *out_value)
{
    if (!bytes_starts(bytes_of(json->at, (size_t)(json->end - json->at)), word))
        return wrong(json, "this is not a JSON value");
    *out_value = (struct json_value){.kind = kind, .text = bytes_of(json->at, word.len)};
    json->at += word.len;
    return true;
}

static bool scan_scalar(struct json *json, struct json_value *out_value)
{
    switch (peek(json)) {
    case '"': return scan_string(json, out_value);
    case 't': return scan_word(json, BYTES("true"), JSON_KIND_BOOL, out_value);
    case 'f': return scan_word(json, BYTES("false"), JSON_KIND_BOOL, out_value);
    case 'n': return scan_word(json, BYTES("null"), JSON_KIND_NULL, out_value);
    case '-':
    case '0':
    case '1':
    case '2':
    case '3':
    case '4':
    case '5':
    case '6':
    case '7':
    case '8':
    case '9': return scan_number(json, out_value);
    default:
        return wrong(json, json->at == json->end ? "the JSON ends too early"
                                                 : "this is not a JSON value");
    }
}

/* A member's name and its colon. */
static bool scan_name(struct json *json, struct json_value *out_name)
{
    if (peek(json) != '"')
        return wrong(json, "an object's member needs a name in quotes");
    if (!scan_string(json, out_name))
        return false;
    return take(json, ':') || wrong(json, "a colon is missing after a member's name");
}

/* The containers that a scan is inside of, innermost last: one bit each. */
struct nest {
    uint32_t depth;
    uint64_t is_object[JSON_DEPTH_MAX / 64];
};

static bool in_object(const struct nest *nest)
{
    uint32_t top = nest->depth - 1;
    return nest->is_object[top / 64] >> (top % 64) & 1;
}

/* At an opening bracket. */
static bool nest_enter(struct json *json, struct nest *nest)
{
    uint32_t top = nest->depth;
    if (json->depth + top >= json->depth_max)
        return too_deep(json);
    uint64_t bit = (uint64_t)1 << (top % 64);
    if (top % 64 == 0)
        nest->is_object[top / 64] = 0;
    if (*json->at == '{')
        nest->is_object[top / 64] |= bit;
    else
        nest->is_object[top / 64] &= ~bit;
    nest->depth++;
    json->at++;
    return true;
}

/* After a value: leaves the containers that end here; true with depth > 0: a value must follow. */
static bool nest_leave(struct json *json, struct nest *nest)
{
    struct json_value name;
    while (nest->depth) {
        bool object = in_object(nest);
        if (take(json, ','))
            return !object || scan_name(json, &name);
        if (!take(json, object ? '}' : ']'))
            return wrong(json, object ? "a comma or } is missing in an object"
                                      : "a comma or ] is missing in an array");
        nest->depth--;
    }
    return true;
}

/* A container, without recursion: hostile input does not choose how deep our stack gets. */
static bool scan_container(struct json *json, struct json_value *out_value)
{
    const char *start = json->at;
    enum json_kind kind = *start == '{' ? JSON_KIND_OBJECT : JSON_KIND_ARRAY;
    struct nest nest; /* not cleared: nest_enter does, word by word */
    struct json_value inner;
    nest.depth = 0;
    do {
        char c = peek(json);
        if (c == '{' || c == '[') {
            if (!nest_enter(json, &nest))
                return false;
            bool empty = take(json, c == '{' ? '}' : ']');
            if (!empty) {
                if (c == '{' && !scan_name(json, &inner))
                    return false;
                continue;
            }
            nest.depth--;
        } else if (!scan_scalar(json, &inner)) {
            return false;
        }
        if (!nest_leave(json, &nest))
            return false;
    } while (nest.depth);
    *out_value =
        (struct json_value){.kind = kind, .text = bytes_of(start, (size_t)(json->at - start))};
    return true;
}

bool json_value(struct json *json, struct json_value *out_value)
{
    if (json->wrong)
        return false;
    char c = peek(json);
    return c == '{' || c == '[' ? scan_container(json, out_value) : scan_scalar(json, out_value);
}

/* Of UTF-8 or UTF-16, as some programs write it in front of a text. */
static bool has_mark(const struct json *json)
{
    static const char *const marks[] = {"\xef\xbb\xbf", "\xff\xfe", "\xfe\xff"};
    struct bytes rest = bytes_of(json->at, (size_t)(json->end - json->at));
    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
        if (bytes_starts(rest, bytes_str(marks[i])))
            return true;
    }
    return false;
}

bool json_open(struct json *json, enum json_kind kind)
{
    if (json->wrong)
        return false;
    if (!take(json, kind == JSON_KIND_OBJECT ? '{' : '['))
        return unwanted(json, has_mark(json) ? "JSON is UTF-8 without a byte order mark in front"
                              : kind == JSON_KIND_OBJECT ? "an object is expected here"
                                                         : "an array is expected here");
    if (json->depth >= json->depth_max)
        return too_deep(json);
    json->depth++;
    json->fresh = true;
    return true;
}

/* Is there one more? Takes the comma before it, or the bracket at the end. */
static bool more(struct json *json, char closing)
{
    bool fresh = json->fresh;
    if (json->wrong)
        return false;
    if (take(json, closing)) {
        json->fresh = false;
        json->depth--;
        return false;
    }
    json->fresh = false;
    return fresh || take(json, ',') ||
           wrong(json, closing == '}' ? "a comma or } is missing in an object"
                                      : "a comma or ] is missing in an array");
}

bool json_item(struct json *json, struct json_value *out_value)
{
    return more(json, ']') && json_value(json, out_value);
}

bool json_member(struct json *json, struct json_value *out_name, struct json_value *out_value)
{
    return more(json, '}') && scan_name(json, out_name) && json_value(json, out_value);
}

struct json_value json_find(struct bytes object, const char *name)
{
    struct json json;
    struct json_value found, value, none = {.kind = JSON_KIND_NULL};
    json_init(&json, object, JSON_DEPTH_MAX);
    if (!json_open(&json, JSON_KIND_OBJECT))
        return none;
    while (json_member(&json, &found, &value)) {
        if (bytes_eq(found.text, bytes_str(name)))
            return value;
    }
    return none;
}

bool json_end(struct json *json)
{
    if (json->wrong)
        return false;
    (void)peek(json); /* only to go past white space */
    return json->at == json->end || wrong(json, "something follows the JSON value");
}

/* ---- decoding values ---- */

static char *put_utf8(char *to, uint32_t point)
{
    if (point < 0x80) {
        *to++ = (char)point;
    } else if (point < 0x800) {
        *to++ = (char)(0xc0 | point >> 6);
        *to++ = (char)(0x80 | (point & 0x3f));
    } else if (point < 0x10000) {
        *to++ = (char)(0xe0 | point >> 12);
        *to++ = (char)(0x80 | (point >> 6 & 0x3f));
        *to++ = (char)(0x80 | (point & 0x3f));
    } else {
        *to++ = (char)(0xf0 | point >> 18);
        *to++ = (char)(0x80 | (point >> 12 & 0x3f));
        *to++ = (char)(0x80 | (point >> 6 & 0x3f));
        *to++ = (char)(0x80 | (point & 0x3f));
    }
    return to;
}

/* Decodes the escape at `*from` (after its backslash), which the reader has checked. */
static char *unescape(char *to, const char **from, const char *end)
{
    static const char plain[] = "bfnrt", meaning[] = "\b\f\n\r\t";
    char c = *(*from)++;
    if (c != 'u') {
        const char *found = strchr(plain, c);
        *to = found ? meaning[found - plain] : c;
        return to + 1;
    }
    int32_t point = hex_unit(*from, end);
    *from += 4;
    int32_t low = second_half(point, *from, end);
    if (low >= 0) {
        *from += 6;
        point = 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00);
    } else if (is_half(point)) {
        point = 0xfffd;
    }
    return put_utf8(to, (uint32_t)point);
}

struct bytes json_text(const struct json_value *string, struct arena *arena)
{
    if (!string->escaped)
        return string->text;
    char *start = arena_alloc(arena, string->text.len); /* escapes only ever shrink */
    char *to = start;
    const char *from = string->text.at, *end = from + string->text.len;
    while (from < end) {
        const char *slash = memchr(from, '\\', (size_t)(end - from));
        size_t run = (size_t)((slash ? slash : end) - from);
        memcpy(to, from, run);
        to += run;
        from += run;
        if (slash) {
            from++;
            to = unescape(to, &from, end);
        }
    }
    return bytes_of(start, (size_t)(to - start));
}

bool json_int(const struct json_value *number, int64_t *out_number)
{
    struct bytes digits = number->text;
    uint64_t size;
    if (number->kind != JSON_KIND_NUMBER)
        return false;
    bool negative = digits.at[0] == '-';
    if (negative)
        digits = bytes_of(digits.at + 1, digits.len - 1);
    if (!bytes_to_u64(digits, &size) || size > (uint64_t)INT64_MAX + negative)
        return false;
    *out_number = (int64_t)(negative ? 0 - size : size);
    return true;
}

/* ---- writing ---- */

enum {
    CHUNK_BYTES = 4096, /* of input, for which room is reserved at their longest form */
    ESCAPE_MAX = 6,
};

/* U+2028 or U+2029. `text_end`: they may lie across the end of a piece of the text. */
static bool is_separator(const char *at, const char *text_end)
{
    return text_end - at >= 3 && at[0] == '\xe2' && at[1] == '\x80' &&
           (at[2] == '\xa8' || at[2] == '\xa9');
}

/* Writes the character at *from, or the first byte of it, escaped if it must be. */
static inline char *put_one(char *to, const char **from, const char *text_end,
                            enum json_style style)
{
    const struct escape *escape = &escapes_of(style)[(unsigned char)**from];
    if (style == JSON_STYLE_HTML && is_separator(*from, text_end)) {
        memcpy(to, (*from)[2] == '\xa8' ? "\\u2028" : "\\u2029", 6);
        *from += 3;
        return to + 6;
    }
    if (escape->len)
        memcpy(to, escape, sizeof(*escape)); /* more than it is, for speed: there is room */
    else
        *to = **from;
    ++*from;
    return to + (escape->len ? escape->len : 1);
}

/* Writes [*at, end), whose longest form has room at `to`, and a block more. */
static char *put_escaped(char *to, const char **at, const char *end, const char *text_end,
                         enum json_style style)
{
    const char *from = *at;
    while (from < end) {
        if (end - from >= (ptrdiff_t)sizeof(block16)) {
            block16 bytes = block16_at(from);
            memcpy(to, &bytes, sizeof(bytes));
            unsigned plain = plain_bytes(bytes, style);
            from += plain;
            to += plain;
            if (plain == sizeof(bytes))
                continue;
        }
        do /* where one is escaped, others often are */
            to = put_one(to, &from, text_end, style);
        while (from < end && escapes_of(style)[(unsigned char)*from].len);
    }
    *at = from;
    return to;
}

static void add_well_formed(struct buf *out, struct bytes text, enum json_style style)
{
    const char *at = text.at, *text_end = text.at + text.len;
    while (at < text_end) {
        const char *end = text_end - at > CHUNK_BYTES ? at + CHUNK_BYTES : text_end;
        buf_reserve(out, (size_t)(end - at) * ESCAPE_MAX + sizeof(block16));
        char *to = put_escaped(out->at + out->len, &at, end, text_end, style);
        out->len = (size_t)(to - out->at);
    }
}

static void add_escaped(struct buf *out, struct bytes text, enum json_style style)
{
    while (text.len) {
        size_t good = bytes_utf8_prefix(text);
        add_well_formed(out, bytes_of(text.at, good), style);
        if (good < text.len) {
            buf_add(out, "\\ufffd", 6);
            good++;
        }
        text = bytes_of(text.at + good, text.len - good);
    }
}

/* Is the text ASCII without bytes that are escaped? */
static bool is_plain(struct bytes text, enum json_style style)
{
    bool ascii = true;
    if (text.len == 0)
        return true;
    const char *end = text.at + text.len;
    const char *special = style == JSON_STYLE_HTML ? skip_plain_html(text.at, end, &ascii)
                                                   : skip_plain(text.at, end, &ascii);
    return special == end && ascii;
}

void json_add_text(struct buf *out, struct bytes text, enum json_style style)
{
    buf_reserve(out, text.len + 2);
    buf_add_char(out, '"');
    if (is_plain(text, style))
        buf_add_bytes(out, text);
    else
        add_escaped(out, text, style);
    buf_add_char(out, '"');
}
