/*
 * Splits the stream into heads and bodies. A head or body that is complete in the input is used in
 * place; one that comes in pieces is collected in http1::head and http1::body.
 *
 * The search for the end of a head checks only line ends and limits, in stream order, so that the
 * first error is the same however the stream is split.
 */
#include "proto/http/http1.h"

#include "base/block16.h"
#include "base/check.h"
#include "proto/beanstalk/beanstalk.h"
#include "proto/http/http1_parts.h"

enum {
    CRLF = 2,
    KEEP_HEAD_BYTES = 512,
    KEEP_BODY_BYTES = 1024,
    TLS_HANDSHAKE = 0x16, /* the first byte of its first record (RFC 8446, 5.1) */
};

void http1_init(struct http1 *http, const struct http_limits *limits)
{
    *http = (struct http1){.limits = *limits};
}

void http1_fini(struct http1 *http)
{
    buf_fini(&http->head);
    buf_fini(&http->body);
}

void http1_next(struct http1 *http)
{
    if (http->stage == HTTP1_REFUSED)
        return; /* for good */
    http->stage = HTTP1_HEAD;
    http->later = true;
    http->begun = false;
    http->head.len = 0;
    http->body.len = 0;
    http->line_start = 0;
    http->fields_start = 0;
    http->lines = 0;
    buf_shrink(&http->head, KEEP_HEAD_BYTES);
    buf_shrink(&http->body, KEEP_BODY_BYTES);
}

bool http1_midway(const struct http1 *http)
{
    switch (http->stage) {
    case HTTP1_HEAD: return http->head.len > 0; /* an empty line may end what came before */
    case HTTP1_SIZED:
    case HTTP1_CHUNKS: return true;
    case HTTP1_WHOLE:
    case HTTP1_REFUSED: break;
    }
    return false;
}

enum http_progress http_refuse(struct http1 *http, int status, const char *reason)
{
    http->stage = HTTP1_REFUSED;
    http->status = status;
    http->reason = reason;
    http->request.keep_alive = false;
    return HTTP_BAD;
}

enum http_progress http_refuse_limit(struct http1 *http, int status, const char *reason,
                                     uint64_t limit)
{
    http->limit = limit;
    return http_refuse(http, status, reason);
}

/* ---- the end of a head ---- */

/* Where the line under way must have ended, its line end included, counted from the head's
   start. */
static size_t line_limit(const struct http1 *http)
{
    if (http->fields_start == 0)
        return http->line_start + http->limits.line_bytes + CRLF;
    return http->fields_start + http->limits.header_bytes + CRLF;
}

/* A line of `len` characters is whole. READY: the head is. */
static enum http_progress line_ended(struct http1 *http, struct bytes line)
{
    if (http->fields_start == 0) {
        if (line.len == 0)
            return http_refuse(http, 400, "the request line is empty");
        http->beanstalk = beanstalk_is_command(line);
        if (http->beanstalk) /* its client waits for an answer, and sends no empty line */
            return http_refuse(
                http, 400,
                "this is laterd's port for HTTP (server.http); beanstalkd's protocol "
                "is spoken on another one (server.beanstalk), 11300 by default");
        http->fields_start = http->line_start + line.len + CRLF;
        return HTTP_MORE;
    }
    if (line.len == 0)
        return HTTP_READY;
    if (line.at[0] == ' ' || line.at[0] == '\t')
        return http_refuse(http, 400, "a header line is folded");
    if (++http->lines > http->limits.headers)
        return http_refuse_limit(http, 431, "there are more headers than limits.headers",
                                 http->limits.headers);
    return HTTP_MORE;
}

/* The first CR or LF; NULL: there is none. */
static const char *find_line_end(const char *at, size_t len)
{
    const char *end = at + len;
    while (end - at >= (ptrdiff_t)sizeof(block16)) {
        block16 bytes = block16_at(at);
        unsigned others = block16_unmarked((block16)((bytes == '\r') | (bytes == '\n')));
        at += others;
        if (others < sizeof(bytes))
            return at;
    }
    while (at < end && *at != '\r' && *at != '\n')
        at++;
    return at < end ? at : NULL;
}

