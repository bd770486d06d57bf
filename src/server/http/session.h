/*
 * One HTTP connection: requests in, answers out in the order asked (RFC 9112, 9.3.2).
 *
 * Each request is a `struct request` in the list; whatever is answered first waits there until all
 * before it are answered. While a long poll is parked nothing after it is looked at.
 */
#ifndef LATERD_SERVER_HTTP_SESSION_H
#define LATERD_SERVER_HTTP_SESSION_H

#include "server/session.h"

struct http_session {
    struct session session;
    struct http1 http;
    struct list requests; // request::place, oldest first
    uint32_t request_count;
    size_t
        batch_bytes; /* of batches under way, with replies held for them, and texts being decoded */
    size_t early_bytes; /* of all answers that wait behind older requests */
    bool leaving;       /* the client has ended its sending, and is to wait for nothing */
    bool ended;         /* all that it sent was shown to us */
    bool unread;        /* not all that was shown is taken yet */
    bool last;          /* no request is taken after those in the list */
    bool owes_continue; /* 100 Continue, as soon as nothing is owed before it */
    bool in_input;      /* input() is on the stack: it goes on reading by itself */
    int64_t active_us;  /* the last time bytes came or an answer went */
    struct buf handed;  // struct delivery: reservations in bytes that may not have arrived
};

extern const struct session_kind http_session_kind;

/* For request.c: answers have been written; see whether there is more to read, or it is the end. */
void http_session_answered(struct http_session *http);

/* There may be room again to read on what the client has sent. */
void http_session_read_on(struct http_session *http);

/* For decode.c: the worker has decoded the request, which came for `host`. */
struct request;
void http_session_decoded(struct request *request, struct call *call, struct bytes host);

/* Answers with a problem and closes. */
void http_session_refuse(struct session *session, enum err err, int status, const char *detail);

#endif
