/*
 * The network between processes and hosts: bytes in transit, when they arrive, and cut paths.
 */
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/time_us.h"
#include "sim/loop_parts.h"

int64_t sim_delay_us(struct sim_net *network)
{
    int64_t span_us = network->most_us - network->least_us;
    return network->least_us +
           (span_us ? (int64_t)sim_random_below(&network->random, (uint64_t)span_us + 1) : 0);
}

static int64_t lateness_us(struct sim_net *network)
{
    const struct sim_faults *faults = &network->faults;
    bool late =
        faults->late_per_mille && sim_random_chance(&network->random, faults->late_per_mille);
    return late ? (int64_t)sim_random_below(&network->random, (uint64_t)faults->late_us + 1) : 0;
}

/* ---- in transit ---- */

struct flight *way_add(struct sim_net *network, struct way *way, enum flight_kind kind,
                       struct bytes bytes)
{
    struct flight *flight = mem_zalloc(sizeof(*flight));
    int64_t at_us = sim_now_us(network) + sim_delay_us(network) + lateness_us(network);
    flight->kind = kind;
    flight->at_us = at_us > way->last_us ? at_us : way->last_us;
    way->last_us = flight->at_us;
    buf_add_bytes(&flight->bytes, bytes);
    queue_add(&way->flights, &flight->place);
    return flight;
}

/* NULL: nothing is in transit. */
struct flight *way_first(const struct way *way)
{
    struct queue_node *node = way->flights.first;
    return node ? LIST_ENTRY(node, struct flight, place) : NULL;
}

void way_drop_first(struct way *way)
{
    struct flight *flight = way_first(way);
    (void)queue_take(&way->flights);
    buf_fini(&flight->bytes);
    mem_free(flight);
}

/* Drops all but the first `keep`. */
void way_cut(struct way *way, uint64_t keep)
{
    struct queue kept = {0};
    for (; keep && way_first(way); keep--)
        queue_add(&kept, queue_take(&way->flights));
    while (way_first(way))
        way_drop_first(way);
    way->flights = kept;
}

uint64_t way_count(const struct way *way)
{
    uint64_t count = 0;
    for (const struct queue_node *node = way->flights.first; node; node = node->next)
        count++;
    return count;
}

static struct sim_path *path_to(struct sim_loop *loop, const struct sim_host *host)
{
    for (unsigned i = 0; i < loop->path_count; i++) {
        if (loop->paths[i].host == host)
            return &loop->paths[i];
    }
    return NULL;
}

static enum sim_cut cut_of(struct sim_loop *loop, const struct sim_host *host)
{
    const struct sim_path *path = loop && host ? path_to(loop, host) : NULL;
    return path ? path->cut : SIM_WHOLE;
}

void sim_loop_cut_path(struct sim_loop *loop, const struct sim_host *host, enum sim_cut cut)
{
    struct sim_path *path = path_to(loop, host);
    if (!path) {
        CHECK(loop->path_count < PATHS_MAX);
        path = &loop->paths[loop->path_count++];
    }
    *path = (struct sim_path){.host = host, .cut = cut};
}

/* Do bytes pass between its process and its host? `least`: the weakest cut that stops them. */
static bool reaches(const struct sim_peer *peer, enum sim_cut least)
{
    return peer->is_client || ((!peer->host || peer->host->reach != SIM_SILENT) &&
                               cut_of(peer->loop, peer->host) < least);
}

/* From host to process. */
bool peer_receives(const struct sim_peer *peer)
{
    return reaches(peer, SIM_CUT_ANSWERS);
}

/* From process to host. */
bool peer_is_heard(const struct sim_peer *peer)
{
    return reaches(peer, SIM_CUT_ALL);
}

struct sim_host *sim_host_at(const struct sim_net *network, const char *address)
{
    for (struct list *node = network->hosts.next; node != &network->hosts; node = node->next) {
        struct sim_host *host = LIST_ENTRY(node, struct sim_host, place);
        if (strcmp(host->address, address) == 0)
            return host;
    }
    return NULL;
}

