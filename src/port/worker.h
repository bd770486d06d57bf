/*
 * Another thread for pure work that takes too long for a turn, such as decoding megabytes of JSON.
 * Implemented by os/worker (a thread) and sim/worker (does the work between turns).
 *
 * Work is done in the order submitted. All functions are called on the owner's thread.
 */
#ifndef LATERD_PORT_WORKER_H
#define LATERD_PORT_WORKER_H

#include <stdbool.h>

#include "base/queue.h"

struct work {
    /* Called on the other thread: may use only what the work owns, and constants. */
    void (*run)(struct work *work);
    /* Called on the owner's thread, by poll() or wait(): the owner may use or free the work
       again. */
    void (*done)(struct work *work);
    struct queue_node place; /* the worker's, until done */
};

struct worker {
    const struct worker_verbs *verbs;
};

struct worker_verbs {
    void (*submit)(struct worker *worker, struct work *work);
    /* Calls `done` of the first work that has been run. False: there is none. */
    bool (*poll)(struct worker *worker);
    /* Sleeps until all submitted work has been run, and calls each `done`. */
    void (*wait)(struct worker *worker);
};

#endif
