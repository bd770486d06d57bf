/*
 * One connection to one Redis server: opens a stream, authenticates, sends the collected commands
 * in one write, passes each reply to its call, closes itself when the server is silent for too
 * long, and reconnects after a while. Everything happens in the loop's turn.
 *
 *     DOWN ─retry time─▶ CONNECTING ─stream is open─▶ GREETING ─all accepted─▶ UP
 *       ▲                    │                           │                     │
 *       └────────────────────┴───────────────────────────┴───── any error ─────┘
 *
 * Of hiredis only the reader is used, which parses replies. Its connections (async.c of 0.14) are
 * not suitable: they abort at an unexpected reply, have no time-outs, and write one command at a
 * time. A server that sends nonsense may only cost us the connection.
 *
 * Single-threaded. Owned by the struct that embeds it; must not move while it is open.
 */
#ifndef LATERD_CLIENT_REDIS_LINK_H
#define LATERD_CLIENT_REDIS_LINK_H

#include <hiredis/hiredis.h>

#include "base/list.h"
#include "client/redis/url.h"
#include "port/loop.h"

struct link;

enum link_state { LINK_DOWN, LINK_CONNECTING, LINK_GREETING, LINK_UP };

/* A call whose reply is pending. Owned by the caller; must live until `done`. */
struct link_call {
    struct list place; // link::calls
    int64_t sent_us;
    /* Called once; takes over the reply (freeReplyObject). NULL: the connection ended, and the
       command may have been executed or not. May send more, and may end the link. */
    void (*done)(struct link_call *call, redisReply *reply);
};

struct link_callbacks {
    void (*up)(struct link_callbacks *callbacks, struct link *link);
    /* The connection ended, or could not be made; link->error says why. Called before `done` of the
       pending calls. */
    void (*down)(struct link_callbacks *callbacks, struct link *link);
    /* Replies are pending, and nothing was received for a quarter of the time-out; called
       repeatedly while that lasts. May be NULL. */
    void (*slow)(struct link_callbacks *callbacks, struct link *link);
    /* A reply without a call: a message of a subscription. Borrowed. NULL if not a subscriber. */
    void (*message)(struct link_callbacks *callbacks, struct link *link, const redisReply *reply);
};

enum { LINK_TIMES = 20 }; /* buckets of round trips */

/* Counters of connections since the start, for metrics. */
struct link_counts {
    uint64_t connects, losses; /* connections that took commands: made, and lost */
    uint64_t round_trips[LINK_TIMES];
    uint64_t round_trips_us; /* their sum */
};

/* The longest round trip that is counted in a bucket, in microseconds. */
int64_t link_counts_bound_us(unsigned bucket);

struct link_options {
    struct link_callbacks *callbacks;
    struct loop *loop;
    const char *user, *password; /* read at each connection, so they may change in between */
    unsigned db;
    struct tls *tls;            /* NULL: none; not over Unix sockets */
    bool subscriber;            /* all replies are messages */
    struct link_counts *counts; /* shared by several links; NULL: not counted. Borrowed */
    /* A connection ended, or could not be made, but for link_rest(): called before `down`. NULL:
       nobody is told. */
    void (*ended)(void *owner);
    void *owner;
    int64_t timeout_us; /* for the name look-up, for connecting, and for silence while replies are
                           pending */
};

struct link {
    struct link_options options;
    struct redis_address address;
    enum link_state state;
    struct stream *stream; /* DOWN: NULL */
    redisReader *reader;   /* DOWN: NULL */
    struct buf out;        /* was not given to the stream yet */
    struct list calls;     // link_call::place, oldest first
    struct link_call greeting;
    unsigned greetings;   /* pending replies to AUTH, SELECT and PING */
    struct timer retry;   /* DOWN: when to try again */
    struct timer silence; /* to check whether the oldest pending call is overdue */
    int64_t received_us;  /* when bytes were received last */
    bool wanted;          /* false: it stays DOWN */
    int64_t back_off_us;
    unsigned attempt; /* which of its name's addresses is tried */
    bool dispatching; /* replies are being passed to their calls */
    bool doomed;      /* to be ended after dispatching */
    bool rested;      /* ended by link_rest(): that is no error */
    char error[160];
};

/* DOWN until link_want(). The options are copied, what they point to is borrowed. Must not move. */
void link_init(struct link *link, const struct link_options *options);
void link_fini(struct link *link); /* calls `done` of pending calls with NULL */

/* Connects to this address, now and again whenever the connection ends. Ends a connection to
   another address. */
void link_want(struct link *link, const struct redis_address *address);
/* Disconnects, and stays DOWN. */
void link_rest(struct link *link);
/* The caller found something wrong with the server: disconnects, and reconnects after a while.
   `why`: a clause, copied. */
void link_fail(struct link *link, const char *why);

/* The connection works: resets the delay before the next reconnect. */
void link_good(struct link *link);

/* The buffer to append the next command to (resp.h); then link_expect() must be called. */
struct buf *link_out(struct link *link);
void link_expect(struct link *link, struct link_call *call);

/* Sends the collected commands, in one write. */
void link_flush(struct link *link);
/* The same within a turn, if there is as much as the server reads at once: it then works while more
   commands are collected. Does not end the link. */
void link_flush_early(struct link *link);

#endif
