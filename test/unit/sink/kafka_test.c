/*
 * The plugin for Kafka against librdkafka's mock cluster: brokers on loopback ports inside this
 * process, which answer Produce with the errors that they are told.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <stdio.h>
#include <unistd.h>

#include "plugin_bed.h"

enum { PRODUCE = 0 /* ApiKey */, MANY = 2000 };

static rd_kafka_t *host; /* of the mock cluster */
static rd_kafka_mock_cluster_t *mock;

static int setup(void **state)
{
    static char url[256]; /* the plugin borrows it */
    char error[512];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    (void)state;
    log_level_set(LOG_ERROR);
    assert_int_equal(rd_kafka_conf_set(conf, "log_level", "0", error, sizeof(error)), 0);
    host = rd_kafka_new(RD_KAFKA_PRODUCER, conf, error, sizeof(error));
    assert_non_null(host);
    mock = rd_kafka_mock_cluster_new(host, 1);
    assert_non_null(mock);
    (void)snprintf(url, sizeof(url), "kafka://%s", rd_kafka_mock_cluster_bootstraps(mock));
    bed_open(url);
    assert_true(turn_until_ready(true));
    assert_true(changes > 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    if (sink)
        sink->verbs->close(sink, 0);
    os_loop_free(os);
    rd_kafka_mock_cluster_destroy(mock);
    rd_kafka_destroy(host);
    return 0;
}

static const struct target target = {.type = TARGET_KAFKA,
                                     .broker = {"events", 6},
                                     .headers = {{{"X-Target", 8}, {"t", 1}}},
                                     .header_count = 1,
                                     .kafka = {.topic = {"orders", 6}}};

static void prepare(struct sent *sent)
{
    *sent = (struct sent){.delivery = {.done = done,
                                       .target = &target,
                                       .topic = BYTES("pay"),
                                       .id = BYTES("o-1"),
                                       .key = BYTES("customer 9"),
                                       .body = BYTES("hello"),
                                       .message_id = BYTES("msg_7"),
                                       .attempt = 2,
                                       .due_us = 1000000000,
                                       .timeout_us = 40 * 1000 * 1000}};
}

static void push(struct sent *sent)
{
    prepare(sent);
    sink->verbs->send(sink, &sent->delivery);
    assert_int_equal(sent->done, 0);
}

/* ---- reading back ---- */

static rd_kafka_t *consumer_of(const char *topic)
{
    char error[512];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(4);
    (void)rd_kafka_conf_set(conf, "bootstrap.servers", rd_kafka_mock_cluster_bootstraps(mock),
                            error, sizeof(error));
    (void)rd_kafka_conf_set(conf, "group.id", "test", error, sizeof(error));
    rd_kafka_t *consumer = rd_kafka_new(RD_KAFKA_CONSUMER, conf, error, sizeof(error));
    assert_non_null(consumer);
    (void)rd_kafka_poll_set_consumer(consumer);
    for (int partition = 0; partition < 4; partition++)
        rd_kafka_topic_partition_list_add(list, topic, partition)->offset = 0;
    assert_int_equal(rd_kafka_assign(consumer, list), 0);
    rd_kafka_topic_partition_list_destroy(list);
    return consumer;
}

static rd_kafka_message_t *read_one(rd_kafka_t *consumer)
{
    for (int i = 0; i < 100; i++) {
        rd_kafka_message_t *message = rd_kafka_consumer_poll(consumer, 100);
        if (message && !message->err)
            return message;
        if (message)
            rd_kafka_message_destroy(message);
    }
    fail_msg("nothing came");
    return NULL;
}

static void assert_header(const rd_kafka_message_t *message, const char *name, const char *value)
{
    rd_kafka_headers_t *headers;
    const void *at;
    size_t len;
    assert_int_equal(rd_kafka_message_headers(message, &headers), 0);
    assert_int_equal(rd_kafka_header_get_last(headers, name, &at, &len), 0);
    assert_int_equal(len, strlen(value));
    assert_memory_equal(at, value, len);
}

/* ---- the log ---- */

static FILE *kept;

/* From now on what goes to standard error is kept. Returns a descriptor of where it went. */
static int begin_to_keep_the_log(void)
{
    int was = dup(STDERR_FILENO);
    kept = tmpfile();
    assert_non_null(kept);
    assert_true(dup2(fileno(kept), STDERR_FILENO) >= 0);
    return was;
}

static void assert_kept(const char *words, int was)
{
    static char text[1 << 16];
    (void)dup2(was, STDERR_FILENO);
    (void)close(was);
    rewind(kept);
    text[fread(text, 1, sizeof(text) - 1, kept)] = '\0';
    (void)fclose(kept);
    if (!strstr(text, words))
        fail_msg("not in the log: %s\n%s", words, text);
}

/* ---- tests ---- */

static void a_job_arrives_with_its_key_and_headers(void **state)
{
    static const struct target_header own[] = {{{"X-Job", 5}, {"j", 1}},
                                               {{"Laterd-Topic", 12}, {"forged", 6}}};
    struct sent sent;
    (void)state;
    prepare(&sent);
    sent.delivery.headers = own;
    sent.delivery.header_count = 2;
    sink->verbs->send(sink, &sent.delivery);
    expect(&sent, OUTCOME_DELIVERED, "");
    rd_kafka_t *consumer = consumer_of("orders");
    rd_kafka_message_t *message = read_one(consumer);
    assert_int_equal(message->len, 5);
    assert_memory_equal(message->payload, "hello", 5);
    assert_int_equal(message->key_len, 10);
    assert_memory_equal(message->key, "customer 9", 10);
    assert_header(message, "content-type", "application/octet-stream");
    assert_header(message, "laterd-message-id", "msg_7");
    assert_header(message, "laterd-topic", "pay");
    assert_header(message, "laterd-job-id", "o-1");
    assert_header(message, "laterd-attempt", "2");
    assert_header(message, "laterd-due", "1970-01-01T00:16:40.000Z");
    assert_header(message, "X-Target", "t");
    assert_header(message, "X-Job", "j");
    rd_kafka_message_destroy(message);
    (void)rd_kafka_consumer_close(consumer);
    rd_kafka_destroy(consumer);
}

static void the_targets_partition_goes_before_the_key(void **state)
{
    struct target here = target;
    struct sent sent[3];
    (void)state;
    here.kafka.has_partition = true;
    for (int i = 0; i < 3; i++) {
        prepare(&sent[i]);
        sent[i].delivery.target = &here;
        here.kafka.partition = i;
        sink->verbs->send(sink, &sent[i].delivery);
        expect(&sent[i], OUTCOME_DELIVERED, "");
    }
    rd_kafka_t *consumer = consumer_of("orders");
    unsigned seen = 0;
    for (int i = 0; i < 3; i++) {
        rd_kafka_message_t *message = read_one(consumer);
        assert_memory_equal(message->key, "customer 9", 10);
        seen |= 1U << message->partition;
        rd_kafka_message_destroy(message);
    }
    assert_int_equal(seen, 7);
    (void)rd_kafka_consumer_close(consumer);
    rd_kafka_destroy(consumer);
    here.kafka.partition = 77;
    prepare(&sent[0]);
    sent[0].delivery.target = &here;
    sink->verbs->send(sink, &sent[0].delivery);
    expect(&sent[0], OUTCOME_FAILED, "Kafka's topic orders has no partition 77");
}

static void many_jobs_are_each_told_once(void **state)
{
    static struct sent sent[MANY];
    (void)state;
    for (unsigned i = 0; i < MANY; i++)
        push(&sent[i]);
    turn_until_done(sent, MANY);
    for (unsigned i = 0; i < MANY; i++)
        assert_int_equal(sent[i].kind, OUTCOME_DELIVERED);
}

static void what_can_be_sent_again_is(void **state)
{
    struct sent sent;
    (void)state;
    rd_kafka_mock_push_request_errors(mock, PRODUCE, 2, RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS,
                                      RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE);
    push(&sent);
    expect(&sent, OUTCOME_DELIVERED, "");
}

static void a_message_that_is_too_large_is_refused_for_good(void **state)
{
    static char large[256 * 1024];
    struct sent sent;
    (void)state;
    rd_kafka_mock_push_request_errors(mock, PRODUCE, 1, RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE);
    prepare(&sent);
    sent.delivery.body = bytes_of(large, sizeof(large));
    sink->verbs->send(sink, &sent.delivery);
    expect(&sent, OUTCOME_REFUSED, "too large");
}

static void a_small_one_in_a_batch_that_is_too_large_is_tried_again(void **state)
{
    struct sent sent;
    (void)state;
    rd_kafka_mock_push_request_errors(mock, PRODUCE, 1, RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE);
    push(&sent);
    expect(&sent, OUTCOME_FAILED, "too large");
}

static void a_topic_that_is_not_there_fails_with_the_command_that_makes_it(void **state)
{
    struct sent sent;
    (void)state;
    rd_kafka_mock_topic_set_error(mock, "orders", RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART);
    push(&sent);
    expect(&sent, OUTCOME_FAILED, "create it with kafka-topics.sh --create --topic orders");
    rd_kafka_mock_topic_set_error(mock, "orders", RD_KAFKA_RESP_ERR_NO_ERROR);
    sent.kind = OUTCOME_FAILED; /* it was made meanwhile, which is found out soon */
    for (int round = 0; round < 50 && sent.kind != OUTCOME_DELIVERED; round++) {
        loop_turn(loop, loop->now_us + 100 * 1000);
        push(&sent);
        turn_until_done(&sent, 1);
    }
    expect(&sent, OUTCOME_DELIVERED, "");
}

static void a_topic_that_we_may_not_write_to_fails_with_kafkas_words(void **state)
{
    struct sent sent;
    (void)state;
    rd_kafka_mock_push_request_errors(mock, PRODUCE, 1,
                                      RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED);
    push(&sent);
    expect(&sent, OUTCOME_FAILED, "authorization failed");
}

static void a_broker_that_is_away_makes_it_not_ready_until_it_is_back(void **state)
{
    struct sent sent[2];
    const char *why = NULL;
    (void)state;
    push(&sent[0]);
    expect(&sent[0], OUTCOME_DELIVERED, "");
    assert_int_equal(rd_kafka_mock_broker_set_down(mock, 1), 0);
    push(&sent[0]); /* nobody knows yet */
    assert_true(turn_until_ready(false));
    assert_false(sink->verbs->ready(sink, &why));
    assert_non_null(strstr(why, "no broker of Kafka answers at 127.0.0.1"));
    push(&sent[1]); /* by somebody who did not ask */
    expect(&sent[1], OUTCOME_UNSENT, "no broker of Kafka answers");
    assert_int_equal(rd_kafka_mock_broker_set_up(mock, 1), 0);
    assert_true(turn_until_ready(true));
    turn_until_done(sent, 1);
    /* On a machine that is busy its deadline comes before the broker is found again. */
    assert_true(sent[0].kind == OUTCOME_DELIVERED || sent[0].kind == OUTCOME_UNSENT ||
                sent[0].kind == OUTCOME_FAILED);
    push(&sent[1]);
    expect(&sent[1], OUTCOME_DELIVERED, "");
}

static void a_broker_that_does_not_answer_ends_at_the_deadline_not_when_the_library_says(
    void **state)
{
    struct sent sent;
    (void)state;
    assert_int_equal(rd_kafka_mock_broker_set_rtt(mock, 1, 30000), 0);
    prepare(&sent);
    sent.delivery.timeout_us = 700 * 1000;
    int64_t begun_us = loop_update_time(loop);
    sink->verbs->send(sink, &sent.delivery);
    expect(&sent, OUTCOME_FAILED, "did not confirm it in time");
    assert_true(loop->now_us - begun_us < 25000 * 1000);
    assert_true(loop->now_us - begun_us >= 700 * 1000);
}

static void a_fatal_error_counts_no_attempt_and_then_there_is_a_new_producer(void **state)
{
    struct sent broken, next = {.kind = OUTCOME_UNSENT};
    (void)state;
    log_level_set(LOG_WARN);
    int was = begin_to_keep_the_log();
    rd_kafka_mock_push_request_errors(mock, PRODUCE, 1,
                                      RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER);
    push(&broken);
    turn_until_done(&broken, 1);
    for (int round = 0; round < 50 && next.kind == OUTCOME_UNSENT; round++) {
        loop_turn(loop, loop->now_us + 50 * 1000);
        (void)turn_until_ready(true);
        push(&next);
        turn_until_done(&next, 1);
    }
    log_level_set(LOG_ERROR);
    assert_kept("kafka_restart name=events error=\"ProduceRequest for orders", was);
    expect(&broken, OUTCOME_UNSENT, "has to begin again: ");
    expect(&next, OUTCOME_DELIVERED, "");
}

static void a_producer_id_that_has_expired_counts_no_attempt(void **state)
{
    struct sent sent;
    (void)state;
    rd_kafka_mock_push_request_errors(mock, PRODUCE, 1, RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH);
    push(&sent);
    expect(&sent, OUTCOME_UNSENT, "has to begin again");
    push(&sent);
    expect(&sent, OUTCOME_DELIVERED, "");
}

static void closing_tells_what_is_under_way(void **state)
{
    static struct sent sent[3000]; /* more than the window */
    (void)state;
    assert_int_equal(rd_kafka_mock_broker_set_rtt(mock, 1, 3000), 0);
    for (unsigned i = 0; i < 3000; i++)
        push(&sent[i]);
    sink->verbs->close(sink, 0);
    sink = NULL;
    for (unsigned i = 0; i < 3000; i++) {
        assert_int_equal(sent[i].done, 1);
        assert_int_equal(sent[i].kind, OUTCOME_UNSENT);
    }
}

static void options_that_cannot_be_used_are_refused_with_the_reason(void **state)
{
    static const struct {
        const char *url, *words;
    } cases[] = {
        {"http://127.0.0.1", "kafka:// or kafkas://"},
        {"kafka://", "a host is missing"},
        {"kafka://a:0", "PORT"},
        {"kafka://me:secret@a?mechanism=NONSENSE", "SCRAM-SHA-256"},
        {"kafka://a b", "behind a host"},
    };
    struct broker_options options = {.name = "x", .ca = "", .certificate = "", .key = ""};
    struct broker_error error;
    (void)state;
    options.window = 10;
    options.timeout_us = 1000000;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        options.url = cases[i].url;
        int err = laterd_plugin.check(&options, &error);
        if (err != ERR_INVALID || !strstr(error.text, cases[i].words) ||
            strstr(error.text, "secret"))
            fail_msg("%s: %d '%s'", cases[i].url, err, error.text);
    }
}

