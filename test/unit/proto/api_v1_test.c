/* /v1: what becomes of requests, how strict it is, and what its answers look like. */
#include "api_fixture.h"

static struct call v1(enum http_method method, const char *target, const char *body)
{
    return ask(DIALECT_DELAY_QUEUE, (struct ask){.method = method, .target = target, .body = body});
}

static struct call push(const char *body)
{
    return v1(HTTP_M_POST, "/v1/topics/t/jobs", body);
}

static void a_push_may_say_everything(void **state)
{
    (void)state;
    struct call call =
        push("{\"id\":\"a\",\"delay\":\"1h30m\",\"ttr\":\"250ms\",\"priority\":4294967295,\"body\":"
             "{\"x\": [1]},\"content_type\":\"a/b\",\"retry\":[\"0s\",1500,\"2d\"],"
             "\"if_exists\":\"keep\",\"durability\":\"os\"}");
    const struct cmd_push *cmd = &call.cmd.push;
    assert_int_equal(call.kind, CALL_CMD);
    assert_text(cmd->id, "a");
    assert_text(cmd->topic, "t");
    assert_int_equal(cmd->due_us, NOW_US + 5400 * SECOND_US);
    assert_int_equal(cmd->ttr_us, 250000);
    assert_int_equal(cmd->priority, UINT32_MAX);
    assert_int_equal(cmd->body_kind, BODY_JSON);
    assert_text(cmd->body, "{\"x\": [1]}");
    assert_text(cmd->content_type, "a/b");
    assert_int_equal(cmd->retry_count, 3);
    assert_int_equal(cmd->retry_us[1], 1500000);
    assert_int_equal(cmd->retry_us[2], 2 * 86400 * SECOND_US);
    assert_int_equal(cmd->if_exists, IF_EXISTS_KEEP);
    assert_int_equal(cmd->durability, DURABILITY_OS);
}

static void a_push_may_ask_for_a_buried_job(void **state)
{
    (void)state;
    assert_true(push("{\"state\":\"buried\"}").cmd.push.buried);
    assert_false(push("{}").cmd.push.buried);
}

static void a_push_without_a_body_is_refused(void **state)
{
    (void)state;
    struct call call = push("");
    assert_int_equal(call.kind, CALL_PROBLEM);
    assert_int_equal(call.problem.status, 400);
    assert_string_equal(call.problem.code, "missing_body");
}

static void a_push_may_say_nothing(void **state)
{
    (void)state;
    struct call call = push("{}");
    assert_int_equal(call.kind, CALL_CMD);
    assert_int_equal(call.cmd.push.due_us, NOW_US);
    assert_int_equal(call.cmd.push.ttr_us, 60 * SECOND_US);
    assert_int_equal(call.cmd.push.id.len + call.cmd.push.body.len, 0);
    assert_int_equal(call.cmd.push.if_exists, IF_EXISTS_REJECT);
}

static void bodies_come_in_three_kinds(void **state)
{
    (void)state;
    struct call call = push("{\"body\":\"a\\u00e9\"}");
    assert_text(call.cmd.push.body, "aé");
    assert_int_equal(call.cmd.push.body_kind, BODY_BYTES);
    call = push("{\"body_base64\":\"AAH/\"}");
    assert_memory_equal(call.cmd.push.body.at, "\0\1\xff", 3);
    call = push("{\"body\":null}");
    assert_text(call.cmd.push.body, "null");
    assert_int_equal(call.cmd.push.body_kind, BODY_JSON);
}

static void due_is_a_time_or_milliseconds(void **state)
{
    (void)state;
    assert_int_equal(push("{\"due\":\"2030-01-31T08:00:00+08:00\"}").cmd.push.due_us,
                     INT64_C(1896048000000000));
    assert_int_equal(push("{\"due\":1896048000000}").cmd.push.due_us, INT64_C(1896048000000000));
    assert_int_equal(push("{\"due\":\"1969-07-20T20:17:40Z\"}").cmd.push.due_us, NOW_US);
}

