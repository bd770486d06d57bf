#include "cli/client.h"

#include <errno.h>
#include <llhttp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* One answer on its way in. */
struct incoming {
    struct client *client;
    bool whole;
    bool reading_type; /* the header under way is Content-Type */
    char name[16];
    size_t name_len;
};

static int64_t monotonic_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail with this clock */
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static enum err error(struct client *client, enum err err, const char *what, const char *why)
{
    (void)snprintf(client->error, sizeof(client->error), "%s %s: %s", what, client->authority,
                   why); /* cut short if need be: it is for people */
    return err;
}

/* Splits "host:port" or "[v6]:port". */
static bool split_authority(struct client *client, struct bytes text)
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
        host.len >= sizeof(client->host))
        return false;
    memcpy(client->host, host.at, host.len);
    client->host[host.len] = '\0';
    (void)snprintf(client->port, sizeof(client->port), "%u", (unsigned)number); /* it fits */
    (void)snprintf(client->authority, sizeof(client->authority), bracketed ? "[%s]:%s" : "%s:%s",
                   client->host, client->port); /* it fits */
    return true;
}

enum err client_init(struct client *client, const char *url)
{
    *client = (struct client){.fd = -1};
    struct bytes rest = bytes_str(url);
    if (bytes_starts(rest, BYTES("http://")))
        rest = bytes_of(url + 7, rest.len - 7);
    if (rest.len > 0 && rest.at[rest.len - 1] == '/')
        rest.len--;
    bool plain = true; /* nothing that could break out of the Host header, no path, no user */
    for (size_t i = 0; i < rest.len; i++)
        plain = plain && rest.at[i] > ' ' && rest.at[i] < 127 && !strchr("/@?#\\", rest.at[i]);
    if (plain && split_authority(client, rest))
        return OK;
    (void)snprintf(client->error, sizeof(client->error),
                   "'%.200s' is not a server: give http://HOST:PORT", url); /* for people */
    return ERR_INVALID;
}

static void hang_up(struct client *client)
{
    if (client->fd >= 0)
        (void)close(client->fd); /* nothing is written any more */
    client->fd = -1;
}

void client_fini(struct client *client)
{
    hang_up(client);
    buf_fini(&client->out);
    buf_fini(&client->head);
    buf_fini(&client->body);
}

/* Waits until the socket is ready for `events`, the time has come, or it is interrupted. */
static bool wait_for(struct client *client, int fd, short events, int64_t until_us)
{
    for (;;) {
        int64_t left_us = until_us - monotonic_us();
        if (left_us <= 0 || client->interrupted)
            return false;
        int64_t left_ms = left_us / 1000 + 1;
        struct pollfd both[] = {{.fd = fd, .events = events},
                                {.fd = client->watch ? client->watch_fd : -1, .events = POLLIN}};
        int count = poll(both, 2, left_ms > 60000 ? 60000 : (int)left_ms);
        if (count > 0 && client->watch && both[1].revents)
            client->interrupted = client->watch();
        if (count > 0 && both[0].revents)
            return true;
        if (count < 0 && errno != EINTR)
            return false;
    }
}

/* Connects to one address; 0 or an errno. */
static int dial_one(struct client *client, const struct addrinfo *address, int64_t until_us,
                    int *out_fd)
{
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    int failed = connect(fd, address->ai_addr, address->ai_addrlen) == 0 ? 0 : errno;
    if (failed == EINPROGRESS) {
        socklen_t len = sizeof(failed);
        if (!wait_for(client, fd, POLLOUT, until_us))
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

enum err client_dial(struct client *client, int64_t timeout_us, int *out_fd)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV}, *found;
    int64_t until_us = monotonic_us() + timeout_us;
    int failed = getaddrinfo(client->host, client->port, &hints, &found);
    if (failed)
        return error(client, ERR_IO, "cannot find", gai_strerror(failed));
    failed = ECONNREFUSED;
    for (const struct addrinfo *at = found; at && failed; at = at->ai_next)
        failed = dial_one(client, at, until_us, out_fd);
    freeaddrinfo(found);
    return failed ? error(client, ERR_IO, "cannot connect to", strerror(failed)) : OK;
}

static int on_field(llhttp_t *parser, const char *at, size_t len)
{
    struct incoming *incoming = parser->data;
    for (size_t i = 0; i < len; i++) {
        if (incoming->name_len < sizeof(incoming->name))
            incoming->name[incoming->name_len] = at[i];
        incoming->name_len++;
    }
    return 0;
}