bool peer_is_silent(const struct sim_peer *peer)
{
    const struct sim_host *host = sim_host_at(peer->network, peer->address);
    return (host && host->reach == SIM_SILENT) || cut_of(peer->loop, host) == SIM_CUT_ALL;
}

bool peer_is_refused(const struct sim_peer *peer)
{
    const struct sim_host *host = sim_host_at(peer->network, peer->address);
    return !host || host->reach == SIM_REFUSES;
}

/* ---- next times ---- */

/* When a gather has something for the process from this peer. */
int64_t peer_gather_us(const struct sim_peer *peer)
{
    const struct flight *first = way_first(&peer->to_process);
    bool flows = peer->kept.len && peer->window && peer->state == OPEN;
    if (peer->process_closed)
        return INT64_MAX;
    if (peer->broken)
        return INT64_MIN;
    if (peer->state != OPEN && peer->state != CONNECTING)
        return peer_receives(peer) ? peer->state_at_us : INT64_MAX;
    if (peer->state == CONNECTING)
        return !peer_is_silent(peer) && peer_is_refused(peer) ? peer->state_at_us : INT64_MAX;
    bool waits = peer->shown.len && !peer->again; /* for the process to use what was shown */
    bool ends = peer->shut && !(waits ? peer->leaving_reported : peer->shutdown_reported);
    if (!peer->opened || (peer->reset && peer_receives(peer)) || peer->again || flows || ends ||
        (peer->to_server.len && !waits))
        return INT64_MIN;
    return first && peer_receives(peer) ? first->at_us : INT64_MAX;
}

/* When sim_net_run() has something to do for it. */
static int64_t run_us(const struct sim_peer *peer)
{
    const struct flight *first = way_first(&peer->to_host);
    if (peer->is_client || peer->peer_closed)
        return INT64_MAX;
    if (peer->state == CONNECTING && !peer->process_closed)
        return peer_is_silent(peer) || peer_is_refused(peer) ? INT64_MAX : peer->state_at_us;
    return first && peer->host && peer_is_heard(peer) ? first->at_us : INT64_MAX;
}

static int64_t earliest_us(const struct sim_net *network,
                           int64_t (*when_us)(const struct sim_peer *peer))
{
    int64_t next_us = INT64_MAX;
    for (const struct list *node = network->peers.next; node != &network->peers; node = node->next)
        next_us = time_earlier(next_us, when_us(LIST_ENTRY(node, struct sim_peer, all)));
    return next_us;
}

int64_t sim_net_hosts_next_us(const struct sim_net *network)
{
    return earliest_us(network, run_us);
}

int64_t sim_net_next_us(const struct sim_net *network)
{
    return time_earlier(earliest_us(network, run_us), earliest_us(network, peer_gather_us));
}

void peer_free(struct sim_peer *peer)
{
    list_remove(&peer->place);
    list_remove(&peer->all);
    way_cut(&peer->to_process, 0);
    way_cut(&peer->to_host, 0);
    buf_fini(&peer->to_server);
    buf_fini(&peer->shown);
    buf_fini(&peer->kept);
    buf_fini(&peer->received);
    mem_free(peer);
}

void peer_free_if_over(struct sim_peer *peer)
{
    if (peer->process_closed && peer->peer_closed && !peer->network->running)
        peer_free(peer);
}

/* ---- the network ---- */

struct sim_net *sim_net_new(const struct sim_clock *clock, uint64_t seed)
{
    struct sim_net *network = mem_zalloc(sizeof(*network));
    network->clock = clock;
    network->random.state = seed;
    list_init(&network->hosts);
    list_init(&network->peers);
    list_init(&network->loops);
    return network;
}

void sim_net_free(struct sim_net *network)
{
    if (!network)
        return;
    CHECK(list_empty(&network->loops));
    while (!list_empty(&network->peers))
        peer_free(LIST_ENTRY(network->peers.next, struct sim_peer, all));
    while (!list_empty(&network->hosts))
        list_remove(network->hosts.next);
    mem_free(network);
}

void sim_net_split(struct sim_net *network, bool split)
{
    network->split = split;
}

