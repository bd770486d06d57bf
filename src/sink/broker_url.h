/*
 * The URL of a [broker.NAME] that is a list of servers, with the user and password to log in:
 *
 *   kafka://[user:password@]host[:port],host[:port],…[?name=value&…]
 *
 * User and password are percent-encoded.
 */
#ifndef LATERD_SINK_BROKER_URL_H
#define LATERD_SINK_BROKER_URL_H

#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

enum {
    BROKER_HOSTS_MAX = 16,
    BROKER_HOST_BYTES = 264, /* "host:port" with its NUL; an IPv6 address in brackets */
    BROKER_WORD_BYTES = 256,
};

struct broker_url {
    bool tls;
    char hosts[BROKER_HOSTS_MAX][BROKER_HOST_BYTES]; /* with their ports */
    unsigned host_count;                             /* at least 1 */
    char user[BROKER_WORD_BYTES], password[BROKER_WORD_BYTES];
    char query[BROKER_WORD_BYTES]; /* behind the question mark, or empty */
};

struct broker_url_kind {
    const char *plain, *tls; /* "kafka", "kafkas" */
    uint16_t port;           /* of a host without one */
};

/* What is wrong: a clause, which never contains a part of the URL. */
struct broker_url_error {
    char text[200];
};

/* Reads a URL. ERR_INVALID: out_error. O(length). Pure. */
enum err broker_url_read(struct bytes text, const struct broker_url_kind *kind,
                         struct broker_url *out_url, struct broker_url_error *out_error) MUST_USE;

/* The same for a text that may be a reference (sink/reference.h): may read a file, so not on the
   loop's thread once turns run. ERR_INVALID also if what it refers to is missing. */
enum err broker_url_find(const char *text, const struct broker_url_kind *kind,
                         struct broker_url *out_url, struct broker_url_error *out_error) MUST_USE;

/* Checks the URL; accepts a reference without reading it. */
enum err broker_url_check(const char *text, const struct broker_url_kind *kind,
                          struct broker_url *out_url, struct broker_url_error *out_error) MUST_USE;

/* The value of a name in `query`, or empty. Not percent-decoded. */
struct bytes broker_url_option(const struct broker_url *url, struct bytes name);

/* "host:port,host:port" into room, for messages and libraries. */
void broker_url_hosts(const struct broker_url *url, char *room, size_t room_bytes);

#endif
