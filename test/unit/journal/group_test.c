/* Batches of the log become one entry for each job and one for each change. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "journal/group.h"
#include "journal/sql.h"
#include "store/format.h"

static const uint8_t store[JOURNAL_STORE_BYTES] = {0x62, 0xc3, 0x89, 0xc1, 0x28, 0x56, 0x28, 0x27};

/* A batch being made. */
struct bed {
    struct group group;
    struct journal_batch *batches[64];
    unsigned count;
};

static int setup(void **state)
{
    struct bed *bed = mem_zalloc(sizeof(*bed));
    group_init(&bed->group, store, true);
    *state = bed;
    return 0;
}

static int teardown(void **state)
{
    struct bed *bed = *state;
    for (unsigned i = 0; i < bed->count; i++)
        mem_free(bed->batches[i]);
    group_fini(&bed->group);
    mem_free(bed);
    return 0;
}

/* Each event in a batch of its own; `copy`: one that the cleaner has written. */
static void add(struct bed *bed, const struct event *event, bool copy);

/* What a resync says: it is not of the log. */
static void add_resync(struct bed *bed, const struct event *event, enum journal_batch_kind kind)
{
    size_t len = event ? record_bytes(event) : 0;
    struct journal_batch *batch = mem_zalloc(sizeof(*batch) + BATCH_HEAD + len);
    uint64_t before = bed->group.batch;
    bed->batches[bed->count++] = batch;
    batch->kind = kind;
    batch->number = before + 1;
    batch->payload_bytes = (uint32_t)len;
    if (event)
        record_encode(event, len, batch->at + BATCH_HEAD);
    assert_int_equal(group_add(&bed->group, batch), OK);
    assert_int_equal(bed->group.batch, before);
}

static void add(struct bed *bed, const struct event *event, bool copy)
{
    size_t len = record_bytes(event);
    struct journal_batch *batch = mem_zalloc(sizeof(*batch) + BATCH_HEAD + len);
    bed->batches[bed->count++] = batch;
    batch->numbered = true;
    batch->number = bed->count;
    batch->clock_us = (int64_t)bed->count * 1000;
    batch->payload_bytes = (uint32_t)len;
    record_encode(event, len, batch->at + BATCH_HEAD);
    if (copy)
        record_mark_copy(batch->at + BATCH_HEAD);
    assert_int_equal(group_add(&bed->group, batch), OK);
}

static struct event job_event(const char *id, uint64_t seq, enum job_state state)
{
    return (struct event){.kind = EVENT_JOB,
                          .id = bytes_str(id),
                          .topic = BYTES("t"),
                          .body = BYTES("hello"),
                          .ttr_us = 1000000,
                          .job = {.seq = seq, .state = state, .due_us = 5000, .priority = 3}};
}

static struct event move_event(const char *id, enum job_state state, int64_t due_us)
{
    return (struct event){.kind = EVENT_MOVE,
                          .id = bytes_str(id),
                          .job = {.seq = 1,
                                  .state = state,
                                  .due_us = due_us,
                                  .priority = 9,
                                  .failures = 1,
                                  .lease = state == JOB_RESERVED ? 5 : 0,
                                  .until_us = state == JOB_RESERVED ? 6000 : 0}};
}

static struct event end_event(const char *id, enum event_end end)
{
    return (struct event){.kind = EVENT_GONE, .id = bytes_str(id), .job = {.seq = 1}, .end = end};
}

static void test_the_last_image_wins_and_all_changes_are_logged(void **state)
{
    struct bed *bed = *state;
    struct event first = job_event("a", 1, JOB_DELAYED), second = job_event("a", 2, JOB_READY);
    struct event end = end_event("a", END_DELETED);
    add(bed, &first, false);
    add(bed, &end, false);
    add(bed, &second, false);
    assert_int_equal(bed->group.job_count, 1);
    assert_int_equal(bed->group.log_count, 3);
    assert_int_equal(bed->group.jobs[0].change, GROUP_IMAGE);
    assert_int_equal(bed->group.jobs[0].status, STATUS_READY);
    assert_int_equal(bed->group.logs[1].status, STATUS_DELETED);
    assert_int_equal(bed->group.batch, 3);
}

static void test_an_image_that_ends_in_its_group_is_still_inserted(void **state)
{
    struct bed *bed = *state;
    struct event image = job_event("a", 1, JOB_READY), end = end_event("a", END_FINISHED);
    add(bed, &image, false);
    add(bed, &end, false);
    assert_int_equal(bed->group.jobs[0].change, GROUP_IMAGE);
    assert_int_equal(bed->group.jobs[0].status, STATUS_FINISHED);
    assert_int_equal(bed->group.jobs[0].due_us, 5000);
}

