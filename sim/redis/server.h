/*
 * A simulated Redis 7.0 server, or a sentinel: bytes of a connection go in, RESP comes out. It has
 * no socket, no thread and no clock: sim_redis_time() sets the true time, and its own clock is
 * ahead of that by `ahead_us`. A script runs as one step.
 *
 * It writes a log of commands (as Redis' append-only file and the stream to replicas), with a mark
 * and its time behind each command or script. A replica copies its master's log up to a mark that
 * is old enough. A server that is restarted reads its own log, or the saved part.
 *
 * It has only what laterd's engine and its scripts use, and a little for tests. One thread.
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
    int64_t ahead_us; /* its clock minus the true time */
    int64_t
        lag_us;   /* of a replica: how far behind its master it is; INT64_MAX: it copies nothing */
    bool full;    /* maxmemory is reached */
    bool evicts;  /* maxmemory-policy is allkeys-lru, and there is a maxmemory */
    bool loading; /* LOADING */
    bool busy;    /* BUSY: a script of another client runs */
    bool cannot_save;     /* MISCONF */
    bool few_replicas;    /* NOREPLICAS: min-replicas-to-write is not met */
    const char *password; /* of the user "default"; NULL: none is needed */
    const char *denied;   /* " wait publish ": commands that the user may not run; NULL: none */
    const char *version;  /* NULL: 7.0.15 */
    const char *unknown;  /* commands that this version lacks, but for scripts; NULL: none */
};

struct sim_redis_options {
    const char *host; /* borrowed */
    uint16_t port;
    bool sentinel;
    const char *service; /* of a sentinel: the master's name */
};

struct sim_redis *sim_redis_new(const struct sim_redis_options *options, int64_t now_us);
void sim_redis_free(struct sim_redis *redis); /* frees its connections, too */
struct sim_redis_settings *sim_redis_settings(struct sim_redis *redis);
const char *sim_redis_host(const struct sim_redis *redis);
uint16_t sim_redis_port(const struct sim_redis *redis);

/* Sets the true time. Replicas copy what is old enough, WAITs end. */
void sim_redis_time(struct sim_redis *redis, int64_t now_us);
/* When to call sim_redis_time() next; INT64_MAX: nothing waits for it. */
int64_t sim_redis_next_us(const struct sim_redis *redis);

/* ---- connections ---- */

struct sim_redis_conn *sim_redis_accept(struct sim_redis *redis);
void sim_redis_hang_up(struct sim_redis_conn *conn); /* frees it */
/* The server loses the connection's subscriptions; the client gets no message of it. */
void sim_redis_unsubscribe(struct sim_redis_conn *conn);
void sim_redis_input(struct sim_redis_conn *conn, struct bytes bytes);
/* Bytes to send; the caller removes what it has taken from the beginning. */
struct buf *sim_redis_output(struct sim_redis_conn *conn);
/* The server has closed it; output may be left. */
bool sim_redis_closed(const struct sim_redis_conn *conn);

/* ---- what happens to it ---- */

enum sim_redis_kept { SIM_REDIS_KEEPS_ALL, SIM_REDIS_KEEPS_SAVED, SIM_REDIS_KEEPS_NOTHING };

/* Everything written until now is saved: see SIM_REDIS_KEEPS_SAVED. */
void sim_redis_save(struct sim_redis *redis);
/* Restarts with the data that it kept, without scripts; closes all connections. */
void sim_redis_restart(struct sim_redis *redis, enum sim_redis_kept kept);
/* Becomes a replica of `master`, and drops what the master does not have; NULL: becomes a master
   with its data. Closes its connections, which Redis does only if a sentinel requests it. */
void sim_redis_follow(struct sim_redis *redis, struct sim_redis *master);
bool sim_redis_is_replica(const struct sim_redis *redis);
/* Of a replica: copies everything that its master has. */
void sim_redis_catch_up(struct sim_redis *redis);

/* Of a sentinel: sets which server is the master; with `report`, publishes it to subscribers. */
void sim_redis_name_master(struct sim_redis *sentinel, const struct sim_redis *master, bool report);

/* Publishes to this server's own connections only. Returns the number of subscribers. */
unsigned sim_redis_publish(struct sim_redis *redis, struct bytes channel, struct bytes message);
/* The same by SPUBLISH, to connections with SSUBSCRIBE. */
unsigned sim_redis_spublish(struct sim_redis *redis, struct bytes channel, struct bytes message);

/* All keys, members and values in one hash: equal data, equal hash. */
uint64_t sim_redis_digest(const struct sim_redis *redis);

#endif
