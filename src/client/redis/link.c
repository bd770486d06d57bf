/*
 * Owns the socket, the reader and the bytes to send.
 *
 * Invariant: calls are owed in the order in which their commands were written, greetings first; a
 * link that is DOWN has no socket, no bytes and no calls.
 */
#include "client/redis/link.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/check.h"
#include "client/redis/lookup.h"
#include "client/redis/resp.h"

enum {
    EVENTS = 64,
    READ_BYTES = 64 * 1024,
    SPARE_OUT_BYTES = 256 * 1024,
    EARLY_BYTES = 16 * 1024, /* what Redis reads at once */
    IDLE_READER_BYTES = 1024 * 1024,
    ELEMENTS_MAX = 64 * 1024, /* of an array; a cluster has 16384 slots */
    BACK_OFF_US = 50 * 1000,
    BACK_OFF_MAX_US = 2000 * 1000,
    SILENT_S = 15, /* keep-alive: subscriptions have no other way to find out */
};

static void greeted(struct link_call *call, redisReply *reply);

void link_init(struct link *link, const struct link_options *options)
{
    *link = (struct link){.options = *options, .fd = -1, .retry_at_us = INT64_MAX};
    list_init(&link->calls);
    link->greeting.done = greeted;
}

/* ---- the end of a connection ---- */

/*
 * What is owed is asked anew elsewhere, so what has not reached the server must not reach it later,
 * behind that: the kernel is to drop it, and to reset the connection.
 */
static void drop_unsent(const struct link *link)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};
    if (!list_empty(&link->calls))
        (void)setsockopt(link->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
}

static void forget_socket(struct link *link)
{
    redis_tls_end(link->tls);
    link->tls = NULL;
    if (link->fd >= 0)
        drop_unsent(link);
    if (link->fd >= 0)
        (void)close(link->fd); /* leaves epoll, too */
    link->fd = -1;
    link->interest = 0;
    if (link->reader)
        redisReaderFree(link->reader);
    link->reader = NULL;
    link->out.len = link->out_at = 0;
    link->greetings = 0;
    link->doomed = false;
    link->state = LINK_DOWN;
}

static void tell_calls(struct link *link)
{
    struct list owed;
    list_init(&owed); /* `done` may send again, to another link or to this one when it is back */
    while (!list_empty(&link->calls)) {
        struct list *node = link->calls.next;
        list_remove(node);
        list_add_tail(&owed, node);
    }
    while (!list_empty(&owed)) {
        struct link_call *call = LIST_ENTRY(owed.next, struct link_call, place);
        list_remove(&call->place);
        call->done(call, NULL);
    }
}

/* So that many daemons do not come back at one moment: up to a quarter more or less. */
static int64_t with_jitter(int64_t us)
{
    uint32_t dice;
    if (getrandom(&dice, sizeof(dice), 0) != sizeof(dice))
        dice = 0;
    return us - us / 4 + (int64_t)dice % (us / 2 + 1);
}

static void end(struct link *link)
{
    bool was_open = link->state != LINK_DOWN;
    link->attempt += link->state == LINK_CONNECTING; /* its name may have other addresses */
    forget_socket(link);
    if (link->retry_at_us != INT64_MAX) {
        link->retry_at_us = link->now_us + with_jitter(link->back_off_us);
        link->back_off_us *= 2;
        if (link->back_off_us > BACK_OFF_MAX_US)
            link->back_off_us = BACK_OFF_MAX_US;
    }
    if (was_open)
        link->options.callbacks->down(link->options.callbacks, link);
    tell_calls(link);
}

void link_fail(struct link *link, const char *why)
{
    if (link->doomed)
        return;
    (void)snprintf(link->error, sizeof(link->error), "%s", why);
    if (link->dispatching)
        link->doomed = true;
    else
        end(link);
}

void link_rest(struct link *link)
{
    link->retry_at_us = INT64_MAX;
    if (link->state != LINK_DOWN)
        link_fail(link, "not needed any more");
}

void link_fini(struct link *link)
{
    if (!link->options.callbacks)
        return; /* never begun */
    link->retry_at_us = INT64_MAX;
    if (link->state != LINK_DOWN)
        forget_socket(link);
    tell_calls(link);
    buf_fini(&link->out);
}

/* ---- the beginning ---- */

