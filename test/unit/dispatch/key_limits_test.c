/* Limits by key: deliveries under way and per second, and a breaker, each for the jobs of one key.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#include "dispatch/pump_parts.h"
#include "pump_bed.h"

#define HOOK_WITH(more)                                                                            \
    "{\"target\":{\"type\":\"http\",\"url\":\"https://shop.example/hook\"},\"jitter\":0" more "}"

enum { KEYS = 4 };

/* What the receiver has at once, of each key and altogether. */
static struct {
    unsigned now[KEYS], most[KEYS], seen[KEYS], all, all_most;
    int64_t takes_us;
} load;

static unsigned key_of(const struct delivery *delivery)
{
    assert_int_equal(delivery->key.len, 2);
    return (unsigned)(delivery->key.at[1] - '0');
}

static void count(struct bed *bed, const struct delivery *delivery, struct sim_answer *answer)
{
    unsigned key = key_of(delivery);
    (void)bed;
    load.seen[key]++;
    if (++load.now[key] > load.most[key])
        load.most[key] = load.now[key];
    if (++load.all > load.all_most)
        load.all_most = load.all;
    bed_say(answer, 200, load.takes_us);
}

static void uncount(struct sim_receiver *receiver, const struct delivery *delivery)
{
    load.now[key_of(delivery)]--;
    load.all--;
    bed_ended(receiver, delivery);
}

static void serve(struct bed *bed, int64_t takes_us, const char *settings)
{
    memset(&load, 0, sizeof(load));
    load.takes_us = takes_us;
    bed->answer = count;
    bed->receiver.ended = uncount;
    bed_settings(bed, "orders", settings);
}

static void push_key(struct bed *bed, unsigned key, unsigned jobs)
{
    char properties[32];
    (void)snprintf(properties, sizeof(properties), "{\"key\":\"k%u\"}", key);
    for (unsigned i = 0; i < jobs; i++)
        bed_push(bed, "orders", "x", 0, properties);
}

static uint64_t left(struct bed *bed)
{
    return bed_jobs(bed, JOB_READY) + bed_jobs(bed, JOB_DELAYED) + bed_jobs(bed, JOB_RESERVED);
}

static void a_key_has_no_more_under_way_than_key_concurrency(void **state)
{
    struct bed *bed = *state;
    serve(bed, SECOND_US, HOOK_WITH(",\"key_concurrency\":2"));
    push_key(bed, 0, 20);
    for (unsigned key = 1; key < KEYS; key++)
        push_key(bed, key, 2);
    bed_pass(bed, 5 * SECOND_US); /* the window grows from one */
    for (unsigned key = 1; key < KEYS; key++)
        assert_int_equal(load.seen[key], 2); /* the one that has many delays nobody */
    bed_pass(bed, 12 * SECOND_US);
    assert_int_equal(left(bed), 0);
    for (unsigned key = 0; key < KEYS; key++)
        assert_int_equal(load.most[key], 2);
    assert_int_equal(bed_jobs(bed, JOB_BURIED), 0);
    for (unsigned i = 0; i < bed->seen_count; i++)
        assert_int_equal(bed->seen[i].attempt, 1);
}

static void a_key_has_no_more_in_a_time_than_key_rate(void **state)
{
    struct bed *bed = *state;
    serve(bed, 1000, HOOK_WITH(",\"key_rate\":\"5/s\""));
    for (unsigned key = 0; key < 2; key++)
        push_key(bed, key, 100);
    bed_pass(bed, 10 * SECOND_US);
    for (unsigned key = 0; key < 2; key++)
        assert_in_range(load.seen[key], 45, 55); /* five at the start */
    assert_true(bed_counts(bed)->commands < 10 * load.seen[0] * 2);
    bed_pass(bed, 15 * SECOND_US);
    assert_int_equal(left(bed), 0);
}

static void fail_key_0(struct bed *bed, const struct delivery *delivery, struct sim_answer *answer)
{
    count(bed, delivery, answer);
    bed_say(answer, key_of(delivery) == 0 ? 500 : 200, 1000);
}

/* The receiver of all keys is one: its own breaker counts failures in a row, and so stays closed.
 */
static void a_key_that_only_fails_has_a_breaker_of_its_own(void **state)
{
    struct bed *bed = *state;
    serve(bed, 1000, HOOK_WITH(",\"key_concurrency\":5,\"attempts\":60,\"retry\":[\"100ms\"]"));
    bed->answer = fail_key_0;
    for (unsigned i = 0; i < 20; i++) {
        push_key(bed, 0, 1);
        push_key(bed, 1, 1);
    }
    for (unsigned i = 0; i < 300; i++) { /* healthy answers of others in between */
        push_key(bed, 1, 1);
        bed_pass(bed, SECOND_US / 100);
    }
    assert_in_range(load.seen[0], 10, 15); /* ten failures in a row open it for ten seconds */
    assert_int_equal(load.seen[1], 320);
    assert_int_equal(bed_counts(bed)->opened, 1);
}

