/*
 * One connection to one Redis server: opens a stream, says who we are, sends what has gathered in
 * one write, hands replies to whom they belong, ends itself when the server is silent for too long,
 * and comes back after a while. All that comes, and all that is due, it does in the loop's turn.
 *
 *     DOWN ─retry time─▶ CONNECTING ─stream is open─▶ GREETING ─all accepted─▶ UP
 *       ▲                    │                           │                     │
 *       └────────────────────┴───────────────────────────┴───── any error ─────┘
 *
 * Of hiredis only the reader is used, which turns bytes into replies. Its connections (async.c of
 * 0.14) would not do: an answer that nobody waits for is an assertion there, they know no
 * timeouts, and they write a command at a time. A server that answers nonsense must cost us
 * the connection and no more.
 *
 * One thread. Owned by whoever embeds it; does not move while it is open.
 */
#ifndef LATERD_CLIENT_REDIS_LINK_H
#define LATERD_CLIENT_REDIS_LINK_H

#include <hiredis/hiredis.h>

#include "base/list.h"
#include "client/redis/url.h"
#include "port/loop.h"

struct link;

enum link_state { LINK_DOWN, LINK_CONNECTING, LINK_GREETING, LINK_UP };

/* One answer that is owed. Owned by the caller; stays until `done`. */
struct link_call {
    struct list place; // link::calls
    int64_t sent_us;
    /* Takes the reply over (freeReplyObject). NULL: the connection ended; nobody knows whether the
       command was done. May send more, and may end the link. */
    void (*done)(struct link_call *call, redisReply *reply);
};

struct link_callbacks {
    void (*up)(struct link_callbacks *callbacks, struct link *link);
    /* It was up, or tried to be, and is no more; why is in link->error. Before the owed calls'
       `done`. */
    void (*down)(struct link_callbacks *callbacks, struct link *link);
    /* Answers are owed, and nothing has come for a quarter of the time-out: again and again while
       that is so. NULL: nobody minds. */
    void (*slow)(struct link_callbacks *callbacks, struct link *link);
    /* A reply that no call waits for: a message of a subscription. Borrowed. */
    void (*message)(struct link_callbacks *callbacks, struct link *link, const redisReply *reply);
};

enum { LINK_TIMES = 20 }; /* buckets of round trips */

/* What connections have done since the start, for metrics. */
struct link_counts {
    uint64_t connects, losses; /* of servers that took commands */
    uint64_t round_trips[LINK_TIMES];
    uint64_t round_trips_us; /* their sum */
};

/* The longest round trip that is counted in a bucket, in microseconds. */
int64_t link_counts_bound_us(unsigned bucket);

struct link_options {
    struct link_callbacks *callbacks;
    struct loop *loop;
    const char *user, *password;
    unsigned db;
    struct tls *tls;            /* NULL: none; not over Unix sockets */
    bool subscriber;            /* its replies are all messages */
    struct link_counts *counts; /* of all that share it; NULL: nobody counts. Borrowed */
    int64_t timeout_us; /* for the look-up of its name, for connecting, and without a byte of the
                           answers that are owed */
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
    unsigned greetings;   /* answers owed to the greeting */
    struct timer retry;   /* DOWN: when to try again */
    struct timer silence; /* the oldest call that is owed is late, or was answered meanwhile */
    int64_t heard_us;     /* when something came last */
    bool wanted;          /* by somebody: else it stays DOWN */
    int64_t back_off_us;
    unsigned attempt; /* which of its name's addresses is tried */
    bool dispatching; /* replies are being handed out */
    bool doomed;      /* to be ended when that is over */
    bool rested;      /* it ends because nobody wants it: that is no error */
    char error[160];
};

void link_init(struct link *link, const struct link_options *options);
void link_fini(struct link *link); /* owed calls are told */

/* From now on it is wanted at this address, and tries at once; if it was elsewhere, it leaves. */
void link_want(struct link *link, const struct redis_address *address);
/* Nobody wants it any more. */
void link_rest(struct link *link);
/* Something is wrong with the server: ends the connection, and tries again after a while. */
void link_fail(struct link *link, const char *why);

/* It is of use: should it end now, it is tried again soon, and not as late as the last time. */
void link_good(struct link *link);

/* Where to write the next command (resp.h); then link_expect with who waits for its answer. */
struct buf *link_out(struct link *link);
void link_expect(struct link *link, struct link_call *call);

/* Sends what has gathered, in one write. */
void link_flush(struct link *link);
/* The same, within a turn, if that is as much as the server reads at once: it works while we gather
   more. Does not end the link. */
void link_flush_early(struct link *link);

#endif
