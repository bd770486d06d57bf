/*
 * Blocks of far jobs merged into one order, with jobs taken, ended and cut off, beside a sorted
 * array that does the same.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "store/slices/far_merge.h"

enum { RUNS = 40, JOBS = 60, ALL = RUNS * JOBS, RECORD = 24, PAGE = 50 };

static uint32_t rnd_state;

static uint32_t rnd(uint32_t below)
{
    rnd_state = rnd_state * 1664525 + 1013904223;
    return (rnd_state >> 8) % below;
}

struct bed {
    struct far_merge merge;
    struct merge_job jobs[ALL]; /* in order */
    char records[ALL][RECORD];
};

static bool order_backwards;

static int by_place(const void *left, const void *right)
{
    const struct merge_job *a = left, *b = right;
    const struct far_merge merge = {.backwards = order_backwards};
    return far_merge_before(&merge, &a->place, &b->place)   ? -1
           : far_merge_before(&merge, &b->place, &a->place) ? 1
                                                            : 0;
}

/* Each block spans all times, as those of slices do that were filled one after the other. */
static struct bed *bed_new(bool backwards, uint32_t seed)
{
    struct bed *bed = mem_zalloc(sizeof(*bed));
    rnd_state = seed;
    order_backwards = backwards;
    bed->merge = (struct far_merge){.backwards = backwards};
    bed->merge.after =
        backwards ? (struct job_place){INT64_MAX, UINT64_MAX} : (struct job_place){INT64_MIN, 0};
    for (unsigned run = 0; run < RUNS; run++) {
        struct merge_job jobs[JOBS];
        for (unsigned i = 0; i < JOBS; i++) {
            unsigned number = run * JOBS + i;
            memset(bed->records[number], (int)(number % 251), RECORD);
            jobs[i] = (struct merge_job){
                .place = {(int64_t)rnd(ALL / 2) - ALL / 4, number + 1}, /* some at the same time */
                .where = number,
                .record = bed->records[number],
                .len = RECORD,
            };
        }
        order_backwards = false; /* as in a slice */
        qsort(jobs, JOBS, sizeof(*jobs), by_place);
        order_backwards = backwards;
        memcpy(&bed->jobs[run * JOBS], jobs, sizeof(jobs));
        far_merge_add(&bed->merge, jobs, JOBS);
        far_merge_valid(&bed->merge);
    }
    qsort(bed->jobs, ALL, sizeof(*bed->jobs), by_place);
    return bed;
}

static void bed_free(struct bed *bed)
{
    far_merge_fini(&bed->merge);
    mem_free(bed);
}

static void assert_next(struct bed *bed, unsigned number)
{
    const struct merge_job *next = far_merge_next(&bed->merge);
    assert_non_null(next);
    assert_int_equal(next->place.seq, bed->jobs[number].place.seq);
    assert_int_equal(next->where, bed->jobs[number].where);
    assert_memory_equal(next->record, bed->jobs[number].record, RECORD);
}

static void all_jobs_come_in_order(void **state)
{
    (void)state;
    for (int backwards = 0; backwards < 2; backwards++) {
        struct bed *bed = bed_new(backwards, 7);
        for (unsigned i = 0; i < ALL; i++) {
            assert_next(bed, i);
            far_merge_take(&bed->merge);
        }
        assert_null(far_merge_next(&bed->merge));
        far_merge_begin(&bed->merge, bed->jobs[ALL - 1].place);
        assert_int_equal(bed->merge.bytes, 0);
        bed_free(bed);
    }
}

/* Some of a page are used, some end: those behind are shown again, the others never. */
static void a_page_may_begin_within_the_last_one(void **state)
{
    (void)state;
    for (int backwards = 0; backwards < 2; backwards++) {
        struct bed *bed = bed_new(backwards, 11);
        static bool dead[ALL];
        memset(dead, 0, sizeof(dead));
        unsigned at = 0; /* the first that is to be shown */
        while (at < ALL) {
            unsigned shown = at;
            for (unsigned count = 0; count < PAGE && shown < ALL; shown++) {
                assert_next(bed, shown);
                dead[shown] |= rnd(4) == 0;
                if (dead[shown])
                    far_merge_drop(&bed->merge);
                else
                    far_merge_take(&bed->merge);
                count += !dead[shown];
                while (shown + 1 < ALL && dead[shown + 1])
                    shown++;
            }
            far_merge_valid(&bed->merge);
            unsigned used = at + rnd(shown - at + 1);
            struct job_place after = used ? bed->jobs[used - 1].place : bed->merge.after;
            assert_true(used == 0 || dead[used - 1] || far_merge_has(&bed->merge, &after));
            if (shown < ALL)
                assert_false(far_merge_has(&bed->merge, &bed->jobs[ALL - 1].place));
            far_merge_begin(&bed->merge, after);
            for (at = used; at < ALL && dead[at];)
                at++;
            far_merge_valid(&bed->merge);
        }
        bed_free(bed);
    }
}

