/*
 * port/net.h on Linux: one epoll instance, level-triggered, non-blocking sockets. Reads go into one
 * shared buffer, so a request that comes whole is never copied: 4 KiB at first, up to 256 KiB from
 * a client that fills them while the handler takes all. Only what the handler leaves is kept.
 *
 * Out of file descriptors: accepting pauses for 200 ms at a time, which is logged once.
 */
#ifndef LATERD_OS_NET_H
#define LATERD_OS_NET_H

#include "port/clock.h"
#include "port/net.h"

struct os_net;

enum { NET_LISTENERS_MAX = 64 };

/*
 * `reserved`: descriptors that others will need, beside those that are open now; connections are
 * only taken while so many are left, but may always have half of the limit. NULL: no epoll; errno
 * says why.
 */
struct os_net *os_net_new(struct clock *clock, unsigned reserved);
void os_net_free(struct os_net *net); /* closes every connection */
struct net *os_net_port(struct os_net *net);

/* Takes the listening socket over; its connections are `listener` to the handler. */
void os_net_listen(struct os_net *net, int fd, unsigned listener);

/*
 * Ends sleep() when the descriptor has something (edge-triggered: an eventfd need never be read).
 */
void os_net_watch(struct os_net *net, int fd);

/* Open connections. */
unsigned os_net_count(const struct os_net *net);

#endif
