/* Leases of jobs of ordered topics: while they are renewed, and when they end too soon. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/embedded/embedded.h"
#include "pump_bed.h"
#include "test/unit/support/refusing_engine.h"

#define KEYED                                                                                      \
    "{\"target\":{\"type\":\"http\",\"url\":\"https://shop.example/hook\"},\"order\":\"key\","     \
    "\"jitter\":0,\"rate\":\"3/m\"}"

/* As KEYED, and the topic's reserves go on while the key waits for a token. */
#define KEYED_BY_KEY                                                                               \
    "{\"target\":{\"type\":\"http\",\"url\":\"https://shop.example/hook\"},\"order\":\"key\","     \
    "\"jitter\":0,\"key_rate\":\"3/m\"}"

#define KEYED_1_A_SECOND                                                                           \
    "{\"target\":{\"type\":\"http\",\"url\":\"https://shop.example/hook\"},\"order\":\"key\","     \
    "\"jitter\":0,\"key_rate\":\"1/s\"}"

#define KEY "{\"key\":\"k\"}"

static void takes_a_second(struct bed *bed, const struct delivery *delivery,
                           struct sim_answer *answer)
{
    (void)bed;
    (void)delivery;
    bed_say(answer, 200, SECOND_US);
}

/* The fourth job of a key is the first, and waits for a token of the rate. */
static void begin_to_wait(struct bed *bed, const char *settings)
{
    bed->answer = takes_a_second;
    bed_settings(bed, "keyed", settings);
    bed_push(bed, "keyed", "warm up", 0, KEY);
    bed_pass(bed, 2 * SECOND_US);
    for (int i = 0; i < 3; i++)
        bed_push(bed, "keyed", "x", 0, KEY);
    bed_pass(bed, 4 * SECOND_US);
    assert_int_equal(bed->seen_count, 3);
}

/* The same, and the disk is slow, so that the renewal of its lease is under way. */
static void begin_to_renew(struct bed *bed, const char *settings)
{
    begin_to_wait(bed, settings);
    assert_int_equal(bed_jobs(bed, JOB_RESERVED), 1);
    world_hold_disk(bed->world, true);
    bed_pass(bed, 8 * SECOND_US);
    assert_int_equal(bed_jobs(bed, JOB_RESERVED), 1);
}

static void a_job_whose_lease_is_being_renewed_is_given_back_when_that_is_answered(void **state)
{
    struct bed *bed = *state;
    begin_to_renew(bed, KEYED);
    bed_settings(bed, "keyed", KEYED); /* sent by these from now on */
    world_hold_disk(bed->world, false);
    bed_pass(bed, 60 * SECOND_US);
    assert_int_equal(bed->seen_count, 4);
    assert_int_equal(bed->seen[3].attempt, 1);
    assert_int_equal(bed_jobs(bed, JOB_RESERVED), 0);
}

static void a_drain_waits_for_the_renewal_of_a_lease(void **state)
{
    struct bed *bed = *state;
    begin_to_renew(bed, KEYED);
    world_drain(bed->world);
    bed_pass(bed, SECOND_US);
    assert_true(world_is_up(bed->world)); /* it cannot know yet whether it may give the job back */
    world_hold_disk(bed->world, false);
    bed_pass(bed, SECOND_US);
    assert_false(world_is_up(bed->world));
    assert_int_equal(world_boot(bed->world), OK);
    assert_int_equal(bed_jobs(bed, JOB_RESERVED), 0);
    assert_int_equal(bed_jobs(bed, JOB_READY), 1);
}

/* As a sink whose thread was stopped for a while. */
static void answers_behind_the_lease(struct bed *bed, const struct delivery *delivery,
                                     struct sim_answer *answer)
{
    bool late = bed->seen_count == 2;
    if (late)
        ((struct delivery *)(uintptr_t)delivery)->timeout_us = 300 * (int64_t)SECOND_US;
    bed_say(answer, 200, late ? 200 * (int64_t)SECOND_US : SECOND_US);
}

static void a_job_that_comes_again_while_it_is_sent_is_sent_again(void **state)
{
    struct bed *bed = *state;
    bed->answer = answers_behind_the_lease;
    bed_settings(bed, "keyed", KEYED);
    bed_push(bed, "keyed", "warm up", 0, KEY);
    bed_pass(bed, 2 * SECOND_US);
    bed_push(bed, "keyed", "one", 0, KEY);
    bed_push(bed, "keyed", "two", 0, KEY);
    bed_pass(bed, 600 * (int64_t)SECOND_US);
    assert_int_equal(bed->seen_count, 4);
    assert_string_equal(bed->seen[1].body, "one");
    assert_string_equal(bed->seen[2].body, "one");
    assert_string_equal(bed->seen[3].body, "two");
    assert_int_equal(bed_jobs(bed, JOB_RESERVED) + bed_jobs(bed, JOB_READY), 0);
}

