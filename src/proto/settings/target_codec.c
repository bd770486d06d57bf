/* Each field of a target has its reader here, and its rule. */
#include "proto/settings/target_codec.h"

#include "base/rfc3339.h"

enum {
    SECOND_US = 1000000,
    STATUS_FIRST = 100,
    STATUS_LAST = 599,
    PATH_MAX_BYTES = 1024,
    UNIX_PATH_MAX = 107, /* sun_path without its NUL */
    BODY_RULE_MAX = 256,
    WORD_MAX = 255, /* of a broker: names of exchanges, topics, keys */
    BROKER_MAX = 64,
    TIMEOUT_MAX_S = 600,
};

static struct target *of(struct settings_reader *reader)
{
    return reader->into;
}

/* ---- URLs ---- */

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static struct bytes rest_of(struct bytes text, size_t from)
{
    return bytes_of(text.at + from, text.len - from);
}

/* Up to the first of these characters, or all of it. */
static struct bytes up_to(struct bytes text, const char *ends)
{
    size_t len = 0;
    while (len < text.len && !strchr(ends, text.at[len]))
        len++;
    return bytes_of(text.at, len);
}

static const char *port_flaw(struct bytes port)
{
    uint64_t number;
    if (port.len == 0 || (bytes_to_u64(port, &number) && number >= 1 && number <= 65535))
        return NULL;
    return "the URL's port must be 1 … 65535";
}

static const char *host_flaw(struct bytes authority)
{
    struct bytes host = up_to(authority, ":"), port;
    if (authority.len && authority.at[0] == '[') {
        host = up_to(authority, "]");
        if (host.len < 3 || host.len == authority.len)
            return "the URL's IPv6 address needs its brackets";
        port = rest_of(authority, host.len + 1);
        for (size_t i = 1; i < host.len; i++) {
            char c = host.at[i];
            if (!is_digit(c) && !is_letter(c) && c != ':' && c != '.')
                return "the URL's IPv6 address has a character that none has";
        }
    } else {
        port = rest_of(authority, host.len);
        if (host.len == 0)
            return "the URL has no host";
        if (host.len > 253)
            return "the URL's host is longer than 253 bytes";
        for (size_t i = 0; i < host.len; i++) {
            char c = host.at[i];
            if (!is_digit(c) && !is_letter(c) && c != '.' && c != '-' && c != '_')
                return "the URL's host must be letters, digits, dots and dashes; write an "
                       "international name in its xn-- form";
        }
    }
    if (port.len && port.at[0] != ':')
        return "the URL's host is followed by something that is no port";
    return port.len ? port_flaw(rest_of(port, 1)) : NULL;
}

const char *url_flaw(struct bytes url)
{
    if (url.len > TARGET_URL_MAX)
        return "the URL is longer than 2048 bytes";
    for (size_t i = 0; i < url.len; i++) {
        unsigned char c = (unsigned char)url.at[i];
        if (c <= ' ' || c >= 0x7f)
            return "a URL has no blanks, control characters or letters beyond ASCII: "
                   "percent-encode them";
        if (c == '\\')
            return "a URL has no backslash";
    }
    struct bytes scheme = up_to(url, ":");
    bool known = bytes_eq_nocase(scheme, BYTES("http")) || bytes_eq_nocase(scheme, BYTES("https"));
    struct bytes rest = rest_of(url, scheme.len);
    if (!known || !bytes_starts(rest, BYTES("://")))
        return "the URL must begin with http:// or https://";
    struct bytes authority = up_to(rest_of(rest, 3), "/?#");
    if (memchr(authority.at, '@', authority.len))
        return "the URL has a user or password in it: send an authorization header instead";
    if (memchr(url.at, '#', url.len))
        return "the URL has a fragment (#…), which is never sent";
    return host_flaw(authority);
}

bool url_read(struct settings_reader *reader, struct bytes *out_url)
{
    struct bytes url;
    if (!settings_text(reader, TARGET_URL_MAX, &url))
        return false;
    const char *flaw = url_flaw(url);
    if (flaw)
        return settings_bad(reader, "%s", flaw);
    *out_url = url;
    return true;
}

/* ---- headers ---- */

