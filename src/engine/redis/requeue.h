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

#include "engine/redis/call.h"

struct returns_options {
    const struct script_space *space;
    struct calls *calls;
    /* The job is back. The view is good until this returns. */
    void (*returned)(void *owner, const struct job_view *job, uint32_t partition);
    void *owner;
};

struct returns {
    struct returns_options options;
    struct returning *partitions; /* one for each */
    struct arena scratch;
    int64_t now_us;
};

void returns_init(struct returns *returns, const struct returns_options *options);
/* After calls_fini. */
void returns_fini(struct returns *returns);

/* A release by number and lease. */
void returns_add(struct returns *returns, const struct cmd_job *job);

void returns_tick(struct returns *returns, int64_t now_us);
int64_t returns_next_us(const struct returns *returns);

#endif
