/* /v1: the last value that each limit of a field allows, and the first one that it refuses. */
#include "api_fixture.h"

#include <string.h>

static struct call post(const char *target, const char *body)
{
    return ask(DIALECT_NONE, (struct ask){.method = HTTP_M_POST,
                                          .target = target,
                                          .type = "application/json",
                                          .body = body});
}

#define JOBS "/v1/topics/t/jobs"

/* A push of the field with a string of `len` letters A. */
static struct call push_letters(const char *field, size_t len)
{
    static char body[2048];
    char letters[1024];
    assert_true(len < sizeof(letters));
    memset(letters, 'A', len);
    (void)snprintf(body, sizeof(body), "{\"%s\":\"%.*s\"}", field, (int)len, letters);
    return post(JOBS, body);
}

static void each_limit_allows_its_own_value(void **state)
{
    (void)state;
    assert_int_equal(push_letters("body", 100).kind, CALL_CMD);
    assert_int_equal(push_letters("body", 101).problem.status, 413);
    assert_int_equal(push_letters("body_base64", 132).kind, CALL_CMD); /* 99 bytes */
    assert_int_equal(push_letters("body_base64", 136).problem.status, 413);
    assert_int_equal(push_letters("content_type", CONTENT_TYPE_MAX).kind, CALL_CMD);
    assert_string_equal(push_letters("content_type", CONTENT_TYPE_MAX + 1).problem.field,
                        "content_type");
    assert_int_equal(post(JOBS, "{\"ttr\":\"86400s\"}").kind, CALL_CMD);
    assert_string_equal(post(JOBS, "{\"ttr\":86400001}").problem.field, "ttr");
    assert_int_equal(post("/v1/reserve", "{\"topics\":[\"t\"],\"wait\":\"600s\"}").kind, CALL_CMD);
    assert_string_equal(post("/v1/reserve", "{\"topics\":[\"t\"],\"wait\":600001}").problem.field,
                        "wait");
}

/* The last moment of the year 9999 is the last that can be written. */
static void no_time_is_past_the_year_9999(void **state)
{
    (void)state;
    static const char fits[] = "2900000d", not [] = "2920000d"; /* from 2023: to 9963, to 10018 */
    char body[64];
    (void)snprintf(body, sizeof(body), "{\"delay\":\"%s\"}", fits);
    assert_int_equal(post(JOBS, body).kind, CALL_CMD);
    (void)snprintf(body, sizeof(body), "{\"delay\":\"%s\"}", not );
    assert_string_equal(post(JOBS, body).problem.field, "delay");
    (void)snprintf(body, sizeof(body), "{\"for\":\"%s\"}", fits);
    assert_int_equal(post("/v1/topics/t/pause", body).kind, CALL_CMD);
    (void)snprintf(body, sizeof(body), "{\"for\":\"%s\"}", not );
    assert_string_equal(post("/v1/topics/t/pause", body).problem.field, "for");
    assert_int_equal(post(JOBS, "{\"due\":253402300799999}").kind, CALL_CMD);
    assert_string_equal(post(JOBS, "{\"due\":253402300800000}").problem.field, "due");
}

static void what_excludes_each_other_does_so_in_any_order(void **state)
{
    (void)state;
    static const struct {
        const char *body, *field;
    } rows[] = {
        {"{\"level\":1,\"due\":0}", "due"},
        {"{\"due\":0,\"level\":1}", "level"},
        {"{\"level\":1,\"delay\":0}", "delay"},
        {"{\"target\":{\"type\":\"http\",\"url\":\"https://a/\"},\"url\":\"https://b/\"}", "url"},
        {"{\"url\":\"https://b/\",\"target\":{\"type\":\"http\",\"url\":\"https://a/\"}}",
         "target"},
        {"{\"headers\":{\"A\":\"1\"},\"target\":{\"type\":\"http\",\"url\":\"https://a/\"}}",
         "target"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct call call = post(JOBS, rows[i].body);
        assert_int_equal(call.kind, CALL_PROBLEM);
        assert_string_equal(call.problem.field, rows[i].field);
    }
}

/* 0 stands for none, and a past that the clock does not have is its beginning. */
static void numbers_that_would_mean_something_else_are_refused(void **state)
{
    (void)state;
    assert_string_equal(post("/v1/jobs/a/finish", "{\"lease\":\"0\"}").problem.field, "lease");
    assert_string_equal(post("/v1/topics/t/replay", "{\"code\":65536}").problem.field, "code");
    assert_int_equal(post("/v1/topics/t/replay", "{\"code\":65535}").kind, CALL_REPLAY);
    assert_string_equal(post(JOBS, "{\"created\":0}").problem.field, "created");
    struct call call = post("/v1/topics/t/replay", "{\"since\":\"36500d\"}");
    assert_int_equal(call.kind, CALL_REPLAY);
    assert_int_equal(call.replay.from_us, 0);
    call = post(JOBS, "{\"created\":\"2099-01-01T00:00:00Z\",\"delay\":0}");
    assert_int_equal(call.kind, CALL_CMD);
    assert_int_equal(call.cmd.push.created_us, NOW_US);
}

static void what_is_left_out_has_its_default(void **state)
{
    (void)state;
    struct call call = post("/v1/reserve", "{\"topics\":[\"t\"]}");
    assert_int_equal(call.cmd.reserve.max, 1);
    assert_int_equal(call.cmd.reserve.wait_us, 0);
    call = post("/v1/jobs/a/release", "{\"lease\":\"1\"}");
    assert_false(call.cmd.job.has_delay || call.cmd.job.has_priority);
    call = ask(DIALECT_NONE, (struct ask){.method = HTTP_M_GET, .target = "/v1/jobs/a/history"});
    assert_string_equal(call.problem.code, "history_off");
    struct ask change = {.method = HTTP_M_PATCH, .target = "/v1/jobs/a"};
    change.body = "{\"delay\":5,\"content_type\":\"text/plain\"}";
    assert_string_equal(ask(DIALECT_NONE, change).problem.field, "content_type");
}

static void labels_hold_to_what_can_be_stored(void **state)
{
    (void)state;
    assert_string_equal(post(JOBS, "{\"extend_data\":\"a\\u0000b\"}").problem.field, "extend_data");
    assert_string_equal(post(JOBS, "{\"create_time\":\"1970-01-01T00:00:00Z\"}").problem.field,
                        "create_time");
    assert_int_equal(post(JOBS, "{\"create_time\":\"1970-01-01T00:00:01Z\"}").kind, CALL_CMD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_limit_allows_its_own_value),
        cmocka_unit_test(no_time_is_past_the_year_9999),
        cmocka_unit_test(what_excludes_each_other_does_so_in_any_order),
        cmocka_unit_test(numbers_that_would_mean_something_else_are_refused),
        cmocka_unit_test(what_is_left_out_has_its_default),
        cmocka_unit_test(labels_hold_to_what_can_be_stored),
    };
    return cmocka_run_group_tests(tests, NULL, fixture_tear_down);
}
