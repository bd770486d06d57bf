/*
 * Owns the thread, the two queues between it and the loop, and the items.
 *
 * Invariants: `mutex` guards all below it in the struct; an item is in inbox, waiting, pending or
 * outbox, and those in `waiting` are older than those in inbox; the message is posted at most once
 * at a time, and while it is, the struct stays.
 *
 * Deadlines differ by topic, so all that waits has to be looked at: in a list of the thread's own,
 * since send() would wait for the mutex meanwhile.
 */
#include "sink/broker_thread.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "os/thread.h"
#include "port/clock.h"

enum {
    REPORT_MAX = 256, /* outcomes reported in one turn */
    NAME_MAX_BYTES = 64,
    INTERRUPT_US = 1000 * 1000, /* after the grace time: then the thread's call is interrupted */
};

#define ENDING  "laterd is ending"
#define NOT_YET "it is not connected yet"

struct broker_thread {
    struct sink sink;
    struct broker_thread_options options;
    char name[NAME_MAX_BYTES];
    pthread_t thread;
    int wake_fd;
    /* The loop's. */
    bool was_ready; /* as reported last */
    bool closed;
    bool interrupted, joined; /* the thread */
    char why[OUTCOME_REASON_MAX];
    uint64_t in_flight, losses;
    /* The thread's. */
    struct list pending; // broker_item::pending
    unsigned pending_count;
    struct list waiting;  // broker_item::pending: for room in the window
    int64_t waiting_us;   /* none of these has an earlier deadline */
    struct list *late_at; /* where broker_late() goes on in `pending`; NULL: at its beginning */
    /* Both. */
    pthread_mutex_t mutex;
    struct queue inbox, outbox; // broker_item::place
    struct message message;
    bool posted;
    bool ready;
    char reported_why[OUTCOME_REASON_MAX];
    bool closing;
    int64_t until_us;
};

static struct broker_thread *self(const struct sink *sink)
{
    return LIST_ENTRY(sink, struct broker_thread, sink);
}

int64_t broker_now_us(void)
{
    return clock_monotonic_us();
}

static void lock(struct broker_thread *thread)
{
    (void)pthread_mutex_lock(&thread->mutex);
}

static void unlock(struct broker_thread *thread)
{
    (void)pthread_mutex_unlock(&thread->mutex);
}

static void wake(struct broker_thread *thread)
{
    int failed = eventfd_write(thread->wake_fd, 1);
    CHECK(!failed || errno == EAGAIN); /* EAGAIN: the counter is full, so it is readable */
}

/* ---- on the broker's thread ---- */

int broker_wake_fd(struct broker_thread *thread)
{
    int64_t until_us;
    bool full = thread->pending_count >= thread->options.window;
    return full || broker_closing(thread, &until_us) ? -1 : thread->wake_fd;
}

unsigned broker_pending(const struct broker_thread *thread)
{
    return thread->pending_count;
}

static struct broker_item *first_of(const struct list *list)
{
    return list_empty(list) ? NULL : LIST_ENTRY(list->next, struct broker_item, pending);
}

struct broker_item *broker_take(struct broker_thread *thread)
{
    eventfd_t ignored;
    if (thread->pending_count >= thread->options.window)
        return NULL;
    struct broker_item *item = first_of(&thread->waiting);
    lock(thread);
    bool closing = thread->closing;
    struct queue_node *node = item || closing ? NULL : queue_take(&thread->inbox);
    if (!item && !node && !closing)
        (void)eventfd_read(thread->wake_fd, &ignored); /* EAGAIN: it was read */
    unlock(thread);
    if (node)
        item = LIST_ENTRY(node, struct broker_item, place);
    if (!item || closing)
        return NULL;
    list_remove(&item->pending);
    list_add_tail(&thread->pending, &item->pending);
    thread->pending_count++;
    return item;
}

