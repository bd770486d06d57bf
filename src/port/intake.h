/*
 * What brings messages from elsewhere that are to be jobs: a queue of RabbitMQ (sink/amqp). It
 * works on a thread of its own; all calls of it, and all calls that it makes, are on the loop's
 * thread. A message stays with its broker until it is settled.
 */
#ifndef LATERD_PORT_INTAKE_H
#define LATERD_PORT_INTAKE_H

#include "base/queue.h"
#include "core/cmd.h"

enum intake_verdict {
    INTAKE_STORED,  /* it is a job, and durable; or what it asked for was done */
    INTAKE_REFUSED, /* it never can be: the broker drops it, or has a place for such */
    INTAKE_LATER,   /* not now: the broker keeps it, and brings no more for a while */
};

/* Owned by the receiver between take() and settle(). Bytes are good until settle(). */
struct intake_message {
    struct queue_node place;
    bool cancel;              /* delete the job `id`, if there is one; nothing else matters */
    struct bytes id;          /* empty: the server makes one */
    enum if_exists if_exists; /* of a message with an id */
    int64_t delay_us;         /* from when it is pushed on; 0: at once */
    struct bytes content_type, body;
    struct bytes amqp; /* job_properties::amqp */
    void *user;        /* the receiver's */
};

struct intake {
    const struct intake_verbs *verbs;
    /* The receiver sets these two. take() has something; take some and return: it is called again
       as long as there is more. */
    void (*arrived)(struct intake *intake);
    void *user;
};

struct intake_verbs {
    struct intake_message *(*take)(struct intake *intake); /* the oldest; NULL: there is none */
    void (*settle)(struct intake *intake, struct intake_message *message,
                   enum intake_verdict verdict);
    /* As sink_verbs::stop and stopped: all that was taken is settled before stop(), and nothing is
       taken any more. Not NULL. */
    void (*stop)(struct intake *intake);
    bool (*stopped)(struct intake *intake);
    /* Ends its thread; what was not settled STORED comes again another time. All that was taken is
       settled before. */
    void (*close)(struct intake *intake);
};

#endif
