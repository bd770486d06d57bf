/*
 * A simulated Redis 7.0 server, or a sentinel: bytes of a connection go in, RESP comes out. It has
 * no socket, no thread and no clock: it is told the world's time, and its own is so far ahead of
 * that as its settings say. Scripts run at once and whole.
 *
 * What it has written is a log of commands (as Redis' append-only file and its stream to replicas
 * are), with a mark of time behind each command or script. A replica takes its master's log up to a
 * mark that is old enough; a server that starts again reads its own, or as much as was saved.
 *
 * Only what laterd's engine and its scripts use is there, and a little for tests. One thread.
 */
#ifndef LATERD_SIM_REDIS_SERVER_H
#define LATERD_SIM_REDIS_SERVER_H

#include "base/bytes.h"

struct sim_redis;
struct sim_redis_conn;
struct sim_cluster;

enum { SIM_REDIS_DBS = 16, SIM_REDIS_REPLICAS_MAX = 8 };

/* Settings and faults; a test changes them at any time. */
struct sim_redis_settings {
    int64_t ahead_us;     /* its clock against the world's */
    int64_t lag_us;       /* of a replica: so old is what it takes; INT64_MAX: it takes nothing */
    bool full;            /* maxmemory is reached */
    bool evicts;          /* maxmemory-policy is allkeys-lru, and there is a maxmemory */
    bool loading;         /* LOADING */
    bool busy;            /* BUSY: somebody's script runs */
    bool cannot_save;     /* MISCONF */
    bool few_replicas;    /* NOREPLICAS: min-replicas-to-write is not met */
    const char *password; /* of the user "default"; NULL: none is asked for */
    const char *denied;   /* " wait publish ": commands that the user may not run; NULL: none */
};

struct sim_redis_options {
    const char *host; /* borrowed */
    uint16_t port;
    bool sentinel;
    const char *service; /* of a sentinel: the master's name */
};

struct sim_redis *sim_redis_new(const struct sim_redis_options *options, int64_t now_us);
void sim_redis_free(struct sim_redis *redis); /* and its connections */
struct sim_redis_settings *sim_redis_settings(struct sim_redis *redis);
const char *sim_redis_host(const struct sim_redis *redis);
uint16_t sim_redis_port(const struct sim_redis *redis);

/* The world's time. Replicas take what is old enough, WAITs end. */
void sim_redis_time(struct sim_redis *redis, int64_t now_us);
/* When that is wanted next; INT64_MAX: nothing is under way. */
int64_t sim_redis_next_us(const struct sim_redis *redis);

/* ---- connections ---- */

struct sim_redis_conn *sim_redis_accept(struct sim_redis *redis);
void sim_redis_hang_up(struct sim_redis_conn *conn);
/* The server has lost its subscriptions, and the client does not know. */
void sim_redis_unsubscribe(struct sim_redis_conn *conn); /* frees it */
void sim_redis_input(struct sim_redis_conn *conn, struct bytes bytes);
/* What is to be sent: take what you like from its beginning. */
struct buf *sim_redis_output(struct sim_redis_conn *conn);
/* The server has closed it, and will be in another life the next time; output may be left. */
bool sim_redis_closed(const struct sim_redis_conn *conn);

/* ---- what happens to it ---- */

enum sim_redis_kept { SIM_REDIS_KEEPS_ALL, SIM_REDIS_KEEPS_SAVED, SIM_REDIS_KEEPS_NOTHING };

/* All that is written is safe from now on: see SIM_REDIS_KEEPS_SAVED. */
void sim_redis_save(struct sim_redis *redis);
/* Ends and starts again with what it kept: no scripts, all connections closed. */
void sim_redis_restart(struct sim_redis *redis, enum sim_redis_kept kept);
/* Becomes a replica of `master` and gives up what that has not; NULL: a master, as it is. Its
   connections are closed, as Redis does with those of clients only when a sentinel asks for it. */
void sim_redis_follow(struct sim_redis *redis, struct sim_redis *master);
bool sim_redis_is_replica(const struct sim_redis *redis);
/* Of a replica: takes all that its master has. */
void sim_redis_catch_up(struct sim_redis *redis);

/* Of a sentinel: which server is the master; who has subscribed to it is told, if `tell`. */
void sim_redis_name_master(struct sim_redis *sentinel, const struct sim_redis *master, bool report);

/* Publishes to the connections of this server alone. Returns how many there are. */
unsigned sim_redis_publish(struct sim_redis *redis, struct bytes channel, struct bytes message);
/* The same by SPUBLISH: to those who have said SSUBSCRIBE. */
unsigned sim_redis_spublish(struct sim_redis *redis, struct bytes channel, struct bytes message);

/* All keys, members and values in one hash: equal data, equal hash. */
uint64_t sim_redis_digest(const struct sim_redis *redis);

#endif
