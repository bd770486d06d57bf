/*
 * The reading half of `later import` for what `later export` wrote: topics with their settings and
 * pauses, and jobs, a line each. Lines are read one after another and become pushes whose bodies
 * are the same bytes. Memory: a line, and the open batch of import_push.
 */
#ifndef LATERD_CLI_IMPORT_NDJSON_H
#define LATERD_CLI_IMPORT_NDJSON_H

#include "cli/import/push.h"

struct import_ndjson_options {
    const char *path;   /* "-": standard input */
    const char *prefix; /* of the ids of jobs that had none of their own; NULL: the usual one */
    bool dry_run;
};

/* Counts and messages are on the standard streams then. An exit code. */
int import_ndjson(struct import_push *push, const struct import_ndjson_options *options);

#endif
