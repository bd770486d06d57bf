/*
 * Jobs that go back, without a Redis: their releases are tried until they are answered, few at a
 * time.
 */
#include "redis_calls_bed.h"

#include "engine/redis/requeue.h"
#include "engine/redis/script_parts.h"

enum { MANY = 600, AT_ONCE = 512, SECOND_US = 1000 * 1000 };

struct redis_requeue_test {
    struct calls_bed bed;
    struct redis_requeue requeue;
};

static int setup(void **state)
{
    static struct redis_requeue_test test;
    if (!calls_bed_open(&test.bed))
        return -1;
    redis_requeue_init(&test.requeue, &(struct redis_requeue_options){.space = &test.bed.space,
                                                                      .calls = &test.bed.calls,
                                                                      .loop = &test.bed.loop});
    *state = &test;
    return 0;
}

static int teardown(void **state)
{
    struct redis_requeue_test *test = *state;
    script_requests_fini(&test->bed.calls);
    redis_requeue_fini(&test->requeue);
    calls_bed_close(&test->bed);
    return 0;
}

static uint32_t under_way(const struct redis_requeue_test *test, uint32_t partition)
{
    const struct list *calls = &test->bed.calls.partitions[partition].calls;
    uint32_t count = 0;
    for (const struct list *at = calls->next; at != calls; at = at->next)
        count++;
    return count;
}

static void releases_are_tried_until_they_are_answered(void **state)
{
    struct redis_requeue_test *test = *state;
    int64_t now_us = 0;
    for (uint64_t i = 0; i < MANY; i++)
        redis_requeue_add(&test->requeue, &(struct cmd_job){.ref.seq = PARTITIONS * i, .lease = 7});
    redis_requeue_add(&test->requeue, &(struct cmd_job){.ref.seq = 1, .lease = 7});
    for (int tries = 0; tries < 5; tries++) {
        assert_int_equal(under_way(test, 0), AT_ONCE);
        assert_int_equal(under_way(test, 1), 1);
        now_us += TIMEOUT_US;
        calls_bed_at(&test->bed, now_us);
        assert_int_equal(under_way(test, 0), 0); /* not at once */
        assert_true(timers_next_us(&test->bed.loop.timers) > now_us);
        assert_true(timers_next_us(&test->bed.loop.timers) < now_us + SECOND_US);
        now_us += SECOND_US;
        calls_bed_at(&test->bed, now_us);
    }
}

/* The job has gone, or its lease was not valid any more: nobody is told that it is back. */
static void answer_all(const struct redis_requeue_test *test, uint32_t partition)
{
    const struct list *calls = &test->bed.calls.partitions[partition].calls;
    const char none[SCRIPT_ANSWER_BYTES] = {1};
    const struct bytes answer = bytes_of(none, sizeof(none));
    for (struct list *at = calls->next; at != calls; at = at->next) {
        struct script_request *call = LIST_ENTRY(at, struct script_request, place);
        void *owner = call->owner;
        call->owner = NULL;
        if (owner)
            call->done(owner, call, OK, &answer, 1);
    }
}

static void what_waits_is_sent_when_others_are_answered(void **state)
{
    struct redis_requeue_test *test = *state;
    for (uint64_t i = 0; i < MANY; i++)
        redis_requeue_add(&test->requeue, &(struct cmd_job){.ref.seq = PARTITIONS * i, .lease = 7});
    assert_int_equal(under_way(test, 0), AT_ONCE);
    answer_all(test, 0);
    assert_true(redis_requeue_is_pending(&test->requeue));
    calls_bed_at(&test->bed, 1);
    assert_int_equal(under_way(test, 0), MANY); /* AT_ONCE of them are answered */
    answer_all(test, 0);
    assert_false(redis_requeue_is_pending(&test->requeue));
}

/* One that did not arrive counts no attempt; one whose consumer has gone does. */
static void a_release_says_why_and_waits_for_replicas(void **state)
{
    static const enum release_why whys[] = {RELEASE_ASKED, RELEASE_UNDELIVERED, RELEASE_ABANDONED};
    struct redis_requeue_test *test = *state;
    for (size_t i = 0; i < 3; i++) {
        struct cmd cmd = {.kind = CMD_RELEASE,
                          .job = {.ref.seq = PARTITIONS * i, .lease = 7, .why = whys[i]}};
        redis_requeue_add(&test->requeue, &cmd.job);
        const struct script_request *call =
            LIST_ENTRY(test->bed.calls.partitions[0].calls.prev, struct script_request, place);
        struct buf want = {0};
        script_encode(&want, &test->bed.space, &call->id, &cmd);
        assert_true(bytes_eq(buf_bytes(&call->request), buf_bytes(&want)));
        assert_true(call->changes);
        buf_fini(&want);
    }
}

/* A delivery that was not tried, and is to be tried again later. */
static void a_release_for_later_keeps_its_time(void **state)
{
    struct redis_requeue_test *test = *state;
    for (uint64_t later = 0; later < 2; later++) {
        redis_requeue_add(&test->requeue, &(struct cmd_job){.ref.seq = later,
                                                            .lease = 7,
                                                            .why = RELEASE_UNDELIVERED,
                                                            .has_delay = later,
                                                            .due_us = 3 * SECOND_US});
        const struct script_request *call =
            LIST_ENTRY(test->bed.calls.partitions[later].calls.next, struct script_request, place);
        struct bytes due = script_argument(buf_bytes(&call->request), 7);
        assert_int_equal(due.len > 0, later);
    }
}

/* Redis refused one just now, and the next is tried later: but not behind the farewell. */
static void p5_what_goes_back_is_sent_before_the_daemon_leaves_and_not_after(void **state)
{
    struct redis_requeue_test *test = *state;
    redis_requeue_add(&test->requeue, &(struct cmd_job){.ref.seq = 0, .lease = 7});
    calls_bed_at(&test->bed, TIMEOUT_US);
    redis_requeue_add(&test->requeue, &(struct cmd_job){.ref.seq = PARTITIONS, .lease = 7});
    assert_int_equal(under_way(test, 0), 0);
    assert_true(redis_requeue_is_pending(&test->requeue)); /* who leaves waits for them */
    redis_requeue_leave(&test->requeue);
    assert_int_equal(under_way(test, 0), 2);
    redis_requeue_add(&test->requeue, &(struct cmd_job){.ref.seq = 1, .lease = 7});
    assert_int_equal(under_way(test, 1), 0);
    calls_bed_at(&test->bed, 2 * TIMEOUT_US);
    assert_int_equal(under_way(test, 0), 0); /* nor is what was not answered */
    calls_bed_at(&test->bed, 2 * TIMEOUT_US + SECOND_US);
    assert_int_equal(under_way(test, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(releases_are_tried_until_they_are_answered, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(what_waits_is_sent_when_others_are_answered, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_release_says_why_and_waits_for_replicas, setup, teardown),
        cmocka_unit_test_setup_teardown(a_release_for_later_keeps_its_time, setup, teardown),
        cmocka_unit_test_setup_teardown(
            p5_what_goes_back_is_sent_before_the_daemon_leaves_and_not_after, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
