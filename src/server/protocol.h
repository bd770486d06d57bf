/*
 * The protocols that listeners speak: one row each. README.md says how another is added.
 */
#ifndef LATERD_SERVER_PROTOCOL_H
#define LATERD_SERVER_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/api/api.h"

struct session_kind;

enum protocol_kind { PROTOCOL_HTTP, PROTOCOL_BEANSTALK, PROTOCOL_SDMQ, PROTOCOL_KINDS };

struct protocol {
    const char *name;    /* in the log and in metrics */
    const char *option;  /* key of [server], and option of laterd, for its listeners' addresses */
    const char *port;    /* the usual one, for examples */
    const char *clients; /* who they are, for messages */
    const char *rival;   /* what else listens on the usual port, for messages */
    bool http;           /* it is HTTP, so /v1 and the server's own pages are there, too */
    bool dialects;       /* an address may name a dialect behind a comma, … */
    enum api_dialect dialect;           /* … else, if it is HTTP, it is this one */
    const struct session_kind *session; /* handles a connection */
    size_t session_bytes;               /* its struct, of which a `struct session` is the start */
};

extern const struct protocol protocols[PROTOCOL_KINDS];

#endif
