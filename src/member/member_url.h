/*
 * The URL of a coordination service:
 * SCHEME://[USER[:PASSWORD]@]HOST[:PORT][,HOST[:PORT]…][/PATH][?KEY=VALUE]. User and password are
 * percent-encoded. Pure.
 */
#ifndef LATERD_MEMBER_MEMBER_URL_H
#define LATERD_MEMBER_MEMBER_URL_H

#include "base/bytes.h"
#include "port/member.h"

enum { MEMBER_HOSTS_MAX = 512, MEMBER_WORD_MAX = 128 };

struct member_url {
    char hosts[MEMBER_HOSTS_MAX]; /* "h1:2181,h2:2181": each with its port */
    char host[MEMBER_WORD_MAX];   /* the first, without its port; of [::1] without the brackets */
    uint16_t port;                /* of the first */
    unsigned host_count;
    char user[MEMBER_WORD_MAX], password[MEMBER_WORD_MAX]; /* "": none was given */
    char path[MEMBER_WORD_MAX];  /* "/a/b", without a slash at its end; or "" */
    char query[MEMBER_WORD_MAX]; /* behind the '?', or "" */
};

/* Reads a URL. ERR_INVALID: out_error has a clause that never contains the password. */
enum err member_url_read(const char *text, const char *scheme, uint16_t default_port,
                         struct member_url *out_url, struct member_error *out_error) MUST_USE;

#endif
