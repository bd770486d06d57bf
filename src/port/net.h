/*
 * What the server needs of the network: connections that bring bytes and take bytes. Implemented
 * by os/net (epoll, sockets) and sim/net (in memory, split anywhere, cut at any moment).
 *
 * One thread. `wait` gathers what has happened and tells the handler; it is the only place where
 * handler functions are called. A connection's `net_conn` is good until its `gone` was called
 * or the server called `close`.
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
     * Bytes came. They are borrowed; returns how many were used (the rest is shown again, in
     * front of what comes next, when more comes or after resume()).
     */
    size_t (*input)(struct net_handler *handler, void *user, struct bytes bytes);
    /* The other side has closed or reset. `half`: it may still read (it only shut down writing). */
    void (*gone)(struct net_handler *handler, void *user, bool half);
    /* All that send() kept back has been written. */
    void (*drained)(struct net_handler *handler, void *user);
};

struct net {
    const struct net_verbs *verbs;
};

struct net_verbs {
    /*
     * Sleeps until `until_us` (by `now_us`, the clock's reading; INT64_MAX: no limit), input, or a
     * wake(); tells the handler.
     */
    void (*wait)(struct net *net, struct net_handler *handler, int64_t now_us, int64_t until_us);
    void (*wake)(struct net *net); /* from any thread */
    /*
     * Sends what it can now and keeps the rest. False: the connection is broken (gone follows).
     * Data is copied if kept.
     */
    bool (*send)(struct net *net, struct net_conn *conn, struct bytes data);
    size_t (*unsent)(const struct net *net, const struct net_conn *conn); /* bytes kept */
    /* Stop (or go on) reading: a client that sends faster than it is served waits in its socket. */
    void (*hold)(struct net *net, struct net_conn *conn, bool hold);
    /* Show kept input to the handler again at the next wait. */
    void (*resume)(struct net *net, struct net_conn *conn);
    /* Ends the connection; kept bytes are sent first if `flush` (bounded by the os). No `gone`
     * follows. */
    void (*close)(struct net *net, struct net_conn *conn, bool flush);
    void (*stop_listening)(struct net *net);
};

#endif
