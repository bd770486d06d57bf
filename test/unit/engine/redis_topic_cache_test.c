/*
 * What a daemon knows of ready jobs: what notices, answers and forgetting make of it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/redis/topic_cache.h"

enum { PARTITIONS = 4 };

static int setup(void **state)
{
    static struct topic_cache topic_cache;
    topic_cache_init(&topic_cache, PARTITIONS);
    *state = &topic_cache;
    return 0;
}

static int teardown(void **state)
{
    topic_cache_fini(*state);
    return 0;
}

static struct script_rank rank(uint32_t priority, int64_t us)
{
    return (struct script_rank){.priority = priority, .us = us};
}

static void left(struct topic *topic, struct script_rank first, uint32_t taken, uint32_t told)
{
    topic_left(topic, 0, &(struct topic_rest){.first = first, .taken = taken, .close_jobs = told},
               10);
}

static void a_topic_is_kept_while_nobody_asks_for_it(void **state)
{
    struct topic_cache *topic_cache = *state;
    struct topic *topic = topic_cache_need(topic_cache, BYTES("t"));
    assert_int_equal(topic->hints[3].what, UNKNOWN);
    assert_null(topic_cache_find(topic_cache, BYTES("u")));
    topic->hints[3].what = EMPTY;
    topic_cache_rest(topic_cache, topic);
    assert_ptr_equal(topic_cache_find(topic_cache, BYTES("t")), topic);
    assert_ptr_equal(topic_cache_need(topic_cache, BYTES("t")), topic);
    assert_int_equal(topic->hints[3].what, EMPTY);
    topic_cache_rest(topic_cache, topic);
}

static void a_notice_is_news_and_an_answer_of_ours_is_not(void **state)
{
    struct topic *topic = topic_cache_need(*state, BYTES("t"));
    for (uint32_t i = 0; i < PARTITIONS; i++)
        topic->hints[i] = (struct hint){.what = EMPTY};
    topic_notice(topic, 1);
    assert_int_equal(topic->hints[1].what, NOTICED);
    assert_true(topic->hints[1].outdated_calls == ALL_CALLS);
    topic_see(topic, 1, rank(1, 1), true, 10); /* whether it is the first there nobody knows */
    assert_int_equal(topic->hints[1].what, NOTICED);
    topic_see(topic, 2, rank(5, 7), true, 10);
    assert_int_equal(topic->hints[2].what, READY);
    assert_int_equal(topic->hints[2].outdated_calls, 0);
    topic_notice(topic, 2);
    assert_int_equal(topic->hints[2].what, READY);
    assert_int_equal(topic->hints[2].first.us, 7);
    topic_forget(topic, PARTITIONS);
    assert_int_equal(topic->hints[2].what, UNKNOWN);
    assert_true(topic->hints[2].outdated_calls == ALL_CALLS);
    topic_cache_rest(*state, topic);
}

/* Whoever forgot it would never pass it on: the next daemon learns of the job when it looks. */
static void that_we_alone_were_told_of_a_job_is_never_forgotten(void **state)
{
    struct topic *topic = topic_cache_need(*state, BYTES("t"));
    for (uint32_t i = 0; i < PARTITIONS; i++)
        topic->hints[i] =
            (struct hint){.what = EMPTY, .notified_alone = i > 0, .alone_call = i, .failed = i > 1};
    topic_see(topic, 1, rank(5, 7), true, 10);
    assert_int_equal(topic->hints[1].what, READY);
    assert_true(topic->hints[1].notified_alone && topic->hints[1].alone_call == 1);
    topic_notice(topic, 2);
    topic_promoted(topic, 3);
    assert_true(topic->hints[2].notified_alone && topic->hints[3].notified_alone);
    topic_forget(topic, PARTITIONS);
    for (uint32_t i = 0; i < PARTITIONS; i++) {
        assert_int_equal(topic->hints[i].what, UNKNOWN);
        assert_int_equal(topic->hints[i].notified_alone, i > 0);
        assert_int_equal(topic->hints[i].alone_call, i);
        assert_int_equal(topic->hints[i].failed, i > 1);
    }
    topic_cache_rest(*state, topic);
}

static void the_first_job_is_the_best_that_was_seen(void **state)
{
    struct topic *topic = topic_cache_need(*state, BYTES("t"));
    topic->hints[0] = (struct hint){.what = TAKEN};
    topic_see(topic, 0, rank(5, 7), true, 10);
    topic_see(topic, 0, rank(5, 8), true, 11);
    assert_int_equal(topic->hints[0].first.us, 7);
    topic_see(topic, 0, rank(4, 9), true, 12);
    assert_int_equal(topic->hints[0].first.priority, 4);
    assert_int_equal(topic->hints[0].at_us, 10);
    assert_true(rank_compare(rank(4, 9), rank(5, 1)) < 0);
    assert_true(rank_compare(rank(4, 9), rank(4, 1)) > 0);
    assert_int_equal(rank_compare(rank(4, 9), rank(4, 9)), 0);
    topic_cache_rest(*state, topic);
}

