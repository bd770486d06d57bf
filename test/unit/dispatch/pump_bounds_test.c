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

/* Copying them would make a turn long. Those of one reply end at different times. */
static void large_bodies_stay_in_the_memory_of_their_reply(void **state)
{
    enum { JOBS = 12, LARGE = 300 * 1024 };
    struct bed bed;
    uint64_t before = mem_used();
    char *body = mem_alloc(LARGE + 1);
    unsigned sent = 0, borrowed = 0;
    (void)state;
    memset(body, 'x', LARGE);
    body[LARGE] = '\0';
    bed_open(&bed, &(struct world_options){.seed = 10, .body_bytes = LARGE, .read_us = 1000});
    bed.answer = slow;
    bed_settings(&bed, "orders", HOOK);
    const struct pump *pump = bed_server(&bed)->pump_stage.pump;
    for (unsigned i = 0; i < JOBS; i++)
        bed_push(&bed, "orders", i % 3 ? body : "small", 0, "");
    for (unsigned pass = 0; pass < 100; pass++) {
        bed_pass(&bed, SECOND_US / 4);
        for (struct list *at = pump->shipments.next; at != &pump->shipments; at = at->next) {
            const struct shipment *shipment = LIST_ENTRY(at, struct shipment, all);
            bool large = shipment->delivery.body.len == LARGE;
            sent += large && shipment->state == SHIP_SENT;
            borrowed += shipment->share != NULL;
            assert_true(large || !shipment->share);
            if (large)
                assert_memory_equal(shipment->delivery.body.at, body, LARGE);
        }
    }
    assert_int_equal(bed.seen_count, JOBS);
    assert_true(sent > 0);
    assert_int_equal(borrowed, sent);
    assert_int_equal(bed_counts(&bed)->bytes, 0);
    bed_close(&bed);
    mem_free(body);
    assert_int_equal(mem_used(), before); /* all replies were given back */
}

enum { ORDERED = 40, OF_EACH = 8 };

/* Topics in which all jobs but the first wait for their key. */
static void hold_jobs(struct bed *bed)
{
    char name[16], settings[128];
    for (unsigned i = 0; i < ORDERED; i++) {
        (void)snprintf(name, sizeof(name), "k%u", i);
        (void)snprintf(settings, sizeof(settings),
                       "{\"target\":{\"type\":\"http\",\"url\":\"https://%s.example/\"},"
                       "\"order\":\"key\"}",
                       name);
        bed_settings(bed, name, settings);
        for (unsigned j = 0; j < OF_EACH; j++)
            bed_push(bed, name, "x", 0, "{\"key\":\"a\"}");
    }
    bed_pass(bed, 5 * SECOND_US / 2);
}

static unsigned held_by(const struct pump *pump, const struct lane *lane)
{
    unsigned count = 0;
    for (struct list *at = pump->shipments.next; at != &pump->shipments; at = at->next) {
        const struct shipment *shipment = LIST_ENTRY(at, struct shipment, all);
        count += shipment->state == SHIP_HELD && (!lane || shipment->lane == lane);
    }
    return count;
}

/* When many topics change, each goes through its own deliveries alone, and that takes of the
   budget. */
static void p8_to_go_through_deliveries_takes_of_the_budget(void **state)
{
    enum { LEAST_NS = 5, MOST_NS = 100 };
    struct bed bed;
    (void)state;
    bed_open(&bed, &(struct world_options){.seed = 8});
    bed.answer = slow;
    hold_jobs(&bed);
    struct budget *budget = &bed_server(&bed)->budget;
    struct pump *pump = bed_server(&bed)->pump_stage.pump;
    assert_true(held_by(pump, NULL) >= ORDERED / 2);
    struct lane *lane = pool_at(&pump->lanes, pool_next(&pump->lanes, 0));
    unsigned held = held_by(pump, lane), others = held_by(pump, NULL) - held;
    assert_true(held > 0);
    budget->left_ns = BUDGET_UNLIMITED;
    shipments_give_back(lane);
    assert_in_range(BUDGET_UNLIMITED - budget->left_ns, held * LEAST_NS, (OF_EACH + 1) * MOST_NS);
    assert_int_equal(held_by(pump, lane), 0);
    assert_int_equal(held_by(pump, NULL), others);
    bed_close(&bed);
}

/* A broker may tell the outcomes of hundreds at once; the turn stops between two messages. */
static void p8_outcomes_of_deliveries_take_of_the_budget(void **state)
{
    enum { JOBS = 20, LEAST_NS = 200, MOST_NS = 2000 };
    struct bed *bed = *state;
    struct sink *sink = sim_sink_port(world_sink(bed->world));
    bed_settings(bed, "orders", HOOK);
    for (unsigned i = 0; i < 2 * JOBS; i++) { /* the first ones open its window */
        bed->answer = i < JOBS ? NULL : slow;
        bed_push(bed, "orders", "x", 0, "");
        bed_pass(bed, 1000);
    }
    unsigned sent = bed->under_way;
    assert_true(sent > 1);
    struct budget *budget = &bed_server(bed)->budget;
    budget->left_ns = BUDGET_UNLIMITED;
    sink->verbs->close(sink, 0);
    assert_int_equal(bed->under_way, 0);
    assert_in_range(BUDGET_UNLIMITED - budget->left_ns, sent * LEAST_NS, sent * MOST_NS);
}

static void p8_a_drain_gives_jobs_back_in_slices(void **state)
{
    struct bed bed;
    unsigned turns = 0;
    (void)state;
    bed_open(&bed, &(struct world_options){.seed = 9});
    bed.answer = slow;
    hold_jobs(&bed);
    struct budget *budget = &bed_server(&bed)->budget;
    struct pump *pump = bed_server(&bed)->pump_stage.pump;
    unsigned held = held_by(pump, NULL);
    assert_true(held >= ORDERED / 2);
    pump_drain(pump);
    assert_int_equal(held_by(pump, NULL), held);
    for (; held_by(pump, NULL) > 0 && turns < 2 * ORDERED; turns++) {
        budget->left_ns = 1;
        (void)pump_step(pump);
    }
    assert_in_range(turns, ORDERED / 4, 2 * ORDERED - 1);
    bed_close(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(p8_to_go_through_deliveries_takes_of_the_budget),
        BED_TEST(p8_outcomes_of_deliveries_take_of_the_budget),
        cmocka_unit_test(p8_a_drain_gives_jobs_back_in_slices),
        cmocka_unit_test(large_bodies_stay_in_the_memory_of_their_reply),
        cmocka_unit_test(a_target_that_only_failed_for_disable_after_is_paused),
        cmocka_unit_test(jobs_that_are_held_take_no_more_memory_than_they_may),
        cmocka_unit_test(a_topic_without_tokens_keeps_no_other_from_their_receiver),
        cmocka_unit_test(p4_an_outcome_with_a_lease_that_has_ended_changes_nothing),
        BED_TEST_OF(jobs_are_sent_while_settings_flood, &short_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
