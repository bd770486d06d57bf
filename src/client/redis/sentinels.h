/*
 * The sentinels, and the master that they name. Each has a connection that stays: it is asked for
 * the master once, and tells of every failover from then on (+switch-master), so that a master that
 * hangs, or was demoted while it lives, is left at once.
 *
 * While there is no master, all are connected to and asked again, and the address that most of them
 * name is taken: a failover that nobody heard of is found so, too. How that goes on is a timer's.
 *
 * One thread. Does not move.
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
    bool fresh;                  /* that came, and was not counted yet */
    bool said;                   /* that it is away was logged */
};

struct sentinels_options {
    const struct redis_url *url;
    const char *user, *password; /* the sentinels', not the servers' */
    struct tls *tls;             /* NULL: none */
    struct loop *loop;
    int64_t timeout_us;
    void (*named)(void *owner, const struct redis_address *master);
    /* Nobody names a master, and here is a reason that stays until somebody corrects it. */
    void (*refused)(void *owner, const struct link *link);
    void *owner;
};

struct sentinels {
    struct sentinels_options options;
    struct sentinel all[REDIS_ADDRESSES_MAX];
    unsigned count;
    bool wanted;         /* there is no master */
    bool seeking;        /* they are asked */
    int64_t again_at_us; /* not seeking: not before this again */
    struct timer timer;  /* seeking: to count the answers that have come; wanted: to seek again */
};

void sentinels_init(struct sentinels *sentinels, const struct sentinels_options *options);
void sentinels_fini(struct sentinels *sentinels); /* of a zeroed one does nothing */

/* There is no master: looks for one, again and again until this is called with false. */
void sentinels_want_master(struct sentinels *sentinels, bool wanted);

/* Why no master is known, for messages. */
const struct link *sentinels_error(const struct sentinels *sentinels);

#endif
