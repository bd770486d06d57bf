/* HTTP as a simulated client sees it: writes requests, cuts answers out of what came. */
#ifndef LATERD_TEST_WIRE_H
#define LATERD_TEST_WIRE_H

#include <stdlib.h>

#include "base/bytes.h"

/* A whole answer. Borrows from the bytes it was cut from. */
struct wire_answer {
    int status;
    struct bytes head; /* with the empty line */
    struct bytes body;
};

/* Adds a request; `body` may be empty, `content_type` NULL. */
static inline void wire_request(struct buf *out, struct bytes method, struct bytes path,
                                const char *content_type, struct bytes body)
{
    buf_add_bytes(out, method);
    buf_add_char(out, ' ');
    buf_add_bytes(out, path);
    buf_add_str(out, " HTTP/1.1\r\nHost: localhost\r\n");
    if (content_type && body.len)
        buf_addf(out, "Content-Type: %s\r\n", content_type);
    buf_addf(out, "Content-Length: %zu\r\n\r\n", body.len);
    buf_add_bytes(out, body);
}

static inline const char *wire_find(struct bytes in, struct bytes what)
{
    return in.at && in.len ? memmem(in.at, in.len, what.at, what.len) : NULL;
}

/* Cuts one answer off the front: its length; 0: it is not whole yet. */
static inline size_t wire_cut(struct bytes in, struct wire_answer *out_answer)
{
    static const struct bytes length = {"\r\nContent-Length: ", 18};
    const char *end = wire_find(in, BYTES("\r\n\r\n"));
    if (!end || in.len < 12)
        return 0;
    size_t head_len = (size_t)(end - in.at) + 4;
    struct bytes head = bytes_of(in.at, head_len);
    const char *sized = wire_find(head, length);
    size_t body_len = sized ? strtoul(sized + length.len, NULL, 10) : 0;
    if (in.len < head_len + body_len)
        return 0;
    *out_answer = (struct wire_answer){
        .status = (int)strtol(in.at + 9, NULL, 10),
        .head = head,
        .body = bytes_of(in.at + head_len, body_len),
    };
    return head_len + body_len;
}

#endif
