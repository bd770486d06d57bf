/*
 * A daemon that waits to lead (redis_options::standby), beside one that serves: what it does until
 * it is told to serve, and how soon it does then. Time is simulated.
 */
#include "redis_journal_bed.h"
#include "redis_layout_3.h"

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

/* How many partitions are of layout 3; `give`: after all were made so. */
static unsigned of_layout_3(bool give)
{
    struct sim_redis_conn *conn = sim_redis_accept(servers[0]);
    struct buf command = {0};
    unsigned count = 0;
    for (uint32_t i = 0; i < PARTITIONS; i++) {
        char key[16];
        size_t len = (size_t)snprintf(key, sizeof(key), "{q:%u}:h", i);
        command.len = sim_redis_output(conn)->len = 0;
        if (give)
            buf_addf(&command, "*4\r\n$4\r\nEVAL\r\n$%zu\r\n%s\r\n$1\r\n1\r\n$%zu\r\n%s\r\n",
                     sizeof(GIVE_LAYOUT_3) - 1, GIVE_LAYOUT_3, len, key);
        else
            buf_addf(&command, "*3\r\n$4\r\nHGET\r\n$%zu\r\n%s\r\n$1\r\nv\r\n", len, key);
        sim_redis_input(conn, buf_bytes(&command));
        count += bytes_eq(buf_bytes(sim_redis_output(conn)), BYTES("$1\r\n3\r\n"));
    }
    buf_fini(&command);
    sim_redis_hang_up(conn);
    return count;
}

/* So a leader of the version before goes on until it ends, whoever waits beside it. */
static void one_that_waits_leaves_an_older_layout_until_it_leads(void **state)
{
    struct asked asked;
    (void)state;
    add_address(7000);
    options.partitions = PARTITIONS;
    assert_int_equal(start(), OK);
    struct cmd push = {.kind = CMD_PUSH,
                       .push = {.id = BYTES("kA"),
                                .topic = BYTES("t"),
                                .due_us = now_us,
                                .ttr_us = SECOND_US,
                                .body = BYTES("body")}};
    submit(&push, &asked);
    while (!asked.answered)
        turn();
    assert_int_equal(asked.err, OK);
    stop();
    (void)of_layout_3(true);
    assert_int_equal(of_layout_3(false), PARTITIONS);
    options.standby = true;
    assert_int_equal(redis_engine_new(&options, &engine, &error), OK);
    options.standby = false;
    turns(22 * SECOND_US); /* and in three it looks again */
    assert_int_equal(redis_engine_started(engine, &error), ERR_AGAIN);
    assert_int_equal(of_layout_3(false), PARTITIONS);
    assert_true(engine->partition_init.openings[0].older);
    assert_true(scripts_sent() < PARTITIONS * 30); /* it looks now and then */
    redis_engine_serve(engine);
    int64_t begun_us = now_us;
    while (redis_engine_started(engine, &error) == ERR_AGAIN)
        turn();
    assert_int_equal(redis_engine_started(engine, &error), OK);
    assert_true(now_us - begun_us < 200 * MS);
    assert_int_equal(of_layout_3(false), 0);
    struct cmd look = {.kind = CMD_GET, .job.ref.id = BYTES("kA")};
    submit(&look, &asked);
    while (!asked.answered)
        turn();
    assert_int_equal(asked.err, OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_standby_does_nothing_that_is_another_ones, setup,
                                        end_pair),
        cmocka_unit_test_setup_teardown(it_takes_over_in_a_round_trip_and_knows_the_settings, setup,
                                        end_pair),
        cmocka_unit_test_setup_teardown(it_waits_for_redis_as_one_that_starts, setup, teardown),
        cmocka_unit_test_setup_teardown(one_that_waits_leaves_an_older_layout_until_it_leads, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