void sim_net_delay(struct sim_net *network, int64_t least_us, int64_t most_us)
{
    CHECK(least_us >= 0 && most_us >= least_us);
    network->least_us = least_us;
    network->most_us = most_us;
}

void sim_net_faults(struct sim_net *network, const struct sim_faults *faults)
{
    network->faults = *faults;
}

const struct name *sim_name_of(const struct sim_net *network, const char *text)
{
    for (unsigned i = 0; i < network->name_count; i++) {
        if (strcmp(network->names[i].name, text) == 0)
            return &network->names[i];
    }
    return NULL;
}

void sim_net_name(struct sim_net *network, const char *name, const char *address, int64_t after_us)
{
    struct name *at = (struct name *)sim_name_of(network, name);
    if (!at) {
        CHECK(network->name_count < NAMES_MAX);
        at = &network->names[network->name_count++];
    }
    (void)snprintf(at->name, sizeof(at->name), "%s", name);
    (void)snprintf(at->address, sizeof(at->address), "%s", address ? address : "");
    at->after_us = after_us;
}

static void hand_over(struct sim_peer *peer)
{
    struct sim_net *network = peer->network;
    struct flight *first = way_first(&peer->to_host);
    if (first->kind != FLIGHT_BYTES) {
        bool reset = first->kind == FLIGHT_RESET;
        way_drop_first(&peer->to_host);
        peer->peer_closed = true;
        peer->host->handler->closed(peer->host, peer, reset);
        return;
    }
    struct buf bytes = first->bytes;
    size_t at = 0;
    first->bytes = (struct buf){0};
    way_drop_first(&peer->to_host);
    while (at < bytes.len && !peer->peer_closed) {
        size_t count = bytes.len - at;
        if (network->split && count > 1)
            count = 1 + (size_t)sim_random_below(&network->random, count);
        peer->host->handler->input(peer->host, peer, bytes_of(bytes.at + at, count));
        at += count;
    }
    buf_fini(&bytes);
}

static void peer_run(struct sim_peer *peer)
{
    while (run_us(peer) <= sim_now_us(peer->network)) {
        if (peer->state != CONNECTING) {
            hand_over(peer);
            continue;
        }
        peer->host = sim_host_at(peer->network, peer->address);
        peer->state = ACCEPTED;
        peer->state_at_us = sim_now_us(peer->network) + sim_delay_us(peer->network);
        peer->to_process.last_us =
            peer->state_at_us; /* no answer may arrive before the connection is open */
        peer->host->handler->accepted(peer->host, peer);
    }
}

static void free_over(struct sim_net *network)
{
    struct list *next;
    for (struct list *node = network->peers.next; node != &network->peers; node = next) {
        next = node->next;
        peer_free_if_over(LIST_ENTRY(node, struct sim_peer, all));
    }
}

void sim_net_run(struct sim_net *network)
{
    network->running = true;
    for (struct list *node = network->peers.next; node != &network->peers; node = node->next)
        peer_run(LIST_ENTRY(node, struct sim_peer, all));
    network->running = false;
    free_over(network);
}

/* ---- hosts ---- */

void sim_host_add(struct sim_net *network, struct sim_host *host, const char *address,
                  const struct sim_host_handler *handler)
{
    CHECK(!sim_host_at(network, address) && strlen(address) < sizeof(host->address));
    *host = (struct sim_host){.handler = handler, .network = network};
    (void)snprintf(host->address, sizeof(host->address), "%s", address);
    list_add_tail(&network->hosts, &host->place);
}

/* Ends the host's connections with one loop, or with all (NULL), each by a call of `end`. */
static void end_connections(struct sim_host *host, const struct sim_loop *loop,
                            void (*end)(struct sim_peer *peer))
{
    struct sim_net *network = host->network;
    bool was_running = network->running;
    network->running = true;
    for (struct list *node = network->peers.next; node != &network->peers; node = node->next) {
        struct sim_peer *peer = LIST_ENTRY(node, struct sim_peer, all);
        if (peer->host == host && !peer->peer_closed && (!loop || peer->loop == loop))
            end(peer);
    }
    network->running = was_running;
}

static void reset_and_report(struct sim_peer *peer)
{
    struct sim_host *host = peer->host;
    sim_peer_reset(peer);
    host->handler->closed(host, peer, true);
}

