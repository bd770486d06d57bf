/*
 * Requests that were not meant for the port they came to, or not for this server at all: each is
 * counted, and logged at most once in ten seconds for each kind.
 */
#ifndef LATERD_SERVER_MISDIRECTED_H
#define LATERD_SERVER_MISDIRECTED_H

#include <stdint.h>

#include "base/bytes.h"

struct session;

enum misdirected_kind {
    MISDIRECTED_HOST,      /* HTTP whose Host is no name of ours */
    MISDIRECTED_HTTP,      /* HTTP on a port for clients of beanstalkd */
    MISDIRECTED_BEANSTALK, /* beanstalkd's protocol on a port for HTTP */
    MISDIRECTED_TLS,       /* TLS on a port for HTTP */
    MISDIRECTED_KINDS
};

struct misdirected {
    uint64_t counts[MISDIRECTED_KINDS];     /* for /metrics */
    int64_t next_log_us[MISDIRECTED_KINDS]; /* silent until then */
    uint64_t silent[MISDIRECTED_KINDS];     /* since the last log line */
};

const char *misdirected_name(enum misdirected_kind kind);

/* One more has come, over this connection, whose other end is logged. `what`: the bytes to log; up
   to 80 printable ones are shown. */
void misdirected_note(struct session *session, enum misdirected_kind kind, struct bytes what);

#endif
