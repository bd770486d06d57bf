/* The pump on the embedded engine: credit, retries, receivers that are slow, refuse or hang. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pump_bed.h"

#define TARGET(host, more)                                                                         \
    "{\"target\":{\"type\":\"http\",\"url\":\"https://" host ".example/\"}" more "}"
#define HOOK  TARGET("shop", "")
#define EXACT TARGET("shop", ",\"jitter\":0")

/* The topic "orders" has these settings, and its receiver answers so (NULL: 200 at once). */
static void serve(struct bed *bed,
                  void (*answer)(struct bed *bed, const struct delivery *delivery,
                                 struct sim_answer *answer),
                  const char *settings)
{
    bed->answer = answer;
    bed_settings(bed, "orders", settings);
}

static void p3_p5_a_due_job_is_delivered_and_finished(void **state)
{
    struct bed *bed = *state;
    bed_settings(bed, "orders", HOOK);
    bed_push(bed, "orders", "one", 5 * SECOND_US, "");
    int64_t due_us = bed_now(bed) + 5 * SECOND_US;
    bed_pass(bed, 4 * SECOND_US);
    assert_int_equal(bed->seen_count, 0);
    bed_pass(bed, 2 * SECOND_US);
    assert_int_equal(bed->seen_count, 1);
    assert_string_equal(bed->seen[0].body, "one");
    assert_int_equal(bed->seen[0].attempt, 1);
    assert_int_equal(bed->seen[0].at_us, due_us);
    for (enum job_state each = JOB_DELAYED; each < JOB_STATES; each++)
        assert_int_equal(bed_jobs(bed, each), 0);
    assert_int_equal(bed_counts(bed)->outcomes[OUTCOME_DELIVERED], 1);
    assert_int_equal(bed_counts(bed)->bytes, 0);
}

static void say_500(struct bed *bed, const struct delivery *delivery, struct sim_answer *answer)
{
    (void)bed;
    (void)delivery;
    bed_say(answer, 500, 10000);
}

static void attempts_follow_the_schedule_and_then_it_is_buried(void **state)
{
    struct bed *bed = *state;
    serve(bed, say_500, EXACT);
    bed_push(bed, "orders", "one", 0, "");
    bed_pass(bed, 60 * SECOND_US);
    assert_int_equal(bed->seen_count, 3);
    assert_int_equal(bed->seen[1].at_us - bed->seen[0].at_us, 10000 + SECOND_US);
    assert_int_equal(bed->seen[2].at_us - bed->seen[1].at_us, 10000 + 5 * SECOND_US);
    assert_int_equal(bed->seen[2].attempt, 3);
    assert_int_equal(bed_jobs(bed, JOB_BURIED), 1);
}

static void say_503_in_40s(struct bed *bed, const struct delivery *delivery,
                           struct sim_answer *answer)
{
    say_500(bed, delivery, answer);
    answer->outcome.code = 503;
    answer->outcome.retry_after_us = 40 * SECOND_US;
}

/* A release with a due time never buries by itself: the pump has to. */
static void retry_after_is_waited_for_and_still_buries_at_the_end(void **state)
{
    struct bed *bed = *state;
    serve(bed, say_503_in_40s, EXACT);
    bed_push(bed, "orders", "one", 0, "");
    bed_pass(bed, 200 * SECOND_US);
    assert_int_equal(bed->seen_count, 3);
    assert_int_equal(bed->seen[1].at_us - bed->seen[0].at_us, 10000 + 40 * SECOND_US);
    assert_int_equal(bed_jobs(bed, JOB_BURIED), 1);
}

static void a_receiver_that_asks_one_topic_to_wait_is_left_alone_by_others(void **state)
{
    struct bed *bed = *state;
    serve(bed, say_503_in_40s, EXACT);
    bed_settings(bed, "others", EXACT);
    bed_settings(bed, "elsewhere", TARGET("inn", ""));
    bed_push(bed, "orders", "first", 0, "");
    bed_pass(bed, SECOND_US);
    bed->answer = NULL;
    bed_push(bed, "others", "waits", 0, "");
    bed_push(bed, "elsewhere", "goes", 0, "");
    bed_pass(bed, 38 * SECOND_US);
    assert_int_equal(bed->seen_count, 2);
    assert_string_equal(bed->seen[1].body, "goes");
    assert_int_equal(bed_held(bed, "others"), HELD_BREAKER);
    bed_pass(bed, 3 * SECOND_US);
    assert_int_equal(bed->seen_count, 4);
    for (unsigned i = 2; i < 4; i++)
        assert_true(bed->seen[i].at_us - bed->seen[0].at_us >= 40 * SECOND_US);
}

