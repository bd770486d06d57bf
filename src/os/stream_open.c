/*
 * Opening a stream to a server, and the TLS handshake with a client that connected to us.
 *
 *     LOOKING_UP ─address─▶ CONNECTING ─▶ HANDSHAKING (TLS) ─▶ open, and stream.c's
 *                            a client ───────▲
 *
 * An error breaks the stream: the next gather calls gone() of its handler. A stream from a client
 * has no handler yet.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/check.h"
#include "base/mem.h"
#include "os/loop_parts.h"

enum {
    SILENT_TIMES = 9,          /* as Linux has it */
    HANDSHAKE_NS = 500 * 1000, /* the estimated CPU time of one step of a handshake */
};

enum opening_state { LOOKING_UP, CONNECTING, HANDSHAKING };

struct opening {
    enum opening_state state;
    struct os_stream *stream;
    struct timer timer;
    struct name_query query;
    struct tls *tls;
    int64_t timeout_us;
    int silent_s;
    unsigned listener; /* of a client */
    char host[RESOLVER_NAME_MAX];
};

/* Starts the time-out of the step that begins now, by the clock: a turn may have lasted long. */
static void restart_timeout(struct opening *connector)
{
    struct loop *loop = &connector->stream->loop->loop;
    loop_arm(loop, &connector->timer, loop->clock->now_us(loop->clock) + connector->timeout_us);
}

static void too_slow(struct timer *timer)
{
    static const char *const texts[] = {[LOOKING_UP] = STREAM_NAME_SLOW,
                                        [CONNECTING] = STREAM_SLOW,
                                        [HANDSHAKING] = STREAM_TLS_SLOW};
    struct opening *connector = LIST_ENTRY(timer, struct opening, timer);
    stream_break(connector->stream, texts[connector->state]);
}

static void watch_for(struct os_stream *stream, uint32_t interest)
{
    struct epoll_event event = {.events = interest, .data.ptr = &stream->source};
    if (interest != stream->interest)
        (void)epoll_ctl(stream->loop->epoll, EPOLL_CTL_MOD, stream->source.fd, &event);
    stream->interest = interest;
}

/* ---- connecting ---- */

static void connect_to(struct opening *connector, const struct sockaddr *address, socklen_t len)
{
    struct os_stream *stream = connector->stream;
    int on = 1;
    connector->state = CONNECTING;
    restart_timeout(connector);
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    stream->source.fd = fd;
    if (fd < 0) {
        stream_break(stream, errno_text(errno));
        return;
    }
    /* On a Unix socket these fail, which does no harm. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    socket_keepalive(fd, connector->silent_s, connector->silent_s, SILENT_TIMES);
    if (connect(fd, address, len) && errno != EINPROGRESS) {
        stream_break(stream, errno_text(errno));
        return;
    }
    stream->interest = EPOLLOUT;
    if (!loop_watch_source(stream->loop, &stream->source, stream->interest))
        stream_break(stream, errno_text(errno));
}

static void name_answered(struct name_query *query, const struct socket_address *address,
                          const char *error)
{
    struct opening *connector = LIST_ENTRY(query, struct opening, query);
    if (error)
        stream_break(connector->stream, error);
    else
        connect_to(connector, (const struct sockaddr *)&address->any, address->len);
}

static void connect_to_path(struct opening *connector)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = strlen(connector->host);
    if (len >= sizeof(address.sun_path)) {
        stream_break(connector->stream, "the path of the socket is too long");
        return;
    }
    memcpy(address.sun_path, connector->host, len + 1);
    connector->tls = NULL;
    connect_to(connector, (const struct sockaddr *)&address, sizeof(address));
}

static void look_up(struct opening *connector)
{
    struct socket_address address;
    if (address_of_digits(connector->host, connector->query.port, &address)) {
        connect_to(connector, (const struct sockaddr *)&address.any, address.len);
        return;
    }
    connector->query.answered = name_answered;
    restart_timeout(connector);
    resolver_look_up(&connector->stream->loop->resolver, &connector->query, connector->host);
}

struct stream *stream_open(struct loop *base, const struct stream_options *options)
{
    struct os_loop *loop = (struct os_loop *)base; /* its first member */
    struct os_stream *stream = stream_new(loop, -1);
    struct opening *connector = mem_zalloc(sizeof(*connector));
    CHECK(options->handler->opened);
    stream->stream.handler = options->handler;
    stream->stream.user = options->user;
    stream->opening = true;
    stream->connector = connector;
    connector->stream = stream;
    connector->timer.expired = too_slow;
    connector->tls = options->tls;
    connector->timeout_us = options->timeout_us;
    connector->silent_s = options->silent_s;
    connector->query.port = options->port;
    connector->query.attempt = options->attempt;
    int len = snprintf(connector->host, sizeof(connector->host), "%s", options->host);
    if (len >= (int)sizeof(connector->host))
        stream_break(stream, "its name is too long");
    else if (options->host[0] == '/')
        connect_to_path(connector);
    else
        look_up(connector);
    return &stream->stream;
}

