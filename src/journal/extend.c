#include "journal/extend.h"

#include "base/rfc3339.h"
#include "proto/base64.h"
#include "proto/json.h"
#include "proto/settings/job_properties.h"

enum { DEPTH_MAX = 32 };

/* ---- writing ---- */

struct extend extend_of(const struct event *event, const struct group_job *job)
{
    return (struct extend){
        .priority = job->priority,
        .failures = job->failures,
        .us = (uint16_t)(job->due_us > 0 ? job->due_us % 1000 : 0),
        .ttr_us = event->ttr_us,
        .retry_us = event->retry_us,
        .retry_count = event->retry_count,
        .order = event->order,
        .json = event->body_kind == BODY_JSON,
        .base64 = !bytes_is_utf8(event->body),
        .content_type = event->content_type,
        .properties = event->properties,
    };
}

static void add_retry(struct buf *out, const struct extend *extend)
{
    buf_add_str(out, ",\"retry_ms\":[");
    for (unsigned i = 0; i < extend->retry_count; i++) {
        if (i)
            buf_add_char(out, ',');
        buf_add_i64(out, extend->retry_us[i] / 1000);
    }
    buf_add_char(out, ']');
}

static void add_text(struct buf *out, const char *name, struct bytes text)
{
    buf_add_str(out, name);
    json_add_text(out, text, JSON_STYLE_PLAIN);
}

void extend_write(struct buf *out, const struct extend *extend)
{
    buf_addf(out, "{\"laterd\":1,\"priority\":%lu,\"failures\":%u,\"us\":%u",
             (unsigned long)extend->priority, extend->failures, extend->us);
    if (extend->retry_count)
        add_retry(out, extend);
    if (extend->ttr_us % 1000000 || extend->ttr_us / 1000000 >= INT32_MAX)
        buf_addf(out, ",\"ttr_ms\":%lld", (long long)((extend->ttr_us + 999) / 1000));
    if (extend->content_type.len)
        add_text(out, ",\"content_type\":", extend->content_type);
    if (extend->base64)
        buf_add_str(out, ",\"body\":\"base64\"");
    else if (extend->json)
        buf_add_str(out, ",\"body\":\"json\"");
    if (extend->order == ORDER_ARRIVAL)
        buf_add_str(out, ",\"order\":\"arrival\"");
    if (extend->properties.len)
        add_text(out, ",\"properties\":", extend->properties);
    buf_add_char(out, '}');
}

/* ---- columns of the table ---- */

static bool is(const struct json_value *name, const char *word)
{
    return bytes_eq(name->text, bytes_str(word));
}

struct extend_names extend_names(struct bytes properties, struct arena *arena)
{
    struct extend_names names = {.create_ms = -1};
    struct json json;
    struct json_value name, value;
    if (!properties.len)
        return names;
    json_init(&json, properties, DEPTH_MAX);
    if (!json_open(&json, JSON_KIND_OBJECT))
        return names;
    while (json_member(&json, &name, &value)) {
        if (is(&name, "biz_key") && value.kind == JSON_KIND_STRING)
            names.bizkey = json_text(&value, arena);
        else if (is(&name, "subtopic") && value.kind == JSON_KIND_STRING)
            names.subtopic = json_text(&value, arena);
        else if (is(&name, "create_time") && value.kind == JSON_KIND_NUMBER &&
                 !json_int(&value, &names.create_ms))
            names.create_ms = -1;
    }
    return names;
}

/* ---- reading a row back ---- */

struct reading {
    const struct extend_row *row;
    struct arena *arena;
    struct cmd_push *push;
    int64_t us;
    bool ours, base64;
    const char *wrong;
};

static bool read_retry(struct reading *reading, const struct json_value *value)
{
    struct json json;
    struct json_value item;
    int64_t *waits_us = arena_alloc(reading->arena, RETRY_STEPS_MAX * sizeof(*waits_us));
    unsigned count = 0;
    json_init(&json, value->text, DEPTH_MAX);
    if (!json_open(&json, JSON_KIND_ARRAY))
        return false;
    while (json_item(&json, &item)) {
        int64_t ms;
        if (count == RETRY_STEPS_MAX || item.kind != JSON_KIND_NUMBER || !json_int(&item, &ms) ||
            ms < 0 || ms > INT64_MAX / 1000)
            return false;
        waits_us[count++] = ms * 1000;
    }
    reading->push->retry_us = waits_us;
    reading->push->retry_count = (uint8_t)count;
    return true;
}

