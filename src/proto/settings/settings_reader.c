#include "proto/settings/settings_reader.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/rfc3339.h"
#include "base/typo.h"
#include "proto/base64.h"

enum { MILLISECOND_US = 1000 };

void settings_reader_init(struct settings_reader *reader, struct arena *scratch, const char *path,
                          struct settings_problem *problem)
{
    size_t len = strnlen(path, SETTINGS_PATH_MAX - 1);
    *reader = (struct settings_reader){.scratch = scratch, .problem = problem, .path_len = len};
    memcpy(reader->path, path, len);
    *problem = (struct settings_problem){.code = "bad_field"};
}

/* ---- refusals ---- */

static void name_field(const struct settings_reader *reader)
{
    char *field = reader->problem->field;
    size_t len = reader->path_len, max = sizeof(reader->problem->field) - 1;
    len = len < max ? len : max;
    len = bytes_utf8_prefix(bytes_of(reader->path, len)); /* not in the middle of a character */
    memcpy(field, reader->path, len);
    field[len] = '\0';
}

static bool refuse(struct settings_reader *reader, const char *code, const char *detail)
{
    reader->problem->code = code;
    name_field(reader);
    (void)snprintf(reader->problem->detail, sizeof(reader->problem->detail), "%s", detail);
    return false;
}

bool settings_bad(struct settings_reader *reader, const char *format, ...)
{
    va_list arguments;
    reader->problem->code = "bad_field";
    name_field(reader);
    va_start(arguments, format);
    (void)vsnprintf(reader->problem->detail, sizeof(reader->problem->detail), format, arguments);
    va_end(arguments);
    return false;
}

/* Only in the outermost text, which begins at `begin`, may something be wrong by itself: values in
   it have been read as a whole. */
static bool refuse_json(struct settings_reader *reader, const struct json *json, const char *begin)
{
    if (json->too_deep)
        return settings_bad(reader, "this is nested too deep");
    if (!json->wrong_at)
        return refuse(reader, "bad_json", json->wrong);
    (void)settings_bad(reader, "%s, at byte %zu", json->wrong,
                       (size_t)(json->wrong_at - begin) + 1);
    reader->problem->code = "bad_json";
    return false;
}

/* ---- the path of the present value ---- */

static void path_add(struct settings_reader *reader, struct bytes text)
{
    size_t room = SETTINGS_PATH_MAX - 1 - reader->path_len;
    size_t len = text.len < room ? text.len : room;
    if (len)
        memcpy(reader->path + reader->path_len, text.at, len);
    reader->path_len += len;
}

void settings_path_member(struct settings_reader *reader, struct bytes name)
{
    if (reader->path_len)
        path_add(reader, BYTES("."));
    path_add(reader, name);
}

static void path_add_item(struct settings_reader *reader, unsigned place)
{
    char text[16];
    int len = snprintf(text, sizeof(text), "[%u]", place);
    path_add(reader, bytes_of(text, (size_t)len));
}

/* ---- objects and arrays ---- */

static const struct settings_field *find(const struct settings_field *fields, size_t count,
                                         struct bytes name)
{
    for (size_t i = 0; i < count; i++) {
        if (bytes_eq(name, bytes_str(fields[i].name)))
            return &fields[i];
    }
    return NULL;
}

/* The field that `name` is probably a typing mistake for, or NULL. */
static const char *meant_name(const struct settings_field *fields, size_t field_count,
                              struct bytes name)
{
    struct typo typo;
    typo_begin(&typo, name.at, name.len);
    for (size_t i = 0; i < field_count; i++)
        typo_add(&typo, fields[i].name);
    return typo.meant;
}

/* The error has the name that was probably meant, or the valid ones, so that nobody has to read
   the documentation for them. */
