/*
 * One HTTP request that is owed an answer. A single command has its ticket here; a batch has one
 * for each command (batch.h).
 */
#ifndef LATERD_SERVER_HTTP_REQUEST_H
#define LATERD_SERVER_HTTP_REQUEST_H

#include "server/http/session.h"

struct batch;
struct decoding;
struct encoding;

struct request {
    struct ticket ticket;
    struct http_session *http;
    struct list place; // http_session::requests
    uint32_t number;   /* in server::requests */
    struct response_format format;
    bool answered;
    bool parked;               /* the engine has parked its command: nothing behind it is done */
    struct buf early;          /* the answer, while an older request is still owed one */
    struct buf handed;         // struct delivery: reservations in this answer
    struct batch *batch;       /* NULL for a single command */
    struct decoding *decoding; /* its text, if it was too long to be decoded in a turn; or NULL */
    struct encoding *encoding; /* its long answer, while the worker writes it; else NULL */
    bool undecoded;            /* the worker has its text */
    enum call_kind page;       /* which one its answer is shown in, if it is for a page */
    struct clearing *clearing; /* NULL unless it clears a topic of all its jobs */
};

struct request *request_new(struct http_session *http, const struct response_format *format);
void request_free(struct request *request);
/* Nobody waits any more: cancels its commands, gives back what it had reserved. */
void request_abandon(struct request *request);

/* Where its answer is to be written; then call request_done. */
struct buf *request_out(struct request *request);
/* Its answer is written. Frees it, and sends on what waited behind it, when its turn has come. */
void request_done(struct request *request);

/* Hands the command to the engine; the request may be answered and freed when this returns. */
void request_ask(struct request *request, const struct cmd *cmd);
/* Asks the engine for what the page shows, and answers with the page. */
void request_page(struct request *request, enum call_kind page);

/* The worker has written its answer, whose memory may be taken over. */
void request_encoded(struct request *request, struct buf *answer);

/* All commands of its batch are done: answers with their results. */
void request_answer_batch(struct request *request, struct bytes results, uint32_t failed);

/* Writes the answer to a single command, and is done with it. */
void request_answer(struct request *request, const struct reply *reply);

#endif
