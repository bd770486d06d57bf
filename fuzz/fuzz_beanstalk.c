/*
 * The beanstalkd protocol under random bytes. The oracles: however the stream is cut, the same
 * commands and refusals come out; each step makes progress; and a command printed as a client
 * would send it is read back as it was. The first byte of the input chooses the cuts.
 */
#include <stdint.h>
#include <stdlib.h>

#include "test/unit/proto/beanstalk_stream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BODY_MAX = 64 }; /* small, so that the fuzzer reaches it */

/* Pieces of pseudo-random length up to `longest`; the log of what came out. */
static struct buf run(struct bytes in, size_t longest)
{
    struct beanstalk beanstalk;
    struct buf log = {0};
    uint32_t seed = (uint32_t)longest;
    beanstalk_init(&beanstalk, BODY_MAX);
    for (size_t at = 0; at < in.len;) {
        seed = seed * 1664525 + 1013904223;
        size_t len = 1 + (seed >> 16) % longest;
        if (len > in.len - at)
            len = in.len - at;
        stream_feed(&beanstalk, bytes_of(in.at + at, len), &log);
        at += len;
    }
    if (beanstalk_midway(&beanstalk))
        buf_add_str(&log, "midway");
    beanstalk_fini(&beanstalk);
    return log;
}

static struct buf run_whole(struct bytes in)
{
    struct beanstalk beanstalk;
    struct buf log = {0};
    beanstalk_init(&beanstalk, BODY_MAX);
    stream_feed(&beanstalk, in, &log);
    if (beanstalk_midway(&beanstalk))
        buf_add_str(&log, "midway");
    beanstalk_fini(&beanstalk);
    return log;
}

/* Each command that comes out alone, printed, fed and printed again, is the same. */
static void check_printing(struct bytes in)
{
    struct beanstalk one, two;
    beanstalk_init(&one, BODY_MAX);
    beanstalk_init(&two, BODY_MAX);
    for (size_t at = 0, used; at < in.len; at += used) {
        enum beanstalk_progress progress =
            beanstalk_feed(&one, bytes_of(in.at + at, in.len - at), &used);
        if (progress == BEANSTALK_READY) {
            struct buf printed = {0}, again = {0};
            stream_print(&printed, &one.request);
            stream_feed(&two, buf_bytes(&printed), &again);
            CHECK(bytes_eq(buf_bytes(&printed), buf_bytes(&again)));
            buf_fini(&printed);
            buf_fini(&again);
        }
        if (progress == BEANSTALK_HTTP)
            break;
        if (progress != BEANSTALK_MORE)
            beanstalk_next(&one);
    }
    beanstalk_fini(&one);
    beanstalk_fini(&two);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    struct bytes in = bytes_of((const char *)data + 1, size - 1);
    struct buf whole = run_whole(in);
    struct buf cut = run(in, 1u + data[0]);
    CHECK(bytes_eq(buf_bytes(&whole), buf_bytes(&cut)));
    buf_fini(&whole);
    buf_fini(&cut);
    check_printing(in);
    return 0;
}
