/*
 * The sink of a [broker.NAME] of type amqp: publishes with confirms from a thread of its own.
 *
 * Publishing to a missing exchange closes the channel, with all its unconfirmed messages. So
 * messages are spread over CHANNELS channels (or fewer, see channel_for()) by their exchange: a
 * missing exchange then fails only the messages that share its channel.
 *
 *   event                                          outcome
 *   basic.ack, without basic.return                DELIVERED
 *   basic.return, then basic.ack                   FAILED: no queue takes it
 *   basic.nack                                     FAILED, unhealthy: a queue is full
 *   the channel is closed                          FAILED: it may have been taken
 *   the connection is lost                         UNSENT: the same; the broker is unreachable
 *   RabbitMQ closes it because of a message        FAILED: else it would be sent again forever
 *   nothing by the delivery's time-out             FAILED: it may have been taken
 *   nothing by then, and an alarm began meanwhile  UNSENT: RabbitMQ reads it late, or never
 *   not connected, or connection.blocked           UNSENT; not ready until that is over
 *
 * A delivery that does not fit into a message is REFUSED before it is sent.
 */
#include <amqp.h>
#include <stdio.h>

#include "base/backoff.h"
#include "base/check.h"
#include "base/mem.h"
#include "sink/amqp/channel.h"
#include "sink/amqp/link.h"
#include "sink/amqp/parts.h"

enum {
    CHANNELS = 16,
    PUBLISH_AT_ONCE = 64,    /* messages between two reads of frames */
    BYTES_UNASKED = 4096,    /* bytes between two checks whether the socket is writable, which it is
                                while a third of its buffer is free: 16 KiB or more */
    MESSAGE_BYTES = 256,     /* estimated size of a message without its body */
    HEADER_FRAME_BYTES = 20, /* of the frame with the properties, besides these */
    SLEEP_MS = 100,
    BACKOFF_FIRST_US = 100000,
    BACKOFF_MOST_US = 10000000,
    WATCH_US = 1000000,
};

struct publisher {
    struct broker_options options;
    struct broker_thread *thread;
    struct rabbit_link link;
    struct rabbit_channel channels[CHANNELS];
    struct rabbit_message message;
    amqp_pool_t pool; /* of one message at a time */
    bool reported_ready;
    int64_t blocked_us; /* when connection.blocked came last; 0: never */
    struct publish_counts counts;
    struct timer watch; /* the loop's: interrupts a call that writes for too long */
};

/* ---- publishing ---- */

static void set_ready(struct publisher *publisher, bool ready)
{
    if (publisher->reported_ready != ready || !ready)
        broker_set_ready(publisher->thread, ready, ready ? "" : publisher->link.why);
    publisher->reported_ready = ready;
}

/* Ends the deliveries that were not published. */
static void return_waiting(struct publisher *publisher)
{
    struct broker_item *item;
    while ((item = broker_take(publisher->thread)))
        broker_finish(publisher->thread, item, OUTCOME_UNSENT, publisher->link.why);
}

static bool have_room(struct publisher *publisher)
{
    for (unsigned i = 0; i < CHANNELS; i++) {
        if (!rabbit_channel_has_room(&publisher->channels[i]))
            return false;
    }
    return true;
}

/* NULL: the channel cannot be opened; the connection must be closed. */
static struct rabbit_channel *channel_for(struct publisher *publisher, amqp_bytes_t exchange)
{
    uint64_t hash = XXH3_64bits(exchange.bytes, exchange.len);
    int most = amqp_get_channel_max(publisher->link.state); /* RabbitMQ may allow fewer */
    unsigned count = most > 0 && most < CHANNELS ? (unsigned)most : CHANNELS;
    struct rabbit_channel *channel = &publisher->channels[hash % count];
    if (channel->open)
        return channel;
    if (!rabbit_link_open_channel(&publisher->link, channel->number, true))
        return NULL;
    rabbit_channel_opened(channel);
    return channel;
}

/* False: the properties do not fit into a frame, of which there is one for them. */
static bool fits(const struct rabbit_link *link, const struct rabbit_message *message, char *why,
                 size_t why_bytes)
{
    int frame_bytes = amqp_get_frame_max(link->state);
    if (message->encoded.len + HEADER_FRAME_BYTES <= (size_t)frame_bytes)
        return true;
    (void)snprintf(why, why_bytes,
                   "its properties and headers have %zu bytes, and RabbitMQ's frame_max is %d",
                   message->encoded.len, frame_bytes);
    return false;
}