static void both_limits_hold_beside_order_by_key(void **state)
{
    struct bed *bed = *state;
    serve(bed, 300000,
          HOOK_WITH(",\"order\":\"key\",\"key_rate\":\"2/s\",\"key_concurrency\":4,"
                    "\"concurrency\":2"));
    for (unsigned i = 0; i < 15; i++) {
        for (unsigned key = 0; key < KEYS; key++)
            push_key(bed, key, 1);
    }
    bed_pass(bed, 5 * SECOND_US);
    for (unsigned key = 0; key < KEYS; key++)
        assert_in_range(load.seen[key], 5, 12);
    bed_pass(bed, 10 * SECOND_US);
    assert_int_equal(left(bed), 0);
    assert_int_equal(load.all_most, 2); /* though more may have waited for a token of their key */
    uint64_t last[KEYS] = {0};
    for (unsigned i = 0; i < bed->seen_count; i++) {
        unsigned key = (unsigned)((bed->seen[i].seq - 1) % KEYS);
        assert_true(bed->seen[i].seq > last[key]);
        last[key] = bed->seen[i].seq;
    }
    for (unsigned key = 0; key < KEYS; key++)
        assert_int_equal(load.most[key], 1);
}

/* Those of a slow key wait in memory, which has few places: others are not held up behind them. */
static void a_key_that_is_slow_delays_no_other_key(void **state)
{
    struct bed *bed = *state;
    serve(bed, 1000, HOOK_WITH(",\"order\":\"key\",\"key_rate\":\"1/s\""));
    push_key(bed, 0, 2000);
    bed_pass(bed, 3 * SECOND_US);
    for (unsigned key = 1; key < KEYS; key++) {
        push_key(bed, key, 1);
        bed_pass(bed, SECOND_US / 10);
        assert_int_equal(load.seen[key], 1);
    }
}

static void first_takes_seconds(struct bed *bed, const struct delivery *delivery,
                                struct sim_answer *answer)
{
    count(bed, delivery, answer);
    if (key_of(delivery) == 0 && load.seen[0] == 1)
        bed_say(answer, 200, 5 * SECOND_US / 2);
}

/* The second job takes the token that the topic's reserve was parked with, so none is left for the
   third, which is in memory as well. */
static void a_job_that_waited_for_its_key_goes_as_soon_as_there_is_a_token(void **state)
{
    struct bed *bed = *state;
    serve(bed, 1000, HOOK_WITH(",\"order\":\"key\",\"rate\":\"1/s\""));
    push_key(bed, 1, 3); /* the window grows from one */
    bed_pass(bed, 4 * SECOND_US);
    assert_int_equal(load.seen[1], 3);
    bed->answer = first_takes_seconds;
    push_key(bed, 0, 3);
    bed_pass(bed, 3 * SECOND_US);
    assert_int_equal(load.seen[0], 2);
    bed_pass(bed, SECOND_US); /* a second after the second one */
    assert_int_equal(load.seen[0], 3);
}

static void jobs_of_a_key_that_was_slow_come_within_two_minutes_of_its_recovery(void **state)
{
    struct bed *bed = *state;
    serve(bed, 14 * SECOND_US, HOOK_WITH(",\"key_concurrency\":1"));
    push_key(bed, 0, 400); /* an hour and a half of them */
    bed_pass(bed, 200 * SECOND_US);
    assert_in_range(load.seen[0], 10, 16);
    assert_true(bed_counts(bed)->commands < 400 * 200 / 60 * 5); /* about once a minute for each */
    load.takes_us = 1000;
    bed_pass(bed, 120 * SECOND_US);
    assert_int_equal(left(bed), 0);
    assert_int_equal(load.most[0], 1);
}

static void limits_of_a_key_change_with_the_settings(void **state)
{
    struct bed *bed = *state;
    serve(bed, SECOND_US, HOOK_WITH(",\"key_concurrency\":1"));
    push_key(bed, 0, 40);
    bed_pass(bed, 10 * SECOND_US);
    assert_in_range(load.seen[0], 9, 11);
    bed_settings(bed, "orders", HOOK_WITH(",\"key_concurrency\":8"));
    push_key(bed, 0, 40);
    bed_pass(bed, 30 * SECOND_US); /* the first ones come when they were put off to */
    assert_int_equal(load.most[0], 8);
    assert_int_equal(left(bed), 0);
    push_key(bed, 0, 40);
    bed_settings(bed, "orders", HOOK_WITH(""));
    bed_pass(bed, 20 * SECOND_US);
    assert_int_equal(left(bed), 0);
    assert_true(load.most[0] > 8);
}

enum { CUSTOMERS = 1200 };

static unsigned sent[CUSTOMERS];