/* What laterd sets itself, and what belongs to the connection. */
static bool is_reserved(struct bytes name)
{
    static const char *const starts[] = {"webhook-", "laterd-", "ce-", "proxy-", NULL};
    static const char *const names[] = {"host",
                                        "content-length",
                                        "content-type",
                                        "transfer-encoding",
                                        "connection",
                                        "keep-alive",
                                        "te",
                                        "trailer",
                                        "upgrade",
                                        "expect",
                                        "idempotency-key",
                                        "user-agent",
                                        "traceparent",
                                        "accept-encoding",
                                        "http2-settings",
                                        NULL};
    for (unsigned i = 0; starts[i]; i++) {
        size_t len = strlen(starts[i]);
        if (name.len >= len && bytes_eq_nocase(bytes_of(name.at, len), bytes_str(starts[i])))
            return true;
    }
    for (unsigned i = 0; names[i]; i++) {
        if (bytes_eq_nocase(name, bytes_str(names[i])))
            return true;
    }
    return false;
}

static bool is_token(struct bytes name) /* RFC 9110, 5.6.2 */
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.at[i];
        if (c == '\0' || (!is_letter(c) && !is_digit(c) && !strchr("!#$%&'*+-.^_`|~", c)))
            return false;
    }
    return name.len > 0;
}

struct header_list {
    struct target_header *headers;
    uint8_t *count;
};

static bool read_header(struct settings_reader *reader, struct bytes name)
{
    struct header_list *list = reader->into;
    struct bytes value;
    if (name.len > HEADER_NAME_MAX || !is_token(name))
        return settings_bad(reader, "a header's name is 1 … %d letters, digits and dashes",
                            HEADER_NAME_MAX);
    if (is_reserved(name))
        return settings_bad(reader, "laterd sets this header itself, or it belongs to the "
                                    "connection: leave it out");
    for (unsigned i = 0; i < *list->count; i++) {
        if (bytes_eq_nocase(list->headers[i].name, name))
            return settings_bad(reader, "this header was given twice");
    }
    if (!settings_text(reader, HEADER_VALUE_MAX, &value))
        return false;
    if (!settings_printable(value))
        return settings_bad(reader, "a header's value has no control characters and no line ends");
    if (*list->count == TARGET_HEADERS_MAX)
        return settings_bad(reader, "there are more than %d headers", TARGET_HEADERS_MAX);
    list->headers[(*list->count)++] = (struct target_header){.name = name, .value = value};
    return true;
}

bool headers_read(struct settings_reader *reader, struct target_header *headers,
                  uint8_t *header_count)
{
    struct header_list list = {.headers = headers, .count = header_count};
    void *outer = reader->into;
    reader->into = &list;
    bool good = settings_members(reader, read_header);
    reader->into = outer;
    return good;
}

void headers_write(const struct target_header *headers, uint8_t header_count, struct buf *out)
{
    buf_add_char(out, '{');
    for (unsigned i = 0; i < header_count; i++) {
        if (i)
            buf_add_char(out, ',');
        json_add_text(out, headers[i].name, JSON_STYLE_PLAIN);
        buf_add_char(out, ':');
        json_add_text(out, headers[i].value, JSON_STYLE_PLAIN);
    }
    buf_add_char(out, '}');
}

static bool read_headers(struct settings_reader *reader)
{
    struct target *target = of(reader);
    return headers_read(reader, target->headers, &target->header_count);
}

/* ---- fields of HTTP ---- */

static bool read_url(struct settings_reader *reader)
{
    return url_read(reader, &of(reader)->http.url);
}

static bool read_timeout(struct settings_reader *reader)
{
    return settings_duration(reader, SECOND_US / 10, (int64_t)TIMEOUT_MAX_S * SECOND_US,
                             &of(reader)->http.timeout_us);
}

static bool read_path(struct settings_reader *reader, size_t bytes_max, struct bytes *out_path)
{
    struct bytes path;
    if (!settings_text(reader, bytes_max, &path))
        return false;
    if (path.len == 0 || path.at[0] != '/' || !settings_printable(path))
        return settings_bad(reader, "this must be the absolute path of a file");
    *out_path = path;
    return true;
}

