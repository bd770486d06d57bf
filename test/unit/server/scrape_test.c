/* /metrics with many topics: a page of them in a turn, and a text that the worker writes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "beanstalk_peer.h"
#include "server/server.h"
#include "wire.h"

enum { TOPICS = 1700, SHOWN = 1600 };

/* A world with more topics than it shows, each with one job. */
static struct world *begin_with_topics(uint64_t seed)
{
    struct world *world = begin(&(struct world_options){.seed = seed});
    /* Only tests change the configuration of a server that runs. */
    struct config *config = (struct config *)(uintptr_t)world_server(world)->options.config;
    struct sim_peer *peer = join(world);
    struct buf data = {0};
    config->metrics_topics = SHOWN;
    for (unsigned i = 0; i < TOPICS; i++)
        buf_addf(&data, "use topic-%04u\r\nput 0 0 60 1\r\nx\r\n", i);
    sim_peer_send(peer, buf_bytes(&data));
    buf_fini(&data);
    pass(world, SECOND_US);
    sim_peer_free(peer);
    return world;
}

static struct sim_peer *scrape(struct world *world)
{
    struct sim_peer *peer = sim_loop_client(world_loop(world), WORLD_DELAY_QUEUE);
    struct buf data = {0};
    wire_request(&data, BYTES("GET"), BYTES("/metrics"), NULL, (struct bytes){0});
    sim_peer_send(peer, buf_bytes(&data));
    buf_fini(&data);
    return peer;
}

static uint64_t pages(const struct world *world)
{
    return world_server(world)->counts.commands[PROTOCOL_HTTP][CMD_TOPICS];
}

static void p8_metrics_ask_for_a_page_of_topics_a_turn_and_the_worker_writes_them(void **state)
{
    (void)state;
    struct world *world = begin_with_topics(1);
    const struct server *server = world_server(world);
    struct sim_peer *peer = scrape(world);
    size_t working = 0;
    uint64_t counted = 0;
    while (sim_peer_received(peer).len == 0) {
        uint64_t before = pages(world);
        assert_true(world_step(world, world_now_us(world) + SECOND_US));
        assert_in_range(pages(world) - before, 0, 2); /* the first, and one in its own stage */
        working = server->buffers.work_bytes > working ? server->buffers.work_bytes : working;
        if (working == 0 && server->buffers.bytes > counted) /* before the worker has it */
            counted = server->buffers.bytes;
    }
    pass(world, SECOND_US);
    struct wire_answer answer;
    assert_true(wire_cut(sim_peer_received(peer), &answer) == sim_peer_received(peer).len);
    assert_int_equal(answer.status, 200);
    for (unsigned i = 0; i < TOPICS; i++) {
        char row[96];
        int len =
            snprintf(row, sizeof(row), "\nlaterd_topic_pushed_total{topic=\"topic-%04u\"} 1\n", i);
        bool shown = wire_find(answer.body, bytes_of(row, (size_t)len)) != NULL;
        assert_int_equal(shown, i < SHOWN);
    }
    assert_non_null(wire_find(answer.body, BYTES("\nlaterd_topics_not_shown 1\n")));
    assert_true(working >= answer.body.len);
    assert_true(counted >= SHOWN * sizeof(uint64_t));
    assert_int_equal(server->buffers.work_bytes, 0);
    world_free(world);
}

/* At each point of it. */
static void who_leaves_while_metrics_are_gathered_is_forgotten(void **state)
{
    enum { TURNS = 12 };
    (void)state;
    struct world *world = begin_with_topics(2);
    for (unsigned turns = 0; turns < TURNS; turns++) {
        struct sim_peer *peer = scrape(world);
        for (unsigned i = 0; i < turns; i++)
            (void)world_step(world, world_now_us(world));
        sim_peer_reset(peer);
        pass(world, SECOND_US);
        assert_int_equal(world_server(world)->buffers.work_bytes, 0);
        assert_int_equal(server_sessions(world_server(world)), 0);
        sim_peer_free(peer);
    }
    world_free(world);
}

/* What one takes counts for its connection until it is answered, and no longer. */
static void p8_one_connection_asks_again_and_again(void **state)
{
    enum { SCRAPES = 6 };
    (void)state;
    struct world *world = begin_with_topics(3);
    struct sim_peer *peer = sim_loop_client(world_loop(world), WORLD_DELAY_QUEUE);
    for (unsigned i = 0; i < SCRAPES; i++) {
        struct wire_answer answer = {0};
        struct buf data = {0};
        wire_request(&data, BYTES("GET"), BYTES("/metrics"), NULL, (struct bytes){0});
        sim_peer_send(peer, buf_bytes(&data));
        buf_fini(&data);
        pass(world, SECOND_US);
        assert_true(wire_cut(sim_peer_received(peer), &answer) > 0);
        assert_int_equal(answer.status, 200);
        sim_peer_take(peer, sim_peer_received(peer).len);
    }
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(p8_metrics_ask_for_a_page_of_topics_a_turn_and_the_worker_writes_them),
        cmocka_unit_test(who_leaves_while_metrics_are_gathered_is_forgotten),
        cmocka_unit_test(p8_one_connection_asks_again_and_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
