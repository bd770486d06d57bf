/*
 * How late far jobs become ready while the disk takes 20 ms for a read: after a start that finds
 * many blocks of slices due, and when blocks of many slices draw near at once. On a virtual clock;
 * nobody consumes the jobs, so that only the slices are read.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/mem.h"
#include "beanstalk_peer.h"
#include "core/core.h"
#include "server/server.h"
#include "store/stats.h"
#include "store/store.h"

enum {
    JOBS = 30000,
    PUT_AT_A_TIME = 500,
    BODY = 200,
    READ_US = 20 * 1000,
    STEP_US = 1000,
    TURN_MAX_US = 5000,
    FIRST_S = 2000, /* the first job is due so long after it was put */
};

/* How late each of the jobs became ready, those that are due first in front. */
struct lateness_seen {
    int64_t late_us[JOBS];
    unsigned ready;
};

static int64_t due_us[JOBS]; /* in order */

static int compare_times(const void *left, const void *right)
{
    const int64_t *one = left, *other = right;
    return *one < *other ? -1 : *one > *other;
}

/* Puts the jobs, due over `span_s` seconds, all of them spread alike over the log's segments. */
static void put_jobs(struct world *world, unsigned span_s)
{
    struct sim_peer *peer = join(world);
    struct buf puts = {0};
    for (unsigned put = 0; put < JOBS;) {
        int64_t now_us = world_now_us(world);
        for (unsigned i = 0; i < PUT_AT_A_TIME; i++, put++) {
            unsigned delay_s = FIRST_S + put * 7919 % span_s;
            due_us[put] = now_us + delay_s * (int64_t)SECOND_US;
            buf_addf(&puts, "put 0 %u 3600 %d\r\n%0*u\r\n", delay_s, BODY, BODY, put);
        }
        sim_peer_send(peer, buf_bytes(&puts));
        puts.len = 0;
        pass(world, 1000);
        sim_peer_take(peer, sim_peer_received(peer).len);
    }
    buf_fini(&puts);
    qsort(due_us, JOBS, sizeof(*due_us), compare_times);
}

static struct core_totals totals_of(const struct world *world)
{
    struct core_totals totals;
    core_totals(world_core(world), &totals);
    return totals;
}

/* A world whose jobs are nearly all far. */
static struct world *begin_far(unsigned span_s, int64_t horizon_us)
{
    struct world_options options = {.seed = 3, .read_us = READ_US, .horizon_us = horizon_us};
    options.checkpoint_bytes = 1;
    struct world *world = begin(&options);
    put_jobs(world, span_s);
    pass(world, 5 * SECOND_US);
    assert_true(totals_of(world).far > JOBS / 10 * 9);
    sim_disk_cold(world_disk(world), true);
    return world;
}

/* Runs until all jobs that are due by then are ready. */
static void watch(struct world *world, int64_t until_us, struct lateness_seen *seen)
{
    int64_t start_us = world_now_us(world);
    seen->ready = 0;
    while (seen->ready < JOBS &&
           (world_now_us(world) < until_us || due_us[seen->ready] < until_us)) {
        pass(world, STEP_US);
        int64_t now_us = world_now_us(world);
        uint64_t ready = totals_of(world).jobs[JOB_READY];
        assert_true(now_us < until_us + 600 * (int64_t)SECOND_US);
        for (; seen->ready < ready; seen->ready++) {
            int64_t from_us = due_us[seen->ready] > start_us ? due_us[seen->ready] : start_us;
            seen->late_us[seen->ready] = now_us - from_us; /* early ones: below 0 */
        }
    }
}

static int64_t share_of(struct lateness_seen *seen, unsigned percent)
{
    qsort(seen->late_us, seen->ready, sizeof(*seen->late_us), compare_times);
    return seen->late_us[(size_t)(seen->ready - 1) * percent / 100];
}

static uint64_t long_turns(const struct world *world)
{
    const struct server_counts *counts = &world_server(world)->counts;
    uint64_t count = 0;
    for (unsigned bucket = 0; bucket < TURN_BUCKETS; bucket++)
        if (turn_bound_us(bucket) > TURN_MAX_US)
            count += counts->turn_us[bucket];
    return count;
}

static void tell(const struct world *world, const char *what, struct lateness_seen *seen)
{
    struct store_stats stats;
    store_stats(world_store(world), &stats);
    print_message("%s: %u jobs, %llu slices: half %lld ms late, 99 in 100 %lld, the latest %lld\n",
                  what, seen->ready, (unsigned long long)stats.slices,
                  (long long)share_of(seen, 50) / 1000, (long long)share_of(seen, 99) / 1000,
                  (long long)share_of(seen, 100) / 1000);
    assert_int_equal(long_turns(world), 0);
}

static struct lateness_seen seen;

/* Half of the jobs have fallen due while laterd was down, others do so afterwards. */
static void after_a_start_far_jobs_do_not_wait_for_one_read_after_the_other(void **state)
{
    enum { SPAN_S = 600, LATE_MAX_US = 1000 * 1000 };
    (void)state;
    struct world *world = begin_far(SPAN_S, 120 * (int64_t)SECOND_US);
    int64_t middle_us = due_us[JOBS / 2];
    world_crash(world, WORLD_KILL);
    world_set_clock(world, middle_us);
    assert_int_equal(world_boot(world), OK);
    middle_us = world_now_us(world);
    watch(world, middle_us + 10 * (int64_t)SECOND_US, &seen);
    tell(world, "after a start", &seen);
    assert_true(seen.ready >= JOBS / 2);
    assert_true(share_of(&seen, 100) < LATE_MAX_US);
    world_free(world);
}

/* All are due within some seconds, and are brought half a second before. */
static void many_slices_that_draw_near_at_once_come_in_time(void **state)
{
    enum { SPAN_S = 5, LATE_MAX_US = READ_US };
    (void)state;
    struct world *world = begin_far(SPAN_S, SECOND_US);
    pass(world, due_us[0] - 2 * (int64_t)SECOND_US - world_now_us(world));
    watch(world, due_us[JOBS - 1] + SECOND_US, &seen);
    tell(world, "as they draw near", &seen);
    assert_int_equal(seen.ready, JOBS);
    assert_true(share_of(&seen, 100) < LATE_MAX_US);
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(after_a_start_far_jobs_do_not_wait_for_one_read_after_the_other),
        cmocka_unit_test(many_slices_that_draw_near_at_once_come_in_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
