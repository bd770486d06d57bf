/*
 * How threads hand work to each other: a queue behind a mutex. Nodes are embedded in the messages,
 * which belong to the thread that took them last. Messages of one thread are taken in the order
 * posted. All calls are O(1) but mailbox_wait…(), which sleep.
 *
 * A thread that sleeps in epoll watches mailbox_fd(), edge-triggered: it becomes readable whenever
 * the mailbox stops being empty, and is never read.
 */
#ifndef LATERD_OS_MAILBOX_H
#define LATERD_OS_MAILBOX_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/queue.h"

struct mailbox {
    pthread_mutex_t mutex; /* of `queue` and `closed` */
    pthread_cond_t posted;
    struct queue queue;
    bool closed;
    int event_fd; /* -1: made without */
};

/* With a descriptor for epoll. False: no descriptor is left, errno says why. */
bool mailbox_init(struct mailbox *mailbox) MUST_USE;
/* Without one: for a thread that waits by mailbox_wait(). */
void mailbox_init_unwatched(struct mailbox *mailbox);
/* Messages in it are not freed; no thread may wait for it, or post to it. */
void mailbox_fini(struct mailbox *mailbox);

/* From any thread. */
void mailbox_post(struct mailbox *mailbox, struct queue_node *node);
/* The oldest; NULL: it is empty. Never waits. */
struct queue_node *mailbox_take(struct mailbox *mailbox);
/* All of them, a chain by queue_node::next, oldest first; NULL: it is empty. Never waits. */
struct queue_node *mailbox_take_all(struct mailbox *mailbox);
/* The oldest, once there is one; NULL: it is empty and closed. */
struct queue_node *mailbox_wait(struct mailbox *mailbox);
/* Returns when there is something in it. */
void mailbox_wait_filled(struct mailbox *mailbox);
/* Wakes all threads that wait; nothing may be posted afterwards. */
void mailbox_close(struct mailbox *mailbox);

/* The descriptor; -1: the mailbox was made without. */
int mailbox_fd(const struct mailbox *mailbox);

/*
 * A reference-counted mailbox, which threads may post to after its owner has ended. The last
 * shared_mailbox_drop() frees it, and first calls `arrived` of each struct message that is still in
 * it, on its own thread.
 */
struct shared_mailbox {
    struct mailbox mailbox; /* watched */
    atomic_uint users;
};

struct shared_mailbox *shared_mailbox_new(void);          /* one user; NULL: errno says why */
void shared_mailbox_share(struct shared_mailbox *shared); /* one more */
void shared_mailbox_drop(struct shared_mailbox *shared);  /* one less */

#endif