static void what_is_wrong_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *body, *code, *field;
    } cases[] = {
        {"{\"dealy\":1}", "unknown_field", "dealy"},
        {"{\"Delay\":1}", "unknown_field", "Delay"},
        {"{\"lease\":\"1\"}", "unknown_field", "lease"},
        {"{\"id\":\"a\",\"id\":\"b\"}", "duplicate_field", "id"},
        {"{\"id\":1}", "bad_field", "id"},
        {"{\"id\":null}", "bad_field", "id"},
        {"{\"id\":\"\"}", "bad_field", "id"},
        {"{\"id\":\"@5\"}", "bad_field", "id"},
        {"{\"id\":\"a\\nb\"}", "bad_field", "id"},
        {"{\"delay\":\"5\"}", "bad_field", "delay"},
        {"{\"delay\":\"1.5h\"}", "bad_field", "delay"},
        {"{\"delay\":-1}", "bad_field", "delay"},
        {"{\"delay\":1.5}", "bad_field", "delay"},
        {"{\"delay\":\"9999999w\"}", "bad_field", "delay"},
        {"{\"delay\":1,\"due\":1}", "bad_field", "due"},
        {"{\"due\":0,\"delay\":1}", "bad_field", "delay"},
        {"{\"due\":\"tomorrow\"}", "bad_field", "due"},
        {"{\"due\":\"2030-02-30T00:00:00Z\"}", "bad_field", "due"},
        {"{\"due\":-1}", "bad_field", "due"},
        {"{\"due\":1}", "bad_field", "due"},
        {"{\"due\":2020}", "bad_field", "due"},
        {"{\"due\":999999999}", "bad_field", "due"},
        {"{\"ttr\":0}", "bad_field", "ttr"},
        {"{\"ttr\":\"25h\"}", "bad_field", "ttr"},
        {"{\"priority\":4294967296}", "bad_field", "priority"},
        {"{\"priority\":\"1\"}", "bad_field", "priority"},
        {"{\"body\":1,\"body_base64\":\"\"}", "bad_field", "body_base64"},
        {"{\"body_base64\":\"A\"}", "bad_field", "body_base64"},
        {"{\"content_type\":\"a\\nb\"}", "bad_field", "content_type"},
        {"{\"retry\":\"5s\"}", "bad_field", "retry"},
        {"{\"retry\":[\"x\"]}", "bad_field", "retry[0]"},
        {"{\"if_exists\":\"maybe\"}", "bad_field", "if_exists"},
        {"{\"durability\":1}", "bad_field", "durability"},
        {"{\"state\":\"ready\"}", "bad_field", "state"},
        {"{\"state\":\"lost\"}", "bad_field", "state"},
        {"{\"state\":\"buried\",\"delay\":0}", "bad_field", "state"},
        {"{", "bad_json", ""},
        {"5", "bad_json", ""},
        {"{} {}", "bad_json", ""},
        {"{\"body\":[[[[[[[[1]]]]]]]]}", "bad_json", ""},
        {"[1", "bad_json", ""},
        {"{\"id\":\"\xff\"}", "bad_json", ""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct call call = push(cases[i].body);
        if (call.kind != CALL_PROBLEM)
            fail_msg("taken: %s", cases[i].body);
        assert_string_equal(call.problem.code, cases[i].code);
        assert_string_equal(call.problem.field, cases[i].field);
        assert_int_equal(call.problem.status, 400);
    }
}

static void a_body_over_the_limit_is_413(void **state)
{
    (void)state;
    char body[200];
    (void)snprintf(body, sizeof(body), "{\"body\":\"%0101d\"}", 0);
    struct call call = push(body);
    (void)refusal(&call);
    assert_int_equal(status(), 413);
    assert_string_equal(call.problem.config_key, "limits.body_bytes");
}

static void paths_and_methods_have_their_answers(void **state)
{
    (void)state;
    static const struct {
        enum http_method method;
        const char *target;
        int status;
        const char *allow;
    } cases[] = {
        {HTTP_M_GET, "/v1", 404, NULL},
        {HTTP_M_POST, "/v1", 404, NULL},
        {HTTP_M_GET, "/v1/", 404, NULL},
        {HTTP_M_GET, "/v1/nothing", 404, NULL},
        {HTTP_M_GET, "/v1/jobs", 404, NULL},
        {HTTP_M_POST, "/v1/jobs/a/fly", 404, NULL},
        {HTTP_M_GET, "/v1/topics/a/b/c/d", 404, NULL},
        {HTTP_M_GET, "/v1/reserve", 405, "POST"},
        {HTTP_M_PUT, "/v1/jobs/a", 405, "GET, HEAD, PATCH, DELETE"},
        {HTTP_M_DELETE, "/v1/topics/a/jobs", 405, "GET, HEAD, POST"},
        {HTTP_M_POST, "/v1/topics", 405, "GET, HEAD"},
        {HTTP_M_POST, "/v1/stats", 405, "GET, HEAD"},
        {HTTP_M_GET, "/v1/topics/%zz", 400, NULL},
        {HTTP_M_GET, "/v1/topics/%00", 400, NULL},
        {HTTP_M_GET, "/v1/topics/a%0ab", 400, NULL},
        {HTTP_M_GET, "/v1/topics/%ff", 400, NULL},
        {HTTP_M_GET, "/v1/topics/", 400, NULL},
        {HTTP_M_GET, "/v1/jobs/", 400, NULL},
        {HTTP_M_GET, "/v1/jobs/a?x=1", 400, NULL},
        {HTTP_M_GET, "/v1/topics?limit=0", 400, NULL},
        {HTTP_M_GET, "/v1/topics?limit=6", 400, NULL},
        {HTTP_M_GET, "/v1/topics?state=ready", 400, NULL},
        {HTTP_M_GET, "/v1/topics/a/jobs?state=gone", 400, NULL},
        {HTTP_M_GET, "/v1/topics/a/jobs?cursor=1", 400, NULL},
        {HTTP_M_POST, "/v1/due", 405, "GET, HEAD"},
        {HTTP_M_GET, "/v1/due", 400, NULL},
        {HTTP_M_GET, "/v1/due?within=", 400, NULL},
        {HTTP_M_GET, "/v1/due?within=1m,", 400, NULL},
        {HTTP_M_GET, "/v1/due?within=60", 400, NULL},
        {HTTP_M_GET, "/v1/due?within=1h,1m", 400, NULL},
        {HTTP_M_GET, "/v1/due?until=1m", 400, NULL},
        {HTTP_M_GET, "/v1/due?within=%zz", 400, NULL},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct call call = v1(cases[i].method, cases[i].target, NULL);
        if (call.kind != CALL_PROBLEM)
            fail_msg("taken: %s", cases[i].target);
        (void)refusal(&call);
        if (status() != cases[i].status)
            fail_msg("%s: %d", cases[i].target, status());
        if (cases[i].allow) {
            char line[100];
            (void)snprintf(line, sizeof(line), "Allow: %s\r\n", cases[i].allow);
            assert_non_null(strstr(fixture_out.at, line));
        }
    }
}

