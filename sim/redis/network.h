/*
 * Simulated Redis servers as hosts of the simulated network (sim/loop.h), and the faults between
 * them and daemons: bytes that take a while, are cut off anywhere, or wait while a path is cut. One
 * seed, one life.
 *
 * A daemon is whatever has a loop of this network; it lives as long as that loop. Paths are cut by
 * the daemon's number, and stay so when another life of it begins.
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
    bool split; /* bytes come piece by piece */
};

struct sim_network *sim_network_new(const struct sim_network_options *options, int64_t now_us);
void sim_network_free(struct sim_network *network); /* all daemons have ended */
void sim_network_faults(struct sim_network *network, const struct sim_faults *faults);
void sim_network_add(struct sim_network *network, struct sim_redis *server);

/* A life of the daemon begins. `clock`: what it takes for the time. */
struct loop *sim_network_start(struct sim_network *network, unsigned daemon, struct clock *clock);
/* It ends: what it has sent may still arrive, and nobody hears the answers. */
void sim_network_end(struct sim_network *network, unsigned daemon);

/* Bytes between these two wait, or only those to the daemon; connections in the making time out. */
void sim_network_cut(struct sim_network *network, unsigned daemon, unsigned server,
                     enum sim_cut cut);
/* Nobody listens there: connections end, new ones are refused. */
void sim_network_down(struct sim_network *network, unsigned server, bool down);
/* All connections between these two end, with what is on the way. */
void sim_network_reset(struct sim_network *network, unsigned daemon, unsigned server);

/* Delivers to servers what is due. */
void sim_network_run(struct sim_network *network, int64_t now_us);
/* When that is wanted next. */
int64_t sim_network_next_us(const struct sim_network *network);
/* When the daemon has something to read, or a connection that was made or refused. */
int64_t sim_network_daemon_us(const struct sim_network *network, unsigned daemon);

#endif
