/*
 * Answers /metrics, if it shows topics one by one (server.metrics_topics): asks for them a page in
 * a turn, keeps what is shown of them, and has a long text written by the worker. All values of one
 * topic are of the same moment; those of other topics may be a few turns older or newer.
 */
#ifndef LATERD_SERVER_HTTP_SCRAPE_H
#define LATERD_SERVER_HTTP_SCRAPE_H

#include "server/http/request.h"

/* Answers the request, now or later. */
void scrape_begin(struct request *request);
void scrape_free(struct scrape *scrape); /* at any time; NULL does nothing */

/* For turn.c: asks for more topics, as far as the budget goes. True: there is more to do. */
bool scrapes_step(struct server *server);

#endif
