/*
 * The clock that laterd reads: wall time in microseconds since 1970, anchored to the monotonic
 * clock. It never goes back, and a step of the system's clock does not move it at once (P10). The
 * loop reads it once a turn.
 */
#ifndef LATERD_PORT_CLOCK_H
#define LATERD_PORT_CLOCK_H

#include <stdint.h>

struct clock {
    int64_t (*now_us)(struct clock *clock);
    /* Processor time of the calling thread in microseconds, for metrics and budgets. A system call.
       NULL: not known. */
    int64_t (*cpu_us)(struct clock *clock);
    /* Page faults of the calling thread since its start; NULL: not known. A system call. */
    uint64_t (*page_faults)(struct clock *clock);
};

#endif
