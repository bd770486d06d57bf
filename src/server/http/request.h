/*
 * One HTTP request that is pending. A single command has its ticket in `pending`; a batch has one
 * for each command (batch.h).
 */
#ifndef LATERD_SERVER_HTTP_REQUEST_H
#define LATERD_SERVER_HTTP_REQUEST_H

#include "server/http/session.h"

struct batch;
struct clear_all;
struct decoding;
struct encode_source;
struct encoding;
struct listing;
struct replay;
struct restoring;
struct scrape;
struct target_trial;

/* What a request has that is not one command, done in a turn: LONG_NONE, or one of the others. */
enum long_kind {
    LONG_NONE,
    LONG_BATCH,
    LONG_CLEARING,  /* of a topic of all its jobs */
    LONG_REPLAY,    /* kicks the buried jobs of a topic that match */
    LONG_LISTING,   /* of jobs with their properties */
    LONG_CLEAR_ALL, /* deletes all jobs */
    LONG_RESTORE,   /* waits for the journal */
    LONG_TRIAL,     /* tries a target */
    LONG_SCRAPE,    /* /metrics with single topics */
};

struct long_command {
    enum long_kind kind;
    union { /* owned, but for `restoring` */
        struct batch *batch;
        struct clearing *clearing;
        struct replay *replay;
        struct listing *listing;
        struct clear_all *clear_all;
        struct restoring *restoring; /* the server's */
        struct target_trial *trial;
        struct scrape *scrape;
    };
};

struct request {
    struct pending pending; /* in http_session::pipeline */
    struct http_session *http;
    uint32_t number; /* in server::requests */
    struct response_format format;
    struct buf deliveries;     // struct unsent_job: reservations in this answer
    struct decoding *decoding; /* its text, if it was too long to be decoded in a turn; or NULL */
    struct encoding *encoding; /* its long answer, while the worker writes it; else NULL */
    uint32_t topics;           /* of a reserve: it waits for them while it is parked */
    enum call_kind page;       /* which one its answer is shown in, if it is for a page */
    struct long_command more;
};

/* The request whose first member that is. */
static inline struct request *request_of(struct pending *pending)
{
    return (struct request *)pending;
}

struct request *request_new(struct http_session *http, const struct response_format *format);

/* For pipeline_kind: */
void request_delivered(struct pending *pending);
void request_abandon(struct pending *pending);
void request_free(struct pending *pending);

/*
 * Writes an answer: request_begin(), then the bytes, then request_done(), which counts the status,
 * frees the request, and sends the answer when it is its turn.
 */
struct pipeline_text request_begin(struct request *request);
void request_done(struct request *request, struct pipeline_text text);
/* The same for an answer whose status is counted already, by page_write(). */
void request_done_uncounted(struct request *request, struct pipeline_text text);

/* Answers with a problem. */
void request_refuse(struct request *request, const struct problem *problem);

/* Submits the command that the page needs, and answers with the page. */
void request_page(struct request *request, enum call_kind page);

/* The worker has written its answer, whose memory may be taken over. */
void request_encoded(struct request *request, struct buf *answer);

/*
 * Answers with what `source` writes, and frees the request's batch, listing or scrape. An answer of
 * more than `long_bytes` is written by the worker, if the server has one: `arena`, which has the
 * bytes that the source uses, is taken over. `source` is borrowed for the call.
 */
void request_answer_source(struct request *request, const struct encode_source *source,
                           struct arena *arena, size_t long_bytes);

/* Writes the answer to a single command, and is done with it. */
void request_answer(struct request *request, const struct reply *reply);

#endif
