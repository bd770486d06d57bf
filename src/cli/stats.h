/*
 * The whole server's figures (GET /v1/stats) as text, for later stats and later top. Pure.
 */
#ifndef LATERD_CLI_STATS_H
#define LATERD_CLI_STATS_H

#include "cli/cli.h"

enum { STATS_TOTALS = 8 };

/* Totals of the previous call, for rates. Zeroed: there was none. */
struct stats_sample {
    uint64_t totals[STATS_TOTALS];
    int64_t at_ms;
    bool valid;
};

/* `columns` is how wide the lines may be; 0: as they like. A narrow terminal gets shorter counts.
 */
void stats_add(struct buf *out, const json_t *stats, const struct stats_sample *before,
               unsigned columns);
/* Keeps the totals and the server's time for the rates of the next call. */
void stats_remember(struct stats_sample *look, const json_t *stats);

#endif
