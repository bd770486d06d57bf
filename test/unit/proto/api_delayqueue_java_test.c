/* The delayqueue-java dialect: parameters in, its JSON out. */
#include "api_fixture.h"

static struct call call_of(enum http_method method, const char *target, const char *body)
{
    return ask(DIALECT_DELAYQUEUE_JAVA,
               (struct ask){.method = method, .target = target, .body = body});
}

static void a_push_takes_query_and_form_and_both_dates(void **state)
{
    (void)state;
    struct call call = call_of(
        HTTP_M_POST, "/push?topic=a+b&delayTime=1700000009000&ttrTime=5&message=%E4%BD%A0", NULL);
    assert_int_equal(call.kind, CALL_CMD);
    assert_text(call.cmd.push.topic, "a b");
    assert_text(call.cmd.push.body, "你");
    assert_int_equal(call.cmd.push.due_us, INT64_C(1700000009000000));
    assert_int_equal(call.cmd.push.ttr_us, 5 * SECOND_US);
    /* 08:00 where the clock is eight hours ahead is midnight in UTC */
    call =
        call_of(HTTP_M_POST, "/push", "topic=t&delayTime=2030-01-31+08:00:00&ttrTime=5&message=");
    assert_int_equal(call.kind, CALL_CMD);
    assert_int_equal(call.cmd.push.due_us, INT64_C(1896048000000000));
    call = call_of(HTTP_M_POST, "/push", "topic=t&delayTime=0&ttrTime=5&message=");
    assert_int_equal(call.cmd.push.due_us, NOW_US);
    struct job_view job = {.ref.seq = 42};
    struct reply reply = {.kind = CMD_PUSH, .count = 1, .jobs = &job};
    assert_string_equal(answer(&call, &reply),
                        "{\"code\":0,\"msg\":\"操作成功！\",\"data\":\"42\"}");
}

static void a_ttr_over_the_limit_is_refused(void **state)
{
    (void)state;
    struct api_limits limits = fixture_limits;
    limits.ttr_max_us = 60 * SECOND_US;
    struct ask asked = {.method = HTTP_M_POST,
                        .target = "/push?topic=t&delayTime=1&ttrTime=60&message=",
                        .limits = &limits};
    assert_int_equal(ask(DIALECT_DELAYQUEUE_JAVA, asked).kind, CALL_CMD);
    asked.target = "/push?topic=t&delayTime=1&ttrTime=61&message=";
    struct call call = ask(DIALECT_DELAYQUEUE_JAVA, asked);
    assert_non_null(strstr(refusal(&call), "\"ttrTime: over limits.ttr_seconds, which is 60s\""));
    asked.target = "/push?topic=t&delayTime=1&ttrTime=18446744073709551615&message=";
    call = ask(DIALECT_DELAYQUEUE_JAVA, asked);
    assert_non_null(strstr(refusal(&call), "\"ttrTime: over limits.ttr_seconds, which is 60s\""));
    limits.ttr_max_us = 365 * (int64_t)86400 * SECOND_US; /* the original has no limit */
    asked.target = "/push?topic=t&delayTime=1&ttrTime=172800&message=";
    call = ask(DIALECT_DELAYQUEUE_JAVA, asked);
    assert_int_equal(call.kind, CALL_CMD);
    assert_int_equal(call.cmd.push.ttr_us, 172800 * (int64_t)SECOND_US);
}

