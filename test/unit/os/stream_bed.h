/*
 * What the tests of streams share: a process with one stream, and the other end of it, on Linux or
 * simulated.
 */
#ifndef LATERD_TEST_OS_STREAM_BED_H
#define LATERD_TEST_OS_STREAM_BED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "os/clock.h"
#include "os/listen.h"
#include "os/loop.h"
#include "os/loop_parts.h"
#include "sim/loop.h"

enum { TURNS_MAX = 20000, SEEDS = 20, BIG_BYTES = 8 * 1024 * 1024, PORT = 7000 };

/* A process with one stream, and the other end of it, on either platform. */
struct bed {
    struct loop *loop;
    struct stream *stream;
    struct buf got;
    unsigned opened, halves, drained;
    unsigned left;    /* how often `leaving` was called */
    unsigned attempt; /* of the next connect_to() */
    bool gone, close_at_input;
    size_t use_most; /* of all bytes that are shown */
    size_t longest;  /* of what was shown at once */
    char error[160];
    char log[16]; /* the order of: i, input; l, leaving; m, a message */
    struct message message;
    /* The other end: */
    bool is_sim, far_accepted, far_closed;
    struct buf far_got;
    struct os_clock clock;
    struct os_loop *os;
    int listen_fd, far_fd;
    uint16_t port;
    struct sim_clock sim_clock;
    struct sim_net *net;
    struct sim_loop *sim;
    struct sim_host host;
    struct sim_peer *peer;
};

/* ---- our end ---- */

static inline void note(struct bed *bed, char what)
{
    size_t len = strlen(bed->log);
    if (len + 1 < sizeof(bed->log))
        bed->log[len] = what;
}

static inline void message_arrived(struct message *message)
{
    note(LIST_ENTRY(message, struct bed, message), 'm');
}

static inline void opened(struct stream *stream)
{
    ((struct bed *)stream->user)->opened++;
}

static inline size_t input(struct stream *stream, struct bytes bytes)
{
    struct bed *bed = stream->user;
    size_t room = bed->use_most - bed->got.len;
    size_t used = bytes.len < room ? bytes.len : room;
    bed->longest = bytes.len > bed->longest ? bytes.len : bed->longest;
    note(bed, 'i');
    buf_add(&bed->got, bytes.at, used);
    if (bed->close_at_input) {
        stream_close(stream, STREAM_DROP);
        bed->stream = NULL;
    }
    return used;
}

static inline void leaving(struct stream *stream)
{
    struct bed *bed = stream->user;
    bed->left++;
    note(bed, 'l');
    assert_int_equal(bed->left, 1); /* told once at most */
    assert_int_equal(bed->halves, 0);
}

static inline void gone(struct stream *stream, bool half)
{
    struct bed *bed = stream->user;
    if (half) {
        bed->halves++;
        return;
    }
    (void)snprintf(bed->error, sizeof(bed->error), "%s", stream->error);
    bed->gone = true;
    bed->stream = NULL;
}

static inline void drained(struct stream *stream)
{
    ((struct bed *)stream->user)->drained++;
}

static const struct stream_handler handler = {
    .opened = opened, .input = input, .leaving = leaving, .gone = gone, .drained = drained};

/* ---- the other end ---- */

static inline void host_accepted(struct sim_host *host, struct sim_peer *peer)
{
    struct bed *bed = LIST_ENTRY(host, struct bed, host);
    bed->peer = peer;
    bed->far_accepted = true;
}

static inline void host_input(struct sim_host *host, struct sim_peer *peer, struct bytes bytes)
{
    (void)peer;
    buf_add_bytes(&LIST_ENTRY(host, struct bed, host)->far_got, bytes);
}

static inline void host_closed(struct sim_host *host, struct sim_peer *peer, bool reset)
{
    struct bed *bed = LIST_ENTRY(host, struct bed, host);
    (void)peer, (void)reset;
    bed->far_closed = true;
    bed->peer = NULL;
}

static const struct sim_host_handler host_handler = {
    .accepted = host_accepted, .input = host_input, .closed = host_closed};

