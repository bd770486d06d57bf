/*
 * The body of a job as the command line gives it: the text itself, @FILE, or - for standard input.
 */
#ifndef LATERD_CLI_BODY_H
#define LATERD_CLI_BODY_H

#include "cli/cli.h"

/* Opens what `argument` names: "-" is standard input, "@x" and "x" the file x. Ends the program if
   it cannot be opened. */
FILE *body_open(const struct cli *cli, const char *argument);

/* Appends the body that `argument` is or names. Ends the program if it cannot be read, or if it is
   `is_json` and empty. */
void body_read(const struct cli *cli, const char *argument, bool is_json, struct buf *out);

/*
 * Appends an object of JSON with `fields` and the body as its kind wants it: JSON as itself, text
 * as a string, bytes as base64. False: it should be JSON and is not; *out_why is a clause.
 */
bool body_add_object(const json_t *fields, struct bytes body, bool is_json, struct buf *out,
                     const char **out_why);

/* The same of a body alone that must be right: ends the program if it is not JSON. */
void body_add_good(const struct cli *cli, const json_t *fields, struct bytes body, bool is_json,
                   struct buf *out);

/* Without the byte order mark with which some editors and shells begin a file of UTF-8. */
struct bytes body_without_mark(struct bytes start);

#endif
