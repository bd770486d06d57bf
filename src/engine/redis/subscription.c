/*
 * Invariants: `channels[p].at` is a connected listener that has subscribed to the channels of p.
 * All channels of p are confirmed if, and only if, consumers and promoter were notified that p is
 * heard.
 */
#include "engine/redis/subscription.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "client/redis/failure.h"
#include "client/redis/resp.h"
#include "engine/redis/clock_sync.h"
#include "engine/redis/notice_codec.h"

enum {
    CHANNELS = 2, /* of a partition */
    UNHEARD_HEARTBEATS_MAX =
        3,                   /* answered heartbeats without a notice: the subscription is broken */
    AGAIN_US = 20 * 1000,    /* until we subscribe again, after two nodes have named each other */
    SILENT_US = 1200 * 1000, /* after this silence we send PING … */
    ANSWER_US = 800 * 1000,  /* … and wait this long for the answer */
    DEAF_US = 5000 * 1000,   /* nothing heard from a server that answers: logged */
};

/* ---- partitions that are heard ---- */

static bool is_subscribed(const struct subscription *subscription, uint32_t partition)
{
    return subscription->options.consumers->subscribed[partition];
}

/* Notifies consumers and promoter, which then drop or trust what they know of the partition. A
 * notice may be lost already when the connection ends: perhaps the one that its clock was set. */
static void report_subscribed(struct subscription *subscription, uint32_t partition,
                              bool subscribed)
{
    const struct subscription_options *options = &subscription->options;
    consumers_subscribed(options->consumers, partition, subscribed);
    promoter_due(options->promoter, partition, options->link.loop->now_us);
    clock_sync_was_set(options->members->options.calls, partition);
}

static void stop_hearing(struct subscription *subscription, uint32_t partition)
{
    subscription->channels[partition] = (struct partition_channels){0};
    if (is_subscribed(subscription, partition))
        report_subscribed(subscription, partition, false);
}

static void confirmed(struct listener *listener, uint32_t partition)
{
    struct subscription *subscription = listener->subscription;
    struct partition_channels *partition_channels = &subscription->channels[partition];
    link_good(&listener->link);
    if (partition_channels->at != listener || ++partition_channels->acked != CHANNELS)
        return;
    if (partition == 0) {
        subscription->heartbeats = subscription->options.members->heartbeats;
        members_request_list(subscription->options.members);
    }
    report_subscribed(subscription, partition, true);
}

/* ---- what the log says ---- */

static const struct node *node_of(const struct listener *listener)
{
    const struct subscription *subscription = listener->subscription;
    return &subscription->options.topology->nodes[listener - subscription->listeners];
}

/* The server answers, but tells us nothing: all else works, only later, so nobody would notice. (At
 * the start, and where it does not answer or says "not now", something else is logged.) */
static void report_deaf(struct listener *listener, bool at_once)
{
    const struct node *node = node_of(listener);
    const struct link *link = &listener->link;
    int64_t now_us = link->options.loop->now_us;
    char room[REDIS_HOST_MAX + 8];
    if (!node->ready || node->stalled_us || !listener->subscription->options.preflight->serving) {
        listener->deaf_us = 0;
        return;
    }
    if (!listener->deaf_us)
        listener->deaf_us = now_us;
    if (listener->deaf_logged || (!at_once && now_us - listener->deaf_us < DEAF_US))
        return;
    struct bytes name = redis_address_text(&link->address, room, sizeof(room));
    const char *error = link->error[0] ? link->error : "it confirms no subscription";
    listener->deaf_logged = true;
    log_event(LOG_WARN, "redis_deaf", "node=%.*s error=\"%s\" hint=\"%s\"", (int)name.len, name.at,
              error, failure_hint(bytes_str(error)));
}

static void report_heard(struct listener *listener, bool needed)
{
    char room[REDIS_HOST_MAX + 8];
    struct bytes name = redis_address_text(&listener->link.address, room, sizeof(room));
    if (listener->deaf_logged && needed)
        log_event(LOG_INFO, "redis_heard", "node=%.*s", (int)name.len, name.at);
    listener->deaf_logged = false;
    listener->deaf_us = 0;
}

