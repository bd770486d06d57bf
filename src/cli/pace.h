/*
 * How long something still takes, by the pace of its last seconds: what it did before was another
 * pace (it waited, it counted, MySQL was cold), and would make the figure leap.
 * Pure: no clock; time is that of who is watched.
 */
#ifndef LATERD_CLI_PACE_H
#define LATERD_CLI_PACE_H

#include <stdint.h>

enum {
    PACE_SAMPLES = 16,
    PACE_SPAN_MS = 20 * 1000, /* older samples do not count, but for one, if there is no other */
};

/* Zeroed at first. */
struct pace {
    struct pace_sample {
        uint64_t done, ms;
    } samples[PACE_SAMPLES]; /* the oldest first */
    unsigned count;
};

/*
 * Takes a sample: `done` of `of` (0: nobody knows), `ms` milliseconds after the beginning. Gives
 * the seconds that are left, rounded down; 0 if that cannot be said: it is the first sample, or
 * nothing was done since the oldest one that counts. What is less than before, done or time, has
 * begun again: the samples before it are forgotten. O(PACE_SAMPLES).
 */
uint64_t pace_left_s(struct pace *pace, uint64_t done, uint64_t of, uint64_t ms);

#endif
