/*
 * Connections that bring no answers any more. Over HTTP/2 libcurl ends a request that has timed out
 * and keeps its connection for others, even if nobody is at its other end any more (a balancer has
 * forgotten it, a machine has gone): each of them would time out, too, until the system gives the
 * connection up, after a quarter of an hour or never. So a receiver whose connection brought
 * nothing while a request waited for its whole time gets new connections, until libcurl finds the
 * silent one too old. Requests that are under way on it go on: it may only be slow.
 *
 * A connection is known by its local port. Nothing that is noted is ever evicted: when a balancer
 * restarts, hundreds of receivers fall silent at once. Webhooks' thread only. All O(1).
 */
#ifndef LATERD_SINK_WEBHOOK_SILENCE_H
#define LATERD_SINK_WEBHOOK_SILENCE_H

#include "port/sink.h"

enum {
    SILENCE_PORTS = UINT16_MAX + 1,
    SILENCE_HOSTS = 4096, /* by their names' hash; two in one place are marked together */
    SILENCE_AGE_S = 118,  /* CURLOPT_MAXAGE_CONN: longer unused, it is not used again */
};

struct silence {
    int64_t heard_us[SILENCE_PORTS]; /* by local port: the last answer over HTTP/2; 0: none */
    int64_t until_us[SILENCE_HOSTS]; /* by the hash of host:port: it gets new connections */
};

/* An answer begins: `line` is its first one. */
void silence_heard(struct silence *silence, long port, struct bytes line, int64_t now_us);
/* A request on this connection has waited since `begun_us`, and has no answer. */
void silence_timed_out(struct silence *silence, long port, const char *host, int64_t begun_us,
                       int64_t now_us);
/* True: a request to this receiver must have a connection of its own. */
bool silence_wants_new(const struct silence *silence, const char *host, int64_t now_us);

#endif
