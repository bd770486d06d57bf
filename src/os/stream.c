/*
 * A stream's bytes, in and out: sockets, with TLS or without.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/check.h"
#include "base/mem.h"
#include "os/loop_parts.h"

enum {
    SEND_BYTES = 64 * 1024, /* in one step */
    DROP_BYTES = 64 * 1024, /* read and dropped in one step while the stream lingers */
    LINGER_US = 1000 * 1000,
};

/*
 * recv() and send(). Those of glibc are cancellation points: in a process with threads each of them
 * pays two atomic operations for that, and no thread of ours is ever cancelled.
 */
static ssize_t receive_bytes(int fd, void *room, size_t most)
{
    return (ssize_t)syscall(SYS_recvfrom, fd, room, most, 0, NULL, NULL);
}

static ssize_t send_bytes(int fd, const void *at, size_t len)
{
    return (ssize_t)syscall(SYS_sendto, fd, at, len, MSG_NOSIGNAL, NULL, 0);
}

static struct os_stream *self(struct stream *stream)
{
    return (struct os_stream *)stream; /* its first member */
}

const char *errno_text(int number)
{
    const char *text = strerrordesc_np(number);
    return text ? text : "unknown error";
}

void socket_keepalive(int fd, int silent_s, int again_s, int times)
{
    const struct {
        int level, name, value;
    } options[] = {
        {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, silent_s},
        {IPPROTO_TCP, TCP_KEEPINTVL, again_s},
        {IPPROTO_TCP, TCP_KEEPCNT, times},
    };
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
        (void)setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof(int));
}

static const struct stream_verbs verbs;

struct os_stream *stream_new(struct os_loop *loop, int fd)
{
    struct os_stream *stream = mem_zalloc(sizeof(*stream));
    stream->stream.verbs = &verbs;
    stream->source = (struct source){.kind = SOURCE_STREAM, .fd = fd};
    stream->loop = loop;
    stream->read_bytes = READ_FIRST_BYTES;
    list_init(&stream->ready);
    list_add_tail(&loop->open, &stream->place);
    loop->stream_count++;
    return stream;
}

/* ---- calling the handler ---- */

static size_t show(struct os_stream *stream, struct bytes bytes)
{
    return stream->stream.handler->input(&stream->stream, bytes);
}

static void notify_drained(struct os_stream *stream)
{
    if (stream->stream.handler->drained)
        stream->stream.handler->drained(&stream->stream);
}

void stream_notify_end(struct os_stream *stream)
{
    bool open = !stream->opening && !stream->closing && !stream->broken && !stream->dead;
    if (!open || stream->ended || stream->end_reported)
        return;
    stream->end_reported = true;
    if (stream->stream.handler->leaving)
        stream->stream.handler->leaving(&stream->stream);
}

static void notify_leaving(struct os_stream *stream)
{
    stream->leaving = true;
    stream_notify_end(stream);
}

static void count_moved(const struct os_stream *stream, size_t bytes)
{
    struct loop_share *share = stream->loop->share;
    if (share)
        share->moved(share, bytes);
}

/* ---- being watched ---- */

static size_t stream_kept(const struct os_stream *stream)
{
    return stream->out.len - stream->out_at;
}

void stream_update(struct os_stream *stream)
{
    uint32_t interest = 0;
    if (stream->opening)
        return; /* stream_open.c knows what it waits for */
    stream->full = stream->full && stream->in.len && !stream->closing;
    if (!stream->ended && !stream->full)
        interest |= EPOLLIN;
    if (!stream->ended && !stream->leaving)
        interest |= EPOLLRDHUP;
    bool blocked = stream->tls && tls_needs_input(stream->tls); /* room to send would not help */
    if (stream_kept(stream) && !stream->broken && !blocked)
        interest |= EPOLLOUT;
    if (interest == stream->interest)
        return;
    struct epoll_event event = {.events = interest, .data.ptr = &stream->source};
    (void)epoll_ctl(stream->loop->epoll, EPOLL_CTL_MOD, stream->source.fd,
                    &event); /* it is there */
    stream->interest = interest;
}

void stream_make_ready(struct os_stream *stream)
{
    if (stream->dead || !list_empty(&stream->ready))
        return;
    list_add_tail(&stream->loop->ready, &stream->ready);
    stream->loop->ready_count++;
}

void stream_make_ready_first(struct os_stream *stream)
{
    if (stream->dead || !list_empty(&stream->ready))
        return;
    list_add_head(&stream->loop->ready, &stream->ready);
    stream->loop->ready_count++;
}

