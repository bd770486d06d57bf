/*
 * The simulated Redis by fixed expectations: what redis_compare_test.c cannot compare, since it
 * takes more than one server, a fault, or time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "client/redis/resp.h"
#include "sim/redis/cluster.h"
#include "sim/redis/server.h"

enum { NODES = 3, PORT = 7000 };

static struct sim_redis *nodes[NODES];
static struct sim_redis_conn *conns[NODES];
static struct sim_cluster cluster;

static int setup(void **state)
{
    (void)state;
    for (uint16_t i = 0; i < NODES; i++) {
        nodes[i] = sim_redis_new(
            &(struct sim_redis_options){.host = "10.0.0.1", .port = (uint16_t)(PORT + i)}, 1000000);
        conns[i] = sim_redis_accept(nodes[i]);
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (int i = 0; i < NODES; i++)
        sim_redis_free(nodes[i]);
    return 0;
}

/* Words between single spaces; the answer must be this text. */
static void says(struct sim_redis_conn *conn, const char *command, const char *answer)
{
    struct buf request = {0}, *out = sim_redis_output(conn);
    struct bytes words[16];
    unsigned count = 0;
    for (const char *at = command; *at; at += *at == ' ') {
        size_t len = strcspn(at, " ");
        words[count++] = bytes_of(at, len);
        at += len;
    }
    resp_begin(&request, count);
    for (unsigned i = 0; i < count; i++)
        resp_add(&request, words[i]);
    sim_redis_input(conn, buf_bytes(&request));
    buf_fini(&request);
    buf_add_char(out, '\0');
    assert_string_equal(out->at, answer);
    out->len = 0;
}

static void hears(struct sim_redis_conn *conn, const char *answer)
{
    struct buf *out = sim_redis_output(conn);
    buf_add_char(out, '\0');
    assert_string_equal(out->at, answer);
    out->len = 0;
}

static void input_may_be_cut_anywhere(void **state)
{
    static const char request[] =
        "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$2\r\nbc\r\n*2\r\n$3\r\nGET\r\n$1\r\na\r\n";
    (void)state;
    for (size_t cut = 0; cut < sizeof(request) - 1; cut++) {
        sim_redis_input(conns[0], bytes_of(request, cut));
        sim_redis_input(conns[0], bytes_of(request + cut, sizeof(request) - 1 - cut));
        hears(conns[0], "+OK\r\n$2\r\nbc\r\n");
    }
    sim_redis_input(conns[0], BYTES("nonsense\r\n"));
    assert_true(sim_redis_closed(conns[0]));
}

static void a_fault_is_answered_with_its_own_error(void **state)
{
    struct sim_redis_settings *settings = sim_redis_settings(nodes[0]);
    (void)state;
    settings->password = "secret";
    says(conns[0], "GET a", "-NOAUTH Authentication required.\r\n");
    says(conns[0], "AUTH wrong",
         "-WRONGPASS invalid username-password pair or user is disabled.\r\n");
    says(conns[0], "AUTH default secret", "+OK\r\n");
    settings->denied = " publish ";
    says(conns[0], "PUBLISH a b",
         "-NOPERM this user has no permissions to run the 'publish' command\r\n");
    settings->loading = true;
    says(conns[0], "PING", "-LOADING Redis is loading the dataset in memory\r\n");
    settings->loading = false;
    settings->few_replicas = true;
    says(conns[0], "SET a b", "-NOREPLICAS Not enough good replicas to write.\r\n");
    settings->few_replicas = false;
    settings->full = true;
    says(conns[0], "SET a b", "-OOM command not allowed when used memory > 'maxmemory'.\r\n");
    says(conns[0], "DEL a", ":0\r\n");
}

static void a_replica_is_as_far_behind_as_it_is_told(void **state)
{
    (void)state;
    sim_redis_follow(nodes[1], nodes[0]);
    sim_redis_settings(nodes[1])->lag_us = 5000;
    says(conns[0], "SET a 1", "+OK\r\n");
    sim_redis_time(nodes[0], 1002000);
    says(conns[0], "HSET h f v", ":1\r\n");
    sim_redis_time(nodes[1], 1005000);
    struct sim_redis_conn *conn = sim_redis_accept(nodes[1]);
    says(conn, "GET a", "$1\r\n1\r\n");
    says(conn, "HGET h f", "$-1\r\n");
    says(conn, "SET a 2", "-READONLY You can't write against a read only replica.\r\n");
    assert_int_equal(sim_redis_next_us(nodes[1]), 1007000);
}

static void what_a_replica_had_not_got_is_lost_in_a_failover(void **state)
{
    (void)state;
    sim_redis_follow(nodes[1], nodes[0]);
    says(conns[0], "SET a 1", "+OK\r\n");
    sim_redis_time(nodes[1], 1000000);
    sim_redis_settings(nodes[1])->lag_us = INT64_MAX;
    says(conns[0], "SET a 2", "+OK\r\n");
    sim_redis_follow(nodes[1], NULL);
    sim_redis_follow(nodes[0], nodes[1]);
    assert_true(sim_redis_closed(conns[0]));
    says(sim_redis_accept(nodes[1]), "GET a", "$1\r\n1\r\n");
    says(sim_redis_accept(nodes[0]), "GET a", "$1\r\n1\r\n");
    assert_int_equal(sim_redis_digest(nodes[0]), sim_redis_digest(nodes[1]));
}

