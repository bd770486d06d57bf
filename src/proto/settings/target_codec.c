/* Reads the object of a target: its type, which determines the other fields, and the common
   fields. */
#include "proto/settings/target_codec.h"

#include "proto/settings/header_codec.h"
#include "proto/settings/target_parts.h"
#include "proto/settings/target_url.h"

static const struct target_kind *const kinds[TARGET_TYPES] = {
    [TARGET_HTTP] = &target_http_kind,   [TARGET_AMQP] = &target_amqp_kind,
    [TARGET_KAFKA] = &target_kafka_kind, [TARGET_NATS] = &target_nats_kind,
    [TARGET_REDIS] = &target_redis_kind,
};

/* ---- common fields ---- */

static struct target *of(struct settings_reader *reader)
{
    return reader->into;
}

bool target_pass_type(struct settings_reader *reader)
{
    (void)reader;
    return true;
}

bool target_read_headers(struct settings_reader *reader)
{
    struct target *target = of(reader);
    return headers_read(reader, target->headers, &target->header_count);
}

bool target_missing(struct settings_reader *reader, const char *detail)
{
    (void)settings_bad(reader, "%s", detail);
    reader->problem->code = "missing_field";
    return false;
}

bool target_missing_field(struct settings_reader *reader, const char *field, const char *detail)
{
    settings_path_member(reader, bytes_str(field));
    return target_missing(reader, detail);
}

bool target_read_word(struct settings_reader *reader, size_t bytes_max, struct bytes *out_word)
{
    struct bytes word;
    if (!settings_text(reader, bytes_max, &word))
        return false;
    if (word.len == 0 || !bytes_is_printable(word))
        return settings_bad(reader, "this must be 1 … %zu bytes without control characters",
                            bytes_max);
    *out_word = word;
    return true;
}

bool target_read_url(struct settings_reader *reader)
{
    return url_read(reader, &of(reader)->http.url);
}

void target_add_given(struct buf *out, const char *key, struct bytes text)
{
    if (text.len)
        settings_add_text(out, key, text);
}

/* ---- reading ---- */

/* Do the fields fit one another? */
static bool fits(struct settings_reader *reader, const struct target *target)
{
    if (target->type != TARGET_HTTP && target->broker.len == 0)
        return target_missing(reader, "this target needs its broker: the NAME of a [broker.NAME] "
                                      "section of the configuration");
    return kinds[target->type]->fits(reader, target);
}

/* Finds the type of the target in its object, wherever it is. */
static bool read_type(struct settings_reader *reader, enum target_type *out_type)
{
    const struct json_value object = reader->value;
    struct json json;
    struct json_value name, value;
    size_t path_len = reader->path_len;
    unsigned place = TARGET_NONE;
    bool found = false, good = true;
    if (object.kind != JSON_KIND_OBJECT)
        return settings_bad(reader, "the target must be an object such as "
                                    "{\"type\":\"http\",\"url\":\"https://…\"}");
    json_init(&json, object.text, SETTINGS_DEPTH);
    (void)json_open(&json, JSON_KIND_OBJECT);
    while (!found && json_member(&json, &name, &value)) {
        found = bytes_eq(json_text(&name, reader->scratch), BYTES("type"));
        settings_path_member(reader, BYTES("type"));
        reader->value = value;
        good = !found || settings_word(reader, target_type_words() + TARGET_HTTP, &place);
        reader->path_len = path_len;
    }
    reader->value = object;
    if (!found)
        return target_missing(reader, "a target needs its type: http, amqp, kafka, nats or redis");
    *out_type = (enum target_type)(place + TARGET_HTTP);
    return good;
}

static void set_defaults(struct target *target)
{
    if (target->type != TARGET_HTTP)
        return;
    target->http.success_first = 200;
    target->http.success_last = 299;
}

bool target_read(struct settings_reader *reader, struct target *out_target)
{
    struct target target = {0};
    if (!read_type(reader, &target.type))
        return false;
    set_defaults(&target);
    const struct target_kind *kind = kinds[target.type];
    if (!settings_inner_object(reader, kind->fields, kind->field_count, &target, NULL) ||
        !fits(reader, &target))
        return false;
    *out_target = target;
    return true;
}

bool job_target_read(struct settings_reader *reader, struct target *out_target)
{
    static const struct settings_field fields[] = {TARGET_COMMON_FIELDS, {"url", target_read_url}};
    struct target target = {.type = TARGET_HTTP};
    set_defaults(&target);
    enum target_type type = TARGET_NONE;
    if (!read_type(reader, &type))
        return false;
    if (type != TARGET_HTTP)
        return settings_bad(reader, "a job's own target is of type http; brokers are targets of "
                                    "topics");
    if (!settings_inner_object(reader, fields, sizeof(fields) / sizeof(fields[0]), &target, NULL))
        return false;
    *out_target = target;
    return true;
}

/* ---- writing ---- */

void target_write(const struct target *target, struct buf *out)
{
    buf_add_char(out, '{');
    settings_add_text(out, "type", bytes_str(target_type_name(target->type)));
    target_add_given(out, "broker", target->broker);
    if (kinds[target->type])
        kinds[target->type]->write(target, out);
    if (target->header_count) {
        settings_add_key(out, "headers");
        headers_write(target->headers, target->header_count, out);
    }
    buf_add_char(out, '}');
}
