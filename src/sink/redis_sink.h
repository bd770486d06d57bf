/*
 * Sends jobs to Redis: XADD to a stream, LPUSH to a list, by client/redis (one server, Sentinel, a
 * cluster). It has no thread: the client is non-blocking and works in the loop's turn.
 *
 * A job is DELIVERED when Redis has replied to its command. If the reply is lost the job is UNSENT,
 * though Redis may have executed the command: a stream can then have the job twice, with the same
 * message_id.
 *
 *   answer                                      outcome, and then
 *   an id, a length                             DELIVERED
 *   MOVED, ASK, TRYAGAIN                        sent again, until the delivery's time-out
 *   WRONGTYPE, a body that is too large         REFUSED
 *   OOM, LOADING, READONLY, MISCONF and so on   UNSENT; not ready for 0.1 to 5 s, growing
 *   no connection, or it ended                  UNSENT; not ready until it is connected again
 *   NOPERM, another error                       FAILED
 *   nothing by the delivery's time-out          FAILED; a later reply is ignored
 *   not sent to any server by then              UNSENT: its slot has none, or the window no room
 *
 * Single-threaded, on the loop's thread.
 */
#ifndef LATERD_SINK_REDIS_SINK_H
#define LATERD_SINK_REDIS_SINK_H

#include "client/redis/url.h"
#include "port/loop.h"
#include "port/sink.h"

struct tls;

/* `url` and `name` are copied, all else is borrowed until the sink is closed. */
struct redis_sink_options {
    struct loop *loop;
    const char *name; /* of its [broker.NAME] */
    const struct redis_url *url;
    const char *sentinel_user, *sentinel_password; /* empty: none */
    struct tls *tls;                               /* NULL: none */
    int64_t timeout_us;          /* for connecting, and for silence while replies are pending */
    void (*lost)(void *owner);   /* a connection ended, or could not be made; may be NULL */
    void (*closed)(void *owner); /* called when nothing borrowed is used any more; may be NULL */
    void *owner;
};

/* Begins to connect; never fails. sink_verbs::close frees it. */
struct sink *redis_sink_new(const struct redis_sink_options *options);

/* Later connections log in with the user and password of this URL; all else of it is ignored. */
void redis_sink_log_in_as(struct sink *sink, const struct redis_url *url);

#endif
