/*
 * The plugin for NATS against a nats-server of its own, on a free port of the loopback, with its
 * files in a temporary directory. Without that program all tests are skipped.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <nats/nats.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "plugin_bed.h"
#include "sink/nats/parts.h"

enum { MANY = 2000 };

extern char **environ;

/* ---- the sanitizers ---- */

const char *__asan_default_options(void);
const char *__lsan_default_suppressions(void);

/* libnats is built without frame pointers: else a leak has no caller beyond it. */
const char *__asan_default_options(void)
{
    return "fast_unwind_on_malloc=0";
}

/* On a busy machine libnats 3.4 sometimes loses a message that it has received itself and not told
   of yet, when its connection ends. Those that the plugin makes are natsMsg_Create()'s. */
const char *__lsan_default_suppressions(void)
{
    return "leak:natsConn_processMsg\n";
}

/* ---- the server ---- */

static char directory[] = "/tmp/laterd-nats-XXXXXX";
static char port[8];
static pid_t server;

static bool is_installed(void)
{
    return access("/usr/sbin/nats-server", X_OK) == 0 || access("/usr/bin/nats-server", X_OK) == 0;
}

static void choose_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, len), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    (void)snprintf(port, sizeof(port), "%u", ntohs(address.sin_port));
    (void)close(fd);
}

static void start_server(void)
{
    char log[64];
    (void)snprintf(log, sizeof(log), "%s/log", directory);
    char *words[] = {
        (char *)"nats-server", (char *)"-a", (char *)"127.0.0.1", (char *)"-p", port, (char *)"-js",
        (char *)"-sd",         directory,    (char *)"-l",        log,          NULL};
    assert_int_equal(posix_spawnp(&server, "nats-server", NULL, NULL, words, environ), 0);
}

/* Until all its threads have stopped. */
static void freeze_server(void)
{
    int status;
    assert_int_equal(kill(server, SIGSTOP), 0);
    assert_int_equal(waitpid(server, &status, WUNTRACED), server);
    assert_true(WIFSTOPPED(status));
}

static void stop_server(void)
{
    if (server <= 0)
        return;
    (void)kill(server, SIGKILL);
    (void)waitpid(server, NULL, 0);
    server = 0;
}

static natsConnection *client;
static jsCtx *stream;

static void make_stream(int64_t messages_max, int32_t bytes_max)
{
    const char *subjects[] = {"orders.>"};
    char url[64];
    jsStreamConfig config;
    (void)snprintf(url, sizeof(url), "nats://127.0.0.1:%s", port);
    assert_int_equal(natsConnection_ConnectTo(&client, url), NATS_OK);
    assert_int_equal(natsConnection_JetStream(&stream, client, NULL), NATS_OK);
    (void)jsStreamConfig_Init(&config);
    config.Name = "ORDERS";
    config.Subjects = subjects;
    config.SubjectsLen = 1;
    config.MaxMsgs = messages_max;
    config.MaxMsgSize = bytes_max;
    config.Discard = js_DiscardNew;
    assert_int_equal(js_AddStream(NULL, stream, &config, NULL, NULL), NATS_OK);
}

static uint64_t messages_in_stream(void)
{
    jsStreamInfo *info = NULL;
    assert_int_equal(js_GetStreamInfo(&info, stream, "ORDERS", NULL, NULL), NATS_OK);
    uint64_t count = info->State.Msgs;
    jsStreamInfo_Destroy(info);
    return count;
}

static int setup(void **state)
{
    static char url[64]; /* the plugin borrows it */
    (void)state;
    log_level_set(LOG_ERROR);
    (void)memcpy(directory + sizeof(directory) - 7, "XXXXXX", 6);
    if (!is_installed() || !mkdtemp(directory))
        return 0; /* each test skips */
    choose_port();
    start_server();
    (void)snprintf(url, sizeof(url), "nats://127.0.0.1:%s", port);
    bed_open(url);
    assert_true(turn_until_ready(true)); /* whether the server was up in time or not */
    return 0;
}

static int teardown(void **state)
{
    char command[80];
    (void)state;
    jsCtx_Destroy(stream);
    natsConnection_Destroy(client);
    stream = NULL;
    client = NULL;
    if (sink)
        sink->verbs->close(sink, 0);
    sink = NULL;
    if (os)
        os_loop_free(os);
    os = NULL;
    stop_server();
    (void)snprintf(command, sizeof(command), "rm -rf %s", directory);
    return is_installed() && system(command) != 0 ? -1 : 0;
}

