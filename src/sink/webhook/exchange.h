/*
 * One delivery on its way: a request, its answer, and what became of it. Made and ended on the
 * loop's thread; between, it is the sink's thread's.
 */
#ifndef LATERD_SINK_WEBHOOK_EXCHANGE_H
#define LATERD_SINK_WEBHOOK_EXCHANGE_H

#include <stdatomic.h>

#include "base/list.h"
#include "port/loop.h"
#include "sink/webhook.h"
#include "sink/webhook/answer.h"
#include "sink/webhook/curl.h"
#include "sink/webhook/request.h"

struct transfer;
struct webhook;

/* What the thread counts, for describe(). */
struct webhook_counts {
    atomic_uint_fast64_t connections; /* opened */
    atomic_uint_fast64_t refused;     /* addresses that were not allowed */
    atomic_uint_fast64_t requests;
    atomic_uint_fast64_t response_bytes; /* of answers' bodies, read */
};

struct exchange {
    struct message message;    /* comes back by it */
    struct queue_node place;   /* goes there by it */
    struct list under_way;     // webhook::under_way; the loop's thread's
    struct webhook *webhook;   /* as long as there is a delivery */
    struct delivery *delivery; /* NULL: it was `done` when the sink was closed */
    bool finished;             /* the thread is done with it, `outcome` is set */
    bool broken;               /* because it cannot work at all */
    struct transfer *transfer; /* the thread's, while it is on the wire, */
    struct list wire;          // worker_thread::wire
    struct answer answer;
    struct outcome outcome;
    char address[OUTCOME_ADDRESS_MAX];
    char reason[OUTCOME_REASON_MAX];
};

/* What can be used again: an easy handle, whose connections are the multi handle's, and the memory
   of a request. */
struct transfer {
    const struct sender *sender;
    CURL *easy;
    CURLU *url;                          /* of url_text; NULL: none */
    struct buf url_text;                 /* that it was made of */
    char host[OUTCOME_ADDRESS_MAX];      /* of it: host:port */
    bool over_tls;                       /* of it */
    bool refused_by_rule, tried_address; /* of addresses of this exchange, some were */
    bool to_unix, has_files; /* of this exchange: options that the next one must not have */
    uint16_t port;
    struct exchange *exchange;
    struct request request;
    char error[CURL_ERROR_SIZE];
    struct transfer *next; /* idle ones */
};

/* What all exchanges of a sink share. The thread's. */
struct sender {
    const struct curl_api *curl;
    const struct webhook_options *options;
    struct webhook_counts *counts;
    struct secrets secrets;
    struct transfer *idle;
    unsigned idle_count;
};

/*
 * Makes everything ready for curl_multi_add_handle(transfer->easy). False: it was ended by
 * exchange->outcome without being sent.
 */
bool exchange_begin(struct sender *sender, struct exchange *exchange);
/* The transfer is out of the multi handle: sets exchange->outcome. */
void exchange_end(struct sender *sender, struct exchange *exchange, CURLcode result);
/* The same, for one that is given up: UNSENT. */
void exchange_abandon(struct sender *sender, struct exchange *exchange, const char *why);

void exchange_free(struct exchange *exchange);
void sender_fini(struct sender *sender); /* frees what is idle; nothing is on the wire */

#endif
