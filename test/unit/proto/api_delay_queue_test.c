/* The delay-queue dialect to the letter: texts, order of checks, escapes, defaults. */
#include "api_fixture.h"

static struct call post(const char *path, const char *body)
{
    return ask(DIALECT_DELAY_QUEUE,
               (struct ask){.method = HTTP_M_POST, .target = path, .body = body});
}

static void a_push_becomes_a_command(void **state)
{
    (void)state;
    struct call call = post("/push", "{\"topic\":\" order \",\"id\":\"\\u3000a1\\n\",\"delay\":5,"
                                     "\"ttr\":60,\"body\":\" x \"}");
    assert_int_equal(call.kind, CALL_CMD);
    assert_int_equal(call.cmd.kind, CMD_PUSH);
    assert_text(call.cmd.push.topic, "order");
    assert_text(call.cmd.push.id, "a1");
    assert_text(call.cmd.push.body, "x");
    assert_int_equal(call.cmd.push.due_us, NOW_US + 5 * SECOND_US);
    assert_int_equal(call.cmd.push.ttr_us, 60 * SECOND_US);
    assert_int_equal(call.cmd.push.if_exists, IF_EXISTS_REPLACE);
    assert_string_equal(answer(&call, &(struct reply){.kind = CMD_PUSH}),
                        "{\"code\":0,\"message\":\"添加成功\",\"data\":null}");
    assert_non_null(strstr(fixture_out.at, "Content-Type: text/plain; charset=utf-8\r\n"));
}

static void a_ttr_over_the_limit_is_refused(void **state)
{
    (void)state;
    struct api_limits limits = fixture_limits;
    limits.ttr_max_us = 60 * SECOND_US;
    struct ask asked = {.method = HTTP_M_POST,
                        .target = "/push",
                        .body = "{\"topic\":\"t\",\"id\":\"a\",\"delay\":1,\"ttr\":60}",
                        .limits = &limits};
    assert_int_equal(ask(DIALECT_DELAY_QUEUE, asked).kind, CALL_CMD);
    asked.body = "{\"topic\":\"t\",\"id\":\"a\",\"delay\":1,\"ttr\":61}";
    struct call call = ask(DIALECT_DELAY_QUEUE, asked);
    assert_string_equal(refusal(&call), "{\"code\":1,\"message\":\"ttr: over limits.ttr_seconds, "
                                        "which is 60s\",\"data\":null}");
}

