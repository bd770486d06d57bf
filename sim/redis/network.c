/*
 * Invariant: a socket has a connection to its server exactly while it is OPEN.
 */
#include "sim/redis/network.h"

#include <errno.h>
#include <sys/epoll.h>

#include "base/check.h"
#include "base/mem.h"
#include "sim/redis/network_parts.h"

enum { CONNECT_US = 300 };

struct sim_network *network_now;

struct sim_network *sim_network_new(const struct sim_network_options *options, int64_t now_us)
{
    struct sim_network *network = mem_zalloc(sizeof(*network));
    CHECK(!network_now);
    network->options = *options;
    network->random.state = options->seed;
    network->now_us = now_us;
    network_now = network;
    return network;
}

struct sim_network_options *sim_network_options(struct sim_network *network)
{
    return &network->options;
}

void sim_network_add(struct sim_network *network, struct sim_redis *server)
{
    CHECK(network->server_count < SIM_NETWORK_SERVERS);
    network->servers[network->server_count++] = server;
}

void sim_network_as(struct sim_network *network, unsigned daemon)
{
    CHECK(daemon < SIM_NETWORK_DAEMONS);
    network->daemon = daemon;
}

void sim_network_on_wait(struct sim_network *network, void (*wait)(void *owner, int64_t us),
                         void *owner)
{
    network->wait = wait;
    network->owner = owner;
}

/* ---- bytes on the way ---- */

static void wire_fini(struct wire *wire)
{
    buf_fini(&wire->bytes);
    mem_free(wire->pieces);
    *wire = (struct wire){0};
}

static int64_t travel_us(struct sim_network *network)
{
    const struct sim_network_options *options = &network->options;
    bool late = sim_random_chance(&network->random, options->late_per_mille);
    int64_t most_us = late ? options->late_us : options->latency_us;
    return (int64_t)sim_random_below(&network->random, (uint64_t)most_us + 1);
}

static void wire_add(struct wire *wire, struct bytes bytes, int64_t at_us)
{
    if (wire->count == wire->cap) {
        if (wire->first)
            memmove(wire->pieces, wire->pieces + wire->first,
                    (wire->count - wire->first) * sizeof(*wire->pieces));
        wire->count -= wire->first;
        wire->first = 0;
        wire->cap = wire->cap ? 2 * wire->cap : 8;
        wire->pieces = mem_realloc(wire->pieces, wire->cap * sizeof(*wire->pieces));
    }
    buf_add_bytes(&wire->bytes, bytes);
    wire->last_us = at_us > wire->last_us ? at_us : wire->last_us;
    wire->pieces[wire->count++] = (struct piece){.len = bytes.len, .at_us = wire->last_us};
}

static int64_t wire_next_us(const struct wire *wire)
{
    return wire->first < wire->count ? wire->pieces[wire->first].at_us : INT64_MAX;
}

/* Pieces whose time has come have arrived. Returns by how many bytes. */
static size_t wire_arrive(struct wire *wire, int64_t now_us)
{
    size_t before = wire->due;
    while (wire_next_us(wire) <= now_us)
        wire->due += wire->pieces[wire->first++].len;
    if (wire->first == wire->count)
        wire->first = wire->count = 0;
    return wire->due - before;
}

/* ---- sockets ---- */

struct net_socket *network_socket(int fd)
{
    if (!network_now || fd < SOCKET_FIRST || fd >= SOCKET_FIRST + SOCKETS_MAX)
        return NULL;
    return &network_now->sockets[fd - SOCKET_FIRST];
}

static void drop_conn(struct net_socket *one)
{
    if (one->conn)
        sim_redis_hang_up(one->conn);
    one->conn = NULL;
}

static void socket_free(struct net_socket *one)
{
    drop_conn(one);
    wire_fini(&one->out);
    wire_fini(&one->in);
    *one = (struct net_socket){0};
}

static void break_socket(struct net_socket *one, int error)
{
    drop_conn(one);
    if (one->orphan) {
        socket_free(one);
        return;
    }
    one->state = SOCKET_BROKEN;
    one->error = error;
}

/* What the server has to say is on its way. */
static void collect(struct sim_network *network, struct net_socket *one)
{
    struct buf *out = sim_redis_output(one->conn);
    if (out->len && !one->orphan)
        wire_add(&one->in, buf_bytes(out), network->now_us + travel_us(network));
    out->len = 0;
    if (sim_redis_closed(one->conn)) {
        drop_conn(one);
        one->finished = true;
        if (one->orphan)
            socket_free(one);
    }
}

static void collect_all(struct sim_network *network)
{
    for (unsigned i = 0; i < network->used; i++) {
        struct net_socket *one = &network->sockets[i];
        if (one->conn)
            collect(network, one);
    }
}

/* Cut in the middle: some of what is on the way arrives, and the answers may or may not. */
static void reset_socket(struct sim_network *network, struct net_socket *one)
{
    if (one->conn) {
        size_t left = one->out.bytes.len;
        sim_redis_input(one->conn,
                        bytes_of(one->out.bytes.at, sim_random_below(&network->random, left + 1)));
        collect_all(network);
    }
    if (one->state == SOCKET_FREE)
        return;
    one->in.due = sim_random_below(&network->random, one->in.bytes.len + 1);
    one->in.first = one->in.count = 0;
    one->in.bytes.len = one->in.due;
    break_socket(one, ECONNRESET);
}

void network_send(struct net_socket *one, struct bytes bytes)
{
    struct sim_network *network = network_now;
    if (one->finished)
        return; /* into the void */
    wire_add(&one->out, bytes, network->now_us + travel_us(network));
    if (sim_random_chance(&network->random, network->options.reset_per_mille))
        reset_socket(network, one);
}

