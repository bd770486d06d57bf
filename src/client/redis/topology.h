/*
 * Which Redis server has which keys now: a single server; the master that Sentinel names; or the
 * masters of a cluster, by slot. Follows failovers and resharding by itself:
 *
 *   single    the one address, tried until it answers
 *   Sentinel  the master that the sentinels name (sentinels.h), once it reports that role itself
 *   cluster   when a node is lost, is silent, or answers MOVED or CLUSTERDOWN: asks the nodes in
 *             rotation for the map of slots, first those that are not suspect, until a complete
 *             map was received and all its nodes are ready. The map of a node that has lost the
 *             cluster's majority, or has an older epoch, does not replace a better one; a replica
 *             names its master
 *
 * Single-threaded. Owns the nodes; one that is no longer in the map is closed.
 */
#ifndef LATERD_CLIENT_REDIS_TOPOLOGY_H
#define LATERD_CLIENT_REDIS_TOPOLOGY_H

#include "client/redis/failure.h"
#include "client/redis/node.h"
#include "client/redis/sentinels.h"

/* Servers at a time; masters of a cluster above that are not reached, which is logged. */
enum { REDIS_NODES_MAX = 64, REDIS_SLOTS = 16384, REDIS_NO_NODE = 0xff };

struct topology;

/* CLUSTER INFO and CLUSTER SLOTS, of one node. */
struct map_question {
    struct topology *topology;
    struct link_call info, slots;
    bool pending;       /* the answers are pending */
    bool ok;            /* cluster_state: it sees a majority, and all slots served */
    uint64_t epoch;     /* cluster_current_epoch: grows with each failover and moved slot */
    int64_t suspect_us; /* until then its map may be outdated; 0: not suspect */
};

/* Each may be NULL. */
struct topology_callbacks {
    void (*ready)(struct topology_callbacks *callbacks,
                  struct node *node); /* takes commands from now on */
    void (*lost)(struct topology_callbacks *callbacks, struct node *node);
    /* Slots have moved: topology_node() may return other nodes now. */
    void (*moved)(struct topology_callbacks *callbacks);
    /* No sentinel names a master, for a permanent reason (link->error). */
    void (*refused)(struct topology_callbacks *callbacks, const struct link *link);
};

struct topology_options {
    const struct redis_url *url;
    struct topology_callbacks *callbacks;
    const char *sentinel_user, *sentinel_password; /* empty: none is asked for */
    struct tls *tls;                               /* NULL: none */
    struct loop *loop;
    /* Of each connection, those to sentinels as well: as in struct link_options. */
    void (*ended)(void *owner);
    void *owner;
    int64_t timeout_us;
};

struct topology {
    struct topology_options options;
    struct link_options link; /* of every node */
    struct node_callbacks callbacks;
    struct node nodes[REDIS_NODES_MAX];
    unsigned node_count;
    /* Cluster */
    uint8_t slots[REDIS_SLOTS];    /* a place in nodes, or REDIS_NO_NODE */
    int64_t moved_us[REDIS_SLOTS]; /* when a node said last that the slot is another's … */
    uint8_t moved_by[REDIS_SLOTS]; /* … and which: its place in nodes */
    bool has_slot[REDIS_NODES_MAX];
    struct map_question questions[REDIS_NODES_MAX]; /* one for each node */
    unsigned map_place;                             /* in nodes, of the one that was asked last */
    struct timer map_again; /* when to ask next: armed while something is wrong */
    int64_t requested_us;   /* when one was asked last */
    int64_t error_since_us; /* since when something is wrong; 0: all is well */
    bool whole;             /* the map has all slots */
    bool has_room;     /* the map left out some slots, and nodes have left: it is asked again */
    unsigned left_out; /* slots whose masters are more than REDIS_NODES_MAX: not reached */
    bool map_ok;       /* it is from a node that reported cluster_state:ok, … */
    uint64_t epoch;    /* … of this epoch */
    unsigned older;    /* maps in a row that were refused for their epoch */
    /* Sentinel */
    struct sentinels sentinels;
    struct link_counts counts; /* of all nodes that there have been */
};

/* Begins to connect; nothing is reported before this returns. The options are copied, what they
   point to is borrowed; users and passwords are read at each connection, so they may change in
   between. Must not move. */
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

/* A node that keeps us from serving: it is not ready, or refuses commands; NULL: none. */
const struct node *topology_bad_node(const struct topology *topology);
/* A connection that keeps us from serving, whose error says why; NULL: none. For messages. */
const struct link *topology_error(const struct topology *topology);

/* To be called when a node answered that another node has the slot, or that it is not a master.
   False: another node has said otherwise a moment ago. While a slot is given over by hand, each may
   name the other until it is told: the caller waits a little before it asks again. The same node
   may say it again, as when an old map has undone what it said: there is no pause then. */
bool topology_moved(struct topology *topology, struct node *by, const struct failure *failure);

/* To be called when a node answered CLUSTERDOWN: other nodes may have a newer map. */
void topology_suspect(struct topology *topology, struct node *node);

/* Sends the collected commands, in one write for each node. */
void topology_flush(struct topology *topology);

#endif
