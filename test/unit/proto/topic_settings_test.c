/* Settings of topics, properties of jobs, notes of attempts: what is taken, refused and written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "proto/settings/attempt_note.h"
#include "proto/settings/job_properties.h"
#include "proto/settings/target_url.h"
#include "proto/settings/topic_settings.h"

enum { SECOND_US = 1000000, MINUTE = 60, HOUR = 3600 };

static struct arena scratch;

static struct topic_settings settings_of(const char *text)
{
    struct topic_settings settings;
    struct settings_problem problem;
    if (topic_settings_read(bytes_str(text), &scratch, &settings, &problem) != OK)
        fail_msg("%s: %s: %s", text, problem.field, problem.detail);
    return settings;
}

static void assert_text(struct bytes text, const char *wanted)
{
    if (!bytes_eq(text, bytes_str(wanted)))
        fail_msg("%.*s is not %s", (int)text.len, text.at, wanted);
}

static int tear_down(void **state)
{
    (void)state;
    arena_fini(&scratch);
    scratch = (struct arena){0};
    return 0;
}

static void the_example_of_the_interface_is_read(void **state)
{
    (void)state;
    struct topic_settings settings = settings_of(
        "{\"target\":{\"type\":\"http\",\"url\":\"https://shop.example/hook\",\"headers\":{\"X-A\":"
        "\"1\"},\"timeout\":\"15s\",\"sign\":[\"$HOOK_NEW\",\"file:/etc/hook\"],\"success\":{"
        "\"status\":\"2xx\",\"body\":\" Success\\n\"},\"encoding\":\"plain\",\"bury_on\":[400,422]}"
        ",\"retry\":\"alipay\",\"jitter\":0.25,\"concurrency\":20,\"rate\":\"100/s\",\"burst\":"
        "50,\"key_concurrency\":2,\"key_rate\":\"6/m\",\"order\":\"key\",\"ttr\":\"90s\"}");
    const struct target_http *http = &settings.target.http;
    assert_int_equal(settings.target.type, TARGET_HTTP);
    assert_text(http->url, "https://shop.example/hook");
    assert_int_equal(settings.target.header_count, 1);
    assert_text(settings.target.headers[0].name, "X-A");
    assert_int_equal(http->timeout_us, 15 * SECOND_US);
    assert_int_equal(http->sign_count, 2);
    assert_text(http->sign[1], "file:/etc/hook");
    assert_int_equal(http->success_first, 200);
    assert_int_equal(http->success_last, 299);
    assert_text(http->success_body, "Success");
    assert_int_equal(http->bury_on_count, 2);
    assert_int_equal(http->bury_on[1], 422);
    assert_true(settings.has_retry);
    assert_int_equal(settings.retry.count, 7);
    assert_int_equal(settings.jitter_permille, 250);
    assert_int_equal(settings.concurrency, 20);
    assert_int_equal(settings.rate_count, 100);
    assert_int_equal(settings.rate_us, SECOND_US);
    assert_int_equal(settings.burst, 50);
    assert_int_equal(settings.key_concurrency, 2);
    assert_int_equal(settings.key_rate_count, 6);
    assert_int_equal(settings.key_rate_us, 60 * (int64_t)SECOND_US);
    assert_int_equal(settings.order, ORDER_BY_KEY);
    assert_int_equal(settings.ttr_us, 90 * (int64_t)SECOND_US);
    assert_int_equal(settings_of("{}").jitter_permille, JITTER_DEFAULT_PERMILLE);
    assert_int_equal(settings_of("{\"jitter\":0.29999999999999999}").jitter_permille, 300);
    assert_int_equal(settings_of("{\"jitter\":0.20000000000000001}").jitter_permille, 200);
    assert_int_equal(settings_of("{\"jitter\":1.000}").jitter_permille, 1000);
}

static void ladders_are_what_their_names_promise(void **state)
{
    static const struct {
        const char *name;
        unsigned waits_s[20]; /* up to 0 */
    } cases[] = {
        {"alipay", {120, 600, 600, HOUR, 2 * HOUR, 6 * HOUR, 15 * HOUR}},
        {"alipay-4m", {240, 600, 600, HOUR, 2 * HOUR, 6 * HOUR, 15 * HOUR}},
        {"zing", {5, 10, 60, 300, 1800}},
        {"notify", {15, 180, 600, 1800, 1800, HOUR, 2 * HOUR, 6 * HOUR, 15 * HOUR}},
        {"standard",
         {5, 300, 1800, 2 * HOUR, 5 * HOUR, 10 * HOUR, 14 * HOUR, 20 * HOUR, 24 * HOUR}},
        {"rocketmq",
         {1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[64];
        (void)snprintf(text, sizeof(text), "{\"retry\":\"%s\"}", cases[i].name);
        struct topic_settings settings = settings_of(text);
        unsigned count = 0;
        while (count < 20 && cases[i].waits_s[count])
            count++;
        assert_int_equal(settings.retry.count, count);
        for (unsigned step = 0; step < count; step++)
            assert_int_equal(settings.retry.waits_us[step],
                             (int64_t)cases[i].waits_s[step] * SECOND_US);
    }
    assert_null(ladder_at(sizeof(cases) / sizeof(cases[0])));
    assert_int_equal(delay_level_us(1), SECOND_US);
    assert_int_equal(delay_level_us(3), 10 * SECOND_US);
    assert_int_equal(delay_level_us(18), 7200 * (int64_t)SECOND_US);
}

/* What limits.ttr_seconds allows is compared later, with this bound or less. */
static void a_url_names_its_receiver(void **state)
{
    static const struct {
        const char *url, *host;
        uint16_t port;
    } cases[] = {
        {"http://a", "a", 80},
        {"HTTPS://a.b/c:9", "a.b", 443},
        {"https://a:/", "a", 443},
        {"http://a:65535?x", "a", 65535},
        {"https://127.0.0.1:8443/", "127.0.0.1", 8443},
        {"http://[::1]", "::1", 80},
        {"https://[fd00::1.2.3.4]:1/x", "fd00::1.2.3.4", 1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct bytes host;
        uint16_t port;
        assert_null(url_flaw(bytes_str(cases[i].url)));
        url_receiver(bytes_str(cases[i].url), &host, &port);
        assert_true(bytes_eq(host, bytes_str(cases[i].host)));
        assert_int_equal(port, cases[i].port);
    }
}

static void a_ttr_may_be_as_long_as_any_limit_allows(void **state)
{
    (void)state;
    assert_int_equal(settings_of("{\"ttr\":\"36500d\"}").ttr_us, TTR_MAX_US);
    assert_int_equal(settings_of("{\"ttr\":\"367d\"}").ttr_us, 367 * 86400 * (int64_t)SECOND_US);
}

static void a_formula_doubles_then_grows_evenly_up_to_its_maximum(void **state)
{
    static const int waits_s[] = {10, 20, 40, 80, 160, 240, 300, 300, 300};
    (void)state;
    struct topic_settings settings =
        settings_of("{\"retry\":{\"min\":\"10s\",\"max\":\"5m\",\"doublings\":3,\"attempts\":10}}");
    assert_int_equal(settings.retry.count, 9);
    for (size_t i = 0; i < 9; i++)
        assert_int_equal(settings.retry.waits_us[i], (int64_t)waits_s[i] * SECOND_US);
    settings = settings_of("{\"retry\":{\"min\":1000,\"doublings\":62,\"attempts\":65}}");
    assert_int_equal(settings.retry.count, 64);
    assert_int_equal(settings.retry.waits_us[11], 2048 * (int64_t)SECOND_US);
    assert_int_equal(settings.retry.waits_us[63], HOUR * (int64_t)SECOND_US);
}

static void attempts_cut_or_lengthen_a_schedule(void **state)
{
    struct schedule none = {0}, minute = {.waits_us = {60 * (int64_t)SECOND_US}, .count = 1};
    (void)state;
    struct topic_settings settings = settings_of("{\"retry\":[\"1m\",\"2m\"],\"attempts\":2}");
    struct schedule schedule = topic_settings_schedule(&settings, &none);
    assert_int_equal(schedule.count, 1);
    settings = settings_of("{\"retry\":[\"1m\",\"2m\"],\"attempts\":5}");
    schedule = topic_settings_schedule(&settings, &none);
    assert_int_equal(schedule.count, 4);
    assert_int_equal(schedule.waits_us[3], 120 * (int64_t)SECOND_US);
    settings = settings_of("{\"attempts\":3}");
    schedule = topic_settings_schedule(&settings, &none);
    assert_int_equal(schedule.count, 2);
    assert_int_equal(schedule.waits_us[1], 0);
    assert_int_equal(topic_settings_schedule(&settings, &minute).waits_us[1], 60 * SECOND_US);
    settings = settings_of("{}");
    assert_int_equal(topic_settings_schedule(&settings, &minute).count, 1);
    assert_int_equal(topic_settings_schedule(&settings, &none).count, 0);
}

static void schedules_of_the_configuration_are_words(void **state)
{
    struct schedule schedule;
    const char *why = NULL;
    (void)state;
    assert_true(schedule_read_words(BYTES("2m, 10m  1h"), &schedule, &why));
    assert_int_equal(schedule.count, 3);
    assert_int_equal(schedule.waits_us[2], HOUR * (int64_t)SECOND_US);
    assert_true(schedule_read_words(BYTES("zing"), &schedule, &why) && schedule.count == 5);
    assert_true(schedule_read_words(BYTES(""), &schedule, &why) && schedule.count == 0);
    assert_false(schedule_read_words(BYTES("10"), &schedule, &why));
    assert_false(schedule_read_words(BYTES("alipai"), &schedule, &why));
    assert_non_null(why);
    char words[3 * (RETRY_STEPS_MAX + 1)];
    for (size_t i = 0; i < sizeof(words); i++)
        words[i] = "1s "[i % 3];
    assert_true(schedule_read_words(bytes_of(words, sizeof(words) - 3), &schedule, &why));
    assert_int_equal(schedule.count, RETRY_STEPS_MAX);
    assert_false(schedule_read_words(bytes_of(words, sizeof(words)), &schedule, &why));
    assert_true(schedule_read_words(BYTES("1000000d"), &schedule, &why));
    assert_false(schedule_read_words(BYTES("2000000d"), &schedule, &why)); /* 5476 years */
}

static const struct {
    const char *text, *code, *field;
} refusals[] = {
    {"", "bad_json", ""},
    {"[]", "bad_json", ""},
    {"{\"retri\":[]}", "unknown_field", "retri"},
    {"{\"burst\":1,\"burst\":1}", "duplicate_field", "burst"},
    {"{\"target\":\"https://a\"}", "bad_field", "target"},
    {"{\"target\":{}}", "missing_field", "target"},
    {"{\"target\":{\"type\":\"ftp\"}}", "bad_field", "target.type"},
    {"{\"target\":{\"type\":\"none\"}}", "bad_field", "target.type"},
    {"{\"target\":{\"type\":\"http\",\"uri\":\"x\"}}", "unknown_field", "target.uri"},
    {"{\"target\":{\"type\":\"http\",\"broker\":\"x\"}}", "unknown_field", "target.broker"},
    {"{\"target\":{\"type\":\"http\",\"url\":\"ftp://a/\"}}", "bad_field", "target.url"},
    {"{\"target\":{\"type\":\"http\",\"url\":\"https://u:p@a/\"}}", "bad_field", "target.url"},
    {"{\"target\":{\"type\":\"http\",\"timeout\":\"11m\"}}", "bad_field", "target.timeout"},
    {"{\"target\":{\"type\":\"http\",\"headers\":{\"Host\":\"a\"}}}", "bad_field",
     "target.headers.Host"},
    {"{\"target\":{\"type\":\"http\",\"headers\":{\"A\":\"b\\r\\nC: d\"}}}", "bad_field",
     "target.headers.A"},
    {"{\"target\":{\"type\":\"http\",\"headers\":{\"Webhook-Id\":\"a\"}}}", "bad_field",
     "target.headers.Webhook-Id"},
    {"{\"target\":{\"type\":\"http\",\"headers\":{\"A\":\"b\",\"a\":\"c\"}}}", "bad_field",
     "target.headers.a"},
    {"{\"target\":{\"type\":\"http\",\"headers\":{\"A b\":\"c\"}}}", "bad_field",
     "target.headers.A b"},
    {"{\"target\":{\"type\":\"http\",\"sign\":[]}}", "bad_field", "target.sign"},
    {"{\"target\":{\"type\":\"http\",\"sign\":[\"whsec_abc\"]}}", "bad_field", "target.sign[0]"},
    {"{\"target\":{\"type\":\"http\",\"sign\":[\"$A\",\"file:b\"]}}", "bad_field",
     "target.sign[1]"},
    {"{\"target\":{\"type\":\"http\",\"sign\":[\"$A\",\"$B\",\"$C\",\"$D\",\"$E\"]}}", "bad_field",
     "target.sign[4]"},
    {"{\"target\":{\"type\":\"http\",\"success\":{\"status\":\"ok\"}}}", "bad_field",
     "target.success.status"},
    {"{\"target\":{\"type\":\"http\",\"success\":{\"status\":\"300-200\"}}}", "bad_field",
     "target.success.status"},
    {"{\"target\":{\"type\":\"http\",\"success\":{\"code\":200}}}", "unknown_field",
     "target.success.code"},
    {"{\"target\":{\"type\":\"http\",\"bury_on\":[700]}}", "bad_field", "target.bury_on[0]"},
    {"{\"target\":{\"type\":\"http\",\"encoding\":\"cloudevents\"}}", "missing_field",
     "target.event_type"},
    {"{\"target\":{\"type\":\"http\",\"certificate\":\"/a\"}}", "missing_field", "target"},
    {"{\"target\":{\"type\":\"http\",\"ca\":\"a\"}}", "bad_field", "target.ca"},
    {"{\"target\":{\"type\":\"amqp\",\"exchange\":\"a\"}}", "missing_field", "target"},
    {"{\"target\":{\"type\":\"amqp\",\"broker\":\"a\"}}", "missing_field", "target"},
    {"{\"target\":{\"type\":\"kafka\",\"broker\":\"a\",\"topic\":\"a b\"}}", "bad_field",
     "target.topic"},
    {"{\"target\":{\"type\":\"kafka\",\"broker\":\"a\",\"topic\":\"t\",\"partition\":-1}}",
     "bad_field", "target.partition"},
    {"{\"target\":{\"type\":\"kafka\",\"broker\":\"a\",\"topic\":\"t\",\"partition\":2147483648}}",
     "bad_field", "target.partition"},
    {"{\"target\":{\"type\":\"nats\",\"broker\":\"a\",\"subject\":\"s\",\"partition\":1}}",
     "unknown_field", "target.partition"},
    {"{\"target\":{\"type\":\"nats\",\"broker\":\"a\",\"subject\":\"a.>\"}}", "bad_field",
     "target.subject"},
    {"{\"target\":{\"type\":\"redis\",\"broker\":\"a\",\"kind\":\"list\",\"key\":\"k\","
     "\"maxlen\":1}}",
     "bad_field", "target"},
    {"{\"retry\":[]}", "bad_field", "retry"},
    {"{\"retry\":\"alipei\"}", "bad_field", "retry"},
    {"{\"retry\":[\"1m\",\"soon\"]}", "bad_field", "retry[1]"},
    {"{\"retry\":{\"min\":\"1s\"}}", "bad_field", "retry"},
    {"{\"retry\":{\"min\":\"1s\",\"attempts\":66}}", "bad_field", "retry.attempts"},
    {"{\"retry\":{\"min\":\"9s\",\"max\":\"1s\",\"attempts\":6}}", "bad_field", "retry"},
    {"{\"attempts\":66}", "bad_field", "attempts"},
    {"{\"attempts\":1}", "bad_field", "attempts"},
    {"{\"jitter\":1.5}", "bad_field", "jitter"},
    {"{\"jitter\":1e0}", "bad_field", "jitter"},
    {"{\"jitter\":-0.1}", "bad_field", "jitter"},
    {"{\"rate\":\"100\"}", "bad_field", "rate"},
    {"{\"rate\":\"0/s\"}", "bad_field", "rate"},
    {"{\"rate\":\"1/2d\"}", "bad_field", "rate"},
    {"{\"burst\":5}", "bad_field", "burst"},
    {"{\"key_concurrency\":0}", "bad_field", "key_concurrency"},
    {"{\"key_concurrency\":100001}", "bad_field", "key_concurrency"},
    {"{\"key_rate\":5}", "bad_field", "key_rate"},
    {"{\"key_rate\":\"5/\"}", "bad_field", "key_rate"},
    {"{\"order\":\"fifo\"}", "bad_field", "order"},
    {"{\"paused\":\"yes\"}", "bad_field", "paused"},
    {"{\"paused_why\":\"x\"}", "bad_field", "paused_why"},
    {"{} x", "bad_json", ""},
};

static void what_is_wrong_is_refused_with_its_path(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        struct topic_settings settings;
        struct settings_problem problem;
        const char *text = refusals[i].text;
        if (topic_settings_read(bytes_str(text), &scratch, &settings, &problem) != ERR_INVALID)
            fail_msg("taken: %s", text);
        if (strcmp(problem.code, refusals[i].code) != 0 ||
            strcmp(problem.field, refusals[i].field) != 0 || !problem.detail[0])
            fail_msg("%s: %s of '%s': %s", text, problem.code, problem.field, problem.detail);
    }
}

static void an_unknown_field_is_answered_with_those_that_there_are(void **state)
{
    (void)state;
    struct topic_settings settings;
    struct settings_problem problem;
    const char *text = "{\"target\":{\"type\":\"redis\",\"broker\":\"r\",\"topic\":\"x\"}}";
    assert_int_equal(topic_settings_read(bytes_str(text), &scratch, &settings, &problem),
                     ERR_INVALID);
    assert_string_equal(problem.field, "target.topic");
    assert_non_null(strstr(problem.detail, ", broker, kind, key, maxlen"));
    /* The longest list: it is whole. */
    text = "{\"target\":{\"type\":\"http\",\"where\":\"x\"}}";
    assert_int_equal(topic_settings_read(bytes_str(text), &scratch, &settings, &problem),
                     ERR_INVALID);
    assert_non_null(strstr(problem.detail, ", unix_socket"));
}

static void a_schedule_of_more_than_64_steps_is_refused_by_its_step(void **state)
{
    struct topic_settings settings;
    struct settings_problem problem;
    struct buf text = {0};
    (void)state;
    buf_add_str(&text, "{\"retry\":[1");
    for (int i = 0; i < 64; i++)
        buf_add_str(&text, ",1");
    buf_add_str(&text, "]}");
    assert_int_equal(topic_settings_read(buf_bytes(&text), &scratch, &settings, &problem),
                     ERR_INVALID);
    assert_string_equal(problem.field, "retry[64]");
    buf_fini(&text);
}

static void a_secret_in_the_place_of_a_reference_is_not_repeated(void **state)
{
    struct topic_settings settings;
    struct settings_problem problem;
    (void)state;
    assert_int_equal(
        topic_settings_read(BYTES("{\"target\":{\"type\":\"http\",\"sign\":[\"whsec_c2VjcmV0\"]}}"),
                            &scratch, &settings, &problem),
        ERR_INVALID);
    assert_null(strstr(problem.detail, "c2Vj"));
}

static void urls_are_http_without_user_and_with_a_host(void **state)
{
    static const char *const good[] = {
        "http://a",          "HTTPS://a.example/hook?x=1",    "http://127.0.0.1:8080/",
        "http://[::1]:80/x", "http://xn--bcher-kva.example/", "http://a/%20@b"};
    static const char *const bad[] = {"",
                                      "a",
                                      "//a/",
                                      "http:/a",
                                      "http://",
                                      "http:///x",
                                      "http://:80/",
                                      "http://a:0/",
                                      "http://a:65536/",
                                      "http://a:b/",
                                      "http://user@a/",
                                      "http://u:p@a/",
                                      "http://a\\@b/",
                                      "http://a b/",
                                      "http://a/\n",
                                      "http://b\303\274cher.example/",
                                      "http://[::1/",
                                      "http://[::1]x/",
                                      "http://a/#b",
                                      "file:///etc/passwd",
                                      "gopher://a/",
                                      "javascript:x"};
    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        if (url_flaw(bytes_str(good[i])))
            fail_msg("%s: %s", good[i], url_flaw(bytes_str(good[i])));
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (!url_flaw(bytes_str(bad[i])))
            fail_msg("%s is taken", bad[i]);
    }
}

