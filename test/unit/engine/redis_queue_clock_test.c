/*
 * What a daemon believes of the queue's clock: bounds of requests, what answers tell, and who sets
 * it right after a leap.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/redis/queue_clock.h"
#include "engine/redis/script_parts.h"

enum { MS = 1000, SECOND_US = 1000 * MS };
static const int64_t NOW_US = INT64_C(1700000000) * SECOND_US;
static const int64_t HOUR_US = INT64_C(3600) * SECOND_US;

/* A look at the clock at `now_us`, 2 ms there and back, when it was so far ahead of ours. */
static int64_t set_us; /* what it showed when it was set last */

static enum queue_clock_verdict look(struct queue_clock *clock, int64_t now_us, int64_t ahead_us,
                                     uint64_t set_count, int64_t *out_by_us)
{
    return queue_clock_read(
        clock,
        &(struct queue_clock_reading){
            .clock = {.queue_us = now_us + ahead_us, .set_count = set_count, .set_us = set_us},
            .sent_us = now_us - MS,
            .read_us = now_us + MS},
        out_by_us);
}

static struct queue_clock known_clock(void)
{
    struct queue_clock clock = {.known = false};
    int64_t by_us;
    set_us = 0;
    assert_int_equal(look(&clock, NOW_US, 0, 3, &by_us), CLOCK_ADOPTED);
    clock.adopted_us -= 10 * SECOND_US;
    assert_int_equal(clock.least_us, -MS);
    assert_int_equal(clock.most_us, MS);
    return clock;
}

static void a_clock_that_is_not_known_has_no_bounds(void **state)
{
    struct queue_clock clock = {.known = false};
    struct script_call call = {.queue_us = 1};
    (void)state;
    queue_clock_bound(&clock, NOW_US, &call);
    assert_int_equal(call.least_us, 0);
    assert_int_equal(call.most_us, SCRIPT_FOREVER);
    assert_int_equal(call.queue_us, 0);
    assert_int_equal(queue_clock_compare(&clock, &call, NOW_US, NOW_US, NOW_US), CLOCK_AGREES);
}

/* The bounds are of Redis' own clock, and a few milliseconds wider than what is believed. */
static void p3_a_request_says_what_the_clock_can_show(void **state)
{
    struct queue_clock clock = known_clock();
    struct script_call call = {.queue_us = 0};
    (void)state;
    clock.shift_us = -HOUR_US; /* Redis shows an hour more than the queue's time */
    queue_clock_bound(&clock, NOW_US + MS, &call);
    assert_int_equal(call.least_us, NOW_US + HOUR_US - 10 * MS);
    assert_int_equal(call.most_us, NOW_US + HOUR_US + 12 * MS);
    assert_int_equal(call.queue_us, NOW_US - 10 * MS);
}

static void p3_an_answer_at_a_bound_means_that_the_clock_has_leapt(void **state)
{
    struct queue_clock clock = known_clock();
    struct script_call call = {.queue_us = 0};
    int64_t sent_us = NOW_US + SECOND_US, read_us = sent_us + MS;
    (void)state;
    queue_clock_bound(&clock, sent_us, &call);
    int64_t top_us = call.queue_us + (call.most_us - call.least_us);
    assert_int_equal(queue_clock_compare(&clock, &call, sent_us, sent_us, read_us), CLOCK_AGREES);
    assert_int_equal(queue_clock_compare(&clock, &call, call.queue_us, sent_us, read_us),
                     CLOCK_LEAPT);
    assert_int_equal(queue_clock_compare(&clock, &call, top_us, sent_us, read_us), CLOCK_LEAPT);
    /* Or it was long on its way. */
    assert_int_equal(queue_clock_compare(&clock, &call, top_us, sent_us, sent_us + 100 * MS),
                     CLOCK_DRIFTS);
}

static void answers_make_it_more_exact(void **state)
{
    struct queue_clock clock = known_clock();
    struct script_call call = {.queue_us = 0};
    int64_t sent_us = NOW_US + SECOND_US;
    (void)state;
    queue_clock_bound(&clock, sent_us, &call);
    assert_int_equal(queue_clock_compare(&clock, &call, sent_us + 100, sent_us, sent_us + MS),
                     CLOCK_AGREES);
    assert_int_equal(clock.most_us, 100);
    assert_int_equal(clock.least_us, -MS); /* a turn's time may be older than the answer */
}

