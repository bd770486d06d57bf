/*
 * Masters of a cluster, on a simulated network: as many as there is room for are connected to,
 * wherever the first ones were, and more are told of.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "client/redis/topology.h"
#include "sim/loop.h"
#include "test/unit/support/captured_log.h"

enum { HOSTS_MAX = 100, TURN_US = 10 * 1000, TURNS = 100 };

static struct sim_host hosts[HOSTS_MAX], seeds[REDIS_ADDRESSES_MAX]; /* hosts[masters]: a replica */
static struct topology topology;
static struct redis_url url;
static unsigned masters;
static bool fails_over; /* once all slots are served, the replica takes the place of the first */
static bool failed_over;
static bool nameless; /* nodes are to be called by names, and have none */

/* ---- a server that knows its cluster ---- */

static void send_map(struct sim_peer *peer)
{
    struct buf out = {0};
    unsigned each = REDIS_SLOTS / masters;
    buf_addf(&out, "*%u\r\n", masters);
    for (unsigned i = 0; i < masters; i++) {
        unsigned last = i + 1 == masters ? REDIS_SLOTS - 1 : (i + 1) * each - 1;
        const char *address = hosts[failed_over && i == 0 ? masters : i].address;
        size_t len = strlen(address) - strlen(":6379");
        buf_addf(&out, "*3\r\n:%u\r\n:%u\r\n", i * each, last);
        if (nameless)
            buf_add_str(&out, "*4\r\n$1\r\n?\r\n:6379\r\n$2\r\nid\r\n*2\r\n$2\r\nip\r\n");
        else
            buf_add_str(&out, "*2\r\n");
        buf_addf(&out, "$%zu\r\n%.*s\r\n%s", len, (int)len, address, nameless ? "" : ":6379\r\n");
    }
    sim_peer_send(peer, buf_bytes(&out));
    buf_fini(&out);
}

static bool has(struct bytes bytes, const char *word)
{
    return memmem(bytes.at, bytes.len, word, strlen(word)) != NULL;
}

static void input(struct sim_host *host, struct sim_peer *peer, struct bytes bytes)
{
    (void)host;
    if (has(bytes, "PING"))
        sim_peer_send(peer, BYTES("+PONG\r\n"));
    if (has(bytes, "ROLE"))
        sim_peer_send(peer, BYTES("*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"));
    if (has(bytes, "SLOTS")) {
        sim_peer_send(peer, BYTES("$16\r\ncluster_state:ok\r\n"));
        send_map(peer);
    }
}

static void accepted(struct sim_host *host, struct sim_peer *peer)
{
    (void)host;
    (void)peer;
}

static void closed(struct sim_host *host, struct sim_peer *peer, bool reset)
{
    (void)host;
    (void)peer;
    (void)reset;
}

static const struct sim_host_handler server = {
    .accepted = accepted, .input = input, .closed = closed};

/* ---- laterd ---- */

static unsigned slots_served(void)
{
    unsigned count = 0;
    for (unsigned slot = 0; slot < REDIS_SLOTS; slot++)
        count += topology_node(&topology, slot) != NULL;
    return count;
}

static void add_host(struct sim_net *net, struct sim_host *host, unsigned network, unsigned number)
{
    char address[32];
    (void)snprintf(address, sizeof(address), "10.0.%u.%u:6379", network, number);
    sim_host_add(net, host, address, &server);
}

/* All of REDIS_ADDRESSES_MAX seeds are masters that have no slots. Returns how many slots are
 * served in the end. */
