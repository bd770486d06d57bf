/*
 * A Redis server that takes our commands: a link, and a check that it is a master. A node is
 * `ready` once the server has confirmed that; a replica is disconnected and checked again later,
 * because it may be promoted.
 *
 * Problems are logged once when they begin, with Redis' own text, and once when they end: that the
 * server is unreachable (redis_away, redis_back), and that it keeps refusing commands with
 * temporary errors (redis_stalled, redis_resumed).
 */
#ifndef LATERD_CLIENT_REDIS_NODE_H
#define LATERD_CLIENT_REDIS_NODE_H

#include "client/redis/link.h"

struct node;

struct node_callbacks {
    void (*ready)(struct node_callbacks *callbacks,
                  struct node *node); /* it may be sent commands */
    void (*lost)(struct node_callbacks *callbacks,
                 struct node *node); /* it cannot be used, for the reason in node->link */
    /* A reply is late: see link_callbacks::slow. May be NULL. */
    void (*slow)(struct node_callbacks *callbacks, struct node *node);
};

struct node {
    struct link link;
    struct link_callbacks link_callbacks;
    struct link_call role;
    struct node_callbacks *callbacks;
    bool ready;
    int64_t since_us;            /* when it became ready, or was lost; 0: it has never been tried */
    bool replica;                /* as of the last check */
    struct redis_address master; /* replica: its master; an empty host: not known */
    bool suspect;                /* the last time it connected, but could not serve us */
    bool away_logged;            /* redis_away was logged */
    bool reason_logged;          /* … with the server's own error text */
    /* It refuses commands with temporary errors: */
    int64_t stalled_us; /* since when; 0: it does not */
    int64_t refused_us; /* when it refused last */
    int64_t worked_us;  /* when it executed a command last */
    struct timer quiet; /* stalled: armed for when that may be over, or earlier */
    bool stalled_logged;
};

/* Not connected until link_want() of its link. `options`: as of link_init(); its callbacks are not
   used, they are the node's. */
void node_init(struct node *node, const struct link_options *options,
               struct node_callbacks *callbacks);
void node_fini(struct node *node);

/* The node, which is not wanted now, is for another server from here on: forgets what it knew of
   the last one, and what was logged of it. */
void node_renew(struct node *node);

/* Disconnects and reconnects later: the server is reachable, but cannot serve us yet; `why` is a
 * clause, copied. Repeated calls are logged only once, and once when the server is ready at last.
 */
void node_suspect(struct node *node, const char *why);
/* Ends that: the server serves us. */
void node_accept(struct node *node);

/* node_refused(): it answered a call with a temporary error (`error`: its text, copied);
 * node_worked(): it executed a call. The problem is over when the error has not come for a while, a
 * shorter one if calls were executed since. */
void node_refused(struct node *node, const char *error);
void node_worked(struct node *node);

#endif