/* Slow drift is taken over; what is sudden is a leap, and is set right. */
static void p3_a_leap_is_set_right_and_drift_is_taken_over(void **state)
{
    struct queue_clock clock = known_clock();
    int64_t by_us, now_us = NOW_US;
    (void)state;
    for (int i = 0; i < 1000; i++) {
        now_us += 10 * SECOND_US;
        assert_int_equal(look(&clock, now_us, (int64_t)(i + 1) * MS, 3, &by_us), CLOCK_KEPT);
    }
    assert_int_equal(clock.least_us, 999 * MS);
    now_us += SECOND_US;
    assert_int_equal(look(&clock, now_us, SECOND_US + HOUR_US, 3, &by_us), CLOCK_TO_SET);
    assert_in_range(-by_us, HOUR_US - 5 * MS, HOUR_US + 5 * MS);
    int64_t ahead_us = SECOND_US + HOUR_US + by_us; /* from now on: a little late, never early */
    assert_in_range(ahead_us, 997 * MS, 999 * MS);
    assert_int_equal(look(&clock, now_us, ahead_us, 4, &by_us), CLOCK_KEPT);
    assert_true(clock.most_us <= 999 * MS);
    assert_int_equal(clock.set_count, 4);
    assert_int_equal(look(&clock, now_us, SECOND_US - HOUR_US, 4, &by_us), CLOCK_TO_SET);
    assert_in_range(by_us, HOUR_US - 5 * MS, HOUR_US + 5 * MS);
}

/* Requests to set it come too late for their bounds, again and again: it is no later for that. */
static void p3_a_clock_that_could_not_be_set_for_long_is_set_to_the_right_time(void **state)
{
    struct queue_clock clock = known_clock();
    int64_t by_us = 0, now_us = NOW_US + SECOND_US;
    (void)state;
    for (int i = 0; i < 100; i++, now_us += 20 * MS)
        assert_int_equal(look(&clock, now_us, HOUR_US, 3, &by_us), CLOCK_TO_SET);
    assert_in_range(-by_us, HOUR_US - 5 * MS, HOUR_US + 5 * MS);
    assert_int_equal(look(&clock, now_us, HOUR_US + by_us, 4, &by_us), CLOCK_KEPT);
    assert_in_range(-clock.least_us, 0, 5 * MS);
}

/* It was not set, but an answer was as if it had been, and clients were told times by that: it is
   set to that. */
static void p4_a_clock_that_was_taken_for_set_stays_so(void **state)
{
    struct queue_clock clock = known_clock();
    struct script_call call = {.queue_us = 0};
    int64_t by_us, now_us = NOW_US + SECOND_US;
    (void)state;
    assert_int_equal(look(&clock, now_us, HOUR_US, 3, &by_us), CLOCK_TO_SET);
    assert_int_equal(clock.most_us, -MS);
    queue_clock_bound(&clock, now_us, &call);
    assert_int_equal(queue_clock_compare(&clock, &call, now_us - MS, now_us, now_us), CLOCK_AGREES);
    assert_int_equal(look(&clock, now_us, HOUR_US, 3, &by_us), CLOCK_TO_SET);
    assert_int_equal(clock.most_us, -3 * MS);
}

/* As if it had been read by a request that took so long there, and so long back. */
static enum queue_clock_verdict look_slowly(struct queue_clock *clock, int64_t ahead_us,
                                            int64_t there_us, int64_t back_us, int64_t *out_by_us)
{
    int64_t at_us = NOW_US + SECOND_US;
    return queue_clock_read(
        clock,
        &(struct queue_clock_reading){.clock = {.queue_us = at_us + ahead_us, .set_count = 3},
                                      .sent_us = at_us - there_us,
                                      .read_us = at_us + back_us},
        out_by_us);
}

/* What was known of it stays known. */
static void p3_a_slow_answer_tells_no_more_than_the_drift(void **state)
{
    struct queue_clock clock = known_clock();
    int64_t by_us;
    (void)state;
    assert_int_equal(look_slowly(&clock, 5 * MS, SECOND_US / 2, MS, &by_us), CLOCK_KEPT);
    assert_int_equal(clock.least_us, 4 * MS);
    assert_in_range(clock.most_us, 11 * MS, 13 * MS);
    clock = known_clock();
    assert_int_equal(look_slowly(&clock, -5 * MS, MS, SECOND_US / 2, &by_us), CLOCK_KEPT);
    assert_in_range(-clock.least_us, 11 * MS, 13 * MS);
    assert_int_equal(clock.most_us, -4 * MS);
}

