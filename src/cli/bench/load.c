#include "cli/bench/load.h"

#include <errno.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/mem.h"
#include "port/clock.h"

enum {
    READ_BYTES = 64 * 1024,
    EVENTS = 256,
    TICK_MS = 200,
    CONNECT_US = 5 * 1000000,
};

int64_t load_clock(struct load *load)
{
    load->now_us = clock_read_us(CLOCK_MONOTONIC) + load->offset_us;
    return load->now_us;
}

enum err load_open(struct load *load, struct dial *dial, load_scan *scan, uint32_t connections,
                   uint32_t deep)
{
    *load = (struct load){.epoll = epoll_create1(EPOLL_CLOEXEC), .scan = scan, .ring = 4};
    if (load->epoll < 0)
        return ERR_IO;
    /* Wall time is read once: the server anchors its clock the same way, so the two stay equal. */
    load->offset_us = clock_read_us(CLOCK_REALTIME) - clock_read_us(CLOCK_MONOTONIC);
    load->quiet_us = 10 * INT64_C(1000000);
    while (load->ring < deep)
        load->ring *= 2;
    load->latency = mem_zalloc(LOAD_KINDS * sizeof(*load->latency));
    load->conns = mem_zalloc(connections * sizeof(*load->conns));
    for (uint32_t i = 0; i < connections; i++) {
        struct load_conn *conn = &load->conns[i];
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = conn};
        if (dial_connect(dial, CONNECT_US, &conn->fd))
            return ERR_IO;
        load->conn_count++;
        conn->expected = mem_alloc(load->ring * sizeof(*conn->expected));
        if (epoll_ctl(load->epoll, EPOLL_CTL_ADD, conn->fd, &event) != 0)
            return ERR_IO;
    }
    return OK;
}

void load_close(struct load *load)
{
    for (uint32_t i = 0; i < load->conn_count; i++) {
        struct load_conn *conn = &load->conns[i];
        (void)close(conn->fd); /* what was in flight does not matter any more */
        buf_fini(&conn->out);
        buf_fini(&conn->in);
        mem_free(conn->expected);
    }
    if (load->epoll >= 0)
        (void)close(load->epoll); /* as above */
    mem_free(load->conns);
    mem_free(load->latency);
    *load = (struct load){.epoll = -1};
}

static void fail(struct load *load, const char *what, const char *why)
{
    if (load->failed)
        return; /* the first reason is the real one */
    load->failed = true;
    (void)snprintf(load->error, sizeof(load->error), "%s%s", what, why); /* for people */
}

void load_expect(struct load *load, struct load_conn *conn, enum load_kind kind)
{
    CHECK(load_has_room(load, conn));
    conn->expected[(conn->first + conn->waiting) & (load->ring - 1)] =
        (struct load_expected){.at_us = load->now_us, .kind = kind};
    conn->waiting++;
    conn->dirty = true;
}

bool load_has_room(const struct load *load, const struct load_conn *conn)
{
    return conn->waiting < load->ring;
}

static void want_writable(struct load *load, struct load_conn *conn, bool wanted)
{
    struct epoll_event event = {.events = wanted ? EPOLLIN | EPOLLOUT : EPOLLIN, .data.ptr = conn};
    if (conn->writable_wanted == wanted)
        return;
    conn->writable_wanted = wanted;
    if (epoll_ctl(load->epoll, EPOLL_CTL_MOD, conn->fd, &event) != 0)
        fail(load, "epoll: ", strerror(errno));
}

void load_flush(struct load *load, struct load_conn *conn)
{
    conn->dirty = false;
    while (conn->sent < conn->out.len) {
        ssize_t count =
            send(conn->fd, conn->out.at + conn->sent, conn->out.len - conn->sent, MSG_NOSIGNAL);
        if (count > 0) {
            conn->sent += (size_t)count;
        } else if (errno == EAGAIN) {
            want_writable(load, conn, true);
            return;
        } else if (errno != EINTR) {
            fail(load, "a connection broke: ", strerror(errno));
            return;
        }
    }
    conn->out.len = 0;
    conn->sent = 0;
    want_writable(load, conn, false);
}

