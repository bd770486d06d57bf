/*
 * What the server needs of another thread: pure work that is too long for a turn, such as reading
 * megabytes of JSON. Implemented by os/worker (a thread) and sim/worker (does it between turns).
 *
 * Work is done in the order submitted. All calls are the owner's thread's.
 */
#ifndef LATERD_PORT_WORKER_H
#define LATERD_PORT_WORKER_H

#include <stdbool.h>

#include "base/queue.h"

struct work {
    /* On the other thread: may touch only what the work owns, and constants. */
    void (*run)(struct work *work);
    /* On the owner's thread, from poll() or wait(): the work is the owner's again. */
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
    /* Sleeps until all that was submitted has been run, and calls its `done`. */
    void (*wait)(struct worker *worker);
};

#endif
