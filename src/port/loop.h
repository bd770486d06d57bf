/*
 * The event loop: sleep, time, timers, streams, file descriptors of libraries that have sockets of
 * their own, and messages from other threads. Implemented by os/loop (epoll) and sim/loop (in
 * memory, on the simulated clock).
 *
 * A turn is: sleep, read the clock, gather (input), expire (timers that are due). The server's turn
 * (server/turn.c) has these among its other stages; code that has to wait before there is a server
 * calls loop_turn().
 *
 * Single-threaded, except post().
 */
#ifndef LATERD_PORT_LOOP_H
#define LATERD_PORT_LOOP_H

#include "base/discard.h"
#include "base/err.h"
#include "base/queue.h"
#include "base/timers.h"
#include "port/clock.h"
#include "port/stream.h"

struct loop;

/* Limits what one gather may do. NULL instead of this: no limit. */
struct loop_share {
    /* True: stop for this turn. Called before each stream, each further read of one, each timer,
       and each message but the first. */
    bool (*spent)(const struct loop_share *share);
    /* A stream is served next: all its input until the next call is one visit, which has a share of
       its own. */
    void (*visit)(struct loop_share *share);
    /* Charges one step that sent or dropped this many bytes for a stream. */
    void (*moved)(struct loop_share *share, size_t bytes);
    /* Charges other work, in nanoseconds of processor time, such as a TLS handshake. */
    void (*worked)(struct loop_share *share, int64_t ns);
};

/* Receives the streams of clients that connect to us. */
struct acceptor {
    /* A client connected to listener number `listener`. Must set the stream's handler and user. */
    void (*accepted)(struct acceptor *acceptor, struct stream *stream, unsigned listener);
};

/* A message from another thread. Owned by the sender until `arrived` is called. */
struct message {
    struct queue_node place;
    void (*arrived)(struct message *message); /* called on the loop's thread, by gather() */
};

enum { LOOP_READ = 1, LOOP_WRITE = 2 };

/* A file descriptor that the caller owns. This struct must not move while it is watched. */
struct watch {
    /* Called when the descriptor is readable or writable (LOOP_READ, LOOP_WRITE; both if it is
       broken). Level-triggered. */
    void (*ready)(struct watch *watch, unsigned what);
    int fd;
    void *source; /* the loop's; NULL: it is not watched */
};

struct loop_verbs {
    /* Sleeps until the time (INT64_MAX: no limit; a past time: not at all), an event of a
       descriptor, or a message. Does not wake for timers: use loop_sleep(). */
    void (*sleep)(struct loop *loop, int64_t until_us);
    /*
     * Calls the handlers of all streams with events, each stream once, until all are served or
     * share->spent(), and before that `arrived` of messages, with a share some hundred of them.
     * True: some were left; they are first in the next gather, which should follow without a sleep.
     */
    bool (*gather)(struct loop *loop, struct loop_share *share);
    /*
     * Begins to open a stream. Never fails directly: an error is reported by `gone`. No handler
     * function is called before this returns.
     */
    struct stream *(*connect)(struct loop *loop, const struct stream_options *options);
    /* Accepts no further clients: the acceptor is not called again, and the listening sockets and
       clients not accepted yet are closed. */
    void (*stop_listening)(struct loop *loop);
    /*
     * Sets what is watched: LOOP_READ, LOOP_WRITE, both, or 0 for nothing, which must be set before
     * the descriptor is closed. ERR_IO: the system refuses to watch it (errno says why), and it is
     * not watched.
     */
    enum err (*watch)(struct loop *loop, struct watch *watch, unsigned what);
    void (*post)(struct loop *loop, struct message *message); /* from any thread */
};

struct loop {
    const struct loop_verbs *verbs;
    struct clock *clock;
    int64_t now_us; /* this turn's time: set by loop_update_time() */
    struct timers timers;
    /* What streams had kept that are gone, or that have sent it: whoever runs the turns frees it,
       and counts it until then. */
    struct discard discard;
    struct acceptor *acceptor; /* NULL: there are no listeners */
};

/* Reads the clock into loop::now_us, and returns it. Once a turn. */
static inline int64_t loop_update_time(struct loop *loop)
{
    return loop->now_us = loop->clock->now_us(loop->clock);
}

/* ---- timers ---- */

static inline void loop_arm(struct loop *loop, struct timer *timer, int64_t at_us)
{
    timer_arm(&loop->timers, timer, at_us);
}

/* The same, unless it is armed for that time or an earlier one. */
static inline void loop_arm_by(struct loop *loop, struct timer *timer, int64_t at_us)
{
    timer_arm_by(&loop->timers, timer, at_us);
}

static inline void loop_cancel(struct loop *loop, struct timer *timer)
{
    timer_cancel(&loop->timers, timer);
}

enum { LOOP_EXPIRE_STEPS = 1000 }; /* steps of the timing wheel in a turn, at most */

/* Calls timers that are due, a limited number of them. True: more may be due. */
static inline bool loop_expire(struct loop *loop, const struct loop_share *share)
{
    uint32_t steps = LOOP_EXPIRE_STEPS;
    if (loop->now_us < timers_next_us(&loop->timers))
        return false;
    while (steps && !(share && share->spent(share))) {
        if (!timers_expire(&loop->timers, loop->now_us, &steps))
            return steps == 0;
    }
    return true;
}

/* ---- turns ---- */

/* Sleeps until this time or the next timer, whichever comes first. */
static inline void loop_sleep(struct loop *loop, int64_t until_us)
{
    int64_t timer_us = timers_next_us(&loop->timers);
    loop->verbs->sleep(loop, timer_us < until_us ? timer_us : until_us);
}

/* Sleeps until something happens, no longer than `until_us`, and handles it. */
static inline void loop_turn(struct loop *loop, int64_t until_us)
{
    loop_sleep(loop, until_us);
    (void)loop_update_time(loop);
    (void)loop->verbs->gather(loop, NULL); /* the rest is done in the next turn */
    (void)discard_step(&loop->discard);
    (void)loop_expire(loop, NULL); /* the same */
}

#endif
