/*
 * Webhooks: jobs as POST requests, by libcurl's multi interface on a thread of its own. HTTP/1.1,
 * and HTTP/2 over TLS if the receiver has it; connections are used again. What is sent and what
 * answers mean is in docs/webhooks.md.
 *
 *   what happens                                            outcome
 *   a status and a body of the target's success rule        DELIVERED
 *   410                                                     GONE
 *   a status of bury_on; a URL that can never be sent to    REFUSED
 *   another answer, time-out, no connection, a bad          FAILED
 *   certificate, a secret that cannot be used, an address that is not allowed
 *   the sink is closed; libcurl cannot be loaded            UNSENT
 *
 * An answer with a status of success whose body is longer than response_bytes is DELIVERED, unless
 * there is a rule for the body: the receiver has the job. It is not read on.
 *
 * The thread starts, and libcurl is loaded, with the first delivery. Deliveries go there in a
 * mailbox and come back as messages of the loop. Each is begun at once, so the caller's limit of
 * what is under way bounds connections, memory, and what a time-out counts.
 */
#ifndef LATERD_SINK_WEBHOOK_H
#define LATERD_SINK_WEBHOOK_H

#include "port/loop.h"
#include "port/sink.h"
#include "sink/address_rule.h"

/* All borrowed until the sink is closed. */
struct webhook_options {
    struct loop *loop;
    const struct address_rule *rule; /* asked about each address that is connected to */
    int64_t timeout_us;              /* of deliveries that say 0 */
    int64_t connect_timeout_us;
    uint64_t response_bytes;   /* of an answer's body that are read */
    const char *proxy;         /* "" none */
    const char *unix_sockets;  /* paths that may be connected to, a line end behind each */
    unsigned idle_connections; /* so many are kept */
};

/* Freed by its `close`. Starts nothing yet. NULL: no descriptor is left, errno says why. */
struct sink *webhook_new(const struct webhook_options *options);

#endif