static void another_sites_page_may_read_but_change_nothing(void **state)
{
    (void)state;
    static const struct {
        enum api_dialect root;
        enum http_method method;
        const char *target;
        int status; /* 0: taken */
    } cases[] = {
        {DIALECT_NONE, HTTP_M_POST, "/v1/topics/t/jobs", 403},
        {DIALECT_NONE, HTTP_M_DELETE, "/v1/jobs/a", 403},
        {DIALECT_NONE, HTTP_M_PATCH, "/v1/jobs/a", 403},
        {DIALECT_NONE, HTTP_M_PUT, "/v1/jobs/a", 403},
        {DIALECT_NONE, HTTP_M_GET, "/v1/jobs/a", 0},
        {DIALECT_NONE, HTTP_M_GET, "/metrics", 0},
        {DIALECT_DELAY_QUEUE, HTTP_M_POST, "/v1/reserve", 403},
        {DIALECT_DELAY_QUEUE, HTTP_M_POST, "/pop", 200},
        {DIALECT_DELAY_QUEUE, HTTP_M_GET, "/pop", 200},
        {DIALECT_DELAYQUEUE_JAVA, HTTP_M_POST, "/push", 403},
        {DIALECT_DELAYQUEUE_JAVA, HTTP_M_GET, "/pop/t", 403},
        {DIALECT_DELAYQUEUE_JAVA, HTTP_M_POST, "/v1/reserve", 403},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct call call = ask(
            cases[i].root,
            (struct ask){.method = cases[i].method, .target = cases[i].target, .cross_site = true});
        bool refused = call.kind == CALL_PROBLEM;
        if (refused != (cases[i].status != 0))
            fail_msg("%s: %s", cases[i].target, refused ? "refused" : "taken");
        if (!refused)
            continue;
        const char *body = refusal(&call);
        assert_int_equal(status(), cases[i].status);
        assert_non_null(strstr(body, "another origin"));
        bool is_v1 = strncmp(cases[i].target, "/v1/", 4) == 0;
        assert_int_equal(strstr(body, "\"code\":\"cross_site\"") != NULL, is_v1);
        assert_int_equal(strstr(body, "\"code\":1,") != NULL, !is_v1);
    }
}

