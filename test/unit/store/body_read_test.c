/*
 * Bodies that the disk's threads read: neighbours together, each for its job, whatever fails and
 * whatever moves meanwhile.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "store/internal.h"
#include "store/record.h"
#include "store_model.h"
#include "store_work.h"

enum { JOBS = 200, LATE_BYTES = 400 * 1000 };

struct bed {
    struct model model;
    struct model_fetch fetches[JOBS];
    unsigned count;
};

/* A store with so many jobs, none of them in memory. */
static void make_bed_of(struct bed *bed, unsigned jobs, uint64_t segment_bytes)
{
    struct model *model = &bed->model;
    *bed = (struct bed){0};
    model_init(model, 7);
    model->options.recent_bytes = 1;
    model->options.segment_bytes = segment_bytes;
    model->options.files_max = 4;
    assert_int_equal(model_open(model), OK);
    while (model->job_count < jobs)
        assert_int_equal(model_push(model), OK);
    model_settle(model);
    model_close(model);
    assert_int_equal(model_open(model), OK);
    model_settle(model);
    sim_disk_cold(model->disk, true);
    bed->count = jobs;
}

static void make_bed(struct bed *bed, unsigned jobs)
{
    make_bed_of(bed, jobs, 1024 * 1024);
}

static void free_bed(struct bed *bed)
{
    model_close(&bed->model);
    model_fini(&bed->model);
}

static struct body_place place_of(const struct bed *bed, unsigned i)
{
    static char room[MODEL_ROOM];
    const struct model_job *job = &bed->model.jobs[i];
    size_t len = model_body(&bed->model, job->seq, job->version, room).len;
    return (struct body_place){job->seq, job->stored.where, 4, len, 0, false};
}

static void fetch(struct bed *bed, unsigned i)
{
    bed->fetches[i] =
        (struct model_fetch){.fetch = {.place = place_of(bed, i), .done = model_fetched}};
    store_fetch(bed->model.store, &bed->fetches[i].fetch);
}

/* The right body for the job; then it is given back. */
static void expect_body(struct bed *bed, unsigned i)
{
    static char room[MODEL_ROOM];
    const struct model_job *job = &bed->model.jobs[i];
    struct body_fetch *got = &bed->fetches[i].fetch;
    assert_true(bed->fetches[i].ended);
    assert_int_equal(got->err, OK);
    assert_true(bytes_eq(got->content.content_type, BYTES("text")));
    assert_true(bytes_eq(got->content.body, model_body(&bed->model, job->seq, job->version, room)));
    store_fetch_end(bed->model.store, got);
}

static void turn(struct bed *bed)
{
    bed->model.now_us += 1000;
    store_turn(bed->model.store, bed->model.now_us);
    body_reads_valid(bed->model.store->body_reads);
}

/* Ends one read. False: none is under way. */
static bool end_read(struct bed *bed)
{
    bool ended = sim_disk_step(bed->model.disk, LANE_READ);
    store_poll(bed->model.store);
    body_reads_valid(bed->model.store->body_reads);
    return ended;
}

static unsigned run(struct bed *bed)
{
    unsigned reads = 0;
    for (turn(bed); end_read(bed); turn(bed))
        reads++;
    return reads;
}

static void neighbours_are_read_together(void **state)
{
    (void)state;
    struct bed bed;
    make_bed(&bed, JOBS);
    for (unsigned i = 0; i < JOBS; i++)
        fetch(&bed, i);
    assert_in_range(run(&bed), 1, JOBS / 10);
    for (unsigned i = 0; i < JOBS; i++)
        expect_body(&bed, i);
    assert_int_equal(store_cold_reads(bed.model.store), JOBS);
    struct arena arena = {0};
    struct body_content content;
    struct body_place place = place_of(&bed, JOBS / 2); /* it is kept */
    assert_int_equal(store_read(bed.model.store, &place, &arena, &content), OK);
    assert_true(store_wants_read_ahead(bed.model.store));
    assert_false(store_wants_read_ahead(bed.model.store));
    arena_fini(&arena);
    free_bed(&bed);
}

