/* The sdmq dialect: JSON in, its JSON out. */
#include "api_fixture.h"
#include "proto/settings/job_properties.h"

#define SUCCESS "{\"success\":true,\"code\":200,\"message\":null,\"data\":"
#define FAILURE "{\"success\":false,\"code\":500,\"message\":"

static struct call call_of(enum http_method method, const char *target, const char *body)
{
    return ask(DIALECT_SDMQ, (struct ask){.method = method, .target = target, .body = body});
}

static struct call push(const char *body)
{
    return call_of(HTTP_M_POST, "/push", body);
}

static struct job_properties properties_of(const struct call *call)
{
    struct job_properties properties;
    assert_int_equal(
        job_properties_read(call->cmd.push.properties, &fixture_arena, &properties, NULL), OK);
    return properties;
}

static void a_push_takes_every_field(void **state)
{
    (void)state;
    struct call call =
        push("{\"body\":\"{ffff}\",\"delay\":56600,\"id\":\"20\",\"status\":0,\"topic\":\"ces\","
             "\"subtopic\":\"eu\",\"ttl\":12,\"createTime\":1700000001000,\"bizKey\":\"k\","
             "\"priority\":7,\"extendData\":\"{\\\"a\\\":1}\",\"buckedName\":\"x\"}");
    assert_int_equal(call.kind, CALL_CMD);
    const struct cmd_push *cmd = &call.cmd.push;
    struct job_properties properties = properties_of(&call);
    assert_text(cmd->id, "20");
    assert_text(cmd->topic, "ces");
    assert_text(cmd->body, "{ffff}");
    assert_int_equal(cmd->due_us, INT64_C(1700000057600007)); /* and 7 µs: its priority */
    assert_int_equal(cmd->ttr_us, 12 * SECOND_US);
    assert_int_equal(cmd->if_exists, IF_EXISTS_REPLACE);
    assert_int_equal(cmd->priority, 0);
    assert_text(properties.biz_key, "k");
    assert_text(properties.subtopic, "eu");
    assert_text(properties.extend_data, "{\"a\":1}");
    assert_int_equal(properties.create_ms, INT64_C(1700000001000));
    assert_int_equal(properties.rank, 7);
    assert_int_equal(call.id_begin.len, 0);
}

static void what_is_not_given_is_as_in_the_original(void **state)
{
    (void)state;
    struct call call = push("{\"topic\":\"ces\",\"id\":null,\"bizKey\":null,\"ttl\":null}");
    assert_int_equal(call.kind, CALL_CMD);
    assert_text(call.cmd.push.body, "");
    assert_text(call.id_begin, "ces:");
    assert_int_equal(call.cmd.push.due_us, NOW_US / 1000 * 1000);
    assert_int_equal(call.cmd.push.ttr_us, 60 * SECOND_US);
    assert_true(call.cmd.push.ttr_is_default);
    assert_int_equal(properties_of(&call).create_ms, NOW_US / 1000);
    call = push("{\"topic\":\"ces\",\"id\":\"\",\"bizKey\":\"17\"}");
    assert_text(call.id_begin, "ces:17:");
    assert_int_equal(call.cmd.push.if_exists, IF_EXISTS_REJECT);
}

/* As Jackson does. */
static void numbers_may_be_strings_and_texts_numbers(void **state)
{
    (void)state;
    struct call call =
        push("{\"topic\":7,\"id\":20,\"delay\":\"1500\",\"body\":true,\"delay\":\"-5\"}");
    assert_int_equal(call.kind, CALL_CMD);
    assert_text(call.cmd.push.topic, "7");
    assert_text(call.cmd.push.id, "20");
    assert_text(call.cmd.push.body, "true");
    assert_int_equal(call.cmd.push.due_us, (NOW_US / 1000 - 5) * 1000);
}