/* Continues the search for the head's end; READY: it ends at http->line_start. */
static enum http_progress find_end(struct http1 *http, struct bytes text)
{
    enum http_progress progress = HTTP_MORE;
    while (progress == HTTP_MORE) {
        size_t limit = line_limit(http);
        size_t left = (text.len < limit ? text.len : limit) - http->line_start;
        const char *line = text.at + http->line_start;
        const char *cr = find_line_end(line, left);
        size_t span = cr ? (size_t)(cr - line) : left;
        bool whole = cr && span + 1 < left; /* what follows the CR has come */
        if (cr && *cr == '\n')
            return http_refuse(http, 400, "a line ends in LF without CR");
        if (whole && cr[1] != '\n')
            return http_refuse(http, 400, "a CR is not followed by LF");
        if (!whole && text.len < limit)
            return HTTP_MORE;
        if (!whole)
            return http->fields_start == 0
                       ? http_refuse_limit(http, 414, "the request line is over limits.line_bytes",
                                           http->limits.line_bytes)
                       : http_refuse_limit(http, 431, "the headers are over limits.header_bytes",
                                           http->limits.header_bytes);
        progress = line_ended(http, bytes_of(line, span));
        http->line_start += span + CRLF;
    }
    return progress;
}

/* ---- the body ---- */

static void move(struct bytes *bytes, const char *from, const char *to)
{
    if (bytes->at)
        bytes->at = to + (bytes->at - from);
}

/* Copies the head from the input, which becomes invalid. */
static void keep_head(struct http1 *http, struct bytes head)
{
    struct http_request *request = &http->request;
    buf_add_bytes(&http->head, head);
    const char *to = http->head.at;
    move(&request->target, head.at, to);
    move(&request->path, head.at, to);
    move(&request->query, head.at, to);
    move(&request->host, head.at, to);
    move(&request->content_type, head.at, to);
    move(&request->authorization, head.at, to);
    move(&request->if_match, head.at, to);
    move(&request->if_none_match, head.at, to);
}

void http1_detach(struct http1 *http, struct arena *arena, struct http_request *out_request,
                  struct buf *out_body)
{
    struct http_request request = http->request;
    struct bytes *const parts[] = {&request.target,   &request.path,         &request.query,
                                   &request.host,     &request.content_type, &request.authorization,
                                   &request.if_match, &request.if_none_match};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        *parts[i] = arena_copy(arena, *parts[i]);
    *out_body = (struct buf){0};
    if (request.body.len && request.body.at == http->body.at) {
        *out_body = http->body;
        http->body = (struct buf){0};
    } else {
        buf_add_bytes(out_body, request.body);
        request.body.at = out_body->at;
    }
    *out_request = request;
}

static enum http_progress feed_sized(struct http1 *http, struct bytes in, size_t *out_used)
{
    size_t part = in.len < http->body_left ? in.len : (size_t)http->body_left;
    *out_used = part;
    http->body_left -= part;
    if (http->body_left == 0 && http->body.len == 0) {
        http->request.body = bytes_of(in.at, part);
        return HTTP_READY;
    }
    /* It grows with the received bytes, not with Content-Length. */
    buf_reserve_to(&http->body, part, http->body.len + part + (size_t)http->body_left);
    buf_add(&http->body, in.at, part);
    http->request.body = buf_bytes(&http->body);
    return http->body_left == 0 ? HTTP_READY : HTTP_MORE;
}

static enum http_progress feed_body(struct http1 *http, struct bytes in, size_t *out_used)
{
    enum http_progress progress;
    if (http->stage == HTTP1_SIZED)
        progress = feed_sized(http, in, out_used);
    else
        progress = http_chunks_feed(http, in, out_used);
    if (progress == HTTP_READY)
        http->stage = HTTP1_WHOLE;
    return progress;
}