static void details_say_what_would_be_right(void **state)
{
    (void)state;
    static const struct {
        const char *body, *detail;
    } cases[] = {
        {"{\"if_exists\":\"skip\"}", "this is not one of reject, replace, keep"},
        {"{\"durability\":\"\"}", "this is not one of default, sync, interval, os"},
        {"{\"id\":\"\"}", "the id is empty"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct call call = push(cases[i].body);
        assert_int_equal(call.kind, CALL_PROBLEM);
        assert_string_equal(call.problem.detail, cases[i].detail);
    }
    struct call call = v1(HTTP_M_POST, "/v1/reserve", "{\"topics\":[\"\"]}");
    assert_string_equal(call.problem.detail, "a topic's name is empty");
    call = v1(HTTP_M_POST, "/v1/topics//jobs", "{}");
    assert_string_equal(call.problem.detail, "the topic is empty");
}

static void a_wrong_state_is_told_with_what_would_do(void **state)
{
    (void)state;
    struct call call = v1(HTTP_M_POST, "/v1/jobs/a/run", NULL);
    struct reply reply = {.kind = CMD_RUN, .err = ERR_WRONG_STATE, .state = JOB_BURIED};
    assert_string_equal(
        answer(&call, &reply),
        "{\"type\":\"about:blank\",\"title\":\"Conflict\",\"status\":409,\"code\":\"wrong_state\","
        "\"detail\":\"the job is buried: only a delayed job can be run now; kick a buried one\"}");
}

static void what_was_created_has_a_location(void **state)
{
    (void)state;
    struct call call = push("{}");
    struct job_view job = {.ref.id = BYTES("a/\xc3\xa9.Z~"), .state = JOB_READY};
    struct reply reply = {.kind = CMD_PUSH, .count = 1, .jobs = &job};
    const char *body = answer(&call, &reply);
    assert_int_equal(status(), 201);
    assert_non_null(strstr(fixture_out.at, "Location: /v1/jobs/a%2F%C3%A9.Z~\r\n"));
    assert_non_null(strstr(body, "\"result\":\"created\"}"));
    reply.kept = true;
    (void)answer(&call, &reply);
    assert_null(strstr(fixture_out.at, "Location"));
}

static void media_types_are_looked_at(void **state)
{
    (void)state;
    static const struct {
        const char *type;
        int status; /* 0: taken */
    } cases[] = {
        {"application/json", 0},
        {"Application/JSON; charset=utf-8", 0},
        {"text/plain", 415},
        {"application/x-www-form-urlencoded", 415},
        {NULL, 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct call call = ask(DIALECT_NONE, (struct ask){.method = HTTP_M_POST,
                                                          .target = "/v1/topics/t/jobs",
                                                          .type = cases[i].type,
                                                          .body = "{}"});
        assert_int_equal(call.kind == CALL_PROBLEM ? call.problem.status : 0, cases[i].status);
    }
}

static void jobs_are_named_in_the_path(void **state)
{
    (void)state;
    struct call call = v1(HTTP_M_POST, "/v1/jobs/a%2Fb%20c/release",
                          "{\"lease\":\"18446744073709551615\",\"delay\":10,\"priority\":3}");
    assert_int_equal(call.cmd.kind, CMD_RELEASE);
    assert_text(call.cmd.job.ref.id, "a/b c");
    assert_true(call.cmd.job.lease == UINT64_MAX && call.cmd.job.has_delay);
    assert_int_equal(call.cmd.job.due_us, NOW_US + 10000);
    assert_true(call.cmd.job.priority == 3 && !call.cmd.job.brief); /* its answer has the job */
    call = v1(HTTP_M_DELETE, "/v1/jobs/@77", NULL);
    assert_true(call.cmd.kind == CMD_DELETE && call.cmd.job.brief);
    assert_int_equal(call.cmd.job.ref.seq, 77);
    call = v1(HTTP_M_HEAD, "/v1/jobs/a", NULL);
    assert_true(call.cmd.kind == CMD_GET && call.format.head_only);
    call = v1(HTTP_M_PATCH, "/v1/jobs/a", "{\"due\":0,\"body\":1}");
    assert_true(call.cmd.job.has_due && call.cmd.job.has_body && !call.cmd.job.has_priority);
    assert_int_equal(v1(HTTP_M_PATCH, "/v1/jobs/a", "{}").kind, CALL_PROBLEM);
    assert_int_equal(v1(HTTP_M_POST, "/v1/jobs/a/finish", "{\"lease\":5}").kind, CALL_PROBLEM);
    assert_true(v1(HTTP_M_POST, "/v1/jobs/a/finish", "").cmd.job.brief);
}

static void reserve_takes_topics_wait_and_max(void **state)
{
    (void)state;
    struct call call = v1(HTTP_M_POST, "/v1/reserve",
                          "{\"topics\":[\"a\",\"b\",\"a\"],\"wait\":\"30s\",\"max\":5}");
    assert_int_equal(call.cmd.reserve.topic_count, 2);
    assert_int_equal(call.cmd.reserve.wait_us, 30 * SECOND_US);
    assert_int_equal(call.cmd.reserve.max, 5);
    static const char *const bad[] = {"",
                                      "{\"topics\":[]}",
                                      "{\"topics\":[1]}",
                                      "{\"topics\":\"a\"}",
                                      "{\"topics\":[\"\"]}",
                                      "{\"topics\":[\"a\",\"b\",\"c\",\"d\"]}",
                                      "{\"topics\":[\"a\"],\"max\":0}",
                                      "{\"topics\":[\"a\"],\"max\":6}",
                                      "{\"topics\":[\"a\"],\"wait\":\"11m\"}"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(v1(HTTP_M_POST, "/v1/reserve", bad[i]).kind, CALL_PROBLEM);
}

static void what_is_due_is_asked_for_by_durations(void **state)
{
    (void)state;
    char target[400];
    struct call call = v1(HTTP_M_GET, "/v1/due?within=0s,1m%2C1h30m,100000000d", NULL);
    uint64_t due[] = {0, 1, 2, 3};
    assert_int_equal(call.kind, CALL_CMD);
    assert_int_equal(call.cmd.kind, CMD_DUE);
    assert_int_equal(call.cmd.topic.until_count, 4);
    assert_int_equal(call.cmd.topic.until_us[0], NOW_US);
    assert_int_equal(call.cmd.topic.until_us[1], NOW_US + 60 * SECOND_US);
    assert_int_equal(call.cmd.topic.until_us[2], NOW_US + 5400 * SECOND_US);
    struct reply reply = {
        .kind = CMD_DUE, .count = 1, .until_us = call.cmd.topic.until_us + 1, .due = due + 1};
    const char *text = answer(&call, &reply);
    assert_non_null(strstr(text, "{\"due\":[{\"until\":\"20"));
    assert_non_null(strstr(text, "\"jobs\":1}]}"));
    for (int times = DUE_TIMES_MAX; times <= DUE_TIMES_MAX + 1; times++) {
        int len = snprintf(target, sizeof(target), "/v1/due?within=0s");
        for (int i = 1; i < times; i++)
            len += snprintf(target + len, sizeof(target) - (size_t)len, ",1m");
        call = v1(HTTP_M_GET, target, NULL);
        assert_int_equal(call.kind, times > DUE_TIMES_MAX ? CALL_PROBLEM : CALL_CMD);
    }
}

static void lists_have_cursors(void **state)
{
    (void)state;
    struct call call = v1(HTTP_M_GET, "/v1/topics/t/jobs?state=buried&cursor=-_8AAQ&limit=3", NULL);
    assert_int_equal(call.cmd.topic.state, JOB_BURIED);
    assert_true(bytes_eq(call.cmd.topic.cursor, BYTES("\xfb\xff\0\1")));
    assert_int_equal(call.cmd.topic.max, 3);
    assert_false(call.cmd.topic.backwards);
    assert_true(v1(HTTP_M_GET, "/v1/topics/t/jobs?order=desc", NULL).cmd.topic.backwards);
    assert_false(v1(HTTP_M_GET, "/v1/topics/t/jobs?order=asc", NULL).cmd.topic.backwards);
    assert_int_equal(v1(HTTP_M_GET, "/v1/topics/t/jobs?order=down", NULL).kind, CALL_PROBLEM);
    assert_int_equal(v1(HTTP_M_GET, "/v1/topics?order=desc", NULL).kind, CALL_PROBLEM);
    struct reply reply = {.kind = CMD_LIST, .cursor = BYTES("\xfb\xff\0\2")};
    assert_string_equal(answer(&call, &reply), "{\"jobs\":[],\"cursor\":\"-_8AAg\"}");
    reply.cursor.len = 0;
    assert_string_equal(answer(&call, &reply), "{\"jobs\":[]}");
    assert_int_equal(v1(HTTP_M_GET, "/v1/topics/t/jobs", NULL).cmd.topic.cursor.len, 0);
    call = v1(HTTP_M_GET, "/v1/topics?cursor=a%20b", NULL);
    assert_text(call.cmd.topic.topic, "a b");
    call = v1(HTTP_M_POST, "/v1/topics/t/pause", "{\"for\":\"5m\"}");
    assert_int_equal(call.cmd.topic.pause_until_us, NOW_US + 300 * SECOND_US);
    assert_int_equal(v1(HTTP_M_POST, "/v1/topics/t/pause", NULL).cmd.topic.pause_until_us,
                     INT64_MAX);
    assert_int_equal(v1(HTTP_M_POST, "/v1/topics/t/clear", "{}").kind, CALL_PROBLEM);
}

/* By whoever finds it out: the decoder, or the engine. */
static void a_cursor_that_is_none_is_a_problem_that_says_to_begin_again(void **state)
{
    static const char *const bad[] = {"",         "17.5",      "%2B_8AAQ", "-_8AAR", "-_8AAQ%3D%3D",
                                      "-_8AA%0A", "-_8AAQAAA", "A"};
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char target[80];
        (void)snprintf(target, sizeof(target), "/v1/topics/t/jobs?cursor=%s", bad[i]);
        struct call call = v1(HTTP_M_GET, target, NULL);
        assert_int_equal(call.kind, CALL_PROBLEM);
        assert_int_equal(call.problem.status, 400);
        assert_non_null(strstr(refusal(&call), "begin again without a cursor"));
    }
    struct call call = v1(HTTP_M_GET, "/v1/topics/t/jobs?cursor=AAAA", NULL);
    assert_int_equal(call.kind, CALL_CMD);
    const char *said = answer(&call, &(struct reply){.kind = CMD_LIST, .err = ERR_INVALID});
    assert_non_null(strstr(said, "\"code\":\"bad_parameter\""));
    assert_non_null(strstr(said, "\"field\":\"cursor\""));
    assert_non_null(strstr(said, "begin again without a cursor"));
}

static void commands_on_all_jobs_of_a_topic_are_asked_for_by_name(void **state)
{
    (void)state;
    struct call call = v1(HTTP_M_POST, "/v1/topics/t/clear", "{\"state\":\"all\",\"max\":3}");
    assert_int_equal(call.kind, CALL_CLEAR);
    assert_int_equal(call.cmd.kind, CMD_CLEAR_TOPIC);
    assert_int_equal(call.cmd.topic.max, 3);
    assert_int_equal(v1(HTTP_M_POST, "/v1/topics/t/clear", "{\"state\":\"ready\"}").kind, CALL_CMD);
    assert_int_equal(push("{\"state\":\"all\"}").kind, CALL_PROBLEM);
    call = v1(HTTP_M_DELETE, "/v1/topics/t", NULL);
    assert_int_equal(call.kind, CALL_CLEAR);
    assert_int_equal(call.cmd.kind, CMD_REMOVE_TOPIC);
    struct reply reply = {.kind = CMD_REMOVE_TOPIC, .count = 7};
    assert_string_equal(answer(&call, &reply), "{\"jobs\":7,\"removed\":true}");
    assert_string_equal(v1(HTTP_M_PATCH, "/v1/topics/t", NULL).problem.allow,
                        "GET, HEAD, PUT, DELETE");
    assert_true(v1(HTTP_M_POST, "/v1/topics/t/pause", NULL).cmd.topic.must_exist);
    call = v1(HTTP_M_POST, "/v1/topics/t/pause", "{\"create\":true}");
    assert_int_equal(call.kind, CALL_CMD);
    assert_false(call.cmd.topic.must_exist);
    assert_false(v1(HTTP_M_POST, "/v1/topics/t/resume", NULL).cmd.topic.must_exist);
}

/* Each item: '+' and its id, or '-' and the code of its problem. */
static const char *items(struct call *call)
{
    static char text[500];
    struct cmd cmd;
    struct problem problem;
    size_t len = 0;
    while (api_batch_next(&call->batch, &fixture_limits, NOW_US, &fixture_arena, &cmd, &problem)) {
        if (problem.status)
            len += (size_t)snprintf(text + len, sizeof(text) - len, "-%s ", problem.code);
        else
            len += (size_t)snprintf(text + len, sizeof(text) - len, "+%.*s ", (int)cmd.push.id.len,
                                    cmd.push.id.at);
    }
    text[len] = '\0';
    return text;
}

static void a_batch_is_an_array_or_lines(void **state)
{
    (void)state;
    struct call call = push(" [ {\"id\":\"a\"} , {\"x\":1}, 5, \"s\", {\"id\":\"b\"}]");
    assert_int_equal(call.kind, CALL_BATCH);
    assert_string_equal(items(&call), "+a -unknown_field -bad_json -bad_json +b ");
    call = push("[]");
    assert_string_equal(items(&call), "");
    assert_int_equal(push("[{},{},{},{},{},{}]").problem.status, 413);
    assert_int_equal(push("[{},]").kind, CALL_PROBLEM);
    assert_int_equal(push("[{}] x").kind, CALL_PROBLEM);
    call = ask(DIALECT_NONE, (struct ask){.method = HTTP_M_POST,
                                          .target = "/v1/topics/t/jobs",
                                          .type = "application/x-ndjson",
                                          .body = "{\"id\":\"a\"}\r\n\n{\"id\":\n{\"id\":\"b\"}"});
    assert_string_equal(items(&call), "+a -bad_json +b ");
}

static void a_bad_line_is_named_by_its_number(void **state)
{
    (void)state;
    struct cmd cmd;
    struct problem problem;
    struct call call = ask(DIALECT_NONE, (struct ask){.method = HTTP_M_POST,
                                                      .target = "/v1/topics/t/jobs",
                                                      .type = "application/x-ndjson",
                                                      .body = "{}\n\n \n5\n"});
    assert_true(
        api_batch_next(&call.batch, &fixture_limits, NOW_US, &fixture_arena, &cmd, &problem));
    assert_true(
        api_batch_next(&call.batch, &fixture_limits, NOW_US, &fixture_arena, &cmd, &problem));
    assert_string_equal(problem.detail, "line 4: an object is expected here");
}

/* What a batch of two is answered, of which the second has failed. */
static const char *answered_batch(const struct call *call, const struct reply *good,
                                  const struct reply *bad)
{
    struct buf results = {0};
    api_batch_result(&call->format, &results, good, NULL);
    api_batch_result(&call->format, &results, bad, NULL);
    fixture_out.len = 0;
    api_batch_reply(&call->format, buf_bytes(&results), 1, bytes_of(NULL, 0), &fixture_out);
    buf_fini(&results);
    return answered();
}

static void a_batch_is_answered_item_by_item(void **state)
{
    (void)state;
    struct call call = push("[{},{}]");
    struct job_view job = {.ref.seq = 5, .state = JOB_READY, .due_us = NOW_US};
    struct reply good = {.kind = CMD_PUSH, .count = 1, .jobs = &job};
    struct reply bad = {.kind = CMD_PUSH, .err = ERR_EXISTS};
    assert_string_equal(
        answered_batch(&call, &good, &bad),
        "{\"failed\":1,\"results\":[{\"status\":201,\"job\":{\"id\":\"@5\",\"state\":\"ready\","
        "\"due\":\"2023-11-14T22:13:20.123456Z\",\"due_ms\":1700000000123,\"result\":\"created\"}},"
        "{\"status\":409,\"problem\":{\"type\":\"about:blank\",\"title\":\"Conflict\",\"status\":"
        "409,\"code\":\"exists\",\"detail\":\"a live job has this id\"}}]}");
}

static void a_batch_of_finishes_names_each_job_and_its_lease(void **state)
{
    (void)state;
    struct cmd cmd;
    struct problem problem;
    struct call call = v1(HTTP_M_POST, "/v1/finish",
                          "{\"jobs\":[{\"id\":\"a\",\"lease\":\"7\"},{\"id\":\"@3\"},{},"
                          "{\"id\":\"a\",\"lease\":7}]}");
    assert_int_equal(call.kind, CALL_BATCH);
    assert_true(
        api_batch_next(&call.batch, &fixture_limits, NOW_US, &fixture_arena, &cmd, &problem));
    assert_int_equal(problem.status, 0);
    assert_true(cmd.kind == CMD_FINISH && cmd.job.brief);
    assert_text(cmd.job.ref.id, "a");
    assert_int_equal(cmd.job.lease, 7);
    assert_true(
        api_batch_next(&call.batch, &fixture_limits, NOW_US, &fixture_arena, &cmd, &problem));
    assert_int_equal(cmd.job.ref.seq, 3);
    assert_int_equal(cmd.job.lease, 0);
    assert_true(
        api_batch_next(&call.batch, &fixture_limits, NOW_US, &fixture_arena, &cmd, &problem));
    assert_string_equal(problem.code, "missing_field");
    assert_true(
        api_batch_next(&call.batch, &fixture_limits, NOW_US, &fixture_arena, &cmd, &problem));
    assert_string_equal(problem.field, "lease");
    assert_false(
        api_batch_next(&call.batch, &fixture_limits, NOW_US, &fixture_arena, &cmd, &problem));
}

static void a_batch_of_finishes_that_is_none_finishes_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        int status;
        const char *code;
    } bad[] = {
        {NULL, 400, "missing_field"},
        {"{}", 400, "missing_field"},
        {"[]", 400, "bad_json"},
        {"{\"jobs\":{}}", 400, "bad_field"},
        {"{\"jobs\":[{\"id\":\"a\"},]}", 400, "bad_json"},
        {"{\"jobs\":[],\"lease\":\"1\"}", 400, "unknown_field"},
        {"{\"jobs\":[],\"jobs\":[]}", 400, "duplicate_field"},
        {"{\"jobs\":[1,2,3,4,5,6]}", 413, "batch_too_large"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct call call = v1(HTTP_M_POST, "/v1/finish", bad[i].body);
        assert_int_equal(call.kind, CALL_PROBLEM);
        assert_string_equal(call.problem.code, bad[i].code);
        assert_int_equal(call.problem.status, bad[i].status);
    }
    assert_int_equal(v1(HTTP_M_GET, "/v1/finish", NULL).problem.status, 405);
}

static void an_item_that_is_no_object_is_named_by_its_place(void **state)
{
    (void)state;
    static const char *const targets[] = {"/v1/get", "/v1/finish"};
    for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
        struct call call = v1(HTTP_M_POST, targets[i], "{\"jobs\":[{\"id\":\"a\"},\"x\",[]]}");
        struct problem problem;
        struct cmd cmd;
        for (int at = 0; at < 3; at++) {
            assert_true(api_batch_next(&call.batch, &fixture_limits, NOW_US, &fixture_arena, &cmd,
                                       &problem));
            assert_string_equal(problem.field, at == 0 ? "" : at == 1 ? "jobs[1]" : "jobs[2]");
            assert_string_equal(at ? problem.code : "bad_field", "bad_field");
        }
    }
}

