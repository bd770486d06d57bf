/*
 * Lists jobs with their properties (url, key, headers, labels). Those are stored beside the bodies,
 * so an engine's answer to LIST does not have them: this submits one LIST, then a GET for each of
 * its jobs, in slices. A job that has gone meanwhile is left out; one that has changed is shown in
 * its present state.
 */
#ifndef LATERD_SERVER_HTTP_LISTING_H
#define LATERD_SERVER_HTTP_LISTING_H

#include "server/http/request.h"

/* `cmd` is a LIST. Answers the request, now or later. */
void listing_begin(struct request *request, const struct cmd *cmd);
void listing_cancel(struct listing *listing); /* cancels its commands in the engine */
void listing_free(struct listing *listing);   /* at any time; NULL does nothing */

/* For turn.c: submits more GETs, as far as the budget goes. True: there is more to do. */
bool listings_step(struct server *server);

#endif
