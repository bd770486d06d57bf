/*
 * Common code of the sinks that use a broker's client library: deliveries go to a thread, outcomes
 * come back. The loop's thread never calls the library, and the thread calls no other part of
 * laterd than these functions.
 *
 *     loop: send() ─▶ inbox ─▶ broker_take() ─▶ the library ─▶ broker_finish() ─▶ outbox ─▶ done()
 *
 * An item belongs to the thread from broker_take() to broker_finish(), and is in `pending`; until
 * then its delivery, and everything that it points to, may be read.
 *
 * A plugin fills in broker_thread_options, whose run() is the thread's function; it returns when
 * broker_closing() says so, and pending items are then UNSENT. Each function says which thread may
 * call it.
 */
#ifndef LATERD_SINK_BROKER_THREAD_H
#define LATERD_SINK_BROKER_THREAD_H

#include "base/list.h"
#include "port/loop.h"
#include "port/sink.h"

struct broker_thread;

/* A delivery under way. */
struct broker_item {
    struct queue_node place; /* inbox, outbox */
    struct list pending;     // broker_thread::pending, or ::waiting
    struct delivery *delivery;
    void *user;                    /* the plugin's, from take to finish */
    int64_t begun_us, deadline_us; /* of broker_now_us(); INT64_MAX: none */
    enum outcome_kind kind;
    bool unhealthy; /* outcome::unhealthy; false unless the plugin sets it before broker_finish() */
    char reason[OUTCOME_REASON_MAX];
};

struct broker_thread_options {
    struct loop *loop;
    const char *name; /* of its [broker.NAME]; copied */
    uint32_t window;  /* pending items, at most */
    void *user;
    void (*run)(struct broker_thread *thread, void *user);
    /* Interrupts the call that the thread waits in, when it should have ended a second ago. Called
       on the loop's thread. NULL: calls of the library cannot be interrupted, but take a few
       seconds at most, for which laterd waits when it ends. */
    void (*interrupt)(void *user);
    /* Reports additional metrics, to metrics->metric, which is there. Called on the loop's thread.
       May be NULL. */
    void (*describe)(void *user, struct metric_sink *metrics);
    /* Frees `user`, when the thread has ended. Called on the loop's thread. */
    void (*ended)(void *user);
};

/* Loop's thread. Starts the broker's thread. The sink is not ready until broker_set_ready(). NULL:
   the system has no thread or descriptor left; `ended` is not called then. */
struct sink *broker_thread_open(const struct broker_thread_options *options);

/* ---- called on the broker's thread, unless they say otherwise ---- */

/* Microseconds of a clock that never goes back. */
int64_t broker_now_us(void);

/*
 * A descriptor that is readable when there are deliveries, or when the thread must close: poll it,
 * then call broker_take() until it returns NULL. -1, which poll() ignores: the window is full, or
 * it is closing. So call this before each poll(), and sleep 100 ms at most.
 */
int broker_wake_fd(struct broker_thread *thread);

/* Takes the oldest delivery, which is pending from now on. NULL: there is none, or `window` items
   are pending, or it is closing. */
struct broker_item *broker_take(struct broker_thread *thread);

/* Reports the outcome of an item, and gives the item back. `reason` is cut to OUTCOME_REASON_MAX -
   1 bytes; "" if DELIVERED. */
void broker_finish(struct broker_thread *thread, struct broker_item *item, enum outcome_kind kind,
                   const char *reason);

/* The same for all pending items and all deliveries that wait. */
void broker_finish_all(struct broker_thread *thread, enum outcome_kind kind, const char *reason);

/* An item whose deadline has passed at `now_us`, which the plugin must finish as FAILED; NULL:
   none. Deliveries that were not taken by their deadline are UNSENT by this call. To be called ten
   times a second, until it returns NULL: the calls until then take O(pending and waiting) together,
   as long as each item is finished before the next call. */
struct broker_item *broker_late(struct broker_thread *thread, int64_t now_us);

unsigned broker_pending(const struct broker_thread *thread); /* items that are pending */

/* Sets whether the broker is reachable; `why`: a clause, if it is not. The sink's `changed` is
   called if that is new. While it is not, deliveries are UNSENT at once; those that were sent
   before are for the plugin to return. The broker's thread, or a thread of the library. */
void broker_set_ready(struct broker_thread *thread, bool ready, const char *why);

/* True: the thread must end. Pending items may still be confirmed until *out_until_us (time of
   broker_now_us()). */
bool broker_closing(struct broker_thread *thread, int64_t *out_until_us);

#endif
