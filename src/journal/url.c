#include "journal/url.h"

#include "base/hex.h"

/* Splits *rest at the mark: what is behind it stays. False: `at` is NULL, there is no mark. */
static bool split_at(struct bytes *rest, const char *at, struct bytes *out_before)
{
    if (!at)
        return false;
    *out_before = bytes_of(rest->at, (size_t)(at - rest->at));
    *rest = bytes_of(at + 1, rest->len - out_before->len - 1);
    return true;
}

static bool split_first(struct bytes *rest, char mark, struct bytes *out_before)
{
    return split_at(rest, rest->len ? memchr(rest->at, mark, rest->len) : NULL, out_before);
}

static bool split_last(struct bytes *rest, char mark, struct bytes *out_before)
{
    return split_at(rest, rest->len ? memrchr(rest->at, mark, rest->len) : NULL, out_before);
}

static const char *read_who(struct bytes who, struct journal_url *url)
{
    struct bytes user = who;
    if (split_first(&who, ':', &user) && !percent_decode(who, url->password, JOURNAL_WORD_MAX))
        return "the password is longer than 255 bytes, or not percent-encoded";
    if (!percent_decode(user, url->user, JOURNAL_WORD_MAX) || !url->user[0])
        return "the user is missing: mysql://user@host/database";
    return NULL;
}

static const char *read_host(struct bytes host, struct journal_url *url)
{
    struct bytes before, port = {0};
    uint64_t number = JOURNAL_PORT;
    if (host.len && host.at[0] == '[') {
        port = bytes_of(host.at + 1, host.len - 1);
        if (!split_first(&port, ']', &before))
            return "the ] of the address is missing";
        host = before;
        if (port.len && port.at[0] != ':')
            return "the port is not a number from 1 to 65535";
        port = port.len ? bytes_of(port.at + 1, port.len - 1) : port;
    } else {
        port = host;
        if (split_last(&port, ':', &before))
            host = before;
        else
            port = (struct bytes){0};
    }
    if (port.len && (!bytes_to_u64(port, &number) || number == 0 || number > UINT16_MAX))
        return "the port is not a number from 1 to 65535";
    url->port = (uint16_t)number;
    return percent_decode(host, url->host, JOURNAL_WORD_MAX) ? NULL
                                                             : "the host is longer than 255 bytes";
}

static const char *read_tls(struct bytes value, struct journal_url *url)
{
    static const char *const words[] = {"off", "on", "verify"};
    for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (!bytes_eq(value, bytes_str(words[i])))
            continue;
        url->tls = (enum journal_tls)i;
        return NULL;
    }
    return "tls must be off, on or verify";
}

static const char *read_options(struct bytes rest, struct journal_url *url)
{
    const char *why = NULL;
    while (rest.len && !why) {
        struct bytes option = rest, name;
        if (!split_first(&rest, '&', &option))
            rest = (struct bytes){0};
        if (!split_first(&option, '=', &name))
            why = "behind the ? there are tls=… and socket=/path only";
        else if (bytes_eq(name, BYTES("tls")))
            why = read_tls(option, url);
        else if (!bytes_eq(name, BYTES("socket")))
            why = "behind the ? there are tls=… and socket=/path only";
        else if (!percent_decode(option, url->socket, JOURNAL_WORD_MAX) || url->socket[0] != '/')
            why = "socket must be a path that begins with /";
    }
    return why;
}

static const char *read_all(struct bytes rest, struct journal_url *url)
{
    struct bytes who, host, options = {0}, database;
    const char *why;
    if (!bytes_starts(rest, BYTES("mysql://")))
        return "it must begin with mysql://";
    rest = bytes_of(rest.at + 8, rest.len - 8);
    database = rest;
    if (split_first(&rest, '?', &database)) {
        options = rest;
        rest = database;
    }
    if (!split_first(&rest, '/', &host))
        return "the database is missing: mysql://user@host/database";
    if (!split_last(&host, '@', &who))
        return "the user is missing: mysql://user@host/database";
    why = read_who(who, url);
    why = why ? why : read_host(host, url);
    why = why ? why : read_options(options, url);
    if (!why && (!percent_decode(rest, url->database, JOURNAL_WORD_MAX) || !url->database[0]))
        why = "the database is missing: mysql://user@host/database";
    if (!why && !url->host[0] && !url->socket[0])
        why = "the host is missing: mysql://user@host/database";
    return why;
}

enum err journal_url_read(struct bytes text, struct journal_url *out_url, const char **out_why)
{
    struct journal_url url = {.port = JOURNAL_PORT};
    const char *why = read_all(text, &url);
    if (why) {
        *out_why = why;
        return ERR_INVALID;
    }
    *out_url = url;
    return OK;
}
