/*
 * The position where a page of a listing ended, as bytes that an engine returns with the page and
 * gets back with the request for the next page. To all other code the bytes are opaque.
 *
 * A cursor is bound to its listing: one of another engine, topic, state or direction, of another
 * version of this format, a damaged or a truncated one is refused. The checksum finds mistakes, but
 * does not stop a client that forges cursors: an engine must accept any numbers in them.
 *
 * Pure. Any thread. O(bytes of the topic).
 */
#ifndef LATERD_BASE_CURSOR_H
#define LATERD_BASE_CURSOR_H

#include "base/bytes.h"
#include "base/err.h"

enum { CURSOR_BYTES = 36 };

/* Which engine made the cursor. On the wire: never give a number a new meaning. */
enum cursor_engine { CURSOR_EMBEDDED = 1, CURSOR_REDIS = 2 };

/* What is listed. */
struct listing {
    enum cursor_engine engine;
    uint8_t state;  /* of the jobs: enum job_state */
    bool backwards; /* the last job first */
    struct bytes topic;
};

/* The sort key of the last job of the page, most significant field first. */
struct cursor {
    int64_t first;
    int64_t second;
    uint64_t seq;
};

/* Writes the cursor to `room` and returns `room` as bytes (borrowed). */
struct bytes cursor_write(const struct listing *listing, const struct cursor *cursor,
                          char room[CURSOR_BYTES]);

/* ERR_INVALID: not a cursor of this listing; so are empty bytes. */
enum err cursor_read(const struct listing *listing, struct bytes bytes,
                     struct cursor *out_cursor) MUST_USE;

#endif
