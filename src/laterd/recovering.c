#include "laterd/recovering.h"

#include <stdio.h>

enum {
    ESTIMATE_US = 200 * 1000, /* no estimate before this time */
    MIB_SHIFT = 20,
    SECOND_US = 1000000,
};

/* The seconds left at the pace since part_us. -1: not known yet. */
static int64_t seconds_left(const struct recovering *recovering,
                            const struct store_opening *opening, int64_t now_us)
{
    int64_t took_us = now_us - recovering->part_us;
    uint64_t done_kib = (opening->done_bytes - recovering->part.done_bytes) >> 10;
    uint64_t left_kib = (opening->all_bytes - opening->done_bytes) >> 10;
    if (took_us < ESTIMATE_US || done_kib == 0)
        return -1;
    uint64_t took_ms = (uint64_t)took_us / 1000;
    return (int64_t)(left_kib * took_ms / done_kib / 1000) + 1;
}

void recovering_note(struct recovering *recovering, const struct store_opening *opening,
                     int64_t now_us)
{
    char left[48] = "";
    if (!recovering->begun_us)
        recovering->begun_us = now_us;
    if (!recovering->part_us || recovering->part.indexes != opening->indexes) {
        recovering->part_us = now_us;
        recovering->part = *opening;
    }
    if (opening->indexes && opening->done_bytes == opening->all_bytes) {
        (void)snprintf(recovering->text, sizeof(recovering->text),
                       "recovering: all is read; checking files that are not in use");
        return;
    }
    int64_t left_s = seconds_left(recovering, opening, now_us);
    if (left_s >= 0)
        (void)snprintf(left, sizeof(left), ", about %lld s more", (long long)left_s);
    (void)snprintf(recovering->text, sizeof(recovering->text),
                   "recovering: %llu of %llu MiB of the %s are read%s",
                   (unsigned long long)(opening->done_bytes >> MIB_SHIFT),
                   (unsigned long long)(opening->all_bytes >> MIB_SHIFT),
                   opening->indexes ? "slices' indexes" : "log", left);
}
