/*
 * Owns the epoll instance, the listeners and every connection's socket and kept bytes.
 *
 * A connection for which there is something to do hangs on `ready`; gather() serves that queue from
 * its front, so that each gets its turn however much others send. One that is closed is only marked
 * and hung on `dead`: it is freed when gather() is over.
 */
#include "os/net.h"

#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"

enum {
    EVENTS = 512,
    SEND_BYTES = 256 * 1024,     /* in one step */
    DROP_BYTES = 64 * 1024,      /* of what a client sends behind its last request, in one step */
    READ_BYTES = 256 * 1024,     /* read at once from a client whose bytes are all taken */
    READ_FIRST_BYTES = 4 * 1024, /* and from one that is new, or whose bytes had to wait */
    SILENT_S = 60,               /* a client is asked whether it is there, */
    SILENT_AGAIN_S = 15,         /* again after so long, */
    SILENT_TIMES = 4,            /* and given up: within two minutes */
    ACCEPTS = 128,               /* at most so many at once */
    ACCEPT_PAUSE_US = 200 * 1000,
    LINGER_US = 1000 * 1000,
    SLEEP_MAX_US = 2000 * 1000, /* the kernel's sleeps stand still while a machine is suspended */
    SPARE_DESCRIPTORS = 40,     /* for a Redis' links, names being looked up, and the like */
};

enum source_kind { SOURCE_CONN, SOURCE_LISTENER, SOURCE_WATCH };

struct source {
    enum source_kind kind;
    int fd;
};

struct listener {
    struct source source;
    unsigned number;
    bool waiting; /* somebody wants to be accepted */
};

struct net_conn {
    struct source source;
    uint32_t interest; /* what epoll watches for */
    uint32_t events;   /* what it has reported, not dealt with yet */
    void *user;
    struct buf in;  /* shown to the handler but not used yet; nothing is read meanwhile */
    struct buf out; /* [out_at, len) is still to be sent */
    size_t out_at;
    struct list place; // hangs on open, lingering or dead
    struct list ready; // os_net::ready, or nowhere
    int64_t linger_until_us;
    bool ended, broken, closing, dead;
    bool resumed;        /* kept input is to be shown again */
    bool shown;          /* `in` is under the handler's eyes */
    bool full;           /* epoll does not watch for input, while some is kept */
    bool leaving;        /* the handler was told that the client ended its sending */
    uint32_t read_bytes; /* read at once: between READ_FIRST_BYTES and READ_BYTES */
};

struct os_net {
    struct net net;
    struct clock *clock;
    int epoll;
    int event_count;
    unsigned conn_count;
    unsigned conn_max; /* more would take the descriptors that the store needs */
    struct list open;  // net_conn::place
    struct list ready; // net_conn::ready: something is to be done for them, oldest first
    unsigned ready_count;
    struct list lingering;   // net_conn::place: closing(), first to end first
    struct list dead;        // net_conn::place
    int64_t accept_again_us; /* accepting pauses until then; 0 = it does not */
    bool accept_error_said;
    bool coarse_sleep; /* the kernel sleeps in milliseconds only */
    unsigned listener_count;
    struct listener listeners[NET_LISTENERS_MAX];
    struct source watches[4];
    unsigned watch_count;
    struct epoll_event events[EVENTS];
    char read_room[READ_BYTES];
};

static struct os_net *self(struct net *net)
{
    return (struct os_net *)net; /* its first member */
}

static size_t conn_unsent(const struct net_conn *conn)
{
    return conn->out.len - conn->out_at;
}

static void watch_source(struct os_net *net, struct source *source, uint32_t interest)
{
    struct epoll_event event = {.events = interest, .data.ptr = source};
    int failed = epoll_ctl(net->epoll, EPOLL_CTL_ADD, source->fd, &event);
    CHECK(!failed || errno == ENOMEM || errno == ENOSPC);
}

