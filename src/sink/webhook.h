/*
 * Webhooks: jobs as POST requests, by libcurl's multi interface on a thread of its own. HTTP/1.1,
 * and HTTP/2 over TLS if the receiver supports it; connections are reused. docs/webhooks.md
 * describes the requests and the meaning of answers.
 *
 *   event                                                   outcome
 *   a status and a body of the target's success rule        DELIVERED
 *   410                                                     GONE
 *   a status of bury_on; a URL that can never be sent to    REFUSED
 *   another answer, time-out, no connection, a bad          FAILED
 *   certificate, a secret that cannot be used, an address that is not allowed
 *   the sink is closed; libcurl cannot be loaded; the       UNSENT
 *   system has no descriptor left for a connection
 *
 * An answer with a status of success whose body is longer than response_bytes is DELIVERED, unless
 * the target has a rule for the body; the rest of the body is not read.
 *
 * The thread starts, and libcurl is loaded, with the first delivery. Deliveries go to the thread in
 * a mailbox and come back as messages of the loop. Each is begun at once, so the caller's limit of
 * deliveries under way also bounds connections and memory, and a time-out contains no waiting.
 */
#ifndef LATERD_SINK_WEBHOOK_H
#define LATERD_SINK_WEBHOOK_H

#include "port/loop.h"
#include "port/sink.h"
#include "sink/address_rule.h"

/* All borrowed until the sink is closed. */
struct webhook_options {
    struct loop *loop;
    const struct address_rule *rule; /* applied to each address before connecting */
    int64_t timeout_us;              /* of deliveries with a time-out of 0 */
    int64_t connect_timeout_us;
    uint64_t response_bytes;   /* bytes of the body of an answer that are read, at most */
    const char *proxy;         /* "" none */
    const char *unix_sockets;  /* paths that may be connected to, each followed by a line end */
    unsigned idle_connections; /* so many are kept */
};

/* Starts no thread yet. sink_verbs::close frees it. NULL: no descriptor is left, errno says why. */
struct sink *webhook_new(const struct webhook_options *options);

#endif
