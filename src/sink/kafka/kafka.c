/*
 * The plugin for Kafka: an idempotent producer of librdkafka on a broker_thread.
 *
 *     broker_take ▶ produce (copied; librdkafka batches, sends, sends again) ▶ delivery report
 *
 * A job is done when its report says PERSISTED without an error (acks=all). Each message has a
 * struct push, which lives until its report, and has an item until then or until the item's
 * deadline: so a late report finds that its item has ended.
 *
 *     AWAY ──metadata──▶ READY ──no broker answers──▶ AWAY
 *       ▲                  │
 *       └──── resting ◀────┴── fatal error: a new producer; messages under way are UNSENT
 *
 * librdkafka 2.0.2 does not recover from a fatal error (confluentinc/librdkafka#4438), and an
 * idempotent producer accepts no more messages after one: so the producer is replaced.
 */
#include <errno.h>
#include <librdkafka/rdkafka.h>
#include <poll.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/backoff.h"
#include "base/log.h"
#include "base/mem.h"
#include "sink/broker_thread.h"
#include "sink/broker_url.h"
#include "sink/fill.h"
#include "sink/headers.h"
#include "sink/plugin.h"

enum {
    TURN_MS = 100,              /* between checks of deadlines */
    PROBE_MS = 500,             /* time limit of a probe whether a broker answers */
    WINDOW_BYTES = 32 << 20,    /* bytes of bodies that librdkafka holds, about */
    BATCH_BYTES = 128 << 10,    /* of one request; one message may be longer */
    MESSAGE_BYTES = 1000000000, /* librdkafka's maximum: the broker's limit decides */
    TOPICS_MAX = 64,            /* topic handles that are kept */
    DRAIN_MS = 200,
    REST_MS = 100,
    REST_MAX_MS = 5000,
    SOCKET_MOST_MS = 300000, /* librdkafka's maximum */
    TEXT_BYTES = 512,
    NAME_BYTES = 256, /* of a topic; Kafka's have up to 249 */
    CAUSE_BYTES = 160,
    CAUSE_US = 60 * 1000 * 1000, /* then another cause may take its place: each is logged */
};

struct kafka {
    struct broker_options options;
    struct broker_thread *thread;
    rd_kafka_t *producer; /* NULL: there is none now */
    rd_kafka_queue_t *queue;
    int event_fd;
    char user[BROKER_WORD_BYTES], password[BROKER_WORD_BYTES]; /* of the producer, as SASL */
    bool ready, suspect; /* suspect: a connection failed; probe whether another broker answers */
    int64_t probe_at_us; /* AWAY: no probe before this time */
    char cause[CAUSE_BYTES]; /* why TLS or the log-in fails; empty: not known to */
    int64_t cause_us;        /* since when it is that */
    int64_t rest_ms;         /* how long to wait after the next failure of a producer */
    struct list pushes;      // push::place
    size_t bytes;            /* of all pushes */
    struct topic {
        rd_kafka_topic_t *handle;
        char name[NAME_BYTES];
    } topics[TOPICS_MAX];
    unsigned topic_count, topic_next;
};

/* A message that librdkafka has. */
struct push {
    struct list place;        // kafka::pushes
    struct broker_item *item; /* NULL: its outcome was reported */
    size_t bytes;
};

/* ---- configuration ---- */

static const struct broker_url_kind url_kind = {.plain = "kafka", .tls = "kafkas", .port = 9092};

struct setting {
    const char *name;
    const char *value;
};

static bool set_all(rd_kafka_conf_t *conf, const struct setting *settings, unsigned count,
                    char room[static TEXT_BYTES])
{
    for (unsigned i = 0; i < count; i++) {
        if (settings[i].value[0] && rd_kafka_conf_set(conf, settings[i].name, settings[i].value,
                                                      room, TEXT_BYTES) != RD_KAFKA_CONF_OK)
            return false;
    }
    return true;
}

static bool set_number(rd_kafka_conf_t *conf, const char *name, int64_t value,
                       char room[static TEXT_BYTES])
{
    char text[24];
    (void)snprintf(text, sizeof(text), "%lld", (long long)value);
    return rd_kafka_conf_set(conf, name, text, room, TEXT_BYTES) == RD_KAFKA_CONF_OK;
}

