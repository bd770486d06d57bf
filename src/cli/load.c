#include "cli/load.h"

#include <errno.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/mem.h"

enum {
    READ_BYTES = 64 * 1024,
    EVENTS = 256,
    TICK_MS = 200,
    CONNECT_US = 5 * 1000000,
};

static int64_t read_clock(clockid_t id)
{
    struct timespec now;
    (void)clock_gettime(id, &now); /* cannot fail with the clocks we use */
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t load_clock(struct load *load)
{
    load->now_us = read_clock(CLOCK_MONOTONIC) + load->offset_us;
    return load->now_us;
}

enum err load_open(struct load *load, struct client *client, uint32_t connections, uint32_t deep)
{
    *load = (struct load){.epoll = epoll_create1(EPOLL_CLOEXEC), .ring = 4};
    if (load->epoll < 0)
        return ERR_IO;
    /* Wall time is read once: the server anchors its clock the same way, so the two stay equal. */
    load->offset_us = read_clock(CLOCK_REALTIME) - read_clock(CLOCK_MONOTONIC);
    load->quiet_us = 10 * INT64_C(1000000);
    while (load->ring < deep)
        load->ring *= 2;
    load->latency = mem_zalloc(LOAD_KINDS * sizeof(*load->latency));
    load->conns = mem_zalloc(connections * sizeof(*load->conns));
    for (uint32_t i = 0; i < connections; i++) {
        struct load_conn *conn = &load->conns[i];
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = conn};
        if (client_dial(client, CONNECT_US, &conn->fd))
            return ERR_IO;
        load->conn_count++;
        conn->asked = mem_alloc(load->ring * sizeof(*conn->asked));
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
        mem_free(conn->asked);
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
    (void)snprintf(load->trouble, sizeof(load->trouble), "%s%s", what, why); /* for people */
}

void load_asked(struct load *load, struct load_conn *conn, enum load_kind kind)
{
    CHECK(conn->waiting < load->ring);
    conn->asked[(conn->first + conn->waiting) & (load->ring - 1)] =
        (struct load_asked){.at_us = load->now_us, .kind = kind};
    conn->waiting++;
    conn->dirty = true;
}

static bool starts_nocase(const char *at, const char *end, struct bytes name)
{
    return (size_t)(end - at) >= name.len && bytes_eq_nocase(bytes_of(at, name.len), name);
}

bool load_scan(struct bytes in, struct load_answer *out_answer, size_t *out_len, bool *out_bad)
{
    const char *end = in.len > 0 ? memmem(in.at, in.len, "\r\n\r\n", 4) : NULL;
    uint64_t length = 0;
    bool sized = false;
    *out_bad = false;
    if (!end)
        return false;
    /* "HTTP/1.1 200": the three digits stand at a fixed place. */
    *out_bad = end - in.at < 12 || memcmp(in.at, "HTTP/1.1 ", 9) != 0;
    if (*out_bad)
        return false;
    int status = (in.at[9] - '0') * 100 + (in.at[10] - '0') * 10 + (in.at[11] - '0');
    for (const char *line = in.at; !sized && (line = memchr(line, '\n', (size_t)(end - line)));) {
        line++;
        if (!starts_nocase(line, end, BYTES("content-length:")))
            continue;
        for (line += 15; *line == ' ' || *line == '\t';)
            line++;
        for (; *line >= '0' && *line <= '9' && length < INT32_MAX; line++)
            length = length * 10 + (uint64_t)(*line - '0');
        sized = true;
    }
    *out_bad = !sized && status != 204;
    size_t head = (size_t)(end - in.at) + 4;
    if (*out_bad || in.len - head < length)
        return false;
    out_answer->status = status;
    out_answer->body = bytes_of(in.at + head, (size_t)length);
    *out_len = head + (size_t)length;
    return true;
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

static void flush(struct load *load, struct load_conn *conn)
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

/* Hands every whole answer to the script. */
static void take_answers(struct load *load, struct load_conn *conn)
{
    size_t used = 0, len;
    bool bad = false;
    struct load_answer answer;
    while (!load->done &&
           load_scan(bytes_of(conn->in.at + used, conn->in.len - used), &answer, &len, &bad)) {
        if (conn->waiting == 0) {
            fail(load, "an answer came that nobody asked for", "");
            return;
        }
        const struct load_asked asked = conn->asked[conn->first & (load->ring - 1)];
        conn->first++;
        conn->waiting--;
        answer.kind = asked.kind;
        answer.now_us = load->now_us;
        histogram_add(&load->latency[asked.kind], load->now_us - asked.at_us);
        load->answers++;
        load->script->answer(load->script, load, conn, &answer);
        used += len;
    }
    buf_drop(&conn->in, used);
    if (bad)
        fail(load, "an answer is not HTTP/1.1 with a Content-Length", "");
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
        fail(load, "the server closed a connection", "");
    } else if (errno != EAGAIN && errno != EINTR) {
        fail(load, "a connection broke: ", strerror(errno));
    }
}

void load_run(struct load *load, struct load_script *script, int64_t until_us)
{
    struct epoll_event events[EVENTS];
    uint64_t answers_before = load->answers;
    int64_t tick_us = load_clock(load), heard_us = tick_us;
    load->script = script;
    load->done = false;
    for (uint32_t i = 0; i < load->conn_count && !load->failed; i++) {
        script->begin(script, load, &load->conns[i]);
        if (load->conns[i].dirty)
            flush(load, &load->conns[i]);
    }
    while (!load->done && !load->failed && load->now_us < until_us) {
        int count = epoll_wait(load->epoll, events, EVENTS, TICK_MS);
        if (count < 0 && errno != EINTR)
            fail(load, "epoll: ", strerror(errno));
        for (int i = 0; i < count && !load->failed && !load->done; i++) {
            struct load_conn *conn = events[i].data.ptr;
            if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
                readable(load, conn);
            if (conn->dirty || events[i].events & EPOLLOUT)
                flush(load, conn);
        }
        if (load_clock(load) - tick_us < TICK_MS * 1000)
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
