/*
 * port/loop.h and port/stream.h in memory, on a simulated clock, from a seed.
 *
 * A `sim_net` connects processes. Each process under test has a `sim_loop` on it: its own clock
 * (which may drift), timers, clients and outgoing streams. What it connects to is a `sim_host`: an
 * object of the test, such as a fake Redis, that has an address and is told of connections.
 *
 *     test ──sim_loop_client()──▶ the process under test ──loop->connect()──▶ sim_host
 *           (at once, as bytes are sent)                  (bytes late, split anywhere, lost)
 *
 * Who drives it: before a turn of any process, sim_net_run() hands hosts what has arrived; a
 * process takes what arrived for it in its gather. sim_net_next_us() and timers_next_us() of
 * the loops say to when the clock is to be moved. sleep() does nothing.
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

/* One end of a connection, the test's: a client of the process, or a host's end of a connection
 * that the process opened. */
struct sim_peer;

/* ---- the network ---- */

/* `clock`: the true time; read without moving it. Borrowed. */
struct sim_net *sim_net_new(const struct sim_clock *clock, uint64_t seed);
/* And all connections, without a word. Loops must be freed before. */
void sim_net_free(struct sim_net *network);

/* Cut what is sent at random places and show it piece by piece. */
void sim_net_split(struct sim_net *network, bool split);
/* Between processes and hosts each way takes so long, at random; 0 and 0 at first. */
void sim_net_delay(struct sim_net *network, int64_t least_us, int64_t most_us);

/* Of what goes between processes and hosts; none at first. */
struct sim_faults {
    int64_t late_us; /* now and then up to so long is added to what one way takes, */
    unsigned late_per_mille;
    unsigned reset_per_mille; /* of what a process sends: it tears the connection, see sim_tear */
};

void sim_net_faults(struct sim_net *network, const struct sim_faults *faults);
/* All choices are made by this. */
struct sim_random *sim_net_random(struct sim_net *network);

/*
 * From now on the name means this address ("10.0.0.1", copied), which is found out after so long;
 * INT64_MAX: no answer ever comes. `address` NULL: there is no such name, which is found out after
 * so long. A name that was never given is taken for an address.
 */
void sim_net_name(struct sim_net *network, const char *name, const char *address, int64_t after_us);

/* Hands hosts what has arrived by now: calls their functions. */
void sim_net_run(struct sim_net *network);
/*
 * When sim_net_run() or some loop's gather is wanted next; INT64_MAX: nothing is on its way. A
 * past time: at once.
 */
int64_t sim_net_next_us(const struct sim_net *network);
/* When sim_net_run() is; for who drives processes that do not always run: see sim_loop_next_us. */
int64_t sim_net_hosts_next_us(const struct sim_net *network);

/* ---- hosts: what a process connects to ---- */

enum sim_reach {
    SIM_UP,
    SIM_REFUSES, /* new connections are refused; those that are stay */
    SIM_SILENT,  /* nothing arrives there and nothing comes from there: it arrives when it is up
                    again. New connections hang. */
};

struct sim_host_handler {
    /* A process has connected. sim_peer_set_user() now, if need be. */
    void (*accepted)(struct sim_host *host, struct sim_peer *peer);
    /* Bytes arrived; all of them are taken. May send, shut, reset or free the peer. */
    void (*input)(struct sim_host *host, struct sim_peer *peer, struct bytes bytes);
    /* The process closed its end, or reset it: nothing more comes and nothing that is sent arrives.
       The peer is no more when this returns. Not called of one that was freed. */
    void (*closed)(struct sim_host *host, struct sim_peer *peer, bool reset);
};

/* Embedded in what it belongs to. */
struct sim_host {
    const struct sim_host_handler *handler;
    struct sim_net *network;
    struct list place; // sim_net::hosts
    char address[64];  /* "10.0.0.1:6379", or a path: "/run/redis.sock" */
    enum sim_reach reach;
};

/* From now on it is there. CHECKs that no other host has the address. */
void sim_host_add(struct sim_net *network, struct sim_host *host, const char *address,
                  const struct sim_host_handler *handler);
/* Resets all its connections (its `closed` is called of none), and is no more. */
void sim_host_remove(struct sim_host *host);
void sim_host_reach(struct sim_host *host, enum sim_reach reach);
/* Resets all its connections: its process died, say. Their `closed` is called, before it returns.
 */
void sim_host_cut(struct sim_host *host);

/* ---- loops: the processes under test ---- */

/* `clock`: the time that the process sees; may be that of the network or one that is wrong. */
struct sim_loop *sim_loop_new(struct sim_net *network, struct clock *clock);
/*
 * The process ends: of what it sent to hosts some still arrives, then they are told that it has
 * gone. Clients that the test has not freed find themselves closed.
 */
void sim_loop_free(struct sim_loop *loop);
struct loop *sim_loop_port(struct sim_loop *loop);

/* SIM_SILENT: cut off from all hosts; SIM_REFUSES: they refuse it. Clients do not notice. */
void sim_loop_reach(struct sim_loop *loop, enum sim_reach reach);
/* Resets all connections of the process to the host. */
void sim_loop_cut(struct sim_loop *loop, struct sim_host *host);

/* A process begins, and listens. Connections of one before it are no more, or about to be; its
   timers are cancelled. */
void sim_loop_listen(struct sim_loop *loop);
/* Somebody connects to it. Owned by the caller, until sim_peer_free(). */
struct sim_peer *sim_loop_client(struct sim_loop *loop, unsigned listener);

enum sim_cut { SIM_WHOLE, SIM_CUT_ANSWERS, SIM_CUT_ALL };

/* What goes between these two, or only what goes to the process, waits until the path is whole. */
void sim_loop_cut_path(struct sim_loop *loop, const struct sim_host *host, enum sim_cut cut);
/*
 * The connections between these two end; `loop` NULL: all of the host's. Of what is on its way some
 * arrives still, cut at any byte, as may the answers to that. `closed` is called, before it
 * returns.
 */
void sim_tear(struct sim_loop *loop, struct sim_host *host);

/* Is there anything a gather would tell the process now? */
bool sim_loop_pending(const struct sim_loop *loop);
/* When there will be, in the network's time; INT64_MAX: nothing is on its way to it. Its timers
   are the caller's to mind. */
int64_t sim_loop_next_us(const struct sim_loop *loop);

/* ---- peers ---- */

/* Resets it, if the process still has it. From within a host's functions it may be called, too. */
void sim_peer_free(struct sim_peer *peer);

void *sim_peer_user(const struct sim_peer *peer);
void sim_peer_set_user(struct sim_peer *peer, void *user);

void sim_peer_send(struct sim_peer *peer, struct bytes bytes);
void sim_peer_shut(struct sim_peer *peer); /* after what was sent: end of input */
/* Gone at once, bytes on the way are lost. A host's peer is the host's no more: see sim_peer_free.
 */
void sim_peer_reset(struct sim_peer *peer);
/* The peer takes at most so many further bytes; SIZE_MAX (at first) = all. */
void sim_peer_window(struct sim_peer *peer, size_t bytes);

/* Of a client: what it has received; of a host's peer `input` has it. */
struct bytes sim_peer_received(const struct sim_peer *peer);
void sim_peer_take(struct sim_peer *peer, size_t count); /* forgets that many received bytes */
bool sim_peer_closed(const struct sim_peer *peer);       /* by the process */

#endif
