/*
 * JSON of users, kept as it was written. jansson would change it: numbers beyond 64 bits are an
 * error, 1.10 becomes 1.1000000000000001, and of two members with one name the last stays. Pure.
 */
#ifndef LATERD_CLI_RAW_JSON_H
#define LATERD_CLI_RAW_JSON_H

#include <jansson.h>

#include "base/bytes.h"

/* Is all of the text one value? False: *out_why, a clause. O(length) */
bool raw_json_check(struct bytes text, const char **out_why);

/* Appends {…} on a line, with the members of `fields` and, last, `key` with that text, which is
   JSON, for its value; white space between its tokens is left out. O(length) */
void raw_json_add_object(struct buf *out, const json_t *fields, const char *key, struct bytes text);

/* Appends a value of JSON on a line: the ends of lines between its tokens become blanks. O(length)
 */
void raw_json_add_line(struct buf *out, struct bytes text);

/*
 * Appends the line, an object, with the members of `fields` that it has not. False: it is no
 * object, and nothing was appended. O(length)
 */
bool raw_json_merge(struct buf *out, struct bytes line, const json_t *fields);

/*
 * Appends an answer of /v1 for jansson: in it each body of a job that is not a string is replaced
 * by the string "body_json", in the answer itself, if it is a job, and in its "jobs". An answer
 * that is not JSON is appended unchanged. O(length)
 */
void raw_json_pack_bodies(struct buf *out, struct bytes answer);

#endif
