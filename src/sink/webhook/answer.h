/*
 * The answer to a webhook, received piece by piece: keeps its beginning, compares its body with the
 * target's success rule, and decides the outcome. Takes any number of bytes in bounded memory.
 * Pure.
 */
#ifndef LATERD_SINK_WEBHOOK_ANSWER_H
#define LATERD_SINK_WEBHOOK_ANSWER_H

#include <time.h>

#include "port/sink.h"

enum { ANSWER_HEADERS_MAX = 64 << 10 }; /* bytes, all together */

struct answer {
    const struct target_http *http; /* its rules; borrowed */
    uint64_t body_max;              /* bytes of the body that are read, at most */
    uint64_t body_bytes;            /* of those that came */
    uint32_t header_bytes;
    bool cut;               /* the body is longer than that */
    bool flooded;           /* the headers are */
    bool bodiless;          /* HTTP/1 and a status without a body (204, 304), … */
    bool stray;             /* … but its headers announce one, which may come later */
    int64_t retry_after_us; /* -1: it has none */
    /* Of the body without ASCII blanks at its ends, so far: */
    size_t matched;  /* bytes equal to those of http->success_body */
    bool mismatched; /* a byte differed */
    struct buf kept; /* the first OUTCOME_RESPONSE_MAX bytes */
};

void answer_init(struct answer *answer, const struct target_http *http, uint64_t body_max);
void answer_fini(struct answer *answer);

/* Parses an HTTP date to seconds since 1970; -1: not a date. curl_getdate() is such a function. */
typedef time_t answer_date(const char *text, const time_t *unused);

/*
 * Takes a line of the headers with its line end. A status line restarts the answer (after "100
 * Continue"). False: too many headers, the exchange must end.
 */
bool answer_header(struct answer *answer, struct bytes line, answer_date *date, int64_t now_us);
/* Takes bytes of the body. False: body_max is reached, the exchange must end. */
bool answer_body(struct answer *answer, struct bytes bytes);

/*
 * Decides the outcome, once the answer is complete or cut. Sets kind, code, unhealthy,
 * retry_after_us, response; `reason` (OUTCOME_REASON_MAX bytes) gets the text that outcome->reason
 * borrows.
 */
void answer_judge(const struct answer *answer, unsigned status, struct outcome *outcome,
                  char *reason);

/*
 * Reads Retry-After: seconds, or an HTTP date, to microseconds from now. -1: neither. A past date
 * is 0.
 */
int64_t retry_after_read(struct bytes value, answer_date *date, int64_t now_us);

#endif
