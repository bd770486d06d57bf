/*
 * The sentinels, and the master that they name. A connection to each stays open: it is asked for
 * the master once, and then reports every failover (+switch-master), so that a master that hangs,
 * or was demoted, is left at once.
 *
 * While there is no master, all sentinels are asked again over new connections, and the address
 * that most of them name is used: this also finds a failover whose report was lost. A timer repeats
 * it.
 *
 * Single-threaded. Must not move.
 */
#ifndef LATERD_CLIENT_REDIS_SENTINELS_H
#define LATERD_CLIENT_REDIS_SENTINELS_H

#include "client/redis/link.h"

struct sentinels;

struct sentinel {
    struct link link;
    struct link_callbacks callbacks;
    struct sentinels *sentinels;
    struct redis_address answer; /* an empty host: none yet */
    bool fresh;                  /* the answer was not counted yet */
    bool logged;                 /* that it is unreachable was logged */
};

struct sentinels_options {
    const struct redis_url *url;
    const char *user, *password; /* the sentinels', not the servers' */
    struct tls *tls;             /* NULL: none */
    struct loop *loop;
    void (*ended)(void *ended_owner); /* as in struct link_options */
    void *ended_owner;
    int64_t timeout_us;
    void (*named)(void *owner, const struct redis_address *master);
    /* No sentinel names a master, for a permanent reason (link->error). */
    void (*refused)(void *owner, const struct link *link);
    void *owner;
};

struct sentinels {
    struct sentinels_options options;
    struct sentinel all[REDIS_ADDRESSES_MAX];
    unsigned count;
    bool wanted;         /* there is no master */
    bool seeking;        /* they are being asked for the master */
    int64_t again_at_us; /* not searching: do not search again before this time */
    struct timer timer;  /* searching: to count the answers; else to search again */
};

/* Not connected until sentinels_want_master(). The options are copied, what they point to is
   borrowed. Must not move. */
void sentinels_init(struct sentinels *sentinels, const struct sentinels_options *options);
void sentinels_fini(struct sentinels *sentinels); /* of a zeroed one does nothing */

/* True: there is no master: searches for one, repeatedly, until this is called with false. */
void sentinels_want_master(struct sentinels *sentinels, bool wanted);

/* A connection whose error says why no master is known, for messages. */
const struct link *sentinels_error(const struct sentinels *sentinels);

#endif
