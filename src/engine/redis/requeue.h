/*
 * Jobs that go back: whoever had reserved them has gone, so nobody else would ever release them
 * before their ttr ends, which may be hours. So a release is tried until Redis has answered it,
 * however long Redis is away. It names the lease: once the job is back, or its ttr has ended, it
 * does nothing any more, so trying again does no harm.
 *
 * A connection may go that held any number of jobs: few releases at a time are under way to a
 * partition, so that they do not keep other requests from it; the others wait here.
 */
#ifndef LATERD_ENGINE_REDIS_REQUEUE_H
#define LATERD_ENGINE_REDIS_REQUEUE_H

#include "engine/redis/script_request.h"

struct redis_requeue_options {
    const struct script_space *space;
    struct script_requests *calls;
    struct loop *loop;
    /* The job is back. The view is good until this returns. */
    void (*returned)(void *owner, const struct job_view *job, uint32_t partition);
    void *owner;
};

struct redis_requeue {
    struct redis_requeue_options options;
    struct returning *partitions; /* one for each */
    struct arena scratch;
    bool left; /* nothing is sent any more */
};

void redis_requeue_init(struct redis_requeue *requeue, const struct redis_requeue_options *options);
/* After script_requests_fini. */
void redis_requeue_fini(struct redis_requeue *requeue);

/* A release by number and lease. */
void redis_requeue_add(struct redis_requeue *requeue, const struct cmd_job *job);
/* Some jobs are not back yet, as far as we know. */
bool redis_requeue_is_pending(const struct redis_requeue *requeue);
/* The daemon is about to say that it has gone, behind which nothing may come: Redis forgets what it
   keeps for us then, and would keep an answer without end. What waits is sent now, though Redis has
   just refused some; what is added after this is not, and its ttr has to end. */
void redis_requeue_leave(struct redis_requeue *requeue);

#endif