static void say_410(struct bed *bed, const struct delivery *delivery, struct sim_answer *answer)
{
    (void)bed;
    (void)delivery;
    bed_say(answer, 410, 1000);
}

static void gone_buries_the_job_and_stops_the_target(void **state)
{
    struct bed *bed = *state;
    serve(bed, say_410, HOOK);
    bed_push(bed, "orders", "one", 0, "");
    bed_pass(bed, SECOND_US);
    bed_push(bed, "orders", "two", 0, "");
    bed_pass(bed, SECOND_US);
    assert_int_equal(bed->seen_count, 1);
    assert_int_equal(bed_jobs(bed, JOB_BURIED), 1);
    assert_int_equal(bed_jobs(bed, JOB_READY), 1);
    assert_int_equal(bed_counts(bed)->targets_paused, 1);
}

static void slow(struct bed *bed, const struct delivery *delivery, struct sim_answer *answer)
{
    (void)bed;
    (void)delivery;
    bed_say(answer, 200, SECOND_US);
}

static void push_many(struct bed *bed, const char *topic, unsigned count)
{
    char body[32];
    for (unsigned i = 0; i < count; i++) {
        (void)snprintf(body, sizeof(body), "%s-%u", topic, i);
        bed_push(bed, topic, body, 0, "");
        if (i % 1000 == 999)
            bed_pass(bed, 0);
    }
}

static void a_topic_has_no_more_under_way_than_its_concurrency(void **state)
{
    struct bed *bed = *state;
    serve(bed, slow, TARGET("shop", ",\"concurrency\":3"));
    push_many(bed, "orders", 30);
    bed_pass(bed, 30 * SECOND_US);
    assert_int_equal(bed->seen_count, 30);
    assert_int_equal(bed->under_way_most, 3);
}

static const struct world_options five_a_host = {.seed = 2, .host_concurrency = 5};

static void a_receiver_has_no_more_under_way_than_host_concurrency(void **state)
{
    struct bed *bed = *state;
    char topic[16];
    bed->answer = slow;
    for (unsigned i = 0; i < 12; i++) {
        (void)snprintf(topic, sizeof(topic), "t%u", i);
        bed_settings(bed, topic, HOOK);
        push_many(bed, topic, 10);
    }
    bed_pass(bed, 40 * SECOND_US);
    assert_int_equal(bed->seen_count, 120);
    assert_int_equal(bed->under_way_most, 5);
    /* They wait for it, and do not ask again and again. */
    assert_true(bed_counts(bed)->commands < 120 * 5);
}

static void a_rate_is_kept(void **state)
{
    struct bed *bed = *state;
    bed_settings(bed, "orders", TARGET("shop", ",\"rate\":\"10/s\",\"burst\":5"));
    push_many(bed, "orders", 100);
    for (unsigned second = 1; second <= 9; second++) {
        bed_pass(bed, SECOND_US);
        assert_in_range(bed->seen_count, second * 10, second * 10 + 5);
    }
    bed_pass(bed, 2 * SECOND_US);
    assert_int_equal(bed->seen_count, 100);
}

static void settings_that_are_set_again_give_no_new_burst(void **state)
{
    static const char settings[] = TARGET("shop", ",\"rate\":\"10/s\",\"burst\":5");
    struct bed *bed = *state;
    bed_settings(bed, "orders", settings);
    push_many(bed, "orders", 100);
    for (unsigned second = 1; second <= 6; second++) {
        for (unsigned i = 0; i < 4; i++) {
            bed_pass(bed, SECOND_US / 4);
            bed_settings(bed, "orders", settings);
        }
        assert_in_range(bed->seen_count, second * 10, second * 10 + 5);
    }
    bed_settings(bed, "orders", TARGET("shop", ""));
    bed_pass(bed, 5 * SECOND_US);
    assert_int_equal(bed->seen_count, 100);
}