#define LIVE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

/* 0.1 s to 10 min, as docs/config.md says; librdkafka has limits of its own. */
static void every_time_out_of_the_configuration_can_be_used(void **state)
{
    static const int64_t timeouts_us[] = {100000, 10000000, INT64_C(600000000)};
    struct broker_options options = {
        .name = "x", .url = "kafka://a", .ca = "", .certificate = "", .key = "", .window = 65535};
    struct broker_error error;
    (void)state;
    for (size_t i = 0; i < sizeof(timeouts_us) / sizeof(timeouts_us[0]); i++) {
        options.timeout_us = timeouts_us[i];
        if (laterd_plugin.check(&options, &error))
            fail_msg("%lld us: %s", (long long)timeouts_us[i], error.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LIVE(a_job_arrives_with_its_key_and_headers),
        LIVE(the_targets_partition_goes_before_the_key),
        LIVE(many_jobs_are_each_told_once),
        LIVE(what_can_be_sent_again_is),
        LIVE(a_message_that_is_too_large_is_refused_for_good),
        LIVE(a_small_one_in_a_batch_that_is_too_large_is_tried_again),
        LIVE(a_topic_that_is_not_there_fails_with_the_command_that_makes_it),
        LIVE(a_topic_that_we_may_not_write_to_fails_with_kafkas_words),
        LIVE(a_broker_that_is_away_makes_it_not_ready_until_it_is_back),
        LIVE(a_broker_that_does_not_answer_ends_at_the_deadline_not_when_the_library_says),
        LIVE(a_fatal_error_counts_no_attempt_and_then_there_is_a_new_producer),
        LIVE(a_producer_id_that_has_expired_counts_no_attempt),
        LIVE(closing_tells_what_is_under_way),
        cmocka_unit_test(options_that_cannot_be_used_are_refused_with_the_reason),
        cmocka_unit_test(every_time_out_of_the_configuration_can_be_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
