/*
 * The power goes at every single point of a store's life, and again at points inside the recovery
 * that follows. Tiny segments: rotation, cleaning and removal happen in every run.
 */
#include "store/log/log_parts.h"
#include "store_lives.h"

#include <stdlib.h>

enum {
    BURST_SEGMENT = 4 * MODEL_SEGMENT,
    LONG_SEGMENT = 8 * MODEL_SEGMENT,
    TURNS = 150,
    SEEDS = 4,
    VARIANTS = 3,
    BURST_SEEDS = 4
};

static void open_through_cuts(struct model *model, const struct plan *plan)
{
    if (plan->nested)
        sim_disk_cut_at(model->disk, sim_disk_points(model->disk) + plan->nested - 1);
    enum err err = model_open(model);
    if (err == OK && sim_disk_cut(model->disk)) /* a spare was being made */
        model_close(model);
    if (sim_disk_cut(model->disk)) {
        model->store = NULL;
        sim_disk_power(model->disk, plan->power_seed + 99);
        err = model_open(model);
    }
    plan_says(plan, model, err);
    sim_disk_cut_at(model->disk, UINT64_MAX);
}

/* From the next opening on some segments are filled with zeros, others have theirs from commits. */
static void use_bursts(struct model *model)
{
    model->bursts = true;
    model->options.segment_bytes = BURST_SEGMENT;
    model->options.bulk_bytes = 10 * 1024;
}

/* Large and small commits take turns within a segment, too. */
static void use_long_bursts(struct model *model)
{
    use_bursts(model);
    model->options.segment_bytes = LONG_SEGMENT;
    model->options.zeros_bytes = 2 * BLOCK;
}

/* False: the life ended before the cut. */
static bool live_in(const struct plan *plan, void (*use)(struct model *model))
{
    struct model model;
    model_init(&model, plan->seed);
    if (use)
        use(&model);
    model.options.buffered = plan->buffered;
    model.options.interval_us = plan->buffered ? 200000 : 0;
    bool cut = live_until_cut(&model, plan, TURNS);
    if (cut) {
        model.store = NULL;
        sim_disk_power(model.disk, plan->power_seed);
        if (plan->buffered)
            model.acknowledged = 0; /* no promise against power cuts; but never a mixture */
        open_through_cuts(&model, plan);
        model_check(&model);
        plan_go_on(&model, plan, 30);
    }
    model_fini(&model);
    return cut;
}

static bool live_and_die(const struct plan *plan)
{
    return live_in(plan, NULL);
}

static bool live_in_bursts(const struct plan *plan)
{
    return live_in(plan, use_bursts);
}

/* Otherwise the tests below would not see what they are for. */
static void a_life_has_cleaning_and_torn_tails_in_it(void **state)
{
    (void)state;
    uint64_t torn = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct model model;
        struct store_stats stats;
        model_init(&model, seed);
        model.options.inline_us = 0; /* so that the cut comes while the disk's thread writes */
        sim_disk_cold(model.disk, seed % 2);
        assert_int_equal(model_open(&model), OK);
        model_work(&model, TURNS);
        store_stats(model.store, &stats);
        assert_true(stats.checkpoints > 3 && stats.relocated_jobs > 0);
        model_push(&model);
        store_turn(model.store, model.now_us);
        sim_disk_cut_at(model.disk, sim_disk_points(model.disk) + 1);
        model_close(&model);
        sim_disk_power(model.disk, seed);
        assert_int_equal(model_open(&model), OK);
        store_stats(model.store, &stats);
        torn += stats.dropped_tail_bytes > 0;
        model_fini(&model);
    }
    assert_true(torn > 3);
}

static void p1_p5_p9_a_cut_at_every_point_loses_and_revives_nothing(void **state)
{
    (void)state;
    assert_true(cut_everywhere(live_and_die, SEEDS, VARIANTS) > 3000 / sim_every());
}