static void an_open_breaker_takes_no_attempts_from_jobs(void **state)
{
    struct bed *bed = *state;
    serve(bed, say_500, TARGET("shop", ",\"concurrency\":1"));
    push_many(bed, "orders", 50);
    bed_pass(bed, 5 * SECOND_US);
    assert_int_equal(bed->seen_count, 10);
    assert_int_equal(bed_counts(bed)->opened, 1);
    assert_int_equal(bed_counts(bed)->held[HELD_BREAKER], 1);
    assert_int_equal(bed_held(bed, "orders"), HELD_BREAKER);
    struct bytes by = pump_held_by(bed_server(bed)->pump_stage.pump, BYTES("orders"));
    assert_true(bytes_eq(by, BYTES("https://shop.example:443")));
    assert_int_equal(bed_jobs(bed, JOB_RESERVED), 0);
    bed_pass(bed, 10 * SECOND_US); /* the probe */
    assert_int_equal(bed->seen_count, 11);
    bed->answer = NULL;
    bed_pass(bed, 60 * SECOND_US);
    assert_int_equal(bed_jobs(bed, JOB_BURIED), 0);
    assert_int_equal(bed_held(bed, "orders"), HELD_NOT);
    assert_int_equal(bed_held(bed, "no such topic"), HELD_NOT);
    assert_int_equal(pump_held_by(bed_server(bed)->pump_stage.pump, BYTES("orders")).len, 0);
    assert_int_equal(bed_counts(bed)->outcomes[OUTCOME_DELIVERED], 50);
}

/* Each fifth job cannot be sent at all: it is too large for its broker, say. */
static void say_500_or_refuse(struct bed *bed, const struct delivery *delivery,
                              struct sim_answer *answer)
{
    (void)delivery;
    bed_say(answer, 500, 1000);
    if (bed->seen_count % 5 == 0 || bed->seen_count == 13)
        answer->outcome = (struct outcome){.kind = OUTCOME_REFUSED,
                                           .untried = true,
                                           .retry_after_us = -1,
                                           .reason = BYTES("it is too large")};
}

static void what_was_never_sent_neither_closes_a_breaker_nor_keeps_it_so(void **state)
{
    struct bed *bed = *state;
    serve(bed, say_500_or_refuse, TARGET("shop", ",\"concurrency\":1"));
    push_many(bed, "orders", 50);
    bed_pass(bed, 5 * SECOND_US);
    assert_int_equal(bed->seen_count, 12); /* ten of them were tried */
    assert_int_equal(bed_held(bed, "orders"), HELD_BREAKER);
    bed_pass(bed, 10 * SECOND_US); /* one that cannot be sent, and then the probe */
    assert_int_equal(bed->seen_count, 14);
    assert_int_equal(bed_held(bed, "orders"), HELD_BREAKER);
    assert_int_equal(bed_counts(bed)->opened, 2);
}

/* A stream without a leader, say: nothing there is confirmed in time. */
static void say_slow_fails(struct bed *bed, const struct delivery *delivery,
                           struct sim_answer *answer)
{
    (void)bed;
    if (bytes_eq(delivery->topic, BYTES("slow")))
        bed_say(answer, 504, 10000);
}

static void a_queue_that_only_fails_stops_no_other_of_its_broker(void **state)
{
    static const char slow[] =
        "{\"target\":{\"type\":\"amqp\",\"broker\":\"it\",\"routing_key\":\"slow\"}}";
    static const char quick[] =
        "{\"target\":{\"type\":\"amqp\",\"broker\":\"it\",\"routing_key\":\"quick\"}}";
    struct bed *bed = *state;
    pump_add_sink(bed_server(bed)->pump_stage.pump, TARGET_AMQP, BYTES("it"),
                  sim_sink_port(world_sink(bed->world)));
    bed->answer = say_slow_fails;
    bed_settings(bed, "slow", slow);
    bed_settings(bed, "quick", quick);
    for (unsigned i = 0; i < 50; i++)
        bed_push(bed, "slow", "x", 0, "");
    bed_pass(bed, SECOND_US);
    assert_int_equal(bed_held(bed, "slow"), HELD_BREAKER);
    struct bytes by = pump_held_by(bed_server(bed)->pump_stage.pump, BYTES("slow"));
    assert_true(bytes_eq(by, BYTES("amqp:it//slow")));
    bed_push(bed, "quick", "x", 0, "");
    bed_pass(bed, SECOND_US);
    assert_int_equal(bed_held(bed, "quick"), HELD_NOT);
    assert_int_equal(bed_counts(bed)->outcomes[OUTCOME_DELIVERED], 1);
}