/* Clients may end a job's lease without knowing it. */
static void release_at_once(struct bed *bed, uint64_t seq)
{
    struct cmd cmd = {
        .kind = CMD_RELEASE,
        .job = {.ref.seq = seq, .has_delay = true, .due_us = bed_now(bed), .brief = true}};
    bed_submit(bed, &cmd);
}

static void a_job_that_a_client_releases_while_it_is_sent_is_sent_again(void **state)
{
    struct bed *bed = *state;
    bed->answer = takes_a_second;
    bed_settings(bed, "keyed", KEYED);
    bed_push(bed, "keyed", "warm up", 0, KEY);
    bed_pass(bed, 2 * SECOND_US);
    bed_push(bed, "keyed", "one", 0, KEY);
    bed_pass(bed, SECOND_US / 2);
    release_at_once(bed, bed->seen[1].seq);
    bed_pass(bed, 60 * SECOND_US);
    assert_int_equal(bed->seen_count, 3);
    assert_int_equal(bed->seen[2].seq, bed->seen[1].seq);
    assert_int_equal(bed_jobs(bed, JOB_RESERVED) + bed_jobs(bed, JOB_READY), 0);
}

static void a_job_that_a_client_releases_before_it_is_sent_is_sent_once(void **state)
{
    struct bed *bed = *state;
    bed_settings(bed, "keyed", KEYED_1_A_SECOND);
    bed_push(bed, "keyed", "warm up", 0, "{\"key\":\"other\"}");
    bed_pass(bed, 2 * SECOND_US);
    bed_push(bed, "keyed", "one", 0, KEY);
    bed_push(bed, "keyed", "two", 0, KEY);
    bed_pass(bed, SECOND_US / 2);
    assert_int_equal(bed->seen_count, 2);
    assert_int_equal(bed_jobs(bed, JOB_RESERVED), 1);
    release_at_once(bed, bed->seen[1].seq + 1);
    bed_pass(bed, 60 * SECOND_US);
    assert_int_equal(bed->seen_count, 3);
    assert_string_equal(bed->seen[2].body, "two");
    assert_int_equal(bed_jobs(bed, JOB_RESERVED) + bed_jobs(bed, JOB_READY), 0);
}

static void a_job_that_a_client_releases_while_its_lease_is_being_renewed_is_sent_once(void **state)
{
    struct bed *bed = *state;
    begin_to_renew(bed, KEYED_BY_KEY);
    uint64_t fourth = bed->seen[2].seq + 1;
    release_at_once(bed, fourth);
    bed_pass(bed, SECOND_US); /* it is reserved again before the renewal is answered */
    assert_int_equal(bed_jobs(bed, JOB_RESERVED), 1);
    world_hold_disk(bed->world, false);
    bed_pass(bed, 120 * (int64_t)SECOND_US);
    assert_int_equal(bed->seen_count, 4);
    assert_int_equal(bed->seen[3].seq, fourth);
    assert_int_equal(bed_jobs(bed, JOB_RESERVED) + bed_jobs(bed, JOB_READY), 0);
}

/* Redis may be away for a moment: the lease is good, and its end by itself would be a failure. */
static void a_renewal_that_is_refused_for_a_while_counts_no_attempt(void **state)
{
    struct bed *bed = *state;
    begin_to_wait(bed, KEYED);
    refuse_next(embedded_engine(world_embedded(bed->world)), CMD_TOUCH, 3, ERR_AGAIN);
    bed_pass(bed, 8 * SECOND_US);
    assert_int_equal(refusing.left, 0);
    bed_pass(bed, 60 * SECOND_US);
    assert_int_equal(bed->seen_count, 4);
    assert_int_equal(bed->seen[3].attempt, 1);
    assert_int_equal(bed_jobs(bed, JOB_RESERVED) + bed_jobs(bed, JOB_READY), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BED_TEST(a_job_that_a_client_releases_while_it_is_sent_is_sent_again),
        BED_TEST(a_job_that_a_client_releases_before_it_is_sent_is_sent_once),
        BED_TEST(a_job_that_a_client_releases_while_its_lease_is_being_renewed_is_sent_once),
        BED_TEST(a_renewal_that_is_refused_for_a_while_counts_no_attempt),
        BED_TEST(a_drain_waits_for_the_renewal_of_a_lease),
        BED_TEST(a_job_that_comes_again_while_it_is_sent_is_sent_again),
        BED_TEST(a_job_whose_lease_is_being_renewed_is_given_back_when_that_is_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
