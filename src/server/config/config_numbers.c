/*
 * Durations and sizes as people write them, 1h30m and 64K, both ways.
 */
#include "base/rfc3339.h"
#include "server/config/config_parts.h"

bool config_time_is_bare(struct bytes text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] < '0' || text.at[i] > '9')
            return false;
    }
    return text.len > 0;
}

bool config_duration(struct bytes text, int64_t unit_us, int64_t *out_us)
{
    uint64_t number;
    int64_t us;
    if (!config_time_is_bare(text))
        return duration_read(text, out_us);
    if (!bytes_to_u64(text, &number) || number > INT64_MAX ||
        __builtin_mul_overflow((int64_t)number, unit_us, &us))
        return false;
    *out_us = us;
    return true;
}

bool config_bytes(struct bytes text, int64_t *out_bytes)
{
    static const char suffixes[] = "KMGT";
    unsigned shift = 0;
    uint64_t number;
    bool binary = text.len > 2 && text.at[text.len - 2] == 'i' && text.at[text.len - 1] == 'B';
    if (binary) /* KiB. KB is refused: it is 1000 bytes to some and 1024 to others */
        text.len -= 2;
    for (unsigned i = 0; i < 4 && text.len; i++) {
        if (text.at[text.len - 1] == suffixes[i])
            shift = 10 * (i + 1);
    }
    if (shift)
        text.len--;
    if (binary && !shift)
        return false;
    if (!bytes_to_u64(text, &number) || number > (uint64_t)INT64_MAX >> shift)
        return false;
    *out_bytes = (int64_t)(number << shift);
    return true;
}

static void add_bytes(struct buf *out, int64_t bytes)
{
    static const char suffixes[] = "KMGT";
    int i = -1;
    while (i < 3 && bytes && bytes % 1024 == 0) {
        bytes /= 1024;
        i++;
    }
    buf_add_i64(out, bytes);
    if (i >= 0)
        buf_add_char(out, suffixes[i]);
}

/* Writes a duration in the largest unit that gives a whole number, up to days. */
static void add_duration(struct buf *out, int64_t us)
{
    static const struct {
        const char *name;
        int64_t us;
    } units[] = {{"us", 1},       {"ms", 1000},      {"s", 1000000},
                 {"m", 60000000}, {"h", 3600000000}, {"d", 86400000000}};
    size_t i = sizeof(units) / sizeof(units[0]) - 1;
    while (i > 0 && us % units[i].us)
        i--;
    buf_add_i64(out, us ? us / units[i].us : 0);
    buf_add_str(out, us ? units[i].name : "s");
}

void config_add_number(struct buf *out, enum config_kind kind, int64_t number)
{
    if (kind == KIND_BYTES)
        add_bytes(out, number);
    else if (kind == KIND_SECONDS || kind == KIND_LONG_TIME)
        add_duration(out, number);
    else
        buf_add_i64(out, number);
}
