/* core/rate.h: counts of whole ten-second windows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/rate.h"

#define SECOND_US INT64_C(1000000)

static void the_window_that_is_over_is_shown(void **state)
{
    (void)state;
    struct rate rate = {0};
    for (int i = 0; i < 25; i++)
        rate_add(&rate, 100 * SECOND_US + i * SECOND_US / 4);
    assert_int_equal(rate_last(&rate, 109 * SECOND_US), 0); /* not over yet */
    assert_int_equal(rate_last(&rate, 110 * SECOND_US), 25);
    assert_int_equal(rate_last(&rate, 119 * SECOND_US), 25);
}

static void silence_is_shown_as_silence(void **state)
{
    (void)state;
    struct rate rate = {0};
    rate_add(&rate, 100 * SECOND_US);
    assert_int_equal(rate_last(&rate, 120 * SECOND_US), 0); /* the window before was empty */
    rate_add(&rate, 500 * SECOND_US);
    assert_int_equal(rate_last(&rate, 505 * SECOND_US), 0);
    assert_int_equal(rate_last(&rate, 510 * SECOND_US), 1);
}

static void looking_changes_nothing(void **state)
{
    (void)state;
    struct rate rate = {0};
    rate_add(&rate, 100 * SECOND_US);
    (void)rate_last(&rate, 900 * SECOND_US);
    assert_int_equal(rate_last(&rate, 110 * SECOND_US), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_window_that_is_over_is_shown),
        cmocka_unit_test(silence_is_shown_as_silence),
        cmocka_unit_test(looking_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
