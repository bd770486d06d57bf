/*
 * Cleaning the log over places that cannot be read, for a while or for good: what can be carried
 * is, room comes back, and what is lost is said. And how much of it one turn does.
 */
#include "store/log/segments_parts.h"
#include "store_model.h"
#include "store_work.h"

enum { CHURN = 1500 };

static int64_t turn_us = 20000;
static bool cold;   /* nothing is in the page cache */
static bool direct; /* the log is written past it */

struct bed {
    struct model model;
    uint64_t keeper; /* number of a job that stays in the oldest segment */
    char name[DISK_NAME_MAX];
    uint64_t offset; /* of its record */
};

static void one_turn(struct model *model)
{
    model->now_us += turn_us;
    store_turn(model->store, model->now_us);
    model_disk_works(model);
    store_poll(model->store);
    assert_false(model->failed);
}

/* Many jobs come and go: their records are garbage. */
static void churn(struct model *model, int jobs)
{
    for (int i = 0; i < jobs; i++) {
        assert_int_equal(model_push(model), OK);
        one_turn(model);
        model_end(model, &model->jobs[model->job_count - 1]);
        model->job_count--;
        one_turn(model);
    }
    model->entry_count = 0; /* no journal is needed, and it is slow */
}

/* A store of one segment: a job in a batch of its own, then four others that live. */
static void make_bed(struct bed *bed)
{
    struct model *model = &bed->model;
    model_init(model, 2);
    model->options.body_max = 1000;
    model->rest_slices = 3;
    assert_int_equal(model_open(model), OK);
    sim_disk_cold(model->disk, cold);
    sim_disk_direct(model->disk, direct);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(model_push(model), OK);
        one_turn(model);
    }
    bed->keeper = model->jobs[0].seq;
    uint64_t where = model->jobs[0].stored.where;
    segment_name(where_segment(where), bed->name);
    bed->offset = where_offset(where);
}

static struct store_stats stats_of(const struct model *model)
{
    struct store_stats stats;
    store_stats(model->store, &stats);
    return stats;
}

/* The cleaner needs some turns for a segment; the churn leaves it few. */
static void let_clean(struct model *model)
{
    for (int i = 0; i < 400; i++)
        one_turn(model);
}

static enum err read_of(struct model *model, const struct model_job *job)
{
    static char room[MODEL_ROOM];
    struct arena arena = {0};
    struct bytes content_type = {0}, body = {0};
    struct bytes want = model_body(model, job->seq, job->version, room);
    struct body_place place = {job->seq, job->stored.where, 4, want.len, 0, false};
    enum err err = model_body_at(model, &place, &arena, &content_type, &body);
    arena_fini(&arena);
    return err;
}

/* What a job without its body has in place of it (model_relocate_unread()) must not pass for one.
 */
static enum err read_what_is_left(struct model *model, const struct model_job *job)
{
    struct arena arena = {0};
    struct bytes content_type = {0}, body = {0}, left = BYTES("lost its body");
    struct body_place place = {job->seq, job->stored.where, 4, left.len, 0, false};
    enum err err = model_body_at(model, &place, &arena, &content_type, &body);
    arena_fini(&arena);
    return err;
}

static void others_are_whole(struct bed *bed)
{
    for (size_t i = 0; i < bed->model.job_count; i++) {
        if (bed->model.jobs[i].live && bed->model.jobs[i].seq != bed->keeper)
            assert_int_equal(read_of(&bed->model, &bed->model.jobs[i]), OK);
    }
}

static void a_read_that_fails_for_a_while_stops_cleaning_for_no_longer(void **state)
{
    (void)state;
    struct bed bed;
    struct model *model = &bed.model;
    make_bed(&bed);
    sim_disk_bad(model->disk, bed.name, bed.offset, bed.offset + 1);
    churn(model, 60);
    assert_int_equal(model->notices[STORE_UNREAD], 1);
    sim_disk_bad(model->disk, "", 0, 0);
    churn(model, CHURN);
    let_clean(model);
    assert_int_equal(model->notices[STORE_DAMAGED], 0);
    assert_int_equal(stats_of(model).damaged_segments, 0);
    assert_true(stats_of(model).segments < 8);
    assert_true(stats_of(model).checkpoints > 20);
    model_read(model, &model->jobs[0]);
    others_are_whole(&bed);
    model_fini(model);
}

