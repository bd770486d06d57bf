#include "proto/beanstalk/binlog.h"

#include "base/codec.h"

enum { VERSION_OLD = 5, VERSION_NOW = 7 };

/* What differs between the versions. */
struct layout {
    size_t length_bytes; /* of the tube name's length */
    size_t job_bytes;
    int64_t unit_ns; /* of times */
};

/* Where a job's fields are; the same in both versions. */
enum {
    AT_ID = 0,
    AT_PRIORITY = 8,
    AT_DELAY = 16,
    AT_TTR = 24,
    AT_BODY = 32,
    AT_CREATED = 40,
    AT_DEADLINE = 48,
    AT_STATE = 76,
};

static const struct layout layouts[] = {
    [VERSION_OLD] = {.length_bytes = 8, .job_bytes = 77, .unit_ns = 1000},
    [VERSION_NOW] = {.length_bytes = 4, .job_bytes = 80, .unit_ns = 1},
};

enum err binlog_version(struct bytes in, uint32_t *out_version)
{
    if (in.len < BINLOG_VERSION_BYTES)
        return ERR_AGAIN;
    uint32_t version = get_u32(in.at);
    if (version == 0)
        return ERR_EMPTY;
    if (version != VERSION_OLD && version != VERSION_NOW)
        return ERR_UNSUPPORTED;
    *out_version = version;
    return OK;
}

/* What `put` and `use` let through: no space, no control character, nothing but ASCII. */
static bool name_fits(struct bytes name)
{
    for (size_t i = 0; i < name.len; i++) {
        if (name.at[i] <= ' ' || name.at[i] > '~')
            return false;
    }
    return true;
}

/* Microseconds, rounded up. False: past the year 2262, which nanoseconds cannot name. */
static bool read_time(const struct layout *layout, const char *at, int64_t *out_us)
{
    uint64_t raw = get_u64(at);
    if (raw > (uint64_t)(INT64_MAX - 1000) / (uint64_t)layout->unit_ns)
        return false;
    *out_us = (int64_t)((raw * (uint64_t)layout->unit_ns + 999) / 1000);
    return true;
}

enum err binlog_decode(uint32_t version, struct bytes in, struct binlog_record *out_record)
{
    const struct layout *layout = &layouts[version == VERSION_OLD ? VERSION_OLD : VERSION_NOW];
    if (in.len < layout->length_bytes)
        return ERR_AGAIN;
    uint64_t name_len = layout->length_bytes == 8 ? get_u64(in.at) : get_u32(in.at);
    if (name_len > BINLOG_NAME_MAX)
        return ERR_CORRUPT;
    size_t head_len = layout->length_bytes + (size_t)name_len + layout->job_bytes;
    if (in.len < head_len)
        return ERR_AGAIN;
    const char *job = in.at + layout->length_bytes + name_len;
    uint32_t body_len = get_u32(job + AT_BODY);
    uint8_t state = get_u8(job + AT_STATE);
    struct binlog_record record = {
        .id = get_u64(job + AT_ID),
        .tube = bytes_of(in.at + layout->length_bytes, (size_t)name_len),
        .state = (enum binlog_state)state,
        .priority = get_u32(job + AT_PRIORITY),
        .body_len = body_len - BINLOG_END_BYTES,
        .head_len = (uint32_t)head_len,
    };
    if (record.id == 0)
        return name_len == 0 ? ERR_EMPTY : ERR_CORRUPT;
    if (state > BINLOG_DELAYED || (name_len > 0 && state == BINLOG_GONE) ||
        !name_fits(record.tube) || body_len < BINLOG_END_BYTES || body_len > INT32_MAX)
        return ERR_CORRUPT;
    if (!read_time(layout, job + AT_TTR, &record.ttr_us) ||
        !read_time(layout, job + AT_CREATED, &record.created_us) ||
        !read_time(layout, job + AT_DEADLINE, &record.due_us))
        return ERR_CORRUPT;
    *out_record = record;
    return OK;
}

bool binlog_body_whole(struct bytes body_and_end)
{
    size_t len = body_and_end.len;
    return len >= BINLOG_END_BYTES && body_and_end.at[len - 2] == '\r' &&
           body_and_end.at[len - 1] == '\n';
}