static void count_customer(struct bed *bed, const struct delivery *delivery,
                           struct sim_answer *answer)
{
    char key[8] = "";
    (void)bed;
    assert_true(delivery->key.len > 1 && delivery->key.len < sizeof(key));
    memcpy(key, delivery->key.at + 1, delivery->key.len - 1);
    unsigned customer = (unsigned)strtoul(key, NULL, 10);
    assert_true(customer < CUSTOMERS);
    assert_int_equal(delivery->body.len, 1);
    assert_int_equal(delivery->body.at[0], '0' + (char)sent[customer]); /* in their order */
    assert_int_equal(delivery->attempt, 1);
    sent[customer]++;
    bed_say(answer, 200, 1000);
}

static unsigned customers_with(unsigned jobs)
{
    unsigned count = 0;
    for (unsigned i = 0; i < CUSTOMERS; i++)
        count += sent[i] == jobs;
    return count;
}

/* The first jobs of thousands of keys, which wait for a token, wait in the queue, but for some; and
   no turn looks at all of those. */
static void p8_of_many_keys_that_wait_for_their_rate_few_are_held(void **state)
{
    enum { LOOK_NS = 800, HOUR_S = 3600 };
    struct bed *bed = *state;
    char properties[32];
    memset(sent, 0, sizeof(sent));
    bed->answer = count_customer;
    bed_settings(bed, "orders", HOOK_WITH(",\"order\":\"key\",\"key_rate\":\"1/h\""));
    for (unsigned job = 0; job < 3; job++) {
        for (unsigned i = 0; i < CUSTOMERS; i++) {
            (void)snprintf(properties, sizeof(properties), "{\"key\":\"k%u\"}", i);
            bed_push(bed, "orders", job == 0 ? "0" : job == 1 ? "1" : "2", 0, properties);
        }
    }
    struct pump *pump = bed_server(bed)->pump_stage.pump;
    uint32_t most = 0;
    for (unsigned second = 0; second < 60; second++) {
        bed_pass(bed, SECOND_US);
        most = pump->ready_count > most ? pump->ready_count : most;
        pump_valid(pump);
    }
    assert_int_equal(customers_with(1), CUSTOMERS);
    assert_in_range(most, READY_MAX / 2, READY_MAX + RESERVE_MAX);
    struct budget *budget = &bed_server(bed)->budget;
    budget->left_ns = 1;
    assert_true(pump_step(pump));
    assert_true(budget->left_ns > -10 * LOOK_NS);
    pump_wake(pump); /* a token has come, say, for the one that was looked at */
    budget->left_ns = BUDGET_UNLIMITED;
    assert_true(pump_step(pump)); /* the others; that one once more */
    assert_false(pump_step(pump));
    bed_pass(bed, HOUR_S * (int64_t)SECOND_US);
    assert_int_equal(customers_with(2), CUSTOMERS);
    bed_pass(bed, 2 * HOUR_S * (int64_t)SECOND_US);
    assert_int_equal(customers_with(3), CUSTOMERS);
    assert_int_equal(left(bed), 0);
    assert_int_equal(bed_counts(bed)->keyed, 0);
}

/* The same if the jobs of a key come one behind the other: then the second one is in memory when
   the first one ends. */
static void p8_few_are_held_of_those_that_came_behind_another_of_their_key(void **state)
{
    struct bed *bed = *state;
    char properties[32];
    memset(sent, 0, sizeof(sent));
    bed->answer = count_customer;
    bed_settings(bed, "orders", HOOK_WITH(",\"order\":\"key\",\"key_rate\":\"1/h\""));
    for (unsigned i = 0; i < CUSTOMERS; i++) {
        (void)snprintf(properties, sizeof(properties), "{\"key\":\"k%u\"}", i);
        bed_push(bed, "orders", "0", 0, properties);
        bed_push(bed, "orders", "1", 0, properties);
    }
    struct pump *pump = bed_server(bed)->pump_stage.pump;
    for (unsigned second = 0; second < 120; second++) {
        bed_pass(bed, SECOND_US);
        assert_true(pump->ready_count <= READY_MAX + RESERVE_MAX);
        pump_valid(pump);
    }
    assert_int_equal(customers_with(1), CUSTOMERS);
    bed_pass(bed, 3 * 3600 * (int64_t)SECOND_US);
    assert_int_equal(customers_with(2), CUSTOMERS);
    assert_int_equal(left(bed), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BED_TEST(a_key_has_no_more_under_way_than_key_concurrency),
        BED_TEST(a_key_has_no_more_in_a_time_than_key_rate),
        BED_TEST(a_key_that_only_fails_has_a_breaker_of_its_own),
        BED_TEST(both_limits_hold_beside_order_by_key),
        BED_TEST(a_key_that_is_slow_delays_no_other_key),
        BED_TEST(a_job_that_waited_for_its_key_goes_as_soon_as_there_is_a_token),
        BED_TEST(jobs_of_a_key_that_was_slow_come_within_two_minutes_of_its_recovery),
        BED_TEST(limits_of_a_key_change_with_the_settings),
        BED_TEST(p8_of_many_keys_that_wait_for_their_rate_few_are_held),
        BED_TEST(p8_few_are_held_of_those_that_came_behind_another_of_their_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
