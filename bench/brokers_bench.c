/*
 * The sinks for RabbitMQ, Kafka and NATS beside bare publishers of the same libraries, in one run:
 * messages of 200 bytes, as many under way, each confirmed.
 *
 *   brokers_bench amqp PLUGIN.so URL PID    against a RabbitMQ that has a durable queue bench
 *   brokers_bench kafka PLUGIN.so           against librdkafka's mock cluster, in this process
 *   brokers_bench nats PLUGIN.so URL        against a nats-server whose stream BENCH has bench.>
 *
 * They take turns. Prints the best messages a second and the least processor time for one of each,
 * and the median of the turns' ratios. Nothing of laterd's queue takes part.
 *
 * RabbitMQ itself is the bound, and what a message has besides its body costs it a quarter more. So
 * there are two bare publishers: one of messages as the sink makes them, and a plain one. PID is
 * RabbitMQ's: its own processor time per message is shown beside each.
 */
#include <amqp.h>
#include <amqp_tcp_socket.h>
#include <dlfcn.h>
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <nats/nats.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/list.h"
#include "base/log.h"
#include "os/clock.h"
#include "os/loop.h"
#include "sink/broker_thread.h"
#include "sink/plugin.h"

enum { MESSAGES = 50000, WINDOW = 1000, MESSAGE_BYTES = 200, ROUNDS = 7 };

static char body[MESSAGE_BYTES];

static void fail(const char *what)
{
    (void)fprintf(stderr, "brokers_bench: %s\n", what);
    exit(1);
}

static double per_second(int64_t begun_us)
{
    return MESSAGES * 1e6 / (double)(broker_now_us() - begun_us);
}

/* ---- bare ---- */

static double bare_kafka(const char *brokers)
{
    char error[512];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    (void)rd_kafka_conf_set(conf, "bootstrap.servers", brokers, error, sizeof(error));
    (void)rd_kafka_conf_set(conf, "enable.idempotence", "true", error, sizeof(error));
    (void)rd_kafka_conf_set(conf, "linger.ms", "0.5", error, sizeof(error));
    rd_kafka_conf_set_events(conf, RD_KAFKA_EVENT_DR);
    rd_kafka_t *producer = rd_kafka_new(RD_KAFKA_PRODUCER, conf, error, sizeof(error));
    rd_kafka_queue_t *queue = rd_kafka_queue_get_main(producer);
    rd_kafka_topic_t *topic = rd_kafka_topic_new(producer, "bench", NULL);
    int64_t begun_us = broker_now_us();
    for (int sent = 0, done = 0; done < MESSAGES;) {
        while (sent < MESSAGES && sent - done < WINDOW) {
            if (rd_kafka_produce(topic, RD_KAFKA_PARTITION_UA, RD_KAFKA_MSG_F_COPY, body,
                                 sizeof(body), "key", 3, NULL))
                fail("bare producer");
            sent++;
        }
        rd_kafka_event_t *event = rd_kafka_queue_poll(queue, 100);
        done += event ? (int)rd_kafka_event_message_count(event) : 0;
        rd_kafka_event_destroy(event);
    }
    double rate = per_second(begun_us);
    rd_kafka_topic_destroy(topic);
    rd_kafka_queue_destroy(queue);
    rd_kafka_destroy(producer);
    return rate;
}

static atomic_int acknowledged;

static void on_ack(jsCtx *stream, natsMsg *message, jsPubAck *ack, jsPubAckErr *error,
                   void *closure)
{
    (void)stream;
    (void)error;
    (void)closure;
    if (!ack)
        fail("bare publisher: not acknowledged");
    natsMsg_Destroy(message);
    (void)atomic_fetch_add(&acknowledged, 1);
}

/* ---- bare, RabbitMQ ---- */

static amqp_connection_state_t rabbit_open(const char *url)
{
    static char copy[256]; /* the parsed pieces point into it */
    struct amqp_connection_info info;
    (void)snprintf(copy, sizeof(copy), "%s", url);
    amqp_connection_state_t state = amqp_new_connection();
    amqp_socket_t *socket = amqp_tcp_socket_new(state);
    if (amqp_parse_url(copy, &info) || amqp_socket_open(socket, info.host, info.port))
        fail("cannot connect to RabbitMQ");
    (void)amqp_login(state, info.vhost, 0, 131072, 0, AMQP_SASL_METHOD_PLAIN, info.user,
                     info.password);
    (void)amqp_channel_open(state, 1);
    (void)amqp_confirm_select(state, 1);
    if (amqp_get_rpc_reply(state).reply_type != AMQP_RESPONSE_NORMAL)
        fail("RabbitMQ confirms nothing");
    return state;
}