void stream_unready(struct os_stream *stream)
{
    if (list_empty(&stream->ready))
        return;
    list_remove(&stream->ready);
    stream->loop->ready_count--;
}

void stream_discard(struct os_stream *stream)
{
    if (stream->dead)
        return;
    stream_unready(stream);
    if (stream->connector)
        stream_open_end(stream);
    stream->loop->client_count -= stream->client;
    tls_end(stream->tls);
    stream->tls = NULL;
    if (stream->source.fd >= 0)
        (void)close(stream->source.fd); /* leaves epoll, too */
    stream->dead = true;
    /* Not `in`: the handler may be reading it. */
    discard_buf(&stream->loop->loop.discard, &stream->out);
    list_remove(&stream->place);
    list_add_tail(&stream->loop->dead, &stream->place);
    stream->loop->stream_count--;
}

void streams_free_dead(struct os_loop *loop)
{
    while (!list_empty(&loop->dead)) {
        struct os_stream *stream = LIST_ENTRY(loop->dead.next, struct os_stream, place);
        list_remove(&stream->place);
        discard_buf(&loop->loop.discard, &stream->in);
        stream_open_free(stream);
        mem_free(stream);
    }
}

void stream_break(struct os_stream *stream, const char *error)
{
    stream->broken = true;
    stream->stream.error = error;
    stream_make_ready_first(stream);
}

/* ---- sending ---- */

/* Why the last call for the socket failed. */
static const char *failure(const struct os_stream *stream)
{
    return stream->tls ? tls_error(stream->tls) : errno_text(errno);
}

/* At most SEND_BYTES: the system takes milliseconds to copy megabytes. */
static size_t send_some(struct os_stream *stream, const char *at, size_t len)
{
    size_t piece = len < SEND_BYTES ? len : SEND_BYTES;
    ssize_t sent =
        stream->tls ? tls_send(stream->tls, at, piece) : send_bytes(stream->source.fd, at, piece);
    if (sent >= 0)
        return (size_t)sent;
    if (errno != EAGAIN && errno != EINTR && errno != ENOBUFS)
        stream_break(stream, failure(stream)); /* the next gather tells the handler */
    return 0;
}

static void verb_send(struct stream *base, struct buf *data)
{
    struct os_stream *stream = self(base);
    size_t sent = 0;
    if (!stream->broken && !stream->opening && stream_kept(stream) == 0)
        sent = send_some(stream, data->at, data->len);
    size_t left = data->len - sent;
    /* Megabytes are not copied. A short rest is: it need not keep all of the buffer. */
    bool take_over = left >= SEND_BYTES || left >= data->cap / 2;
    if (left && take_over && stream->out.len == 0) {
        struct buf empty = stream->out;
        stream->out = *data;
        stream->out_at = sent;
        *data = empty;
    } else {
        buf_add(&stream->out, data->at + sent, left);
        data->len = 0;
    }
    if (stream_kept(stream))
        stream_update(stream);
}

/* All that there was to send is sent. */
static void end_sending(struct os_stream *stream)
{
    if (stream->tls)
        tls_close_notify(stream->tls);
    (void)shutdown(stream->source.fd, SHUT_WR);
}

/* The socket takes bytes again. */
static void stream_writable(struct os_stream *stream)
{
    if (stream_kept(stream)) {
        size_t sent = send_some(stream, stream->out.at + stream->out_at, stream_kept(stream));
        stream->out_at += sent;
        count_moved(stream, sent);
    }
    if (stream_kept(stream) == 0) {
        discard_buf(&stream->loop->loop.discard, &stream->out);
        stream->out_at = 0;
        if (stream->closing && stream->ended) {
            stream_discard(stream);
            return;
        }
        if (stream->closing)
            end_sending(stream);
        else
            notify_drained(stream);
    }
    if (!stream->dead)
        stream_update(stream);
}

/* ---- receiving ---- */

/* Removes the first `used` of the kept bytes, and frees memory that the rest does not need. */
static void keep_rest(struct os_stream *stream, size_t used)
{
    struct buf rest = {0};
    if (used == 0)
        return;
    if (used >= stream->in.len / 2 && used < stream->in.len)
        buf_add(&rest, stream->in.at + used, stream->in.len - used);
    else
        buf_drop(&stream->in, used);
    if (rest.len || stream->in.len == 0) {
        buf_fini(&stream->in);
        stream->in = rest;
    }
}

static void stream_show(struct os_stream *stream)
{
    stream->shown = true;
    size_t used = show(stream, buf_bytes(&stream->in));
    stream->shown = false;
    if (stream->dead || stream->closing)
        return;
    keep_rest(stream, used);
    stream_update(stream);
}

