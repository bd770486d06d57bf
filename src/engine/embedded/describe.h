/*
 * Metrics and statistics of the embedded engine. `store` is NULL without a disk.
 */
#ifndef LATERD_ENGINE_EMBEDDED_DESCRIBE_H
#define LATERD_ENGINE_EMBEDDED_DESCRIBE_H

#include "core/core.h"
#include "port/engine.h"
#include "store/store.h"

/* See engine_verbs::describe. Constant time. */
void embedded_describe(const struct core *core, const struct store *store,
                       struct metric_sink *sink);

/*
 * Statistics over all topics at now_us. `due_within`: includes that, which visits the jobs of a
 * slot of the timing wheel for each span; else it is 0.
 */
void embedded_stats(const struct core *core, const struct store *store, int64_t now_us,
                    bool due_within, struct engine_stats *out_stats);

#endif
