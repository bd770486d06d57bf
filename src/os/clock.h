/*
 * The machine's clocks as one: wall time carried forward by the monotonic clock (P10).
 *
 * When the system's wall clock is stepped by more than ten seconds, ours goes on as before: no wait
 * becomes shorter or longer. A smaller step is followed slowly, by a thousandth of the time that
 * passes: a wait changes by a thousandth at most, and by the step at most. A restart takes over the
 * wall clock as it is. See docs/decisions/0007-a-stepped-clock-is-approached-slowly.md.
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
    int64_t apart_us;     /* how far the wall clock was ahead of ours after that reading */
    bool stepped;         /* clock_stepped was logged, and clock_agrees not yet */
};

/* CLOCK_BOOTTIME in microseconds, for durations: it is never set, and goes on while the machine is
 * suspended. Any thread. */
int64_t os_boot_us(void);

void os_clock_init(struct os_clock *clock);

/* The rule alone, for tests: our next reading, from the readings of the system's two clocks. */
int64_t os_clock_advance(struct os_clock *clock, int64_t steady_us, int64_t wall_us);

#endif
