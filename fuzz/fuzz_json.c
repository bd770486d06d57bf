/*
 * Our JSON reader against jansson: both take an input or both refuse it, and then it says the same.
 * What is compared is a text that each side writes of what it read.
 *
 * Known differences, left out: jansson refuses numbers that overflow and NUL in names; both are
 * told apart by its error code. It overlooks a NUL after a word or a number. Of inputs with
 * duplicate names only acceptance is compared.
 */
#include <jansson.h>
#include <stdint.h>

#include "base/check.h"
#include "proto/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { DEPTH = 64 };

static void add_ours(struct buf *out, struct bytes text, struct arena *arena, unsigned depth);

static void add_members(struct buf *out, struct json *json, struct arena *arena, unsigned depth)
{
    struct json_value name, value;
    while (json_member(json, &name, &value)) {
        struct bytes key = json_text(&name, arena);
        buf_add_bytes(out, key);
        buf_add_char(out, ':');
        struct bytes raw = value.text;
        if (value.kind == JSON_KIND_STRING)
            raw = bytes_of(raw.at - 1, raw.len + 2);
        add_ours(out, raw, arena, depth + 1);
    }
}

/* Recursion is bounded by DEPTH, which the reader has checked. */
static void add_ours(struct buf *out, struct bytes text, struct arena *arena, unsigned depth)
{
    struct json json;
    struct json_value value;
    int64_t number;
    CHECK(depth <= DEPTH);
    json_init(&json, text, DEPTH);
    struct json inside = json;
    CHECK(json_value(&json, &value) && json_end(&json));
    switch (value.kind) {
    case JSON_KIND_NULL: buf_add_str(out, "n"); break;
    case JSON_KIND_BOOL: buf_add_bytes(out, value.text); break;
    case JSON_KIND_NUMBER:
        if (json_int(&value, &number))
            buf_addf(out, "i%lld", (long long)number);
        else
            buf_add_char(out, 'r');
        break;
    case JSON_KIND_STRING:
        buf_add_char(out, '"');
        buf_add_bytes(out, json_text(&value, arena));
        buf_add_char(out, '"');
        break;
    case JSON_KIND_ARRAY:
        CHECK(json_open(&inside, JSON_KIND_ARRAY));
        buf_add_char(out, '[');
        while (json_item(&inside, &value)) {
            struct bytes raw = value.text;
            if (value.kind == JSON_KIND_STRING)
                raw = bytes_of(raw.at - 1, raw.len + 2);
            add_ours(out, raw, arena, depth + 1);
            buf_add_char(out, ',');
        }
        CHECK(json_end(&inside));
        buf_add_char(out, ']');
        break;
    case JSON_KIND_OBJECT:
        CHECK(json_open(&inside, JSON_KIND_OBJECT));
        buf_add_char(out, '{');
        add_members(out, &inside, arena, depth);
        CHECK(json_end(&inside));
        buf_add_char(out, '}');
        break;
    }
}

static void add_theirs(struct buf *out, json_t *value)
{
    const char *key;
    json_t *inner;
    size_t i;
    switch (json_typeof(value)) {
    case JSON_NULL: buf_add_str(out, "n"); break;
    case JSON_TRUE: buf_add_str(out, "true"); break;
    case JSON_FALSE: buf_add_str(out, "false"); break;
    case JSON_REAL: buf_add_char(out, 'r'); break;
    case JSON_INTEGER: buf_addf(out, "i%lld", (long long)json_integer_value(value)); break;
    case JSON_STRING:
        buf_add_char(out, '"');
        buf_add(out, json_string_value(value), json_string_length(value));
        buf_add_char(out, '"');
        break;
    case JSON_ARRAY:
        buf_add_char(out, '[');
        json_array_foreach(value, i, inner)
        {
            add_theirs(out, inner);
            buf_add_char(out, ',');
        }
        buf_add_char(out, ']');
        break;
    case JSON_OBJECT:
        buf_add_char(out, '{');
        json_object_foreach(value, key, inner)
        {
            buf_add_str(out, key);
            buf_add_char(out, ':');
            add_theirs(out, inner);
        }
        buf_add_char(out, '}');
        break;
    }
}

/* What we write, we read back as it was. */
static void check_writer(struct bytes text, enum json_style format)
{
    struct buf out = {0};
    struct arena arena = {0};
    struct json json;
    struct json_value value;
    json_add_text(&out, text, format);
    json_init(&json, buf_bytes(&out), 1);
    CHECK(json_value(&json, &value) && json_end(&json) && value.kind == JSON_KIND_STRING);
    if (bytes_is_utf8(text))
        CHECK(bytes_eq(json_text(&value, &arena), text));
    arena_fini(&arena);
    buf_fini(&out);
}

/* Who takes halves of surrogate pairs gets UTF-8, and takes all that is taken without. */
static void check_halves(struct bytes text, bool strict)
{
    struct arena arena = {0};
    struct json json;
    struct json_value value;
    json_init(&json, text, DEPTH);
    json.takes_halves = true;
    bool taken = json_value(&json, &value) && json_end(&json);
    CHECK(taken || !strict);
    if (taken && value.kind == JSON_KIND_STRING)
        CHECK(bytes_is_utf8(json_text(&value, &arena)));
    arena_fini(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes text = bytes_of(data, size);
    json_error_t error;
    size_t flags = JSON_DECODE_ANY | JSON_ALLOW_NUL;
    struct json json;
    struct json_value value;
    check_writer(text, JSON_STYLE_PLAIN);
    check_writer(text, JSON_STYLE_HTML);
    json_init(&json, text, DEPTH);
    bool ours = json_value(&json, &value) && json_end(&json);
    check_halves(text, ours);
    if (json.wrong && strstr(json.wrong, "json_depth"))
        return 0; /* jansson's limit is another */
    if (size && memchr(data, '\0', size)) {
        CHECK(!ours);
        return 0;
    }
    json_t *theirs = json_loadb((const char *)data, size, flags, &error);
    if (!theirs && (json_error_code(&error) == json_error_numeric_overflow ||
                    json_error_code(&error) == json_error_null_byte_in_key))
        return 0;
    CHECK(ours == (theirs != NULL));
    json_t *unique = json_loadb((const char *)data, size, flags | JSON_REJECT_DUPLICATES, &error);
    if (unique) {
        struct buf a = {0}, b = {0};
        struct arena arena = {0};
        add_ours(&a, text, &arena, 0);
        add_theirs(&b, unique);
        CHECK(bytes_eq(buf_bytes(&a), buf_bytes(&b)));
        buf_fini(&a);
        buf_fini(&b);
        arena_fini(&arena);
    }
    json_decref(unique);
    json_decref(theirs);
    return 0;
}
