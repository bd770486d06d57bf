/*
 * port/loop.h on Linux: one epoll instance, level-triggered, non-blocking sockets. Reads go into
 * one shared buffer, so a request that comes whole is never copied: 4 KiB at first, up to 256 KiB
 * while the peer fills them and the handler uses all. Only bytes that the handler leaves are
 * copied.
 *
 * Out of file descriptors: accepting pauses for 200 ms at a time, for all listeners, which is
 * logged once. They take turns in being the first one after a pause.
 */
#ifndef LATERD_OS_LOOP_H
#define LATERD_OS_LOOP_H

#include "port/loop.h"

struct os_loop;

enum { LOOP_LISTENERS_MAX = 64 };

/*
 * `reserved`: descriptors that the rest of the process will need beside those open now. Clients are
 * accepted only while that many are left, but may always use half of the limit. NULL: no epoll;
 * errno says why.
 */
struct os_loop *os_loop_new(struct clock *clock, unsigned reserved);
void os_loop_free(struct os_loop *loop); /* closes every stream */
struct loop *os_loop_port(struct os_loop *loop);

/* Takes the listening socket over; its streams are `listener` to loop::acceptor. */
void os_loop_listen(struct os_loop *loop, int fd, unsigned listener);
/*
 * The same, with TLS: the acceptor is called when a client's handshake is done. A handshake that
 * fails, or is not done within timeout_us, ends the connection without a call or a log line; the
 * client counts as one meanwhile. `tls`: of tls_server_new(), borrowed for the loop's life.
 * Only tests call it so far: laterd's configuration has no listeners with TLS.
 */
void os_loop_listen_tls(struct os_loop *loop, int fd, unsigned listener, struct tls *tls,
                        int64_t timeout_us);

/*
 * Ends sleep() when the descriptor has something (edge-triggered: an eventfd need never be read).
 */
void os_loop_wake_by(struct os_loop *loop, int fd);
/* Undoes os_loop_wake_by(); must be called before the descriptor is closed. */
void os_loop_forget(struct os_loop *loop, int fd);

/* For tests: the number of open streams, of clients and to servers. */
unsigned os_loop_count(const struct os_loop *loop);

#endif