/* Our clock approaches the system's, which was set, by 1/1000 (os/clock.c), while we hear nothing
   of the partition. */
static void p3_a_clock_that_approaches_a_step_is_no_leap(void **state)
{
    (void)state;
    for (int quarters = 1; quarters < 6; quarters++) {
        struct queue_clock clock = known_clock();
        int64_t by_us, passed_us = (int64_t)quarters * 15 * SECOND_US;
        assert_int_equal(look(&clock, NOW_US + passed_us, -passed_us / 1000, 3, &by_us),
                         CLOCK_KEPT);
        clock = known_clock();
        assert_int_equal(look(&clock, NOW_US + passed_us, passed_us / 1000, 3, &by_us), CLOCK_KEPT);
    }
}

/* Else it would be late by so much until another daemon sets it ahead again. */
static void p4_a_clock_is_not_set_by_an_answer_that_was_slow(void **state)
{
    struct queue_clock clock = known_clock();
    int64_t by_us;
    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(look_slowly(&clock, HOUR_US, SECOND_US / 2, MS, &by_us), CLOCK_TO_READ);
    assert_int_equal(clock.most_us, MS);
    assert_int_equal(look(&clock, NOW_US + SECOND_US, HOUR_US, 3, &by_us), CLOCK_TO_SET);
    assert_in_range(-by_us, HOUR_US - 5 * MS, HOUR_US + 5 * MS);
}

/* Redis is slow now: it is set all the same. */
static void a_clock_is_set_though_all_answers_are_slow(void **state)
{
    struct queue_clock clock = known_clock();
    int64_t by_us;
    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(look_slowly(&clock, HOUR_US, 50 * MS, 50 * MS, &by_us), CLOCK_TO_READ);
    assert_int_equal(look_slowly(&clock, HOUR_US, 50 * MS, 50 * MS, &by_us), CLOCK_TO_SET);
    assert_int_equal(-by_us, HOUR_US + 51 * MS);
    /* Answers that are as slow as all before tell no less than these. */
    clock = known_clock();
    clock.most_us = 100 * MS;
    assert_int_equal(look_slowly(&clock, HOUR_US, 50 * MS, 50 * MS, &by_us), CLOCK_TO_SET);
}

/* The fastest one tells the most. Of those before it has leapt once more, none counts. */
static void p4_a_clock_is_set_by_the_fastest_of_slow_answers(void **state)
{
    static const int64_t slow_us[] = {50 * MS, 400 * MS, 300 * MS, 450 * MS};
    (void)state;
    for (unsigned leaps = 1; leaps <= 2; leaps++) {
        struct queue_clock clock = known_clock();
        enum queue_clock_verdict verdict = CLOCK_TO_READ;
        int64_t by_us, late_us = leaps == 1 ? 50 * MS : 300 * MS;
        for (unsigned i = 0; i < 4; i++) {
            assert_int_equal(verdict, CLOCK_TO_READ);
            verdict =
                look_slowly(&clock, i ? leaps * HOUR_US : HOUR_US, slow_us[i], slow_us[i], &by_us);
        }
        assert_int_equal(verdict, CLOCK_TO_SET);
        assert_in_range(-by_us, leaps * HOUR_US + late_us + MS, leaps * HOUR_US + late_us + 3 * MS);
        assert_int_equal(clock.most_us, -MS);
        assert_in_range(-clock.least_us, 2 * late_us, 2 * late_us + 5 * MS);
    }
}

/* Our clock stood still, for no clock runs ahead. */
static void p3_who_set_it_to_what_is_ahead_of_ours_is_believed(void **state)
{
    struct queue_clock clock = known_clock();
    int64_t by_us, now_us = NOW_US + SECOND_US;
    (void)state;
    set_us = now_us + 3 * SECOND_US;
    assert_int_equal(look(&clock, now_us, 4 * SECOND_US, 4, &by_us), CLOCK_ADOPTED);
    assert_int_equal(clock.least_us, 4 * SECOND_US - MS);
    assert_int_equal(by_us, 4 * SECOND_US);
}

