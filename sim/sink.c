#include "sim/sink.h"

#include "base/check.h"
#include "base/list.h"
#include "base/mem.h"

struct sim_sink {
    struct sink port;
    struct loop *loop;
    struct sim_receiver *receiver;
    struct list sent; // sim_sent::place
    unsigned count;
    bool away;
};

struct sim_sent {
    struct sim_sink *sink;
    struct delivery *delivery;
    struct list place;
    struct timer timer;
    struct outcome outcome;
};

static struct sim_sink *sink_of(const struct sink *port)
{
    return LIST_ENTRY(port, struct sim_sink, port);
}

static void forget(struct sim_sent *sent)
{
    sent->sink->count--;
    loop_cancel(sent->sink->loop, &sent->timer);
    list_remove(&sent->place);
    mem_free(sent);
}

static void finish(struct sim_sent *sent, const struct outcome *outcome)
{
    struct delivery *delivery = sent->delivery;
    struct sim_receiver *receiver = sent->sink->receiver;
    if (receiver && receiver->ended)
        receiver->ended(receiver, delivery);
    forget(sent);
    delivery->done(delivery, outcome);
}

static void answered(struct timer *timer)
{
    struct sim_sent *sent = LIST_ENTRY(timer, struct sim_sent, timer);
    struct outcome outcome = sent->outcome;
    finish(sent, &outcome);
}

static void send_delivery(struct sink *port, struct delivery *delivery)
{
    struct sim_sink *sink = sink_of(port);
    struct sim_answer answer = {
        .outcome = {
            .kind = OUTCOME_DELIVERED, .code = 200, .retry_after_us = -1, .address = BYTES("sim")}};
    struct sim_sent *sent = mem_zalloc(sizeof(*sent));
    if (sink->receiver)
        sink->receiver->received(sink->receiver, delivery, &answer);
    if (answer.after_us >= delivery->timeout_us) {
        answer.after_us = delivery->timeout_us;
        answer.outcome = (struct outcome){.kind = OUTCOME_FAILED,
                                          .unhealthy = true,
                                          .retry_after_us = -1,
                                          .address = BYTES("sim"),
                                          .reason = BYTES("no answer in time")};
    }
    answer.outcome.took_us = answer.after_us;
    sent->sink = sink;
    sent->delivery = delivery;
    sent->outcome = answer.outcome;
    sent->timer.expired = answered;
    sink->count++;
    list_add_tail(&sink->sent, &sent->place);
    loop_arm(sink->loop, &sent->timer, sink->loop->now_us + answer.after_us);
}

static bool ready(const struct sink *port, const char **out_why)
{
    if (out_why)
        *out_why = "the simulated broker is away";
    return !sink_of(port)->away;
}

static void describe(const struct sink *port, struct metric_sink *metrics)
{
    (void)port;
    (void)metrics;
}

static void close_sink(struct sink *port, int64_t grace_us)
{
    struct sim_sink *sink = sink_of(port);
    (void)grace_us;
    while (!list_empty(&sink->sent))
        finish(LIST_ENTRY(sink->sent.next, struct sim_sent, place),
               &(struct outcome){.kind = OUTCOME_UNSENT, .retry_after_us = -1});
}

struct sim_sink *sim_sink_new(struct loop *loop)
{
    static const struct sink_verbs verbs = {
        .send = send_delivery, .ready = ready, .describe = describe, .close = close_sink};
    struct sim_sink *sink = mem_zalloc(sizeof(*sink));
    sink->port.verbs = &verbs;
    sink->loop = loop;
    list_init(&sink->sent);
    return sink;
}

void sim_sink_free(struct sim_sink *sink)
{
    if (!sink)
        return;
    CHECK(list_empty(&sink->sent));
    mem_free(sink);
}

struct sink *sim_sink_port(struct sim_sink *sink)
{
    return &sink->port;
}

void sim_sink_receiver(struct sim_sink *sink, struct sim_receiver *receiver)
{
    sink->receiver = receiver;
}

void sim_sink_away(struct sim_sink *sink, bool away)
{
    sink->away = away;
    if (sink->port.changed)
        sink->port.changed(&sink->port);
}

void sim_sink_kill(struct sim_sink *sink)
{
    while (!list_empty(&sink->sent))
        forget(LIST_ENTRY(sink->sent.next, struct sim_sent, place));
}

unsigned sim_sink_under_way(const struct sim_sink *sink)
{
    return sink->count;
}
