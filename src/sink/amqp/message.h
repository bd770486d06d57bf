/*
 * Makes an AMQP 0-9-1 message of a delivery, and encodes a message that came by [amqp_in.NAME], to
 * be kept with its job (delivery::amqp, job_properties::amqp):
 *
 *     byte 1 | length, exchange | length, routing key | properties as AMQP has them on the wire
 *
 * Lengths are one byte; the properties begin with their flags. So they are sent on exactly as they
 * came, including the types of headers.
 */
#ifndef LATERD_SINK_AMQP_MESSAGE_H
#define LATERD_SINK_AMQP_MESSAGE_H

#include <amqp.h>
#include <amqp_framing.h>

#include "port/sink.h"
#include "sink/headers.h"

enum { RABBIT_NAME_MAX = 255, RABBIT_PROPERTIES_MAX = 64 * 1024 };

/* Does not move: it points into itself, and into the pool and the delivery. */
struct rabbit_message {
    amqp_bytes_t exchange, key, body;
    amqp_basic_properties_t properties;
    struct bytes encoded; /* the properties as on the wire */
    struct sink_headers headers;
    char exchange_room[RABBIT_NAME_MAX], key_room[RABBIT_NAME_MAX];
    char encoded_room[RABBIT_PROPERTIES_MAX];
};

/*
 * Memory comes from the pool, which must stay until the message was sent. False: it can never be
 * sent; `why` is a clause.
 */
bool rabbit_message_make(struct rabbit_message *out, const struct delivery *delivery,
                         amqp_pool_t *pool, char *why, size_t why_bytes);

/* Appends the encoding of a message. False: it cannot be encoded. */
bool rabbit_keep(struct bytes exchange, struct bytes key, const amqp_basic_properties_t *properties,
                 struct buf *out);

/* Decodes that. False: not made by rabbit_keep(). Results borrow from `kept` and the pool. */
bool rabbit_kept_read(struct bytes kept, amqp_pool_t *pool, amqp_bytes_t *out_exchange,
                      amqp_bytes_t *out_key, amqp_basic_properties_t *out_properties);

#endif
