/*
 * Buffered mode: who wants his batch on disk gets it soon, however many others come meanwhile.
 */
#include "store_model.h"
#include "store_work.h"

/* The disk is always one batch behind, as under load: each turn seals one and opens the next. */
static void p1_a_wish_for_a_sync_is_met_while_others_go_on_wishing(void **state)
{
    (void)state;
    struct model model;
    model_init(&model, 2);
    model.options.buffered = true;
    model.options.segment_bytes = 1024 * 1024; /* the end of a segment would sync it, too */
    assert_int_equal(model_open(&model), OK);
    model_settle(&model);
    assert_int_equal(model_push(&model), OK);
    uint64_t wanted = store_batch(model.store);
    for (int turn = 0; turn < 50 && store_synced(model.store) < wanted; turn++) {
        store_want_sync(model.store);
        store_turn(model.store, model.now_us += 1000);
        assert_int_equal(model_push(&model), OK);
        store_want_sync(model.store);
        (void)sim_disk_step(model.disk, LANE_COMMIT);
        (void)sim_disk_step(model.disk, LANE_BACKGROUND);
        store_poll(model.store);
    }
    assert_true(store_synced(model.store) >= wanted);
    model_fini(&model);
}

static void p1_the_last_wish_is_met_when_nobody_asks_again(void **state)
{
    (void)state;
    struct model model;
    model_init(&model, 2);
    model.options.buffered = true;
    assert_int_equal(model_open(&model), OK);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(model_push(&model), OK);
        store_want_sync(model.store);
        store_turn(model.store, model.now_us += 1000);
        (void)sim_disk_step(model.disk, LANE_COMMIT);
        store_poll(model.store);
    }
    uint64_t wanted = store_batch(model.store);
    model_settle(&model);
    assert_true(store_synced(model.store) >= wanted);
    model_fini(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(p1_a_wish_for_a_sync_is_met_while_others_go_on_wishing),
        cmocka_unit_test(p1_the_last_wish_is_met_when_nobody_asks_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
