/*
 * later import redis: the jobs that an older delay queue server keeps in Redis, pushed over /v1.
 */
#ifndef LATERD_CLI_IMPORT_REDIS_H
#define LATERD_CLI_IMPORT_REDIS_H

#include "cli/import/push.h"
#include "cli/import/redis_layout.h"

struct import_redis_options {
    struct redis_names names;
    const char *url;
    const char *password_file; /* NULL: the URL's password, or the environment's */
    const char *prefix;        /* of new ids; NULL: ids stay what they are */
    bool dry_run;
};

/* Counts and messages are on the standard streams then. An exit code. */
int import_redis(struct import_push *push, const struct import_redis_options *options);

#endif
