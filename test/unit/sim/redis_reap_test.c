/*
 * How daemons that are dead, or leave, are removed from a partition: the script reap_dead.lua on a
 * simulated Redis, one call after another, without an engine.
 */
#include "redis_scripts_bed.h"

static int64_t first_young_us; /* when the first daemon that was skipped may be removed */

/* All who are not named. How many calls it took. */
static unsigned forget_all_but(struct bytes living)
{
    struct script_answer answer = {.more = true};
    unsigned calls = 0;
    first_young_us = INT64_MAX;
    while (answer.more) {
        struct script_call call = next_call();
        script_encode_reap_dead(
            &request, &spaces[0], &call,
            &(struct script_reap){
                .living = living, .young_us = 5 * SECOND_US, .from = answer.seq, .max = 20});
        answer = ask(0);
        if (answer.next_us < first_young_us)
            first_young_us = answer.next_us;
        assert_in_range(++calls, 1, 100000);
    }
    return calls;
}

static unsigned forget_others(void)
{
    return forget_all_but(bytes_of(spaces[0].daemon, SCRIPT_NAME));
}

/* It leaves: one call, which need not be the last. */
static struct script_answer leave_as(unsigned daemon)
{
    struct script_call call = next_call();
    script_encode_reap_dead(&request, &spaces[daemon], &call, &(struct script_reap){.max = 20});
    return ask(0);
}

static void many_dead_daemons_are_forgotten_in_small_steps(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 300; i++)
        (void)push("t", 1);
    uint64_t before = fields();
    for (unsigned i = 0; i < 300; i++) {
        memcpy(spaces[1].daemon, "dead-", 5);
        (void)snprintf(spaces[1].daemon + 5, 3, "%02x", i % 256);
        spaces[1].daemon[7] = (char)(i / 256);
        assert_int_equal(open_as(1, i == 7 ? 4096 : 256).count, 1);
        assert_int_equal(reserve(1, "t", 1, true).count, 1);
    }
    now_us += 6 * SECOND_US;
    (void)open_as(0, 256);
    most_work = 0;
    assert_in_range(forget_others(), 300 / 20, 300);
    assert_in_range(most_work, 1, WORK_MAX);
    /* The topic has two counters more, of jobs that are and were reserved; the answers that the
       first daemon's pushes left are still there. */
    assert_int_equal(fields(), before + 2);
    assert_int_equal(reserve(0, "t", 300, false).count, 300);
}

static void a_ring_is_forgotten_as_far_as_it_was_announced(void **state)
{
    (void)state;
    uint64_t before = fields();
    (void)open_as(1, 4096);
    struct script_call call = next_call();
    struct cmd cmd = {.kind = CMD_PUSH, .push = {.topic = BYTES("t"), .ttr_us = SECOND_US}};
    call.place = SCRIPT_RING - 1;
    script_encode(&request, &spaces[1], &call, &cmd);
    (void)ask(0);
    now_us += 6 * SECOND_US;
    (void)forget_others();
    assert_int_equal(fields(), before + 1); /* its topic's counter */
}

/* Answers that were kept for it are gone: what it sends again would be done once more. */
static void one_that_comes_back_while_it_is_forgotten_is_told_so(void **state)
{
    struct script_call call;
    (void)state;
    (void)open_as(1, 4096);
    now_us += 10 * SECOND_US;
    (void)open_as(1, 4096);
    assert_int_equal(open_as(1, 4096).count, 0); /* it is known */
    now_us += 10 * SECOND_US;
    call = next_call();
    script_encode_reap_dead(
        &request, &spaces[0], &call,
        &(struct script_reap){.living = bytes_of(spaces[0].daemon, SCRIPT_NAME), .max = 20});
    assert_true(ask(0).more);
    assert_int_equal(open_as(1, 4096).count, 1);
    assert_int_equal(open_as(1, 4096).count, 0);
    (void)forget_others(); /* it is young again */
    assert_int_equal(open_as(1, 4096).count, 0);
}

/* It opens the partition while Redis' clock is wrong, and it knows the right time. */
static void open_while_redis_is_ahead_by(int64_t ahead_us)
{
    struct script_call call = next_call();
    call.least_us = call.queue_us = now_us - 10000;
    call.most_us = now_us + 10000;
    sim_redis_settings(redis)->ahead_us = ahead_us;
    script_encode_open(&request, &spaces[1], &call, 256, 0);
    assert_int_equal(ask(0).err, OK);
    sim_redis_settings(redis)->ahead_us = 0;
}