/* The same: PHP and Python write 1800000.0. */
static void numbers_lose_their_fractions(void **state)
{
    static const struct {
        const char *delay;
        int64_t ms;
    } cases[] = {
        {"1800000.0", 1800000},
        {"1.8e6", 1800000},
        {"18E+5", 1800000},
        {"1.5", 1},
        {"-1.9", -1},
        {"-0.0", 0},
        {"12345e-3", 12},
        {"123.456e2", 12345},
        {"0.001e3", 1},
        {"9e-9999999999", 0},
        {"0e99999", 0},
        {"1234567890123456789012345e-20", 12345},
        {"\"\"", 0},
        {"100000000000.99", INT64_C(100000000000)},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char body[100];
        (void)snprintf(body, sizeof(body), "{\"topic\":\"t\",\"delay\":%s}", cases[i].delay);
        struct call call = push(body);
        if (call.kind != CALL_CMD)
            fail_msg("%s is refused", body);
        assert_int_equal(call.cmd.push.due_us, (NOW_US / 1000 + cases[i].ms) * 1000);
    }
}

static void a_job_is_shown_as_it_was_pushed(void **state)
{
    (void)state;
    struct call call = call_of(HTTP_M_GET, "/get/c%20es", NULL);
    assert_int_equal(call.cmd.kind, CMD_RESERVE);
    assert_text(call.cmd.reserve.topics[0], "c es");
    assert_int_equal(call.cmd.reserve.wait_us, 178 * SECOND_US);
    struct job_view job = {
        .ref.id = BYTES("ces:17:10.0.0.1:77"),
        .topic = BYTES("ces"),
        .state = JOB_RESERVED,
        .due_us = INT64_C(1700000057600007),
        .created_us = NOW_US,
        .ttr_us = 11 * SECOND_US + 1,
        .body = BYTES("{\"a\":\"中\"}"),
        .properties = BYTES("{\"biz_key\":\"17\",\"subtopic\":\"eu\",\"extend_data\":\"x\","
                            "\"create_time\":1700000001000,\"rank\":7}")};
    struct reply reply = {.kind = CMD_RESERVE, .count = 1, .jobs = &job};
    assert_string_equal(
        answer(&call, &reply), SUCCESS
        "{\"topic\":\"ces\",\"subtopic\":\"eu\",\"id\":\"ces:17:10.0.0.1:77\",\"bizKey\":\"17\","
        "\"delay\":56600,\"ttl\":12,\"body\":\"{\\\"a\\\":\\\"中\\\"}\",\"extendData\":\"x\","
        "\"createTime\":1700000001000,\"status\":2,\"priority\":7}}");
    struct job_view bare = {.ref.seq = 7,
                            .topic = BYTES("t"),
                            .state = JOB_RESERVED,
                            .due_us = NOW_US + 1000,
                            .created_us = NOW_US,
                            .priority = 3};
    reply.jobs = &bare;
    assert_string_equal(
        answer(&call, &reply), SUCCESS
        "{\"topic\":\"t\",\"subtopic\":null,\"id\":\"@7\",\"bizKey\":null,\"delay\":1,"
        "\"ttl\":0,\"body\":\"\",\"extendData\":null,\"createTime\":1700000000123,\"status\":2,"
        "\"priority\":3}}");
    struct reply empty = {.kind = CMD_RESERVE, .err = ERR_EMPTY};
    assert_string_equal(answer(&call, &empty), SUCCESS "null}");
}

static void a_get_waits_as_long_as_it_says(void **state)
{
    (void)state;
    static const struct {
        const char *target;
        int64_t wait_us; /* -1: refused */
    } cases[] = {
        {"/get/t?wait=30s", 30 * SECOND_US},
        {"/get/t?wait=250", SECOND_US / 4},
        {"/get/t?wait=0", 0},
        {"/get/t?wait=601s", -1},
        {"/get/t?wait=-1", -1},
        {"/get/t?wait=", -1},
        {"/get/t?wait=99999999999999999999", -1},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct call call = call_of(HTTP_M_GET, cases[i].target, NULL);
        assert_int_equal(call.kind, cases[i].wait_us < 0 ? CALL_PROBLEM : CALL_CMD);
        if (cases[i].wait_us >= 0)
            assert_int_equal(call.cmd.reserve.wait_us, cases[i].wait_us);
    }
}

