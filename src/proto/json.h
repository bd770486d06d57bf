/*
 * JSON (RFC 8259) without a tree: a strict reader that is asked for one value after another, and
 * the words a writer needs. Nothing is allocated but, from the caller's arena, strings that had
 * escapes. docs/decisions/0006-own-json-reader.md says why we have our own.
 *
 * Strict: no comments, no trailing commas, UTF-8 is checked, lone surrogates are refused, nesting
 * is limited. Every value that was handed out is well-formed all the way down.
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

enum { JSON_DEPTH_MAX = 1024 }; /* whatever limit is asked for */

struct json_value {
    enum json_kind kind;
    bool escaped;      /* STRING: json_text has work to do */
    struct bytes text; /* as written; of a STRING what is between the quotes */
};

struct json {
    const char *at;
    const char *end;
    uint32_t depth; /* containers entered by json_open */
    uint32_t depth_max;
    bool fresh;        /* just entered: the next item has no comma before it */
    bool too_deep;     /* that is what is wrong */
    const char *wrong; /* NULL, or what is wrong, a sentence without a full stop */
};

/* A reader of `text`, which is borrowed for as long as the reader and its values are used. */
void json_init(struct json *json, struct bytes text, uint32_t depth_max);

/* The next whole value, however deep. False: json->wrong. */
bool json_value(struct json *json, struct json_value *out_value);

/* Goes into the array or object that comes next. False: it is something else, json->wrong. */
bool json_open(struct json *json, enum json_kind kind);
/* The next item, or the end (which is left behind). False: at the end, or json->wrong. */
bool json_item(struct json *json, struct json_value *out_value);
bool json_member(struct json *json, struct json_value *out_name, struct json_value *out_value);
/* The first member of that name of an object; NULL, with no text, if there is none. O(length). */
struct json_value json_find(struct bytes object, const char *name);

/* Is nothing wrong, and nothing but white space left? Sets json->wrong if there is. */
bool json_end(struct json *json);

/* A string's bytes: borrowed from the input, or from `arena` if there were escapes. */
struct bytes json_text(const struct json_value *string, struct arena *arena);

/* False: not an integer as written (1.0 and 1e3 are not), or more than 64 bits. */
bool json_int(const struct json_value *number, int64_t *out_number);

/* What leaves as an escape besides what must. */
enum json_style {
    JSON_STYLE_PLAIN,
    JSON_STYLE_HTML /* also < > & U+2028 U+2029, as Go's encoder does */
};

/* Appends a string with its quotes. Bytes that are not UTF-8 become U+FFFD. */
void json_add_text(struct buf *out, struct bytes text, enum json_style format);

#endif
