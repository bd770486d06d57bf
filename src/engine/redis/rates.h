/*
 * Rates of a topic that many daemons serve, computed from its totals in Redis at this call and at
 * an earlier one, because Redis keeps no rates.
 *
 * For each topic that was shown lately two samples are kept, the newer at least ten seconds after
 * the older while calls are frequent. So a rate is of the last ten to twenty seconds, or of the
 * time since the last call if that is longer, and 0 at the first call.
 */
#ifndef LATERD_ENGINE_REDIS_RATES_H
#define LATERD_ENGINE_REDIS_RATES_H

#include "base/list.h"
#include "base/map.h"
#include "base/pool.h"
#include "core/cmd.h"

enum { RATES_TOPICS_MAX = 4096 }; /* beyond that, the one not shown for longest is dropped */

struct rates {
    struct pool topics; // struct topic_rates
    struct map by_name;
    struct list seen; // topic_rates::seen, the one not shown for longest first
};

void rates_init(struct rates *rates);
void rates_fini(struct rates *rates);
/* Sets the topic's …_10s, and keeps its totals for the next call. */
void rates_look(struct rates *rates, struct topic_view *view, int64_t now_us);

#endif