/* Under the mutex. */
static void post(struct broker_thread *thread)
{
    if (thread->posted)
        return;
    thread->posted = true;
    thread->options.loop->verbs->post(thread->options.loop, &thread->message);
}

/* Under the mutex. */
static void to_outbox(struct broker_thread *thread, struct broker_item *item,
                      enum outcome_kind kind, const char *reason)
{
    item->kind = kind;
    (void)snprintf(item->reason, sizeof(item->reason), "%s", reason);
    queue_add(&thread->outbox, &item->place);
    post(thread);
}

void broker_finish(struct broker_thread *thread, struct broker_item *item, enum outcome_kind kind,
                   const char *reason)
{
    if (thread->late_at == &item->pending)
        thread->late_at = item->pending.next;
    list_remove(&item->pending);
    thread->pending_count--;
    lock(thread);
    to_outbox(thread, item, kind, reason);
    unlock(thread);
}

/* Takes over what has come. */
static void take_inbox(struct broker_thread *thread)
{
    lock(thread);
    struct queue_node *node = thread->inbox.first;
    thread->inbox.first = NULL;
    unlock(thread);
    while (node) {
        struct broker_item *item = LIST_ENTRY(node, struct broker_item, place);
        node = node->next;
        list_add_tail(&thread->waiting, &item->pending);
        if (item->deadline_us < thread->waiting_us)
            thread->waiting_us = item->deadline_us;
    }
}

/* Ends a delivery that waits for room in the window: it was not taken, so it goes straight to the
   outbox. */
static void return_waiting(struct broker_thread *thread, struct broker_item *item,
                           enum outcome_kind kind, const char *reason)
{
    list_remove(&item->pending);
    lock(thread);
    to_outbox(thread, item, kind, reason);
    unlock(thread);
}

void broker_finish_all(struct broker_thread *thread, enum outcome_kind kind, const char *reason)
{
    struct broker_item *item;
    while ((item = first_of(&thread->pending)))
        broker_finish(thread, item, kind, reason);
    take_inbox(thread);
    while ((item = first_of(&thread->waiting)))
        return_waiting(thread, item, kind, reason);
}

/* Ends what waits and has a deadline that has passed. */
static void return_late(struct broker_thread *thread, int64_t now_us)
{
    char why[OUTCOME_REASON_MAX];
    lock(thread);
    (void)snprintf(why, sizeof(why), "%s",
                   thread->closing  ? ENDING
                   : !thread->ready ? thread->reported_why
                                    : "the broker's window had no room for it in time");
    unlock(thread);
    thread->waiting_us = INT64_MAX;
    for (struct list *at = thread->waiting.next; at != &thread->waiting;) {
        struct broker_item *item = LIST_ENTRY(at, struct broker_item, pending);
        at = at->next;
        if (item->deadline_us <= now_us)
            return_waiting(thread, item, OUTCOME_UNSENT, why); /* whatever: it was not tried */
        else if (item->deadline_us < thread->waiting_us)
            thread->waiting_us = item->deadline_us;
    }
}

struct broker_item *broker_late(struct broker_thread *thread, int64_t now_us)
{
    if (!thread
             ->late_at) { /* a walk begins: what becomes late meanwhile is found by the next one */
        take_inbox(thread);
        if (thread->waiting_us <= now_us)
            return_late(thread, now_us);
    }
    struct list *at = thread->late_at ? thread->late_at : thread->pending.next;
    for (; at != &thread->pending; at = at->next) {
        struct broker_item *item = LIST_ENTRY(at, struct broker_item, pending);
        thread->late_at = at;
        if (item->deadline_us <= now_us)
            return item;
    }
    thread->late_at = NULL;
    return NULL;
}

void broker_set_ready(struct broker_thread *thread, bool ready, const char *why)
{
    lock(thread);
    bool differs = thread->ready != ready || (!ready && strcmp(thread->reported_why, why) != 0);
    thread->ready = ready;
    (void)snprintf(thread->reported_why, sizeof(thread->reported_why), "%s", why);
    if (differs)
        post(thread);
    unlock(thread);
}