/* False: the connection is lost. */
static bool publish(struct publisher *publisher, struct broker_item *item)
{
    struct rabbit_link *link = &publisher->link;
    struct rabbit_message *message = &publisher->message;
    char why[RABBIT_WHY_MAX];
    recycle_amqp_pool(&publisher->pool);
    if (!rabbit_message_make(message, item->delivery, &publisher->pool, why, sizeof(why)) ||
        !fits(link, message, why, sizeof(why))) {
        broker_finish(publisher->thread, item, OUTCOME_REFUSED, why);
        return true;
    }
    struct rabbit_channel *channel = channel_for(publisher, message->exchange);
    if (!channel) {
        broker_finish(publisher->thread, item, OUTCOME_UNSENT, link->why);
        return false;
    }
    rabbit_channel_add(channel, item, message);
    rabbit_link_hold(link); /* a message is three writes, and more messages follow */
    rabbit_link_begin_send(link);
    int status = amqp_basic_publish(link->state, channel->number, message->exchange, message->key,
                                    1, 0, &message->properties, message->body);
    return rabbit_link_end_send(link, status);
}

/* Publishes waiting messages; some may be left. False: the connection is lost. */
static bool publish_held(struct publisher *publisher)
{
    size_t room = 0;
    for (unsigned i = 0; i < PUBLISH_AT_ONCE && have_room(publisher); i++) {
        if (room == 0 && !rabbit_link_writable(&publisher->link))
            break;
        room = room ? room : BYTES_UNASKED;
        struct broker_item *item = broker_take(publisher->thread);
        if (!item)
            break;
        size_t bytes = item->delivery->body.len + MESSAGE_BYTES; /* publish() may end it */
        room -= bytes < room ? bytes : room;
        if (!publish(publisher, item))
            return false;
    }
    return true;
}

static bool publish_some(struct publisher *publisher)
{
    bool good = publish_held(publisher);
    rabbit_link_let_go(&publisher->link);
    return good;
}

/* ---- frames from RabbitMQ ---- */

/* Takes all that has come, even if it cannot write: there may be confirms behind. False: the
 * connection is lost. */
static bool take_frames(struct publisher *publisher)
{
    struct rabbit_link *link = &publisher->link;
    amqp_frame_t frame;
    enum rabbit_next next;
    bool written = true;
    while ((next = rabbit_link_next(link, &frame)) == RABBIT_FRAME) {
        if (frame.channel > CHANNELS)
            continue; /* a channel that we did not open */
        struct rabbit_channel *channel = &publisher->channels[frame.channel - 1];
        if (!channel->open || rabbit_channel_take(channel, &frame))
            continue;
        amqp_channel_close_ok_t bye = {.dummy = 0};
        rabbit_link_begin_send(link);
        int status =
            amqp_send_method(link->state, frame.channel, AMQP_CHANNEL_CLOSE_OK_METHOD, &bye);
        written = rabbit_link_end_send(link, status) && written;
    }
    rabbit_link_release(link);
    return written && next == RABBIT_NOTHING;
}

/* Ends messages whose deadline has passed. For those that were under way during an alarm the
 * attempt does not count. */
static void end_late(struct publisher *publisher)
{
    struct broker_item *item;
    int64_t now_us = broker_now_us();
    while ((item = broker_late(publisher->thread, now_us))) {
        bool alarmed = item->begun_us <= publisher->blocked_us;
        rabbit_channel_forget(item);
        atomic_fetch_add(&publisher->counts.uncertain, 1);
        item->unhealthy = !alarmed;
        broker_finish(publisher->thread, item, alarmed ? OUTCOME_UNSENT : OUTCOME_FAILED,
                      alarmed ? "RabbitMQ stopped reading (an alarm) before it confirmed it"
                              : "RabbitMQ did not confirm it within the time-out");
    }
}

/* Works until the connection is lost (false), or laterd ends (true). */
static bool serve(struct publisher *publisher)
{
    struct rabbit_link *link = &publisher->link;
    int64_t late_us = 0, until_us;
    for (;;) {
        bool closing = broker_closing(publisher->thread, &until_us);
        if (closing && (broker_pending(publisher->thread) == 0 || broker_now_us() >= until_us))
            return true;
        if (!take_frames(publisher))
            return false;
        set_ready(publisher, !link->blocked);
        if (link->blocked) {
            publisher->blocked_us = broker_now_us();
            return_waiting(publisher);
        } else if (!publish_some(publisher)) {
            (void)take_frames(publisher); /* of before: confirms, and why RabbitMQ ends it */
            return false;
        }
        if (broker_now_us() - late_us >= SLEEP_MS * 1000) {
            late_us = broker_now_us();
            end_late(publisher);
        }
        bool may_take = !link->blocked && have_room(publisher);
        if (may_take && !rabbit_link_writable(link)) /* what waits would end each sleep at once */
            rabbit_link_sleep_until_writable(link, SLEEP_MS);
        else
            rabbit_link_sleep(link, may_take ? broker_wake_fd(publisher->thread) : -1, SLEEP_MS);
    }
}

/* ---- the thread ---- */

