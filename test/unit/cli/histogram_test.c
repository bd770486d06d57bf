/* The load generator's histogram: what it promises about precision, order and extremes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/bench/histogram.h"

static struct histogram histogram; /* too large for a stack */

static int empty(void **state)
{
    (void)state;
    histogram = (struct histogram){0};
    return 0;
}

static void an_empty_one_answers_zero(void **state)
{
    (void)state;
    assert_int_equal(histogram_quantile(&histogram, 50000), 0);
    assert_int_equal(histogram_mean(&histogram), 0);
}

static void small_values_are_exact(void **state)
{
    (void)state;
    for (int64_t i = 1; i <= 200; i++)
        histogram_add(&histogram, i);
    assert_int_equal(histogram_quantile(&histogram, 50000), 100);
    assert_int_equal(histogram_quantile(&histogram, 99000), 198);
    assert_int_equal(histogram_quantile(&histogram, 100000), 200);
    assert_int_equal(histogram.max, 200);
}

static void of_three_the_median_is_the_second(void **state)
{
    (void)state;
    histogram_add(&histogram, 3);
    histogram_add(&histogram, 1);
    histogram_add(&histogram, 2);
    assert_int_equal(histogram_quantile(&histogram, 50000), 2);
}

static void every_value_is_kept_to_within_one_percent(void **state)
{
    (void)state;
    for (uint64_t value = 1; value < (UINT64_C(1) << HISTOGRAM_BITS); value += value / 7 + 1) {
        histogram = (struct histogram){0};
        histogram_add(&histogram, (int64_t)value);
        histogram_add(&histogram, INT64_MAX); /* so that the maximum does not help */
        uint64_t found = histogram_quantile(&histogram, 50000);
        assert_true(found >= value && found - value <= value / 100);
    }
}

static void values_beyond_the_range_are_not_lost(void **state)
{
    (void)state;
    histogram_add(&histogram, INT64_MAX);
    histogram_add(&histogram, -5);
    assert_int_equal(histogram.count, 2);
    assert_int_equal(histogram_quantile(&histogram, 50000), 0);
    assert_int_equal(histogram_quantile(&histogram, 100000), (UINT64_C(1) << HISTOGRAM_BITS) - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(an_empty_one_answers_zero, empty),
        cmocka_unit_test_setup(small_values_are_exact, empty),
        cmocka_unit_test_setup(of_three_the_median_is_the_second, empty),
        cmocka_unit_test_setup(every_value_is_kept_to_within_one_percent, empty),
        cmocka_unit_test_setup(values_beyond_the_range_are_not_lost, empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