/* Jobs are added between those of the last page: the next one begins anywhere within that. */
static void what_comes_between_jobs_of_the_last_page_is_returned(void **state)
{
    (void)state;
    for (int backwards = 0; backwards < 2; backwards++) {
        struct bed *bed = bed_new(backwards, 13);
        struct job_place after = bed->merge.after, last = after;
        uint64_t late = ALL;
        unsigned shown = 0, ended = 0;
        while (far_merge_next(&bed->merge)) {
            struct job_place taken[PAGE];
            unsigned count = 0;
            while (count < PAGE && far_merge_next(&bed->merge)) {
                struct job_place place = far_merge_next(&bed->merge)->place;
                bool ends = place.seq % 5 == 0;
                assert_true(far_merge_before(&bed->merge, &last, &place));
                last = taken[count] = place;
                count += !ends;
                if (ends)
                    far_merge_drop(&bed->merge);
                else
                    far_merge_take(&bed->merge);
            }
            struct job_place reached = count ? taken[count - 1] : after;
            far_merge_rewind(&bed->merge);
            far_merge_rewind(&bed->merge); /* another one comes */
            far_merge_valid(&bed->merge);
            assert_true(far_merge_has(&bed->merge, &after) && far_merge_has(&bed->merge, &reached));
            assert_false(far_merge_has(&bed->merge,
                                       &(struct job_place){last.due_us + (backwards ? -1 : 1), 0}));
            unsigned used = count > 1 && late < ALL + JOBS ? count / 2 : count;
            after = used ? taken[used - 1] : after;
            last = after;
            shown += used;
            if (late < ALL + JOBS) { /* right behind where the next page begins */
                struct merge_job job = {.place = {after.due_us + (backwards ? -1 : 1), ++late},
                                        .record = bed->records[0],
                                        .len = RECORD};
                far_merge_add(&bed->merge, &job, 1);
            }
            far_merge_begin(&bed->merge, after);
            far_merge_valid(&bed->merge);
        }
        for (uint64_t seq = 1; seq <= late; seq++)
            ended += seq % 5 == 0;
        assert_int_equal(shown + ended, late);
        assert_int_equal(bed->merge.bytes, 0);
        bed_free(bed);
    }
}

/* Half after half goes; what is left is the beginning, whole. */
static void what_is_cut_off_is_the_end(void **state)
{
    (void)state;
    for (int backwards = 0; backwards < 2; backwards++) {
        struct bed *bed = bed_new(backwards, 23);
        for (unsigned i = 0; i < 5; i++) {
            assert_next(bed, i);
            far_merge_take(&bed->merge);
        }
        size_t before = bed->merge.bytes, bytes = before;
        unsigned cuts = 0;
        for (; far_merge_cut_half(&bed->merge); cuts++) {
            assert_true(bed->merge.bytes < bytes && (cuts > 4 || bed->merge.bytes > before / 64));
            bytes = bed->merge.bytes;
            far_merge_valid(&bed->merge);
            assert_next(bed, 5);
            if (cuts == 1) { /* what comes later is cut, too */
                struct merge_job late = bed->jobs[ALL - 1];
                far_merge_add(&bed->merge, &late, 1);
                assert_int_equal(bed->merge.bytes, bytes);
            }
            if (bed->merge.bytes < before / 4)
                break;
        }
        assert_true(cuts >= 1);
        unsigned at = 5;
        for (; far_merge_next(&bed->merge); at++) {
            assert_next(bed, at);
            far_merge_take(&bed->merge);
        }
        assert_true(at > 20 && at < ALL / 2);
        assert_true(!far_merge_before(&bed->merge, &bed->merge.bound, &bed->jobs[at - 1].place));
        assert_true(far_merge_before(&bed->merge, &bed->merge.bound, &bed->jobs[at].place));
        far_merge_begin(&bed->merge, bed->jobs[at - 1].place);
        assert_int_equal(bed->merge.bytes, 0);
        far_merge_pass_bound(&bed->merge);
        bed_free(bed);
    }
}