static void lives_in_bursts_have_all_kinds_of_segments_in_them(void **state)
{
    (void)state;
    unsigned behind = 0, reserved = 0;
    for (uint64_t seed = 1; seed <= BURST_SEEDS; seed++) {
        struct model model;
        struct store_stats stats;
        model_init(&model, seed);
        use_bursts(&model);
        assert_int_equal(model_open(&model), OK);
        model_work(&model, TURNS);
        store_stats(model.store, &stats);
        behind += sim_disk_zeros(model.disk) % BURST_SEGMENT > 0; /* zeros behind commits */
        reserved += sim_disk_zeros(model.disk) < stats.segment_tail * BURST_SEGMENT;
        assert_true(sim_disk_zeros(model.disk) > 2 * BURST_SEGMENT);
        model_fini_reopened(&model);
    }
    assert_true(behind >= 2 && reserved >= 2);
}

enum { LONG_TURNS = 6 * TURNS };

/* The disk has not begun with what it writes. */
static void work_one_turn(struct model *model, int turn)
{
    for (uint64_t i = model_random(model, turn % 40 < 10 ? 24 : 3); i > 0; i--)
        model_act(model);
    store_turn(model->store, model->now_us += 30000);
}

/* What becomes of the segment that is written to. */
struct tail_seen {
    uint32_t number;
    uint64_t filled; /* in it, by a commit that wrote zeros behind itself; 0: none has */
    bool without;    /* a later commit in it went past those zeros, and wrote none */
    unsigned switched, back;
};

/* Is a commit under way that writes zeros behind itself? */
static bool writes_zeros(const struct model *model)
{
    const struct log *log = model->store->log;
    return log->step == COMMIT_BATCH && log->commit.zeros > 0;
}

static void look_at_tail(const struct model *model, struct tail_seen *seen)
{
    const struct segment *segment = model->store->log->written_segment;
    if (!segment)
        return;
    if (segment->number != seen->number)
        *seen = (struct tail_seen){
            .number = segment->number, .switched = seen->switched, .back = seen->back};
    if (writes_zeros(model)) {
        seen->back += seen->without;
        seen->without = false;
        seen->filled = UINT64_MAX; /* until it has ended */
    } else if (seen->filled == UINT64_MAX) {
        seen->filled = segment->filled;
    } else if (seen->filled && segment->filled > seen->filled) {
        seen->switched += !seen->without;
        seen->without = true;
    }
}

static void lives_in_bursts_leave_zeros_and_come_back_within_a_segment(void **state)
{
    (void)state;
    struct tail_seen seen = {0};
    unsigned writing = 0;
    for (uint64_t seed = 1; seed <= BURST_SEEDS; seed++) {
        struct model model;
        model_init(&model, seed);
        use_long_bursts(&model);
        model.options.inline_us = 0; /* so that they are seen */
        assert_int_equal(model_open(&model), OK);
        seen.number = 0;
        for (int turn = 0; turn < LONG_TURNS; turn++) {
            work_one_turn(&model, turn);
            writing += writes_zeros(&model);
            look_at_tail(&model, &seen);
            model_disk_works(&model);
            store_poll(model.store);
            look_at_tail(&model, &seen);
        }
        model_fini(&model);
    }
    print_message("%u commits with zeros; %u times none any more in a segment, %u times again\n",
                  writing, seen.switched, seen.back);
    assert_true(writing > 10 && seen.switched > 2 && seen.back > 0);
}