static void jobs_are_ended_by_either_name_of_the_parameter(void **state)
{
    (void)state;
    static const char *const targets[] = {"/delete?jobId=a%3Ab", "/delete?id=a:b",
                                          "/delete?jobId=&id=a:b"};
    for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
        struct call call = call_of(HTTP_M_GET, targets[i], NULL);
        assert_int_equal(call.kind, CALL_DELETE);
        assert_int_equal(call.cmd.kind, CMD_DELETE);
        assert_false(call.cmd.job.is_done);
        assert_text(call.cmd.job.ref.id, "a:b");
        struct reply reply = {.kind = CMD_DELETE, .err = ERR_NOT_FOUND};
        assert_string_equal(answer(&call, &reply), SUCCESS "null}");
    }
    struct call call = call_of(HTTP_M_GET, "/finish?jobId=x", NULL);
    assert_int_equal(call.kind, CALL_CMD);
    assert_true(call.cmd.job.is_done);
    struct reply reply = {.kind = CMD_DELETE};
    assert_string_equal(answer(&call, &reply), SUCCESS "null}");
}

static void restores_say_what_and_how_long(void **state)
{
    (void)state;
    static const struct {
        const char *target, *id;
        bool skip_overdue;
    } cases[] = {
        {"/reStore", "", false},
        {"/reStore?expire=true", "", false},
        {"/reStore?expire=", "", false},
        {"/reStore?expire=FALSE", "", true},
        {"/reStore/a%3Ab", "a:b", false},
        {"/reStoreJob?jobId=a:b", "a:b", false},
        {"/reStoreJob?JobId=@7", "@7", false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct call call = call_of(HTTP_M_GET, cases[i].target, NULL);
        assert_int_equal(call.kind, CALL_RESTORE);
        assert_text(call.restore.id, cases[i].id);
        assert_int_equal(call.restore.skip_overdue, cases[i].skip_overdue);
    }
    struct call call = call_of(HTTP_M_GET, "/reStore", NULL);
    fixture_out.len = 0;
    api_restored(&call.format, &(struct api_restored){.took_us = 12999, .rows = 3},
                 bytes_of(NULL, 0), &fixture_out);
    assert_string_equal(answered(), SUCCESS "\"花费了12 ms，恢复 3 行数据\"}");
    fixture_out.len = 0;
    api_restored(&call.format, &(struct api_restored){.rows = 1, .single = true}, bytes_of(NULL, 0),
                 &fixture_out);
    assert_string_equal(answered(), SUCCESS "null}");
    call = call_of(HTTP_M_GET, "/clearAll", NULL);
    assert_int_equal(call.kind, CALL_CLEAR_ALL);
    fixture_out.len = 0;
    api_cleared(&call.format, 5000, 8, bytes_of(NULL, 0), &fixture_out);
    assert_string_equal(answered(), SUCCESS "\"花费了5 ms，删除 8 行数据\"}");
}

static void refused_pushes_have_the_originals_form(void **state)
{
    (void)state;
    static char body[300], id[400];
    (void)snprintf(body, sizeof(body), "{\"topic\":\"t\",\"body\":\"%0101d\"}", 0);
    (void)snprintf(id, sizeof(id), "{\"topic\":\"%0100d\",\"bizKey\":\"%0100d\"}", 0, 0);
    const struct {
        const char *body, *message;
    } cases[] = {
        {"", "the request must have a job as a JSON object: "},
        {"[]", "the request must have a job as a JSON object: an object is expected here"},
        {"{\"body\":\"x\"}", "参数topic错误"},
        {"{\"topic\":null}", "参数topic错误"},
        {"{\"topic\":\"\"}", "参数topic错误"},
        {"{\"topic\":\"a\\nb\"}", "参数topic错误: the topic: has a control character"},
        {"{\"topic\":{}}", "topic: this must be a string"},
        {"{\"topic\":\"t\",\"id\":\"@7\"}", "id: has the form of"},
        {"{\"topic\":\"t\",\"id\":\"20\",\"status\":3}", "任务20状态异常"},
        {"{\"topic\":\"t\",\"status\":1}", "任务状态异常"},
        {"{\"topic\":\"t\",\"delay\":\"soon\"}", "delay: this must be a whole number"},
        {"{\"topic\":\"t\",\"delay\":\"1.5\"}", "delay: this must be a whole number"},
        {"{\"topic\":\"t\",\"delay\":true}", "delay: this must be a whole number"},
        {"{\"topic\":\"t\",\"delay\":1e19}", "delay: this must be a whole number"},
        {"{\"topic\":\"t\",\"delay\":9223372036854775808.5}", "delay: this must be a whole number"},
        {"{\"topic\":\"t\",\"delay\":1e99999999999}", "delay: this must be a whole number"},
        {"{\"topic\":\"t\",\"delay\":9223372036854775807}", "delay: createTime + delay is past"},
        {"{\"topic\":\"t\",\"createTime\":-1}", "createTime: milliseconds since 1970"},
        {"{\"topic\":\"t\",\"createTime\":9000000000000000000,\"delay\":-8999999999999999999}",
         "createTime: milliseconds since 1970"}, /* its due time alone would do */
        {"{\"topic\":\"t\",\"priority\":-1}", "priority: 0 to 4294967295"},
        {"{\"topic\":\"t\",\"ttl\":86401}",
         "ttl: seconds, up to limits.ttr_seconds, which is 86400"},
        {"{\"topic\":\"t\",\"bizKey\":\"a\\u0001\"}", "bizKey: up to 128 bytes"},
        {"{\"topic\":\"t\",\"body\":{}}", "body: this must be a string"},
        {body, "the body has 101 bytes; limits.body_bytes is 100"},
        {id, "topic and bizKey are too long for an id"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char start[300];
        struct call call = push(cases[i].body);
        (void)snprintf(start, sizeof(start), FAILURE "\"%s", cases[i].message);
        const char *said = refusal(&call);
        if (strncmp(said, start, strlen(start)) != 0)
            fail_msg("%s: %s", cases[i].body, said);
        assert_string_equal(said + strlen(said) - strlen("\",\"data\":null}"), "\",\"data\":null}");
        assert_int_equal(status(), 200);
    }
}

/* `before`, a letter so many times, `behind`. */
static struct call push_of(const char *before, unsigned count, const char *behind)
{
    struct buf body = {0};
    buf_add_str(&body, before);
    for (unsigned i = 0; i < count; i++)
        buf_add_char(&body, 'a');
    buf_add_str(&body, behind);
    buf_add_char(&body, '\0');
    struct call call = push(body.at);
    buf_fini(&body);
    return call;
}

static void a_push_is_taken_up_to_its_limits(void **state)
{
    static const struct {
        const char *before;
        unsigned count;
        const char *behind;
        bool taken;
    } cases[] = {
        {"{\"topic\":\"t\",\"id\":\"1\",\"subtopic\":\"", 250, "\"}", true},
        {"{\"topic\":\"t\",\"id\":\"1\",\"subtopic\":\"", 251, "\"}", false},
        {"{\"topic\":\"t\",\"id\":\"1\",\"bizKey\":\"", 128, "\"}", true},
        {"{\"topic\":\"t\",\"id\":\"1\",\"bizKey\":\"", 129, "\"}", false},
        {"{\"topic\":\"t\",\"extendData\":\"", 2000, "\"}", true},
        {"{\"topic\":\"t\",\"extendData\":\"", 2001, "\"}", false},
        {"{\"topic\":\"t\",\"extendData\":\"\\u0000\"}", 0, "", false},
        {"{\"topic\":\"t\",\"priority\":4294967295}", 0, "", true},
        {"{\"topic\":\"t\",\"priority\":4294967296}", 0, "", false},
        {"{\"topic\":\"t\",\"ttl\":86400}", 0, "", true},
        {"{\"topic\":\"t\",\"ttl\":-1}", 0, "", false},
        {"{\"topic\":\"t\",\"status\":5}", 0, "", true}, /* restored */
        {"{\"topic\":\"t\",\"status\":1}", 0, "", false},
        {"{\"topic\":\"t\",\"createTime\":253402300799999,\"delay\":-1}", 0, "", true},
        {"{\"topic\":\"t\",\"createTime\":253402300799999}", 0, "", false},
        {"{\"topic\":\"t\",\"createTime\":253402300800000,\"delay\":-1}", 0, "", false},
        {"{\"topic\":\"t\",\"createTime\":-1}", 0, "", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct call call = push_of(cases[i].before, cases[i].count, cases[i].behind);
        if ((call.kind == CALL_CMD) != cases[i].taken)
            fail_msg("%s%u%s", cases[i].before, cases[i].count, cases[i].behind);
    }
}

/* Of two members of one name the last one counts, and null unsets it. */
static void times_before_1970_and_without_a_value_are_taken(void **state)
{
    (void)state;
    struct call call = push("{\"topic\":\"t\",\"createTime\":0,\"body\":\"x\",\"body\":null}");
    assert_int_equal(call.kind, CALL_CMD);
    assert_int_equal(properties_of(&call).create_ms, NOW_US / 1000);
    assert_int_equal(call.cmd.push.due_us, NOW_US / 1000 * 1000);
    assert_int_equal(call.cmd.push.body.len, 0);
    call = push("{\"topic\":\"t\",\"createTime\":1000,\"delay\":-5000,\"priority\":3}");
    assert_int_equal(call.kind, CALL_CMD);
    assert_in_range(call.cmd.push.due_us, 0, 999);
}

static void paths_and_methods_that_are_none_are_refused(void **state)
{
    (void)state;
    static const struct {
        enum http_method method;
        const char *target;
        int status;
        const char *allow;
    } cases[] = {
        {HTTP_M_GET, "/push", 405, "\r\nAllow: POST\r\n"},
        {HTTP_M_POST, "/delete?jobId=1", 405, "\r\nAllow: GET\r\n"},
        {HTTP_M_POST, "/get/t", 405, "\r\nAllow: GET\r\n"},
        {HTTP_M_POST, "/clearAll", 405, "\r\nAllow: GET\r\n"},
        {HTTP_M_GET, "/get/", 404, NULL},
        {HTTP_M_GET, "/reStore/", 404, NULL},
        {HTTP_M_GET, "/x", 404, NULL},
        {HTTP_M_GET, "/delete", 200, NULL},
        {HTTP_M_GET, "/finish", 200, NULL},
        {HTTP_M_GET, "/reStoreJob", 200, NULL},
        {HTTP_M_GET, "/reStore?expire=x", 200, NULL},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct call call = call_of(cases[i].method, cases[i].target, NULL);
        assert_memory_equal(refusal(&call), FAILURE, strlen(FAILURE));
        assert_int_equal(status(), cases[i].status);
        assert_true(!cases[i].allow || strstr(fixture_out.at, cases[i].allow));
    }
    struct call call =
        ask(DIALECT_SDMQ,
            (struct ask){.method = HTTP_M_GET, .target = "/clearAll", .cross_site = true});
    (void)refusal(&call);
    assert_int_equal(status(), 403);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_push_takes_every_field),
        cmocka_unit_test(what_is_not_given_is_as_in_the_original),
        cmocka_unit_test(numbers_may_be_strings_and_texts_numbers),
        cmocka_unit_test(numbers_lose_their_fractions),
        cmocka_unit_test(a_job_is_shown_as_it_was_pushed),
        cmocka_unit_test(a_get_waits_as_long_as_it_says),
        cmocka_unit_test(jobs_are_ended_by_either_name_of_the_parameter),
        cmocka_unit_test(restores_say_what_and_how_long),
        cmocka_unit_test(refused_pushes_have_the_originals_form),
        cmocka_unit_test(a_push_is_taken_up_to_its_limits),
        cmocka_unit_test(times_before_1970_and_without_a_value_are_taken),
        cmocka_unit_test(paths_and_methods_that_are_none_are_refused),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    fixture_done();
    return failed;
}