static void test_a_reservation_alone_changes_the_status_alone(void **state)
{
    struct bed *bed = *state;
    struct event reserved = move_event("a", JOB_RESERVED, 5000);
    struct event released = move_event("b", JOB_DELAYED, 9000);
    struct event taken_again = move_event("b", JOB_RESERVED, 9000);
    add(bed, &reserved, false);
    add(bed, &released, false);
    add(bed, &taken_again, false);
    assert_int_equal(bed->group.jobs[0].change, GROUP_STATUS);
    assert_int_equal(bed->group.jobs[1].change, GROUP_MOVE); /* its due time is new */
    assert_int_equal(bed->group.jobs[1].due_us, 9000);
    assert_int_equal(bed->group.jobs[1].priority, 9);
    assert_int_equal(bed->group.jobs[1].status, STATUS_READY);
}

static void test_a_resyncs_image_is_no_change_and_what_comes_behind_it_counts(void **state)
{
    struct bed *bed = *state;
    struct event image = job_event("a", 1, JOB_DELAYED), move = move_event("a", JOB_BURIED, 9000);
    struct event other = job_event("b", 2, JOB_BURIED), end = end_event("b", END_FINISHED);
    add_resync(bed, &image, JOURNAL_IMAGES);
    add_resync(bed, &other, JOURNAL_IMAGES);
    assert_int_equal(bed->group.log_count, 0);
    add(bed, &move, false);
    add(bed, &end, false);
    assert_int_equal(bed->group.log_count, 2);
    assert_int_equal(bed->group.jobs[0].change, GROUP_IMAGE);
    assert_int_equal(bed->group.jobs[0].status, STATUS_BURIED);
    assert_int_equal(bed->group.jobs[0].due_us, 9000);
    assert_int_equal(bed->group.jobs[1].status, STATUS_FINISHED);
}

static void test_a_row_without_a_job_ends_unless_something_comes_behind_it(void **state)
{
    struct bed *bed = *state;
    struct event a = end_event("a", END_DELETED), b = end_event("b", END_DELETED);
    struct event c = end_event("c", END_DELETED), d = end_event("d", END_DELETED);
    struct event push = job_event("b", 7, JOB_READY), move = move_event("c", JOB_DELAYED, 9000);
    struct event finished = end_event("d", END_FINISHED);
    add(bed, &finished, false);
    add_resync(bed, &a, JOURNAL_ABSENT);
    add_resync(bed, &b, JOURNAL_ABSENT);
    add_resync(bed, &c, JOURNAL_ABSENT);
    add_resync(bed, &d, JOURNAL_ABSENT);
    add(bed, &push, false);
    add(bed, &move, false);
    assert_int_equal(bed->group.log_count, 3);
    assert_int_equal(bed->group.jobs[0].change, GROUP_STATUS); /* d: its own end stays */
    assert_int_equal(bed->group.jobs[0].status, STATUS_FINISHED);
    assert_int_equal(bed->group.jobs[1].change, GROUP_ABSENT);
    assert_int_equal(bed->group.jobs[1].status, STATUS_DELETED);
    assert_int_equal(bed->group.jobs[2].change, GROUP_IMAGE);
    assert_int_equal(bed->group.jobs[2].status, STATUS_READY);
    assert_int_equal(bed->group.jobs[3].change, GROUP_MOVE);
    assert_int_equal(bed->group.jobs[3].status, STATUS_DELAYED);
}

static void test_a_resyncs_beginning_and_end_are_of_the_group(void **state)
{
    struct bed *bed = *state;
    add_resync(bed, NULL, JOURNAL_RESYNC_BEGINS);
    assert_true(bed->group.resync_begins && !bed->group.resync_ends);
    group_reset(&bed->group);
    assert_false(bed->group.resync_begins);
    add_resync(bed, NULL, JOURNAL_RESYNC_ENDS);
    assert_true(bed->group.resync_ends);
}

static void test_copies_are_no_changes(void **state)
{
    struct bed *bed = *state;
    struct event image = job_event("a", 1, JOB_READY);
    add(bed, &image, true);
    assert_int_equal(bed->group.job_count, 0);
    assert_int_equal(bed->group.batch, 1);
}

static void test_only_ends_are_logged_if_asked_for(void **state)
{
    struct bed *bed = *state;
    struct event image = job_event("a", 1, JOB_READY), end = end_event("a", END_FINISHED);
    bed->group.log_all = false;
    add(bed, &image, false);
    add(bed, &end, false);
    assert_int_equal(bed->group.log_count, 1);
}

