/*
 * Rates: events counted in windows of ten seconds. The shown value is that of the last complete
 * window, so it stays the same for ten seconds and is exact.
 */
#ifndef LATERD_CORE_RATE_H
#define LATERD_CORE_RATE_H

#include <stdint.h>

enum { RATE_WINDOW_US = 10 * 1000 * 1000 };

struct rate {
    int64_t window; /* number of the window that `current` counts */
    uint32_t current;
    uint32_t last; /* of the window before */
};

static inline void rate_turn(struct rate *rate, int64_t now_us)
{
    int64_t window = now_us / RATE_WINDOW_US;
    if (window == rate->window)
        return;
    rate->last = window == rate->window + 1 ? rate->current : 0;
    rate->current = 0;
    rate->window = window;
}

static inline void rate_add(struct rate *rate, int64_t now_us)
{
    rate_turn(rate, now_us);
    rate->current++;
}

/* Events in the last whole window; a tenth of it is the rate a second. */
static inline uint32_t rate_last(const struct rate *rate, int64_t now_us)
{
    struct rate copy = *rate;
    rate_turn(&copy, now_us);
    return copy.last;
}

#endif
