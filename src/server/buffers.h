/*
 * Limits the memory of all connections' buffers together, and chooses which connection is closed
 * when it is exceeded (P8).
 *
 * The memory of a connection, its footprint: input kept by the network, the incomplete request,
 * commands in progress and their kept replies, answers that wait for older ones or for the turn's
 * end, and what the client has not taken yet. docs/memory.md has the list, and what limits all
 * other memory. Footprints are updated once a turn for the connections that changed, in O(1) each,
 * so the sum may be too low by what one turn adds.
 *
 * Connections are in lists by the size of their footprint, to a power of two; the longest idle one
 * is first in each list. So the connection to close is found in O(1).
 */
#ifndef LATERD_SERVER_BUFFERS_H
#define LATERD_SERVER_BUFFERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct server;
struct session;

enum {
    BUFFERS_SMALL_BYTES = 2048, /* connections with less are neither counted nor closed */
    BUFFERS_SIZES = 40,
};

struct buffers {
    uint64_t bytes;      /* the sum of all footprints that are counted, and of server::spare_outs */
    uint64_t max_bytes;  /* connections are closed beyond this */
    uint64_t work_bytes; /* memory of the worker's tasks, which closing connections does not free */
    struct list changed; // session::changed: to be counted again
    struct list sizes[BUFFERS_SIZES]; // session::of_size
    uint64_t occupied;                /* bit i: sizes[i] is not empty */
    int64_t logged_us;                /* when closed connections were logged last */
    uint64_t unlogged;                /* connections closed since then */
};

void buffers_init(struct buffers *buffers, uint64_t max_bytes);

/* The session ends. buffers_changed() is in session.h. */
void buffers_forget(struct session *session);

/*
 * Is so much memory in use, that of connections which are gone included until it is freed, that
 * connections with an answer outstanding should not be read further? This slows most clients down
 * before any must be closed. O(1).
 */
bool buffers_tight(const struct server *server);

/*
 * May the worker be given a task that takes this many bytes, or does it have as much as it may? See
 * offload.h.
 */
static inline bool buffers_admit_work(const struct buffers *buffers, size_t bytes)
{
    return buffers->work_bytes + bytes <= buffers->max_bytes / 2;
}

/* For turn.c: updates the footprints that changed, and closes connections until the sum is within
   the limit. */
void buffers_settle(struct server *server);

#endif