static void nothing_is_reserved_while_the_sink_is_away_or_the_target_paused(void **state)
{
    struct bed *bed = *state;
    bed_settings(bed, "orders", HOOK);
    bed_pass(bed, SECOND_US);
    sim_sink_away(world_sink(bed->world), true);
    bed_pass(bed, SECOND_US);
    push_many(bed, "orders", 5);
    bed_pass(bed, 100 * SECOND_US);
    assert_int_equal(bed->seen_count, 0);
    assert_int_equal(bed_jobs(bed, JOB_READY), 5);
    assert_int_equal(bed_counts(bed)->held[HELD_SINK], 1);
    assert_int_equal(bed_held(bed, "orders"), HELD_SINK);
    bed_settings(bed, "orders", TARGET("shop", ",\"paused\":true,\"paused_why\":\"work\""));
    sim_sink_away(world_sink(bed->world), false);
    bed_pass(bed, 10 * SECOND_US);
    assert_int_equal(bed_jobs(bed, JOB_READY), 5);
    assert_int_equal(bed_counts(bed)->held[HELD_PAUSED], 1);
    assert_int_equal(bed_held(bed, "orders"), HELD_PAUSED);
    bed_settings(bed, "orders", HOOK);
    bed_pass(bed, 10 * SECOND_US);
    assert_int_equal(bed->seen_count, 5);
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(bed->seen[i].attempt, 1);
}

static void hang_one(struct bed *bed, const struct delivery *delivery, struct sim_answer *answer)
{
    (void)bed;
    if (bytes_starts(delivery->body, BYTES("hangs")))
        answer->after_us = INT64_MAX;
}

static const struct world_options few_slots = {
    .seed = 3, .push_concurrency = 32, .host_concurrency = 1000};

/* The topic that hangs may not take all slots, even if its receiver may have them all. */
static void a_topic_that_hangs_leaves_slots_to_others(void **state)
{
    struct bed *bed = *state;
    bed->answer = slow;
    bed_settings(bed, "hangs", TARGET("hangs", ""));
    bed_settings(bed, "fast", TARGET("fast", ""));
    push_many(bed, "hangs", 500);
    bed_pass(bed, 6 * SECOND_US); /* its window has grown */
    bed->answer = hang_one;
    bed_pass(bed, 2 * SECOND_US);
    assert_true(bed->under_way >= 16);
    unsigned before = bed->seen_count;
    push_many(bed, "fast", 1);
    bed_pass(bed, 10000);
    assert_int_equal(bed->seen_count, before + 1);
}

static void a_topic_that_has_to_wait_for_slots_says_so(void **state)
{
    struct bed *bed = *state;
    bed->answer = hang_one;
    for (unsigned i = 0; i < 40; i++) {
        char topic[16], settings[120];
        (void)snprintf(topic, sizeof(topic), "hangs%u", i);
        (void)snprintf(settings, sizeof(settings), TARGET("hangs%u", ""), i);
        bed_settings(bed, topic, settings);
        push_many(bed, topic, 1);
    }
    bed_pass(bed, SECOND_US);
    assert_int_equal(bed->under_way, 32);
    unsigned waiting = 0;
    for (unsigned i = 0; i < 40; i++) {
        char topic[16];
        (void)snprintf(topic, sizeof(topic), "hangs%u", i);
        waiting += bed_held(bed, topic) == HELD_SHARE;
    }
    assert_in_range(waiting, 8, 40);
    assert_int_equal(bed_counts(bed)->held[HELD_SHARE], waiting);
    bed->answer = NULL;
    bed_pass(bed, 60 * SECOND_US); /* those that hang have failed, and come again */
    assert_int_equal(bed->under_way, 0);
    assert_int_equal(bed_counts(bed)->held[HELD_SHARE], 0);
    assert_int_equal(bed_held(bed, "hangs39"), HELD_NOT);
}

static void slow_50(struct bed *bed, const struct delivery *delivery, struct sim_answer *answer)
{
    (void)bed;
    if (bytes_starts(delivery->body, BYTES("flood")))
        bed_say(answer, 200, 400000); /* 20 at once: 50 a second */
}

static void p8_a_flood_for_a_slow_receiver_takes_no_memory_and_delays_nobody(void **state)
{
    enum { FLOOD = 20000 };
    struct bed *bed = *state;
    bed->answer = slow_50;
    bed_settings(bed, "flood", TARGET("flood", ""));
    bed_settings(bed, "other", TARGET("other", ""));
    push_many(bed, "flood", FLOOD);
    bed_pass(bed, 5 * SECOND_US);
    for (unsigned i = 0; i < 20; i++) {
        unsigned before = bed->seen_count;
        push_many(bed, "other", 1);
        bed_pass(bed, 1000);
        assert_true(bed->seen_count > before);
        assert_true(bed_counts(bed)->bytes < 64 * 1024);
        bed_pass(bed, SECOND_US);
    }
    uint64_t commands = bed_counts(bed)->commands;
    assert_in_range(bed->seen_count, 50 * 23, 50 * 26 + 20);
    assert_true(commands < (uint64_t)bed->seen_count * 4);
}

static void fail_first(struct bed *bed, const struct delivery *delivery, struct sim_answer *answer)
{
    (void)bed;
    if (delivery->attempt == 1 && delivery->body.at[0] == 'a')
        bed_say(answer, 500, 1000);
}