/* We have set the clock back by 70 ms, and another has undone that; `leapt_us` it has leapt since.
 */
static enum queue_clock_verdict look_at_undone(int64_t leapt_us, int64_t later_us)
{
    struct queue_clock clock = known_clock();
    int64_t by_us, now_us = NOW_US + SECOND_US;
    set_us = 0;
    assert_int_equal(look(&clock, now_us, 70 * MS, 3, &by_us), CLOCK_TO_SET);
    assert_in_range(-by_us, 69 * MS, 74 * MS);
    now_us += later_us;
    struct queue_clock_reading undone = {.clock = {.queue_us = now_us + 66 * MS + leapt_us,
                                                   .shift_us = -4 * MS, /* by -74 and +70 */
                                                   .set_count = 5,
                                                   .set_us = now_us - 30 * MS},
                                         .sent_us = now_us - 20 * MS,
                                         .read_us = now_us + 20 * MS};
    return queue_clock_read(&clock, &undone, &by_us);
}

/* Ours stood still for less than `set_us` can show. Else both would set it in turn, each time
 * later. */
static void a_clock_that_was_set_back_and_ahead_again_is_believed(void **state)
{
    (void)state;
    assert_int_equal(look_at_undone(0, 100 * MS), CLOCK_ADOPTED);
    assert_int_equal(look_at_undone(200 * MS, 100 * MS), CLOCK_TO_READ); /* Redis' own has leapt */
    assert_int_equal(look_at_undone(0, 4 * SECOND_US), CLOCK_TO_READ);
}

/* We have missed that another daemon has set it, and set it back when it leaps. An answer from
 * before that has a higher count than we knew, but nobody has undone what we set. Whoever believed
 * it would end leases early. */
static void p4_an_answer_from_before_it_was_set_back_does_not_overrule_that(void **state)
{
    struct queue_clock clock = known_clock();
    int64_t by_us, now_us = NOW_US + 300 * MS;
    (void)state;
    set_us = NOW_US - 100 * MS;
    assert_int_equal(look(&clock, now_us, 1230 * MS, 4, &by_us), CLOCK_TO_SET);
    assert_int_equal(look(&clock, now_us + MS, 1230 * MS, 4, &by_us), CLOCK_TO_SET);
    assert_in_range(-by_us, 1228 * MS, 1233 * MS);
}

/* We were 296 ms behind, another daemon has corrected that, and then the clock has leapt: what it
   shows is more than the other can have set it to. Whoever believed it would end leases early. */
static void p4_a_clock_that_leaps_after_it_was_set_to_what_is_ahead_is_set_again(void **state)
{
    struct queue_clock clock = known_clock();
    int64_t by_us, now_us = NOW_US + 300 * MS;
    (void)state;
    set_us = NOW_US + 200 * MS + 296 * MS;
    assert_int_equal(look(&clock, now_us, 1721 * MS, 4, &by_us), CLOCK_TO_SET);
    assert_in_range(-by_us, 1719 * MS, 1724 * MS);
    clock = known_clock();
    set_us = NOW_US + 200 * MS + 296 * MS;
    assert_int_equal(look(&clock, now_us, 296 * MS, 4, &by_us), CLOCK_ADOPTED);
}

/* The same of one that may have stood still since: the others have some seconds to set it. */
static void p4_one_that_stood_still_waits_for_who_sets_a_clock_that_leapt_after_it_was_set(
    void **state)
{
    struct queue_clock clock = known_clock();
    int64_t by_us, now_us = NOW_US + 300 * MS;
    (void)state;
    clock.may_have_stood_still = true;
    set_us = NOW_US + 200 * MS + 10 * SECOND_US;
    assert_int_equal(look(&clock, now_us, HOUR_US, 4, &by_us), CLOCK_KEPT);
    set_us += SECOND_US;
    assert_int_equal(look(&clock, now_us + SECOND_US, 10 * SECOND_US, 5, &by_us), CLOCK_ADOPTED);
    assert_int_equal(clock.least_us, 10 * SECOND_US - MS);
}

