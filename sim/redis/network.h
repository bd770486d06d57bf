/*
 * Simulated Redis servers as hosts of the simulated network (sim/loop.h), and the faults between
 * them and daemons: bytes arrive late, are cut off anywhere, or wait while a path is cut. The same
 * seed gives the same run.
 *
 * A daemon is anything that has a loop of this network; it runs as long as that loop exists. Cuts
 * belong to the daemon's number, so they persist when it is started again.
 *
 * One network at a time, one thread.
 */
#ifndef LATERD_SIM_REDIS_NETWORK_H
#define LATERD_SIM_REDIS_NETWORK_H

#include "sim/loop.h"
#include "sim/redis/server.h"

struct sim_network;

enum { SIM_NETWORK_DAEMONS = 24, SIM_NETWORK_SERVERS = 12 };

struct sim_network_options {
    uint64_t seed;
    int64_t latency_us; /* one way takes up to so long */
    struct sim_faults faults;
    bool split; /* bytes arrive piece by piece */
};

struct sim_network *sim_network_new(const struct sim_network_options *options, int64_t now_us);
void sim_network_free(struct sim_network *network); /* all daemons have ended */
void sim_network_faults(struct sim_network *network, const struct sim_faults *faults);
void sim_network_add(struct sim_network *network, struct sim_redis *server);

/* Starts the daemon. `clock`: the time that it sees. */
struct loop *sim_network_start(struct sim_network *network, unsigned daemon, struct clock *clock);
/* Ends it: what it has sent may still arrive, but the answers are lost. */
void sim_network_end(struct sim_network *network, unsigned daemon);

/* Bytes between these two wait, or only those to the daemon. New connections time out. */
void sim_network_cut(struct sim_network *network, unsigned daemon, unsigned server,
                     enum sim_cut cut);
/* The server does not listen: its connections end, new ones are refused. */
void sim_network_down(struct sim_network *network, unsigned server, bool down);
/* Ends all connections between these two; bytes in transit are lost. */
void sim_network_reset(struct sim_network *network, unsigned daemon, unsigned server);

/* Delivers to servers what has arrived by then. */
void sim_network_run(struct sim_network *network, int64_t now_us);
/* When to call sim_network_run() next. */
int64_t sim_network_next_us(const struct sim_network *network);
/* When the daemon has bytes to read, or a connection that was opened or refused. */
int64_t sim_network_daemon_us(const struct sim_network *network, unsigned daemon);

#endif
