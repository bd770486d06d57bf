/*
 * port/loop.h and port/stream.h in memory, on a simulated clock, from a seed.
 *
 * A `sim_net` connects processes. Each process under test has a `sim_loop` on it: its own clock
 * (which may drift), timers, clients and outgoing streams. What it connects to is a `sim_host`: an
 * object of the test, such as a fake Redis, that has an address and is notified of connections.
 *
 *     test ──sim_loop_client()──▶ the process under test ──loop->connect()──▶ sim_host
 *           (at once, as bytes are sent)                  (bytes late, split anywhere, lost)
 *
 * The test drives it: before a turn of any process, sim_net_run() passes to hosts what has arrived;
 * a process takes what arrived for it in its gather. The clock must be set to the earliest of
 * sim_net_next_us() and timers_next_us() of the loops. sleep() does nothing.
 *
 *     next_us = earliest of sim_net_next_us(network) and what each daemon's last turn returned
 *     clock->now_us = next_us
 *     sim_net_run(network)
 *     server_turn(…) of each daemon whose sim_loop_pending() is true or whose time has come
 */
#ifndef LATERD_SIM_LOOP_H
#define LATERD_SIM_LOOP_H

#include "base/list.h"
#include "port/loop.h"
#include "sim/clock.h"
#include "sim/random.h"

struct sim_net;
struct sim_loop;
struct sim_host;

/* The test's end of a connection: a client of the process, or a host's end of a connection that the
 * process opened. */
struct sim_peer;

/* ---- the network ---- */

/* `clock`: the true time; reading does not change it. Borrowed. */
struct sim_net *sim_net_new(const struct sim_clock *clock, uint64_t seed);
/* Frees all connections, too, without calling back. Loops must be freed before. */
void sim_net_free(struct sim_net *network);

/* Splits what is sent at random places, and shows it piece by piece. */
void sim_net_split(struct sim_net *network, bool split);
/* Each way between processes and hosts takes a random time in this range; at first 0. */
void sim_net_delay(struct sim_net *network, int64_t least_us, int64_t most_us);

/* Faults of bytes between processes and hosts; none at first. */
struct sim_faults {
    int64_t late_us;          /* up to so much is added to one way, … */
    unsigned late_per_mille;  /* … this often */
    unsigned reset_per_mille; /* of sends of a process: the connection is torn, see sim_tear() */
};

void sim_net_faults(struct sim_net *network, const struct sim_faults *faults);

/*
 * From now on the name resolves to this address ("10.0.0.1", copied); the answer takes `after_us`;
 * INT64_MAX: no answer ever comes. `address` NULL: the answer is that there is no such name. A name
 * that was never set is used as an address.
 */
void sim_net_name(struct sim_net *network, const char *name, const char *address, int64_t after_us);

/* Passes to hosts what has arrived by now: calls their functions. */
void sim_net_run(struct sim_net *network);
/* When sim_net_run() or a loop's gather must be called next; INT64_MAX: nothing is in transit. A
 * past time: at once. */
int64_t sim_net_next_us(const struct sim_net *network);
/* When sim_net_run() must be called; for tests with processes that do not always run: see
   sim_loop_next_us(). */
int64_t sim_net_hosts_next_us(const struct sim_net *network);

/* ---- hosts: what a process connects to ---- */

enum sim_reach {
    SIM_UP,
    SIM_REFUSES, /* new connections are refused; existing ones stay */
    SIM_SILENT,  /* nothing passes in either direction until it is up again; then it arrives. New
                    connections hang. */
};

struct sim_host_handler {
    /* A process has connected. The host may call sim_peer_set_user(). */
    void (*accepted)(struct sim_host *host, struct sim_peer *peer);
    /* Bytes arrived; the host must take all of them. It may send to, shut, reset or free the peer.
     */
    void (*input)(struct sim_host *host, struct sim_peer *peer, struct bytes bytes);
    /* The process closed its end, or reset it: nothing more arrives in either direction. The peer
       is freed when this returns. Not called for a peer that the host has freed. */
    void (*closed)(struct sim_host *host, struct sim_peer *peer, bool reset);
};

/* Embedded in the object of the test. */
struct sim_host {
    const struct sim_host_handler *handler;
    struct sim_net *network;
    struct list place; // sim_net::hosts
    char address[64];  /* "10.0.0.1:6379", or a path: "/run/redis.sock" */
    enum sim_reach reach;
};

/* Adds the host. CHECKs that no other host has the address. */
void sim_host_add(struct sim_net *network, struct sim_host *host, const char *address,
                  const struct sim_host_handler *handler);
/* Resets all its connections, without calling `closed`, and removes it. */
void sim_host_remove(struct sim_host *host);
void sim_host_reach(struct sim_host *host, enum sim_reach reach);
/* Resets all its connections, as if its process had died. Calls `closed` for each before it
 * returns.
 */
void sim_host_cut(struct sim_host *host);

/* ---- loops: the processes under test ---- */

/* `clock`: the time that the process sees: that of the network, or a wrong one. */
struct sim_loop *sim_loop_new(struct sim_net *network, struct clock *clock);
/*
 * The process ends: some of what it sent to hosts still arrives, then their connections end.
 * Clients that the test has not freed are closed.
 */
void sim_loop_free(struct sim_loop *loop);
struct loop *sim_loop_port(struct sim_loop *loop);

/* A process starts, and listens. Connections of the process before it have ended, or are ending;
   its timers are cancelled. */
void sim_loop_listen(struct sim_loop *loop);
/* A client connects to it. Owned by the caller, until sim_peer_free(). */
struct sim_peer *sim_loop_client(struct sim_loop *loop, unsigned listener);

enum sim_cut { SIM_WHOLE, SIM_CUT_ANSWERS, SIM_CUT_ALL };

/* Bytes between these two, or only those to the process, wait until the path is restored. */
void sim_loop_cut_path(struct sim_loop *loop, const struct sim_host *host, enum sim_cut cut);
/*
 * Ends the connections between these two; `loop` NULL: all of the host's. Some of the bytes in
 * transit still arrive, cut at any byte, and so may the answers to them. Calls `closed` before it
 * returns.
 */
void sim_tear(struct sim_loop *loop, struct sim_host *host);

/* Would a gather now have anything for the process? */
bool sim_loop_pending(const struct sim_loop *loop);
/* When it will, in the network's time; INT64_MAX: nothing is in transit to it. Does not consider
   its timers. */
int64_t sim_loop_next_us(const struct sim_loop *loop);

/* ---- peers ---- */

/* Resets it, if the process still has it. May be called by a host's functions, too. */
void sim_peer_free(struct sim_peer *peer);

void *sim_peer_user(const struct sim_peer *peer);
void sim_peer_set_user(struct sim_peer *peer, void *user);

void sim_peer_send(struct sim_peer *peer, struct bytes bytes);
void sim_peer_shut(struct sim_peer *peer); /* after what was sent: end of input */
/* Ends at once; bytes in transit are lost. The host must not use its peer any more, as after
   sim_peer_free(). */
void sim_peer_reset(struct sim_peer *peer);
/* The peer takes at most so many further bytes; at first SIZE_MAX: all. */
void sim_peer_window(struct sim_peer *peer, size_t bytes);

/* What a client has received; a host's peer gets it by `input`. */
struct bytes sim_peer_received(const struct sim_peer *peer);
void sim_peer_take(struct sim_peer *peer, size_t count); /* forgets that many received bytes */
bool sim_peer_closed(const struct sim_peer *peer);       /* by the process */

#endif
