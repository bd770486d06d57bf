#include "cli/bench/histogram.h"

enum { SUB = 1 << HISTOGRAM_SUB_BITS };

/* How many low bits of a value its slot forgets. */
static unsigned shift_of(uint64_t value)
{
    unsigned top = 63u - (unsigned)__builtin_clzll(value | 1);
    return top > HISTOGRAM_SUB_BITS ? top - HISTOGRAM_SUB_BITS : 0;
}

void histogram_add(struct histogram *histogram, int64_t value)
{
    const uint64_t largest = (UINT64_C(1) << HISTOGRAM_BITS) - 1;
    uint64_t kept = value < 0 ? 0 : (uint64_t)value;
    if (kept > largest)
        kept = largest;
    unsigned shift = shift_of(kept);
    histogram->slots[shift * SUB + (kept >> shift)]++;
    histogram->count++;
    histogram->sum += kept;
    if (kept > histogram->max)
        histogram->max = kept;
}

/* The largest value that falls into a slot. */
static uint64_t slot_top(unsigned slot)
{
    if (slot < 2 * SUB)
        return slot;
    unsigned shift = slot / SUB - 1;
    uint64_t head = slot - shift * SUB;
    return ((head + 1) << shift) - 1;
}

uint64_t histogram_quantile(const struct histogram *histogram, unsigned per_100k)
{
    if (histogram->count == 0)
        return 0;
    /* Rounded up: of three values the median is the second, and the 100 % is always the last. */
    uint64_t wanted = (histogram->count * per_100k + 99999) / 100000;
    uint64_t seen = 0;
    for (unsigned slot = 0; slot < HISTOGRAM_SLOTS; slot++) {
        seen += histogram->slots[slot];
        if (seen >= wanted && seen > 0) {
            uint64_t top = slot_top(slot);
            return top < histogram->max ? top : histogram->max;
        }
    }
    return histogram->max;
}

uint64_t histogram_mean(const struct histogram *histogram)
{
    return histogram->count ? histogram->sum / histogram->count : 0;
}
