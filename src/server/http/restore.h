/*
 * Restores jobs from a journal (port/restore.h): pushes the jobs that it reads, with if_exists
 * keep, a limited number at a time. Only one restore of all jobs runs at a time; it goes on if its
 * client leaves. Also looks up single jobs in the journal: to restore one, and to answer a delete
 * whose job had finished.
 */
#ifndef LATERD_SERVER_HTTP_RESTORE_H
#define LATERD_SERVER_HTTP_RESTORE_H

#include "server/http/request.h"

struct restoring;

/* Begins a restore. Answers the request, now or when it is done; at once if there is no journal. */
void restore_begin(struct request *request, const struct api_restore *query);

/* Begins a resync, which makes the journal match the queue; answers whether it has begun, or why
   not. */
void resync_begin(struct request *request);

/* DELETE of the sdmq dialect. If the job does not exist and there is a journal, looks up
   there whether the job has finished, which that dialect answers as an error. */
void restore_delete(struct request *request, const struct cmd *cmd);

/* The request is being freed: its result is no longer needed. */
void restore_forget(struct request *request);

/* For turn.c: pushes more of the rows that have come, as far as the budget goes. True: there is
   more to do. */
bool restores_step(struct server *server);

void restores_free(struct server *server); /* ends those that are under way */

#endif
