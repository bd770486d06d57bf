/* The text of values and statements: what a server would read is what was meant. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "journal/sql.h"

static void expect(struct buf *got, const char *text)
{
    buf_add_char(got, '\0');
    assert_string_equal(got->at, text);
    buf_fini(got);
}

static void test_text_is_escaped(void **state)
{
    struct buf out = {0};
    (void)state;
    sql_add_text(&out, BYTES("it's \"\\\0\n\r\x1a%_ \xf0\x9f\x8e\x89"));
    expect(&out, "'it\\'s \\\"\\\\\\0\\n\\r\\Z%_ \xf0\x9f\x8e\x89'");
    sql_add_text(&out, BYTES(""));
    expect(&out, "''");
}

static void test_times_are_cut_to_milliseconds(void **state)
{
    struct buf out = {0};
    (void)state;
    sql_add_time(&out, INT64_C(1795446284698883), 0);
    expect(&out, "'2026-11-23 15:04:44.698'");
    sql_add_time(&out, INT64_C(1795446284698883), 8 * 3600);
    expect(&out, "'2026-11-23 23:04:44.698'");
    sql_add_time(&out, INT64_C(1795446284698883), -(3 * 3600 + 1800));
    expect(&out, "'2026-11-23 11:34:44.698'");
    sql_add_time(&out, INT64_C(951782399999999), 0);
    expect(&out, "'2000-02-28 23:59:59.999'");
    sql_add_time(&out, INT64_C(951782400000000), 0);
    expect(&out, "'2000-02-29 00:00:00.000'");
    sql_add_time(&out, INT64_C(4102444800000000), 0); /* FROM_UNIXTIME() would be NULL */
    expect(&out, "'2100-01-01 00:00:00.000'");
    sql_add_time(&out, -5, 0);
    expect(&out, "'1970-01-01 00:00:00.000'");
    sql_add_time(&out, INT64_MAX, 0);
    expect(&out, "'9999-12-31 23:59:59.999'");
}

static void test_the_cursor_moves_from_one_place_alone(void **state)
{
    static const struct sql_place place = {.host = "h/1"};
    static const uint8_t store[JOURNAL_STORE_BYTES] = {0xab, 1};
    struct buf out = {0};
    (void)state;
    struct sql_step step = {.store = store, .epoch = 3, .from = 7, .to = 9, .at_us = 1000};
    sql_add_cursor(&out, &step, &place);
    expect(&out, "UPDATE laterd_journal_cursor SET batch=9,updated='1970-01-01 00:00:00.001' WHERE "
                 "store_id=x'ab010000000000000000000000000000' AND epoch=3 AND batch=7");
}

static void test_a_change_names_its_partition(void **state)
{
    static const struct sql_place place = {.host = "h/1"};
    struct group_log log = {.id = BYTES("a"), .stream = 3, .status = STATUS_READY, .at_us = 1000};
    struct buf out = {0};
    (void)state;
    sql_add_log(&out, &log, &place);
    expect(&out, "('a',2,'laterd-3','1970-01-01 00:00:00.001','h/1')");
}

static void test_a_move_computes_the_delay_in_the_table(void **state)
{
    static const struct sql_place place = {.host = "h/1"};
    struct group_job job = {.id = BYTES("a'b"),
                            .change = GROUP_MOVE,
                            .status = STATUS_DELAYED,
                            .due_us = 5001250,
                            .priority = 7,
                            .failures = 2,
                            .at_us = 1000};
    struct buf out = {0};
    (void)state;
    sql_begin_moves(&out);
    sql_add_move(&out, &job, &place, true);
    job.id = BYTES("c");
    job.status = STATUS_BURIED;
    sql_add_move(&out, &job, &place, false);
    sql_end_moves(&out);
    expect(&out,
           "UPDATE t_delay_queue_job AS t JOIN(SELECT 'a\\'b' AS id,1 AS s,5001 AS d,7 AS p,2 "
           "AS f,250 AS m,'1970-01-01 00:00:00.001' AS u UNION ALL SELECT "
           "'c',6,5001,7,2,250,'1970-01-01 00:00:00.001')AS m ON t.id=m.id SET "
           "t.status=m.s,t.delay=m.d-t.create_time,t.update_time=m.u,t.extend_data=JSON_SET("
           "IF(JSON_VALID(t.extend_data),t.extend_data,'{}'),'$.priority',m.p,'$.failures',"
           "m.f,'$.us',m.m)");
}

static void test_what_was_refused_is_kept_as_bytes(void **state)
{
    static const struct sql_place place = {.host = "h/1"};
    struct buf out = {0};
    (void)state;
    struct sql_rejected row = {
        .batch = 5, .id = BYTES("\xff"), .error = "1366 it's bad", .event = BYTES("x")};
    sql_add_rejected(&out, &row, &place);
    expect(&out,
           "INSERT INTO laterd_journal_rejected(batch,id,error,event,at) VALUES(5,x'ff','1366 "
           "it\\'s bad',x'78','1970-01-01 00:00:00.000')");
}

/* Texts of errors are kept in rooms of a fixed size, which may cut them in a character (a trigger's
   own text, a server that speaks another language). The column takes UTF-8 only. */
static void test_the_error_of_what_was_refused_is_utf8(void **state)
{
    static const struct sql_place place = {.host = "h/1"};
    struct buf out = {0};
    (void)state;
    struct sql_rejected row = {
        .batch = 5, .id = BYTES("a"), .error = "1644 \xe4\xb8\xad\xe6\x96", .event = BYTES("x")};
    sql_add_rejected(&out, &row, &place);
    expect(&out, "INSERT INTO laterd_journal_rejected(batch,id,error,event,at) VALUES(5,x'61',"
                 "'1644 \xe4\xb8\xad',x'78','1970-01-01 00:00:00.000')");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_is_escaped),
        cmocka_unit_test(test_times_are_cut_to_milliseconds),
        cmocka_unit_test(test_the_cursor_moves_from_one_place_alone),
        cmocka_unit_test(test_a_change_names_its_partition),
        cmocka_unit_test(test_a_move_computes_the_delay_in_the_table),
        cmocka_unit_test(test_what_was_refused_is_kept_as_bytes),
        cmocka_unit_test(test_the_error_of_what_was_refused_is_utf8),
    };
    return cmocka_run_group_tests_name("journal/sql", tests, NULL, NULL);
}
