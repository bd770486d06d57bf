#include "proto/settings/job_properties.h"

#include <stdio.h>

#include "base/rfc3339.h"
#include "proto/settings/header_codec.h"
#include "proto/settings/target_url.h"

static struct job_properties *of(struct settings_reader *reader)
{
    return reader->into;
}

bool job_key_read(struct settings_reader *reader, struct bytes *out_key)
{
    struct bytes key;
    if (!settings_text(reader, JOB_KEY_MAX, &key))
        return false;
    if (key.len == 0 || !bytes_is_printable(key))
        return settings_bad(reader, "a key is 1 … %d bytes without control characters",
                            JOB_KEY_MAX);
    *out_key = key;
    return true;
}

static bool read_url(struct settings_reader *reader)
{
    return url_read(reader, &of(reader)->url);
}

static bool read_key(struct settings_reader *reader)
{
    return job_key_read(reader, &of(reader)->key);
}

static bool read_headers(struct settings_reader *reader)
{
    return headers_read(reader, of(reader)->headers, &of(reader)->header_count);
}

static bool read_amqp(struct settings_reader *reader)
{
    return settings_base64(reader, &of(reader)->amqp);
}

/* ---- labels ---- */

static const char *const label_names[LABEL_COUNT] = {
    [LABEL_BIZ_KEY] = "biz_key",         [LABEL_SUBTOPIC] = "subtopic",       [LABEL_TAGS] = "tags",
    [LABEL_EXTEND_DATA] = "extend_data", [LABEL_CREATE_TIME] = "create_time", [LABEL_RANK] = "rank",
};

enum job_label job_label_named(struct bytes name)
{
    enum job_label label = 0;
    while (label < LABEL_COUNT && !bytes_eq(name, bytes_str(label_names[label])))
        label++;
    return label;
}

static bool read_line(struct settings_reader *reader, size_t bytes_max, struct bytes *out_text)
{
    struct bytes text;
    if (!settings_text(reader, bytes_max, &text))
        return false;
    if (text.len == 0 || !bytes_is_printable(text))
        return settings_bad(reader, "this is 1 … %zu bytes without control characters", bytes_max);
    *out_text = text;
    return true;
}

static bool read_extend_data(struct settings_reader *reader, struct bytes *out_text)
{
    struct bytes text;
    if (!settings_text(reader, JOB_EXTEND_DATA_MAX, &text))
        return false;
    if (text.len == 0 || memchr(text.at, '\0', text.len))
        return settings_bad(reader, "this is 1 … %d bytes without NUL", JOB_EXTEND_DATA_MAX);
    *out_text = text;
    return true;
}

/* What settings_items() reads tags into. */
struct tag_list {
    unsigned count;
    size_t len;
    char text[JOB_TAGS_TEXT_MAX];
};

static bool read_tag(struct settings_reader *reader)
{
    struct tag_list *list = reader->into;
    struct bytes tag;
    if (!settings_text(reader, JOB_TAG_MAX, &tag))
        return false;
    if (tag.len == 0 || !bytes_is_printable(tag) || memchr(tag.at, ',', tag.len))
        return settings_bad(reader, "a tag is 1 … %d bytes without commas and control characters",
                            JOB_TAG_MAX);
    if (list->count == JOB_TAGS_MAX)
        return settings_bad(reader, "a job has up to %d tags", JOB_TAGS_MAX);
    if (list->count++)
        list->text[list->len++] = ',';
    memcpy(list->text + list->len, tag.at, tag.len);
    list->len += tag.len;
    return true;
}

static bool read_tags(struct settings_reader *reader, struct bytes *out_tags)
{
    struct tag_list list = {.count = 0};
    void *outer = reader->into;
    if (reader->value.kind != JSON_KIND_ARRAY)
        return settings_bad(reader, "the tags must be an array of strings");
    reader->into = &list;
    bool good = settings_items(reader, read_tag);
    reader->into = outer;
    if (good)
        *out_tags = arena_copy(reader->scratch, bytes_of(list.text, list.len));
    return good;
}

static bool read_create_time(struct settings_reader *reader, int64_t *out_ms)
{
    int64_t at_us;
    if (reader->value.kind != JSON_KIND_STRING)
        return settings_number(reader, 1, RFC3339_MAX_US / 1000, out_ms);
    if (!rfc3339_read(json_text(&reader->value, reader->scratch), &at_us) || at_us < 1000)
        return settings_bad(reader, "this must be epoch milliseconds or RFC 3339, after 1970");
    *out_ms = at_us / 1000;
    return true;
}

static bool read_rank(struct settings_reader *reader, uint32_t *out_rank)
{
    int64_t rank;
    if (!settings_number(reader, 0, UINT32_MAX, &rank))
        return false;
    *out_rank = (uint32_t)rank;
    return true;
}

bool job_label_read(struct settings_reader *reader, enum job_label label,
                    struct job_properties *properties)
{
    switch (label) {
    case LABEL_BIZ_KEY: return read_line(reader, JOB_BIZ_KEY_MAX, &properties->biz_key);
    case LABEL_SUBTOPIC: return read_line(reader, JOB_SUBTOPIC_MAX, &properties->subtopic);
    case LABEL_TAGS: return read_tags(reader, &properties->tags);
    case LABEL_EXTEND_DATA: return read_extend_data(reader, &properties->extend_data);
    case LABEL_CREATE_TIME: return read_create_time(reader, &properties->create_ms);
    case LABEL_RANK: return read_rank(reader, &properties->rank);
    case LABEL_COUNT: break;
    }
    return false;
}

static bool read_biz_key(struct settings_reader *reader)
{
    return job_label_read(reader, LABEL_BIZ_KEY, of(reader));
}

