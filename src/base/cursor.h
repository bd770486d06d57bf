/*
 * Where a page of a listing ended, as bytes that an engine hands out with the page and gets back
 * with the request for the next one. Everybody else passes them on and does not look inside.
 *
 * They name their listing: a cursor of another engine, topic or state, of the other direction, of
 * another version of this format, a damaged or a truncated one is refused. The checksum finds
 * mistakes; it does not stop somebody who makes cursors up, so an engine must cope with any numbers
 * in them.
 */
#ifndef LATERD_BASE_CURSOR_H
#define LATERD_BASE_CURSOR_H

#include "base/bytes.h"
#include "base/err.h"

enum { CURSOR_BYTES = 36 };

/* Whose order of jobs the numbers are from. On the wire: never give a number a new meaning. */
enum cursor_engine { CURSOR_EMBEDDED = 1, CURSOR_REDIS = 2 };

/* What is listed. */
struct listing {
    enum cursor_engine engine;
    uint8_t state;  /* of the jobs: enum job_state */
    bool backwards; /* the last job first */
    struct bytes topic;
};

/* The last job of the page: what the engine orders jobs by, most significant first. */
struct cursor {
    int64_t first;
    int64_t second;
    uint64_t seq;
};

/* Writes the cursor to `room` and returns these CURSOR_BYTES bytes; they live as long as it. */
struct bytes cursor_write(const struct listing *listing, const struct cursor *cursor,
                          char room[CURSOR_BYTES]);

/* ERR_INVALID: not a cursor of this listing. Empty bytes are none, too. */
enum err cursor_read(const struct listing *listing, struct bytes bytes,
                     struct cursor *out_cursor) MUST_USE;

#endif
