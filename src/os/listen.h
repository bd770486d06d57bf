/*
 * Listening sockets: "127.0.0.1:9277", "[::1]:9277", "0.0.0.0:0", "unix:/run/laterd.sock", or
 * passed in by the service manager (socket activation, sd_listen_fds(3)).
 */
#ifndef LATERD_OS_LISTEN_H
#define LATERD_OS_LISTEN_H

#include <stddef.h>

#include "base/err.h"

enum { LISTEN_ADDR_MAX = 128 };

/* Is it an address of one of these forms? Opens nothing. ERR_INVALID. */
enum err listen_check(const char *address) MUST_USE;

/*
 * ERR_INVALID: not an address. ERR_IO: the system refused, errno says why (EADDRINUSE …). The
 * socket is non-blocking and close-on-exec; the caller closes it. A stale unix socket file that
 * nobody listens on is replaced.
 */
enum err listen_open(const char *address, int *out_fd) MUST_USE;

/* The address a socket is bound to, in the form above. */
void listen_name(int fd, char *room, size_t room_bytes);

/* How many sockets the service manager passed in; they are 3, 4, … Reads and clears the
 * environment. */
unsigned listen_passed(void);
enum { LISTEN_PASSED_FIRST = 3 };

#endif
