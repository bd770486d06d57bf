/* /v1: bodies that are not what they have to be, and what is said of them. */
#include "api_fixture.h"

static struct call push(const char *body)
{
    return ask(DIALECT_NONE, (struct ask){.method = HTTP_M_POST,
                                          .target = "/v1/topics/t/jobs",
                                          .type = "application/json",
                                          .body = body});
}

static struct call configure(const char *body)
{
    return ask(DIALECT_NONE,
               (struct ask){.method = HTTP_M_PUT, .target = "/v1/topics/t", .body = body});
}

static void assert_refused(const struct call *call, const char *code, const char *detail)
{
    assert_int_equal(call->kind, CALL_PROBLEM);
    assert_int_equal(call->problem.status, 400);
    assert_string_equal(call->problem.code, code);
    assert_string_equal(call->problem.detail, detail);
}

static void a_job_that_is_not_json_is_refused_with_the_place(void **state)
{
    (void)state;
    static const struct {
        const char *body, *detail;
    } cases[] = {
        {"{delay:5}", "an object's member needs a name in quotes, at byte 2"},
        {" {\"delay\":'5s'}", "this is not a JSON value, at byte 11"},
        {"{\"id\":\"a\"\n\"body\":1}", "a comma or } is missing in an object, at byte 11"},
        {"{\"body\":[1,{\"a\":tru}]}", "this is not a JSON value, at byte 17"},
        {"{\"id\":\"a\xff\"}", "a string is not valid UTF-8, at byte 7"},
        {"{\"delay\":5", "a comma or } is missing in an object, at byte 11"},
        {"{} x", "something follows the JSON value, at byte 4"},
        {"[{},{\"id\"}]", "a colon is missing after a member's name, at byte 10"},
        {"{\"body\":[[[[[[[[1]]]]]]]]}",
         "the JSON is nested deeper than limits.json_depth, which is 8"},
        {"5", "an object is expected here"},
        {"\xef\xbb\xbf{}", "JSON is UTF-8 without a byte order mark in front"},
        {"\xff\xfe{", "JSON is UTF-8 without a byte order mark in front"},
        {"\xfe\xff", "JSON is UTF-8 without a byte order mark in front"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct call call = push(cases[i].body);
        assert_refused(&call, "bad_json", cases[i].detail);
    }
}

static void settings_that_are_not_json_are_refused_with_the_place(void **state)
{
    (void)state;
    static const struct {
        const char *body, *detail;
    } cases[] = {
        {"{} x", "something follows the JSON value, at byte 4"},
        {"{\"retry\":[\"1m\" \"2m\"]}", "a comma or ] is missing in an array, at byte 16"},
        {"[]", "an object is expected here"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct call call = configure(cases[i].body);
        assert_refused(&call, "bad_json", cases[i].detail);
    }
}

static void a_field_in_another_spelling_is_told_its_name(void **state)
{
    (void)state;
    struct call call = push("{\"bizKey\":\"a\"}");
    assert_refused(&call, "unknown_field",
                   "there is no field of that name here; did you mean biz_key?");
    call = configure("{\"keyConcurrency\":1}");
    assert_refused(&call, "unknown_field",
                   "there is no field of that name here; did you mean key_concurrency?");
}

static void a_body_that_is_compressed_is_refused(void **state)
{
    (void)state;
    struct ask asked = {.method = HTTP_M_POST, .target = "/v1/topics/t/jobs", .compressed = true};
    asked.body = "\x1f\x8b\x08";
    struct call call = ask(DIALECT_NONE, asked);
    assert_int_equal(call.kind, CALL_PROBLEM);
    assert_int_equal(call.problem.status, 415);
    assert_non_null(strstr(call.problem.detail, "Content-Encoding"));
    asked.type =
        "application/x-ndjson"; /* else each line would fail, in an answer with status 200 */
    assert_int_equal(ask(DIALECT_NONE, asked).problem.status, 415);
    asked.target = "/v1/topics/t/resume";
    asked.type = asked.body = NULL;
    assert_int_equal(ask(DIALECT_NONE, asked).kind, CALL_CMD);
}

static void only_a_value_that_another_server_may_take_names_a_key(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        const char *key;
    } cases[] = {
        {"{\"ttr\":\"3650d\"}", "limits.ttr_seconds"},
        {"{\"ttr\":\"0s\"}", NULL},
        {"{\"ttr\":\"limits.ttr_seconds\"}", NULL},
        {"{\"body\":[[[[[[[[1]]]]]]]]}", "limits.json_depth"},
        {"{\"body\":[}", NULL},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct call call = push(cases[i].body);
        assert_int_equal(call.kind, CALL_PROBLEM);
        if (cases[i].key)
            assert_string_equal(call.problem.config_key, cases[i].key);
        else
            assert_null(call.problem.config_key);
        assert_true(!cases[i].key == !strstr(refusal(&call), "\"config_key\":"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_that_is_not_json_is_refused_with_the_place),
        cmocka_unit_test(settings_that_are_not_json_are_refused_with_the_place),
        cmocka_unit_test(a_field_in_another_spelling_is_told_its_name),
        cmocka_unit_test(a_body_that_is_compressed_is_refused),
        cmocka_unit_test(only_a_value_that_another_server_may_take_names_a_key),
    };
    return cmocka_run_group_tests(tests, NULL, fixture_tear_down);
}
