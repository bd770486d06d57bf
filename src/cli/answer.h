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
 * Has `answer` the members that every laterd returns for this call? `target`: from /v1 on, with its
 * query; for an unknown one, any object is accepted. `answer`: NULL is 204, No Content. Pure;
 * checks one member, and of an array each element.
 */
bool answer_is_of_laterd(const char *method, struct bytes target, const json_t *answer);

#endif
