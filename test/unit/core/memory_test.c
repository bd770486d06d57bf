/*
 * What the core takes for jobs and for commands on many of them, and gives back (P8).
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

enum { JOBS = 30000, DELAY_US = 600 * 1000000 };

static struct core_bed bed;

static struct core *begin(void)
{
    core_bed_open(&bed, (struct core_limits){.jobs = 10 * JOBS, .topics = 10, .waiters = 10}, 1);
    return bed.core;
}

static void apply(struct core *core, const struct cmd *cmd)
{
    (void)core_apply(core, 1, cmd, NULL);
}

static struct bytes id_of(uint32_t number, char *room, size_t room_bytes)
{
    int len = snprintf(room, room_bytes, "%036u", number * 2654435761u); /* as long as a UUID */
    assert_int_equal(len, 36);
    return bytes_of(room, (size_t)len);
}

static void push_all(struct core *core)
{
    char room[40];
    unsigned before = bed.replies;
    for (uint32_t i = 0; i < JOBS; i++)
        apply(core, &(struct cmd){.kind = CMD_PUSH,
                                  .push = {.topic = BYTES("t"),
                                           .id = id_of(i, room, sizeof(room)),
                                           .due_us = DELAY_US + (int64_t)(i * 7919u % JOBS),
                                           .ttr_us = 1000000}});
    assert_int_equal(bed.replies - before, JOBS);
}

/* Ticks until nothing is left to do at once; the number of ticks. */
static unsigned settle(struct core *core)
{
    unsigned ticks = 0;
    while (core_next_us(core) <= 1 && ticks < 10000) {
        (void)core_tick(core, 1, 1000);
        ticks++;
    }
    return ticks;
}

static void p8_memory_of_jobs_that_are_gone_is_given_back_in_slices(void **state)
{
    (void)state;
    struct core *core = begin();
    char room[40];
    push_all(core);
    size_t full = mem_used();
    for (uint32_t i = 0; i < JOBS; i++) { /* in another order */
        struct bytes id = id_of((uint32_t)((uint64_t)i * 7919 % JOBS), room, sizeof(room));
        apply(core, &(struct cmd){.kind = CMD_DELETE, .job = {.ref.id = id}});
        assert_int_equal(bed.reply.err, OK);
    }
    assert_in_range(settle(core), 5, 20); /* seven chunks of jobs but one, a chunk a tick */
    assert_true(full > JOBS * 150);
    assert_in_range(mem_used(), 0, full / 4); /* a chunk of each kind */
    core_valid(core);
    push_all(core); /* into memory that was given back: it is taken again */
    core_bed_close(&bed);
    assert_int_equal(mem_used(), 0);
}

static void p8_a_kick_of_very_many_jobs_takes_a_bounded_page(void **state)
{
    (void)state;
    struct core *core = begin();
    struct core_totals totals;
    push_all(core);
    struct cmd kick = {
        .kind = CMD_KICK_TOPIC,
        .topic = {.topic = BYTES("t"), .state = JOB_DELAYED, .max = 25000},
    };
    size_t before = mem_used(), most = 0;
    apply(core, &kick);
    for (unsigned ticks = 0; bed.replies == JOBS && ticks < 10000; ticks++) {
        (void)core_tick(core, 1, 1000);
        if (mem_used() > most)
            most = mem_used();
    }
    assert_int_equal(bed.reply.err, OK);
    assert_int_equal(bed.reply.count, 25000);
    assert_true(bed.reply.more);
    /* Besides the page (16,384 places) the ready jobs' heap (32,768 places of 16 bytes), the counts
       of kicks (24 bytes), and the chunk that parked searches are in. */
    assert_in_range(most - before, 0, 16384 * 24 + 32768 * 16 + 32768 * 24 + 2 * 65536);
    core_totals(core, &totals);
    assert_int_equal(totals.jobs[JOB_READY], 25000);
    kick.topic.max = UINT32_MAX;
    bed.replies = JOBS;
    apply(core, &kick);
    while (bed.replies == JOBS)
        (void)core_tick(core, 1, 1000);
    assert_int_equal(bed.reply.count, 5000);
    assert_false(bed.reply.more);
    core_bed_close(&bed);
    assert_int_equal(mem_used(), 0);
}

/* A job that a listing has seen may go, and its memory with it, before the listing is answered. */
static void a_listing_bears_that_all_it_saw_is_gone(void **state)
{
    (void)state;
    struct core *core = begin();
    char room[40];
    push_all(core);
    apply(core, &(struct cmd){.kind = CMD_LIST,
                              .topic = {.topic = BYTES("t"), .state = JOB_DELAYED, .max = 1000}});
    (void)core_tick(core, 1, 1000);
    assert_int_equal(bed.replies, JOBS); /* it is under way */
    for (uint32_t i = 0; i < JOBS; i++)
        apply(core,
              &(struct cmd){.kind = CMD_DELETE, .job = {.ref.id = id_of(i, room, sizeof(room))}});
    (void)settle(core);
    assert_int_equal(bed.replies, 2 * JOBS + 1);
    assert_int_equal(bed.reply.kind, CMD_LIST);
    assert_int_equal(bed.reply.count, 0);
    core_bed_close(&bed);
    assert_int_equal(mem_used(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(p8_memory_of_jobs_that_are_gone_is_given_back_in_slices),
        cmocka_unit_test(p8_a_kick_of_very_many_jobs_takes_a_bounded_page),
        cmocka_unit_test(a_listing_bears_that_all_it_saw_is_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
