/*
 * A Redis server that takes our commands: a link, and the proof that it is a master. A node is
 * `ready` once it has said so; a replica is left again and asked later, for it may be promoted.
 */
#ifndef LATERD_REDIS_NODE_H
#define LATERD_REDIS_NODE_H

#include "redis/link.h"

struct node;

struct node_ear {
    void (*ready)(struct node_ear *ear, struct node *node); /* it may be sent commands */
    void (*lost)(struct node_ear *ear, struct node *node);  /* it may not, as node->link says why */
};

struct node {
    struct link link;
    struct link_ear link_ear;
    struct link_call role;
    struct node_ear *ear;
    bool ready;
    bool replica;                /* it said so, the last time */
    struct redis_address master; /* replica: of whom; an empty host: it did not say */
    bool said;                   /* that it is away was logged */
};

void node_init(struct node *node, const struct link_options *options, struct node_ear *ear);
void node_fini(struct node *node);

#endif
