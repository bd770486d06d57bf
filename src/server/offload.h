/*
 * Work of a request that is done by the worker (decode.h, encode.h), within the memory that all
 * such work may take: what does not fit waits its turn, the oldest first.
 */
#ifndef LATERD_SERVER_OFFLOAD_H
#define LATERD_SERVER_OFFLOAD_H

#include "base/list.h"
#include "port/worker.h"

struct server;

struct offload {
    struct work work;
    struct server *server;
    size_t bytes;        /* of memory that it takes until it is done */
    struct list waiting; // server::offloads, or nowhere
};

/* Submits it, now or later. `run` and `done` are struct work's; `done` begins with offload_done().
 */
void offload_submit(struct offload *offload, struct server *server, size_t bytes,
                    void (*run)(struct work *work), void (*done)(struct work *work));
/* True: it was still waiting, and will neither be run nor done. */
bool offload_withdraw(struct offload *offload);
void offload_done(struct offload *offload);

#endif
