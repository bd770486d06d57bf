#include "sink/amqp/channel.h"

#include <amqp_framing.h>
#include <stdio.h>

#include "base/check.h"
#include "base/mem.h"

void rabbit_channel_init(struct rabbit_channel *channel, amqp_channel_t number, uint32_t window,
                         struct broker_thread *thread, struct publish_counts *counts)
{
    *channel = (struct rabbit_channel){.thread = thread, .counts = counts, .number = number};
    /* Twice the window, so that one late message does not stop all behind it. */
    channel->ring_size = 2;
    while (channel->ring_size < 2 * (uint64_t)window)
        channel->ring_size *= 2;
}

void rabbit_channel_fini(struct rabbit_channel *channel)
{
    mem_free(channel->ring);
    if (channel->return_hash)
        (void)XXH64_freeState(channel->return_hash);
    *channel = (struct rabbit_channel){.number = 0};
}

static struct unconfirmed *at(struct rabbit_channel *channel, uint64_t tag)
{
    return &channel->ring[tag & (channel->ring_size - 1)];
}

void rabbit_channel_opened(struct rabbit_channel *channel)
{
    CHECK(channel->oldest_tag == channel->next_tag);
    if (!channel->ring)
        channel->ring = mem_zalloc(channel->ring_size * sizeof(struct unconfirmed));
    if (!channel->return_hash)
        channel->return_hash = XXH64_createState();
    channel->open = true;
    channel->returning = false;
    channel->next_tag = channel->oldest_tag = 1;
}

static void finish(struct rabbit_channel *channel, struct unconfirmed *one, enum outcome_kind kind,
                   const char *why)
{
    if (one->item)
        broker_finish(channel->thread, one->item, kind, why);
    one->item = NULL;
    one->settled = true;
    mem_free(one->returned);
    one->returned = NULL;
}

void rabbit_channel_lost(struct rabbit_channel *channel, enum outcome_kind kind, const char *why)
{
    char text[OUTCOME_REASON_MAX];
    (void)snprintf(text, sizeof(text), "%.150s; whether it was taken is not known", why);
    for (uint64_t tag = channel->oldest_tag; tag != channel->next_tag; tag++) {
        struct unconfirmed *one = at(channel, tag);
        if (one->settled)
            continue;
        if (one->item && !one->returned) /* else it was counted at its deadline */
            atomic_fetch_add(&channel->counts->uncertain, 1);
        finish(channel, one, one->returned ? OUTCOME_FAILED : kind,
               one->returned ? one->returned : text);
    }
    channel->oldest_tag = channel->next_tag;
    channel->open = false;
    channel->returning = false;
}

/* At most half of those in the ring have an item: see rabbit_channel_init(). */
bool rabbit_channel_has_room(struct rabbit_channel *channel)
{
    if (channel->next_tag - channel->oldest_tag < channel->ring_size)
        return true;
    while (channel->oldest_tag != channel->next_tag && !at(channel, channel->oldest_tag)->item)
        finish(channel, at(channel, channel->oldest_tag++), OUTCOME_FAILED, "");
    return channel->next_tag - channel->oldest_tag < channel->ring_size;
}

/* ---- publishing ---- */

static uint64_t route_of(amqp_bytes_t exchange, amqp_bytes_t key)
{
    return XXH3_64bits_withSeed(key.bytes, key.len, XXH3_64bits(exchange.bytes, exchange.len));
}

/* For the hash of the body behind it. */
static uint64_t id_of(const amqp_basic_properties_t *properties)
{
    bool has = properties->_flags & AMQP_BASIC_MESSAGE_ID_FLAG;
    return has ? XXH3_64bits(properties->message_id.bytes, properties->message_id.len) : 0;
}

void rabbit_channel_add(struct rabbit_channel *channel, struct broker_item *item,
                        const struct rabbit_message *message)
{
    struct unconfirmed *one = at(channel, channel->next_tag++);
    *one = (struct unconfirmed){
        .item = item,
        .route = route_of(message->exchange, message->key),
        .content = XXH64(message->body.bytes, message->body.len, id_of(&message->properties)),
        .properties = XXH3_64bits(message->encoded.at, message->encoded.len),
    };
    item->user = one;
    atomic_fetch_add(&channel->counts->published, 1);
}

void rabbit_channel_forget(struct broker_item *item)
{
    struct unconfirmed *one = item->user;
    one->item = NULL;
}

/* ---- confirms ---- */

static void settle(struct rabbit_channel *channel, struct unconfirmed *one, bool taken)
{
    if (one->settled)
        return;
    atomic_fetch_add(one->returned ? &channel->counts->returned
                     : taken       ? &channel->counts->confirmed
                                   : &channel->counts->refused,
                     1);
    if (one->returned) {
        finish(channel, one, OUTCOME_FAILED, one->returned);
    } else if (taken) {
        finish(channel, one, OUTCOME_DELIVERED, "");
    } else {
        if (one->item)
            one->item->unhealthy = true; /* it will refuse the next one, too */
        finish(channel, one, OUTCOME_FAILED, "RabbitMQ refused it (basic.nack): a queue is full");
    }
}