/* A reserve of hundreds of jobs looks for each of their bodies. */
static void a_body_is_found_without_looking_at_all_reads_that_are_kept(void **state)
{
    enum { READS = 180, APART = 40, LOOKS_MAX = 20 };
    (void)state;
    struct bed bed;
    struct arena arena = {0};
    struct body_content content;
    make_bed_of(&bed, READS * APART, 1024 * 1024);
    unsigned reads = 0;
    for (unsigned i = 0; i < READS; i++) { /* one after the other: each has a read of its own */
        struct model_fetch one = {
            .fetch = {.place = place_of(&bed, i * APART), .done = model_fetched}};
        store_fetch(bed.model.store, &one.fetch);
        reads += run(&bed);
        assert_true(one.ended);
        store_fetch_end(bed.model.store, &one.fetch);
    }
    assert_true(reads > READS / 2);
    uint64_t before = body_reads_looks(bed.model.store->body_reads);
    for (unsigned i = 0; i < READS; i++) {
        struct body_place place = place_of(&bed, i * APART);
        assert_int_equal(store_read(bed.model.store, &place, &arena, &content), OK);
    }
    uint64_t looks = body_reads_looks(bed.model.store->body_reads) - before;
    assert_true(looks >= READS && looks <= (uint64_t)READS * LOOKS_MAX);
    arena_fini(&arena);
    free_bed(&bed);
}

static void what_is_read_ahead_is_there_when_it_is_wanted(void **state)
{
    (void)state;
    struct bed bed;
    struct body_place places[20];
    make_bed(&bed, JOBS);
    for (unsigned i = 0; i < 20; i++)
        places[i] = place_of(&bed, 10 * i);
    store_read_ahead(bed.model.store, places, 20);
    (void)run(&bed);
    struct arena arena = {0};
    struct body_content content;
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(store_read(bed.model.store, &places[i], &arena, &content), OK);
    arena_fini(&arena);
    free_bed(&bed);
}

static void a_bad_sector_costs_no_neighbour(void **state)
{
    enum { BAD = JOBS / 2 };
    (void)state;
    struct bed bed;
    char name[DISK_NAME_MAX];
    make_bed(&bed, JOBS);
    uint64_t where = bed.model.jobs[BAD].stored.where;
    segment_name(where_segment(where), name);
    sim_disk_bad(bed.model.disk, name, where_offset(where), where_offset(where) + 1);
    for (unsigned i = 0; i < JOBS; i++)
        fetch(&bed, i);
    (void)run(&bed);
    for (unsigned i = 0; i < JOBS; i++)
        if (i != BAD)
            expect_body(&bed, i);
    assert_int_equal(bed.fetches[BAD].fetch.err, ERR_IO);
    store_fetch_end(bed.model.store, &bed.fetches[BAD].fetch);
    sim_disk_bad(bed.model.disk, "", 0, 0);
    free_bed(&bed);
}

static void a_changed_bit_is_damage_and_no_error_of_the_disk(void **state)
{
    (void)state;
    struct bed bed;
    char name[DISK_NAME_MAX];
    make_bed(&bed, 3);
    uint64_t where = bed.model.jobs[1].stored.where;
    segment_name(where_segment(where), name);
    assert_true(sim_disk_flip(bed.model.disk, name, (where_offset(where) + RECORD_JOB_HEAD) * 8));
    for (unsigned i = 0; i < 3; i++)
        fetch(&bed, i);
    (void)run(&bed);
    expect_body(&bed, 0);
    expect_body(&bed, 2);
    assert_int_equal(bed.fetches[1].fetch.err, ERR_DAMAGED);
    store_fetch_end(bed.model.store, &bed.fetches[1].fetch);
    assert_true(sim_disk_flip(bed.model.disk, name, (where_offset(where) + RECORD_JOB_HEAD) * 8));
    free_bed(&bed);
}

