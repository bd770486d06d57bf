/*
 * Far jobs over a restart with a clock that was set back: what was due stays ready, also if it is
 * not in memory, and what was not due waits (P10, P3).
 */
#include "embedded_far_bed.h"

enum { DUE_JOBS = JOBS / 7 + 1 }; /* those of number % 7 == 0: the others come days later */

static int64_t ready_us(void)
{
    return START_US + 3 * HOUR_US;
}

/* Ends the process, in order or not, and begins the next with this time. */
static void restart_at(bool killed, int64_t now_us)
{
    if (killed)
        sim_disk_cut_at(bed.disk, sim_disk_points(bed.disk));
    sim_disk_eager(bed.disk, true);
    embedded_close(bed.embedded);
    if (killed)
        sim_disk_kill(bed.disk);
    bed.loop.now_us = now_us;
    open_engine();
    rest(1000);
    bed.loop.now_us += 5 * SECOND_US;
    rest(50); /* the time is logged */
    core_valid(embedded_core(bed.embedded));
}

static void check_counts(unsigned ready)
{
    assert_int_equal(totals().jobs[JOB_READY], ready);
    assert_int_equal(totals().jobs[JOB_DELAYED], JOBS - DUE_JOBS);
}

/* Some of the due ones stay in memory, or all do, or none. */
static void fill_and_let_fall_due(bool cold, uint64_t ready_stay)
{
    memset(&bed, 0, sizeof(bed));
    bed.falls_due = true;
    bed.ready_stay = ready_stay;
    fill(cold);
    assert_int_equal(totals().far, JOBS);
    bed.loop.now_us = ready_us();
    rest(1000);
    check_counts(DUE_JOBS);
    bed.loop.now_us += 5 * SECOND_US;
    rest(50); /* the time is logged */
}

static void end(void)
{
    sim_disk_eager(bed.disk, true);
    embedded_close(bed.embedded);
    sim_disk_free(bed.disk);
    assert_int_equal(mem_used(), 0);
}

static void p10_what_was_due_stays_ready_when_the_clock_is_set_back_at_a_restart(void **state)
{
    static const uint64_t stays[] = {0, 10, JOBS};
    (void)state;
    for (unsigned way = 0; way < 12; way++) {
        bool killed = way % 2, cold = way / 2 % 2;
        fill_and_let_fall_due(cold, stays[way / 4]);
        restart_at(killed, START_US + HOUR_US);
        check_counts(DUE_JOBS);
        /* What the first restart knows the others must know, too. */
        restart_at(killed, START_US + HOUR_US / 2);
        check_counts(DUE_JOBS);
        restart_at(killed, START_US - 1000 * HOUR_US);
        check_counts(DUE_JOBS);
        end();
    }
}

/* Those that come after the clock was set back wait for it: their slice is a new one, though its
   times are before what the clock said once. */
static void p3_who_comes_after_the_clock_was_set_back_waits(void **state)
{
    enum { MORE = 30 };
    int64_t due_us = START_US + 5 * HOUR_US / 2; /* before ready_us() */
    (void)state;
    for (unsigned way = 0; way < 4; way++) {
        bool killed = way % 2;
        fill_and_let_fall_due(way / 2, way ? JOBS : 0);
        restart_at(killed, START_US + HOUR_US / 2);
        for (unsigned i = 0; i < MORE; i++)
            assert_int_equal(push(JOBS + i, due_us + i * SECOND_US, IF_EXISTS_REJECT), OK);
        grow_log();
        assert_true(totals().far >= MORE); /* they, and what else has not come */
        restart_at(killed, START_US + HOUR_US / 2 + 100 * SECOND_US);
        assert_int_equal(ask_job(CMD_GET, JOBS), OK);
        assert_int_equal(bed.answer.job.state, JOB_DELAYED);
        bed.loop.now_us = due_us - SECOND_US;
        rest(1000);
        assert_int_equal(ask_job(CMD_GET, JOBS), OK);
        assert_int_equal(bed.answer.job.state, JOB_DELAYED);
        bed.loop.now_us = due_us;
        rest(10);
        assert_int_equal(ask_job(CMD_GET, JOBS), OK);
        assert_int_equal(bed.answer.job.state, JOB_READY);
        end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(p10_what_was_due_stays_ready_when_the_clock_is_set_back_at_a_restart),
        cmocka_unit_test(p3_who_comes_after_the_clock_was_set_back_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
