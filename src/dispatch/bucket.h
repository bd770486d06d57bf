/*
 * A token bucket in whole numbers: `count` tokens per `per_us`, at most `burst` of them at once. It
 * stores tokens times per_us, so that nothing is lost by rounding, however slow or fast it fills.
 * Pure; all O(1).
 */
#ifndef LATERD_DISPATCH_BUCKET_H
#define LATERD_DISPATCH_BUCKET_H

#include <stdbool.h>
#include <stdint.h>

struct bucket {
    int64_t count; /* 0: no limit */
    int64_t per_us;
    int64_t full;   /* burst * per_us */
    int64_t filled; /* tokens * per_us, up to `full` */
    int64_t at_us;  /* the time of `filled` */
};

enum { BUCKET_UNLIMITED = UINT16_MAX };

/* Full at first. A burst of 0 means `count`. Limits that would not fit into 63 bits are lowered. */
static inline void bucket_init(struct bucket *bucket, uint32_t count, int64_t per_us,
                               uint32_t burst, int64_t now_us)
{
    int64_t most = burst ? burst : count ? count : 1;
    *bucket = (struct bucket){.count = per_us > 0 ? count : 0, .per_us = per_us, .at_us = now_us};
    if (bucket->count && most > INT64_MAX / 4 / per_us)
        most = INT64_MAX / 4 / per_us;
    bucket->full = bucket->filled = bucket->count ? (most ? most : 1) * per_us : 0;
}

/* Sets its limits. It keeps its tokens if these are what they were; else it is full. */
static inline void bucket_limit(struct bucket *bucket, uint32_t count, int64_t per_us,
                                uint32_t burst, int64_t now_us)
{
    struct bucket fresh;
    bucket_init(&fresh, count, per_us, burst, now_us);
    if (bucket->count != fresh.count || bucket->full != fresh.full ||
        (fresh.count && bucket->per_us != fresh.per_us))
        *bucket = fresh;
}

static inline void bucket_fill(struct bucket *bucket, int64_t now_us)
{
    int64_t more;
    if (!bucket->count || now_us <= bucket->at_us)
        return;
    bool much = __builtin_mul_overflow(now_us - bucket->at_us, bucket->count, &more) ||
                more > bucket->full - bucket->filled;
    bucket->filled = much ? bucket->full : bucket->filled + more;
    bucket->at_us = now_us;
}

/* The tokens that there are now, at most BUCKET_UNLIMITED. */
static inline uint32_t bucket_tokens(struct bucket *bucket, int64_t now_us)
{
    if (!bucket->count)
        return BUCKET_UNLIMITED;
    bucket_fill(bucket, now_us);
    int64_t tokens = bucket->filled / bucket->per_us;
    return tokens < 0 ? 0 : tokens > BUCKET_UNLIMITED ? BUCKET_UNLIMITED : (uint32_t)tokens;
}

/* Takes one token. If there is none, `filled` becomes negative: the next tokens pay for it. */
static inline void bucket_take(struct bucket *bucket)
{
    if (bucket->count)
        bucket->filled -= bucket->per_us;
}

/* When there will be a token, if none is taken before; a past time: there is one. */
static inline int64_t bucket_next_us(const struct bucket *bucket)
{
    if (!bucket->count || bucket->filled >= bucket->per_us)
        return bucket->at_us;
    int64_t lacks = bucket->per_us - bucket->filled;
    return bucket->at_us + (lacks + bucket->count - 1) / bucket->count;
}

#endif
