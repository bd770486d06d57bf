/*
 * The baseline of the server's figures: a server that does nothing. It finds the ends of requests
 * and answers each with a fixed text, without reading its content. It speaks HTTP (Content-Length
 * only, one JSON text for every request) and beanstalkd's protocol (the commands that `later bench`
 * uses) on one port: HTTP methods are upper case, commands are lower case. With --sync FILE (the
 * "syncing echo") it also does what any durable server must: once a loop turn, before it answers,
 * it writes all requests of the turn into a file whose blocks were written before, with O_DIRECT
 * and O_DSYNC. Of beanstalkd's commands only put and delete are written, because the others change
 * nothing durable.
 *
 * usage: echo [--port N] [--sync FILE]; prints "listening ADDR:PORT" on standard error.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/mem.h"

enum {
    CONNS_MAX = 4096,
    EVENTS = 256,
    READ_BYTES = 64 * 1024,
    BLOCK = 4096,
    LOG_BYTES = 64 << 20, /* the file is written round and round */
    TURN_BYTES = 16 << 20,
};

/* What the load generator looks for in answers to push, reserve and finish alike. */
static const char answer[] =
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 42\r\n\r\n"
    "{\"id\":\"@1\",\"lease\":\"1\",\"state\":\"reserved\"}";

enum { BODY_BYTES = 256 }; /* of every job that is reserved */
static const char reserved_head[] = "RESERVED 1 256\r\n";

struct conn {
    int fd;
    struct buf in;
    struct buf out;
};

struct echo {
    int epoll;
    int listener;
    int log; /* -1: no --sync */
    char *block;
    size_t block_len;
    off_t log_at;
    struct conn *answering[EVENTS]; /* connections with answers of this turn */
    unsigned answering_count;
    char reserved[sizeof(reserved_head) - 1 + BODY_BYTES + 2];
};

static _Noreturn void die(const char *what)
{
    perror(what);
    exit(1);
}

static void open_log(struct echo *echo, const char *path)
{
    echo->log = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_DIRECT | O_DSYNC | O_CLOEXEC, 0600);
    if (echo->log < 0)
        die(path);
    echo->block = mem_aligned(BLOCK, TURN_BYTES);
    memset(echo->block, 0, TURN_BYTES);
    for (off_t at = 0; at < LOG_BYTES; at += TURN_BYTES) { /* so that a commit is data only */
        if (pwrite(echo->log, echo->block, TURN_BYTES, at) != TURN_BYTES)
            die(path);
    }
}

static void listen_on(struct echo *echo, uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    socklen_t len = sizeof(address);
    int on = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    echo->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    (void)setsockopt(echo->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)); /* a kindness */
    if (echo->listener < 0 || bind(echo->listener, (struct sockaddr *)&address, len) != 0 ||
        listen(echo->listener, 1024) != 0 ||
        getsockname(echo->listener, (struct sockaddr *)&address, &len) != 0)
        die("listen");
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    if (epoll_ctl(echo->epoll, EPOLL_CTL_ADD, echo->listener, &event) != 0)
        die("epoll");
    (void)fprintf(stderr, "listening 127.0.0.1:%u\n", (unsigned)ntohs(address.sin_port));
}

static void take_connections(struct echo *echo)
{
    for (;;) {
        int on = 1, fd = accept4(echo->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0)
            return;
        struct conn *conn = mem_zalloc(sizeof(*conn));
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = conn};
        conn->fd = fd;
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)); /* only slower without */
        if (epoll_ctl(echo->epoll, EPOLL_CTL_ADD, fd, &event) != 0)
            die("epoll");
    }
}

static void drop(struct conn *conn)
{
    (void)close(conn->fd); /* nothing is owed to it */
    buf_fini(&conn->in);
    buf_fini(&conn->out);
    mem_free(conn);
}

/* The length of the first HTTP request in `in`, 0 if it is not whole. */
static size_t http_len(struct bytes in)
{
    const char *end = in.len > 0 ? memmem(in.at, in.len, "\r\n\r\n", 4) : NULL;
    if (!end)
        return 0;
    size_t head = (size_t)(end - in.at) + 4, body = 0;
    const char *length = memmem(in.at, head, "Content-Length: ", 16);
    for (length = length ? length + 16 : NULL; length && *length >= '0' && *length <= '9'; length++)
        body = body * 10 + (size_t)(*length - '0');
    return in.len - head >= body ? head + body : 0;
}