static void without_a_descriptor_a_read_waits(void **state)
{
    (void)state;
    struct bed bed;
    make_bed_of(&bed, JOBS, 16 * 1024); /* many segments: the first one's file is not open */
    sim_disk_starve(bed.model.disk, true);
    fetch(&bed, 0);
    turn(&bed);
    assert_true(end_read(&bed));
    assert_false(bed.fetches[0].ended);
    assert_true(store_next_us(bed.model.store) < INT64_MAX);
    sim_disk_starve(bed.model.disk, false);
    bed.model.now_us += LOG_REOPEN_US;
    (void)run(&bed);
    expect_body(&bed, 0);
    free_bed(&bed);
}

/* Fetches are ended in every state, in a random order, while reads end in a random order. */
static void a_fetch_may_be_ended_at_any_time(void **state)
{
    (void)state;
    struct bed bed;
    make_bed(&bed, JOBS);
    struct model *model = &bed.model;
    sim_disk_shuffle_reads(model->disk, 5);
    for (unsigned round = 0; round < 50; round++) {
        bool asked[JOBS] = {false};
        for (unsigned step = 0; step < 400; step++) {
            unsigned i = (unsigned)model_random(model, JOBS);
            uint64_t dice = model_random(model, 10);
            if (asked[i] && bed.fetches[i].ended) {
                expect_body(&bed, i);
                asked[i] = false;
            } else if (!asked[i]) {
                fetch(&bed, i);
                asked[i] = true;
            } else if (dice < 5) {
                store_fetch_end(model->store, &bed.fetches[i].fetch);
                asked[i] = false;
            }
            if (dice > 6)
                turn(&bed);
            if (dice > 7)
                (void)end_read(&bed);
        }
        for (unsigned i = 0; i < JOBS; i++)
            if (asked[i])
                store_fetch_end(model->store, &bed.fetches[i].fetch);
        (void)run(&bed);
    }
    free_bed(&bed);
}

static void a_segment_stays_until_its_bodies_have_been_read(void **state)
{
    (void)state;
    struct bed bed;
    make_bed(&bed, 20);
    struct model *model = &bed.model;
    uint32_t number = where_segment(model->jobs[0].stored.where);
    struct model_job old = model->jobs[0];
    fetch(&bed, 0);
    bed.fetches[0].fetch.place.where = old.stored.where;
    for (unsigned i = 0; i < 20; i++) /* nothing lives there any more: it can go */
        model_end(model, &model->jobs[i]);
    for (unsigned i = 0; i < 3000 && segments_first(model->store->segments)->number == number;
         i++) {
        (void)model_push(model);
        model->now_us += 30000;
        store_turn(model->store, model->now_us);
        while (sim_disk_step(model->disk, LANE_COMMIT) ||
               sim_disk_step(model->disk, LANE_BACKGROUND))
            continue;
        store_poll(model->store);
        if (model->job_count > 40) /* the first of them too: the cleaner has nothing to read */
            model_end(model, &model->jobs[model->job_count - 21]);
    }
    assert_int_equal(segments_first(model->store->segments)->number,
                     number); /* the read does not end */
    (void)run(&bed);
    assert_true(bed.fetches[0].ended);
    assert_int_equal(bed.fetches[0].fetch.err, OK);
    store_fetch_end(model->store, &bed.fetches[0].fetch);
    model_settle(model);
    assert_int_not_equal(segments_first(model->store->segments)->number, number);
    free_bed(&bed);
}

/* Steps until the cleaner has asked the disk to remove the oldest segment. */
static void begin_removal(struct bed *bed)
{
    struct model *model = &bed->model;
    for (unsigned i = 0; i < 1000 && !cleaner_removing(model->store->cleaner); i++) {
        turn(bed);
        if (!cleaner_removing(model->store->cleaner) && !sim_disk_step(model->disk, LANE_COMMIT))
            (void)sim_disk_step(model->disk, LANE_BACKGROUND);
        store_poll(model->store);
    }
    assert_true(cleaner_removing(model->store->cleaner));
}