static inline void far_poll(struct bed *bed)
{
    char room[65536];
    if (bed->is_sim) {
        sim_net_run(bed->net);
        return;
    }
    if (bed->far_fd < 0 && bed->listen_fd >= 0)
        bed->far_fd = accept4(bed->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    bed->far_accepted |= bed->far_fd >= 0;
    if (bed->far_fd < 0 || bed->far_closed)
        return;
    ssize_t count = recv(bed->far_fd, room, sizeof(room), 0);
    if (count > 0)
        buf_add(&bed->far_got, room, (size_t)count);
    else
        bed->far_closed = count == 0 || (errno != EAGAIN && errno != EINTR);
}

static inline void far_send(struct bed *bed, const char *text)
{
    if (bed->is_sim)
        sim_peer_send(bed->peer, bytes_str(text));
    else
        assert_int_equal(send(bed->far_fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

static inline void far_shut(struct bed *bed)
{
    if (bed->is_sim)
        sim_peer_shut(bed->peer);
    else
        assert_int_equal(shutdown(bed->far_fd, SHUT_WR), 0);
}

static inline void far_reset(struct bed *bed)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};
    if (bed->is_sim) {
        sim_peer_reset(bed->peer);
        return;
    }
    assert_int_equal(setsockopt(bed->far_fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
    (void)close(bed->far_fd);
    bed->far_fd = -1;
}

/* What the other end did is known at ours: loopback is mostly, but not always, at once. */
static inline void wait_for_system(const struct bed *bed)
{
    if (!bed->is_sim)
        (void)poll(NULL, 0, 20);
}

static inline void far_stop_listening(struct bed *bed)
{
    if (bed->is_sim) {
        sim_host_reach(&bed->host, SIM_REFUSES);
        return;
    }
    (void)close(bed->listen_fd);
    bed->listen_fd = -1;
}

/* ---- a bed ---- */

static inline void open_os(struct bed *bed)
{
    struct sockaddr_in address = {0};
    socklen_t len = sizeof(address);
    *bed = (struct bed){.far_fd = -1, .use_most = SIZE_MAX};
    os_clock_init(&bed->clock);
    bed->os = os_loop_new(&bed->clock.clock, 0);
    assert_non_null(bed->os);
    bed->loop = os_loop_port(bed->os);
    assert_int_equal(listen_open("127.0.0.1:0", &bed->listen_fd), OK);
    assert_int_equal(getsockname(bed->listen_fd, (struct sockaddr *)&address, &len), 0);
    bed->port = ntohs(address.sin_port);
}

static inline void open_sim(struct bed *bed, uint64_t seed)
{
    *bed = (struct bed){.is_sim = true, .use_most = SIZE_MAX, .port = PORT};
    sim_clock_init(&bed->sim_clock, 1000000);
    bed->net = sim_net_new(&bed->sim_clock, seed);
    sim_net_split(bed->net, seed % 2);
    sim_net_delay(bed->net, 0, (int64_t)(seed % 3) * 500);
    sim_net_name(bed->net, "localhost", "127.0.0.1", 1000);
    sim_host_add(bed->net, &bed->host, "127.0.0.1:7000", &host_handler);
    bed->sim = sim_loop_new(bed->net, &bed->sim_clock.clock);
    bed->loop = sim_loop_port(bed->sim);
}

static inline void close_bed(struct bed *bed)
{
    if (bed->stream)
        stream_close(bed->stream, STREAM_DROP);
    buf_fini(&bed->got);
    buf_fini(&bed->far_got);
    if (bed->is_sim) {
        sim_loop_free(bed->sim);
        sim_net_free(bed->net);
        return;
    }
    os_loop_free(bed->os);
    if (bed->listen_fd >= 0)
        (void)close(bed->listen_fd);
    if (bed->far_fd >= 0)
        (void)close(bed->far_fd);
}

/* One turn of both ends; the simulated clock moves to what is next. */
static inline void turn(struct bed *bed)
{
    far_poll(bed);
    if (bed->is_sim) {
        int64_t next_us = sim_net_next_us(bed->net);
        int64_t timer_us = timers_next_us(&bed->loop->timers);
        next_us = timer_us < next_us ? timer_us : next_us;
        if (next_us != INT64_MAX && next_us > bed->sim_clock.now_us)
            bed->sim_clock.now_us = next_us;
        sim_net_run(bed->net);
    }
    loop_turn(bed->loop, bed->loop->clock->now_us(bed->loop->clock) + 500);
}

#define UNTIL(bed, condition)                                                                      \
    do {                                                                                           \
        for (int turns = 0; !(condition) && turns < TURNS_MAX; turns++)                            \
            turn(bed);                                                                             \
        assert_true(condition);                                                                    \
    } while (0)

static inline void turns(struct bed *bed, int count)
{
    while (count-- > 0)
        turn(bed);
}

static inline void connect_to(struct bed *bed, const char *host)
{
    struct stream_options options = {.host = host,
                                     .port = bed->port,
                                     .attempt = bed->attempt,
                                     .timeout_us = 5000000,
                                     .silent_s = 60,
                                     .handler = &handler,
                                     .user = bed};
    unsigned opened_before = bed->opened;
    bed->stream = bed->loop->verbs->connect(bed->loop, &options);
    assert_int_equal(bed->opened, opened_before);
    assert_false(bed->gone);
}

static inline void open_stream(struct bed *bed)
{
    connect_to(bed, "127.0.0.1");
    UNTIL(bed, bed->opened == 1 && bed->far_accepted);
}

static inline void send_text(struct bed *bed, const char *text)
{
    struct buf data = {0};
    buf_add_str(&data, text);
    stream_send(bed->stream, &data);
    assert_int_equal(data.len, 0);
    buf_fini(&data);
}

static inline bool got(const struct buf *buf, const char *text)
{
    return bytes_eq(buf_bytes(buf), bytes_str(text));
}

#endif
