/*
 * Sends jobs away for dispatch/: an HTTP client (sink/webhook), a client of a broker (sink/amqp …),
 * or a simulated receiver (sim/). A sink works on a thread of its own; all calls to it, and all its
 * callbacks, are on the loop's thread (it uses loop_verbs::post).
 */
#ifndef LATERD_PORT_SINK_H
#define LATERD_PORT_SINK_H

#include "base/queue.h"
#include "core/job.h"
#include "core/target.h"
#include "port/metric.h"

/* What became of a delivery. */
enum outcome_kind {
    OUTCOME_DELIVERED, /* the receiver has it: the job is done */
    OUTCOME_FAILED,    /* this attempt failed: the retry schedule decides */
    OUTCOME_REFUSED,   /* for good: the job is buried, whatever its schedule says */
    OUTCOME_GONE,      /* 410: the same, and the target takes nothing any more */
    OUTCOME_UNSENT,    /* it was not tried, or the broker is away: the attempt does not count */
    OUTCOME_KINDS
};

enum { OUTCOME_RESPONSE_MAX = 4096, OUTCOME_REASON_MAX = 240, OUTCOME_ADDRESS_MAX = 64 };

/* Bytes are borrowed until `done` returns. */
struct outcome {
    enum outcome_kind kind;
    uint16_t code;          /* the HTTP status; 0: none came, or not HTTP */
    bool unhealthy;         /* no connection, time-out, 429, 5xx: the receiver's circuit breaker */
    int64_t retry_after_us; /* how long the receiver asked to wait; -1: it did not */
    int64_t took_us;        /* from sending to the answer */
    /* Each up to its OUTCOME_…_MAX bytes: */
    struct bytes address;  /* that it was sent to: host:port, or the broker's name */
    struct bytes reason;   /* one clause for people, why it was not DELIVERED; else empty */
    struct bytes response; /* the beginning of the answer's body */
};

/* What its client said of the job (proto/settings/job_properties.h). */
enum delivery_label {
    DELIVERY_BIZ_KEY,
    DELIVERY_SUBTOPIC,
    DELIVERY_TAGS, /* with commas between them */
    DELIVERY_EXTEND_DATA,
    DELIVERY_LABELS
};

/*
 * A job being sent. The caller of send() fills it in, and keeps it and everything that it points to
 * until `done` is called: exactly once, never within send().
 */
struct delivery {
    void (*done)(struct delivery *delivery, const struct outcome *outcome);
    const struct target *target;
    struct bytes url;                    /* HTTP: the job's own, or the target's */
    struct bytes key;                    /* the job's: ordering, partition; may be empty */
    const struct target_header *headers; /* the job's own, besides those of its target */
    uint8_t header_count;
    struct bytes labels[DELIVERY_LABELS]; /* may be empty, each */
    struct bytes amqp;      /* the AMQP properties that it came with, or empty: see sink/amqp */
    struct bytes topic, id; /* id: as text, the client's or @number */
    struct bytes content_type, body;
    enum body_kind body_kind;
    struct bytes message_id; /* the same in each attempt, made by us, without a full stop */
    uint32_t attempt;        /* from 1 */
    int64_t due_us;
    int64_t timeout_us;      /* FAILED when it took so long */
    struct queue_node place; /* the sink's, until `done` */
    void *sink_data;         /* the same */
};

struct sink {
    const struct sink_verbs *verbs;
    /* Whoever sends sets these two. ready() has changed; from the loop's thread. */
    void (*changed)(struct sink *sink);
    void *user;
};

struct sink_verbs {
    /* Begins a delivery; never refuses. The caller limits how many are in progress. */
    void (*send)(struct sink *sink, struct delivery *delivery);
    /* Should jobs be reserved for it now? False while its broker is unreachable; then *out_why, if
       not NULL, is a clause that says why, valid until the next call. */
    bool (*ready)(const struct sink *sink, const char **out_why);
    void (*describe)(const struct sink *sink, struct metric_sink *metrics);
    /* These two may be NULL, if nothing is sent but by send() itself, and close() never waits: who
       has stopped it may be one that leads no longer. stop() tells it to end, and returns at once:
       nothing is sent any more, after `grace_us`; what is under way, or is given to send() later,
       is `done` as UNSENT, at the latest by close(). Once. stopped(), after stop(): has all of that
       ended, so that close() does not wait? To be called some ten times a second: it breaks what a
       thread waits in longer than it should. */
    void (*stop)(struct sink *sink, int64_t grace_us);
    bool (*stopped)(struct sink *sink);
    /* Ends its thread. Deliveries in progress are `done` as UNSENT; first it may wait up to
       `grace_us` for those already on the wire. */
    void (*close)(struct sink *sink, int64_t grace_us);
};

struct sink_entry {
    struct bytes name;     /* that of [broker.NAME] */
    enum target_type type; /* a target of another type cannot be sent there */
    struct sink *sink;
};

/* The sinks of the brokers that the configuration names. Does not change once it is made. */
struct sink_table {
    const struct sink_entry *at;
    unsigned count;
};

/* NULL: there is no such broker. */
static inline const struct sink_entry *sink_table_find(const struct sink_table *table,
                                                       struct bytes name)
{
    for (unsigned i = 0; i < table->count; i++) {
        if (bytes_eq(table->at[i].name, name))
            return &table->at[i];
    }
    return NULL;
}

#endif
