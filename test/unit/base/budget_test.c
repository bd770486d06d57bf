/* A budget with a meter is spent by the processor time of work, if that is more than its estimate.
 */
#include "base/budget.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/list.h"

enum { NS_PER_US = 1000, SHARE_NS = 1000 * 1000, STEP_NS = 10 * 1000 };

struct fixture {
    struct budget_meter meter;
    struct budget budget;
    int64_t now_us, cpu_us;
    unsigned looks, cpu_looks;
};

static int64_t now_us(struct budget_meter *meter)
{
    struct fixture *fixture = LIST_ENTRY(meter, struct fixture, meter);
    fixture->looks++;
    return fixture->now_us;
}

static int64_t cpu_us(struct budget_meter *meter)
{
    struct fixture *fixture = LIST_ENTRY(meter, struct fixture, meter);
    fixture->cpu_looks++;
    return fixture->cpu_us;
}

static void init(struct fixture *fixture)
{
    *fixture =
        (struct fixture){.meter = {.now_us = now_us, .cpu_us = cpu_us}, .now_us = 1, .cpu_us = 1};
    fixture->budget.meter = &fixture->meter;
    budget_begin_turn(&fixture->budget, fixture->now_us);
    budget_begin(&fixture->budget, SHARE_NS);
}

/* How many steps of STEP_NS are done, each of which takes so long by the clock, and so much of it
 * of the processor. */
static int steps_of(struct fixture *fixture, int64_t step_us, int64_t cpu_step_us)
{
    int count = 0;
    while (!budget_spent(&fixture->budget)) {
        fixture->now_us += step_us;
        fixture->cpu_us += cpu_step_us;
        budget_spend(&fixture->budget, STEP_NS);
        count++;
    }
    return count;
}

static int steps(struct fixture *fixture, int64_t step_us)
{
    return steps_of(fixture, step_us, step_us);
}

static void without_a_meter_the_estimates_are_believed(void **state)
{
    (void)state;
    struct fixture fixture;
    init(&fixture);
    fixture.budget.meter = NULL;
    assert_int_equal(steps(&fixture, 1000), SHARE_NS / STEP_NS);
    assert_int_equal(fixture.looks, 0);
}

static void work_that_takes_no_longer_than_estimated_gets_its_share(void **state)
{
    (void)state;
    struct fixture fixture;
    init(&fixture);
    assert_int_equal(steps(&fixture, STEP_NS / NS_PER_US), SHARE_NS / STEP_NS);
    assert_int_equal(fixture.looks, SHARE_NS / BUDGET_METER_NS);
    init(&fixture);
    assert_int_equal(steps(&fixture, 0), SHARE_NS / STEP_NS); /* no more, either */
}

static int steps_in_a_new_turn(struct fixture *fixture, int64_t step_us)
{
    budget_begin_turn(&fixture->budget, fixture->now_us);
    budget_begin(&fixture->budget, SHARE_NS);
    return steps(fixture, step_us);
}

static void slow_work_ends_its_stage_sooner(void **state)
{
    (void)state;
    enum { SLOWER = 10, UNSEEN = BUDGET_METER_NS / STEP_NS, STEPS = SHARE_NS / STEP_NS };
    struct fixture fixture;
    init(&fixture);
    /* The first time the clock has used it up, there is nothing to compare with. */
    int count = steps(&fixture, SLOWER * STEP_NS / NS_PER_US);
    assert_in_range(count, 3 * UNSEEN, UNSEEN + 3 * STEPS / SLOWER / 2 + UNSEEN);
    assert_int_equal(fixture.meter.sampled_turns, BUDGET_SAMPLED_TURNS);
    /* The next stage knows, and the next turn. */
    budget_begin(&fixture.budget, SHARE_NS);
    count = steps(&fixture, SLOWER * STEP_NS / NS_PER_US);
    assert_in_range(count, 2 * UNSEEN, UNSEEN + STEPS / SLOWER + UNSEEN);
    count = steps_in_a_new_turn(&fixture, SLOWER * STEP_NS / NS_PER_US);
    assert_in_range(count, 2 * UNSEEN, UNSEEN + STEPS / SLOWER + UNSEEN);
}

/* Steps that take so long by the clock: fewer than use the budget up, and more than the turn's time
 * allows. */
static void some_steps_in_a_new_turn(struct fixture *fixture, int64_t step_us)
{
    budget_begin_turn(&fixture->budget, fixture->now_us);
    budget_begin(&fixture->budget, SHARE_NS);
    for (int step = 0; step < SHARE_NS / STEP_NS / 2; step++) {
        fixture->now_us += step_us;
        budget_spend(&fixture->budget, STEP_NS);
    }
    assert_false(budget_spent(&fixture->budget));
}

