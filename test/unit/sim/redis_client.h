/* Who asks an engine for one thing, and what it was told. */
#ifndef LATERD_TEST_REDIS_CLIENT_H
#define LATERD_TEST_REDIS_CLIENT_H

#include <string.h>

#include "port/engine.h"

struct client {
    struct ticket ticket;
    unsigned answers;
    enum err err;
    uint32_t count;
    uint64_t seq, lease;       /* of the first job */
    int64_t until_us;          /* the same: the end of its reservation */
    uint64_t jobs[JOB_STATES]; /* of the topic */
    const int64_t *clock_us;   /* borrowed; NULL: it has none */
    int64_t answered_us;       /* by that clock */
};

static inline void client_answered(struct ticket *ticket, const struct reply *reply)
{
    struct client *client = (struct client *)ticket; /* its first member */
    client->answers++;
    client->err = reply->err;
    client->count = reply->count;
    client->seq = reply->jobs ? reply->jobs->ref.seq : 0;
    client->lease = reply->jobs ? reply->jobs->lease : 0;
    client->until_us = reply->jobs ? reply->jobs->until_us : 0;
    client->answered_us = client->clock_us ? *client->clock_us : 0;
    if (reply->kind == CMD_TOPIC && reply->count)
        memcpy(client->jobs, reply->topics[0].jobs, sizeof(client->jobs));
}

#endif