static bool set_numbers(rd_kafka_conf_t *conf, const struct broker_options *options,
                        char room[static TEXT_BYTES])
{
    int64_t timeout_ms = options->timeout_us / 1000;
    timeout_ms = timeout_ms < 1000 ? 1000 : timeout_ms;
    /* Half of the time-out, because a report comes some seconds after message.timeout.ms. */
    return set_number(conf, "message.timeout.ms", timeout_ms / 2 < 1000 ? 1000 : timeout_ms / 2,
                      room) &&
           set_number(conf, "socket.timeout.ms",
                      timeout_ms < SOCKET_MOST_MS ? timeout_ms : SOCKET_MOST_MS, room) &&
           set_number(conf, "socket.connection.setup.timeout.ms", timeout_ms, room) &&
           /* Well before the message's time-out, which would hide that the topic is missing. */
           set_number(conf, "topic.metadata.propagation.max.ms", timeout_ms / 8, room) &&
           set_number(conf, "queue.buffering.max.messages", 4 * (int64_t)options->window + 1000,
                      room) &&
           set_number(conf, "queue.buffering.max.kbytes", 2097151, room) &&
           set_number(conf, "message.max.bytes", MESSAGE_BYTES, room) &&
           set_number(conf, "batch.size", BATCH_BYTES, room);
}

/* The SASL mechanism of the URL; NULL: it names an unknown one, or has other options. */
static const char *mechanism_of(const struct broker_url *url)
{
    static const char *const all[] = {"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"};
    struct bytes asked = broker_url_option(url, BYTES("mechanism"));
    if (!url->query[0])
        return all[0];
    for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (bytes_eq(asked, bytes_str(all[i])) &&
            strlen(url->query) == strlen("mechanism=") + asked.len)
            return all[i];
    }
    return NULL;
}

static bool set_security(rd_kafka_conf_t *conf, const struct broker_options *options,
                         const struct broker_url *url, char room[static TEXT_BYTES])
{
    const char *mechanism = mechanism_of(url);
    if (!mechanism) {
        (void)snprintf(room, TEXT_BYTES,
                       "url: behind ? there may be mechanism=PLAIN, SCRAM-SHA-256 or "
                       "SCRAM-SHA-512, and nothing else");
        return false;
    }
    const char *protocol = url->user[0] ? url->tls ? "sasl_ssl" : "sasl_plaintext"
                           : url->tls   ? "ssl"
                                        : "plaintext";
    const struct setting settings[] = {
        {"security.protocol", protocol},
        {"sasl.mechanism", url->user[0] ? mechanism : ""},
        {"sasl.username", url->user},
        {"sasl.password", url->password},
        {"ssl.ca.location", url->tls ? options->ca : ""},
        {"ssl.certificate.location", url->tls ? options->certificate : ""},
        {"ssl.key.location", url->tls ? options->key : ""},
        {"ssl.endpoint.identification.algorithm", url->tls ? "https" : ""},
    };
    return set_all(conf, settings, sizeof(settings) / sizeof(settings[0]), room);
}

static void library_logs(const rd_kafka_t *producer, int level, const char *facility,
                         const char *text)
{
    (void)producer;
    (void)level;
    log_event(LOG_DEBUG, "kafka_library", "facility=%s text=\"%s\"", facility, text);
}

/* NULL: `room` says why. */
static rd_kafka_conf_t *make_conf(const struct broker_options *options,
                                  const struct broker_url *url, char room[static TEXT_BYTES])
{
    char hosts[BROKER_HOSTS_MAX * BROKER_HOST_BYTES];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    broker_url_hosts(url, hosts, sizeof(hosts));
    const struct setting settings[] = {
        {"bootstrap.servers", hosts},        {"client.id", "laterd"},
        {"enable.idempotence", "true"}, /* and with it acks=all */
        {"partitioner", "murmur2_random"},   {"linger.ms", "0.5"},
        {"reconnect.backoff.ms", "50"},      {"reconnect.backoff.max.ms", "1000"},
        {"socket.keepalive.enable", "true"}, {"log.connection.close", "false"},
    };
    room[0] = '\0';
    if (set_all(conf, settings, sizeof(settings) / sizeof(settings[0]), room) &&
        set_numbers(conf, options, room) && set_security(conf, options, url, room)) {
        rd_kafka_conf_set_log_cb(conf, library_logs);
        rd_kafka_conf_set_events(conf, RD_KAFKA_EVENT_DR | RD_KAFKA_EVENT_ERROR);
        return conf;
    }
    rd_kafka_conf_destroy(conf);
    return NULL;
}

