/*
 * Internal declarations of the target codec: target_codec.c has the object, target_http.c and
 * target_broker.c the fields of each type. Other code includes target_codec.h.
 */
#ifndef LATERD_PROTO_SETTINGS_TARGET_PARTS_H
#define LATERD_PROTO_SETTINGS_TARGET_PARTS_H

#include "core/target.h"
#include "proto/settings/settings_reader.h"

enum { TARGET_WORD_MAX = 255 }; /* bytes; of a broker: names of exchanges, topics, keys */

/* A type of target. Its fields are read into the struct target. */
struct target_kind {
    const struct settings_field *fields;
    size_t field_count;
    /* Checks that the fields do not contradict each other. False: refused. */
    bool (*fits)(struct settings_reader *reader, const struct target *target);
    /* Appends its own fields: not type, broker and headers. */
    void (*write)(const struct target *target, struct buf *out);
};

extern const struct target_kind target_http_kind, target_amqp_kind, target_kafka_kind,
    target_nats_kind, target_redis_kind;

/* The fields that every type has, and their readers. */
#define TARGET_COMMON_FIELDS                                                                       \
    {"type", target_pass_type},                                                                    \
    {                                                                                              \
        "headers", target_read_headers                                                             \
    }
bool target_pass_type(struct settings_reader *reader); /* it was read before all others */
bool target_read_headers(struct settings_reader *reader);

/* Refuses the target because of a missing field; for `return`. */
bool target_missing(struct settings_reader *reader, const char *detail);
/* Refuses the target for lack of this field. The reader reads nothing more. */
bool target_missing_field(struct settings_reader *reader, const char *field, const char *detail);
/* A word of 1 to bytes_max bytes without control characters. */
bool target_read_word(struct settings_reader *reader, size_t bytes_max, struct bytes *out_word);
bool target_read_url(struct settings_reader *reader); /* target_http::url */
/* "key":"text", unless it is empty. */
void target_add_given(struct buf *out, const char *key, struct bytes text);

#endif
