/* Words that are near each other, and words that are not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/typo.h"

static void a_typing_mistake_is_near_the_word_that_was_meant(void **state)
{
    char longer[TYPO_WORD_MAX + 2];
    (void)state;
    assert_int_equal(typo_distance("push", "push"), 0);
    assert_int_equal(typo_distance("psuh", "push"), 1); /* neighbours exchanged */
    assert_int_equal(typo_distance("pus", "push"), 1);
    assert_int_equal(typo_distance("", "push"), 4);
    assert_int_equal(typo_distance("reshcedul", "reschedule"), 2);
    assert_true(typo_is("psuh", "push"));
    assert_true(typo_is("reshcedul", "reschedule"));
    assert_false(typo_is("nope", "pop")); /* short words are all near each other */
    assert_false(typo_is("nosuch", "touch"));
    memset(longer, 'a', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    assert_int_equal(typo_distance(longer, longer), TYPO_WORD_MAX);
    assert_false(typo_is(longer, longer));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_typing_mistake_is_near_the_word_that_was_meant),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
