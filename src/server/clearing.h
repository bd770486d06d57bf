/*
 * Clears a topic of its jobs in all states, and may remove it: one command of the engine after
 * another, each of a bounded size, the next one in the turn after its answer. The request is
 * answered when there is nothing left to ask. Should its client leave, it stops.
 */
#ifndef LATERD_SERVER_CLEARING_H
#define LATERD_SERVER_CLEARING_H

#include "server/http/request.h"

/*
 * `cmd` is CLEAR_TOPIC, of which `state` is not looked at: up to `max` jobs are deleted; or
 * REMOVE_TOPIC: its settings go first, so that nothing is sent away meanwhile, then all jobs, then
 * the topic; with `if_version` only if the settings have that version, with `if_empty` only if
 * there are no jobs. Answers the request, now or later.
 */
void clearing_begin(struct request *request, const struct cmd *cmd);
void clearing_free(struct clearing *clearing); /* whether it is under way or over; or NULL */

/*
 * For turn.c: does one more step of each clearing whose last command is answered, as far as the
 * budget goes. True: there is more to do.
 */
bool clearings_go_on(struct server *server);

#endif
