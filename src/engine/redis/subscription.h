/*
 * The subscription to the queue's notices: a connection to each server that has partitions, where
 * it hears what their scripts publish: no bus of a cluster is between. Sharded channels
 * (SSUBSCRIBE) where Redis has them, from 7.0 on; a server that does not know them is asked for
 * others.
 *
 * What has been published has reached us, or the connection ends: then, when a slot moves (the
 * server says so, or the map), and when a server that should have said something is silent, the
 * partitions are not `heard`. Consumers and promoter forget what they know of these, and look for
 * themselves until they are heard again. Servers of which nothing is heard are asked for a sign of
 * life (PING); the one of partition 0 gives one each second, by a heartbeat (members.h).
 *
 * A start waits until all partitions are heard, and fails with the reason: a user of Redis 7 has no
 * right to any channel unless somebody gave it.
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
    struct link_options link;    /* `listener` and `subscriber` are made here */
};

/* The connection to one server. */
struct listener {
    struct link link; /* flushed by the owner */
    struct link_callbacks callbacks;
    struct subscription *subscription;
    struct timer alive; /* while it is up: when something should have been heard */
    int64_t heard_us;   /* when something was */
    bool pinged;        /* an answer is owed */
    bool plain;         /* the server knows no sharded channels */
};

/* A partition's channels: the one for all, and our own. */
struct hearing {
    struct listener *at; /* where it was subscribed to; NULL: nowhere */
    unsigned acked;      /* channels that the server has confirmed */
};

struct subscription {
    struct subscription_options options;
    struct listener listeners[REDIS_NODES_MAX]; /* each for the node of the same place */
    struct hearing *hearings;                   /* one for each partition */
    uint64_t heartbeats;                        /* members::heartbeats, when one was heard last */
    struct timer look; /* something changed that tells where it should be */
};

/* Does not move afterwards. */
void subscription_init(struct subscription *subscription,
                       const struct subscription_options *options);
void subscription_fini(struct subscription *subscription);

/* Servers came or went, slots moved, or a heartbeat was answered: in this turn it connects, moves
   to where the queue is served, or finds that nothing is heard. */
void subscription_look(struct subscription *subscription);
/* A server is gone: nothing will be heard from it. */
void subscription_lost(struct subscription *subscription, const struct redis_address *address);
/* The end of a turn. */
void subscription_flush(struct subscription *subscription);

/* Are all partitions heard? */
bool subscription_is_whole(const struct subscription *subscription);
/* The connection by which one is not. */
const struct link *subscription_error(const struct subscription *subscription);

#endif
