/*
 * Who lives and who owns what, by what daemons say of themselves. No Redis takes part: our own
 * heartbeats are not sent, their answers are told by hand.
 */
#include "engine/redis/members.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "engine/redis/script_parts.h"

enum { PARTITIONS = 64, ALIVE_US = 5 * 1000 * 1000, SECOND_US = 1000 * 1000 };

static const struct script_space spaces[3] = {
    {.partitions = PARTITIONS, .daemon = "daemon-0"},
    {.partitions = PARTITIONS, .daemon = "daemon-1"},
    {.partitions = PARTITIONS, .daemon = "daemon-2"},
};
static struct members members[3];
static struct loop loop; /* its time and its timers alone */
static unsigned changes;

/* It is so late now: what is due is done. */
static void at(int64_t now_us)
{
    loop.now_us = now_us;
    while (loop_expire(&loop, NULL))
        ;
}

static void note_change(void *owner)
{
    (void)owner;
    changes++;
}

static void begin_time(void)
{
    loop = (struct loop){.now_us = 1000 * SECOND_US};
    timers_init(&loop.timers, loop.now_us);
    changes = 0;
}

static int end_time(void)
{
    assert_true(timers_next_us(&loop.timers) == INT64_MAX); /* all are cancelled */
    timers_fini(&loop.timers);
    return 0;
}

/* All have been in contact for a long time. */
static int set_up(void **state)
{
    (void)state;
    begin_time();
    for (int i = 0; i < 3; i++) {
        members_init(&members[i], &(struct members_options){.space = &spaces[i],
                                                            .loop = &loop,
                                                            .alive_us = ALIVE_US,
                                                            .changed = note_change});
        members[i].contact_us = loop.now_us;
        members[i].since_us = loop.now_us - ALIVE_US;
        members[i].how = SCRIPT_SERVES;
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        members_fini(&members[i]);
    return end_time();
}

static void say(int who, enum script_how how)
{
    struct script_member said = {.how = how};
    memcpy(said.name, spaces[who].daemon, SCRIPT_NAME);
    members[who].how = how;
    for (int i = 0; i < 3; i++)
        members_heard(&members[i], &said);
}

static void pass(int64_t us)
{
    for (int i = 0; i < 3; i++)
        members[i].contact_us = loop.now_us + us;
    at(loop.now_us + us);
}

static uint32_t owned(int who)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < PARTITIONS; i++)
        count += members_own(&members[who], i);
    return count;
}

static size_t living(int who)
{
    struct buf names = {0};
    members_living(&members[who], &names);
    size_t count = names.len / SCRIPT_NAME;
    buf_fini(&names);
    return count;
}

static void all_say(enum script_how how)
{
    for (int i = 0; i < 3; i++)
        say(i, how);
    pass(0);
}

static void every_partition_has_one_owner(void **state)
{
    (void)state;
    all_say(SCRIPT_SERVES);
    for (uint32_t i = 0; i < PARTITIONS; i++) {
        int owners = 0;
        for (int who = 0; who < 3; who++)
            owners += members_own(&members[who], i);
        assert_int_equal(owners, 1);
    }
    for (int who = 0; who < 3; who++)
        assert_in_range(owned(who), PARTITIONS / 8, PARTITIONS / 2);
}

static void one_that_is_silent_loses_its_partitions_within_two_seconds(void **state)
{
    (void)state;
    all_say(SCRIPT_SERVES);
    pass(SECOND_US);
    say(0, SCRIPT_SERVES);
    say(1, SCRIPT_SERVES);
    pass(SECOND_US / 2);
    assert_int_equal(owned(0) + owned(1), PARTITIONS);
    assert_int_equal(living(0), 3);
    assert_int_equal(members[0].gone, 0);
    say(2, SCRIPT_SERVES);
    pass(0);
    assert_int_equal(owned(0) + owned(1) + owned(2), PARTITIONS);
    assert_true(owned(2) > 0);
}

static void one_that_is_silent_for_long_is_dead(void **state)
{
    (void)state;
    all_say(SCRIPT_SERVES);
    pass(ALIVE_US - 1);
    say(1, SCRIPT_SERVES);
    pass(0);
    assert_int_equal(living(0), 3);
    assert_int_equal(timers_next_us(&loop.timers), loop.now_us + 1);
    changes = 0;
    pass(1);
    assert_true(changes >= 1);
    assert_int_equal(living(0), 2);
    assert_int_equal(members[0].gone, 1);
    assert_true(members_know(&members[0]));
}

