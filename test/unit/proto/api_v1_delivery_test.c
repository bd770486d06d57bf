/* /v1 where jobs are sent away: settings, what a push brings for it, reasons, attempts, replay. */
#include "api_fixture.h"
#include "proto/settings/job_properties.h"
#include "proto/settings/topic_settings.h"

static struct call v1(enum http_method method, const char *target, const char *body)
{
    return ask(DIALECT_DELAY_QUEUE, (struct ask){.method = method, .target = target, .body = body});
}

static struct call push(const char *body)
{
    return v1(HTTP_M_POST, "/v1/topics/t/jobs", body);
}

static struct call put(const char *body, const char *if_match, const char *if_none_match)
{
    return ask(DIALECT_NONE, (struct ask){.method = HTTP_M_PUT,
                                          .target = "/v1/topics/t",
                                          .body = body,
                                          .if_match = if_match,
                                          .if_none_match = if_none_match});
}

static void settings_are_kept_in_their_fixed_form(void **state)
{
    struct call call =
        put("{ \"ttr\":90000 , \"retry\":\"zing\",\"target\":{\"url\":\"https://a/\","
            "\"type\":\"http\"}}",
            NULL, NULL);
    (void)state;
    assert_int_equal(call.kind, CALL_CMD);
    assert_int_equal(call.cmd.kind, CMD_CONFIGURE_TOPIC);
    assert_text(call.cmd.topic.topic, "t");
    assert_text(call.cmd.topic.settings, "{\"target\":{\"type\":\"http\",\"url\":\"https://a/\"},"
                                         "\"retry\":\"zing\",\"ttr\":\"90s\"}");
    assert_false(call.cmd.topic.if_version);
    struct reply reply = {.kind = CMD_CONFIGURE_TOPIC, .version = 17};
    assert_string_equal(answer(&call, &reply), "{\"version\":17}");
    assert_non_null(strstr(fixture_out.at, "\r\nETag: \"17\"\r\n"));
}

static void settings_that_say_nothing_are_taken_away(void **state)
{
    struct call call = put("{}", NULL, NULL);
    (void)state;
    assert_int_equal(call.kind, CALL_CMD);
    assert_int_equal(call.cmd.topic.settings.len, 0);
    assert_int_equal(put("", NULL, NULL).problem.status, 400);
    assert_string_equal(put("", NULL, NULL).problem.code, "missing_body");
}

static void settings_that_are_wrong_are_named_by_their_path(void **state)
{
    struct call call = put("{\"target\":{\"type\":\"http\",\"url\":\"ftp://a/\"}}", NULL, NULL);
    (void)state;
    assert_string_equal(refusal(&call),
                        "{\"type\":\"about:blank\",\"title\":\"Bad Request\",\"status\":400,"
                        "\"code\":\"bad_field\",\"field\":\"target.url\",\"detail\":"
                        "\"the URL must begin with http:// or https://\"}");
    call = put("{\"retyr\":[]}", NULL, NULL);
    assert_string_equal(call.problem.code, "unknown_field");
    assert_string_equal(call.problem.field, "retyr");
}

static void a_due_time_of_0_is_now_and_a_past_one_stays(void **state)
{
    (void)state;
    assert_int_equal(push("{\"due\":0}").cmd.push.due_us, NOW_US);
    assert_int_equal(v1(HTTP_M_PATCH, "/v1/jobs/a", "{\"due\":0}").cmd.job.due_us, NOW_US);
    assert_int_equal(push("{\"due\":\"2001-01-01T00:00:00Z\"}").cmd.push.due_us,
                     INT64_C(978307200000000)); /* it goes before what was due later */
}

static void a_ttr_above_the_limit_is_refused(void **state)
{
    (void)state;
    assert_int_equal(put("{\"ttr\":\"24h\"}", NULL, NULL).kind, CALL_CMD);
    struct call call = put("{\"ttr\":\"25h\"}", NULL, NULL);
    assert_string_equal(refusal(&call),
                        "{\"type\":\"about:blank\",\"title\":\"Bad Request\",\"status\":400,"
                        "\"code\":\"bad_field\",\"field\":\"ttr\","
                        "\"config_key\":\"limits.ttr_seconds\",\"detail\":"
                        "\"the ttr is over limits.ttr_seconds, which is 1d\"}");
}

