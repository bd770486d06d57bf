/* Trials, by which a client tests a target: how many may be under way, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pump_bed.h"

enum { TRIALS_MAX = 16 /* as the pump has it */ };

static struct pump_trial tries[TRIALS_MAX + 1];
static unsigned done;

static void note_done(struct pump_trial *test, const struct outcome *outcome)
{
    assert_in_range(test - tries, 0, TRIALS_MAX);
    assert_int_equal(outcome->code, 200);
    done++;
}

static enum err try(struct bed *bed, unsigned number)
{
    tries[number] =
        (struct pump_trial){.done = note_done, .topic = BYTES("orders"), .body = BYTES("try")};
    return pump_trial_send(bed_server(bed)->pump_stage.pump, &tries[number]);
}

static void say_late(struct bed *bed, const struct delivery *delivery, struct sim_answer *answer)
{
    (void)bed;
    (void)delivery;
    bed_say(answer, 200, SECOND_US);
}

static void serve(struct bed *bed)
{
    done = 0;
    bed->answer = say_late;
    bed_settings(bed, "orders", "{\"target\":{\"type\":\"http\",\"url\":\"http://shop/\"}}");
}

static void so_many_are_under_way_and_no_more(struct bed *bed, unsigned most)
{
    serve(bed);
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < most; i++)
            assert_int_equal(try(bed, i), OK);
        assert_int_equal(try(bed, most), ERR_AGAIN);
        assert_int_equal(bed_counts(bed)->in_flight, most);
        bed_pass(bed, 2 * SECOND_US);
        assert_int_equal(done, (round + 1) * most);
        assert_int_equal(bed_counts(bed)->in_flight, 0);
    }
}

static void p8_a_few_are_under_way_at_a_time(void **state)
{
    so_many_are_under_way_and_no_more(*state, TRIALS_MAX);
}

static void p8_they_take_their_part_of_push_concurrency(void **state)
{
    so_many_are_under_way_and_no_more(*state, 2);
}

static void what_cannot_be_tried_is_refused_and_keeps_nothing(void **state)
{
    struct bed *bed = *state;
    assert_int_equal(try(bed, 0), ERR_NOT_FOUND);
    bed_settings(bed, "orders", "{\"ttr\":\"90s\"}");
    assert_int_equal(try(bed, 0), ERR_NOT_FOUND);
    bed_settings(bed, "orders", "{\"target\":{\"type\":\"http\"}}"); /* jobs bring their URLs */
    assert_int_equal(try(bed, 0), ERR_INVALID);
    bed_settings(bed, "orders",
                 "{\"target\":{\"type\":\"kafka\",\"broker\":\"b\",\"topic\":\"t\"}}");
    assert_int_equal(try(bed, 0), ERR_UNSUPPORTED);
    serve(bed);
    pump_drain(bed_server(bed)->pump_stage.pump);
    assert_int_equal(try(bed, 0), ERR_DRAINING);
    assert_int_equal(bed_counts(bed)->in_flight, 0);
}

static int tear_down(void **state)
{
    (void)bed_tear_down(state);
    return mem_used() == 0 ? 0 : -1;
}

int main(void)
{
    static const struct world_options two_slots = {.seed = 1, .push_concurrency = 2};
    const struct CMUnitTest tests[] = {
        BED_TEST(p8_a_few_are_under_way_at_a_time),
        BED_TEST_OF(p8_they_take_their_part_of_push_concurrency, &two_slots),
        cmocka_unit_test_setup_teardown(what_cannot_be_tried_is_refused_and_keeps_nothing,
                                        bed_set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
