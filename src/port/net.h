/*
 * What the server needs of the network: connections that bring bytes and take bytes. Implemented
 * by os/net (epoll, sockets) and sim/net (in memory, split anywhere, cut at any moment).
 *
 * One thread. gather() is the only place where handler functions are called. A connection's
 * `net_conn` is good until its `gone` was called or the server called close().
 */
#ifndef LATERD_PORT_NET_H
#define LATERD_PORT_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

struct net_conn; /* one connection */

struct net_handler {
    /* Somebody connected to listener number `listener`. The result is the conn's `user`. */
    void *(*opened)(struct net_handler *handler, struct net_conn *conn, unsigned listener);
    /*
     * Bytes came. They are borrowed; returns how many were used. The rest is kept, and until it is
     * used no more is read from the client: the handler calls resume() when it can go on.
     */
    size_t (*input)(struct net_handler *handler, void *user, struct bytes bytes);
    /*
     * The client has ended its sending, and before that end are bytes that were not shown yet: it
     * may have gone, and is to be handed nothing that it would wait for (P6). The bytes, and then
     * `gone`, follow as the handler takes them. Called once at most.
     */
    void (*leaving)(struct net_handler *handler, void *user);
    /*
     * The other side has gone. `half`: it has only ended its sending and may still read; all its
     * bytes were shown; the connection stays until close(). Else the connection is no more.
     */
    void (*gone)(struct net_handler *handler, void *user, bool half);
    /* All that send() had kept is sent. */
    void (*drained)(struct net_handler *handler, void *user);
    /* So many bytes were sent or dropped for a connection, in one step: the handler counts them. */
    void (*moved)(struct net_handler *handler, size_t bytes);
    /* Has the handler done enough for one turn? gather() asks before each connection. */
    bool (*spent)(const struct net_handler *handler);
};

struct net {
    const struct net_verbs *verbs;
};

struct net_verbs {
    /* Sleeps until the time (INT64_MAX: no limit; a past time: not at all), input, or a wake. */
    void (*sleep)(struct net *net, int64_t until_us);
    /*
     * Calls the handler for what has happened, one connection after the other, each at most once,
     * until all are served or handler->spent(). Those that are left come first in the next gather,
     * which then follows without sleep: true.
     */
    bool (*gather)(struct net *net, struct net_handler *handler);
    /*
     * Sends what it can now, keeps the rest, and sends that as the client reads. Empties `data`, or
     * takes its memory over.
     */
    void (*send)(struct net *net, struct net_conn *conn, struct buf *data);
    /* Bytes kept. A broken connection keeps them for ever; `gone` follows in the next gather. */
    size_t (*unsent)(const struct net *net, const struct net_conn *conn);
    /* Memory that the connection's buffers take, in both directions, in bytes. O(1). */
    size_t (*held)(const struct net *net, const struct net_conn *conn);
    /*
     * Shows kept input to the handler again at the next gather, which comes without sleep. From
     * within input() it means the bytes that this call leaves.
     */
    void (*resume)(struct net *net, struct net_conn *conn);
    /*
     * Ends the connection: no handler call follows. `linger`: kept bytes are sent first, and what
     * the client still sends is read and dropped for a while, so that our last answer is not lost
     * to a reset (RFC 9112, 9.6).
     */
    void (*close)(struct net *net, struct net_conn *conn, bool linger);
    /* Takes no new connections any more; the sockets are closed. */
    void (*stop_listening)(struct net *net);
};

#endif