/* Where nothing was answered as the protocol has it, it may be the port of another one. */
static const char *at_first(const struct load *load)
{
    return load->answers == 0
               ? ": is it a port for HTTP, or with --beanstalk one for clients of beanstalkd?"
               : "";
}

/* Hands every whole answer to the script. */
static void take_answers(struct load *load, struct load_conn *conn)
{
    size_t used = 0, len;
    bool bad = false;
    struct load_answer answer;
    while (!load->done &&
           load->scan(bytes_of(conn->in.at + used, conn->in.len - used), &answer, &len, &bad)) {
        if (conn->waiting == 0) {
            fail(load, "an answer came that nobody asked for", at_first(load));
            return;
        }
        const struct load_expected expected = conn->expected[conn->first & (load->ring - 1)];
        conn->first++;
        conn->waiting--;
        answer.kind = expected.kind;
        answer.now_us = load->now_us;
        histogram_add(&load->latency[expected.kind], load->now_us - expected.at_us);
        load->answers++;
        load->script->answer(load->script, load, conn, &answer);
        used += len;
    }
    buf_drop(&conn->in, used);
    if (bad)
        fail(load, "an answer is not as the protocol has it", at_first(load));
}

static void readable(struct load *load, struct load_conn *conn)
{
    buf_reserve(&conn->in, READ_BYTES);
    ssize_t count = recv(conn->fd, conn->in.at + conn->in.len, READ_BYTES, 0);
    if (count > 0) {
        conn->in.len += (size_t)count;
        (void)load_clock(load);
        take_answers(load, conn);
    } else if (count == 0) {
        fail(load, "the server closed a connection", at_first(load));
    } else if (errno != EAGAIN && errno != EINTR) {
        fail(load, "a connection broke: ", strerror(errno));
    }
}

/* Waits for answers, but not past the script's alarm, `until_us`, or the next tick. */
static int wait_for(const struct load *load, struct epoll_event *events, int64_t until_us)
{
    int64_t first_us = load->wake_us < until_us ? load->wake_us : until_us;
    int64_t left_us = first_us - load->now_us;
    if (left_us > TICK_MS * 1000)
        left_us = TICK_MS * 1000;
    if (left_us < 0)
        left_us = 0;
    const struct timespec limit = {.tv_nsec = left_us * 1000};
    return epoll_pwait2(load->epoll, events, EVENTS, &limit, NULL);
}

/* One wait, and all that it brought. */
static void turn(struct load *load, int64_t until_us)
{
    struct epoll_event events[EVENTS];
    int count = wait_for(load, events, until_us);
    if (count < 0 && errno != EINTR)
        fail(load, "epoll: ", strerror(errno));
    for (int i = 0; i < count && !load->failed && !load->done; i++) {
        struct load_conn *conn = events[i].data.ptr;
        if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
            readable(load, conn);
        if (conn->dirty || events[i].events & EPOLLOUT)
            load_flush(load, conn);
    }
    if (load_clock(load) >= load->wake_us && !load->failed && !load->done) {
        load->wake_us = INT64_MAX;
        load->script->wake(load->script, load);
    }
}

static bool is_interrupted(const struct load *load)
{
    return load->interrupted && *load->interrupted;
}

void load_run(struct load *load, struct load_script *script, int64_t until_us)
{
    uint64_t answers_before = load->answers;
    int64_t tick_us = load_clock(load), heard_us = tick_us;
    load->script = script;
    load->done = false;
    load->wake_us = INT64_MAX;
    for (uint32_t i = 0; i < load->conn_count && !load->failed; i++) {
        script->begin(script, load, &load->conns[i]);
        if (load->conns[i].dirty)
            load_flush(load, &load->conns[i]);
    }
    while (!load->done && !load->failed && !is_interrupted(load) && load->now_us < until_us) {
        turn(load, until_us);
        if (load->now_us - tick_us < TICK_MS * 1000)
            continue;
        tick_us = load->now_us;
        if (load->answers != answers_before)
            heard_us = tick_us;
        answers_before = load->answers;
        if (load->quiet_us && tick_us - heard_us > load->quiet_us)
            fail(load, "no answer for 10 seconds", "");
        script->tick(script, load);
    }
}