static void a_target_is_paused_whatever_ttr_was_set_before(void **state)
{
    (void)state;
    struct call call = put("{\"ttr\":\"25h\",\"paused\":true}", NULL, NULL);
    assert_int_equal(call.kind, CALL_CMD);
    assert_text(call.cmd.topic.settings, "{\"ttr\":\"90000s\",\"paused\":true}");
    assert_int_equal(put("{\"ttr\":\"25h\",\"paused\":false}", NULL, NULL).kind, CALL_PROBLEM);
}

static void an_unknown_field_is_told_the_known_ones(void **state)
{
    (void)state;
    struct call call = v1(HTTP_M_PATCH, "/v1/jobs/a", "{\"wait\":1}");
    assert_string_equal(call.problem.field, "wait");
    assert_string_equal(call.problem.detail,
                        "there is no field of that name here, but delay, due, priority, body, "
                        "body_base64, content_type");
    call = push("{\"lease\":1}");
    assert_non_null(strstr(call.problem.detail, "here, but id, delay, due, ttr, "));
    assert_string_equal(strrchr(call.problem.detail, ' '), " …");
}

static void an_unknown_field_is_told_the_one_that_was_meant(void **state)
{
    (void)state;
    struct call call = v1(HTTP_M_PATCH, "/v1/jobs/a", "{\"dleay\":1}");
    assert_string_equal(call.problem.field, "dleay");
    assert_string_equal(call.problem.detail,
                        "there is no field of that name here; did you mean delay?");
    assert_string_equal(push("{\"if-exists\":\"keep\"}").problem.detail,
                        "there is no field of that name here; did you mean if_exists?");
    call = v1(HTTP_M_PATCH, "/v1/jobs/a", "{\"retri\":1}"); /* this call has no "retry" */
    assert_null(strstr(call.problem.detail, "did you mean"));
    call = put("{\"attemts\":1}", NULL, NULL);
    assert_string_equal(call.problem.field, "attemts");
    assert_string_equal(call.problem.detail,
                        "there is no field of that name here; did you mean attempts?");
}

static void a_long_refusal_of_a_line_ends_behind_a_whole_word(void **state)
{
    (void)state;
    struct cmd cmd;
    struct problem problem;
    struct call call = ask(DIALECT_NONE, (struct ask){.method = HTTP_M_POST,
                                                      .target = "/v1/topics/t/jobs",
                                                      .type = "application/x-ndjson",
                                                      .body = "{\"lease\":1}"});
    assert_true(
        api_batch_next(&call.batch, &fixture_limits, NOW_US, &fixture_arena, &cmd, &problem));
    assert_non_null(strstr(problem.detail, "line 1: there is no field of that name here, but id"));
    assert_string_equal(strrchr(problem.detail, ','), ", …");
}

static void a_version_may_be_asked_for(void **state)
{
    struct call call = put("{}", "\"17\"", NULL);
    (void)state;
    assert_true(call.cmd.topic.if_version);
    assert_int_equal(call.cmd.topic.version, 17);
    call = put("{\"attempts\":3}", NULL, "*");
    assert_true(call.cmd.topic.if_version);
    assert_int_equal(call.cmd.topic.version, 0);
    struct reply reply = {.kind = CMD_CONFIGURE_TOPIC, .err = ERR_VERSION, .version = 18};
    assert_non_null(strstr(answer(&call, &reply), "the topic has settings already; their version "
                                                  "is 18 now"));
    assert_int_equal(status(), 412);
    call = put("{}", "\"17\"", NULL);
    assert_non_null(strstr(answer(&call, &reply), "do not have the version that If-Match names; "
                                                  "their version is 18 now"));
    reply.version = 0;
    assert_non_null(strstr(answer(&call, &reply), "the topic has no settings, and If-Match"));
    static const char *const bad[] = {"17", "\"\"", "\"x\"", "W/\"17\"", "*", "\"1\", \"2\""};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        call = put("{}", bad[i], NULL);
        assert_int_equal(call.kind, CALL_PROBLEM);
        assert_string_equal(call.problem.code, "bad_header");
        assert_string_equal(call.problem.field, "If-Match");
    }
    call = put("{}", NULL, "\"17\"");
    assert_string_equal(call.problem.field, "If-None-Match");
}

