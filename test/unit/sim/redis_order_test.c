/*
 * In which partitions jobs lie whose numbers the server makes (redis.order), on a simulated cluster
 * and a single server.
 */
#include "redis_bed.h"

enum { PARTITIONS = 16, TURNS = 40, A_TURN = 3, SPREAD_US = 250 * MS };

static const struct bytes topic = {"t", 1};
static struct sim_cluster cluster;

static void start_with(enum redis_order order, bool in_a_cluster)
{
    options.order = order;
    options.partitions = PARTITIONS;
    for (uint16_t i = 0; i < (in_a_cluster ? MASTERS : 1); i++)
        add_address((uint16_t)(7000 + i));
    if (in_a_cluster) {
        options.url.topology = REDIS_CLUSTER;
        sim_cluster_init(&cluster, servers, MASTERS, MASTERS, 1);
    }
    assert_int_equal(start(), OK);
}

/* A_TURN jobs in one turn, which all lie in the partition that is returned. */
static uint32_t push_some(void)
{
    struct engine *port = redis_engine_port(engine);
    struct client clients[A_TURN];
    struct cmd push = {.kind = CMD_PUSH,
                       .push = {.topic = topic, .due_us = now_us, .ttr_us = 60 * SECOND_US}};
    for (int i = 0; i < A_TURN; i++) {
        clients[i] = (struct client){.ticket.answered = client_answered};
        (void)port->verbs->submit(port, &push, &clients[i].ticket); /* the client is told */
    }
    while (!clients[A_TURN - 1].answers)
        turn();
    for (int i = 0; i < A_TURN; i++) {
        assert_int_equal(clients[i].err, OK);
        assert_int_equal(clients[i].seq % PARTITIONS, clients[0].seq % PARTITIONS);
    }
    return (uint32_t)(clients[0].seq % PARTITIONS);
}

/* Pushes for TURNS turns of 250 ms; how many partitions got some. */
static unsigned partitions_used(void)
{
    bool used[PARTITIONS] = {false};
    unsigned count = 0;
    for (int i = 0; i < TURNS; i++) {
        uint32_t partition = push_some();
        count += !used[partition];
        used[partition] = true;
        turns(SPREAD_US);
    }
    return count;
}

/* Takes all that there are, each once; in which order they came, by their numbers. */
static void take_all(bool in_order)
{
    struct cmd take = {.kind = CMD_RESERVE,
                       .reserve = {.topics = &topic, .topic_count = 1, .max = 1}};
    uint64_t seqs[TURNS * A_TURN];
    for (unsigned i = 0; i < TURNS * A_TURN; i++) {
        struct client taken = ask_for(&take, MS);
        assert_int_equal(taken.err, OK);
        seqs[i] = taken.seq;
        for (unsigned before = 0; before < i; before++)
            assert_int_not_equal(seqs[before], seqs[i]);
        assert_true(!in_order || i == 0 || seqs[i - 1] < seqs[i]);
    }
    assert_int_equal(ask_for(&take, MS).err, ERR_EMPTY);
}

static void jobs_of_a_topic_lie_in_one_partition_in_order_if_that_is_wanted(void **state)
{
    (void)state;
    start_with(REDIS_ORDER_TOPIC, true);
    assert_int_equal(partitions_used(), 1);
    take_all(true);
}

static void jobs_are_spread_over_all_masters_a_turn_at_a_time_and_none_is_lost(void **state)
{
    (void)state;
    start_with(REDIS_ORDER_SPREAD, true);
    assert_in_range(partitions_used(), PARTITIONS / 2, PARTITIONS);
    take_all(false);
}

