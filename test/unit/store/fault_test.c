/*
 * Call 1, 2, 3 … of a life fails, with EIO and with ENOSPC. Whatever fails, nothing is called
 * durable that is not, a failed sync is never believed to have worked at the second try (S5), and
 * the next opening finds everything that was acknowledged.
 */
#include "store_lives.h"
#include "test/unit/support/every.h"

#include <errno.h>

enum { TURNS = 120 };

struct outcome {
    bool ended; /* the call was never reached */
    bool failed;
    bool refused;
};

static struct outcome live_with_fault(uint64_t seed, uint64_t fail_at, int sys_errno)
{
    struct model model;
    struct outcome outcome = {0};
    model_init(&model, seed);
    sim_disk_fail_at(model.disk, fail_at, sys_errno);
    if (model_open(&model) == OK) {
        model_work(&model, TURNS);
        model_settle(&model);
        outcome.failed = model.failed;
        assert_int_equal(store_failed(model.store), model.failed);
        assert_true(model.failures <= 1);
        if (model.failed)
            assert_int_equal(store_admit(model.store, 10), ERR_STORE_FAILED);
        model_close(&model);
    } else {
        outcome.refused = true;
        assert_true(model.error.text[0]);
    }
    outcome.ended = sim_disk_points(model.disk) <= fail_at;
    (void)open_after_fault(&model, seed, fail_at);
    /* What is served now is durable now. */
    sim_disk_cut_at(model.disk, sim_disk_points(model.disk));
    model_close(&model);
    model.store = NULL;
    sim_disk_power(model.disk, fail_at + 1);
    assert_int_equal(model_open(&model), OK);
    model_check(&model);
    model_fini(&model);
    return outcome;
}

static void fail_every_call(int sys_errno, unsigned *out_failed, unsigned *out_refused)
{
    for (uint64_t seed = 1; seed <= 3; seed++) {
        for (uint64_t call = 0;; call += sim_every()) {
            struct outcome outcome = live_with_fault(seed, call, sys_errno);
            *out_failed += outcome.failed;
            *out_refused += outcome.refused;
            if (outcome.ended)
                break;
        }
    }
}

static void p1_p7_a_failed_call_stops_acknowledging(void **state)
{
    (void)state;
    unsigned failed = 0, refused = 0;
    fail_every_call(EIO, &failed, &refused);
    print_message("failed %u, refused to open %u\n", failed, refused);
    assert_true(failed > 100 / sim_every() && refused > 10 / sim_every());
}

static void p1_p8_a_call_without_room_loses_nothing(void **state)
{
    (void)state;
    unsigned failed = 0, refused = 0;
    fail_every_call(ENOSPC, &failed, &refused);
    print_message("failed %u, refused to open %u\n", failed, refused);
    assert_true(failed > 50 / sim_every() && refused > 5 / sim_every());
}

/* The kernel's lie: the first sync fails, the second says yes, and the data is not on the disk. */
static void p7_after_a_failed_sync_nothing_is_acknowledged_or_served(void **state)
{
    (void)state;
    struct model model;
    model_init(&model, 1);
    model.options.inline_us = 0; /* the commit is stepped by hand */
    assert_int_equal(model_open(&model), OK);
    assert_int_equal(model_push(&model), OK);
    model_settle(&model);
    uint64_t before = model.acknowledged;
    assert_int_equal(model_push(&model), OK);
    store_turn(model.store, model.now_us);
    sim_disk_fail_at(model.disk, sim_disk_points(model.disk) + 1, EIO); /* write, then the sync */
    assert_true(sim_disk_step(model.disk, LANE_COMMIT));
    store_poll(model.store);
    assert_true(model.failed);
    model_settle(&model);
    assert_int_equal(model.acknowledged, before);
    model_close(&model);
    assert_int_equal(model_open(&model), OK);
    assert_int_equal(store_durable(model.store), before); /* read past the lying cache */
    model_check(&model);
    model_fini(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(p1_p7_a_failed_call_stops_acknowledging),
        cmocka_unit_test(p1_p8_a_call_without_room_loses_nothing),
        cmocka_unit_test(p7_after_a_failed_sync_nothing_is_acknowledged_or_served),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
