/* What is written in targets and fields: percent escapes, queries, times, durations, base64. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/rfc3339.h"
#include "proto/base64.h"
#include "proto/http/http1.h"

static void escapes_are_decoded_or_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *means; /* NULL: refused */
    } cases[] = {
        {"", ""},      {"abc", "abc"}, {"a%20b", "a b"}, {"%e4%BD%a0", "你"}, {"a+b", "a b"},
        {"%2B", "+"},  {"%", NULL},    {"%2", NULL},     {"%zz", NULL},       {"a%0", NULL},
        {"%00", NULL}, {"%2x", NULL},  {"%%20", NULL},   {"%2f%2F", "//"},
    };
    struct buf room = {0};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct bytes text;
        bool good = http_percent_decode(bytes_str(cases[i].text), true, &room, &text);
        assert_int_equal(good, cases[i].means != NULL);
        if (good)
            assert_true(bytes_eq(text, bytes_str(cases[i].means)));
    }
    struct bytes text;
    assert_true(http_percent_decode(BYTES("a+b"), false, &room, &text));
    assert_true(bytes_eq(text, BYTES("a+b")));
    buf_fini(&room);
}

static void parameters_come_in_order_and_empty_ones_are_skipped(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {{"a", "1"}, {"b", ""}, {"c", "x=y"},
                                           {"a", "2"}, {"", "3"}, {"d", "%zz"}};
    struct bytes query = BYTES("&a=1&&b&c=x=y&a=2&=3&d=%zz&"), name, value;
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        assert_true(http_query_next(&query, &name, &value));
        assert_true(bytes_eq(name, bytes_str(pairs[i][0])));
        assert_true(bytes_eq(value, bytes_str(pairs[i][1])));
    }
    assert_false(http_query_next(&query, &name, &value));
    assert_int_equal(query.len, 0);
}

static void times_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t us; /* -1: refused */
    } cases[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"2000-02-29T12:34:56.789Z", INT64_C(951827696789000)},
        {"2000-02-29t12:34:56.789123999z", INT64_C(951827696789123)},
        {"2000-02-29 20:34:56+08:00", INT64_C(951827696000000)},
        {"2000-02-29T04:04:56-08:30", INT64_C(951827696000000)},
        {"1970-01-01T08:00:00+08:00", 0},
        {"9999-12-31T23:59:59.999999Z", RFC3339_MAX_US},
        {"9999-12-31T23:59:59-00:01", -1},
        {"1970-01-01T00:00:00+00:01", 0}, /* what is before 1970 is past, and so is this */
        {"1969-12-31T23:59:59Z", 0},
        {"0001-01-01T00:00:00Z", 0},
        {"0000-01-01T00:00:00Z", 0},
        {"1900-02-29T00:00:00Z", -1},
        {"2001-02-29T00:00:00Z", -1},
        {"2100-02-29T00:00:00Z", -1},
        {"2001-13-01T00:00:00Z", -1},
        {"2001-00-01T00:00:00Z", -1},
        {"2001-01-00T00:00:00Z", -1},
        {"2001-04-31T00:00:00Z", -1},
        {"2001-01-01T24:00:00Z", -1},
        {"2001-01-01T00:60:00Z", -1},
        {"2001-01-01T00:00:61Z", -1},
        {"2001-01-01T00:00:00", -1},
        {"2001-01-01T00:00:00.Z", -1},
        {"2001-01-01T00:00:00.1234567890Z", -1},
        {"2001-01-01T00:00:00+24:00", -1},
        {"2001-01-01T00:00:00+0800", -1},
        {"2001-01-01T00:00:00ZZ", -1},
        {"2001-01-01X00:00:00Z", -1},
        {"2001-01-01", -1},
        {"2001-1-1T00:00:00Z", -1},
        {"+001-01-01T00:00:00Z", -1},
        {"", -1},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int64_t us = -1;
        bool good = rfc3339_read(bytes_str(cases[i].text), &us);
        if (us != cases[i].us || good != (cases[i].us >= 0))
            fail_msg("%s: %lld", cases[i].text, (long long)us);
    }
}

static int64_t utc_s(const char *text)
{
    int64_t us;
    assert_true(rfc3339_read(bytes_str(text), &us));
    return us / 1000000;
}

/* Berlin in 2026: an hour east of UTC, and two from 29 March to 25 October, each at 01:00 UTC. */
static int64_t berlin_east_us(int64_t at_us)
{
    int64_t at_s = at_us / 1000000;
    bool summer = at_s >= utc_s("2026-03-29T01:00:00Z") && at_s < utc_s("2026-10-25T01:00:00Z");
    return INT64_C(3600000000) * (summer ? 2 : 1);
}

