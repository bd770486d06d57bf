/*
 * A log-linear histogram, after Gil Tene's HdrHistogram: each power of two is cut into 128 equal
 * slots, so a value is kept to within 0.8 % whatever its size, and adding one costs a few
 * instructions. Values are microseconds here; negative ones count as 0, and those above
 * 2^HISTOGRAM_BITS (13 days) as the largest.
 */
#ifndef LATERD_CLI_BENCH_HISTOGRAM_H
#define LATERD_CLI_BENCH_HISTOGRAM_H

#include <stdint.h>

enum {
    HISTOGRAM_SUB_BITS = 7,
    HISTOGRAM_BITS = 40,
    HISTOGRAM_SLOTS = (HISTOGRAM_BITS - HISTOGRAM_SUB_BITS + 1) << HISTOGRAM_SUB_BITS,
};

/* A zeroed one is empty and valid. */
struct histogram {
    uint64_t count;
    uint64_t sum;
    uint64_t max;
    uint64_t slots[HISTOGRAM_SLOTS];
};

void histogram_add(struct histogram *histogram, int64_t value);

/* The value that `per_100k` of 100,000 do not exceed (50,000 is the median); 0 if empty. */
uint64_t histogram_quantile(const struct histogram *histogram, unsigned per_100k);

uint64_t histogram_mean(const struct histogram *histogram); /* 0 if empty */

#endif