/* ---- asking ---- */

static void subscribe(struct listener *listener, uint32_t partition)
{
    const struct script_space *space = listener->subscription->options.space;
    struct buf *out = link_out(&listener->link);
    char room[SCRIPT_CHANNEL_MAX];
    listener->subscription->channels[partition] = (struct partition_channels){.at = listener};
    resp_begin(out, 1 + CHANNELS);
    resp_add_str(out, listener->plain ? "SUBSCRIBE" : "SSUBSCRIBE");
    resp_add(out, notice_channel(space, partition, NOTICE_TO_ALL, room));
    resp_add(out, notice_channel(space, partition, NOTICE_TO_US, room));
}

/* The listener for the server that has the partition now; NULL: there is none. */
static struct listener *listener_of(struct subscription *subscription, uint32_t partition)
{
    struct topology *topology = subscription->options.topology;
    char room[SCRIPT_PREFIX_MAX + 16];
    struct bytes tag = script_tag(subscription->options.space, partition, room);
    const struct node *node = topology_node(topology, topology_slot(tag));
    return node ? &subscription->listeners[node - topology->nodes] : NULL;
}

static bool is_up(const struct listener *listener)
{
    return listener->link.state == LINK_UP && !listener->link.doomed;
}

static void subscribe_all(struct listener *listener)
{
    struct subscription *subscription = listener->subscription;
    for (uint32_t i = 0; i < subscription->options.space->partitions; i++) {
        if (listener_of(subscription, i) == listener)
            subscribe(listener, i);
    }
    link_flush(&listener->link);
}

static void went_up(struct link_callbacks *callbacks, struct link *link)
{
    struct listener *listener = LIST_ENTRY(callbacks, struct listener, callbacks);
    struct loop *loop = link->options.loop;
    listener->plain = listener->pinged = false;
    listener->heard_us = loop->now_us;
    loop_arm(loop, &listener->alive, loop->now_us + SILENT_US);
    subscribe_all(listener);
}

static void went_down(struct link_callbacks *callbacks, struct link *link)
{
    struct listener *listener = LIST_ENTRY(callbacks, struct listener, callbacks);
    struct subscription *subscription = listener->subscription;
    loop_cancel(link->options.loop, &listener->alive);
    preflight_lost(subscription->options.preflight, link);
    if (failure_read(bytes_str(link->error)).kind == FAILURE_DENIED)
        report_deaf(listener, true);
    for (uint32_t i = 0; i < subscription->options.space->partitions; i++) {
        if (subscription->channels[i].at == listener)
            stop_hearing(subscription, i);
    }
}

/* Nothing was received for a while, or the answer to PING is late. */
static void check_alive(struct timer *timer)
{
    struct listener *listener = LIST_ENTRY(timer, struct listener, alive);
    struct loop *loop = listener->link.options.loop;
    if (listener->heard_us + SILENT_US > loop->now_us) {
        listener->pinged = false;
        loop_arm(loop, timer, listener->heard_us + SILENT_US);
    } else if (!listener->pinged) {
        listener->pinged = true;
        resp_begin(link_out(&listener->link), 1);
        resp_add_str(link_out(&listener->link), "PING");
        loop_arm(loop, timer, loop->now_us + ANSWER_US);
    } else {
        link_fail(&listener->link, "it does not answer");
    }
}

/* ---- messages ---- */

static void take_notice(const struct subscription *subscription, struct bytes message,
                        enum notice_readers readers)
{
    struct notice notice;
    const struct subscription_options *options = &subscription->options;
    bool to_us = readers == NOTICE_TO_US;
    if (notice_decode(options->space, message, &notice))
        return; /* another program published on our channel: ignored */
    switch (notice.kind) {
    case NOTICE_READY:
        consumers_ready(options->consumers, notice.topic, notice.partition,
                        to_us && !notice.only_we_wait ? NOTIFIED_ALONE : NOTIFIED_ALL);
        break;
    case NOTICE_HINT:
        consumers_ready(options->consumers, notice.topic, notice.partition, NOTIFIED_OTHER);
        break;
    case NOTICE_DUE: promoter_due(options->promoter, notice.partition, notice.due_us); break;
    case NOTICE_MADE:
        if (!notice.by_us)
            partition_init_lost(options->partition_init, notice.partition);
        break;
    case NOTICE_CLOCK_SET:
        if (!notice.by_us)
            clock_sync_was_set(options->members->options.calls, notice.partition);
        break;
    case NOTICE_MEMBER: members_note_report(options->members, &notice.member, to_us); break;
    }
}

