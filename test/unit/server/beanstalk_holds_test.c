/*
 * Holds of beanstalkd clients, against the dullest correct thing: a table of owners and times.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/beanstalk/reservations.h"
#include "sim/random.h"

enum { MODEL_JOBS = 40, MODEL_HOLDERS = 3 };

static void holds_are_what_a_plain_table_says(void **state)
{
    struct beanstalk_holds holds;
    struct beanstalk_held held[MODEL_HOLDERS] = {0};
    int owner[MODEL_JOBS];
    int64_t until_us[MODEL_JOBS] = {0};
    struct sim_random random = {.state = 7};
    (void)state;
    beanstalk_holds_init(&holds);
    for (int i = 0; i < MODEL_JOBS; i++)
        owner[i] = -1;
    for (int step = 0; step < 20000; step++) {
        unsigned job = (unsigned)sim_random_below(&random, MODEL_JOBS);
        int who = (int)sim_random_below(&random, MODEL_HOLDERS);
        int64_t when_us = 1 + (int64_t)sim_random_below(&random, 1000);
        struct beanstalk_hold *hold = beanstalk_holds_find(&holds, &held[who], job + 1);
        assert_int_equal(hold != NULL, owner[job] == who);
        switch (sim_random_below(&random, 4)) {
        case 0:
            (void)beanstalk_holds_add(
                &holds, &held[who],
                &(struct job_view){.ref.seq = job + 1, .until_us = when_us, .lease = 1});
            owner[job] = who;
            until_us[job] = when_us;
            break;
        case 1:
            if (!hold)
                break;
            beanstalk_holds_extend(hold, when_us);
            until_us[job] = when_us;
            break;
        case 2:
            if (!hold)
                break;
            beanstalk_holds_drop(&holds, hold);
            owner[job] = -1;
            break;
        default: hold = beanstalk_holds_soonest(&holds, &held[who], when_us / 10);
        }
        const struct beanstalk_hold *first = beanstalk_holds_soonest(&holds, &held[who], 0);
        for (int i = 0; i < MODEL_JOBS; i++) {
            if (owner[i] == who && !beanstalk_holds_find(&holds, &held[who], (uint64_t)i + 1)) {
                assert_true(until_us[i] <= when_us / 10); /* it was over */
                owner[i] = -1;
            }
            assert_true(owner[i] != who || (first && first->until_us <= until_us[i]));
        }
        beanstalk_held_valid(&held[who]);
    }
    for (int who = 0; who < MODEL_HOLDERS; who++) {
        assert_null(beanstalk_holds_soonest(&holds, &held[who], INT64_MAX));
        beanstalk_held_fini(&held[who]);
    }
    beanstalk_holds_fini(&holds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(holds_are_what_a_plain_table_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
