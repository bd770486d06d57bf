/*
 * Internals that the files of the simulated network share: loop.c (the processes' side: loops,
 * streams) and net.c (the network itself, hosts, peers).
 */
#ifndef LATERD_SIM_LOOP_PARTS_H
#define LATERD_SIM_LOOP_PARTS_H

#include "sim/loop.h"

enum {
    SHOW_BYTES = 256 * 1024, /* at most so many new ones in a gather, as os/stream.c reads */
    NAMES_MAX = 64,
    PATHS_MAX = 16, /* of one process that were ever cut */
    NAME_BYTES = 256,
};

enum flight_kind { FLIGHT_BYTES, FLIGHT_SHUT, FLIGHT_RESET };

struct flight {
    struct queue_node place;
    enum flight_kind kind;
    int64_t at_us;
    struct buf bytes;
};

struct way {
    struct queue flights; // flight::place
    int64_t last_us;      /* arrival of the last one: the order is kept */
};

enum peer_state { LOOKING_UP, CONNECTING, ACCEPTED, OPEN };

struct sim_peer {
    struct stream stream;
    struct list place; // sim_loop::streams, or nowhere
    struct list all;   // sim_net::peers
    struct sim_net *network;
    struct sim_loop *loop; /* NULL: the process has ended */
    bool is_client;
    struct sim_host *host; /* unless it is a client: set when the host has accepted */
    enum peer_state state;
    int64_t state_at_us; /* when the state changes; INT64_MAX: never */
    char address[NAME_BYTES + 16];
    struct timer timer;
    int64_t timeout_us;
    void *user;
    unsigned listener;
    struct way to_process, to_host;
    struct buf to_server; /* arrived, not shown yet */
    struct buf shown;     /* shown to the process, not used yet */
    struct buf kept;      /* sent by the process, not taken by the peer's window yet */
    struct buf received;
    size_t window;
    bool opened, shut, shutdown_reported, leaving_reported, end_reported, reset, again, lingering,
        broken;
    bool process_closed; /* the process has closed it */
    bool peer_closed;    /* the test or the host has closed it */
};

struct name {
    char name[NAME_BYTES];
    char address[NAME_BYTES]; /* empty: there is no such name */
    int64_t after_us;
};

struct sim_net {
    const struct sim_clock *clock;
    struct sim_random random;
    struct list hosts; // sim_host::place
    struct list peers; // sim_peer::all
    struct list loops; // sim_loop::place
    int64_t least_us, most_us;
    struct sim_faults faults;
    bool split;
    bool running; /* callbacks of hosts are running: nothing is freed meanwhile */
    unsigned name_count;
    struct name names[NAMES_MAX];
};

struct sim_path {
    const struct sim_host *host;
    enum sim_cut cut;
};

struct sim_loop {
    struct loop loop;
    struct list place;   // sim_net::loops
    struct list streams; // sim_peer::place
    struct sim_net *network;
    struct queue messages; // message::place
    bool listening;
    struct sim_path paths[PATHS_MAX];
    unsigned path_count;
};

static inline int64_t sim_now_us(const struct sim_net *net)
{
    return net->clock->now_us;
}

int64_t sim_delay_us(struct sim_net *network);
/* Returns what was added: its bytes may be replaced. */
struct flight *way_add(struct sim_net *network, struct way *way, enum flight_kind kind,
                       struct bytes bytes);
struct flight *way_first(const struct way *way);
void way_drop_first(struct way *way);
void way_cut(struct way *way, uint64_t keep);
uint64_t way_count(const struct way *way);
bool peer_receives(const struct sim_peer *peer);
bool peer_is_heard(const struct sim_peer *peer);
void peer_tear(struct sim_peer *peer);
struct sim_host *sim_host_at(const struct sim_net *network, const char *address);
bool peer_is_silent(const struct sim_peer *peer);
bool peer_is_refused(const struct sim_peer *peer);
int64_t peer_gather_us(const struct sim_peer *peer);
void peer_free(struct sim_peer *peer);
void peer_free_if_over(struct sim_peer *peer);
const struct name *sim_name_of(const struct sim_net *network, const char *text);

#endif
