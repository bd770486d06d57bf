/* Order by key with many jobs behind each key: how fast they drain, and what that costs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pump_bed.h"

#define KEYED                                                                                      \
    "{\"target\":{\"type\":\"http\",\"url\":\"https://shop.example/hook\"},\"order\":\"key\","     \
    "\"jitter\":0,\"attempts\":30,\"retry\":[\"1s\",\"5s\",\"5s\",\"5s\"]}"

enum { KEYS = 20, BACKLOG = 10000 };

static const struct world_options plain = {.seed = 11};

static bool out; /* the receiver takes seconds, and then fails */

static void takes_2_ms(struct bed *bed, const struct delivery *delivery, struct sim_answer *answer)
{
    (void)bed;
    (void)delivery;
    bed_say(answer, out ? 503 : 200, out ? 5 * SECOND_US : 2000);
}

static void takes_a_second(struct bed *bed, const struct delivery *delivery,
                           struct sim_answer *answer)
{
    (void)bed;
    (void)delivery;
    bed_say(answer, 200, SECOND_US);
}

static void push_keyed(struct bed *bed, unsigned jobs, unsigned keys)
{
    char properties[32];
    for (unsigned i = 0; i < jobs; i++) {
        (void)snprintf(properties, sizeof(properties), "{\"key\":\"k%u\"}", i % keys);
        bed_push(bed, "keyed", "x", 0, properties);
    }
}

static uint64_t left(struct bed *bed)
{
    return bed_jobs(bed, JOB_READY) + bed_jobs(bed, JOB_DELAYED) + bed_jobs(bed, JOB_RESERVED);
}

/* As an operator does after an outage: all are made due, the last one first. */
static void run_all(struct bed *bed, unsigned jobs)
{
    for (uint64_t seq = jobs; seq > 0; seq--)
        bed_submit(bed, &(struct cmd){.kind = CMD_RUN, .job.ref.seq = seq});
}

/* Each came back when anybody's turn might have been, but not when its own was. */
static void a_backlog_of_keys_drains_fast_whatever_order_it_comes_back_in(void **state)
{
    struct bed *bed = *state;
    bed->answer = takes_2_ms;
    out = true;
    bed_settings(bed, "keyed", KEYED);
    push_keyed(bed, BACKLOG, KEYS);
    bed_pass(bed, 20 * SECOND_US);
    run_all(bed, BACKLOG);
    assert_int_equal(left(bed), BACKLOG);
    out = false;
    bed_pass(bed, 60 * SECOND_US); /* up to 20 s of them until the breaker lets it try */
    assert_int_equal(left(bed), 0);
    assert_int_equal(bed_jobs(bed, JOB_BURIED), 0);
    assert_true(bed_counts(bed)->commands < BACKLOG * 20); /* 17 when this was written */
}

/* What waits for one slow key comes back too early: so often, and no more. */
static void a_slow_key_with_many_jobs_costs_few_commands(void **state)
{
    struct bed *bed = *state;
    bed->answer = takes_a_second;
    bed_settings(bed, "keyed", KEYED);
    push_keyed(bed, 3000, 1);
    bed_pass(bed, 10 * SECOND_US);
    uint64_t commands = bed_counts(bed)->commands;
    bed_pass(bed, 60 * SECOND_US);
    assert_true(bed_counts(bed)->commands - commands < 60 * 2100);
    assert_in_range(bed->seen_count, 68, 71);
    for (unsigned i = 1; i < bed->seen_count; i++)
        assert_int_equal(bed->seen[i].seq, bed->seen[i - 1].seq + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BED_TEST_OF(a_backlog_of_keys_drains_fast_whatever_order_it_comes_back_in, &plain),
        BED_TEST_OF(a_slow_key_with_many_jobs_costs_few_commands, &plain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