static void watch(struct link *link, uint32_t interest)
{
    struct epoll_event event = {.events = interest, .data.ptr = link};
    int how = link->interest ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    if (interest == link->interest)
        return;
    if (epoll_ctl(link->options.epoll, how, link->fd, &event))
        link_fail(link, strerror(errno));
    else
        link->interest = interest;
}

static void greet(struct link *link)
{
    const struct link_options *options = &link->options;
    struct buf *out = &link->out;
    link->state = LINK_GREETING;
    if (options->password[0] || options->user[0]) {
        resp_begin(out, options->user[0] ? 3 : 2);
        resp_add_str(out, "AUTH");
        if (options->user[0])
            resp_add_str(out, options->user);
        resp_add_str(out, options->password);
        link->greetings++;
    }
    if (options->db) {
        resp_begin(out, 2);
        resp_add_str(out, "SELECT");
        resp_add_u64(out, options->db);
        link->greetings++;
    }
    resp_begin(out, 1);
    resp_add_str(out, "PING"); /* there is an answer to wait for, whatever the settings */
    link->greetings++;
    list_add_tail(&link->calls, &link->greeting.place);
    link->greeting.sent_us = link->now_us;
    link_flush(link);
}

/* What is no Redis, or one that knows no AUTH, may answer with all that we said: our password is
 * for no log. */
static void hide_password(redisReply *reply)
{
    char *quoted = strstr(reply->str, "with args beginning");
    if (quoted)
        *quoted = '\0';
}

/* LOADING and the like come as an answer to the PING; they too make us come back later. */
static void greeted(struct link_call *call, redisReply *reply)
{
    struct link *link = LIST_ENTRY(call, struct link, greeting);
    if (!reply)
        return;
    link->greetings--;
    if (reply->type == REDIS_REPLY_ERROR) {
        hide_password(reply);
        link_fail(link, reply->str);
    }
    freeReplyObject(reply);
    if (link->doomed)
        return;
    if (link->greetings) {
        list_add_tail(&link->calls, &link->greeting.place);
        return;
    }
    link->state = LINK_UP;
    link->options.callbacks->up(link->options.callbacks, link);
}

static void begin_session(struct link *link)
{
    if (link->options.tls && link->address.host[0] != '/') {
        link->tls = redis_tls_begin(link->options.tls, link->fd, link->address.host);
        if (!link->tls) {
            link_fail(link, "TLS cannot be begun");
            return;
        }
    }
    greet(link);
}

static void connected(struct link *link)
{
    int error = 0;
    socklen_t len = sizeof(error);
    if (getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &error, &len) || error) {
        link_fail(link, strerror(error ? error : errno));
        return;
    }
    begin_session(link);
}