static void conn_update(struct os_net *net, struct net_conn *conn)
{
    uint32_t interest = 0;
    conn->full = conn->full && conn->in.len && !conn->closing;
    if (!conn->ended && !conn->full)
        interest |= EPOLLIN;
    if (!conn->ended && !conn->leaving)
        interest |= EPOLLRDHUP;
    if (conn_unsent(conn) && !conn->broken)
        interest |= EPOLLOUT;
    if (interest == conn->interest)
        return;
    struct epoll_event event = {.events = interest, .data.ptr = &conn->source};
    (void)epoll_ctl(net->epoll, EPOLL_CTL_MOD, conn->source.fd, &event); /* it is there */
    conn->interest = interest;
}

static void conn_make_ready(struct os_net *net, struct net_conn *conn, bool first)
{
    if (conn->dead || !list_empty(&conn->ready))
        return;
    if (first)
        list_add_head(&net->ready, &conn->ready);
    else
        list_add_tail(&net->ready, &conn->ready);
    net->ready_count++;
}

static void conn_unready(struct os_net *net, struct net_conn *conn)
{
    if (list_empty(&conn->ready))
        return;
    list_remove(&conn->ready);
    net->ready_count--;
}

static void conn_bury(struct os_net *net, struct net_conn *conn)
{
    if (conn->dead)
        return;
    conn_unready(net, conn);
    (void)close(conn->source.fd); /* leaves epoll, too */
    conn->dead = true;
    buf_fini(&conn->out); /* what is in `in` may be under the handler's eyes */
    list_remove(&conn->place);
    list_add_tail(&net->dead, &conn->place);
    net->conn_count--;
}

static void free_dead(struct os_net *net)
{
    while (!list_empty(&net->dead)) {
        struct net_conn *conn = LIST_ENTRY(net->dead.next, struct net_conn, place);
        list_remove(&conn->place);
        buf_fini(&conn->in);
        buf_fini(&conn->out);
        mem_free(conn);
    }
}

/* ---- sending ---- */

static void conn_broke(struct os_net *net, struct net_conn *conn)
{
    conn->broken = true;
    conn_make_ready(net, conn, true); /* the next gather tells the handler */
}

/* A piece at a time: the system copies megabytes for milliseconds. */
static size_t send_some(struct os_net *net, struct net_conn *conn, const char *at, size_t len)
{
    size_t piece = len < SEND_BYTES ? len : SEND_BYTES;
    ssize_t sent = send(conn->source.fd, at, piece, MSG_NOSIGNAL);
    if (sent >= 0)
        return (size_t)sent;
    if (errno != EAGAIN && errno != EINTR && errno != ENOBUFS)
        conn_broke(net, conn);
    return 0;
}

static void net_send(struct net *base, struct net_conn *conn, struct buf *data)
{
    struct os_net *net = self(base);
    size_t sent = 0;
    if (!conn->broken && conn_unsent(conn) == 0)
        sent = send_some(net, conn, data->at, data->len);
    if (sent < data->len && conn->out.len == 0) { /* megabytes are not copied */
        struct buf empty = conn->out;
        conn->out = *data;
        conn->out_at = sent;
        *data = empty;
    } else {
        buf_add(&conn->out, data->at + sent, data->len - sent);
        data->len = 0;
    }
    if (conn_unsent(conn))
        conn_update(net, conn);
}

/* The socket takes bytes again. */
static void conn_writable(struct os_net *net, struct net_handler *handler, struct net_conn *conn)
{
    if (conn_unsent(conn)) {
        size_t sent = send_some(net, conn, conn->out.at + conn->out_at, conn_unsent(conn));
        conn->out_at += sent;
        handler->moved(handler, sent);
    }
    if (conn_unsent(conn) == 0) {
        buf_fini(&conn->out);
        conn->out_at = 0;
        if (conn->closing && conn->ended) {
            conn_bury(net, conn);
            return;
        }
        if (conn->closing)
            (void)shutdown(conn->source.fd, SHUT_WR);
        else
            handler->drained(handler, conn->user);
    }
    if (!conn->dead)
        conn_update(net, conn);
}

