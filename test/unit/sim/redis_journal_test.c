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

static void turns_and_work(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        turn();
        work(1000);
    }
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

static void one_life(uint64_t seed, unsigned taken_per_mille)
{
    set_journal(seed, 1 << 30);
    start_pair();
    paired = second = true;
    for (unsigned step = 0; step < STEPS; step++) {
        if (sim_random_chance(&chance, taken_per_mille))
            database.epoch++; /* another one has taken the cursor, late, and written nothing */
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
        one_life(seed, 0);
        end_pair(state);
        setup(state);
    }
}

static void a_cursor_that_another_one_took_is_taken_again(void **state)
{
    for (uint64_t seed = 1; seed <= sim_lives(LIVES); seed++) {
        one_life(seed, 20);
        end_pair(state);
        setup(state);
    }
}

/* By hand, under the daemon that writes, which goes on where it was: each change is there once. */
static void a_cursor_that_was_deleted_is_made_again_where_it_was(void **state)
{
    (void)state;
    set_journal(5, 1 << 30);
    assert_int_equal(start(), OK);
    for (unsigned step = 0; step < 2000; step++) {
        if (database.has_cursor && sim_random_chance(&chance, 5))
            database.has_cursor = false;
        if (sim_random_chance(&chance, 300))
            some_command();
        turn();
        work(200);
    }
    turns_and_work(4000);
    assert_true(database.has_cursor && database.changes > 100);
    assert_int_equal(database.changes, entries_left());
    assert_int_equal(stopped, 0);
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

/* A job larger than a partition's share of max_lag would alone be more than twice of it, at which
   the journal is given up: so a share has room for the largest job. */
static void one_large_job_does_not_end_the_journal(void **state)
{
    struct asked asked;
    (void)state;
    set_journal(1, sizeof(large));
    options.journal_job_bytes = 2 * sizeof(large);
    assert_int_equal(start(), OK);
    turns_and_work(2000);
    assert_true(engine->journal.joined);
    submit(&(struct cmd){.kind = CMD_PUSH, /* the database is away */
                         .push = {.id = BYTES("kA"),
                                  .topic = BYTES("t"),
                                  .due_us = now_us,
                                  .ttr_us = SECOND_US,
                                  .body = bytes_of(large, sizeof(large)),
                                  .properties = BYTES("p")}},
           &asked);
    turns(SECOND_US);
    assert_int_equal(asked.err, OK);
    submit(&(struct cmd){.kind = CMD_DELETE, .job.ref.id = BYTES("kA")}, &asked);
    turns(SECOND_US);
    assert_int_equal(asked.err, OK);
    turns_and_work(4000);
    assert_int_equal(stopped, 0);
    assert_true(database.rows[0].ended);
}

/* ---- how old the oldest change may be ---- */

enum { LAG_US = 10 * SECOND_US };

/* A push, while the database does nothing; '\0': of a job without an id. */
static enum err push_one(char letter)
{
    char name[2] = {'k', letter};
    struct asked asked;
    submit(&(struct cmd){.kind = CMD_PUSH,
                         .push = {.id = bytes_of(name, letter ? sizeof(name) : 0),
                                  .topic = BYTES("t"),
                                  .due_us = now_us + 3600 * (int64_t)SECOND_US,
                                  .ttr_us = SECOND_US,
                                  .if_exists = IF_EXISTS_REPLACE,
                                  .body = BYTES("another")}},
           &asked);
    while (!asked.answered) {
        if (paired)
            both_turn(0);
        else
            turn();
    }
    return asked.err;
}

static void both_turns(int64_t us, unsigned per_mille)
{
    for (int64_t until_us = now_us + us; now_us < until_us;)
        both_turn(per_mille);
}

static void expect_health(enum err err)
{
    for (unsigned i = 0; i < 2; i++) {
        const struct engine *port = redis_engine_port(engine);
        assert_int_equal(port->verbs->health(port), err);
        change_daemon();
    }
}

/* Whichever daemon writes; names of both partitions are among those that are pushed. A new job goes
   the script's short way, one that replaces another the long one. */
static void expect_pushes(enum err err)
{
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(push_one('\0'), err);
        for (char letter = 'A'; letter < 'G'; letter++)
            assert_int_equal(push_one(letter), err);
        change_daemon();
    }
}

