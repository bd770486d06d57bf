/* What is said of the time that is left follows the pace of the last seconds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/pace.h"

static void one_sample_says_nothing(void **state)
{
    struct pace pace = {.count = 0};
    (void)state;
    assert_int_equal(pace_left_s(&pace, 1000, 100000, 30000), 0);
    assert_int_equal(pace_left_s(&pace, 3000, 100000, 32000), 97);
    assert_int_equal(pace_left_s(&pace, 3000, 0, 32000), 0); /* nobody knows of how many */
    assert_int_equal(pace_left_s(&pace, 100000, 100000, 40000), 0);
}

/* A minute of waiting before it, or a slow first page, is no part of its pace. */
static void what_was_long_ago_does_not_count(void **state)
{
    struct pace pace = {.count = 0};
    uint64_t done = 0, ms = 0, left = 0;
    (void)state;
    for (; ms < 60000; ms += 2000)
        assert_int_equal(pace_left_s(&pace, 0, 1000000, ms), 0);
    assert_int_equal(pace_left_s(&pace, 10000, 1000000, 59000), 99);
    for (; ms < 90000; ms += 2000, done += 20000) /* 10,000 a second */
        left = pace_left_s(&pace, done, 1000000, ms);
    assert_int_equal(left, 72);
    for (; ms < 120000; ms += 2000, done += 2000) { /* it gets slower: no step is a leap */
        uint64_t now = pace_left_s(&pace, done, 1000000, ms);
        assert_in_range(now, left - 2, 2 * left);
        left = now;
    }
    assert_in_range(left, 650, 700);
}

static void samples_that_come_often_are_bounded(void **state)
{
    struct pace pace = {.count = 0};
    uint64_t left = 0;
    (void)state;
    for (uint64_t ms = 1; ms <= 1000; ms++)
        left = pace_left_s(&pace, ms, 11000, ms);
    assert_int_equal(left, 10);
    assert_int_equal(pace.count, PACE_SAMPLES);
}

/* Two that are far apart are all there is. */
static void samples_that_come_seldom_are_kept(void **state)
{
    struct pace pace = {.count = 0};
    (void)state;
    assert_int_equal(pace_left_s(&pace, 10, 100, 1000), 0);
    assert_int_equal(pace_left_s(&pace, 20, 100, 101000), 800);
    assert_int_equal(pace_left_s(&pace, 20, 100, 201000), 0); /* it stands still */
}

static void one_that_begins_again_is_another(void **state)
{
    struct pace pace = {.count = 0};
    (void)state;
    assert_int_equal(pace_left_s(&pace, 500, 1000, 1000), 0);
    assert_int_equal(pace_left_s(&pace, 600, 1000, 2000), 4);
    assert_int_equal(pace_left_s(&pace, 100, 1000, 3000), 0);
    assert_int_equal(pace_left_s(&pace, 110, 1000, 4000), 89);
    assert_int_equal(pace_left_s(&pace, 120, 1000, 100), 0);
    assert_int_equal(pace_left_s(&pace, UINT64_MAX - 1, UINT64_MAX, UINT64_MAX), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_sample_says_nothing),
        cmocka_unit_test(what_was_long_ago_does_not_count),
        cmocka_unit_test(samples_that_come_often_are_bounded),
        cmocka_unit_test(samples_that_come_seldom_are_kept),
        cmocka_unit_test(one_that_begins_again_is_another),
    };
    return cmocka_run_group_tests_name("cli/pace", tests, NULL, NULL);
}
