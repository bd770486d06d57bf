/*
 * Owns the epoll instance, the listeners, the streams and the mailbox.
 */
#include "os/loop.h"

#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "os/loop_parts.h"

enum {
    SILENT_S = 60,       /* TCP keepalive of clients: silence before the first probe */
    SILENT_AGAIN_S = 15, /* between probes */
    SILENT_TIMES = 4,    /* probes: a dead client is closed within two minutes */
    ACCEPTS = 128,       /* of one listener in a turn, at most, … */
    ACCEPTS_LEAST = 16,  /* … and if the turn's share is spent */
    ACCEPT_NS = 6000,    /* work for one client: the system's calls, and its session */
    MESSAGES = 100,      /* of other threads in a turn, at most, … */
    MESSAGE_NS = 2000,   /* … and the work for one */
    ACCEPT_PAUSE_US = 200 * 1000,
    ACCEPT_REPORT_US = 60 * 1000 * 1000, /* pauses are logged no more often than this */
    SLEEP_MAX_US = 2000 * 1000,          /* the kernel's timeouts do not count time of suspension */
    SPARE_DESCRIPTORS = 40,              /* for streams to servers, and the like */
};

static struct os_loop *self(struct loop *loop)
{
    return (struct os_loop *)loop; /* its first member */
}

static int64_t read_clock(const struct os_loop *loop)
{
    return loop->loop.clock->now_us(loop->loop.clock);
}

bool loop_watch_source(struct os_loop *loop, struct source *source, uint32_t interest)
{
    struct epoll_event event = {.events = interest, .data.ptr = source};
    int failed = epoll_ctl(loop->epoll, EPOLL_CTL_ADD, source->fd, &event);
    CHECK(!failed || errno == ENOMEM || errno == ENOSPC || source->kind == SOURCE_WATCH);
    return !failed;
}

/* ---- accepting ---- */

static const char *pause_hint(int why)
{
    switch (why) {
    case ENOSPC: return "raise sysctl fs.epoll.max_user_watches or lower limits.connections";
    case ENOMEM:
    case ENOBUFS: return "the kernel has no memory for more connections: lower limits.connections";
    default: return "raise the limit of open files (ulimit -n) or lower limits.connections";
    }
}

/* No client is accepted for a while; `why` is an errno. */
static void listeners_pause(struct os_loop *loop, int why)
{
    for (unsigned i = 0; i < loop->listener_count; i++)
        (void)epoll_ctl(loop->epoll, EPOLL_CTL_DEL, loop->listeners[i].source.fd, NULL);
    int64_t now_us = read_clock(loop);
    loop->accept_again_us = now_us + ACCEPT_PAUSE_US;
    if (now_us < loop->accept_report_us)
        return;
    log_event(LOG_WARN, "accept_paused", "error=\"%s\" hint=\"%s\"", strerror(why),
              pause_hint(why));
    loop->accept_report_us = now_us + ACCEPT_REPORT_US;
}

static void resume_listeners(struct os_loop *loop)
{
    if (!loop->accept_again_us || read_clock(loop) < loop->accept_again_us)
        return;
    loop->accept_again_us = 0;
    for (unsigned i = 0; i < loop->listener_count; i++) {
        if (loop_watch_source(loop, &loop->listeners[i].source, EPOLLIN))
            continue;
        listeners_pause(loop, errno);
        return;
    }
}

/* False: epoll refused it, with errno; it is closed. */
static bool take_client(struct os_loop *loop, int fd, const struct listener *listener)
{
    int on = 1;
    struct os_stream *stream = stream_new(loop, fd);
    stream->interest = (uint32_t)EPOLLIN | EPOLLRDHUP;
    stream->client = true;
    loop->client_count++;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)); /* unix sockets: no matter */
    if (!loop_watch_source(loop, &stream->source, stream->interest)) {
        int why = errno;
        stream_discard(stream); /* unwatched it would never be served */
        errno = why;
        return false;
    }
    if (listener->tls)
        stream_accept_tls(stream, listener);
    else
        loop->loop.acceptor->accepted(loop->loop.acceptor, &stream->stream, listener->number);
    return true;
}