static void a_time_beyond_the_last_is_told_it(void **state)
{
    (void)state;
    struct call call = push("{\"due\":\"10000-01-01T00:00:00Z\"}");
    assert_non_null(strstr(call.problem.detail, "the latest is the end of the year 9999"));
}

static void a_finish_in_a_batch_is_answered_with_its_status(void **state)
{
    (void)state;
    struct call call = v1(HTTP_M_POST, "/v1/finish", "{\"jobs\":[{\"id\":\"a\"}]}");
    struct reply good = {.kind = CMD_FINISH, .count = 1};
    struct reply bad = {.kind = CMD_FINISH, .err = ERR_WRONG_STATE, .state = JOB_READY};
    assert_string_equal(
        answered_batch(&call, &good, &bad),
        "{\"failed\":1,\"results\":[{\"status\":204},{\"status\":409,\"problem\":{\"type\":"
        "\"about:blank\",\"title\":\"Conflict\",\"status\":409,\"code\":\"wrong_state\",\"detail\":"
        "\"the job is ready: only a reserved job can be finished; DELETE takes it from any "
        "state\"}}]}");
}

static void a_request_for_another_host_is_refused_in_every_dialect(void **state)
{
    (void)state;
    static const char *const paths[] = {"/v1/topics", "/push", "/pop/t", "/healthz", "/", "/x"};
    for (enum api_dialect dialect = 0; dialect < DIALECT_COUNT; dialect++) {
        for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
            for (enum http_method method = HTTP_M_GET; method <= HTTP_M_OTHER; method++) {
                struct ask asked = {
                    .method = method, .target = paths[i], .body = "{}", .host = "evil.example:1"};
                struct call call = ask(dialect, asked);
                const char *body = refusal(&call);
                assert_int_equal(status(), 403);
                assert_string_equal(call.problem.code, "unknown_host");
                assert_true(method == HTTP_M_HEAD || strstr(body, "server.hosts") != NULL);
                asked.host = "Queue.Example:80";
                call = ask(dialect, asked);
                assert_true(call.kind != CALL_PROBLEM ||
                            strcmp(call.problem.code, "unknown_host") != 0);
            }
        }
    }
}