/* ---- what was written is read ---- */

static uint64_t random_state;

static unsigned roll(unsigned below)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(random_state >> 33) % below;
}

static struct bytes any_of(const char *const *words, unsigned count)
{
    return bytes_str(words[roll(count)]);
}

static void roll_http(struct target_http *http)
{
    static const char *const urls[] = {"", "https://a.example/x?y=z", "http://[::1]:80/"};
    static const char *const words[] = {"", "success", "\"quoted\" \\ \xc3\xa9"};
    http->url = any_of(urls, 3);
    http->timeout_us = roll(2) ? (int64_t)(1 + roll(500)) * 1000000 + roll(2) * 1001 : 0;
    http->sign_count = (uint8_t)roll(TARGET_SECRETS_MAX + 1);
    for (unsigned i = 0; i < http->sign_count; i++)
        http->sign[i] = roll(2) ? BYTES("$NAME_1") : BYTES("file:/a b/\"c\"");
    http->success_first = (uint16_t)(100 + roll(400));
    http->success_last = (uint16_t)(http->success_first + roll(99));
    http->success_body = any_of(words, 3);
    http->bury_on_count = (uint8_t)roll(TARGET_BURY_ON_MAX + 1);
    for (unsigned i = 0; i < http->bury_on_count; i++)
        http->bury_on[i] = (uint16_t)(100 + roll(500));
    http->encoding = roll(2) ? ENCODING_CLOUDEVENTS : ENCODING_PLAIN;
    http->event_type = http->encoding ? BYTES("a.b") : any_of(words, 2);
    http->ca = roll(2) ? BYTES("/etc/ca.pem") : BYTES("");
    if (roll(2)) {
        http->certificate = BYTES("/c");
        http->key = BYTES("/k");
    }
    http->unix_socket = roll(2) ? BYTES("/run/a.sock") : BYTES("");
}

