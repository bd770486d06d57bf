/* A job written as a row and read back is the same job; a row of sdmq's becomes one, too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "journal/extend.h"
#include "proto/settings/job_properties.h"

static struct arena arena;

static int teardown(void **state)
{
    (void)state;
    arena_fini(&arena);
    arena = (struct arena){0};
    return 0;
}

static void test_a_row_of_ours_comes_back_whole(void **state)
{
    static const int64_t retry_us[] = {0, 60000000};
    struct extend extend = {.priority = 4294967295u,
                            .failures = 3,
                            .us = 999,
                            .ttr_us = 1500000,
                            .retry_us = retry_us,
                            .retry_count = 2,
                            .order = ORDER_ARRIVAL,
                            .base64 = true,
                            .content_type = BYTES("text/\"x\""),
                            .properties = BYTES("{\"biz_key\":\"a\\\"b\"}")};
    struct buf json = {0};
    struct cmd_push push;
    const char *why = NULL;
    (void)state;
    extend_write(&json, &extend);
    struct extend_row row = {.id = BYTES("x"),
                             .topic = BYTES("t"),
                             .body = BYTES("/wB4"),
                             .extend_data = buf_bytes(&json),
                             .delay_ms = 7,
                             .create_ms = 1000,
                             .ttl_s = 2,
                             .status = STATUS_BURIED};
    assert_int_equal(extend_push(&row, &arena, &push, &why), OK);
    assert_int_equal(push.priority, 4294967295u);
    assert_int_equal(push.due_us, 1007999);
    assert_int_equal(push.ttr_us, 1500000);
    assert_int_equal(push.failures, 3);
    assert_int_equal(push.retry_count, 2);
    assert_int_equal(push.retry_us[1], 60000000);
    assert_int_equal(push.order, ORDER_ARRIVAL);
    assert_true(push.buried && push.retry_given && push.if_exists == IF_EXISTS_KEEP);
    assert_true(bytes_eq(push.body, bytes_of("\xff\x00x", 3)));
    assert_true(bytes_eq(push.content_type, extend.content_type));
    assert_true(bytes_eq(push.properties, extend.properties));
    buf_fini(&json);
}

static void test_a_row_of_sdmq_keeps_its_columns_as_labels(void **state)
{
    struct extend_row row = {.id = BYTES("t:k:1"),
                             .topic = BYTES("t"),
                             .bizkey = BYTES("k"),
                             .subtopic = BYTES("s"),
                             .body = BYTES("b"),
                             .extend_data = BYTES("{\"mine\":1}"),
                             .delay_ms = 5,
                             .create_ms = 1000,
                             .ttl_s = 30,
                             .status = STATUS_BURIED};
    struct cmd_push push;
    const char *why = NULL;
    (void)state;
    assert_int_equal(extend_push(&row, &arena, &push, &why), OK);
    assert_true(
        bytes_eq(push.properties,
                 BYTES("{\"biz_key\":\"k\",\"subtopic\":\"s\",\"extend_data\":\"{\\\"mine\\\":"
                       "1}\",\"create_time\":1000}")));
    assert_false(push.buried); /* its 6 is a consumer's failure, and comes again */
    assert_false(push.retry_given);
    assert_int_equal(push.due_us, 1005000);
    assert_int_equal(push.ttr_us, 30000000);
}

static void test_a_row_without_a_create_time_has_no_such_label(void **state)
{
    struct extend_row row = {.id = BYTES("x"), .topic = BYTES("t"), .delay_ms = 5};
    struct cmd_push push;
    const char *why = NULL;
    (void)state;
    assert_int_equal(extend_push(&row, &arena, &push, &why), OK);
    assert_int_equal(push.properties.len, 0);
    row.bizkey = BYTES("k");
    assert_int_equal(extend_push(&row, &arena, &push, &why), OK);
    assert_true(bytes_eq(push.properties, BYTES("{\"biz_key\":\"k\"}")));
}

static void assert_readable(struct bytes properties, struct job_properties *out)
{
    assert_true(bytes_is_utf8(properties));
    assert_int_equal(job_properties_read(properties, &arena, out, NULL), OK);
}

