/* Jobs that leave memory: core_fetch() computes the hashes of their ids for that, and their memory
   is kept for a while. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#include "base/mem.h"
#include "core/core_internal.h"
#include "core_bed.h"

enum { SECOND = 1000000, MINUTE = 60 * SECOND, START = 1000 * SECOND, TTR = 10 * SECOND, KEY = 5 };
enum { CHUNK = 1024, MANY = 5 * CHUNK }; /* of the pool, of jobs with ids of any length */

static struct core_bed bed;

static int setup(void **state)
{
    (void)state;
    core_bed_open(&bed, (struct core_limits){.jobs = 2 * MANY, .topics = 2, .waiters = 10}, START);
    core_use_far_key(bed.core, KEY);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    core_bed_close(&bed);
    return mem_used() == 0 ? 0 : -1;
}

/* The id of every third job is made by the server. */
static struct bytes id_of(uint64_t seq, char room[static 8])
{
    int len = seq % 3 ? snprintf(room, 8, "id-%u", (unsigned)seq) : 0;
    return bytes_of(room, (size_t)len);
}

static void push_and_offer(uint64_t seq)
{
    char room[8];
    struct cmd_push push = {
        .id = id_of(seq, room), .topic = BYTES("t"), .due_us = START + MINUTE, .ttr_us = TTR};
    struct event out, event = {.kind = EVENT_JOB, .job.seq = seq};
    (void)core_apply(bed.core, START, &(struct cmd){.kind = CMD_PUSH, .push = push}, &bed);
    assert_int_equal(bed.first.ref.seq, seq);
    assert_true(core_spill(bed.core, &event, 1, START, &out));
}

static struct stored place_of(uint64_t seq)
{
    return (struct stored){.where = UINT64_C(9) << 32 | seq * 8, .bytes = 50};
}

static void is_found_at(uint64_t seq, bool is_far)
{
    char room[8];
    uint64_t places[FAR_CANDIDATES_MAX];
    struct bytes id = id_of(seq, room);
    struct job_ref names[] = {{.seq = seq}, {.id = id}};
    for (unsigned i = 0; i < (id.len ? 2 : 1); i++) {
        assert_int_equal(core_far_find(bed.core, &names[i], places), is_far);
        assert_true(!is_far || places[0] == place_of(seq).where);
        assert_int_equal(core_holds(bed.core, &names[i]), !is_far);
    }
}

/* Some stay, and some of the others were not announced or come in another order. */
static void jobs_depart_in_any_order_after_they_were_fetched(void **state)
{
    static const uint64_t fetched[] = {1, 2, 3, 4, 5, 6, 7, 8, 99};
    static const uint64_t departs[] = {2, 3, 1, 9, 5, 8, 7};
    (void)state;
    for (uint64_t seq = 1; seq <= 12; seq++)
        push_and_offer(seq);
    core_fetch(bed.core, fetched, sizeof(fetched) / sizeof(fetched[0]), true);
    for (unsigned i = 0; i < sizeof(departs) / sizeof(departs[0]); i++)
        assert_true(core_depart(bed.core, departs[i], place_of(departs[i])));
    for (uint64_t seq = 1; seq <= 12; seq++)
        is_found_at(seq, seq != 4 && seq != 6 && seq < 10);
    core_valid(bed.core);
}

/* The store's key is known late: hashes by another one would be of no use. */
static void hashes_by_an_older_key_are_not_used(void **state)
{
    (void)state;
    uint64_t seq = 1;
    push_and_offer(seq);
    core_fetch(bed.core, &seq, 1, true);
    core_use_far_key(bed.core, KEY + 1);
    assert_true(core_depart(bed.core, seq, place_of(seq)));
    is_found_at(seq, true);
}

/* Pushes so many jobs without an id, and has all of them depart. */
static void push_and_depart(uint64_t *seq, unsigned count)
{
    uint64_t first = *seq;
    for (unsigned i = 0; i < count; i++, ++*seq) {
        struct cmd_push push = {.topic = BYTES("t"), .due_us = START + MINUTE, .ttr_us = TTR};
        struct event out, event = {.kind = EVENT_JOB, .job.seq = *seq};
        (void)core_apply(bed.core, START, &(struct cmd){.kind = CMD_PUSH, .push = push}, &bed);
        assert_true(core_spill(bed.core, &event, 1, START, &out));
    }
    while (first < *seq) {
        assert_true(core_depart(bed.core, first, place_of(first)));
        first++;
    }
}

static uint32_t tick(int64_t now_us)
{
    while (core_tick(bed.core, now_us, 1000))
        continue;
    return bed.core->jobs.spare_count;
}

/* Of chunks that ran empty one is kept anyway. */
static void memory_of_departed_jobs_is_kept_for_the_next_ones_for_ten_seconds(void **state)
{
    (void)state;
    uint64_t seq = 1;
    push_and_depart(&seq, MANY);
    assert_int_equal(tick(START), MANY / CHUNK - 1);
    push_and_depart(&seq, MANY / 2);
    assert_int_equal(tick(START), MANY / CHUNK - 1);
    assert_int_equal(core_next_us(bed.core), START + 10 * SECOND);
    assert_int_equal(tick(START + 10 * SECOND - 1), MANY / CHUNK - 1);
    assert_int_equal(tick(START + 10 * SECOND), 0);
    assert_true(core_next_us(bed.core) == INT64_MAX);
}

static void p8_memory_of_departed_jobs_is_not_kept_above_the_limit(void **state)
{
    (void)state;
    uint64_t seq = 1;
    push_and_depart(&seq, MANY);
    assert_int_equal(tick(START), MANY / CHUNK - 1);
    bed.core->limits.memory_bytes = 1;
    assert_int_equal(core_next_us(bed.core), START);
    assert_int_equal(tick(START), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* A hint changes nothing: whatever the ids are, with far jobs and without. */
static void ids_that_come_soon_are_only_prefetched(void **state)
{
    (void)state;
    char room[8];
    struct bytes ids[CORE_SOON_MAX];
    for (uint32_t i = 0; i < CORE_SOON_MAX; i++)
        ids[i] = BYTES("nobody");
    core_fetch_new(bed.core, ids, CORE_SOON_MAX);
    push_and_offer(1);
    ids[0] = id_of(1, room);
    core_fetch_new(bed.core, ids, 0);
    core_fetch_new(bed.core, ids, CORE_SOON_MAX);
    assert_true(core_depart(bed.core, 1, place_of(1)));
    core_fetch_new(bed.core, ids, CORE_SOON_MAX);
    is_found_at(1, true);
    core_valid(bed.core);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(ids_that_come_soon_are_only_prefetched),
        TEST(jobs_depart_in_any_order_after_they_were_fetched),
        TEST(hashes_by_an_older_key_are_not_used),
        TEST(memory_of_departed_jobs_is_kept_for_the_next_ones_for_ten_seconds),
        TEST(p8_memory_of_departed_jobs_is_not_kept_above_the_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