static struct target roll_target(void)
{
    static const char *const names[] = {"A", "X-B", "c_d", "E.f"};
    struct target target = {.type = (enum target_type)roll(TARGET_TYPES)};
    if (target.type == TARGET_NONE)
        return target;
    if (target.type != TARGET_HTTP)
        target.broker = BYTES("my-broker.1");
    target.header_count = (uint8_t)roll(5);
    for (unsigned i = 0; i < target.header_count; i++)
        target.headers[i] =
            (struct target_header){bytes_str(names[i]), roll(2) ? BYTES("\"v\"") : BYTES("")};
    if (target.type == TARGET_HTTP) {
        roll_http(&target.http);
    } else if (target.type == TARGET_AMQP) {
        target.amqp.exchange = roll(2) ? BYTES("x.due") : BYTES("");
        target.amqp.routing_key = BYTES("{topic}.{key}");
    } else if (target.type == TARGET_KAFKA) {
        target.kafka.topic = BYTES("orders-{topic}");
        target.kafka.has_partition = roll(2);
        target.kafka.partition = target.kafka.has_partition ? (int32_t)roll(3) : 0;
    } else if (target.type == TARGET_NATS) {
        target.nats.subject = BYTES("orders.{key}");
    } else {
        target.redis.kind = roll(2) ? TARGET_REDIS_LIST : TARGET_REDIS_STREAM;
        target.redis.key = BYTES("k");
        target.redis.maxlen = target.redis.kind == TARGET_REDIS_STREAM ? roll(3) * 1000 : 0;
    }
    return target;
}

