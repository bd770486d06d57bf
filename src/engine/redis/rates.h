/*
 * How often something happens in a topic, where many daemons serve it: seen from the totals at
 * this look and at an earlier one, for nobody counts by the clock in Redis.
 *
 * Of each topic that was looked at lately two samples are kept, the newer at least ten seconds
 * after the older while looks are frequent. So a figure is of the last ten to twenty seconds, of
 * the time since the last look if that is longer, and 0 at the first look.
 */
#ifndef LATERD_ENGINE_REDIS_RATES_H
#define LATERD_ENGINE_REDIS_RATES_H

#include "base/list.h"
#include "base/map.h"
#include "base/pool.h"
#include "core/cmd.h"

enum { RATES_TOPICS_MAX = 4096 }; /* the one not looked at for longest is forgotten */

struct rates {
    struct pool topics; // struct topic_rates
    struct map by_name;
    struct list seen; // topic_rates::seen, the longest ago first
};

void rates_init(struct rates *rates);
void rates_fini(struct rates *rates);
/* Fills in the topic's …_10s, and keeps its totals for the next look. */
void rates_look(struct rates *rates, struct topic_view *view, int64_t now_us);

#endif
