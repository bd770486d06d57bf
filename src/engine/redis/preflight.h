/*
 * Checks whether a server can hold a queue, each time when it is connected: its version, whether it
 * may evict keys, whether its cluster has all slots; and tries every command that the engine needs
 * in a way that changes nothing, because the user may lack permissions.
 *
 * At the start, a permanent fault ends it at once (`unfit`, `error`), and a temporary one is waited
 * for. Later both are logged, and the engine continues.
 */
#ifndef LATERD_ENGINE_REDIS_PREFLIGHT_H
#define LATERD_ENGINE_REDIS_PREFLIGHT_H

#include "client/redis/topology.h"
#include "engine/redis/script.h"

struct preflight_options {
    const struct redis_url *url;
    const struct script_space *space;
    bool wait_replicas;       /* WAIT will be needed */
    void (*fit)(void *owner); /* a server was found fit */
    void *owner;
};

struct preflight {
    struct preflight_options options;
    bool fit;       /* some server was found fit */
    bool serving;   /* the start is over: from now on faults are only logged */
    enum err unfit; /* why the start must end, explained by `error` */
    struct redis_error error;
    uint32_t queue_partitions; /* unfit: the queue has another number than ours, this one; else 0 */
    bool stray;                /* there is a key that another program made */
    bool evicts;               /* while serving: some server may evict keys, … */
    struct redis_address evicting[REDIS_NODES_MAX]; /* … these */
    uint32_t evicting_count;
    struct list looks; // policy_look::place, under way
};

void preflight_init(struct preflight *preflight, const struct preflight_options *options);

/* The server takes commands from now on: begins to check it. */
void preflight_check_node(struct preflight *preflight, struct node *node);
/* A connection ended with link->error, which may be a permanent fault (wrong password). */
void preflight_lost(struct preflight *preflight, const struct link *link);
/* The same for a connection to a node: also if it is the only server and a replica. */
void preflight_node_lost(struct preflight *preflight, const struct node *node);
/* The queue has another number of partitions. Logged; the first fault is kept as the reason. */
void preflight_refuse_queue(struct preflight *preflight, uint32_t stored_partitions);
/* The same: this key has another type. */
void preflight_refuse_key(struct preflight *preflight, struct bytes key);
/* All partitions are open, so all keys have the right types. */
void preflight_accept_keys(struct preflight *preflight);
/* While serving: the policy by which the server may evict keys; empty: it may not. Valid until the
 * next call. INFO is read after each reconnect, before the server gets partitions, and every ten
 * seconds. */
void preflight_policy(struct preflight *preflight, const struct redis_address *address,
                      struct bytes policy);
/* All partitions are at these servers: forgets the policies of others. O(count). */
void preflight_keep_policies(struct preflight *preflight, struct node *const *nodes,
                             uint32_t count);
/* Reads the server's policy, unless that is under way. */
void preflight_look(struct preflight *preflight, struct node *node);

#endif
