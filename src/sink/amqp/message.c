#include "sink/amqp/message.h"

#include <stdio.h>

#include "sink/fill.h"

enum { KEPT_VERSION = 1 };

/* The property flags of the class basic. The lowest bit would say that more flags follow. */
static const amqp_flags_t KNOWN_FLAGS = 0xfffc;

/* librabbitmq reads them only. */
static amqp_bytes_t amqp_of(struct bytes bytes)
{
    return (amqp_bytes_t){.len = bytes.len, .bytes = (void *)(uintptr_t)bytes.at};
}

static amqp_bytes_t amqp_text(const char *text)
{
    return amqp_of(bytes_str(text));
}

/* ---- what is kept ---- */

static bool add_name(struct buf *out, struct bytes name)
{
    if (name.len > RABBIT_NAME_MAX)
        return false;
    buf_add_char(out, (char)name.len);
    buf_add_bytes(out, name);
    return true;
}

bool rabbit_keep(struct bytes exchange, struct bytes key, const amqp_basic_properties_t *properties,
                 struct buf *out)
{
    size_t before = out->len;
    buf_add_char(out, KEPT_VERSION);
    bool good = add_name(out, exchange) && add_name(out, key);
    buf_reserve(out, RABBIT_PROPERTIES_MAX);
    amqp_bytes_t room = {.len = RABBIT_PROPERTIES_MAX, .bytes = out->at + out->len};
    int len =
        good ? amqp_encode_properties(AMQP_BASIC_CLASS, (void *)(uintptr_t)properties, room) : -1;
    if (len < 0) {
        out->len = before;
        return false;
    }
    out->len += (size_t)len;
    return true;
}

static bool take_name(struct bytes *kept, amqp_bytes_t *out)
{
    size_t len = kept->len ? (unsigned char)kept->at[0] : 0;
    if (kept->len < 1 + len)
        return false;
    *out = amqp_of(bytes_of(kept->at + 1, len));
    *kept = bytes_of(kept->at + 1 + len, kept->len - 1 - len);
    return true;
}

bool rabbit_kept_read(struct bytes kept, amqp_pool_t *pool, amqp_bytes_t *out_exchange,
                      amqp_bytes_t *out_key, amqp_basic_properties_t *out_properties)
{
    void *decoded;
    amqp_bytes_t exchange, key;
    if (kept.len < 1 || kept.at[0] != KEPT_VERSION)
        return false;
    kept = bytes_of(kept.at + 1, kept.len - 1);
    if (!take_name(&kept, &exchange) || !take_name(&kept, &key) || kept.len < 2 ||
        amqp_decode_properties(AMQP_BASIC_CLASS, pool, amqp_of(kept), &decoded) < 0)
        return false;
    *out_exchange = exchange;
    *out_key = key;
    *out_properties = *(amqp_basic_properties_t *)decoded;
    return !(out_properties->_flags & ~KNOWN_FLAGS);
}

/* ---- what is sent ---- */

/* `text` with {topic} and {key} filled in. False: it would be longer than a name may be. */
static bool fill_name(struct bytes text, const struct delivery *delivery,
                      char room[RABBIT_NAME_MAX], amqp_bytes_t *out)
{
    size_t len;
    if (!sink_fill_bytes(text, delivery, room, RABBIT_NAME_MAX, &len))
        return false;
    *out = amqp_of(bytes_of(room, len));
    return true;
}

/* Of a job that was pushed to laterd. False: there is no memory. */
static bool set_properties(struct rabbit_message *message, const struct delivery *delivery,
                           amqp_pool_t *pool)
{
    struct sink_headers *headers = &message->headers;
    sink_headers_make(headers, delivery);
    amqp_table_entry_t *entries =
        amqp_pool_alloc(pool, headers->count * sizeof(amqp_table_entry_t));
    struct bytes content_type = sink_content_type(delivery);
    int count = 0;
    if (!entries)
        return false;
    for (unsigned i = 0; i < headers->count; i++) {
        const struct target_header *header = &headers->all[i];
        if (bytes_eq_nocase(header->name, BYTES("content-type"))) {
            content_type = header->value; /* the last one: the job's */
            continue;
        }
        entries[count++] = (amqp_table_entry_t){
            .key = amqp_of(header->name),
            .value = {.kind = AMQP_FIELD_KIND_UTF8, .value.bytes = amqp_of(header->value)}};
    }
    message->properties = (amqp_basic_properties_t){
        ._flags = AMQP_BASIC_CONTENT_TYPE_FLAG | AMQP_BASIC_HEADERS_FLAG |
                  AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_MESSAGE_ID_FLAG |
                  AMQP_BASIC_TIMESTAMP_FLAG | AMQP_BASIC_APP_ID_FLAG,
        .content_type = amqp_of(content_type),
        .headers = {.num_entries = count, .entries = entries},
        .delivery_mode = AMQP_DELIVERY_PERSISTENT,
        .message_id = amqp_of(delivery->message_id),
        .timestamp = delivery->due_us > 0 ? (uint64_t)delivery->due_us / 1000000 : 0,
        .app_id = amqp_text("laterd"),
    };
    return true;
}

static bool has_long_name(const amqp_table_t *table)
{
    for (int i = 0; i < table->num_entries; i++) {
        if (table->entries[i].key.len > RABBIT_NAME_MAX)
            return true;
    }
    return false;
}

static bool encode(struct rabbit_message *message, char *why, size_t why_bytes)
{
    amqp_basic_properties_t *properties = &message->properties;
    amqp_bytes_t room = {.len = sizeof(message->encoded_room), .bytes = message->encoded_room};
    bool has_headers = properties->_flags & AMQP_BASIC_HEADERS_FLAG;
    bool bad = properties->content_type.len > RABBIT_NAME_MAX ||
               (has_headers && has_long_name(&properties->headers));
    int len = bad ? -1 : amqp_encode_properties(AMQP_BASIC_CLASS, properties, room);
    if (len < 0) {
        (void)snprintf(why, why_bytes,
                       "content type or a header's name is longer than %d bytes, or the headers "
                       "together than %d",
                       RABBIT_NAME_MAX, RABBIT_PROPERTIES_MAX);
        return false;
    }
    message->encoded = bytes_of(message->encoded_room, (size_t)len);
    return true;
}

bool rabbit_message_make(struct rabbit_message *out, const struct delivery *delivery,
                         amqp_pool_t *pool, char *why, size_t why_bytes)
{
    const struct target_amqp *target = &delivery->target->amqp;
    out->body = amqp_of(delivery->body);
    if (delivery->amqp.len) {
        if (!rabbit_kept_read(delivery->amqp, pool, &out->exchange, &out->key, &out->properties)) {
            (void)snprintf(why, why_bytes, "its stored AMQP properties are damaged");
            return false;
        }
        return encode(out, why, why_bytes);
    }
    if (!fill_name(target->exchange, delivery, out->exchange_room, &out->exchange) ||
        !fill_name(target->routing_key, delivery, out->key_room, &out->key)) {
        (void)snprintf(why, why_bytes, "exchange or routing key is longer than %d bytes",
                       RABBIT_NAME_MAX);
        return false;
    }
    if (!set_properties(out, delivery, pool)) {
        (void)snprintf(why, why_bytes, "there is no memory for its headers");
        return false;
    }
    return encode(out, why, why_bytes);
}
