/*
 * The subscription to the queue's notices: one connection to each server that has partitions, on
 * which we receive what their scripts publish, without the cluster bus in between. It uses sharded
 * channels (SSUBSCRIBE), which Redis has since 7.0; on servers without them, ordinary channels.
 *
 * Every published notice reaches us, or the connection ends. When it ends, when a slot moves (by
 * the server's message or the slot map), or when a server that should have published is silent, its
 * partitions are no longer `heard`: consumers and promoter then forget what they know of these, and
 * poll them until they are heard again. Servers that publish nothing are checked by PING; the
 * server of partition 0 publishes at least a heartbeat each second (members.h).
 *
 * A start waits until all partitions are heard, and fails with the reason: users of Redis 7 have no
 * right to channels unless their ACL grants it.
 *
 * Single-threaded.
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
    struct consumers *consumers; /* is notified which partitions are heard */
    struct partition_init *partition_init;
    struct members *members;
    struct promoter *promoter;
    struct preflight *preflight; /* is notified why a subscription ended */
    struct link_options link;    /* all but `listener` and `subscriber`, which are set here */
};

/* The connection to one server. */
struct listener {
    struct link link; /* flushed by the owner */
    struct link_callbacks callbacks;
    struct subscription *subscription;
    struct timer alive; /* while connected: when something should have been received */
    int64_t heard_us;   /* when something was */
    int64_t deaf_us;    /* since when its server answers, but tells us nothing; 0: it does */
    bool deaf_logged;   /* that was logged */
    bool pinged;        /* an answer is owed */
    bool plain;         /* the server has no sharded channels */
};

/* A partition's two channels: the one for all daemons, and our own. */
struct partition_channels {
    struct listener *at; /* the connection on which we subscribed; NULL: none */
    unsigned acked;      /* channels that the server has confirmed */
};

struct subscription {
    struct subscription_options options;
    struct listener listeners[REDIS_NODES_MAX]; /* [i]: to the node at index i */
    struct partition_channels *channels;        /* [partition] */
    uint64_t heartbeats; /* members::heartbeats when a heartbeat was received last */
    struct timer look;   /* armed: subscription_look() was called in this turn */
};

/* The struct must not move afterwards. */
void subscription_init(struct subscription *subscription,
                       const struct subscription_options *options);
void subscription_fini(struct subscription *subscription);

/* To be called when servers came or went, slots moved, or a heartbeat was answered: later in this
   turn it connects, subscribes at the servers that have the partitions now, and checks that
   heartbeats are received. */
void subscription_look(struct subscription *subscription);
/* A server is gone: its partitions are no longer heard. */
void subscription_lost(struct subscription *subscription, const struct redis_address *address);
/* The end of a turn. */
void subscription_flush(struct subscription *subscription);

/* True: all partitions are heard. */
bool subscription_is_complete(const struct subscription *subscription);
/* A connection whose partitions are not heard, for its error. */
const struct link *subscription_error(const struct subscription *subscription);

#endif