static const struct target target = {.type = TARGET_NATS,
                                     .broker = {"events", 6},
                                     .headers = {{{"X-Target", 8}, {"t", 1}}},
                                     .header_count = 1,
                                     .nats = {.subject = {"orders.paid", 11}}};

static void prepare(struct sent *sent, const char *message_id)
{
    *sent = (struct sent){.delivery = {.done = done,
                                       .target = &target,
                                       .topic = BYTES("pay"),
                                       .id = BYTES("o 1\n"),
                                       .body = BYTES("hello"),
                                       .message_id = bytes_str(message_id),
                                       .attempt = 2,
                                       .due_us = 1000000000,
                                       .timeout_us = 40 * 1000 * 1000}};
}

static void give(struct sent *sent)
{
    sink->verbs->send(sink, &sent->delivery);
    assert_int_equal(sent->done, 0);
}

static void push(struct sent *sent, const char *message_id)
{
    prepare(sent, message_id);
    give(sent);
}

static void assert_header(natsMsg *message, const char *name, const char *expected)
{
    const char *value = NULL;
    assert_int_equal(natsMsgHeader_Get(message, name, &value), NATS_OK);
    assert_string_equal(value, expected);
}

/* ---- metrics ---- */

struct found {
    struct metric_sink sink;
    const char *name;
    uint64_t value;
};

static void look(struct metric_sink *of, const struct metric *metric)
{
    struct found *found = LIST_ENTRY(of, struct found, sink);
    if (strcmp(metric->name, found->name) == 0)
        found->value = metric->value;
}

static uint64_t metric_of(const char *name)
{
    struct found found = {.sink = {.metric = look}, .name = name, .value = UINT64_MAX};
    sink->verbs->describe(sink, &found.sink);
    return found.value;
}

/* ---- tests ---- */

static void a_job_arrives_with_its_headers_and_message_id(void **state)
{
    static const struct target_header own[] = {{{"X-Job", 5}, {"j", 1}},
                                               {{"Nats-Rollup", 11}, {"all", 3}},
                                               {{"laterd-topic", 12}, {"forged", 6}}};
    natsSubscription *subscription = NULL;
    natsMsg *message = NULL;
    struct sent sent;
    (void)state;
    if (!is_installed())
        skip();
    make_stream(-1, -1);
    assert_int_equal(natsConnection_SubscribeSync(&subscription, client, "orders.>"), NATS_OK);
    assert_int_equal(natsConnection_FlushTimeout(client, 2000), NATS_OK);
    prepare(&sent, "msg_1");
    sent.delivery.headers = own;
    sent.delivery.header_count = 3;
    give(&sent);
    expect(&sent, OUTCOME_DELIVERED, "");
    assert_int_equal(natsSubscription_NextMsg(&message, subscription, 2000), NATS_OK);
    assert_string_equal(natsMsg_GetSubject(message), "orders.paid");
    assert_int_equal(natsMsg_GetDataLength(message), 5);
    assert_memory_equal(natsMsg_GetData(message), "hello", 5);
    assert_header(message, "Nats-Msg-Id", "msg_1");
    assert_header(message, "content-type", "application/octet-stream");
    assert_header(message, "laterd-topic", "pay");
    assert_header(message, "laterd-job-id", "o%201%0A");
    assert_header(message, "laterd-attempt", "2");
    assert_header(message, "laterd-due", "1970-01-01T00:16:40.000Z");
    assert_header(message, "X-Target", "t");
    assert_header(message, "X-Job", "j");
    const char *value = NULL;
    assert_int_equal(natsMsgHeader_Get(message, "Nats-Rollup", &value), NATS_NOT_FOUND);
    natsMsg_Destroy(message);
    natsSubscription_Destroy(subscription);
}

static void what_is_sent_twice_is_stored_once_and_delivered_twice(void **state)
{
    struct sent sent[2];
    (void)state;
    if (!is_installed())
        skip();
    make_stream(-1, -1);
    push(&sent[0], "msg_1");
    turn_until_done(&sent[0], 1);
    assert_int_equal(metric_of("nats_duplicates_total"), 0);
    push(&sent[1], "msg_1");
    turn_until_done(&sent[1], 1);
    assert_int_equal(sent[0].kind, OUTCOME_DELIVERED);
    assert_int_equal(sent[1].kind, OUTCOME_DELIVERED);
    assert_int_equal(messages_in_stream(), 1);
    assert_int_equal(metric_of("nats_duplicates_total"), 1);
}