/* What can be told of the job is there after a restart, too; its body never is. */
static void keeper_lost_its_body(struct bed *bed)
{
    struct model *model = &bed->model;
    let_clean(model);
    struct store_stats stats = stats_of(model);
    char aside[DISK_NAME_MAX];
    uint64_t len = 0;
    aside_name(1, aside);
    assert_int_equal(model->notices[STORE_UNREAD], 1);
    assert_int_equal(model->notices[STORE_DAMAGED], 1);
    assert_int_equal(model->notices[STORE_SET_ASIDE], 1);
    assert_string_equal(model->noticed.file, aside);
    assert_true(stats.segments < 8 && stats.checkpoints > 20);
    assert_int_equal(stats.damaged_segments, 1);
    assert_int_equal(stats.live_jobs, 5);
    assert_non_null(sim_disk_file(model->disk, aside, &len));
    assert_null(sim_disk_file(model->disk, bed->name, &len));
    for (int restart = 0; restart < 2; restart++) {
        assert_true(model_find(model, bed->keeper)->live);
        assert_int_equal(read_of(model, model_find(model, bed->keeper)), ERR_DAMAGED);
        others_are_whole(bed);
        model_close(model);
        assert_int_equal(model_open(model), OK);
        assert_int_equal(stats_of(model).damaged_segments, 1); /* as long as the file is there */
    }
    churn(model, CHURN); /* the job is carried again and again, and stays what it is */
    let_clean(model);
    assert_int_equal(model->notices[STORE_DAMAGED], 1);
    assert_true(stats_of(model).segments < 8);
    assert_int_equal(read_of(model, model_find(model, bed->keeper)), ERR_DAMAGED);
    assert_int_equal(read_what_is_left(model, model_find(model, bed->keeper)), ERR_DAMAGED);
    others_are_whole(bed);
}

static void p8_cleaning_goes_round_a_flipped_byte_of_a_live_job(void **state)
{
    (void)state;
    struct bed bed;
    make_bed(&bed);
    assert_true(sim_disk_flip(bed.model.disk, bed.name, (bed.offset + 110) * 8));
    churn(&bed.model, CHURN);
    keeper_lost_its_body(&bed);
    model_fini(&bed.model);
}

static void p8_cleaning_goes_round_a_place_that_can_never_be_read(void **state)
{
    (void)state;
    struct bed bed;
    make_bed(&bed);
    sim_disk_bad(bed.model.disk, bed.name, bed.offset, bed.offset + 1);
    turn_us = 500 * 1000;
    churn(&bed.model, 80); /* more than a minute of trying */
    turn_us = 20000;
    assert_int_equal(bed.model.notices[STORE_DAMAGED], 1);
    churn(&bed.model, CHURN);
    sim_disk_bad(bed.model.disk, "", 0, 0);
    keeper_lost_its_body(&bed);
    model_fini(&bed.model);
}

static void p8_a_flipped_byte_does_not_fill_a_store_with_a_limit(void **state)
{
    (void)state;
    struct bed bed;
    make_bed(&bed);
    bed.model.store->options.max_bytes = 8 * MODEL_SEGMENT + 8192;
    assert_true(sim_disk_flip(bed.model.disk, bed.name, (bed.offset + 110) * 8));
    for (int i = 0; i < CHURN; i++) { /* a push may be refused while the cleaner tries */
        if (model_push(&bed.model) == OK) {
            model_end(&bed.model, &bed.model.jobs[bed.model.job_count - 1]);
            bed.model.job_count--;
        }
        one_turn(&bed.model);
    }
    for (int i = 0; i < 100; i++)
        one_turn(&bed.model);
    assert_int_equal(model_push(&bed.model), OK);
    assert_true(stats_of(&bed.model).disk_bytes <= bed.model.store->options.max_bytes);
    model_fini(&bed.model);
}

static void damage_that_touches_no_live_job_is_cleaned_away(void **state)
{
    (void)state;
    struct bed bed;
    struct model *model = &bed.model;
    uint64_t len = 0;
    make_bed(&bed);
    model_end(model, &model->jobs[0]);
    churn(model, 1);
    assert_true(sim_disk_flip(model->disk, bed.name, (bed.offset + 110) * 8));
    churn(model, CHURN);
    assert_int_equal(model->notices[STORE_DAMAGED], 1);
    assert_int_equal(model->notices[STORE_SET_ASIDE], 0);
    assert_int_equal(stats_of(model).damaged_segments, 0);
    assert_null(sim_disk_file(model->disk, "wal-00000001.damaged", &len));
    others_are_whole(&bed);
    model_fini(model);
}

/* Power goes between the manifest that no longer names the segment and its new name. */
static void p2_a_cut_before_the_damaged_segment_is_set_aside_keeps_it(void **state)
{
    (void)state;
    struct bed bed;
    struct model *model = &bed.model;
    uint64_t len = 0;
    make_bed(&bed);
    assert_true(sim_disk_flip(model->disk, bed.name, (bed.offset + 110) * 8));
    while (!cleaner_removing(model->store->cleaner)) {
        if (cleaner_idle(model->store->cleaner)) {
            churn(model, 1);
            continue;
        }
        model->now_us += 20000;
        store_turn(model->store, model->now_us);
        if (cleaner_removing(model->store->cleaner))
            break;
        model_disk_works(model);
        store_poll(model->store);
    }
    assert_int_equal(model->notices[STORE_DAMAGED], 1);
    sim_disk_cut_at(model->disk, sim_disk_points(model->disk));
    model_close(model);
    sim_disk_power(model->disk, 3);
    assert_int_equal(model_open(model), OK);
    assert_non_null(sim_disk_file(model->disk, "wal-00000001.damaged", &len));
    assert_null(sim_disk_file(model->disk, bed.name, &len));
    assert_int_equal(stats_of(model).damaged_segments, 1);
    model_fini(model);
}