static unsigned serve(unsigned count)
{
    struct topology_callbacks callbacks = {.ready = NULL};
    struct sim_clock clock;
    masters = count;
    url = (struct redis_url){.topology = REDIS_CLUSTER, .address_count = REDIS_ADDRESSES_MAX};
    sim_clock_init(&clock, 1);
    struct sim_net *net = sim_net_new(&clock, 1);
    struct sim_loop *sim = sim_loop_new(net, &clock.clock);
    failed_over = false;
    for (unsigned i = 0; i <= masters; i++)
        add_host(net, &hosts[i], 0, i);
    for (unsigned i = 0; i < REDIS_ADDRESSES_MAX; i++) {
        add_host(net, &seeds[i], 1, i);
        (void)snprintf(url.addresses[i].host, sizeof(url.addresses[i].host), "10.0.1.%u", i);
        url.addresses[i].port = 6379;
    }
    topology_init(&topology, &(struct topology_options){.url = &url,
                                                        .callbacks = &callbacks,
                                                        .sentinel_user = "",
                                                        .sentinel_password = "",
                                                        .loop = sim_loop_port(sim),
                                                        .timeout_us = 50 * TURN_US});
    for (unsigned i = 0; i < TURNS; i++, clock.now_us += TURN_US) {
        if (fails_over && !failed_over && slots_served() == REDIS_SLOTS) {
            failed_over = true;
            sim_host_remove(&hosts[0]);
            i = 0;
        }
        sim_net_run(net);
        loop_turn(sim_loop_port(sim), 0);
        topology_flush(&topology);
    }
    unsigned served = slots_served();
    topology_fini(&topology);
    sim_loop_free(sim);
    sim_net_free(net);
    return served;
}

/* The same; `text` gets what was logged. */
static unsigned serve_and_log(unsigned count, char *text, size_t room)
{
    int before;
    FILE *log = log_open(LOG_ERROR, &before);
    unsigned served = serve(count);
    log_close(log, before, text, room);
    return served;
}

/* As many masters as there is room for, and the addresses of the configuration are of others. */
static void masters_take_the_places_of_seeds(void **state)
{
    char text[2000];
    (void)state;
    assert_int_equal(serve_and_log(REDIS_NODES_MAX, text, sizeof(text)), REDIS_SLOTS);
    assert_int_equal(topology.left_out, 0);
    assert_string_equal(text, "");
}

static void a_promoted_replica_takes_the_place_of_its_master(void **state)
{
    (void)state;
    fails_over = true;
    unsigned served = serve(REDIS_NODES_MAX);
    fails_over = false;
    assert_true(failed_over);
    assert_int_equal(served, REDIS_SLOTS);
    assert_int_equal(topology.left_out, 0);
}

static void nodes_without_the_name_that_they_should_have_are_found_by_their_ip(void **state)
{
    (void)state;
    nameless = true;
    unsigned served = serve(3);
    nameless = false;
    assert_int_equal(served, REDIS_SLOTS);
    assert_int_not_equal(topology.slots[0], topology.slots[REDIS_SLOTS - 1]);
}

static void too_many_masters_are_logged_once(void **state)
{
    char text[2000];
    (void)state;
    unsigned served = serve_and_log(REDIS_NODES_MAX + 6, text, sizeof(text));
    assert_int_equal(served, REDIS_NODES_MAX * (REDIS_SLOTS / (REDIS_NODES_MAX + 6)));
    assert_int_equal(topology.left_out, REDIS_SLOTS - served);
    const char *line = strstr(text, " redis_too_many_masters most=64 ");
    assert_non_null(line);
    assert_null(strstr(line + 2, "redis_too_many_masters"));
}