static void test_labels_that_others_wrote_can_be_read_whatever_they_are(void **state)
{
    struct extend_row row = {.id = BYTES("x"),
                             .topic = BYTES("t"),
                             .bizkey = BYTES("a\x01\xff"
                                             "b\x7f"),
                             .subtopic = bytes_of("\0\xc3", 2),
                             .extend_data = bytes_of("{\"a\":\"\xed\xa0\x80\0\n\"}", 13)};
    struct cmd_push push;
    struct job_properties labels;
    const char *why = NULL;
    (void)state;
    assert_int_equal(extend_push(&row, &arena, &push, &why), OK);
    assert_readable(push.properties, &labels);
    assert_true(bytes_eq(labels.biz_key, BYTES("a??b?")));
    assert_true(bytes_eq(labels.subtopic, BYTES("??")));
    assert_true(bytes_eq(labels.extend_data, BYTES("{\"a\":\"????\n\"}")));
    for (unsigned byte = 0; byte < 256; byte++) {
        char text[2] = {'x', (char)byte};
        row.bizkey = row.subtopic = row.extend_data = bytes_of(text, 2);
        assert_int_equal(extend_push(&row, &arena, &push, &why), OK);
        assert_readable(push.properties, &labels);
        assert_int_equal(labels.biz_key.len, 2);
    }
}

static void test_labels_that_others_wrote_too_long_are_cut_before_a_character(void **state)
{
    char text[3 * 300];
    struct extend_row row = {.id = BYTES("x"), .topic = BYTES("t")};
    struct cmd_push push;
    struct job_properties labels;
    const char *why = NULL;
    (void)state;
    for (unsigned i = 0; i < 300; i++)
        memcpy(text + (size_t)3 * i, "\u8a9e", 3);
    row.bizkey = row.subtopic = bytes_of(text, sizeof(text));
    assert_int_equal(extend_push(&row, &arena, &push, &why), OK);
    assert_readable(push.properties, &labels);
    assert_int_equal(labels.biz_key.len, JOB_BIZ_KEY_MAX / 3 * 3);
    assert_int_equal(labels.subtopic.len, JOB_SUBTOPIC_MAX / 3 * 3);
}

static void test_extend_data_that_is_longer_than_a_job_may_have_is_named(void **state)
{
    static char text[JOB_EXTEND_DATA_MAX + 1];
    struct extend_row row = {.id = BYTES("x"), .topic = BYTES("t")};
    struct cmd_push push;
    struct job_properties labels;
    const char *why = NULL;
    (void)state;
    memset(text, 'x', sizeof(text));
    row.extend_data = bytes_of(text, JOB_EXTEND_DATA_MAX);
    assert_int_equal(extend_push(&row, &arena, &push, &why), OK);
    assert_readable(push.properties, &labels);
    row.extend_data.len++;
    assert_int_equal(extend_push(&row, &arena, &push, &why), ERR_INVALID);
    assert_string_equal(why, "extend_data is longer than a job may have it");
    memset(text, '\x01', sizeof(text));
    row.extend_data.len--;
    assert_int_equal(extend_push(&row, &arena, &push, &why), ERR_INVALID);
    assert_string_equal(why, "bizkey, subtopic and extend_data are too long together");
}

static void test_a_content_type_with_control_characters_is_dropped_and_the_job_kept(void **state)
{
    static const char *const texts[] = {
        "{\"laterd\":1,\"content_type\":\"a\\r\\nX-Evil: 1\",\"priority\":7}",
        "{\"laterd\":1,\"content_type\":\"a\\u0000\",\"priority\":7}",
        "{\"laterd\":1,\"content_type\":\"\x7f\",\"priority\":7}",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct extend_row row = {.id = BYTES("x"),
                                 .topic = BYTES("t"),
                                 .body = BYTES("b"),
                                 .extend_data = bytes_str(texts[i])};
        struct cmd_push push;
        const char *why = NULL;
        assert_int_equal(extend_push(&row, &arena, &push, &why), OK);
        assert_int_equal(push.content_type.len, 0);
        assert_int_equal(push.priority, 7);
        assert_true(bytes_eq(push.body, row.body));
    }
}

