/*
 * A Redis server, sentinel or cluster node that sends any bytes: the first byte of the input
 * chooses which, the rest is sent on each connection after the reply to the greeting. Any bytes may
 * only cost the connection, and may only lead to host names and numeric addresses.
 *
 * All of it is in memory: connections are to a host of our own, others are refused.
 */
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "client/redis/topology.h"
#include "sim/loop.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { TURNS = 12, TURN_US = 100 * 1000 };

static const char host_name[] = "10.0.0.1";

static void ignore(struct topology_callbacks *callbacks, struct node *node)
{
    (void)callbacks;
    (void)node;
}

static void moved(struct topology_callbacks *callbacks)
{
    (void)callbacks;
}

static void refused(struct topology_callbacks *callbacks, const struct link *link)
{
    (void)callbacks;
    CHECK(link->error[0]);
}

/* ---- the server ---- */

static struct bytes script; /* what it says to everybody */

/* Says it all to who has come. */
static void accepted(struct sim_host *host, struct sim_peer *peer)
{
    (void)host;
    sim_peer_send(peer, BYTES("+PONG\r\n"));
    sim_peer_send(peer, script);
}

static void input(struct sim_host *host, struct sim_peer *peer, struct bytes bytes)
{
    (void)host;
    (void)peer;
    (void)bytes; /* it does not listen */
}

static void closed(struct sim_host *host, struct sim_peer *peer, bool reset)
{
    (void)host;
    (void)peer;
    (void)reset;
}

static const struct sim_host_handler server = {
    .accepted = accepted, .input = input, .closed = closed};

/* ---- the loop, which looks where we are led ---- */

static const struct loop_verbs *sim_verbs;

static struct stream *checked_connect(struct loop *loop, const struct stream_options *options)
{
    CHECK(options->host[0] && !strpbrk(options->host, "/ \n"));
    return sim_verbs->connect(loop, options);
}

static void check_nodes(struct topology *topology)
{
    for (unsigned slot = 0; slot < REDIS_SLOTS; slot += 1000) {
        const struct node *node = topology_node(topology, slot);
        CHECK(!node || node->link.state == LINK_UP);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct topology topology;
    struct topology_callbacks callbacks = {
        .ready = ignore, .lost = ignore, .moved = moved, .refused = refused};
    struct redis_url url = {.address_count = 1, .service = "jobs"};
    struct sim_clock clock;
    struct sim_host host;
    if (size < 1)
        return 0;
    log_level_set(LOG_ERROR);
    sim_clock_init(&clock, 1);
    script = bytes_of((const char *)data + 1, size - 1);
    struct sim_net *net = sim_net_new(&clock, 1);
    struct sim_loop *sim = sim_loop_new(net, &clock.clock);
    struct loop *loop = sim_loop_port(sim);
    sim_verbs = loop->verbs;
    struct loop_verbs verbs = *sim_verbs;
    verbs.connect = checked_connect;
    loop->verbs = &verbs;
    sim_host_add(net, &host, "10.0.0.1:6379", &server);
    url.topology = (enum redis_topology)(data[0] % (REDIS_CLUSTER + 1));
    url.addresses[0].port = 6379;
    memcpy(url.addresses[0].host, host_name, sizeof(host_name));
    struct topology_options options = {.url = &url,
                                       .callbacks = &callbacks,
                                       .sentinel_user = "",
                                       .sentinel_password = "",
                                       .loop = loop,
                                       .timeout_us = 5 * TURN_US};
    topology_init(&topology, &options);
    for (; clock.now_us < (int64_t)TURNS * TURN_US; clock.now_us += TURN_US) {
        sim_net_run(net);
        loop_turn(loop, 0);
        topology_flush(&topology);
        check_nodes(&topology);
    }
    topology_fini(&topology);
    sim_loop_free(sim);
    sim_net_free(net);
    return 0;
}