static void refusals_come_in_the_originals_words_and_order(void **state)
{
    (void)state;
    static const struct {
        const char *path, *body, *message;
    } cases[] = {
        {"/push", "", "解析json失败"},
        {"/push", "[]", "解析json失败"},
        {"/push", "{", "解析json失败"},
        {"/push", "{} x", "解析json失败"},
        {"/push", "{\"id\":1}", "解析json失败"},
        {"/push", "{\"delay\":\"5\"}", "解析json失败"},
        {"/push", "{\"delay\":1.5}", "解析json失败"},
        {"/push", "{\"delay\":1e3}", "解析json失败"},
        {"/push", "{\"ttr\":9223372036854775808}", "解析json失败"},
        {"/push", "{\"body\":{}}", "解析json失败"},
        {"/push", "{\"body\":\"\xb9\xfa\"}", "解析json失败"}, /* GBK */
        {"/push", "null", "job id不能为空"},
        {"/push", "{}", "job id不能为空"},
        {"/push", "{\"id\":null}", "job id不能为空"},
        {"/push", "{\"id\":\" \\t \"}", "job id不能为空"},
        {"/push", "{\"id\":\"a\"}", "topic 不能为空"},
        {"/push", "{\"id\":\"a\",\"topic\":\"t\"}", "delay 取值范围1 - (2^31 - 1)"},
        {"/push", "{\"id\":\"a\",\"topic\":\"t\",\"delay\":-1}", "delay 取值范围1 - (2^31 - 1)"},
        {"/push", "{\"id\":\"a\",\"topic\":\"t\",\"delay\":2147483649}",
         "delay 取值范围1 - (2^31 - 1)"},
        {"/push", "{\"id\":\"a\",\"topic\":\"t\",\"delay\":1}", "ttr 取值范围1 - 86400"},
        {"/push", "{\"id\":\"a\",\"topic\":\"t\",\"delay\":1,\"ttr\":86401}",
         "ttr 取值范围1 - 86400"},
        {"/pop", "{}", "topic不能为空"},
        {"/pop", "{\"topic\":\" \"}", "topic不能为空"},
        {"/pop", "{\"topic\":5}", "解析json失败"},
        {"/finish", "{}", "job id不能为空"},
        {"/delete", "{\"id\":\"\"}", "job id不能为空"},
        {"/get", "{\"id\":\" \"}", "job id不能为空"},
        {"/get", "x", "解析json失败"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct call call = post(cases[i].path, cases[i].body);
        char want[200];
        (void)snprintf(want, sizeof(want), "{\"code\":1,\"message\":\"%s\",\"data\":null}",
                       cases[i].message);
        assert_string_equal(refusal(&call), want);
        assert_int_equal(status(), 200);
    }
}

static void the_limits_of_a_push_are_inclusive(void **state)
{
    (void)state;
    struct call call = post("/push", "{\"id\":\"a\",\"topic\":\"t\",\"delay\":2147483648,"
                                     "\"ttr\":86400}");
    assert_int_equal(call.kind, CALL_CMD);
    assert_int_equal(call.cmd.push.body.len, 0);
}

static void keys_match_without_case_and_the_last_one_wins(void **state)
{
    (void)state;
    struct call call =
        post("/push", "{\"ID\":\"a\",\"Topic\":\"t\",\"DELAY\":1,\"tTr\":2,\"other\":"
                      "[1,{\"id\":3}],\"id\":\"b\",\"Id\":null}");
    assert_int_equal(call.kind, CALL_CMD);
    assert_text(call.cmd.push.id, "b");
}

static void half_a_surrogate_pair_is_the_replacement_character(void **state)
{
    (void)state;
    struct call call = post("/push", "{\"id\":\"a\",\"topic\":\"t\",\"delay\":1,\"ttr\":2,"
                                     "\"body\":\"x\\ud800y\",\"other\":\"\\udc00\"}");
    assert_int_equal(call.kind, CALL_CMD);
    assert_text(call.cmd.push.body, "x\xef\xbf\xbdy");
}

static void a_pop_takes_a_list_in_its_order(void **state)
{
    (void)state;
    struct call call = post("/pop", "{\"topic\":\" a, b,a,,c \"}");
    assert_int_equal(call.cmd.kind, CMD_RESERVE);
    assert_int_equal(call.cmd.reserve.topic_count, 3);
    assert_text(call.cmd.reserve.topics[0], "a");
    assert_text(call.cmd.reserve.topics[1], " b");
    assert_text(call.cmd.reserve.topics[2], "c");
    assert_true(call.cmd.reserve.listed_order);
    assert_int_equal(call.cmd.reserve.max, 1);
    assert_int_equal(call.cmd.reserve.wait_us, 178 * SECOND_US);
    assert_string_equal(answer(&call, &(struct reply){.kind = CMD_RESERVE, .err = ERR_EMPTY}),
                        "{\"code\":0,\"message\":\"操作成功\",\"data\":null}");
    struct job_view job = {.ref.id = BYTES("7"), .body = BYTES("<a href=\"x\">&é\xe2\x80\xa8")};
    struct reply reply = {.kind = CMD_RESERVE, .count = 1, .jobs = &job};
    assert_string_equal(answer(&call, &reply),
                        "{\"code\":0,\"message\":\"操作成功\",\"data\":{\"id\":\"7\",\"body\":"
                        "\"\\u003ca href=\\\"x\\\"\\u003e\\u0026é\\u2028\"}}");
}

static void get_shows_the_due_time_in_seconds(void **state)
{
    (void)state;
    struct call call = post("/get", "{\"id\":\"@12\"}");
    assert_int_equal(call.cmd.kind, CMD_GET);
    assert_int_equal(call.cmd.job.ref.seq, 12);
    struct job_view job = {.ref.seq = 12,
                           .topic = BYTES("t"),
                           .due_us = NOW_US,
                           .ttr_us = 60 * SECOND_US,
                           .body = BYTES("b")};
    struct reply reply = {.kind = CMD_GET, .count = 1, .jobs = &job};
    assert_string_equal(answer(&call, &reply),
                        "{\"code\":0,\"message\":\"操作成功\",\"data\":{\"topic\":\"t\",\"id\":"
                        "\"@12\",\"delay\":1700000000,\"ttr\":60,\"body\":\"b\"}}");
}

static void finishing_an_unknown_job_succeeds(void **state)
{
    (void)state;
    static const char *const paths[] = {"/finish", "/delete", "/get"};
    for (size_t i = 0; i < 3; i++) {
        struct call call = post(paths[i], "{\"id\":\"x\"}");
        struct reply reply = {.kind = call.cmd.kind, .err = ERR_NOT_FOUND};
        assert_string_equal(answer(&call, &reply),
                            "{\"code\":0,\"message\":\"操作成功\",\"data\":null}");
    }
}

static void what_the_engine_cannot_do_is_code_1(void **state)
{
    (void)state;
    struct call call = post("/push", "{\"id\":\"a\",\"topic\":\"t\",\"delay\":1,\"ttr\":1}");
    struct reply reply = {.kind = CMD_PUSH, .err = ERR_DISK_FULL};
    assert_string_equal(
        answer(&call, &reply),
        "{\"code\":1,\"message\":\"the disk, or the limit of a file's size, leaves no room for new "
        "jobs: two more files of store.segment_bytes must fit\","
        "\"data\":null}");
    assert_int_equal(status(), 200);
}

static void pages_cannot_be_posted(void **state)
{
    (void)state;
    static const char *const pages[] = {"/healthz", "/readyz", "/metrics"};
    for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
        struct call call = ask(DIALECT_DELAY_QUEUE,
                               (struct ask){.method = HTTP_M_POST, .target = pages[i], .body = ""});
        (void)refusal(&call);
        assert_int_equal(status(), 405);
        assert_string_equal(call.problem.allow, "GET, HEAD");
    }
}