/* ---- the producer ---- */

static void be_away(struct kafka *kafka, const char *why)
{
    kafka->ready = false;
    broker_set_ready(kafka->thread, false, why);
}

static void rest(struct kafka *kafka)
{
    kafka->probe_at_us = broker_now_us() + kafka->rest_ms * 1000;
    kafka->rest_ms = backoff_after(kafka->rest_ms, REST_MAX_MS);
}

/* False: it failed; the sink is not ready, with the reason. */
static bool open_producer(struct kafka *kafka)
{
    static const uint64_t one = 1;
    struct broker_url url;
    struct broker_url_error error;
    char room[TEXT_BYTES];
    if (broker_url_find(kafka->options.url, &url_kind, &url, &error)) {
        be_away(kafka, error.text);
        return false;
    }
    rd_kafka_conf_t *conf = make_conf(&kafka->options, &url, room);
    kafka->producer = conf ? rd_kafka_new(RD_KAFKA_PRODUCER, conf, room, sizeof(room)) : NULL;
    if (!kafka->producer) {
        if (conf)
            rd_kafka_conf_destroy(conf);
        be_away(kafka, room);
        return false;
    }
    memcpy(kafka->user, url.user, sizeof(url.user));
    memcpy(kafka->password, url.password, sizeof(url.password));
    kafka->queue = rd_kafka_queue_get_main(kafka->producer);
    rd_kafka_queue_io_event_enable(kafka->queue, kafka->event_fd, &one, sizeof(one));
    return true;
}

static void free_push(struct kafka *kafka, struct push *push)
{
    list_remove(&push->place);
    kafka->bytes -= push->bytes;
    mem_free(push);
}

/* True: the producer has had a fatal error, whose text is written to `room`. */
static bool is_broken(struct kafka *kafka, char room[static TEXT_BYTES])
{
    return kafka->producer && rd_kafka_fatal_error(kafka->producer, room, TEXT_BYTES);
}

/*
 * The file that the URL is in may have another password now: librdkafka takes it for its next
 * log-in. It is not given again what it has, because that makes it connect at once. That laterd
 * logs in at all is a setting of the producer, and stays.
 */
static void renew_user(struct kafka *kafka, const struct broker_url *url)
{
    bool same = strcmp(url->user, kafka->user) == 0 && strcmp(url->password, kafka->password) == 0;
    if (same || !kafka->user[0] || !url->user[0])
        return;
    rd_kafka_error_t *error =
        rd_kafka_sasl_set_credentials(kafka->producer, url->user, url->password);
    if (error) { /* not with a mechanism that mechanism_of() knows */
        rd_kafka_error_destroy(error);
        return;
    }
    memcpy(kafka->user, url->user, sizeof(url->user));
    memcpy(kafka->password, url->password, sizeof(url->password));
}

/* Probes whether any broker answers. May take PROBE_MS, during which nothing is sent: only called
   while no broker is known to answer. */
static void look_for_brokers(struct kafka *kafka)
{
    const struct rd_kafka_metadata *metadata = NULL;
    char reason[OUTCOME_REASON_MAX], hosts[OUTCOME_REASON_MAX / 2];
    struct broker_url url;
    struct broker_url_error error;
    bool found = !broker_url_find(kafka->options.url, &url_kind, &url, &error);
    if (found)
        renew_user(kafka, &url);
    rd_kafka_resp_err_t err = rd_kafka_metadata(kafka->producer, 0, NULL, &metadata, PROBE_MS);
    kafka->suspect = false;
    if (err == RD_KAFKA_RESP_ERR_NO_ERROR && metadata->broker_cnt > 0) {
        kafka->ready = true;
        kafka->cause[0] = '\0';
        broker_set_ready(kafka->thread, true, "");
    } else {
        hosts[0] = '\0';
        if (found)
            broker_url_hosts(&url, hosts, sizeof(hosts));
        if (broker_now_us() - kafka->cause_us > 2 * (int64_t)CAUSE_US)
            kafka->cause[0] = '\0'; /* it is another one now */
        (void)snprintf(reason, sizeof(reason), "no broker of Kafka answers at %.60s: %.140s", hosts,
                       kafka->cause[0] ? kafka->cause : rd_kafka_err2str(err));
        be_away(kafka, reason);
        kafka->probe_at_us = broker_now_us() + REST_MS * 1000;
    }
    if (metadata)
        rd_kafka_metadata_destroy(metadata);
}

