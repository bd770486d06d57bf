/*
 * Deletes all jobs of all topics (/clearAll of the sdmq dialect): lists the topics page by page,
 * and deletes the jobs of each topic and state in slices, the next slice in the turn after an
 * answer. The request is answered when every topic was visited once; jobs that are pushed meanwhile
 * may stay. It stops if its client leaves.
 */
#ifndef LATERD_SERVER_HTTP_CLEAR_ALL_H
#define LATERD_SERVER_HTTP_CLEAR_ALL_H

#include "server/http/request.h"

/* Answers the request, in a later turn or now. */
void clear_all_begin(struct request *request);
void clear_all_free(struct clear_all *clear_all); /* at any time; NULL does nothing */

/* For turn.c, as clearings_step(). */
bool clear_alls_step(struct server *server);

#endif
