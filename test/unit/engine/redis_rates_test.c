/* engine/redis/rates.h: rates from totals that others count. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "engine/redis/rates.h"

#define SECOND_US INT64_C(1000000)

static struct rates rates;

static int setup(void **state)
{
    (void)state;
    rates_init(&rates);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    rates_fini(&rates);
    return 0;
}

/* Jobs pushed in ten seconds, as seen at that second when so many were pushed ever. */
static uint32_t look(struct bytes name, uint64_t pushed, int64_t second)
{
    struct topic_view view = {.name = name, .pushed = pushed};
    rates_look(&rates, &view, second * SECOND_US);
    return view.pushed_10s;
}

static void the_first_look_knows_no_rate(void **state)
{
    (void)state;
    assert_int_equal(look(BYTES("t"), 1000, 100), 0);
    assert_int_equal(look(BYTES("u"), 1000, 101), 0);
}

static void what_happened_since_is_shown(void **state)
{
    (void)state;
    look(BYTES("t"), 1000, 100);
    assert_int_equal(look(BYTES("t"), 1010, 105), 20);
    assert_int_equal(look(BYTES("t"), 1010, 100 + 60), 1);      /* 10 in a minute */
    assert_int_equal(look(BYTES("t"), 1010, 100 + 60 + 10), 0); /* none in the last ten seconds */
}

static void frequent_looks_show_the_last_ten_to_twenty_seconds(void **state)
{
    (void)state;
    for (int second = 0; second < 100; second++) {
        uint32_t shown = look(BYTES("t"), (uint64_t)second * 7, second);
        assert_int_equal(shown, second ? 70 : 0);
    }
    for (int second = 100; second < 120; second++)
        look(BYTES("t"), 99 * 7, second);
    assert_int_equal(look(BYTES("t"), 99 * 7, 120), 0);
}

static void a_moment_is_not_taken_for_ten_seconds(void **state)
{
    (void)state;
    look(BYTES("t"), 0, 100);
    assert_int_equal(look(BYTES("t"), 5, 100), 50); /* as if it had been a second */
}

static void a_topic_that_was_made_anew_begins_anew(void **state)
{
    (void)state;
    look(BYTES("t"), 1000, 100);
    assert_int_equal(look(BYTES("t"), 3, 105), 0);
    assert_int_equal(look(BYTES("t"), 4, 110), 2);
}

static void memory_is_bounded(void **state)
{
    char name[16];
    (void)state;
    for (int i = 0; i < 3 * RATES_TOPICS_MAX; i++) {
        int len = snprintf(name, sizeof(name), "%d", i);
        look(bytes_of(name, (size_t)len), 1, 100);
        look(BYTES("kept"), (uint64_t)i, 100);
    }
    assert_int_equal(rates.topics.count, RATES_TOPICS_MAX);
    assert_true(look(BYTES("kept"), 4 * RATES_TOPICS_MAX, 110) > 0);
    assert_int_equal(look(BYTES("0"), 100, 110), 0); /* forgotten */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_first_look_knows_no_rate),
        TEST(what_happened_since_is_shown),
        TEST(frequent_looks_show_the_last_ten_to_twenty_seconds),
        TEST(a_moment_is_not_taken_for_ten_seconds),
        TEST(a_topic_that_was_made_anew_begins_anew),
        TEST(memory_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