static void a_pop_does_not_wait(void **state)
{
    (void)state;
    struct call call = call_of(HTTP_M_GET, "/pop/a%2Fb", NULL);
    assert_int_equal(call.cmd.kind, CMD_RESERVE);
    assert_text(call.cmd.reserve.topics[0], "a/b");
    assert_int_equal(call.cmd.reserve.wait_us, 0);
    struct reply empty = {.kind = CMD_RESERVE, .err = ERR_EMPTY};
    assert_string_equal(answer(&call, &empty), "{\"code\":0,\"msg\":\"操作成功！\",\"data\":null}");
    struct job_view job = {.ref.seq = 42,
                           .topic = BYTES("t"),
                           .due_us = NOW_US,
                           .ttr_us = 5 * SECOND_US,
                           .body = BYTES("m")};
    struct reply reply = {.kind = CMD_RESERVE, .count = 1, .jobs = &job};
    assert_string_equal(answer(&call, &reply),
                        "{\"code\":0,\"msg\":\"操作成功！\",\"data\":{\"id\":\"42\",\"topic\":"
                        "\"t\",\"delayTime\":1700000000123,\"ttrTime\":5,\"message\":\"m\"}}");
}

static void a_pop_waits_and_takes_several_if_it_says_so(void **state)
{
    (void)state;
    struct call call = call_of(HTTP_M_GET, "/pop/t?wait=30s&max=5", NULL);
    assert_int_equal(call.cmd.reserve.wait_us, 30 * SECOND_US);
    assert_int_equal(call.cmd.reserve.max, 5);
    struct reply empty = {.kind = CMD_RESERVE, .err = ERR_EMPTY};
    assert_string_equal(answer(&call, &empty), "{\"code\":0,\"msg\":\"操作成功！\",\"data\":[]}");
    struct job_view jobs[] = {{.ref.seq = 1, .topic = BYTES("t")},
                              {.ref.seq = 2, .topic = BYTES("t")}};
    struct reply reply = {.kind = CMD_RESERVE, .count = 2, .jobs = jobs};
    const char *text = answer(&call, &reply);
    assert_non_null(strstr(text, "\"data\":[{\"id\":\"1\","));
    assert_non_null(strstr(text, "},{\"id\":\"2\","));
    static const char *const bad[] = {"/pop/t?wait=x", "/pop/t?wait=601s", "/pop/t?max=0",
                                      "/pop/t?max=6", "/pop/t?max="};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        call = call_of(HTTP_M_GET, bad[i], NULL);
        assert_int_equal(call.kind, CALL_PROBLEM);
    }
}

static void ids_are_read_as_they_are_shown(void **state)
{
    (void)state;
    static const struct {
        const char *shown, *id;
        uint64_t seq;
    } cases[] = {{"42", "", 42}, {"@42", "", 42}, {"%3D42", "42", 0}, {"x", "x", 0}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char target[100];
        (void)snprintf(target, sizeof(target), "/finish?id=%s", cases[i].shown);
        struct call call = call_of(HTTP_M_POST, target, NULL);
        assert_int_equal(call.cmd.kind, CMD_DELETE);
        assert_text(call.cmd.job.ref.id, cases[i].id);
        assert_int_equal(call.cmd.job.ref.seq, cases[i].seq);
    }
    struct call call = call_of(HTTP_M_GET, "/pop/t", NULL);
    struct job_view job = {.ref.id = BYTES("42")};
    struct reply reply = {.kind = CMD_RESERVE, .count = 1, .jobs = &job};
    assert_non_null(strstr(answer(&call, &reply), "\"id\":\"=42\""));
}

static void failures_have_the_originals_shape(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "/push",
        "/push?topic=&delayTime=1&ttrTime=1&message=",
        "/push?topic=t&delayTime=x&ttrTime=1&message=",
        "/push?topic=t&delayTime=2030-02-30+00:00:00&ttrTime=1&message=",
        "/push?topic=t&delayTime=1&ttrTime=0&message=",
        "/push?topic=t&delayTime=1&ttrTime=1",
        "/push?topic=t&delayTime=1&ttrTime=1&message=%zz",
        "/finish",
        "/finish?id=",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct call call = call_of(HTTP_M_POST, bad[i], NULL);
        const char *start = "{\"code\":1,\"msg\":\"系统异常，请联系管理员\",\"exception\":\"";
        assert_memory_equal(refusal(&call), start, strlen(start));
        assert_int_equal(status(), 200);
    }
    struct call call = call_of(HTTP_M_GET, "/push", NULL);
    (void)refusal(&call);
    assert_int_equal(status(), 405);
    assert_non_null(strstr(fixture_out.at, "\r\nAllow: POST\r\n"));
    call = call_of(HTTP_M_POST, "/pop/t", NULL);
    (void)refusal(&call);
    assert_int_equal(status(), 405);
    assert_non_null(strstr(fixture_out.at, "\r\nAllow: GET\r\n"));
    call = call_of(HTTP_M_GET, "/x", NULL);
    (void)refusal(&call);
    assert_int_equal(status(), 404);
}