/* Those behind it came first, and had all places in memory: it was never reserved again. */
static void a_failing_job_comes_again_however_many_wait_behind_it(void **state)
{
    struct bed *bed = *state;
    bed->answer = fail_first;
    bed_settings(bed, "keyed", TARGET("shop", ",\"order\":\"key\""));
    for (unsigned i = 0; i < 1500; i++) {
        char body[8];
        (void)snprintf(body, sizeof(body), "%c%u", i % 50 ? 'b' : 'a', i);
        bed_push(bed, "keyed", body, 0, "{\"key\":\"k\"}");
    }
    bed_pass(bed, 60 * SECOND_US);
    assert_int_equal(bed_jobs(bed, JOB_READY) + bed_jobs(bed, JOB_DELAYED), 0);
    assert_int_equal(bed_jobs(bed, JOB_RESERVED), 0);
    assert_int_equal(bed->seen_count, 1530);
    for (unsigned i = 1; i < bed->seen_count; i++)
        assert_true(bed->seen[i].seq >= bed->seen[i - 1].seq); /* in their order */
}

static const struct world_options two_a_host = {.seed = 4, .host_concurrency = 2};

static const struct world_options rated = {.seed = 8, .host_rate = "5/s"};

/* Whatever topics they are of; and a topic that waits for it says so. */
static void a_receiver_gets_no_more_in_a_time_than_host_rate(void **state)
{
    struct bed *bed = *state;
    struct pump *pump = bed_server(bed)->pump_stage.pump;
    char topic[16];
    bed_settings(bed, "elsewhere", TARGET("inn", ""));
    for (unsigned i = 0; i < 3; i++) {
        (void)snprintf(topic, sizeof(topic), "topic-%u", i);
        bed_settings(bed, topic, HOOK);
        push_many(bed, topic, 10);
    }
    bed_pass(bed, SECOND_US / 10);
    assert_int_equal(bed->seen_count, 5);
    assert_int_equal(bed_held(bed, "topic-0"), HELD_RATE);
    assert_true(bytes_eq(pump_held_by(pump, BYTES("topic-0")), BYTES("https://shop.example:443")));
    bed_push(bed, "elsewhere", "goes", 0, "");
    bed_pass(bed, 0);
    assert_string_equal(bed->seen[5].body, "goes");
    bed_pass(bed, 20 * SECOND_US);
    assert_int_equal(bed->seen_count, 31);
    for (unsigned i = 11; i < 31; i++) /* any five take a second */
        assert_true(bed->seen[i].at_us - bed->seen[i - 5].at_us >= SECOND_US - 10);
    assert_in_range(bed->seen[30].at_us - bed->seen[0].at_us, 5 * SECOND_US - 10,
                    5 * SECOND_US + SECOND_US / 10);
    assert_true(bed_counts(bed)->commands < 31 * 8);
}

static void own_urls_and_ordered_jobs_keep_host_rate_too(void **state)
{
    struct bed *bed = *state;
    bed_settings(bed, "own", HOOK);
    bed_settings(bed, "keyed", TARGET("a", ",\"order\":\"key\""));
    for (unsigned i = 0; i < 10; i++) {
        bed_push(bed, "own", "x", 0, "{\"url\":\"https://a.example/x\"}");
        bed_push(bed, "keyed", "x", 0, "{\"key\":\"k\"}");
    }
    bed_pass(bed, 60 * SECOND_US);
    assert_int_equal(bed->seen_count, 20);
    for (unsigned i = 5; i < 20; i++) {
        assert_int_equal(bed->seen[i].attempt, 1);
        assert_true(i < 10 || bed->seen[i].at_us - bed->seen[i - 5].at_us >= SECOND_US - 10);
    }
    assert_true(bed->seen[19].at_us - bed->seen[0].at_us < 15 * (int64_t)SECOND_US);
    assert_true(bed_counts(bed)->commands < 20 * 8);
}

