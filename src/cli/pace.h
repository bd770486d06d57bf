/*
 * Estimates the remaining time of an operation by its pace in the last seconds. Its earlier pace
 * (it waited, it counted, MySQL was cold) would make the estimate leap. Pure: no clock; times are
 * the watched operation's.
 */
#ifndef LATERD_CLI_PACE_H
#define LATERD_CLI_PACE_H

#include <stdint.h>

enum {
    PACE_SAMPLES = 16,
    PACE_SPAN_MS = 20 * 1000, /* older samples do not count, unless there is no other */
};

/* Zeroed at first. */
struct pace {
    struct pace_sample {
        uint64_t done, ms;
    } samples[PACE_SAMPLES]; /* the oldest first */
    unsigned count;
};

/*
 * Adds a sample: `done` of `of` (0: not known), `ms` milliseconds after the beginning. Returns the
 * remaining seconds, rounded down; 0 if they are unknown: it is the first sample, or nothing was
 * done since the oldest sample that counts. If `done` or `ms` has decreased, the operation has
 * begun again: earlier samples are dropped. O(PACE_SAMPLES).
 */
uint64_t pace_left_s(struct pace *pace, uint64_t done, uint64_t of, uint64_t ms);

#endif
