/*
 * A connection to RabbitMQ: opened, logged in, read frame by frame. librabbitmq waits inside its
 * calls, so a link belongs to a thread; only rabbit_link_interrupt() is for all.
 *
 * RabbitMQ stops reading from a connection that publishes while it lacks memory or disk. It says so
 * (connection.blocked), which must be read, and whoever goes on writing waits without a limit: so
 * ask rabbit_link_writable() before every few messages, and let somebody look at
 * rabbit_link_stuck_us().
 */
#ifndef LATERD_SINK_AMQP_LINK_H
#define LATERD_SINK_AMQP_LINK_H

#include <amqp.h>
#include <pthread.h>
#include <stdatomic.h>

#include "sink/plugin.h"

enum { RABBIT_WHY_MAX = 200 };

struct rabbit_link {
    const struct broker_options *options; /* borrowed */
    const char *purpose;                  /* "publishes": part of the name that RabbitMQ shows */
    amqp_connection_state_t state;        /* NULL: closed */
    bool blocked;                         /* RabbitMQ reads nothing now */
    bool refused;                         /* RabbitMQ closed it for something that it was sent */
    bool held;                            /* what is written waits for more */
    char why[RABBIT_WHY_MAX];             /* why it is not open, or blocked; a clause */
    pthread_mutex_t mutex;                /* of `fd` */
    int fd;                               /* -1: none */
    atomic_llong sending_since_us;        /* 0: nobody is in a call that writes */
};

void rabbit_link_init(struct rabbit_link *link, const struct broker_options *options,
                      const char *purpose);
void rabbit_link_fini(struct rabbit_link *link);

/* Is this a URL that can be used, as far as it is known without its environment? */
enum err rabbit_url_check(const char *url, struct broker_error *out_error) MUST_USE;

/* Connects and logs in; up to twice options->timeout_us. False: `why` says why not. */
bool rabbit_link_open(struct rabbit_link *link);
/* `in_order`: tells RabbitMQ first, which may take a second. Does nothing if it is closed. */
void rabbit_link_close(struct rabbit_link *link, bool in_order);

/* Opens a channel and, if asked, has it confirm what is published. False: `why`; close the link. */
bool rabbit_link_open_channel(struct rabbit_link *link, amqp_channel_t channel, bool confirms);

/* Of a call that waits for an answer: was it a good one? False: `why` says what went wrong with
   `what`. */
bool rabbit_link_explain(struct rabbit_link *link, const char *what, amqp_rpc_reply_t reply);

enum rabbit_next { RABBIT_FRAME, RABBIT_NOTHING, RABBIT_BROKEN };

/*
 * The next frame of a channel, if one is there: good until rabbit_link_release(). Frames of the
 * connection itself (heartbeats, blocked, close) are dealt with here. BROKEN: `why`; close it. To
 * be called at least once a second: heartbeats are sent from here.
 */
enum rabbit_next rabbit_link_next(struct rabbit_link *link, amqp_frame_t *out_frame);
/* Nobody looks at frames any more that were read. */
void rabbit_link_release(struct rabbit_link *link);

/* Sleeps until there is something to read, the other descriptor (or -1) is readable, or so long. */
void rabbit_link_sleep(struct rabbit_link *link, int other_fd, int most_ms);
/* Will a few small messages be taken without waiting? */
bool rabbit_link_writable(const struct rabbit_link *link);
/* From now on only full segments leave, until it is let go: many small messages cost few of them.
   The kernel itself keeps the rest for 200 ms at most. */
void rabbit_link_hold(struct rabbit_link *link);
void rabbit_link_let_go(struct rabbit_link *link);

/* Around each call that writes. False, of what librabbitmq returned: `why`; close the link. */
void rabbit_link_begin_send(struct rabbit_link *link);
bool rabbit_link_end_send(struct rabbit_link *link, int status);

/* For how long has the thread been in a call that writes? 0: it is not. Any thread. */
int64_t rabbit_link_stuck_us(const struct rabbit_link *link);
/* Breaks the connection: calls that wait for it return. Any thread. */
void rabbit_link_interrupt(struct rabbit_link *link);

#endif