/* The first parameter of a name counts, the query before the form. */
static void a_parameter_that_is_given_twice_is_the_first(void **state)
{
    (void)state;
    struct call call = call_of(HTTP_M_POST, "/push?topic=first&topic=second&message=1",
                               "topic=third&delayTime=1&ttrTime=5&message=2");
    assert_int_equal(call.kind, CALL_CMD);
    assert_text(call.cmd.push.topic, "first");
    assert_text(call.cmd.push.body, "1");
}

static void numbers_are_taken_up_to_their_limits(void **state)
{
    static const struct {
        const char *target;
        bool taken;
    } cases[] = {
        {"/push?topic=t&delayTime=1&ttrTime=1&message=", true},
        {"/push?topic=t&delayTime=1&ttrTime=0&message=", false},
        {"/push?topic=t&delayTime=1&ttrTime=86400&message=", true},
        {"/push?topic=t&delayTime=1&ttrTime=86401&message=", false},
        {"/push?topic=t&delayTime=253402300799999&ttrTime=5&message=", true},
        {"/push?topic=t&delayTime=253402300800000&ttrTime=5&message=", false},
        {"/push?topic=t&delayTime=9300000000000000&ttrTime=5&message=", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if ((call_of(HTTP_M_POST, cases[i].target, NULL).kind == CALL_CMD) != cases[i].taken)
            fail_msg("%s", cases[i].target);
    }
    for (unsigned more = 0; more < 2; more++) {
        struct buf form = {0};
        buf_add_str(&form, "topic=t&delayTime=1&ttrTime=5&message=");
        for (size_t i = 0; i < fixture_limits.body_bytes + more; i++)
            buf_add_char(&form, 'a');
        buf_add_char(&form, '\0');
        struct call call = call_of(HTTP_M_POST, "/push", form.at);
        assert_int_equal(call.kind, more ? CALL_PROBLEM : CALL_CMD);
        if (more)
            assert_non_null(strstr(refusal(&call), "limits.body_bytes"));
        buf_fini(&form);
    }
}

/* Clients of the original look at the code in the body alone. */
static void an_engines_refusal_is_answered_200(void **state)
{
    (void)state;
    struct call call = call_of(HTTP_M_POST, "/finish?id=7", NULL);
    assert_true(call.cmd.job.is_done);
    struct reply reply = {.kind = CMD_DELETE, .err = ERR_STORE_FAILED};
    assert_non_null(strstr(answer(&call, &reply), "{\"code\":1,"));
    assert_int_equal(status(), 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_parameter_that_is_given_twice_is_the_first),
        cmocka_unit_test(numbers_are_taken_up_to_their_limits),
        cmocka_unit_test(an_engines_refusal_is_answered_200),
        cmocka_unit_test(a_push_takes_query_and_form_and_both_dates),
        cmocka_unit_test(a_ttr_over_the_limit_is_refused),
        cmocka_unit_test(a_pop_does_not_wait),
        cmocka_unit_test(a_pop_waits_and_takes_several_if_it_says_so),
        cmocka_unit_test(ids_are_read_as_they_are_shown),
        cmocka_unit_test(failures_have_the_originals_shape),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    fixture_done();
    return failed;
}
