/*
 * Jobs are found by both their names, and only while they are there.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/mem.h"
#include "core/index.h"
#include "test/unit/support/every.h"

enum { JOBS = 5000 };

static uint32_t make(struct pool *jobs, uint64_t seq, const char *id)
{
    struct bytes text = bytes_str(id);
    uint32_t number = job_take(jobs, text.len);
    struct job *job = pool_at(jobs, number);
    *job = (struct job){.seq = seq};
    job_id_set(job, text);
    job_move(job, JOB_DELAYED);
    return number;
}

static void a_job_is_found_by_id_and_by_number(void **state)
{
    (void)state;
    static uint32_t numbers[JOBS];
    struct pool jobs;
    struct index index;
    char id[40];
    job_pool_init(&jobs);
    index_init(&index, &jobs, 99);
    for (uint64_t i = 0; i < JOBS; i++) {
        /* every third has no id of its own, every fifth a long one */
        (void)snprintf(id, sizeof(id), i % 5 ? "%llu" : "a-long-id-that-takes-more-%llu",
                       (unsigned long long)i);
        numbers[i] = make(&jobs, i + 1, i % 3 ? id : "");
        index_add(&index, numbers[i]);
    }
    index_valid(&index);
    struct bytes seven = BYTES("7");
    assert_int_equal(index_find(&index, &(struct job_ref){.id = seven}), numbers[7]);
    assert_int_equal(index_find(&index, &(struct job_ref){.id = seven, .seq = 1}), numbers[7]);
    assert_int_equal(index_find(&index, &(struct job_ref){.id = BYTES("6")}), POOL_NONE);
    assert_int_equal(index_find(&index, &(struct job_ref){.seq = JOBS + 1}), POOL_NONE);
    for (uint32_t i = 0; i < JOBS; i++) {
        struct job *job = pool_at(&jobs, numbers[i]);
        uint64_t seq = job->seq;
        index_remove(&index, numbers[i]);
        assert_int_equal(index_find(&index, &(struct job_ref){.seq = seq}), POOL_NONE);
        job_move(job, JOB_GONE);
        pool_give(&jobs, numbers[i]);
        if (i % 1000 == 0)
            index_valid(&index);
    }
    index_fini(&index);
    pool_fini(&jobs);
    assert_int_equal(mem_used(), 0);
}

/* How many slots a look-up passes before its entry, on average. */
static uint64_t mean_passed(const struct map *map)
{
    uint64_t passed = 0;
    for (uint32_t i = 0; i < map->segment_count; i++) {
        const struct map_segment *segment = &map->segments[i];
        for (uint32_t at = 0; at < segment->cap; at++) {
            uint32_t home = map_home(segment, segment->slots[at] >> 32);
            if (segment->slots[at])
                passed += at >= home ? at - home : at + segment->cap - home;
        }
    }
    return passed / map->count;
}

/* Of batches of a power of two, one job each lives long: the segments must share them, for one that
 * had them all would be written again as a whole when it grows; and they must be spread over all of
 * their segment. */
static void numbers_in_steps_of_a_power_of_two_are_spread_over_the_segments(void **state)
{
    (void)state;
    enum { SHARED = 1 << 17, FAIR = 2 * 2 * 4096 }; /* one that was not split yet has two shares */
    for (unsigned bits = 0; bits <= 32; bits += sim_every() == 1 ? 1 : 4) {
        struct pool jobs;
        struct index index;
        job_pool_init(&jobs);
        index_init(&index, &jobs, 99);
        for (uint64_t i = 0; i < SHARED; i++)
            index_add(&index, make(&jobs, 7 + (i << bits), ""));
        for (uint32_t i = 0; i < index.by_seq.segment_count; i++)
            assert_true(index.by_seq.segments[i].count <= FAIR);
        assert_true(mean_passed(&index.by_seq) < 32);
        index_fini(&index);
        pool_fini(&jobs);
    }
    assert_int_equal(mem_used(), 0);
}

/* Those who were pushed one after the other leave one after the other: meanwhile few segments are
 * in use. But few groups share one, however many segments there are, for each is written again as a
 * whole when it grows or is split. */
static void numbers_of_one_group_share_a_segment(void **state)
{
    (void)state;
    enum { GROUP = 4096, GROUPS = 150, FAIR = 4 }; /* of one segment */
    struct pool jobs;
    struct index index;
    job_pool_init(&jobs);
    index_init(&index, &jobs, 99);
    for (uint64_t group = 1; group <= GROUPS; group++) {
        for (uint64_t i = 0; i < GROUP; i++)
            index_add(&index, make(&jobs, group * GROUP + i, ""));
        for (uint32_t i = 0; i < index.by_seq.segment_count; i++) {
            uint32_t count = index.by_seq.segments[i].count;
            assert_int_equal(count % GROUP, 0);
            assert_true(count <= FAIR * GROUP);
        }
    }
    index_fini(&index);
    pool_fini(&jobs);
    assert_int_equal(mem_used(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_is_found_by_id_and_by_number),
        cmocka_unit_test(numbers_in_steps_of_a_power_of_two_are_spread_over_the_segments),
        cmocka_unit_test(numbers_of_one_group_share_a_segment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
