/*
 * A daemon that waits to lead (redis_options::standby), beside one that serves: what it does until
 * it is told to serve, and how soon it does then. Time is simulated.
 */
#include "redis_journal_bed.h"

enum { SOON_US = 5 * MS };

/* The first serves, the second stands by and is what all is about. */
static void start_with_standby(void)
{
    chance = (struct sim_random){.state = 1};
    memset(&database, 0, sizeof(database));
    stopped = 0;
    add_address(7000);
    options.partitions = PARTITIONS;
    options.journal = &maker;
    options.journal_bytes = 1 << 30;
    assert_int_equal(start(), OK);
    options.standby = true;
    start_second();
    options.standby = false;
    paired = second = true;
}

static void both(int64_t us)
{
    for (int64_t until_us = now_us + us; now_us < until_us;)
        both_turn(1000);
}

static void take_over(void)
{
    int64_t begun_us = now_us;
    redis_engine_serve(engine);
    while (redis_engine_started(engine, &error) == ERR_AGAIN)
        turn();
    assert_int_equal(redis_engine_started(engine, &error), OK);
    assert_true(now_us - begun_us < SOON_US);
}

/* The first one dies. */
static void kill_first(void)
{
    turning = false;
    change_daemon();
    redis_engine_free(engine);
    sim_network_end(network, 0);
    options.loop = sim_network_start(network, 0, &clock_of_all);
    engine = NULL;
    change_daemon();
}

static unsigned partitions_of(const struct redis_engine *redis)
{
    unsigned count = 0;
    for (uint32_t i = 0; i < PARTITIONS; i++)
        count += members_own(&redis->members, i);
    return count;
}

static void a_standby_does_nothing_that_is_another_ones(void **state)
{
    (void)state;
    start_with_standby();
    both(5 * SECOND_US);
    assert_int_equal(redis_engine_started(engine, &error), OK);
    assert_int_equal(partitions_of(engine), 0);
    assert_int_equal(partitions_of(other_engine), PARTITIONS);
    assert_null(engine->journal.streams); /* it does not want the journal's lease */
    assert_int_equal(engine->members.how, SCRIPT_LIVES);
}

static void it_takes_over_in_a_round_trip_and_knows_the_settings(void **state)
{
    static const struct bytes topic = {"t", 1};
    (void)state;
    start_with_standby();
    both(5 * SECOND_US);
    change_daemon();
    struct cmd set = {.kind = CMD_CONFIGURE_TOPIC,
                      .topic = {.topic = topic, .settings = BYTES("{\"ttr\":\"9s\"}")}};
    struct asked asked;
    submit(&set, &asked);
    while (!asked.answered)
        turn();
    assert_int_equal(asked.err, OK);
    change_daemon();
    kill_first(); /* no heartbeat of the standby has told it of that yet */
    assert_false(settings_sync_has(&engine->settings, topic));
    take_over();
    assert_true(settings_sync_has(&engine->settings, topic));
    submit(&(struct cmd){.kind = CMD_PUSH,
                         .push = {.id = BYTES("kA"),
                                  .topic = topic,
                                  .due_us = now_us + SECOND_US,
                                  .ttr_us = SECOND_US,
                                  .body = BYTES("body")}},
           &asked);
    while (!asked.answered)
        turn();
    assert_int_equal(asked.err, OK);
    turns(10 * SECOND_US); /* it is known by then that the other one is dead */
    assert_int_equal(partitions_of(engine), PARTITIONS);
    assert_int_equal(engine->members.how, SCRIPT_SERVES);
    assert_non_null(engine->journal.journal);
}

/* A lead that comes before it is ready, and one that comes while Redis is away. */
static void it_waits_for_redis_as_one_that_starts(void **state)
{
    (void)state;
    add_address(7000);
    options.partitions = PARTITIONS;
    options.standby = true;
    assert_int_equal(redis_engine_new(&options, &engine, &error), OK);
    redis_engine_serve(engine);
    while (redis_engine_started(engine, &error) == ERR_AGAIN)
        turn();
    assert_int_equal(redis_engine_started(engine, &error), OK);
    stop();
    assert_int_equal(redis_engine_new(&options, &engine, &error), OK);
    turns(SECOND_US);
    assert_int_equal(redis_engine_started(engine, &error), OK);
    sim_network_down(network, 0, true);
    turns(20 * SECOND_US);
    int64_t begun_us = now_us;
    redis_engine_serve(engine);
    while (redis_engine_started(engine, &error) == ERR_AGAIN)
        turn();
    assert_int_equal(redis_engine_started(engine, &error), ERR_IO);
    assert_true(now_us - begun_us >= 5 * (int64_t)SECOND_US);
    options.standby = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_standby_does_nothing_that_is_another_ones, setup,
                                        end_pair),
        cmocka_unit_test_setup_teardown(it_takes_over_in_a_round_trip_and_knows_the_settings, setup,
                                        end_pair),
        cmocka_unit_test_setup_teardown(it_waits_for_redis_as_one_that_starts, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
