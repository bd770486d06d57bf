/* Between reserving and handing out: leases that start again, and what will be reserved next. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "core_bed.h"

enum { SECOND = 1000000, START = 1000 * SECOND, TTR = 10 * SECOND };

static struct core_bed bed;

static int setup(void **state)
{
    (void)state;
    core_bed_open(&bed, (struct core_limits){.jobs = 1000, .topics = 100, .waiters = 100}, START);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    core_bed_close(&bed);
    return mem_used() == 0 ? 0 : -1;
}

static uint64_t push(uint32_t priority, int64_t due_us)
{
    struct cmd_push push = {
        .topic = BYTES("t"), .due_us = due_us, .ttr_us = TTR, .priority = priority};
    (void)core_apply(bed.core, START, &(struct cmd){.kind = CMD_PUSH, .push = push}, &bed);
    assert_int_equal(bed.reply.err, OK);
    return bed.first.ref.seq;
}

static enum err reserve(int64_t now_us)
{
    const struct bytes topic = BYTES("t");
    struct cmd cmd = {.kind = CMD_RESERVE,
                      .reserve = {.topics = &topic, .topic_count = 1, .max = 1}};
    (void)core_apply(bed.core, now_us, &cmd, &bed);
    return bed.reply.err;
}

static void p4_a_restarted_lease_is_held_for_the_whole_ttr(void **state)
{
    (void)state;
    uint64_t seq = push(0, START);
    int64_t until_us = 0;
    assert_int_equal(reserve(START), OK);
    uint64_t lease = bed.first.lease;
    int64_t late_us = START + TTR - 1;
    assert_true(core_restart_lease(bed.core, late_us, seq, lease, TTR, &until_us));
    assert_int_equal(until_us, late_us + TTR);
    (void)core_tick(bed.core, START + TTR, 1000); /* when the first would have ended */
    assert_int_equal(reserve(until_us - 1), ERR_EMPTY);
    (void)core_tick(bed.core, until_us, 1000);
    assert_int_equal(reserve(until_us), OK); /* a failed attempt: it is ready again */
    assert_true(bed.first.lease != lease);
    assert_int_equal(bed.first.failures, 1);
}

static void a_lease_runs_for_as_long_as_its_holder_is_told(void **state)
{
    (void)state;
    uint64_t seq = push(0, START);
    int64_t until_us = 0;
    assert_int_equal(reserve(START), OK);
    assert_true(core_restart_lease(bed.core, START, seq, bed.first.lease, 3 * TTR, &until_us));
    assert_int_equal(until_us, START + 3 * TTR);
    assert_true(core_restart_lease(bed.core, START, seq, bed.first.lease, TTR / 2, &until_us));
    assert_int_equal(until_us, START + TTR / 2);
    assert_true(core_restart_lease(bed.core, START, seq, bed.first.lease, INT64_MAX, &until_us));
    assert_int_equal(until_us, INT64_MAX);
}

static void a_lease_that_is_not_the_jobs_any_more_is_not_restarted(void **state)
{
    (void)state;
    uint64_t seq = push(0, START);
    int64_t until_us = -1;
    assert_int_equal(reserve(START), OK);
    uint64_t lease = bed.first.lease;
    assert_false(core_restart_lease(bed.core, START, seq, lease + 1, TTR, &until_us));
    assert_false(core_restart_lease(bed.core, START, seq + 1, lease, TTR, &until_us));
    (void)core_tick(bed.core, START + TTR, 1000);
    assert_false(core_restart_lease(bed.core, START + TTR, seq, lease, 1, &until_us)); /* ready */
    assert_int_equal(reserve(START + TTR), OK);
    assert_false(core_restart_lease(bed.core, START + TTR, seq, lease, 1, &until_us));
    struct cmd finish = {.kind = CMD_FINISH, .job = {.ref.seq = seq, .lease = bed.first.lease}};
    lease = bed.first.lease;
    (void)core_apply(bed.core, START + TTR, &finish, &bed);
    assert_int_equal(bed.reply.err, OK);
    assert_false(core_restart_lease(bed.core, START + TTR, seq, lease, 1, &until_us));
    assert_int_equal(until_us, -1); /* nothing was said */
}

static void what_is_next_comes_in_the_order_in_which_it_is_reserved(void **state)
{
    enum { JOBS = 100 };
    (void)state;
    const struct job *next[NEXT_READY_MAX];
    uint64_t expected[NEXT_READY_MAX];
    assert_int_equal(core_next_ready(bed.core, BYTES("t"), next, NEXT_READY_MAX), 0);
    push(0, START + SECOND); /* delayed: it is none of them */
    for (uint32_t i = 0; i < JOBS; i++)
        push(i * 7919 % 50, START - (int64_t)(i * 104729 % 1000));
    assert_int_equal(core_next_ready(bed.core, BYTES("u"), next, NEXT_READY_MAX), 0);
    assert_int_equal(core_next_ready(bed.core, BYTES("t"), next, 0), 0);
    for (uint32_t left = JOBS; left > 0;) {
        uint32_t count = core_next_ready(bed.core, BYTES("t"), next, NEXT_READY_MAX);
        assert_int_equal(count, left < NEXT_READY_MAX ? left : NEXT_READY_MAX);
        for (uint32_t i = 0; i < count; i++)
            expected[i] = next[i]->seq;
        for (uint32_t i = 0; i < count; i++, left--) {
            assert_int_equal(reserve(START), OK);
            assert_int_equal(bed.first.ref.seq, expected[i]);
        }
    }
    assert_int_equal(core_next_ready(bed.core, BYTES("t"), next, NEXT_READY_MAX), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(p4_a_restarted_lease_is_held_for_the_whole_ttr, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_lease_runs_for_as_long_as_its_holder_is_told, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_lease_that_is_not_the_jobs_any_more_is_not_restarted,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_next_comes_in_the_order_in_which_it_is_reserved,
                                        setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