static void nothing_is_read_ahead_of_a_segment_that_goes(void **state)
{
    enum { FETCHES = 8 }; /* as many reads as can be under way */
    (void)state;
    struct bed bed;
    make_bed_of(&bed, JOBS, 16 * 1024); /* a read for each segment */
    struct model *model = &bed.model;
    struct body_place ahead = place_of(&bed, 0);
    uint32_t number = where_segment(ahead.where);
    uint32_t last = number;
    unsigned asked[FETCHES];
    unsigned count = 0;
    for (unsigned i = 0; i < JOBS && count < FETCHES; i++) {
        if (where_segment(model->jobs[i].stored.where) == last)
            continue;
        last = where_segment(model->jobs[i].stored.where);
        asked[count++] = i;
        fetch(&bed, i);
    }
    assert_int_equal(count, FETCHES);
    turn(&bed);
    store_read_ahead(model->store, &ahead, 1); /* waits for those */
    for (unsigned i = 0; i < JOBS && where_segment(model->jobs[i].stored.where) == number; i++)
        model_end(model, &model->jobs[i]);
    begin_removal(&bed);
    assert_true(end_read(&bed));
    turn(&bed); /* there is room for another read */
    while (sim_disk_step(model->disk, LANE_BACKGROUND))
        store_poll(model->store);
    (void)run(&bed);
    assert_int_not_equal(segments_first(model->store->segments)->number, number);
    for (unsigned i = 0; i < FETCHES; i++)
        expect_body(&bed, asked[i]);
    free_bed(&bed);
}

/* Appends a job of the model's store with a body of so many bytes, and has it written. */
static struct body_place write_job(struct bed *bed, size_t body_bytes)
{
    struct buf body = {0};
    buf_reserve(&body, body_bytes);
    memset(body.at, 'b', body_bytes);
    body.len = body_bytes;
    struct event event = {
        .kind = EVENT_JOB,
        .promised = true,
        .job = {.seq = 1000, .state = JOB_READY},
        .topic = BYTES("topic"),
        .content_type = BYTES("text"),
        .body = buf_bytes(&body),
    };
    struct stored stored = store_append(bed->model.store, &event);
    model_settle(&bed->model);
    buf_fini(&body);
    return (struct body_place){1000, stored.where, 4, body_bytes, 0, false};
}

/* 30 MB that are copied and checked, not in one turn; and not all there at a time. */
static void many_who_want_one_body_get_it_in_several_turns(void **state)
{
    enum { MANY = 300, LONE_LEN = 100 * 1000, TURN_BYTES = 512 * 1024, HELD_BYTES = 8 << 20 };
    (void)state;
    struct bed bed;
    struct model_fetch *all = mem_zalloc(MANY * sizeof(*all));
    make_bed(&bed, 1);
    struct store *store = bed.model.store;
    struct body_place place = write_job(&bed, LONE_LEN);
    for (unsigned i = 0; i < MANY; i++) {
        all[i].fetch = (struct body_fetch){.place = place, .done = model_fetched};
        store_fetch(store, &all[i].fetch);
    }
    turn(&bed);
    for (unsigned ended = 0, reads = 0; ended < MANY;) {
        unsigned before = ended;
        bool full = (size_t)before * LONE_LEN >= HELD_BYTES;
        reads += end_read(&bed);
        turn(&bed);
        while (ended < MANY && all[ended].ended) /* in the order in which they came */
            assert_int_equal(all[ended++].fetch.err, OK);
        assert_in_range(ended - before, 1, full ? 1 : TURN_BYTES / LONE_LEN + 1);
        assert_int_equal(reads, 1);
        assert_true(ended == MANY || store_next_us(store) <= bed.model.now_us);
    }
    for (unsigned i = 0; i < MANY; i++)
        store_fetch_end(store, &all[i].fetch);
    mem_free(all);
    free_bed(&bed);
}