static void who_opens_while_redis_clock_is_wrong_is_young_for_as_long_as_others(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        uint64_t before = fields();
        open_while_redis_is_ahead_by((i ? -3600 : 3600) * INT64_C(1000000));
        now_us += 4 * SECOND_US;
        (void)forget_others();
        assert_int_equal(fields(), before + 1);
        now_us += 2 * SECOND_US;
        (void)forget_others();
        assert_int_equal(fields(), before);
    }
}

/* Who left word a moment ago is left alone, and said when it may be looked at again. */
static void the_living_and_the_young_do_not_hide_the_dead(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 200; i++) { /* older ones, which come first by name */
        (void)snprintf(spaces[1].daemon, SCRIPT_NAME, "a-%03u", i);
        (void)open_as(1, 256);
    }
    now_us += 6 * SECOND_US;
    int64_t came_us = now_us;
    for (unsigned i = 0; i < 199; i++) {
        (void)snprintf(spaces[1].daemon, SCRIPT_NAME, "a-%03u", i);
        (void)open_as(1, 256);
    }
    uint64_t before = fields();
    (void)forget_others();
    assert_int_equal(fields(), before - 1);
    assert_in_range(first_young_us, came_us + 5 * SECOND_US, now_us + 5 * SECOND_US);
}

/* What a connection holds goes back when its daemon is dead: not while that lives, nor while it has
   just come, when others may not have heard of it. */
static void p4_nothing_is_taken_from_a_daemon_that_lives_or_has_just_come(void **state)
{
    char living[2 * SCRIPT_NAME];
    (void)state;
    (void)push("t", 1);
    (void)open_as(1, 256);
    assert_int_equal(reserve(1, "t", 1, true).count, 1);
    now_us += SECOND_US / 2; /* of its ttr of a second */
    (void)forget_others();
    assert_int_equal(reserve(0, "t", 1, true).count, 0);
    now_us -= SECOND_US / 2;
    (void)open_as(2, 256);
    now_us += 6 * SECOND_US;
    (void)open_as(0, 256);
    (void)push("u", 1);
    assert_int_equal(reserve(1, "u", 1, true).count, 1);
    memcpy(living, spaces[0].daemon, SCRIPT_NAME);
    memcpy(living + SCRIPT_NAME, spaces[1].daemon, SCRIPT_NAME);
    uint64_t before = fields();
    (void)forget_all_but(bytes_of(living, sizeof(living)));
    assert_int_equal(fields(), before - 1); /* the third one is dead */
    assert_int_equal(reserve(0, "u", 1, true).count, 0);
    (void)forget_others();
    assert_int_equal(reserve(0, "u", 1, true).count, 1);
}

/* Others were told that it leaves, and have forgotten it, before its own word comes: it leaves
 * nothing, though its connection may end before it can say more. */
static void one_that_leaves_after_others_have_forgotten_it_leaves_nothing(void **state)
{
    (void)state;
    uint64_t before = fields();
    (void)open_as(1, 4096);
    now_us += 6 * SECOND_US;
    (void)forget_others();
    assert_int_equal(fields(), before);
    (void)leave_as(1);
    assert_int_equal(fields(), before);
    assert_int_equal(REDIS("ZLEXCOUNT", "{laterd:0}:o", "[d", "(e"), 2); /* one keeps out others */
}

int main(void)
{
#define STARTED(test) cmocka_unit_test_setup_teardown(test, start, stop)
    const struct CMUnitTest tests[] = {
        STARTED(many_dead_daemons_are_forgotten_in_small_steps),
        STARTED(a_ring_is_forgotten_as_far_as_it_was_announced),
        STARTED(one_that_comes_back_while_it_is_forgotten_is_told_so),
        STARTED(who_opens_while_redis_clock_is_wrong_is_young_for_as_long_as_others),
        STARTED(the_living_and_the_young_do_not_hide_the_dead),
        STARTED(p4_nothing_is_taken_from_a_daemon_that_lives_or_has_just_come),
        STARTED(one_that_leaves_after_others_have_forgotten_it_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
