#include "proto/settings/header_codec.h"

#include "base/ascii.h"

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
        if (c == '\0' ||
            (!ascii_is_letter(c) && !ascii_is_digit(c) && !strchr("!#$%&'*+-.^_`|~", c)))
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
    if (!bytes_is_printable(value))
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