static void processor_time_is_sampled_for_some_turns_after_slow_work(void **state)
{
    (void)state;
    enum { SLOWER = 10, STEPS = SHARE_NS / STEP_NS, LONG_US = 16 };
    struct fixture fixture;
    init(&fixture);
    (void)steps(&fixture, SLOWER * STEP_NS / NS_PER_US);
    unsigned cpu_looks = fixture.cpu_looks;
    for (int turn = 1; turn < BUDGET_SAMPLED_TURNS; turn++)
        some_steps_in_a_new_turn(&fixture, LONG_US);
    assert_int_equal(fixture.cpu_looks, cpu_looks + BUDGET_SAMPLED_TURNS - 1); /* one each */
    budget_begin_turn(&fixture.budget, fixture.now_us);
    some_steps_in_a_new_turn(&fixture, LONG_US);
    assert_int_equal(fixture.cpu_looks, cpu_looks + BUDGET_SAMPLED_TURNS - 1);
}

static void processor_time_is_not_sampled_in_short_turns(void **state)
{
    (void)state;
    enum { SLOWER = 10, FEW = 20 };
    struct fixture fixture;
    init(&fixture);
    (void)steps(&fixture, SLOWER * STEP_NS / NS_PER_US);
    unsigned cpu_looks = fixture.cpu_looks;
    for (int turn = 1; turn < BUDGET_SAMPLED_TURNS; turn++) {
        budget_begin_turn(&fixture.budget, fixture.now_us);
        budget_begin(&fixture.budget, SHARE_NS); /* nothing to do */
        budget_begin(&fixture.budget, SHARE_NS);
        for (int step = 0; step < FEW; step++) {
            fixture.now_us += STEP_NS / NS_PER_US;
            budget_spend(&fixture.budget, STEP_NS);
        }
    }
    assert_int_equal(fixture.cpu_looks, cpu_looks);
}

static void time_that_others_had_the_processor_is_not_spent(void **state)
{
    (void)state;
    enum { SLOWER = 10, STEPS = SHARE_NS / STEP_NS };
    struct fixture fixture;
    init(&fixture);
    for (int turn = 0; turn < 3; turn++) {
        budget_begin_turn(&fixture.budget, fixture.now_us);
        budget_begin(&fixture.budget, SHARE_NS);
        int count = steps_of(&fixture, SLOWER * STEP_NS / NS_PER_US, STEP_NS / NS_PER_US);
        /* The first time there is nothing to compare with. */
        assert_in_range(count, STEPS / 2, STEPS);
        assert_int_equal(fixture.meter.sampled_turns, 1); /* this one */
    }
    fixture.meter.sampled_turns = 2;
    budget_begin_turn(&fixture.budget, fixture.now_us);
    for (int stage = 0; stage < 3; stage++) {
        budget_begin(&fixture.budget, SHARE_NS);
        int count = steps_of(&fixture, SLOWER * STEP_NS / NS_PER_US, STEP_NS / NS_PER_US);
        assert_int_equal(count, STEPS);
    }
    assert_int_equal(fixture.meter.sampled_turns, 1);
}

/* An earlier stage was slow by itself, without using its budget up: that is not charged to a later
 * one in which others had the processor. */
static void own_time_of_an_earlier_stage_is_charged_there_alone(void **state)
{
    (void)state;
    enum { SLOWER = 10, STEPS = SHARE_NS / STEP_NS, FEW = 12 };
    struct fixture fixture;
    init(&fixture);
    fixture.meter.sampled_turns = 1;
    for (int step = 0; step < FEW; step++) {
        fixture.now_us += SLOWER * STEP_NS / NS_PER_US;
        fixture.cpu_us += SLOWER * STEP_NS / NS_PER_US;
        budget_spend(&fixture.budget, STEP_NS);
    }
    budget_begin(&fixture.budget, SHARE_NS);
    int count = steps_of(&fixture, SLOWER * STEP_NS / NS_PER_US, STEP_NS / NS_PER_US);
    /* What was behind the earlier stage's last look is charged here. */
    assert_in_range(count, STEPS - 2 * FEW, STEPS);
}

/* Others had the processor in an earlier stage, which did not use its budget up by itself: a later
 * one that is slow by itself gets no credit for that. */