static void accept_some(struct os_loop *loop, struct listener *listener)
{
    struct loop_share *share = loop->share;
    for (int i = 0; i < ACCEPTS; i++) {
        if (i >= ACCEPTS_LEAST && share && share->spent(share))
            return;
        if (loop->client_count >= loop->client_max) {
            listeners_pause(loop, EMFILE);
            return;
        }
        int fd = accept4(listener->source.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            if (share)
                share->worked(share, ACCEPT_NS);
            if (take_client(loop, fd, listener))
                continue;
            listeners_pause(loop, errno);
            return;
        }
        if (errno == EINTR || errno == ECONNABORTED)
            continue;
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
            listeners_pause(loop, errno);
        return;
    }
}

/* Of each listener its share. A pause is for all: another one would only close the client that it
   accepts. The one behind the listener that met the limit is first after the pause, so that none
   takes all descriptors that become free. */
static void accept_clients(struct os_loop *loop)
{
    unsigned first = loop->first_listener;
    loop->clients_wait = false; /* epoll reports again those that are not accepted now */
    for (unsigned i = 0; i < loop->listener_count; i++) {
        unsigned number = (first + i) % loop->listener_count;
        struct listener *listener = &loop->listeners[number];
        if (listener->waiting && !loop->accept_again_us) {
            accept_some(loop, listener);
            if (loop->accept_again_us)
                loop->first_listener = number + 1;
        }
        listener->waiting = false;
    }
}

/* Discards the clients whose TLS handshake is not finished. */
static void end_unaccepted(struct os_loop *loop)
{
    struct list *next;
    for (struct list *at = loop->open.next; at != &loop->open; at = next) {
        struct os_stream *stream = LIST_ENTRY(at, struct os_stream, place);
        next = at->next;
        if (stream->client && stream->opening)
            stream_discard(stream);
    }
}

static void loop_stop_listening(struct loop *base)
{
    struct os_loop *loop = self(base);
    end_unaccepted(loop);
    for (unsigned i = 0; i < loop->listener_count; i++)
        (void)close(loop->listeners[i].source.fd);
    loop->listener_count = 0;
    loop->accept_again_us = 0;
}

/* ---- descriptors of others ---- */

static void end_watch(struct os_loop *loop, struct watch_source *source)
{
    (void)epoll_ctl(loop->epoll, EPOLL_CTL_DEL, source->source.fd, NULL);
    source->watch->source = NULL;
    source->watch = NULL;
    list_remove(&source->place);
    list_add_tail(&loop->dead_watches, &source->place); /* events of it may be waiting */
}

static enum err loop_watch(struct loop *base, struct watch *watch, unsigned what)
{
    struct os_loop *loop = self(base);
    struct watch_source *source = watch->source;
    uint32_t interest = (what & LOOP_READ ? (uint32_t)EPOLLIN | EPOLLRDHUP : 0) |
                        (what & LOOP_WRITE ? (uint32_t)EPOLLOUT : 0);
    if (!what) {
        if (source)
            end_watch(loop, source);
        return OK;
    }
    if (source) {
        struct epoll_event event = {.events = interest, .data.ptr = &source->source};
        (void)epoll_ctl(loop->epoll, EPOLL_CTL_MOD, watch->fd, &event); /* it is there */
        return OK;
    }
    source = mem_zalloc(sizeof(*source));
    source->source = (struct source){.kind = SOURCE_WATCH, .fd = watch->fd};
    source->watch = watch;
    watch->source = source;
    list_add_tail(&loop->watches, &source->place);
    if (loop_watch_source(loop, &source->source, interest))
        return OK;
    int why = errno;
    end_watch(loop, source);
    errno = why;
    return ERR_IO;
}