static struct topic_settings roll_settings(void)
{
    struct topic_settings settings = {.target = roll_target()};
    settings.has_retry = roll(2);
    if (settings.has_retry && roll(3) == 0) {
        settings.retry.ladder = ladder_at(roll(6));
        settings.retry.count = settings.retry.ladder->count;
        for (unsigned i = 0; i < settings.retry.count; i++)
            settings.retry.waits_us[i] = (int64_t)settings.retry.ladder->waits_s[i] * SECOND_US;
    } else if (settings.has_retry) {
        settings.retry.count = (uint8_t)(1 + roll(RETRY_STEPS_MAX));
        for (unsigned i = 0; i < settings.retry.count; i++)
            settings.retry.waits_us[i] = (int64_t)roll(4000000) * (roll(2) ? 1 : 1000000);
    }
    settings.attempts_max = roll(2) ? (uint16_t)(2 + roll(64)) : 0;
    settings.ttr_us = roll(2) ? (int64_t)1 + roll(1000000000) : 0;
    settings.jitter_permille = (uint16_t)roll(1001);
    settings.concurrency = roll(3) ? roll(100000) : 0;
    if (roll(2)) {
        settings.rate_count = 1 + roll(1000000000);
        settings.rate_us = roll(2) ? (int64_t)60 * SECOND_US : (int64_t)1000 + roll(1000000000);
        settings.burst = roll(2) ? 1 + roll(1000000) : 0;
    }
    settings.order = roll(2) ? ORDER_BY_KEY : ORDER_NONE;
    settings.paused = roll(2);
    if (settings.paused && roll(2))
        settings.paused_why = BYTES("gone");
    return settings;
}