static bool read_unix_socket(struct settings_reader *reader)
{
    return read_path(reader, UNIX_PATH_MAX, &of(reader)->http.unix_socket);
}

static bool read_ca(struct settings_reader *reader)
{
    return read_path(reader, PATH_MAX_BYTES, &of(reader)->http.ca);
}

static bool read_certificate(struct settings_reader *reader)
{
    return read_path(reader, PATH_MAX_BYTES, &of(reader)->http.certificate);
}

static bool read_key(struct settings_reader *reader)
{
    return read_path(reader, PATH_MAX_BYTES, &of(reader)->http.key);
}

/* $NAME as shells have it, or file: and an absolute path. */
static bool is_reference(struct bytes text)
{
    if (bytes_starts(text, BYTES("file:/")))
        return text.len > 6 && text.len <= PATH_MAX_BYTES && settings_printable(text);
    if (text.len < 2 || text.len > 128 || text.at[0] != '$' || is_digit(text.at[1]))
        return false;
    for (size_t i = 1; i < text.len; i++) {
        if (!is_letter(text.at[i]) && !is_digit(text.at[i]) && text.at[i] != '_')
            return false;
    }
    return true;
}

static bool read_secret(struct settings_reader *reader)
{
    struct target_http *http = &of(reader)->http;
    struct bytes text;
    if (http->sign_count == TARGET_SECRETS_MAX)
        return settings_bad(reader, "there are more than %d secrets", TARGET_SECRETS_MAX);
    if (!settings_text(reader, PATH_MAX_BYTES, &text))
        return false;
    if (!is_reference(text)) /* and its text is not repeated: it may be the secret */
        return settings_bad(reader,
                            "this must say where the secret is, \"$NAME\" for a variable of "
                            "laterd's environment or \"file:/path\"; secrets themselves "
                            "are not stored");
    http->sign[http->sign_count++] = text;
    return true;
}

static bool read_sign(struct settings_reader *reader)
{
    return settings_items(reader, read_secret) &&
           (of(reader)->http.sign_count > 0 ||
            settings_bad(reader, "give at least one secret, or leave this out: then requests are "
                                 "not signed"));
}

