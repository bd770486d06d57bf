/* Settings of topics and properties of jobs at their limits: the last value that is taken, and the
   first one that is refused, by its field. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proto/settings/attempt_note.h"
#include "proto/settings/job_properties.h"
#include "proto/settings/topic_settings.h"

static struct arena scratch;

static int tear_down(void **state)
{
    (void)state;
    arena_fini(&scratch);
    scratch = (struct arena){0};
    return 0;
}

/* JSON, with a letter repeated in its middle, and the field that is refused; NULL: it is taken. */
struct limit {
    const char *before;
    unsigned count;
    const char *behind;
    const char *field;
};

/* The text of a case; the caller frees it. */
static struct buf text_of(const struct limit *limit)
{
    struct buf text = {0};
    buf_add_str(&text, limit->before);
    for (unsigned i = 0; i < limit->count; i++)
        buf_add_char(&text, 'a');
    buf_add_str(&text, limit->behind);
    return text;
}

static void check(const struct limit *limit, struct bytes text, enum err err,
                  const struct settings_problem *problem)
{
    if (!limit->field && err)
        fail_msg("%.*s: %s: %s", (int)text.len, text.at, problem->field, problem->detail);
    if (limit->field && !err)
        fail_msg("%.*s is taken", (int)text.len, text.at);
    if (limit->field)
        assert_string_equal(problem->field, limit->field);
}

static void check_settings(const struct limit *limits, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct topic_settings settings;
        struct settings_problem problem;
        struct buf text = text_of(&limits[i]);
        check(&limits[i], buf_bytes(&text),
              topic_settings_read(buf_bytes(&text), &scratch, &settings, &problem), &problem);
        buf_fini(&text);
    }
}

#define COUNT(array)     (sizeof(array) / sizeof((array)[0]))
#define TARGET(text)     "{\"target\":{" text
#define HTTP(text)       TARGET("\"type\":\"http\",\"url\":\"http://a/\"," text)
#define STATUSES_OF_FOUR "400,401,402,403"
#define STATUSES_OF_32                                                                             \
    STATUSES_OF_FOUR "," STATUSES_OF_FOUR "," STATUSES_OF_FOUR "," STATUSES_OF_FOUR                \
                     "," STATUSES_OF_FOUR "," STATUSES_OF_FOUR "," STATUSES_OF_FOUR                \
                     "," STATUSES_OF_FOUR

