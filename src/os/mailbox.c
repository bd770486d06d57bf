#include "os/mailbox.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "base/check.h"
#include "base/list.h"
#include "base/mem.h"
#include "port/loop.h"

void mailbox_init_unwatched(struct mailbox *mailbox)
{
    *mailbox = (struct mailbox){.event_fd = -1};
    (void)pthread_mutex_init(&mailbox->mutex, NULL); /* these cannot fail on Linux */
    (void)pthread_cond_init(&mailbox->posted, NULL);
}

bool mailbox_init(struct mailbox *mailbox)
{
    int event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (event_fd < 0)
        return false;
    mailbox_init_unwatched(mailbox);
    mailbox->event_fd = event_fd;
    return true;
}

void mailbox_fini(struct mailbox *mailbox)
{
    (void)pthread_mutex_destroy(&mailbox->mutex);
    (void)pthread_cond_destroy(&mailbox->posted);
    if (mailbox->event_fd >= 0)
        (void)close(mailbox->event_fd);
}

void mailbox_post(struct mailbox *mailbox, struct queue_node *node)
{
    (void)pthread_mutex_lock(&mailbox->mutex);
    bool first = !mailbox->queue.first;
    queue_add(&mailbox->queue, node);
    (void)pthread_mutex_unlock(&mailbox->mutex);
    /* After the unlock: else the woken thread would wait for the mutex. */
    (void)pthread_cond_signal(&mailbox->posted);
    if (first && mailbox->event_fd >= 0) {
        int failed = eventfd_write(mailbox->event_fd, 1);
        CHECK(!failed); /* the counter is 64 bits: it never fills */
    }
}

struct queue_node *mailbox_take(struct mailbox *mailbox)
{
    (void)pthread_mutex_lock(&mailbox->mutex);
    struct queue_node *node = queue_take(&mailbox->queue);
    (void)pthread_mutex_unlock(&mailbox->mutex);
    return node;
}

struct queue_node *mailbox_take_all(struct mailbox *mailbox)
{
    (void)pthread_mutex_lock(&mailbox->mutex);
    struct queue_node *first = mailbox->queue.first;
    mailbox->queue.first = NULL;
    (void)pthread_mutex_unlock(&mailbox->mutex);
    return first;
}

/* Called with the mutex locked. */
static void wait_for_post(struct mailbox *mailbox)
{
    while (!mailbox->queue.first && !mailbox->closed)
        (void)pthread_cond_wait(&mailbox->posted, &mailbox->mutex);
}

struct queue_node *mailbox_wait(struct mailbox *mailbox)
{
    (void)pthread_mutex_lock(&mailbox->mutex);
    wait_for_post(mailbox);
    struct queue_node *node = queue_take(&mailbox->queue);
    (void)pthread_mutex_unlock(&mailbox->mutex);
    return node;
}

void mailbox_wait_filled(struct mailbox *mailbox)
{
    (void)pthread_mutex_lock(&mailbox->mutex);
    wait_for_post(mailbox);
    (void)pthread_mutex_unlock(&mailbox->mutex);
}

void mailbox_close(struct mailbox *mailbox)
{
    (void)pthread_mutex_lock(&mailbox->mutex);
    mailbox->closed = true;
    (void)pthread_cond_broadcast(&mailbox->posted);
    (void)pthread_mutex_unlock(&mailbox->mutex);
}

int mailbox_fd(const struct mailbox *mailbox)
{
    return mailbox->event_fd;
}

struct shared_mailbox *shared_mailbox_new(void)
{
    struct shared_mailbox *shared = mem_zalloc(sizeof(*shared));
    if (mailbox_init(&shared->mailbox)) {
        atomic_init(&shared->users, 1);
        return shared;
    }
    mem_free(shared);
    return NULL;
}

void shared_mailbox_share(struct shared_mailbox *shared)
{
    (void)atomic_fetch_add(&shared->users, 1);
}

void shared_mailbox_drop(struct shared_mailbox *shared)
{
    if (atomic_fetch_sub(&shared->users, 1) > 1)
        return;
    struct queue_node *node = mailbox_take_all(&shared->mailbox);
    while (node) {
        struct message *message = LIST_ENTRY(node, struct message, place);
        node = node->next; /* `arrived` may free it */
        message->arrived(message);
    }
    mailbox_fini(&shared->mailbox);
    mem_free(shared);
}