bool broker_closing(struct broker_thread *thread, int64_t *out_until_us)
{
    lock(thread);
    bool closing = thread->closing;
    *out_until_us = thread->until_us;
    unlock(thread);
    return closing;
}

static void *thread_main(void *arg)
{
    struct broker_thread *thread = arg;
    thread->options.run(thread, thread->options.user);
    broker_finish_all(thread, OUTCOME_UNSENT, ENDING);
    return NULL;
}

/* ---- on the loop's thread ---- */

static void report(struct broker_thread *thread, struct broker_item *item)
{
    struct outcome outcome = {.kind = item->kind,
                              .unhealthy = item->unhealthy,
                              .untried = item->kind == OUTCOME_REFUSED, /* it cannot be sent */
                              .retry_after_us = -1,
                              .took_us = broker_now_us() - item->begun_us,
                              .address = bytes_str(thread->name),
                              .reason = bytes_str(item->reason)};
    thread->in_flight--;
    item->delivery->done(item->delivery, &outcome);
    mem_free(item);
}

/* Reports up to `most` outcomes. True: there are more. */
static bool report_some(struct broker_thread *thread, unsigned most)
{
    for (unsigned i = 0; i < most; i++) {
        lock(thread);
        struct queue_node *node = queue_take(&thread->outbox);
        unlock(thread);
        if (!node)
            return false;
        report(thread, LIST_ENTRY(node, struct broker_item, place));
    }
    return true;
}

static void look_whether_ready(struct broker_thread *thread)
{
    lock(thread);
    bool ready = thread->ready;
    bool other_why = strcmp(thread->why, thread->reported_why) != 0;
    memcpy(thread->why, thread->reported_why, sizeof(thread->why));
    unlock(thread);
    if (ready == thread->was_ready && (ready || !other_why))
        return;
    thread->losses += thread->was_ready && !ready;
    thread->was_ready = ready;
    if (ready)
        log_event(LOG_INFO, "broker_back", "name=%s", thread->name);
    else
        log_event(LOG_WARN, "broker_away", "name=%s reason=\"%s\" hint=\"%s\"", thread->name,
                  thread->why,
                  "jobs of its topics wait in the queue: correct the reason; it is tried again");
    if (thread->sink.changed)
        thread->sink.changed(&thread->sink);
}

static void free_thread(struct broker_thread *thread)
{
    (void)close(thread->wake_fd);
    (void)pthread_mutex_destroy(&thread->mutex);
    mem_free(thread);
}

static void message_arrived(struct message *message)
{
    struct broker_thread *thread = LIST_ENTRY(message, struct broker_thread, message);
    lock(thread);
    thread->posted = false;
    unlock(thread);
    if (thread->closed) {
        free_thread(thread);
        return;
    }
    look_whether_ready(thread);
    if (report_some(thread, REPORT_MAX)) {
        lock(thread);
        post(thread);
        unlock(thread);
    }
}

/* Under the mutex: why the thread takes no deliveries now; NULL: it does. The loop may not have
   heard yet that the broker is away, and the thread may be in a call that lasts longer than a lease
   (a look-up of the broker's name). */
static const char *turned_away(const struct broker_thread *thread)
{
    const char *why = thread->reported_why[0] ? thread->reported_why : NOT_YET;
    return thread->closing ? ENDING : thread->ready ? NULL : why;
}

static void sink_send(struct sink *sink, struct delivery *delivery)
{
    struct broker_thread *thread = self(sink);
    struct broker_item *item = mem_zalloc(sizeof(*item));
    item->delivery = delivery;
    item->begun_us = broker_now_us();
    item->deadline_us =
        delivery->timeout_us > 0 ? item->begun_us + delivery->timeout_us : INT64_MAX;
    list_init(&item->pending);
    thread->in_flight++;
    lock(thread);
    const char *why = turned_away(thread);
    bool first = !why && !thread->inbox.first;
    if (why)
        to_outbox(thread, item, OUTCOME_UNSENT, why);
    else
        queue_add(&thread->inbox, &item->place);
    unlock(thread);
    if (first)
        wake(thread);
}