static enum sim_cut cut_of(const struct net_socket *one)
{
    return network_now->cut[one->daemon][one->server];
}

/* With linger 0, what is on the way arrives now or never; else it is sent in peace. */
void network_close(struct net_socket *one)
{
    struct sim_network *network = network_now;
    bool late = one->out.bytes.len && cut_of(one) != SIM_CUT_ALL;
    if (one->conn && late && (!one->linger_0 || sim_random_chance(&network->random, 500))) {
        sim_redis_input(one->conn, buf_bytes(&one->out.bytes));
        one->orphan = true;
        collect_all(network);
    }
    if (one->state != SOCKET_FREE)
        socket_free(one);
}

unsigned network_events(const struct net_socket *one)
{
    if (one->state == SOCKET_BROKEN)
        return EPOLLIN | EPOLLOUT | EPOLLERR;
    if (one->state != SOCKET_OPEN)
        return 0;
    bool readable = one->in.due || (one->finished && one->in.bytes.len == 0);
    return (readable ? EPOLLIN : 0) | EPOLLOUT;
}

bool sim_network_ready(const struct sim_network *network, unsigned daemon)
{
    for (unsigned i = 0; i < network->used; i++) {
        const struct net_socket *one = &network->sockets[i];
        if (one->state > SOCKET_NEW && one->daemon == daemon && !one->orphan &&
            (network_events(one) & (one->interest | EPOLLERR)))
            return true;
    }
    return false;
}

/* ---- time ---- */

static void open_socket(struct sim_network *network, struct net_socket *one)
{
    if (one->server == SIM_NETWORK_SERVERS || network->down[one->server]) {
        break_socket(one, ECONNREFUSED);
        return;
    }
    one->state = SOCKET_OPEN;
    one->conn = sim_redis_accept(network->servers[one->server]);
}

static void run_socket(struct sim_network *network, struct net_socket *one)
{
    if (cut_of(one) == SIM_CUT_ALL)
        return;
    if (one->state == SOCKET_CONNECTING && one->opens_at_us <= network->now_us)
        open_socket(network, one);
    if (one->state != SOCKET_OPEN)
        return;
    if (cut_of(one) == SIM_WHOLE)
        (void)wire_arrive(&one->in, network->now_us); /* network_events() tells */
    size_t came = wire_arrive(&one->out, network->now_us);
    if (came && one->conn) {
        sim_redis_input(one->conn, bytes_of(one->out.bytes.at, came));
        buf_drop(&one->out.bytes, came);
        one->out.due = 0;
        collect_all(network);
    }
    if (one->state == SOCKET_OPEN && one->orphan && one->out.count == 0)
        socket_free(one);
}

void sim_network_run(struct sim_network *network, int64_t now_us)
{
    network->now_us = now_us;
    for (unsigned i = 0; i < network->server_count; i++)
        sim_redis_time(network->servers[i], now_us);
    for (unsigned i = 0; i < network->used; i++)
        run_socket(network, &network->sockets[i]);
    for (unsigned i = 0; i < network->server_count; i++)
        sim_redis_time(network->servers[i], now_us); /* WAITs that can be answered at once */
    collect_all(network);
}

static int64_t sooner(int64_t a_us, int64_t b_us)
{
    return a_us < b_us ? a_us : b_us;
}

int64_t sim_network_next_us(const struct sim_network *network)
{
    int64_t next_us = INT64_MAX;
    for (unsigned i = 0; i < network->server_count; i++)
        next_us = sooner(next_us, sim_redis_next_us(network->servers[i]));
    for (unsigned i = 0; i < network->used; i++) {
        const struct net_socket *one = &network->sockets[i];
        if (one->state == SOCKET_FREE || cut_of(one) == SIM_CUT_ALL)
            continue;
        if (one->state == SOCKET_CONNECTING)
            next_us = sooner(next_us, one->opens_at_us);
        if (one->state != SOCKET_OPEN)
            continue;
        next_us = sooner(next_us, wire_next_us(&one->out));
        if (cut_of(one) == SIM_WHOLE)
            next_us = sooner(next_us, wire_next_us(&one->in));
    }
    return next_us;
}

/* ---- faults ---- */

void sim_network_cut(struct sim_network *network, unsigned daemon, unsigned server,
                     enum sim_cut cut)
{
    network->cut[daemon][server] = cut;
}

void sim_network_down(struct sim_network *network, unsigned server, bool down)
{
    network->down[server] = down;
    for (unsigned i = 0; down && i < network->used; i++) {
        struct net_socket *one = &network->sockets[i];
        if (one->state == SOCKET_OPEN && one->server == server)
            reset_socket(network, one);
    }
}

void sim_network_reset(struct sim_network *network, unsigned daemon, unsigned server)
{
    for (unsigned i = 0; i < network->used; i++) {
        struct net_socket *one = &network->sockets[i];
        if (one->state == SOCKET_OPEN && one->daemon == daemon && one->server == server)
            reset_socket(network, one);
    }
}

void sim_network_kill(struct sim_network *network, unsigned daemon)
{
    for (unsigned i = 0; i < network->used; i++) {
        struct net_socket *one = &network->sockets[i];
        if (one->state == SOCKET_FREE || one->daemon != daemon || one->orphan)
            continue;
        one->orphan = true;
        if (one->state != SOCKET_OPEN || one->out.count == 0)
            socket_free(one);
    }
}

void sim_network_free(struct sim_network *network)
{
    for (unsigned i = 0; i < network->used; i++)
        socket_free(&network->sockets[i]);
    network_now = NULL;
    mem_free(network);
}