static void start_lagging(bool detaches)
{
    set_journal(3, 1 << 30);
    options.journal_lag_us = LAG_US;
    options.journal_detaches = detaches;
    start_pair();
    paired = second = true;
    both_turns(20 * SECOND_US, 500);
    expect_pushes(OK);
    both_turns(2 * SECOND_US, 1000);
    assert_int_equal(database.at[0].entry + database.at[1].entry - PARTITIONS, database.changes);
}

static void a_change_that_is_too_old_has_all_daemons_refuse_pushes(void **state)
{
    (void)state;
    start_lagging(false);
    both_turns(2 * LAG_US, 0); /* the database has all: however long that is ago, nothing is late */
    expect_pushes(OK);
    both_turns(LAG_US - SECOND_US, 0);
    expect_pushes(OK);
    expect_health(OK);
    both_turns(4 * SECOND_US, 0); /* more than a lease and a heartbeat take */
    expect_pushes(ERR_JOURNAL_BEHIND);
    expect_health(ERR_JOURNAL_BEHIND);
    both_turns(4 * SECOND_US, 1000); /* the database is back */
    expect_pushes(OK);
    expect_health(OK);
    assert_int_equal(stopped, 0);
}

/* One whose job is in that partition. */
static char letter_in(uint32_t partition)
{
    for (char letter = 'A'; letter < 'Z'; letter++) {
        char name[2] = {'k', letter};
        struct cmd cmd = {.kind = CMD_GET, .job.ref.id = bytes_of(name, sizeof(name))};
        uint32_t its;
        enum err err;
        (void)script_route(&engine->space, &cmd, &its, &err); /* a job with an id has one */
        if (its == partition)
            return letter;
    }
    fail();
    return '\0';
}

/* Heartbeats are of partition 0, which is not late here: the daemon that writes has them told. */
static void all_daemons_hear_of_any_partition_that_is_late(void **state)
{
    (void)state;
    start_lagging(false);
    assert_int_equal(push_one(letter_in(1)), OK);
    both_turns(LAG_US + 4 * SECOND_US, 0);
    expect_health(ERR_JOURNAL_BEHIND);
    assert_int_equal(push_one(letter_in(0)), OK);
    assert_int_equal(push_one(letter_in(1)), ERR_JOURNAL_BEHIND);
    both_turns(4 * SECOND_US, 1000);
    expect_health(OK);
}

/* Is this one daemon's link to Redis cut? The one that all here is about has number 1 after
 * start_pair(). */
static void cut_off(unsigned number, bool off)
{
    sim_network_cut(network, number, 0, off ? SIM_CUT_ALL : SIM_WHOLE);
}

/* The one with the journal is cut off while pushes are refused, another brings MySQL up to date,
 * and is cut off in its turn: what the first one had seen in its term is old. */
static void who_writes_again_refuses_nothing_for_what_it_saw_before(void **state)
{
    (void)state;
    start_lagging(false);
    expect_pushes(OK);
    both_turns(LAG_US + 4 * SECOND_US, 0);
    expect_health(ERR_JOURNAL_BEHIND);
    unsigned writer = 1;
    if (!engine->journal.journal) {
        change_daemon();
        second = false;
        writer = 0;
    }
    assert_true(redis_journal_refuses(&engine->journal));
    cut_off(writer, true);
    both_turns(8 * SECOND_US, 1000);
    assert_null(engine->journal.journal);
    assert_non_null(other_engine->journal.journal);
    both_turns(4 * SECOND_US, 1000);
    cut_off(writer, false);
    both_turns(4 * SECOND_US, 1000);
    expect_health(OK);
    cut_off(1 - writer, true);
    for (int64_t until_us = now_us + 12 * SECOND_US; now_us < until_us;) {
        struct journal_partition partition;
        struct journal_control *control = redis_engine_journal_control(engine);
        both_turn(1000);
        for (uint32_t i = 0; i < PARTITIONS && engine->journal.journal; i++) {
            control->verbs->partition(control, i, &partition);
            assert_false(partition.refuses_pushes);
        }
        assert_false(redis_journal_refuses(&engine->journal));
    }
    assert_non_null(engine->journal.journal);
    cut_off(1 - writer, false);
    both_turns(4 * SECOND_US, 1000);
}

