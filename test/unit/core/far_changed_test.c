/* Far jobs that came back and changed: which of them may leave the slices that their records lie
 * in.
 */
#include "far_bed.h"

static void note(enum cmd_kind kind, struct cmd_job job)
{
    job.ref.seq = 1;
    job.note = BYTES("it failed");
    (void)core_apply(bed.core, START, &(struct cmd){.kind = kind, .job = job}, &bed);
    assert_int_equal(bed.reply.err, OK);
}

static enum changed_verdict relocate(const struct event *event, uint64_t where)
{
    return core_relocate_changed(bed.core, event, where, START + 10 * SECOND);
}

/* Only then can the cleaner take it to a slice of buried ones. */
static void a_buried_job_leaves_the_slice_that_it_came_from_if_it_may_leave_memory(void **state)
{
    (void)state;
    (void)run_returned_job();
    struct event event = record_of(1, "a");
    assert_int_equal(ask(CMD_RESERVE_JOB, 1), OK);
    assert_int_equal(relocate(&event, slice.where), CHANGED_WAITS);
    assert_int_equal(ask(CMD_BURY, 1), OK);
    assert_int_equal(relocate(&event, slice.where + 8), CHANGED_WAITS);
    assert_int_equal(relocate(&event, slice.where), CHANGED_LEAVES);
    assert_true(last.kind == EVENT_JOB && last.job.state == JOB_BURIED);
    assert_true(last.record.where == slice.where); /* which dies with it */
    assert_int_equal(ask(CMD_DELETE, 1), OK);
    assert_int_equal(relocate(&event, slice.where), CHANGED_WAITS);
    core_bed_close(&bed);
    (void)setup(NULL);
    (void)run_returned_job();
    assert_int_equal(ask(CMD_RESERVE_JOB, 1), OK);
    note(CMD_BURY, (struct cmd_job){0});
    assert_int_equal(bed.first.state, JOB_BURIED);
    assert_int_equal(relocate(&event, slice.where), CHANGED_STAYS);
}

/* The same of a ready one, unless consumers come to it soon. */
static void a_ready_job_leaves_the_slice_that_it_came_from_if_it_may_leave_memory(void **state)
{
    (void)state;
    struct core_limits one_stays = limits;
    struct event event = record_of(1, "a");
    one_stays.ready_in_memory = 1;
    core_bed_close(&bed);
    core_bed_open(&bed, one_stays, START);
    core_use_far_key(bed.core, KEY);
    bed.sink.emit = note_event;
    (void)run_returned_job();
    unsigned before = emitted;
    assert_int_equal(relocate(&event, slice.where), CHANGED_WAITS);
    assert_int_equal(emitted, before);
    assert_int_equal(push("b", START - SECOND), OK); /* it comes first */
    assert_int_equal(relocate(&event, slice.where), CHANGED_LEAVES);
    assert_true(last.kind == EVENT_JOB && last.job.state == JOB_READY && last.job.seq == 1);
    assert_true(last.record.where == slice.where); /* which dies with it */
    core_bed_close(&bed);
    (void)setup(NULL);
    (void)run_returned_job();
    assert_int_equal(ask(CMD_RESERVE_JOB, 1), OK);
    note(CMD_RELEASE, (struct cmd_job){.has_delay = true, .due_us = START + SECOND});
    assert_int_equal(relocate(&event, slice.where), CHANGED_WAITS);
    assert_int_equal(ask(CMD_RUN, 1), OK);
    assert_int_equal(relocate(&event, slice.where), CHANGED_STAYS);
    core_valid(bed.core);
}

/* The same of one that was put off, unless it is due soon. */
static void a_delayed_job_leaves_the_slice_that_it_came_from_if_it_was_put_off_for_long(
    void **state)
{
    (void)state;
    struct event event = record_of(1, "a");
    assert_int_equal(push("a", START + SECOND), OK);
    struct event back = depart(1, "a");
    assert_true(core_arrive(bed.core, &back));
    for (int64_t delay_s = 10; delay_s <= 11; delay_s++) {
        struct cmd later = {
            .kind = CMD_RESCHEDULE,
            .job = {.ref.seq = 1, .has_due = true, .due_us = START + delay_s * SECOND}};
        (void)core_apply(bed.core, START, &later, &bed);
        assert_int_equal(bed.reply.err, OK);
        assert_int_equal(relocate(&event, slice.where),
                         delay_s > 10 ? CHANGED_LEAVES : CHANGED_WAITS);
    }
    assert_true(last.kind == EVENT_JOB && last.job.state == JOB_DELAYED);
    assert_true(last.job.due_us == START + 11 * SECOND);
    assert_true(last.record.where == slice.where); /* which dies with it */
    core_valid(bed.core);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_buried_job_leaves_the_slice_that_it_came_from_if_it_may_leave_memory),
        TEST(a_ready_job_leaves_the_slice_that_it_came_from_if_it_may_leave_memory),
        TEST(a_delayed_job_leaves_the_slice_that_it_came_from_if_it_was_put_off_for_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
