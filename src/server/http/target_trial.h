/*
 * POST /v1/topics/{t}/test: one delivery to the topic's target now, without a job; its result is
 * the answer. If the client leaves, the delivery goes on and its result is dropped.
 */
#ifndef LATERD_SERVER_HTTP_TARGET_TRIAL_H
#define LATERD_SERVER_HTTP_TARGET_TRIAL_H

#include "server/http/request.h"

struct target_trial;

/* `push` has the topic, the body and its type. Answers the request, now or later. */
void target_trial_begin(struct request *request, const struct cmd_push *push);
void target_trial_free(struct target_trial *trial); /* at any time; NULL does nothing */

#endif
