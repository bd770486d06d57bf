/*
 * Topics come when named and go, longest idle first, only when their room is needed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "core/topic.h"

static struct topics topics;
static struct pool no_jobs;

static int setup(void **state)
{
    (void)state;
    pool_init(&no_jobs, sizeof(struct job));
    topics_init(&topics, &no_jobs, 3, 5);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    topics_valid(&topics);
    topics_fini(&topics);
    return mem_used() == 0 ? 0 : -1;
}

static struct topic *need(const char *name)
{
    struct topic *topic = NULL;
    assert_int_equal(topics_get_or_create(&topics, bytes_str(name), &topic), OK);
    topics_valid(&topics);
    return topic;
}

static bool is_there(const char *name)
{
    return topics_find(&topics, bytes_str(name)) != NULL;
}

static void hold(struct topic *topic, bool hold)
{
    topic->pins = hold;
    topics_relist(&topics, topic);
}

static void the_longest_idle_topic_makes_room(void **state)
{
    (void)state;
    struct topic *a = need("a");
    struct topic *b = need("b");
    (void)need("c");
    assert_ptr_equal(need("a"), a); /* naming it again does not make another */
    hold(a, true);
    hold(a, false); /* a has been busy since, so b is idle for longest */
    (void)need("d");
    assert_true(is_there("a") && is_there("c") && is_there("d"));
    assert_false(is_there("b"));
    (void)b;
}

static void a_topic_that_holds_something_stays(void **state)
{
    (void)state;
    hold(need("a"), true);
    struct topic *paused = need("b");
    paused->pause_until_us = INT64_MAX;
    topics_relist(&topics, paused);
    hold(need("c"), true);
    struct topic *other = NULL;
    assert_int_equal(topics_get_or_create(&topics, BYTES("d"), &other), ERR_TOPICS_LIMIT);
    assert_null(other);
    hold(topics_find(&topics, BYTES("c")), false);
    (void)need("d");
    assert_false(is_there("c"));
}

static void evicted_topics_are_not_gone_through(void **state)
{
    (void)state;
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    for (int i = 0; i < 5; i++)
        (void)need(names[i]);
    unsigned count = 0;
    for (uint32_t i = topics_next(&topics, 0); i != POOL_NONE; i = topics_next(&topics, i + 1))
        count++;
    assert_int_equal(count, 3);
}

static void a_topic_must_have_a_name_of_fair_length(void **state)
{
    (void)state;
    char name[TOPIC_NAME_MAX + 1] = {'x'};
    struct topic *topic = NULL;
    assert_int_equal(topics_get_or_create(&topics, (struct bytes){0}, &topic), ERR_INVALID);
    assert_int_equal(topics_get_or_create(&topics, bytes_of(name, sizeof(name)), &topic),
                     ERR_INVALID);
    assert_int_equal(topics_get_or_create(&topics, bytes_of(name, TOPIC_NAME_MAX), &topic), OK);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_longest_idle_topic_makes_room),
        TEST(a_topic_that_holds_something_stays),
        TEST(evicted_topics_are_not_gone_through),
        TEST(a_topic_must_have_a_name_of_fair_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