static void jobs_that_are_close_to_the_first_are_counted(void **state)
{
    struct topic *topic = topic_cache_need(*state, BYTES("t"));
    const struct hint *hint = &topic->hints[0];
    topic->hints[0] = (struct hint){.what = TAKEN};
    topic_see(topic, 0, rank(5, 100000), true, 10);
    assert_int_equal(hint->close_jobs, 1);
    topic_see(topic, 0, rank(5, 150000), true, 10);
    topic_see(topic, 0, rank(5, 150001), true, 10); /* too late */
    topic_see(topic, 0, rank(6, 100000), true, 10); /* of another priority */
    assert_int_equal(hint->close_jobs, 2);
    topic_see(topic, 0, rank(5, 110000), false, 10); /* which may be counted */
    assert_int_equal(hint->close_jobs, 2);
    topic_see(topic, 0, rank(5, 120000), true, 10);
    assert_int_equal(hint->close_jobs, 3);
    left(topic, rank(5, 110000), 1, 0);
    assert_int_equal(hint->close_jobs, 2);
    left(topic, rank(5, 300000), 5, 0); /* others have pushed some */
    assert_int_equal(hint->close_jobs, 1);
    topic_see(topic, 0, rank(5, 100000), true, 10); /* and nothing is close to this */
    assert_int_equal(hint->close_jobs, 1);
    for (uint32_t i = 0; i < 300; i++)
        topic_see(topic, 0, rank(5, 100001), true, 10);
    assert_int_equal(hint->close_jobs, UINT8_MAX);
    topic_cache_rest(*state, topic);
}

/* They come in any order: of what stands behind the new first one only the one before it is sure to
 * be close. */
static void what_stands_far_behind_a_new_first_job_is_not_counted(void **state)
{
    struct topic *topic = topic_cache_need(*state, BYTES("t"));
    const struct hint *hint = &topic->hints[0];
    topic->hints[0] = (struct hint){.what = TAKEN};
    for (int64_t us = 300000; us >= 100000; us -= 25000) {
        topic_see(topic, 0, rank(5, us), true, 10);
        assert_int_equal(hint->close_jobs, us == 300000 ? 1 : 2);
        assert_int_equal(hint->first.us, us);
    }
    topic_see(topic, 0, rank(5, 90000), false, 10);
    assert_int_equal(hint->close_jobs, 1);
    topic_cache_rest(*state, topic);
}

/* Else a partition would be preferred, and asked for jobs due seconds later, for jobs that are
 * gone. */
static void the_count_ends_with_the_jobs_that_it_counted(void **state)
{
    static const struct {
        uint32_t priority;
        int64_t us;
        uint32_t taken, left;
    } cases[] = {
        {5, 100000, 0, 5},                    /* a look: all are there */
        {5, 150000, 0, 5},                    /* others took some: how many nobody knows */
        {5, 150001, 0, 1},                    /* all of these are gone */
        {5, 9000000, 0, 1},                   /* the same */
        {5, 9000000, 2, 1}, {5, 90000, 0, 1}, /* before all that were counted */
        {4, 100000, 0, 1},  {6, 100000, 0, 1}, {5, 110000, 3, 2}, {5, 110000, 5, 1},
    };
    struct topic *topic = topic_cache_need(*state, BYTES("t"));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        topic->hints[0] = (struct hint){.what = READY, .first = rank(5, 100000), .close_jobs = 5};
        left(topic, rank(cases[i].priority, cases[i].us), cases[i].taken, 0);
        assert_int_equal(topic->hints[0].close_jobs, cases[i].left);
    }
    topic->hints[0] = (struct hint){.what = NOTICED, .first = rank(5, 100000), .close_jobs = 5};
    left(topic, rank(5, 100000), 0, 0);
    assert_int_equal(topic->hints[0].close_jobs, 1);
    topic_cache_rest(*state, topic);
}

/* Redis has counted up to four: what is known here is more only if these are four. */
static void what_redis_has_counted_is_believed(void **state)
{
    static const struct {
        uint8_t known, told, left;
    } cases[] = {{5, 1, 1}, {5, 3, 3}, {5, 4, 5}, {1, 3, 3}, {2, 4, 4}, {5, 0, 5}};
    struct topic *topic = topic_cache_need(*state, BYTES("t"));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        topic->hints[0] =
            (struct hint){.what = READY, .first = rank(5, 100), .close_jobs = cases[i].known};
        left(topic, rank(5, 100), 0, cases[i].told);
        assert_int_equal(topic->hints[0].close_jobs, cases[i].left);
    }
    topic_cache_rest(*state, topic);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_redis_has_counted_is_believed, setup, teardown),
        cmocka_unit_test_setup_teardown(a_topic_is_kept_while_nobody_asks_for_it, setup, teardown),
        cmocka_unit_test_setup_teardown(a_notice_is_news_and_an_answer_of_ours_is_not, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(that_we_alone_were_told_of_a_job_is_never_forgotten, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(the_first_job_is_the_best_that_was_seen, setup, teardown),
        cmocka_unit_test_setup_teardown(jobs_that_are_close_to_the_first_are_counted, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(what_stands_far_behind_a_new_first_job_is_not_counted,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(the_count_ends_with_the_jobs_that_it_counted, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
