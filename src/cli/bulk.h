/*
 * Many jobs to one topic as NDJSON, a line each, as many in a request as the server takes. Owns the
 * lines that wait to be sent.
 */
#ifndef LATERD_CLI_BULK_H
#define LATERD_CLI_BULK_H

#include "cli/cli.h"

enum {
    BULK_LINES = 500,        /* sent at once, if limits.batch_jobs allows it */
    BULK_BYTES = 512 * 1024, /* a batch should be sent before it grows larger */
};

struct bulk {
    struct cli *cli;
    struct buf text;
    size_t ends[BULK_LINES]; /* of the lines, in text */
    unsigned count;
    /* The result of a line, by its place among those that were added since the last bulk_send. */
    void (*take)(void *ctx, unsigned line, const json_t *result);
    void *ctx;
    unsigned sent; /* lines that were answered by the last bulk_send */
};

/* Whether another line of `more_bytes` has to wait until those that are there are sent. */
bool bulk_full(struct bulk *bulk, size_t more_bytes);
/* The line's text, with its end of line, was just added to bulk->text. */
void bulk_add(struct bulk *bulk);
/* Sends all lines and forgets them. An exit code; those up to bulk->sent were done. */
int bulk_send(struct bulk *bulk, struct bytes target);
void bulk_fini(struct bulk *bulk);

#endif
