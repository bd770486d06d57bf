/* What bounds the pump: targets that only fail, memory, leases that have ended. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dispatch/pump_parts.h"
#include "pump_bed.h"

static const struct world_options plain = {.seed = 1};
static const struct world_options short_turns = {.seed = 2, .turn_ns = 4000};

#define HOOK  "{\"target\":{\"type\":\"http\",\"url\":\"https://shop.example/hook\"}}"
#define EXACT "{\"target\":{\"type\":\"http\",\"url\":\"https://shop.example/hook\"},\"jitter\":0}"

static void say_500(struct bed *bed, const struct delivery *delivery, struct sim_answer *answer)
{
    (void)bed;
    (void)delivery;
    bed_say(answer, 500, 10000);
}

static void slow(struct bed *bed, const struct delivery *delivery, struct sim_answer *answer)
{
    (void)bed;
    (void)delivery;
    bed_say(answer, 200, SECOND_US);
}

/* By the engine, so that it can be changed there. */
static void configure(struct bed *bed, const char *topic, const char *json)
{
    struct cmd cmd = {.kind = CMD_CONFIGURE_TOPIC,
                      .topic = {.topic = bytes_str(topic), .settings = bytes_str(json)}};
    bed_submit(bed, &cmd);
    bed_pass(bed, 0);
}

static const struct topic_settings *settings_of(struct bed *bed, const char *topic)
{
    return registry_find(bed_server(bed)->registry, bytes_str(topic), NULL);
}

/* One success begins the time again, from the start; what is paused stays so after a restart. */
static void a_target_that_only_failed_for_disable_after_is_paused(void **state)
{
    enum { MINUTE_US = 60 * SECOND_US };
    (void)state;
    struct bed bed;
    struct world_options options = {.seed = 6, .disable_after_us = 60 * (int64_t)MINUTE_US};
    bed_open(&bed, &options);
    configure(&bed, "orders", EXACT);
    for (unsigned round = 0; round < 2; round++) {
        bed.answer = say_500;
        for (unsigned i = 0; i < 6; i++) {
            bed_push(&bed, "orders", "fails", 0, "");
            bed_pass(&bed, 9 * (int64_t)MINUTE_US);
        }
        assert_false(settings_of(&bed, "orders")->paused);
        bed.answer = round ? say_500 : NULL;
        bed_push(&bed, "orders", "last", 0, "");
        bed_pass(&bed, 10 * (int64_t)MINUTE_US);
        assert_int_equal(settings_of(&bed, "orders")->paused, round);
    }
    assert_true(bytes_eq(settings_of(&bed, "orders")->paused_why, BYTES("failing")));
    assert_int_equal(bed_counts(&bed)->targets_paused, 1);
    unsigned before = bed.seen_count;
    assert_true(world_stop(bed.world));
    assert_int_equal(world_boot(bed.world), OK);
    bed_push(&bed, "orders", "waits", 0, "");
    bed_pass(&bed, 60 * (int64_t)MINUTE_US);
    assert_int_equal(bed.seen_count, before);
    assert_int_equal(bed_jobs(&bed, JOB_READY), 2); /* one was to be tried again */
    bed.answer = NULL;
    configure(&bed, "orders", EXACT);
    bed_pass(&bed, SECOND_US);
    assert_int_equal(bed.seen_count, before + 2);
    bed_close(&bed);
}

enum { LARGE_BYTES = 16 * 1024, MOST_BYTES = 8 * LARGE_BYTES };

static void slow_and_bounded(struct bed *bed, const struct delivery *delivery,
                             struct sim_answer *answer)
{
    assert_true(bed_counts(bed)->bytes < MOST_BYTES + LARGE_BYTES + 1024);
    slow(bed, delivery, answer);
}

/* The job that goes over the bound is kept; those behind it are given back, untried. */
static void jobs_that_are_held_take_no_more_memory_than_they_may(void **state)
{
    enum { JOBS = 100 };
    (void)state;
    struct bed bed;
    char *body = mem_zalloc(LARGE_BYTES);
    memset(body, 'x', LARGE_BYTES - 1);
    bed_open(&bed, &plain);
    bed_server(&bed)->pump_stage.pump->options.memory_bytes = MOST_BYTES;
    bed.answer = slow_and_bounded;
    bed_settings(&bed, "orders", HOOK);
    for (unsigned i = 0; i < JOBS; i++)
        bed_push(&bed, "orders", body, 0, "");
    bed_pass(&bed, 60 * SECOND_US);
    assert_int_equal(bed.seen_count, JOBS);
    assert_in_range(bed.under_way_most, 6, 9);
    for (unsigned i = 0; i < JOBS; i++)
        assert_int_equal(bed.seen[i].attempt, 1);
    assert_int_equal(bed_counts(&bed)->bytes, 0);
    bed_close(&bed);
    mem_free(body);
}

