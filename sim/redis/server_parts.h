/*
 * Internals that the files of the simulated server share: server.c has the connections and decides
 * whether a command may run, server_commands.c has the server's own commands, replication.c its
 * log, cluster.c the slots. Others do not include this.
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
    int64_t at_us; /* the true time */
};

struct sim_redis {
    struct sim_redis_options options;
    struct sim_redis_settings settings;
    int64_t now_us; /* the true time */
    struct keyspace keys;
    bool known[LUA_SCRIPTS_MAX]; /* scripts that were loaded */
    struct list conns;           // sim_redis_conn::place
    uint64_t messages;           /* total of published messages that were sent to subscribers */
    struct buf log;
    struct log_mark *marks;
    size_t mark_count, mark_cap;
    size_t saved;             /* of the log */
    struct sim_redis *master; /* NULL: this server is a master */
    struct sim_redis *replicas[SIM_REDIS_REPLICAS_MAX];
    unsigned replica_count;
    unsigned starts;             /* restarts */
    unsigned promotions;         /* how often it became a master: each begins a new history */
    struct sim_cluster *cluster; /* NULL: none */
    char master_host[64];        /* of a sentinel: the master that it reports; empty: none */
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
    int64_t until_us; /* INT64_MAX: no limit */
};

/* The context of the server's own commands. */
struct server_run {
    struct sim_redis_conn *conn;
    bool scripted; /* a script called it */
};

/* ---- server_commands.c ---- */

/* NULL: this kind of server does not have the command. */
const struct command *server_command(const struct sim_redis *redis, struct bytes name);

/* ---- server.c ---- */

bool is_subscribed(const struct sim_redis_conn *conn, struct bytes channel, bool sharded);
/* Unsubscribes, and notifies the client as after SUNSUBSCRIBE. `place`: index in the connection's
   channels. */
void take_channel(struct sim_redis_conn *conn, unsigned place);
void answer_wait(struct sim_redis_conn *conn);
/* The number of keys that EVAL or EVALSHA declares. False: an error was answered. */
bool script_keys(struct command_run *run, uint32_t *out_count);
/* EVAL and EVALSHA of a known script. */
void run_script(struct command_run *run, uint32_t script);

/* ---- replication.c ---- */

void log_add(struct sim_redis *redis, unsigned db, const struct bytes *words, uint32_t count);
/* Ends a command or script: everything added since the last mark is applied together. */
void log_mark(struct sim_redis *redis);
int64_t replicas_with(const struct sim_redis *redis, size_t end);
void replica_take(struct sim_redis *redis);
int64_t replica_next_us(const struct sim_redis *redis);
void replica_leave(struct sim_redis *redis);

/* ---- cluster.c ---- */

/* May this server execute a command with these keys? If not, appends the error to `out`. */
bool cluster_allows(const struct sim_redis_conn *conn, const struct bytes *keys, uint32_t count,
                    struct buf *out);
/* The same for the channels of SSUBSCRIBE and SPUBLISH, which do not move key by key. */
bool cluster_allows_channels(const struct sim_redis_conn *conn, const struct bytes *channels,
                             uint32_t count, struct buf *out);
void cluster_publish(const struct sim_redis *from, struct bytes channel, struct bytes message);
void cluster_show_slots(const struct sim_redis *redis, struct buf *out);
void cluster_show_info(const struct sim_redis *redis, struct buf *out);

#endif
