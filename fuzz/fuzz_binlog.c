/*
 * The decoder of beanstalkd's binlog against any bytes: it stays in bounds, never asks for more
 * than it says it may, and a longer look at the same bytes says the same.
 */
#include <stdlib.h>

#include "base/check.h"
#include "base/mem.h"
#include "proto/beanstalk/binlog.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void decode_all(uint32_t version, struct bytes in)
{
    struct binlog_record record, again;
    while (binlog_decode(version, in, &record) == OK) {
        CHECK(record.id != 0 && record.head_len > 0 && record.head_len <= in.len);
        CHECK(record.head_len <= BINLOG_HEAD_MAX && record.tube.len <= BINLOG_NAME_MAX);
        CHECK(record.state <= BINLOG_DELAYED && record.due_us >= 0 && record.ttr_us >= 0);
        CHECK(binlog_decode(version, bytes_of(in.at, record.head_len), &again) == OK);
        CHECK(again.id == record.id && again.head_len == record.head_len);
        CHECK(binlog_decode(version, bytes_of(in.at, record.head_len - 1), &again) == ERR_AGAIN);
        size_t len = record.head_len;
        if (record.tube.len > 0)
            len += (size_t)record.body_len + BINLOG_END_BYTES;
        if (len > in.len)
            return;
        (void)binlog_body_whole(bytes_of(in.at + record.head_len, len - record.head_len));
        in = bytes_of(in.at + len, in.len - len);
    }
    CHECK(in.len < BINLOG_HEAD_MAX || binlog_decode(version, in, &record) != ERR_AGAIN);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *exact = mem_alloc(size ? size : 1); /* so that one byte too far is seen */
    uint32_t version;
    if (size)
        memcpy(exact, data, size);
    struct bytes in = bytes_of(exact, size);
    if (binlog_version(in, &version) == OK)
        decode_all(version, bytes_of(exact + BINLOG_VERSION_BYTES, size - BINLOG_VERSION_BYTES));
    mem_free(exact);
    return 0;
}
