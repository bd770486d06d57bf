/*
 * The pump of dispatch/ in the server: its way through the door, its stage of the turn, its end.
 * Nothing else in server/ knows when jobs are sent away.
 */
#ifndef LATERD_SERVER_PUSH_H
#define LATERD_SERVER_PUSH_H

#include "dispatch/pump.h"

struct server;

struct server_push {
    struct pump_door door;
    struct pump *pump;
    uint64_t order_changes; /* as the engine told last */
};

/* After the engine is there: reads settings, and pumps as they say. */
void push_begin(struct server *server);
/* For turn.c. True: there is more to do. */
bool push_step(struct server *server);
/* Sinks are closed already: what is left is given back. */
void push_end(struct server *server);

#endif
