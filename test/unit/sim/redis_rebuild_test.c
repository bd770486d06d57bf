/*
 * What Redis has lost of a partition is put back by one of several daemons, and what a script that
 * was stopped halfway has left is found. Time is simulated: what is waited for takes none.
 */
#include "redis_bed.h"
#include "redis_forget.h"

enum { LOST_JOBS = 300 };

static struct value *set_of(char which)
{
    char name[] = "{q:0}:?";
    name[sizeof(name) - 2] = which;
    return keyspace_find(&servers[0]->keys, 0, bytes_str(name));
}

/* Jobs that wait or are ready, and some more. */
static size_t members(void)
{
    return set_of('o')->count + set_of('d')->count;
}

/* Two daemons on one server, whose partition 0 has lost what is in order; both are told at once.
 * Returns how many members it had. */
static size_t lose_what_is_in_order(void)
{
    struct cmd push = {.kind = CMD_PUSH, .push = {.topic = BYTES("t"), .due_us = 1, .ttr_us = 1}};
    add_address(7000);
    options.partitions = 1;
    start_pair();
    turns_of_both(6 * SECOND_US);
    for (int i = 0; i < LOST_JOBS; i++)
        assert_int_equal(ask_for(&push, MS).err, OK);
    turns_of_both(SECOND_US);
    size_t before = members();
    keyspace_drop(&servers[0]->keys, set_of('o'));
    partition_init_rebuild(&engine->partition_init, 0);
    partition_init_rebuild(&other_engine->partition_init, 0);
    return before;
}

static bool both_serve(void)
{
    return !engine->partition_init.rebuilding && !other_engine->partition_init.rebuilding;
}

/* Of the calls that it takes one daemon sends all, the other one looks twice a second whether it is
 * done. */
static void what_was_lost_is_put_back_by_one_of_two_daemons(void **state)
{
    (void)state;
    size_t before = lose_what_is_in_order();
    uint64_t own = scripts_sent(), others = other_engine->calls.partitions[0].number;
    for (int i = 0; i < 100 && !both_serve(); i++)
        turns_of_both(10 * MS);
    assert_true(both_serve());
    assert_int_equal(members(), before);
    own = scripts_sent() - own;
    others = other_engine->calls.partitions[0].number - others;
    assert_in_range(own > others ? own : others, 30, 100);
    assert_in_range(own > others ? others : own, 1, 15);
    stop_pair();
}

/* It does nothing more: as one that was killed. */
static void the_other_daemon_puts_back_what_the_first_one_began_to(void **state)
{
    (void)state;
    size_t before = lose_what_is_in_order();
    turns(5 * MS); /* of one alone: it has begun */
    change_daemon();
    int64_t since_us = now_us;
    while (engine->partition_init.rebuilding && now_us - since_us < 10 * SECOND_US)
        turns(10 * MS);
    assert_in_range(now_us - since_us, 1500 * MS, 3 * SECOND_US);
    assert_int_equal(members(), before);
    change_daemon();
    turns_of_both(SECOND_US);
    assert_true(both_serve());
    stop_pair();
}

/* Pushes jobs with ids, of which the hash has a field each, and takes them out of their order: as
 * scripts that were stopped halfway. Returns how many members the order had. */
static size_t lose_places(void)
{
    char id[16];
    struct cmd push = {.kind = CMD_PUSH,
                       .push = {.topic = BYTES("t"),
                                .due_us = now_us + INT64_C(3600) * SECOND_US,
                                .ttr_us = SECOND_US}};
    for (int i = 0; i < LOST_JOBS; i++) {
        (void)snprintf(id, sizeof(id), "job-%d", i);
        push.push.id = bytes_str(id);
        assert_int_equal(ask_for(&push, MS).err, OK);
    }
    size_t before = set_of('o')->count;
    tell_server(servers[0], BYTES("*4\r\n$14\r\nZREMRANGEBYLEX\r\n$7\r\n{q:0}:o\r\n"
                                  "$2\r\n[w\r\n$2\r\n(x\r\n"));
    assert_int_equal(set_of('o')->count, before - LOST_JOBS);
    return before;
}

/* Begins to move what layout 2 left, which takes some calls. */
static const struct opening *begin_to_convert(void)
{
    const struct opening *opening = &engine->partition_init.openings[0];
    tell_server(servers[0], BYTES("*4\r\n$4\r\nHSET\r\n$7\r\n{q:0}:h\r\n$1\r\nx\r\n$0\r\n\r\n"));
    partition_init_again(&engine->partition_init, 0);
    for (int i = 0; i < 100 && !opening->rebuilding; i++)
        turn();
    assert_true(opening->rebuilding && opening->what == REBUILD_CONVERT);
    return opening;
}

/* Meanwhile a set is found to be lost, and then a script was stopped halfway. That a lost set is
 * put back finds no jobs that are in none: all must be looked at, which puts back the set, too. */
static void all_jobs_are_looked_at_though_a_set_was_lost_before(void **state)
{
    (void)state;
    add_address(7000);
    options.partitions = 1;
    assert_int_equal(start(), OK);
    size_t before = lose_places();
    const struct opening *opening = begin_to_convert();
    partition_init_rebuild(&engine->partition_init, 0);
    script_requests_halfway(&engine->calls, 0);
    partition_init_again(&engine->partition_init, 0);
    for (int i = 0; i < 100 && engine->calls.partitions[0].halfway; i++)
        turn();
    assert_int_equal(opening->what, REBUILD_CONVERT); /* it is still under way */
    for (int i = 0; i < 1000 && opening->rebuilding; i++)
        turn();
    assert_false(opening->rebuilding);
    assert_int_equal(set_of('o')->count, before);
}

/* Nobody does anything in the partition, so it is not noticed that a set is lost: those who look
 * for what the dead daemon has left find nothing. It is found when the set is there again. */
static void p6_what_a_dead_daemon_holds_is_given_back_when_a_lost_set_is_there_again(void **state)
{
    static const struct bytes topic = {"t", 1};
    struct cmd push = {.kind = CMD_PUSH,
                       .push = {.topic = topic, .due_us = 1, .ttr_us = 3600 * INT64_C(1000000)}};
    struct cmd take = {.kind = CMD_RESERVE,
                       .reserve = {.topics = &topic, .topic_count = 1, .max = 1, .bound = true}};
    (void)state;
    add_address(7000);
    options.partitions = 1;
    start_pair();
    turns_of_both(6 * SECOND_US);
    assert_int_equal(ask_for(&push, MS).err, OK);
    assert_int_equal(ask_for(&take, MS).count, 1);
    turns_of_both(2 * SECOND_US);
    keyspace_drop(&servers[0]->keys, set_of('o'));
    redis_engine_free(engine); /* it is killed */
    sim_network_end(network, 1);
    change_daemon();
    other_engine = NULL;
    other_loop = NULL;
    turns(20 * SECOND_US);
    assert_int_equal(ask_for(&push, MS).err, OK);
    turns(3 * SECOND_US);
    assert_int_equal(ask_for(&take, MS).count, 1);
    assert_int_equal(ask_for(&take, MS).count, 1);
}

int main(void)
{
#define STARTED(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        STARTED(what_was_lost_is_put_back_by_one_of_two_daemons),
        STARTED(the_other_daemon_puts_back_what_the_first_one_began_to),
        STARTED(all_jobs_are_looked_at_though_a_set_was_lost_before),
        STARTED(p6_what_a_dead_daemon_holds_is_given_back_when_a_lost_set_is_there_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
