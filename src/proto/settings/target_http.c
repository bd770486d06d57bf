/* The fields of a target of type http: each has its reader here, and its rule. */
#include "base/ascii.h"
#include "proto/settings/target_parts.h"

enum {
    SECOND_US = 1000000,
    STATUS_FIRST = 100,
    STATUS_LAST = 599,
    UNIX_PATH_MAX = 107, /* sun_path without its NUL */
    BODY_RULE_MAX = 256,
    TIMEOUT_MAX_S = 600,
};

static struct target *of(struct settings_reader *reader)
{
    return reader->into;
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
    if (path.len == 0 || path.at[0] != '/' || !bytes_is_printable(path))
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
    return read_path(reader, TARGET_PATH_MAX, &of(reader)->http.ca);
}

static bool read_certificate(struct settings_reader *reader)
{
    return read_path(reader, TARGET_PATH_MAX, &of(reader)->http.certificate);
}

static bool read_key(struct settings_reader *reader)
{
    return read_path(reader, TARGET_PATH_MAX, &of(reader)->http.key);
}

/* $NAME as shells have it, or file: and an absolute path. */
static bool is_reference(struct bytes text)
{
    if (bytes_starts(text, BYTES("file:/")))
        return text.len > 6 && text.len <= TARGET_PATH_MAX && bytes_is_printable(text);
    if (text.len < 2 || text.len > 128 || text.at[0] != '$' || ascii_is_digit(text.at[1]))
        return false;
    for (size_t i = 1; i < text.len; i++) {
        if (!ascii_is_letter(text.at[i]) && !ascii_is_digit(text.at[i]) && text.at[i] != '_')
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
    if (!settings_text(reader, TARGET_PATH_MAX, &text))
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
    if (text.len == 3 && text.at[1] == 'x' && text.at[2] == 'x' && ascii_is_digit(text.at[0])) {
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

static bool read_success_body(struct settings_reader *reader)
{
    struct bytes text;
    if (!settings_text(reader, BODY_RULE_MAX, &text))
        return false;
    text = ascii_trim(text);
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

static bool read_event_type(struct settings_reader *reader)
{
    return target_read_word(reader, TARGET_WORD_MAX, &of(reader)->http.event_type);
}

static const struct settings_field http_fields[] = {
    TARGET_COMMON_FIELDS,
    {"url", target_read_url},
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

static bool fits(struct settings_reader *reader, const struct target *target)
{
    const struct target_http *http = &target->http;
    if ((http->certificate.len == 0) != (http->key.len == 0))
        return target_missing(reader, "certificate and key go together");
    if (http->encoding == ENCODING_CLOUDEVENTS && http->event_type.len == 0)
        return target_missing_field(reader, "event_type",
                                    "the encoding cloudevents needs event_type, which is ce-type");
    return true;
}

/* ---- writing ---- */

static void add_success(const struct target_http *http, struct buf *out)
{
    bool any = http->success_first != 200 || http->success_last != 299;
    if (!any && http->success_body.len == 0)
        return;
    settings_add_key(out, "success");
    buf_add_char(out, '{');
    if (any) {
        settings_add_key(out, "status");
        if (http->success_first == http->success_last)
            buf_addf(out, "\"%u\"", http->success_first);
        else
            buf_addf(out, "\"%u-%u\"", http->success_first, http->success_last);
    }
    target_add_given(out, "body", http->success_body);
    buf_add_char(out, '}');
}

static void write(const struct target *target, struct buf *out)
{
    const struct target_http *http = &target->http;
    target_add_given(out, "url", http->url);
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
    target_add_given(out, "event_type", http->event_type);
    target_add_given(out, "ca", http->ca);
    target_add_given(out, "certificate", http->certificate);
    target_add_given(out, "key", http->key);
    target_add_given(out, "unix_socket", http->unix_socket);
}

const struct target_kind target_http_kind = {
    .fields = http_fields,
    .field_count = sizeof(http_fields) / sizeof(http_fields[0]),
    .fits = fits,
    .write = write,
};