/* How many of the messages up to MESSAGES this frame confirms. */
static int confirmed_by(const amqp_frame_t *frame, bool *confirmed)
{
    static uint64_t lowest; /* all below are confirmed */
    int count = 0;
    if (!frame) {
        lowest = 1;
        memset(confirmed, 0, MESSAGES + 1);
        return 0;
    }
    if (frame->frame_type != AMQP_FRAME_METHOD || frame->payload.method.id != AMQP_BASIC_ACK_METHOD)
        fail("bare publisher: not confirmed");
    const amqp_basic_ack_t *ack = frame->payload.method.decoded;
    for (uint64_t tag = ack->multiple ? lowest : ack->delivery_tag; tag <= ack->delivery_tag;
         tag++) {
        count += !confirmed[tag];
        confirmed[tag] = true;
    }
    while (lowest <= MESSAGES && confirmed[lowest])
        lowest++;
    return count;
}

static amqp_basic_properties_t plain_properties(void)
{
    return (amqp_basic_properties_t){._flags =
                                         AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_MESSAGE_ID_FLAG,
                                     .delivery_mode = 2,
                                     .message_id = amqp_cstring_bytes("msg_1")};
}

/* As the sink's messages have them. */
static amqp_basic_properties_t same_properties(void)
{
    static const char *const texts[][2] = {{"laterd-message-id", "m1800000000000000_12345"},
                                           {"laterd-job-id", "job"},
                                           {"laterd-topic", "bench"},
                                           {"laterd-attempt", "1"},
                                           {"laterd-due", "2027-01-15T08:00:00.000Z"},
                                           {"laterd-key", "key"}};
    enum { HEADERS = sizeof(texts) / sizeof(texts[0]) };
    static amqp_table_entry_t headers[HEADERS];
    for (unsigned i = 0; i < HEADERS; i++)
        headers[i] =
            (amqp_table_entry_t){.key = amqp_cstring_bytes(texts[i][0]),
                                 .value = {.kind = AMQP_FIELD_KIND_UTF8,
                                           .value.bytes = amqp_cstring_bytes(texts[i][1])}};
    return (amqp_basic_properties_t){
        ._flags = AMQP_BASIC_CONTENT_TYPE_FLAG | AMQP_BASIC_HEADERS_FLAG |
                  AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_MESSAGE_ID_FLAG |
                  AMQP_BASIC_TIMESTAMP_FLAG | AMQP_BASIC_APP_ID_FLAG,
        .content_type = amqp_cstring_bytes("application/octet-stream"),
        .headers = {.num_entries = HEADERS, .entries = headers},
        .delivery_mode = 2,
        .message_id = amqp_cstring_bytes(texts[0][1]),
        .timestamp = 1800000000,
        .app_id = amqp_cstring_bytes("laterd")};
}

static double bare_rabbit(const char *url, bool plain)
{
    static bool confirmed[MESSAGES + 1];
    amqp_connection_state_t state = rabbit_open(url);
    amqp_basic_properties_t properties = plain ? plain_properties() : same_properties();
    amqp_bytes_t bytes = {.len = sizeof(body), .bytes = body};
    struct timeval none = {.tv_sec = 0};
    (void)confirmed_by(NULL, confirmed);
    int64_t begun_us = broker_now_us();
    for (int sent = 0, done = 0; done < MESSAGES;) {
        amqp_frame_t frame;
        while (sent < MESSAGES && sent - done < WINDOW) {
            if (amqp_basic_publish(state, 1, amqp_empty_bytes, amqp_cstring_bytes("bench"), 1, 0,
                                   &properties, bytes))
                fail("bare publisher");
            sent++;
        }
        if (amqp_simple_wait_frame(state, &frame))
            fail("bare publisher: the connection is lost");
        do {
            done += confirmed_by(&frame, confirmed);
        } while (amqp_simple_wait_frame_noblock(state, &frame, &none) == AMQP_STATUS_OK);
        amqp_maybe_release_buffers(state);
    }
    double rate = per_second(begun_us);
    (void)amqp_destroy_connection(state);
    return rate;
}

