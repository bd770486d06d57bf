/*
 * Is a server fit to hold a queue? Asked of each one that comes: by what it says of itself (its
 * version, whether it may drop keys, whether it is part of a cluster and that is whole), and by
 * trying every command that the engine needs in a way that changes nothing, for a user may lack
 * the right to any of them.
 *
 * At the start, what is plainly wrong ends it at once (`unfit`, `error`), and what may get better
 * by itself is waited for. Later either is logged, and the engine goes on as well as it can.
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
    bool serving;   /* set when the start is over: from now on reasons are only logged */
    enum err unfit; /* why the start must end, and `error` says it in words */
    struct redis_error error;
    bool stray;  /* a key that is none of ours was met, and is still there */
    bool evicts; /* while we serve: some server may evict keys now, */
    struct redis_address evicting[REDIS_NODES_MAX]; /* these */
    uint32_t evicting_count;
    struct list looks; // policy_look::place, under way
};

void preflight_init(struct preflight *preflight, const struct preflight_options *options);

/* The server takes commands from now on. What is asked is told, at the latest, when it is gone. */
void preflight_ask(struct preflight *preflight, struct node *node);
/* A connection ended, as link->error says: some reasons stay as long as nobody corrects them. */
void preflight_lost(struct preflight *preflight, const struct link *link);
/* The same, of the connection to a node: a lone server that is a replica will not do, either. */
void preflight_node_lost(struct preflight *preflight, const struct node *node);
/* The queue itself is not as ours is. Logged; the first reason stays. */
void preflight_refuse_queue(struct preflight *preflight, uint32_t stored_partitions);
/* The same: this key has another type. */
void preflight_refuse_key(struct preflight *preflight, struct bytes key);
/* All partitions are open: their keys are of the types that ours have. */
void preflight_accept_keys(struct preflight *preflight);
/* While we serve: the policy by which the server may evict keys; empty: it may not. Believed until
 * another one is read: by INFO when it comes back after it was away, before it serves a partition,
 * and each ten seconds. */
void preflight_policy(struct preflight *preflight, const struct redis_address *address,
                      struct bytes policy);
/* All partitions are at these servers: what is believed of others is forgotten. O(count). */
void preflight_keep_policies(struct preflight *preflight, struct node *const *nodes,
                             uint32_t count);
/* Asks the server for it, unless that is under way. */
void preflight_look(struct preflight *preflight, struct node *node);

#endif