/* ---- receiving ---- */

/* So many of the kept bytes were used. What is left takes no more memory than it needs. */
static void keep_rest(struct net_conn *conn, size_t used)
{
    struct buf rest = {0};
    if (used == 0)
        return;
    if (used >= conn->in.len / 2 && used < conn->in.len)
        buf_add(&rest, conn->in.at + used, conn->in.len - used);
    else
        buf_drop(&conn->in, used);
    if (rest.len || conn->in.len == 0) {
        buf_fini(&conn->in);
        conn->in = rest;
    }
}

static void conn_show(struct os_net *net, struct net_handler *handler, struct net_conn *conn)
{
    conn->shown = true;
    size_t used = handler->input(handler, conn->user, buf_bytes(&conn->in));
    conn->shown = false;
    if (conn->dead || conn->closing)
        return;
    keep_rest(conn, used);
    conn_update(net, conn);
}

static void conn_lost(struct os_net *net, struct net_handler *handler, struct net_conn *conn)
{
    if (!conn->closing)
        handler->gone(handler, conn->user, false);
    conn_bury(net, conn);
}

static void conn_ended(struct os_net *net, struct net_handler *handler, struct net_conn *conn)
{
    conn->ended = true;
    if (conn->closing && conn_unsent(conn) == 0) {
        conn_bury(net, conn);
        return;
    }
    conn_update(net, conn);
    if (!conn->closing)
        handler->gone(handler, conn->user, true);
}

/* Bytes that had to wait take memory: the next read takes few. A stream of them is read in bulk. */
static void conn_learn(struct net_conn *conn, size_t used, size_t got)
{
    if (used < got)
        conn->read_bytes = READ_FIRST_BYTES;
    else if (got == conn->read_bytes && got < READ_BYTES)
        conn->read_bytes *= 2;
    else if (got < conn->read_bytes / 8 && conn->read_bytes > READ_FIRST_BYTES)
        conn->read_bytes /= 2;
}

static void conn_readable(struct os_net *net, struct net_handler *handler, struct net_conn *conn)
{
    char *room = net->read_room;
    ssize_t got = recv(conn->source.fd, room, conn->closing ? DROP_BYTES : conn->read_bytes, 0);
    if (got < 0) {
        if (errno != EAGAIN && errno != EINTR)
            conn_lost(net, handler, conn);
        return;
    }
    if (got == 0) {
        conn_ended(net, handler, conn);
        return;
    }
    if (conn->closing) { /* lingering: what comes now is dropped */
        handler->moved(handler, (size_t)got);
        return;
    }
    size_t used = handler->input(handler, conn->user, bytes_of(room, (size_t)got));
    if (conn->dead || conn->closing)
        return;
    conn_learn(conn, used, (size_t)got);
    if (used < (size_t)got)
        buf_add(&conn->in, room + used, (size_t)got - used);
}

/*
 * There is input, or its end, behind what is kept: it stays with the system, which then tells the
 * client to wait. That the client has ended its sending must be known all the same.
 */
static void conn_wait(struct os_net *net, struct net_handler *handler, struct net_conn *conn,
                      uint32_t what)
{
    bool gone = what & EPOLLERR || (what & EPOLLHUP && conn->leaving);
    conn->full = true;
    if (gone) {
        conn_lost(net, handler, conn);
    } else if (what & ((uint32_t)EPOLLRDHUP | EPOLLHUP) && !conn->leaving) {
        conn->leaving = true;
        handler->leaving(handler, conn->user);
    }
    if (!conn->dead)
        conn_update(net, conn);
}

