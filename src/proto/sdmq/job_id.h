/*
 * Numbers that are unique without asking anybody (Twitter's Snowflake): 41 bits of milliseconds, 10
 * of the machine, 12 that count within the millisecond; the beginning of time is sdmq's, so that
 * ours are above those that its servers made. And the ids that sdmq makes of them. Pure.
 *
 * The clock may be set back: a generator never goes back, it goes on counting where it was. One
 * that has given out all numbers of a millisecond takes those of the next one; so it may be ahead
 * of the clock, by as much as more than 4096 numbers a millisecond were asked for.
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

/* Two generators with different machines never give out the same number; `machine` is taken modulo
   SNOWFLAKE_MACHINES. */
void snowflake_init(struct snowflake *snowflake, uint32_t machine);

/* A number above all that it gave out before. Times before the epoch, and beyond 2087, are the
   first and the last one. O(1). */
uint64_t snowflake_next(struct snowflake *snowflake, int64_t now_us);

/* An id of sdmq's form: `begin` is "topic:" or "topic:bizKey:"; appends "HOST:NUMBER" to it. */
void sdmq_id_write(struct buf *out, struct bytes begin, struct bytes host, uint64_t number);

#endif
