/* The end of a server with many connections: they are told in slices, and the engine after them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "beanstalk_peer.h"
#include "server/server.h"
#include "wire.h"

enum { CLIENTS = 300, A_FEW = 20, SHORT_TURN_NS = 20000 };

static unsigned told(const struct world *world)
{
    unsigned count = 0;
    const struct list *dirty = &world_server(world)->dirty;
    for (const struct list *at = dirty->next; at != dirty; at = at->next)
        count++;
    return count;
}

static void p8_connections_are_told_of_a_drain_in_slices(void **state)
{
    (void)state;
    struct world *world =
        begin(&(struct world_options){.seed = 1, .connections = 1000, .turn_ns = SHORT_TURN_NS});
    struct sim_peer *peers[CLIENTS];
    struct buf poll = {0};
    wire_request(&poll, BYTES("POST"), BYTES("/v1/reserve"), "application/json",
                 BYTES("{\"topics\":[\"t\"],\"wait\":\"30s\"}"));
    for (unsigned i = 0; i < CLIENTS; i++) {
        peers[i] = sim_loop_client(world_loop(world), WORLD_DELAY_QUEUE);
        if (i % 2 == 0)
            sim_peer_send(peers[i], buf_bytes(&poll));
    }
    buf_fini(&poll);
    pass(world, SECOND_US);
    assert_int_equal(server_sessions(world_server(world)), CLIENTS);
    assert_int_equal(told(world), 0);
    world_drain(world);
    assert_in_range(told(world), 0, A_FEW);
    pass(world, SECOND_US);
    assert_false(world_is_up(world));
    for (unsigned i = 0; i < CLIENTS; i++) {
        struct bytes have = sim_peer_received(peers[i]);
        assert_true(i % 2 ? have.len == 0 : wire_find(have, BYTES("Connection: close")) != NULL);
        sim_peer_free(peers[i]);
    }
    world_free(world);
}

/* The others are told all the same. */
static void the_client_that_is_told_next_may_leave(void **state)
{
    (void)state;
    struct world *world =
        begin(&(struct world_options){.seed = 2, .connections = 1000, .turn_ns = SHORT_TURN_NS});
    struct sim_peer *peers[CLIENTS];
    for (unsigned i = 0; i < CLIENTS; i++)
        peers[i] = sim_loop_client(world_loop(world), WORLD_DELAY_QUEUE);
    pass(world, SECOND_US);
    world_drain(world);
    unsigned next = told(world);
    assert_in_range(next, 1, A_FEW);
    sim_peer_reset(peers[next]);
    pass(world, SECOND_US);
    assert_false(world_is_up(world));
    for (unsigned i = 0; i < CLIENTS; i++)
        sim_peer_free(peers[i]);
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(p8_connections_are_told_of_a_drain_in_slices),
        cmocka_unit_test(the_client_that_is_told_next_may_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