static void a_topic_is_shown_with_its_settings(void **state)
{
    struct call call = v1(HTTP_M_GET, "/v1/topics/t", NULL);
    struct topic_view topic = {
        .name = BYTES("t"), .settings = BYTES("{\"attempts\":3}"), .version = 9};
    struct reply reply = {.kind = CMD_TOPIC, .count = 1, .topics = &topic};
    (void)state;
    assert_non_null(strstr(answer(&call, &reply), ",\"settings\":{\"attempts\":3},\"version\":9}"));
    assert_non_null(strstr(fixture_out.at, "\r\nETag: \"9\"\r\n"));
    topic.settings.len = 0;
    topic.version = 0;
    assert_null(strstr(answer(&call, &reply), "version"));
    assert_null(strstr(fixture_out.at, "ETag"));
}

static void a_topic_may_be_deleted_only_if_it_is_empty(void **state)
{
    struct call call = v1(HTTP_M_DELETE, "/v1/topics/t?if_empty=true", NULL);
    (void)state;
    assert_int_equal(call.kind, CALL_CLEAR);
    assert_true(call.cmd.topic.if_empty);
    assert_false(v1(HTTP_M_DELETE, "/v1/topics/t?if_empty=false", NULL).cmd.topic.if_empty);
    struct reply reply = {.kind = CMD_REMOVE_TOPIC, .err = ERR_NOT_EMPTY};
    assert_non_null(strstr(answer(&call, &reply), "leave out if_empty"));
    assert_int_equal(status(), 409);
    assert_string_equal(v1(HTTP_M_DELETE, "/v1/topics/t?if_empty=1", NULL).problem.field,
                        "if_empty");
    assert_string_equal(v1(HTTP_M_DELETE, "/v1/topics/t?force=true", NULL).problem.field, "force");
    assert_string_equal(v1(HTTP_M_POST, "/v1/topics/t/kick?if_empty=true", NULL).problem.code,
                        "unknown_parameter");
}

/* ---- what a push brings ---- */

