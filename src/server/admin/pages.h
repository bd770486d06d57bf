/*
 * Pages that the server answers without a command of a client: /, /healthz, /readyz, /metrics,
 * /v1/stats, /v1/limits, /v1/cluster, /v1/journal and /v1/openapi.json.
 */
#ifndef LATERD_SERVER_ADMIN_PAGES_H
#define LATERD_SERVER_ADMIN_PAGES_H

#include "server/server.h"

/* The command that must be answered before /metrics or /v1/stats are written: statistics, with the
 * topics that the page shows. It borrows nothing. */
struct cmd page_question(const struct server *server, enum call_kind page);

/* Writes a page. `topics`: the answer to page_question(), which may be an error; NULL: the page
   needs none. */
void page_write(struct server *server, enum call_kind kind, const struct response_format *format,
                const struct reply *topics, struct buf *out);

/* A member of a JSON object behind others: a string, or null if `text` is empty. */
void page_add_text(struct buf *out, const char *name, const char *text);

/* ---- the texts of pages, for page_write(); `topics` as there ---- */

void metrics_write(struct server *server, const struct reply *topics, struct buf *out);
void stats_write(struct server *server, const struct reply *topics, struct buf *out);
void cluster_write(struct server *server, const struct reply *topics, struct buf *out);
void journal_write(struct server *server, const struct reply *topics, struct buf *out);

/* ---- single topics in /metrics, which metrics_write() leaves out: see scrape.h ---- */

#define METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* What is shown of one. */
struct metrics_topic {
    struct bytes name;
    uint64_t jobs[JOB_STATES];
    uint64_t pushed, reserved, finished;
    uint64_t oldest_ready_us; /* how long the head of the ready queue has been due */
};

struct metrics_page {
    struct metrics_page *next;
    uint32_t count;
    struct metrics_topic topics[];
};

/* Its name is borrowed. */
void metrics_topic_take(const struct server *server, const struct topic_view *topic,
                        struct metrics_topic *out_topic);
/* Any thread. `more`: there are others, which are not shown. */
void metrics_topics_write(const struct metrics_page *first, bool more, struct buf *out);

/* Metrics of the election, and of restores from the journal. */
void cluster_describe(struct server *server, struct metric_sink *sink);
void restores_describe(const struct server *server, struct metric_sink *sink);

/* The answer's statistics, valid as long as the answer; all 0 if the answer has none. */
const struct engine_stats *page_stats(const struct reply *topics);

#endif
