/*
 * Numbers that are unique without coordination (Twitter's Snowflake): 41 bits of milliseconds, 10
 * of the machine, 12 that count within the millisecond. The epoch is sdmq's, so that our numbers
 * are above those that its servers made. And the ids that sdmq makes of these numbers. Pure.
 *
 * If the clock is set back, a generator continues to count where it was. When it has used all 4096
 * numbers of a millisecond it uses those of the next one, so it may be ahead of the clock.
 */
#ifndef LATERD_PROTO_SDMQ_JOB_ID_H
#define LATERD_PROTO_SDMQ_JOB_ID_H

#include "base/bytes.h"

#define SNOWFLAKE_EPOCH_MS INT64_C(1505699432705)

enum {
    SNOWFLAKE_MACHINES = 1024, /* machine numbers: 0 … */
    SNOWFLAKE_SEQUENCES = 4096,
    SNOWFLAKE_ROOM = 20, /* bytes of a number as text */
    SDMQ_HOST_MAX = 45,  /* bytes of the server's address in an id: an IPv6 address fits */
};

struct snowflake {
    int64_t last_ms; /* since SNOWFLAKE_EPOCH_MS: of the number given out last */
    uint32_t sequence;
    uint32_t machine;
};

/* Generators with different machine numbers never make the same number; `machine` is used modulo
   SNOWFLAKE_MACHINES. */
void snowflake_init(struct snowflake *snowflake, uint32_t machine);

/* A number above all earlier ones of this generator. A time before the epoch counts as the epoch,
   one after 2087 as the last one. O(1). */
uint64_t snowflake_next(struct snowflake *snowflake, int64_t now_us);

/* An id of sdmq's form: `begin` is "topic:" or "topic:bizKey:"; appends "HOST:NUMBER" to it. */
void sdmq_id_write(struct buf *out, struct bytes begin, struct bytes host, uint64_t number);

#endif
