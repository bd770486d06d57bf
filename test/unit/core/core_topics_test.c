/* Consumers who wait, topics, and what is done to many jobs in slices. */
#include "core/replay.h"
#include "core_recorder.h"

/* ---- waiting ---- */

static void a_wait_ends_at_its_time_with_empty(void **state)
{
    (void)state;
    int ctx;
    assert_true(park(&ctx, "t", 50) != 0);
    assert_int_equal(core_next_us(bed.core), START + 50);
    tick_at(START + 49);
    assert_int_equal(bed.replies, 0);
    tick_at(START + 50);
    assert_int_equal(bed.replies, 1);
    assert_int_equal(last()->err, ERR_EMPTY);
}

static void a_drain_answers_all_who_wait(void **state)
{
    (void)state;
    int ctx;
    park(&ctx, "a", 50);
    park(&ctx, "b", INT64_MAX);
    assert_false(core_drain(bed.core, ERR_DRAINING));
    assert_int_equal(bed.replies, 2);
    assert_int_equal(last()->err, ERR_DRAINING);
}

static void a_topic_that_holds_nothing_is_not_in_use(void **state)
{
    (void)state;
    const struct cmd_topic pause = {.pause_until_us = START + 100, .in_use = true};
    assert_int_equal(do_topic(CMD_PAUSE, pause), ERR_NOT_FOUND);
    uint64_t seq = push_due(START);
    assert_int_equal(do_topic(CMD_PAUSE, pause), OK);
    assert_int_equal(do_job(CMD_DELETE, seq, 0), OK);
    assert_int_equal(do_topic(CMD_RESUME, pause), OK);
    assert_int_equal(do_topic(CMD_PAUSE, pause), ERR_NOT_FOUND);
}

/* Of one that is due, and that no tick has come by yet, it is not told. */
static void a_topics_next_due_time_is_not_in_the_past(void **state)
{
    (void)state;
    push_due(START + 5);
    push_due(START + 9);
    assert_int_equal(do_topic(CMD_TOPIC, (struct cmd_topic){0}), OK);
    assert_int_equal(bed.last[bed.replies - 1].topics[0].next_due_us, START + 5);
    bed.now_us = START + 5;
    assert_int_equal(do_topic(CMD_TOPIC, (struct cmd_topic){0}), OK);
    assert_int_equal(bed.last[bed.replies - 1].topics[0].next_due_us, START + 9);
    bed.now_us = START + 9;
    assert_int_equal(do_topic(CMD_TOPIC, (struct cmd_topic){0}), OK);
    assert_int_equal(bed.last[bed.replies - 1].topics[0].next_due_us, 0);
}

static void a_topic_is_removed_when_it_holds_nothing(void **state)
{
    (void)state;
    int ctx;
    assert_int_equal(do_topic(CMD_REMOVE_TOPIC, (struct cmd_topic){0}), ERR_NOT_FOUND);
    uint64_t seq = push_due(START);
    assert_int_equal(do_topic(CMD_PAUSE, (struct cmd_topic){.pause_until_us = INT64_MAX}), OK);
    assert_int_equal(do_topic(CMD_REMOVE_TOPIC, (struct cmd_topic){0}), OK);
    assert_true(last()->more); /* its job is there; its pause is over, and the log knows */
    assert_int_equal(last_event()->kind, EVENT_TOPIC);
    assert_int_equal(reserve(), OK);
    assert_int_equal(do_job(CMD_DELETE, seq, 0), OK);
    park(&ctx, "t", 1000);
    assert_int_equal(do_topic(CMD_REMOVE_TOPIC, (struct cmd_topic){0}), OK);
    assert_true(last()->more);
    assert_false(core_drain(bed.core, ERR_DRAINING));
    assert_int_equal(do_topic(CMD_REMOVE_TOPIC, (struct cmd_topic){0}), OK);
    assert_false(last()->more);
    assert_int_equal(do_topic(CMD_TOPIC, (struct cmd_topic){0}), ERR_NOT_FOUND);
    const struct cmd_topic pause = {.pause_until_us = START + 100, .must_exist = true};
    assert_int_equal(do_topic(CMD_PAUSE, pause), ERR_NOT_FOUND);
    core_valid(bed.core);
}

