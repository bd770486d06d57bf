/* The fields of targets that are brokers: each has its reader here, and its rule. */
#include "base/ascii.h"
#include "proto/settings/target_parts.h"

enum {
    BROKER_MAX = 64,       /* bytes of [broker.NAME] */
    KAFKA_TOPIC_MAX = 249, /* Kafka's own limit */
    REDIS_KEY_MAX = 512,
};

static struct target *of(struct settings_reader *reader)
{
    return reader->into;
}

static bool read_broker(struct settings_reader *reader)
{
    struct bytes name;
    if (!settings_text(reader, BROKER_MAX, &name))
        return false;
    for (size_t i = 0; i < name.len; i++) {
        char c = name.at[i];
        if (!ascii_is_letter(c) && !ascii_is_digit(c) && c != '-' && c != '_' && c != '.')
            return settings_bad(reader, "a broker's name has letters, digits, dashes, dots and _");
    }
    of(reader)->broker = name;
    return name.len > 0 || settings_bad(reader, "this is the NAME of a [broker.NAME] section");
}

static bool read_amqp_word(struct settings_reader *reader, struct bytes *out_word)
{
    struct bytes word;
    if (!settings_text(reader, TARGET_WORD_MAX, &word)) /* a short string of AMQP */
        return false;
    if (!bytes_is_printable(word))
        return settings_bad(reader, "this has control characters");
    *out_word = word;
    return true;
}

static bool read_exchange(struct settings_reader *reader)
{
    return read_amqp_word(reader, &of(reader)->amqp.exchange);
}

static bool read_routing_key(struct settings_reader *reader)
{
    return read_amqp_word(reader, &of(reader)->amqp.routing_key);
}

static bool read_kafka_topic(struct settings_reader *reader)
{
    struct bytes *topic = &of(reader)->kafka.topic;
    if (!target_read_word(reader, KAFKA_TOPIC_MAX, topic))
        return false;
    for (size_t i = 0; i < topic->len; i++) {
        char c = topic->at[i];
        if (!ascii_is_letter(c) && !ascii_is_digit(c) && !strchr("._-{}", c))
            return settings_bad(reader, "a topic of Kafka has letters, digits, dots, dashes and _");
    }
    return true;
}

static bool read_partition(struct settings_reader *reader)
{
    int64_t number;
    if (!settings_number(reader, 0, INT32_MAX, &number))
        return false;
    of(reader)->kafka.has_partition = true;
    of(reader)->kafka.partition = (int32_t)number;
    return true;
}

static bool read_subject(struct settings_reader *reader)
{
    struct bytes *subject = &of(reader)->nats.subject;
    if (!target_read_word(reader, TARGET_WORD_MAX, subject))
        return false;
    for (size_t i = 0; i < subject->len; i++) {
        if (strchr(" *>", subject->at[i]))
            return settings_bad(reader, "a subject to publish to has no blanks, * or >");
    }
    return true;
}

static const char *const redis_kinds[] = {
    [TARGET_REDIS_STREAM] = "stream", [TARGET_REDIS_LIST] = "list", NULL};

static bool read_redis_kind(struct settings_reader *reader)
{
    unsigned place;
    if (!settings_word(reader, redis_kinds, &place))
        return false;
    of(reader)->redis.kind = (enum target_redis_kind)place;
    return true;
}

static bool read_redis_key(struct settings_reader *reader)
{
    return target_read_word(reader, REDIS_KEY_MAX, &of(reader)->redis.key);
}

static bool read_maxlen(struct settings_reader *reader)
{
    int64_t number;
    if (!settings_number(reader, 1, INT64_C(1) << 53, &number))
        return false;
    of(reader)->redis.maxlen = (uint64_t)number;
    return true;
}

static const struct settings_field amqp_fields[] = {TARGET_COMMON_FIELDS,
                                                    {"broker", read_broker},
                                                    {"exchange", read_exchange},
                                                    {"routing_key", read_routing_key}};
static const struct settings_field kafka_fields[] = {TARGET_COMMON_FIELDS,
                                                     {"broker", read_broker},
                                                     {"topic", read_kafka_topic},
                                                     {"partition", read_partition}};
static const struct settings_field nats_fields[] = {
    TARGET_COMMON_FIELDS, {"broker", read_broker}, {"subject", read_subject}};
static const struct settings_field redis_fields[] = {TARGET_COMMON_FIELDS,
                                                     {"broker", read_broker},
                                                     {"kind", read_redis_kind},
                                                     {"key", read_redis_key},
                                                     {"maxlen", read_maxlen}};

/* ---- which fields there must be ---- */

static bool amqp_fits(struct settings_reader *reader, const struct target *target)
{
    return target->amqp.exchange.len > 0 || target->amqp.routing_key.len > 0 ||
           target_missing(reader, "give the exchange, the routing_key, or both; without an "
                                  "exchange the routing key is a queue's name");
}

static bool kafka_fits(struct settings_reader *reader, const struct target *target)
{
    return target->kafka.topic.len > 0 || target_missing(reader, "this target needs topic");
}

static bool nats_fits(struct settings_reader *reader, const struct target *target)
{
    return target->nats.subject.len > 0 || target_missing(reader, "this target needs subject");
}

static bool redis_fits(struct settings_reader *reader, const struct target *target)
{
    if (target->redis.kind == TARGET_REDIS_LIST && target->redis.maxlen)
        return settings_bad(reader, "maxlen is for streams alone");
    return target->redis.key.len > 0 || target_missing(reader, "this target needs key");
}

/* ---- writing ---- */

static void write_amqp(const struct target *target, struct buf *out)
{
    target_add_given(out, "exchange", target->amqp.exchange);
    target_add_given(out, "routing_key", target->amqp.routing_key);
}

static void write_kafka(const struct target *target, struct buf *out)
{
    settings_add_text(out, "topic", target->kafka.topic);
    if (target->kafka.has_partition)
        settings_add_number(out, "partition", target->kafka.partition);
}

static void write_nats(const struct target *target, struct buf *out)
{
    settings_add_text(out, "subject", target->nats.subject);
}

static void write_redis(const struct target *target, struct buf *out)
{
    settings_add_text(out, "kind", bytes_str(redis_kinds[target->redis.kind]));
    settings_add_text(out, "key", target->redis.key);
    if (target->redis.maxlen)
        settings_add_number(out, "maxlen", (int64_t)target->redis.maxlen);
}

/* ---- the types ---- */

#define FIELDS(array) .fields = (array), .field_count = sizeof(array) / sizeof((array)[0])

const struct target_kind target_amqp_kind = {FIELDS(amqp_fields), .fits = amqp_fits,
                                             .write = write_amqp};
const struct target_kind target_kafka_kind = {FIELDS(kafka_fields), .fits = kafka_fits,
                                              .write = write_kafka};
const struct target_kind target_nats_kind = {FIELDS(nats_fields), .fits = nats_fits,
                                             .write = write_nats};
const struct target_kind target_redis_kind = {FIELDS(redis_fields), .fits = redis_fits,
                                              .write = write_redis};
