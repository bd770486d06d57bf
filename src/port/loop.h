/*
 * What everything that talks to the world needs: the sleep of the one thread, its time, timers,
 * streams, descriptors of libraries that have sockets of their own, and messages from other
 * threads. Implemented by os/loop (epoll) and sim/loop (in memory, on the simulated clock).
 *
 * A turn is: sleep, look at the clock, gather (what came), expire (timers that are due). The
 * server's turn (server/turn.c) does these among its other stages; whoever must wait before there
 * is a server calls loop_turn().
 *
 * One thread, but for post().
 */
#ifndef LATERD_PORT_LOOP_H
#define LATERD_PORT_LOOP_H

#include "base/err.h"
#include "base/queue.h"
#include "base/timers.h"
#include "port/clock.h"
#include "port/stream.h"

struct loop;

/* How much a gather may do. NULL in its place: all that there is. */
struct loop_share {
    /* Has it done enough for one turn? Asked before each stream, and before each timer. */
    bool (*spent)(const struct loop_share *share);
    /* So many bytes were sent or dropped for a stream, in one step: to be counted. */
    void (*moved)(struct loop_share *share, size_t bytes);
    /* So much else was done, of the processor's time: a handshake of TLS. */
    void (*worked)(struct loop_share *share, int64_t ns);
};

/* Who is given the streams of clients that connect to us. */
struct acceptor {
    /* Somebody connected to listener number `listener`: sets the stream's handler and user. */
    void (*accepted)(struct acceptor *acceptor, struct stream *stream, unsigned listener);
};

/* From another thread. Owned by whoever posts it, until `arrived`. */
struct message {
    struct queue_node place;
    void (*arrived)(struct message *message); /* on the loop's thread, from gather() */
};

enum { LOOP_READ = 1, LOOP_WRITE = 2 };

/* A descriptor that others own. Does not move while it is watched. */
struct watch {
    /* It can be read from, or written to, or is broken (then both are set). Level-triggered. */
    void (*ready)(struct watch *watch, unsigned what);
    int fd;
    void *source; /* the loop's; NULL: it is not watched */
};

struct loop_verbs {
    /* Sleeps until the time (INT64_MAX: no limit; a past time: not at all), input, or a message.
       Timers are the caller's to mind: see loop_sleep. */
    void (*sleep)(struct loop *loop, int64_t until_us);
    /*
     * Calls the handlers for what has happened, one stream after the other, each at most once,
     * until all are served or share->spent(). Those that are left come first in the next gather,
     * which then follows without sleep: true.
     */
    bool (*gather)(struct loop *loop, struct loop_share *share);
    /*
     * Begins to open a stream; never fails at once: what goes wrong is told by `gone`. The handler
     * is not called before this returns.
     */
    struct stream *(*connect)(struct loop *loop, const struct stream_options *options);
    /* Takes no new clients any more: the acceptor is not called again. The listening sockets are
       closed, and so are clients who are not accepted yet. */
    void (*stop_listening)(struct loop *loop);
    /* LOOP_READ and LOOP_WRITE; 0: nothing, which the descriptor's owner says before it closes it.
       ERR_IO: the system will not watch it, errno says why; it is not watched then. */
    enum err (*watch)(struct loop *loop, struct watch *watch, unsigned what);
    void (*post)(struct loop *loop, struct message *message); /* from any thread */
};

struct loop {
    const struct loop_verbs *verbs;
    struct clock *clock;
    int64_t now_us; /* this turn's time: what loop_look_at_clock() read last */
    struct timers timers;
    struct acceptor *acceptor; /* NULL: there are no listeners */
};

static inline int64_t loop_look_at_clock(struct loop *loop)
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

enum { LOOP_EXPIRE_STEPS = 1000 }; /* of the wheel, in a turn */

/* Calls the timers that are due, a bounded number. True: there are more. */
static inline bool loop_expire(struct loop *loop, const struct loop_share *share)
{
    uint32_t steps = LOOP_EXPIRE_STEPS;
    while (steps && !(share && share->spent(share))) {
        if (!timers_expire(&loop->timers, loop->now_us, &steps))
            return steps == 0;
    }
    return true;
}

/* ---- turns ---- */

/* Sleeps until then, or until the next timer, whichever comes first. */
static inline void loop_sleep(struct loop *loop, int64_t until_us)
{
    int64_t timer_us = timers_next_us(&loop->timers);
    loop->verbs->sleep(loop, timer_us < until_us ? timer_us : until_us);
}

/* Sleeps until something happens, at the longest until then, and does it. */
static inline void loop_turn(struct loop *loop, int64_t until_us)
{
    loop_sleep(loop, until_us);
    (void)loop_look_at_clock(loop);
    (void)loop->verbs->gather(loop, NULL); /* what is left is done in the next turn */
    (void)loop_expire(loop, NULL);         /* the same */
}

#endif
