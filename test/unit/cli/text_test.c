/* Words for people: durations both ways, counts, sizes, safe text, tables. */
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/text.h"

static void expect_buf(struct buf *buf, const char *text)
{
    buf_add_char(buf, '\0');
    assert_string_equal(buf->at, text);
    buf_fini(buf);
}

static void durations_are_read_with_their_units(void **state)
{
    static const struct {
        const char *text;
        int64_t us;
    } good[] = {
        {"0", 0},
        {"250us", 250},
        {"250ms", 250000},
        {"90s", 90000000},
        {"1h30m", INT64_C(5400) * 1000000},
        {"2d12h", INT64_C(216000) * 1000000},
        {"1w", INT64_C(604800) * 1000000},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        int64_t us = -1;
        assert_int_equal(duration_parse(good[i].text, &us), OK);
        assert_int_equal(us, good[i].us);
    }
}

static void a_duration_without_a_unit_or_with_a_wrong_one_is_refused(void **state)
{
    static const char *const bad[] = {"",
                                      "5",
                                      "s",
                                      "1y",
                                      "-1s",
                                      "1.5s",
                                      "1 s",
                                      "1h30",
                                      "1hm",
                                      "1ss",
                                      "+1s",
                                      "99999999999999999999s",
                                      "9223372036854775807s"};
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        int64_t us = 42;
        assert_int_equal(duration_parse(bad[i], &us), ERR_INVALID);
        assert_int_equal(us, 42); /* outputs are untouched on failure */
    }
}

static void an_exact_duration_is_read_as_the_same_one(void **state)
{
    static const struct {
        int64_t us;
        const char *text;
    } all[] = {{0, "0s"},
               {1, "1us"},
               {1500, "1ms500us"},
               {60000000, "1m"},
               {90500000, "1m30s500ms"},
               {INT64_C(86400000000) * 3650, "3650d"},
               {INT64_MAX, "106751991d4h54s775ms807us"}};
    char room[TEXT_ROOM];
    int64_t us;
    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        assert_string_equal(duration_exact(all[i].us, room), all[i].text);
        assert_int_equal(duration_parse(room, &us), OK);
        assert_int_equal(us, all[i].us);
    }
}

static void durations_are_shown_with_the_unit_that_fits(void **state)
{
    char room[TEXT_ROOM];
    (void)state;
    assert_string_equal(duration_text(0, room), "0.00 ms");
    assert_string_equal(duration_text(350, room), "0.35 ms");
    assert_string_equal(duration_text(12345, room), "12 ms");
    assert_string_equal(duration_text(1500000, room), "1.5 s");
    assert_string_equal(duration_text(125 * INT64_C(1000000), room), "2m 5s");
    assert_string_equal(duration_text(11040 * INT64_C(1000000), room), "3h 4m");
    assert_string_equal(duration_text(439200 * INT64_C(1000000), room), "5d 2h");
    assert_string_equal(duration_text(-1500000, room), "-1.5 s");
    assert_string_equal(duration_text(INT64_MIN, room), "-106751991d 4h");
}

static void counts_and_sizes_are_easy_to_read(void **state)
{
    char room[TEXT_ROOM];
    (void)state;
    assert_string_equal(count_text(0, room), "0");
    assert_string_equal(count_text(999, room), "999");
    assert_string_equal(count_text(1234567, room), "1,234,567");
    assert_string_equal(count_text(UINT64_MAX, room), "18,446,744,073,709,551,615");
    assert_string_equal(size_text(1023, room), "1023 B");
    assert_string_equal(size_text(1536, room), "1.5 KiB");
    assert_string_equal(size_text(UINT64_MAX, room), "15.9 EiB");
}

static void a_terminal_never_obeys_a_job(void **state)
{
    struct buf out = {0};
    (void)state;
    text_add_safe(&out, BYTES("a\x1b[2Jb\nc\td\x7f"));
    expect_buf(&out, "a?[2Jb?c?d?");
    text_add_safe_lines(&out, BYTES("a\nb\tc\r"));
    expect_buf(&out, "a\nb\tc?");
    text_add_safe_lines(&out, BYTES("\xe4\xbd\xa0 \xc2\x9b")); /* a character, a C1 control */
    expect_buf(&out, "\xe4\xbd\xa0 ?");
    text_add_safe_lines(&out, BYTES("\xff\xc2"));
    expect_buf(&out, "??");
}

