/*
 * The machine's clocks as one: wall time carried forward by the monotonic clock (P10).
 *
 * When the system's wall clock is stepped by more than ten seconds, ours goes on as before: no wait
 * becomes shorter or longer. A smaller step is made up by a thousandth of the time that passes, so
 * a wait changes by that at most, and by the step at most. A restart takes over the wall clock as
 * it is. See docs/decisions/0007-a-stepped-clock-is-approached-slowly.md.
 */
#ifndef LATERD_OS_CLOCK_H
#define LATERD_OS_CLOCK_H

#include <stdbool.h>

#include "port/clock.h"

struct os_clock {
    struct clock clock;
    int64_t last_steady_us; /* the reading before this one */
    int64_t last_us;
    int64_t slew_rest_us; /* time passed that was too short for a microsecond of slew */
    int64_t apart_us;     /* how far the wall clock was ahead after that reading */
    bool stepped;         /* a step was logged, and not yet that the clocks agree again */
};

/* For durations: CLOCK_BOOTTIME in microseconds, which nobody sets, and which goes on while the
 * machine is suspended. Its zero means nothing. Any thread. */
int64_t os_boot_us(void);

void os_clock_init(struct os_clock *clock);

/* The rule alone, for tests: our clock's next reading from both of the system's. */
int64_t os_clock_advance(struct os_clock *clock, int64_t steady_us, int64_t wall_us);

#endif
