/*
 * JSON (RFC 8259) without a tree: a strict pull reader, and functions to write values. Only strings
 * with escapes are allocated, from the caller's arena. docs/decisions/0006-own-json-reader.md says
 * why we have our own. Pure.
 *
 * Strict: no comments, no trailing commas, UTF-8 is checked, lone surrogates are refused (unless
 * the caller takes them), nesting is limited. Every value that the reader returns is completely
 * well-formed.
 */
#ifndef LATERD_PROTO_JSON_H
#define LATERD_PROTO_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/bytes.h"

enum json_kind {
    JSON_KIND_NULL,
    JSON_KIND_BOOL,
    JSON_KIND_NUMBER,
    JSON_KIND_STRING,
    JSON_KIND_ARRAY,
    JSON_KIND_OBJECT
};

enum { JSON_DEPTH_MAX = 1024 }; /* the maximum of configurable nesting limits */

struct json_value {
    enum json_kind kind;
    bool escaped;      /* STRING: has escapes, which json_text() decodes */
    struct bytes text; /* as written; of a STRING the text between the quotes */
};

struct json {
    const char *at;
    const char *end;
    uint32_t depth; /* containers entered by json_open */
    uint32_t depth_max;
    bool takes_halves; /* set by the caller: an escape that is half of a surrogate pair is U+FFFD */
    bool fresh;        /* just entered: the next item has no comma before it */
    bool too_deep;     /* the error is that nesting is too deep */
    const char *wrong; /* NULL, or the error, a sentence without a full stop */
    const char *wrong_at; /* where the text stops to be JSON; NULL: it is JSON, of another kind than
                             was asked for, or too deep */
};

/* A reader of `text`, which is borrowed for as long as the reader and its values are used. */
void json_init(struct json *json, struct bytes text, uint32_t depth_max);

/* The next whole value, however deep. False: json->wrong. */
bool json_value(struct json *json, struct json_value *out_value);

/* Enters the array or object that comes next. False: it is another value, json->wrong. */
bool json_open(struct json *json, enum json_kind kind);
/* The next item. False: the container has ended (and was left), or json->wrong. */
bool json_item(struct json *json, struct json_value *out_value);
bool json_member(struct json *json, struct json_value *out_name, struct json_value *out_value);
/* The first member of that name of an object; NULL, with no text, if there is none. O(length). */
struct json_value json_find(struct bytes object, const char *name);

/* True: there was no error, and only white space is left; else json->wrong is set. */
bool json_end(struct json *json);

/* A string's bytes: borrowed from the input, or from `arena` if there were escapes. */
struct bytes json_text(const struct json_value *string, struct arena *arena);

/* False: not an integer as written (1.0 and 1e3 are not), or more than 64 bits. */
bool json_int(const struct json_value *number, int64_t *out_number);

/* Which characters are escaped besides those that must be. */
enum json_style {
    JSON_STYLE_PLAIN,
    JSON_STYLE_HTML /* also < > & U+2028 U+2029, as Go's encoder does */
};

/* Appends a string with its quotes. Bytes that are not UTF-8 become U+FFFD. */
void json_add_text(struct buf *out, struct bytes text, enum json_style style);

#endif
