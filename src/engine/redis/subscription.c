#include "engine/redis/subscription.h"

#include <string.h>

#include "client/redis/resp.h"

enum { DEAF_BEATS = 3 /* that nobody hears are too many */ };

static void subscribe(struct link_callbacks *callbacks, struct link *link)
{
    struct notices *notices = LIST_ENTRY(callbacks, struct notices, callbacks);
    char room[SCRIPT_PREFIX_MAX + 32];
    resp_begin(link_out(link), 2);
    resp_add_str(link_out(link), "SUBSCRIBE");
    resp_add(link_out(link), script_channel(notices->options.space, room));
    link_flush(link);
}

static void subscription_ended(struct link_callbacks *callbacks, struct link *link)
{
    struct notices *notices = LIST_ENTRY(callbacks, struct notices, callbacks);
    fitness_lost(notices->options.fitness, link);
    if (notices->options.waits->subscribed)
        waits_subscribed(notices->options.waits, false);
}

static void take_notice(const struct notices *notices, struct bytes message)
{
    struct script_notice notice;
    if (script_notice(notices->options.space, message, &notice))
        return; /* somebody else's, on our channel: it is not for us */
    switch (notice.news) {
    case SCRIPT_READY_NOW:
        waits_ready(notices->options.waits, notice.topic, notice.partition);
        break;
    case SCRIPT_DUE:
        promoter_due(notices->options.promoter, notice.partition, notice.due_us);
        break;
    case SCRIPT_MADE:
        if (!notice.by_us)
            opener_lost(notices->options.opener, notice.partition);
        break;
    case SCRIPT_MEMBER: members_heard(notices->options.members, &notice.member); break;
    }
}

static void notified(struct link_callbacks *callbacks, struct link *link, const redisReply *reply)
{
    struct notices *notices = LIST_ENTRY(callbacks, struct notices, callbacks);
    if (reply->type == REDIS_REPLY_ERROR) {
        link_fail(link, reply->str);
        return;
    }
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 3 ||
        reply->element[0]->type != REDIS_REPLY_STRING)
        return;
    if (strcmp(reply->element[0]->str, "subscribe") == 0) {
        link_good(link);
        notices->beats = notices->options.members->beats;
        waits_subscribed(notices->options.waits, true);
        promoter_look(notices->options.promoter);
    } else if (strcmp(reply->element[0]->str, "message") == 0 &&
               reply->element[2]->type == REDIS_REPLY_STRING) {
        notices->beats = notices->options.members->beats;
        take_notice(notices, bytes_of(reply->element[2]->str, (size_t)reply->element[2]->len));
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

static bool is_deaf(const struct notices *notices)
{
    const struct notices_options *options = &notices->options;
    return options->waits->subscribed && options->members->beats - notices->beats >= DEAF_BEATS;
}

/* The subscription is at any node that is there; if that one goes, at another. */
void notices_tick(struct notices *notices, int64_t now_us)
{
    struct link *link = &notices->link;
    struct node *any = topology_any(notices->options.topology);
    bool wanted = link->retry_at_us != INT64_MAX;
    if (any && !(wanted && is_served(notices->options.topology, &link->address)))
        link_want(link, &any->link.address, now_us);
    if (is_deaf(notices))
        link_fail(link, "no notices are heard");
    link_tick(link, now_us);
}

void notices_lost(struct notices *notices, const struct redis_address *address)
{
    if (redis_address_eq(&notices->link.address, address))
        link_rest(&notices->link);
}

void notices_init(struct notices *notices, const struct notices_options *options)
{
    struct link_options link = options->link;
    *notices = (struct notices){
        .options = *options,
        .callbacks = {.up = subscribe, .down = subscription_ended, .message = notified},
    };
    link.callbacks = &notices->callbacks;
    link.subscriber = true;
    link_init(&notices->link, &link);
}

void notices_fini(struct notices *notices)
{
    link_fini(&notices->link);
}