static void set_options(int fd)
{
    int on = 1, silent_s = SILENT_S;
    /* On a Unix socket these fail, which does no harm. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &silent_s, sizeof(silent_s));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &silent_s, sizeof(silent_s));
}

/* hiredis believes any length of an array, and makes and frees so many places: of a line of
 * nonsense that is seconds. */
#if HIREDIS_MAJOR >= 1

static void bound_arrays(redisReader *reader)
{
    reader->maxelements = ELEMENTS_MAX;
}

#else

static void *make_array(const redisReadTask *task, int elements)
{
    const redisReplyObjectFunctions *own = task->privdata;
    return elements > ELEMENTS_MAX ? NULL : own->createArray(task, elements);
}

static void bound_arrays(redisReader *reader)
{
    static redisReplyObjectFunctions functions; /* hiredis' own, but for arrays */
    functions = *reader->fn;
    functions.createArray = make_array;
    reader->privdata = reader->fn;
    reader->fn = &functions;
}

#endif

static void connect_to(struct link *link, const struct sockaddr *address, socklen_t len)
{
    link->fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    link->state = LINK_CONNECTING;
    link->since_us = link->now_us;
    if (link->fd < 0) {
        link_fail(link, strerror(errno));
        return;
    }
    set_options(link->fd);
    link->reader = redisReaderCreate();
    CHECK(link->reader); /* out of memory */
    link->reader->maxbuf = IDLE_READER_BYTES;
    bound_arrays(link->reader);
    int failed = connect(link->fd, address, len);
    if (failed && errno != EINPROGRESS) {
        link_fail(link, strerror(errno));
        return;
    }
    /* Input, too: what comes while only output is watched for would wake nobody, for the socket is
       in epoll's ready list still when the interest changes, and no news there. */
    watch(link, failed ? EPOLLIN | EPOLLOUT : EPOLLIN);
    if (!failed && link->state == LINK_CONNECTING)
        begin_session(link);
}

/* A name is looked up at each attempt. Meanwhile the link's socket is the one that the answer comes
 * through. */
static void look_up(struct link *link)
{
    link->state = LINK_LOOKING_UP;
    link->since_us = link->now_us;
    link->fd = lookup_start(&link->address, link->attempt);
    if (link->fd < 0)
        link_fail(link, strerror(errno));
    else
        watch(link, EPOLLIN);
}

static void looked_up(struct link *link)
{
    struct lookup_answer answer;
    if (!lookup_take(link->fd, &answer)) {
        link_fail(link, "its name was not looked up");
    } else if (answer.error) {
        link_fail(link, gai_strerror(answer.error));
    } else {
        (void)close(link->fd); /* leaves epoll, too */
        link->interest = 0;
        connect_to(link, (const struct sockaddr *)&answer.address, answer.len);
    }
}

static void open_tcp(struct link *link)
{
    struct lookup_answer answer;
    if (lookup_numeric(&link->address, &answer))
        connect_to(link, (const struct sockaddr *)&answer.address, answer.len);
    else
        look_up(link);
}

static void open_unix(struct link *link)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = strlen(link->address.host);
    if (len >= sizeof(address.sun_path)) {
        link->state = LINK_CONNECTING;
        link_fail(link, "the path of the socket is too long");
        return;
    }
    memcpy(address.sun_path, link->address.host, len + 1);
    connect_to(link, (const struct sockaddr *)&address, sizeof(address));
}

static void open_link(struct link *link)
{
    if (link->address.host[0] == '/')
        open_unix(link);
    else
        open_tcp(link);
}

void link_want(struct link *link, const struct redis_address *address, int64_t now_us)
{
    bool same = redis_address_eq(&link->address, address);
    link->now_us = now_us;
    if (same && link->retry_at_us != INT64_MAX)
        return;
    link_rest(link);
    link->address = *address;
    link->back_off_us = BACK_OFF_US;
    link->retry_at_us = now_us;
}

void link_good(struct link *link)
{
    link->back_off_us = BACK_OFF_US;
}

/* ---- commands out ---- */

struct buf *link_out(struct link *link)
{
    return &link->out;
}

void link_expect(struct link *link, struct link_call *call)
{
    CHECK(link->state == LINK_UP);
    call->sent_us = link->now_us;
    list_add_tail(&link->calls, &call->place);
}

static ssize_t send_out(struct link *link)
{
    const char *at = link->out.at + link->out_at;
    size_t len = link->out.len - link->out_at;
    return link->tls ? redis_tls_send(link->tls, at, len) : send(link->fd, at, len, MSG_NOSIGNAL);
}

static ssize_t receive(struct link *link, void *room, size_t room_bytes)
{
    return link->tls ? redis_tls_receive(link->tls, room, room_bytes)
                     : recv(link->fd, room, room_bytes, 0);
}

/* Why that failed. */
static const char *failure_of(const struct link *link)
{
    return link->tls ? redis_tls_error(link->tls) : strerror(errno);
}

/* An error is link_flush's to meet: who asks us is in the middle of things. What the kernel does
 * not take waits for that, too, and for the socket. */
void link_flush_early(struct link *link)
{
    bool enough = link->out.len - link->out_at >= EARLY_BYTES;
    if (!enough || link->state != LINK_UP || link->doomed || link->interest != EPOLLIN)
        return;
    ssize_t sent = send_out(link);
    link->out_at += sent > 0 ? (size_t)sent : 0;
    if (link->out_at == link->out.len)
        link->out.len = link->out_at = 0;
}

void link_flush(struct link *link)
{
    if (link->state < LINK_GREETING || link->out_at == link->out.len)
        return;
    ssize_t sent = send_out(link);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) {
        link_fail(link, failure_of(link));
        return;
    }
    link->out_at += sent > 0 ? (size_t)sent : 0;
    if (link->out_at == link->out.len) {
        link->out.len = link->out_at = 0;
        buf_shrink(&link->out, SPARE_OUT_BYTES);
        watch(link, EPOLLIN);
    } else if (link->tls && redis_tls_waits(link->tls)) {
        watch(link, EPOLLIN);
    } else {
        watch(link, EPOLLIN | EPOLLOUT);
    }
}