static void test_ids_of_the_server_name_their_store(void **state)
{
    struct bed *bed = *state;
    struct event image = job_event("", 123, JOB_READY);
    char room[64];
    add(bed, &image, false);
    assert_true(bytes_eq(bed->group.jobs[0].id, BYTES("@123.62c389c128562827")));
    assert_int_equal(journal_id_read(BYTES("@123.62c389c128562827"), store), 123);
    assert_int_equal(journal_id_read(BYTES("@0.62c389c128562827"), store), 0);
    assert_int_equal(journal_id_read(BYTES("@0123.62c389c128562827"), store), 0);
    assert_int_equal(journal_id_read(BYTES("@123.62c389c128562828"), store), 0);
    assert_int_equal(journal_id_read(BYTES("@123"), store), 0);
    assert_int_equal(journal_id_read(BYTES("@.62c389c128562827"), store), 0);
    assert_int_equal(journal_id_read(BYTES(""), store), 0);
    assert_int_equal(journal_id_write(UINT64_MAX, store, room), 38);
}

static void test_many_jobs_are_found_again(void **state)
{
    struct bed *bed = *state;
    for (unsigned round = 0; round < 2; round++) {
        group_reset(&bed->group);
        struct journal_batch *batch = mem_zalloc(sizeof(*batch) + 400000);
        size_t at = 0;
        for (unsigned i = 0; i < 2000; i++) {
            struct event image = job_event("", 1 + i % 1500, JOB_READY);
            size_t len = record_bytes(&image);
            record_encode(&image, len, batch->at + BATCH_HEAD + at);
            at += len;
        }
        batch->numbered = true;
        batch->number = 1;
        batch->payload_bytes = (uint32_t)at;
        assert_int_equal(group_add(&bed->group, batch), OK);
        assert_int_equal(bed->group.job_count, 1500);
        assert_int_equal(bed->group.log_count, 2000);
        mem_free(batch);
    }
}

static void test_a_row_has_all_of_the_job(void **state)
{
    static const struct sql_place place = {.host = "h/1"};
    struct bed *bed = *state;
    struct event image = job_event("a", 1, JOB_DELAYED);
    struct buf out = {0};
    image.body = BYTES("\xff\x00x");
    image.properties = BYTES("{\"biz_key\":\"o\\\"1\",\"subtopic\":\"eu\",\"create_time\":2}");
    image.job.due_us = 5250;
    image.created_us = 1000;
    add(bed, &image, false);
    assert_int_equal(sql_add_job(&out, &bed->group.jobs[0], &place), OK);
    buf_add_char(&out, '\0');
    assert_string_equal(
        out.at,
        "('a','o\\\"1','t','eu',3,2,'/wB4',1,1,'1970-01-01 00:00:00.001','{\\\"laterd\\\":1,"
        "\\\"priority\\\":3,\\\"failures\\\":0,\\\"us\\\":250,\\\"body\\\":\\\"base64\\\","
        "\\\"properties\\\":\\\"{\\\\\\\"biz_key\\\\\\\":\\\\\\\"o\\\\\\\\\\\\\\\"1\\\\\\\","
        "\\\\\\\"subtopic\\\\\\\":\\\\\\\"eu\\\\\\\",\\\\\\\"create_time\\\\\\\":2}\\\"}')");
    buf_fini(&out);
}

static void test_a_batch_that_is_none_is_told(void **state)
{
    struct bed *bed = *state;
    struct journal_batch *batch = mem_zalloc(sizeof(*batch) + BATCH_HEAD + 64);
    bed->batches[bed->count++] = batch;
    batch->numbered = true;
    batch->number = 1;
    batch->payload_bytes = 64;
    assert_int_equal(group_add(&bed->group, batch), ERR_CORRUPT);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_the_last_image_wins_and_all_changes_are_logged),
        TEST(test_an_image_that_ends_in_its_group_is_still_inserted),
        TEST(test_a_reservation_alone_changes_the_status_alone),
        TEST(test_a_resyncs_image_is_no_change_and_what_comes_behind_it_counts),
        TEST(test_a_row_without_a_job_ends_unless_something_comes_behind_it),
        TEST(test_a_resyncs_beginning_and_end_are_of_the_group),
        TEST(test_copies_are_no_changes),
        TEST(test_only_ends_are_logged_if_asked_for),
        TEST(test_ids_of_the_server_name_their_store),
        TEST(test_many_jobs_are_found_again),
        TEST(test_a_row_has_all_of_the_job),
        TEST(test_a_batch_that_is_none_is_told),
    };
    return cmocka_run_group_tests_name("journal/group", tests, NULL, NULL);
}