static void a_job_is_shown_whole(void **state)
{
    (void)state;
    struct call call = v1(HTTP_M_GET, "/v1/jobs/a", NULL);
    int64_t retry_us[] = {0, 1500000, 250};
    struct job_view job = {.ref.id = BYTES("a"),
                           .topic = BYTES("t"),
                           .state = JOB_RESERVED,
                           .due_us = 1700000000000000,
                           .until_us = 1700000060000000,
                           .ttr_us = 60000000,
                           .created_us = 0,
                           .lease = UINT64_MAX,
                           .attempt = 2,
                           .failures = 1,
                           .retry_us = retry_us,
                           .retry_count = 3,
                           .body = BYTES("\xff"),
                           .content_type = BYTES("x/y")};
    struct reply reply = {.kind = CMD_GET, .count = 1, .jobs = &job};
    assert_string_equal(
        answer(&call, &reply),
        "{\"id\":\"a\",\"topic\":\"t\",\"state\":\"reserved\",\"due\":\"2023-11-14T22:13:20.000Z\","
        "\"due_ms\":1700000000000,\"priority\":0,\"ttr_ms\":60000,\"created\":"
        "\"1970-01-01T00:00:00.000Z\",\"attempt\":2,\"failures\":1,\"lease\":"
        "\"18446744073709551615\",\"deadline\":\"2023-11-14T22:14:20.000Z\",\"deadline_ms\":"
        "1700000060000,\"retry\":[0,1500,\"250us\"],\"body_base64\":\"/w==\",\"content_type\":"
        "\"x/y\"}");
    job.body = BYTES("[1, 2]");
    job.body_kind = BODY_JSON;
    assert_non_null(strstr(answer(&call, &reply), "\"body\":[1, 2]"));
    job.body_kind = BODY_BYTES;
    assert_non_null(strstr(answer(&call, &reply), "\"body\":\"[1, 2]\""));
}

