/*
 * What is planned for a turn: with all that the store's cleaner may take of it, it stays below what
 * no turn may take (decision 102).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/server.h"

enum { TURN_NS = 3000000, ALL_SHARES = 135, PLANNED_NS = TURN_NS / 100 * ALL_SHARES };

static void a_turn_is_planned_with_what_the_cleaner_takes(void **state)
{
    (void)state;
    assert_int_equal(turn_plan_ns(TURN_NS, 0), TURN_NS);
    for (int64_t excluded_next_ns = 0; excluded_next_ns <= 2000000; excluded_next_ns += 10000) {
        int64_t plan_ns = turn_plan_ns(TURN_NS, excluded_next_ns);
        assert_in_range(plan_ns * ALL_SHARES / 100 + excluded_next_ns, PLANNED_NS - ALL_SHARES,
                        PLANNED_NS + ALL_SHARES);
    }
    assert_true(turn_plan_ns(TURN_NS, 100 * TURN_NS) > 0); /* each stage does some work */
    assert_true(turn_plan_ns(4000, 2000000) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_turn_is_planned_with_what_the_cleaner_takes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
