/*
 * One server of Redis, on a simulated network: when it may be sent commands, and what the log says
 * of it when it is away, refuses, or is back: each once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "client/redis/node.h"
#include "sim/loop.h"
#include "test/unit/support/captured_log.h"

enum { TURN_US = 10 * 1000, SECOND_US = 1000 * 1000, LONG_US = 10 * SECOND_US };

#define MASTER  "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"
#define REPLICA "*5\r\n$5\r\nslave\r\n$8\r\n10.0.0.9\r\n:6380\r\n$9\r\nconnected\r\n:0\r\n"
#define LOADING "-LOADING Redis is loading the dataset in memory\r\n"

static struct sim_clock the_clock;
static struct sim_net *net;
static struct sim_loop *sim;
static struct sim_host host;
static struct node node;
static struct link_counts counts;
static const char *role; /* what it answers to ROLE */
static unsigned ready, lost;
static int log_before;
static FILE *log_file;
static char text[16 * 1024]; /* what was logged */

/* ---- the server ---- */

static void input(struct sim_host *of, struct sim_peer *peer, struct bytes bytes)
{
    (void)of;
    if (memmem(bytes.at, bytes.len, "PING", 4))
        sim_peer_send(peer, BYTES("+PONG\r\n"));
    if (memmem(bytes.at, bytes.len, "ROLE", 4))
        sim_peer_send(peer, bytes_str(role));
}

static void accepted(struct sim_host *of, struct sim_peer *peer)
{
    (void)of;
    (void)peer;
}

static void closed(struct sim_host *of, struct sim_peer *peer, bool reset)
{
    (void)of;
    (void)peer;
    (void)reset;
}

static const struct sim_host_handler server = {
    .accepted = accepted, .input = input, .closed = closed};

/* ---- laterd ---- */

static void note_ready(struct node_callbacks *callbacks, struct node *of)
{
    (void)callbacks;
    assert_true(of->ready);
    ready++;
}

static void note_lost(struct node_callbacks *callbacks, struct node *of)
{
    (void)callbacks;
    assert_false(of->ready);
    lost++;
}

static void pass(int64_t us)
{
    for (int64_t end_us = the_clock.now_us + us; the_clock.now_us < end_us;
         the_clock.now_us += TURN_US) {
        sim_net_run(net);
        loop_turn(sim_loop_port(sim), 0);
    }
}

/* The server answers this to ROLE from now on, and all its connections end. */
static void answer_role(const char *answer)
{
    role = answer;
    sim_host_cut(&host);
}

/* What was logged so far. */
static const char *logged(void)
{
    log_close(log_file, log_before, text, sizeof(text));
    log_file = NULL;
    return text;
}

static int setup(void **state)
{
    static struct node_callbacks callbacks = {.ready = note_ready, .lost = note_lost};
    struct redis_address address = {.host = "10.0.0.1", .port = 6379};
    (void)state;
    role = MASTER;
    ready = lost = 0;
    counts = (struct link_counts){0};
    sim_clock_init(&the_clock, 1);
    net = sim_net_new(&the_clock, 1);
    sim = sim_loop_new(net, &the_clock.clock);
    host = (struct sim_host){.reach = SIM_UP};
    sim_host_add(net, &host, "10.0.0.1:6379", &server);
    log_file = log_open(LOG_INFO, &log_before);
    node_init(&node,
              &(struct link_options){.loop = sim_loop_port(sim),
                                     .user = "",
                                     .password = "",
                                     .counts = &counts,
                                     .timeout_us = SECOND_US},
              &callbacks);
    link_want(&node.link, &address);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    node_fini(&node);
    if (log_file)
        (void)logged();
    sim_loop_free(sim);
    sim_net_free(net);
    return 0;
}

/* ---- readiness ---- */

static void a_master_may_be_sent_commands(void **state)
{
    (void)state;
    pass(SECOND_US);
    assert_true(node.ready && !node.replica);
    assert_true(ready == 1 && lost == 0 && counts.connects == 1 && counts.losses == 0);
    assert_true(node.since_us > 0);
    assert_int_equal(log_count(logged(), "redis_connected node=10.0.0.1:6379"), 1);
}

