/*
 * Invariant: each connection of a host belongs to one of its server, until either side has closed
 * it.
 */
#include "sim/redis/network.h"

#include <stdio.h>
#include <sys/random.h>

#include "base/check.h"
#include "base/mem.h"

struct server_host {
    struct sim_host host; /* its first member */
    struct sim_network *network;
    struct sim_redis *server;
};

struct network_conn {
    struct list place; // sim_network::conns
    struct sim_peer *peer;
    struct sim_redis_conn *conn; /* NULL: the server has closed it */
};

struct sim_network {
    struct sim_clock clock; /* the true time */
    struct sim_net *net;
    struct sim_random random; /* random bytes for daemons: see __wrap_getrandom() */
    struct server_host hosts[SIM_NETWORK_SERVERS];
    unsigned host_count;
    struct sim_loop *loops[SIM_NETWORK_DAEMONS]; /* NULL: it does not run */
    enum sim_cut cut[SIM_NETWORK_DAEMONS][SIM_NETWORK_SERVERS];
    struct list conns; // network_conn::place
};

static struct sim_network *network_now;

/* ---- connections ---- */

static void hang_up(struct network_conn *one)
{
    if (one->conn)
        sim_redis_hang_up(one->conn);
    one->conn = NULL;
}

static void conn_free(struct network_conn *one)
{
    hang_up(one);
    list_remove(&one->place);
    mem_free(one);
}

/* Puts the servers' output into transit. */
static void collect(struct sim_network *network)
{
    for (struct list *node = network->conns.next; node != &network->conns; node = node->next) {
        struct network_conn *one = LIST_ENTRY(node, struct network_conn, place);
        struct buf *out = one->conn ? sim_redis_output(one->conn) : NULL;
        if (!out)
            continue;
        if (out->len)
            sim_peer_send(one->peer, buf_bytes(out));
        out->len = 0;
        if (sim_redis_closed(one->conn)) {
            hang_up(one);
            sim_peer_shut(one->peer);
        }
    }
}

static struct server_host *of_host(struct sim_host *host)
{
    return (struct server_host *)host; /* its first member */
}

static void accepted(struct sim_host *host, struct sim_peer *peer)
{
    struct network_conn *one = mem_zalloc(sizeof(*one));
    one->peer = peer;
    one->conn = sim_redis_accept(of_host(host)->server);
    list_add_tail(&of_host(host)->network->conns, &one->place);
    sim_peer_set_user(peer, one);
}

static void input(struct sim_host *host, struct sim_peer *peer, struct bytes bytes)
{
    struct network_conn *one = sim_peer_user(peer);
    if (one->conn)
        sim_redis_input(one->conn, bytes);
    collect(of_host(host)->network);
}

static void closed(struct sim_host *host, struct sim_peer *peer, bool reset)
{
    (void)host;
    (void)reset;
    conn_free(sim_peer_user(peer));
}

static const struct sim_host_handler handler = {
    .accepted = accepted,
    .input = input,
    .closed = closed,
};

/* ---- time ---- */

static void report_time(struct sim_network *network)
{
    for (unsigned i = 0; i < network->host_count; i++)
        sim_redis_time(network->hosts[i].server, network->clock.now_us);
}

void sim_network_run(struct sim_network *network, int64_t now_us)
{
    network->clock.now_us = now_us;
    report_time(network);
    sim_net_run(network->net);
    report_time(network); /* WAITs that can be answered at once */
    collect(network);
}

static int64_t sooner(int64_t a_us, int64_t b_us)
{
    return a_us < b_us ? a_us : b_us;
}

int64_t sim_network_next_us(const struct sim_network *network)
{
    int64_t next_us = sim_net_hosts_next_us(network->net);
    for (unsigned i = 0; i < network->host_count; i++)
        next_us = sooner(next_us, sim_redis_next_us(network->hosts[i].server));
    return next_us;
}

int64_t sim_network_daemon_us(const struct sim_network *network, unsigned daemon)
{
    return network->loops[daemon] ? sim_loop_next_us(network->loops[daemon]) : INT64_MAX;
}

/* ---- daemons ---- */

struct loop *sim_network_start(struct sim_network *network, unsigned daemon, struct clock *clock)
{
    CHECK(daemon < SIM_NETWORK_DAEMONS && !network->loops[daemon]);
    struct sim_loop *loop = sim_loop_new(network->net, clock);
    network->loops[daemon] = loop;
    for (unsigned i = 0; i < network->host_count; i++)
        sim_loop_cut_path(loop, &network->hosts[i].host, network->cut[daemon][i]);
    return sim_loop_port(loop);
}

void sim_network_end(struct sim_network *network, unsigned daemon)
{
    sim_loop_free(network->loops[daemon]);
    network->loops[daemon] = NULL;
}

ssize_t __wrap_getrandom(void *at, size_t len, unsigned flags);

/* Random bytes for daemons come from the seed: the linker replaces getrandom() by this. */
ssize_t __wrap_getrandom(void *at, size_t len, unsigned flags)
{
    (void)flags;
    CHECK(network_now);
    for (size_t i = 0; i < len; i++)
        ((unsigned char *)at)[i] = (unsigned char)sim_random_next(&network_now->random);
    return (ssize_t)len;
}

/* ---- faults ---- */

void sim_network_faults(struct sim_network *network, const struct sim_faults *faults)
{
    sim_net_faults(network->net, faults);
}

void sim_network_cut(struct sim_network *network, unsigned daemon, unsigned server,
                     enum sim_cut cut)
{
    network->cut[daemon][server] = cut;
    if (network->loops[daemon])
        sim_loop_cut_path(network->loops[daemon], &network->hosts[server].host, cut);
}

void sim_network_down(struct sim_network *network, unsigned server, bool down)
{
    struct sim_host *host = &network->hosts[server].host;
    sim_host_reach(host, down ? SIM_REFUSES : SIM_UP);
    if (down)
        sim_tear(NULL, host);
}

void sim_network_reset(struct sim_network *network, unsigned daemon, unsigned server)
{
    if (network->loops[daemon])
        sim_tear(network->loops[daemon], &network->hosts[server].host);
}

/* ---- life ---- */

struct sim_network *sim_network_new(const struct sim_network_options *options, int64_t now_us)
{
    struct sim_network *network = mem_zalloc(sizeof(*network));
    CHECK(!network_now);
    sim_clock_init(&network->clock, now_us);
    network->random.state = ~options->seed;
    network->net = sim_net_new(&network->clock, options->seed);
    sim_net_delay(network->net, 0, options->latency_us);
    sim_net_split(network->net, options->split);
    sim_net_faults(network->net, &options->faults);
    list_init(&network->conns);
    network_now = network;
    return network;
}

void sim_network_add(struct sim_network *network, struct sim_redis *server)
{
    CHECK(network->host_count < SIM_NETWORK_SERVERS);
    struct server_host *host = &network->hosts[network->host_count++];
    char address[64];
    (void)snprintf(address, sizeof(address), "%s:%u", sim_redis_host(server),
                   (unsigned)sim_redis_port(server));
    sim_host_add(network->net, &host->host, address, &handler);
    host->network = network;
    host->server = server;
}

void sim_network_free(struct sim_network *network)
{
    sim_net_free(network->net);
    while (!list_empty(&network->conns))
        conn_free(LIST_ENTRY(network->conns.next, struct network_conn, place));
    network_now = NULL;
    mem_free(network);
}