static void time_of_others_in_an_earlier_stage_is_credited_there_alone(void **state)
{
    (void)state;
    enum { SLOWER = 10, FEW = 20, UNSEEN = BUDGET_METER_NS / STEP_NS };
    struct fixture fixture;
    init(&fixture);
    budget_begin(&fixture.budget, 4 * SHARE_NS);
    fixture.meter.sampled_turns = 1;
    for (int step = 0; step < FEW; step++) {
        fixture.now_us += SLOWER * STEP_NS / NS_PER_US;
        fixture.cpu_us += STEP_NS / NS_PER_US;
        budget_spend(&fixture.budget, STEP_NS);
    }
    assert_false(budget_spent(&fixture.budget));
    fixture.now_us += 4 * SHARE_NS / NS_PER_US; /* behind its last look */
    budget_begin(&fixture.budget, SHARE_NS);
    int64_t began_us = fixture.cpu_us;
    (void)steps(&fixture, SLOWER * STEP_NS / NS_PER_US);
    /* The first look is after UNSEEN steps, and each step behind it is ten times as slow. */
    int64_t most_us = (SHARE_NS + UNSEEN * SLOWER * STEP_NS) / NS_PER_US;
    assert_in_range(fixture.cpu_us - began_us, 1, most_us);
    assert_int_equal(fixture.cpu_looks, 3); /* at the first look of each, and at the end */
}

/* The thread used half of the time itself: so much is spent. */
static void only_time_of_others_is_credited(void **state)
{
    (void)state;
    enum { OWN = 5, SLOWER = 10, STEPS = SHARE_NS / STEP_NS, UNSEEN = BUDGET_METER_NS / STEP_NS };
    struct fixture fixture;
    init(&fixture);
    fixture.meter.sampled_turns = 1;
    int count = steps_of(&fixture, SLOWER * STEP_NS / NS_PER_US, OWN * STEP_NS / NS_PER_US);
    assert_in_range(count, STEPS / OWN, UNSEEN + STEPS / OWN + 2 * UNSEEN);
}

static void processor_time_is_not_read_while_the_clock_shows_less_than_the_budget(void **state)
{
    (void)state;
    enum { SLOWER = 3 };
    struct fixture fixture;
    init(&fixture);
    for (int stage = 0; stage < 5; stage++) {
        budget_begin(&fixture.budget, SHARE_NS);
        for (int step = 0; step < SHARE_NS / STEP_NS / SLOWER; step++) {
            fixture.now_us += SLOWER * STEP_NS / NS_PER_US;
            budget_spend(&fixture.budget, STEP_NS);
        }
        assert_false(budget_spent(&fixture.budget));
    }
    assert_int_equal(fixture.cpu_looks, 0);
}

/* The stage was slow by itself before the reading that is compared with, then others came. */
static void slow_work_before_a_reading_stays_spent(void **state)
{
    (void)state;
    enum { SLOWER = 2, STEPS = SHARE_NS / STEP_NS, UNSEEN = BUDGET_METER_NS / STEP_NS };
    struct fixture fixture;
    init(&fixture);
    budget_begin(&fixture.budget, SHARE_NS); /* the one before has nothing to do */
    fixture.meter.sampled_turns = 1;
    int slow = 0;
    for (; !fixture.cpu_looks && slow < STEPS; slow++) {
        fixture.now_us += SLOWER * STEP_NS / NS_PER_US;
        fixture.cpu_us += SLOWER * STEP_NS / NS_PER_US;
        budget_spend(&fixture.budget, STEP_NS);
    }
    assert_false(budget_spent(&fixture.budget));
    assert_in_range(slow, STEPS / SLOWER / 2, STEPS / SLOWER);
    fixture.now_us += 10 * SHARE_NS / NS_PER_US;
    int fast = steps(&fixture, STEP_NS / NS_PER_US);
    assert_in_range(fast, 1, 2 * UNSEEN); /* not what the estimates left: STEPS - slow */
}

/* What earlier stages left of the turn's time is there for later ones, by the clock alone. */
static void slow_work_ends_no_stage_while_the_turn_has_time(void **state)
{
    (void)state;
    enum { SLOWER = 4, STEPS = SHARE_NS / STEP_NS };
    struct fixture fixture;
    init(&fixture);
    for (int stage = 0; stage < 2 * SLOWER; stage++) /* those have nothing to do */
        budget_begin(&fixture.budget, SHARE_NS);
    assert_int_equal(steps(&fixture, SLOWER * STEP_NS / NS_PER_US), STEPS);
    assert_int_equal(fixture.cpu_looks, 0);
}

