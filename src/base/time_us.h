/* Arithmetic with times and spans in microseconds. INT64_MAX is "never". Pure; any thread; O(1). */
#ifndef LATERD_BASE_TIME_US_H
#define LATERD_BASE_TIME_US_H

#include <stdint.h>

/* The time so much later; stops at INT64_MAX. */
static inline int64_t time_add(int64_t time_us, int64_t span_us)
{
    int64_t sum;
    return __builtin_add_overflow(time_us, span_us, &sum) ? INT64_MAX : sum;
}

/* to_us - from_us, and time_us + span_us, modulo 2^64: for differences that are stored, because no
   two times overflow, and the one undoes the other. */
static inline int64_t time_span_modulo(int64_t from_us, int64_t to_us)
{
    return (int64_t)((uint64_t)to_us - (uint64_t)from_us);
}

static inline int64_t time_add_modulo(int64_t time_us, int64_t span_us)
{
    return (int64_t)((uint64_t)time_us + (uint64_t)span_us);
}

static inline int64_t time_earlier(int64_t a_us, int64_t b_us)
{
    return a_us < b_us ? a_us : b_us;
}

#endif
