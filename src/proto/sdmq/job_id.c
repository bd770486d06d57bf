#include "proto/sdmq/job_id.h"

enum { SEQUENCE_BITS = 12, MACHINE_BITS = 10, TIME_BITS = 41 };

void snowflake_init(struct snowflake *snowflake, uint32_t machine)
{
    *snowflake = (struct snowflake){.machine = machine % SNOWFLAKE_MACHINES, .last_ms = -1};
}

uint64_t snowflake_next(struct snowflake *snowflake, int64_t now_us)
{
    const int64_t most_ms = (INT64_C(1) << TIME_BITS) - 1;
    int64_t now_ms = now_us / 1000 - SNOWFLAKE_EPOCH_MS;
    if (now_ms < 0)
        now_ms = 0;
    if (now_ms > most_ms)
        now_ms = most_ms;
    if (now_ms > snowflake->last_ms) {
        snowflake->last_ms = now_ms;
        snowflake->sequence = 0;
    } else if (++snowflake->sequence == SNOWFLAKE_SEQUENCES) {
        snowflake->last_ms++;
        snowflake->sequence = 0;
    }
    return (uint64_t)snowflake->last_ms << (SEQUENCE_BITS + MACHINE_BITS) |
           (uint64_t)snowflake->machine << SEQUENCE_BITS | snowflake->sequence;
}

void sdmq_id_write(struct buf *out, struct bytes begin, struct bytes host, uint64_t number)
{
    buf_add_bytes(out, begin);
    buf_add_bytes(out, host);
    buf_add_char(out, ':');
    buf_add_u64(out, number);
}
