/*
 * The plugin for NATS JetStream: libnats' asynchronous publish on a broker_thread. A job is done
 * when a stream has acknowledged it, also as a duplicate.
 *
 * When a connection ends, all messages under way are UNSENT: JetStream drops duplicates within the
 * stream's duplicate window (2 minutes by default).
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/mem.h"
#include "sink/nats/parts.h"

enum {
    TURN_MS = 100,
    END_MS = 3000, /* for libnats' threads to end */
};

/* ---- the thread ---- */

void jetstream_wake(struct nats *nats)
{
    (void)eventfd_write(nats->event_fd, 1); /* it is never full */
}

static void wait_for_events(struct nats *nats)
{
    eventfd_t ignored;
    bool full = nats->bytes >= WINDOW_BYTES;
    struct pollfd fds[] = {
        {.fd = full ? -1 : broker_wake_fd(nats->thread), .events = POLLIN},
        {.fd = nats->event_fd, .events = POLLIN},
    };
    (void)poll(fds, 2, TURN_MS); /* an error counts as no event */
    (void)eventfd_read(nats->event_fd, &ignored);
}

static void turn(struct nats *nats)
{
    if (!nats->connection && broker_now_us() >= nats->open_at_us)
        jetstream_connect(nats);
    if (nats->connection)
        jetstream_look_at_connection(nats);
    jetstream_take_answers(nats);
    jetstream_take_items(nats);
    jetstream_report_late(nats);
}

static void run(struct broker_thread *thread, void *user)
{
    struct nats *nats = user;
    int64_t until_us;
    nats->thread = thread;
    while (!broker_closing(thread, &until_us)) {
        turn(nats);
        wait_for_events(nats);
    }
    while (nats->connection && broker_pending(thread) && broker_now_us() < until_us) {
        jetstream_take_answers(nats);
        jetstream_report_late(nats);
        wait_for_events(nats);
    }
    jetstream_unsend_all(nats, "laterd is ending");
    if (nats->connection)
        natsConnection_Close(nats->connection);
    until_us = broker_now_us() + END_MS * 1000;
    while (nats->connection && !jetstream_is_closed(nats) && broker_now_us() < until_us)
        wait_for_events(nats);
    jetstream_close(nats);
}

/* ---- the plugin ---- */

/* Loop's thread only. libnats' threads may call callbacks shortly after a connection is destroyed,
   so what the callbacks use is freed only when the last broker and libnats' threads have ended. */
static unsigned open_count;
static struct list all_dead = {.prev = &all_dead, .next = &all_dead}; // nats::dead

static void free_nats(struct nats *nats)
{
    list_remove(&nats->dead);
    jetstream_take_answers(nats); /* only frees them */
    jetstream_forget_pushes(nats);
    jetstream_forget_look_ups(nats);
    (void)close(nats->event_fd);
    (void)pthread_mutex_destroy(&nats->mutex);
    mem_free(nats);
}

static void describe(void *user, struct metric_sink *metrics)
{
    const struct nats *nats = user;
    metric_counter(metrics, "nats_duplicates_total",
                   "Messages that JetStream had already: it stored them once.",
                   atomic_load(&nats->duplicates));
}

static void ended(void *user)
{
    struct nats *nats = user;
    list_add_tail(&all_dead, &nats->dead);
    if (--open_count)
        return;
    if (nats_CloseAndWait(END_MS) != NATS_OK)
        return; /* a thread hangs: the memory that it may use is not freed */
    while (!list_empty(&all_dead))
        free_nats(LIST_ENTRY(all_dead.next, struct nats, dead));
}

static struct nats *new_nats(const struct broker_options *options)
{
    struct nats *nats = mem_zalloc(sizeof(*nats));
    nats->options = *options;
    nats->rest_ms = REST_MS;
    list_init(&nats->pushes);
    list_init(&nats->dead);
    (void)pthread_mutex_init(&nats->mutex, NULL); /* cannot fail on Linux */
    nats->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return nats;
}

static enum err nats_open(const struct broker_options *options, struct sink **out_sink,
                          struct broker_error *out_error)
{
    enum err err = jetstream_check(options, out_error);
    if (err && err != ERR_NOT_FOUND) /* a missing file: not ready until the file exists */
        return err;
    struct nats *nats = new_nats(options);
    struct sink *sink = nats->event_fd < 0 ? NULL
                                           : broker_thread_open(&(struct broker_thread_options){
                                                 .loop = options->loop,
                                                 .name = options->name,
                                                 .window = options->window,
                                                 .user = nats,
                                                 .run = run,
                                                 .describe = describe,
                                                 .ended = ended,
                                             });
    if (!sink) {
        (void)snprintf(out_error->text, sizeof(out_error->text), "no thread for it: %s",
                       strerror(errno));
        free_nats(nats);
        return ERR_IO;
    }
    open_count++;
    *out_sink = sink;
    return OK;
}

const struct plugin laterd_plugin = {
    .abi = PLUGIN_ABI,
    .version = LATERD_VERSION,
    .type = TARGET_NATS,
    .library = "libnats " NATS_VERSION_STRING,
    .check = jetstream_check,
    .open = nats_open,
};
