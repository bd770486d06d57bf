#include "engine/redis/subscription.h"

#include <string.h>

#include "client/redis/resp.h"

enum { DEAF_HEARTBEATS = 3 /* that nobody hears are too many */ };

static void subscribe(struct link_callbacks *callbacks, struct link *link)
{
    struct subscription *subscription = LIST_ENTRY(callbacks, struct subscription, callbacks);
    char room[SCRIPT_PREFIX_MAX + 32];
    resp_begin(link_out(link), 2);
    resp_add_str(link_out(link), "SUBSCRIBE");
    resp_add(link_out(link), script_channel(subscription->options.space, room));
    link_flush(link);
}

static void subscription_ended(struct link_callbacks *callbacks, struct link *link)
{
    struct subscription *subscription = LIST_ENTRY(callbacks, struct subscription, callbacks);
    preflight_lost(subscription->options.preflight, link);
    if (subscription->options.consumers->subscribed)
        consumers_subscribed(subscription->options.consumers, false);
}

static void take_notice(const struct subscription *subscription, struct bytes message)
{
    struct script_notice notice;
    if (script_notice(subscription->options.space, message, &notice))
        return; /* somebody else's, on our channel: it is not for us */
    switch (notice.kind) {
    case SCRIPT_READY_NOW:
        consumers_ready(subscription->options.consumers, notice.topic, notice.partition);
        break;
    case SCRIPT_DUE:
        promoter_due(subscription->options.promoter, notice.partition, notice.due_us);
        break;
    case SCRIPT_MADE:
        if (!notice.by_us)
            partition_init_lost(subscription->options.partition_init, notice.partition);
        break;
    case SCRIPT_MEMBER: members_heard(subscription->options.members, &notice.member); break;
    }
}

static void notified(struct link_callbacks *callbacks, struct link *link, const redisReply *reply)
{
    struct subscription *subscription = LIST_ENTRY(callbacks, struct subscription, callbacks);
    if (reply->type == REDIS_REPLY_ERROR) {
        link_fail(link, reply->str);
        return;
    }
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 3 ||
        reply->element[0]->type != REDIS_REPLY_STRING)
        return;
    if (strcmp(reply->element[0]->str, "subscribe") == 0) {
        link_good(link);
        subscription->heartbeats = subscription->options.members->heartbeats;
        consumers_subscribed(subscription->options.consumers, true);
        promoter_look(subscription->options.promoter);
    } else if (strcmp(reply->element[0]->str, "message") == 0 &&
               reply->element[2]->type == REDIS_REPLY_STRING) {
        subscription->heartbeats = subscription->options.members->heartbeats;
        take_notice(subscription, bytes_of(reply->element[2]->str, (size_t)reply->element[2]->len));
    }
}

static bool is_served(const struct topology *topology, const struct redis_address *address)
{
    for (unsigned i = 0; i < topology->node_count; i++) {
        const struct node *node = &topology->nodes[i];
        if (node->ready && redis_address_eq(&node->link.address, address))
            return true;
    }
    return false;
}

static bool is_deaf(const struct subscription *subscription)
{
    const struct subscription_options *options = &subscription->options;
    return options->consumers->subscribed &&
           options->members->heartbeats - subscription->heartbeats >= DEAF_HEARTBEATS;
}

/* The subscription is at any node that is there; if that one goes, at another. */
static void look(struct timer *timer)
{
    struct subscription *subscription = LIST_ENTRY(timer, struct subscription, look);
    struct link *link = &subscription->link;
    struct node *any = topology_any(subscription->options.topology);
    if (any && !(link->wanted && is_served(subscription->options.topology, &link->address)))
        link_want(link, &any->link.address);
    if (is_deaf(subscription))
        link_fail(link, "no notices are heard");
}

void subscription_look(struct subscription *subscription)
{
    struct loop *loop = subscription->options.link.loop;
    loop_arm(loop, &subscription->look, loop->now_us);
}

void subscription_lost(struct subscription *subscription, const struct redis_address *address)
{
    if (redis_address_eq(&subscription->link.address, address))
        link_rest(&subscription->link);
    subscription_look(subscription);
}

void subscription_init(struct subscription *subscription,
                       const struct subscription_options *options)
{
    struct link_options link = options->link;
    *subscription = (struct subscription){
        .options = *options,
        .callbacks = {.up = subscribe, .down = subscription_ended, .message = notified},
        .look.expired = look,
    };
    link.callbacks = &subscription->callbacks;
    link.subscriber = true;
    link_init(&subscription->link, &link);
}

void subscription_fini(struct subscription *subscription)
{
    loop_cancel(subscription->options.link.loop, &subscription->look);
    link_fini(&subscription->link);
}