static void assert_same_http(const struct target_http *a, const struct target_http *b)
{
    assert_true(bytes_eq(a->url, b->url));
    assert_int_equal(a->timeout_us, b->timeout_us);
    assert_int_equal(a->sign_count, b->sign_count);
    for (unsigned i = 0; i < a->sign_count; i++)
        assert_true(bytes_eq(a->sign[i], b->sign[i]));
    assert_int_equal(a->success_first, b->success_first);
    assert_int_equal(a->success_last, b->success_last);
    assert_true(bytes_eq(a->success_body, b->success_body));
    assert_int_equal(a->bury_on_count, b->bury_on_count);
    assert_memory_equal(a->bury_on, b->bury_on, a->bury_on_count * sizeof(a->bury_on[0]));
    assert_int_equal(a->encoding, b->encoding);
    assert_true(bytes_eq(a->event_type, b->event_type));
    assert_true(bytes_eq(a->ca, b->ca) && bytes_eq(a->key, b->key));
    assert_true(bytes_eq(a->certificate, b->certificate));
    assert_true(bytes_eq(a->unix_socket, b->unix_socket));
}

static void assert_same_target(const struct target *a, const struct target *b)
{
    assert_int_equal(a->type, b->type);
    assert_true(bytes_eq(a->broker, b->broker));
    assert_int_equal(a->header_count, b->header_count);
    for (unsigned i = 0; i < a->header_count; i++) {
        assert_true(bytes_eq(a->headers[i].name, b->headers[i].name));
        assert_true(bytes_eq(a->headers[i].value, b->headers[i].value));
    }
    if (a->type == TARGET_HTTP) {
        assert_same_http(&a->http, &b->http);
    } else if (a->type == TARGET_AMQP) {
        assert_true(bytes_eq(a->amqp.exchange, b->amqp.exchange));
        assert_true(bytes_eq(a->amqp.routing_key, b->amqp.routing_key));
    } else if (a->type == TARGET_REDIS) {
        assert_int_equal(a->redis.kind, b->redis.kind);
        assert_true(bytes_eq(a->redis.key, b->redis.key));
        assert_int_equal(a->redis.maxlen, b->redis.maxlen);
    }
}

