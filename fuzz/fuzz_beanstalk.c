/*
 * The beanstalkd protocol under random bytes. The oracles: however the stream is cut, the same
 * commands and refusals come out; each step makes progress; and a command printed as a client
 * would send it is read back as it was. The first byte of the input chooses the cuts.
 */
#include <stdint.h>
#include <stdlib.h>

#include "base/check.h"
#include "proto/beanstalk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BODY_MAX = 64 }; /* small, so that the fuzzer reaches it */

static const char *const words[BEANSTALK_CMDS] = {
    [BEANSTALK_PUT] = "put ",
    [BEANSTALK_PEEK] = "peek ",
    [BEANSTALK_PEEK_READY] = "peek-ready",
    [BEANSTALK_PEEK_DELAYED] = "peek-delayed",
    [BEANSTALK_PEEK_BURIED] = "peek-buried",
    [BEANSTALK_RESERVE] = "reserve",
    [BEANSTALK_RESERVE_WITH_TIMEOUT] = "reserve-with-timeout ",
    [BEANSTALK_DELETE] = "delete ",
    [BEANSTALK_RELEASE] = "release ",
    [BEANSTALK_USE] = "use ",
    [BEANSTALK_WATCH] = "watch ",
    [BEANSTALK_IGNORE] = "ignore ",
    [BEANSTALK_BURY] = "bury ",
    [BEANSTALK_KICK] = "kick ",
    [BEANSTALK_TOUCH] = "touch ",
    [BEANSTALK_STATS] = "stats",
    [BEANSTALK_STATS_JOB] = "stats-job ",
    [BEANSTALK_STATS_TUBE] = "stats-tube ",
    [BEANSTALK_LIST_TUBES] = "list-tubes",
    [BEANSTALK_LIST_TUBE_USED] = "list-tube-used",
    [BEANSTALK_LIST_TUBES_WATCHED] = "list-tubes-watched",
    [BEANSTALK_PAUSE_TUBE] = "pause-tube ",
    [BEANSTALK_RESERVE_JOB] = "reserve-job ",
    [BEANSTALK_KICK_JOB] = "kick-job ",
    [BEANSTALK_QUIT] = "quit",
};

/* Prints a request as a client would send it. */
static void print_request(struct buf *out, const struct beanstalk_request *r)
{
    unsigned long long id = r->id;
    buf_add_str(out, words[r->cmd]);
    switch (r->cmd) {
    case BEANSTALK_PUT:
        buf_addf(out, "%u %u %u %zu\r\n", r->priority, r->delay_s, r->ttr_s, r->body.len);
        buf_add_bytes(out, r->body);
        break;
    case BEANSTALK_RESERVE_WITH_TIMEOUT: buf_addf(out, "%u", r->timeout_s); break;
    case BEANSTALK_KICK: buf_addf(out, "%u", r->bound); break;
    case BEANSTALK_PEEK:
    case BEANSTALK_DELETE:
    case BEANSTALK_TOUCH:
    case BEANSTALK_STATS_JOB:
    case BEANSTALK_RESERVE_JOB:
    case BEANSTALK_KICK_JOB: buf_addf(out, "%llu", id); break;
    case BEANSTALK_RELEASE: buf_addf(out, "%llu %u %u", id, r->priority, r->delay_s); break;
    case BEANSTALK_BURY: buf_addf(out, "%llu %u", id, r->priority); break;
    case BEANSTALK_USE:
    case BEANSTALK_WATCH:
    case BEANSTALK_IGNORE:
    case BEANSTALK_STATS_TUBE: buf_add_bytes(out, r->tube); break;
    case BEANSTALK_PAUSE_TUBE:
        buf_add_bytes(out, r->tube);
        buf_addf(out, " %u", r->delay_s);
        break;
    case BEANSTALK_PEEK_READY:
    case BEANSTALK_PEEK_DELAYED:
    case BEANSTALK_PEEK_BURIED:
    case BEANSTALK_RESERVE:
    case BEANSTALK_STATS:
    case BEANSTALK_LIST_TUBES:
    case BEANSTALK_LIST_TUBE_USED:
    case BEANSTALK_LIST_TUBES_WATCHED:
    case BEANSTALK_QUIT:
    case BEANSTALK_CMDS: break;
    }
    buf_add_str(out, "\r\n");
}

/* Feeds a piece in memory of its own, so that the sanitizer sees a step past its end. */
static void feed(struct beanstalk *beanstalk, struct bytes piece, struct buf *log)
{
    char *copy = malloc(piece.len);
    size_t at = 0;
    CHECK(copy || piece.len == 0);
    if (piece.len)
        memcpy(copy, piece.at, piece.len);
    while (at < piece.len) {
        size_t used = 0;
        enum beanstalk_progress progress =
            beanstalk_feed(beanstalk, bytes_of(copy + at, piece.len - at), &used);
        CHECK(used > 0 && used <= piece.len - at);
        at += used;
        CHECK(progress != BEANSTALK_MORE || at == piece.len);
        if (progress == BEANSTALK_READY)
            print_request(log, &beanstalk->request);
        else if (progress == BEANSTALK_BAD)
            beanstalk_say(log, beanstalk->refusal);
        if (progress != BEANSTALK_MORE) {
            CHECK(!beanstalk_midway(beanstalk));
            beanstalk_next(beanstalk);
        }
    }
    free(copy);
}

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
        feed(&beanstalk, bytes_of(in.at + at, len), &log);
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
    feed(&beanstalk, in, &log);
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
            print_request(&printed, &one.request);
            feed(&two, buf_bytes(&printed), &again);
            CHECK(bytes_eq(buf_bytes(&printed), buf_bytes(&again)));
            buf_fini(&printed);
            buf_fini(&again);
        }
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