static void a_paused_topic_gives_nothing_until_the_pause_is_over(void **state)
{
    (void)state;
    int ctx;
    push_due(START);
    assert_int_equal(do_topic(CMD_PAUSE, (struct cmd_topic){.pause_until_us = START + 100}), OK);
    assert_int_equal(last_event()->kind, EVENT_TOPIC);
    assert_int_equal(reserve(), ERR_EMPTY);
    park(&ctx, "t", 1000);
    assert_false(core_match(bed.core, START, 10));
    tick_at(START + 100);
    core_match(bed.core, bed.now_us, 10);
    assert_int_equal(last()->err, OK);
    assert_ptr_equal(bed.last[bed.replies - 1].ctx, &ctx);
}

static void a_waiter_on_a_topic_listed_twice_is_answered_once(void **state)
{
    (void)state;
    struct bytes topics[] = {BYTES("t"), BYTES("t"), BYTES("u")};
    uint64_t parked = core_apply(
        bed.core, START,
        &(struct cmd){.kind = CMD_RESERVE,
                      .reserve = {.topics = topics, .topic_count = 3, .max = 1, .wait_us = 10}},
        &bed);
    assert_true(parked != 0);
    core_valid(bed.core);
    assert_int_equal(do_topic(CMD_TOPIC, (struct cmd_topic){0}), OK);
    assert_int_equal(bed.last[bed.replies - 1].topics[0].waiters, 1);
    push_due(START);
    push_cmd((struct cmd_push){.topic = BYTES("u")});
    unsigned before = bed.replies;
    core_match(bed.core, START, 10);
    assert_int_equal(bed.replies, before + 1);
}

static void the_first_of_100000_due_together_is_served_in_the_first_slice(void **state)
{
    (void)state;
    int ctx;
    for (int i = 0; i < 100000; i++)
        push_due(START + SECOND);
    park(&ctx, "t", 10 * SECOND);
    bed.now_us = START + SECOND;
    assert_true(core_tick(bed.core, bed.now_us, 1000)); /* one slice, with more to do */
    unsigned before = bed.replies;
    core_match(bed.core, bed.now_us, 1000);
    assert_int_equal(bed.replies, before + 1);
    struct core_totals totals;
    core_totals(bed.core, &totals);
    assert_true(totals.jobs[JOB_DELAYED] >= 98000);
}

/* ---- topics and long scans ---- */

static void topics_are_paged_by_name(void **state)
{
    (void)state;
    static const char *const names[] = {"pear", "fig", "apple", "plum", "date"};
    for (int i = 0; i < 5; i++)
        push_cmd((struct cmd_push){.topic = bytes_str(names[i])});
    struct cmd cmd = {.kind = CMD_TOPICS, .topic = {.topic = BYTES("apple"), .max = 3}};
    assert_int_equal(apply(&cmd), OK);
    assert_int_equal(last()->count, 3);
    assert_true(last()->more);
    const struct topic_view *topics = bed.last[bed.replies - 1].topics;
    assert_true(bytes_eq(topics[0].name, BYTES("date")));
    assert_true(bytes_eq(topics[1].name, BYTES("fig")));
    assert_true(bytes_eq(topics[2].name, BYTES("pear")));
    assert_int_equal(do_topic(CMD_TOPIC, (struct cmd_topic){.topic = BYTES("none")}),
                     ERR_NOT_FOUND);
}

static uint64_t park_scan(enum cmd_kind kind, struct cmd_topic topic)
{
    uint64_t parked = 0;
    topic.topic = BYTES("t");
    parked = core_apply(bed.core, bed.now_us, &(struct cmd){.kind = kind, .topic = topic}, &bed);
    return parked;
}