/* Ignores tags that were not used. */
static void confirm(struct rabbit_channel *channel, uint64_t tag, bool multiple, bool taken)
{
    uint64_t first = multiple ? channel->oldest_tag : tag;
    if (tag == 0 && multiple) /* all */
        tag = channel->next_tag - 1;
    if (tag < channel->oldest_tag || tag >= channel->next_tag)
        return;
    for (uint64_t each = first; each <= tag; each++)
        settle(channel, at(channel, each), taken);
    while (channel->oldest_tag != channel->next_tag && at(channel, channel->oldest_tag)->settled)
        channel->oldest_tag++;
}

/* ---- returned messages ---- */

static void begin_return(struct rabbit_channel *channel, const amqp_basic_return_t *what)
{
    channel->returning = true;
    channel->return_route = route_of(what->exchange, what->routing_key);
    channel->return_left = 0;
    (void)snprintf(channel->return_why, sizeof(channel->return_why),
                   "no queue takes it: %d %.*s, exchange \"%.*s\", key \"%.*s\"", what->reply_code,
                   what->reply_text.len > 40 ? 40 : (int)what->reply_text.len,
                   (const char *)what->reply_text.bytes,
                   what->exchange.len > 50 ? 50 : (int)what->exchange.len,
                   (const char *)what->exchange.bytes,
                   what->routing_key.len > 50 ? 50 : (int)what->routing_key.len,
                   (const char *)what->routing_key.bytes);
}

static void mark_returned(const struct rabbit_channel *channel, struct unconfirmed *one)
{
    size_t bytes = strlen(channel->return_why) + 1;
    one->returned = mem_alloc(bytes);
    memcpy(one->returned, channel->return_why, bytes);
}

/*
 * A returned message is complete: marks the unconfirmed message that it is. That is the oldest
 * equal one. If none is equal, RabbitMQ has changed the properties, and we cannot know which one it
 * is: a message without a mark would be finished as delivered by its confirmation. So all with the
 * same route, message id and body are marked; if there are none, all with the same route.
 */
static void end_return(struct rabbit_channel *channel)
{
    uint64_t content = XXH64_digest(channel->return_hash);
    bool alike = false;
    channel->returning = false;
    for (uint64_t tag = channel->oldest_tag; tag != channel->next_tag; tag++) {
        struct unconfirmed *one = at(channel, tag);
        if (one->settled || one->route != channel->return_route || one->content != content)
            continue;
        alike = true;
        if (!one->returned && one->properties == channel->return_properties) {
            mark_returned(channel, one);
            return;
        }
    }
    for (uint64_t tag = channel->oldest_tag; tag != channel->next_tag; tag++) {
        struct unconfirmed *one = at(channel, tag);
        bool may_be = one->route == channel->return_route && (!alike || one->content == content);
        if (!one->settled && !one->returned && may_be)
            mark_returned(channel, one);
    }
}

static void take_header(struct rabbit_channel *channel, const amqp_frame_t *frame)
{
    amqp_bytes_t raw = frame->payload.properties.raw;
    channel->return_properties = XXH3_64bits(raw.bytes, raw.len);
    /* It cannot fail. */
    (void)XXH64_reset(channel->return_hash, id_of(frame->payload.properties.decoded));
    channel->return_left = frame->payload.properties.body_size;
    if (channel->return_left == 0)
        end_return(channel);
}

static void take_body(struct rabbit_channel *channel, const amqp_frame_t *frame)
{
    amqp_bytes_t part = frame->payload.body_fragment;
    (void)XXH64_update(channel->return_hash, part.bytes, part.len); /* the same */
    channel->return_left -= part.len < channel->return_left ? part.len : channel->return_left;
    if (channel->return_left == 0)
        end_return(channel);
}

static bool take_method(struct rabbit_channel *channel, const amqp_method_t *method)
{
    if (method->id == AMQP_BASIC_ACK_METHOD) {
        const amqp_basic_ack_t *ack = method->decoded;
        confirm(channel, ack->delivery_tag, ack->multiple, true);
    } else if (method->id == AMQP_BASIC_NACK_METHOD) {
        const amqp_basic_nack_t *nack = method->decoded;
        confirm(channel, nack->delivery_tag, nack->multiple, false);
    } else if (method->id == AMQP_BASIC_RETURN_METHOD) {
        begin_return(channel, method->decoded);
    } else if (method->id == AMQP_CHANNEL_CLOSE_METHOD) {
        const amqp_channel_close_t *end = method->decoded;
        char why[RABBIT_WHY_MAX];
        (void)snprintf(why, sizeof(why), "RabbitMQ closed the channel: %d %.*s", end->reply_code,
                       end->reply_text.len > 140 ? 140 : (int)end->reply_text.len,
                       (const char *)end->reply_text.bytes);
        rabbit_channel_lost(channel, OUTCOME_FAILED, why);
        return false;
    }
    return true;
}

bool rabbit_channel_take(struct rabbit_channel *channel, const amqp_frame_t *frame)
{
    if (frame->frame_type == AMQP_FRAME_METHOD)
        return take_method(channel, &frame->payload.method);
    if (channel->returning && frame->frame_type == AMQP_FRAME_HEADER)
        take_header(channel, frame);
    else if (channel->returning && frame->frame_type == AMQP_FRAME_BODY)
        take_body(channel, frame);
    return true;
}
