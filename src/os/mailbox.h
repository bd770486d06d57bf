/*
 * How threads hand work to each other: a queue behind a mutex. Nodes are embedded in what is handed
 * over, and belong to whoever took them last. Of several posted from one thread the first is taken
 * first.
 *
 * Whoever waits in epoll watches mailbox_fd(), edge-triggered: it becomes readable whenever the
 * mailbox stops being empty, and is never read.
 */
#ifndef LATERD_OS_MAILBOX_H
#define LATERD_OS_MAILBOX_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/queue.h"

struct mailbox {
    pthread_mutex_t mutex; /* of `queue` and `closed` */
    pthread_cond_t posted;
    struct queue queue;
    bool closed;
    int event_fd; /* -1: nobody watches it */
};

/* `watched`: with a descriptor for epoll. False: there is none left, errno says why. */
bool mailbox_init(struct mailbox *mailbox, bool watched);
/* What is in it is forgotten; no thread may wait in it, or post to it. */
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
/* Nothing will be posted any more: who waits is woken. */
void mailbox_close(struct mailbox *mailbox);

/* -1: it was made without. */
int mailbox_fd(const struct mailbox *mailbox);

/*
 * One that threads may post to after its owner has ended: the last of all who share it frees it.
 * Of the messages (struct message) that are in it then, each `arrived` is called by that one.
 */
struct shared_mailbox {
    struct mailbox mailbox; /* watched */
    atomic_uint users;
};

struct shared_mailbox *shared_mailbox_new(void);          /* one user; NULL: errno says why */
void shared_mailbox_share(struct shared_mailbox *shared); /* one more */
void shared_mailbox_drop(struct shared_mailbox *shared);  /* one less */

#endif
