#include "cli/pace.h"

#include <stdbool.h>
#include <string.h>

static void drop_oldest(struct pace *pace)
{
    pace->count--;
    memmove(pace->samples, pace->samples + 1, pace->count * sizeof(pace->samples[0]));
}

static void add_sample(struct pace *pace, uint64_t done, uint64_t ms)
{
    const struct pace_sample *last = pace->count ? &pace->samples[pace->count - 1] : NULL;
    bool begins = pace->count == 1 && done == last->done; /* nothing was done yet */
    if (last && (done < last->done || ms < last->ms || begins))
        pace->count = 0;
    if (pace->count == PACE_SAMPLES)
        drop_oldest(pace);
    pace->samples[pace->count++] = (struct pace_sample){.done = done, .ms = ms};
    while (pace->count > 2 && ms - pace->samples[0].ms > PACE_SPAN_MS)
        drop_oldest(pace);
}

uint64_t pace_left_s(struct pace *pace, uint64_t done, uint64_t of, uint64_t ms)
{
    add_sample(pace, done, ms);
    uint64_t did = done - pace->samples[0].done, took_ms = ms - pace->samples[0].ms;
    if (!did || of <= done)
        return 0;
    double left_s = (double)(of - done) * (double)took_ms / (double)did / 1000;
    return left_s < 1e15 ? (uint64_t)left_s : 0;
}
