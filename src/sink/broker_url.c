#include "sink/broker_url.h"

#include <stdio.h>

#include "base/ascii.h"
#include "base/hex.h"
#include "base/take_until.h"
#include "sink/reference.h"

static enum err refuse(struct broker_url_error *error, const char *text)
{
    (void)snprintf(error->text, sizeof(error->text), "url: %s", text);
    return ERR_INVALID;
}

static bool take_scheme(struct bytes *text, const char *scheme)
{
    size_t len = strlen(scheme);
    if (text->len < len + 3 || !bytes_eq_nocase(bytes_of(text->at, len), bytes_str(scheme)) ||
        memcmp(text->at + len, "://", 3) != 0)
        return false;
    *text = bytes_of(text->at + len + 3, text->len - len - 3);
    return true;
}

static bool is_host_byte(char c)
{
    return ascii_is_letter(c) || ascii_is_digit(c) || c == '.' || c == '-' || c == '_';
}

/* A name, an IPv4 address, or an IPv6 address in brackets. The rest of `text` is ":port" or "". */
static struct bytes take_host(struct bytes *text)
{
    size_t len = 0;
    if (text->len && text->at[0] == '[') {
        const char *end = memchr(text->at, ']', text->len);
        len = end ? (size_t)(end - text->at) + 1 : 0;
        for (size_t i = 1; i + 1 < len; i++) {
            if (hex_digit(text->at[i]) < 0 && text->at[i] != ':' && text->at[i] != '.')
                len = 0;
        }
        len = len > 2 ? len : 0;
    } else {
        while (len < text->len && is_host_byte(text->at[len]))
            len++;
    }
    struct bytes host = bytes_of(text->at, len);
    *text = bytes_of(text->at + len, text->len - len);
    return host;
}

static const char *read_host(struct bytes text, uint16_t port, struct broker_url *url)
{
    uint64_t number = port;
    struct bytes host = take_host(&text);
    if (host.len == 0)
        return "a host is missing, or has a character that host names cannot have";
    if (text.len &&
        (text.at[0] != ':' || !bytes_to_u64(bytes_of(text.at + 1, text.len - 1), &number) ||
         number == 0 || number > UINT16_MAX))
        return "behind a host there must be :PORT, a comma or the end";
    if (host.len > BROKER_HOST_BYTES - 8)
        return "a host is longer than 256 bytes";
    if (url->host_count == BROKER_HOSTS_MAX)
        return "there are more than 16 hosts";
    (void)snprintf(url->hosts[url->host_count++], BROKER_HOST_BYTES, "%.*s:%u", (int)host.len,
                   host.at, (unsigned)number);
    return NULL;
}

static const char *read_user(struct bytes text, struct broker_url *url)
{
    struct bytes user = take_until(&text, ':');
    if (!percent_decode(user, url->user, BROKER_WORD_BYTES) ||
        !percent_decode(text, url->password, BROKER_WORD_BYTES))
        return "user and password may have up to 255 bytes, and a % only before two hex digits";
    return user.len ? NULL : "there is an @ without a user before it";
}

enum err broker_url_read(struct bytes text, const struct broker_url_kind *kind,
                         struct broker_url *out_url, struct broker_url_error *out_error)
{
    struct broker_url url = {.tls = false};
    const char *problem = NULL;
    if (!take_scheme(&text, kind->plain)) {
        url.tls = take_scheme(&text, kind->tls);
        if (!url.tls) {
            (void)snprintf(out_error->text, sizeof(out_error->text),
                           "url: must begin with %s:// or %s://", kind->plain, kind->tls);
            return ERR_INVALID;
        }
    }
    struct bytes authority = take_until(&text, '?');
    if (text.len >= sizeof(url.query))
        return refuse(out_error, "the options behind the question mark are longer than 255 bytes");
    if (text.len)
        memcpy(url.query, text.at, text.len);
    if (authority.len && memchr(authority.at, '@', authority.len)) {
        struct bytes user = take_until(&authority, '@');
        problem = read_user(user, &url);
    }
    if (authority.len && authority.at[authority.len - 1] == '/')
        authority.len--;
    bool more = true;
    while (!problem && more) {
        size_t before = authority.len;
        struct bytes host = take_until(&authority, ',');
        more = host.len < before; /* a comma followed */
        problem = read_host(host, kind->port, &url);
    }
    if (problem)
        return refuse(out_error, problem);
    *out_url = url;
    return OK;
}

enum err broker_url_find(const char *text, const struct broker_url_kind *kind,
                         struct broker_url *out_url, struct broker_url_error *out_error)
{
    struct buf plain = {0};
    char why[sizeof(out_error->text) - 8];
    enum err err = ERR_INVALID;
    if (reference_read(text, &plain, why, sizeof(why)))
        (void)snprintf(out_error->text, sizeof(out_error->text), "url: %s", why);
    else
        err = broker_url_read(bytes_str(plain.at), kind, out_url, out_error);
    buf_fini(&plain);
    return err;
}

enum err broker_url_check(const char *text, const struct broker_url_kind *kind,
                          struct broker_url *out_url, struct broker_url_error *out_error)
{
    if (!reference_is(text))
        return broker_url_read(bytes_str(text), kind, out_url, out_error);
    *out_url = (struct broker_url){.host_count = 1, .hosts = {"unknown:1"}};
    return OK;
}

struct bytes broker_url_option(const struct broker_url *url, struct bytes name)
{
    struct bytes rest = bytes_str(url->query);
    while (rest.len) {
        struct bytes value = take_until(&rest, '&');
        if (bytes_eq(take_until(&value, '='), name))
            return value;
    }
    return BYTES("");
}

void broker_url_hosts(const struct broker_url *url, char *room, size_t room_bytes)
{
    size_t len = 0;
    room[0] = '\0';
    for (unsigned i = 0; i < url->host_count && len < room_bytes; i++)
        len += (size_t)snprintf(room + len, room_bytes - len, "%s%s", i ? "," : "", url->hosts[i]);
}
