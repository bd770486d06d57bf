/* base/timers: exact times, re-arming, cancelling, and against the dullest correct thing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/list.h"
#include "base/timers.h"
#include "port/loop.h"
#include "sim/random.h"

enum { COUNT = 500, STEPS = 20000 };

struct alarm_clock {
    struct timer timer;
    struct timers *timers;
    unsigned rang;
    int64_t again_us; /* armed again for so much later when it expires; 0: not */
    int64_t want_us;  /* the model: INT64_MAX = not armed */
};

static void ring(struct timer *timer)
{
    struct alarm_clock *alarm = LIST_ENTRY(timer, struct alarm_clock, timer);
    alarm->rang++;
    alarm->want_us = INT64_MAX;
    if (alarm->again_us)
        timer_arm(alarm->timers, timer, timer->at_us + alarm->again_us);
}

static unsigned expire(struct timers *timers, int64_t now_us)
{
    uint32_t budget = 1000000;
    unsigned count = 0;
    while (timers_expire(timers, now_us, &budget))
        count++;
    assert_true(budget > 0);
    return count;
}

static void a_timer_expires_once_at_its_microsecond(void **state)
{
    (void)state;
    struct timers timers;
    struct alarm_clock alarm = {.timer.expired = ring};
    timers_init(&timers, 1000);
    timer_arm(&timers, &alarm.timer, 5000);
    assert_true(timer_is_armed(&alarm.timer));
    assert_int_equal(timers_next_us(&timers), 5000);
    assert_int_equal(expire(&timers, 4999), 0);
    assert_int_equal(expire(&timers, 5000), 1);
    assert_false(timer_is_armed(&alarm.timer));
    assert_int_equal(expire(&timers, 9999), 0);
    assert_int_equal(alarm.rang, 1);
    assert_true(timers_next_us(&timers) == INT64_MAX);
    timers_fini(&timers);
}

static void arming_again_takes_the_place_of_the_earlier_time(void **state)
{
    (void)state;
    struct timers timers;
    struct alarm_clock alarm = {.timer.expired = ring};
    timers_init(&timers, 0);
    timer_arm(&timers, &alarm.timer, 100);
    timer_arm(&timers, &alarm.timer, 900);
    assert_int_equal(expire(&timers, 899), 0);
    timer_arm_by(&timers, &alarm.timer, 2000); /* it is sooner already */
    assert_int_equal(expire(&timers, 900), 1);
    timer_arm_by(&timers, &alarm.timer, 2000);
    timer_arm_by(&timers, &alarm.timer, 1500);
    assert_int_equal(expire(&timers, 1500), 1);
    timer_arm(&timers, &alarm.timer, 3000);
    timer_arm(&timers, &alarm.timer, INT64_MAX);
    assert_false(timer_is_armed(&alarm.timer));
    timer_cancel(&timers, &alarm.timer); /* of one that is not armed does nothing */
    assert_int_equal(expire(&timers, 9000), 0);
    timers_fini(&timers);
}

static void one_that_is_due_already_expires_at_the_next_call(void **state)
{
    (void)state;
    struct timers timers;
    struct alarm_clock alarm = {.timer.expired = ring};
    timers_init(&timers, 1000);
    timer_arm(&timers, &alarm.timer, 10);
    assert_true(timers_next_us(&timers) <= 1000);
    assert_int_equal(expire(&timers, 1000), 1);
    timers_fini(&timers);
}

static void a_callback_may_arm_it_again(void **state)
{
    (void)state;
    struct timers timers;
    struct alarm_clock alarm = {.timer.expired = ring, .timers = &timers, .again_us = 10};
    timers_init(&timers, 0);
    timer_arm(&timers, &alarm.timer, 10);
    for (int64_t now_us = 1; now_us <= 100; now_us++)
        (void)expire(&timers, now_us);
    assert_int_equal(alarm.rang, 10);
    timers_fini(&timers);
}

static void random_timers_do_as_the_model_says(void **state)
{
    (void)state;
    static struct alarm_clock alarms[COUNT];
    struct sim_random random = {.state = 7};
    struct timers timers;
    int64_t now_us = 0;
    timers_init(&timers, 0);
    for (int i = 0; i < COUNT; i++)
        alarms[i] = (struct alarm_clock){.timer.expired = ring, .want_us = INT64_MAX};
    for (int step = 0; step < STEPS; step++) {
        struct alarm_clock *alarm = &alarms[sim_random_below(&random, COUNT)];
        switch (sim_random_below(&random, 4)) {
        case 0:
            timer_cancel(&timers, &alarm->timer);
            alarm->want_us = INT64_MAX;
            break;
        case 1: now_us += (int64_t)sim_random_below(&random, 3000); break;
        default:
            alarm->want_us = now_us + (int64_t)sim_random_below(&random, 100000);
            timer_arm(&timers, &alarm->timer, alarm->want_us);
        }
        unsigned due = 0;
        int64_t first_us = INT64_MAX;
        for (int i = 0; i < COUNT; i++) {
            due += alarms[i].want_us <= now_us;
            if (alarms[i].want_us < first_us)
                first_us = alarms[i].want_us;
        }
        assert_true(timers_next_us(&timers) <= first_us);
        assert_int_equal(expire(&timers, now_us), due);
        for (int i = 0; i < COUNT; i++)
            assert_int_equal(alarms[i].want_us != INT64_MAX, timer_is_armed(&alarms[i].timer));
    }
    timers_fini(&timers);
}

static bool always_spent(const struct loop_share *share)
{
    (void)share;
    return true;
}

/* Else a turn that has used its share up would be followed by one for nothing. */
static void a_spent_share_asks_for_a_turn_only_if_a_timer_is_due(void **state)
{
    (void)state;
    struct loop loop = {.now_us = 1000};
    struct loop_share share = {.spent = always_spent};
    struct alarm_clock alarm = {.timer.expired = ring};
    timers_init(&loop.timers, 1000);
    assert_false(loop_expire(&loop, &share));
    loop_arm(&loop, &alarm.timer, 5000);
    assert_false(loop_expire(&loop, &share));
    loop.now_us = 5000;
    assert_true(loop_expire(&loop, &share));
    assert_int_equal(alarm.rang, 0);
    assert_false(loop_expire(&loop, NULL));
    assert_int_equal(alarm.rang, 1);
    timers_fini(&loop.timers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_timer_expires_once_at_its_microsecond),
        cmocka_unit_test(arming_again_takes_the_place_of_the_earlier_time),
        cmocka_unit_test(one_that_is_due_already_expires_at_the_next_call),
        cmocka_unit_test(a_callback_may_arm_it_again),
        cmocka_unit_test(random_timers_do_as_the_model_says),
        cmocka_unit_test(a_spent_share_asks_for_a_turn_only_if_a_timer_is_due),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