static void or_the_journal_is_given_up_also_where_nothing_changes(void **state)
{
    (void)state;
    start_lagging(true);
    expect_pushes(OK);
    both_turns(LAG_US + 2 * SECOND_US, 0);
    assert_int_equal(stopped, 1);
    expect_pushes(OK);
    expect_health(OK);
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

static struct journal_health health_of_journal(void)
{
    struct journal_control *control = redis_engine_journal_control(engine);
    struct journal_health health;
    control->verbs->health(control, &health);
    return health;
}

/* Until a daemon has the lease, opens the journal, and has looked at all partitions, it does not
 * know what MySQL lacks: 0 would be that it has all. */
static void what_mysql_lacks_is_said_by_who_has_the_journal_open(void **state)
{
    (void)state;
    set_journal(1, 1 << 20);
    assert_int_equal(start(), OK);
    assert_null(engine->journal.journal);
    assert_int_equal(health_of_journal().state, JOURNAL_STATE_WAITS);
    assert_false(health_of_journal().knows_lag);
    while (!engine->journal.journal)
        turn();
    assert_false(health_of_journal().knows_lag);
    turns(2 * SECOND_US);
    assert_true(health_of_journal().knows_lag);
}

/* MySQL was never there: it lacks a change of each partition. In the term that begins then
 * partition 1 has not answered yet. */
static void one_has_not_answered(void)
{
    set_journal(1, 1 << 20);
    assert_int_equal(start(), OK);
    turns(2 * SECOND_US);
    assert_int_equal(push_one(letter_in(0)), OK);
    assert_int_equal(push_one(letter_in(1)), OK);
    turns(4 * SECOND_US);
    assert_int_equal(health_of_journal().lag_entries, 2 * PARTITIONS); /* and how each began */
    engine->journal.handovers++;
    engine->journal.streams[0].reported = engine->journal.handovers;
}

/* Else an alert is silent while MySQL is away and one master cannot be reached. */
static void a_partition_that_does_not_answer_does_not_hide_what_the_others_lack(void **state)
{
    (void)state;
    one_has_not_answered();
    struct journal_health health = health_of_journal();
    assert_true(health.knows_lag);
    assert_int_equal(health.lag_entries, 2); /* what the other said in the term before is old */
    assert_true(health.lag_bytes > 0);
    assert_true(health.lag_us >= SECOND_US);
    struct journal_control *control = redis_engine_journal_control(engine);
    struct journal_partition partition;
    control->verbs->partition(control, 0, &partition);
    assert_true(partition.knows_lag && partition.lag_entries == 2);
    control->verbs->partition(control, 1, &partition);
    assert_false(partition.knows_lag || partition.lag_entries || partition.lag_bytes);
    engine->journal.streams[0].waiting = 0;
    health = health_of_journal();
    assert_false(health.knows_lag);
    assert_int_equal(health.lag_bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_change_that_is_too_old_has_all_daemons_refuse_pushes,
                                        setup, end_pair),
        cmocka_unit_test_setup_teardown(who_writes_again_refuses_nothing_for_what_it_saw_before,
                                        setup, end_pair),
        cmocka_unit_test_setup_teardown(all_daemons_hear_of_any_partition_that_is_late, setup,
                                        end_pair),
        cmocka_unit_test_setup_teardown(or_the_journal_is_given_up_also_where_nothing_changes,
                                        setup, end_pair),
        cmocka_unit_test_setup_teardown(ends_during_a_read, setup, teardown),
        cmocka_unit_test_setup_teardown(what_mysql_lacks_is_said_by_who_has_the_journal_open, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            a_partition_that_does_not_answer_does_not_hide_what_the_others_lack, setup, teardown),
        cmocka_unit_test_setup_teardown(an_answer_has_a_bound, setup, teardown),
        cmocka_unit_test_setup_teardown(one_that_was_given_up_can_begin_again, setup, teardown),
        cmocka_unit_test_setup_teardown(one_large_job_does_not_end_the_journal, setup, teardown),
        cmocka_unit_test_setup_teardown(rows_are_the_queue_whoever_was_killed, setup, end_pair),
        cmocka_unit_test_setup_teardown(a_cursor_that_another_one_took_is_taken_again, setup,
                                        end_pair),
        cmocka_unit_test_setup_teardown(a_cursor_that_was_deleted_is_made_again_where_it_was, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