static bool refuse_name(struct settings_reader *reader, const struct settings_field *fields,
                        size_t field_count, struct bytes name)
{
    char text[sizeof(reader->problem->detail)] = "there is no field of that name here, but";
    size_t len = strlen(text);
    const char *meant = meant_name(fields, field_count, name);
    if (meant) {
        (void)snprintf(text, sizeof(text), "there is no field of that name here; did you mean %s?",
                       meant);
        return refuse(reader, "unknown_field", text);
    }
    for (size_t i = 0; i < field_count && len < sizeof(text); i++) {
        int added = snprintf(text + len, sizeof(text) - len, "%s %s", i ? "," : "", fields[i].name);
        len += added > 0 ? (size_t)added : 0;
    }
    return refuse(reader, "unknown_field", text);
}

bool settings_object(struct settings_reader *reader, struct bytes text,
                     const struct settings_field *fields, size_t field_count, void *into,
                     uint32_t *out_given)
{
    const struct settings_reader outer = *reader;
    struct json json;
    struct json_value name, value;
    uint32_t given = 0;
    CHECK(field_count <= SETTINGS_FIELDS_MAX);
    json_init(&json, text, SETTINGS_DEPTH);
    if (!json_open(&json, JSON_KIND_OBJECT))
        return refuse_json(reader, &json, text.at);
    reader->into = into;
    while (json_member(&json, &name, &value)) {
        const struct settings_field *field =
            find(fields, field_count, json_text(&name, reader->scratch));
        reader->path_len = outer.path_len;
        settings_path_member(reader, json_text(&name, reader->scratch));
        if (!field)
            return refuse_name(reader, fields, field_count, json_text(&name, reader->scratch));
        uint32_t bit = (uint32_t)1 << (field - fields);
        if (given & bit)
            return refuse(reader, "duplicate_field", "this field was given twice");
        given |= bit;
        reader->value = value;
        if (!field->read(reader))
            return false;
    }
    reader->path_len = outer.path_len;
    reader->value = outer.value;
    reader->into = outer.into;
    if (out_given)
        *out_given = given;
    return json_end(&json) || refuse_json(reader, &json, text.at);
}

bool settings_inner_object(struct settings_reader *reader, const struct settings_field *fields,
                           size_t field_count, void *into, uint32_t *out_given)
{
    if (reader->value.kind != JSON_KIND_OBJECT)
        return settings_bad(reader, "this must be an object");
    return settings_object(reader, reader->value.text, fields, field_count, into, out_given);
}

bool settings_members(struct settings_reader *reader,
                      bool (*each)(struct settings_reader *reader, struct bytes name))
{
    const struct json_value object = reader->value;
    struct json json;
    struct json_value name, value;
    size_t path_len = reader->path_len;
    if (object.kind != JSON_KIND_OBJECT)
        return settings_bad(reader, "this must be an object");
    json_init(&json, object.text, SETTINGS_DEPTH);
    (void)json_open(&json, JSON_KIND_OBJECT);
    while (json_member(&json, &name, &value)) {
        struct bytes text = json_text(&name, reader->scratch);
        reader->path_len = path_len;
        settings_path_member(reader, text);
        reader->value = value;
        if (!each(reader, text))
            return false;
    }
    reader->path_len = path_len;
    reader->value = object;
    return !json.wrong || refuse_json(reader, &json, object.text.at);
}

bool settings_items(struct settings_reader *reader, bool (*each)(struct settings_reader *reader))
{
    const struct json_value array = reader->value;
    struct json json;
    struct json_value value;
    size_t path_len = reader->path_len;
    unsigned place = 0;
    if (array.kind != JSON_KIND_ARRAY)
        return settings_bad(reader, "this must be an array");
    json_init(&json, array.text, SETTINGS_DEPTH);
    (void)json_open(&json, JSON_KIND_ARRAY);
    while (json_item(&json, &value)) {
        reader->path_len = path_len;
        path_add_item(reader, place++);
        reader->value = value;
        if (!each(reader))
            return false;
    }
    reader->path_len = path_len;
    reader->value = array;
    return !json.wrong || refuse_json(reader, &json, array.text.at);
}

/* ---- values ---- */

