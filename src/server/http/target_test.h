/*
 * POST /v1/topics/{t}/test: one delivery to the topic's target now, without a job; its result is
 * the answer. If the client leaves, the delivery goes on and its result is dropped.
 */
#ifndef LATERD_SERVER_HTTP_TARGET_TEST_H
#define LATERD_SERVER_HTTP_TARGET_TEST_H

#include "server/http/request.h"

struct target_test;

/* `push` has the topic, the body and its type. Answers the request, now or later. */
void target_test_begin(struct request *request, const struct cmd_push *push);
void target_test_free(struct target_test *test); /* at any time; NULL does nothing */

#endif