/* The head is complete: checks it, and continues with the input behind it. */
static enum http_progress begin_body(struct http1 *http, struct bytes head, struct bytes rest,
                                     size_t *out_used)
{
    struct http_head judged;
    struct http_refusal refusal;
    *out_used = 0;
    if (!http_head_read(head, &judged, &refusal))
        return http_refuse(http, refusal.status, refusal.reason);
    http->request = judged.request;
    if (judged.chunked) {
        http->stage = HTTP1_CHUNKS;
        http_chunks_begin(http);
    } else if (judged.body_bytes > http->limits.body_bytes) {
        http->asked = judged.body_bytes;
        return http_refuse_limit(http, 413, "the body is over limits.request_bytes",
                                 http->limits.body_bytes);
    } else {
        http->stage = HTTP1_SIZED;
        http->body_left = judged.body_bytes;
    }
    enum http_progress progress = feed_body(http, rest, out_used);
    if (progress == HTTP_MORE) {
        if (http->head.len == 0)
            keep_head(http, head);
        if (judged.expects_continue && rest.len == 0)
            progress = HTTP_CONTINUE;
    }
    return progress;
}

/* ---- heads ---- */

/* One empty line before a request is skipped (RFC 9112, 2.2); a second one is not. */
static size_t skip_empty_line(struct http1 *http, struct bytes in)
{
    if (http->begun || http->head.len || in.len < CRLF || in.at[0] != '\r' || in.at[1] != '\n')
        return 0;
    http->begun = true;
    return CRLF;
}

/* Its client waits for an answer, and a hello need have no line end. */
static enum http_progress refuse_tls(struct http1 *http)
{
    http->tls = true;
    return http_refuse(http, 400,
                       "this is TLS, and laterd's port for HTTP has none: ask by http://, or "
                       "through a proxy that has TLS");
}

/* The head begins in this input. */
static enum http_progress feed_fresh_head(struct http1 *http, struct bytes in, size_t *out_used)
{
    size_t skipped = skip_empty_line(http, in);
    struct bytes text = bytes_of(in.at + skipped, in.len - skipped);
    *out_used = in.len;
    if (!http->later && text.len && text.at[0] == TLS_HANDSHAKE)
        return refuse_tls(http);
    enum http_progress progress = find_end(http, text);
    if (progress == HTTP_MORE)
        buf_add_bytes(&http->head, text);
    if (progress != HTTP_READY)
        return progress;
    size_t len = http->line_start, body_used;
    progress = begin_body(http, bytes_of(text.at, len), bytes_of(text.at + len, text.len - len),
                          &body_used);
    *out_used = skipped + len + body_used;
    return progress;
}

/* The head began in earlier input. */
static enum http_progress feed_kept_head(struct http1 *http, struct bytes in, size_t *out_used)
{
    size_t before = http->head.len, limit = line_limit(http);
    bool after_cr = before == 1 && !http->begun && http->head.at[0] == '\r';
    size_t room = limit > before && !after_cr ? limit - before : 1;
    size_t part = in.len < room ? in.len : room;
    buf_add(&http->head, in.at, part);
    enum http_progress progress = HTTP_MORE;
    if (after_cr && http->head.at[1] == '\n') {
        http->begun = true; /* the empty line was cut in two */
        http->head.len = 0;
    } else {
        progress = find_end(http, buf_bytes(&http->head));
    }
    *out_used = part;
    if (progress != HTTP_READY)
        return progress;
    size_t len = http->line_start, used = len - before, body_used;
    http->head.len = len;
    progress =
        begin_body(http, buf_bytes(&http->head), bytes_of(in.at + used, in.len - used), &body_used);
    *out_used = used + body_used;
    return progress;
}

enum http_progress http1_feed(struct http1 *http, struct bytes in, size_t *out_used)
{
    enum http_progress progress = HTTP_MORE;
    size_t used = 0;
    CHECK(http->stage != HTTP1_WHOLE); /* http1_next comes first */
    while (progress == HTTP_MORE && used < in.len) {
        size_t step = 0;
        struct bytes rest = bytes_of(in.at + used, in.len - used);
        switch (http->stage) {
        case HTTP1_HEAD:
            progress = http->head.len ? feed_kept_head(http, rest, &step)
                                      : feed_fresh_head(http, rest, &step);
            break;
        case HTTP1_SIZED:
        case HTTP1_CHUNKS: progress = feed_body(http, rest, &step); break;
        case HTTP1_WHOLE:
        case HTTP1_REFUSED: progress = HTTP_BAD; break;
        }
        used += step;
    }
    *out_used = used;
    return progress;
}