/* However many others have had their turn since. */
static void a_receiver_without_a_topic_keeps_its_rate(void **state)
{
    enum { OTHERS = 1100, AT_ONCE = 100 };
    struct bed *bed = *state;
    char properties[64];
    bed_settings(bed, "own", "{\"target\":{\"type\":\"http\"}}");
    for (unsigned i = 0; i < OTHERS; i++) {
        (void)snprintf(properties, sizeof(properties), "{\"url\":\"https://h%u.example/\"}", i);
        for (unsigned times = i == 0 ? 5 : 1; times; times--)
            bed_push(bed, "own", "x", 0, properties);
        if (i % AT_ONCE == 0)
            bed_pass(bed, SECOND_US / 100);
    }
    bed_pass(bed, SECOND_US / 100);
    assert_int_equal(bed->seen_count, OTHERS + 4);
    for (unsigned i = 0; i < 5; i++)
        bed_push(bed, "own", "x", 0, "{\"url\":\"https://h0.example/\"}");
    bed_pass(bed, SECOND_US / 100);
    assert_int_equal(bed->seen_count, OTHERS + 4);
    bed_pass(bed, 2 * SECOND_US);
    assert_int_equal(bed->seen_count, OTHERS + 9);
}

static void own_urls_of_jobs_are_limited_by_their_own_receivers(void **state)
{
    struct bed *bed = *state;
    bed->answer = slow;
    bed_settings(bed, "own", HOOK);
    for (unsigned i = 0; i < 20; i++)
        bed_push(bed, "own", "x", 0, "{\"url\":\"https://a.example/x\"}");
    bed_pass(bed, 60 * SECOND_US);
    assert_int_equal(bed->seen_count, 20);
    assert_int_equal(bed->under_way_most, 2);
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(bed->seen[i].attempt, 1);
    assert_true(bed_counts(bed)->commands < 20 * 8);
}

static void say_410_to_own_urls(struct bed *bed, const struct delivery *delivery,
                                struct sim_answer *answer)
{
    if (bytes_eq(delivery->url, BYTES("https://a.example/x")))
        say_410(bed, delivery, answer);
}

static void gone_from_a_jobs_own_url_buries_that_job_alone(void **state)
{
    struct bed *bed = *state;
    serve(bed, say_410_to_own_urls, HOOK);
    bed_push(bed, "orders", "own", 0, "{\"url\":\"https://a.example/x\"}");
    bed_pass(bed, SECOND_US);
    bed_push(bed, "orders", "topic's", 0, "");
    bed_pass(bed, SECOND_US);
    assert_int_equal(bed->seen_count, 2);
    assert_int_equal(bed_jobs(bed, JOB_BURIED), 1);
    assert_int_equal(bed_jobs(bed, JOB_READY), 0);
    assert_int_equal(bed_counts(bed)->targets_paused, 0);
}

static const struct world_options disabled_soon = {.seed = 5, .disable_after_us = 3 * SECOND_US};

/* Neither do they begin the time in which the target has only failed, nor do they end it. */
static void failures_of_own_urls_are_not_those_of_the_target(void **state)
{
    struct bed *bed = *state;
    serve(bed, say_500, EXACT);
    bed_push(bed, "orders", "own", 0, "{\"url\":\"https://a.example/x\"}");
    bed_pass(bed, 60 * SECOND_US);
    assert_int_equal(bed->seen_count, 3); /* after 6 seconds it was buried */
    assert_int_equal(bed_counts(bed)->targets_paused, 0);
    bed_push(bed, "orders", "topic's", 0, "");
    bed_pass(bed, 2 * SECOND_US);
    bed->answer = NULL;
    bed_push(bed, "orders", "own", 0, "{\"url\":\"https://a.example/x\"}");
    bed_pass(bed, SECOND_US);
    assert_int_equal(bed_counts(bed)->outcomes[OUTCOME_DELIVERED], 1);
    bed->answer = say_500;
    bed_pass(bed, 10 * SECOND_US);
    assert_int_equal(bed_counts(bed)->targets_paused, 1);
}

/* One that hangs, or fails, keeps no place from jobs that go elsewhere. */
static void own_urls_that_fail_leave_the_topic_its_places(void **state)
{
    struct bed *bed = *state;
    serve(bed, say_500, HOOK);
    for (unsigned i = 0; i < 4; i++)
        bed_push(bed, "orders", "own", 0, "{\"url\":\"https://a.example/x\"}");
    bed_pass(bed, SECOND_US / 2);
    assert_int_equal(bed->seen_count, 4);
    bed->answer = slow;
    push_many(bed, "orders", 4);
    bed_pass(bed, SECOND_US / 4);
    assert_int_equal(bed->under_way, 4);
}

static void p6_a_drain_lets_what_was_sent_end_and_reserves_nothing_more(void **state)
{
    struct bed *bed = *state;
    serve(bed, slow, TARGET("shop", ",\"concurrency\":1"));
    push_many(bed, "orders", 3);
    bed_pass(bed, SECOND_US / 2);
    assert_int_equal(bed->under_way, 1);
    assert_true(world_stop(bed->world));
    assert_int_equal(bed->seen_count, 1);
    assert_int_equal(world_boot(bed->world), OK);
    assert_int_equal(bed_jobs(bed, JOB_READY), 2); /* the first one is finished */
}

