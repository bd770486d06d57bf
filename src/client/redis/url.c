#include "client/redis/url.h"

#include <stdio.h>

#include "base/hex.h"
#include "base/take_until.h"

static bool copy_word(struct bytes text, char *room, size_t room_bytes)
{
    if (text.len >= room_bytes || (text.len && memchr(text.at, '\0', text.len)))
        return false;
    if (text.len)
        memcpy(room, text.at, text.len);
    room[text.len] = '\0';
    return true;
}

static bool copy_host(struct bytes text, char *room)
{
    for (size_t i = 0; i < text.len; i++) {
        if ((unsigned char)text.at[i] <= ' ' || text.at[i] == '/')
            return false;
    }
    return text.len > 0 && copy_word(text, room, REDIS_HOST_MAX);
}

bool redis_address_make(struct bytes host, uint64_t port, struct redis_address *out_address)
{
    struct redis_address address = {.port = (uint16_t)port};
    if (port == 0 || port > UINT16_MAX || !copy_host(host, address.host))
        return false;
    *out_address = address;
    return true;
}

bool redis_address_read(struct bytes text, uint16_t default_port, struct redis_address *out_address)
{
    struct redis_address address = {.port = default_port};
    struct bytes host, port;
    uint64_t number = default_port;
    if (text.len && text.at[0] == '[') {
        text = bytes_of(text.at + 1, text.len - 1);
        host = take_until(&text, ']');
        port = text.len && text.at[0] == ':' ? bytes_of(text.at + 1, text.len - 1) : text;
    } else {
        size_t colon = text.len;
        while (colon > 0 && text.at[colon - 1] != ':')
            colon--;
        host = colon ? bytes_of(text.at, colon - 1) : text;
        port = colon ? bytes_of(text.at + colon, text.len - colon) : bytes_of(text.at, 0);
    }
    if (port.len && (!bytes_to_u64(port, &number) || number == 0 || number > UINT16_MAX))
        return false;
    if (!copy_host(host, address.host))
        return false;
    address.port = (uint16_t)number;
    *out_address = address;
    return true;
}

struct bytes redis_address_text(const struct redis_address *address, char *room, size_t room_bytes)
{
    const char *format = strchr(address->host, ':') ? "[%s]:%u" : "%s:%u";
    if (address->host[0] == '/')
        return bytes_str(address->host);
    int len = snprintf(room, room_bytes, format, address->host, address->port);
    return bytes_of(room, len < 0 || (size_t)len >= room_bytes ? room_bytes - 1 : (size_t)len);
}

bool redis_address_eq(const struct redis_address *a, const struct redis_address *b)
{
    return a->port == b->port && strcmp(a->host, b->host) == 0;
}

/* ---- the parts of a URL ---- */

static enum err refuse(struct redis_error *error, const char *text)
{
    (void)snprintf(error->text, sizeof(error->text), "%s", text);
    return ERR_INVALID;
}

static const struct scheme {
    const char *prefix;
    enum redis_topology topology;
    bool tls, path;
} schemes[] = {
    {"redis://", REDIS_SINGLE, false, false},
    {"unix://", REDIS_SINGLE, false, true},
    {"redis+unix://", REDIS_SINGLE, false, true},
    {"redis+sentinel://", REDIS_SENTINEL, false, false},
    {"redis+cluster://", REDIS_CLUSTER, false, false},
    {"rediss://", REDIS_SINGLE, true, false},
    {"rediss+sentinel://", REDIS_SENTINEL, true, false},
    {"rediss+cluster://", REDIS_CLUSTER, true, false},
};

static const struct scheme *scheme_of(struct bytes *text)
{
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        struct bytes prefix = bytes_str(schemes[i].prefix);
        if (bytes_starts(*text, prefix)) {
            *text = bytes_of(text->at + prefix.len, text->len - prefix.len);
            return &schemes[i];
        }
    }
    return NULL;
}

/* "user:password@", ":password@" or "user@" off the front; a password alone is the default user's.
 */
static bool take_user(struct bytes *text, struct redis_url *url)
{
    size_t at = text->len;
    while (at > 0 && text->at[at - 1] != '@')
        at--;
    if (at == 0)
        return true;
    struct bytes both = bytes_of(text->at, at - 1);
    *text = bytes_of(text->at + at, text->len - at);
    struct bytes user = take_until(&both, ':');
    return percent_decode(user, url->user, REDIS_WORD_MAX) &&
           percent_decode(both, url->password, REDIS_WORD_MAX);
}

static bool take_db(struct bytes text, struct redis_url *url)
{
    uint64_t number;
    if (text.len == 0)
        return true;
    if (!bytes_to_u64(text, &number) || number > UINT16_MAX)
        return false;
    url->db = (unsigned)number;
    return true;
}

static bool take_addresses(struct bytes text, struct redis_url *url)
{
    uint16_t port = url->topology == REDIS_SENTINEL ? REDIS_SENTINEL_PORT : REDIS_PORT;
    while (text.len) {
        struct bytes one = take_until(&text, ',');
        if (url->address_count == REDIS_ADDRESSES_MAX ||
            !redis_address_read(one, port, &url->addresses[url->address_count]))
            return false;
        url->address_count++;
    }
    return url->address_count > 0;
}

enum err redis_url_read(struct bytes text, struct redis_url *out_url, struct redis_error *out_error)
{
    struct redis_url url = {.topology = REDIS_SINGLE};
    const struct scheme *scheme = scheme_of(&text);
    if (!scheme)
        return refuse(out_error,
                      "redis.url must begin with redis://, unix://, redis+sentinel:// or "
                      "redis+cluster://; over TLS rediss in place of redis");
    url.tls = scheme->tls;
    url.topology = scheme->topology;
    if (scheme->path) {
        url.address_count = 1;
        if (text.len < 2 || text.at[0] != '/' ||
            !copy_word(text, url.addresses[0].host, sizeof(url.addresses[0].host)))
            return refuse(out_error, "redis.url: unix:// must be followed by the path of a socket");
        *out_url = url;
        return OK;
    }
    struct bytes rest = text;
    if (!take_user(&rest, &url))
        return refuse(out_error,
                      "redis.url: the user or the password is too long, or not percent-encoded");
    struct bytes hosts = take_until(&rest, '/');
    struct bytes name = scheme->topology == REDIS_SENTINEL ? take_until(&rest, '/') : BYTES("");
    if (!take_addresses(hosts, &url))
        return refuse(out_error, "redis.url: no host, too many of them, or a port that is none");
    if (!take_db(rest, &url) || (url.db && scheme->topology == REDIS_CLUSTER))
        return refuse(out_error,
                      "redis.url: the database after / must be a small number; a cluster has "
                      "only 0");
    if (scheme->topology == REDIS_SENTINEL &&
        (name.len == 0 || !copy_word(name, url.service, sizeof(url.service))))
        return refuse(out_error,
                      "redis.url: redis+sentinel://h1,h2,h3/NAME needs the master's name");
    *out_url = url;
    return OK;
}

const char *redis_url_clause(const char *error)
{
    static const char key[] = "redis.url";
    error += strncmp(error, key, strlen(key)) == 0 ? strlen(key) : 0;
    return error + strspn(error, ": ");
}
