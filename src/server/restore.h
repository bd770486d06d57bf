/*
 * Restores jobs from a journal (port/restore.h): pushes what it reads, with if_exists keep, a
 * bounded number at a time. One restore of all jobs at a time; it goes on though its client leaves.
 * Also looks single jobs up there: to restore one, and to say of a delete that its job had
 * finished.
 */
#ifndef LATERD_SERVER_RESTORE_H
#define LATERD_SERVER_RESTORE_H

#include "server/http/request.h"

struct restoring;

/* Answers the request, now or when it is done. Without a journal: that there is none. */
void restore_begin(struct request *request, const struct api_restore *query);

/* Begins to bring the journal to what the queue holds; answers that it has begun, or why not. */
void resync_begin(struct request *request);

/* DELETE of the sdmq dialect: as any delete, but if the job is not there and there is a journal it
   is asked whether the job has finished, which is an error there. */
void restore_delete(struct request *request, const struct cmd *cmd);

/* The request is freed: nobody waits any more. */
void restore_forget(struct request *request);

/* For turn.c: more of the rows that have come, as far as the budget goes. True: there is more. */
bool restores_go_on(struct server *server);

void restores_free(struct server *server); /* ends those that are under way */

#endif