static void a_webhook_has_limits(void **state)
{
    static const struct limit limits[] = {
        {HTTP("\"timeout\":\"100ms\"}}"), 0, "", NULL},
        {HTTP("\"timeout\":\"99ms\"}}"), 0, "", "target.timeout"},
        {HTTP("\"timeout\":\"600s\"}}"), 0, "", NULL},
        {HTTP("\"timeout\":600001}}"), 0, "", "target.timeout"},
        {HTTP("\"unix_socket\":\"/"), 106, "\"}}", NULL},
        {HTTP("\"unix_socket\":\"/"), 107, "\"}}", "target.unix_socket"},
        {HTTP("\"unix_socket\":\"a\"}}"), 0, "", "target.unix_socket"},
        {HTTP("\"ca\":\"/"), TARGET_PATH_MAX - 1, "\"}}", NULL},
        {HTTP("\"ca\":\"/"), TARGET_PATH_MAX, "\"}}", "target.ca"},
        {HTTP("\"sign\":[\"$"), 127, "\"]}}", NULL},
        {HTTP("\"sign\":[\"$"), 128, "\"]}}", "target.sign[0]"},
        {HTTP("\"sign\":[\"$"), 0, "\"]}}", "target.sign[0]"},
        {HTTP("\"sign\":[\"$1A\"]}}"), 0, "", "target.sign[0]"},
        {HTTP("\"sign\":[\"$_1A\"]}}"), 0, "", NULL},
        {HTTP("\"sign\":[\"file:/\"]}}"), 0, "", "target.sign[0]"},
        {HTTP("\"sign\":[\"file:/a\\n\"]}}"), 0, "", "target.sign[0]"},
        {HTTP("\"sign\":[\"file:/"), TARGET_PATH_MAX - 6, "\"]}}", NULL},
        {HTTP("\"sign\":[\"file:/"), TARGET_PATH_MAX - 5, "\"]}}", "target.sign[0]"},
        {HTTP("\"sign\":[\"$A\",\"$B\",\"$C\",\"$D\"]}}"), 0, "", NULL},
        {HTTP("\"sign\":[\"$A\",\"$B\",\"$C\",\"$D\",\"$E\"]}}"), 0, "", "target.sign[4]"},
        {HTTP("\"success\":{\"status\":\"100-599\"}}}"), 0, "", NULL},
        {HTTP("\"success\":{\"status\":99}}}"), 0, "", "target.success.status"},
        {HTTP("\"success\":{\"status\":\"6xx\"}}}"), 0, "", "target.success.status"},
        {HTTP("\"success\":{\"status\":\"500-600\"}}}"), 0, "", "target.success.status"},
        {HTTP("\"success\":{\"status\":\"201-200\"}}}"), 0, "", "target.success.status"},
        {HTTP("\"bury_on\":[100,599]}}"), 0, "", NULL},
        {HTTP("\"bury_on\":[99]}}"), 0, "", "target.bury_on[0]"},
        {HTTP("\"bury_on\":[600]}}"), 0, "", "target.bury_on[0]"},
        {HTTP("\"bury_on\":[" STATUSES_OF_32 "]}}"), 0, "", NULL},
        {HTTP("\"bury_on\":[" STATUSES_OF_32 ",404]}}"), 0, "", "target.bury_on[32]"},
        {HTTP("\"certificate\":\"/c\",\"key\":\"/k\"}}"), 0, "", NULL},
        {HTTP("\"certificate\":\"/c\"}}"), 0, "", "target"},
        {HTTP("\"key\":\"/k\"}}"), 0, "", "target"},
    };
    (void)state;
    check_settings(limits, COUNT(limits));
}

static void brokers_have_limits(void **state)
{
    static const struct limit limits[] = {
        {TARGET("\"type\":\"kafka\",\"topic\":\"t\",\"broker\":\""), 64, "\"}}", NULL},
        {TARGET("\"type\":\"kafka\",\"topic\":\"t\",\"broker\":\""), 65, "\"}}", "target.broker"},
        {TARGET("\"type\":\"kafka\",\"broker\":\"b\",\"topic\":\""), 249, "\"}}", NULL},
        {TARGET("\"type\":\"kafka\",\"broker\":\"b\",\"topic\":\""), 250, "\"}}", "target.topic"},
        {TARGET("\"type\":\"nats\",\"broker\":\"b\",\"subject\":\""), 255, "\"}}", NULL},
        {TARGET("\"type\":\"nats\",\"broker\":\"b\",\"subject\":\""), 256, "\"}}",
         "target.subject"},
        {TARGET("\"type\":\"nats\",\"broker\":\"b\",\"subject\":\"a.>\"}}"), 0, "",
         "target.subject"},
        {TARGET("\"type\":\"redis\",\"broker\":\"b\",\"key\":\""), 512, "\"}}", NULL},
        {TARGET("\"type\":\"redis\",\"broker\":\"b\",\"key\":\""), 513, "\"}}", "target.key"},
        {TARGET("\"type\":\"redis\",\"broker\":\"b\",\"key\":\"k\",\"maxlen\":1}}"), 0, "", NULL},
        {TARGET("\"type\":\"redis\",\"broker\":\"b\",\"key\":\"k\",\"maxlen\":0}}"), 0, "",
         "target.maxlen"},
        {TARGET("\"type\":\"amqp\",\"broker\":\"b\",\"exchange\":\""), 255, "\"}}", NULL},
        {TARGET("\"type\":\"amqp\",\"broker\":\"b\",\"exchange\":\""), 256, "\"}}",
         "target.exchange"},
        {TARGET("\"type\":\"amqp\",\"broker\":\"b\",\"routing_key\":\"a\\u0001\"}}"), 0, "",
         "target.routing_key"},
    };
    (void)state;
    check_settings(limits, COUNT(limits));
}

