/* Requests to Redis read back, and answers of scripts made by hand: for the tests of
 * src/engine/redis/script*. */
#ifndef LATERD_TEST_REDIS_SCRIPTED_H
#define LATERD_TEST_REDIS_SCRIPTED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/codec.h"
#include "base/hash.h"
#include "engine/redis/script_parts.h"
#include "test/unit/support/assert_bytes.h"

enum { ARGS_MAX = 128, NOW_US = 1000 * 1000 };

static struct script_space space;

static inline int setup(void **state)
{
    (void)state;
    return script_space_init(&space, BYTES("laterd"), 4, "daemon-1") ? -1 : 0;
}

static inline int teardown(void **state)
{
    (void)state;
    script_space_fini(&space);
    return 0;
}

/* ---- reading requests back ---- */

struct args {
    struct bytes at[ARGS_MAX];
    uint32_t count;
};

static inline uint64_t take_count(struct bytes *in, char mark)
{
    uint64_t count;
    assert_true(in->len > 0 && in->at[0] == mark);
    const char *end = memchr(in->at, '\r', in->len);
    assert_non_null(end);
    assert_true(bytes_to_u64(bytes_of(in->at + 1, (size_t)(end - in->at) - 1), &count));
    size_t used = (size_t)(end - in->at) + 2;
    *in = bytes_of(in->at + used, in->len - used);
    return count;
}

/* All of `request` is one array of strings. */
static inline struct args args_of(const struct buf *request)
{
    struct args args = {0};
    struct bytes in = buf_bytes(request);
    args.count = (uint32_t)take_count(&in, '*');
    assert_in_range(args.count, 9, ARGS_MAX);
    for (uint32_t i = 0; i < args.count; i++) {
        uint64_t len = take_count(&in, '$');
        assert_true(in.len >= len + 2 && memcmp(in.at + len, "\r\n", 2) == 0);
        args.at[i] = bytes_of(in.at, len);
        in = bytes_of(in.at + len + 2, in.len - len - 2);
    }
    assert_int_equal(in.len, 0);
    return args;
}

/* ARGV[i] of a request with four keys. */
static inline struct bytes argv(const struct args *args, uint32_t i)
{
    assert_true(6 + i < args->count);
    return args->at[6 + i];
}

/* ---- making answers ---- */

static inline struct bytes first_part(char *room, uint8_t err, uint8_t flags, uint32_t count)
{
    memset(room, 0, SCRIPT_ANSWER_BYTES);
    put_u8(room, err);
    put_u8(room + 2, flags);
    put_u32(room + 4, count);
    put_u64(room + 24, NOW_US);
    return bytes_of(room, SCRIPT_ANSWER_BYTES);
}

struct head {
    uint8_t state;
    uint64_t seq;
    int64_t due_us;
    struct bytes body;
};

enum { HEAD_ROOM = 256 };

/* A job with a head, a long record, and its body. */
static inline struct bytes job_part(char *room, struct head head)
{
    char *at = room;
    memset(room, 0, HEAD_ROOM);
    put_u64(at, __builtin_bswap64(head.seq));
    at += 8;
    put_u8(at + JOB_HEAD_STATE, head.state);
    put_u16(at + JOB_HEAD_RESERVES, 3);
    put_u64(at + JOB_HEAD_UNTIL, head.state == JOB_RESERVED ? 77 : 0);
    put_u64(at + JOB_HEAD_LEASE, head.state == JOB_RESERVED ? 99 : 0);
    put_u32(at + JOB_HEAD_PRIORITY, 5);
    put_u64(at + JOB_HEAD_DUE, (uint64_t)head.due_us);
    at += JOB_HEAD_BYTES;
    put_u8(at + JOB_LONG_FORM, JOB_IS_RECORD | JOB_IS_LONG);
    put_u8(at + JOB_LONG_ID_LEN, 2);
    put_u8(at + JOB_LONG_TOPIC_LEN, 1);
    put_u8(at + JOB_LONG_RETRIES, 1);
    put_u8(at + JOB_LONG_TTR, 60);
    put_u8(at + JOB_LONG_CREATED, 10);
    put_u64(at + JOB_LONG_CONTENT_SUM, hash_of(head.body.at, head.body.len));
    put_u32(at + JOB_LONG_BODY_LEN, (uint32_t)head.body.len);
    at += JOB_LONG_BYTES;
    memcpy(at, "tid", 3);
    put_u64(at + 3, 1234);
    memcpy(at + 11, head.body.at, head.body.len);
    return bytes_of(room, (size_t)(at - room) + 11 + head.body.len);
}

#endif