static void test_rows_that_no_job_can_be_made_of_are_named(void **state)
{
    struct buf long_type = {0};
    (void)state;
    buf_addf(&long_type, "{\"laterd\":1,\"content_type\":\"%0*d\"}", CONTENT_TYPE_MAX + 1, 0);
    const struct {
        struct extend_row row;
        const char *why;
    } bad[] = {
        {{.topic = {"t", 1}, .body = {"b", 1}}, "the id is empty or too long"},
        {{.id = {"x", 1}}, "the topic is empty or too long"},
        {{.id = {"x", 1}, .topic = {"t", 1}, .create_ms = INT64_MAX, .delay_ms = 1},
         "create_time and delay are no time"},
        {{.id = {"x", 1}, .topic = {"t", 1}, .create_ms = -5}, "create_time and delay are no time"},
        {{.id = {"x", 1}, .topic = {"t", 1}, .create_ms = -5, .delay_ms = 10},
         "create_time and delay are no time"},
        {{.id = {"x", 1}, .topic = {"t", 1}, .create_ms = INT64_MAX, .delay_ms = 1 - INT64_MAX},
         "create_time and delay are no time"},
        {{.id = {"x", 1},
          .topic = {"t", 1},
          .body = {"?", 1},
          .extend_data = {"{\"laterd\":1,\"body\":\"base64\"}", 28}},
         "the body is not base64, as extend_data says"},
        {{.id = {"x", 1}, .topic = {"t", 1}, .extend_data = {"{\"laterd\":1,\"priority\":-1}", 26}},
         "extend_data is not what laterd writes"},
        {{.id = {"x", 1}, .topic = {"t", 1}, .extend_data = buf_bytes(&long_type)},
         "extend_data is not what laterd writes"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct cmd_push push;
        const char *why = NULL;
        assert_int_equal(extend_push(&bad[i].row, &arena, &push, &why), ERR_INVALID);
        assert_string_equal(why, bad[i].why);
    }
    buf_fini(&long_type);
}

static void test_a_row_is_written_again_if_its_push_would_change_it(void **state)
{
    static const struct {
        const char *extend;
        int status;
        bool due, written;
    } rows[] = {
        {"{\"laterd\":1}", STATUS_DELAYED, false, true},
        {"{\"laterd\":1}", STATUS_DELAYED, true, true}, /* that it fell due changed no row */
        {"{\"laterd\":1}", STATUS_READY, true, true},   /* or was reserved: the row is the same */
        {"{\"laterd\":1}", STATUS_READY, false, false}, /* it was reserved, and waits again */
        {"{\"laterd\":1}", STATUS_BURIED, false, true},
        {"{\"laterd\":1}", STATUS_FINISHED, true, false},
        {"{\"laterd\":1}", STATUS_DELETED, true, false},
        {"{\"mine\":1}", STATUS_DELAYED, false, false}, /* sdmq's */
        {"", STATUS_DELAYED, false, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct cmd_push push = {.due_us = rows[i].due ? 1000 : 1001};
        struct extend_row row = {.extend_data = bytes_str(rows[i].extend),
                                 .status = rows[i].status};
        assert_int_equal(extend_is_written(&row, &push, 1000), rows[i].written);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_a_row_of_ours_comes_back_whole, teardown),
        cmocka_unit_test_teardown(test_a_row_of_sdmq_keeps_its_columns_as_labels, teardown),
        cmocka_unit_test_teardown(test_a_row_without_a_create_time_has_no_such_label, teardown),
        cmocka_unit_test_teardown(test_labels_that_others_wrote_can_be_read_whatever_they_are,
                                  teardown),
        cmocka_unit_test_teardown(test_labels_that_others_wrote_too_long_are_cut_before_a_character,
                                  teardown),
        cmocka_unit_test_teardown(test_extend_data_that_is_longer_than_a_job_may_have_is_named,
                                  teardown),
        cmocka_unit_test_teardown(
            test_a_content_type_with_control_characters_is_dropped_and_the_job_kept, teardown),
        cmocka_unit_test_teardown(test_rows_that_no_job_can_be_made_of_are_named, teardown),
        cmocka_unit_test(test_a_row_is_written_again_if_its_push_would_change_it),
    };
    return cmocka_run_group_tests_name("journal/extend", tests, NULL, NULL);
}
