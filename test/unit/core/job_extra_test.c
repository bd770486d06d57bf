/*
 * What only some jobs have, against a plain record of all of it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "core/job_extra.h"

enum { JOBS = 3000, STEPS = 200000 };

struct plain {
    struct job_counts counts;
    uint64_t lease;
    int64_t until_us;
};

static struct job jobs[JOBS];
static struct plain plain[JOBS];

static uint32_t below(uint64_t *random, uint32_t bound) /* splitmix64 */
{
    uint64_t mix = *random += 0x9e3779b97f4a7c15ull;
    mix = (mix ^ mix >> 30) * 0xbf58476d1ce4e5b9ull;
    mix = (mix ^ mix >> 27) * 0x94d049bb133111ebull;
    return (uint32_t)((mix ^ mix >> 31) % bound);
}

static bool counts_seldom(const struct job_counts *counts)
{
    return counts->timeouts || counts->releases || counts->buries || counts->kicks;
}

static void check(const struct pool *extras, const struct job *job, const struct plain *as)
{
    struct job_counts counts = job_counts(extras, job);
    assert_memory_equal(&counts, &as->counts, sizeof(counts));
    assert_int_equal(job_lease(extras, job), as->lease);
    assert_int_equal(job_until_us(extras, job), as->until_us);
    assert_true(job->extra || (!as->lease && !counts_seldom(&as->counts)));
}

static void change(struct pool *extras, uint32_t number, uint64_t *random)
{
    struct job *job = &jobs[number];
    struct plain *as = &plain[number];
    switch (below(random, 8)) {
    case 0:
    case 1:
    case 2:
        as->lease = 1 + below(random, 1000);
        as->until_us = (int64_t)below(random, 1000) - 500;
        job_set_lease(extras, job, as->lease, as->until_us);
        break;
    case 3:
    case 4:
        as->lease = 0;
        as->until_us = 0;
        job_drop_lease(extras, job);
        break;
    case 5:
        as->counts.releases++;
        as->counts.kicks += 2;
        job_rare_counts(extras, job)->releases++;
        job_rare_counts(extras, job)->kicks += 2;
        break;
    case 6:
        as->counts = (struct job_counts){.reserves = (uint16_t)below(random, 9),
                                         .timeouts = (uint16_t)below(random, 2),
                                         .buries = (uint16_t)below(random, 2)};
        job_set_counts(extras, job, &as->counts);
        break;
    default:
        *as = (struct plain){.counts.reserves = as->counts.reserves};
        job_drop_extra(extras, job);
    }
}

static void random_changes_match_a_plain_record(void **state)
{
    (void)state;
    struct pool extras;
    uint64_t random = 8;
    job_extras_init(&extras);
    memset(jobs, 0, sizeof(jobs));
    memset(plain, 0, sizeof(plain));
    for (int step = 0; step < STEPS; step++) {
        uint32_t number = below(&random, JOBS);
        change(&extras, number, &random);
        check(&extras, &jobs[number], &plain[number]);
        if (step % 20000 == 0)
            pool_valid(&extras);
    }
    for (uint32_t i = 0; i < JOBS; i++)
        job_drop_extra(&extras, &jobs[i]);
    assert_int_equal(extras.count, 0);
    pool_fini(&extras);
    assert_int_equal(mem_used(), 0);
}

static void a_reservation_alone_takes_sixteen_bytes_and_ends_with_the_lease(void **state)
{
    (void)state;
    struct pool extras;
    struct job job = {.seq = 1};
    job_extras_init(&extras);
    job_set_lease(&extras, &job, 7, 100);
    assert_int_equal(pool_bytes_of(&extras, job.extra - 1), 16);
    job_drop_lease(&extras, &job);
    assert_int_equal(extras.count, 0);
    job_set_lease(&extras, &job, 8, 200);
    job_rare_counts(&extras, &job)->buries++; /* the reservation goes along */
    assert_int_equal(pool_bytes_of(&extras, job.extra - 1), 24);
    assert_int_equal(job_lease(&extras, &job), 8);
    assert_int_equal(job_until_us(&extras, &job), 200);
    job_drop_lease(&extras, &job);
    assert_int_equal(job_counts(&extras, &job).buries, 1); /* for the rest of its life */
    assert_int_equal(extras.count, 1);
    job_drop_extra(&extras, &job);
    pool_fini(&extras);
    assert_int_equal(mem_used(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_changes_match_a_plain_record),
        cmocka_unit_test(a_reservation_alone_takes_sixteen_bytes_and_ends_with_the_lease),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