static void one_that_leaves_is_gone_at_once(void **state)
{
    (void)state;
    all_say(SCRIPT_SERVES);
    say(2, SCRIPT_LEAVES);
    pass(0);
    assert_int_equal(living(0), 2);
    assert_int_equal(owned(0) + owned(1), PARTITIONS);
    assert_int_equal(members[0].gone, 1); /* it may not have given back all it held */
}

static void who_does_not_reach_all_owns_nothing_unless_nobody_does(void **state)
{
    (void)state;
    all_say(SCRIPT_SERVES);
    say(2, SCRIPT_LIVES);
    pass(0);
    assert_int_equal(owned(0) + owned(1), PARTITIONS);
    assert_int_equal(owned(2), 0);
    all_say(SCRIPT_LIVES);
    assert_int_equal(owned(0) + owned(1) + owned(2), PARTITIONS);
    assert_true(owned(2) > 0);
}

static void who_hears_nothing_itself_says_nobody_dead(void **state)
{
    (void)state;
    all_say(SCRIPT_SERVES);
    at(loop.now_us + ALIVE_US); /* no heartbeat of ours was answered meanwhile */
    assert_false(members_know(&members[0]));
    members[0].contact_us = members[0].since_us = loop.now_us; /* it is back */
    assert_false(members_know(&members[0]));
    assert_int_equal(owned(0), PARTITIONS);
}

static void who_was_never_in_contact_owns_nothing(void **state)
{
    (void)state;
    members[0].contact_us = 0;
    members_heard(&members[0], &(struct script_member){.name = "daemon-2", .how = SCRIPT_SERVES});
    at(loop.now_us);
    assert_int_equal(owned(0), 0);
    assert_false(members_know(&members[0]));
}

/* ---- our own heartbeats ---- */

static unsigned words_left;

static bool serves(void *owner)
{
    (void)owner;
    return true;
}

static void ignore_beat(void *owner, const struct bytes *policy)
{
    (void)owner;
    (void)policy;
}

static void leave_word(void *owner)
{
    (void)owner;
    words_left++;
}

/* The only call under way is a heartbeat: it is answered, with no other daemon. */
static void answer_beat(struct script_requests *calls)
{
    struct script_request *call =
        LIST_ENTRY(calls->partitions[0].calls.next, struct script_request, place);
    char first[SCRIPT_ANSWER_BYTES] = {0};
    struct bytes parts[2] = {bytes_of(first, sizeof(first)), BYTES("")};
    void *owner = call->owner;
    call->owner = NULL;
    call->done(owner, call, OK, parts, 2);
    list_remove(&call->place);
    list_remove(&call->unsent);
    buf_fini(&call->request);
    mem_free(call);
}

/* Others count from when Redis had our last heartbeat, which is when we sent it, or later. */
static void whoever_was_not_heard_for_long_leaves_word_again(void **state)
{
    (void)state;
    struct redis_url url = {.topology = REDIS_SINGLE};
    struct topology topology = {.options.url = &url}; /* of no nodes */
    struct script_space space;
    struct script_requests calls;
    struct members us;
    begin_time();
    int64_t began_us = loop.now_us;
    assert_int_equal(script_space_init(&space, BYTES("laterd"), 1, "daemon-0"), OK);
    script_requests_init(&calls, &(struct script_requests_options){.space = &space,
                                                                   .topology = &topology,
                                                                   .loop = &loop,
                                                                   .timeout_us = 10 * ALIVE_US});
    members_init(&us, &(struct members_options){.space = &space,
                                                .calls = &calls,
                                                .loop = &loop,
                                                .alive_us = ALIVE_US,
                                                .serves = serves,
                                                .missed = leave_word,
                                                .beaten = ignore_beat,
                                                .changed = note_change});
    words_left = 0;
    members_start(&us);
    at(began_us);
    loop.now_us = began_us + SECOND_US; /* a slow answer */
    answer_beat(&calls);
    at(loop.now_us); /* the next one */
    loop.now_us = began_us + ALIVE_US - 1;
    answer_beat(&calls);
    assert_int_equal(words_left, 0);
    at(began_us + ALIVE_US);
    loop.now_us = began_us + SECOND_US + ALIVE_US;
    answer_beat(&calls); /* four seconds and less after the last answer */
    assert_int_equal(words_left, 1);
    members_fini(&us);
    script_requests_fini(&calls);
    script_space_fini(&space);
    (void)end_time();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_partition_has_one_owner, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_that_is_silent_loses_its_partitions_within_two_seconds,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_that_is_silent_for_long_is_dead, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_that_leaves_is_gone_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_does_not_reach_all_owns_nothing_unless_nobody_does,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_hears_nothing_itself_says_nobody_dead, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(who_was_never_in_contact_owns_nothing, set_up, tear_down),
        cmocka_unit_test(whoever_was_not_heard_for_long_leaves_word_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