static void local_times_know_when_clocks_are_set(void **state)
{
    (void)state;
    static const struct {
        const char *local, *utc;
    } cases[] = {
        {"2026-01-15 12:00:00", "2026-01-15T11:00:00Z"},
        {"2026-07-15 12:00:00", "2026-07-15T10:00:00Z"},
        {"2026-03-29 01:59:59", "2026-03-29T00:59:59Z"},
        {"2026-03-29 02:00:00", "2026-03-29T01:00:00Z"}, /* left out: is 03:00 */
        {"2026-03-29 02:30:00", "2026-03-29T01:30:00Z"},
        {"2026-03-29 03:00:00", "2026-03-29T01:00:00Z"},
        {"2026-10-25 01:59:59", "2026-10-24T23:59:59Z"},
        {"2026-10-25 02:30:00", "2026-10-25T00:30:00Z"}, /* twice: the first */
        {"2026-10-25 03:00:00", "2026-10-25T02:00:00Z"},
        {"1970-01-01 00:30:00", "1970-01-01T00:00:00Z"},
        {"1969-01-01 00:30:00", "1970-01-01T00:00:00Z"},
    };
    int64_t us;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_true(rfc3339_read_local(bytes_str(cases[i].local), berlin_east_us, &us));
        if (us / 1000000 != utc_s(cases[i].utc))
            fail_msg("%s: %lld", cases[i].local, (long long)us);
    }
    assert_true(rfc3339_read_local(BYTES("2026-01-15 12:00:00"), NULL, &us));
    assert_int_equal(us / 1000000, utc_s("2026-01-15T12:00:00Z"));
    assert_false(rfc3339_read_local(BYTES("2026-01-15T12:00:00"), NULL, &us));
    assert_false(rfc3339_read_local(BYTES("2026-01-15 12:00"), NULL, &us));
    assert_false(rfc3339_read_local(BYTES("2026-02-30 12:00:00"), NULL, &us));
}

static void times_are_written_as_they_are_read(void **state)
{
    (void)state;
    /* A step that is no multiple of a day, over all years there are. */
    for (int64_t us = 0; us <= RFC3339_MAX_US; us += INT64_C(86461) * 1000000 * 97 + 123457) {
        struct buf out = {0};
        int64_t again;
        rfc3339_add(&out, us);
        assert_true(rfc3339_read(buf_bytes(&out), &again));
        assert_true(again == us);
        buf_fini(&out);
    }
}

static void durations_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t us; /* -1: refused */
    } cases[] = {
        {"0s", 0},
        {"250ms", 250000},
        {"1h30m", INT64_C(5400000000)},
        {"7us", 7},
        {"1m1ms1s1us", 61001001},
        {"2d", INT64_C(172800000000)},
        {"1w", INT64_C(604800000000)},
        {"", -1},
        {"5", -1},
        {"s", -1},
        {"1.5h", -1},
        {"-1s", -1},
        {"+1s", -1},
        {"1 s", -1},
        {"1S", -1},
        {"1y", -1},
        {"1h30", -1},
        {"999999999999999999w", -1},
        {"9223372036854775807us", INT64_MAX},
        {"9223372036854775808us", -1},
        {"9999999999999999999s", -1},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int64_t us = -1;
        bool good = duration_read(bytes_str(cases[i].text), &us);
        if (us != cases[i].us || good != (cases[i].us >= 0))
            fail_msg("%s: %lld", cases[i].text, (long long)us);
    }
}

static void base64_goes_there_and_back(void **state)
{
    (void)state;
    struct arena arena = {0};
    unsigned char data[256];
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (unsigned char)(i * 7);
    for (size_t len = 0; len <= sizeof(data); len++) {
        struct buf text = {0};
        struct bytes again;
        base64_write(&text, bytes_of(data, len));
        assert_int_equal(text.len, (len + 2) / 3 * 4);
        assert_true(base64_read(buf_bytes(&text), &arena, &again));
        assert_true(bytes_eq(again, bytes_of(data, len)));
        buf_fini(&text);
    }
    static const char *const bad[] = {"A",     "AA",    "AAA",     "AA=A",     "A===",
                                      "====",  "AB==",  "AAB=",    "AA==AAAA", "AA-_",
                                      "AA\nA", "AAAA=", "AAAAA==="};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct bytes again;
        assert_false(base64_read(bytes_str(bad[i]), &arena, &again));
    }
    arena_fini(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(escapes_are_decoded_or_refused),
        cmocka_unit_test(parameters_come_in_order_and_empty_ones_are_skipped),
        cmocka_unit_test(times_are_read),
        cmocka_unit_test(local_times_know_when_clocks_are_set),
        cmocka_unit_test(times_are_written_as_they_are_read),
        cmocka_unit_test(durations_are_read),
        cmocka_unit_test(base64_goes_there_and_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