/* ---- outcomes ---- */

/* True: Kafka refuses the producer, not just this message. */
static bool is_of_the_producer(struct kafka *kafka, rd_kafka_resp_err_t err)
{
    char ignored[TEXT_BYTES];
    return err == RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER ||
           err == RD_KAFKA_RESP_ERR_UNKNOWN_PRODUCER_ID ||
           err == RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH ||
           err == RD_KAFKA_RESP_ERR_PRODUCER_FENCED || is_broken(kafka, ignored);
}

static void report(struct kafka *kafka, struct broker_item *item, rd_kafka_resp_err_t err,
                   const char *text)
{
    const struct delivery *delivery = item->delivery;
    enum outcome_kind kind = OUTCOME_FAILED;
    char reason[OUTCOME_REASON_MAX];
    char topic[NAME_BYTES] = "";
    (void)sink_fill(delivery->target->kafka.topic, delivery, topic, sizeof(topic)); /* it was */
    (void)snprintf(reason, sizeof(reason), "Kafka refused it: %s", text);
    if (err == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE) {
        /* If a batch is too large, Kafka does not say which message is. */
        kind = delivery->body.len >= BATCH_BYTES ? OUTCOME_REFUSED : OUTCOME_FAILED;
    } else if (err == RD_KAFKA_RESP_ERR_INVALID_RECORD ||
               err == RD_KAFKA_RESP_ERR_INVALID_MSG_SIZE) {
        kind = OUTCOME_REFUSED;
    } else if (err == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC ||
               err == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART) {
        (void)snprintf(
            reason, sizeof(reason),
            "Kafka has no topic %.64s: create it with kafka-topics.sh --create --topic %.64s",
            topic, topic);
    } else if (err == RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION) {
        (void)snprintf(reason, sizeof(reason), "Kafka's topic %.64s has no partition %d", topic,
                       (int)delivery->target->kafka.partition);
    } else if (err == RD_KAFKA_RESP_ERR__MSG_TIMED_OUT || err == RD_KAFKA_RESP_ERR__TIMED_OUT) {
        kind = kafka->ready && !kafka->suspect ? OUTCOME_FAILED : OUTCOME_UNSENT;
        item->unhealthy = kind == OUTCOME_FAILED;
        (void)snprintf(reason, sizeof(reason), "%s",
                       item->unhealthy ? "Kafka did not confirm it in time"
                                       : "no broker of Kafka is there");
    } else if (err == RD_KAFKA_RESP_ERR__PURGE_QUEUE || err == RD_KAFKA_RESP_ERR__PURGE_INFLIGHT ||
               err == RD_KAFKA_RESP_ERR__FATAL || err == RD_KAFKA_RESP_ERR__QUEUE_FULL ||
               err == RD_KAFKA_RESP_ERR__TRANSPORT || err == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN) {
        kind = OUTCOME_UNSENT;
    } else if (is_of_the_producer(kafka, err)) {
        kind = OUTCOME_UNSENT;
        (void)snprintf(reason, sizeof(reason), "Kafka's producer has to begin again: %s", text);
    }
    broker_finish(kafka->thread, item, kind, reason);
}

/* Messages under way have handles of their own. */
static void drop_topic(struct kafka *kafka, unsigned i)
{
    rd_kafka_topic_destroy(kafka->topics[i].handle);
    kafka->topics[i] = kafka->topics[--kafka->topic_count];
}

/* The library caches that the topic is missing; with a new handle it asks again. */
static void forget_topic(struct kafka *kafka, const struct delivery *delivery)
{
    char name[NAME_BYTES] = "";
    (void)sink_fill(delivery->target->kafka.topic, delivery, name, sizeof(name)); /* it was */
    for (unsigned i = 0; i < kafka->topic_count; i++) {
        if (strcmp(kafka->topics[i].name, name) == 0) {
            drop_topic(kafka, i);
            return;
        }
    }
}

