/*
 * The clock that laterd reads: wall time in microseconds since 1970, anchored to the monotonic
 * clock. It never goes back, and a step of the system's clock does not move it at once (P10). The
 * loop reads it once a turn.
 */
#ifndef LATERD_PORT_CLOCK_H
#define LATERD_PORT_CLOCK_H

#include <stdint.h>
#include <time.h>

struct clock {
    int64_t (*now_us)(struct clock *clock);
    /* Processor time of the calling thread in microseconds, for metrics and budgets. A system call.
       NULL: not known. */
    int64_t (*cpu_us)(struct clock *clock);
    /* Page faults of the calling thread since its start; NULL: not known. A system call. */
    uint64_t (*page_faults)(struct clock *clock);
};

/* ---- the system's own clocks, where there is no loop: the simulator has no part in them ---- */

/* This clock in microseconds: one that every Linux has, so that reading it cannot fail. Any thread,
   and signal handlers. */
static inline int64_t clock_read_us(clockid_t id)
{
    struct timespec now;
    (void)clock_gettime(id, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* For how long something takes, and for time limits: never set. */
static inline int64_t clock_monotonic_us(void)
{
    return clock_read_us(CLOCK_MONOTONIC);
}

/* Since 1970, as the system's wall clock has it, which may be set at any time. */
static inline int64_t clock_wall_us(void)
{
    return clock_read_us(CLOCK_REALTIME);
}

#endif