/* All at one time: the numbers decide. */
static void jobs_of_one_time_are_cut_by_their_numbers(void **state)
{
    (void)state;
    static char record[RECORD];
    struct merge_job jobs[JOBS];
    struct far_merge merge = {.after = {INT64_MIN, 0}};
    for (unsigned i = 0; i < JOBS; i++)
        jobs[i] = (struct merge_job){.place = {5, i + 1}, .record = record, .len = RECORD};
    far_merge_add(&merge, jobs, JOBS);
    while (far_merge_cut_half(&merge))
        far_merge_valid(&merge);
    assert_int_equal(far_merge_next(&merge)->place.seq, 1);
    far_merge_take(&merge);
    assert_null(far_merge_next(&merge));
    far_merge_fini(&merge);
}

/* A turn that cuts, or frees all, goes through all runs: there are few, however many blocks. */
static void many_blocks_with_few_jobs_each_become_few_runs(void **state)
{
    (void)state;
    enum { BLOCKS = 20000, RUNS_MAX = 2000 };
    static char record[RECORD];
    struct far_merge merge = {.after = {INT64_MIN, 0}};
    struct job_place last = merge.after;
    unsigned shown = 0;
    rnd_state = 31;
    for (uint64_t block = 0; block < BLOCKS; block++) {
        /* The next page of those that go through them meanwhile: later jobs alone come. */
        int64_t from_us = last.due_us == INT64_MIN ? 0 : last.due_us + 1;
        struct merge_job job = {
            .place = {from_us + rnd(1000000), block + 1}, .record = record, .len = RECORD};
        far_merge_add(&merge, &job, 1);
        assert_true(merge.run_count <= RUNS_MAX);
        for (unsigned i = 0; i < PAGE && block % 100 == 99; i++, shown++) {
            assert_true(far_merge_before(&merge, &last, &far_merge_next(&merge)->place));
            last = far_merge_next(&merge)->place;
            far_merge_take(&merge);
        }
        if (block % 100 == 99)
            far_merge_begin(&merge, last);
        if (block % 1000 == 0)
            far_merge_valid(&merge);
    }
    for (; far_merge_next(&merge); shown++) {
        assert_true(far_merge_before(&merge, &last, &far_merge_next(&merge)->place));
        last = far_merge_next(&merge)->place;
        far_merge_take(&merge);
    }
    assert_int_equal(shown, BLOCKS);
    far_merge_fini(&merge);
}

/* Whatever was taken, or dropped, of it. */
static void a_merge_is_freed_in_steps(void **state)
{
    (void)state;
    for (unsigned taken = 0; taken < 3 * PAGE; taken += PAGE) {
        enum { STEP = 7 };
        struct bed *bed = bed_new(taken % 100 == 0, 41);
        for (unsigned i = 0; i < taken; i++) {
            if (rnd(5) == 0)
                far_merge_drop(&bed->merge);
            else
                far_merge_take(&bed->merge);
        }
        if (taken > PAGE) /* some of the page are shown again */
            far_merge_begin(&bed->merge, bed->jobs[PAGE].place);
        unsigned steps = 1;
        while (far_merge_free_some(&bed->merge, STEP))
            steps++;
        assert_true(steps >= bed->merge.taken_count / STEP && steps <= ALL / STEP);
        assert_int_equal(bed->merge.bytes, 0);
        bed_free(bed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_jobs_come_in_order),
        cmocka_unit_test(a_page_may_begin_within_the_last_one),
        cmocka_unit_test(what_comes_between_jobs_of_the_last_page_is_returned),
        cmocka_unit_test(what_is_cut_off_is_the_end),
        cmocka_unit_test(jobs_of_one_time_are_cut_by_their_numbers),
        cmocka_unit_test(many_blocks_with_few_jobs_each_become_few_runs),
        cmocka_unit_test(a_merge_is_freed_in_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
