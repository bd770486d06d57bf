/*
 * The URL of Redis, with the user and password to log in:
 *
 *   redis://[user:password@]host[:port][/db]            one server
 *   unix:///path/to/socket                              one server on this machine
 *   redis+sentinel://[user:password@]h1[:port],h2,…/name[/db]
 *   redis+cluster://[user:password@]h1[:port],h2,…
 *
 * With rediss instead of redis: over TLS. User and password are percent-encoded, because both may
 * have any bytes. Pure.
 */
#ifndef LATERD_CLIENT_REDIS_URL_H
#define LATERD_CLIENT_REDIS_URL_H

#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

enum redis_topology { REDIS_SINGLE, REDIS_SENTINEL, REDIS_CLUSTER };

enum {
    REDIS_ADDRESSES_MAX = 16,
    REDIS_HOST_MAX = 256,
    REDIS_WORD_MAX = 256, /* bytes of a user, a password or a name, with its NUL */
    REDIS_PORT = 6379,
    REDIS_SENTINEL_PORT = 26379,
    REDIS_ERROR_MAX = 384,
};

/* A host that begins with a slash is the path of a Unix socket. */
struct redis_address {
    char host[REDIS_HOST_MAX];
    uint16_t port;
};

struct redis_url {
    enum redis_topology topology;
    struct redis_address addresses[REDIS_ADDRESSES_MAX];
    unsigned address_count; /* at least 1 */
    char user[REDIS_WORD_MAX];
    char password[REDIS_WORD_MAX];
    char service[REDIS_WORD_MAX]; /* the master's name in Sentinel */
    unsigned db;
    bool tls;
};

/* What is wrong, a text for people that never contains the password. */
struct redis_error {
    char text[REDIS_ERROR_MAX];
};

/* ERR_INVALID: out_error. */
enum err redis_url_read(struct bytes text, struct redis_url *out_url,
                        struct redis_error *out_error) MUST_USE;

/* The part of an error's text behind "redis.url", for a URL that is the value of another key. */
const char *redis_url_clause(const char *error);

/* "host:port", "[::1]:port" or the path; for logs and messages. `room`, of REDIS_HOST_MAX + 8 bytes
   for any address, is only used if it is not a path. */
struct bytes redis_address_text(const struct redis_address *address, char *room, size_t room_bytes);
bool redis_address_eq(const struct redis_address *a, const struct redis_address *b);
/*
 * Makes an address that a server reported: a host name or a numeric address, and a port. False: it
 * is neither. The path of a Unix socket is refused, because only the configuration may choose one.
 */
bool redis_address_make(struct bytes host, uint64_t port, struct redis_address *out_address);
/* "host:port" or "[::1]:port", as Redis writes addresses in its answers; false: it is neither. */
bool redis_address_read(struct bytes text, uint16_t default_port,
                        struct redis_address *out_address);

#endif
