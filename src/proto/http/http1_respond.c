/* Writes responses. Without printf, because this is half of the cost of a request. */
#include "proto/http/http1.h"

/* The whole status line; for a status that is not in the list, one without a reason. */
static struct bytes status_line(int status)
{
    switch (status) {
#define LINE(number, reason)                                                                       \
    case number: return BYTES("HTTP/1.1 " #number " " reason "\r\n")
        LINE(200, "OK");
        LINE(201, "Created");
        LINE(204, "No Content");
        LINE(400, "Bad Request");
        LINE(401, "Unauthorized");
        LINE(403, "Forbidden");
        LINE(404, "Not Found");
        LINE(405, "Method Not Allowed");
        LINE(408, "Request Timeout");
        LINE(409, "Conflict");
        LINE(412, "Precondition Failed");
        LINE(413, "Content Too Large");
        LINE(414, "URI Too Long");
        LINE(415, "Unsupported Media Type");
        LINE(417, "Expectation Failed");
        LINE(429, "Too Many Requests");
        LINE(431, "Request Header Fields Too Large");
        LINE(500, "Internal Server Error");
        LINE(501, "Not Implemented");
        LINE(503, "Service Unavailable");
        LINE(505, "HTTP Version Not Supported");
        LINE(507, "Insufficient Storage");
#undef LINE
    default: return BYTES("HTTP/1.1 500 Internal Server Error\r\n");
    }
}

struct bytes http_status_text(int status)
{
    struct bytes line = status_line(status);
    size_t before = sizeof("HTTP/1.1 200 ") - 1, after = sizeof("\r\n") - 1;
    return bytes_of(line.at + before, line.len - before - after);
}

static void add_field(struct buf *out, struct bytes name_and_colon, struct bytes value)
{
    buf_add_bytes(out, name_and_colon);
    buf_add_bytes(out, value);
    buf_add(out, "\r\n", 2);
}

void http_respond(struct buf *out, const struct http_response *response, struct bytes body)
{
    buf_reserve(out, 512 + body.len);
    buf_add_bytes(out, status_line(response->status));
    if (response->date.len)
        add_field(out, BYTES("Date: "), response->date);
    if (response->content_type)
        add_field(out, BYTES("Content-Type: "), bytes_str(response->content_type));
    if (response->allow.len)
        add_field(out, BYTES("Allow: "), response->allow);
    if (response->location.len)
        add_field(out, BYTES("Location: "), response->location);
    if (response->etag.len)
        add_field(out, BYTES("ETag: "), response->etag);
    if (response->retry_after_s) {
        buf_add_str(out, "Retry-After: ");
        buf_add_i64(out, response->retry_after_s);
        buf_add(out, "\r\n", 2);
    }
    if (response->close)
        buf_add_str(out, "Connection: close\r\n");
    else if (response->http10_keep_alive)
        buf_add_str(out, "Connection: keep-alive\r\n");
    if (response->status != 204) { /* which has neither length nor body (RFC 9110, 8.6) */
        buf_add_str(out, "Content-Length: ");
        buf_add_u64(out, body.len);
        buf_add(out, "\r\n", 2);
    }
    buf_add(out, "\r\n", 2);
    if (!response->head_only && response->status != 204)
        buf_add_bytes(out, body);
}
