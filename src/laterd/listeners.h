/*
 * The listening sockets: those of the configuration, or those that the service manager opened for
 * us (socket activation) in their place.
 */
#ifndef LATERD_LATERD_LISTENERS_H
#define LATERD_LATERD_LISTENERS_H

#include "laterd/command_line.h"
#include "os/listen.h"
#include "os/loop.h"
#include "server/server.h"

struct listeners {
    struct server_listener what[LOOP_LISTENERS_MAX];
    int fds[LOOP_LISTENERS_MAX];
    bool watched[LOOP_LISTENERS_MAX];
    unsigned count;
};

/*
 * Opens all listeners, HTTP first, so that the first `listening` line of the log has HTTP's port.
 * Returns 0, or the exit status, with the reason on standard error. The sockets stay open until the
 * process ends.
 */
int listeners_open(const struct command_line *line, struct listeners *out_listeners) MUST_USE;

/* The address of the first listener for HTTP over TCP; "": there is none. */
void listeners_http(const struct listeners *listeners, char out_address[LISTEN_ADDR_MAX]);

/* Makes the loop accept connections: of the HTTP listeners, or of all. Until then clients wait in
   the sockets' backlogs. */
void listeners_watch(struct listeners *listeners, struct os_loop *loop, bool http_only);

/* Logs a `listening` line for each. */
void listeners_log(const struct listeners *listeners);

#endif