/* "2xx", "200-299", "204" or 204. */
static bool read_success_status(struct settings_reader *reader)
{
    struct target_http *http = &of(reader)->http;
    struct bytes text = reader->value.text;
    uint64_t first = 0, last = 0;
    bool good = false;
    if (reader->value.kind == JSON_KIND_STRING)
        text = json_text(&reader->value, reader->scratch);
    else if (reader->value.kind != JSON_KIND_NUMBER)
        text = (struct bytes){0};
    if (text.len == 3 && text.at[1] == 'x' && text.at[2] == 'x' && is_digit(text.at[0])) {
        first = (uint64_t)(text.at[0] - '0') * 100;
        last = first + 99;
        good = true;
    } else if (text.len == 7 && text.at[3] == '-') {
        good = bytes_to_u64(bytes_of(text.at, 3), &first) &&
               bytes_to_u64(bytes_of(text.at + 4, 3), &last);
    } else {
        good = bytes_to_u64(text, &first);
        last = first;
    }
    if (!good || first < STATUS_FIRST || first > last || last > STATUS_LAST)
        return settings_bad(reader, "this must be statuses such as \"2xx\", \"200-204\" or 202");
    http->success_first = (uint16_t)first;
    http->success_last = (uint16_t)last;
    return true;
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool read_success_body(struct settings_reader *reader)
{
    struct bytes text;
    if (!settings_text(reader, BODY_RULE_MAX, &text))
        return false;
    while (text.len && is_space(text.at[0]))
        text = rest_of(text, 1);
    while (text.len && is_space(text.at[text.len - 1]))
        text.len--;
    of(reader)->http.success_body = text;
    return text.len > 0 ||
           settings_bad(reader, "this is the word that the receiver answers, such as \"success\"; "
                                "leave it out to take any answer");
}

static bool read_success(struct settings_reader *reader)
{
    static const struct settings_field fields[] = {
        {"status", read_success_status},
        {"body", read_success_body},
    };
    return settings_inner_object(reader, fields, sizeof(fields) / sizeof(fields[0]), reader->into,
                                 NULL);
}

static bool read_bury_status(struct settings_reader *reader)
{
    struct target_http *http = &of(reader)->http;
    int64_t status;
    if (http->bury_on_count == TARGET_BURY_ON_MAX)
        return settings_bad(reader, "there are more than %d statuses", TARGET_BURY_ON_MAX);
    if (!settings_number(reader, STATUS_FIRST, STATUS_LAST, &status))
        return false;
    http->bury_on[http->bury_on_count++] = (uint16_t)status;
    return true;
}

static bool read_bury_on(struct settings_reader *reader)
{
    return settings_items(reader, read_bury_status);
}

static const char *const encodings[] = {
    [ENCODING_PLAIN] = "plain", [ENCODING_CLOUDEVENTS] = "cloudevents", NULL};

static bool read_encoding(struct settings_reader *reader)
{
    unsigned place;
    if (!settings_word(reader, encodings, &place))
        return false;
    of(reader)->http.encoding = (enum target_encoding)place;
    return true;
}

/* A word without control characters that is not empty. */
static bool read_word(struct settings_reader *reader, size_t bytes_max, struct bytes *out_word)
{
    struct bytes word;
    if (!settings_text(reader, bytes_max, &word))
        return false;
    if (word.len == 0 || !settings_printable(word))
        return settings_bad(reader, "this must be 1 … %zu bytes without control characters",
                            bytes_max);
    *out_word = word;
    return true;
}

static bool read_event_type(struct settings_reader *reader)
{
    return read_word(reader, WORD_MAX, &of(reader)->http.event_type);
}

/* ---- fields of brokers ---- */

static bool read_broker(struct settings_reader *reader)
{
    struct bytes name;
    if (!settings_text(reader, BROKER_MAX, &name))
        return false;
    for (size_t i = 0; i < name.len; i++) {
        char c = name.at[i];
        if (!is_letter(c) && !is_digit(c) && c != '-' && c != '_' && c != '.')
            return settings_bad(reader, "a broker's name has letters, digits, dashes, dots and _");
    }
    of(reader)->broker = name;
    return name.len > 0 || settings_bad(reader, "this is the NAME of a [broker.NAME] section");
}

static bool read_amqp_word(struct settings_reader *reader, struct bytes *out_word)
{
    struct bytes word;
    if (!settings_text(reader, WORD_MAX, &word)) /* a short string of AMQP */
        return false;
    if (!settings_printable(word))
        return settings_bad(reader, "this has control characters");
    *out_word = word;
    return true;
}

static bool read_exchange(struct settings_reader *reader)
{
    return read_amqp_word(reader, &of(reader)->amqp.exchange);
}

static bool read_routing_key(struct settings_reader *reader)
{
    return read_amqp_word(reader, &of(reader)->amqp.routing_key);
}

static bool read_kafka_topic(struct settings_reader *reader)
{
    struct bytes *topic = &of(reader)->kafka.topic;
    if (!read_word(reader, 249, topic))
        return false;
    for (size_t i = 0; i < topic->len; i++) {
        char c = topic->at[i];
        if (!is_letter(c) && !is_digit(c) && !strchr("._-{}", c))
            return settings_bad(reader, "a topic of Kafka has letters, digits, dots, dashes and _");
    }
    return true;
}

static bool read_subject(struct settings_reader *reader)
{
    struct bytes *subject = &of(reader)->nats.subject;
    if (!read_word(reader, WORD_MAX, subject))
        return false;
    for (size_t i = 0; i < subject->len; i++) {
        if (strchr(" *>", subject->at[i]))
            return settings_bad(reader, "a subject to publish to has no blanks, * or >");
    }
    return true;
}

static const char *const redis_kinds[] = {
    [TARGET_REDIS_STREAM] = "stream", [TARGET_REDIS_LIST] = "list", NULL};

static bool read_redis_kind(struct settings_reader *reader)
{
    unsigned place;
    if (!settings_word(reader, redis_kinds, &place))
        return false;
    of(reader)->redis.kind = (enum target_redis_kind)place;
    return true;
}

static bool read_redis_key(struct settings_reader *reader)
{
    return read_word(reader, 512, &of(reader)->redis.key);
}

static bool read_maxlen(struct settings_reader *reader)
{
    int64_t number;
    if (!settings_number(reader, 1, INT64_C(1) << 53, &number))
        return false;
    of(reader)->redis.maxlen = (uint64_t)number;
    return true;
}

/* ---- the object ---- */

static const char *const types[] = {[TARGET_NONE] = "none",
                                    [TARGET_HTTP] = "http",
                                    [TARGET_AMQP] = "amqp",
                                    [TARGET_KAFKA] = "kafka",
                                    [TARGET_NATS] = "nats",
                                    [TARGET_REDIS] = "redis",
                                    NULL};

/* Was read before all others, for they depend on it. */
static bool pass_type(struct settings_reader *reader)
{
    (void)reader;
    return true;
}

#define COMMON                                                                                     \
    {"type", pass_type},                                                                           \
    {                                                                                              \
        "headers", read_headers                                                                    \
    }

static const struct settings_field http_fields[] = {
    COMMON,
    {"url", read_url},
    {"timeout", read_timeout},
    {"sign", read_sign},
    {"success", read_success},
    {"bury_on", read_bury_on},
    {"encoding", read_encoding},
    {"event_type", read_event_type},
    {"ca", read_ca},
    {"certificate", read_certificate},
    {"key", read_key},
    {"unix_socket", read_unix_socket},
};
static const struct settings_field amqp_fields[] = {COMMON,
                                                    {"broker", read_broker},
                                                    {"exchange", read_exchange},
                                                    {"routing_key", read_routing_key}};
static const struct settings_field kafka_fields[] = {
    COMMON, {"broker", read_broker}, {"topic", read_kafka_topic}};
static const struct settings_field nats_fields[] = {
    COMMON, {"broker", read_broker}, {"subject", read_subject}};
static const struct settings_field redis_fields[] = {COMMON,
                                                     {"broker", read_broker},
                                                     {"kind", read_redis_kind},
                                                     {"key", read_redis_key},
                                                     {"maxlen", read_maxlen}};

#define FIELDS(array) array, sizeof(array) / sizeof((array)[0])

static const struct {
    const struct settings_field *fields;
    size_t count;
} fields_of[TARGET_TYPES] = {
    [TARGET_HTTP] = {FIELDS(http_fields)},   [TARGET_AMQP] = {FIELDS(amqp_fields)},
    [TARGET_KAFKA] = {FIELDS(kafka_fields)}, [TARGET_NATS] = {FIELDS(nats_fields)},
    [TARGET_REDIS] = {FIELDS(redis_fields)},
};

static bool missing(struct settings_reader *reader, const char *detail)
{
    (void)settings_bad(reader, "%s", detail);
    reader->problem->code = "missing_field";
    return false;
}

/* Do the fields fit one another? */
static bool fits(struct settings_reader *reader, const struct target *target)
{
    const struct target_http *http = &target->http;
    if (target->type != TARGET_HTTP && target->broker.len == 0)
        return missing(reader, "this target needs its broker: the NAME of a [broker.NAME] section "
                               "of the configuration");
    switch (target->type) {
    case TARGET_NONE: return true;
    case TARGET_HTTP:
        if ((http->certificate.len == 0) != (http->key.len == 0))
            return missing(reader, "certificate and key go together");
        if (http->encoding == ENCODING_CLOUDEVENTS && http->event_type.len == 0)
            return missing(reader, "the encoding cloudevents needs event_type, which is ce-type");
        return true;
    case TARGET_AMQP:
        if (target->amqp.exchange.len == 0 && target->amqp.routing_key.len == 0)
            return missing(reader, "give the exchange, the routing_key, or both; without an "
                                   "exchange the routing key is a queue's name");
        return true;
    case TARGET_KAFKA:
        return target->kafka.topic.len > 0 || missing(reader, "this target needs topic");
    case TARGET_NATS:
        return target->nats.subject.len > 0 || missing(reader, "this target needs subject");
    case TARGET_REDIS:
        if (target->redis.kind == TARGET_REDIS_LIST && target->redis.maxlen)
            return settings_bad(reader, "maxlen is for streams alone");
        return target->redis.key.len > 0 || missing(reader, "this target needs key");
    case TARGET_TYPES: break;
    }
    return false;
}

/* The type of the target whose object is being read, wherever it stands in it. */
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
        good = !found || settings_word(reader, types + TARGET_HTTP, &place);
        reader->path_len = path_len;
    }
    reader->value = object;
    if (!found)
        return missing(reader, "a target needs its type: http, amqp, kafka, nats or redis");
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
    if (!settings_inner_object(reader, fields_of[target.type].fields, fields_of[target.type].count,
                               &target, NULL) ||
        !fits(reader, &target))
        return false;
    *out_target = target;
    return true;
}