static void wait_counts_replicas_that_have_it(void **state)
{
    (void)state;
    sim_redis_follow(nodes[1], nodes[0]);
    sim_redis_settings(nodes[1])->lag_us = 30000;
    says(conns[0], "SET a 1", "+OK\r\n");
    says(conns[0], "WAIT 1 100", "");
    sim_redis_input(conns[0], BYTES("*1\r\n$4\r\nPING\r\n")); /* waits behind it */
    sim_redis_time(nodes[1], 1029999);
    sim_redis_time(nodes[0], 1029999);
    hears(conns[0], "");
    sim_redis_time(nodes[1], 1030000);
    sim_redis_time(nodes[0], 1030000);
    hears(conns[0], ":1\r\n+PONG\r\n");
    says(conns[0], "SET a 2", "+OK\r\n");
    says(conns[0], "WAIT 2 100", "");
    assert_int_equal(sim_redis_next_us(nodes[0]), 1130000);
    sim_redis_time(nodes[1], 1130000);
    sim_redis_time(nodes[0], 1130000);
    hears(conns[0], ":1\r\n");
}

static void a_server_starts_again_with_what_was_saved(void **state)
{
    (void)state;
    says(conns[0], "SET a 1", "+OK\r\n");
    sim_redis_save(nodes[0]);
    says(conns[0], "SET a 2", "+OK\r\n");
    uint64_t digest = sim_redis_digest(nodes[0]);
    sim_redis_restart(nodes[0], SIM_REDIS_KEEPS_ALL);
    assert_int_equal(sim_redis_digest(nodes[0]), digest);
    assert_true(sim_redis_closed(conns[0]));
    sim_redis_restart(nodes[0], SIM_REDIS_KEEPS_SAVED);
    says(sim_redis_accept(nodes[0]), "GET a", "$1\r\n1\r\n");
    sim_redis_restart(nodes[0], SIM_REDIS_KEEPS_NOTHING);
    says(sim_redis_accept(nodes[0]), "GET a", "$-1\r\n");
}

static void scripts_are_whole_and_forgotten_with_the_server(void **state)
{
    struct buf script = {0};
    (void)state;
    resp_begin(&script, 3);
    resp_add_str(&script, "EVAL");
    resp_add_str(&script, "redis.call('SET', 'a', 1) redis.call('SET', 'b', 2)");
    resp_add_str(&script, "0");
    sim_redis_follow(nodes[1], nodes[0]);
    sim_redis_input(conns[0], buf_bytes(&script));
    hears(conns[0], "$-1\r\n");
    sim_redis_time(nodes[1], 1000000);
    assert_int_equal(sim_redis_digest(nodes[0]), sim_redis_digest(nodes[1]));
    says(conns[0], "EVALSHA 57d02d6d08a14d6d6f67b4b02c3a3d5d7d2a1d3f 0",
         "-NOSCRIPT No matching script. Please use EVAL.\r\n");
    buf_fini(&script);
}

/* Lua's own way: "%.14g". */
static void a_script_writes_numbers_as_redis_does(void **state)
{
    static const struct {
        const char *number, *text;
    } some[] = {{"0", "0"},
                {"-0", "-0"},
                {"7", "7"},
                {"-7", "-7"},
                {"0.5", "0.5"},
                {"1e13", "10000000000000"},
                {"99999999999999", "99999999999999"},
                {"1e14", "1e+14"},
                {"123456789012345", "1.2345678901234e+14"},
                {"1/0", "inf"}};
    (void)state;
    for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++) {
        struct buf script = {0}, command = {0}, answer = {0};
        buf_addf(&script, "return '' .. (%s)", some[i].number);
        buf_addf(&answer, "$%zu\r\n%s\r\n", strlen(some[i].text), some[i].text);
        buf_add_char(&answer, '\0');
        resp_begin(&command, 3);
        resp_add_str(&command, "EVAL");
        resp_add(&command, buf_bytes(&script));
        resp_add_str(&command, "0");
        sim_redis_input(conns[0], buf_bytes(&command));
        hears(conns[0], answer.at);
        buf_fini(&script);
        buf_fini(&command);
        buf_fini(&answer);
    }
}