/* Appends a job whose body the log takes over, and asks for that body. */
static void fetch_late(struct bed *bed, char *expected, struct model_fetch *out_fetch)
{
    struct buf memory = {0};
    for (size_t i = 0; i < LATE_BYTES; i++)
        expected[i] = (char)(i * 7 + i / 251);
    buf_add(&memory, expected, LATE_BYTES);
    struct event event = {
        .kind = EVENT_JOB,
        .promised = true,
        .job = {.seq = 1000, .state = JOB_READY},
        .topic = BYTES("topic"),
        .content_type = BYTES("text"),
        .body = buf_bytes(&memory),
        .memory = &memory,
    };
    struct stored stored = store_append(bed->model.store, &event);
    assert_null(memory.at);
    struct arena arena = {0};
    struct body_content content;
    *out_fetch = (struct model_fetch){
        .fetch = {.place = {1000, stored.where, 4, LATE_BYTES, 0, false}, .done = model_fetched}};
    assert_int_equal(store_read(bed->model.store, &out_fetch->fetch.place, &arena, &content),
                     ERR_AGAIN);
    arena_fini(&arena);
    store_fetch(bed->model.store, &out_fetch->fetch);
    turn(bed);
    assert_false(end_read(bed));
    assert_false(out_fetch->ended);
}

static void a_large_body_is_read_once_it_is_in_its_file(void **state)
{
    (void)state;
    struct bed bed;
    struct model_fetch late;
    char *expected = mem_alloc(LATE_BYTES);
    make_bed(&bed, 1);
    fetch_late(&bed, expected, &late);
    for (unsigned i = 0; i < 100 && !late.ended; i++) {
        if (!sim_disk_step(bed.model.disk, LANE_COMMIT))
            (void)sim_disk_step(bed.model.disk, LANE_BACKGROUND);
        store_poll(bed.model.store);
        turn(&bed);
        (void)end_read(&bed);
    }
    assert_true(late.ended);
    assert_int_equal(late.fetch.err, OK);
    assert_true(bytes_eq(late.fetch.content.body, bytes_of(expected, LATE_BYTES)));
    store_fetch_end(bed.model.store, &late.fetch);
    mem_free(expected);
    free_bed(&bed);
}

static void a_large_body_that_never_reaches_its_file_is_not_waited_for(void **state)
{
    (void)state;
    struct bed bed;
    struct model_fetch late;
    char *expected = mem_alloc(LATE_BYTES);
    make_bed(&bed, 1);
    fetch_late(&bed, expected, &late);
    store_fail(bed.model.store, EIO);
    assert_true(store_next_us(bed.model.store) <= bed.model.now_us);
    for (int i = 0; i < 2; i++) { /* also one that comes after the failure */
        turn(&bed);
        assert_true(late.ended);
        assert_int_equal(late.fetch.err, ERR_IO);
        store_fetch_end(bed.model.store, &late.fetch);
        if (i == 0) {
            late.ended = false;
            store_fetch(bed.model.store, &late.fetch);
        }
    }
    mem_free(expected);
    free_bed(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neighbours_are_read_together),
        cmocka_unit_test(a_body_is_found_without_looking_at_all_reads_that_are_kept),
        cmocka_unit_test(what_is_read_ahead_is_there_when_it_is_wanted),
        cmocka_unit_test(a_bad_sector_costs_no_neighbour),
        cmocka_unit_test(a_changed_bit_is_damage_and_no_error_of_the_disk),
        cmocka_unit_test(without_a_descriptor_a_read_waits),
        cmocka_unit_test(a_fetch_may_be_ended_at_any_time),
        cmocka_unit_test(a_segment_stays_until_its_bodies_have_been_read),
        cmocka_unit_test(nothing_is_read_ahead_of_a_segment_that_goes),
        cmocka_unit_test(many_who_want_one_body_get_it_in_several_turns),
        cmocka_unit_test(a_large_body_is_read_once_it_is_in_its_file),
        cmocka_unit_test(a_large_body_that_never_reaches_its_file_is_not_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
