/* Reads of many far jobs at once: all are given to the disk's threads together, as far as their
 * bytes allow, and long records one after the other beyond that. */
#include "slice_bed.h"
#include "store/slices/far_read.h"

enum {
    FETCHES = 2 * FAR_READS_UNDER_WAY_MAX,
    LONG_BYTES = 31 * 1000,
    LONG_FETCHES = FAR_READS_UNDER_WAY_MAX
};
enum { LONG_AT_ONCE = FAR_READS_BYTES / (LONG_BYTES + 256) };

struct reads {
    struct far_fetch fetches[FETCHES];
    unsigned count, ended;
};

static void ended(struct far_fetch *fetch)
{
    struct reads *reads = fetch->owner;
    reads->ended++;
}

/* Requests so many far jobs' records, none of which the page cache has. */
static void request(struct model *model, struct reads *reads, unsigned count)
{
    *reads = (struct reads){0};
    sim_disk_cold(model->disk, true);
    for (size_t i = 0; i < model->job_count && reads->count < count; i++) {
        if (!model->jobs[i].live || !model->jobs[i].far)
            continue;
        struct far_fetch *fetch = &reads->fetches[reads->count++];
        *fetch =
            (struct far_fetch){.where = model->jobs[i].stored.where, .done = ended, .owner = reads};
        store_far_fetch(model->store, fetch);
    }
    assert_int_equal(reads->count, count);
}

/* One turn; then the disk does all that it has been given. Returns how many reads that were. */
static unsigned turn(struct model *model)
{
    unsigned steps = 0;
    store_turn(model->store, model->now_us += 1000);
    store_valid(model->store);
    while (sim_disk_step(model->disk, LANE_READ))
        steps++;
    store_poll(model->store);
    return steps;
}

static void end(struct model *model, struct reads *reads)
{
    for (unsigned i = 0; i < reads->count; i++) {
        assert_int_equal(reads->fetches[i].err, OK);
        store_far_fetch_end(model->store, &reads->fetches[i]);
    }
    sim_disk_cold(model->disk, false);
    model_fini(model);
}

static void many_reads_are_given_to_the_disk_in_one_turn(void **state)
{
    (void)state;
    struct model model;
    struct reads reads;
    begin_far(&model, 3 * FETCHES);
    request(&model, &reads, FETCHES);
    assert_int_equal(turn(&model), FAR_READS_UNDER_WAY_MAX);
    assert_int_equal(reads.ended, FAR_READS_UNDER_WAY_MAX);
    assert_int_equal(turn(&model), FAR_READS_UNDER_WAY_MAX);
    assert_int_equal(reads.ended, FETCHES);
    end(&model, &reads);
}

static void long_records_are_read_within_their_memory(void **state)
{
    (void)state;
    struct model model;
    struct reads reads;
    far_model(&model, 5);
    model.delay_us = INT64_C(1000) * MODEL_DELAY_US;
    model.body_bytes = LONG_BYTES;
    model.options.body_max = LONG_BYTES;
    model.options.segment_bytes = 2 << 20;
    assert_int_equal(model_open(&model), OK);
    for (unsigned i = 0; i < 2 * LONG_FETCHES; i++) {
        assert_int_equal(model_push(&model), OK);
        model_turn(&model);
    }
    settle_for(&model, 3);
    request(&model, &reads, LONG_FETCHES);
    assert_int_equal(turn(&model), LONG_FETCHES); /* their first bytes */
    assert_int_equal(reads.ended, 0);
    unsigned turns = 0;
    for (; reads.ended < LONG_FETCHES; turns++)
        assert_in_range(turn(&model), 1, LONG_AT_ONCE);
    assert_int_equal(turns, (LONG_FETCHES + LONG_AT_ONCE - 1) / LONG_AT_ONCE);
    end(&model, &reads);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_reads_are_given_to_the_disk_in_one_turn),
        cmocka_unit_test(long_records_are_read_within_their_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
