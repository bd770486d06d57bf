/*
 * The Redis engine behind port/engine.h: the queue is in Redis, and any number of daemons serve it
 * at once. Commands are executed by scripts (script.h).
 *
 *     engine.c          the verbs of the port, start and end
 *     engine_parts.c    makes all of the following, and passes events between them
 *     open.c            opens it and ends it, by running turns
 *     command.c         commands and their answers
 *     describe.c        metrics, and the reason why Redis cannot be used
 *     fanout.c          commands on topics: calls to all partitions
 *     fanout_jobs.c     … combines their lists of jobs
 *     fanout_topics.c   … and their counts of topics
 *     consumers.c       waiting consumers
 *     fetch.c           chooses the partitions that are asked for jobs for them
 *     fetch_shares.c    … and for how many
 *     fetch_call.c      … one such call, and its answer
 *     topic_cache.c     what is known of ready jobs
 *     requeue.c         gives back jobs whose consumers have gone
 *     members.c         which daemons live, and which of them owns a partition
 *     promoter.c        makes due jobs ready in this daemon's partitions
 *     subscription.c    notices between daemons, by publish/subscribe
 *     preflight.c       checks whether a server can hold a queue
 *     partition_init.c  opens partitions
 *     journal_feed.c    passes changes to the journal, in one daemon
 *     journal_restore.c pushes jobs again from the journal's rows
 *     script_request.c  calls of scripts: sent, sent again, answered once
 *
 * Below them is client/redis: servers and connections, which are streams of the loop. Answers of
 * Redis are read while the loop gathers input, and acted upon in `match` and `end`.
 *
 * Every command is answered within `timeout_us`: done, refused, or ERR_AGAIN, which means that the
 * outcome is unknown. Only a parked reserve waits longer while Redis cannot be reached.
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

/* The partitions of jobs without a client's id; the values of the key redis.order, in its order. */
enum redis_order {
    REDIS_ORDER_AUTO,  /* SPREAD in a cluster, except for topics with settings; else TOPIC */
    REDIS_ORDER_TOPIC, /* one partition for a topic: the order of its jobs is exact */
    REDIS_ORDER_SPREAD /* all partitions */
};

struct redis_options {
    struct redis_url url;
    const char *sentinel_user, *sentinel_password; /* the sentinels' own; empty: none. Borrowed, and
                                                      read at each connection */
    struct tls *tls;                               /* if the url asks for it; borrowed */
    /* A connection ended, or could not be made: perhaps a password was replaced, see
       redis_engine_log_in_as(). NULL: nobody is told. */
    void (*connection_ended)(void *owner);
    void *owner;
    const char *prefix;
    uint32_t partitions; /* 0: as many as the queue has; a new one gets 16 in a cluster, else 1 */
    enum redis_order order;
    int64_t timeout_us;     /* of a command, see above */
    unsigned wait_replicas; /* replicas that must have a change before it is answered */
    uint64_t jobs_max;      /* in all partitions together */
    uint32_t topics_max, waiters_max;
    uint64_t journal_bytes; /* limit of journal entries in bytes; 0: changes leave no entries */
    uint64_t
        journal_job_bytes;  /* of the largest job's entry: a partition's share has room for it */
    int64_t journal_lag_us; /* limit of the age of the oldest entry; 0: none */
    bool journal_detaches;  /* above a limit the journal is dropped; else pushes are refused */
    struct journal_maker *journal; /* borrowed; NULL: this daemon writes no journal */
    const char *label;             /* this daemon's name for people; borrowed; NULL: none */
    bool standby;                  /* it does not serve until redis_engine_serve() */
    struct loop *loop; /* borrowed; the owner runs its turns, also before there is a server */
};

/* ---- without waiting: the owner runs turns (of the loop, and of the engine port) ---- */

/* Creates the engine, and begins to connect. ERR_INVALID, ERR_IO: out_error says why. */
enum err redis_engine_new(const struct redis_options *options, struct redis_engine **out_redis,
                          struct redis_error *out_error) MUST_USE;
/*
 * Call it after each turn, until it is not ERR_AGAIN: connecting, and checking whether Redis can
 * hold a queue. ERR_IO: it cannot be reached; ERR_UNSUPPORTED, ERR_INVALID: it must not be used;
 * out_error says why.
 */
enum err redis_engine_started(struct redis_engine *redis, struct redis_error *out_error) MUST_USE;
/* After ERR_INVALID, with redis_options::partitions = 0: how many partitions the queue has, for an
   engine that is created again with this number. 0: that was not what is wrong. */
uint32_t redis_engine_queue_partitions(const struct redis_engine *redis);
/* How many partitions it takes the queue to have. */
uint32_t redis_engine_partitions(const struct redis_engine *redis);
/*
 * Lets a standby serve. A standby waits to lead in an election: its connections and partitions are
 * open and its scripts loaded, it follows changes, and it tells the other daemons that it does not
 * serve. It writes no journal, and nothing may be submitted to it. Its redis_engine_started() is OK
 * when it has reached that state, and ERR_AGAIN while Redis cannot be reached. After this call
 * redis_engine_started() is ERR_AGAIN again, until Redis has confirmed that it serves and all
 * earlier changes are known here, which takes one round trip.
 */
void redis_engine_serve(struct redis_engine *redis);
/* Later connections to servers log in with the user and password of this URL; all else of it is
   ignored. */
void redis_engine_log_in_as(struct redis_engine *redis, const struct redis_url *url);
/* Begins to leave: tells the other daemons, which take over what it holds. Nothing may be submitted
   any more. */
void redis_engine_leave(struct redis_engine *redis);
/* Call it after each turn: has that been confirmed, or taken too long? */
bool redis_engine_left(struct redis_engine *redis);
/* Answers all waiting commands, and closes the connections. NULL does nothing. */
void redis_engine_free(struct redis_engine *redis);

/* ---- waiting, by running turns of the loop ---- */

/* redis_engine_new(), then waits until redis_engine_started() is not ERR_AGAIN, and returns it. If
 the queue has another number of partitions than was supposed, both once more with that.
 *out_redis is set while it waits, for redis_engine_log_in_as(), and NULL after an error. */
enum err redis_engine_open(const struct redis_options *options, struct redis_engine **out_redis,
                           struct redis_error *out_error) MUST_USE;
/* The same after redis_engine_serve(). */
enum err redis_engine_take_over(struct redis_engine *redis, struct redis_error *out_error) MUST_USE;
/* redis_engine_leave(), then waits until it has left. NULL does nothing. */
void redis_engine_stop(struct redis_engine *redis);

/* The port; valid until redis_engine_free(). */
struct engine *redis_engine_port(struct redis_engine *redis);

/* Restores jobs from the journal, if this daemon is the one that writes it. NULL: it never is. */
struct restore *redis_engine_restore(struct redis_engine *redis);
/* The journal's health and resync; NULL as above. */
struct journal_control *redis_engine_journal_control(struct redis_engine *redis);

#endif
