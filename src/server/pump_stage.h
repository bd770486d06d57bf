/*
 * Connects the pump of dispatch/ to the server: its commands go through the door, it has a stage of
 * the turn, and it is drained at the end.
 */
#ifndef LATERD_SERVER_PUMP_STAGE_H
#define LATERD_SERVER_PUMP_STAGE_H

#include "dispatch/pump.h"

struct server;

struct pump_stage {
    struct pump_door door;
    struct pump *pump;
    uint64_t order_changes; /* the last result of engine_verbs::order_changes */
};

/* To be called when the engine is set: reads all settings, and begins to send jobs by them. */
void pump_stage_begin(struct server *server);
/* For turn.c. True: there is more to do. */
bool pump_stage_step(struct server *server);
/* All sinks must be closed: gives back the jobs that are left. */
void pump_stage_end(struct server *server);

#endif
