#include "proto/settings/rate.h"

#include "base/ascii.h"
#include "base/rfc3339.h"

#define DAY_US (INT64_C(86400) * 1000000)

bool rate_read(struct bytes text, uint32_t *out_count, int64_t *out_us)
{
    char room[40];
    uint64_t count;
    int64_t us;
    const char *slash = text.len ? memchr(text.at, '/', text.len) : NULL;
    size_t digits = slash ? (size_t)(slash - text.at) : text.len;
    struct bytes span = slash ? bytes_of(slash + 1, text.len - digits - 1) : (struct bytes){0};
    bool bare = span.len && !ascii_is_digit(span.at[0]);
    if (span.len >= sizeof(room))
        return false;
    if (bare) { /* "s" is "1s" */
        room[0] = '1';
        memcpy(room + 1, span.at, span.len);
        span = bytes_of(room, span.len + 1);
    }
    if (!bytes_to_u64(bytes_of(text.at, digits), &count) || count < 1 || count > RATE_MAX ||
        !duration_read(span, &us) || us < 1000 || us > DAY_US)
        return false;
    *out_count = (uint32_t)count;
    *out_us = us;
    return true;
}
