/*
 * A whole laterd in one process (server, embedded engine, core, store) on the simulated clock,
 * network and disk, made from one seed: the same seed and the same calls give the same run, byte
 * for byte; world_trace() shows whether they did.
 *
 * Time is virtual: world_run() runs turns, ends disk operations after a while, and then sets the
 * clock to the next time that anything needs. It CHECKs that the server does not spin: the number
 * of turns without a change of the clock is limited.
 */
#ifndef LATERD_SIM_WORLD_H
#define LATERD_SIM_WORLD_H

#include "base/err.h"
#include "sim/disk.h"
#include "sim/loop.h"
#include "sim/random.h"
#include "sim/sink.h"

struct core;
struct store;
struct restore;
struct server;
struct world;

/* The listeners that a world has, for sim_loop_client(). */
enum world_listener { WORLD_DELAY_QUEUE, WORLD_DELAYQUEUE_JAVA, WORLD_BEANSTALK, WORLD_SDMQ };

enum world_crash {
    WORLD_KILL,  /* the process ends; everything that it has written survives */
    WORLD_POWER, /* the machine ends; unsynced writes survive, are torn or lost */
};

struct world_options {
    uint64_t seed;
    bool split;                    /* what clients send is split at random places */
    int64_t disk_us;               /* a disk operation takes up to so long; 0: no time */
    int64_t read_us;               /* reading from the disk takes so long; 0: as disk_us */
    int64_t oversleep_us;          /* a wake-up is up to so late; 0: never late */
    uint64_t segment_bytes;        /* of the store; 0: the default */
    uint64_t max_bytes;            /* of the store; 0: no limit */
    int64_t horizon_us;            /* of the store; 0: no job becomes far */
    uint64_t checkpoint_bytes;     /* the same; 0: the default */
    uint64_t ready_in_memory;      /* with a horizon: more ready jobs than so many become far … */
    uint64_t buried_in_memory;     /* … and more buried ones than so many */
    int64_t body_bytes;            /* of a job's body at most; 0: the default */
    int64_t block_us;              /* the longest wait of /pop; 0: the default */
    uint32_t beanstalk_body_bytes; /* of a beanstalkd client's job at most; 0: the default */
    uint32_t topics;               /* limits.topics; 0: the default */
    uint32_t connections;          /* limits.connections; 0: the default */
    int64_t
        turn_ns; /* budget of a turn's work; 0: the default. If small, all long work is in slices */
    uint64_t buffer_bytes;                       /* limits.buffer_bytes; 0: no limit */
    uint32_t push_concurrency, host_concurrency; /* of [push]; 0: the defaults */
    int64_t disable_after_us;                    /* the same */
    const char *host_rate;                       /* the same, as the configuration has it; NULL */
    struct restore *restore;         /* a journal to restore jobs from; NULL: there is none */
    struct journal_control *journal; /* its state and resync; NULL: there is none */
};

/* Down, with an empty disk. */
struct world *world_new(const struct world_options *options);
void world_free(struct world *world); /* in any state; frees all peers, too */

/*
 * Starts the server on the disk as it is. After an error it is still down, and world_error()
 * returns why. CHECKs that the core is valid, and unchanged after an orderly end at the same time
 * (P9).
 */
enum err world_boot(struct world *world) MUST_USE;
/* The same, but crashes before the disk's primitive number `points` from now. */
void world_boot_cut(struct world *world, uint64_t points, enum world_crash how);
const char *world_error(const struct world *world);

/* Crashes, in the middle of disk operations unless the disk is held. */
void world_crash(struct world *world, enum world_crash how);
/* Drains and closes. False: a client was not answered within a minute, and was disconnected. */
bool world_stop(struct world *world);
bool world_is_up(const struct world *world);

/* As SIGUSR1: pushes are refused from now on, other commands are not. */
void world_refuse_pushes(struct world *world);

/* Begins the drain; world_run() ends the server when all clients have been answered. */
void world_drain(struct world *world);

/* Runs until that time. A past time or now: runs what can be done now. */
void world_run(struct world *world, int64_t until_us);
/*
 * Sets the clock to the next time that anything needs, and runs one turn. False: there was none up
 * to `until_us`, which is the time now.
 */
bool world_step(struct world *world, int64_t until_us);
int64_t world_now_us(const struct world *world);
/* Sets the clock, backwards too. Only while the server is down. */
void world_set_clock(struct world *world, int64_t now_us);
void world_drift_clock(struct world *world, int64_t drift_us); /* see sim_clock::drift_us */

/* While the disk is held, no submitted operation ends. */
void world_hold_disk(struct world *world, bool hold);

struct sim_disk *world_disk(struct world *world);
struct sim_loop *world_loop(struct world *world);
/* The sink of all targets with a URL. */
struct sim_sink *world_sink(struct world *world);
struct sim_net *world_network(struct world *world);
const struct core *world_core(const struct world *world);     /* while it is up */
struct embedded *world_embedded(struct world *world);         /* while it is up */
const struct store *world_store(const struct world *world);   /* while it is up */
const struct server *world_server(const struct world *world); /* while it is up */

/* Tests must make all random choices with this. */
struct sim_random *world_random(struct world *world);

/*
 * A hash of everything that must survive the end. Only while it is up. With a horizon, only of the
 * numbers of jobs: the core knows little of far jobs, and a restart changes which jobs are far.
 */
uint64_t world_digest(const struct world *world);
/* A hash of everything that happened; world_note() adds what a test saw. */
uint64_t world_trace(const struct world *world);
void world_note(struct world *world, struct bytes what);

#endif
