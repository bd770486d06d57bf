/*
 * The rule by which laterd's clock follows the system's (P10, decision 7): both clocks are
 * arguments here, so years pass at once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "os/clock.h"

#define SECOND_US INT64_C(1000000)
#define HOUR_US   (3600 * SECOND_US)
#define YEAR_US   (365 * 24 * HOUR_US)

enum { LOG_NONE = LOG_ERROR + 1 };

static const int64_t start_us = INT64_C(1800000000) * SECOND_US;

/* A clock that agrees with the wall at start_us, when the steady clock shows nothing. */
static struct os_clock clock_at_start(void)
{
    return (struct os_clock){.last_us = start_us};
}

/* Lets time pass in turns of one length, the wall being `apart_us` off; what the clock shows. */
static int64_t pass(struct os_clock *clock, int64_t span_us, int64_t turn_us, int64_t apart_us)
{
    int64_t end_us = clock->last_steady_us + span_us, last_us = clock->last_us;
    while (clock->last_steady_us < end_us) {
        int64_t steady_us = clock->last_steady_us + turn_us;
        int64_t now_us = os_clock_advance(clock, steady_us, start_us + steady_us + apart_us);
        assert_true(now_us >= last_us); /* it never runs back */
        last_us = now_us;
    }
    return last_us;
}

static void p10_it_follows_a_wall_clock_that_is_not_stepped(void **state)
{
    (void)state;
    struct os_clock clock = clock_at_start();
    assert_true(pass(&clock, HOUR_US, 999, 0) == start_us + clock.last_steady_us);
}

static void p10_a_step_of_more_than_ten_seconds_makes_no_wait_shorter_or_longer(void **state)
{
    (void)state;
    static const int64_t steps_us[] = {10 * SECOND_US + 1, HOUR_US, 24 * HOUR_US, 10 * YEAR_US};
    static const int64_t turns_us[] = {1, 333, SECOND_US, HOUR_US};
    for (size_t i = 0; i < 8; i++) {
        for (size_t j = 0; j < 4; j++) {
            struct os_clock clock = clock_at_start();
            int64_t span_us = turns_us[j] < SECOND_US ? SECOND_US : 3 * HOUR_US;
            int64_t step_us = i % 2 ? steps_us[i / 2] : -steps_us[i / 2];
            int64_t ran_us = pass(&clock, span_us, turns_us[j], step_us) - start_us;
            assert_true(ran_us == clock.last_steady_us);
        }
    }
}

static void p10_a_smaller_step_changes_a_wait_by_a_thousandth_and_by_the_step_at_most(void **state)
{
    (void)state;
    static const int64_t steps_us[] = {300, 300000, SECOND_US, 10 * SECOND_US};
    static const int64_t turns_us[] = {333, SECOND_US, HOUR_US};
    for (size_t i = 0; i < 8; i++) {
        for (size_t j = 0; j < 3; j++) {
            struct os_clock clock = clock_at_start();
            int64_t span_us = turns_us[j] < SECOND_US ? SECOND_US : 3 * HOUR_US;
            int64_t step_us = i % 2 ? steps_us[i / 2] : -steps_us[i / 2];
            int64_t ran_us = pass(&clock, span_us, turns_us[j], step_us) - start_us;
            int64_t change_us = ran_us - clock.last_steady_us;
            if (step_us < 0)
                change_us = -change_us;
            assert_true(change_us >= 0 && change_us <= steps_us[i / 2]);
            assert_true(change_us <= clock.last_steady_us / 1000 + 1);
        }
    }
}

static void p10_a_small_difference_is_made_up(void **state)
{
    (void)state;
    static const int64_t differences_us[] = {300000, -300000};
    for (size_t i = 0; i < 2; i++) {
        struct os_clock clock = clock_at_start();
        int64_t now_us = pass(&clock, 301 * SECOND_US, 7000, differences_us[i]);
        assert_true(now_us == start_us + clock.last_steady_us + differences_us[i]);
    }
}

/* How often the word is in what was logged. */
static unsigned logged(FILE *log, const char *word)
{
    char line[1024];
    unsigned count = 0;
    rewind(log);
    while (fgets(line, sizeof(line), log))
        count += strstr(line, word) != NULL;
    return count;
}

static void p10_a_step_is_told_once_and_so_is_its_end(void **state)
{
    (void)state;
    struct os_clock clock = clock_at_start();
    FILE *log = tmpfile();
    int kept = dup(STDERR_FILENO);
    assert_true(log && kept >= 0 && dup2(fileno(log), STDERR_FILENO) == STDERR_FILENO);
    log_level_set(LOG_INFO);
    (void)pass(&clock, SECOND_US, 1000, 0);
    (void)pass(&clock, 500 * SECOND_US, 1000, 2 * SECOND_US);
    (void)pass(&clock, 500 * SECOND_US, 400 * SECOND_US, 2 * SECOND_US); /* few, long sleeps */
    (void)pass(&clock, SECOND_US, 1000, -SECOND_US);
    (void)pass(&clock, 3000 * SECOND_US, 1000, -SECOND_US);
    log_level_set((enum log_level)LOG_NONE);
    assert_true(dup2(kept, STDERR_FILENO) == STDERR_FILENO && close(kept) == 0);
    assert_int_equal(logged(log, "clock_stepped"), 2);
    assert_int_equal(logged(log, "clock_agrees"), 1);
    (void)fclose(log); /* it was only read */
}

static void a_reading_of_the_same_instant_changes_nothing(void **state)
{
    (void)state;
    struct os_clock clock = clock_at_start();
    int64_t now_us = pass(&clock, SECOND_US, 1000, 0);
    assert_true(os_clock_advance(&clock, clock.last_steady_us, start_us + YEAR_US) == now_us);
    assert_true(os_clock_advance(&clock, clock.last_steady_us - 5, start_us) == now_us);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(p10_it_follows_a_wall_clock_that_is_not_stepped),
        cmocka_unit_test(p10_a_step_of_more_than_ten_seconds_makes_no_wait_shorter_or_longer),
        cmocka_unit_test(p10_a_smaller_step_changes_a_wait_by_a_thousandth_and_by_the_step_at_most),
        cmocka_unit_test(p10_a_small_difference_is_made_up),
        cmocka_unit_test(p10_a_step_is_told_once_and_so_is_its_end),
        cmocka_unit_test(a_reading_of_the_same_instant_changes_nothing),
    };
    log_level_set((enum log_level)LOG_NONE); /* stepped clocks are not news here */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