/* Does what is to be done for the connection; it has just left `ready`. */
static void conn_serve(struct os_net *net, struct net_handler *handler, struct net_conn *conn)
{
    uint32_t what = conn->events;
    bool resumed = conn->resumed;
    conn->events = 0;
    conn->resumed = false;
    if (conn->broken) {
        conn_lost(net, handler, conn);
        return;
    }
    if (what & EPOLLOUT)
        conn_writable(net, handler, conn);
    if (conn->dead)
        return;
    bool kept = conn->in.len && !conn->closing;
    uint32_t over = what & ((uint32_t)EPOLLRDHUP | EPOLLERR | EPOLLHUP);
    if (kept && (over || (what & EPOLLIN && !resumed)))
        conn_wait(net, handler, conn, what);
    else if (kept)
        ; /* what there is comes first */
    else if ((what & ((uint32_t)EPOLLIN | EPOLLRDHUP)) && !conn->ended)
        conn_readable(net, handler, conn);
    else if (what & (EPOLLERR | EPOLLHUP))
        conn_lost(net, handler, conn);
    if (resumed && !conn->dead && conn->in.len && !conn->closing)
        conn_show(net, handler, conn);
    if (conn->resumed && conn->in.len && !conn->closing)
        conn_make_ready(net, conn, false);
}

/* ---- accepting ---- */

static void listeners_pause(struct os_net *net, int why)
{
    for (unsigned i = 0; i < net->listener_count; i++)
        (void)epoll_ctl(net->epoll, EPOLL_CTL_DEL, net->listeners[i].source.fd, NULL);
    net->accept_again_us = net->clock->now_us(net->clock) + ACCEPT_PAUSE_US;
    if (!net->accept_error_said)
        log_event(LOG_WARN, "accept_paused",
                  "error=\"%s\" hint=\"raise the limit of open files (ulimit -n) or lower "
                  "limits.connections\"",
                  strerror(why));
    net->accept_error_said = true;
}

static void listeners_go_on(struct os_net *net)
{
    if (!net->accept_again_us || net->clock->now_us(net->clock) < net->accept_again_us)
        return;
    net->accept_again_us = 0;
    for (unsigned i = 0; i < net->listener_count; i++)
        watch_source(net, &net->listeners[i].source, EPOLLIN);
}

static void conn_new(struct os_net *net, struct net_handler *handler, int fd, unsigned listener)
{
    int on = 1;
    struct net_conn *conn = mem_zalloc(sizeof(*conn));
    conn->source = (struct source){.kind = SOURCE_CONN, .fd = fd};
    conn->interest = (uint32_t)EPOLLIN | EPOLLRDHUP;
    conn->read_bytes = READ_FIRST_BYTES;
    list_init(&conn->ready);
    list_add_tail(&net->open, &conn->place);
    net->conn_count++;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)); /* unix sockets: no matter */
    watch_source(net, &conn->source, conn->interest);
    conn->user = handler->opened(handler, conn, listener);
}