/* Kafka numbers its partitions from 0 on. */
static void the_first_partition_of_kafka_is_kept(void **state)
{
    struct topic_settings settings;
    struct settings_problem problem;
    struct buf text = {0};
    (void)state;
    assert_int_equal(
        topic_settings_read(BYTES("{\"target\":{\"type\":\"kafka\",\"broker\":\"b\",\"topic\":"
                                  "\"t\",\"partition\":0}}"),
                            &scratch, &settings, &problem),
        OK);
    topic_settings_write(&settings, &text);
    buf_add_char(&text, '\0');
    assert_non_null(strstr(text.at, "\"partition\":0"));
    buf_fini(&text);
}

static void labels_have_limits(void **state)
{
    static const struct limit limits[] = {
        {"{\"key\":\"", 255, "\"}", NULL},
        {"{\"key\":\"", 256, "\"}", "key"},
        {"{\"key\":\"a\\u0001\"}", 0, "", "key"},
        {"{\"biz_key\":\"", 128, "\"}", NULL},
        {"{\"biz_key\":\"", 129, "\"}", "biz_key"},
        {"{\"subtopic\":\"", 250, "\"}", NULL},
        {"{\"subtopic\":\"", 251, "\"}", "subtopic"},
        {"{\"extend_data\":\"", 2000, "\"}", NULL},
        {"{\"extend_data\":\"", 2001, "\"}", "extend_data"},
        {"{\"extend_data\":\"a\\u0000\"}", 0, "", "extend_data"},
        {"{\"tags\":[\"", 64, "\"]}", NULL},
        {"{\"tags\":[\"", 65, "\"]}", "tags[0]"},
        {"{\"tags\":[\"a,b\"]}", 0, "", "tags[0]"},
        {"{\"tags\":[\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"1\",\"2\",\"3\",\"4\",\"5\","
         "\"6\",\"7\",\"16\"]}",
         0, "", NULL},
        {"{\"tags\":[\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"1\",\"2\",\"3\",\"4\",\"5\","
         "\"6\",\"7\",\"16\",\"17\"]}",
         0, "", "tags[16]"},
        {"{\"rank\":4294967295}", 0, "", NULL},
        {"{\"rank\":4294967296}", 0, "", "rank"},
        {"{\"create_time\":1}", 0, "", NULL},
        {"{\"create_time\":0}", 0, "", "create_time"},
        {"{\"create_time\":\"1970-01-01T00:00:00.001Z\"}", 0, "", NULL},
        {"{\"create_time\":\"1970-01-01T00:00:00Z\"}", 0, "", "create_time"},
        {"{\"create_time\":253402300799999}", 0, "", NULL},
        {"{\"create_time\":253402300800000}", 0, "", "create_time"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(limits); i++) {
        struct job_properties properties;
        struct settings_problem problem;
        struct buf text = text_of(&limits[i]);
        check(&limits[i], buf_bytes(&text),
              job_properties_read(buf_bytes(&text), &scratch, &properties, &problem), &problem);
        buf_fini(&text);
    }
}

/* As they are stored: what is one byte longer is refused. */
static void properties_of_just_the_limit_are_taken(void **state)
{
    char url[JOB_PROPERTIES_MAX] = "";
    struct job_properties properties = {.url = bytes_of(url, 0)};
    struct settings_problem problem;
    struct buf text = {0};
    (void)state;
    memset(url, 'a', sizeof(url));
    properties.url.len = JOB_PROPERTIES_MAX - strlen("{\"url\":\"\"}");
    assert_int_equal(job_properties_write(&properties, &text, &problem), OK);
    assert_int_equal(text.len, JOB_PROPERTIES_MAX);
    properties.url.len++;
    assert_int_equal(job_properties_write(&properties, &text, &problem), ERR_TOO_LARGE);
    assert_string_equal(problem.field, "url");
    assert_int_equal(text.len, JOB_PROPERTIES_MAX); /* nothing was appended */
    buf_fini(&text);
}

/* The field is shown in JSON, so it is not cut within a character. */
static void a_long_field_that_there_is_not_is_named_in_whole_characters(void **state)
{
    struct topic_settings settings;
    struct settings_problem problem;
    (void)state;
    for (unsigned odd = 0; odd < 2; odd++) {
        struct buf text = {0};
        buf_add_str(&text, odd ? "{\"x" : "{\"");
        for (unsigned i = 0; i < 300; i++)
            buf_add_str(&text, "é");
        buf_add_str(&text, "\":1}");
        assert_int_equal(topic_settings_read(buf_bytes(&text), &scratch, &settings, &problem),
                         ERR_INVALID);
        assert_string_equal(problem.code, "unknown_field");
        assert_true(strlen(problem.field) > 20 && bytes_is_utf8(bytes_str(problem.field)));
        buf_fini(&text);
    }
}

static void what_is_no_json_is_refused_with_its_place(void **state)
{
    struct topic_settings settings;
    struct settings_problem problem;
    (void)state;
    assert_int_equal(topic_settings_read(BYTES("{\"rate\":}"), &scratch, &settings, &problem),
                     ERR_INVALID);
    assert_string_equal(problem.code, "bad_json");
    assert_non_null(strstr(problem.detail, "at byte 9"));
    assert_int_equal(topic_settings_read(BYTES("{\"retry\":[[[[[[[[[[[[]]]]]]]]]]]]}"), &scratch,
                                         &settings, &problem),
                     ERR_INVALID);
    assert_non_null(strstr(problem.detail, "nested too deep"));
}

static void assert_note(const struct attempt_note *note, const char *wanted)
{
    struct buf text = {0};
    attempt_note_write(note, &text);
    if (!bytes_eq(buf_bytes(&text), bytes_str(wanted)))
        fail_msg("%.*s is not %s", (int)text.len, text.at, wanted);
    buf_fini(&text);
}

/* The answer was cut while it was read: half a character at its end does not make it binary. */
static void a_note_shows_an_answer_that_was_cut_within_a_character_as_text(void **state)
{
    (void)state;
    assert_note(&(struct attempt_note){.took_us = -1, .response = BYTES("abc\xe2\x82")},
                "{\"response\":\"abc\"}");
    assert_note(&(struct attempt_note){.took_us = -1, .response = BYTES("\xff\xfe\xfd\xfc")},
                "{\"response_base64\":\"//79/A==\"}");
    assert_note(&(struct attempt_note){.took_us = 0}, "{\"ms\":0}");
    assert_note(&(struct attempt_note){.took_us = 1999}, "{\"ms\":1}");
    assert_note(&(struct attempt_note){.took_us = -1}, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_webhook_has_limits),
        cmocka_unit_test(brokers_have_limits),
        cmocka_unit_test(the_first_partition_of_kafka_is_kept),
        cmocka_unit_test(labels_have_limits),
        cmocka_unit_test(properties_of_just_the_limit_are_taken),
        cmocka_unit_test(a_long_field_that_there_is_not_is_named_in_whole_characters),
        cmocka_unit_test(what_is_no_json_is_refused_with_its_place),
        cmocka_unit_test(a_note_shows_an_answer_that_was_cut_within_a_character_as_text),
    };
    return cmocka_run_group_tests(tests, NULL, tear_down);
}
