/* Numbers of sdmq's ids, on a clock that the test sets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proto/sdmq/job_id.h"

#define NOW_US INT64_C(1700000000123456)

static void numbers_have_the_originals_parts(void **state)
{
    struct snowflake one;
    (void)state;
    snowflake_init(&one, 65); /* its data centre 2, machine 1 */
    uint64_t number = snowflake_next(&one, NOW_US);
    assert_int_equal(number >> 22, NOW_US / 1000 - SNOWFLAKE_EPOCH_MS);
    assert_int_equal(number >> 12 & 1023, 65);
    assert_int_equal(number & 4095, 0);
    assert_int_equal(snowflake_next(&one, NOW_US), number + 1);
    assert_int_equal(snowflake_next(&one, NOW_US + 1000) & 4095, 0);
}

/* The clock goes, stands, leaps and is set back, at random: each number is above the last one. */
static void numbers_only_grow_whatever_the_clock_does(void **state)
{
    struct snowflake one;
    uint64_t last = 0, random = 88172645463325252u;
    int64_t now_us = NOW_US;
    (void)state;
    snowflake_init(&one, 1023);
    for (int i = 0; i < 300000; i++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        if (random % 1000 == 0)
            now_us += (int64_t)(random >> 20) % INT64_C(20000000000) - INT64_C(10000000000);
        else if (random % 3 == 0)
            now_us += (int64_t)(random >> 20) % 500;
        uint64_t number = snowflake_next(&one, now_us);
        assert_true(number > last);
        assert_int_equal(number >> 12 & 1023, 1023);
        assert_int_equal(number >> 63, 0);
        last = number;
    }
}

static void a_clock_set_back_an_hour_repeats_nothing(void **state)
{
    struct snowflake one;
    (void)state;
    snowflake_init(&one, 1);
    uint64_t before = snowflake_next(&one, NOW_US);
    for (int i = 1; i <= 10000; i++) /* more than a millisecond has: later ones are used up */
        assert_int_equal(snowflake_next(&one, NOW_US - INT64_C(3600000000)) >> 22,
                         (before >> 22) + (uint64_t)i / 4096);
    uint64_t after = snowflake_next(&one, NOW_US + 3000); /* the clock has caught up */
    assert_int_equal(after >> 22, (before >> 22) + 3);
    assert_int_equal(after & 4095, 0);
}

static void two_machines_never_give_the_same(void **state)
{
    struct snowflake one, other;
    (void)state;
    snowflake_init(&one, 1);
    snowflake_init(&other, 2);
    for (int i = 0; i < 10000; i++)
        assert_int_not_equal(snowflake_next(&one, NOW_US) & ~UINT64_C(4095),
                             snowflake_next(&other, NOW_US) & ~UINT64_C(4095));
}

static void times_outside_are_the_first_and_the_last(void **state)
{
    struct snowflake one;
    (void)state;
    snowflake_init(&one, 0);
    assert_int_equal(snowflake_next(&one, 0), 0);
    assert_int_equal(snowflake_next(&one, INT64_MIN), 1);
    assert_int_equal(snowflake_next(&one, INT64_MAX) >> 22, (INT64_C(1) << 41) - 1);
}

static void an_id_has_its_parts_between_colons(void **state)
{
    struct buf out = {0};
    (void)state;
    sdmq_id_write(&out, BYTES("pay:17:"), BYTES("10.0.0.1"), 77);
    buf_add_char(&out, '\0');
    assert_string_equal(out.at, "pay:17:10.0.0.1:77");
    buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_have_the_originals_parts),
        cmocka_unit_test(numbers_only_grow_whatever_the_clock_does),
        cmocka_unit_test(a_clock_set_back_an_hour_repeats_nothing),
        cmocka_unit_test(two_machines_never_give_the_same),
        cmocka_unit_test(times_outside_are_the_first_and_the_last),
        cmocka_unit_test(an_id_has_its_parts_between_colons),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