static void accept_some(struct os_net *net, struct net_handler *handler, struct listener *listener)
{
    for (int i = 0; i < ACCEPTS; i++) {
        if (net->conn_count >= net->conn_max) {
            listeners_pause(net, EMFILE);
            return;
        }
        int fd = accept4(listener->source.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            conn_new(net, handler, fd, listener->number);
            continue;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
            listeners_pause(net, errno);
        if (errno != EINTR && errno != ECONNABORTED)
            return;
    }
}

/* ---- the port ---- */

/* Kernels before 5.11, and valgrind, know no epoll_pwait2: there sleeps end on whole milliseconds.
 */
static int wait_for_events(struct os_net *net, const struct timespec *limit)
{
    if (!net->coarse_sleep) {
        int count = epoll_pwait2(net->epoll, net->events, EVENTS, limit, NULL);
        if (count >= 0 || errno != ENOSYS)
            return count;
        net->coarse_sleep = true;
        log_event(LOG_WARN, "coarse_sleep",
                  "hint=\"this kernel has no epoll_pwait2: jobs come up to 1 ms later\"");
    }
    int64_t limit_ms = limit ? limit->tv_sec * 1000 + (limit->tv_nsec + 999999) / 1000000 : -1;
    return epoll_wait(net->epoll, net->events, EVENTS, (int)limit_ms);
}

static void net_sleep(struct net *base, int64_t until_us)
{
    struct os_net *net = self(base);
    struct timespec left = {0};
    const struct timespec *limit = &left;
    if (!list_empty(&net->lingering)) {
        struct net_conn *first = LIST_ENTRY(net->lingering.next, struct net_conn, place);
        if (first->linger_until_us < until_us)
            until_us = first->linger_until_us;
    }
    if (net->accept_again_us && net->accept_again_us < until_us)
        until_us = net->accept_again_us;
    if (until_us == INT64_MAX && list_empty(&net->ready)) {
        limit = NULL;
    } else if (list_empty(&net->ready) && until_us > 0) {
        int64_t left_us = until_us - net->clock->now_us(net->clock);
        if (left_us > SLEEP_MAX_US)
            left_us = SLEEP_MAX_US;
        if (left_us > 0)
            left = (struct timespec){left_us / 1000000, left_us % 1000000 * 1000};
    }
    net->event_count = wait_for_events(net, limit);
    CHECK(net->event_count >= 0 || errno == EINTR);
}

static void end_lingering(struct os_net *net)
{
    if (list_empty(&net->lingering))
        return;
    int64_t now_us = net->clock->now_us(net->clock);
    while (!list_empty(&net->lingering)) {
        struct net_conn *conn = LIST_ENTRY(net->lingering.next, struct net_conn, place);
        if (conn->linger_until_us > now_us)
            return;
        conn_bury(net, conn);
    }
}

/* Who has gone comes first: they are not to be handed a job any more (P6). */
static void note_events(struct os_net *net)
{
    for (int i = 0; i < net->event_count; i++) {
        struct source *source = net->events[i].data.ptr;
        uint32_t what = net->events[i].events;
        switch (source->kind) {
        case SOURCE_CONN: {
            struct net_conn *conn = (struct net_conn *)source;
            conn->events |= what;
            conn_make_ready(net, conn, what & ((uint32_t)EPOLLRDHUP | EPOLLERR | EPOLLHUP));
            break;
        }
        case SOURCE_LISTENER: ((struct listener *)source)->waiting = true; break;
        case SOURCE_WATCH: break; /* it only had to wake us */
        }
    }
    net->event_count = 0;
}

static bool net_gather(struct net *base, struct net_handler *handler)
{
    struct os_net *net = self(base);
    note_events(net);
    for (unsigned i = 0; i < net->listener_count; i++) {
        if (net->listeners[i].waiting)
            accept_some(net, handler, &net->listeners[i]);
        net->listeners[i].waiting = false;
    }
    for (unsigned count = net->ready_count; count > 0 && net->ready_count > 0; count--) {
        if (handler->spent(handler))
            break;
        struct net_conn *conn = LIST_ENTRY(net->ready.next, struct net_conn, ready);
        conn_unready(net, conn);
        conn_serve(net, handler, conn);
    }
    listeners_go_on(net);
    end_lingering(net);
    free_dead(net);
    return net->ready_count > 0;
}

static size_t net_unsent(const struct net *base, const struct net_conn *conn)
{
    (void)base;
    return conn_unsent(conn);
}

static size_t net_held(const struct net *base, const struct net_conn *conn)
{
    (void)base;
    return conn->in.cap + conn->out.cap;
}

static void net_resume(struct net *base, struct net_conn *conn)
{
    conn->resumed = true; /* from within input(): conn_serve() looks at it afterwards */
    if (conn->in.len && !conn->broken)
        conn_make_ready(self(base), conn, false);
}

static void net_close(struct net *base, struct net_conn *conn, bool linger)
{
    struct os_net *net = self(base);
    if (conn->dead)
        return;
    if (!linger || conn->broken) {
        conn_bury(net, conn);
        return;
    }
    conn->closing = true;
    conn->user = NULL;
    if (!conn->shown)
        buf_fini(&conn->in);
    conn->linger_until_us = net->clock->now_us(net->clock) + LINGER_US;
    list_remove(&conn->place);
    list_add_tail(&net->lingering, &conn->place);
    if (conn_unsent(conn) == 0)
        (void)shutdown(conn->source.fd, SHUT_WR);
    if (conn->ended && conn_unsent(conn) == 0)
        conn_bury(net, conn);
    else
        conn_update(net, conn);
}

static void net_stop_listening(struct net *base)
{
    struct os_net *net = self(base);
    for (unsigned i = 0; i < net->listener_count; i++)
        (void)close(net->listeners[i].source.fd);
    net->listener_count = 0;
    net->accept_again_us = 0;
}

static const struct net_verbs verbs = {
    .sleep = net_sleep,
    .gather = net_gather,
    .send = net_send,
    .unsent = net_unsent,
    .held = net_held,
    .resume = net_resume,
    .close = net_close,
    .stop_listening = net_stop_listening,
};

/* Those that are open now: standard streams, listeners, what we were started with. */
static rlim_t descriptors_open(void)
{
    rlim_t count = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (dir && readdir(dir))
        count++; /* "." and ".." and its own among them: no matter */
    if (dir)
        (void)closedir(dir); /* only read */
    return count;
}

/* How many descriptors the process may have, but for those that are not connections. */
static unsigned descriptors_for_conns(unsigned reserved)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > UINT32_MAX)
        return UINT32_MAX;
    rlim_t spare = descriptors_open() + reserved + SPARE_DESCRIPTORS;
    if (spare > limit.rlim_cur / 2)
        spare = limit.rlim_cur / 2;
    return (unsigned)(limit.rlim_cur - spare);
}

