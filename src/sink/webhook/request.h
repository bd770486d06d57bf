/*
 * The headers of a webhook: those of Standard Webhooks, laterd's, CloudEvents' if the target has
 * them enabled, then the target's and the job's own. The memory is reused by the next request.
 */
#ifndef LATERD_SINK_WEBHOOK_REQUEST_H
#define LATERD_SINK_WEBHOOK_REQUEST_H

#include "port/sink.h"
#include "sink/webhook/secrets.h"

struct curl_slist;

enum {
    REQUEST_OWN_HEADERS = 32,
    REQUEST_HEADERS_MAX = REQUEST_OWN_HEADERS + 2 * TARGET_HEADERS_MAX
};

struct request {
    struct buf text;                    /* "name: value" and a NUL, each */
    size_t starts[REQUEST_HEADERS_MAX]; /* of each, in `text` */
    unsigned count;
    struct curl_slist *list; /* REQUEST_HEADERS_MAX nodes, of which `count` are linked */
};

void request_init(struct request *request);
void request_fini(struct request *request);

/*
 * Makes the headers of one attempt at `now_s`, seconds since 1970; request->list, valid until the
 * next call, is for CURLOPT_HTTPHEADER. ERR_INVALID: a secret of the target cannot be used to sign.
 */
enum err request_make(struct request *request, const struct delivery *delivery, int64_t now_s,
                      struct secrets *secrets, struct secret_problem *out_problem) MUST_USE;

#endif
