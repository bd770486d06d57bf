/*
 * One delivery under way: a request, its answer and the outcome. Made and ended on the loop's
 * thread; in between it belongs to the sink's thread.
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
#include "sink/webhook/silence.h"

struct transfer;
struct webhook;

/* Counters of the thread, for describe(). */
struct webhook_counts {
    atomic_uint_fast64_t connections; /* opened */
    atomic_uint_fast64_t refused;     /* addresses that were not allowed */
    atomic_uint_fast64_t requests;
    atomic_uint_fast64_t response_bytes; /* of answers' bodies, read */
};

struct exchange {
    struct message message;    /* comes back by it */
    struct queue_node place;   /* goes there by it */
    struct list under_way;     // webhook::under_way; loop's thread only
    struct webhook *webhook;   /* valid while there is a delivery */
    struct delivery *delivery; /* NULL: it was `done` when the sink was closed */
    bool finished;             /* the thread has finished it, `outcome` is set */
    bool broken;               /* finished because the thread cannot work at all */
    struct transfer *transfer; /* the thread's, while it is on the wire, */
    struct list wire;          // worker_thread::wire
    int64_t begun_us;          /* when it was given to libcurl, of the monotonic clock */
    struct answer answer;
    struct outcome outcome;
    char address[OUTCOME_ADDRESS_MAX];
    char reason[OUTCOME_REASON_MAX];
};

/* What exchanges reuse: an easy handle (its connections belong to the multi handle), and the memory
   of a request. */
struct transfer {
    struct sender *sender;
    CURL *easy;
    CURLU *url;                          /* of url_text; NULL: none */
    struct buf url_text;                 /* that it was made of */
    char host[OUTCOME_ADDRESS_MAX];      /* of it: host:port */
    bool over_tls;                       /* of it */
    bool refused_by_rule, tried_address; /* at least one address of this exchange was */
    bool no_descriptor;                  /* the system had none left for a connection of it */
    bool to_unix, has_files;             /* this exchange has options that must not be reused */
    uint16_t port;
    struct exchange *exchange;
    struct request request;
    char error[CURL_ERROR_SIZE];
    struct transfer *next; /* idle ones */
};

/* What all exchanges of a sink share. Sink's thread only. */
struct sender {
    const struct curl_api *curl;
    const struct webhook_options *options;
    struct webhook_counts *counts;
    struct secrets secrets;
    struct silence silence;
    struct transfer *idle;
    unsigned idle_count;
    int64_t shortage_us; /* when it was logged last that no descriptor is left; 0: never */
};

/*
 * Prepares the exchange for curl_multi_add_handle(transfer->easy). False: it has ended without
 * being sent, and exchange->outcome says why.
 */
bool exchange_begin(struct sender *sender, struct exchange *exchange);
/* The transfer is out of the multi handle: sets exchange->outcome. */
void exchange_end(struct sender *sender, struct exchange *exchange, CURLcode result);
/* The same, for an exchange that is abandoned: UNSENT. */
void exchange_abandon(struct sender *sender, struct exchange *exchange, const char *why);

void exchange_free(struct exchange *exchange);
void sender_fini(struct sender *sender); /* no exchange may be under way */

#endif
