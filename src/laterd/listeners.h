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
 * Opens all; HTTP first: who reads the log for the port finds that of HTTP in the first line. 0, or
 * the exit status of a start that failed, which has been said on standard error. What was opened
 * stays open until the process ends.
 */
int listeners_open(const struct command_line *line, struct listeners *out_listeners) MUST_USE;

/* The address of the first that speaks HTTP over TCP; "": there is none. */
void listeners_http(const struct listeners *listeners, char out_address[LISTEN_ADDR_MAX]);

/* From now on the loop accepts their connections: of those that speak HTTP, or of all. Until then
   clients wait in the queues of the sockets. */
void listeners_watch(struct listeners *listeners, struct os_loop *loop, bool http_only);

/* A line in the log for each. */
void listeners_log(const struct listeners *listeners);

#endif
