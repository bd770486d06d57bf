/*
 * The answer to a webhook, as it comes: what is kept of it, whether its body is the one that the
 * topic calls success, and what it means for the job. Takes any number of bytes in bounded memory.
 * Pure.
 */
#ifndef LATERD_SINK_WEBHOOK_ANSWER_H
#define LATERD_SINK_WEBHOOK_ANSWER_H

#include <time.h>

#include "port/sink.h"

enum { ANSWER_HEADERS_MAX = 64 << 10 }; /* bytes, all together */

struct answer {
    const struct target_http *http; /* its rules; borrowed */
    uint64_t body_max;              /* bytes of the body that are read */
    uint64_t body_bytes;            /* of those that came */
    uint32_t header_bytes;
    bool cut;               /* the body is longer than that */
    bool flooded;           /* the headers are */
    int64_t retry_after_us; /* -1: it has none */
    /* The body without ASCII blanks at its ends, so far: */
    size_t matched;  /* bytes that are as in http->success_body */
    bool mismatched; /* and then there was another */
    struct buf kept; /* the first OUTCOME_RESPONSE_MAX bytes */
};

void answer_init(struct answer *answer, const struct target_http *http, uint64_t body_max);
void answer_fini(struct answer *answer);

/* A time as HTTP writes it, in seconds; -1: it is none. curl_getdate() is one. */
typedef time_t answer_date(const char *text, const time_t *unused);

/*
 * A line of the headers with its end; the first is the status line, which begins the answer again
 * (after "100 Continue"). False: there are too many, the exchange must end.
 */
bool answer_header(struct answer *answer, struct bytes line, answer_date *date, int64_t now_us);
/* False: it is as long as it may be, the exchange must end. */
bool answer_body(struct answer *answer, struct bytes bytes);

/*
 * What it means, once it is complete or cut. Sets kind, code, unhealthy, retry_after_us, response;
 * `reason` (OUTCOME_REASON_MAX bytes) gets the text that outcome->reason borrows.
 */
void answer_judge(const struct answer *answer, unsigned status, struct outcome *outcome,
                  char *reason);

/*
 * Retry-After: seconds, or an HTTP date. -1: it is neither. A date that has passed is 0.
 */
int64_t retry_after_read(struct bytes value, answer_date *date, int64_t now_us);

#endif
