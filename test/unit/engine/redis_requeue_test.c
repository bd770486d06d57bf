/*
 * Jobs that go back, without a Redis: their releases are tried until they are answered, few at a
 * time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/redis/requeue.h"

enum { PARTITIONS = 2, TIMEOUT_US = 1000, MANY = 600, AT_ONCE = 512, SECOND_US = 1000 * 1000 };

struct redis_requeue_test {
    struct script_space space;
    struct redis_url url;
    struct loop loop;         /* its time and its timers alone */
    struct topology topology; /* of no nodes: nothing is ever sent */
    struct script_requests calls;
    struct redis_requeue requeue;
};

static void look_at_nothing(void *owner, uint32_t partition)
{
    (void)owner;
    (void)partition;
}

static int setup(void **state)
{
    static struct redis_requeue_test test;
    test = (struct redis_requeue_test){.topology.options.url = &test.url};
    timers_init(&test.loop.timers, 0);
    if (script_space_init(&test.space, BYTES("laterd"), PARTITIONS, "daemon-1"))
        return -1;
    script_requests_init(&test.calls,
                         &(struct script_requests_options){.space = &test.space,
                                                           .topology = &test.topology,
                                                           .loop = &test.loop,
                                                           .timeout_us = TIMEOUT_US,
                                                           .to_open = look_at_nothing});
    redis_requeue_init(&test.requeue, &(struct redis_requeue_options){.space = &test.space,
                                                                      .calls = &test.calls,
                                                                      .loop = &test.loop});
    *state = &test;
    return 0;
}

static int teardown(void **state)
{
    struct redis_requeue_test *test = *state;
    script_requests_fini(&test->calls);
    redis_requeue_fini(&test->requeue);
    script_space_fini(&test->space);
    assert_true(timers_next_us(&test->loop.timers) == INT64_MAX); /* all are cancelled */
    timers_fini(&test->loop.timers);
    return 0;
}

static uint32_t under_way(const struct redis_requeue_test *test, uint32_t partition)
{
    const struct list *calls = &test->calls.partitions[partition].calls;
    uint32_t count = 0;
    for (const struct list *at = calls->next; at != calls; at = at->next)
        count++;
    return count;
}

static void at(struct redis_requeue_test *test, int64_t now_us)
{
    test->loop.now_us = now_us;
    while (loop_expire(&test->loop, NULL))
        ;
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
        at(test, now_us);
        assert_int_equal(under_way(test, 0), 0); /* not at once */
        assert_true(timers_next_us(&test->loop.timers) > now_us);
        assert_true(timers_next_us(&test->loop.timers) < now_us + SECOND_US);
        now_us += SECOND_US;
        at(test, now_us);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(releases_are_tried_until_they_are_answered, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
