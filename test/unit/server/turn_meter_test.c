/*
 * What the stages of a turn took is told where a turn was long: once a second, and of longer ones.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "server/turn_meter.h"

struct fake_clock {
    struct clock clock;
    int64_t now_us, cpu_us;
    unsigned looks; /* at the processor time */
};

static struct fake_clock *fake_of(struct clock *clock)
{
    return (struct fake_clock *)clock; /* its first member */
}

static int64_t now_us(struct clock *clock)
{
    return fake_of(clock)->now_us;
}

static int64_t cpu_us(struct clock *clock)
{
    fake_of(clock)->looks++;
    return fake_of(clock)->cpu_us;
}

static struct fake_clock fake_new(void)
{
    return (struct fake_clock){.clock = {.now_us = now_us, .cpu_us = cpu_us}, .now_us = 1000000};
}

static void pass(struct fake_clock *fake, int64_t us)
{
    fake->now_us += us;
    fake->cpu_us += us;
}

/* A turn of which `stage` takes so long. Returns what the meter says that it took. */
static int64_t play(struct turn_meter *meter, struct fake_clock *fake, enum turn_stage stage,
                    int64_t us)
{
    turn_meter_begin(meter, &fake->clock, fake->now_us);
    turn_meter_look(meter, stage);
    pass(fake, us);
    return turn_meter_end(meter);
}

static void a_turns_time_is_that_of_its_stages(void **state)
{
    (void)state;
    struct turn_meter meter = {0};
    struct fake_clock fake = fake_new();
    char parts[TURN_PARTS_BYTES];
    turn_meter_begin(&meter, &fake.clock, fake.now_us);
    turn_meter_look(&meter, STAGE_BEGIN);
    pass(&fake, 99); /* too little to be told of */
    turn_meter_look(&meter, STAGE_GATHER);
    pass(&fake, 1200);
    turn_meter_look(&meter, STAGE_MATCH);
    turn_meter_look(&meter, STAGE_END);
    pass(&fake, 7000);
    assert_int_equal(turn_meter_end(&meter), 99 + 1200 + 7000);
    turn_meter_parts(&meter, parts);
    assert_string_equal(parts, "gather:1200,end:7000");
    assert_int_equal(play(&meter, &fake, STAGE_PUSH, 300), 300); /* nothing of the turn before */
    turn_meter_parts(&meter, parts);
    assert_string_equal(parts, "push:300");
}

static void the_parts_of_all_stages_fit(void **state)
{
    (void)state;
    struct turn_meter meter = {0};
    char parts[TURN_PARTS_BYTES];
    for (unsigned i = 0; i < TURN_STAGES; i++)
        meter.took_us[i] = INT64_MAX;
    turn_meter_parts(&meter, parts);
    const char *last = "settle:9223372036854775807";
    size_t len = strlen(parts);
    assert_string_equal(parts + len - strlen(last), last);
}

static void long_turns_are_logged_once_a_second(void **state)
{
    (void)state;
    struct turn_meter meter = {0};
    struct fake_clock fake = fake_new();
    (void)play(&meter, &fake, STAGE_END, TURN_LONG_US);
    assert_int_equal(meter.logged_us, 0); /* it is not long */
    (void)play(&meter, &fake, STAGE_END, TURN_LONG_US + 1);
    int64_t logged_us = meter.logged_us;
    assert_int_equal(logged_us, fake.now_us);
    for (unsigned i = 1; i < 4; i++) {
        (void)play(&meter, &fake, STAGE_END, TURN_LONG_US + 1);
        assert_int_equal(meter.unlogged, i);
    }
    assert_int_equal(meter.logged_us, logged_us);
    fake.now_us = logged_us + 1000000;
    (void)play(&meter, &fake, STAGE_END, TURN_LONG_US + 1);
    assert_int_equal(meter.logged_us, fake.now_us);
    assert_int_equal(meter.unlogged, 0);
}

static void a_longer_turn_is_logged_at_once(void **state)
{
    (void)state;
    struct turn_meter meter = {0};
    struct fake_clock fake = fake_new();
    for (unsigned i = 1; i < 4; i++) {
        (void)play(&meter, &fake, STAGE_END, TURN_LONG_US + i);
        assert_int_equal(meter.logged_us, fake.now_us);
    }
    (void)play(&meter, &fake, STAGE_END, TURN_LONG_US + 3);
    assert_int_equal(meter.unlogged, 1);
}

static void nothing_is_measured_that_was_not_asked_for(void **state)
{
    (void)state;
    struct turn_meter meter = {0};
    for (unsigned i = 0; i < TURN_STAGES; i++)
        turn_meter_look(&meter, (enum turn_stage)i); /* there is no clock to read */
    assert_int_equal(meter.looked_us, 0);
}

static void a_stage_costs_one_look_at_the_processor_time(void **state)
{
    (void)state;
    struct turn_meter meter = {0};
    struct fake_clock fake = fake_new();
    turn_meter_begin(&meter, &fake.clock, fake.now_us);
    for (unsigned i = 0; i < TURN_STAGES; i++)
        turn_meter_look(&meter, (enum turn_stage)i);
    (void)turn_meter_end(&meter);
    assert_int_equal(fake.looks, TURN_STAGES + 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_turns_time_is_that_of_its_stages),
        cmocka_unit_test(the_parts_of_all_stages_fit),
        cmocka_unit_test(long_turns_are_logged_once_a_second),
        cmocka_unit_test(a_longer_turn_is_logged_at_once),
        cmocka_unit_test(nothing_is_measured_that_was_not_asked_for),
        cmocka_unit_test(a_stage_costs_one_look_at_the_processor_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
