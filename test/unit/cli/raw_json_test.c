/* JSON of users goes through `later` as it was written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/raw_json.h"

#define BIG "18446744073709551616"

static struct buf out;

static const char *text_of(struct buf *buf)
{
    buf_add_char(buf, '\0');
    return buf->at;
}

static const char *packed(const char *answer)
{
    out.len = 0;
    raw_json_pack_bodies(&out, bytes_str(answer));
    return text_of(&out);
}

static void a_body_that_is_no_string_becomes_one(void **state)
{
    (void)state;
    assert_string_equal(packed("{\"id\":\"a\",\"body\":{\"n\":" BIG ",\"n\":1.10}}"),
                        "{\"id\":\"a\",\"body_json\":\"{\\\"n\\\":" BIG ",\\\"n\\\":1.10}\"}");
    assert_string_equal(
        packed("{\"jobs\":[{\"body\":1.10},{\"body\":\"x\"}, {\"id\":\"b\"}],\"n\":1}"),
        "{\"jobs\":[{\"body_json\":\"1.10\"},{\"body\":\"x\"},{\"id\":\"b\"}],\"n\":1}");
    assert_string_equal(packed("{\"jobs\":[],\"body\":[]}"), "{\"jobs\":[],\"body_json\":\"[]\"}");
    assert_string_equal(packed("{\"body\":{\"jobs\":[{\"body\":1}]}}"),
                        "{\"body_json\":\"{\\\"jobs\\\":[{\\\"body\\\":1}]}\"}");
}

static void other_answers_stay_as_they_are(void **state)
{
    static const char *const answers[] = {
        "",
        "{}",
        "[1]",
        "{\"jobs\":3,\"more\":false}",
        "{\"body\":1",
        "{\"jobs\":[{\"body\":1}",
        "{\"settings\":{\"target\":{\"success\":{\"body\":\"ok\"}}}}",
        "no JSON \"body\":1",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++)
        assert_string_equal(packed(answers[i]), answers[i]);
}

/* Each byte of an answer becomes each of some others, or the answer ends there. */
static void whatever_comes_is_packed_into_json_or_left_alone(void **state)
{
    static const char sample[] =
        "{\"jobs\":[{\"id\":\"a\",\"body\":{\"a\":[1,\"\\\"\"]}}],\"body\":-1}";
    static const char others[] = "\"\\{}[],:1 \n\xff";
    const char *why;
    (void)state;
    for (size_t i = 0; i + 1 < sizeof(sample); i++) {
        for (size_t j = 0; j < sizeof(others); j++) { /* the last one, NUL, ends it */
            char text[sizeof(sample)];
            memcpy(text, sample, sizeof(text));
            text[i] = others[j];
            bool good = raw_json_check(bytes_str(text), &why);
            const char *got = packed(text);
            if (good)
                assert_true(raw_json_check(bytes_str(got), &why));
            else
                assert_string_equal(got, text);
        }
    }
}

static const char *merged(const char *line, const char *fields, bool good)
{
    json_t *object = json_loads(fields, 0, NULL);
    out.len = 0;
    buf_add_str(&out, "> ");
    assert_int_equal(raw_json_merge(&out, bytes_str(line), object), good);
    json_decref(object);
    return text_of(&out);
}

static void options_count_where_a_line_has_nothing(void **state)
{
    (void)state;
    assert_string_equal(
        merged("{\"body\":" BIG ",\"delay\":5}", "{\"delay\":1000,\"ttr\":7}", true),
        "> {\"body\":" BIG ",\"delay\":5,\"ttr\":7}");
    assert_string_equal(merged(" { \"\\u0064elay\" : \"a\\u0000\" } ", "{\"delay\":1}", true),
                        "> {\"\\u0064elay\":\"a\\u0000\"}");
    assert_string_equal(merged("{}", "{\"delay\":1}", true), "> {\"delay\":1}");
    assert_string_equal(merged("{}", "{}", true), "> {}");
    assert_string_equal(merged("{\"delay\":1} 2", "{\"ttr\":7}", false), "> ");
    assert_string_equal(merged("[1]", "{\"ttr\":7}", false), "> ");
    assert_string_equal(merged("", "{\"ttr\":7}", false), "> ");
}

static void an_object_is_one_line(void **state)
{
    json_t *fields = json_loads("{\"id\":\"a\"}", 0, NULL), *none = json_object();
    (void)state;
    out.len = 0;
    raw_json_add_object(&out, fields, "body",
                        BYTES("{\n \"a b\" : \"c \\\" d\\\\\" ,\r\n\t\"e\": 1.10 }"));
    raw_json_add_object(&out, none, "body", BYTES(" 5"));
    assert_string_equal(
        text_of(&out), "{\"id\":\"a\",\"body\":{\"a b\":\"c \\\" d\\\\\",\"e\":1.10}}{\"body\":5}");
    out.len = 0;
    raw_json_add_line(&out, BYTES("{\n \"a\":\r\n1 }"));
    assert_string_equal(text_of(&out), "{  \"a\":  1 }");
    json_decref(fields);
    json_decref(none);
}

static void what_is_no_json_is_told(void **state)
{
    const char *why;
    (void)state;
    assert_true(raw_json_check(BYTES(" {\"a\":[" BIG "]} "), &why));
    assert_false(raw_json_check(BYTES("[1,"), &why));
    assert_non_null(why);
    assert_false(raw_json_check(BYTES("1 2"), &why));
    assert_non_null(why);
}

static int tear_down(void **state)
{
    (void)state;
    buf_fini(&out);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_body_that_is_no_string_becomes_one),
        cmocka_unit_test(other_answers_stay_as_they_are),
        cmocka_unit_test(whatever_comes_is_packed_into_json_or_left_alone),
        cmocka_unit_test(options_count_where_a_line_has_nothing),
        cmocka_unit_test(an_object_is_one_line),
        cmocka_unit_test(what_is_no_json_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, tear_down);
}
