/*
 * What all implementations of port/member.h share: their thread, what it tells the loop's thread,
 * and what that wishes. The thread runs a struct claim or a struct zk_election, asks the service,
 * and publishes what comes of it.
 *
 *     thread: run() ─▶ member_publish() ─▶ holds(), look(), changed()   on the loop's thread
 *     loop:   raise(), resign(), close() ─▶ member_wishes()             on this one
 *
 * Functions are marked with the thread that may call them.
 */
#ifndef LATERD_MEMBER_MEMBER_THREAD_H
#define LATERD_MEMBER_MEMBER_THREAD_H

#include "member/tenure.h"
#include "port/member.h"

struct member_thread;

struct member_thread_options {
    const struct member_options *member; /* copied, with its strings */
    void *user;
    /* The thread. Returns when member_wishes() says that it is to close, having resigned. */
    void (*run)(struct member_thread *thread, void *user);
    /* The thread has ended, or never began: frees `user`. On the loop's thread. */
    void (*ended)(void *user);
};

/* What the loop's thread wants done. */
struct member_wishes {
    uint64_t above; /* a higher epoch than this; 0: no wish */
    bool resign;    /* and rest: */
    int64_t rest_us;
    bool close;
};

/* Loop. Starts the thread. NULL: the system has no thread or descriptor left, errno says why; then
   `ended` is not called. */
struct member *member_thread_open(const struct member_thread_options *options);

/* ---- all of these: the thread ---- */

const struct member_options *member_thread_options(const struct member_thread *thread);

/* CLOCK_BOOTTIME. Any thread. */
int64_t member_now_us(void);

/* Tells what is so now. `why`: a clause without passwords, or "". */
void member_publish(struct member_thread *thread, const struct tenure *tenure, const char *leader,
                    bool connected, const char *why);

/* What is wished since the last call. */
struct member_wishes member_wishes(struct member_thread *thread);

/* Readable when there is something new for the thread. */
int member_wake_fd(const struct member_thread *thread);
/* Any thread. */
void member_wake(struct member_thread *thread);
/* Sleeps until then (CLOCK_BOOTTIME), or until somebody wakes it. */
void member_sleep(struct member_thread *thread, int64_t until_us);

#endif