/* The same for a command of beanstalkd's protocol; "put" ends with the length of its body. */
static size_t command_len(struct bytes in)
{
    const char *end = in.len > 0 ? memchr(in.at, '\n', in.len) : NULL;
    if (!end)
        return 0;
    size_t head = (size_t)(end - in.at) + 1, body = 0;
    if (!bytes_starts(in, BYTES("put ")) || head < 6)
        return head;
    const char *digit = end - 1; /* the CR; the number stands before it */
    while (digit[-1] >= '0' && digit[-1] <= '9')
        digit--;
    for (; *digit >= '0' && *digit <= '9'; digit++)
        body = body * 10 + (size_t)(*digit - '0');
    return in.len - head >= body + 2 ? head + body + 2 : 0;
}

/* Answers a command by its first letter. Does it change anything that must last? */
static bool answer_command(struct echo *echo, struct bytes command, struct buf *out)
{
    switch (command.at[0]) {
    case 'p': buf_add_bytes(out, BYTES("INSERTED 1\r\n")); return true;
    case 'd': buf_add_bytes(out, BYTES("DELETED\r\n")); return true;
    case 'r': buf_add_bytes(out, bytes_of(echo->reserved, sizeof(echo->reserved))); return false;
    default: buf_add_bytes(out, BYTES("WATCHING 1\r\n")); return false;
    }
}

/* Reads once and answers all that is whole; the answers leave at the turn's end. */
static void serve(struct echo *echo, struct conn *conn)
{
    buf_reserve(&conn->in, READ_BYTES);
    ssize_t count = recv(conn->fd, conn->in.at + conn->in.len, READ_BYTES, 0);
    if (count <= 0) {
        if (count == 0 || errno != EAGAIN)
            drop(conn);
        return;
    }
    conn->in.len += (size_t)count;
    size_t used = 0, len;
    do {
        struct bytes rest = bytes_of(conn->in.at + used, conn->in.len - used);
        bool lasts = true, http = rest.len > 0 && rest.at[0] >= 'A' && rest.at[0] <= 'Z';
        len = http ? http_len(rest) : command_len(rest);
        if (len > 0 && http)
            buf_add(&conn->out, answer, sizeof(answer) - 1);
        else if (len > 0)
            lasts = answer_command(echo, rest, &conn->out);
        if (echo->log >= 0 && lasts && echo->block_len + len <= TURN_BYTES) {
            memcpy(echo->block + echo->block_len, rest.at, len);
            echo->block_len += len;
        }
        used += len;
    } while (len > 0);
    buf_drop(&conn->in, used);
    if (conn->out.len > 0)
        echo->answering[echo->answering_count++] = conn;
}

/* Writes the turn's requests; returns when they are on the disk. */
static void commit(struct echo *echo)
{
    size_t len = (echo->block_len + BLOCK - 1) / BLOCK * BLOCK;
    if (echo->log < 0 || len == 0)
        return;
    if (echo->log_at + (off_t)len > LOG_BYTES)
        echo->log_at = 0;
    if (pwrite(echo->log, echo->block, len, echo->log_at) != (ssize_t)len)
        die("write");
    echo->log_at += (off_t)len;
    echo->block_len = 0;
}

static void send_answers(struct echo *echo)
{
    for (unsigned i = 0; i < echo->answering_count; i++) {
        struct conn *conn = echo->answering[i];
        /* The generator has few answers outstanding: they always fit into the socket. */
        ssize_t count = send(conn->fd, conn->out.at, conn->out.len, MSG_NOSIGNAL);
        CHECK(count < 0 || (size_t)count == conn->out.len);
        conn->out.len = 0;
    }
    echo->answering_count = 0;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"port", required_argument, NULL, 'p'},
                                            {"sync", required_argument, NULL, 's'},
                                            {NULL, 0, NULL, 0}};
    struct echo echo = {.epoll = epoll_create1(EPOLL_CLOEXEC), .log = -1};
    struct epoll_event events[EVENTS];
    unsigned long port = 0;
    for (int c; (c = getopt_long(argc, argv, "p:s:", options, NULL)) != -1;) {
        if (c == 'p')
            port = strtoul(optarg, NULL, 10);
        else if (c == 's')
            open_log(&echo, optarg);
        else
            return 2;
    }
    memset(echo.reserved, 'x', sizeof(echo.reserved));
    memcpy(echo.reserved, reserved_head, sizeof(reserved_head) - 1);
    memcpy(echo.reserved + sizeof(echo.reserved) - 2, "\r\n", 2);
    listen_on(&echo, (uint16_t)port);
    for (;;) {
        int count = epoll_wait(echo.epoll, events, EVENTS, -1);
        for (int i = 0; i < count; i++) {
            if (events[i].data.ptr)
                serve(&echo, events[i].data.ptr);
            else
                take_connections(&echo);
        }
        commit(&echo);
        send_answers(&echo);
    }
}
