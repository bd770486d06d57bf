/*
 * Buckets are found with a bit count and one comparison. Windows are numbered by the time; the row
 * of a window that has ended is cleared when the first value of a later window is added.
 */
#include "core/lateness.h"

#include <string.h>

enum {
    FIRST_BOUND_US = 50,
    FINE_OCTAVES = 19, /* of two buckets each, from 50 µs to 26 s; above, an octave is a bucket */
    FINE_BUCKETS = 2 * FINE_OCTAVES + 1,
};

int64_t lateness_bound_us(unsigned bucket)
{
    if (bucket >= LATENESS_BUCKETS - 1)
        return INT64_MAX;
    if (bucket >= FINE_BUCKETS)
        return (int64_t)FIRST_BOUND_US << (bucket - FINE_BUCKETS + FINE_OCTAVES + 1);
    int64_t octave_us = (int64_t)FIRST_BOUND_US << (bucket / 2);
    return bucket % 2 ? octave_us * 181 / 128
                      : octave_us; /* 181/128 is about the square root of 2 */
}

int64_t lateness_us(int64_t due_us, int64_t created_us, int64_t now_us)
{
    int64_t since_us = due_us > created_us ? due_us : created_us, late_us;
    if (__builtin_sub_overflow(now_us, since_us, &late_us))
        return INT64_MAX;
    return late_us > 0 ? late_us : 0;
}

unsigned lateness_bucket(int64_t late_us)
{
    if (late_us < FIRST_BOUND_US)
        return 0;
    unsigned octave = 63u - (unsigned)__builtin_clzll((uint64_t)late_us / FIRST_BOUND_US);
    unsigned bucket = octave < FINE_OCTAVES ? 2 * octave + 1 : octave - FINE_OCTAVES + FINE_BUCKETS;
    if (bucket >= LATENESS_BUCKETS - 1)
        return LATENESS_BUCKETS - 1;
    return bucket + (late_us >= lateness_bound_us(bucket));
}

static void count_ever(uint32_t *row, unsigned bucket)
{
    if (row[bucket] == UINT32_MAX) {
        for (unsigned i = 0; i < LATENESS_BUCKETS; i++)
            row[i] /= 2;
    }
    row[bucket]++;
}

static void count_recent(uint16_t *row, unsigned bucket)
{
    if (row[bucket] == UINT16_MAX) {
        for (unsigned i = 0; i < LATENESS_BUCKETS; i++)
            row[i] /= 2;
    }
    row[bucket]++;
}

static uint16_t *row_of(struct lateness *lateness, int64_t window)
{
    return lateness->recent[(uint64_t)window % LATENESS_WINDOWS];
}

static void turn_to(struct lateness *lateness, int64_t window)
{
    for (int ended = 0; ended < LATENESS_WINDOWS && lateness->window < window - ended; ended++)
        memset(row_of(lateness, window - ended), 0, sizeof(lateness->recent[0]));
    lateness->window = window;
}

void lateness_add(struct lateness *lateness, int64_t now_us, unsigned bucket)
{
    int64_t window = now_us / LATENESS_WINDOW_US;
    if (lateness->window < window)
        turn_to(lateness, window);
    count_recent(row_of(lateness, lateness->window), bucket);
    count_ever(lateness->ever, bucket);
}

void lateness_count(struct lateness_histogram *histogram, unsigned bucket, int64_t late_us)
{
    uint64_t late = late_us > 0 ? (uint64_t)late_us : 0;
    histogram->counts[bucket]++;
    if (__builtin_add_overflow(histogram->sum_us, late, &histogram->sum_us))
        histogram->sum_us = UINT64_MAX;
}

/* Adds up the counts of the span's windows for each bucket. Returns their total. */
static uint64_t sum_span(const struct lateness *lateness, enum lateness_span span, int64_t now_us,
                         uint64_t counts[LATENESS_BUCKETS])
{
    uint64_t all = 0;
    int64_t window = lateness->window;
    int64_t first = now_us / LATENESS_WINDOW_US - (LATENESS_WINDOWS - 1);
    for (unsigned i = 0; i < LATENESS_BUCKETS; i++)
        counts[i] = span == LATENESS_ALL_TIME ? lateness->ever[i] : 0;
    for (int row = 0; row < LATENESS_WINDOWS && span == LATENESS_LAST_MINUTE; row++, window--) {
        const uint16_t *recent = lateness->recent[(uint64_t)window % LATENESS_WINDOWS];
        for (unsigned i = 0; i < LATENESS_BUCKETS && window >= first; i++)
            counts[i] += recent[i];
    }
    for (unsigned i = 0; i < LATENESS_BUCKETS; i++)
        all += counts[i];
    return all;
}

void lateness_quantiles_us(const struct lateness *lateness, enum lateness_span span, int64_t now_us,
                           const unsigned *per_mille, int64_t *out_us, unsigned count)
{
    uint64_t counts[LATENESS_BUCKETS];
    uint64_t all = sum_span(lateness, span, now_us, counts);
    for (unsigned i = 0; i < count; i++) {
        /* How many values must be at or below the quantile: rounded up, at least one. */
        uint64_t wanted = (all * per_mille[i] + 999) / 1000, below = counts[0];
        unsigned bucket = 0;
        while (below < (wanted ? wanted : 1) && bucket < LATENESS_BUCKETS - 2)
            below += counts[++bucket];
        out_us[i] = all ? lateness_bound_us(bucket) : 0;
    }
}
