/*
 * Releases jobs whose consumers have gone, so that nobody else would release them before their ttr
 * ends, which may be hours. A release is tried until Redis has answered it, however long Redis
 * cannot be reached. It names the lease, so that repeating it does no harm: once the job was
 * released, or its ttr has ended, it does nothing.
 *
 * A closed connection may have held any number of jobs. Only some releases at a time are under way
 * to a partition, so that they do not delay other requests; the others wait here.
 */
#ifndef LATERD_ENGINE_REDIS_REQUEUE_H
#define LATERD_ENGINE_REDIS_REQUEUE_H

#include "engine/redis/script_request.h"

struct redis_requeue_options {
    const struct script_space *space;
    struct script_requests *calls;
    struct loop *loop;
    /* Called when a job was released. The view is borrowed. */
    void (*returned)(void *owner, const struct job_view *job, uint32_t partition);
    void *owner;
};

struct redis_requeue {
    struct redis_requeue_options options;
    struct release_queue *partitions; /* one for each */
    struct arena scratch;
    bool left; /* redis_requeue_leave() was called */
};

void redis_requeue_init(struct redis_requeue *requeue, const struct redis_requeue_options *options);
/* After script_requests_fini. */
void redis_requeue_fini(struct redis_requeue *requeue);

/* Adds a release, by number and lease. */
void redis_requeue_add(struct redis_requeue *requeue, const struct cmd_job *job);
/* Are there releases without an answer? */
bool redis_requeue_is_pending(const struct redis_requeue *requeue);
/* Before the daemon reports that it leaves, after which no request may follow: Redis then deletes
 * the answers that it keeps for us, and would keep a new one forever. Sends the waiting releases
 * now, even if Redis has just refused some. Later ones are ignored; the jobs' ttr must end. */
void redis_requeue_leave(struct redis_requeue *requeue);

#endif