static void take_report(struct kafka *kafka, const rd_kafka_message_t *message)
{
    struct push *push = message->_private;
    struct broker_item *item = push->item;
    bool persisted =
        !message->err && rd_kafka_message_status(message) == RD_KAFKA_MSG_STATUS_PERSISTED;
    if (persisted)
        kafka->rest_ms = REST_MS; /* only now: brokers that answer may still refuse a producer */
    if (item) {
        item->user = NULL;
        if (message->err == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC)
            forget_topic(kafka, item->delivery);
        if (persisted)
            broker_finish(kafka->thread, item, OUTCOME_DELIVERED, "");
        else
            report(kafka, item, message->err,
                   message->err ? rd_kafka_err2str(message->err) : "it was not persisted");
    }
    free_push(kafka, push);
}

/* Notes why TLS or the log-in fails, which a probe alone would call a time-out: without what is
   another text each time, "(after 3ms in state …)", since each is logged. */
static void note_cause(struct kafka *kafka, rd_kafka_event_t *event)
{
    rd_kafka_resp_err_t err = rd_kafka_event_error(event);
    int64_t now_us = broker_now_us();
    if ((err != RD_KAFKA_RESP_ERR__SSL && err != RD_KAFKA_RESP_ERR__AUTHENTICATION) ||
        (kafka->cause[0] && now_us - kafka->cause_us < CAUSE_US))
        return;
    kafka->cause_us = now_us;
    (void)snprintf(kafka->cause, sizeof(kafka->cause), "%s", rd_kafka_event_error_string(event));
    char *more = strstr(kafka->cause, " (after ");
    if (more)
        *more = '\0';
    for (char *at = kafka->cause; *at; at++)
        *at = *at == '"' || (unsigned char)*at < ' ' ? '\'' : *at;
}

/* Handles the next event. False: there is none. */
static bool take_event(struct kafka *kafka)
{
    const rd_kafka_message_t *message;
    rd_kafka_event_t *event = rd_kafka_queue_poll(kafka->queue, 0);
    if (!event)
        return false;
    if (rd_kafka_event_type(event) == RD_KAFKA_EVENT_DR) {
        while ((message = rd_kafka_event_message_next(event)))
            take_report(kafka, message);
    } else if (rd_kafka_event_type(event) == RD_KAFKA_EVENT_ERROR) {
        log_event(LOG_DEBUG, "kafka_error", "name=%s error=\"%s\"", kafka->options.name,
                  rd_kafka_event_error_string(event));
        note_cause(kafka, event);
        kafka->suspect = true;
    }
    rd_kafka_event_destroy(event);
    return true;
}

/* Drops all its messages: their items must have ended before. May take DRAIN_MS. */
static void close_producer(struct kafka *kafka)
{
    if (!kafka->producer)
        return;
    int64_t until_us = broker_now_us() + DRAIN_MS * 1000;
    for (struct list *at = kafka->pushes.next; at != &kafka->pushes; at = at->next)
        LIST_ENTRY(at, struct push, place)->item = NULL;
    for (unsigned i = 0; i < kafka->topic_count; i++)
        rd_kafka_topic_destroy(kafka->topics[i].handle);
    kafka->topic_count = kafka->topic_next = 0;
    (void)rd_kafka_purge(kafka->producer, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT |
                                              RD_KAFKA_PURGE_F_NON_BLOCKING);
    while (!list_empty(&kafka->pushes) && broker_now_us() < until_us) {
        if (!take_event(kafka))
            (void)poll(NULL, 0, 1);
    }
    rd_kafka_queue_io_event_enable(kafka->queue, -1, NULL, 0);
    rd_kafka_queue_destroy(kafka->queue);
    rd_kafka_destroy(kafka->producer);
    kafka->producer = NULL;
    while (!list_empty(&kafka->pushes))
        free_push(kafka, LIST_ENTRY(kafka->pushes.next, struct push, place));
}

static void start_again(struct kafka *kafka, const char *why)
{
    char reason[OUTCOME_REASON_MAX];
    (void)snprintf(reason, sizeof(reason), "Kafka's producer has to begin again: %.150s", why);
    log_event(LOG_WARN, "kafka_restart", "name=%s error=\"%s\"", kafka->options.name, why);
    be_away(kafka, reason);
    broker_finish_all(kafka->thread, OUTCOME_UNSENT, reason);
    close_producer(kafka);
    rest(kafka);
}

/* ---- sending ---- */

