/*
 * System calls that src/client/redis and the engine make, taken over by the linker (--wrap): those
 * on simulated sockets go to the network of sim/redis/network.h, all others to the system. Only
 * test binaries that ask for it are linked so (mk/sim-redis.mk).
 */
#ifndef LATERD_SIM_REDIS_SOCKETS_H
#define LATERD_SIM_REDIS_SOCKETS_H

#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>

int __wrap_socket(int domain, int type, int protocol);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t len);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t len);
ssize_t __wrap_send(int fd, const void *at, size_t len, int flags);
ssize_t __wrap_recv(int fd, void *at, size_t len, int flags);
int __wrap_close(int fd);
int __wrap_epoll_create1(int flags);
int __wrap_epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event);
int __wrap_epoll_wait(int epoll, struct epoll_event *events, int count, int timeout_ms);
ssize_t __wrap_getrandom(void *at, size_t len, unsigned flags);

int __real_socket(int domain, int type, int protocol);
int __real_connect(int fd, const struct sockaddr *address, socklen_t len);
int __real_getsockopt(int fd, int level, int name, void *value, socklen_t *len);
int __real_setsockopt(int fd, int level, int name, const void *value, socklen_t len);
ssize_t __real_send(int fd, const void *at, size_t len, int flags);
ssize_t __real_recv(int fd, void *at, size_t len, int flags);
int __real_close(int fd);
int __real_epoll_create1(int flags);
int __real_epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event);
int __real_epoll_wait(int epoll, struct epoll_event *events, int count, int timeout_ms);
ssize_t __real_getrandom(void *at, size_t len, unsigned flags);

#endif