static void a_push_may_bring_target_key_and_headers(void **state)
{
    struct call call = push("{\"url\":\"https://a/x\",\"key\":\"k\",\"headers\":{\"X-A\":\"1\"}}");
    (void)state;
    assert_int_equal(call.kind, CALL_CMD);
    assert_text(call.cmd.push.properties,
                "{\"url\":\"https://a/x\",\"key\":\"k\",\"headers\":{\"X-A\":\"1\"}}");
    assert_true(call.cmd.push.own_target);
    call = push("{\"target\":{\"type\":\"http\",\"url\":\"https://a/x\",\"headers\":{\"B\":\"2\"}}"
                ",\"key\":\"k\"}");
    assert_text(call.cmd.push.properties,
                "{\"url\":\"https://a/x\",\"key\":\"k\",\"headers\":{\"B\":\"2\"}}");
    call = push("{\"key\":\"k\"}");
    assert_text(call.cmd.push.properties, "{\"key\":\"k\"}");
    assert_false(call.cmd.push.own_target);
    assert_int_equal(push("{}").cmd.push.properties.len, 0);
    call = push("{\"amqp\":\"AQFYAWs=\"}"); /* of a job that is moved here */
    assert_text(call.cmd.push.properties, "{\"amqp\":\"AQFYAWs=\"}");
    assert_true(call.cmd.push.own_route && !call.cmd.push.own_target);
    static const struct {
        const char *body, *field;
    } bad[] = {
        {"{\"url\":\"a\"}", "url"},
        {"{\"url\":5}", "url"},
        {"{\"url\":\"https://a/\",\"target\":{\"type\":\"http\"}}", "target"},
        {"{\"target\":{\"type\":\"http\"},\"headers\":{}}", "headers"},
        {"{\"target\":{\"type\":\"kafka\",\"broker\":\"b\",\"topic\":\"t\"}}", "target"},
        {"{\"target\":{\"type\":\"http\",\"sign\":[\"$A\"]}}", "target.sign"},
        {"{\"headers\":{\"Host\":\"a\"}}", "headers.Host"},
        {"{\"key\":\"\"}", "key"},
        {"{\"amqp\":\"\"}", "amqp"},
        {"{\"amqp\":\"?\"}", "amqp"},
        {"{\"amqp\":{}}", "amqp"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        call = push(bad[i].body);
        assert_int_equal(call.kind, CALL_PROBLEM);
        assert_int_equal(call.problem.status, 400);
        assert_string_equal(call.problem.field, bad[i].field);
    }
}

static void too_much_for_a_jobs_properties_is_named(void **state)
{
    struct buf body = {0};
    (void)state;
    buf_add_str(&body, "{\"headers\":{");
    for (char name = 'a'; name < 'd'; name++) {
        buf_addf(&body, "%s\"%c\":\"", name == 'a' ? "" : ",", name);
        for (int i = 0; i < 2000; i++)
            buf_add_char(&body, 'x');
        buf_add_char(&body, '"');
    }
    buf_add_str(&body, "}}");
    buf_add_char(&body, '\0');
    struct call call = push(body.at);
    assert_int_equal(call.kind, CALL_PROBLEM);
    assert_string_equal(call.problem.code, "properties_too_large");
    assert_string_equal(call.problem.field, "headers");
    buf_fini(&body);
}

static void a_schedule_may_be_a_name_or_a_formula(void **state)
{
    struct call call = push("{\"retry\":\"alipay\"}");
    (void)state;
    assert_int_equal(call.cmd.push.retry_count, 7);
    assert_int_equal(call.cmd.push.retry_us[0], 120 * SECOND_US);
    call = push("{\"retry\":{\"min\":\"1s\",\"max\":\"8s\",\"attempts\":6}}");
    assert_int_equal(call.cmd.push.retry_count, 5);
    assert_int_equal(call.cmd.push.retry_us[4], 8 * SECOND_US);
    assert_true(push("{\"retry\":[]}").cmd.push.retry_given);
    assert_false(push("{}").cmd.push.retry_given);
    assert_true(push("{}").cmd.push.ttr_is_default);
    assert_false(push("{\"ttr\":\"5s\"}").cmd.push.ttr_is_default);
}

static void a_level_is_a_delay(void **state)
{
    (void)state;
    assert_int_equal(push("{\"level\":1}").cmd.push.due_us, NOW_US + SECOND_US);
    assert_int_equal(push("{\"level\":3}").cmd.push.due_us, NOW_US + 10 * SECOND_US);
    assert_int_equal(push("{\"level\":18}").cmd.push.due_us, NOW_US + 7200 * SECOND_US);
    static const char *const bad[] = {"{\"level\":0}", "{\"level\":19}", "{\"level\":\"3\"}",
                                      "{\"delay\":1,\"level\":3}",
                                      "{\"due\":\"2030-01-01T00:00:00Z\",\"level\":3}"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_string_equal(push(bad[i]).problem.field, "level");
    assert_string_equal(push("{\"level\":3,\"delay\":1}").problem.field, "delay");
    assert_string_equal(push("{\"level\":3,\"state\":\"buried\"}").problem.field, "state");
}

static void a_batch_may_bring_them_too(void **state)
{
    struct call call =
        push("[{\"url\":\"https://a/\",\"level\":2,\"retry\":\"zing\"},{\"url\":1}]");
    struct cmd cmd;
    struct problem problem;
    (void)state;
    assert_int_equal(call.kind, CALL_BATCH);
    assert_true(
        api_batch_next(&call.batch, &fixture_limits, NOW_US, &fixture_arena, &cmd, &problem));
    assert_int_equal(problem.status, 0);
    assert_text(cmd.push.properties, "{\"url\":\"https://a/\"}");
    assert_int_equal(cmd.push.due_us, NOW_US + 5 * SECOND_US);
    assert_int_equal(cmd.push.retry_count, 5);
    assert_true(
        api_batch_next(&call.batch, &fixture_limits, NOW_US, &fixture_arena, &cmd, &problem));
    assert_string_equal(problem.field, "url");
}

static void a_push_is_answered_with_its_schedule(void **state)
{
    struct call call = push("{}");
    int64_t retry_us[] = {1500000, 60 * SECOND_US};
    struct job_view job = {.ref.seq = 7,
                           .topic = BYTES("t"),
                           .state = JOB_READY,
                           .due_us = NOW_US,
                           .retry_us = retry_us,
                           .retry_count = 2};
    struct reply reply = {.kind = CMD_PUSH, .count = 1, .jobs = &job};
    (void)state;
    assert_non_null(strstr(answer(&call, &reply), ",\"retry\":[1500,60000],\"result\""));
}

/* ---- why attempts failed ---- */

static void a_reason_and_a_code_go_with_release_and_bury(void **state)
{
    struct call call = v1(HTTP_M_POST, "/v1/jobs/a/release",
                          "{\"lease\":\"5\",\"reason\":\"no \\\"db\\\"\",\"code\":503}");
    (void)state;
    assert_int_equal(call.kind, CALL_CMD);
    assert_text(call.cmd.job.note, "{\"reason\":\"no \\\"db\\\"\"}");
    assert_int_equal(call.cmd.job.note_code, 503);
    call = v1(HTTP_M_POST, "/v1/jobs/a/bury", "{\"lease\":\"5\",\"code\":7}");
    assert_text(call.cmd.job.note, "{}");
    assert_int_equal(call.cmd.job.note_code, 7);
    assert_int_equal(v1(HTTP_M_POST, "/v1/jobs/a/bury", "{}").cmd.job.note.len, 0);
    assert_string_equal(v1(HTTP_M_POST, "/v1/jobs/a/bury", "{\"code\":0}").problem.field, "code");
    assert_string_equal(v1(HTTP_M_POST, "/v1/jobs/a/touch", "{\"reason\":\"x\"}").problem.code,
                        "unknown_field");
    struct buf body = {0};
    buf_add_str(&body, "{\"reason\":\"");
    for (int i = 0; i < 1025; i++)
        buf_add_char(&body, 'x');
    buf_add_str(&body, "\"}");
    buf_add_char(&body, '\0');
    assert_string_equal(v1(HTTP_M_POST, "/v1/jobs/a/bury", body.at).problem.field, "reason");
    buf_fini(&body);
}

static struct job_note notes[] = {
    {.at_us = NOW_US - 2 * SECOND_US,
     .code = 503,
     .text = {"{\"reason\":\"busy\",\"address\":\"192.0.2.7:80\",\"ms\":12,\"response\":\"x\"}",
              65}},
    {.at_us = NOW_US - SECOND_US,
     .text = {"{\"reason\":\"late\",\"response_base64\":\"/wA=\"}", 42}},
};

static struct job_view failed_job(void)
{
    return (struct job_view){.ref = {.id = BYTES("a"), .seq = 7},
                             .topic = BYTES("t"),
                             .state = JOB_BURIED,
                             .due_us = NOW_US,
                             .failures = 2,
                             .attempt = 2,
                             .last_code = 503,
                             .last_note_us = NOW_US - SECOND_US,
                             .notes = notes,
                             .note_count = 2};
}

static void the_last_failure_is_shown_with_its_job(void **state)
{
    struct call call = v1(HTTP_M_GET, "/v1/jobs/a", NULL);
    struct job_view job = failed_job();
    struct reply reply = {.kind = CMD_GET, .count = 1, .jobs = &job};
    (void)state;
    assert_int_equal(notes[0].text.len, strlen(notes[0].text.at));
    assert_int_equal(notes[1].text.len, strlen(notes[1].text.at));
    assert_non_null(strstr(answer(&call, &reply),
                           ",\"last_failure\":{\"time\":\"2023-11-14T22:13:19.123456Z\","
                           "\"code\":503,\"reason\":\"late\"}"));
    struct call list = v1(HTTP_M_GET, "/v1/topics/t/jobs?state=buried", NULL);
    job.notes = NULL;
    job.note_count = 0;
    reply.kind = CMD_LIST;
    assert_non_null(strstr(answer(&list, &reply),
                           ",\"last_failure\":{\"time\":\"2023-11-14T22:13:19.123456Z\","
                           "\"code\":503}"));
    job.last_note_us = 0;
    assert_null(strstr(answer(&list, &reply), "last_failure"));
}

static void attempts_are_shown_oldest_first(void **state)
{
    struct call call = v1(HTTP_M_GET, "/v1/jobs/a/attempts", NULL);
    struct job_view job = failed_job();
    struct reply reply = {.kind = CMD_GET, .count = 1, .jobs = &job};
    (void)state;
    assert_int_equal(call.cmd.kind, CMD_GET);
    assert_string_equal(
        answer(&call, &reply),
        "{\"id\":\"a\",\"topic\":\"t\",\"state\":\"buried\",\"due\":\"2023-11-14T22:13:20."
        "123456Z\","
        "\"due_ms\":1700000000123,\"attempt\":2,\"failures\":2,\"attempts\":["
        "{\"time\":\"2023-11-14T22:13:18.123456Z\",\"code\":503,\"reason\":\"busy\",\"address\":"
        "\"192.0.2.7:80\",\"ms\":12,\"response\":\"x\"},"
        "{\"time\":\"2023-11-14T22:13:19.123456Z\",\"reason\":\"late\",\"response_base64\":\"/"
        "wA=\"}"
        "]}");
    assert_string_equal(v1(HTTP_M_POST, "/v1/jobs/a/attempts", NULL).problem.allow, "GET, HEAD");
}

static void a_job_is_shown_with_what_its_push_brought(void **state)
{
    struct call call = v1(HTTP_M_GET, "/v1/jobs/a", NULL);
    struct job_view job = failed_job();
    struct reply reply = {.kind = CMD_GET, .count = 1, .jobs = &job};
    (void)state;
    job.properties = BYTES("{\"url\":\"https://a/\",\"key\":\"k\",\"headers\":{\"X\":\"1\"},"
                           "\"amqp\":\"AAEC\"}");
    assert_non_null(strstr(answer(&call, &reply),
                           ",\"url\":\"https://a/\",\"key\":\"k\",\"headers\":{\"X\":\"1\"},"
                           "\"amqp\":\"AAEC\",\"body\":"));
}

/* ---- replay and test ---- */

static void a_replay_names_codes_and_times(void **state)
{
    struct call call =
        v1(HTTP_M_POST, "/v1/topics/t/replay", "{\"code\":\"5xx\",\"since\":\"1h\",\"max\":7}");
    (void)state;
    assert_int_equal(call.kind, CALL_REPLAY);
    assert_text(call.replay.topic, "t");
    assert_true(call.replay.has_code);
    assert_int_equal(call.replay.code_first, 500);
    assert_int_equal(call.replay.code_last, 599);
    assert_int_equal(call.replay.from_us, NOW_US - 3600 * SECOND_US);
    assert_int_equal(call.replay.to_us, INT64_MAX);
    assert_int_equal(call.replay.max, 7);
    call = v1(HTTP_M_POST, "/v1/topics/t/replay",
              "{\"code\":503,\"from\":1000000000000,\"to\":\"2023-11-14T22:13:19Z\"}");
    assert_int_equal(call.replay.code_first, 503);
    assert_int_equal(call.replay.code_last, 503);
    assert_int_equal(call.replay.from_us, 1000000000 * SECOND_US);
    assert_int_equal(call.replay.max, fixture_limits.batch_jobs);
    call = v1(HTTP_M_POST, "/v1/topics/t/replay", NULL);
    assert_int_equal(call.kind, CALL_REPLAY);
    assert_false(call.replay.has_code || call.replay.has_time);
    static const struct {
        const char *body, *field;
    } bad[] = {
        {"{\"code\":\"5x\"}", "code"},
        {"{\"code\":true}", "code"},
        {"{\"from\":0,\"since\":1}", "since"},
        {"{\"since\":1,\"from\":0}", "from"},
        {"{\"max\":0}", "max"},
        {"{\"state\":\"buried\"}", "state"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_string_equal(v1(HTTP_M_POST, "/v1/topics/t/replay", bad[i].body).problem.field,
                            bad[i].field);
    call = v1(HTTP_M_POST, "/v1/topics/t/replay", "{\"from\":3600000}");
    assert_string_equal(
        call.problem.detail,
        "3600000 would be a time in January 1970: times are RFC 3339 such as "
        "\"2030-01-31T08:00:00Z\", or milliseconds since 1970; a time before now is "
        "since");
    call = v1(HTTP_M_POST, "/v1/topics/t/replay", "{\"to\":3600000}");
    assert_null(strstr(call.problem.detail, "since 1970;")); /* and no other field to use */
    call = v1(HTTP_M_POST, "/v1/topics/t/jobs", "{\"created\":5}");
    assert_string_equal(call.problem.field, "created");
    assert_null(strstr(call.problem.detail, "since 1970;"));
    call = v1(HTTP_M_POST, "/v1/topics/t/jobs", "{\"due\":5}");
    assert_non_null(strstr(call.problem.detail, "since 1970; a time from now is a delay"));
    struct replay_counts counts = {.looked_at = 10, .kicked = 3, .more = true};
    fixture_out.len = 0;
    api_replay_reply(&call.format, &counts, bytes_of(NULL, 0), &fixture_out);
    assert_string_equal(answered(), "{\"looked_at\":10,\"kicked\":3,\"more\":true}");
}

static void a_test_is_a_push_that_is_not_pushed(void **state)
{
    struct call call =
        v1(HTTP_M_POST, "/v1/topics/t/test", "{\"body\":\"x\",\"content_type\":\"a/b\"}");
    (void)state;
    assert_int_equal(call.kind, CALL_TEST);
    assert_int_equal(call.cmd.kind, CMD_PUSH);
    assert_text(call.cmd.push.topic, "t");
    assert_text(call.cmd.push.body, "x");
    assert_text(call.cmd.push.content_type, "a/b");
    struct api_test_result result = {.outcome = "failed",
                                     .code = 503,
                                     .note = {.reason = BYTES("busy"),
                                              .address = BYTES("192.0.2.7:80"),
                                              .took_us = 12345,
                                              .response = BYTES("later")}};
    fixture_out.len = 0;
    api_test_reply(&call.format, &result, bytes_of(NULL, 0), &fixture_out);
    assert_string_equal(answered(), "{\"outcome\":\"failed\",\"code\":503,\"reason\":\"busy\","
                                    "\"address\":\"192.0.2.7:80\",\"ms\":12,\"response\":"
                                    "\"later\"}");
    assert_int_equal(v1(HTTP_M_POST, "/v1/topics/t/test", NULL).kind, CALL_TEST);
    assert_string_equal(v1(HTTP_M_POST, "/v1/topics/t/test", "{\"delay\":1}").problem.code,
                        "unknown_field");
}

static void what_the_door_refuses_has_its_status(void **state)
{
    struct call call = v1(HTTP_M_POST, "/v1/reserve", "{\"topics\":[\"t\"]}");
    struct reply reply = {.kind = CMD_RESERVE, .err = ERR_PUSHED_TOPIC};
    (void)state;
    assert_non_null(strstr(answer(&call, &reply), "\"code\":\"pushed_topic\""));
    assert_int_equal(status(), 409);
    call = push("{\"url\":\"https://a/\"}");
    reply =
        (struct reply){.kind = CMD_PUSH, .err = ERR_JOB_TARGET, .why = "push.job_targets is off"};
    assert_non_null(strstr(answer(&call, &reply), "push.job_targets is off"));
    assert_int_equal(status(), 403);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_are_kept_in_their_fixed_form),
        cmocka_unit_test(settings_that_say_nothing_are_taken_away),
        cmocka_unit_test(settings_that_are_wrong_are_named_by_their_path),
        cmocka_unit_test(a_due_time_of_0_is_now_and_a_past_one_stays),
        cmocka_unit_test(a_ttr_above_the_limit_is_refused),
        cmocka_unit_test(a_target_is_paused_whatever_ttr_was_set_before),
        cmocka_unit_test(an_unknown_field_is_told_the_known_ones),
        cmocka_unit_test(an_unknown_field_is_told_the_one_that_was_meant),
        cmocka_unit_test(a_long_refusal_of_a_line_ends_behind_a_whole_word),
        cmocka_unit_test(a_version_may_be_asked_for),
        cmocka_unit_test(a_topic_is_shown_with_its_settings),
        cmocka_unit_test(a_topic_may_be_deleted_only_if_it_is_empty),
        cmocka_unit_test(a_push_may_bring_target_key_and_headers),
        cmocka_unit_test(too_much_for_a_jobs_properties_is_named),
        cmocka_unit_test(a_schedule_may_be_a_name_or_a_formula),
        cmocka_unit_test(a_level_is_a_delay),
        cmocka_unit_test(a_batch_may_bring_them_too),
        cmocka_unit_test(a_push_is_answered_with_its_schedule),
        cmocka_unit_test(a_reason_and_a_code_go_with_release_and_bury),
        cmocka_unit_test(the_last_failure_is_shown_with_its_job),
        cmocka_unit_test(attempts_are_shown_oldest_first),
        cmocka_unit_test(a_job_is_shown_with_what_its_push_brought),
        cmocka_unit_test(a_replay_names_codes_and_times),
        cmocka_unit_test(a_test_is_a_push_that_is_not_pushed),
        cmocka_unit_test(what_the_door_refuses_has_its_status),
    };
    return cmocka_run_group_tests(tests, NULL, fixture_tear_down);
}
