/*
 * A source of messages that become jobs: a queue of RabbitMQ (sink/amqp). It works on a thread of
 * its own; all of its functions and callbacks are called on the loop's thread. A message stays with
 * its broker until it is settled.
 */
#ifndef LATERD_PORT_INTAKE_H
#define LATERD_PORT_INTAKE_H

#include "base/queue.h"
#include "core/cmd.h"

enum intake_verdict {
    INTAKE_STORED,  /* it is a durable job now, or its cancellation was done */
    INTAKE_REFUSED, /* it can never become a job: the broker drops or dead-letters it */
    INTAKE_LATER,   /* not now: the broker keeps it, and nothing is taken for a while */
    INTAKE_VERDICTS
};

/* A stable word, for metrics. */
static inline const char *intake_verdict_name(enum intake_verdict verdict)
{
    static const char *const names[INTAKE_VERDICTS] = {
        [INTAKE_STORED] = "stored", [INTAKE_REFUSED] = "refused", [INTAKE_LATER] = "later"};
    return names[verdict];
}

/* Owned by the receiver from take() to settle(). Bytes are valid until settle(). */
struct intake_message {
    struct queue_node place;
    /* From 1. What was LATER in a run comes again in a later one, before all that were behind it
       and were LATER, too; those of a run come in the order in which they were published. */
    uint64_t run;
    bool cancel;              /* delete the job `id`, if there is one; nothing else matters */
    struct bytes id;          /* empty: the server makes one */
    enum if_exists if_exists; /* of a message with an id */
    int64_t delay_us;         /* counted from the push; 0: no delay */
    struct bytes content_type, body;
    struct buf *memory; /* a large body is in this buffer: as cmd_push::memory; or NULL */
    struct bytes amqp;  /* job_properties::amqp */
    /* Why it can be no job, a static text: nothing else matters but `from`, and it is to be settled
       as REFUSED. NULL: it may be one. */
    const char *refused;
    struct bytes from; /* of one that is refused: the exchange that it came through, for the log */
    void *user;        /* the receiver's */
};

struct intake {
    const struct intake_verbs *verbs;
    /* Set by the receiver. Called when take() has messages; take some and return: it is called
       again as long as there are more. */
    void (*arrived)(struct intake *intake);
    void *user;
};

struct intake_verbs {
    struct intake_message *(*take)(struct intake *intake); /* the oldest message; NULL: none */
    void (*settle)(struct intake *intake, struct intake_message *message,
                   enum intake_verdict verdict);
    /* As sink_verbs::stop and stopped, and not NULL. All messages that were taken must be settled
       before stop(); nothing may be taken afterwards. */
    void (*stop)(struct intake *intake);
    bool (*stopped)(struct intake *intake);
    /* Ends the thread and frees the intake. All messages that were taken must be settled before;
       the broker delivers again what was not settled as STORED or REFUSED. */
    void (*close)(struct intake *intake);
};

#endif
