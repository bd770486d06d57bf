/*
 * Owns the thread and two lists: work to be run, and work that has been run.
 *
 * Invariant: both lists, `running` and `stop` are under the mutex; all else is the owner's.
 */
#include "os/worker.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/check.h"
#include "base/mem.h"

struct work_list {
    struct work *first;
    struct work **last;
};

struct os_worker {
    struct worker port;
    int event_fd;
    bool started;
    unsigned owed; /* submitted, and not done */
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t wake;  /* there is work, or it is the end */
    pthread_cond_t ended; /* some work has been run */
    struct work_list waiting;
    struct work_list ran;
    bool running; /* one is being run */
    bool stop;
};

static struct os_worker *self(struct worker *worker)
{
    return (struct os_worker *)worker; /* its first member */
}

static void list_clear(struct work_list *list)
{
    list->first = NULL;
    list->last = &list->first;
}

static void list_append(struct work_list *list, struct work *work)
{
    work->next = NULL;
    *list->last = work;
    list->last = &work->next;
}

static struct work *list_take(struct work_list *list)
{
    struct work *work = list->first;
    list->first = work->next;
    if (!list->first)
        list->last = &list->first;
    return work;
}

static void *thread_main(void *arg)
{
    struct os_worker *worker = arg;
    (void)pthread_mutex_lock(&worker->mutex);
    for (;;) {
        while (!worker->waiting.first && !worker->stop)
            (void)pthread_cond_wait(&worker->wake, &worker->mutex);
        if (!worker->waiting.first)
            break;
        struct work *work = list_take(&worker->waiting);
        worker->running = true;
        (void)pthread_mutex_unlock(&worker->mutex);
        work->run(work);
        (void)pthread_mutex_lock(&worker->mutex);
        worker->running = false;
        list_append(&worker->ran, work);
        (void)pthread_cond_signal(&worker->ended);
        (void)eventfd_write(worker->event_fd, 1); /* cannot fail below 2^64 of them unread */
    }
    (void)pthread_mutex_unlock(&worker->mutex);
    return NULL;
}

static void start(struct os_worker *worker)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the main thread's */
    int failed = pthread_create(&worker->thread, NULL, thread_main, worker);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    worker->started = !failed;
}

/* Without a thread (the system has none left) the work is done here and now. */
static void worker_submit(struct worker *base, struct work *work)
{
    struct os_worker *worker = self(base);
    worker->owed++;
    if (!worker->started)
        start(worker);
    if (!worker->started)
        work->run(work);
    (void)pthread_mutex_lock(&worker->mutex);
    list_append(worker->started ? &worker->waiting : &worker->ran, work);
    (void)pthread_cond_signal(&worker->wake);
    (void)pthread_mutex_unlock(&worker->mutex);
    if (!worker->started)
        (void)eventfd_write(worker->event_fd, 1); /* the same */
}

static bool worker_poll(struct worker *base)
{
    struct os_worker *worker = self(base);
    if (worker->owed == 0)
        return false;
    (void)pthread_mutex_lock(&worker->mutex);
    struct work *work = worker->ran.first ? list_take(&worker->ran) : NULL;
    (void)pthread_mutex_unlock(&worker->mutex);
    if (!work)
        return false;
    worker->owed--;
    work->done(work);
    return true;
}

static void worker_wait(struct worker *base)
{
    struct os_worker *worker = self(base);
    (void)pthread_mutex_lock(&worker->mutex);
    while (worker->waiting.first || worker->running)
        (void)pthread_cond_wait(&worker->ended, &worker->mutex);
    (void)pthread_mutex_unlock(&worker->mutex);
    while (worker_poll(base))
        continue;
}

static const struct worker_verbs verbs = {
    .submit = worker_submit,
    .poll = worker_poll,
    .wait = worker_wait,
};

struct os_worker *os_worker_new(void)
{
    int event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (event_fd < 0)
        return NULL;
    struct os_worker *worker = mem_zalloc(sizeof(*worker));
    worker->port.verbs = &verbs;
    worker->event_fd = event_fd;
    list_clear(&worker->waiting);
    list_clear(&worker->ran);
    (void)pthread_mutex_init(&worker->mutex, NULL); /* these cannot fail on Linux */
    (void)pthread_cond_init(&worker->wake, NULL);
    (void)pthread_cond_init(&worker->ended, NULL);
    return worker;
}

void os_worker_free(struct os_worker *worker)
{
    if (!worker)
        return;
    (void)pthread_mutex_lock(&worker->mutex);
    worker->stop = true;
    (void)pthread_cond_signal(&worker->wake);
    (void)pthread_mutex_unlock(&worker->mutex);
    if (worker->started)
        (void)pthread_join(worker->thread, NULL);
    CHECK(!worker->waiting.first && !worker->ran.first);
    (void)pthread_mutex_destroy(&worker->mutex);
    (void)pthread_cond_destroy(&worker->wake);
    (void)pthread_cond_destroy(&worker->ended);
    (void)close(worker->event_fd);
    mem_free(worker);
}

struct worker *os_worker_port(struct os_worker *worker)
{
    return &worker->port;
}

int os_worker_eventfd(const struct os_worker *worker)
{
    return worker->event_fd;
}