/* ---- events while it is being opened ---- */

static void open_now(struct os_stream *stream)
{
    struct loop *loop = &stream->loop->loop;
    loop_cancel(loop, &stream->connector->timer);
    stream->opening = false;
    if (stream->client)
        loop->acceptor->accepted(loop->acceptor, &stream->stream, stream->connector->listener);
    else
        stream->stream.handler->opened(&stream->stream);
    if (stream->dead)
        return;
    stream_update(stream);
    if (stream->tls && tls_has_pending(stream->tls)) { /* received with the end of the handshake */
        stream->events |= EPOLLIN;
        stream_make_ready(stream);
    }
}

static void fail(struct os_stream *stream, const char *error)
{
    stream_break(stream, error);
    stream_unready(stream);
    stream_serve(stream);
}

static void handshake(struct os_stream *stream)
{
    struct loop_share *share = stream->loop->share;
    if (share && stream->client)
        share->worked(share, HANDSHAKE_NS);
    switch (tls_handshake(stream->tls)) {
    case TLS_DONE: open_now(stream); break;
    case TLS_WANTS_INPUT: watch_for(stream, EPOLLIN); break;
    case TLS_WANTS_ROOM: watch_for(stream, EPOLLOUT); break;
    case TLS_FAILED: fail(stream, tls_error(stream->tls)); break;
    }
}

static void connected(struct os_stream *stream)
{
    struct opening *connector = stream->connector;
    int error = 0;
    socklen_t len = sizeof(error);
    if (getsockopt(stream->source.fd, SOL_SOCKET, SO_ERROR, &error, &len))
        error = errno;
    if (error) {
        fail(stream, errno_text(error));
        return;
    }
    if (!connector->tls) {
        open_now(stream);
        return;
    }
    connector->state = HANDSHAKING;
    stream->tls = tls_begin(connector->tls, stream->source.fd, connector->host);
    if (stream->tls)
        handshake(stream);
    else
        fail(stream, "no memory for a TLS session");
}

/* The handler of a client whose handshake is not done: nothing has to be notified. */
static void ignore_gone(struct stream *stream, bool half)
{
    (void)stream, (void)half;
}

static const struct stream_handler nobody = {.gone = ignore_gone};

void stream_accept_tls(struct os_stream *stream, const struct listener *listener)
{
    struct opening *connector = mem_zalloc(sizeof(*connector));
    stream->connector = connector;
    stream->opening = true;
    stream->stream.handler = &nobody;
    connector->stream = stream;
    connector->state = HANDSHAKING;
    connector->timer.expired = too_slow;
    connector->timeout_us = listener->timeout_us;
    connector->listener = listener->number;
    restart_timeout(connector);
    stream->tls = tls_begin(listener->tls, stream->source.fd, NULL);
    if (!stream->tls)
        stream_break(stream, "no memory for a TLS session");
}

void stream_open_serve(struct os_stream *stream, uint32_t what)
{
    if (!what)
        return;
    if (stream->connector->state == CONNECTING)
        connected(stream);
    else if (stream->connector->state == HANDSHAKING)
        handshake(stream);
}

/* ---- the end ---- */

void stream_open_end(struct os_stream *stream)
{
    struct opening *connector = stream->connector;
    loop_cancel(&stream->loop->loop, &connector->timer);
    resolver_cancel(&connector->query);
}

void stream_open_free(struct os_stream *stream)
{
    mem_free(stream->connector);
}
