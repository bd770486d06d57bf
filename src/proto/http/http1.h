/*
 * HTTP/1.1, strictly by RFC 9112: decodes one request at a time from a stream of bytes, and encodes
 * responses. Pure. llhttp parses the heads; what it accepts against the RFC (CR in header names,
 * bare LF, two lengths, folded lines, …) is refused here. A refused request always closes the
 * connection, so that no request can be smuggled behind it.
 *
 * However the stream is cut, the same requests and refusals result: a head is checked only when it
 * is complete (a command of beanstalkd at its line's end, TLS at a connection's first byte),
 * and limits are positions in the stream.
 */
#ifndef LATERD_PROTO_HTTP_HTTP1_H
#define LATERD_PROTO_HTTP_HTTP1_H

#include <stdint.h>

#include "base/arena.h"
#include "base/bytes.h"

struct http_limits {
    uint32_t line_bytes;   /* request line; default 8192 */
    uint32_t headers;      /* default 64 */
    uint32_t header_bytes; /* names and values together; default 16384 */
    uint64_t body_bytes;   /* default 1 MiB + room for the JSON around it */
};

enum http_method {
    HTTP_M_GET,
    HTTP_M_HEAD,
    HTTP_M_POST,
    HTTP_M_PUT,
    HTTP_M_PATCH,
    HTTP_M_DELETE,
    HTTP_M_OPTIONS,
    HTTP_M_OTHER
};

/* A complete request. The bytes are valid until the next http1_feed or http1_next. */
struct http_request {
    enum http_method method;
    struct bytes target; /* as sent */
    struct bytes path;   /* not decoded, without the query */
    struct bytes query;  /* without '?'; may be empty */
    struct bytes host;   /* the Host header, with or without a port; empty: none */
    struct bytes content_type;
    struct bytes authorization;
    struct bytes if_match, if_none_match; /* as they were sent; empty: not given */
    struct bytes body;
    bool keep_alive;
    bool http10;
    bool cross_site; /* a browser sends it for a page of another origin */
    bool compressed; /* its body is, by Content-Encoding, which is not undone here */
};

enum http_progress {
    HTTP_MORE,     /* nothing whole yet */
    HTTP_READY,    /* a request is whole */
    HTTP_CONTINUE, /* the headers are complete and the client waits for 100 Continue: send it, then
                      continue feeding */
    HTTP_BAD,      /* refused: answer `status`, then close */
};

enum http1_stage { HTTP1_HEAD, HTTP1_SIZED, HTTP1_CHUNKS, HTTP1_WHOLE, HTTP1_REFUSED };

struct http1 {
    struct http_limits limits;
    struct http_request request;
    int status;         /* HTTP_BAD: 400, 413, 414, 417, 431, 501, 505 */
    const char *reason; /* HTTP_BAD: the error, with the limit, as one sentence; static */
    uint64_t limit;     /* HTTP_BAD: the value of the limit that `reason` names; 0: none */
    uint64_t asked;     /* HTTP_BAD: the announced size, if it is known; else 0 */
    bool beanstalk;     /* HTTP_BAD: it is a command of beanstalkd's protocol */
    bool tls;           /* HTTP_BAD: it is the hello of TLS */
    /* The codec's own: */
    enum http1_stage stage;
    bool later;          /* a request came before: TLS would have begun with the connection */
    bool begun;          /* HEAD: an empty line before the request line was skipped */
    struct buf head;     /* the head so far, if it did not come in one piece with its body */
    struct buf body;     /* the body so far, if it did not come in one piece */
    size_t line_start;   /* HEAD: where the line under way begins */
    size_t fields_start; /* HEAD: where the header lines begin; 0 = in the request line */
    uint32_t lines;      /* HEAD: header lines; CHUNKS: trailer lines */
    uint64_t body_left;  /* SIZED: bytes of the body, CHUNKS: of the chunk, to come */
    uint8_t chunk_step;  /* CHUNKS: enum in http1_chunk.c */
    uint32_t line_bytes; /* CHUNKS: of a size line, or of all trailer lines, so far */
};

void http1_init(struct http1 *http, const struct http_limits *limits);
void http1_fini(struct http1 *http);

/*
 * Parses from `in` up to the end of the first complete request; *out_used: how many bytes were
 * used. A body that is complete in `in` is not copied: request.body then points into `in`.
 */
enum http_progress http1_feed(struct http1 *http, struct bytes in, size_t *out_used);
/* Must be called when the request was handled, before feeding on. */
void http1_next(struct http1 *http);
/*
 * Makes the request independent of the parser, for work that continues after http1_next(): short
 * parts are copied to `arena`, the body's memory moves to `out_body`.
 */
void http1_detach(struct http1 *http, struct arena *arena, struct http_request *out_request,
                  struct buf *out_body);
/* True: an incomplete request has begun (for time-outs: answer 408, or just close). An empty line
   does not begin one: some clients send it behind a body. */
bool http1_midway(const struct http1 *http);

/* The next name=value pair, not decoded; false: none left. */
bool http_query_next(struct bytes *rest, struct bytes *out_name, struct bytes *out_value);
/* Percent-decodes: *out_text lies in `room`, whose content it replaces. False: bad escape or
   NUL. */
bool http_percent_decode(struct bytes text, bool plus_is_space, struct buf *room,
                         struct bytes *out_text);

struct http_response {
    int status;
    const char *content_type; /* NULL: no body */
    bool close;               /* add Connection: close */
    bool http10_keep_alive;   /* add Connection: keep-alive */
    bool head_only;           /* answer to HEAD: length but no body */
    int retry_after_s;        /* 0 = none */
    struct bytes allow;       /* 405: methods */
    struct bytes location;    /* 201: the new resource; may be empty */
    struct bytes etag;        /* with its quotes; may be empty */
    struct bytes date;        /* IMF-fixdate of this second, made by the caller; may be empty */
};

/* "Not Found"; "Internal Server Error" for a status we do not use. */
struct bytes http_status_text(int status);

/* Writes the head and `body` to `out`. */
void http_respond(struct buf *out, const struct http_response *response, struct bytes body);

#endif