/* Of many small jobs a turn looks at few, however large the segment is. */
static void a_turn_cleans_a_small_slice(void **state)
{
    (void)state;
    struct model model;
    model_init(&model, 2);
    model.options.body_max = 16;
    model.options.segment_bytes = 64 * 1024;
    assert_int_equal(model_open(&model), OK);
    sim_disk_cold(model.disk, cold);
    sim_disk_direct(model.disk, direct);
    for (int i = 0; i < 7000; i++) {
        assert_int_equal(model_push(&model), OK);
        if (i % 10)
            model_end(&model, &model.jobs[i]);
        if (i % 500 == 0)
            one_turn(&model);
    }
    for (int i = 0; i < 600; i++) {
        uint64_t carried = stats_of(&model).relocated_jobs;
        one_turn(&model);
        assert_true(stats_of(&model).relocated_jobs - carried <= 256);
    }
    assert_true(stats_of(&model).relocated_jobs > 300);
    model_fini(&model);
}

/* The disk reads when it likes; meanwhile jobs come and go, and the oldest segment's end, too. */
static void p8_cleaning_never_waits_for_the_disk_in_a_turn(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 20; seed++) {
        struct model model;
        model_init(&model, seed);
        assert_int_equal(model_open(&model), OK);
        sim_disk_cold(model.disk, cold);
        sim_disk_direct(model.disk, direct);
        sim_disk_read_waits(model.disk, &model.now_us, 20000);
        for (int turn = 0; turn < 800; turn++) {
            model_act(&model);
            model.entry_count = 0;
            int64_t before_us = model.now_us += 1000;
            store_turn(model.store, model.now_us);
            assert_int_equal(model.now_us, before_us); /* no read was made in it */
            if (valid_now())
                store_valid(model.store);
            while (sim_disk_step(model.disk, LANE_COMMIT) ||
                   sim_disk_step(model.disk, LANE_BACKGROUND))
                continue;
            if (model_random(&model, 4) == 0)
                (void)sim_disk_step(model.disk, LANE_READ);
            store_poll(model.store);
            if (valid_now())
                store_valid(model.store);
        }
        assert_false(model.failed);
        assert_true(stats_of(&model).checkpoints > 10 && stats_of(&model).relocated_jobs > 10);
        sim_disk_read_waits(model.disk, NULL, 0);
        model_fini(&model); /* while it may be reading */
    }
}

static void the_table_of_segments_does_not_grow_with_those_that_are_gone(void **state)
{
    (void)state;
    struct bed bed;
    make_bed(&bed);
    churn(&bed.model, CHURN);
    let_clean(&bed.model);
    const struct segments *segments = bed.model.store->segments;
    assert_true(segments->number_next > 300);
    assert_true(segments->number_next - segments->number_base < 150);
    model_fini(&bed.model);
}

/* It is read once, and then goes: in the page cache it would take new pages. */
static void a_log_written_past_the_page_cache_is_read_past_it(void **state)
{
    (void)state;
    struct bed bed;
    make_bed(&bed);
    churn(&bed.model, CHURN);
    let_clean(&bed.model);
    uint64_t loose = 0;
    for (uint32_t number = 1; number < bed.model.store->segments->number_next; number++) {
        char name[DISK_NAME_MAX];
        segment_name(number, name);
        loose += sim_disk_loose_reads(bed.model.disk, name);
    }
    assert_true(stats_of(&bed.model).checkpoints > 20);
    assert_int_equal(sim_disk_direct_reads(bed.model.disk) > 0, direct);
    assert_true(!direct || loose == 0);
    model_fini(&bed.model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_of_segments_does_not_grow_with_those_that_are_gone),
        cmocka_unit_test(a_read_that_fails_for_a_while_stops_cleaning_for_no_longer),
        cmocka_unit_test(p8_cleaning_goes_round_a_flipped_byte_of_a_live_job),
        cmocka_unit_test(p8_cleaning_goes_round_a_place_that_can_never_be_read),
        cmocka_unit_test(p8_a_flipped_byte_does_not_fill_a_store_with_a_limit),
        cmocka_unit_test(damage_that_touches_no_live_job_is_cleaned_away),
        cmocka_unit_test(p2_a_cut_before_the_damaged_segment_is_set_aside_keeps_it),
        cmocka_unit_test(a_turn_cleans_a_small_slice),
        cmocka_unit_test(p8_cleaning_never_waits_for_the_disk_in_a_turn),
        cmocka_unit_test(a_log_written_past_the_page_cache_is_read_past_it),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    cold = true;
    failed += cmocka_run_group_tests(tests, NULL, NULL);
    direct = true;
    return failed + cmocka_run_group_tests(tests, NULL, NULL);
}
