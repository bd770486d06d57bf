/*
 * Checks that an answer is a laterd's. A proxy before it, or another server on its port, may answer
 * 200 to everything, with JSON of its own: that must not be taken for success.
 */
#ifndef LATERD_CLI_ANSWER_H
#define LATERD_CLI_ANSWER_H

#include <jansson.h>
#include <stdbool.h>

#include "base/bytes.h"

/*
 * Has `answer` what every laterd answers a call that it has done? `target`: from /v1 on, with its
 * query; of one that is not known, any object is. `answer`: NULL is 204, No Content. Pure; looks at
 * one member, and of an array at each element.
 */
bool answer_is_of_laterd(const char *method, struct bytes target, const json_t *answer);

#endif
