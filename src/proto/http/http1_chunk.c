/*
 * The chunked coding (RFC 9112, 7.1), one byte after another except the data. Size lines and
 * trailers are bounded; extensions and trailers are read and dropped. Why not by llhttp:
 * docs/decisions/0014.
 */
#include "base/hex.h"
#include "proto/http/http1_parts.h"

enum { SIZE_LINE_MAX = 256 };

enum step {
    SIZE,
    EXTENSION,
    SIZE_LF,
    DATA,
    DATA_CR,
    DATA_LF,
    TRAILER, /* at the start of a trailer line, or of the empty one at the end */
    TRAILER_NAME,
    TRAILER_VALUE,
    TRAILER_LF,
    LAST_LF
};

void http_chunks_begin(struct http1 *http)
{
    http->chunk_step = SIZE;
    http->body_left = 0;
    http->line_bytes = 0;
    http->lines = 0;
}

static bool is_text(char c)
{
    return c == '\t' || ((unsigned char)c >= 0x20 && c != 0x7f);
}

/* A byte of a size line before its CR. */
static enum http_progress size_byte(struct http1 *http, char c)
{
    int digit = hex_digit(c);
    if (http->chunk_step == SIZE && digit >= 0) {
        http->body_left = http->body_left << 4 | (unsigned)digit;
        http->line_bytes++;
        if (http->body_left > http->limits.body_bytes - http->body.len)
            return http_refuse_limit(http, 413, "the chunked body is over limits.request_bytes",
                                     http->limits.body_bytes);
    } else if (http->line_bytes > 0 && c == '\r') {
        http->chunk_step = SIZE_LF;
    } else if (http->line_bytes > 0 && (http->chunk_step == EXTENSION ? is_text(c) : c == ';')) {
        http->chunk_step = EXTENSION;
        http->line_bytes++;
    } else {
        return http_refuse(http, 400, "a chunk's size line is malformed");
    }
    if (http->line_bytes > SIZE_LINE_MAX)
        return http_refuse(http, 400, "a chunk's size line is over 256 bytes");
    return HTTP_MORE;
}

/* A byte of a trailer line before its CR. */
static enum http_progress trailer_byte(struct http1 *http, char c)
{
    if (++http->line_bytes > http->limits.header_bytes)
        return http_refuse_limit(http, 431, "the trailers are over limits.header_bytes",
                                 http->limits.header_bytes);
    switch (http->chunk_step) {
    case TRAILER:
        if (!http_is_token(c))
            break;
        if (++http->lines > http->limits.headers)
            return http_refuse_limit(http, 431, "there are more trailers than limits.headers",
                                     http->limits.headers);
        http->chunk_step = TRAILER_NAME;
        return HTTP_MORE;
    case TRAILER_NAME:
        if (c == ':')
            http->chunk_step = TRAILER_VALUE;
        else if (!http_is_token(c))
            break;
        return HTTP_MORE;
    default:
        if (!is_text(c))
            break;
        return HTTP_MORE;
    }
    return http_refuse(http, 400, "a trailer is malformed");
}

/* Right after a CR only LF may come. */
static enum http_progress line_feed(struct http1 *http, char c)
{
    if (c != '\n')
        return http_refuse(http, 400, "a CR in the chunked coding is not followed by LF");
    switch (http->chunk_step) {
    case SIZE_LF:
        http->chunk_step = http->body_left ? DATA : TRAILER;
        http->line_bytes = 0;
        return HTTP_MORE;
    case DATA_LF: http->chunk_step = SIZE; return HTTP_MORE;
    case TRAILER_LF: http->chunk_step = TRAILER; return HTTP_MORE;
    default: break;
    }
    http->request.body = buf_bytes(&http->body);
    return HTTP_READY; /* LAST_LF */
}

static enum http_progress one_byte(struct http1 *http, char c)
{
    switch ((enum step)http->chunk_step) {
    case SIZE:
    case EXTENSION: return size_byte(http, c);
    case DATA_CR:
        if (c != '\r')
            return http_refuse(http, 400, "a chunk is longer than its size");
        http->chunk_step = DATA_LF;
        return HTTP_MORE;
    case TRAILER:
        if (c != '\r')
            return trailer_byte(http, c);
        http->chunk_step = LAST_LF;
        return HTTP_MORE;
    case TRAILER_VALUE:
        if (c != '\r')
            return trailer_byte(http, c);
        http->chunk_step = TRAILER_LF;
        return HTTP_MORE;
    case TRAILER_NAME: return trailer_byte(http, c);
    case SIZE_LF:
    case DATA_LF:
    case TRAILER_LF:
    case LAST_LF: return line_feed(http, c);
    case DATA: break;
    }
    return HTTP_MORE;
}

enum http_progress http_chunks_feed(struct http1 *http, struct bytes in, size_t *out_used)
{
    enum http_progress progress = HTTP_MORE;
    size_t used = 0;
    while (used < in.len && progress == HTTP_MORE) {
        if (http->chunk_step != DATA) {
            progress = one_byte(http, in.at[used++]);
            continue;
        }
        size_t left = in.len - used;
        size_t part = left < http->body_left ? left : (size_t)http->body_left;
        buf_add(&http->body, in.at + used, part);
        used += part;
        http->body_left -= part;
        if (http->body_left == 0)
            http->chunk_step = DATA_CR;
    }
    *out_used = used;
    return progress;
}
