/*
 * Kicks the buried jobs of a topic that match a filter: page by page, in the order of the engine's
 * list. All matches of a page are kicked together; the next page follows in the turn after the last
 * answer. The request is answered when `max` jobs were kicked or the list has ended. It stops if
 * its client leaves; jobs kicked so far stay so.
 */
#ifndef LATERD_SERVER_HTTP_REPLAY_H
#define LATERD_SERVER_HTTP_REPLAY_H

#include "server/http/request.h"

struct replay;

/* Answers the request, now or later. */
void replay_begin(struct request *request, const struct api_replay *filter);
/* Its client has left: no answer comes. */
void replay_cancel(struct replay *replay);
void replay_free(struct replay *replay); /* at any time; NULL does nothing */

/* For turn.c: continues the replays whose commands are answered, as far as the budget goes. True:
 * there is more to do. */
bool replays_step(struct server *server);

#endif
