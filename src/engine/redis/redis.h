/*
 * The Redis engine behind port/engine.h: the queue lives in Redis, and any number of daemons serve
 * it at once. What a command does there is a script's (script.h); here are who asks, what waits,
 * and what happens while Redis is away.
 *
 *     engine.c          the verbs of the port
 *     command.c         commands and their answers
 *     describe.c        metrics, and why Redis does not serve us
 *     fanout.c          commands on topics: one answer out of all partitions
 *     fanout_jobs.c     of the jobs that they show
 *     fanout_topics.c   of what they say of topics
 *     consumers.c       parked reserves: who waits
 *     fetch.c           their requests for jobs
 *     topic_cache.c     what we know of ready jobs
 *     requeue.c         jobs whose consumers have gone
 *     members.c         which daemons live, and which of them owns a partition
 *     promoter.c        makes due jobs ready in the partitions that are ours
 *     subscription.c    what daemons tell each other through Redis
 *     preflight.c       whether a server is fit to hold a queue
 *     partition_init.c  the first request to a partition
 *     journal_feed.c    gives changes to the journal, in one daemon
 *     journal_restore.c has jobs brought back from it
 *     script_request.c  requests to scripts: sent, sent again, answered once
 *
 * Below them is client/redis: servers and connections, which are streams of the loop. What Redis
 * answers is read when the loop gathers; `match` and `end` do what follows from it.
 *
 * Every command is answered within `timeout_us`: done, refused, or ERR_AGAIN, which says that
 * nobody knows; only a parked reserve waits on while Redis is away.
 */
#ifndef LATERD_ENGINE_REDIS_REDIS_H
#define LATERD_ENGINE_REDIS_REDIS_H

#include "client/redis/url.h"
#include "port/engine.h"
#include "port/loop.h"

struct redis_engine;
struct journal_maker;
struct restore;
struct journal_control;

/* Where jobs lie whose numbers the server makes, in the order of the words of redis.order. */
enum redis_order {
    REDIS_ORDER_AUTO,  /* spread on a cluster, but for topics with settings: else by topic */
    REDIS_ORDER_TOPIC, /* those of a topic in one partition: their order is exact */
    REDIS_ORDER_SPREAD /* in all partitions */
};

struct redis_options {
    struct redis_url url;
    const char *sentinel_user, *sentinel_password; /* the sentinels' own; empty: none */
    struct tls *tls;                               /* if the url asks for it; borrowed */
    const char *prefix;
    uint32_t partitions;
    enum redis_order order;
    int64_t timeout_us;
    unsigned wait_replicas;
    uint64_t jobs_max; /* in all partitions together */
    uint32_t topics_max, waiters_max;
    uint64_t journal_bytes; /* changes leave entries for the journal, so many bytes; 0: none */
    int64_t journal_lag_us; /* … of which the oldest is no older; 0: as old as it likes */
    bool journal_detaches;  /* beyond these it is given up; else pushes are refused */
    struct journal_maker *journal; /* borrowed; NULL: this daemon writes none */
    const char *label;             /* by which people know this daemon; borrowed; NULL: none */
    bool standby;                  /* it does not serve until redis_engine_serve() */
    struct loop *loop; /* borrowed; while there is no server, its turns are the owner's to make */
};

/* ---- without waiting: the owner makes turns (the loop's, and the engine port's) ---- */

/* Makes it, and begins to connect. ERR_INVALID, ERR_IO: out_error says why. */
enum err redis_engine_new(const struct redis_options *options, struct redis_engine **out_redis,
                          struct redis_error *out_error) MUST_USE;
/*
 * Asked after each turn, until it is not ERR_AGAIN: Redis is connected to, and it is looked at
 * whether it is fit to hold a queue. ERR_IO: it cannot be reached; ERR_UNSUPPORTED, ERR_INVALID: it
 * must not be used; out_error says why.
 */
enum err redis_engine_started(struct redis_engine *redis, struct redis_error *out_error) MUST_USE;
/*
 * Of a standby, which waits to lead in an election: it has its connections, scripts and partitions
 * open, hears what changes, and tells the others that it does not serve, so that none counts on it;
 * it writes no journal, and nothing may be submitted to it. redis_engine_started() is OK when all
 * of that is so, and ERR_AGAIN for as long as Redis cannot be reached. From now on it is as one
 * that was just made: redis_engine_started() is OK when Redis has answered that it serves, and what
 * changed before is known here: one round trip.
 */
void redis_engine_serve(struct redis_engine *redis);
/* Says that this daemon goes: others take over what it holds. Nothing is submitted any more. */
void redis_engine_leave(struct redis_engine *redis);
/* Asked after each turn: that was heard, or was waited for long enough. */
bool redis_engine_left(struct redis_engine *redis);
/* Tells all who wait, and closes its connections. NULL does nothing. */
void redis_engine_free(struct redis_engine *redis);

/* ---- waiting, in turns of the loop ---- */

/* Makes it and waits until it has started, or cannot: as redis_engine_started. */
enum err redis_engine_open(const struct redis_options *options, struct redis_engine **out_redis,
                           struct redis_error *out_error) MUST_USE;
/* Waits until a standby serves, or cannot: as redis_engine_started after redis_engine_serve(). */
enum err redis_engine_take_over(struct redis_engine *redis, struct redis_error *out_error) MUST_USE;
/* Leaves, and returns when it has left: redis_engine_free() may take longer, as it waits for the
   journal's thread. NULL does nothing. */
void redis_engine_stop(struct redis_engine *redis);
/* Stops, and frees it. NULL does nothing. */
void redis_engine_close(struct redis_engine *redis);

struct engine *redis_engine_port(struct redis_engine *redis);

/* Who brings jobs back from the journal, if it is this daemon that writes it; NULL: this daemon
 * never does. */
struct restore *redis_engine_restore(struct redis_engine *redis);
/* The same, who brings the journal to what the queue holds. */
struct journal_control *redis_engine_journal_control(struct redis_engine *redis);

#endif
