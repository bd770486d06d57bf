/*
 * The protocols that listeners speak: one row each. README.md says how another is added.
 */
#ifndef LATERD_SERVER_PROTOCOL_H
#define LATERD_SERVER_PROTOCOL_H

#include <stddef.h>

struct session_kind;

enum protocol_kind { PROTOCOL_HTTP, PROTOCOL_BEANSTALK, PROTOCOL_KINDS };

struct protocol {
    const char *name;                   /* in the log and in metrics */
    const char *option;                 /* key of [server] that names its listeners' addresses */
    const struct session_kind *session; /* what a connection does */
    size_t session_bytes;               /* its struct, of which a `struct session` is the start */
};

extern const struct protocol protocols[PROTOCOL_KINDS];

#endif
