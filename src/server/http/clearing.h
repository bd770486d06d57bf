/*
 * Deletes the jobs of a topic in all states, and may remove the topic: one command of the engine
 * after another, each of a limited size; the next one follows in the turn after an answer. The
 * request is answered when nothing is left to do. It stops if its client leaves.
 */
#ifndef LATERD_SERVER_HTTP_CLEARING_H
#define LATERD_SERVER_HTTP_CLEARING_H

#include "server/http/request.h"

/*
 * `cmd` is CLEAR_TOPIC: deletes up to `max` jobs; its `state` is ignored. Or it is REMOVE_TOPIC:
 * first removes the topic's settings, so that nothing is sent away meanwhile, then deletes all
 * jobs, then removes the topic. With `if_version`: only if the settings have that version; with
 * `if_empty`: only if there are no jobs. Answers the request, now or later.
 */
void clearing_begin(struct request *request, const struct cmd *cmd);
void clearing_free(struct clearing *clearing); /* at any time; NULL does nothing */

/*
 * For turn.c: does one more step of each clearing whose last command is answered, as far as the
 * budget goes. True: there is more to do.
 */
bool clearings_step(struct server *server);

#endif
