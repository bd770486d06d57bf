/*
 * What is known of commands without a queue, and the histogram of lateness. Buckets are half
 * octaves: two for each doubling, found with a bit count and one comparison.
 */
#include "core/cmd.h"

enum { FIRST_BOUND_US = 50 };

bool cmd_changes(enum cmd_kind kind)
{
    switch (kind) {
    case CMD_RESERVE:
    case CMD_RESERVE_JOB:
    case CMD_GET:
    case CMD_PEEK:
    case CMD_TOPICS:
    case CMD_TOPIC:
    case CMD_LIST: return false;
    case CMD_PUSH:
    case CMD_FINISH:
    case CMD_RELEASE:
    case CMD_TOUCH:
    case CMD_BURY:
    case CMD_KICK:
    case CMD_RUN:
    case CMD_RESCHEDULE:
    case CMD_DELETE:
    case CMD_KICK_TOPIC:
    case CMD_CLEAR_TOPIC:
    case CMD_PAUSE:
    case CMD_RESUME:
    case CMD_REMOVE_TOPIC: return true;
    }
    return true;
}

int64_t lateness_bound_us(unsigned bucket)
{
    if (bucket >= LATENESS_BUCKETS - 1)
        return INT64_MAX;
    int64_t octave_us = (int64_t)FIRST_BOUND_US << (bucket / 2);
    return bucket % 2 ? octave_us * 181 / 128 : octave_us; /* 181/128 is nearly the root of 2 */
}

void lateness_add(struct lateness *lateness, int64_t late_us)
{
    uint64_t late = late_us > 0 ? (uint64_t)late_us : 0;
    unsigned bucket = 0;
    if (late >= FIRST_BOUND_US) {
        unsigned octave = 63u - (unsigned)__builtin_clzll(late / FIRST_BOUND_US);
        bucket = 2 * octave + 1;
        if (bucket >= LATENESS_BUCKETS - 1)
            bucket = LATENESS_BUCKETS - 1;
        else if (late >= (uint64_t)lateness_bound_us(bucket))
            bucket++;
    }
    lateness->counts[bucket]++;
    if (__builtin_add_overflow(lateness->sum_us, late, &lateness->sum_us))
        lateness->sum_us = UINT64_MAX;
}

int64_t lateness_quantile_us(const struct lateness *lateness, unsigned per_mille)
{
    uint64_t all = 0;
    for (unsigned i = 0; i < LATENESS_BUCKETS; i++)
        all += lateness->counts[i];
    if (all == 0)
        return 0;
    /* How many values must lie below: rounded up, at least one. No overflow below 2^54 values. */
    uint64_t wanted = (all * per_mille + 999) / 1000;
    if (wanted == 0)
        wanted = 1;
    uint64_t below = 0;
    for (unsigned i = 0; i < LATENESS_BUCKETS; i++) {
        below += lateness->counts[i];
        if (below >= wanted)
            return lateness_bound_us(i);
    }
    return INT64_MAX;
}
