/*
 * A plugin in place of NATS' (laterd-nats.so). It delivers jobs whose body begins with g at once.
 * All others it takes and says nothing about until it is told to end. Then it gives an outcome by
 * the first byte of the body (d: delivered, f: failed, r: refused; others: none), and hangs in a
 * call that nothing breaks.
 */
#include <poll.h>
#include <unistd.h>

#include "sink/broker_thread.h"
#include "sink/plugin.h"

static void end_some(struct broker_thread *thread, struct list *taken)
{
    struct list *next;
    for (struct list *at = taken->next; at != taken; at = next) {
        struct broker_item *item = LIST_ENTRY(at, struct broker_item, pending);
        char what = item->delivery->body.len ? *item->delivery->body.at : ' ';
        next = at->next;
        if (what == 'd')
            broker_finish(thread, item, OUTCOME_DELIVERED, "");
        else if (what == 'f')
            broker_finish(thread, item, OUTCOME_FAILED, "it says no");
        else if (what == 'r')
            broker_finish(thread, item, OUTCOME_REFUSED, "it says never");
    }
}

static void run(struct broker_thread *thread, void *user)
{
    struct broker_item *item;
    struct list taken;
    int64_t until_us;
    (void)user;
    list_init(&taken);
    broker_set_ready(thread, true, "");
    while (!broker_closing(thread, &until_us)) {
        struct pollfd wake = {.fd = broker_wake_fd(thread), .events = POLLIN};
        (void)poll(&wake, 1, 20);
        while ((item = broker_take(thread))) {
            list_remove(&item->pending); /* into our list; broker_finish() takes it out of any */
            list_add_tail(&taken, &item->pending);
            if (item->delivery->body.len && *item->delivery->body.at == 'g')
                broker_finish(thread, item, OUTCOME_DELIVERED, "");
        }
    }
    end_some(thread, &taken);
    for (;;)
        (void)pause();
}

static void ended(void *user)
{
    (void)user;
}

static enum err check(const struct broker_options *options, struct broker_error *out_error)
{
    (void)options;
    (void)out_error;
    return OK;
}

static enum err open_sink(const struct broker_options *options, struct sink **out_sink,
                          struct broker_error *out_error)
{
    (void)out_error;
    *out_sink = broker_thread_open(&(struct broker_thread_options){.loop = options->loop,
                                                                   .name = options->name,
                                                                   .window = options->window,
                                                                   .run = run,
                                                                   .ended = ended});
    return *out_sink ? OK : ERR_IO;
}

const struct plugin laterd_plugin = {
    .abi = PLUGIN_ABI,
    .version = LATERD_VERSION,
    .type = TARGET_NATS,
    .library = "none",
    .check = check,
    .open = open_sink,
};