static double bare_nats(const char *url)
{
    natsConnection *connection = NULL;
    jsCtx *stream = NULL;
    jsOptions options;
    (void)jsOptions_Init(&options);
    options.PublishAsync.MaxPending = WINDOW;
    options.PublishAsync.StallWait = 10000;
    options.PublishAsync.AckHandler = on_ack;
    if (natsConnection_ConnectTo(&connection, url) != NATS_OK ||
        natsConnection_JetStream(&stream, connection, &options) != NATS_OK)
        fail("cannot connect to nats-server");
    atomic_store(&acknowledged, 0);
    int64_t begun_us = broker_now_us();
    for (int sent = 0; sent < MESSAGES; sent++) {
        char id[32];
        jsPubOptions with_id;
        (void)jsPubOptions_Init(&with_id);
        (void)snprintf(id, sizeof(id), "b%lld_%d", (long long)begun_us, sent);
        with_id.MsgId = id; /* stored once, as ours */
        if (js_PublishAsync(stream, "bench.bare", body, sizeof(body), &with_id) != NATS_OK)
            fail("bare publisher");
    }
    while (atomic_load(&acknowledged) < MESSAGES)
        (void)usleep(100);
    double rate = per_second(begun_us);
    jsCtx_Destroy(stream);
    natsConnection_Destroy(connection);
    return rate;
}

/* ---- ours ---- */

struct sent {
    struct delivery delivery;
    char id[24];
};

static struct loop *loop;
static struct sink *sink;
static int begun, done;
static unsigned long run; /* ids differ from run to run: JetStream would drop them */
static struct sent all[WINDOW];

static void send_next(struct sent *sent)
{
    int len = snprintf(sent->id, sizeof(sent->id), "m%lu_%d", run, begun++);
    sent->delivery.message_id = bytes_of(sent->id, (size_t)len);
    sink->verbs->send(sink, &sent->delivery);
}

static void told(struct delivery *delivery, const struct outcome *outcome)
{
    struct sent *sent = LIST_ENTRY(delivery, struct sent, delivery);
    if (outcome->kind != OUTCOME_DELIVERED)
        fail("the sink did not deliver");
    done++;
    if (begun < MESSAGES)
        send_next(sent);
}

static void ignore_change(struct sink *of)
{
    (void)of;
}

static double ours(const struct plugin *plugin, const struct target *target, const char *url)
{
    struct broker_error error;
    const struct broker_options options = {.name = "bench",
                                           .url = url,
                                           .ca = "",
                                           .certificate = "",
                                           .key = "",
                                           .window = WINDOW,
                                           .heartbeat_us = 10000000,
                                           .timeout_us = 10000000,
                                           .loop = loop};
    if (plugin->open(&options, &sink, &error))
        fail(error.text);
    sink->changed = ignore_change;
    while (!sink->verbs->ready(sink, NULL))
        loop_turn(loop, loop->now_us + 10000);
    begun = done = 0;
    run = (unsigned long)broker_now_us();
    int64_t begun_us = broker_now_us();
    for (int i = 0; i < WINDOW; i++) {
        all[i].delivery = (struct delivery){.done = told,
                                            .target = target,
                                            .key = BYTES("key"),
                                            .topic = BYTES("bench"),
                                            .id = BYTES("job"),
                                            .body = bytes_of(body, sizeof(body)),
                                            .attempt = 1,
                                            .due_us = 1800000000000000,
                                            .timeout_us = 15000000};
        send_next(&all[i]);
    }
    while (done < MESSAGES)
        loop_turn(loop, loop->now_us + 10000);
    double rate = per_second(begun_us);
    sink->verbs->close(sink, 0);
    return rate;
}

/* ---- all ---- */

enum who { PLAIN, BARE, SINK, CONTENDERS };

struct measured {
    double rate, cpu_us, broker_us; /* messages a second; of a message: all our threads, RabbitMQ */
};

struct bench {
    const struct plugin *plugin;
    const struct target *target;
    const char *brokers;
    const char *pid; /* of RabbitMQ, or NULL */
};

