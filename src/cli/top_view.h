/*
 * The text of `later top`: the server's figures and the busiest topics. Pure: the size of the
 * screen is an argument.
 */
#ifndef LATERD_CLI_TOP_VIEW_H
#define LATERD_CLI_TOP_VIEW_H

#include "cli/stats.h"

/* The busiest of the topics that were added, the busiest first. Zeroed is empty. */
struct busiest {
    json_t **topics; /* held by reference */
    size_t count, room;
};

enum { BUSIEST_MAX = 1000 };

void busiest_add(struct busiest *busiest, json_t *topic);
void busiest_clear(struct busiest *busiest);
void busiest_fini(struct busiest *busiest);

struct top_view {
    const json_t *stats;
    struct stats_sample before;
    const struct busiest *busiest;
    uint64_t seen; /* topics that were examined to find them */
};

/*
 * `columns` and `lines` are those of the screen; 0: no bound, but 20 topics. No line is longer
 * than `columns` unless the counts alone are.
 */
void top_view_add(struct buf *out, const struct top_view *view, unsigned columns, unsigned lines);

#endif
