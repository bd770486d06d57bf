/*
 * A whole laterd in one process (server, embedded engine, core, store) on the simulated clock,
 * network and disk, made from one seed: the same seed and the same calls give the same life, byte
 * for byte, which world_trace() shows.
 *
 * Time is virtual: world_run() runs turns, lets disk operations end after a while and then jumps to
 * the next moment that anybody wants. It CHECKs that the server does not spin: that no moment takes
 * more turns than there can be work for.
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
    WORLD_KILL,  /* the process ends; what it has written stays */
    WORLD_POWER, /* the machine ends; what was not synced is there, torn or lost */
};

struct world_options {
    uint64_t seed;
    bool split;                /* what clients send arrives cut at random places */
    int64_t disk_us;           /* a disk operation takes up to so long; 0: no time at all */
    int64_t read_us;           /* reading what is not in memory takes so long; 0: as disk_us says */
    int64_t oversleep_us;      /* a wake-up comes up to so late; 0: exactly when it is wanted */
    uint64_t segment_bytes;    /* of the store; 0: the default */
    uint64_t max_bytes;        /* of the store; 0: no limit */
    int64_t horizon_us;        /* of the store; 0: no job becomes far */
    uint64_t checkpoint_bytes; /* the same; 0: the default */
    uint64_t ready_in_memory;  /* with a horizon: more ready jobs than so many become far … */
    uint64_t buried_in_memory; /* … and more buried ones than so many */
    int64_t body_bytes;        /* of a job's body at most; 0: the default */
    int64_t block_us;          /* the longest wait of /pop; 0: the default */
    uint32_t beanstalk_body_bytes; /* of a beanstalkd client's job at most; 0: the default */
    uint32_t topics;               /* limits.topics; 0: the default */
    uint32_t connections;          /* limits.connections; 0: the default */
    int64_t turn_ns;       /* budget of a turn's work; 0: the default. A little: all is in slices */
    uint64_t buffer_bytes; /* limits.buffer_bytes; 0: no limit */
    uint32_t push_concurrency, host_concurrency; /* of [push]; 0: the defaults */
    int64_t disable_after_us;                    /* the same */
    const char *host_rate;                       /* the same, as the configuration has it; NULL */
    struct restore *restore;         /* a journal to restore jobs from; NULL: there is none */
    struct journal_control *journal; /* how it is, and its resync; NULL: there is none */
};

/* Down, with an empty disk. */
struct world *world_new(const struct world_options *options);
void world_free(struct world *world); /* in whatever state; with all peers */

/*
 * Starts the server on the disk as it is. An error: it is still down, world_error() says why.
 * CHECKs that the core is valid, and that it is as it was if it ended in order at this moment (P9).
 */
enum err world_boot(struct world *world) MUST_USE;
/* The same, but before the disk's primitive number `points` from now the end comes. */
void world_boot_cut(struct world *world, uint64_t points, enum world_crash how);
const char *world_error(const struct world *world);

/* The end without a word: in the midst of what the disk does, unless it is held. */
void world_crash(struct world *world, enum world_crash how);
/* Drains and closes. False: somebody was not answered within a minute, and has been cut off. */
bool world_stop(struct world *world);
bool world_is_up(const struct world *world);

/* As SIGUSR1 does: no pushes any more, all else goes on. */
void world_refuse_pushes(struct world *world);

/* Begins the drain and goes on; world_run() ends the server when all have been answered. */
void world_drain(struct world *world);

/* Lives until then. A past time or now: does what can be done now. */
void world_run(struct world *world, int64_t until_us);
/*
 * Moves the clock to the next moment that anybody wants and does one turn then. False: there was
 * none until then, which it now is.
 */
bool world_step(struct world *world, int64_t until_us);
int64_t world_now_us(const struct world *world);
/* Time passes without anybody noticing; backwards too. Only while the server is down. */
void world_set_clock(struct world *world, int64_t now_us);
void world_drift_clock(struct world *world, int64_t drift_us); /* see sim_clock::drift_us */

/* While the disk is held no submitted operation ends. */
void world_hold_disk(struct world *world, bool hold);

struct sim_disk *world_disk(struct world *world);
struct sim_loop *world_loop(struct world *world);
/* What all targets with a URL are sent to. */
struct sim_sink *world_sink(struct world *world);
struct sim_net *world_network(struct world *world);
const struct core *world_core(const struct world *world);     /* while it is up */
struct embedded *world_embedded(struct world *world);         /* while it is up */
const struct store *world_store(const struct world *world);   /* while it is up */
const struct server *world_server(const struct world *world); /* while it is up */

/* All choices of a test come from here, too. */
struct sim_random *world_random(struct world *world);

/*
 * A hash of all that must survive the end, while it is up. With a horizon only of how many jobs
 * there are: of far ones the core knows no more, and which are far is not the same after a restart.
 */
uint64_t world_digest(const struct world *world);
/* A hash of all that has happened; a test adds what it saw. */
uint64_t world_trace(const struct world *world);
void world_note(struct world *world, struct bytes what);

#endif