static void other_paths_are_gos_404(void **state)
{
    (void)state;
    struct call call = post("/pushx", "{}");
    assert_string_equal(refusal(&call), "404 page not found\n");
    assert_int_equal(status(), 404);
}

static void any_method_and_content_type_will_do(void **state)
{
    (void)state;
    struct call call = ask(DIALECT_DELAY_QUEUE, (struct ask){.method = HTTP_M_PUT,
                                                             .target = "/finish?x",
                                                             .type = "text/plain",
                                                             .body = "{\"id\":\"a\"}"});
    assert_int_equal(call.kind, CALL_CMD);
    assert_int_equal(call.cmd.kind, CMD_DELETE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_push_becomes_a_command),
        cmocka_unit_test(a_ttr_over_the_limit_is_refused),
        cmocka_unit_test(refusals_come_in_the_originals_words_and_order),
        cmocka_unit_test(the_limits_of_a_push_are_inclusive),
        cmocka_unit_test(keys_match_without_case_and_the_last_one_wins),
        cmocka_unit_test(half_a_surrogate_pair_is_the_replacement_character),
        cmocka_unit_test(a_pop_takes_a_list_in_its_order),
        cmocka_unit_test(get_shows_the_due_time_in_seconds),
        cmocka_unit_test(finishing_an_unknown_job_succeeds),
        cmocka_unit_test(what_the_engine_cannot_do_is_code_1),
        cmocka_unit_test(pages_cannot_be_posted),
        cmocka_unit_test(other_paths_are_gos_404),
        cmocka_unit_test(any_method_and_content_type_will_do),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    fixture_done();
    return failed;
}
