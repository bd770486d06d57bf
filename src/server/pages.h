/*
 * What the server answers by itself, without the engine's commands: /healthz, /readyz, /metrics,
 * /v1/stats and /v1/openapi.json.
 */
#ifndef LATERD_SERVER_PAGES_H
#define LATERD_SERVER_PAGES_H

#include "server/server.h"

void page_write(struct server *server, enum call_kind kind, const struct call_style *style,
                struct buf *out);

/* The text of /metrics (Prometheus text format 0.0.4). */
void metrics_write(struct server *server, struct buf *out);

/* The JSON of /v1/stats. */
void stats_write(struct server *server, struct buf *out);

#endif