static void stream_lost(struct os_stream *stream)
{
    if (!stream->closing) {
        if (!stream->stream.error)
            stream->stream.error = STREAM_CLOSED;
        stream->stream.handler->gone(&stream->stream, false);
    }
    stream_discard(stream);
}

static void stream_ended(struct os_stream *stream)
{
    stream->ended = true;
    if (stream->closing && stream_kept(stream) == 0) {
        stream_discard(stream);
        return;
    }
    stream_update(stream);
    if (!stream->closing)
        stream->stream.handler->gone(&stream->stream, true);
}

/* Sets the size of the next read: small after bytes that had to be kept; doubled after a full read
 * whose bytes were all used; halved after many reads in a row that brought little. One such read
 * means nothing: clients with many requests under way cause short and long reads in turn. */
static void adapt_read_size(struct os_stream *stream, size_t used, size_t got)
{
    bool little = got < stream->read_bytes / 8;
    stream->little_reads = little ? stream->little_reads + 1 : 0;
    if (used < got) {
        stream->read_bytes = READ_FIRST_BYTES;
    } else if (got == stream->read_bytes && got < READ_BYTES) {
        stream->read_bytes *= 2;
    } else if (stream->little_reads == LITTLE_READS && stream->read_bytes > READ_FIRST_BYTES) {
        stream->read_bytes /= 2;
        stream->little_reads = 0;
    }
}

/* Receives once. `ends`: epoll reports that the other side has ended its sending; recv() reports it
 * only behind the last bytes. True: the read was full, the handler used it all, and the next one
 * may be larger. */
static bool receive(struct os_stream *stream, bool ends)
{
    char *room = stream->loop->read_buffer;
    size_t most = stream->closing ? DROP_BYTES : stream->read_bytes;
    ssize_t got = stream->tls ? tls_receive(stream->tls, room, most)
                              : receive_bytes(stream->source.fd, room, most);
    if (got < 0) {
        if (errno == EAGAIN || errno == EINTR)
            return false;
        stream->stream.error = failure(stream);
        stream_lost(stream);
        return false;
    }
    if (got == 0) {
        stream_ended(stream);
        return false;
    }
    if (stream->closing) { /* lingering: what comes now is dropped */
        count_moved(stream, (size_t)got);
        return false;
    }
    if (ends && !stream->leaving)
        notify_leaving(stream);
    if (stream->dead || stream->closing)
        return false;
    size_t used = show(stream, bytes_of(room, (size_t)got));
    if (stream->dead || stream->closing)
        return false;
    adapt_read_size(stream, used, (size_t)got);
    if (used < (size_t)got)
        buf_add(&stream->in, room + used, (size_t)got - used);
    return stream->read_bytes > most;
}

static bool is_spent(const struct loop_share *share)
{
    return share && share->spent(share);
}

/* If the first read was full, and smaller than the largest size, a second one follows in the same
 * visit: a burst of requests that is longer than the first read stays together. If it were torn,
 * the two parts would be served and answered in different turns, and so would all later bursts of
 * such a client. */
static void stream_readable(struct os_stream *stream, bool ends)
{
    if (receive(stream, ends) && !is_spent(stream->loop->share))
        (void)receive(stream, ends); /* never a third: other streams wait */
}

/*
 * There is input, or its end, behind the kept bytes: it stays in the socket's buffer, so that TCP
 * makes the client wait. That the client has ended its sending is reported to the handler now.
 */
static void stream_wait(struct os_stream *stream, uint32_t what)
{
    bool lost = what & EPOLLERR || (what & EPOLLHUP && stream->leaving);
    stream->full = true;
    if (lost) {
        stream_lost(stream);
    } else if (what & ((uint32_t)EPOLLRDHUP | EPOLLHUP) && !stream->leaving) {
        notify_leaving(stream);
    }
    if (!stream->dead)
        stream_update(stream);
}

/*
 * Bytes that TLS has decrypted already cause no event of epoll; and bytes that it could not send
 * before it received something can be sent now.
 */
static void serve_tls(struct os_stream *stream)
{
    if (stream_kept(stream) && !stream->broken)
        stream_writable(stream);
    if (stream->dead || stream->in.len || stream->ended || !tls_has_pending(stream->tls))
        return;
    stream->events |= EPOLLIN;
    stream_make_ready(stream);
}