/* The end beside a sink's thread that hangs: see server_give_up(). */
static void p6_what_a_sink_that_hangs_has_is_given_back_and_its_memory_stays(void **state)
{
    struct bed *bed = *state;
    serve(bed, slow, TARGET("shop", ",\"concurrency\":1"));
    push_many(bed, "orders", 3);
    bed_pass(bed, SECOND_US / 2);
    assert_int_equal(bed->under_way, 1);
    server_abandon(bed_server(bed));
    server_give_up(bed_server(bed));
    assert_int_equal(bed_jobs(bed, JOB_READY), 3);
    assert_int_equal(bed_jobs(bed, JOB_RESERVED), 0);
    assert_int_equal(bed_counts(bed)->in_flight, 1);
    assert_int_equal(sim_sink_under_way(world_sink(bed->world)), 1);
    (void)world_stop(bed->world); /* its outcome comes, and changes nothing */
    assert_int_equal(world_boot(bed->world), OK);
    assert_int_equal(bed_jobs(bed, JOB_READY), 3);
}

static void p2_a_kill_in_between_delivers_again(void **state)
{
    struct bed *bed = *state;
    serve(bed, slow, HOOK);
    push_many(bed, "orders", 1);
    bed_pass(bed, SECOND_US / 2);
    world_crash(bed->world, WORLD_KILL);
    bed->under_way = 0;
    assert_int_equal(world_boot(bed->world), OK);
    bed_settings(bed, "orders", HOOK);
    bed_pass(bed, 3 * SECOND_US);
    assert_int_equal(bed->seen_count, 2);
    assert_int_equal(bed_jobs(bed, JOB_READY) + bed_jobs(bed, JOB_RESERVED), 0);
}

/* What was not sent yet is not reserved any more, and not lost: a restart sends it. */
static void p7_after_a_failed_sync_nothing_is_sent_until_a_restart(void **state)
{
    struct bed *bed = *state;
    struct sim_disk *disk = world_disk(bed->world);
    bed_settings(bed, "orders", HOOK);
    bed_push(bed, "orders", "one", 5 * SECOND_US, "");
    bed_pass(bed, SECOND_US);
    sim_disk_fail_at(disk, sim_disk_points(disk), EIO);
    bed_push(bed, "orders", "two", 3600 * (int64_t)SECOND_US, "");
    bed_pass(bed, 60 * SECOND_US);
    assert_int_equal(bed->seen_count, 0);
    world_crash(bed->world, WORLD_KILL);
    sim_disk_fail_at(disk, UINT64_MAX, 0);
    assert_int_equal(world_boot(bed->world), OK);
    bed_settings(bed, "orders", HOOK);
    bed_pass(bed, SECOND_US);
    assert_int_equal(bed->seen_count, 1);
    assert_string_equal(bed->seen[0].body, "one");
}

static void p10_what_was_ready_is_sent_when_a_restart_finds_the_clock_set_back(void **state)
{
    struct bed *bed = *state;
    bed_push(bed, "orders", "ready", 0, "");
    bed_push(bed, "orders", "delayed", 10 * SECOND_US, "");
    bed_pass(bed, SECOND_US);
    assert_true(world_stop(bed->world));
    bed->set_back_us = 3600 * (int64_t)SECOND_US;
    world_set_clock(bed->world, bed_now(bed) - bed->set_back_us);
    assert_int_equal(world_boot(bed->world), OK);
    bed_settings(bed, "orders", HOOK);
    bed_pass(bed, 20 * SECOND_US);
    assert_int_equal(bed->seen_count, 1);
    assert_string_equal(bed->seen[0].body, "ready");
    bed_pass(bed, bed->set_back_us);
    assert_int_equal(bed->seen_count, 2);
}

static void a_server_without_due_jobs_sleeps(void **state)
{
    struct bed *bed = *state;
    bed_settings(bed, "orders", HOOK);
    bed_pass(bed, SECOND_US);
    uint64_t turns = bed_server(bed)->counts.turns;
    bed_pass(bed, 3600 * (int64_t)SECOND_US);
    assert_true(bed_server(bed)->counts.turns - turns < 5);
}

static void settings_that_vanish_lose_no_job(void **state)
{
    struct bed *bed = *state;
    serve(bed, slow, HOOK);
    push_many(bed, "orders", 3);
    bed_pass(bed, SECOND_US / 2);
    bed_settings(bed, "orders", "");
    bed_pass(bed, 3 * SECOND_US);
    assert_int_equal(bed->seen_count + bed_jobs(bed, JOB_READY), 3);
    assert_int_equal(bed_jobs(bed, JOB_RESERVED), 0);
    assert_int_equal(bed_counts(bed)->topics, 0);
}

