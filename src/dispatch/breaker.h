/*
 * A circuit breaker: after a number of unhealthy answers in a row nothing is sent to a receiver for
 * a while, then one attempt (the probe), which closes the breaker or opens it for twice as long.
 *
 *     CLOSED ─failures in a row▶ OPEN ─its time is up▶ probing ─healthy▶ CLOSED
 *                                 ▲                      │
 *                                 └─unhealthy: twice─────┘
 *
 * Answers that come while it is open belong to attempts that were sent before: an unhealthy one
 * changes nothing, a healthy one closes it. Pure; all O(1).
 */
#ifndef LATERD_DISPATCH_BREAKER_H
#define LATERD_DISPATCH_BREAKER_H

#include <stdbool.h>
#include <stdint.h>

#define BREAKER_FIRST_US INT64_C(10000000)
#define BREAKER_MOST_US  INT64_C(300000000)

struct breaker {
    uint32_t failures; /* in a row */
    int64_t open_us;   /* for how long it is open this time; 0: closed */
    int64_t until_us;  /* OPEN: when a probe may be sent */
};

enum breaker_change { BREAKER_SAME, BREAKER_OPENED, BREAKER_CLOSED };

static inline bool breaker_is_open(const struct breaker *breaker)
{
    return breaker->open_us > 0;
}

/* How many more attempts may be sent now, if `in_flight` are under way and `most` may be. */
static inline uint32_t breaker_admits(const struct breaker *breaker, int64_t now_us,
                                      uint32_t in_flight, uint32_t most)
{
    if (!breaker_is_open(breaker))
        return in_flight < most ? most - in_flight : 0;
    return now_us >= breaker->until_us && in_flight == 0;
}

/* Notes an answer. `failures_max`: failures in a row that open the breaker. */
static inline enum breaker_change breaker_outcome(struct breaker *breaker, bool unhealthy,
                                                  int64_t now_us, uint32_t failures_max)
{
    bool open = breaker_is_open(breaker);
    if (!unhealthy) {
        *breaker = (struct breaker){0};
        return open ? BREAKER_CLOSED : BREAKER_SAME;
    }
    breaker->failures += breaker->failures < UINT32_MAX;
    if (open ? now_us < breaker->until_us : breaker->failures < failures_max)
        return BREAKER_SAME;
    breaker->open_us = open ? breaker->open_us * 2 : BREAKER_FIRST_US;
    if (breaker->open_us > BREAKER_MOST_US)
        breaker->open_us = BREAKER_MOST_US;
    breaker->until_us = now_us + breaker->open_us;
    return BREAKER_OPENED;
}

#endif