void stream_serve(struct os_stream *stream)
{
    uint32_t what = stream->events;
    bool resumed = stream->resumed;
    stream->events = 0;
    stream->resumed = false;
    if (stream->broken) {
        stream_lost(stream);
        return;
    }
    if (stream->opening) {
        stream_open_serve(stream, what);
        return;
    }
    if (what & EPOLLOUT)
        stream_writable(stream);
    if (stream->dead)
        return;
    bool kept = stream->in.len && !stream->closing;
    uint32_t over = what & ((uint32_t)EPOLLRDHUP | EPOLLERR | EPOLLHUP);
    if (kept && (over || (what & EPOLLIN && !resumed)))
        stream_wait(stream, what);
    else if (kept)
        ; /* the kept bytes come first */
    else if ((what & ((uint32_t)EPOLLIN | EPOLLRDHUP)) && !stream->ended)
        stream_readable(stream, what & EPOLLRDHUP);
    else if (what & (EPOLLERR | EPOLLHUP))
        stream_lost(stream);
    if (resumed && !stream->dead && stream->in.len && !stream->closing)
        stream_show(stream);
    if (stream->resumed && !stream->dead && stream->in.len && !stream->closing)
        stream_make_ready(stream);
    if (stream->tls)
        serve_tls(stream);
}

void streams_end_lingering(struct os_loop *loop)
{
    if (list_empty(&loop->lingering))
        return;
    int64_t now_us = loop->loop.clock->now_us(loop->loop.clock);
    while (!list_empty(&loop->lingering)) {
        struct os_stream *stream = LIST_ENTRY(loop->lingering.next, struct os_stream, place);
        if (stream->linger_until_us > now_us)
            return;
        stream_discard(stream);
    }
}

/* ---- the port ---- */

static size_t verb_unsent(const struct stream *base)
{
    return stream_kept((const struct os_stream *)base);
}

static size_t verb_held(const struct stream *base)
{
    const struct os_stream *stream = (const struct os_stream *)base;
    return stream->in.cap + stream->out.cap + (stream->tls ? tls_held_bytes(stream->tls) : 0);
}

static void verb_resume(struct stream *base)
{
    struct os_stream *stream = self(base);
    stream->resumed = true; /* from within input(): stream_serve() looks at it afterwards */
    if (stream->in.len && !stream->broken)
        stream_make_ready(stream);
}

/* Makes the system drop what it has not sent yet: the peer must not get it after its request was
 * sent again on another connection. */
static void drop_unsent(const struct os_stream *stream)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};
    if (stream->source.fd >= 0)
        (void)setsockopt(stream->source.fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
}

static void verb_close(struct stream *base, enum stream_close how)
{
    struct os_stream *stream = self(base);
    if (stream->dead)
        return;
    if (how == STREAM_RESET)
        drop_unsent(stream);
    if (how != STREAM_LINGER || stream->broken || stream->opening) {
        stream_discard(stream);
        return;
    }
    stream->closing = true;
    stream->stream.user = NULL;
    if (!stream->shown)
        buf_fini(&stream->in);
    const struct loop *loop = &stream->loop->loop;
    stream->linger_until_us = loop->clock->now_us(loop->clock) + LINGER_US;
    list_remove(&stream->place);
    list_add_tail(&stream->loop->lingering, &stream->place);
    if (stream_kept(stream) == 0)
        end_sending(stream);
    if (stream->ended && stream_kept(stream) == 0)
        stream_discard(stream);
    else
        stream_update(stream);
}

static void verb_peer(const struct stream *base, char out_text[STREAM_PEER_MAX])
{
    const struct os_stream *stream = (const struct os_stream *)(const void *)base;
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_storage room;
    } address = {0};
    socklen_t len = sizeof(address);
    char text[INET6_ADDRSTRLEN] = "";
    if (getpeername(stream->source.fd, &address.any, &len) != 0)
        address.any.sa_family = AF_UNSPEC;
    if (address.any.sa_family == AF_INET &&
        inet_ntop(AF_INET, &address.v4.sin_addr, text, sizeof(text)))
        (void)snprintf(out_text, STREAM_PEER_MAX, "%s:%u", text, ntohs(address.v4.sin_port));
    else if (address.any.sa_family == AF_INET6 &&
             inet_ntop(AF_INET6, &address.v6.sin6_addr, text, sizeof(text)))
        (void)snprintf(out_text, STREAM_PEER_MAX, "[%s]:%u", text, ntohs(address.v6.sin6_port));
    else
        (void)snprintf(out_text, STREAM_PEER_MAX, "%s",
                       address.any.sa_family == AF_UNIX ? "unix" : "unknown");
}

static const struct stream_verbs verbs = {
    .send = verb_send,
    .unsent = verb_unsent,
    .held = verb_held,
    .resume = verb_resume,
    .close = verb_close,
    .peer = verb_peer,
};
