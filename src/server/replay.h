/*
 * Kicks the buried jobs of a topic that match: page after page of them, in the order of the
 * engine's list, each page's matches at once, the next page in the turn after the last answer. The
 * request is answered when `max` were kicked or the list has ended. Should its client leave, it
 * stops; what was kicked stays so.
 */
#ifndef LATERD_SERVER_REPLAY_H
#define LATERD_SERVER_REPLAY_H

#include "server/http/request.h"

struct replay;

/* Answers the request, now or later. */
void replay_begin(struct request *request, const struct api_replay *asked);
/* Its client has left: no answer comes. */
void replay_cancel(struct replay *replay);
void replay_free(struct replay *replay); /* whether it is under way or over; or NULL */

/* For turn.c: the next page of those whose last one is done, as far as the budget goes. True: there
   is more to do. */
bool replays_go_on(struct server *server);

#endif
