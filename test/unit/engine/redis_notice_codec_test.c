/*
 * News that comes while a question is under way, whose answer does not know of it: it is asked once
 * more. No Redis takes part: answers are told by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/redis/consumers.h"
#include "engine/redis/promoter.h"
#include "engine/redis/script_parts.h"

enum { NOW_US = 1000 * 1000 };

struct news_test {
    struct script_space space;
    struct redis_url url;
    struct loop loop;         /* its time and its timers alone */
    struct topology topology; /* of no nodes: nothing is ever sent */
    struct script_requests calls;
};

static int setup(void **state)
{
    static struct news_test test;
    test = (struct news_test){.topology.options.url = &test.url, .loop.now_us = NOW_US};
    timers_init(&test.loop.timers, NOW_US);
    if (script_space_init(&test.space, BYTES("laterd"), 1, "daemon-1"))
        return -1;
    script_requests_init(&test.calls,
                         &(struct script_requests_options){.space = &test.space,
                                                           .topology = &test.topology,
                                                           .loop = &test.loop,
                                                           .timeout_us = 100 * NOW_US});
    *state = &test;
    return 0;
}

static int teardown(void **state)
{
    struct news_test *test = *state;
    script_requests_fini(&test->calls);
    script_space_fini(&test->space);
    assert_true(timers_next_us(&test->loop.timers) == INT64_MAX); /* all are cancelled */
    timers_fini(&test->loop.timers);
    return 0;
}

/* Does what is due. */
static void expire(struct news_test *test)
{
    while (loop_expire(&test->loop, NULL))
        ;
}

/* Calls that somebody waits for; those that have been answered stay without an owner. */
static struct script_request *under_way(struct news_test *test)
{
    struct list *all = &test->calls.partitions[0].calls;
    for (struct list *at = all->next; at != all; at = at->next) {
        struct script_request *call = LIST_ENTRY(at, struct script_request, place);
        if (call->owner)
            return call;
    }
    return NULL;
}

static unsigned count_under_way(struct news_test *test)
{
    struct list *all = &test->calls.partitions[0].calls;
    unsigned count = 0;
    for (struct list *at = all->next; at != all; at = at->next)
        count += LIST_ENTRY(at, struct script_request, place)->owner != NULL;
    return count;
}

static void answer(struct news_test *test, uint8_t err, uint8_t flags, const char *rest)
{
    struct script_request *call = under_way(test);
    char first[SCRIPT_ANSWER_BYTES] = {(char)err, 0, (char)flags};
    memset(first + 8, 0xff, 6); /* next: never, which is 2^53 - 1 */
    first[14] = 0x1f;
    struct bytes parts[2] = {bytes_of(first, sizeof(first)), bytes_str(rest)};
    assert_non_null(call);
    void *owner = call->owner;
    call->owner = NULL;
    call->done(owner, call, OK, parts, rest[0] ? 2 : 1);
}

static void ignore_partition(void *owner, uint32_t partition)
{
    (void)owner;
    (void)partition;
}

static void what_is_due_meanwhile_is_promoted_next(void **state)
{
    struct news_test *test = *state;
    struct promoter promoter;
    bool ours = true;
    struct members members = {.options = {.space = &test->space, .loop = &test->loop},
                              .ours = &ours};
    promoter_init(&promoter, &(struct promoter_options){.space = &test->space,
                                                        .calls = &test->calls,
                                                        .loop = &test->loop,
                                                        .subscribed = &ours,
                                                        .believe_us = NOW_US,
                                                        .members = &members,
                                                        .promoting = ignore_partition});
    promoter_members_changed(&promoter);
    expire(test);
    promoter_due(&promoter, 0, NOW_US + 1);
    answer(test, 0, 0, ""); /* nothing is due, ever */
    expire(test);
    assert_non_null(under_way(test));
    answer(test, 0, 0, "");
    expire(test);
    assert_null(under_way(test));
    assert_false(timer_is_armed(&promoter.duties[0].promote));
    promoter_fini(&promoter);
}