/* The handle of the delivery's topic; NULL: not a valid topic name. */
static rd_kafka_topic_t *topic_of(struct kafka *kafka, const struct delivery *delivery)
{
    char name[NAME_BYTES];
    if (!sink_fill(delivery->target->kafka.topic, delivery, name, sizeof(name)) || !name[0])
        return NULL;
    for (unsigned i = 0; i < kafka->topic_count; i++) {
        if (strcmp(kafka->topics[i].name, name) == 0)
            return kafka->topics[i].handle;
    }
    if (kafka->topic_count == TOPICS_MAX)
        drop_topic(kafka, kafka->topic_next++ % TOPICS_MAX);
    struct topic *place = &kafka->topics[kafka->topic_count];
    memcpy(place->name, name, sizeof(place->name));
    place->handle = rd_kafka_topic_new(kafka->producer, place->name, NULL);
    if (place->handle)
        kafka->topic_count++;
    return place->handle;
}

static rd_kafka_headers_t *headers_of(const struct delivery *delivery)
{
    struct sink_headers headers;
    sink_headers_make(&headers, delivery);
    rd_kafka_headers_t *list = rd_kafka_headers_new(headers.count);
    for (unsigned i = 0; i < headers.count; i++) {
        struct bytes name = headers.all[i].name, value = headers.all[i].value;
        (void)rd_kafka_header_add(list, name.at, (ssize_t)name.len, value.len ? value.at : "",
                                  (ssize_t)value.len); /* fails only for read-only lists */
    }
    return list;
}

/* Gives a message to librdkafka. Returns NULL, or an error, to be destroyed: then it was not
   taken. */
static rd_kafka_error_t *hand_over(struct kafka *kafka, rd_kafka_topic_t *topic,
                                   const struct delivery *delivery, struct push *push)
{
    const struct target_kafka *kind = &delivery->target->kafka;
    rd_kafka_headers_t *headers = headers_of(delivery);
    struct bytes body = delivery->body, key = delivery->key;
    rd_kafka_vu_t words[] = {
        {.vtype = RD_KAFKA_VTYPE_RKT, .u.rkt = topic},
        {.vtype = RD_KAFKA_VTYPE_PARTITION,
         .u.i32 = kind->has_partition ? kind->partition : RD_KAFKA_PARTITION_UA},
        {.vtype = RD_KAFKA_VTYPE_MSGFLAGS, .u.i = RD_KAFKA_MSG_F_COPY},
        {.vtype = RD_KAFKA_VTYPE_VALUE,
         .u.mem = {.ptr = (void *)(uintptr_t)(body.len ? body.at : ""), .size = body.len}},
        {.vtype = RD_KAFKA_VTYPE_KEY,
         .u.mem = {.ptr = key.len ? (void *)(uintptr_t)key.at : NULL, .size = key.len}},
        {.vtype = RD_KAFKA_VTYPE_HEADERS, .u.headers = headers},
        {.vtype = RD_KAFKA_VTYPE_OPAQUE, .u.ptr = push},
    };
    rd_kafka_error_t *error =
        rd_kafka_produceva(kafka->producer, words, sizeof(words) / sizeof(words[0]));
    if (error)
        rd_kafka_headers_destroy(headers);
    return error;
}

static void produce(struct kafka *kafka, struct broker_item *item)
{
    const struct delivery *delivery = item->delivery;
    rd_kafka_topic_t *topic = topic_of(kafka, delivery);
    if (!topic) {
        broker_finish(kafka->thread, item, OUTCOME_REFUSED, "Kafka takes no such topic name");
        return;
    }
    struct push *push = mem_zalloc(sizeof(*push));
    push->item = item;
    push->bytes = delivery->body.len;
    kafka->bytes += push->bytes;
    list_add_tail(&kafka->pushes, &push->place);
    item->user = push;
    rd_kafka_error_t *error = hand_over(kafka, topic, delivery, push);
    if (!error)
        return;
    item->user = NULL;
    free_push(kafka, push);
    if (rd_kafka_error_code(error) == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC)
        forget_topic(kafka, delivery);
    report(kafka, item, rd_kafka_error_code(error), rd_kafka_error_string(error));
    rd_kafka_error_destroy(error);
}

static void take_items(struct kafka *kafka)
{
    struct broker_item *item;
    while (kafka->bytes < WINDOW_BYTES && (item = broker_take(kafka->thread))) {
        if (kafka->ready)
            produce(kafka, item);
        else
            broker_finish(kafka->thread, item, OUTCOME_UNSENT, "no broker of Kafka is there");
    }
}

