/*
 * What the files of the simulated server share, and nobody else: server.c has connections and
 * decides whether a command may run, server_commands.c has the server's own commands,
 * replication.c its log, cluster.c the slots.
 */
#ifndef LATERD_SIM_REDIS_SERVER_PARTS_H
#define LATERD_SIM_REDIS_SERVER_PARTS_H

#include "base/list.h"
#include "sim/redis/cluster.h"
#include "sim/redis/commands.h"
#include "sim/redis/lua_run.h"
#include "sim/redis/server.h"

enum { CHANNELS_MAX = 1024 };

struct sim_channel {
    struct bytes name; /* owned */
    bool sharded;
};

struct log_mark {
    size_t end;    /* in the log */
    int64_t at_us; /* the world's time */
};

struct sim_redis {
    struct sim_redis_options options;
    struct sim_redis_settings settings;
    int64_t now_us; /* the world's */
    struct keyspace keys;
    bool known[LUA_SCRIPTS_MAX]; /* scripts that were loaded */
    struct list conns;           // sim_redis_conn::place
    uint64_t messages;           /* sent to who hears notices, ever */
    struct buf log;
    struct log_mark *marks;
    size_t mark_count, mark_cap;
    size_t saved;             /* of the log */
    struct sim_redis *master; /* NULL: it is one */
    size_t applied;           /* of a replica: marks of its own log that it took */
    struct sim_redis *replicas[SIM_REDIS_REPLICAS_MAX];
    unsigned replica_count;
    unsigned starts;             /* but for the first */
    unsigned promotions;         /* how often it became a master: each begins a new history */
    struct sim_cluster *cluster; /* NULL: none */
    char master_host[64];        /* of a sentinel: whom it names; empty: nobody */
    uint16_t master_port;
};

struct sim_redis_conn {
    struct list place; // sim_redis::conns
    struct sim_redis *redis;
    struct buf in, out;
    unsigned db;
    bool authorized, asking, closed;
    struct sim_channel channels[CHANNELS_MAX];
    unsigned channel_count;
    size_t written; /* the log's end behind its last change */
    /* WAIT: */
    bool blocked;
    int64_t wanted;
    int64_t until_us; /* INT64_MAX: without end */
};

/* One that runs, for the server's own commands. */
struct server_run {
    struct sim_redis_conn *conn;
    bool scripted; /* a script called it */
};

/* ---- server_commands.c ---- */

/* NULL: no such command of this kind of server. */
const struct command *server_command(const struct sim_redis *redis, struct bytes name);

/* ---- server.c ---- */

bool is_subscribed(const struct sim_redis_conn *conn, struct bytes channel, bool sharded);
/* As after SUNSUBSCRIBE; the client is told. `place`: of the connection's channels. */
void take_channel(struct sim_redis_conn *conn, unsigned place);
void answer_wait(struct sim_redis_conn *conn);
/* How many keys are named, of EVAL and EVALSHA. False: an error was answered. */
bool script_keys(struct command_run *run, uint32_t *out_count);
/* EVAL and EVALSHA, whose script is known. */
void run_script(struct command_run *run, uint32_t script);

/* ---- replication.c ---- */

void log_add(struct sim_redis *redis, unsigned db, const struct bytes *words, uint32_t count);
/* A command or script is over: what was added since the last mark belongs together. */
void log_mark(struct sim_redis *redis);
int64_t replicas_with(const struct sim_redis *redis, size_t end);
void replica_take(struct sim_redis *redis);
int64_t replica_next_us(const struct sim_redis *redis);
void replica_leave(struct sim_redis *redis);

/* ---- cluster.c ---- */

/* May this server answer for these keys? Else appends the error to `out`. */
bool cluster_allows(const struct sim_redis_conn *conn, const struct bytes *keys, uint32_t count,
                    struct buf *out);
/* The same for the channels of SSUBSCRIBE and SPUBLISH, which do not move key by key. */
bool cluster_allows_channels(const struct sim_redis_conn *conn, const struct bytes *channels,
                             uint32_t count, struct buf *out);
void cluster_publish(const struct sim_redis *from, struct bytes channel, struct bytes message);
void cluster_show_slots(const struct sim_redis *redis, struct buf *out);
void cluster_show_info(const struct sim_redis *redis, struct buf *out);

#endif