/* Another has set it when it had leapt, as we would have, and then it has leapt back. */
static void p3_a_clock_that_leaps_back_after_it_was_set_is_set_again(void **state)
{
    struct queue_clock clock = known_clock();
    int64_t by_us, now_us = NOW_US + SECOND_US;
    (void)state;
    set_us = now_us - SECOND_US / 2;
    assert_int_equal(look(&clock, now_us, -HOUR_US, 4, &by_us), CLOCK_TO_SET);
    assert_in_range(by_us, HOUR_US - 5 * MS, HOUR_US + 5 * MS);
}

/* It may have read a clock that had leapt. */
static void p3_a_daemon_that_has_just_come_believes_who_sets_the_clock(void **state)
{
    struct queue_clock clock = known_clock();
    int64_t by_us, now_us = NOW_US + SECOND_US;
    (void)state;
    clock.adopted_us = NOW_US;
    set_us = now_us - HOUR_US;
    assert_int_equal(look(&clock, now_us, -HOUR_US, 3, &by_us), CLOCK_KEPT);
    assert_int_equal(look(&clock, now_us, -HOUR_US, 4, &by_us), CLOCK_ADOPTED);
}

/* … but not its own request, that has created the partition by a clock that had leapt. */
static void p3_a_daemon_that_has_just_come_does_not_believe_the_clock_that_it_has_created(
    void **state)
{
    struct queue_clock clock = known_clock();
    int64_t by_us, created_us = NOW_US + SECOND_US;
    (void)state;
    clock.adopted_us = NOW_US;
    set_us = created_us - SECOND_US / 2;
    struct queue_clock_reading reading = {
        .clock = {.queue_us = created_us + SECOND_US / 2, .set_count = 4, .set_us = set_us},
        .created = true,
        .sent_us = created_us - MS,
        .read_us = created_us + MS};
    assert_int_equal(queue_clock_read(&clock, &reading, &by_us), CLOCK_KEPT);
    assert_int_equal(look(&clock, created_us + 20 * MS, SECOND_US / 2, 4, &by_us), CLOCK_KEPT);
    assert_int_equal(clock.most_us, MS);
    assert_int_equal(look(&clock, NOW_US + 2100 * MS, SECOND_US / 2, 4, &by_us), CLOCK_TO_SET);
    assert_in_range(-by_us, SECOND_US / 2 - 5 * MS, SECOND_US / 2 + 5 * MS);
}

/* Redis came back from a save, or a replica took over that was behind. */
static void p3_a_clock_from_before_it_was_set_is_set_again(void **state)
{
    struct queue_clock clock = known_clock();
    int64_t by_us;
    (void)state;
    assert_int_equal(look(&clock, NOW_US + SECOND_US, HOUR_US, 2, &by_us), CLOCK_TO_SET);
    clock.may_have_stood_still = true;
    assert_int_equal(look(&clock, NOW_US + SECOND_US, HOUR_US, 2, &by_us), CLOCK_TO_SET);
}

/* It was stopped for an hour, its clock with it, perhaps: others have had the time to set it. */
static void p3_a_daemon_that_others_took_for_dead_believes_them_after_a_while(void **state)
{
    struct queue_clock clock = known_clock();
    int64_t by_us, now_us = NOW_US + SECOND_US;
    (void)state;
    clock.may_have_stood_still = true;
    assert_int_equal(look(&clock, now_us, HOUR_US, 3, &by_us), CLOCK_KEPT);
    assert_int_equal(clock.most_us, MS);
    assert_int_equal(look(&clock, now_us + 2900 * MS, HOUR_US, 3, &by_us), CLOCK_KEPT);
    assert_int_equal(look(&clock, now_us + 3100 * MS, HOUR_US, 3, &by_us), CLOCK_ADOPTED);
    assert_int_equal(clock.least_us, HOUR_US - MS);
    assert_false(clock.may_have_stood_still);
    clock = known_clock(); /* or they have */
    clock.may_have_stood_still = true;
    assert_int_equal(look(&clock, now_us, HOUR_US, 3, &by_us), CLOCK_KEPT);
    assert_int_equal(look(&clock, now_us + SECOND_US, 0, 4, &by_us), CLOCK_KEPT);
    assert_false(clock.may_have_stood_still);
}