/* Waits before the next attempt to connect; deliveries meanwhile are UNSENT. False: laterd ends. */
static bool wait_to_connect(struct publisher *publisher, int64_t backoff_us)
{
    int64_t until_us, end_us = broker_now_us() + backoff_us;
    while (broker_now_us() < end_us) {
        if (broker_closing(publisher->thread, &until_us))
            return false;
        return_waiting(publisher);
        rabbit_sleep_on(broker_wake_fd(publisher->thread), SLEEP_MS);
    }
    return true;
}

static void lose_all(struct publisher *publisher)
{
    for (unsigned i = 0; i < CHANNELS; i++)
        rabbit_channel_lost(&publisher->channels[i],
                            publisher->link.refused ? OUTCOME_FAILED : OUTCOME_UNSENT,
                            publisher->link.why);
}

static void run(struct broker_thread *thread, void *user)
{
    struct publisher *publisher = user;
    struct rabbit_link *link = &publisher->link;
    int64_t backoff_us = BACKOFF_FIRST_US, until_us;
    publisher->thread = thread;
    for (unsigned i = 0; i < CHANNELS; i++)
        rabbit_channel_init(&publisher->channels[i], (amqp_channel_t)(i + 1),
                            publisher->options.window, thread, &publisher->counts);
    while (!broker_closing(thread, &until_us)) {
        bool ended = false;
        if (rabbit_link_open(link)) {
            int64_t begun_us = broker_now_us();
            ended = serve(publisher);
            if (broker_now_us() - begun_us > BACKOFF_MOST_US) /* else it may end each at once */
                backoff_us = BACKOFF_FIRST_US;
            if (ended)
                (void)snprintf(link->why, sizeof(link->why), "laterd is ending");
            lose_all(publisher);
            rabbit_link_close(link, ended);
        }
        set_ready(publisher, false);
        if (ended || !wait_to_connect(publisher, backoff_us))
            break;
        backoff_us = backoff_after(backoff_us, BACKOFF_MOST_US);
    }
    for (unsigned i = 0; i < CHANNELS; i++)
        rabbit_channel_fini(&publisher->channels[i]);
}

/* ---- on the loop's thread ---- */

/* Interrupts a call that has been writing for so long that RabbitMQ cannot be reading. */
static void watch(struct timer *timer)
{
    struct publisher *publisher = LIST_ENTRY(timer, struct publisher, watch);
    struct loop *loop = publisher->options.loop;
    if (rabbit_link_stuck_us(&publisher->link) > 2 * publisher->options.timeout_us)
        rabbit_link_interrupt(&publisher->link);
    loop_arm(loop, &publisher->watch, loop->now_us + WATCH_US);
}

static void interrupt(void *user)
{
    struct publisher *publisher = user;
    rabbit_link_interrupt(&publisher->link);
}

static void describe(void *user, struct metric_sink *metrics)
{
    const struct publish_counts *counts = &((struct publisher *)user)->counts;
    metric_counter(metrics, "amqp_published_total", "Messages sent to RabbitMQ.",
                   atomic_load(&counts->published));
    metric_counter(metrics, "amqp_confirmed_total", "Messages that RabbitMQ confirmed.",
                   atomic_load(&counts->confirmed));
    metric_counter(metrics, "amqp_returned_total", "Messages that no queue took.",
                   atomic_load(&counts->returned));
    metric_counter(metrics, "amqp_refused_total",
                   "Messages that RabbitMQ refused: a queue is full.",
                   atomic_load(&counts->refused));
    metric_counter(
        metrics, "amqp_uncertain_total",
        "Messages whose confirmation was lost: they are sent again and may be there twice.",
        atomic_load(&counts->uncertain));
}

static void publisher_free(void *user)
{
    struct publisher *publisher = user;
    loop_cancel(publisher->options.loop, &publisher->watch);
    empty_amqp_pool(&publisher->pool);
    rabbit_link_fini(&publisher->link);
    mem_free(publisher);
}

enum err rabbit_publisher_open(const struct broker_options *options, struct sink **out_sink,
                               struct broker_error *out_error)
{
    struct publisher *publisher = mem_zalloc(sizeof(*publisher));
    publisher->options = *options;
    publisher->watch.expired = watch;
    init_amqp_pool(&publisher->pool, 4096);
    rabbit_link_init(&publisher->link, &publisher->options, "publishes");
    struct broker_thread_options thread = {.loop = options->loop,
                                           .name = options->name,
                                           .window = options->window,
                                           .user = publisher,
                                           .run = run,
                                           .interrupt = interrupt,
                                           .describe = describe,
                                           .ended = publisher_free};
    struct sink *sink = broker_thread_open(&thread);
    if (!sink) {
        (void)snprintf(out_error->text, sizeof(out_error->text), "the system has no thread left");
        publisher_free(publisher);
        return ERR_IO;
    }
    loop_arm(options->loop, &publisher->watch, options->loop->now_us + WATCH_US);
    *out_sink = sink;
    return OK;
}
