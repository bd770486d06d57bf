/*
 * A batch: one request with many commands, each with a ticket and a result of its own. It is
 * decoded and submitted in slices, limited by the session's share of the turn and by a maximum of
 * unanswered commands. Nothing behind it is read until all its commands are submitted.
 */
#ifndef LATERD_SERVER_HTTP_BATCH_H
#define LATERD_SERVER_HTTP_BATCH_H

#include "server/http/request.h"

/* Begins the batch that answers the request. `items` is borrowed during the call. */
void batch_begin(struct request *request, const struct api_batch *items);
/* The client has gone: cancels the commands under way. */
void batch_cancel(struct batch *batch);
void batch_free(struct batch *batch); /* NULL does nothing */

/* For turn.c: continues unfinished batches as far as the budget goes. True: there is more to do. */
bool batches_step(struct server *server);

#endif
