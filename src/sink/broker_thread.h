/*
 * What the sinks of brokers with a library of their own share: deliveries go to a thread, outcomes
 * come back. The loop's thread never calls the library, and the thread never calls laterd's parts
 * but these.
 *
 *     loop: send() ─▶ inbox ─▶ broker_take() ─▶ the library ─▶ broker_finish() ─▶ outbox ─▶ done()
 *
 * An item belongs to the thread from broker_take() to broker_finish(); its delivery, and all that
 * it points to, may be read until then. Those that the thread has are in `pending`.
 *
 * A plugin fills in broker_thread_options, whose run() is the thread; it returns when
 * broker_closing() says so, and what it left pending is UNSENT then. Functions are marked with the
 * thread that may call them.
 */
#ifndef LATERD_SINK_BROKER_THREAD_H
#define LATERD_SINK_BROKER_THREAD_H

#include "base/list.h"
#include "port/loop.h"
#include "port/sink.h"

struct broker_thread;

/* A delivery on its way. */
struct broker_item {
    struct queue_node place; /* inbox, outbox */
    struct list pending;     // broker_thread::pending
    struct delivery *delivery;
    void *user;                    /* the plugin's, between take and finish */
    int64_t begun_us, deadline_us; /* of broker_now_us(); INT64_MAX: none */
    enum outcome_kind kind;
    bool unhealthy;
    char reason[OUTCOME_REASON_MAX];
};

struct broker_thread_options {
    struct loop *loop;
    const char *name; /* of its [broker.NAME]; copied */
    uint32_t window;  /* items that are pending at most */
    void *user;
    void (*run)(struct broker_thread *thread, void *user);
    /* It is to end, and the grace has been over for a second: breaks what it waits in. On the
       loop's thread. NULL: nothing can break a call of the library, and none takes longer than a
       few seconds, for which the end of laterd waits. */
    void (*interrupt)(void *user);
    /* May be NULL. More to tell than what all brokers do. On the loop's thread. */
    void (*describe)(void *user, struct metric_sink *metrics);
    /* The thread has ended, or never began: frees `user`. On the loop's thread. */
    void (*ended)(void *user);
};

/* Loop. Starts the thread; not ready until it says so. NULL: the system has no thread or descriptor
   left; `ended` is not called then. */
struct sink *broker_thread_open(const struct broker_thread_options *options);

/* ---- all of these: the thread ---- */

/* Microseconds of a clock that never goes back. */
int64_t broker_now_us(void);

/*
 * Readable when there is something to take, or it is to close: poll it, then broker_take() until it
 * has nothing. -1, which poll() ignores: the window is full, or it is closing; so ask again before
 * each poll(), and do not sleep longer than 100 ms.
 */
int broker_wake_fd(struct broker_thread *thread);

/* The oldest delivery, which is pending from now on. NULL: there is none, or `window` are pending,
   or it is closing. */
struct broker_item *broker_take(struct broker_thread *thread);

/* What became of it. `reason` is cut to OUTCOME_REASON_MAX - 1 bytes; "" if DELIVERED. */
void broker_finish(struct broker_thread *thread, struct broker_item *item, enum outcome_kind kind,
                   bool unhealthy, const char *reason);

/* All that is pending and all that waits. */
void broker_finish_all(struct broker_thread *thread, enum outcome_kind kind, const char *reason);

/* An item whose time is over at `now_us`: FAILED, for the plugin to finish; NULL: there is none.
   O(pending): call it ten times a second, until it is NULL. */
struct broker_item *broker_late(struct broker_thread *thread, int64_t now_us);

unsigned broker_pending(const struct broker_thread *thread);

/* Is the broker there? `why`: a clause, if not. Told when it changes; from the thread, or from
   threads of the library. */
void broker_set_ready(struct broker_thread *thread, bool ready, const char *why);

/* Is it to end? Until *out_until_us (broker_now_us) what is pending may still be confirmed. */
bool broker_closing(struct broker_thread *thread, int64_t *out_until_us);

#endif
