/* For tests of the loop: a listener on this machine, and clients whose input is taken and dropped.
 */
#ifndef LATERD_TEST_UNIT_OS_CLIENTS_H
#define LATERD_TEST_UNIT_OS_CLIENTS_H

#include <netinet/in.h>
#include <sys/socket.h>

#include "os/clock.h"
#include "os/loop.h"

static inline size_t drop_input(struct stream *stream, struct bytes bytes)
{
    (void)stream;
    return bytes.len;
}

static inline void ignore_gone(struct stream *stream, bool half)
{
    (void)stream, (void)half;
}

static const struct stream_handler drop_all = {.input = drop_input, .gone = ignore_gone};

/* Listens on a free port of the loopback address for the loop, as its listener 0. */
static inline struct sockaddr_in listen_here(struct os_loop *os, int backlog, int *out_fd)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    *out_fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(*out_fd, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(*out_fd, backlog), 0);
    assert_int_equal(getsockname(*out_fd, (struct sockaddr *)&address, &len), 0);
    os_loop_listen(os, *out_fd, 0);
    return address;
}

/* A loop whose clients the acceptor gets. */
static inline struct os_loop *accepting_loop(struct os_clock *clock, struct acceptor *acceptor)
{
    os_clock_init(clock);
    struct os_loop *os = os_loop_new(&clock->clock, 0);
    assert_non_null(os);
    os_loop_port(os)->acceptor = acceptor;
    return os;
}

static inline int connect_to(const struct sockaddr_in *address)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)address, sizeof(*address)), 0);
    return fd;
}

#endif
