/*
 * A Redis server that takes our commands: a link, and the proof that it is a master. A node is
 * `ready` once it has said so; a replica is left again and asked later, for it may be promoted.
 *
 * What keeps it from working is logged once when it begins, with Redis' own words, and once when it
 * is over: that it is away (redis_away, redis_back), and that it answers, but "not now", and goes
 * on so (redis_stalled, redis_resumed).
 */
#ifndef LATERD_CLIENT_REDIS_NODE_H
#define LATERD_CLIENT_REDIS_NODE_H

#include "client/redis/link.h"

struct node;

struct node_callbacks {
    void (*ready)(struct node_callbacks *callbacks,
                  struct node *node); /* it may be sent commands */
    void (*lost)(struct node_callbacks *callbacks,
                 struct node *node); /* it may not, as node->link says why */
    /* An answer is late: see link_callbacks::slow. NULL: nobody minds. */
    void (*slow)(struct node_callbacks *callbacks, struct node *node);
};

struct node {
    struct link link;
    struct link_callbacks link_callbacks;
    struct link_call role;
    struct node_callbacks *callbacks;
    bool ready;
    int64_t since_us;            /* when it became ready, or was lost; 0: it has never been tried */
    bool replica;                /* it said so, the last time */
    struct redis_address master; /* replica: of whom; an empty host: it did not say */
    bool suspect;                /* it came, but was found not ready for us, the last time */
    bool said;                   /* that it is away was logged */
    bool said_words;             /* and, since, what it says itself */
    /* It answers "not now": */
    int64_t stalled_us; /* since when; 0: it does not */
    int64_t refused_us; /* when it said so last */
    int64_t worked_us;  /* when it did something last */
    struct timer quiet; /* stalled: armed for when that may be over, or earlier */
    bool said_stalled;
};

void node_init(struct node *node, const struct link_options *options,
               struct node_callbacks *callbacks);
void node_fini(struct node *node);

/* Leaves it, to come again: it is there, but cannot serve us yet; `why` is a clause, copied. Of a
 * server that is doubted again and again only the first time is logged, and that it is good at
 * last. */
void node_suspect(struct node *node, const char *why);
void node_accept(struct node *node);

/* It answered a call with an error that will pass (`error`: its text, copied), or did what it was
 * asked. The error is over when it has not come for a while, a shorter one if something was done
 * since. */
void node_refused(struct node *node, const char *error);
void node_worked(struct node *node);

#endif
