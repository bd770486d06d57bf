/*
 * Which node of a simulated cluster has which slot, and slots that move, one key at a time. All
 * nodes have the same map at once. The cluster bus, which carries published messages, may lose
 * some, or not reach a node at all: then that node serves nothing, and has the map of the time
 * before.
 */
#ifndef LATERD_SIM_REDIS_CLUSTER_H
#define LATERD_SIM_REDIS_CLUSTER_H

#include "sim/random.h"
#include "sim/redis/server.h"

enum { SIM_CLUSTER_NODES_MAX = 12, SIM_CLUSTER_SLOTS = 16384, SIM_CLUSTER_NONE = 255 };

struct sim_cluster_map {
    uint8_t owner[SIM_CLUSTER_SLOTS];
    uint64_t epoch;
};

struct sim_cluster {
    struct sim_redis *nodes[SIM_CLUSTER_NODES_MAX]; /* masters and replicas; the test owns them */
    unsigned count;
    uint8_t owner[SIM_CLUSTER_SLOTS]; /* index in `nodes`, or SIM_CLUSTER_NONE */
    uint8_t
        to[SIM_CLUSTER_SLOTS]; /* the node to which the slot moves; SIM_CLUSTER_NONE: it does not */
    bool down;                 /* cluster_state:fail */
    uint64_t epoch;            /* cluster_current_epoch: grows with each new owner */
    bool cut_off[SIM_CLUSTER_NODES_MAX];                 /* from the bus; clients still reach it */
    struct sim_cluster_map *kept[SIM_CLUSTER_NODES_MAX]; /* of nodes that are cut off: their map */
    unsigned lost_per_mille; /* of published messages, on the way to another node */
    struct sim_random random;
};

/* The first `masters` of the servers share all slots evenly. */
void sim_cluster_init(struct sim_cluster *cluster, struct sim_redis *const *servers, unsigned count,
                      unsigned masters, uint64_t seed);
unsigned sim_cluster_slot(struct bytes key);
/* The slot begins to move: CLUSTER SETSLOT IMPORTING and MIGRATING. */
void sim_cluster_begin_move(struct sim_cluster *cluster, unsigned slot, unsigned to);
/* MIGRATEs one key of the slot. False: no key was left, and the move is complete. */
bool sim_cluster_move_key(struct sim_cluster *cluster, unsigned slot);
/* The replica takes over all slots of its master, which follows it from now on. */
void sim_cluster_take_over(struct sim_cluster *cluster, struct sim_redis *replica,
                           struct sim_redis *master);
/* Cuts the node off from the bus, or connects it again: then it follows the node that took its
   slots over, if one did. */
void sim_cluster_cut_off(struct sim_cluster *cluster, unsigned node, bool cut_off);

#endif