/* Ends items whose deadline has passed; their reports will be ignored. */
static void report_late(struct kafka *kafka)
{
    struct broker_item *item;
    while ((item = broker_late(kafka->thread, broker_now_us()))) {
        struct push *push = item->user;
        if (push)
            push->item = NULL;
        report(kafka, item, RD_KAFKA_RESP_ERR__MSG_TIMED_OUT, "");
    }
}

/* ---- the thread ---- */

static void wait_for_events(struct kafka *kafka)
{
    eventfd_t ignored;
    bool full = kafka->bytes >= WINDOW_BYTES;
    struct pollfd fds[] = {
        {.fd = full ? -1 : broker_wake_fd(kafka->thread), .events = POLLIN},
        {.fd = kafka->event_fd, .events = POLLIN},
    };
    (void)poll(fds, 2, TURN_MS); /* an error counts as no event */
    (void)eventfd_read(kafka->event_fd, &ignored);
}

static void turn(struct kafka *kafka)
{
    char error[TEXT_BYTES];
    int64_t now_us = broker_now_us();
    if (!kafka->producer && now_us >= kafka->probe_at_us && !open_producer(kafka))
        rest(kafka);
    if (kafka->producer && (kafka->suspect || (!kafka->ready && now_us >= kafka->probe_at_us)))
        look_for_brokers(kafka);
    take_items(kafka);
    while (kafka->producer && take_event(kafka)) {
    }
    report_late(kafka);
    if (is_broken(kafka, error))
        start_again(kafka, error);
}

static void run(struct broker_thread *thread, void *user)
{
    struct kafka *kafka = user;
    int64_t until_us;
    kafka->thread = thread;
    while (!broker_closing(thread, &until_us)) {
        turn(kafka);
        wait_for_events(kafka);
    }
    while (kafka->producer && broker_pending(thread) && broker_now_us() < until_us) {
        while (take_event(kafka)) {
        }
        report_late(kafka);
        wait_for_events(kafka);
    }
    broker_finish_all(thread, OUTCOME_UNSENT, "laterd is ending");
    close_producer(kafka);
}

static void ended(void *user)
{
    struct kafka *kafka = user;
    if (kafka->event_fd >= 0)
        (void)close(kafka->event_fd);
    mem_free(kafka);
}

/* ---- the plugin ---- */

static enum err kafka_check(const struct broker_options *options, struct broker_error *out_error)
{
    struct broker_url url;
    struct broker_url_error error;
    char room[TEXT_BYTES];
    if (broker_url_check(options->url, &url_kind, &url, &error)) {
        (void)snprintf(out_error->text, sizeof(out_error->text), "%s", error.text);
        return ERR_INVALID;
    }
    rd_kafka_conf_t *conf = make_conf(options, &url, room);
    if (!conf) {
        (void)snprintf(out_error->text, sizeof(out_error->text), "%.230s", room);
        return ERR_INVALID;
    }
    rd_kafka_conf_destroy(conf);
    return OK;
}

static enum err kafka_open(const struct broker_options *options, struct sink **out_sink,
                           struct broker_error *out_error)
{
    enum err err = kafka_check(options, out_error);
    if (err)
        return err;
    struct kafka *kafka = mem_zalloc(sizeof(*kafka));
    kafka->options = *options;
    kafka->rest_ms = REST_MS;
    list_init(&kafka->pushes);
    kafka->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct sink *sink = kafka->event_fd < 0 ? NULL
                                            : broker_thread_open(&(struct broker_thread_options){
                                                  .loop = options->loop,
                                                  .name = options->name,
                                                  .window = options->window,
                                                  .user = kafka,
                                                  .run = run, /* waits PROBE_MS at most */
                                                  .ended = ended,
                                              });
    if (!sink) {
        (void)snprintf(out_error->text, sizeof(out_error->text), "no thread for it: %s",
                       strerror(errno));
        ended(kafka);
        return ERR_IO;
    }
    *out_sink = sink;
    return OK;
}

const struct plugin laterd_plugin = {
    .abi = PLUGIN_ABI,
    .version = LATERD_VERSION,
    .type = TARGET_KAFKA,
    .library = "librdkafka",
    .check = kafka_check,
    .open = kafka_open,
};
