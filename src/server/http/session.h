/*
 * One HTTP connection: requests in, answers out in the order of the requests (RFC 9112, 9.3.2): a
 * pipeline of `struct request`. While a long poll is parked nothing after it is looked at.
 */
#ifndef LATERD_SERVER_HTTP_SESSION_H
#define LATERD_SERVER_HTTP_SESSION_H

#include "server/pipeline.h"

struct http_session {
    struct pipeline pipeline;
    struct http1 http;
    bool continue_pending; /* 100 Continue, as soon as nothing is pending before it */
    int64_t active_us;     /* the last time bytes came or an answer went */
    struct buf deliveries; // struct unsent_job: reservations in bytes that may not have arrived
};

extern const struct pipeline_kind http_session_kind;

/* For decode.c: the worker has decoded the request, which came for `host`. */
struct request;
void http_session_decoded(struct request *request, struct call *call, struct bytes host);

static inline struct server *http_server(const struct http_session *http)
{
    return http->pipeline.session.server;
}

#endif