static void all_stages_of_slow_work_take_no_longer_than_the_turn(void **state)
{
    (void)state;
    enum { SLOWER = 10, UNSEEN = BUDGET_METER_NS / STEP_NS, STAGES = 5 };
    struct fixture fixture;
    init(&fixture);
    for (int turn = 0; turn < 3; turn++) {
        int64_t began_us = fixture.cpu_us;
        budget_begin_turn(&fixture.budget, fixture.now_us);
        for (int stage = 0; stage < STAGES; stage++) {
            budget_begin(&fixture.budget, SHARE_NS);
            if (stage > 1)
                (void)steps(&fixture, SLOWER * STEP_NS / NS_PER_US);
        }
        /* The first look of a stage, and the one that ends it, may each come so much later. */
        int64_t unseen_us = (STAGES - 2) * 2 * UNSEEN * SLOWER * STEP_NS / NS_PER_US;
        assert_in_range(fixture.cpu_us - began_us, 1, STAGES * SHARE_NS / NS_PER_US + unseen_us);
    }
}

static void planned_work_that_is_left_out_is_no_part_of_the_turns_time(void **state)
{
    (void)state;
    enum { SLOWER = 3, STEPS = SHARE_NS / STEP_NS };
    struct fixture fixture;
    init(&fixture);
    budget_exclude_elapsed(&fixture.budget, 2 * SHARE_NS); /* of the next turn */
    budget_begin_turn(&fixture.budget, fixture.now_us);
    for (int stage = 0; stage < 2 * SLOWER; stage++)
        budget_begin(&fixture.budget, SHARE_NS);
    fixture.now_us += 2 * SHARE_NS / NS_PER_US;
    budget_exclude_elapsed(&fixture.budget, 0);
    budget_begin(&fixture.budget, SHARE_NS);
    assert_int_equal(steps(&fixture, SLOWER * STEP_NS / NS_PER_US), STEPS);
    assert_int_equal(fixture.cpu_looks, 0);
}

static void what_has_a_bound_of_its_own_is_left_out(void **state)
{
    (void)state;
    struct fixture fixture;
    init(&fixture);
    for (int i = 0; i < BUDGET_METER_NS / STEP_NS; i++)
        budget_spend(&fixture.budget, STEP_NS);
    fixture.now_us += SHARE_NS / NS_PER_US;
    budget_exclude_elapsed(&fixture.budget, 0);
    for (int i = 0; i < 2 * BUDGET_METER_NS / STEP_NS; i++)
        budget_spend(&fixture.budget, STEP_NS);
    assert_int_equal(fixture.budget.left_ns, SHARE_NS - 3 * BUDGET_METER_NS);
    assert_int_equal(fixture.cpu_looks, 0);
}

static void each_stage_does_some_work_whatever_was_before(void **state)
{
    (void)state;
    struct fixture fixture;
    init(&fixture);
    (void)steps(&fixture, 1000);
    fixture.now_us += 1000 * 1000;
    budget_begin(&fixture.budget, SHARE_NS);
    for (int i = 0; i < BUDGET_METER_NS / STEP_NS; i++) {
        assert_false(budget_spent(&fixture.budget));
        budget_spend(&fixture.budget, STEP_NS);
    }
    assert_false(budget_spent(&fixture.budget)); /* the time before the first look is not its own */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_meter_the_estimates_are_believed),
        cmocka_unit_test(work_that_takes_no_longer_than_estimated_gets_its_share),
        cmocka_unit_test(slow_work_ends_its_stage_sooner),
        cmocka_unit_test(processor_time_is_sampled_for_some_turns_after_slow_work),
        cmocka_unit_test(processor_time_is_not_sampled_in_short_turns),
        cmocka_unit_test(time_that_others_had_the_processor_is_not_spent),
        cmocka_unit_test(own_time_of_an_earlier_stage_is_charged_there_alone),
        cmocka_unit_test(time_of_others_in_an_earlier_stage_is_credited_there_alone),
        cmocka_unit_test(only_time_of_others_is_credited),
        cmocka_unit_test(processor_time_is_not_read_while_the_clock_shows_less_than_the_budget),
        cmocka_unit_test(slow_work_before_a_reading_stays_spent),
        cmocka_unit_test(slow_work_ends_no_stage_while_the_turn_has_time),
        cmocka_unit_test(all_stages_of_slow_work_take_no_longer_than_the_turn),
        cmocka_unit_test(planned_work_that_is_left_out_is_no_part_of_the_turns_time),
        cmocka_unit_test(what_has_a_bound_of_its_own_is_left_out),
        cmocka_unit_test(each_stage_does_some_work_whatever_was_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
