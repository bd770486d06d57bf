/*
 * The receiver for the figures of webhooks: it finds the ends of requests, and answers each with
 * 200 and no body. For requests with laterd-due it measures how late their first byte came. At the
 * end of its standard input it prints the results, as JSON.
 *
 * usage: push_receiver; prints "listening ADDR:PORT" on standard error, and for each line of its
 * input, but the last, how many requests there were.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/mem.h"
#include "base/rfc3339.h"

enum { CONNS_MAX = 4096, EVENTS = 256, READ_BYTES = 64 << 10, NOTES_MAX = 1 << 22 };

struct conn {
    struct buf input;
    int64_t first_us; /* when the first byte of the request that is being read came; 0: not yet */
};

static struct conn conns[CONNS_MAX]; /* by descriptor */
static int32_t late_us[NOTES_MAX];
static size_t count, noted;
static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

static int64_t now_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* The value of a header, of which `name` is ": " and all, in lower case as it is sent. */
static struct bytes value_of(struct bytes head, struct bytes name)
{
    const char *at = memmem(head.at, head.len, name.at, name.len);
    if (!at)
        return (struct bytes){0};
    at += name.len;
    const char *end = memchr(at, '\r', (size_t)(head.at + head.len - at));
    return bytes_of(at, end ? (size_t)(end - at) : 0);
}

/* Bytes of the first whole request; 0: it is not whole. */
static size_t take(struct conn *conn)
{
    struct bytes all = buf_bytes(&conn->input);
    const char *end = all.len ? memmem(all.at, all.len, "\r\n\r\n", 4) : NULL;
    int64_t due_us;
    uint64_t length = 0;
    if (!end)
        return 0;
    struct bytes head = bytes_of(all.at, (size_t)(end - all.at) + 2);
    struct bytes due = value_of(head, BYTES("laterd-due: "));
    (void)bytes_to_u64(value_of(head, BYTES("Content-Length: ")), &length);
    if (all.len < head.len + 2 + length)
        return 0;
    count++;
    if (due.len && noted < NOTES_MAX && rfc3339_read(due, &due_us))
        late_us[noted++] = (int32_t)(conn->first_us - due_us);
    return head.len + 2 + (size_t)length;
}

static void drop(int fd)
{
    buf_fini(&conns[fd].input);
    conns[fd] = (struct conn){0};
    (void)close(fd);
}

static void serve(int fd)
{
    static char room[READ_BYTES];
    struct conn *conn = &conns[fd];
    ssize_t len = recv(fd, room, sizeof(room), 0);
    if (len <= 0) {
        drop(fd);
        return;
    }
    if (!conn->first_us)
        conn->first_us = now_us();
    buf_add(&conn->input, room, (size_t)len);
    for (size_t used = take(conn); used; used = take(conn)) {
        buf_drop(&conn->input, used);
        conn->first_us = conn->input.len ? now_us() : 0;
        ssize_t sent = send(fd, answer, sizeof(answer) - 1, MSG_NOSIGNAL);
        if (sent != sizeof(answer) - 1) {
            drop(fd);
            return;
        }
    }
}

static int by_size(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static void report(void)
{
    if (noted)
        qsort(late_us, noted, sizeof(late_us[0]), by_size);
    (void)printf("{\"count\":%zu,\"p50_us\":%d,\"p99_us\":%d,\"max_us\":%d,\"min_us\":%d}\n", count,
                 noted ? late_us[noted / 2] : 0, noted ? late_us[noted * 99 / 100] : 0,
                 noted ? late_us[noted - 1] : 0, noted ? late_us[0] : 0);
}

static void watch(int epoll, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    int failed = epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
    CHECK(!failed);
}

static int listen_somewhere(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
    CHECK(listen(fd, 1024) == 0);
    CHECK(getsockname(fd, (struct sockaddr *)&address, &len) == 0);
    (void)fprintf(stderr, "listening 127.0.0.1:%u\n", ntohs(address.sin_port));
    return fd;
}

static void admit(int epoll, int listener)
{
    int on = 1, fd = accept(listener, NULL, NULL);
    if (fd < 0)
        return;
    CHECK(fd < CONNS_MAX);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    watch(epoll, fd);
}

int main(void)
{
    struct epoll_event events[EVENTS];
    char line[64];
    int epoll = epoll_create1(0), listener = listen_somewhere();
    watch(epoll, listener);
    watch(epoll, STDIN_FILENO);
    for (;;) {
        int ready = epoll_wait(epoll, events, EVENTS, -1);
        for (int i = 0; i < ready; i++) {
            int fd = events[i].data.fd;
            if (fd == listener) {
                admit(epoll, listener);
            } else if (fd != STDIN_FILENO) {
                serve(fd);
            } else {
                ssize_t len = read(STDIN_FILENO, line, sizeof(line));
                report();
                (void)fflush(stdout);
                if (len <= 0)
                    return 0;
                if (line[0] == 'r')
                    noted = 0, count = 0;
            }
        }
    }
}