/* The power goes while it is written, and takes parts of it: zeros are behind it in any case. */
static void p1_p5_a_commit_torn_in_front_of_its_zeros_is_no_damage(void **state)
{
    (void)state;
    unsigned torn = 0, cuts = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct model model;
        struct store_stats stats;
        model_init(&model, 1 + seed % BURST_SEEDS);
        use_long_bursts(&model);
        model.options.inline_us = 0;
        model.options.never_reuses = true; /* such files need no zeros */
        assert_int_equal(model_open(&model), OK);
        uint64_t nth = seed / BURST_SEEDS;
        bool found = false;
        for (int turn = 0; turn < LONG_TURNS && !found; turn++) {
            work_one_turn(&model, turn);
            found = writes_zeros(&model) && nth-- == 0;
            if (!found)
                model_disk_works(&model);
            store_poll(model.store);
        }
        if (found) { /* mostly when it is written, and not synced */
            sim_disk_cut_at(model.disk, sim_disk_points(model.disk) + (seed % 5 ? 1 : seed % 3));
            model_close(&model);
            model.store = NULL;
            sim_disk_power(model.disk, seed);
            struct plan plan = {.seed = seed};
            plan_open(&model, &plan);
            store_stats(model.store, &stats);
            torn += stats.dropped_tail_bytes > 0;
            cuts++;
            model_check(&model);
            plan_go_on(&model, &plan, 30);
        }
        model_fini(&model);
    }
    print_message("%u cuts, %u torn commits\n", cuts, torn);
    assert_true(cuts > 30 && torn > 5);
}

static void p1_p5_p9_a_cut_of_a_life_in_bursts_loses_and_revives_nothing(void **state)
{
    (void)state;
    assert_true(cut_everywhere(live_in_bursts, BURST_SEEDS, 1) > 1000 / sim_every());
    cut_inside_recoveries(live_in_bursts, 5, 3, 400, 13, 2 * sim_every());
}

static void p1_p5_p9_a_second_cut_inside_recovery_changes_nothing(void **state)
{
    (void)state;
    cut_inside_recoveries(live_and_die, 7, 3, 400, 13, 2 * sim_every());
}

static void p9_buffered_mode_after_a_cut_is_a_moment_of_the_past(void **state)
{
    (void)state;
    for (uint64_t cut_at = 0; cut_at < 400; cut_at += sim_every())
        (void)live_and_die(&(struct plan){
            .seed = 11, .cut_at = cut_at, .power_seed = cut_at * 7, .buffered = true});
}

/* kill -9: the process goes, the page cache stays; the power may go later. */
static void p1_p5_a_kill_and_then_a_cut_lose_nothing(void **state)
{
    (void)state;
    kill_then_cut_each(model_init, 60, 97, 60);
}

/* Numbers are reserved a million ahead for crashes; a close in order says how far they went. */
static void a_close_in_order_skips_no_numbers(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 8; seed++) {
        struct model model;
        model_init(&model, seed);
        assert_int_equal(model_open(&model), OK);
        model_work(&model, (int)seed * 7);
        assert_int_equal(model_push(&model), OK);
        model_close(&model);
        assert_int_equal(model_open(&model), OK);
        assert_int_equal(store_seq_first(model.store), model.seq_highest + 1);
        model_check(&model);
        model_fini(&model);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_life_has_cleaning_and_torn_tails_in_it),
        cmocka_unit_test(p1_p5_p9_a_cut_at_every_point_loses_and_revives_nothing),
        cmocka_unit_test(lives_in_bursts_have_all_kinds_of_segments_in_them),
        cmocka_unit_test(lives_in_bursts_leave_zeros_and_come_back_within_a_segment),
        cmocka_unit_test(p1_p5_a_commit_torn_in_front_of_its_zeros_is_no_damage),
        cmocka_unit_test(p1_p5_p9_a_cut_of_a_life_in_bursts_loses_and_revives_nothing),
        cmocka_unit_test(p1_p5_p9_a_second_cut_inside_recovery_changes_nothing),
        cmocka_unit_test(p9_buffered_mode_after_a_cut_is_a_moment_of_the_past),
        cmocka_unit_test(p1_p5_a_kill_and_then_a_cut_lose_nothing),
        cmocka_unit_test(a_close_in_order_skips_no_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