/* Somebody takes the job away while it is sent: it comes again, and ends once. */
static void p4_an_outcome_with_a_lease_that_has_ended_changes_nothing(void **state)
{
    (void)state;
    struct bed bed;
    bed_open(&bed, &plain);
    bed.answer = slow;
    bed_settings(&bed, "orders",
                 "{\"target\":{\"type\":\"http\",\"url\":\"https://shop.example/\"}}");
    bed_push(&bed, "orders", "first", 0, "");
    bed_pass(&bed, SECOND_US + SECOND_US / 2); /* its window is more than one now */
    assert_int_equal(bed_jobs(&bed, JOB_RESERVED), 0);
    bed_push(&bed, "orders", "one", 0, "");
    bed_pass(&bed, SECOND_US / 2);
    struct cmd back = {.kind = CMD_RELEASE, .job = {.ref.seq = bed.seen[1].seq}};
    back.job.has_delay = true;
    back.job.due_us = bed_now(&bed);
    bed_submit(&bed, &back);
    bed_pass(&bed, SECOND_US / 4);
    assert_int_equal(bed.under_way, 2);
    bed_pass(&bed, SECOND_US / 2); /* the first answer has come, the second has not */
    assert_int_equal(bed_counts(&bed)->stale, 1);
    assert_int_equal(bed_jobs(&bed, JOB_RESERVED), 1);
    bed_pass(&bed, SECOND_US);
    assert_int_equal(bed.seen_count, 3);
    assert_int_equal(bed_counts(&bed)->stale, 1);
    for (enum job_state each = JOB_DELAYED; each < JOB_STATES; each++)
        assert_int_equal(bed_jobs(&bed, each), 0);
    assert_int_equal(bed_counts(&bed)->bytes, 0);
    bed_close(&bed);
}

/* A lane that is woken for its receiver and may not send now must not keep the others from it. */
static void a_topic_without_tokens_keeps_no_other_from_their_receiver(void **state)
{
    (void)state;
    struct bed bed;
    struct world_options options = {.seed = 7, .host_concurrency = 1};
    bed_open(&bed, &options);
    bed.answer = slow;
    bed_settings(&bed, "rare",
                 "{\"target\":{\"type\":\"http\",\"url\":\"https://shop.example/\"},"
                 "\"rate\":\"1/h\"}");
    bed_push(&bed, "rare", "one", 0, "");
    bed_push(&bed, "rare", "two", 0, "");
    bed_pass(&bed, SECOND_US / 2);
    assert_int_equal(bed.under_way, 1);
    bed_settings(&bed, "other", HOOK);
    bed_push(&bed, "other", "other", 0, "");
    bed_pass(&bed, 3 * SECOND_US);
    assert_int_equal(bed.seen_count, 2);
    assert_string_equal(bed.seen[1].body, "other");
    bed_pass(&bed, 3600 * (int64_t)SECOND_US);
    assert_int_equal(bed.seen_count, 3);
    bed_close(&bed);
}

/* The stage's budget is spent by what comes before the pump, turn after turn. */
static void jobs_are_sent_while_settings_flood(void **state)
{
    enum { TOPICS = 3000, TURNS = 100 };
    struct bed *bed = *state;
    struct settings_observer *observer = registry_observer(bed_server(bed)->registry);
    observer->changed(observer, BYTES("hook"), ++bed->version, BYTES(HOOK));
    for (unsigned i = 0; i < TOPICS; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "t%u", i);
        observer->changed(observer, bytes_str(name), ++bed->version, BYTES(HOOK));
    }
    bed_push(bed, "hook", "x", 0, "");
    world_hold_disk(bed->world, false); /* a turn is wanted */
    for (unsigned i = 0; i < TURNS && bed->seen_count == 0; i++)
        (void)world_step(bed->world, bed_now(bed) + 1);
    assert_int_equal(bed->seen_count, 1);
    assert_true(registry_wants_step(bed_server(bed)->registry)); /* else there was no flood */
}

/* When many topics change, each goes through all deliveries: few of them may in one turn. */
static void p8_to_go_through_all_deliveries_takes_of_the_budget(void **state)
{
    enum { JOBS = 200, SOME = 4, LEAST_NS = 5 };
    struct bed *bed = *state;
    struct budget *budget = &bed_server(bed)->budget;
    bed->answer = slow;
    bed_settings(bed, "hook", HOOK);
    for (unsigned i = 0; i < JOBS; i++)
        bed_push(bed, "hook", "x", 0, "");
    for (unsigned i = 0; i < 1000 && bed_counts(bed)->in_flight < SOME; i++)
        bed_pass(bed, SECOND_US / 20);
    assert_true(bed_counts(bed)->in_flight >= SOME);
    budget->left_ns = BUDGET_UNLIMITED;
    pump_drain(bed_server(bed)->pump_stage.pump);
    assert_true(BUDGET_UNLIMITED - budget->left_ns >= SOME * LEAST_NS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BED_TEST_OF(p8_to_go_through_all_deliveries_takes_of_the_budget, &short_turns),
        cmocka_unit_test(a_target_that_only_failed_for_disable_after_is_paused),
        cmocka_unit_test(jobs_that_are_held_take_no_more_memory_than_they_may),
        cmocka_unit_test(a_topic_without_tokens_keeps_no_other_from_their_receiver),
        cmocka_unit_test(p4_an_outcome_with_a_lease_that_has_ended_changes_nothing),
        BED_TEST_OF(jobs_are_sent_while_settings_flood, &short_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
