/* port/clock.h that stands still until the test moves it. */
#ifndef LATERD_SIM_CLOCK_H
#define LATERD_SIM_CLOCK_H

#include "port/clock.h"

struct sim_clock {
    struct clock clock;
    int64_t now_us;
};

static inline int64_t sim_clock_read(struct clock *clock)
{
    return ((struct sim_clock *)(void *)clock)->now_us; /* its first member */
}

static inline void sim_clock_init(struct sim_clock *clock, int64_t now_us)
{
    clock->clock.now_us = sim_clock_read;
    clock->now_us = now_us;
}

#endif
