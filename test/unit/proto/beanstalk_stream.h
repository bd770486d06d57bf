/* A stream of beanstalkd's protocol as the unit test and the fuzzer feed it, and a log of it. */
#ifndef LATERD_TEST_BEANSTALK_STREAM_H
#define LATERD_TEST_BEANSTALK_STREAM_H

#include <stdlib.h>

#include "base/check.h"
#include "proto/beanstalk/beanstalk.h"

/* Prints a request as a client would send it. */
static inline void stream_print(struct buf *out, const struct beanstalk_request *request)
{
    const struct beanstalk_request *r = request;
    unsigned long long id = r->id;
    buf_add_str(out, beanstalk_cmd_name(r->cmd));
    switch (r->cmd) {
    case BEANSTALK_PUT:
        buf_addf(out, " %u %u %u %zu\r\n", r->priority, r->delay_s, r->ttr_s, r->body.len);
        buf_add_bytes(out, r->body);
        break;
    case BEANSTALK_RESERVE_WITH_TIMEOUT: buf_addf(out, " %u", r->timeout_s); break;
    case BEANSTALK_KICK: buf_addf(out, " %u", r->bound); break;
    case BEANSTALK_PEEK:
    case BEANSTALK_DELETE:
    case BEANSTALK_TOUCH:
    case BEANSTALK_STATS_JOB:
    case BEANSTALK_RESERVE_JOB:
    case BEANSTALK_KICK_JOB: buf_addf(out, " %llu", id); break;
    case BEANSTALK_RELEASE: buf_addf(out, " %llu %u %u", id, r->priority, r->delay_s); break;
    case BEANSTALK_BURY: buf_addf(out, " %llu %u", id, r->priority); break;
    case BEANSTALK_USE:
    case BEANSTALK_WATCH:
    case BEANSTALK_IGNORE:
    case BEANSTALK_STATS_TUBE:
    case BEANSTALK_PAUSE_TUBE:
        buf_add_char(out, ' ');
        buf_add_bytes(out, r->tube);
        if (r->cmd == BEANSTALK_PAUSE_TUBE)
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

/*
 * Feeds a piece from memory of its own, so that a sanitizer sees a step past its end, and logs what
 * came out. CHECKs that each step makes progress and that nothing is left half read.
 */
static inline void stream_feed(struct beanstalk *beanstalk, struct bytes piece, struct buf *log)
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
            stream_print(log, &beanstalk->request);
        else if (progress == BEANSTALK_BAD)
            beanstalk_encode(log, beanstalk->refusal);
        if (progress == BEANSTALK_HTTP) {
            buf_add_str(log, "HTTP\r\n");
            beanstalk_fini(beanstalk); /* what follows is a new connection's */
            beanstalk_init(beanstalk, beanstalk->body_max);
            continue;
        }
        if (progress != BEANSTALK_MORE) {
            CHECK(!beanstalk_midway(beanstalk));
            beanstalk_next(beanstalk);
        }
    }
    free(copy);
}

#endif
