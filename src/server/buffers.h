/*
 * The memory of all connections' buffers together, and who is closed when it is too much (P8).
 *
 * What a connection takes (its footprint): input kept by the network, the part of a request that
 * has come, commands under way and their held replies, answers that wait for older ones or for the
 * turn's end, and what the client has not taken yet. docs/memory.md has the list, and what bounds
 * all other memory. Footprints are counted again once a turn for the connections that changed, in
 * O(1) each, so the sum may be too low by what one turn does.
 *
 * Connections hang in lists by the size of their footprint, to a power of two, and in each list the
 * one that has done nothing for longest comes first: so the victim is found in O(1).
 */
#ifndef LATERD_SERVER_BUFFERS_H
#define LATERD_SERVER_BUFFERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct server;
struct session;

enum {
    BUFFERS_SMALL_BYTES = 2048, /* up to so much a connection is not counted, nor closed for it */
    BUFFERS_SIZES = 40,
};

struct buffers {
    uint64_t bytes;                   /* the sum of all footprints that are counted */
    uint64_t max_bytes;               /* connections are closed beyond this */
    uint64_t work_bytes;              /* what the worker has: closing does not free it */
    struct list changed;              // session::changed: to be counted again
    struct list sizes[BUFFERS_SIZES]; // session::of_size
    uint64_t occupied;                /* bit i: sizes[i] is not empty */
    int64_t logged_us;                /* when closed connections were logged last */
    uint64_t unlogged;                /* connections closed since then */
};

void buffers_init(struct buffers *buffers, uint64_t max_bytes);

/* The session's footprint may have changed. */
void buffers_changed(struct session *session);
/* The session ends. */
void buffers_forget(struct session *session);

/*
 * Is so much taken that connections which are owed an answer should not be read further? That
 * lets most clients slow down before any must be closed.
 */
static inline bool buffers_tight(const struct buffers *buffers)
{
    return buffers->bytes > buffers->max_bytes / 2;
}

/*
 * May the worker be given work that takes so many bytes, or has it as much as it may? See
 * offload.h.
 */
static inline bool buffers_admit_work(const struct buffers *buffers, size_t bytes)
{
    return buffers->work_bytes + bytes <= buffers->max_bytes / 2;
}

/* For turn.c: counts what has changed, and closes connections until the sum is in its limit. */
void buffers_settle(struct server *server);

#endif
