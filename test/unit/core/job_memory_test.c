/*
 * A job in memory takes at most 128 bytes and its id, whatever its state and however many there
 * are: its own bytes, its part of the tables that find it and of its topic's heap.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/mem.h"
#include "core_bed.h"

enum {
    JOBS = 120000,
    FEW = 20000, /* below, chunks and pages that were just begun count for more */
    DUE_US = 1000000,
    JOB_BYTES = 128,
};

static struct core_bed bed;
static size_t before;

/* The most that so many jobs may take, and chunks of jobs and of reservations that are not full. */
static void expect_bar(size_t jobs, size_t id_len)
{
    size_t chunk_bytes = (84 + id_len + 3) * 1024 + 65536;
    assert_in_range(mem_used() - before, 0, jobs * (JOB_BYTES + id_len) + chunk_bytes);
}

static void push(uint32_t number, size_t id_len)
{
    char id[JOB_ID_MAX + 1];
    (void)snprintf(id, sizeof(id), "%0*u", (int)id_len, number);
    struct cmd cmd = {.kind = CMD_PUSH,
                      .push = {.id = bytes_of(id, id_len),
                               .topic = BYTES("t"),
                               .due_us = DUE_US + (number * 7919 & 0x3ff),
                               .ttr_us = DUE_US}};
    (void)core_apply(bed.core, 1, &cmd, NULL);
    assert_int_equal(bed.reply.err, OK);
}

static void live_all_states(size_t id_len)
{
    core_bed_open(&bed, (struct core_limits){.jobs = JOBS, .topics = 10, .waiters = 10}, 1);
    push(0, id_len);
    before = mem_used(); /* the topic takes some, too */
    for (uint32_t i = 1; i < JOBS; i++) {
        push(i, id_len);
        if (i >= FEW && i % 16 == 0)
            expect_bar(i + 1, id_len);
    }
    for (bool more = true; more;) { /* they become ready */
        more = core_tick(bed.core, 2 * DUE_US, 100);
        expect_bar(JOBS, id_len);
    }
    struct bytes topic = BYTES("t");
    for (uint32_t i = 0; i < JOBS; i++) {
        struct cmd cmd = {.kind = CMD_RESERVE,
                          .reserve = {.topics = &topic, .topic_count = 1, .max = 1}};
        (void)core_apply(bed.core, 2 * DUE_US, &cmd, NULL);
        assert_int_equal(bed.reply.count, 1);
        if (i % 16 == 0)
            expect_bar(JOBS, id_len);
    }
    expect_bar(JOBS, id_len);
    core_bed_close(&bed);
    assert_int_equal(mem_used(), 0);
}

static void a_job_without_an_id_takes_at_most_128_bytes(void **state)
{
    (void)state;
    live_all_states(0);
}

static void a_job_takes_at_most_128_bytes_and_its_id(void **state)
{
    (void)state;
    live_all_states(20);
}

/* An id of 21 bytes leaves most of its last step unused. */
static void a_job_takes_at_most_128_bytes_and_an_id_of_any_length(void **state)
{
    (void)state;
    live_all_states(21);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_without_an_id_takes_at_most_128_bytes),
        cmocka_unit_test(a_job_takes_at_most_128_bytes_and_its_id),
        cmocka_unit_test(a_job_takes_at_most_128_bytes_and_an_id_of_any_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