static void errors_have_their_status(void **state)
{
    (void)state;
    static const struct {
        enum err err;
        int status;
        bool retry;
    } cases[] = {
        {ERR_NOT_FOUND, 404, false},    {ERR_EXISTS, 409, false},
        {ERR_STALE_LEASE, 409, false},  {ERR_WRONG_STATE, 409, false},
        {ERR_JOBS_LIMIT, 429, true},    {ERR_TOPICS_LIMIT, 429, true},
        {ERR_WAITERS_LIMIT, 429, true}, {ERR_MEMORY_LIMIT, 503, true},
        {ERR_STORE_FAILED, 503, true},  {ERR_DRAINING, 503, true},
        {ERR_DISK_FULL, 507, false},    {ERR_DAMAGED, 500, false},
    };
    struct call call = v1(HTTP_M_GET, "/v1/jobs/a", NULL);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct reply reply = {.kind = CMD_GET, .err = cases[i].err};
        const char *body = answer(&call, &reply);
        assert_int_equal(status(), cases[i].status);
        assert_non_null(strstr(body, err_name(cases[i].err)));
        assert_int_equal(strstr(fixture_out.at, "Retry-After") != NULL, cases[i].retry);
        assert_non_null(strstr(fixture_out.at, "Content-Type: application/problem+json\r\n"));
    }
}

