/*
 * How late jobs are handed out: hand-over minus due time, in buckets from 50 µs to 636 days.
 *
 * Bucket b counts values below lateness_bound_us(b). Up to 26 s there are two buckets for each
 * doubling (50, 70, 100, 141 µs …), above it one (52 s, 105 s …, 636 days); the last takes the
 * rest. Finding a bucket is O(1), a percentile O(buckets).
 */
#ifndef LATERD_CORE_LATENESS_H
#define LATERD_CORE_LATENESS_H

#include <stdint.h>

enum {
    LATENESS_BUCKETS = 61,
    LATENESS_WINDOWS = 3,
    LATENESS_WINDOW_US = 30 * 1000 * 1000,
};

/*
 * For percentiles, of all time and of the last minute. Each topic has one, so counters are small:
 * when one is full, all counters of its row are halved, which keeps the percentiles. The last
 * minute is the window of 30 s under way and the two before it: 60 to 90 s. All zeros is empty.
 */
struct lateness {
    int64_t window; /* number of the newest window that has counts */
    uint32_t ever[LATENESS_BUCKETS];
    uint16_t recent[LATENESS_WINDOWS][LATENESS_BUCKETS]; /* at window % LATENESS_WINDOWS */
};

/* Exact counts that only ever grow, for /metrics. */
struct lateness_histogram {
    uint64_t counts[LATENESS_BUCKETS];
    uint64_t sum_us;
};

enum lateness_span { LATENESS_ALL_TIME, LATENESS_LAST_MINUTE };

/* How late a job is that is handed out now: since its due time, or since it was pushed, if that was
   later. Not negative, though clocks may have been set back. */
int64_t lateness_us(int64_t due_us, int64_t created_us, int64_t now_us);

unsigned lateness_bucket(int64_t late_us);  /* a negative lateness counts as none */
int64_t lateness_bound_us(unsigned bucket); /* INT64_MAX for the last */

/* Counts a value of this bucket; `now_us` never goes back. */
void lateness_add(struct lateness *lateness, int64_t now_us, unsigned bucket);
void lateness_count(struct lateness_histogram *histogram, unsigned bucket, int64_t late_us);

/*
 * For each of `count` parts (per mille) the bound below which that part of the span's values lies;
 * 0 if there are none. Values of the last bucket count as the last bound that is a time, 636 days.
 */
void lateness_quantiles_us(const struct lateness *lateness, enum lateness_span span, int64_t now_us,
                           const unsigned *per_mille, int64_t *out_us, unsigned count);

#endif