/* … but not ever after. It has leapt, and back; an answer has shown that ours has gone on. */
static void p3_a_daemon_that_went_on_does_not_believe_a_later_leap(void **state)
{
    struct queue_clock clock = known_clock();
    struct script_call call = {.queue_us = 0};
    int64_t by_us, now_us = NOW_US + SECOND_US;
    (void)state;
    clock.may_have_stood_still = true;
    assert_int_equal(look(&clock, now_us, HOUR_US, 3, &by_us), CLOCK_KEPT);
    now_us += SECOND_US;
    queue_clock_bound(&clock, now_us, &call);
    assert_int_equal(queue_clock_compare(&clock, &call, now_us, now_us, now_us + MS), CLOCK_AGREES);
    assert_int_equal(look(&clock, now_us + HOUR_US, HOUR_US, 3, &by_us), CLOCK_TO_SET);
}

/* One that had just come waited for others, and then set it. That it waits is not over when it is
   taken for dead later. */
static void p3_a_daemon_that_waited_when_it_was_new_waits_again(void **state)
{
    struct queue_clock clock = known_clock();
    int64_t by_us, now_us = NOW_US + SECOND_US;
    (void)state;
    clock.adopted_us = NOW_US;
    assert_int_equal(look(&clock, now_us, HOUR_US, 3, &by_us), CLOCK_KEPT);
    now_us += 2 * SECOND_US;
    assert_int_equal(look(&clock, now_us, HOUR_US, 3, &by_us), CLOCK_TO_SET);
    clock.may_have_stood_still = true;
    now_us += 5 * SECOND_US;
    assert_int_equal(look(&clock, now_us, HOUR_US, 3, &by_us), CLOCK_KEPT);
    assert_int_equal(look(&clock, now_us + 2900 * MS, HOUR_US, 3, &by_us), CLOCK_KEPT);
    assert_int_equal(look(&clock, now_us + 3100 * MS, HOUR_US, 3, &by_us), CLOCK_ADOPTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_clock_that_is_not_known_has_no_bounds),
        cmocka_unit_test(p3_a_request_says_what_the_clock_can_show),
        cmocka_unit_test(p3_an_answer_at_a_bound_means_that_the_clock_has_leapt),
        cmocka_unit_test(answers_make_it_more_exact),
        cmocka_unit_test(p3_a_leap_is_set_right_and_drift_is_taken_over),
        cmocka_unit_test(p3_a_clock_that_could_not_be_set_for_long_is_set_to_the_right_time),
        cmocka_unit_test(p4_a_clock_that_was_taken_for_set_stays_so),
        cmocka_unit_test(p3_a_slow_answer_tells_no_more_than_the_drift),
        cmocka_unit_test(p3_a_clock_that_approaches_a_step_is_no_leap),
        cmocka_unit_test(p4_a_clock_is_not_set_by_an_answer_that_was_slow),
        cmocka_unit_test(a_clock_is_set_though_all_answers_are_slow),
        cmocka_unit_test(p4_a_clock_is_set_by_the_fastest_of_slow_answers),
        cmocka_unit_test(p3_who_set_it_to_what_is_ahead_of_ours_is_believed),
        cmocka_unit_test(a_clock_that_was_set_back_and_ahead_again_is_believed),
        cmocka_unit_test(p4_an_answer_from_before_it_was_set_back_does_not_overrule_that),
        cmocka_unit_test(p4_a_clock_that_leaps_after_it_was_set_to_what_is_ahead_is_set_again),
        cmocka_unit_test(
            p4_one_that_stood_still_waits_for_who_sets_a_clock_that_leapt_after_it_was_set),
        cmocka_unit_test(p3_a_clock_that_leaps_back_after_it_was_set_is_set_again),
        cmocka_unit_test(p3_a_daemon_that_has_just_come_believes_who_sets_the_clock),
        cmocka_unit_test(
            p3_a_daemon_that_has_just_come_does_not_believe_the_clock_that_it_has_created),
        cmocka_unit_test(p3_a_clock_from_before_it_was_set_is_set_again),
        cmocka_unit_test(p3_a_daemon_that_others_took_for_dead_believes_them_after_a_while),
        cmocka_unit_test(p3_a_daemon_that_went_on_does_not_believe_a_later_leap),
        cmocka_unit_test(p3_a_daemon_that_waited_when_it_was_new_waits_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
