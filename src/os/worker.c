/*
 * Owns the thread and two mailboxes: work to be run, and work that has been run.
 */
#include "os/worker.h"

#include <stdbool.h>

#include "base/check.h"
#include "base/list.h"
#include "base/mem.h"
#include "os/mailbox.h"
#include "os/thread.h"

struct os_worker {
    struct worker port;
    pthread_t thread;
    bool started;
    unsigned pending;       /* submitted, and not done */
    struct mailbox waiting; // work::place
    struct mailbox ran;     // work::place
};

static struct os_worker *self(struct worker *worker)
{
    return (struct os_worker *)worker; /* its first member */
}

static struct work *of_place(struct queue_node *place)
{
    return LIST_ENTRY(place, struct work, place);
}

static void *thread_main(void *arg)
{
    struct os_worker *worker = arg;
    struct queue_node *place;
    while ((place = mailbox_wait(&worker->waiting))) {
        struct work *work = of_place(place);
        work->run(work);
        mailbox_post(&worker->ran, place);
    }
    return NULL;
}

/* Without a thread (the system has none left) the work is done here and now. */
static void worker_submit(struct worker *base, struct work *work)
{
    struct os_worker *worker = self(base);
    worker->pending++;
    if (!worker->started)
        worker->started = thread_start(&worker->thread, thread_main, worker) == 0;
    if (!worker->started)
        work->run(work);
    mailbox_post(worker->started ? &worker->waiting : &worker->ran, &work->place);
}

static void end_work(struct os_worker *worker, struct queue_node *place)
{
    struct work *work = of_place(place);
    worker->pending--;
    work->done(work);
}

static bool worker_poll(struct worker *base)
{
    struct os_worker *worker = self(base);
    struct queue_node *place = worker->pending ? mailbox_take(&worker->ran) : NULL;
    if (place)
        end_work(worker, place);
    return place;
}

static void worker_wait(struct worker *base)
{
    struct os_worker *worker = self(base);
    while (worker->pending)
        end_work(worker, mailbox_wait(&worker->ran));
}

static const struct worker_verbs verbs = {
    .submit = worker_submit,
    .poll = worker_poll,
    .wait = worker_wait,
};

struct os_worker *os_worker_new(void)
{
    struct os_worker *worker = mem_zalloc(sizeof(*worker));
    worker->port.verbs = &verbs;
    if (!mailbox_init(&worker->ran)) {
        mem_free(worker);
        return NULL;
    }
    mailbox_init_unwatched(&worker->waiting);
    return worker;
}

void os_worker_free(struct os_worker *worker)
{
    if (!worker)
        return;
    CHECK(worker->pending == 0);
    mailbox_close(&worker->waiting);
    if (worker->started)
        (void)pthread_join(worker->thread, NULL);
    mailbox_fini(&worker->waiting);
    mailbox_fini(&worker->ran);
    mem_free(worker);
}

struct worker *os_worker_port(struct os_worker *worker)
{
    return &worker->port;
}

int os_worker_eventfd(const struct os_worker *worker)
{
    return mailbox_fd(&worker->ran);
}
