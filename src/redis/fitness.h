/*
 * Is a server fit to hold a queue? Asked of each one that comes, by what it says of itself: its
 * version, whether it may drop keys, whether it is part of a cluster and that is whole.
 *
 * Before the first server was found fit, one that is not ends the start (`unfit`, `trouble`); later
 * it is logged, and the engine goes on as well as it can.
 */
#ifndef LATERD_REDIS_FITNESS_H
#define LATERD_REDIS_FITNESS_H

#include "redis/node.h"

struct fitness_options {
    const struct redis_url *url;
    void (*fit)(void *owner); /* a server was found fit */
    void *owner;
};

struct fitness {
    struct fitness_options options;
    bool fit;       /* some server was found fit */
    enum err unfit; /* else why not, and `trouble` says it in words */
    struct redis_trouble trouble;
};

void fitness_init(struct fitness *fitness, const struct fitness_options *options);

/* The server takes commands from now on. What is asked is told, at the latest, when it is gone. */
void fitness_ask(struct fitness *fitness, struct node *node);
/* The queue itself is not as ours is. Logged; the first reason stays. */
void fitness_refuse_queue(struct fitness *fitness, const char *prefix, uint32_t stored,
                          uint32_t wanted);

#endif