static void a_replica_is_not_used_and_names_its_master(void **state)
{
    (void)state;
    role = REPLICA;
    pass(SECOND_US);
    assert_true(!node.ready && node.replica && ready == 0 && counts.connects == 0);
    assert_string_equal(node.master.host, "10.0.0.9");
    assert_int_equal(node.master.port, 6380);
    assert_int_equal(log_count(logged(), "redis_away node=10.0.0.1:6379 error=\"it is a replica\""),
                     1);
}

/* Its master would be looked for. */
static void a_server_that_does_not_say_what_it_is_is_no_replica(void **state)
{
    static const char *const others[] = {LOADING, "*1\r\n$8\r\nsentinel\r\n"};
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        answer_role(others[i]);
        pass(SECOND_US);
        assert_false(node.replica || node.ready);
    }
}

static void how_long_it_is_away_counts_from_its_loss(void **state)
{
    (void)state;
    pass(SECOND_US);
    sim_host_reach(&host, SIM_REFUSES);
    sim_host_cut(&host);
    pass(TURN_US);
    int64_t since_us = node.since_us;
    assert_true(since_us >= the_clock.now_us - TURN_US);
    pass(LONG_US);
    assert_true(lost > 2 && !node.ready);
    assert_int_equal(node.since_us, since_us); /* however often it was tried */
    assert_int_equal(counts.losses, 1);
    sim_host_reach(&host, SIM_UP);
    pass(3 * SECOND_US);
    assert_true(node.ready && node.since_us > since_us && counts.connects == 2);
}

static void of_another_server_in_its_place_nothing_is_known(void **state)
{
    const struct redis_address other = {.host = "10.0.0.2", .port = 6379};
    (void)state;
    pass(SECOND_US);
    node_suspect(&node, "it forgets");
    pass(SECOND_US);
    link_rest(&node.link);
    pass(SECOND_US);
    node_renew(&node);
    assert_true(node.since_us == 0 && !node.suspect && !node.replica);
    link_want(&node.link, &other); /* nobody is there */
    pass(SECOND_US);
    assert_true(node.since_us > 0);
    assert_int_equal(log_count(logged(), "redis_away node=10.0.0.2:6379"), 1);
}

/* ---- away, and back ---- */

static void a_server_that_is_away_is_logged_once_and_once_more_in_its_own_words(void **state)
{
    static const char *const words[] = {LOADING, "-CLUSTERDOWN The cluster is down\r\n",
                                        "-NOPERM this user has no permissions\r\n"};
    (void)state;
    for (unsigned i = 0; i < 3; i++) { /* all is said each time */
        pass(3 * SECOND_US);
        assert_true(node.ready);
        sim_host_reach(&host, SIM_REFUSES);
        answer_role(words[i]);
        pass(LONG_US);
        sim_host_reach(&host, SIM_UP);
        pass(LONG_US);
        role = MASTER;
    }
    pass(3 * SECOND_US);
    assert_int_equal(log_count(logged(), "redis_connected"), 1);
    assert_int_equal(log_count(text, "redis_away"), 3);
    assert_int_equal(log_count(text, "redis_stalled"), 3);
    assert_int_equal(log_count(text, "redis_stalled node=10.0.0.1:6379 error=\"CLUSTERDOWN"), 1);
    assert_int_equal(log_count(text, "redis_back"), 3);
}

static void a_server_that_nobody_needs_any_more_is_not_away(void **state)
{
    (void)state;
    pass(SECOND_US);
    link_rest(&node.link);
    pass(SECOND_US);
    assert_int_equal(lost, 1);
    assert_int_equal(log_count(logged(), "redis_away"), 0);
}

/* It connects each time, and could be said to be back each time. */
static void a_server_that_cannot_serve_us_is_back_when_it_can(void **state)
{
    (void)state;
    pass(SECOND_US);
    for (unsigned i = 0; i < 3; i++) {
        node_suspect(&node, "its scripts are gone");
        pass(3 * SECOND_US);
        assert_true(node.ready);
    }
    node_accept(&node);
    node_accept(&node);
    assert_int_equal(ready, 4);
    assert_int_equal(log_count(logged(), "error=\"its scripts are gone\""), 1);
    assert_int_equal(log_count(text, "redis_back"), 1);
    assert_int_equal(log_count(text, "redis_connected"), 1); /* at the start */
}

