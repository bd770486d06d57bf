#include "sim/redis/sockets.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "base/check.h"
#include "sim/redis/network_parts.h"

enum { SHORT_PER_MILLE = 20, CONNECT_US = 200 };

int __wrap_socket(int domain, int type, int protocol)
{
    struct sim_network *network = network_now;
    if (!network)
        return __real_socket(domain, type, protocol);
    for (unsigned i = 0; i < SOCKETS_MAX; i++) {
        struct net_socket *one = &network->sockets[i];
        if (one->state != SOCKET_FREE)
            continue;
        *one = (struct net_socket){.state = SOCKET_NEW, .daemon = network->daemon};
        network->used = i >= network->used ? i + 1 : network->used;
        return SOCKET_FIRST + (int)i;
    }
    errno = EMFILE;
    return -1;
}

static unsigned server_at(const struct sockaddr_in *address)
{
    char host[INET_ADDRSTRLEN] = "";
    (void)inet_ntop(AF_INET, &address->sin_addr, host, sizeof(host)); /* there is room */
    for (unsigned i = 0; i < network_now->server_count; i++) {
        const struct sim_redis *server = network_now->servers[i];
        if (sim_redis_port(server) == ntohs(address->sin_port) &&
            strcmp(sim_redis_host(server), host) == 0)
            return i;
    }
    return SIM_NETWORK_SERVERS;
}

int __wrap_connect(int fd, const struct sockaddr *address, socklen_t len)
{
    struct net_socket *one = network_socket(fd);
    if (!one)
        return __real_connect(fd, address, len);
    CHECK(one->state == SOCKET_NEW && address->sa_family == AF_INET);
    one->state = SOCKET_CONNECTING;
    one->server = server_at((const struct sockaddr_in *)(const void *)address);
    one->opens_at_us = network_now->now_us + CONNECT_US;
    errno = EINPROGRESS;
    return -1;
}

int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
    const struct net_socket *one = network_socket(fd);
    if (!one)
        return __real_getsockopt(fd, level, name, value, len);
    *(int *)value = one->state == SOCKET_BROKEN ? one->error : 0; /* SO_ERROR */
    return 0;
}

int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
    struct net_socket *one = network_socket(fd);
    if (!one)
        return __real_setsockopt(fd, level, name, value, len);
    if (level == SOL_SOCKET && name == SO_LINGER)
        one->linger_0 = true;
    return 0;
}

ssize_t __wrap_send(int fd, const void *at, size_t len, int flags)
{
    struct net_socket *one = network_socket(fd);
    if (!one)
        return __real_send(fd, at, len, flags);
    if (one->state == SOCKET_BROKEN) {
        errno = one->error;
        return -1;
    }
    if (len > 1 && sim_random_chance(&network_now->random, SHORT_PER_MILLE))
        len = 1 + sim_random_below(&network_now->random, len - 1);
    network_send(one, bytes_of(at, len));
    return (ssize_t)len;
}

ssize_t __wrap_recv(int fd, void *at, size_t len, int flags)
{
    struct net_socket *one = network_socket(fd);
    if (!one)
        return __real_recv(fd, at, len, flags);
    size_t there = one->in.due < len ? one->in.due : len;
    if (there == 0) {
        if (one->state != SOCKET_BROKEN && one->finished && one->in.bytes.len == 0)
            return 0;
        errno = one->state == SOCKET_BROKEN ? one->error : EAGAIN;
        return -1;
    }
    if (there > 1 && sim_random_chance(&network_now->random, SHORT_PER_MILLE))
        there = 1 + sim_random_below(&network_now->random, there - 1);
    memcpy(at, one->in.bytes.at, there);
    buf_drop(&one->in.bytes, there);
    one->in.due -= there;
    return (ssize_t)there;
}

int __wrap_close(int fd)
{
    struct net_socket *one = network_socket(fd);
    if (network_now && fd >= EPOLL_FIRST && fd < SOCKET_FIRST)
        return 0;
    if (!one)
        return __real_close(fd);
    if (one->state != SOCKET_FREE && !one->orphan)
        network_close(one);
    return 0;
}

int __wrap_epoll_create1(int flags)
{
    return network_now ? EPOLL_FIRST + (int)network_now->daemon : __real_epoll_create1(flags);
}

int __wrap_epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event)
{
    struct net_socket *one = network_socket(fd);
    if (!one)
        return __real_epoll_ctl(epoll, operation, fd, event);
    one->interest = operation == EPOLL_CTL_DEL ? 0 : event->events;
    one->data = event->data.ptr;
    return 0;
}

static int gather(unsigned daemon, struct epoll_event *events, int count)
{
    int found = 0;
    for (unsigned i = 0; i < network_now->used && found < count; i++) {
        const struct net_socket *one = &network_now->sockets[i];
        unsigned what = network_events(one) & (one->interest | EPOLLERR);
        if (one->state > SOCKET_NEW && one->daemon == daemon && !one->orphan && what)
            events[found++] = (struct epoll_event){.events = what, .data.ptr = one->data};
    }
    return found;
}

/* One that sleeps lets the world go on. */
int __wrap_epoll_wait(int epoll, struct epoll_event *events, int count, int timeout_ms)
{
    if (!network_now || epoll < EPOLL_FIRST || epoll >= SOCKET_FIRST)
        return __real_epoll_wait(epoll, events, count, timeout_ms);
    unsigned daemon = (unsigned)(epoll - EPOLL_FIRST);
    int found = gather(daemon, events, count);
    if (found || timeout_ms <= 0 || !network_now->wait)
        return found;
    network_now->wait(network_now->owner, 1000 * (int64_t)timeout_ms);
    sim_network_as(network_now, daemon);
    return gather(daemon, events, count);
}

ssize_t __wrap_getrandom(void *at, size_t len, unsigned flags)
{
    if (!network_now)
        return __real_getrandom(at, len, flags);
    for (size_t i = 0; i < len; i++)
        ((unsigned char *)at)[i] = (unsigned char)sim_random_next(&network_now->random);
    return (ssize_t)len;
}
