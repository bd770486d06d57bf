/*
 * Which Redis server has which keys, now: one server; the master that Sentinel names; or the
 * masters of a cluster by slot. Follows failovers and resharding by itself:
 *
 *   single    the one address, again and again until it answers
 *   Sentinel  the master that the sentinels name (sentinels.h), once it says that it is one
 *   cluster   when a node goes, or says MOVED: asks the nodes in turn for the map of slots, until
 *             one has it whole; a replica leads to its master
 *
 * One thread. The nodes belong to it; one that is not in the map any more is closed.
 */
#ifndef LATERD_CLIENT_REDIS_TOPOLOGY_H
#define LATERD_CLIENT_REDIS_TOPOLOGY_H

#include "client/redis/failure.h"
#include "client/redis/node.h"
#include "client/redis/sentinels.h"

enum { REDIS_NODES_MAX = 64, REDIS_SLOTS = 16384, REDIS_NO_NODE = 0xff };

struct topology;

struct topology_callbacks {
    void (*ready)(struct topology_callbacks *callbacks,
                  struct node *node); /* takes commands from now on */
    void (*lost)(struct topology_callbacks *callbacks, struct node *node);
    /* Slots have other nodes: topology_node() may say something else now. */
    void (*moved)(struct topology_callbacks *callbacks);
    /* No sentinel names a master, and one of them says why that will not change. */
    void (*refused)(struct topology_callbacks *callbacks, const struct link *link);
};

struct topology_options {
    const struct redis_url *url;
    struct topology_callbacks *callbacks;
    const char *sentinel_user, *sentinel_password; /* empty: none is asked for */
    struct tls *tls;                               /* NULL: none */
    struct loop *loop;
    int64_t timeout_us;
};

struct topology {
    struct topology_options options;
    struct link_options link; /* of every node */
    struct node_callbacks callbacks;
    struct node nodes[REDIS_NODES_MAX];
    unsigned node_count;
    /* Cluster */
    uint8_t slots[REDIS_SLOTS]; /* a place in nodes, or REDIS_NO_NODE */
    struct link_call map;
    unsigned map_place;     /* in nodes, of the one that was asked last */
    bool map_asked;         /* the answer is under way */
    struct timer map_again; /* when to ask next: armed unless the map is good, or asked for */
    bool whole;             /* the last map had all slots */
    /* Sentinel */
    struct sentinels sentinels;
};

void topology_init(struct topology *topology, const struct topology_options *options);
void topology_fini(struct topology *topology);

/* The slot of a key, by its hash tag if it has one (Redis Cluster specification). */
unsigned topology_slot(struct bytes key);

/* The node that has the slot, if it takes commands now; else NULL. */
struct node *topology_node(struct topology *topology, unsigned slot);
/* Any node that takes commands, or NULL. */
struct node *topology_any(struct topology *topology);
/* The node at this address, to be asked once (ASK); NULL if it takes no commands now. */
struct node *topology_at(struct topology *topology, const struct redis_address *address);

/* The connection that keeps us from serving, with its reason; NULL: none. For messages. */
const struct link *topology_error(const struct topology *topology);

/* A node said that a slot is another's (`failure` of its error), or that it is no master. */
void topology_moved(struct topology *topology, struct node *by, const struct failure *failure);

/* Sends what has gathered, one write for each node. */
void topology_flush(struct topology *topology);

#endif