static void serve_watches(struct os_loop *loop)
{
    while (!list_empty(&loop->triggered)) {
        struct watch_source *source = LIST_ENTRY(loop->triggered.next, struct watch_source, place);
        uint32_t events = source->events;
        bool broken = events & ((uint32_t)EPOLLERR | EPOLLHUP);
        bool reads = broken || events & ((uint32_t)EPOLLIN | EPOLLRDHUP);
        bool writes = broken || events & EPOLLOUT;
        source->events = 0;
        list_remove(&source->place);
        list_add_tail(&loop->watches, &source->place);
        source->watch->ready(source->watch, (reads ? (unsigned)LOOP_READ : 0) |
                                                (writes ? (unsigned)LOOP_WRITE : 0));
    }
}

static void note_watch(struct os_loop *loop, struct watch_source *source, uint32_t what)
{
    if (!source->watch)
        return; /* it ended meanwhile */
    source->events |= what;
    list_remove(&source->place);
    list_add_tail(&loop->triggered, &source->place);
}

static void free_dead_watches(struct os_loop *loop)
{
    while (!list_empty(&loop->dead_watches)) {
        struct watch_source *source =
            LIST_ENTRY(loop->dead_watches.next, struct watch_source, place);
        list_remove(&source->place);
        mem_free(source);
    }
}

/* ---- messages ---- */

static void loop_post(struct loop *base, struct message *message)
{
    mailbox_post(&self(base)->mailbox->mailbox, &message->place);
}

/* With a share some messages, one at least, while it is not spent: one may bring the outcomes of
 * hundreds of deliveries. The others come in the next gather, before those posted meanwhile. */
static void take_mail(struct os_loop *loop)
{
    struct loop_share *share = loop->share;
    unsigned count = 0;
    while (loop->mail || loop->mail_left) {
        if (!loop->mail_left) {
            loop->mail = false;
            loop->mail_left = mailbox_take_all(&loop->mailbox->mailbox);
            continue;
        }
        if (share && count > 0 && (count == MESSAGES || share->spent(share)))
            return;
        count++;
        struct message *message = LIST_ENTRY(loop->mail_left, struct message, place);
        loop->mail_left = loop->mail_left->next; /* `arrived` may free it */
        message->arrived(message);
        if (share)
            share->worked(share, MESSAGE_NS);
    }
}

/* ---- turns ---- */

/* Linux before 5.11, and valgrind, have no epoll_pwait2: there sleeps end on whole milliseconds. */
static int wait_for_events(struct os_loop *loop, const struct timespec *limit)
{
    if (!loop->coarse_sleep) {
        int count = epoll_pwait2(loop->epoll, loop->events, EVENTS, limit, NULL);
        if (count >= 0 || errno != ENOSYS)
            return count;
        loop->coarse_sleep = true;
        log_event(LOG_WARN, "coarse_sleep",
                  "hint=\"this kernel has no epoll_pwait2: jobs come up to 1 ms later\"");
    }
    int64_t limit_ms = limit ? limit->tv_sec * 1000 + (limit->tv_nsec + 999999) / 1000000 : -1;
    return epoll_wait(loop->epoll, loop->events, EVENTS, (int)limit_ms);
}

/* Before the events of the last sleep are overwritten: if the turn ended without gather() (its
 * server no longer leads), they were not handled. Its connections are closed, and listeners are
 * level-triggered, but the mailbox is edge-triggered and must be remembered. */
static void keep_mail_event(struct os_loop *loop)
{
    for (int i = 0; i < loop->event_count; i++)
        loop->mail |= loop->events[i].data.ptr == &loop->mail_source;
}