/* The server has unsubscribed us, because a slot is no longer its. */
static void slot_left(struct listener *listener, uint32_t partition)
{
    struct subscription *subscription = listener->subscription;
    struct topology *topology = subscription->options.topology;
    if (subscription->channels[partition].at != listener)
        return;
    stop_hearing(subscription, partition);
    topology_suspect(topology, &topology->nodes[listener - subscription->listeners]);
    subscription_look(subscription);
}

static void refused(struct listener *listener, const redisReply *reply)
{
    struct subscription *subscription = listener->subscription;
    struct topology *topology = subscription->options.topology;
    struct node *node = &topology->nodes[listener - subscription->listeners];
    struct failure failure = failure_read(bytes_of(reply->str, (size_t)reply->len));
    struct loop *loop = listener->link.options.loop;
    char room[SCRIPT_PREFIX_MAX + 16];
    /* "MOVED 1 ?:6379": the map will tell where the slot is; the other partitions are heard on. */
    bool nameless = strncmp(reply->str, "MOVED ", 6) == 0 && strstr(reply->str, " ?:");
    if (strncmp(reply->str, "ERR unknown command", 19) == 0) {
        bool first = !listener->plain;
        listener->plain = true;
        if (first)
            subscribe_all(listener);
    } else if ((failure.kind == FAILURE_MOVED || nameless) && node->ready) {
        for (uint32_t i = 0; i < subscription->options.space->partitions; i++) {
            struct bytes tag = script_tag(subscription->options.space, i, room);
            if (subscription->channels[i].at == listener && topology_slot(tag) == failure.slot)
                stop_hearing(subscription, i);
        }
        subscription_look(subscription);
        if (nameless)
            topology_suspect(topology, node);
        if (nameless || !topology_moved(topology, node, &failure))
            loop_arm(loop, &subscription->look, loop->now_us + AGAIN_US);
    } else {
        if (failure.kind == FAILURE_CLUSTER_DOWN && node->ready)
            topology_suspect(topology, node);
        link_fail(&listener->link, reply->str);
    }
}

static struct bytes text_of(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_STRING ? bytes_of(reply->str, (size_t)reply->len) : BYTES("");
}

static void message_received(struct link_callbacks *callbacks, struct link *link,
                             const redisReply *reply)
{
    struct listener *listener = LIST_ENTRY(callbacks, struct listener, callbacks);
    struct subscription *subscription = listener->subscription;
    uint32_t partition;
    enum notice_readers readers;
    listener->heard_us = link->options.loop->now_us;
    if (reply->type == REDIS_REPLY_ERROR) {
        refused(listener, reply);
        return;
    }
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 3)
        return; /* a pong, too */
    struct bytes kind = text_of(reply->element[0]), channel = text_of(reply->element[1]);
    if (!notice_channel_is(subscription->options.space, channel, &partition, &readers))
        return;
    if (kind.len && kind.at[0] == 's' && !bytes_eq(kind, BYTES("subscribe")))
        kind = bytes_of(kind.at + 1, kind.len - 1);
    if (bytes_eq(kind, BYTES("subscribe"))) {
        confirmed(listener, partition);
    } else if (bytes_eq(kind, BYTES("unsubscribe"))) {
        slot_left(listener, partition);
    } else if (bytes_eq(kind, BYTES("message"))) {
        if (partition == 0)
            subscription->heartbeats = subscription->options.members->heartbeats;
        take_notice(subscription, text_of(reply->element[2]), readers);
    }
}

/* ---- where ---- */

