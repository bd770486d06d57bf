/*
 * A small HTTP/1.1 client: one server, one kept connection, one request at a time, blocking with a
 * time-out. The load generator only borrows client_dial(). The answer's bytes belong to
 * the client and are good until the next call.
 */
#ifndef LATERD_CLI_CLIENT_H
#define LATERD_CLI_CLIENT_H

#include "base/bytes.h"
#include "base/err.h"

enum { CLIENT_HOST_ROOM = 256, CLIENT_ANSWER_MAX = 256 << 20 /* bytes */ };

struct client {
    char host[CLIENT_HOST_ROOM]; /* without brackets */
    char port[6];
    char authority[CLIENT_HOST_ROOM + 8]; /* for the Host header */
    int fd;                               /* -1: not connected */
    struct buf out;
    struct buf head; /* content type of the answer */
    struct buf body;
    char error[320]; /* after an error: what went wrong, for people */
    /* While a call waits and `watch_fd` can be read, `watch` is asked whether to give the call up:
     * it ends with ERR_IO then, and `interrupted` is set. NULL: nothing is watched. */
    bool (*watch)(void);
    int watch_fd;
    bool interrupted;
};

struct client_request {
    const char *method;
    struct bytes target;      /* "/v1/…" */
    const char *content_type; /* NULL: no body */
    struct bytes body;
    int64_t timeout_us; /* for the whole call */
};

struct client_answer {
    int status;
    struct bytes content_type;
    struct bytes body;
};

/* `url`: "http://host:port", "host:port" or "host"; port 9277 if none. ERR_INVALID: trouble. */
enum err client_init(struct client *client, const char *url) MUST_USE;
void client_fini(struct client *client);

/* ERR_IO: could not connect, or the connection broke, or no whole answer within the time. */
enum err client_call(struct client *client, const struct client_request *request,
                     struct client_answer *out_answer) MUST_USE;

/* A new connected non-blocking socket without Nagle's delay, for the caller to close. */
enum err client_dial(struct client *client, int64_t timeout_us, int *out_fd) MUST_USE;

#endif