static void sleep_until(struct loop *base, int64_t until_us)
{
    struct os_loop *loop = self(base);
    struct timespec left = {0};
    const struct timespec *limit = &left;
    if (!list_empty(&loop->lingering)) {
        struct os_stream *first = LIST_ENTRY(loop->lingering.next, struct os_stream, place);
        if (first->linger_until_us < until_us)
            until_us = first->linger_until_us;
    }
    if (loop->accept_again_us && loop->accept_again_us < until_us)
        until_us = loop->accept_again_us;
    keep_mail_event(loop);
    bool idle = list_empty(&loop->ready) && !loop->mail && !loop->mail_left;
    if (until_us == INT64_MAX && idle) {
        limit = NULL;
    } else if (idle && until_us > 0) {
        int64_t left_us = until_us - read_clock(loop);
        if (left_us > SLEEP_MAX_US)
            left_us = SLEEP_MAX_US;
        if (left_us > 0)
            left = (struct timespec){left_us / 1000000, left_us % 1000000 * 1000};
    }
    loop->event_count = wait_for_events(loop, limit);
    CHECK(loop->event_count >= 0 || errno == EINTR);
}

/* Streams whose other side has gone are first in `ready`: an event of the same sleep must not hand
 * them a job (P6). */
static void note_events(struct os_loop *loop)
{
    for (int i = 0; i < loop->event_count; i++) {
        struct source *source = loop->events[i].data.ptr;
        uint32_t what = loop->events[i].events;
        switch (source->kind) {
        case SOURCE_STREAM: {
            struct os_stream *stream = LIST_ENTRY(source, struct os_stream, source);
            bool over = what & ((uint32_t)EPOLLRDHUP | EPOLLERR | EPOLLHUP);
            stream->events |= what;
            if (over) {
                stream_make_ready_first(stream);
                stream_notify_end(stream);
            } else {
                stream_make_ready(stream);
            }
            break;
        }
        case SOURCE_LISTENER:
            ((struct listener *)source)->waiting = true;
            loop->clients_wait = true;
            break;
        case SOURCE_WATCH: note_watch(loop, (struct watch_source *)source, what); break;
        case SOURCE_WAKER: loop->mail |= source == &loop->mail_source; break;
        }
    }
    loop->event_count = 0;
}

static bool gather(struct loop *base, struct loop_share *share)
{
    struct os_loop *loop = self(base);
    loop->share = share;
    note_events(loop);
    take_mail(loop);
    serve_watches(loop);
    for (unsigned count = loop->ready_count; count > 0 && loop->ready_count > 0; count--) {
        if (share && share->spent(share))
            break;
        struct os_stream *stream = LIST_ENTRY(loop->ready.next, struct os_stream, ready);
        stream_unready(stream);
        if (share)
            share->visit(share);
        stream_serve(stream);
    }
    if (loop->clients_wait) /* behind the others: however many come, those that are here are served
                             */
        accept_clients(loop);
    loop->share = NULL;
    resume_listeners(loop);
    streams_end_lingering(loop);
    streams_free_dead(loop);
    free_dead_watches(loop);
    (void)timers_trim(&base->timers); /* the rest in later turns */
    return loop->ready_count > 0 || loop->mail || loop->mail_left;
}

static const struct loop_verbs verbs = {
    .sleep = sleep_until,
    .gather = gather,
    .connect = stream_open,
    .stop_listening = loop_stop_listening,
    .watch = loop_watch,
    .post = loop_post,
};

/* ---- life ---- */

/* The number of descriptors that are open now: standard streams, listeners, inherited ones. */
static rlim_t descriptors_open(void)
{
    rlim_t count = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (dir && readdir(dir))
        count++; /* counts ".", ".." and its own descriptor, too: a few more do no harm */
    if (dir)
        (void)closedir(dir); /* only read */
    return count;
}

/* How many descriptors clients may take: the limit without what is open and what is reserved. */
static unsigned descriptors_for_clients(unsigned reserved)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > UINT32_MAX)
        return UINT32_MAX;
    rlim_t spare = descriptors_open() + reserved + SPARE_DESCRIPTORS;
    if (spare > limit.rlim_cur / 2)
        spare = limit.rlim_cur / 2;
    return (unsigned)(limit.rlim_cur - spare);
}

