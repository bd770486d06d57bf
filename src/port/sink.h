/*
 * Delivers jobs for dispatch/: an HTTP client (sink/webhook), a client of a broker (sink/amqp …),
 * or a simulated receiver (sim/). A sink works on a thread of its own; all its functions and
 * callbacks are called on the loop's thread (it uses loop_verbs::post).
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
    OUTCOME_REFUSED,   /* permanently: the job is buried, whatever its schedule says */
    OUTCOME_GONE,      /* HTTP 410: the same, and the target accepts no more jobs */
    OUTCOME_UNSENT,    /* not tried, or the broker is unreachable: the attempt does not count */
    OUTCOME_KINDS
};

/* A stable word, for clients and metrics. */
static inline const char *outcome_name(enum outcome_kind kind)
{
    static const char *const names[OUTCOME_KINDS] = {
        [OUTCOME_DELIVERED] = "delivered", [OUTCOME_FAILED] = "failed",
        [OUTCOME_REFUSED] = "refused",     [OUTCOME_GONE] = "gone",
        [OUTCOME_UNSENT] = "unsent",
    };
    return names[kind];
}

enum { OUTCOME_RESPONSE_MAX = 4096, OUTCOME_REASON_MAX = 240, OUTCOME_ADDRESS_MAX = 64 };

/* Bytes are borrowed until `done` returns. */
struct outcome {
    enum outcome_kind kind;
    uint16_t code;          /* the HTTP status; 0: no answer, or not HTTP */
    bool unhealthy;         /* no connection, time-out, 429, 5xx: counts for the circuit breaker */
    bool untried;           /* not sent, or a broker refused this job: says nothing of its health */
    int64_t retry_after_us; /* the delay that the receiver asked for; -1: none */
    int64_t took_us;        /* from sending to the answer */
    /* Each up to its OUTCOME_…_MAX bytes: */
    struct bytes address;  /* that it was sent to: host:port, or the broker's name */
    struct bytes reason;   /* one clause for people, why it was not DELIVERED; else empty */
    struct bytes response; /* the beginning of the answer's body */
};

/* Labels that the job's client gave (proto/settings/job_properties.h). */
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
    struct bytes amqp; /* the AMQP properties of the message it came from, or empty: sink/amqp */
    struct bytes topic, id; /* id: as text, the client's or @number */
    struct bytes content_type, body;
    enum body_kind body_kind;
    struct bytes message_id; /* made by us, the same in each attempt, without a '.' */
    uint32_t attempt;        /* from 1 */
    int64_t due_us;
    int64_t timeout_us;      /* the attempt is FAILED after this time */
    struct queue_node place; /* the sink's, until `done` */
    void *sink_data;         /* the same */
};

struct sink {
    const struct sink_verbs *verbs;
    /* Set by the user. Called on the loop's thread when the result of ready() has changed. */
    void (*changed)(struct sink *sink);
    void *user;
};

struct sink_verbs {
    /* Begins a delivery; never refuses. The caller limits how many are in progress. */
    void (*send)(struct sink *sink, struct delivery *delivery);
    /* False: the broker is unreachable, so no jobs should be reserved for it now; *out_why, if
       out_why is not NULL, is then a clause that says why, valid until the next call. */
    bool (*ready)(const struct sink *sink, const char **out_why);
    void (*describe)(const struct sink *sink, struct metric_sink *metrics);
    /*
     * stop() makes the sink end, and returns at once. May be called once. `grace_us` later nothing
     * is sent any more, which a laterd that has lost the lead relies on. Deliveries in progress, or
     * given to send() later, are `done` as UNSENT, at the latest by close(). stopped(), after
     * stop(): true if the thread has ended, so that close() does not wait; to be called about ten
     * times a second, because it also interrupts calls in which the thread waits too long. Both are
     * NULL in a sink that sends only within send() and whose close() never waits.
     */
    void (*stop)(struct sink *sink, int64_t grace_us);
    bool (*stopped)(struct sink *sink);
    /* Ends the thread and frees the sink. Waits up to `grace_us` for deliveries that were sent
       already; the others in progress are `done` as UNSENT. */
    void (*close)(struct sink *sink, int64_t grace_us);
    /* It has no thread, and close() never waits: stopped() only says that no delivery is left,
       which takes turns of the loop. */
    bool threadless;
};

struct sink_entry {
    struct bytes name;     /* that of [broker.NAME] */
    enum target_type type; /* a target of another type cannot be sent there */
    struct sink *sink;
};

/* The sinks of the brokers in the configuration. Constant once it is made. */
struct sink_table {
    const struct sink_entry *at;
    unsigned count;
};

#endif
