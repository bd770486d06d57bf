/* port/clock.h whose time changes only when the test sets it, or by `drift_us` with each reading.
 */
#ifndef LATERD_SIM_CLOCK_H
#define LATERD_SIM_CLOCK_H

#include "port/clock.h"

struct sim_clock {
    struct clock clock;
    int64_t now_us;
    int64_t drift_us; /* added after each reading; 0: nothing */
};

static inline int64_t sim_clock_read(struct clock *clock)
{
    struct sim_clock *sim = (struct sim_clock *)(void *)clock; /* its first member */
    return sim->now_us += sim->drift_us;
}

static inline void sim_clock_init(struct sim_clock *clock, int64_t now_us)
{
    clock->clock = (struct clock){.now_us = sim_clock_read};
    clock->now_us = now_us;
    clock->drift_us = 0;
}

#endif
