/*
 * The subscription to the queue's notices: a connection of its own to any server that takes
 * commands (a cluster passes messages on to all its servers), and to another when that one is gone.
 * What is received is passed on to the consumers, the promoter and the members.
 *
 * All daemons hear each heartbeat of ours (members.h). If some were answered and nothing was heard,
 * the connection leads nowhere any more, or servers of the cluster do not reach each other: it is
 * made again, and those who wait look for jobs themselves meanwhile.
 *
 * While it is not up nobody here is woken, so a start waits for it, and fails with its reason: a
 * user of Redis 7 has no right to any channel unless somebody gave it.
 */
#ifndef LATERD_ENGINE_REDIS_SUBSCRIPTION_H
#define LATERD_ENGINE_REDIS_SUBSCRIPTION_H

#include "engine/redis/consumers.h"
#include "engine/redis/partition_init.h"
#include "engine/redis/preflight.h"
#include "engine/redis/promoter.h"

struct subscription_options {
    const struct script_space *space;
    struct topology *topology;
    struct consumers *consumers; /* knows whether we are subscribed */
    struct partition_init *partition_init;
    struct members *members;
    struct promoter *promoter;
    struct preflight *preflight; /* is told why a subscription ended */
    struct link_options link;    /* `ear` and `subscriber` are made here */
};

struct subscription {
    struct subscription_options options;
    struct link link; /* flushed by the owner */
    struct link_callbacks callbacks;
    uint64_t heartbeats; /* members::heartbeats, when something was received last */
    struct timer look;   /* something changed that tells where it should be */
};

/* Does not move afterwards. */
void subscription_init(struct subscription *subscription,
                       const struct subscription_options *options);
void subscription_fini(struct subscription *subscription);

/* Servers came or went, or a heartbeat was answered: in this turn it connects, moves to where the
   queue is served, or finds that nothing is heard. */
void subscription_look(struct subscription *subscription);
/* A server is gone: nothing will be heard from it. */
void subscription_lost(struct subscription *subscription, const struct redis_address *address);

#endif