static bool read_number(const struct json_value *value, int64_t least, int64_t most,
                        int64_t *out_number)
{
    return value->kind == JSON_KIND_NUMBER && json_int(value, out_number) && *out_number >= least &&
           *out_number <= most;
}

static bool read_words(struct reading *reading, const struct json_value *name,
                       const struct json_value *value)
{
    struct cmd_push *push = reading->push;
    struct bytes text = json_text(value, reading->arena);
    if (is(name, "body")) {
        reading->base64 = bytes_eq(text, BYTES("base64"));
        push->body_kind = bytes_eq(text, BYTES("json")) ? BODY_JSON : BODY_BYTES;
    } else if (is(name, "order")) {
        push->order = bytes_eq(text, BYTES("arrival")) ? ORDER_ARRIVAL : ORDER_DUE;
    } else if (is(name, "content_type")) {
        /* An invalid content type, which AMQP allowed, is dropped rather than the job. */
        push->content_type = bytes_is_printable(text) ? text : bytes_of("", 0);
        return text.len <= CONTENT_TYPE_MAX;
    } else if (is(name, "properties")) {
        push->properties = text;
        return text.len <= JOB_PROPERTIES_MAX;
    }
    return true;
}

static bool read_member(struct reading *reading, const struct json_value *name,
                        const struct json_value *value)
{
    int64_t number = 0;
    if (is(name, "priority")) {
        if (!read_number(value, 0, UINT32_MAX, &number))
            return false;
        reading->push->priority = (uint32_t)number;
    } else if (is(name, "failures")) {
        if (!read_number(value, 0, UINT16_MAX, &number))
            return false;
        reading->push->failures = (uint16_t)number;
    } else if (is(name, "us")) {
        return read_number(value, 0, 999, &reading->us);
    } else if (is(name, "ttr_ms")) {
        if (!read_number(value, 1, INT64_MAX / 1000, &number))
            return false;
        reading->push->ttr_us = number * 1000;
    } else if (is(name, "retry_ms")) {
        return read_retry(reading, value);
    } else if (value->kind == JSON_KIND_STRING) {
        return read_words(reading, name, value);
    }
    return true;
}

/* Is it JSON that we wrote? Anything else is a client's, and kept as it is. */
static bool is_ours(struct bytes text)
{
    struct json json;
    struct json_value name, value;
    json_init(&json, text, DEPTH_MAX);
    if (!json_open(&json, JSON_KIND_OBJECT))
        return false;
    while (json_member(&json, &name, &value)) {
        if (is(&name, "laterd"))
            return true;
    }
    return false;
}

static bool read_ours(struct reading *reading)
{
    struct json json;
    struct json_value name, value;
    json_init(&json, reading->row->extend_data, DEPTH_MAX);
    if (!json_open(&json, JSON_KIND_OBJECT))
        return false;
    while (json_member(&json, &name, &value)) {
        if (!read_member(reading, &name, &value))
            return false;
    }
    return json_end(&json);
}

static void add_name(struct buf *out, const char *name)
{
    buf_addf(out, "%s\"%s\":", out->len ? "," : "{", name);
}

/* As long as a label may be, cut before a character, with '?' for each byte that it must not have:
   what is not UTF-8, NUL, and, but for extend_data, control characters. */
static struct bytes repaired(struct bytes text, size_t bytes_max, bool is_line, struct arena *arena)
{
    if (!text.len)
        return text;
    char *copy = arena_alloc(arena, text.len + 1), *end = copy + text.len;
    memcpy(copy, text.at, text.len);
    for (char *at = copy; at < end;) {
        char *bad = at + bytes_utf8_prefix(bytes_of(at, (size_t)(end - at)));
        for (; at < bad; at++) {
            bool control = (unsigned char)*at < ' ' || *at == 0x7f;
            if (*at == '\0' || (is_line && control))
                *at = '?';
        }
        if (at < end)
            *at++ = '?';
    }
    text.at = copy;
    if (text.len > bytes_max)
        text.len = bytes_utf8_prefix(bytes_of(text.at, bytes_max));
    return text;
}