static void delayed_jobs_are_cleared_in_slices_up_to_max(void **state)
{
    (void)state;
    for (int i = 0; i < 30000; i++)
        push_due(START + SECOND);
    assert_true(
        park_scan(CMD_CLEAR_TOPIC, (struct cmd_topic){.max = 25000, .state = JOB_DELAYED}) != 0);
    while (core_tick(bed.core, START, 1000))
        ;
    assert_int_equal(last()->kind, CMD_CLEAR_TOPIC);
    assert_int_equal(last()->count, 25000);
    assert_true(last()->more);
}

static void what_falls_due_is_counted_by_span(void **state)
{
    (void)state;
    for (int i = 0; i < 500; i++)
        push_due(START + 1 + (int64_t)i * SECOND);
    int64_t until_us[] = {START + 60 * SECOND, START + 300 * SECOND, INT64_MAX};
    uint64_t counts[3];
    core_due_until(bed.core, until_us, counts, 3);
    assert_int_equal(counts[0], 60);
    assert_int_equal(counts[1], 300);
    assert_int_equal(counts[2], 500);
}

static void lateness_is_counted_at_hand_over(void **state)
{
    (void)state;
    push_due(START + 10);
    tick_at(START + 10 + 300);
    assert_int_equal(reserve(), OK);
    struct core_totals totals;
    core_totals(bed.core, &totals);
    assert_int_equal(totals.lateness_histogram.sum_us, 300);
    unsigned half = 500;
    for (int span = LATENESS_ALL_TIME; span <= LATENESS_LAST_MINUTE; span++) {
        int64_t bound_us;
        lateness_quantiles_us(&totals.lateness, (enum lateness_span)span, START + 310, &half,
                              &bound_us, 1);
        assert_true(bound_us > 300 && bound_us <= 600);
    }
}

static void unread_jobs_are_carried_in_slices_without_their_bodies(void **state)
{
    (void)state;
    uint64_t seqs[5];
    for (int i = 0; i < 5; i++)
        seqs[i] = push_cmd((struct cmd_push){.due_us = START + SECOND, .body = BYTES("body")});
    uint64_t where = bed.where; /* of the last; each has the next place */
    unsigned before = bed.event_count;
    unsigned slices = 1;
    uint32_t cursor = 0;
    while (core_relocate_unread(bed.core, where - 2, where, &cursor, 2))
        slices++;
    assert_true(slices > 2);
    assert_int_equal(bed.event_count, before + 2);
    const struct event *event = last_event();
    assert_int_equal(event->kind, EVENT_JOB);
    assert_int_equal(event->job.seq, seqs[3]);
    assert_int_equal(event->job.due_us, START + SECOND);
    assert_int_equal(event->record.where, where - 1); /* it dies there */
    assert_int_equal(event->body.len, 0);
    cursor = 0;
    while (core_relocate_unread(bed.core, where - 2, where, &cursor, 100))
        continue;
    assert_int_equal(bed.event_count, before + 2); /* they live elsewhere now */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(unread_jobs_are_carried_in_slices_without_their_bodies),
        TEST(a_wait_ends_at_its_time_with_empty),
        TEST(a_drain_answers_all_who_wait),
        TEST(a_topic_that_holds_nothing_is_not_in_use),
        TEST(a_topics_next_due_time_is_not_in_the_past),
        TEST(a_topic_is_removed_when_it_holds_nothing),
        TEST(a_paused_topic_gives_nothing_until_the_pause_is_over),
        TEST(a_waiter_on_a_topic_listed_twice_is_answered_once),
        TEST(the_first_of_100000_due_together_is_served_in_the_first_slice),
        TEST(topics_are_paged_by_name),
        TEST(delayed_jobs_are_cleared_in_slices_up_to_max),
        TEST(what_falls_due_is_counted_by_span),
        TEST(lateness_is_counted_at_hand_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