static bool is_deaf(const struct subscription *subscription)
{
    const struct members *members = subscription->options.members;
    return is_subscribed(subscription, 0) &&
           members->heartbeats - subscription->heartbeats >= UNHEARD_HEARTBEATS_MAX;
}

/* Subscribes to each partition at the server that has it now. */
static void look(struct timer *timer)
{
    struct subscription *subscription = LIST_ENTRY(timer, struct subscription, look);
    bool needed[REDIS_NODES_MAX] = {false}, deaf[REDIS_NODES_MAX] = {false};
    for (uint32_t i = 0; i < subscription->options.space->partitions; i++) {
        struct listener *listener = listener_of(subscription, i);
        if (!listener)
            continue; /* nothing has changed */
        needed[listener - subscription->listeners] = true;
        const struct redis_address *address = &node_of(listener)->link.address;
        if (!redis_address_eq(&listener->link.address, address)) { /* a failover */
            listener->deaf_us = 0;
            listener->deaf_logged = false;
        }
        link_want(&listener->link, address);
        deaf[listener - subscription->listeners] |= !is_subscribed(subscription, i);
        if (subscription->channels[i].at == listener)
            continue;
        stop_hearing(subscription, i);
        if (is_up(listener))
            subscribe(listener, i);
    }
    for (unsigned i = 0; i < REDIS_NODES_MAX; i++) {
        struct listener *listener = &subscription->listeners[i];
        if (!needed[i] && listener->link.wanted)
            link_rest(&listener->link);
        if (deaf[i])
            report_deaf(listener, false);
        else
            report_heard(listener, needed[i]);
    }
    if (is_deaf(subscription) && subscription->channels[0].at)
        link_fail(&subscription->channels[0].at->link, "no notices are heard");
}

void subscription_look(struct subscription *subscription)
{
    struct loop *loop = subscription->options.link.loop;
    loop_arm(loop, &subscription->look, loop->now_us);
}

void subscription_lost(struct subscription *subscription, const struct redis_address *address)
{
    for (unsigned i = 0; i < REDIS_NODES_MAX; i++) {
        struct link *link = &subscription->listeners[i].link;
        if (link->wanted && redis_address_eq(&link->address, address))
            link_rest(link);
    }
    subscription_look(subscription);
}

bool subscription_is_complete(const struct subscription *subscription)
{
    bool whole = true;
    for (uint32_t i = 0; i < subscription->options.space->partitions; i++)
        whole = whole && is_subscribed(subscription, i);
    return whole;
}

const struct link *subscription_error(const struct subscription *subscription)
{
    for (unsigned i = 0; i < REDIS_NODES_MAX; i++) {
        const struct link *link = &subscription->listeners[i].link;
        if (link->wanted && link->state != LINK_UP)
            return link;
    }
    return &subscription->listeners[0].link;
}

void subscription_flush(struct subscription *subscription)
{
    for (unsigned i = 0; i < subscription->options.topology->node_count; i++)
        link_flush(&subscription->listeners[i].link);
}

void subscription_init(struct subscription *subscription,
                       const struct subscription_options *options)
{
    *subscription = (struct subscription){.options = *options, .look.expired = look};
    subscription->channels =
        mem_zalloc(options->space->partitions * sizeof(*subscription->channels));
    for (unsigned i = 0; i < REDIS_NODES_MAX; i++) {
        struct listener *listener = &subscription->listeners[i];
        struct link_options link = options->link;
        *listener = (struct listener){
            .subscription = subscription,
            .callbacks = {.up = went_up, .down = went_down, .message = message_received},
            .alive.expired = check_alive,
        };
        link.callbacks = &listener->callbacks;
        link.subscriber = true;
        link_init(&listener->link, &link);
    }
}

void subscription_fini(struct subscription *subscription)
{
    struct loop *loop = subscription->options.link.loop;
    loop_cancel(loop, &subscription->look);
    for (unsigned i = 0; i < REDIS_NODES_MAX; i++) {
        loop_cancel(loop, &subscription->listeners[i].alive);
        link_fini(&subscription->listeners[i].link);
    }
    mem_free(subscription->channels);
}
