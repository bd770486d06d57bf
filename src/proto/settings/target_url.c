#include "proto/settings/target_url.h"

#include "base/ascii.h"
#include "core/target.h"

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
            if (!ascii_is_digit(c) && !ascii_is_letter(c) && c != ':' && c != '.')
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
            if (!ascii_is_digit(c) && !ascii_is_letter(c) && c != '.' && c != '-' && c != '_')
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

void url_receiver(struct bytes url, struct bytes *out_host, uint16_t *out_port)
{
    struct bytes scheme = up_to(url, ":");
    struct bytes authority = up_to(rest_of(url, scheme.len + 3), "/?#"), host, port;
    uint64_t number;
    if (authority.at[0] == '[') {
        host = up_to(rest_of(authority, 1), "]");
        port = rest_of(authority, host.len + 2);
    } else {
        host = up_to(authority, ":");
        port = rest_of(authority, host.len);
    }
    if (port.len < 2 || !bytes_to_u64(rest_of(port, 1), &number))
        number = bytes_eq_nocase(scheme, BYTES("https")) ? 443 : 80;
    *out_host = host;
    *out_port = (uint16_t)number;
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
