/*
 * Internal declarations of the HTTP/1.1 codec: http1.c splits the stream, http1_head.c checks a
 * complete head, http1_chunk.c decodes a chunked body.
 */
#ifndef LATERD_PROTO_HTTP_HTTP1_PARTS_H
#define LATERD_PROTO_HTTP_HTTP1_PARTS_H

#include "proto/http/http1.h"

struct http_head {
    struct http_request request; /* all but the body */
    bool chunked;
    bool expects_continue;
    uint64_t body_bytes; /* not if chunked */
};

struct http_refusal {
    int status;
    const char *reason;
};

/* Checks a head, from the request line to the empty line. False: *out_refusal says why. */
bool http_head_read(struct bytes head, struct http_head *out_head,
                    struct http_refusal *out_refusal);

/* Begins a chunked body. */
void http_chunks_begin(struct http1 *http);
/* Decodes into http->body; HTTP_MORE, HTTP_READY after the last chunk's trailers, or HTTP_BAD. */
enum http_progress http_chunks_feed(struct http1 *http, struct bytes in, size_t *out_used);

enum http_progress http_refuse(struct http1 *http, int status, const char *reason);
/* The same for a limit of this value. */
enum http_progress http_refuse_limit(struct http1 *http, int status, const char *reason,
                                     uint64_t limit);

/* True: the character may be part of a method or a header name (RFC 9110, 5.6.2). */
bool http_is_token(char c);

#endif
