/*
 * The journal of a queue on a simulated Redis: daemons change jobs and are killed at any moment,
 * and what a simulated database has at the end is the queue. Time is simulated.
 */
#include "redis_journal_bed.h"
#include "test/unit/support/every.h"

enum { STEPS = 1500, LIVES = 6 };

/* Entries that changes have left, both partitions'. */
static uint64_t entries_left(void)
{
    return database.at[0].entry + database.at[1].entry - PARTITIONS; /* each begins with one */
}

/* A database of nobody, and a journal that may be so far behind. */
static void set_journal(uint64_t seed, uint64_t bytes)
{
    chance = (struct sim_random){.state = seed};
    memset(&database, 0, sizeof(database));
    stopped = 0;
    add_address(7000);
    options.partitions = PARTITIONS;
    options.topics_max = 10;
    options.journal = &maker;
    options.journal_bytes = bytes;
}

static void one_life(uint64_t seed)
{
    set_journal(seed, 1 << 30);
    start_pair();
    paired = second = true;
    for (unsigned step = 0; step < STEPS; step++) {
        if (sim_random_chance(&chance, 500)) {
            change_daemon();
            second = !second;
        }
        for (unsigned i = 0; i <= sim_random_below(&chance, 4); i++) /* some go in one call */
            some_command();
        both_turn(200);
        if (sim_random_chance(&chance, 4))
            kill_daemon(second);
    }
    for (unsigned i = 0; i < 15000; i++) /* leases end, jobs fall due, the database catches up */
        both_turn(500);
    expect_rows();
    assert_int_equal(stopped, 0);
    assert_true(database.changes > STEPS / 5);
    assert_int_equal(database.changes, entries_left()); /* each once */
}

static void rows_are_the_queue_whoever_was_killed(void **state)
{
    for (uint64_t seed = 1; seed <= sim_lives(LIVES); seed++) {
        one_life(seed);
        end_pair(state);
        setup(state);
    }
}

/* The database is away. */
static void push_many(unsigned count, struct bytes body)
{
    static struct asked pool[64];
    for (unsigned i = 0; i < count; i++) {
        char name[2] = {'k', (char)('A' + i % NAMES)};
        struct asked *asked = &pool[i % 64];
        while (i >= 64 && !asked->answered)
            turn();
        submit(&(struct cmd){.kind = CMD_PUSH,
                             .push = {.id = bytes_of(name, sizeof(name)),
                                      .topic = BYTES("t"),
                                      .due_us = now_us,
                                      .ttr_us = SECOND_US,
                                      .if_exists = IF_EXISTS_REPLACE,
                                      .body = body}},
               asked);
    }
    turns(SECOND_US);
}

static void turns_and_work(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        turn();
        work(1000);
    }
}

static void an_answer_has_a_bound(void **state)
{
    static char body[100000];
    (void)state;
    set_journal(1, 1 << 30);
    options.journal_detaches = true;
    assert_int_equal(start(), OK);
    push_many(40, bytes_of(body, sizeof(body)));
    work(1000); /* it is joined, and commits nothing */
    assert_true(engine->journal.joined);
    size_t before = 0;
    for (unsigned i = 0; i < 1000; i++) {
        turn();
        assert_true(engine->journal.held_bytes - before < (256 * 1024 + 110000) * PARTITIONS);
        before = engine->journal.held_bytes;
    }
    assert_true(before > 40 * sizeof(body));
}

static void expect_journal(void)
{
    push_many(NAMES, BYTES("another"));
    turns_and_work(2000);
    for (unsigned i = 0; i < NAMES; i++)
        assert_true(database.rows[i].there);
}

/* First while no cursor is known, then with entries in the database. */
static void one_that_was_given_up_can_begin_again(void **state)
{
    (void)state;
    set_journal(1, 1 << 18); /* some calls take its entries away */
    options.journal_detaches = true;
    assert_int_equal(start(), OK);
    push_many(3700, BYTES("another"));
    turns(20 * SECOND_US);
    expect_journal();
    assert_int_equal(stopped, 0);
    push_many(3700, BYTES("another"));
    turns(20 * SECOND_US);
    assert_int_equal(stopped, 1);
    stop();
    memset(&database, 0, sizeof(database)); /* somebody begins again */
    assert_int_equal(start(), OK);
    turns_and_work(8000);
    expect_journal();
    assert_int_equal(stopped, 1);
}

/* The database knows its cursor, and both partitions have their first entry in it. */
static void start_journal(void)
{
    set_journal(1, 1 << 30);
    options.journal_detaches = true;
    assert_int_equal(start(), OK);
    turns_and_work(3000);
    assert_int_equal(database.at[0].entry + database.at[1].entry, PARTITIONS);
}

/* Of partition 0: its owner is the first stream. */
static bool is_reading(void)
{
    const struct list *calls = &engine->calls.partitions[0].calls;
    for (const struct list *node = calls->next; node != calls; node = node->next) {
        if (LIST_ENTRY(node, struct script_request, place)->owner == engine->journal.streams)
            return true;
    }
    return false;
}

/* The engine ends while Redis owes the answer of a read. */
static void ends_during_a_read(void **state)
{
    (void)state;
    start_journal();
    while (!is_reading())
        turn();
    redis_engine_free(engine);
    engine = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(ends_during_a_read, setup, teardown),
        cmocka_unit_test_setup_teardown(an_answer_has_a_bound, setup, teardown),
        cmocka_unit_test_setup_teardown(one_that_was_given_up_can_begin_again, setup, teardown),
        cmocka_unit_test_setup_teardown(rows_are_the_queue_whoever_was_killed, setup, end_pair),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