static int on_field_complete(llhttp_t *parser)
{
    struct incoming *incoming = parser->data;
    incoming->reading_type =
        incoming->name_len < sizeof(incoming->name) &&
        bytes_eq_nocase(bytes_of(incoming->name, incoming->name_len), BYTES("content-type"));
    incoming->name_len = 0;
    return 0;
}

static int on_value(llhttp_t *parser, const char *at, size_t len)
{
    struct incoming *incoming = parser->data;
    if (incoming->reading_type && incoming->client->head.len < 256)
        buf_add(&incoming->client->head, at, len);
    return 0;
}

static int on_body(llhttp_t *parser, const char *at, size_t len)
{
    struct incoming *incoming = parser->data;
    if (incoming->client->body.len + len > CLIENT_ANSWER_MAX)
        return -1;
    buf_add(&incoming->client->body, at, len);
    return 0;
}

/* Pauses, so that llhttp_execute returns after one answer; an interim 1xx answer is skipped. */
static int on_complete(llhttp_t *parser)
{
    struct incoming *incoming = parser->data;
    if (parser->status_code < 200)
        return 0;
    incoming->whole = true;
    return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
    .on_header_field = on_field,
    .on_header_field_complete = on_field_complete,
    .on_header_value = on_value,
    .on_body = on_body,
    .on_message_complete = on_complete,
};

static enum err send_all(struct client *client, int64_t until_us)
{
    size_t sent = 0;
    while (sent < client->out.len) {
        ssize_t count =
            send(client->fd, client->out.at + sent, client->out.len - sent, MSG_NOSIGNAL);
        if (count >= 0) {
            sent += (size_t)count;
        } else if (errno == EAGAIN) {
            if (!wait_for(client, client->fd, POLLOUT, until_us))
                return error(client, ERR_IO, "no answer from", "it does not read");
        } else if (errno != EINTR) {
            return error(client, ERR_IO, "lost", strerror(errno));
        }
    }
    return OK;
}

static enum err receive(struct client *client, int64_t until_us, llhttp_t *parser,
                        struct incoming *incoming)
{
    char room[65536];
    while (!incoming->whole) {
        ssize_t count = recv(client->fd, room, sizeof(room), 0);
        if (count < 0 && errno == EAGAIN) {
            if (!wait_for(client, client->fd, POLLIN, until_us))
                return error(client, ERR_IO, "no answer from", "the time is up (--timeout)");
            continue;
        }
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return error(client, ERR_IO, "lost", strerror(errno));
        if (count == 0) {
            (void)llhttp_finish(parser); /* an answer without a length ends here */
            if (incoming->whole)
                return OK;
            return error(client, ERR_IO, "lost", "it closed the connection without an answer");
        }
        llhttp_errno_t failed = llhttp_execute(parser, room, (size_t)count);
        if (failed != HPE_OK && !incoming->whole)
            return error(client, ERR_IO, "bad answer from", llhttp_errno_name(failed));
    }
    return OK;
}

enum err client_call(struct client *client, const struct client_request *request,
                     struct client_answer *out_answer)
{
    int64_t until_us = monotonic_us() + request->timeout_us;
    enum err err = client->fd >= 0 ? OK : client_dial(client, request->timeout_us, &client->fd);
    if (err)
        return err;
    client->out.len = client->head.len = client->body.len = 0;
    buf_addf(&client->out, "%s %.*s HTTP/1.1\r\nHost: %s\r\n", request->method,
             (int)request->target.len, request->target.at, client->authority);
    if (request->content_type)
        buf_addf(&client->out, "Content-Type: %s\r\nContent-Length: %zu\r\n", request->content_type,
                 request->body.len);
    buf_add_str(&client->out, "\r\n");
    if (request->content_type)
        buf_add_bytes(&client->out, request->body);

    llhttp_t parser;
    struct incoming incoming = {.client = client};
    llhttp_init(&parser, HTTP_RESPONSE, &settings);
    parser.data = &incoming;
    err = send_all(client, until_us);
    if (!err)
        err = receive(client, until_us, &parser, &incoming);
    if (err || !llhttp_should_keep_alive(&parser))
        hang_up(client);
    if (err)
        return err;
    *out_answer = (struct client_answer){.status = parser.status_code,
                                         .content_type = buf_bytes(&client->head),
                                         .body = buf_bytes(&client->body)};
    return OK;
}