static void assert_same(const struct topic_settings *a, const struct topic_settings *b)
{
    assert_same_target(&a->target, &b->target);
    assert_int_equal(a->has_retry, b->has_retry);
    assert_ptr_equal(a->retry.ladder, b->retry.ladder);
    assert_int_equal(a->retry.count, b->retry.count);
    assert_memory_equal(a->retry.waits_us, b->retry.waits_us, a->retry.count * sizeof(int64_t));
    assert_int_equal(a->attempts_max, b->attempts_max);
    assert_int_equal(a->ttr_us, b->ttr_us);
    assert_int_equal(a->jitter_permille, b->jitter_permille);
    assert_int_equal(a->concurrency, b->concurrency);
    assert_int_equal(a->rate_count, b->rate_count);
    assert_int_equal(a->rate_us, b->rate_us);
    assert_int_equal(a->burst, b->burst);
    assert_int_equal(a->order, b->order);
    assert_int_equal(a->paused, b->paused);
    assert_true(bytes_eq(a->paused_why, b->paused_why));
}

static void one_status_of_a_success_is_written_as_one(void **state)
{
    static const struct {
        const char *given, *written;
    } cases[] = {{"202", "\"status\":\"202\""}, {"\"200-204\"", "\"status\":\"200-204\""}};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[96];
        struct buf written = {0};
        (void)snprintf(text, sizeof(text),
                       "{\"target\":{\"type\":\"http\",\"url\":\"http://a/\","
                       "\"success\":{\"status\":%s}}}",
                       cases[i].given);
        struct topic_settings settings = settings_of(text);
        topic_settings_write(&settings, &written);
        buf_add_char(&written, '\0');
        assert_non_null(strstr(written.at, cases[i].written));
        buf_fini(&written);
    }
}

static void settings_that_were_written_are_read_as_they_were(void **state)
{
    (void)state;
    for (unsigned seed = 0; seed < 2000; seed++) {
        struct topic_settings wanted, got;
        struct settings_problem problem;
        struct buf first = {0}, second = {0};
        random_state = seed;
        wanted = roll_settings();
        topic_settings_write(&wanted, &first);
        if (topic_settings_read(buf_bytes(&first), &scratch, &got, &problem) != OK)
            fail_msg("seed %u: %.*s: %s: %s", seed, (int)first.len, first.at, problem.field,
                     problem.detail);
        assert_same(&wanted, &got);
        topic_settings_write(&got, &second);
        assert_true(bytes_eq(buf_bytes(&first), buf_bytes(&second)));
        buf_fini(&first);
        buf_fini(&second);
        arena_reset(&scratch);
    }
}