bool settings_text(struct settings_reader *reader, size_t bytes_max, struct bytes *out_text)
{
    if (reader->value.kind != JSON_KIND_STRING)
        return settings_bad(reader, "this must be a string");
    struct bytes text = json_text(&reader->value, reader->scratch);
    if (text.len > bytes_max)
        return settings_bad(reader, "this has %zu bytes, the limit is %zu", text.len, bytes_max);
    *out_text = text;
    return true;
}

bool settings_number(struct settings_reader *reader, int64_t least, int64_t most,
                     int64_t *out_number)
{
    int64_t number;
    if (!json_int(&reader->value, &number) || number < least || number > most)
        return settings_bad(reader, "this must be a whole number, %lld … %lld", (long long)least,
                            (long long)most);
    *out_number = number;
    return true;
}

bool settings_bool(struct settings_reader *reader, bool *out_is)
{
    if (reader->value.kind != JSON_KIND_BOOL)
        return settings_bad(reader, "this must be true or false");
    *out_is = bytes_eq(reader->value.text, BYTES("true"));
    return true;
}

bool settings_duration_value(const struct json_value *value, struct arena *scratch, int64_t *out_us)
{
    int64_t ms, us;
    if (value->kind == JSON_KIND_STRING)
        return duration_read(json_text(value, scratch), out_us);
    if (!json_int(value, &ms) || ms < 0 || __builtin_mul_overflow(ms, MILLISECOND_US, &us))
        return false;
    *out_us = us;
    return true;
}

bool settings_duration(struct settings_reader *reader, int64_t least_us, int64_t most_us,
                       int64_t *out_us)
{
    char least[DURATION_ROOM], most[DURATION_ROOM];
    int64_t us;
    if (!settings_duration_value(&reader->value, reader->scratch, &us))
        return settings_bad(reader, "%s", SETTINGS_DURATION_WANTED);
    if (us < least_us || us > most_us)
        return settings_bad(reader, "this duration must be %s … %s",
                            duration_print(least_us, least), duration_print(most_us, most));
    *out_us = us;
    return true;
}

bool settings_word(struct settings_reader *reader, const char *const *words, unsigned *out_place)
{
    struct bytes text = {0};
    char list[160] = "";
    size_t len = 0;
    if (!settings_text(reader, 64, &text))
        return false;
    for (unsigned i = 0; words[i]; i++) {
        if (bytes_eq(text, bytes_str(words[i]))) {
            *out_place = i;
            return true;
        }
        if (len < sizeof(list))
            len +=
                (size_t)snprintf(list + len, sizeof(list) - len, "%s%s", i ? ", " : "", words[i]);
    }
    return settings_bad(reader, "this is not one of %s", list);
}

bool settings_base64(struct settings_reader *reader, struct bytes *out_data)
{
    if (reader->value.kind != JSON_KIND_STRING)
        return settings_bad(reader, "this must be a string");
    return base64_read(json_text(&reader->value, reader->scratch), reader->scratch, out_data) ||
           settings_bad(reader, "this must be base64 with padding (RFC 4648, section 4)");
}

/* ---- writing ---- */

void settings_add_key(struct buf *out, const char *key)
{
    if (out->len && out->at[out->len - 1] != '{')
        buf_add_char(out, ',');
    buf_add_char(out, '"');
    buf_add_str(out, key);
    buf_add_str(out, "\":");
}

void settings_add_base64(struct buf *out, const char *key, struct bytes data)
{
    settings_add_key(out, key);
    buf_add_char(out, '"');
    base64_write(out, data);
    buf_add_char(out, '"');
}

void settings_add_text(struct buf *out, const char *key, struct bytes text)
{
    settings_add_key(out, key);
    json_add_text(out, text, JSON_STYLE_PLAIN);
}

void settings_add_number(struct buf *out, const char *key, int64_t number)
{
    settings_add_key(out, key);
    buf_add_i64(out, number);
}

void settings_put_duration(struct buf *out, int64_t us)
{
    char room[DURATION_ROOM];
    buf_add_char(out, '"');
    buf_add_str(out, duration_print(us, room));
    buf_add_char(out, '"');
}

void settings_add_duration(struct buf *out, const char *key, int64_t us)
{
    settings_add_key(out, key);
    settings_put_duration(out, us);
}
