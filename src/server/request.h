/*
 * One HTTP request that is owed an answer. A single command has its ticket here; a batch has one
 * item for each command.
 */
#ifndef LATERD_SERVER_REQUEST_H
#define LATERD_SERVER_REQUEST_H

#include "server/http_session.h"

/* One command of a batch. */
struct batch_item {
    struct ticket ticket;
    struct request *request;
    struct batch_item *next; /* in the order sent */
    bool answered;
    bool failed;
    struct bytes result; /* JSON, in the batch's arena */
};

struct batch {
    struct arena arena; /* of the items and their results */
    struct batch_item *first;
    struct batch_item **last;
    uint32_t waiting; /* items not answered yet */
    bool decoded;     /* all items are in the list */
};

struct request {
    struct ticket ticket;
    struct http_session *http;
    struct list place; // http_session::requests
    uint32_t number;   /* in server::requests */
    struct call_style style;
    bool answered;
    struct buf early;    /* the answer, while an older request is still owed one */
    struct buf handed;   // struct handed: reservations in this answer
    struct batch *batch; /* NULL for a single command */
    enum call_kind page; /* which one its answer is shown in, if it is for a page */
};

struct request *request_new(struct http_session *http, const struct call_style *style);
void request_free(struct request *request);
/* Nobody waits any more: cancels its commands, gives back what it had reserved. */
void request_abandon(struct request *request);

/* Where its answer is to be written; then call request_done. */
struct buf *request_out(struct request *request);
/* Its answer is written. Frees it, and sends on what waited behind it, when its turn has come. */
void request_done(struct request *request);

/* Asks the engine for what the page shows, and answers with the page. */
void request_page(struct request *request, enum call_kind page);

/* Decodes and submits all commands of a batch. */
void request_batch(struct request *request, struct api_batch *items);

#endif