static void a_path_part_cannot_leave_its_place(void **state)
{
    struct buf out = {0};
    (void)state;
    url_add_part(&out, BYTES("a/b?c d~\xc3\xa9"));
    expect_buf(&out, "a%2Fb%3Fc%20d~%C3%A9");
}

static void a_table_lines_up(void **state)
{
    struct table table = {.columns = 3, .right = {false, true, false}};
    struct buf out = {0};
    (void)state;
    table_cell_str(&table, "TOPIC");
    table_cell_str(&table, "JOBS");
    table_cell_str(&table, "NOTE");
    table_cell_str(&table, "\xc3\xa9t\xc3\xa9");
    table_cell_str(&table, "12,345");
    table_cell_str(&table, "x");
    table_write(&table, &out);
    expect_buf(&out, "TOPIC    JOBS  NOTE\n"
                     "\xc3\xa9t\xc3\xa9    12,345  x\n");
    table_fini(&table);
}

static void a_wide_character_takes_two_columns_and_a_combining_one_none(void **state)
{
    (void)state;
    assert_int_equal(text_width(BYTES("")), 0);
    assert_int_equal(text_width(BYTES("mail")), 4);
    assert_int_equal(text_width(BYTES("订单-1")), 6);
    assert_int_equal(text_width(BYTES("e\xcc\x81t")), 2);
    assert_int_equal(text_width(BYTES("\xe4\xbd")), 2); /* cut short: a column a byte */
}

static void a_text_that_is_too_long_ends_in_an_ellipsis(void **state)
{
    static const struct {
        const char *text;
        size_t columns;
        const char *cut;
    } cases[] = {
        {"orders", 6, "orders"},  {"orders", 5, "orde…"},      {"orders", 1, "…"},
        {"orders", 0, ""},        {"关闭订单", 8, "关闭订单"}, {"关闭订单", 7, "关闭订…"},
        {"关闭订单", 6, "关闭…"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct buf out = {0};
        text_add_cut(&out, bytes_str(cases[i].text), cases[i].columns);
        assert_true(out.len == 0 || text_width(buf_bytes(&out)) <= cases[i].columns);
        expect_buf(&out, cases[i].cut);
    }
}

static void columns_line_up_behind_wide_and_cut_names(void **state)
{
    struct table table = {.columns = 2, .most = {6}, .right = {false, true}};
    struct buf out = {0};
    (void)state;
    table_cell_str(&table, "订单");
    table_cell_str(&table, "12");
    table_cell_str(&table, "reminders");
    table_cell_str(&table, "3");
    table_write(&table, &out);
    expect_buf(&out, "订单    12\n"
                     "remin…   3\n");
    table_fini(&table);
}

static void expect_argument(const char *synopsis, unsigned index, const char *expected)
{
    struct buf name = {0};
    text_add_argument(&name, synopsis, index);
    assert_int_equal(name.len, strlen(expected));
    assert_memory_equal(name.at ? name.at : "", expected, name.len);
    buf_fini(&name);
}

static void an_argument_is_named_by_the_usage(void **state)
{
    (void)state;
    expect_argument("[options] TOPIC BODY | @FILE | -", 0, "TOPIC");
    expect_argument("[options] TOPIC BODY | @FILE | -", 1, "BODY, @FILE or -");
    expect_argument("[options] TOPIC BODY | @FILE | -", 2, "");
    expect_argument("[--lease LEASE]… ID…", 0, "ID");
    expect_argument("ID… | --topic TOPIC [--max N]", 0, "ID or --topic");
    expect_argument("[TOPIC]", 0, "");
    expect_argument("", 0, "");
}

int main(void)
{
    (void)setlocale(LC_CTYPE, "C.UTF-8"); /* as later has it */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_argument_is_named_by_the_usage),
        cmocka_unit_test(durations_are_read_with_their_units),
        cmocka_unit_test(a_duration_without_a_unit_or_with_a_wrong_one_is_refused),
        cmocka_unit_test(an_exact_duration_is_read_as_the_same_one),
        cmocka_unit_test(durations_are_shown_with_the_unit_that_fits),
        cmocka_unit_test(counts_and_sizes_are_easy_to_read),
        cmocka_unit_test(a_terminal_never_obeys_a_job),
        cmocka_unit_test(a_path_part_cannot_leave_its_place),
        cmocka_unit_test(a_table_lines_up),
        cmocka_unit_test(a_wide_character_takes_two_columns_and_a_combining_one_none),
        cmocka_unit_test(a_text_that_is_too_long_ends_in_an_ellipsis),
        cmocka_unit_test(columns_line_up_behind_wide_and_cut_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
