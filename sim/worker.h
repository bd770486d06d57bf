/* port/worker.h without a thread: submitted work runs and ends in the next poll. */
#ifndef LATERD_SIM_WORKER_H
#define LATERD_SIM_WORKER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/list.h"
#include "port/worker.h"

struct sim_worker {
    struct worker port;
    struct queue waiting; // work::place
};

static inline void sim_worker_submit(struct worker *base, struct work *work)
{
    struct sim_worker *worker = (struct sim_worker *)(void *)base; /* its first member */
    queue_add(&worker->waiting, &work->place);
}

static inline bool sim_worker_poll(struct worker *base)
{
    struct sim_worker *worker = (struct sim_worker *)(void *)base; /* its first member */
    struct queue_node *place = queue_take(&worker->waiting);
    if (!place)
        return false;
    struct work *work = LIST_ENTRY(place, struct work, place);
    work->run(work);
    work->done(work);
    return true;
}

static inline void sim_worker_wait(struct worker *base)
{
    while (sim_worker_poll(base))
        continue;
}

static inline bool sim_worker_pending(const struct sim_worker *worker)
{
    return worker->waiting.first;
}

static inline void sim_worker_init(struct sim_worker *worker)
{
    static const struct worker_verbs verbs = {
        .submit = sim_worker_submit,
        .poll = sim_worker_poll,
        .wait = sim_worker_wait,
    };
    *worker = (struct sim_worker){.port.verbs = &verbs};
}

#endif