static void subscribers_hear_each_message_once_or_not_at_all(void **state)
{
    struct sim_redis_conn *hearer = sim_redis_accept(nodes[0]);
    (void)state;
    says(hearer, "SUBSCRIBE c", "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
    says(hearer, "GET a",
         "-ERR Can't execute 'get': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET "
         "are allowed in this context\r\n");
    says(conns[0], "PUBLISH c m", ":1\r\n");
    hears(hearer, "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n");
    sim_redis_hang_up(hearer);
    says(conns[0], "PUBLISH c m", ":0\r\n");
}

static void a_cluster_sends_on_what_is_not_its(void **state)
{
    (void)state;
    sim_cluster_init(&cluster, nodes, NODES, NODES, 1);
    assert_int_equal(sim_cluster_slot(BYTES("123456789")), 12739);
    assert_int_equal(sim_cluster_slot(BYTES("x{a}y")), 15495); /* that of "a" */
    says(conns[0], "SET a 1", "-MOVED 15495 10.0.0.1:7002\r\n");
    says(conns[0], "DEL a b", "-CROSSSLOT Keys in request don't hash to the same slot\r\n");
    says(conns[2], "SET a 1", "+OK\r\n");
    says(conns[2], "SET {a}2 2", "+OK\r\n");
    cluster.down = true;
    says(conns[2], "GET a", "-CLUSTERDOWN The cluster is down\r\n");
}

static void a_slot_moves_key_by_key(void **state)
{
    (void)state;
    sim_cluster_init(&cluster, nodes, NODES, NODES, 1);
    says(conns[2], "HSET a f v", ":1\r\n");
    says(conns[2], "ZADD {a}2 7 m", ":1\r\n");
    sim_cluster_begin_move(&cluster, 15495, 0);
    says(conns[2], "HGET a f", "$1\r\nv\r\n");
    says(conns[0], "HGET a f", "-MOVED 15495 10.0.0.1:7002\r\n");
    says(conns[2], "EXISTS {a}3", "-ASK 15495 10.0.0.1:7000\r\n");
    assert_true(sim_cluster_move_key(&cluster, 15495));
    says(conns[2], "EXISTS a {a}2", "-TRYAGAIN Multiple keys request during rehashing of slot\r\n");
    says(conns[0], "ASKING", "+OK\r\n");
    says(conns[0], "ZSCORE {a}2 m", "$-1\r\n");
    assert_true(sim_cluster_move_key(&cluster, 15495));
    assert_false(sim_cluster_move_key(&cluster, 15495));
    says(conns[0], "HGET a f", "$1\r\nv\r\n");
    says(conns[0], "ZSCORE {a}2 m", "$1\r\n7\r\n");
    says(conns[2], "HGET a f", "-MOVED 15495 10.0.0.1:7000\r\n");
}

static void the_cluster_bus_may_lose_what_is_published(void **state)
{
    (void)state;
    sim_cluster_init(&cluster, nodes, NODES, NODES, 1);
    says(conns[1], "SUBSCRIBE c", "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
    says(conns[0], "PUBLISH c m", ":0\r\n");
    hears(conns[1], "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n");
    cluster.lost_per_mille = 1000;
    says(conns[0], "PUBLISH c m", ":0\r\n");
    hears(conns[1], "");
}

static void a_sentinel_names_the_master(void **state)
{
    struct sim_redis *sentinel = sim_redis_new(
        &(struct sim_redis_options){
            .host = "10.0.0.9", .port = 1, .sentinel = true, .service = "jobs"},
        0);
    struct sim_redis_conn *conn = sim_redis_accept(sentinel);
    (void)state;
    says(conn, "SENTINEL get-master-addr-by-name jobs", "*-1\r\n");
    sim_redis_name_master(sentinel, nodes[0], false);
    says(conn, "SENTINEL get-master-addr-by-name jobs", "*2\r\n$8\r\n10.0.0.1\r\n$4\r\n7000\r\n");
    says(conn, "SENTINEL get-master-addr-by-name others", "*-1\r\n");
    says(conn, "GET a", "-ERR unknown command 'GET', with args beginning with: 'a' \r\n");
    says(conn, "SUBSCRIBE +switch-master",
         "*3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n");
    sim_redis_name_master(sentinel, nodes[1], true);
    hears(conn, "*3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$32\r\n"
                "jobs 10.0.0.1 7000 10.0.0.1 7001\r\n");
    sim_redis_free(sentinel);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(input_may_be_cut_anywhere, setup, teardown),
        cmocka_unit_test_setup_teardown(a_fault_is_answered_with_its_own_error, setup, teardown),
        cmocka_unit_test_setup_teardown(a_replica_is_as_far_behind_as_it_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(what_a_replica_had_not_got_is_lost_in_a_failover, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(wait_counts_replicas_that_have_it, setup, teardown),
        cmocka_unit_test_setup_teardown(a_server_starts_again_with_what_was_saved, setup, teardown),
        cmocka_unit_test_setup_teardown(scripts_are_whole_and_forgotten_with_the_server, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_script_writes_numbers_as_redis_does, setup, teardown),
        cmocka_unit_test_setup_teardown(subscribers_hear_each_message_once_or_not_at_all, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_cluster_sends_on_what_is_not_its, setup, teardown),
        cmocka_unit_test_setup_teardown(a_slot_moves_key_by_key, setup, teardown),
        cmocka_unit_test_setup_teardown(the_cluster_bus_may_lose_what_is_published, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_sentinel_names_the_master, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