struct os_net *os_net_new(struct clock *clock, unsigned reserved)
{
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0)
        return NULL;
    struct os_net *net = mem_zalloc(sizeof(*net));
    net->net.verbs = &verbs;
    net->clock = clock;
    net->epoll = epoll;
    net->conn_max = descriptors_for_conns(reserved);
    list_init(&net->open);
    list_init(&net->ready);
    list_init(&net->lingering);
    list_init(&net->dead);
    return net;
}

void os_net_free(struct os_net *net)
{
    if (!net)
        return;
    struct list *const all[] = {&net->open, &net->lingering};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        while (!list_empty(all[i]))
            conn_bury(net, LIST_ENTRY(all[i]->next, struct net_conn, place));
    }
    free_dead(net);
    net_stop_listening(&net->net);
    (void)close(net->epoll);
    mem_free(net);
}

struct net *os_net_port(struct os_net *net)
{
    return &net->net;
}

/*
 * A client whose machine or network is gone says nothing, not even goodbye. A beanstalkd client may
 * be silent for ever and hold jobs, so the system is to ask after it. Connections inherit this; for
 * unix sockets it means nothing.
 */
static void ask_after_the_silent(int fd)
{
    static const struct {
        int level, name, value;
    } options[] = {
        {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, SILENT_S},
        {IPPROTO_TCP, TCP_KEEPINTVL, SILENT_AGAIN_S},
        {IPPROTO_TCP, TCP_KEEPCNT, SILENT_TIMES},
    };
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
        (void)setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof(int));
}

void os_net_listen(struct os_net *net, int fd, unsigned listener)
{
    CHECK(net->listener_count < NET_LISTENERS_MAX);
    ask_after_the_silent(fd);
    struct listener *at = &net->listeners[net->listener_count++];
    *at = (struct listener){.source = {.kind = SOURCE_LISTENER, .fd = fd}, .number = listener};
    watch_source(net, &at->source, EPOLLIN);
}

void os_net_watch(struct os_net *net, int fd)
{
    CHECK(net->watch_count < sizeof(net->watches) / sizeof(net->watches[0]));
    struct source *at = &net->watches[net->watch_count++];
    *at = (struct source){.kind = SOURCE_WATCH, .fd = fd};
    watch_source(net, at, (uint32_t)EPOLLIN | EPOLLET);
}

unsigned os_net_count(const struct os_net *net)
{
    return net->conn_count;
}
