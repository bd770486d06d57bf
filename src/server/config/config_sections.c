/* The named sections, [broker.NAME] and [amqp_in.NAME]: their keys, entries and checks. */
#include <stddef.h>
#include <stdio.h>

#include "base/ascii.h"
#include "base/check.h"
#include "server/config/config_parts.h"

#define BROKER_NUMBER(field)  CONFIG_NUMBER(struct config_broker, field)
#define BROKER_WORD(field)    CONFIG_WORD(struct config_broker, field)
#define AMQP_IN_NUMBER(field) CONFIG_NUMBER(struct config_amqp_in, field)
#define AMQP_IN_WORD(field)   CONFIG_WORD(struct config_amqp_in, field)

static const struct config_key broker_keys[] = {
    {"broker", "type", KIND_BROKER_TYPE, offsetof(struct config_broker, type), 0, 0, "amqp",
     "Must be given: amqp, kafka, nats or redis."},
    {"broker", "url", KIND_SECRET, BROKER_WORD(url), 0, 0, "amqp://guest:guest@127.0.0.1:5672/%2f",
     "Must be given. Where it is: amqp://user:password@host:port/vhost, "
     "kafka://host:port,host:port, nats://host:port or redis://host:port/db; over TLS amqps, "
     "kafkas, nats+tls or rediss. $NAME is the environment's variable, file:/PATH the first line "
     "of a file."},
    {"broker", "ca", KIND_WORD, BROKER_WORD(ca), 0, 0, "",
     "Over TLS: the file of the authorities that its certificate may come from. If this is empty "
     "they are those of the system."},
    {"broker", "certificate", KIND_WORD, BROKER_WORD(certificate), 0, 0, "",
     "The file of the certificate by which laterd proves who it is."},
    {"broker", "key", KIND_WORD, BROKER_WORD(key), 0, 0, "", "The file of its key, not encrypted."},
    {"broker", "window", KIND_COUNT, BROKER_NUMBER(window), 1, 65535, "1000",
     "Messages that it has not confirmed yet, at most."},
    {"broker", "heartbeat", KIND_SECONDS, BROKER_NUMBER(heartbeat_us), 1000000,
     (int64_t)3600 * 1000000, "10s",
     "amqp and nats: a connection from which nothing comes for twice as long is given up."},
    {"broker", "timeout", KIND_SECONDS, BROKER_NUMBER(timeout_us), 100000, (int64_t)600 * 1000000,
     "10s",
     "To connect and to log in, and for answers of the connection itself. A message may be "
     "unconfirmed for push.timeout, with kafka for half of this if that is shorter."},
};

static const struct config_key amqp_in_keys[] = {
    {"amqp_in", "broker", KIND_NAME, offsetof(struct config_amqp_in, broker), 0, 0, "",
     "Must be given: the NAME of a [broker.NAME] of type amqp. There the queue is, and there the "
     "messages go when they are due."},
    {"amqp_in", "queue", KIND_WORD, AMQP_IN_WORD(queue), 0, 0, "",
     "Must be given: the queue that laterd consumes. It must be there."},
    {"amqp_in", "prefetch", KIND_COUNT, AMQP_IN_NUMBER(prefetch), 1, 65535, "500",
     "Messages that are being stored, at most."},
    {"amqp_in", "target", KIND_WORD, AMQP_IN_WORD(target), 0, 0, "<exchange>.due",
     "The exchange that a message goes to when it is due; <exchange> is the one that it was "
     "published to."},
    {"amqp_in", "topic", KIND_WORD, AMQP_IN_WORD(topic), 0, 0, "amqp",
     "The topic of the jobs that the messages become."},
};

const struct config_section config_sections[] = {
    {.word = "broker",
     .key = broker_keys,
     .key_count = sizeof(broker_keys) / sizeof(broker_keys[0]),
     .entries = offsetof(struct config, brokers),
     .count = offsetof(struct config, broker_count),
     .entry_bytes = sizeof(struct config_broker),
     .most = CONFIG_BROKERS_MAX,
     .help = "A broker that jobs are sent to when they are due; one section for each. A topic's "
             "target names it."},
    {.word = "amqp_in",
     .key = amqp_in_keys,
     .key_count = sizeof(amqp_in_keys) / sizeof(amqp_in_keys[0]),
     .entries = offsetof(struct config, amqp_ins),
     .count = offsetof(struct config, amqp_in_count),
     .entry_bytes = sizeof(struct config_amqp_in),
     .most = CONFIG_AMQP_IN_MAX,
     .help = "A queue of RabbitMQ whose messages wait here until their x-delay is over; one "
             "section for each."},
};
const unsigned config_section_count = sizeof(config_sections) / sizeof(config_sections[0]);

/* The place of an entry, to be written to: one behind the last is for a new one. */
static char *entry_at(struct config *config, const struct config_section *section, unsigned number)
{
    return (char *)config + section->entries + number * section->entry_bytes;
}

const struct config_section *config_section_find(struct bytes name)
{
    const char *stop = name.len ? memchr(name.at, '.', name.len) : NULL;
    struct bytes word = stop ? bytes_of(name.at, (size_t)(stop - name.at)) : name;
    for (unsigned i = 0; i < config_section_count; i++) {
        if (bytes_eq(bytes_str(config_sections[i].word), word))
            return &config_sections[i];
    }
    return NULL;
}

