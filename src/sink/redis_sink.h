/*
 * Jobs into Redis: XADD to a stream, LPUSH to a list, over client/redis (one server, Sentinel,
 * a cluster). It has no thread: the client is our own and works in the loop's turn.
 *
 * DELIVERED is Redis' reply to the command. A command whose reply was lost is UNSENT, though Redis
 * may have done it: a stream can then have the job twice, under one message_id.
 *
 *   answer                                      outcome, and then
 *   an id, a length                             DELIVERED
 *   MOVED, ASK, TRYAGAIN                        sent again, until the delivery's time-out
 *   WRONGTYPE, a body that is too large         REFUSED
 *   OOM, LOADING, READONLY, MISCONF and so on   UNSENT; not ready for 0.1 to 5 s, growing
 *   no connection, or it ended                  UNSENT; not ready until it is back
 *   NOPERM, another error                       FAILED
 *   nothing by the delivery's time-out          FAILED; what comes later is ignored
 *
 * One thread, the loop's.
 */
#ifndef LATERD_SINK_REDIS_SINK_H
#define LATERD_SINK_REDIS_SINK_H

#include "client/redis/url.h"
#include "port/loop.h"
#include "port/sink.h"

struct tls;

/* All borrowed until the sink is closed, but `url` and `name`, which are copied. */
struct redis_sink_options {
    struct loop *loop;
    const char *name; /* of its [broker.NAME] */
    const struct redis_url *url;
    const char *sentinel_user, *sentinel_password; /* empty: none */
    struct tls *tls;                               /* NULL: none */
    int64_t timeout_us; /* for connecting, and without a byte of the answers that are owed */
    void (*closed)(void *owner); /* nothing of it is used any more; may be NULL */
    void *owner;
};

/* Begins to connect; never fails. Freed by its `close`. */
struct sink *redis_sink_new(const struct redis_sink_options *options);

#endif