/* As when a slot is given over by hand, to one of them after the other. */
static void two_nodes_that_name_each_other_are_not_asked_in_turn_without_pause(void **state)
{
    struct topology_callbacks callbacks = {.ready = NULL};
    struct failure to_a = failure_read(BYTES("MOVED 7 10.0.0.1:6379"));
    struct failure to_b = failure_read(BYTES("MOVED 7 10.0.0.2:6379"));
    struct sim_clock clock;
    (void)state;
    url = (struct redis_url){.topology = REDIS_CLUSTER};
    sim_clock_init(&clock, 1);
    struct sim_net *net = sim_net_new(&clock, 1);
    struct sim_loop *sim = sim_loop_new(net, &clock.clock);
    topology_init(&topology, &(struct topology_options){.url = &url,
                                                        .callbacks = &callbacks,
                                                        .sentinel_user = "",
                                                        .sentinel_password = "",
                                                        .loop = sim_loop_port(sim),
                                                        .timeout_us = 50 * TURN_US});
    struct node *a = &topology.nodes[0], *b = &topology.nodes[1];
    assert_true(topology_moved(&topology, b, &to_a));
    assert_true(topology_moved(&topology, b, &to_a)); /* the answer to another call */
    assert_false(topology_moved(&topology, a, &to_b));
    assert_int_equal(topology.slots[7], 0);
    topology.slots[7] = 1; /* by the map of a node that has not heard of it yet */
    assert_true(topology_moved(&topology, b, &to_a));
    assert_int_equal(topology.slots[7], 0);
    clock.now_us += 3 * TURN_US;
    loop_turn(sim_loop_port(sim), 0);
    assert_true(topology_moved(&topology, a, &to_b));
    assert_int_equal(topology.slots[7], 1);
    topology_fini(&topology);
    sim_loop_free(sim);
    sim_net_free(net);
}

static void run(struct sim_net *net, struct sim_loop *sim, struct sim_clock *clock)
{
    for (unsigned i = 0; i < TURNS; i++, clock->now_us += TURN_US) {
        sim_net_run(net);
        loop_turn(sim_loop_port(sim), 0);
        topology_flush(&topology);
    }
}

/* Two servers that do not exist are asked for a key, one after the other: the second one has the
 * place of the first. */
static void a_server_in_the_place_of_another_is_logged_as_away(void **state)
{
    struct topology_callbacks callbacks = {.ready = NULL};
    const struct redis_address gone[] = {{.host = "10.0.9.1", .port = 6379},
                                         {.host = "10.0.9.2", .port = 6379}};
    struct sim_clock clock;
    char text[4000];
    int before;
    (void)state;
    masters = 1;
    url = (struct redis_url){.topology = REDIS_CLUSTER, .address_count = 1};
    url.addresses[0] = (struct redis_address){.host = "10.0.0.0", .port = 6379};
    sim_clock_init(&clock, 1);
    struct sim_net *net = sim_net_new(&clock, 1);
    struct sim_loop *sim = sim_loop_new(net, &clock.clock);
    add_host(net, &hosts[0], 0, 0);
    FILE *log = log_open(LOG_WARN, &before);
    topology_init(&topology, &(struct topology_options){.url = &url,
                                                        .callbacks = &callbacks,
                                                        .sentinel_user = "",
                                                        .sentinel_password = "",
                                                        .loop = sim_loop_port(sim),
                                                        .timeout_us = 10 * TURN_US});
    run(net, sim, &clock);
    for (unsigned i = 0; i < 2; i++) {
        assert_null(topology_at(&topology, &gone[i]));
        run(net, sim, &clock);
    }
    unsigned nodes = topology.node_count;
    topology_fini(&topology);
    sim_loop_free(sim);
    sim_net_free(net);
    log_close(log, before, text, sizeof(text));
    assert_int_equal(nodes, 2);
    assert_non_null(strstr(text, "redis_away node=10.0.9.1:6379"));
    assert_non_null(strstr(text, "redis_away node=10.0.9.2:6379"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masters_take_the_places_of_seeds),
        cmocka_unit_test(a_promoted_replica_takes_the_place_of_its_master),
        cmocka_unit_test(nodes_without_the_name_that_they_should_have_are_found_by_their_ip),
        cmocka_unit_test(too_many_masters_are_logged_once),
        cmocka_unit_test(two_nodes_that_name_each_other_are_not_asked_in_turn_without_pause),
        cmocka_unit_test(a_server_in_the_place_of_another_is_logged_as_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
