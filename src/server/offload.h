/*
 * Gives work of requests to the worker (decode.h, encode.h), within a limit of memory for all such
 * work. Work beyond the limit waits, first come first served.
 */
#ifndef LATERD_SERVER_OFFLOAD_H
#define LATERD_SERVER_OFFLOAD_H

#include "base/list.h"
#include "port/worker.h"

struct server;

struct offload {
    struct work work;
    struct server *server;
    size_t bytes;        /* of memory that the work takes until it is done */
    struct list waiting; // server::offloads, or nowhere
};

/* Submits it, now or later. `run` and `done` are struct work's; `done` begins with
   offload_done(). */
void offload_submit(struct offload *offload, struct server *server, size_t bytes,
                    void (*run)(struct work *work), void (*done)(struct work *work));
/* True: it was still waiting; neither `run` nor `done` will be called. */
bool offload_withdraw(struct offload *offload);
void offload_done(struct offload *offload);

#endif
