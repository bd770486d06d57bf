/*
 * Common code of all implementations of port/member.h: their thread, what it publishes for the
 * loop's thread, and the loop's requests to it. The thread runs a struct claim or a struct
 * zk_election, talks to the service, and publishes the result.
 *
 *     thread: run() ─▶ member_publish() ─▶ holds(), look(), changed()   on the loop's thread
 *     loop:   raise(), resign(), close() ─▶ member_requests()             on this one
 *
 * Each function says which thread may call it.
 */
#ifndef LATERD_MEMBER_MEMBER_THREAD_H
#define LATERD_MEMBER_MEMBER_THREAD_H

#include "member/tenure.h"
#include "port/member.h"

struct member_thread;

struct member_thread_options {
    const struct member_options *member; /* copied, with its strings */
    void *user;
    /* The thread's function. Must resign and return when member_requests() returns `close`. */
    void (*run)(struct member_thread *thread, void *user);
    /* Makes what run() waits for fail. Called on the loop's thread, if run() has not returned a
       second after close() was called. May be NULL: run() never waits longer. */
    void (*interrupt)(void *user);
    /* Frees `user`, when the thread has ended. Called on the loop's thread. */
    void (*ended)(void *user);
};

/* Requests of the loop's thread. */
struct member_requests {
    uint64_t above;  /* get an epoch higher than this; 0: no request */
    bool resign;     /* end the term … */
    int64_t rest_us; /* … and take part again after this time */
    bool close;
};

/* Loop's thread. Starts the member's thread, and takes over `user`. ERR_IO: the system has no
   thread or descriptor left, out_error says which; `ended` has freed `user`. */
enum err member_thread_open(const struct member_thread_options *options, struct member **out_member,
                            struct member_error *out_error) MUST_USE;

/* ---- called on the member's thread, unless they say otherwise ---- */

const struct member_options *member_thread_options(const struct member_thread *thread);

/* os_boot_us(), also for plugins. Any thread. */
int64_t member_now_us(void);

/* Publishes the present state for the loop's thread. `leader`: its URL, or "". `why`: a clause
   without passwords, or "". Both are copied; in `why`, characters that could not stand between
   quotes in the log and in JSON become apostrophes. */
void member_publish(struct member_thread *thread, const struct tenure *tenure, const char *leader,
                    bool connected, const char *why);

/* The requests since the last call. */
struct member_requests member_requests(struct member_thread *thread);

/* A descriptor that is readable when there are new requests. */
int member_wake_fd(const struct member_thread *thread);
/* Any thread. */
void member_wake(struct member_thread *thread);
/* Sleeps until the time (CLOCK_BOOTTIME), or until member_wake(). */
void member_sleep(struct member_thread *thread, int64_t until_us);

#endif
