/*
 * The way between daemons and simulated Redis servers: connections whose bytes take a while, come
 * in pieces, are cut off at any byte, or wait while a path is cut. One seed, one life.
 *
 * A daemon reaches it through the system calls that src/client/redis makes (sockets.c takes these
 * over), so all of the engine above them is the real one.
 *
 * One network at a time, one thread.
 */
#ifndef LATERD_SIM_REDIS_NETWORK_H
#define LATERD_SIM_REDIS_NETWORK_H

#include "sim/random.h"
#include "sim/redis/server.h"

struct sim_network;

enum { SIM_NETWORK_DAEMONS = 8, SIM_NETWORK_SERVERS = 12 };

struct sim_network_options {
    uint64_t seed;
    int64_t latency_us;       /* one way takes up to so long */
    int64_t late_us;          /* now and then up to so long */
    unsigned late_per_mille;  /* of pieces */
    unsigned reset_per_mille; /* of pieces: the connection ends there, at any byte of it */
};

struct sim_network *sim_network_new(const struct sim_network_options *options, int64_t now_us);
void sim_network_free(struct sim_network *network);
struct sim_network_options *sim_network_options(struct sim_network *network); /* may be changed */
void sim_network_add(struct sim_network *network, struct sim_redis *server);

enum sim_cut { SIM_WHOLE, SIM_CUT_ANSWERS, SIM_CUT_ALL };

/* Bytes between these two wait, or only those to the daemon; connections in the making time out. */
void sim_network_cut(struct sim_network *network, unsigned daemon, unsigned server,
                     enum sim_cut cut);
/* Nobody listens there: connections end, new ones are refused. */
void sim_network_down(struct sim_network *network, unsigned server, bool down);
/* All connections between these two end, with what is on the way. */
void sim_network_reset(struct sim_network *network, unsigned daemon, unsigned server);
/* The daemon is killed: what it has sent may still arrive, and nobody hears the answers. */
void sim_network_kill(struct sim_network *network, unsigned daemon);

/* What a daemon opens from now on is this one's. */
void sim_network_as(struct sim_network *network, unsigned daemon);
/* Delivers what is due. */
void sim_network_run(struct sim_network *network, int64_t now_us);
int64_t sim_network_next_us(const struct sim_network *network);
/* Has the daemon something to read, or a connection that was made or refused? */
bool sim_network_ready(const struct sim_network *network, unsigned daemon);

/* What a daemon does that waits: so long, while the world goes on. NULL: nothing happens. */
void sim_network_on_wait(struct sim_network *network, void (*wait)(void *owner, int64_t us),
                         void *owner);

#endif
