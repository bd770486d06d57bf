#include "cli/raw_json.h"

#include <stdlib.h>

#include "proto/json.h"

bool raw_json_check(struct bytes text, const char **out_why)
{
    struct json json;
    struct json_value value;
    json_init(&json, text, JSON_DEPTH_MAX);
    bool good = json_value(&json, &value) && json_end(&json);
    *out_why = good ? NULL : json.wrong;
    return good;
}

void raw_json_add_line(struct buf *out, struct bytes text)
{
    size_t start = out->len;
    buf_add_bytes(out, text);
    for (size_t i = start; i < out->len; i++) { /* within a string there is none */
        if (out->at[i] == '\n' || out->at[i] == '\r')
            out->at[i] = ' ';
    }
}

static void add_value(struct buf *out, const struct json_value *value)
{
    bool quoted = value->kind == JSON_KIND_STRING;
    buf_add_str(out, quoted ? "\"" : "");
    buf_add_bytes(out, value->text);
    buf_add_str(out, quoted ? "\"" : "");
}

static void add_member(struct buf *out, const struct json_value *name,
                       const struct json_value *value)
{
    add_value(out, name);
    buf_add_char(out, ':');
    add_value(out, value);
}

/* The members of an object of jansson's, without its braces. */
static void add_members(struct buf *out, const json_t *object)
{
    char *text = json_dumps(object, JSON_COMPACT);
    if (text)
        buf_add(out, text + 1, strlen(text) - 2);
    free(text); /* jansson's */
}

/* Without the white space between its tokens: it becomes a part of a line. */
static void add_compact(struct buf *out, struct bytes text)
{
    bool quoted = false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];
        if (!quoted && (c == ' ' || c == '\t' || c == '\n' || c == '\r'))
            continue;
        buf_add_char(out, c);
        if (quoted && c == '\\' && i + 1 < text.len)
            buf_add_char(out, text.at[++i]);
        else
            quoted ^= c == '"';
    }
}

void raw_json_add_object(struct buf *out, const json_t *fields, const char *key, struct bytes text)
{
    buf_add_char(out, '{');
    add_members(out, fields);
    buf_addf(out, "%s\"%s\":", json_object_size(fields) ? "," : "", key);
    add_compact(out, text);
    buf_add_char(out, '}');
}

bool raw_json_merge(struct buf *out, struct bytes line, const json_t *fields)
{
    struct json json;
    struct json_value name, value;
    struct arena scratch = {0};
    size_t start = out->len;
    bool any = false;
    json_t *missing = json_copy((json_t *)(uintptr_t)fields); /* it changes nothing in it */
    json_init(&json, line, JSON_DEPTH_MAX);
    bool good = json_open(&json, JSON_KIND_OBJECT);
    buf_add_char(out, '{');
    while (good && json_member(&json, &name, &value)) {
        struct bytes key = json_text(&name, &scratch);
        buf_add_str(out, any ? "," : "");
        add_member(out, &name, &value);
        (void)json_object_deln(missing, key.at, key.len); /* most are not there */
        any = true;
    }
    good = good && json_end(&json);
    if (json_object_size(missing)) {
        buf_add_str(out, any ? "," : "");
        add_members(out, missing);
    }
    buf_add_char(out, '}');
    if (!good)
        out->len = start;
    json_decref(missing);
    arena_fini(&scratch);
    return good;
}

/* Goes through an object; false: it is not an object. With `jobs`, its jobs are packed, too. */
static bool pack_object(struct buf *out, struct bytes text, bool jobs);

static bool pack_jobs(struct buf *out, struct bytes list)
{
    struct json json;
    struct json_value item;
    bool any = false;
    json_init(&json, list, JSON_DEPTH_MAX);
    bool good = json_open(&json, JSON_KIND_ARRAY);
    buf_add_char(out, '[');
    while (good && json_item(&json, &item)) {
        buf_add_str(out, any ? "," : "");
        good = pack_object(out, item.text, false);
        any = true;
    }
    buf_add_char(out, ']');
    return good && !json.wrong;
}

static bool pack_object(struct buf *out, struct bytes text, bool jobs)
{
    struct json json;
    struct json_value name, value;
    bool any = false;
    json_init(&json, text, JSON_DEPTH_MAX);
    bool good = json_open(&json, JSON_KIND_OBJECT);
    buf_add_char(out, '{');
    while (good && json_member(&json, &name, &value)) {
        buf_add_str(out, any ? "," : "");
        any = true;
        if (bytes_eq(name.text, BYTES("body")) && value.kind != JSON_KIND_STRING) {
            buf_add_str(out, "\"body_json\":");
            json_add_text(out, value.text, JSON_STYLE_PLAIN);
        } else if (jobs && bytes_eq(name.text, BYTES("jobs")) && value.kind == JSON_KIND_ARRAY) {
            buf_add_str(out, "\"jobs\":");
            good = pack_jobs(out, value.text);
        } else {
            add_member(out, &name, &value);
        }
    }
    buf_add_char(out, '}');
    return good && json_end(&json);
}

void raw_json_pack_bodies(struct buf *out, struct bytes answer)
{
    size_t start = out->len;
    if (answer.len && memmem(answer.at, answer.len, "\"body\":", 7) &&
        pack_object(out, answer, true))
        return;
    out->len = start;
    buf_add_bytes(out, answer);
}
