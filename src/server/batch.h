/*
 * A batch: one request with many commands, each with a ticket and a result of its own. It is
 * decoded and submitted in slices, as far as the session's share of the turn goes and no more than
 * some thousand of its commands are unanswered; nothing behind
 * it is read until all its commands are with the engine.
 */
#ifndef LATERD_SERVER_BATCH_H
#define LATERD_SERVER_BATCH_H

#include "server/http/request.h"

/* Begins the batch that answers the request. `items` is borrowed during the call. */
void batch_begin(struct request *request, const struct api_batch *items);
/* Nobody waits any more: cancels what is under way. */
void batch_cancel(struct batch *batch);
void batch_free(struct batch *batch); /* NULL does nothing */

/* For turn.c: goes on with unfinished batches as far as the budget goes. True: there is more. */
bool batches_step(struct server *server);

#endif
