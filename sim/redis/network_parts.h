/*
 * What network.c and sockets.c share, and nobody else. A socket's number is SOCKET_FIRST and its
 * place; that of a daemon's epoll instance is EPOLL_FIRST and the daemon's.
 */
#ifndef LATERD_SIM_REDIS_NETWORK_PARTS_H
#define LATERD_SIM_REDIS_NETWORK_PARTS_H

#include "sim/redis/network.h"

enum { EPOLL_FIRST = 1 << 20, SOCKET_FIRST = EPOLL_FIRST + SIM_NETWORK_DAEMONS, SOCKETS_MAX = 256 };

enum socket_state { SOCKET_FREE, SOCKET_NEW, SOCKET_CONNECTING, SOCKET_OPEN, SOCKET_BROKEN };

/* Bytes on the way in one direction, in the order in which they were sent. */
struct wire {
    struct buf bytes;
    size_t due; /* of these, so many have arrived */
    struct piece {
        size_t len;
        int64_t at_us;
    } * pieces;
    size_t first, count, cap; /* those that are still on the way */
    int64_t last_us;
};

struct net_socket {
    enum socket_state state;
    unsigned daemon, server;
    struct sim_redis_conn *conn;
    struct wire out, in; /* to the server, to the daemon */
    int64_t opens_at_us;
    bool orphan;   /* its daemon has gone */
    bool finished; /* the server closed it, after what is on the way */
    bool linger_0;
    unsigned interest; /* of epoll */
    void *data;
    int error; /* BROKEN */
};

struct sim_network {
    struct sim_network_options options;
    struct sim_random random;
    int64_t now_us;
    struct sim_redis *servers[SIM_NETWORK_SERVERS];
    unsigned server_count, daemon;
    enum sim_cut cut[SIM_NETWORK_DAEMONS][SIM_NETWORK_SERVERS];
    bool down[SIM_NETWORK_SERVERS];
    struct net_socket sockets[SOCKETS_MAX];
    unsigned used; /* sockets below this may be in use */
    void (*wait)(void *owner, int64_t us);
    void *owner;
};

/* NULL: there is none; system calls go to the system. */
extern struct sim_network *network_now;

/* NULL: the number is none of ours. */
struct net_socket *network_socket(int fd);
void network_send(struct net_socket *one, struct bytes bytes);
/* The daemon closes it. */
void network_close(struct net_socket *one);
unsigned network_events(const struct net_socket *one);

#endif