static void what_the_engine_says_more_of_an_error_is_told(void **state)
{
    (void)state;
    struct call call = v1(HTTP_M_GET, "/v1/jobs/a", NULL);
    struct reply reply = {.kind = CMD_GET, .err = ERR_AGAIN, .why = "Redis is away"};
    assert_non_null(
        strstr(answer(&call, &reply), "\"detail\":\"not now, try again: Redis is away\""));
    assert_non_null(strstr(fixture_out.at, "Retry-After"));
    reply.err = ERR_UNSUPPORTED;
    reply.why = "due in 2300";
    assert_non_null(
        strstr(answer(&call, &reply), "\"detail\":\"this engine cannot do that: due in 2300\""));
    assert_int_equal(status(), 501);
}

static void an_empty_reserve_is_204(void **state)
{
    (void)state;
    struct call call = v1(HTTP_M_POST, "/v1/reserve", "{\"topics\":[\"a\"]}");
    struct reply reply = {.kind = CMD_RESERVE, .err = ERR_EMPTY};
    assert_string_equal(answer(&call, &reply), "");
    assert_int_equal(status(), 204);
}

static void the_servers_own_pages_are_on_every_listener(void **state)
{
    (void)state;
    for (int dialect = DIALECT_DELAY_QUEUE; dialect < DIALECT_COUNT; dialect++) {
        struct ask get = {.method = HTTP_M_GET, .target = "/metrics"};
        assert_int_equal(ask((enum api_dialect)dialect, get).kind, CALL_METRICS);
        get.target = "/v1/openapi.json";
        assert_int_equal(ask((enum api_dialect)dialect, get).kind, CALL_OPENAPI);
        get.target = "/readyz";
        assert_int_equal(ask((enum api_dialect)dialect, get).kind, CALL_READYZ);
    }
    assert_true(api_openapi().len > 1000 && api_openapi().at[0] == '{');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_push_may_say_everything),
        cmocka_unit_test(a_push_may_ask_for_a_buried_job),
        cmocka_unit_test(a_push_may_say_nothing),
        cmocka_unit_test(a_push_without_a_body_is_refused),
        cmocka_unit_test(commands_on_all_jobs_of_a_topic_are_asked_for_by_name),
        cmocka_unit_test(bodies_come_in_three_kinds),
        cmocka_unit_test(due_is_a_time_or_milliseconds),
        cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test(a_body_over_the_limit_is_413),
        cmocka_unit_test(paths_and_methods_have_their_answers),
        cmocka_unit_test(another_sites_page_may_read_but_change_nothing),
        cmocka_unit_test(details_say_what_would_be_right),
        cmocka_unit_test(a_wrong_state_is_told_with_what_would_do),
        cmocka_unit_test(what_was_created_has_a_location),
        cmocka_unit_test(media_types_are_looked_at),
        cmocka_unit_test(jobs_are_named_in_the_path),
        cmocka_unit_test(reserve_takes_topics_wait_and_max),
        cmocka_unit_test(what_is_due_is_asked_for_by_durations),
        cmocka_unit_test(lists_have_cursors),
        cmocka_unit_test(a_cursor_that_is_none_is_a_problem_that_says_to_begin_again),
        cmocka_unit_test(a_batch_is_an_array_or_lines),
        cmocka_unit_test(a_bad_line_is_named_by_its_number),
        cmocka_unit_test(a_batch_is_answered_item_by_item),
        cmocka_unit_test(a_request_for_another_host_is_refused_in_every_dialect),
        cmocka_unit_test(a_batch_of_finishes_names_each_job_and_its_lease),
        cmocka_unit_test(a_batch_of_finishes_that_is_none_finishes_nothing),
        cmocka_unit_test(a_finish_in_a_batch_is_answered_with_its_status),
        cmocka_unit_test(an_item_that_is_no_object_is_named_by_its_place),
        cmocka_unit_test(a_time_beyond_the_last_is_told_it),
        cmocka_unit_test(a_job_is_shown_whole),
        cmocka_unit_test(errors_have_their_status),
        cmocka_unit_test(what_the_engine_says_more_of_an_error_is_told),
        cmocka_unit_test(an_empty_reserve_is_204),
        cmocka_unit_test(the_servers_own_pages_are_on_every_listener),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    fixture_done();
    return failed;
}
