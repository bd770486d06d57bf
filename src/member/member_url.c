#include "member/member_url.h"

#include <stdio.h>
#include <string.h>

#include "base/ascii.h"
#include "base/hex.h"

static enum err refuse(struct member_error *error, const char *text)
{
    (void)snprintf(error->text, sizeof(error->text), "url: %s", text);
    return ERR_INVALID;
}

static bool take_login(struct bytes *rest, struct member_url *url)
{
    const char *at = memrchr(rest->at, '@', rest->len);
    if (!at)
        return true;
    struct bytes login = bytes_of(rest->at, (size_t)(at - rest->at));
    const char *colon = login.len ? memchr(login.at, ':', login.len) : NULL;
    size_t user_len = colon ? (size_t)(colon - login.at) : login.len;
    *rest = bytes_of(at + 1, rest->len - login.len - 1);
    if (!percent_decode(bytes_of(login.at, user_len), url->user, MEMBER_WORD_MAX))
        return false;
    return !colon || percent_decode(bytes_of(colon + 1, login.len - user_len - 1), url->password,
                                    MEMBER_WORD_MAX);
}

static bool is_host_byte(char c)
{
    return ascii_is_letter(c) || ascii_is_digit(c) || strchr(".-_:[]", c);
}

/* HOST, HOST:PORT, [ADDRESS] or [ADDRESS]:PORT. */
static bool split_host(struct bytes one, uint16_t default_port, struct bytes *out_host,
                       uint16_t *out_port)
{
    const char *close = one.len && one.at[0] == '[' ? memchr(one.at, ']', one.len) : NULL;
    size_t host_len = close ? (size_t)(close - one.at) + 1 : 0;
    uint64_t port = default_port;
    if (one.len && one.at[0] == '[' && !close)
        return false;
    while (!close && host_len < one.len && one.at[host_len] != ':')
        host_len++;
    if (host_len < one.len) {
        struct bytes digits = bytes_of(one.at + host_len + 1, one.len - host_len - 1);
        if (one.at[host_len] != ':' || !bytes_to_u64(digits, &port) || port == 0 || port > 65535)
            return false;
    }
    *out_host = close ? bytes_of(one.at + 1, host_len - 2) : bytes_of(one.at, host_len);
    *out_port = (uint16_t)port;
    return out_host->len > 0 && out_host->len < MEMBER_WORD_MAX;
}

static bool add_host(struct bytes one, uint16_t default_port, struct member_url *url)
{
    size_t used = strlen(url->hosts);
    struct bytes host;
    uint16_t port;
    for (size_t i = 0; i < one.len; i++) {
        if (!is_host_byte(one.at[i]))
            return false;
    }
    if (!split_host(one, default_port, &host, &port))
        return false;
    bool bracketed = one.at[0] == '[';
    int len =
        snprintf(url->hosts + used, sizeof(url->hosts) - used, "%s%s%.*s%s:%u", used ? "," : "",
                 bracketed ? "[" : "", (int)host.len, host.at, bracketed ? "]" : "", port);
    if (url->host_count++ == 0) {
        memcpy(url->host, host.at, host.len);
        url->host[host.len] = '\0';
        url->port = port;
    }
    return len > 0 && used + (size_t)len < sizeof(url->hosts);
}

static bool take_hosts(struct bytes hosts, uint16_t default_port, struct member_url *url)
{
    bool good = true;
    size_t begun = 0;
    for (size_t i = 0; i <= hosts.len && good; i++) {
        if (i < hosts.len && hosts.at[i] != ',')
            continue;
        good = add_host(bytes_of(hosts.at + begun, i - begun), default_port, url);
        begun = i + 1;
    }
    return good;
}

static bool copy_word(struct bytes text, char room[MEMBER_WORD_MAX])
{
    if (text.len >= MEMBER_WORD_MAX)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] <= ' ' || text.at[i] > '~')
            return false;
        room[i] = text.at[i];
    }
    room[text.len] = '\0';
    return true;
}

/* Where the hosts end. */
static size_t authority_len(struct bytes rest)
{
    size_t len = 0;
    while (len < rest.len && rest.at[len] != '/' && rest.at[len] != '?')
        len++;
    return len;
}

enum err member_url_read(const char *text, const char *scheme, uint16_t default_port,
                         struct member_url *out_url, struct member_error *out_error)
{
    struct member_url url = {.hosts = ""};
    struct bytes rest = bytes_str(text);
    size_t scheme_len = strlen(scheme);
    if (!bytes_starts(rest, bytes_str(scheme)) ||
        !bytes_starts(bytes_of(rest.at + scheme_len, rest.len - scheme_len), BYTES("://")))
        return refuse(out_error, "it does not begin with its scheme and ://");
    rest = bytes_of(rest.at + scheme_len + 3, rest.len - scheme_len - 3);
    struct bytes hosts = bytes_of(rest.at, authority_len(rest));
    rest = bytes_of(rest.at + hosts.len, rest.len - hosts.len);
    const char *mark = rest.len ? memchr(rest.at, '?', rest.len) : NULL;
    struct bytes path = bytes_of(rest.at, mark ? (size_t)(mark - rest.at) : rest.len);
    struct bytes query =
        mark ? bytes_of(mark + 1, rest.len - path.len - 1) : bytes_of(rest.at + rest.len, 0);
    while (path.len && path.at[path.len - 1] == '/')
        path.len--;
    if (!take_login(&hosts, &url))
        return refuse(out_error, "user or password is too long, or not percent-encoded");
    if (!take_hosts(hosts, default_port, &url))
        return refuse(out_error,
                      "a host is missing or too long, or its port is not a number from 1 "
                      "to 65535");
    if (!copy_word(path, url.path) || !copy_word(query, url.query))
        return refuse(out_error, "the path or query is too long, or has characters that are not "
                                 "printable ASCII");
    *out_url = url;
    return OK;
}
