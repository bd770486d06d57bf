/* Words that are near each other, and words that are not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/typo.h"

static bool is_typo(const char *word, const char *known)
{
    struct typo typo;
    typo_begin(&typo, word, strlen(word));
    typo_add(&typo, known);
    return typo.meant == known;
}

static void a_typing_mistake_is_near_the_word_that_was_meant(void **state)
{
    char longer[TYPO_WORD_MAX + 2];
    (void)state;
    assert_int_equal(typo_distance("push", "push"), 0);
    assert_int_equal(typo_distance("psuh", "push"), 1); /* neighbours exchanged */
    assert_int_equal(typo_distance("pus", "push"), 1);
    assert_int_equal(typo_distance("", "push"), 4);
    assert_int_equal(typo_distance("reshcedul", "reschedule"), 2);
    assert_int_equal(typo_distance("bizKey", "biz_key"), 1);
    assert_int_equal(typo_distance("DELYA", "delay"), 1);
    assert_int_equal(typo_distance("a@", "a`"), 1); /* only letters have a case */
    assert_true(is_typo("ID", "id"));
    assert_true(is_typo("psuh", "push"));
    assert_true(is_typo("reshcedul", "reschedule"));
    assert_false(is_typo("nope", "pop")); /* short words are all near each other */
    assert_false(is_typo("nosuch", "touch"));
    memset(longer, 'a', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    assert_int_equal(typo_distance(longer, longer), TYPO_WORD_MAX);
    assert_false(is_typo(longer, longer));
}

static const char *meant(const char *word)
{
    static const char *const known[] = {"key", "key_rate", "concurrency", "key_concurrency", "tag"};
    struct typo typo;
    typo_begin(&typo, word, strlen(word));
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        typo_add(&typo, known[i]);
    return typo.meant;
}

static void the_nearest_word_is_meant_and_of_equally_near_ones_the_first(void **state)
{
    static const char *const words[] = {"ttr_seconds", "ttl_seconds"};
    struct typo typo;
    (void)state;
    typo_begin(&typo, "ttl_second=5", strlen("ttl_second"));
    assert_string_equal(meant("kez_rate"), "key_rate");
    assert_string_equal(meant("kay"), "key");
    assert_null(meant("nothing"));
    for (size_t i = 0; i < 2; i++)
        typo_add(&typo, words[i]); /* both are near, the second one is nearer */
    assert_string_equal(typo.meant, "ttl_seconds");
    typo_begin(&typo, "tam", 3);
    typo_add(&typo, "tag");
    typo_add(&typo, "tar");
    assert_string_equal(typo.meant, "tag");
    char longer[TYPO_WORD_MAX + 1] = "";
    memset(longer, 'a', TYPO_WORD_MAX);
    assert_null(meant(longer));
    typo_begin(&typo, longer, TYPO_WORD_MAX);
    typo_add(&typo, "a"); /* near an empty word */
    typo_add(&typo, longer);
    assert_null(typo.meant);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_typing_mistake_is_near_the_word_that_was_meant),
        cmocka_unit_test(the_nearest_word_is_meant_and_of_equally_near_ones_the_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
