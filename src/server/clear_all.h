/*
 * Deletes all jobs of all topics (/clearAll of the sdmq dialect): page after page of topics, and in
 * each one slice after another of the jobs of each state, the next one in the turn after the answer
 * to the last. The request is answered when all has been gone through once: what is pushed
 * meanwhile may stay. Should its client leave, it stops.
 */
#ifndef LATERD_SERVER_CLEAR_ALL_H
#define LATERD_SERVER_CLEAR_ALL_H

#include "server/http/request.h"

void clear_all_begin(struct request *request);
void clear_all_free(struct clear_all *clear_all); /* whether it is under way or over; or NULL */

/* For turn.c, as clearings_go_on(). */
bool clear_alls_go_on(struct server *server);

#endif