struct os_loop *os_loop_new(struct clock *clock, unsigned reserved)
{
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct shared_mailbox *mailbox = epoll < 0 ? NULL : shared_mailbox_new();
    if (!mailbox) {
        int why = errno;
        if (epoll >= 0)
            (void)close(epoll);
        errno = why;
        return NULL;
    }
    struct os_loop *loop = mem_zalloc(sizeof(*loop));
    loop->loop = (struct loop){.verbs = &verbs, .clock = clock, .now_us = clock->now_us(clock)};
    timers_init(&loop->loop.timers, loop->loop.now_us);
    loop->epoll = epoll;
    loop->mailbox = mailbox;
    loop->client_max = descriptors_for_clients(reserved);
    list_init(&loop->open);
    list_init(&loop->ready);
    list_init(&loop->lingering);
    list_init(&loop->dead);
    list_init(&loop->watches);
    list_init(&loop->triggered);
    list_init(&loop->dead_watches);
    resolver_init(&loop->resolver, mailbox);
    loop->mail_source = (struct source){.kind = SOURCE_WAKER, .fd = mailbox_fd(&mailbox->mailbox)};
    (void)loop_watch_source(loop, &loop->mail_source, (uint32_t)EPOLLIN | EPOLLET);
    return loop;
}

void os_loop_free(struct os_loop *loop)
{
    if (!loop)
        return;
    struct list *const all[] = {&loop->open, &loop->lingering};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        while (!list_empty(all[i]))
            stream_discard(LIST_ENTRY(all[i]->next, struct os_stream, place));
    }
    streams_free_dead(loop);
    discard_fini(&loop->loop.discard);
    CHECK(list_empty(&loop->watches));
    free_dead_watches(loop);
    resolver_fini(&loop->resolver);
    loop->mail = true;
    take_mail(loop); /* messages that arrived since the last turn, such as looked-up names */
    shared_mailbox_drop(loop->mailbox);
    loop_stop_listening(&loop->loop);
    timers_fini(&loop->loop.timers);
    (void)close(loop->epoll);
    mem_free(loop);
}

struct loop *os_loop_port(struct os_loop *loop)
{
    return &loop->loop;
}

void os_loop_listen(struct os_loop *loop, int fd, unsigned listener)
{
    os_loop_listen_tls(loop, fd, listener, NULL, 0);
}

void os_loop_listen_tls(struct os_loop *loop, int fd, unsigned listener, struct tls *tls,
                        int64_t timeout_us)
{
    CHECK(loop->listener_count < LOOP_LISTENERS_MAX);
    /* A beanstalkd client may be silent forever and hold jobs. */
    socket_keepalive(fd, SILENT_S, SILENT_AGAIN_S, SILENT_TIMES);
    struct listener *at = &loop->listeners[loop->listener_count++];
    *at = (struct listener){.source = {.kind = SOURCE_LISTENER, .fd = fd},
                            .number = listener,
                            .tls = tls,
                            .timeout_us = timeout_us};
    if (!loop->accept_again_us) /* else resume_listeners() watches it with the others */
        (void)loop_watch_source(loop, &at->source, EPOLLIN);
}

void os_loop_wake_by(struct os_loop *loop, int fd)
{
    unsigned place = 0;
    while (place < loop->waker_count && loop->wakers[place].fd >= 0)
        place++;
    CHECK(place < WAKERS_MAX);
    if (place == loop->waker_count)
        loop->waker_count++;
    struct source *at = &loop->wakers[place];
    *at = (struct source){.kind = SOURCE_WAKER, .fd = fd};
    (void)loop_watch_source(loop, at, (uint32_t)EPOLLIN | EPOLLET);
}

void os_loop_forget(struct os_loop *loop, int fd)
{
    for (unsigned i = 0; i < loop->waker_count; i++) {
        if (loop->wakers[i].fd != fd)
            continue;
        (void)epoll_ctl(loop->epoll, EPOLL_CTL_DEL, fd, NULL); /* it was watched, and is open */
        loop->wakers[i].fd = -1;                               /* its place is free */
    }
}

unsigned os_loop_count(const struct os_loop *loop)
{
    return loop->stream_count;
}