/* Rests differ by a quarter, at random: the first one has 62 ms at most, a sixth 1.2 s at least. */
static void a_server_that_was_ready_is_tried_again_soon_however_often_it_was_lost(void **state)
{
    (void)state;
    pass(SECOND_US);
    for (unsigned i = 0; i < 10; i++) {
        sim_host_cut(&host);
        pass(200 * 1000);
        assert_true(node.ready);
    }
}

/* ---- refusals ---- */

static void refusals_of_a_moment_are_not_logged(void **state)
{
    (void)state;
    pass(SECOND_US);
    node_refused(&node, "TRYAGAIN");
    pass(490 * 1000);
    node_refused(&node, "TRYAGAIN");
    pass(LONG_US); /* it is over */
    assert_int_equal(node.stalled_us, 0);
    node_refused(&node, "TRYAGAIN"); /* another one, which counts from here */
    pass(TURN_US);
    node_refused(&node, "TRYAGAIN");
    pass(LONG_US);
    assert_int_equal(log_count(logged(), "redis_stalled"), 0);
    assert_int_equal(log_count(text, "redis_resumed"), 0);
}

static void a_stall_is_logged_after_half_a_second_and_so_is_its_end(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        pass(SECOND_US);
        node_refused(&node, "MISCONF Errors writing to disk");
        for (unsigned again = 0; again < 20; again++) {
            pass(500 * 1000);
            node_refused(&node, "MISCONF Errors writing to disk");
        }
        pass(4900 * 1000); /* nobody asked it meanwhile */
        assert_true(node.stalled_us != 0);
        pass(200 * 1000);
        assert_int_equal(node.stalled_us, 0);
    }
    assert_int_equal(log_count(logged(), "redis_stalled node=10.0.0.1:6379 error=\"MISCONF"), 2);
    assert_int_equal(log_count(text, "redis_resumed node=10.0.0.1:6379 after_ms=10000"), 2);
}

static void a_stall_is_over_sooner_when_commands_work(void **state)
{
    (void)state;
    pass(SECOND_US);
    node_refused(&node, "BUSY");
    pass(SECOND_US);
    node_worked(&node); /* some do, and some do not */
    pass(TURN_US);
    node_refused(&node, "BUSY");
    pass(1600 * 1000);
    assert_true(node.stalled_us != 0);
    node_worked(&node);
    pass(2 * TURN_US);
    assert_int_equal(node.stalled_us, 0);
    assert_int_equal(log_count(logged(), "redis_resumed"), 1);
}

static void a_stall_ends_with_the_connection(void **state)
{
    (void)state;
    pass(SECOND_US);
    node_refused(&node, "BUSY");
    sim_host_cut(&host);
    pass(TURN_US);
    assert_int_equal(node.stalled_us, 0);
    pass(SECOND_US);
    assert_true(node.ready && !timer_is_armed(&node.quiet));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_master_may_be_sent_commands),
        TEST(a_replica_is_not_used_and_names_its_master),
        TEST(a_server_that_does_not_say_what_it_is_is_no_replica),
        TEST(how_long_it_is_away_counts_from_its_loss),
        TEST(of_another_server_in_its_place_nothing_is_known),
        TEST(a_server_that_is_away_is_logged_once_and_once_more_in_its_own_words),
        TEST(a_server_that_nobody_needs_any_more_is_not_away),
        TEST(a_server_that_cannot_serve_us_is_back_when_it_can),
        TEST(a_server_that_was_ready_is_tried_again_soon_however_often_it_was_lost),
        TEST(refusals_of_a_moment_are_not_logged),
        TEST(a_stall_is_logged_after_half_a_second_and_so_is_its_end),
        TEST(a_stall_is_over_sooner_when_commands_work),
        TEST(a_stall_ends_with_the_connection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
