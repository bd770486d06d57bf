/*
 * Reservations of beanstalkd clients, against the dullest correct thing: a table of owners and
 * times.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/beanstalk/reservations.h"
#include "sim/random.h"

enum { MODEL_JOBS = 40, MODEL_HOLDERS = 3 };

static void reservations_are_what_a_plain_table_says(void **state)
{
    struct beanstalk_reservations reservations;
    struct beanstalk_holder held[MODEL_HOLDERS] = {0};
    int owner[MODEL_JOBS];
    int64_t until_us[MODEL_JOBS] = {0};
    struct sim_random random = {.state = 7};
    (void)state;
    beanstalk_reservations_init(&reservations);
    for (int i = 0; i < MODEL_JOBS; i++)
        owner[i] = -1;
    for (int step = 0; step < 20000; step++) {
        unsigned job = (unsigned)sim_random_below(&random, MODEL_JOBS);
        int who = (int)sim_random_below(&random, MODEL_HOLDERS);
        int64_t when_us = 1 + (int64_t)sim_random_below(&random, 1000);
        struct beanstalk_reservation *reservation =
            beanstalk_reservations_find(&reservations, &held[who], job + 1);
        assert_int_equal(reservation != NULL, owner[job] == who);
        switch (sim_random_below(&random, 4)) {
        case 0:
            (void)beanstalk_reservations_add(
                &reservations, &held[who],
                &(struct job_view){.ref.seq = job + 1, .until_us = when_us, .lease = 1});
            owner[job] = who;
            until_us[job] = when_us;
            break;
        case 1:
            if (!reservation)
                break;
            beanstalk_reservations_extend(reservation, when_us);
            until_us[job] = when_us;
            break;
        case 2:
            if (!reservation)
                break;
            beanstalk_reservations_drop(&reservations, reservation);
            owner[job] = -1;
            break;
        default:
            reservation = beanstalk_reservations_soonest(&reservations, &held[who], when_us / 10);
        }
        const struct beanstalk_reservation *first =
            beanstalk_reservations_soonest(&reservations, &held[who], 0);
        for (int i = 0; i < MODEL_JOBS; i++) {
            if (owner[i] == who &&
                !beanstalk_reservations_find(&reservations, &held[who], (uint64_t)i + 1)) {
                assert_true(until_us[i] <= when_us / 10); /* it was over */
                owner[i] = -1;
            }
            assert_true(owner[i] != who || (first && first->until_us <= until_us[i]));
        }
        beanstalk_holder_valid(&held[who]);
    }
    struct discard discard = {0};
    for (int who = 0; who < MODEL_HOLDERS; who++) {
        assert_null(beanstalk_reservations_soonest(&reservations, &held[who], INT64_MAX));
        beanstalk_holder_fini(&held[who], &discard);
    }
    discard_fini(&discard);
    beanstalk_reservations_fini(&reservations);
}

static void what_another_reserved_meanwhile_is_not_put_back(void **state)
{
    struct beanstalk_reservations reservations;
    struct beanstalk_holder ann = {0}, bob = {0};
    struct beanstalk_lease kept = {.seq = 1, .lease = 7, .ttr_us = 5, .until_us = 9}, none = {0};
    struct discard discard = {0};
    (void)state;
    beanstalk_reservations_init(&reservations);
    beanstalk_reservations_put_back(&reservations, &ann, &none);
    assert_int_equal(ann.count, 0);
    beanstalk_reservations_put_back(&reservations, &ann, &kept);
    struct beanstalk_reservation *back = beanstalk_reservations_find(&reservations, &ann, 1);
    assert_true(back && back->lease == 7 && back->ttr_us == 5 && back->until_us == 9 && !back->end);
    struct job_view job = {.ref.seq = 1, .lease = 8, .ttr_us = 5, .until_us = 10};
    (void)beanstalk_reservations_add(&reservations, &bob, &job);
    beanstalk_reservations_put_back(&reservations, &ann, &kept);
    assert_null(beanstalk_reservations_find(&reservations, &ann, 1));
    assert_int_equal(beanstalk_reservations_find(&reservations, &bob, 1)->lease, 8);
    assert_null(beanstalk_reservations_soonest(&reservations, &bob, INT64_MAX));
    beanstalk_holder_fini(&ann, &discard);
    beanstalk_holder_fini(&bob, &discard);
    discard_fini(&discard);
    beanstalk_reservations_fini(&reservations);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_another_reserved_meanwhile_is_not_put_back),
        cmocka_unit_test(reservations_are_what_a_plain_table_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
