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

/* CLOCK_MONOTONIC in microseconds, for how long something takes, and for time limits of threads
   other than the loop's: the simulator has no part in it. Any thread. */
static inline int64_t clock_monotonic_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail on Linux */
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

#endif