struct tried {
    struct pump_trial trial;
    unsigned calls;
    uint16_t code;
};

static void note_trial(struct pump_trial *trial, const struct outcome *outcome)
{
    struct tried *tried = LIST_ENTRY(trial, struct tried, trial);
    tried->calls++;
    tried->code = outcome->code;
}

static void a_test_is_sent_without_a_job_even_if_the_target_is_paused(void **state)
{
    struct bed *bed = *state;
    struct tried tried = {
        .trial = {.done = note_trial, .topic = BYTES("orders"), .body = BYTES("try")}};
    struct pump *pump = bed_server(bed)->pump_stage.pump;
    assert_int_equal(pump_trial_send(pump, &tried.trial), ERR_NOT_FOUND);
    serve(bed, say_410, TARGET("shop", ",\"paused\":true,\"paused_why\":\"work\""));
    assert_int_equal(pump_trial_send(pump, &tried.trial), OK);
    assert_int_equal(tried.calls, 0);
    bed_pass(bed, SECOND_US);
    assert_int_equal(tried.calls, 1);
    assert_int_equal(tried.code, 410);
    assert_string_equal(bed->seen[0].body, "try");
    assert_int_equal(pump_trial_send(pump, &tried.trial), OK);
    pump_trial_cancel(&tried.trial);
    bed_pass(bed, SECOND_US);
    assert_int_equal(tried.calls, 1);
    assert_int_equal(bed_counts(bed)->in_flight, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BED_TEST(p3_p5_a_due_job_is_delivered_and_finished),
        BED_TEST(attempts_follow_the_schedule_and_then_it_is_buried),
        BED_TEST(retry_after_is_waited_for_and_still_buries_at_the_end),
        BED_TEST(a_receiver_that_asks_one_topic_to_wait_is_left_alone_by_others),
        BED_TEST(gone_buries_the_job_and_stops_the_target),
        BED_TEST(a_topic_has_no_more_under_way_than_its_concurrency),
        BED_TEST_OF(a_receiver_has_no_more_under_way_than_host_concurrency, &five_a_host),
        BED_TEST(a_rate_is_kept),
        BED_TEST(settings_that_are_set_again_give_no_new_burst),
        BED_TEST(an_open_breaker_takes_no_attempts_from_jobs),
        BED_TEST(what_was_never_sent_neither_closes_a_breaker_nor_keeps_it_so),
        BED_TEST(a_queue_that_only_fails_stops_no_other_of_its_broker),
        BED_TEST(nothing_is_reserved_while_the_sink_is_away_or_the_target_paused),
        BED_TEST_OF(a_topic_that_hangs_leaves_slots_to_others, &few_slots),
        BED_TEST_OF(a_topic_that_has_to_wait_for_slots_says_so, &few_slots),
        BED_TEST(p8_a_flood_for_a_slow_receiver_takes_no_memory_and_delays_nobody),
        BED_TEST(a_failing_job_comes_again_however_many_wait_behind_it),
        BED_TEST_OF(a_receiver_gets_no_more_in_a_time_than_host_rate, &rated),
        BED_TEST_OF(own_urls_and_ordered_jobs_keep_host_rate_too, &rated),
        BED_TEST_OF(a_receiver_without_a_topic_keeps_its_rate, &rated),
        BED_TEST_OF(own_urls_of_jobs_are_limited_by_their_own_receivers, &two_a_host),
        BED_TEST(gone_from_a_jobs_own_url_buries_that_job_alone),
        BED_TEST_OF(failures_of_own_urls_are_not_those_of_the_target, &disabled_soon),
        BED_TEST(own_urls_that_fail_leave_the_topic_its_places),
        BED_TEST(p6_a_drain_lets_what_was_sent_end_and_reserves_nothing_more),
        BED_TEST(p6_what_a_sink_that_hangs_has_is_given_back_and_its_memory_stays),
        BED_TEST(p2_a_kill_in_between_delivers_again),
        BED_TEST(p7_after_a_failed_sync_nothing_is_sent_until_a_restart),
        BED_TEST(p10_what_was_ready_is_sent_when_a_restart_finds_the_clock_set_back),
        BED_TEST(a_server_without_due_jobs_sleeps),
        BED_TEST(settings_that_vanish_lose_no_job),
        BED_TEST(a_test_is_sent_without_a_job_even_if_the_target_is_paused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
