/* {topic} and {key} in the names of brokers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sink/fill.h"

static void topic_and_key_are_filled_in_and_other_braces_stay(void **state)
{
    struct delivery delivery = {.topic = BYTES("pay"), .key = BYTES("c9{topic}")};
    char room[32];
    (void)state;
    assert_true(sink_fill(BYTES("a.{topic}.{key}.{x}.{"), &delivery, room, sizeof(room)));
    assert_string_equal(room, "a.pay.c9{topic}.{x}.{"); /* what was filled in is not read again */
    assert_true(sink_fill(BYTES(""), &delivery, room, sizeof(room)));
    assert_string_equal(room, "");
}

static void what_does_not_fit_is_refused_and_not_cut(void **state)
{
    struct delivery delivery = {.topic = BYTES("12345"), .key = BYTES("a\0b")};
    char room[8];
    (void)state;
    assert_true(sink_fill(BYTES("{topic}67"), &delivery, room, sizeof(room)));
    assert_false(sink_fill(BYTES("{topic}678"), &delivery, room, sizeof(room)));
    assert_false(sink_fill(BYTES("{key}"), &delivery, room, sizeof(room)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(topic_and_key_are_filled_in_and_other_braces_stay),
        cmocka_unit_test(what_does_not_fit_is_refused_and_not_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
