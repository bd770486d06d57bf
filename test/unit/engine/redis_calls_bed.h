/* Calls of scripts without a Redis: nothing is ever sent, and time is what the test says. */
#ifndef LATERD_TEST_REDIS_CALLS_BED_H
#define LATERD_TEST_REDIS_CALLS_BED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/redis/script_request.h"

enum { PARTITIONS = 2, TIMEOUT_US = 1000 };

struct calls_bed {
    struct script_space space;
    struct redis_url url;
    struct loop loop;         /* its time and its timers alone */
    struct topology topology; /* of no nodes */
    struct script_requests calls;
};

static inline void calls_bed_to_open(void *owner, uint32_t partition)
{
    (void)owner;
    (void)partition;
}

/* False: it is not open. The bed does not move from here on. */
static inline bool calls_bed_open(struct calls_bed *bed)
{
    *bed = (struct calls_bed){.topology.options.url = &bed->url};
    timers_init(&bed->loop.timers, 0);
    if (script_space_init(&bed->space, BYTES("laterd"), PARTITIONS, "daemon-1"))
        return false;
    script_requests_init(&bed->calls,
                         &(struct script_requests_options){.space = &bed->space,
                                                           .topology = &bed->topology,
                                                           .loop = &bed->loop,
                                                           .timeout_us = TIMEOUT_US,
                                                           .to_open = calls_bed_to_open});
    return true;
}

/* After script_requests_fini(), and whatever else has armed timers. */
static inline void calls_bed_close(struct calls_bed *bed)
{
    script_space_fini(&bed->space);
    assert_true(timers_next_us(&bed->loop.timers) == INT64_MAX); /* all are cancelled */
    timers_fini(&bed->loop.timers);
}

/* It is so late now: what is due is done. */
static inline void calls_bed_at(struct calls_bed *bed, int64_t now_us)
{
    bed->loop.now_us = now_us;
    while (loop_expire(&bed->loop, NULL))
        ;
}

#endif