static bool sink_ready(const struct sink *sink, const char **out_why)
{
    const struct broker_thread *thread = self(sink);
    if (!thread->was_ready && out_why)
        *out_why = thread->why[0] ? thread->why : NOT_YET;
    return thread->was_ready;
}

static void describe(const struct sink *sink, struct metric_sink *metrics)
{
    const struct broker_thread *thread = self(sink);
    if (!metrics->metric)
        return;
    metric_gauge(metrics, "broker_in_flight",
                 "Jobs that were given to the broker's client and have no outcome yet.",
                 thread->in_flight);
    metric_counter(metrics, "broker_losses_total", "Times that the broker went away.",
                   thread->losses);
    if (thread->options.describe)
        thread->options.describe(thread->options.user, metrics);
}

static void sink_stop(struct sink *sink, int64_t grace_us)
{
    struct broker_thread *thread = self(sink);
    lock(thread);
    thread->closing = true;
    thread->until_us = broker_now_us() + grace_us;
    unlock(thread);
    wake(thread);
}

/* The time left until the interrupt. */
static int64_t interrupt_left_us(const struct broker_thread *thread)
{
    bool may = thread->options.interrupt && !thread->interrupted;
    return may ? thread->until_us + INTERRUPT_US - broker_now_us() : INT64_MAX;
}

static void interrupt(struct broker_thread *thread)
{
    thread->interrupted = true;
    thread->options.interrupt(thread->options.user);
}

static bool sink_stopped(struct sink *sink)
{
    struct broker_thread *thread = self(sink);
    thread->joined = thread->joined || pthread_tryjoin_np(thread->thread, NULL) == 0;
    if (!thread->joined && interrupt_left_us(thread) <= 0)
        interrupt(thread);
    return thread->joined;
}

static void join(struct broker_thread *thread)
{
    int64_t left_us = interrupt_left_us(thread);
    if (!thread->joined && left_us != INT64_MAX) {
        thread->joined = thread_join_within(thread->thread, left_us);
        if (!thread->joined)
            interrupt(thread);
    }
    if (!thread->joined)
        (void)pthread_join(thread->thread, NULL);
    thread->joined = true;
}

static void sink_close(struct sink *sink, int64_t grace_us)
{
    struct broker_thread *thread = self(sink);
    if (!thread->closing)
        sink_stop(sink, grace_us);
    join(thread);
    (void)report_some(thread, UINT32_MAX);
    CHECK(thread->in_flight == 0);
    thread->options.ended(thread->options.user);
    thread->closed = true;
    if (!thread->posted) /* else the message that is under way frees it */
        free_thread(thread);
}

static const struct sink_verbs verbs = {
    .send = sink_send,
    .ready = sink_ready,
    .describe = describe,
    .stop = sink_stop,
    .stopped = sink_stopped,
    .close = sink_close,
};

struct sink *broker_thread_open(const struct broker_thread_options *options)
{
    int wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wake_fd < 0)
        return NULL;
    struct broker_thread *thread = mem_zalloc(sizeof(*thread));
    thread->sink.verbs = &verbs;
    thread->options = *options;
    (void)snprintf(thread->name, sizeof(thread->name), "%s", options->name);
    thread->wake_fd = wake_fd;
    thread->message.arrived = message_arrived;
    list_init(&thread->pending);
    list_init(&thread->waiting);
    thread->waiting_us = INT64_MAX;
    (void)pthread_mutex_init(&thread->mutex, NULL); /* cannot fail on Linux */
    int failed = thread_start(&thread->thread, thread_main, thread);
    if (!failed)
        return &thread->sink;
    errno = failed;
    free_thread(thread);
    return NULL;
}