static void without_a_stream_it_fails_with_the_command_that_makes_one(void **state)
{
    struct sent sent;
    (void)state;
    if (!is_installed())
        skip();
    push(&sent, "msg_1");
    expect(&sent, OUTCOME_FAILED, "nats stream add NAME --subjects orders.paid");
    assert_true(sent.unhealthy); /* one without a leader answers the same: the breaker counts it */
}

static void what_the_stream_refuses_has_a_reason(void **state)
{
    static char large[2 * 1024 * 1024];
    static const struct target_header split[] = {{{"X-Job", 5}, {"a\r\nb", 4}}};
    struct sent sent;
    (void)state;
    if (!is_installed())
        skip();
    make_stream(1, 1024);
    prepare(&sent, "msg_1");
    sent.delivery.body = bytes_of(large, 2000);
    give(&sent);
    expect(&sent, OUTCOME_REFUSED, "message size exceeds maximum");
    prepare(&sent, "msg_2");
    sent.delivery.body = bytes_of(large, sizeof(large)); /* past the server's max_payload */
    give(&sent);
    expect(&sent, OUTCOME_REFUSED, "Payload");
    prepare(&sent, "msg_3");
    sent.delivery.headers = split;
    sent.delivery.header_count = 1;
    give(&sent);
    expect(&sent, OUTCOME_REFUSED, "the header X-Job cannot be sent");
    push(&sent, "msg_4");
    expect(&sent, OUTCOME_DELIVERED, "");
    push(&sent, "msg_5"); /* the stream is full, and discards what is new */
    expect(&sent, OUTCOME_FAILED, "maximum messages exceeded");
}

static void a_job_s_key_fills_the_subject_but_makes_it_no_command(void **state)
{
    static const struct target keyed = {.type = TARGET_NATS, .nats = {.subject = {"{key}", 5}}};
    static const char *const keys[] = {"$JS.API.STREAM.DELETE.ORDERS", "orders.*", "orders.>",
                                       "orders paid", "orders.a\r\nPUB x 1"};
    struct sent sent;
    (void)state;
    if (!is_installed())
        skip();
    make_stream(-1, -1);
    prepare(&sent, "msg_1");
    sent.delivery.target = &keyed;
    sent.delivery.key = BYTES("orders.c9");
    give(&sent);
    expect(&sent, OUTCOME_DELIVERED, "");
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        prepare(&sent, "msg_2");
        sent.delivery.target = &keyed;
        sent.delivery.key = bytes_str(keys[i]);
        give(&sent);
        expect(&sent, OUTCOME_REFUSED, "no such subject");
    }
    assert_int_equal(messages_in_stream(), 1);
}

/* kill -9 of the server under load: each job is told once, and what was DELIVERED is there. */
static void nothing_is_lost_or_kept_back_when_the_server_is_killed(void **state)
{
    static struct sent sent[MANY];
    static char ids[MANY][16];
    const char *why = NULL;
    uint64_t delivered = 0, unsent = 0;
    (void)state;
    if (!is_installed())
        skip();
    make_stream(-1, -1);
    for (unsigned i = 0; i < MANY; i++) {
        (void)snprintf(ids[i], sizeof(ids[i]), "msg_%u", i);
        push(&sent[i], ids[i]);
    }
    turn_until_done(sent, 1);
    stop_server();
    turn_until_done(sent, MANY);
    for (unsigned i = 0; i < MANY; i++) {
        delivered += sent[i].kind == OUTCOME_DELIVERED;
        unsent += sent[i].kind == OUTCOME_UNSENT;
    }
    assert_int_equal(delivered + unsent, MANY);
    assert_true(turn_until_ready(false));
    assert_false(sink->verbs->ready(sink, &why));
    assert_non_null(strstr(why, "NATS is away (127.0.0.1"));
    push(&sent[0], "msg_away"); /* by somebody who did not ask */
    expect(&sent[0], OUTCOME_UNSENT, "NATS");
    start_server();
    assert_true(turn_until_ready(true));
    for (unsigned i = 0; i < MANY; i++) {
        if (sent[i].kind == OUTCOME_UNSENT && i > 0)
            push(&sent[i], ids[i]);
    }
    turn_until_done(sent, MANY);
    push(&sent[0], ids[0]);
    turn_until_done(sent, 1);
    for (unsigned i = 0; i < MANY; i++)
        assert_int_equal(sent[i].kind, OUTCOME_DELIVERED);
    for (int i = 0; i < 100 && messages_in_stream() != MANY; i++)
        loop_turn(loop, loop->now_us + TURN_US);
    assert_int_equal(messages_in_stream(), MANY); /* and msg_away was not kept back and sent */
}