static void add_label(struct buf *out, const char *name, struct bytes text)
{
    if (!text.len)
        return;
    add_name(out, name);
    json_add_text(out, text, JSON_STYLE_PLAIN);
}

/*
 * For a row that sdmq has written: makes properties of its columns, valid for
 * job_properties_read(). The writer of the row may have been less strict: a job with repaired
 * labels is better than none. Only an extend_data that is too long for a job is refused, because
 * half of it would be useless.
 */
static void make_properties(struct reading *reading)
{
    const struct extend_row *row = reading->row;
    struct arena *arena = reading->arena;
    struct buf out = {0};
    add_label(&out, "biz_key", repaired(row->bizkey, JOB_BIZ_KEY_MAX, true, arena));
    add_label(&out, "subtopic", repaired(row->subtopic, JOB_SUBTOPIC_MAX, true, arena));
    add_label(&out, "extend_data", repaired(row->extend_data, SIZE_MAX, false, arena));
    if (row->create_ms > 0) {
        add_name(&out, "create_time");
        buf_add_i64(&out, row->create_ms);
    }
    if (out.len)
        buf_add_char(&out, '}');
    if (row->extend_data.len > JOB_EXTEND_DATA_MAX)
        reading->wrong = "extend_data is longer than a job may have it";
    else if (out.len > JOB_PROPERTIES_MAX)
        reading->wrong = "bizkey, subtopic and extend_data are too long together";
    else
        reading->push->properties = arena_copy(arena, buf_bytes(&out));
    buf_fini(&out);
}

static void read_body(struct reading *reading)
{
    struct cmd_push *push = reading->push;
    push->body = reading->row->body;
    if (reading->base64 && !base64_read(reading->row->body, reading->arena, &push->body))
        reading->wrong = "the body is not base64, as extend_data says";
}

/* Refuses times that no job can have: the row is damaged. */
static bool read_times(struct reading *reading)
{
    const struct extend_row *row = reading->row;
    int64_t due_ms;
    if (row->create_ms < 0 || row->create_ms > RFC3339_MAX_US / 1000 ||
        __builtin_add_overflow(row->create_ms, row->delay_ms, &due_ms) || due_ms < 0 ||
        due_ms > RFC3339_MAX_US / 1000)
        return false;
    reading->push->due_us = due_ms * 1000 + reading->us;
    return true;
}

enum err extend_push(const struct extend_row *row, struct arena *arena, struct cmd_push *out_push,
                     const char **out_why)
{
    int64_t ttl_s = row->ttl_s > 0 && row->ttl_s < INT64_C(36500) * 86400 ? row->ttl_s : 60;
    struct cmd_push push = {
        .id = row->id,
        .topic = row->topic,
        .ttr_us = ttl_s * 1000000,
        .if_exists = IF_EXISTS_KEEP,
    };
    struct reading reading = {.row = row, .arena = arena, .push = &push};
    reading.ours = row->extend_data.len && is_ours(row->extend_data);
    if (reading.ours && !read_ours(&reading))
        reading.wrong = "extend_data is not what laterd writes";
    if (!reading.ours)
        make_properties(&reading);
    push.retry_given = reading.ours;
    push.buried = reading.ours && row->status == STATUS_BURIED;
    read_body(&reading);
    if (!reading.wrong && (row->id.len == 0 || row->id.len > JOB_ID_MAX))
        reading.wrong = "the id is empty or too long";
    if (!reading.wrong && (row->topic.len == 0 || row->topic.len > TOPIC_NAME_MAX))
        reading.wrong = "the topic is empty or too long";
    if (!reading.wrong && !read_times(&reading))
        reading.wrong = "create_time and delay are no time";
    if (reading.wrong) {
        *out_why = reading.wrong;
        return ERR_INVALID;
    }
    *out_push = push;
    return OK;
}

bool extend_is_written(const struct extend_row *row, const struct cmd_push *push, int64_t now_us)
{
    bool waits = row->status == STATUS_DELAYED || row->status == STATUS_BURIED;
    bool is_ready = row->status == STATUS_READY && push->due_us <= now_us;
    return (waits || is_ready) && is_ours(row->extend_data);
}