/* Letters, digits, - and _: a name stands in URLs, metrics and logs. */
static bool is_name(struct bytes name)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.at[i];
        if (!ascii_is_letter(c) && !ascii_is_digit(c) && c != '-' && c != '_')
            return false;
    }
    return name.len > 0 && name.len < CONFIG_NAME_MAX;
}

bool config_section_add(struct config *config, const struct config_section *section,
                        struct bytes name, struct config_place place, struct config_error *error)
{
    unsigned count = config_entry_count(config, section);
    struct config_named named = {.place = place};
    const char *word = section->word;
    if (!is_name(name)) {
        (void)snprintf(error->text, sizeof(error->text),
                       "[%s.NAME]: the name must be 1 to %d letters, digits, - or _", word,
                       CONFIG_NAME_MAX - 1);
        return false;
    }
    for (unsigned i = 0; i < count; i++) {
        struct config_named other;
        memcpy(&other, config_entry(config, section, i), sizeof(other));
        if (!bytes_eq(bytes_str(other.name), name))
            continue;
        (void)snprintf(error->text, sizeof(error->text), "[%s.%s] is there already, in line %u",
                       word, other.name, other.place.line);
        return false;
    }
    if (count == section->most) {
        (void)snprintf(error->text, sizeof(error->text), "more than %u sections [%s.NAME]",
                       section->most, word);
        return false;
    }
    char *entry = entry_at(config, section, count);
    memset(entry, 0, section->entry_bytes);
    memcpy(named.name, name.at, name.len);
    memcpy(entry, &named, sizeof(named));
    count++;
    memcpy((char *)config + section->count, &count, sizeof(count));
    for (unsigned i = 0; i < section->key_count; i++) {
        const struct config_key *key = &section->key[i];
        bool must_be_given = key->kind == KIND_BROKER_TYPE || key->kind == KIND_SECRET;
        bool good = must_be_given || !key->initial[0] ||
                    config_section_set(config, section, key, key->initial);
        CHECK(good);
    }
    return true;
}

const char *config_broker_type(enum target_type type)
{
    return type == TARGET_NONE || type == TARGET_HTTP ? NULL : target_type_name(type);
}

static bool set_type(char *at, const char *value)
{
    for (enum target_type type = 0; type < TARGET_TYPES; type++) {
        const char *name = config_broker_type(type);
        if (!name || strcmp(name, value) != 0)
            continue;
        memcpy(at, &type, sizeof(type));
        return true;
    }
    return false;
}

bool config_section_set(struct config *config, const struct config_section *section,
                        const struct config_key *key, const char *value)
{
    char *entry = entry_at(config, section, config_entry_count(config, section) - 1);
    if (key->kind == KIND_BROKER_TYPE)
        return set_type(entry + key->at, value);
    if (key->kind != KIND_NAME)
        return config_set_field(entry, key, value);
    if (!is_name(bytes_str(value)))
        return false;
    memcpy(entry + key->at, value, strlen(value) + 1);
    return true;
}

const struct config_broker *config_broker(const struct config *config, struct bytes name)
{
    for (unsigned i = 0; i < config->broker_count; i++) {
        if (bytes_eq(bytes_str(config->brokers[i].named.name), name))
            return &config->brokers[i];
    }
    return NULL;
}

static bool lacks(const struct config_named *named, const char *word, const char *what,
                  struct config_error *error)
{
    (void)snprintf(error->text, sizeof(error->text), "%s[%s.%s] %s",
                   config_place_text(named->place).text, word, named->name, what);
    return false;
}

static bool check_amqp_in(const struct config *config, const struct config_amqp_in *in,
                          struct config_error *error)
{
    const struct config_broker *broker = config_broker(config, bytes_str(in->broker));
    if (!in->broker[0])
        return lacks(&in->named, "amqp_in", "lacks broker = the NAME of a [broker.NAME]", error);
    if (!broker)
        return lacks(&in->named, "amqp_in",
                     "names a broker that there is no section [broker.NAME] for", error);
    if (broker->type != TARGET_AMQP)
        return lacks(&in->named, "amqp_in", "names a broker whose type is not amqp", error);
    if (!in->queue[0])
        return lacks(&in->named, "amqp_in", "lacks queue = the queue to consume", error);
    if (strlen(in->topic) > TOPIC_NAME_MAX || !bytes_is_utf8(bytes_str(in->topic)))
        return lacks(&in->named, "amqp_in",
                     "has a topic that is longer than 200 bytes, or not UTF-8", error);
    if (!in->topic[0] || !in->target[0])
        return lacks(&in->named, "amqp_in", "has an empty topic or target", error);
    return true;
}

bool config_sections_check(const struct config *config, struct config_error *error)
{
    for (unsigned i = 0; i < config->broker_count; i++) {
        const struct config_broker *broker = &config->brokers[i];
        if (broker->type == TARGET_NONE)
            return lacks(&broker->named, "broker", "lacks type = amqp, kafka, nats or redis",
                         error);
        if (!broker->url[0])
            return lacks(&broker->named, "broker", "lacks url = where it is", error);
    }
    for (unsigned i = 0; i < config->amqp_in_count; i++) {
        if (!check_amqp_in(config, &config->amqp_ins[i], error))
            return false;
    }
    return true;
}

void config_sections_print(struct buf *out)
{
    for (unsigned i = 0; i < config_section_count; i++) {
        const struct config_section *section = &config_sections[i];
        buf_addf(out, "\n");
        config_print_help(out, section->help);
        buf_addf(out, ";[%s.NAME]\n", section->word);
        for (unsigned k = 0; k < section->key_count; k++)
            config_print_key(out, &section->key[k]);
    }
}