static double cpu_us(void)
{
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

/* In steps of a hundredth of a second. */
static double cpu_us_of(const char *pid)
{
    char path[64];
    unsigned long user = 0, kernel = 0;
    (void)snprintf(path, sizeof(path), "/proc/%s/stat", pid ? pid : "-");
    FILE *file = pid ? fopen(path, "r") : NULL;
    if (!file)
        return 0;
    if (fscanf(file, "%*d %*s %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
               &kernel) != 2)
        fail("cannot read the broker's processor time");
    (void)fclose(file);
    return (double)(user + kernel) * 1e6 / (double)sysconf(_SC_CLK_TCK);
}

static double publish_all(const struct bench *bench, enum who who)
{
    char url[256];
    enum target_type type = bench->plugin->type;
    (void)snprintf(url, sizeof(url), "%s%s", type == TARGET_KAFKA ? "kafka://" : "",
                   bench->brokers);
    if (who == SINK)
        return ours(bench->plugin, bench->target, url);
    if (type == TARGET_KAFKA)
        return bare_kafka(bench->brokers);
    return type == TARGET_AMQP ? bare_rabbit(bench->brokers, who == PLAIN)
                               : bare_nats(bench->brokers);
}

static struct measured measure(const struct bench *bench, enum who who)
{
    double begun_us = cpu_us(), broker_begun_us = cpu_us_of(bench->pid);
    double rate = publish_all(bench, who);
    return (struct measured){.rate = rate,
                             .cpu_us = (cpu_us() - begun_us) / MESSAGES,
                             .broker_us = (cpu_us_of(bench->pid) - broker_begun_us) / MESSAGES};
}

static void keep_best(struct measured *best, struct measured one, bool first)
{
    if (first || one.rate > best->rate)
        best->rate = one.rate;
    if (first || one.cpu_us < best->cpu_us)
        best->cpu_us = one.cpu_us;
    if (first || one.broker_us < best->broker_us)
        best->broker_us = one.broker_us;
}

static int by_value(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return left < right ? -1 : left > right;
}

static double median(double values[ROUNDS])
{
    qsort(values, ROUNDS, sizeof(values[0]), by_value);
    return values[ROUNDS / 2];
}

static void show(const char *name, const struct measured *best, const char *pid)
{
    (void)printf("%s %.0f/s %.1f us", name, best->rate, best->cpu_us);
    if (pid)
        (void)printf(" (RabbitMQ %.0f us)", best->broker_us);
    (void)printf(", ");
}

/* In turns, for others use the machine, too. */
static void compare(const char *kind, const struct bench *bench)
{
    struct measured best[CONTENDERS] = {0}, now[CONTENDERS] = {0};
    double ratios[ROUNDS], to_plain[ROUNDS];
    enum who first = bench->plugin->type == TARGET_AMQP ? PLAIN : BARE;
    for (int round = 0; round < ROUNDS; round++) {
        for (enum who who = first; who < CONTENDERS; who++) {
            now[who] = measure(bench, who);
            keep_best(&best[who], now[who], round == 0);
        }
        ratios[round] = now[SINK].rate / now[BARE].rate;
        to_plain[round] = now[SINK].rate / now[first].rate;
    }
    (void)printf("%s: ", kind);
    if (first == PLAIN)
        show("plain", &best[PLAIN], bench->pid);
    show("bare", &best[BARE], bench->pid);
    show("sink", &best[SINK], bench->pid);
    if (first == PLAIN)
        (void)printf("ratio to the plain %.2f, ", median(to_plain));
    (void)printf("ratio %.2f\n", median(ratios));
}

static void run_kafka(const struct plugin *plugin)
{
    static const struct target target = {.type = TARGET_KAFKA, .kafka = {.topic = {"bench", 5}}};
    char error[512];
    rd_kafka_t *host = rd_kafka_new(RD_KAFKA_PRODUCER, rd_kafka_conf_new(), error, sizeof(error));
    rd_kafka_mock_cluster_t *mock = rd_kafka_mock_cluster_new(host, 1);
    compare("kafka", &(struct bench){.plugin = plugin,
                                     .target = &target,
                                     .brokers = rd_kafka_mock_cluster_bootstraps(mock)});
    rd_kafka_mock_cluster_destroy(mock);
    rd_kafka_destroy(host);
}

int main(int argc, char **argv)
{
    static const struct target target = {.type = TARGET_NATS,
                                         .nats = {.subject = {"bench.sink", 10}}};
    static const struct target queue = {.type = TARGET_AMQP, .amqp = {.routing_key = {"bench", 5}}};
    static struct os_clock clock;
    if (argc < 3)
        fail("brokers_bench kafka PLUGIN.so | nats PLUGIN.so URL | amqp PLUGIN.so URL PID");
    void *library = dlopen(argv[2], RTLD_NOW);
    const struct plugin *plugin = library ? dlsym(library, PLUGIN_SYMBOL) : NULL;
    if (!plugin)
        fail(dlerror());
    log_level_set(LOG_ERROR);
    os_clock_init(&clock);
    struct os_loop *os = os_loop_new(&clock.clock, 0);
    loop = os_loop_port(os);
    (void)loop_update_time(loop);
    if (plugin->type == TARGET_KAFKA)
        run_kafka(plugin);
    else if (argc > 3)
        compare(argv[1], &(struct bench){.plugin = plugin,
                                         .target = plugin->type == TARGET_AMQP ? &queue : &target,
                                         .brokers = argv[3],
                                         .pid = argc > 4 ? argv[4] : NULL});
    os_loop_free(os);
    return 0;
}