/* ---- replies in ---- */

static void hand_out(struct link *link, redisReply *reply)
{
    bool is_message = link->options.subscriber && link->state == LINK_UP;
    if (is_message || list_empty(&link->calls)) {
        if (is_message)
            link->options.callbacks->message(link->options.callbacks, link, reply);
        else
            link_fail(link, reply->type == REDIS_REPLY_ERROR ? reply->str
                                                             : "it answered what nobody had asked");
        freeReplyObject(reply);
        return;
    }
    struct link_call *call = LIST_ENTRY(link->calls.next, struct link_call, place);
    list_remove(&call->place);
    call->done(call, reply);
}

static void dispatch(struct link *link)
{
    void *reply = NULL;
    while (!link->doomed) {
        if (redisReaderGetReply(link->reader, &reply) != REDIS_OK) {
            link_fail(link, link->reader->errstr);
            return;
        }
        if (!reply)
            return;
        hand_out(link, reply);
    }
}

/* All that is there: our epoll instance is watched for news only, and rest is no news. */
static void readable(struct link *link)
{
    static char room[READ_BYTES];
    ssize_t got = sizeof(room);
    link->dispatching = true;
    /* A record of TLS is shorter than the room, and there may be more of them. */
    while ((got == sizeof(room) || link->tls) && !link->doomed) {
        got = receive(link, room, sizeof(room));
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            break;
        if (got <= 0)
            link_fail(link, got ? failure_of(link) : "it closed the connection");
        else if (redisReaderFeed(link->reader, room, (size_t)got) != REDIS_OK)
            link_fail(link, link->reader->errstr);
        else
            dispatch(link);
    }
    link->dispatching = false;
    if (link->doomed)
        end(link);
    else if (link->tls)
        link_flush(link); /* a handshake may be done */
}

static void take_event(struct link *link, uint32_t what)
{
    if (link->fd < 0)
        return;
    if (link->state == LINK_LOOKING_UP) {
        looked_up(link);
        return;
    }
    if (link->state == LINK_CONNECTING) {
        connected(link);
        return;
    }
    if (what & EPOLLOUT)
        link_flush(link);
    if (link->fd >= 0 && (what & (EPOLLIN | EPOLLERR | EPOLLHUP)))
        readable(link);
}

void link_poll(int epoll, int64_t now_us)
{
    struct epoll_event events[EVENTS];
    int count;
    do {
        count = epoll_wait(epoll, events, EVENTS, 0);
        for (int i = 0; i < count; i++) {
            struct link *link = events[i].data.ptr;
            link->now_us = now_us;
            take_event(link, events[i].events);
        }
    } while (count == EVENTS);
}

/* ---- time ---- */

static bool waits_for_answer(const struct link *link)
{
    return link->state == LINK_UP && !list_empty(&link->calls);
}

static int64_t oldest_us(const struct link *link)
{
    return LIST_ENTRY(link->calls.next, struct link_call, place)->sent_us;
}

void link_tick(struct link *link, int64_t now_us)
{
    int64_t limit_us = now_us - link->options.timeout_us;
    link->now_us = now_us;
    if (link->state == LINK_DOWN && link->retry_at_us <= now_us)
        open_link(link);
    else if (waits_for_answer(link) && oldest_us(link) <= limit_us)
        link_fail(link, "it does not answer");
    else if (link->state == LINK_LOOKING_UP && link->since_us <= limit_us)
        link_fail(link, "looking up its name takes too long");
    else if ((link->state == LINK_CONNECTING || link->state == LINK_GREETING) &&
             link->since_us <= limit_us)
        link_fail(link, "it does not answer a new connection");
}

int64_t link_next_us(const struct link *link)
{
    if (link->state == LINK_DOWN)
        return link->retry_at_us;
    if (waits_for_answer(link))
        return oldest_us(link) + link->options.timeout_us;
    return link->state == LINK_UP ? INT64_MAX : link->since_us + link->options.timeout_us;
}
