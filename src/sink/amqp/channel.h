/*
 * A channel that publishes with confirms: which messages RabbitMQ has not confirmed, by their
 * delivery tags (1, 2, 3 … since the channel was opened).
 *
 * A message that no queue takes is returned (basic.return) before it is confirmed, and is then
 * confirmed nevertheless. A returned message has no tag: it is found by comparing everything it
 * consists of, the oldest first. If two messages are equal in all of that, either one will do. If
 * none is, because RabbitMQ has changed its properties (message interceptors, a BCC header), all
 * that it may be count as returned: an attempt too many is better than a job that is lost.
 */
#ifndef LATERD_SINK_AMQP_CHANNEL_H
#define LATERD_SINK_AMQP_CHANNEL_H

#include <amqp.h>
#include <xxhash.h>

#include "sink/amqp/link.h"
#include "sink/amqp/message.h"
#include "sink/broker_thread.h"

/* A message that is not confirmed, or that was published after one that is not. */
struct unconfirmed {
    struct broker_item *item; /* NULL: its outcome was reported */
    bool settled;             /* confirmed, or refused */
    char *returned;           /* why it was returned; NULL: it was not. Owned */
    /* Hashes: of exchange and key; of message_id and body; of the properties. */
    uint64_t route, content, properties;
};

struct publish_counts {
    atomic_ullong published, confirmed, returned, refused; /* refused: basic.nack */
    atomic_ullong uncertain; /* the connection or channel was lost before they were confirmed */
};

struct rabbit_channel {
    struct broker_thread *thread;
    struct publish_counts *counts;
    amqp_channel_t number;
    bool open;
    uint64_t next_tag, oldest_tag; /* oldest_tag … next_tag - 1 are in the ring */
    struct unconfirmed *ring;      /* ring_size of them, a power of two; NULL: never opened */
    uint64_t ring_size;
    /* Of a message that is coming back: */
    bool returning;
    uint64_t return_route, return_properties, return_left; /* bytes of its body to come */
    XXH64_state_t *return_hash;                            /* of unconfirmed::content */
    char return_why[RABBIT_WHY_MAX];
};

/* An empty channel. `window`: broker_options::window. */
void rabbit_channel_init(struct rabbit_channel *channel, amqp_channel_t number, uint32_t window,
                         struct broker_thread *thread, struct publish_counts *counts);
void rabbit_channel_fini(struct rabbit_channel *channel); /* it holds no item */

/* The channel was opened: tags begin again at 1. */
void rabbit_channel_opened(struct rabbit_channel *channel);
/* The channel or its connection was closed: all messages that are not confirmed end with `kind`,
   except returned ones, which end as FAILED. */
void rabbit_channel_lost(struct rabbit_channel *channel, enum outcome_kind kind, const char *why);

/* True: one more message may be published. Forgets the oldest messages if there is no room without
   that, and if their outcomes were reported: RabbitMQ may never confirm them. */
bool rabbit_channel_has_room(struct rabbit_channel *channel);
/* The message was, or is about to be, published on this channel. */
void rabbit_channel_add(struct rabbit_channel *channel, struct broker_item *item,
                        const struct rabbit_message *message);
/* The outcome of `item`, which is of this channel, was reported at its deadline. */
void rabbit_channel_forget(struct broker_item *item);

/* Handles a frame of this channel. False: RabbitMQ has closed the channel, and all outcomes were
   reported. O(1), but for a returned message O(messages that are not confirmed). */
bool rabbit_channel_take(struct rabbit_channel *channel, const amqp_frame_t *frame);

#endif