static bool read_subtopic(struct settings_reader *reader)
{
    return job_label_read(reader, LABEL_SUBTOPIC, of(reader));
}

static bool read_label_tags(struct settings_reader *reader)
{
    return job_label_read(reader, LABEL_TAGS, of(reader));
}

static bool read_label_extend_data(struct settings_reader *reader)
{
    return job_label_read(reader, LABEL_EXTEND_DATA, of(reader));
}

static bool read_label_create_time(struct settings_reader *reader)
{
    return job_label_read(reader, LABEL_CREATE_TIME, of(reader));
}

static bool read_label_rank(struct settings_reader *reader)
{
    return job_label_read(reader, LABEL_RANK, of(reader));
}

static void write_tags(struct bytes tags, struct buf *out)
{
    settings_add_key(out, label_names[LABEL_TAGS]);
    buf_add_char(out, '[');
    for (;;) {
        const char *comma = memchr(tags.at, ',', tags.len);
        size_t len = comma ? (size_t)(comma - tags.at) : tags.len;
        json_add_text(out, bytes_of(tags.at, len), JSON_STYLE_PLAIN);
        if (!comma)
            break;
        buf_add_char(out, ',');
        tags = bytes_of(comma + 1, tags.len - len - 1);
    }
    buf_add_char(out, ']');
}

static void write_create_time(int64_t create_ms, bool as_text, struct buf *out)
{
    if (!as_text) {
        settings_add_number(out, label_names[LABEL_CREATE_TIME], create_ms);
        return;
    }
    settings_add_key(out, label_names[LABEL_CREATE_TIME]);
    buf_add_char(out, '"');
    rfc3339_add(out, create_ms * 1000);
    buf_add_char(out, '"');
}

void job_labels_write(const struct job_properties *properties, bool times_as_text, struct buf *out)
{
    if (properties->biz_key.len)
        settings_add_text(out, label_names[LABEL_BIZ_KEY], properties->biz_key);
    if (properties->subtopic.len)
        settings_add_text(out, label_names[LABEL_SUBTOPIC], properties->subtopic);
    if (properties->tags.len)
        write_tags(properties->tags, out);
    if (properties->extend_data.len)
        settings_add_text(out, label_names[LABEL_EXTEND_DATA], properties->extend_data);
    if (properties->create_ms)
        write_create_time(properties->create_ms, times_as_text, out);
    if (properties->rank)
        settings_add_number(out, label_names[LABEL_RANK], properties->rank);
}

/* ---- all of them ---- */

enum err job_properties_read(struct bytes text, struct arena *scratch,
                             struct job_properties *out_properties,
                             struct settings_problem *out_problem)
{
    static const struct settings_field fields[] = {{"url", read_url},
                                                   {"key", read_key},
                                                   {"headers", read_headers},
                                                   {"amqp", read_amqp},
                                                   {"biz_key", read_biz_key},
                                                   {"subtopic", read_subtopic},
                                                   {"tags", read_label_tags},
                                                   {"extend_data", read_label_extend_data},
                                                   {"create_time", read_label_create_time},
                                                   {"rank", read_label_rank}};
    struct job_properties properties = {0};
    struct settings_problem unwanted;
    struct settings_reader reader;
    settings_reader_init(&reader, scratch, "", out_problem ? out_problem : &unwanted);
    if (text.len && !settings_object(&reader, text, fields, sizeof(fields) / sizeof(fields[0]),
                                     &properties, NULL))
        return ERR_INVALID;
    *out_properties = properties;
    return OK;
}

/* The field that the others would best be rid of. */
static void name_largest(const struct job_properties *properties, size_t len,
                         struct settings_problem *problem)
{
    size_t headers = 0;
    for (unsigned i = 0; i < properties->header_count; i++)
        headers += properties->headers[i].name.len + properties->headers[i].value.len;
    const struct {
        const char *name;
        size_t bytes;
    } fields[] = {{"amqp", properties->amqp.len},
                  {"headers", headers},
                  {"url", properties->url.len},
                  {"extend_data", properties->extend_data.len},
                  {"tags", properties->tags.len}};
    unsigned largest = 0;
    for (unsigned i = 1; i < sizeof(fields) / sizeof(fields[0]); i++) {
        if (fields[i].bytes > fields[largest].bytes)
            largest = i;
    }
    *problem = (struct settings_problem){.code = "properties_too_large"};
    (void)snprintf(problem->field, sizeof(problem->field), "%s", fields[largest].name);
    (void)snprintf(problem->detail, sizeof(problem->detail),
                   "url, key, headers, subtopic, tags and extend_data of this job make %zu bytes "
                   "as they are stored, the limit is %d",
                   len, JOB_PROPERTIES_MAX);
}

enum err job_properties_write(const struct job_properties *properties, struct buf *out,
                              struct settings_problem *out_problem)
{
    struct buf text = {0};
    enum err err = OK;
    buf_add_char(&text, '{');
    if (properties->url.len)
        settings_add_text(&text, "url", properties->url);
    if (properties->key.len)
        settings_add_text(&text, "key", properties->key);
    if (properties->header_count) {
        settings_add_key(&text, "headers");
        headers_write(properties->headers, properties->header_count, &text);
    }
    if (properties->amqp.len)
        settings_add_base64(&text, "amqp", properties->amqp);
    job_labels_write(properties, false, &text);
    buf_add_char(&text, '}');
    if (text.len > JOB_PROPERTIES_MAX) {
        name_largest(properties, text.len, out_problem);
        err = ERR_TOO_LARGE;
    } else if (text.len > 2) {
        buf_add_bytes(out, buf_bytes(&text));
    }
    buf_fini(&text);
    return err;
}