static void a_server_that_hangs_ends_at_the_deadline(void **state)
{
    struct sent sent;
    (void)state;
    if (!is_installed())
        skip();
    make_stream(-1, -1);
    freeze_server();
    prepare(&sent, "msg_1");
    sent.delivery.timeout_us = 300 * 1000;
    give(&sent);
    expect(&sent, OUTCOME_FAILED, "no stream acknowledged it in time");
    assert_true(turn_until_ready(false)); /* it answers no PING */
    assert_int_equal(kill(server, SIGCONT), 0);
    assert_true(turn_until_ready(true));
    push(&sent, "msg_2");
    expect(&sent, OUTCOME_DELIVERED, "");
}

static void closing_tells_what_is_under_way(void **state)
{
    static struct sent sent[MANY];
    (void)state;
    if (!is_installed())
        skip();
    make_stream(-1, -1);
    freeze_server();
    for (unsigned i = 0; i < MANY; i++)
        push(&sent[i], "msg_1");
    sink->verbs->close(sink, 0);
    sink = NULL;
    for (unsigned i = 0; i < MANY; i++) {
        assert_int_equal(sent[i].done, 1);
        assert_int_equal(sent[i].kind, OUTCOME_UNSENT);
    }
    assert_int_equal(kill(server, SIGCONT), 0);
}

static void options_that_cannot_be_used_are_refused_with_the_reason(void **state)
{
    struct broker_options options = {.name = "x",
                                     .url = "nats://me:hunter2@:4222",
                                     .ca = "",
                                     .certificate = "",
                                     .key = "",
                                     .window = 1,
                                     .timeout_us = 1000000};
    struct broker_error error;
    (void)state;
    assert_int_equal(laterd_plugin.check(&options, &error), ERR_INVALID);
    assert_non_null(strstr(error.text, "a host is missing"));
    assert_null(strstr(error.text, "hunter2"));
    options.url = "nats+tls://127.0.0.1";
    options.ca = "/nowhere/ca.pem";
    assert_int_equal(laterd_plugin.check(&options, &error), ERR_NOT_FOUND);
    assert_non_null(strstr(error.text, "ca, certificate and key"));
}

#define LIVE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

/* ---- without a server: what libnats' threads tell, in an order of ours ---- */

enum { ANSWERED, UNANSWERED, LATER };

static atomic_bool lost; /* the connection, and all under way is finished */

static struct broker_item *take_one(struct nats *nats)
{
    struct broker_item *item;
    while (!(item = broker_take(nats->thread))) {
        struct pollfd wake = {.fd = broker_wake_fd(nats->thread), .events = POLLIN};
        (void)poll(&wake, 1, 10);
    }
    return item;
}

/* As if it was published. */
static natsMsg *begin_push(struct nats *nats)
{
    natsMsg *message;
    assert_int_equal(natsMsg_Create(&message, "orders.paid", NULL, "", 0), NATS_OK);
    return jetstream_add_push(nats, take_one(nats), message)->message;
}

/* Between two turns of the thread an answer comes, and then the connection ends. */
static void lose_the_connection_behind_an_answer(struct broker_thread *thread, void *user)
{
    struct nats *nats = user;
    int64_t until_us;
    nats->thread = thread;
    broker_set_ready(thread, true, "");
    natsMsg *answered = begin_push(nats), *other = begin_push(nats);
    jetstream_on_answer(NULL, answered, &(jsPubAck){.Duplicate = true}, NULL, nats);
    nats->dropped = nats->closed = true;
    jetstream_look_at_connection(nats);
    natsMsg_Destroy(other); /* libnats' own, otherwise */
    nats->ready = true;     /* but there is nothing to publish with */
    broker_set_ready(thread, true, "");
    atomic_store(&lost, true);
    while (!broker_closing(thread, &until_us)) {
        jetstream_take_items(nats);
        (void)poll(NULL, 0, 1);
    }
}

static void forget(void *user)
{
    (void)user;
}

