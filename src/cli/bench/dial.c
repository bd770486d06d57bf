#include "cli/bench/dial.h"
#include "port/clock.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

static enum err error(struct dial *dial, enum err err, const char *what, const char *why)
{
    (void)snprintf(dial->error, sizeof(dial->error), "%s %s: %s", what, dial->authority,
                   why); /* cut short if need be: it is for people */
    return err;
}

/* Splits "host:port" or "[v6]:port". */
static bool split_authority(struct dial *dial, struct bytes text)
{
    struct bytes host = text, port = BYTES("9277");
    const char *colon = NULL;
    bool bracketed = text.len > 0 && text.at[0] == '[';
    if (bracketed) {
        const char *close = memchr(text.at, ']', text.len);
        if (!close)
            return false;
        host = bytes_of(text.at + 1, (size_t)(close - text.at) - 1);
        if (close + 1 < text.at + text.len)
            colon = close + 1;
    } else {
        colon = memchr(text.at, ':', text.len);
        if (colon)
            host.len = (size_t)(colon - text.at);
    }
    if (colon) {
        if (*colon != ':')
            return false;
        port = bytes_of(colon + 1, (size_t)(text.at + text.len - colon) - 1);
    }
    uint64_t number;
    if (!bytes_to_u64(port, &number) || number == 0 || number > 65535 || host.len == 0 ||
        host.len >= sizeof(dial->host))
        return false;
    memcpy(dial->host, host.at, host.len);
    dial->host[host.len] = '\0';
    (void)snprintf(dial->port, sizeof(dial->port), "%u", (unsigned)number); /* it fits */
    (void)snprintf(dial->authority, sizeof(dial->authority), bracketed ? "[%s]:%s" : "%s:%s",
                   dial->host, dial->port); /* it fits */
    return true;
}

enum err dial_init(struct dial *dial, const char *url)
{
    *dial = (struct dial){0};
    struct bytes rest = bytes_str(url);
    if (bytes_starts(rest, BYTES("http://")))
        rest = bytes_of(url + 7, rest.len - 7);
    if (rest.len > 0 && rest.at[rest.len - 1] == '/')
        rest.len--;
    bool plain = true; /* nothing that could break out of the Host header, no path, no user */
    for (size_t i = 0; i < rest.len; i++)
        plain = plain && rest.at[i] > ' ' && rest.at[i] < 127 && !strchr("/@?#\\", rest.at[i]);
    if (plain && split_authority(dial, rest))
        return OK;
    (void)snprintf(
        dial->error, sizeof(dial->error),
        "'%.200s' is not a server that can be measured: give HOST:PORT or http://HOST:PORT",
        url); /* for people */
    return ERR_INVALID;
}

/* Waits until the socket is connected, or has failed to be. False: the time came first. */
static bool wait_connected(int fd, int64_t until_us)
{
    for (;;) {
        int64_t left_ms = (until_us - clock_monotonic_us()) / 1000 + 1;
        struct pollfd one = {.fd = fd, .events = POLLOUT};
        if (left_ms <= 1)
            return false;
        int count = poll(&one, 1, left_ms > 60000 ? 60000 : (int)left_ms);
        if (count > 0)
            return true;
        if (count < 0 && errno != EINTR)
            return false;
    }
}

/* Connects to one address; 0 or an errno. */
static int dial_one(const struct addrinfo *address, int64_t until_us, int *out_fd)
{
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    int failed = connect(fd, address->ai_addr, address->ai_addrlen) == 0 ? 0 : errno;
    if (failed == EINPROGRESS) {
        socklen_t len = sizeof(failed);
        if (!wait_connected(fd, until_us))
            failed = ETIMEDOUT;
        else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &len) != 0)
            failed = errno;
    }
    if (failed) {
        (void)close(fd); /* never used */
        return failed;
    }
    int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)); /* only slower without */
    *out_fd = fd;
    return 0;
}

enum err dial_connect(struct dial *dial, int64_t timeout_us, int *out_fd)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV}, *found;
    int64_t until_us = clock_monotonic_us() + timeout_us;
    int failed = getaddrinfo(dial->host, dial->port, &hints, &found);
    if (failed)
        return error(dial, ERR_IO, "cannot find", gai_strerror(failed));
    failed = ECONNREFUSED;
    for (const struct addrinfo *at = found; at && failed; at = at->ai_next)
        failed = dial_one(at, until_us, out_fd);
    freeaddrinfo(found);
    return failed ? error(dial, ERR_IO, "cannot connect to", strerror(failed)) : OK;
}