/* ---- properties and notes ---- */

static void properties_come_back_and_none_are_nothing(void **state)
{
    struct job_properties wanted = {.url = BYTES("https://a/"),
                                    .key = BYTES("order \"17\""),
                                    .amqp = BYTES("\0\1\xff"),
                                    .headers = {{BYTES("X-A"), BYTES("1")}},
                                    .header_count = 1};
    struct job_properties got, none = {0};
    struct settings_problem problem;
    struct buf text = {0};
    (void)state;
    assert_int_equal(job_properties_write(&none, &text, &problem), OK);
    assert_int_equal(text.len, 0);
    assert_int_equal(job_properties_read(buf_bytes(&text), &scratch, &got, NULL), OK);
    assert_int_equal(got.url.len + got.key.len + got.amqp.len + got.header_count, 0);
    assert_int_equal(job_properties_write(&wanted, &text, &problem), OK);
    assert_text(buf_bytes(&text),
                "{\"url\":\"https://a/\",\"key\":\"order \\\"17\\\"\",\"headers\":"
                "{\"X-A\":\"1\"},\"amqp\":\"AAH/\"}");
    assert_int_equal(job_properties_read(buf_bytes(&text), &scratch, &got, NULL), OK);
    assert_true(bytes_eq(got.url, wanted.url) && bytes_eq(got.key, wanted.key));
    assert_true(bytes_eq(got.amqp, wanted.amqp));
    assert_int_equal(got.header_count, 1);
    assert_text(got.headers[0].value, "1");
    buf_fini(&text);
}

static void labels_come_back(void **state)
{
    struct job_properties wanted = {.biz_key = BYTES("17"),
                                    .subtopic = BYTES("eu"),
                                    .tags = BYTES("a,b"),
                                    .extend_data = BYTES("{\"n\":1}\n"),
                                    .create_ms = 1700000000123,
                                    .rank = 7};
    struct job_properties got;
    struct settings_problem problem;
    struct buf text = {0};
    (void)state;
    assert_int_equal(job_properties_write(&wanted, &text, &problem), OK);
    assert_text(buf_bytes(&text),
                "{\"biz_key\":\"17\",\"subtopic\":\"eu\",\"tags\":[\"a\",\"b\"],"
                "\"extend_data\":\"{\\\"n\\\":1}\\n\",\"create_time\":1700000000123,\"rank\":7}");
    assert_int_equal(job_properties_read(buf_bytes(&text), &scratch, &got, NULL), OK);
    assert_true(bytes_eq(got.biz_key, wanted.biz_key) && bytes_eq(got.subtopic, wanted.subtopic));
    assert_true(bytes_eq(got.tags, wanted.tags) && bytes_eq(got.extend_data, wanted.extend_data));
    assert_int_equal(got.create_ms, wanted.create_ms);
    assert_int_equal(got.rank, 7);
    text.len = 0;
    buf_add_char(&text, '{');
    job_labels_write(&got, true, &text);
    assert_non_null(strstr((buf_add_char(&text, '\0'), text.at),
                           "\"create_time\":\"2023-11-14T22:13:20.123Z\""));
    buf_fini(&text);
}