/* Delivers a random part of the bytes in transit to the host at once. */
static void hand_over_some(struct sim_peer *peer)
{
    struct sim_net *network = peer->network;
    for (struct flight *first = way_first(&peer->to_host);
         first && first->kind == FLIGHT_BYTES && !peer->peer_closed;
         first = way_first(&peer->to_host)) {
        size_t count = (size_t)sim_random_below(&network->random, 2 * first->bytes.len);
        bool whole = count >= first->bytes.len;
        first->bytes.len = whole ? first->bytes.len : count;
        if (first->bytes.len)
            hand_over(peer);
        if (!whole)
            return;
    }
}

/* Drops a random part of the bytes in transit to the process, and adds the reset. */
static void cut_answers(struct sim_peer *peer)
{
    struct sim_net *network = peer->network;
    struct way *way = &peer->to_process;
    way_cut(way, sim_random_below(&network->random, way_count(way) + 1));
    if (way->flights.first) {
        struct flight *last = LIST_ENTRY(way->flights.last, struct flight, place);
        last->bytes.len = (size_t)sim_random_below(&network->random, last->bytes.len + 1);
    }
    (void)way_add(network, way, FLIGHT_RESET, BYTES(""));
}

void peer_tear(struct sim_peer *peer)
{
    struct sim_host *host = peer->host;
    if (peer_is_heard(peer))
        hand_over_some(peer);
    if (peer->peer_closed)
        return;
    way_cut(&peer->to_host, 0);
    cut_answers(peer);
    peer->peer_closed = true;
    host->handler->closed(host, peer, true);
}

void sim_tear(struct sim_loop *loop, struct sim_host *host)
{
    end_connections(host, loop, peer_tear);
}

void sim_host_remove(struct sim_host *host)
{
    struct sim_net *network = host->network;
    end_connections(host, NULL, sim_peer_reset);
    for (struct list *node = network->peers.next; node != &network->peers; node = node->next) {
        struct sim_peer *peer = LIST_ENTRY(node, struct sim_peer, all);
        if (peer->host == host)
            peer->host = NULL;
    }
    list_remove(&host->place);
}

void sim_host_reach(struct sim_host *host, enum sim_reach reach)
{
    host->reach = reach;
}

void sim_host_cut(struct sim_host *host)
{
    end_connections(host, NULL, reset_and_report);
}

/* ---- peers ---- */

void sim_peer_free(struct sim_peer *peer)
{
    if (!peer)
        return;
    peer->peer_closed = true;
    sim_peer_reset(peer); /* the next gather notifies the process, then frees it */
    peer_free_if_over(peer);
}

void *sim_peer_user(const struct sim_peer *peer)
{
    return peer->user;
}

void sim_peer_set_user(struct sim_peer *peer, void *user)
{
    peer->user = user;
}

void sim_peer_send(struct sim_peer *peer, struct bytes bytes)
{
    if (peer->process_closed)
        return;
    if (peer->is_client)
        buf_add_bytes(&peer->to_server, bytes);
    else
        (void)way_add(peer->network, &peer->to_process, FLIGHT_BYTES, bytes);
}

void sim_peer_shut(struct sim_peer *peer)
{
    if (peer->is_client)
        peer->shut = true;
    else if (!peer->process_closed)
        (void)way_add(peer->network, &peer->to_process, FLIGHT_SHUT, BYTES(""));
}

void sim_peer_reset(struct sim_peer *peer)
{
    peer->reset = true;
    peer->peer_closed |= !peer->is_client;
    way_cut(&peer->to_process, 0);
    way_cut(&peer->to_host, 0);
}

void sim_peer_window(struct sim_peer *peer, size_t bytes)
{
    peer->window = bytes;
}

struct bytes sim_peer_received(const struct sim_peer *peer)
{
    return buf_bytes(&peer->received);
}

void sim_peer_take(struct sim_peer *peer, size_t count)
{
    buf_drop(&peer->received, count);
}

bool sim_peer_closed(const struct sim_peer *peer)
{
    return peer->process_closed;
}
