/*
 * A Redis server, sentinel or node of a cluster that says anything at all: the first byte says
 * which, the rest is what each connection gets behind the answer to its greeting. Whatever comes
 * costs the connection and no more, and leads to nowhere but to names and addresses.
 *
 * No packet leaves: connections are to a socket of our own, all others are refused here.
 */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "client/redis/topology.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { TURNS = 12, TURN_US = 100 * 1000, CLIENTS = 64 };

static char path[64]; /* of our own socket */

int connect(int fd, const struct sockaddr *address, socklen_t len)
{
    if (address->sa_family == AF_UNIX) {
        CHECK(strcmp(((const struct sockaddr_un *)(const void *)address)->sun_path, path) == 0);
        return (int)syscall(SYS_connect, fd, address, len);
    }
    errno = ECONNREFUSED;
    return -1;
}

int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                struct addrinfo **out_found)
{
    (void)port, (void)hints, (void)out_found;
    CHECK(host[0] && !strpbrk(host, "/ \n"));
    return EAI_NONAME;
}

static int listen_at_path(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    (void)snprintf(path, sizeof(path), "/tmp/laterd-fuzz-%d.sock", (int)getpid());
    memcpy(address.sun_path, path, strlen(path) + 1);
    (void)unlink(path); /* most often there is none */
    CHECK(fd >= 0 && !bind(fd, (struct sockaddr *)&address, sizeof(address)) &&
          !listen(fd, CLIENTS));
    return fd;
}

static void ignore(struct topology_callbacks *callbacks, struct node *node)
{
    (void)callbacks;
    (void)node;
}

static void refused(struct topology_callbacks *callbacks, const struct link *link)
{
    (void)callbacks;
    CHECK(link->error[0]);
}

/* Says it all to who has come. Returns how many clients there are. */
static unsigned greet_clients(int listener, int *clients, unsigned count, const uint8_t *data,
                              size_t size)
{
    while (count < CLIENTS) {
        int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0)
            break;
        (void)!write(fd, "+PONG\r\n", 7); /* who has gone hears nothing */
        (void)!write(fd, data, size);
        clients[count++] = fd;
    }
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct topology topology;
    static int listener = -1, epoll = -1;
    struct topology_callbacks callbacks = {.ready = ignore, .lost = ignore, .refused = refused};
    struct redis_url url = {.address_count = 1, .service = "jobs"};
    int clients[CLIENTS];
    unsigned count = 0;
    if (size < 1)
        return 0;
    if (listener < 0) {
        log_level_set(LOG_ERROR);
        listener = listen_at_path();
        epoll = epoll_create1(EPOLL_CLOEXEC);
    }
    url.topology = (enum redis_topology)(data[0] % (REDIS_CLUSTER + 1));
    memcpy(url.addresses[0].host, path, sizeof(path));
    struct topology_options options = {.url = &url,
                                       .callbacks = &callbacks,
                                       .sentinel_user = "",
                                       .sentinel_password = "",
                                       .epoll = epoll,
                                       .timeout_us = 5 * TURN_US};
    topology_init(&topology, &options, 1);
    for (int64_t now_us = 1; now_us < (int64_t)TURNS * TURN_US; now_us += TURN_US) {
        topology_tick(&topology, now_us);
        topology_flush(&topology);
        count = greet_clients(listener, clients, count, data + 1, size - 1);
        link_poll(epoll, now_us);
        for (unsigned slot = 0; slot < REDIS_SLOTS; slot += 1000) {
            const struct node *node = topology_node(&topology, slot);
            CHECK(!node || node->link.state == LINK_UP);
        }
        CHECK(topology_next_us(&topology) > 0);
    }
    topology_fini(&topology);
    while (count)
        (void)close(clients[--count]);
    return 0;
}