static void what_was_answered_before_the_connection_ended_is_delivered(void **state)
{
    struct nats nats = {.options = {.url = "", .name = "events"}, .event_fd = -1};
    struct sent sent[3];
    (void)state;
    list_init(&nats.pushes);
    assert_int_equal(nats_Open(-1), NATS_OK);
    assert_int_equal(pthread_mutex_init(&nats.mutex, NULL), 0);
    os_clock_init(&os_clock);
    os = os_loop_new(&os_clock.clock, 0);
    loop = os_loop_port(os);
    (void)loop_update_time(loop);
    sink = broker_thread_open(
        &(struct broker_thread_options){.loop = loop,
                                        .name = "events",
                                        .window = 1000,
                                        .user = &nats,
                                        .run = lose_the_connection_behind_an_answer,
                                        .ended = forget});
    assert_non_null(sink);
    assert_true(turn_until_ready(true));
    push(&sent[ANSWERED], "msg_1");
    push(&sent[UNANSWERED], "msg_2");
    expect(&sent[ANSWERED], OUTCOME_DELIVERED, "");
    expect(&sent[UNANSWERED], OUTCOME_UNSENT, "ended before it was acknowledged");
    assert_int_equal(metric_of("broker_in_flight"), 0);
    for (int i = 0; i < WAIT_US / 1000 && !atomic_load(&lost); i++)
        (void)poll(NULL, 0, 1);
    assert_true(atomic_load(&lost));
    push(&sent[LATER], "msg_3");
    expect(&sent[LATER], OUTCOME_UNSENT, "NATS is away");
    sink->verbs->close(sink, 0);
    sink = NULL;
    os_loop_free(os);
    os = NULL;
    (void)pthread_mutex_destroy(&nats.mutex);
    assert_int_equal(nats_CloseAndWait(3000), NATS_OK);
}

enum { LOST = 20000 };

/* Answers that many messages that were given up: microseconds of the processor. */
static int64_t answer_all(bool newest_first)
{
    static natsMsg *messages[LOST];
    struct nats *nats = mem_zalloc(sizeof(*nats));
    struct delivery delivery = {.body = BYTES("hello")};
    struct broker_item item = {.delivery = &delivery};
    struct timespec begin, end;
    list_init(&nats->pushes);
    nats->event_fd = -1;
    assert_int_equal(pthread_mutex_init(&nats->mutex, NULL), 0);
    for (unsigned i = 0; i < LOST; i++) {
        assert_int_equal(natsMsg_Create(&messages[i], "orders.paid", NULL, "", 0), NATS_OK);
        jetstream_add_push(nats, &item, messages[i])->item = NULL;
        nats->lost++;
    }
    for (unsigned i = 0; i < LOST; i++)
        jetstream_on_answer(NULL, messages[newest_first ? LOST - 1 - i : i], &(jsPubAck){0}, NULL,
                            nats);
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    jetstream_take_answers(nats);
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    assert_true(list_empty(&nats->pushes) && nats->lost == 0 && nats->bytes == 0);
    (void)pthread_mutex_destroy(&nats->mutex);
    mem_free(nats);
    return (end.tv_sec - begin.tv_sec) * 1000000 + (end.tv_nsec - begin.tv_nsec) / 1000;
}

/* An answer behind thousands of messages that were never answered costs what any other does. */
static void what_was_never_answered_costs_later_answers_nothing(void **state)
{
    (void)state;
    assert_int_equal(nats_Open(-1), NATS_OK);
    int64_t in_order_us = answer_all(false), against_us = answer_all(true);
    assert_int_equal(nats_CloseAndWait(3000), NATS_OK);
    if (against_us > 20 * in_order_us + 20000)
        fail_msg("%lld us, but in order %lld us", (long long)against_us, (long long)in_order_us);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LIVE(a_job_arrives_with_its_headers_and_message_id),
        LIVE(what_is_sent_twice_is_stored_once_and_delivered_twice),
        LIVE(without_a_stream_it_fails_with_the_command_that_makes_one),
        LIVE(what_the_stream_refuses_has_a_reason),
        LIVE(a_job_s_key_fills_the_subject_but_makes_it_no_command),
        LIVE(nothing_is_lost_or_kept_back_when_the_server_is_killed),
        LIVE(a_server_that_hangs_ends_at_the_deadline),
        LIVE(closing_tells_what_is_under_way),
        cmocka_unit_test(what_was_answered_before_the_connection_ended_is_delivered),
        cmocka_unit_test(what_was_never_answered_costs_later_answers_nothing),
        cmocka_unit_test(options_that_cannot_be_used_are_refused_with_the_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