static void labels_that_are_none_are_refused_by_name(void **state)
{
    static const struct {
        const char *text, *field;
    } cases[] = {
        {"{\"biz_key\":\"\"}", "biz_key"},
        {"{\"biz_key\":\"a\\nb\"}", "biz_key"},
        {"{\"biz_key\":7}", "biz_key"},
        {"{\"subtopic\":\"\"}", "subtopic"},
        {"{\"tags\":\"a\"}", "tags"},
        {"{\"tags\":[\"a,b\"]}", "tags[0]"},
        {"{\"tags\":[\"a\",\"\"]}", "tags[1]"},
        {"{\"tags\":[1]}", "tags[0]"},
        {"{\"tags\":[\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\",\"10\",\"11\",\"12\","
         "\"13\",\"14\",\"15\",\"16\",\"17\"]}",
         "tags[16]"},
        {"{\"extend_data\":\"\"}", "extend_data"},
        {"{\"extend_data\":{}}", "extend_data"},
        {"{\"create_time\":0}", "create_time"},
        {"{\"create_time\":\"yesterday\"}", "create_time"},
        {"{\"rank\":-1}", "rank"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct job_properties got;
        struct settings_problem problem;
        assert_int_equal(job_properties_read(bytes_str(cases[i].text), &scratch, &got, &problem),
                         ERR_INVALID);
        assert_string_equal(problem.code, "bad_field");
        assert_string_equal(problem.field, cases[i].field);
    }
}

static void properties_over_4_kib_are_refused_by_their_largest_field(void **state)
{
    static char much[JOB_PROPERTIES_MAX];
    struct job_properties headers = {.url = BYTES("https://a/"),
                                     .headers = {{BYTES("X-A"), {much, 2000}},
                                                 {BYTES("X-B"), {much, 2000}},
                                                 {BYTES("X-C"), {much, 100}}},
                                     .header_count = 3};
    struct job_properties amqp = {.amqp = {much, sizeof(much)}};
    struct settings_problem problem;
    struct buf text = {0};
    (void)state;
    memset(much, 'a', sizeof(much));
    assert_int_equal(job_properties_write(&headers, &text, &problem), ERR_TOO_LARGE);
    assert_string_equal(problem.field, "headers");
    assert_int_equal(job_properties_write(&amqp, &text, &problem), ERR_TOO_LARGE);
    assert_string_equal(problem.field, "amqp");
    assert_int_equal(text.len, 0);
    headers.header_count = 2;
    assert_int_equal(job_properties_write(&headers, &text, &problem), OK);
    assert_in_range(text.len, 4000, JOB_PROPERTIES_MAX);
    buf_fini(&text);
}

static void notes_come_back(void **state)
{
    struct attempt_note wanted = {.reason = BYTES("the receiver answered 503"),
                                  .address = BYTES("192.0.2.7:443"),
                                  .took_us = 12000,
                                  .response = BYTES("busy \"now\"\n")};
    struct attempt_note got;
    struct buf text = {0};
    (void)state;
    attempt_note_write(&wanted, &text);
    assert_int_equal(attempt_note_read(buf_bytes(&text), &scratch, &got), OK);
    assert_true(bytes_eq(got.reason, wanted.reason) && bytes_eq(got.address, wanted.address));
    assert_true(bytes_eq(got.response, wanted.response));
    assert_int_equal(got.took_us, 12000);
    buf_fini(&text);
    text = (struct buf){0};
    attempt_note_write(&(struct attempt_note){.took_us = -1}, &text);
    assert_int_equal(text.len, 0);
    assert_int_equal(attempt_note_read(buf_bytes(&text), &scratch, &got), OK);
    assert_int_equal(got.took_us, -1);
    assert_int_equal(attempt_note_read(BYTES("no JSON"), &scratch, &got), ERR_INVALID);
    buf_fini(&text);
}

static void a_note_is_never_too_long_and_always_readable(void **state)
{
    static char much[8192];
    (void)state;
    for (unsigned fill = 0; fill < 256; fill++) {
        for (size_t len = 4094; len <= 4098; len++) {
            struct attempt_note note = {.reason = {much, len},
                                        .address = {much, len},
                                        .took_us = INT64_MAX,
                                        .response = {much, len}};
            struct attempt_note got;
            struct buf text = {0};
            memset(much, (int)fill, sizeof(much));
            if (fill > 0x80) { /* text of two bytes a character, cut anywhere */
                for (size_t i = 0; i < sizeof(much); i += 2) {
                    much[i] = '\xc3';
                    much[i + 1] = (char)(0x80 | (fill & 0x3f));
                }
            }
            attempt_note_write(&note, &text);
            assert_in_range(text.len, 1, JOB_NOTE_MAX);
            assert_int_equal(attempt_note_read(buf_bytes(&text), &scratch, &got), OK);
            assert_true(bytes_starts(note.response, got.response));
            assert_true(got.response.len > 100);
            buf_fini(&text);
        }
        arena_reset(&scratch);
    }
}

static void an_answer_that_is_no_text_is_kept_as_it_was(void **state)
{
    struct attempt_note got, note = {.took_us = -1, .response = BYTES("\xff\xfe\0binary")};
    struct buf text = {0};
    (void)state;
    attempt_note_write(&note, &text);
    assert_text(buf_bytes(&text), "{\"response_base64\":\"//4AYmluYXJ5\"}");
    assert_int_equal(attempt_note_read(buf_bytes(&text), &scratch, &got), OK);
    assert_true(bytes_eq(got.response, note.response));
    buf_fini(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_example_of_the_interface_is_read),
        cmocka_unit_test(ladders_are_what_their_names_promise),
        cmocka_unit_test(a_url_names_its_receiver),
        cmocka_unit_test(a_ttr_may_be_as_long_as_any_limit_allows),
        cmocka_unit_test(a_formula_doubles_then_grows_evenly_up_to_its_maximum),
        cmocka_unit_test(attempts_cut_or_lengthen_a_schedule),
        cmocka_unit_test(schedules_of_the_configuration_are_words),
        cmocka_unit_test(what_is_wrong_is_refused_with_its_path),
        cmocka_unit_test(an_unknown_field_is_answered_with_those_that_there_are),
        cmocka_unit_test(a_schedule_of_more_than_64_steps_is_refused_by_its_step),
        cmocka_unit_test(a_secret_in_the_place_of_a_reference_is_not_repeated),
        cmocka_unit_test(urls_are_http_without_user_and_with_a_host),
        cmocka_unit_test(one_status_of_a_success_is_written_as_one),
        cmocka_unit_test(settings_that_were_written_are_read_as_they_were),
        cmocka_unit_test(properties_come_back_and_none_are_nothing),
        cmocka_unit_test(labels_come_back),
        cmocka_unit_test(labels_that_are_none_are_refused_by_name),
        cmocka_unit_test(properties_over_4_kib_are_refused_by_their_largest_field),
        cmocka_unit_test(notes_come_back),
        cmocka_unit_test(a_note_is_never_too_long_and_always_readable),
        cmocka_unit_test(an_answer_that_is_no_text_is_kept_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, tear_down);
}
