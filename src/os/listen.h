/*
 * Listening sockets: "127.0.0.1:9277", "[::1]:9277", "0.0.0.0:0", "localhost:9277",
 * "unix:/run/laterd.sock", or passed in by the service manager (socket activation,
 * sd_listen_fds(3)).
 */
#ifndef LATERD_OS_LISTEN_H
#define LATERD_OS_LISTEN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum { LISTEN_ADDR_MAX = 128, LISTEN_NAME_MAX = 64 };

/* Checks that the text is an address of one of these forms. Opens and looks up nothing.
   ERR_INVALID. */
enum err listen_check(const char *address) MUST_USE;

/*
 * Opens a listening socket. ERR_INVALID: not an address. ERR_NOT_FOUND: no host has this name.
 * ERR_IO: the system refused, errno says why (EADDRINUSE …). The socket is non-blocking and
 * close-on-exec; the caller closes it. Of a name's addresses the first is used; looking it up may
 * wait for DNS. A stale Unix socket file that no process listens on is replaced.
 */
enum err listen_open(const char *address, int *out_fd) MUST_USE;

/* Writes the address that the socket is bound to, in the form above, cut to the room. */
void listen_name(int fd, char *room, size_t room_bytes);

/* Writes the machine's first IPv4 address that is not loopback, of an interface that is up, or
   "127.0.0.1" if there is none; cut to the room. */
void listen_first_address(char *room, size_t room_bytes);

struct listen_passed {
    int fd;                     /* non-blocking and close-on-exec */
    char name[LISTEN_NAME_MAX]; /* FileDescriptorName= of its unit; may be empty, or cut */
    bool listens;               /* false: it is something else than a listening stream socket */
};

/* Fills in the sockets that the service manager passed in, up to `max`, and returns how many it
   passed. Reads and clears the environment. */
unsigned listen_passed(struct listen_passed *out_passed, unsigned max);

#endif
