/*
 * The headers of a webhook: those of Standard Webhooks, ours, CloudEvents' if the target wants
 * them, then the target's and the job's own. In two pieces of memory, which the next request of the
 * same struct uses again.
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
    struct curl_slist *list; /* REQUEST_HEADERS_MAX nodes, of which `count` hang together */
};

void request_init(struct request *request);
void request_fini(struct request *request);

/*
 * Makes the headers of one attempt at `now_s`, seconds since 1970; request->list is for
 * CURLOPT_HTTPHEADER then, until the next call. ERR_INVALID: a secret that the target is signed by
 * cannot be used.
 */
enum err request_make(struct request *request, const struct delivery *delivery, int64_t now_s,
                      struct secrets *secrets, struct secret_problem *out_problem) MUST_USE;

/* May a target or a job bring a header of this name? Not one that is ours, or that says how the
   request is framed. */
bool request_header_is_free(struct bytes name);

/* As in a URL: all but letters, digits and - . _ ~ @ : / becomes %XX. */
void request_add_encoded(struct buf *out, struct bytes text);

#endif