/* For 250 ms all of a topic's jobs go to one partition. */
static void turns_are_as_long_as_they_should_be(void **state)
{
    (void)state;
    start_with(REDIS_ORDER_SPREAD, false);
    turns(SPREAD_US - (now_us - MS) % SPREAD_US); /* a turn begins */
    unsigned changes = 0;
    uint32_t last = push_some();
    for (int64_t until_us = now_us + 8 * SPREAD_US; now_us < until_us;) {
        uint32_t partition = push_some();
        changes += partition != last;
        last = partition;
    }
    assert_in_range(changes, 4, 9);
}

static void by_itself_a_single_server_keeps_the_order(void **state)
{
    (void)state;
    start_with(REDIS_ORDER_AUTO, false);
    assert_int_equal(partitions_used(), 1);
    take_all(true);
}

/* A target in the settings may want order by key. */
static void by_itself_a_cluster_spreads_topics_without_settings(void **state)
{
    struct cmd configure = {
        .kind = CMD_CONFIGURE_TOPIC,
        .topic = {.topic = topic, .settings = BYTES("{}"), .version = UINT64_MAX}};
    (void)state;
    start_with(REDIS_ORDER_AUTO, true);
    assert_in_range(partitions_used(), PARTITIONS / 2, PARTITIONS);
    take_all(false);
    assert_int_equal(ask_for(&configure, MS).err, OK);
    assert_int_equal(partitions_used(), 1);
    take_all(true);
}

/* Another partition is as good, and the client need not wait for the one whose turn it is. */
static void jobs_are_not_spread_to_a_master_that_is_away(void **state)
{
    struct cmd push = {.kind = CMD_PUSH, .push = {.topic = topic, .ttr_us = 60 * SECOND_US}};
    (void)state;
    start_with(REDIS_ORDER_SPREAD, true);
    sim_network_down(network, 2, true);
    turns(SECOND_US); /* which is noticed */
    for (int i = 0; i < TURNS; i++) {
        assert_int_equal(ask_for(&push, MS).err, OK);
        turns(SPREAD_US);
    }
    sim_network_down(network, 2, false);
    turns(5 * SECOND_US);
}

/* Wherever the job of a turn is, and whichever daemon pushes it: a consumer who waits gets it. */
static void who_waits_gets_jobs_from_whatever_partition_at_once(void **state)
{
    struct cmd take = {
        .kind = CMD_RESERVE,
        .reserve = {
            .topics = &topic, .topic_count = 1, .max = 1, .wait_us = 60 * INT64_C(1000000)}};
    struct cmd push = {.kind = CMD_PUSH, .push = {.topic = topic, .ttr_us = 60 * SECOND_US}};
    (void)state;
    start_with(REDIS_ORDER_SPREAD, true);
    start_second();
    for (int i = 0; i < TURNS; i++) {
        struct client taker = {.ticket.answered = client_answered, .clock_us = &now_us};
        struct engine *port = redis_engine_port(engine);
        (void)port->verbs->submit(port, &take, &taker.ticket); /* it waits */
        turns_of_both(i * 7 * MS);
        int64_t pushed_us = now_us;
        change_daemon();
        struct client pusher = {.ticket.answered = client_answered};
        port = redis_engine_port(engine);
        (void)port->verbs->submit(port, &push, &pusher.ticket); /* it is told */
        change_daemon();
        turns_of_both(SPREAD_US);
        assert_int_equal(pusher.err, OK);
        assert_int_equal(taker.answers, 1);
        assert_true(taker.answered_us - pushed_us < 20 * MS);
    }
    stop_pair();
}

int main(void)
{
#define STARTED(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        STARTED(jobs_of_a_topic_lie_in_one_partition_in_order_if_that_is_wanted),
        STARTED(jobs_are_spread_over_all_masters_a_turn_at_a_time_and_none_is_lost),
        STARTED(turns_are_as_long_as_they_should_be),
        STARTED(by_itself_a_single_server_keeps_the_order),
        STARTED(by_itself_a_cluster_spreads_topics_without_settings),
        STARTED(jobs_are_not_spread_to_a_master_that_is_away),
        STARTED(who_waits_gets_jobs_from_whatever_partition_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
