/*
 * A channel that publishes with confirms: which messages RabbitMQ has not confirmed, by their
 * delivery tags (1, 2, 3 … since the channel was opened).
 *
 * A message that no queue takes comes back (basic.return) before it is confirmed, and then is
 * confirmed all the same. What comes back does not say its tag: it is found by all that it is made
 * of, the oldest first, and two that are equal in that are equal to everybody.
 */
#ifndef LATERD_SINK_AMQP_CHANNEL_H
#define LATERD_SINK_AMQP_CHANNEL_H

#include <amqp.h>
#include <xxhash.h>

#include "sink/amqp/link.h"
#include "sink/amqp/message.h"
#include "sink/broker_thread.h"

/* A message that is not confirmed, or one that is behind such a one. */
struct unconfirmed {
    struct broker_item *item;    /* NULL: its outcome is told */
    bool settled;                /* confirmed, or refused */
    char *returned;              /* why it came back; NULL: it did not. Owned */
    uint64_t route, fingerprint; /* of exchange and key; and of all else */
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
    uint64_t return_route, return_left; /* bytes of its body to come */
    XXH64_state_t *return_hash;
    char return_why[RABBIT_WHY_MAX];
};

/* Nothing is in it. `window` as of broker_options. */
void rabbit_channel_init(struct rabbit_channel *channel, amqp_channel_t number, uint32_t window,
                         struct broker_thread *thread, struct publish_counts *counts);
void rabbit_channel_fini(struct rabbit_channel *channel); /* it holds no item */

/* It was opened: tags begin again. */
void rabbit_channel_opened(struct rabbit_channel *channel);
/* It was closed, or its connection: what is to become of all that is not confirmed, but for what
   came back, which has FAILED. */
void rabbit_channel_lost(struct rabbit_channel *channel, enum outcome_kind kind, const char *why);

/* May one more be published? */
bool rabbit_channel_has_room(const struct rabbit_channel *channel);
/* This message has been, or is about to be, published on it. */
void rabbit_channel_add(struct rabbit_channel *channel, struct broker_item *item,
                        const struct rabbit_message *message);
/* Its outcome is told, for its time is over; `item` is of this channel. */
void rabbit_channel_forget(struct broker_item *item);

/* A frame of this channel. False: RabbitMQ has closed it, and all has been told. */
bool rabbit_channel_take(struct rabbit_channel *channel, const amqp_frame_t *frame);

#endif