bool job_target_read(struct settings_reader *reader, struct target *out_target)
{
    static const struct settings_field fields[] = {COMMON, {"url", read_url}};
    struct target target = {.type = TARGET_HTTP};
    set_defaults(&target);
    enum target_type type = TARGET_NONE;
    if (!read_type(reader, &type))
        return false;
    if (type != TARGET_HTTP)
        return settings_bad(reader, "a job's own target is of type http; brokers are targets of "
                                    "topics");
    if (!settings_inner_object(reader, FIELDS(fields), &target, NULL))
        return false;
    *out_target = target;
    return true;
}

/* ---- writing ---- */

static void add_given(struct buf *out, const char *key, struct bytes text)
{
    if (text.len)
        settings_add_text(out, key, text);
}

static void add_success(const struct target_http *http, struct buf *out)
{
    bool any = http->success_first != 200 || http->success_last != 299;
    if (!any && http->success_body.len == 0)
        return;
    settings_add_key(out, "success");
    buf_add_char(out, '{');
    if (any) {
        settings_add_key(out, "status");
        buf_addf(out, "\"%u-%u\"", http->success_first, http->success_last);
    }
    add_given(out, "body", http->success_body);
    buf_add_char(out, '}');
}

static void write_http(const struct target_http *http, struct buf *out)
{
    add_given(out, "url", http->url);
    if (http->timeout_us)
        settings_add_duration(out, "timeout", http->timeout_us);
    if (http->sign_count) {
        settings_add_key(out, "sign");
        for (unsigned i = 0; i < http->sign_count; i++) {
            buf_add_char(out, i ? ',' : '[');
            json_add_text(out, http->sign[i], JSON_STYLE_PLAIN);
        }
        buf_add_char(out, ']');
    }
    add_success(http, out);
    if (http->bury_on_count) {
        settings_add_key(out, "bury_on");
        for (unsigned i = 0; i < http->bury_on_count; i++) {
            buf_add_char(out, i ? ',' : '[');
            buf_add_u64(out, http->bury_on[i]);
        }
        buf_add_char(out, ']');
    }
    if (http->encoding != ENCODING_PLAIN)
        settings_add_text(out, "encoding", bytes_str(encodings[http->encoding]));
    add_given(out, "event_type", http->event_type);
    add_given(out, "ca", http->ca);
    add_given(out, "certificate", http->certificate);
    add_given(out, "key", http->key);
    add_given(out, "unix_socket", http->unix_socket);
}

static void write_redis(const struct target_redis *redis, struct buf *out)
{
    settings_add_text(out, "kind", bytes_str(redis_kinds[redis->kind]));
    settings_add_text(out, "key", redis->key);
    if (redis->maxlen)
        settings_add_number(out, "maxlen", (int64_t)redis->maxlen);
}

void target_write(const struct target *target, struct buf *out)
{
    buf_add_char(out, '{');
    settings_add_text(out, "type", bytes_str(types[target->type]));
    add_given(out, "broker", target->broker);
    switch (target->type) {
    case TARGET_NONE:
    case TARGET_TYPES: break;
    case TARGET_HTTP: write_http(&target->http, out); break;
    case TARGET_AMQP:
        add_given(out, "exchange", target->amqp.exchange);
        add_given(out, "routing_key", target->amqp.routing_key);
        break;
    case TARGET_KAFKA: settings_add_text(out, "topic", target->kafka.topic); break;
    case TARGET_NATS: settings_add_text(out, "subject", target->nats.subject); break;
    case TARGET_REDIS: write_redis(&target->redis, out); break;
    }
    if (target->header_count) {
        settings_add_key(out, "headers");
        headers_write(target->headers, target->header_count, out);
    }
    buf_add_char(out, '}');
}
