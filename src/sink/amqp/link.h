/*
 * A connection to RabbitMQ: opened, logged in, read frame by frame. Calls of librabbitmq block, so
 * a link belongs to one thread; only rabbit_link_stuck_us() and rabbit_link_interrupt() may be
 * called on any thread.
 *
 * RabbitMQ stops reading from a publishing connection while it lacks memory or disk. It announces
 * that (connection.blocked), but a call that writes then blocks without a limit: so call
 * rabbit_link_writable() before every few messages, and check rabbit_link_stuck_us() on another
 * thread.
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
    bool told;                            /* it closed it, and `why` has its own words */
    bool held;                            /* TCP_CORK is set: rabbit_link_hold() */
    int64_t kept_alive_us;                /* when rabbit_link_keep_alive() sent a heartbeat last */
    char why[RABBIT_WHY_MAX];             /* why it is not open, or blocked; a clause */
    pthread_mutex_t mutex;                /* of `fd` */
    int fd;                               /* -1: none */
    atomic_llong sending_since_us;        /* 0: the thread is in no call that writes */
};

void rabbit_link_init(struct rabbit_link *link, const struct broker_options *options,
                      const char *purpose);
void rabbit_link_fini(struct rabbit_link *link);

/* Checks the URL, unless it is a reference. ERR_INVALID: out_error. */
enum err rabbit_url_check(const char *url, struct broker_error *out_error) MUST_USE;

/* Connects and logs in; up to twice options->timeout_us. False: `why` says why not. */
bool rabbit_link_open(struct rabbit_link *link);
/* `in_order`: sends connection.close first, which may take a second. Does nothing if it is
   closed. */
void rabbit_link_close(struct rabbit_link *link, bool in_order);

/* Opens a channel and, if asked, has it confirm what is published. False: `why`; close the link. */
bool rabbit_link_open_channel(struct rabbit_link *link, amqp_channel_t channel, bool confirms);

/* Checks the result of a call that waits for an answer. False: it failed; `why` is set to `what`
   and the reason, and `refused` if RabbitMQ has closed the connection for a message that was sent
   before the call. */
bool rabbit_link_explain(struct rabbit_link *link, const char *what, amqp_rpc_reply_t reply);

enum rabbit_next { RABBIT_FRAME, RABBIT_NOTHING, RABBIT_BROKEN };

/*
 * The next frame of a channel, if there is one, valid until rabbit_link_release(). Frames of the
 * connection itself (heartbeats, blocked, close) are handled here. BROKEN: see `why`, and close the
 * link. To be called at least once a second, because it also sends heartbeats.
 */
enum rabbit_next rabbit_link_next(struct rabbit_link *link, amqp_frame_t *out_frame);
/* For a link that is not read for a while: sends a heartbeat, if one is due. To be called as often
   as rabbit_link_next(). False: the connection is lost, see `why`. */
bool rabbit_link_keep_alive(struct rabbit_link *link);
/* Frees the frames that were read. */
void rabbit_link_release(struct rabbit_link *link);

/* Sleeps until there is something to read, the other descriptor (or -1) is readable, or most_ms
   milliseconds have passed. */
void rabbit_link_sleep(struct rabbit_link *link, int other_fd, int most_ms);
/* The same without a connection. */
void rabbit_sleep_on(int fd, int most_ms);
/* True: the socket takes a few small messages without blocking. */
bool rabbit_link_writable(const struct rabbit_link *link);
/* Sleeps until it does, there is something to read, or most_ms milliseconds have passed. */
void rabbit_link_sleep_until_writable(struct rabbit_link *link, int most_ms);
/* Sets TCP_CORK: only full segments are sent until rabbit_link_let_go(), so that many small
   messages need few segments. The kernel sends the rest after 200 ms at the latest. */
void rabbit_link_hold(struct rabbit_link *link);
void rabbit_link_let_go(struct rabbit_link *link);

/* Must enclose each call that writes; `status` is what librabbitmq returned. False: it failed, see
   `why`, and close the link. */
void rabbit_link_begin_send(struct rabbit_link *link);
bool rabbit_link_end_send(struct rabbit_link *link, int status);

/* How long the thread has been in a call that writes; 0: it is in none. Any thread. */
int64_t rabbit_link_stuck_us(const struct rabbit_link *link);
/* Shuts the socket down, so that calls that wait for it return. Any thread. */
void rabbit_link_interrupt(struct rabbit_link *link);

#endif