static void start_consumers(struct news_test *test, struct consumers *consumers)
{
    consumers_init(consumers, &(struct consumers_options){.space = &test->space,
                                                          .calls = &test->calls,
                                                          .loop = &test->loop,
                                                          .believe_us = NOW_US,
                                                          .waiters_max = 10,
                                                          .timeout_us = NOW_US});
    consumers_subscribed(consumers, 0, true);
}

static void never_answered(struct ticket *ticket, const struct reply *reply)
{
    (void)ticket;
    assert_int_equal(reply->err, ERR_DRAINING); /* at the end */
}

static const struct bytes topic = {"t", 1};

/* Its reserve is under way. */
static void start_with_one_who_waits(struct news_test *test, struct consumers *consumers,
                                     struct ticket *ticket)
{
    struct cmd_reserve reserve = {
        .topics = &topic, .topic_count = 1, .max = 1, .wait_us = 50 * NOW_US};
    *ticket = (struct ticket){.answered = never_answered};
    start_consumers(test, consumers);
    consumers_reserve(consumers, &reserve, ticket);
    consumers_match(consumers, NULL);
}

static const char none[] = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff";

static void a_notice_is_newer_than_the_answer_behind_it(void **state)
{
    struct news_test *test = *state;
    struct consumers consumers;
    struct ticket ticket;
    start_with_one_who_waits(test, &consumers, &ticket);
    consumers_ready(&consumers, topic, 0, NOTIFIED_ALONE);
    consumers_match(&consumers, NULL);
    assert_int_equal(count_under_way(test), 1); /* it is needed here: nobody else is told */
    answer(test, 5, 16, none);                  /* empty, and a mark was left: before the notice */
    consumers_match(&consumers, NULL);
    assert_non_null(under_way(test));
    answer(test, 5, 16, none);
    consumers_match(&consumers, NULL);
    assert_null(under_way(test));
    consumers_fini(&consumers);
}

static bool passes_on(struct news_test *test)
{
    const struct script_request *call = under_way(test);
    struct bytes text = call ? buf_bytes(&call->request) : BYTES("");
    return memmem(text.at, text.len, "\r\np\r\n", 5) != NULL;
}

/* It was told of a job while a reserve was under way that had come before that job; then the one
   who waited for it has gone. */
static void one_told_of_a_job_whose_consumer_goes_meanwhile_passes_it_on(void **state)
{
    struct news_test *test = *state;
    struct consumers consumers;
    struct ticket ticket;
    start_with_one_who_waits(test, &consumers, &ticket);
    assert_int_equal(count_under_way(test), 1);
    consumers_ready(&consumers, topic, 0, NOTIFIED_ALONE);
    consumers_cancel(&consumers, ticket.held);
    consumers_match(&consumers, NULL);
    assert_int_equal(count_under_way(test), 1); /* it may get that job, and give it back */
    assert_false(passes_on(test));
    answer(test, 5, 16, none);
    consumers_match(&consumers, NULL);
    assert_true(passes_on(test));
    answer(test, 5, 0, "");
    assert_null(under_way(test));
    consumers_fini(&consumers);
}

static void one_told_of_a_job_that_it_does_not_need_passes_it_on(void **state)
{
    struct news_test *test = *state;
    struct consumers consumers;
    start_consumers(test, &consumers);
    consumers_ready(&consumers, topic, 0, NOTIFIED_OTHER);
    consumers_ready(&consumers, topic, 0, NOTIFIED_ALL);
    assert_null(under_way(test));
    consumers_ready(&consumers, topic, 0, NOTIFIED_ALONE); /* nobody has ever asked for it here */
    assert_true(passes_on(test));
    answer(test, 5, 0, "");
    assert_null(under_way(test));
    consumers_fini(&consumers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_due_meanwhile_is_promoted_next, setup, teardown),
        cmocka_unit_test_setup_teardown(one_told_of_a_job_that_it_does_not_need_passes_it_on, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            one_told_of_a_job_whose_consumer_goes_meanwhile_passes_it_on, setup, teardown),
        cmocka_unit_test_setup_teardown(a_notice_is_newer_than_the_answer_behind_it, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
