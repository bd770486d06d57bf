/*
 * Ends jobs: several in one request (POST /v1/finish), one by one if there is one only, or if the
 * server is too old to know that call.
 */
#ifndef LATERD_CLI_FINISH_H
#define LATERD_CLI_FINISH_H

#include "cli/cli.h"

struct finish_job {
    const char *id;
    const char *lease; /* NULL: whatever its lease is */
};

/*
 * Tries each of them. Refusals are printed with their ids, and the first one is the exit code; a
 * call that failed ends it. `done` (may be NULL) gets the ids of those that are finished.
 */
int finish_jobs(struct cli *cli, const struct finish_job *jobs, size_t count,
                void (*done)(const char *id));

#endif
