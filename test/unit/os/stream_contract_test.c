/*
 * The same cases over streams of os/loop (sockets on this machine) and sim/loop (in memory, late
 * and split anywhere, on some seeds): what port/stream.h says of streams that we open.
 */
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

static void note(struct bed *bed, char what)
{
    size_t len = strlen(bed->log);
    if (len + 1 < sizeof(bed->log))
        bed->log[len] = what;
}

static void message_arrived(struct message *message)
{
    note(LIST_ENTRY(message, struct bed, message), 'm');
}

static void opened(struct stream *stream)
{
    ((struct bed *)stream->user)->opened++;
}

static size_t input(struct stream *stream, struct bytes bytes)
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

static void leaving(struct stream *stream)
{
    struct bed *bed = stream->user;
    bed->left++;
    note(bed, 'l');
    assert_int_equal(bed->left, 1); /* told once at most */
    assert_int_equal(bed->halves, 0);
}

static void gone(struct stream *stream, bool half)
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

static void drained(struct stream *stream)
{
    ((struct bed *)stream->user)->drained++;
}

static const struct stream_handler handler = {
    .opened = opened, .input = input, .leaving = leaving, .gone = gone, .drained = drained};

/* ---- the other end ---- */

static void host_accepted(struct sim_host *host, struct sim_peer *peer)
{
    struct bed *bed = LIST_ENTRY(host, struct bed, host);
    bed->peer = peer;
    bed->far_accepted = true;
}

static void host_input(struct sim_host *host, struct sim_peer *peer, struct bytes bytes)
{
    (void)peer;
    buf_add_bytes(&LIST_ENTRY(host, struct bed, host)->far_got, bytes);
}

static void host_closed(struct sim_host *host, struct sim_peer *peer, bool reset)
{
    struct bed *bed = LIST_ENTRY(host, struct bed, host);
    (void)peer, (void)reset;
    bed->far_closed = true;
    bed->peer = NULL;
}

static const struct sim_host_handler host_handler = {
    .accepted = host_accepted, .input = host_input, .closed = host_closed};

static void far_poll(struct bed *bed)
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

static void far_send(struct bed *bed, const char *text)
{
    if (bed->is_sim)
        sim_peer_send(bed->peer, bytes_str(text));
    else
        assert_int_equal(send(bed->far_fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

static void far_shut(struct bed *bed)
{
    if (bed->is_sim)
        sim_peer_shut(bed->peer);
    else
        assert_int_equal(shutdown(bed->far_fd, SHUT_WR), 0);
}

static void far_reset(struct bed *bed)
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
static void wait_for_system(const struct bed *bed)
{
    if (!bed->is_sim)
        (void)poll(NULL, 0, 20);
}

static void far_stop_listening(struct bed *bed)
{
    if (bed->is_sim) {
        sim_host_reach(&bed->host, SIM_REFUSES);
        return;
    }
    (void)close(bed->listen_fd);
    bed->listen_fd = -1;
}

/* ---- a bed ---- */

static void open_os(struct bed *bed)
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

static void open_sim(struct bed *bed, uint64_t seed)
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

static void close_bed(struct bed *bed)
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
static void turn(struct bed *bed)
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

static void turns(struct bed *bed, int count)
{
    while (count-- > 0)
        turn(bed);
}

static void connect_to(struct bed *bed, const char *host)
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

static void open_stream(struct bed *bed)
{
    connect_to(bed, "127.0.0.1");
    UNTIL(bed, bed->opened == 1 && bed->far_accepted);
}

static void send_text(struct bed *bed, const char *text)
{
    struct buf data = {0};
    buf_add_str(&data, text);
    stream_send(bed->stream, &data);
    assert_int_equal(data.len, 0);
    buf_fini(&data);
}

static bool got(const struct buf *buf, const char *text)
{
    return bytes_eq(buf_bytes(buf), bytes_str(text));
}

/* ---- the cases ---- */

static void bytes_go_both_ways(struct bed *bed)
{
    open_stream(bed);
    send_text(bed, "hello");
    UNTIL(bed, got(&bed->far_got, "hello"));
    far_send(bed, "good day");
    UNTIL(bed, got(&bed->got, "good day"));
    assert_int_equal(bed->opened, 1);
    stream_close(bed->stream, STREAM_DROP);
    bed->stream = NULL;
    UNTIL(bed, bed->far_closed);
}

static void nothing_overtakes(struct bed *bed)
{
    static const char alphabet[] = "abcdefghijklmnopqrstuvwxyz";
    open_stream(bed);
    for (size_t i = 0; i < 26; i++) {
        char text[2] = {alphabet[i], '\0'};
        send_text(bed, text);
        far_send(bed, text);
        if (i % 3 == 0)
            turn(bed);
    }
    UNTIL(bed, bed->far_got.len == 26 && bed->got.len == 26);
    assert_true(got(&bed->far_got, alphabet));
    assert_true(got(&bed->got, alphabet));
}

static void what_is_sent_before_it_is_open_arrives(struct bed *bed)
{
    connect_to(bed, "127.0.0.1");
    send_text(bed, "early ");
    send_text(bed, "bird");
    assert_int_equal(stream_unsent(bed->stream), 10);
    UNTIL(bed, got(&bed->far_got, "early bird"));
    assert_int_equal(stream_unsent(bed->stream), 0);
}

/* It may be ::1 as well, where nobody listens. */
static void a_name_is_looked_up(struct bed *bed)
{
    for (bed->attempt = 0; !bed->opened && bed->attempt < 2; bed->attempt++) {
        bed->gone = false;
        connect_to(bed, "localhost");
        UNTIL(bed, bed->opened || bed->gone);
    }
    assert_int_equal(bed->opened, 1);
}

static void nobody_there_is_refused(struct bed *bed)
{
    far_stop_listening(bed);
    connect_to(bed, "127.0.0.1");
    UNTIL(bed, bed->gone);
    assert_string_equal(bed->error, "Connection refused");
    assert_int_equal(bed->opened, 0);
}

static void the_end_of_input_comes_after_all_bytes(struct bed *bed)
{
    open_stream(bed);
    far_send(bed, "last words");
    far_shut(bed);
    UNTIL(bed, bed->halves == 1);
    assert_true(got(&bed->got, "last words"));
    send_text(bed, "answer"); /* it may still read */
    UNTIL(bed, got(&bed->far_got, "answer"));
    turns(bed, 5);
    assert_int_equal(bed->halves, 1);
    assert_false(bed->gone);
}

/* Who has gone is known in the gather that shows the last bytes, not in the next one (P6). */
static void the_end_is_told_with_the_last_bytes(struct bed *bed)
{
    open_stream(bed);
    far_send(bed, "last words");
    far_shut(bed);
    wait_for_system(bed);
    if (bed->is_sim)
        turns(bed, 100); /* both are in flight, maybe not for equally long */
    else
        UNTIL(bed, bed->got.len > 0);
    assert_true(got(&bed->got, "last words"));
    assert_true(bed->left + bed->halves > 0);
}

static void the_end_is_told_before_bytes_that_wait(struct bed *bed)
{
    open_stream(bed);
    bed->use_most = 2;
    far_send(bed, "abcdef");
    far_shut(bed);
    UNTIL(bed, bed->left == 1);
    assert_int_equal(bed->halves, 0);
    bed->use_most = SIZE_MAX;
    for (int turns_left = 100; !bed->halves && turns_left; turns_left--) {
        stream_resume(bed->stream);
        turn(bed);
    }
    assert_true(got(&bed->got, "abcdef"));
    assert_int_equal(bed->halves, 1);
    assert_int_equal(bed->left, 1);
}

/* Answers come over one stream, a message is posted, and another stream's other side goes: that is
   known first, in whatever order they came. */
static void p6_who_has_gone_is_known_before_others_are_answered(struct bed *bed, bool first_answers,
                                                                bool resets)
{
    open_stream(bed);
    struct stream *streams[2] = {bed->stream};
    int fds[2] = {bed->far_fd};
    struct sim_peer *peers[2] = {bed->peer};
    bed->far_fd = -1;
    bed->far_accepted = false;
    connect_to(bed, "127.0.0.1");
    UNTIL(bed, bed->opened == 2 && bed->far_accepted);
    streams[1] = bed->stream, fds[1] = bed->far_fd, peers[1] = bed->peer;
    bed->message.arrived = message_arrived;
    for (int i = 0; i < 2; i++) {
        bed->far_fd = fds[i];
        bed->peer = peers[i];
        if ((i == 0) == first_answers)
            far_send(bed, "an answer");
        else
            resets ? far_reset(bed) : far_shut(bed);
        fds[i] = bed->far_fd;
    }
    bed->loop->verbs->post(bed->loop, &bed->message);
    bed->sim_clock.now_us += 10000; /* all of it has arrived */
    wait_for_system(bed);
    loop_turn(bed->loop, 0);
    assert_int_equal(bed->log[0], 'l');
    assert_true(strchr(bed->log, 'm') && strchr(bed->log, 'i'));
    for (int i = 0; i < 2; i++) {
        bool closed = resets && (i == 0) != first_answers;
        if (!closed)
            stream_close(streams[i], STREAM_DROP);
        if (!bed->is_sim && fds[i] >= 0)
            (void)close(fds[i]);
    }
    bed->far_fd = -1;
    bed->peer = NULL;
    bed->stream = NULL;
}

static void p6_an_end_is_known_before_an_answer(struct bed *bed)
{
    p6_who_has_gone_is_known_before_others_are_answered(bed, true, false);
}

static void p6_an_end_is_known_before_a_later_answer(struct bed *bed)
{
    p6_who_has_gone_is_known_before_others_are_answered(bed, false, false);
}

static void p6_a_reset_is_known_before_an_answer(struct bed *bed)
{
    p6_who_has_gone_is_known_before_others_are_answered(bed, true, true);
}

static void a_reset_says_so(struct bed *bed)
{
    open_stream(bed);
    far_reset(bed);
    UNTIL(bed, bed->gone);
    assert_string_equal(bed->error, "Connection reset by peer");
}

static void what_is_left_is_shown_again_when_asked_for(struct bed *bed)
{
    open_stream(bed);
    bed->use_most = 2;
    far_send(bed, "abcdef");
    UNTIL(bed, got(&bed->got, "ab"));
    far_send(bed, "ghi"); /* waits behind */
    wait_for_system(bed);
    turns(bed, 5);
    bed->use_most = SIZE_MAX;
    turns(bed, 5);
    if (!bed->is_sim) /* a piece that ended just there had nothing left to be kept */
        assert_true(got(&bed->got, "ab"));
    for (int turns_left = 100; !got(&bed->got, "abcdefghi") && turns_left; turns_left--) {
        stream_resume(bed->stream);
        turn(bed);
    }
    assert_true(got(&bed->got, "abcdefghi"));
    assert_true(stream_held(bed->stream) < 4096);
}

static void it_may_be_closed_from_within_input(struct bed *bed)
{
    open_stream(bed);
    bed->close_at_input = true;
    far_send(bed, "x");
    UNTIL(bed, !bed->stream);
    turns(bed, 5);
    assert_false(bed->gone); /* no call follows */
    UNTIL(bed, bed->far_closed);
}

static void what_does_not_fit_waits_and_the_end_of_it_is_told(struct bed *bed)
{
    struct buf data = {0};
    open_stream(bed);
    if (bed->is_sim)
        sim_peer_window(bed->peer, 1000);
    for (size_t i = 0; i < BIG_BYTES; i++)
        buf_add_char(&data, (char)(i * 31 / 7));
    struct buf want = {0};
    buf_add(&want, data.at, data.len);
    stream_send(bed->stream, &data);
    assert_true(stream_unsent(bed->stream) > 0);
    assert_true(stream_held(bed->stream) >= stream_unsent(bed->stream));
    assert_int_equal(bed->drained, 0);
    if (bed->is_sim)
        sim_peer_window(bed->peer, SIZE_MAX);
    UNTIL(bed, bed->far_got.len == BIG_BYTES);
    UNTIL(bed, bed->drained == 1);
    assert_true(bytes_eq(buf_bytes(&bed->far_got), buf_bytes(&want)));
    assert_int_equal(stream_unsent(bed->stream), 0);
    buf_fini(&want);
    buf_fini(&data);
}

static void lingering_sends_what_is_kept_first(struct bed *bed)
{
    open_stream(bed);
    send_text(bed, "farewell");
    stream_close(bed->stream, STREAM_LINGER);
    bed->stream = NULL;
    UNTIL(bed, bed->far_closed);
    assert_true(got(&bed->far_got, "farewell"));
}

typedef void (*contract_case)(struct bed *bed);

static const contract_case cases[] = {
    bytes_go_both_ways,
    nothing_overtakes,
    what_is_sent_before_it_is_open_arrives,
    a_name_is_looked_up,
    nobody_there_is_refused,
    the_end_of_input_comes_after_all_bytes,
    the_end_is_told_with_the_last_bytes,
    the_end_is_told_before_bytes_that_wait,
    p6_an_end_is_known_before_an_answer,
    p6_an_end_is_known_before_a_later_answer,
    p6_a_reset_is_known_before_an_answer,
    a_reset_says_so,
    what_is_left_is_shown_again_when_asked_for,
    it_may_be_closed_from_within_input,
    what_does_not_fit_waits_and_the_end_of_it_is_told,
    lingering_sends_what_is_kept_first,
};

static void streams_of_the_system_keep_the_contract(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct bed bed;
        open_os(&bed);
        cases[i](&bed);
        close_bed(&bed);
    }
}

static void simulated_streams_keep_the_contract(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
            struct bed bed;
            bool big = cases[i] == what_does_not_fit_waits_and_the_end_of_it_is_told;
            if (big && seed > 1)
                continue; /* it is long */
            open_sim(&bed, seed);
            cases[i](&bed);
            close_bed(&bed);
        }
    }
}

/* ---- what only one of them can show ---- */

static void a_silent_host_is_given_up_in_time(void **state)
{
    (void)state;
    struct bed bed;
    open_sim(&bed, 1);
    sim_host_reach(&bed.host, SIM_SILENT);
    connect_to(&bed, "127.0.0.1");
    int64_t began_us = bed.sim_clock.now_us;
    UNTIL(&bed, bed.gone);
    assert_string_equal(bed.error, STREAM_SLOW);
    assert_true(bed.sim_clock.now_us - began_us >= 5000000);
    close_bed(&bed);
}

static void names_that_are_not_there_or_never_answered_fail(void **state)
{
    (void)state;
    struct bed bed;
    open_sim(&bed, 1);
    sim_net_name(bed.net, "gone.example", NULL, 100);
    connect_to(&bed, "gone.example");
    UNTIL(&bed, bed.gone);
    assert_string_equal(bed.error, "Name or service not known");
    bed.gone = false;
    sim_net_name(bed.net, "slow.example", "127.0.0.1", INT64_MAX);
    connect_to(&bed, "slow.example");
    UNTIL(&bed, bed.gone);
    assert_string_equal(bed.error, STREAM_NAME_SLOW);
    close_bed(&bed);
}

static void a_host_that_was_silent_gets_what_was_sent_meanwhile(void **state)
{
    (void)state;
    struct bed bed;
    open_sim(&bed, 3);
    open_stream(&bed);
    sim_host_reach(&bed.host, SIM_SILENT);
    send_text(&bed, "are you there");
    turns(&bed, 20);
    assert_int_equal(bed.far_got.len, 0);
    sim_host_reach(&bed.host, SIM_UP);
    UNTIL(&bed, got(&bed.far_got, "are you there"));
    sim_host_cut(&bed.host);
    assert_true(bed.far_closed);
    UNTIL(&bed, bed.gone);
    close_bed(&bed);
}

struct watched {
    struct watch watch;
    struct loop *loop;
    unsigned count;
};

static void read_byte(struct watch *watch, unsigned what)
{
    struct watched *watched = LIST_ENTRY(watch, struct watched, watch);
    char byte;
    assert_true(what & LOOP_READ);
    assert_int_equal(read(watch->fd, &byte, 1), 1);
    if (++watched->count == 2)
        assert_int_equal(watched->loop->verbs->watch(watched->loop, watch, 0), OK);
}

static void descriptors_of_others_are_watched_until_told_otherwise(void **state)
{
    (void)state;
    struct bed bed;
    int pair[2];
    open_os(&bed);
    assert_int_equal(pipe(pair), 0);
    struct watched watched = {.watch = {.ready = read_byte, .fd = pair[0]}, .loop = bed.loop};
    assert_int_equal(bed.loop->verbs->watch(bed.loop, &watched.watch, LOOP_READ), OK);
    assert_int_equal(write(pair[1], "abc", 3), 3);
    UNTIL(&bed, watched.count == 2);
    turns(&bed, 5);
    assert_int_equal(watched.count, 2);
    (void)close(pair[0]);
    (void)close(pair[1]);
    close_bed(&bed);
}

/* Else its parts would be served and answered in different turns from then on. */
static void a_burst_is_taken_in_one_turn_and_short_input_between_does_not_tear_the_next(
    void **state)
{
    (void)state;
    struct bed bed;
    char burst[5001] = {0}; /* longer than the first read */
    memset(burst, 'x', sizeof(burst) - 1);
    open_os(&bed);
    open_stream(&bed);
    far_send(&bed, burst);
    turn(&bed);
    assert_int_equal(bed.got.len, sizeof(burst) - 1);
    for (int round = 0; round < 40; round++) { /* short ones are not in a row */
        far_send(&bed, "short");
        turn(&bed);
        memset(bed.log, 0, sizeof(bed.log));
        far_send(&bed, burst);
        turn(&bed);
        assert_string_equal(bed.log, "i"); /* in one read */
    }
    close_bed(&bed);
}

/* As much as the sockets take. */
static void far_fill(struct bed *bed)
{
    static const char room[65536];
    while (send(bed->far_fd, room, sizeof(room), MSG_NOSIGNAL | MSG_DONTWAIT) > 0)
        continue;
}

/* Else others would wait for it, or its reads would be longer than the loop's memory for them. */
static void a_stream_with_much_input_has_two_reads_a_turn(void **state)
{
    (void)state;
    struct bed bed;
    open_os(&bed);
    open_stream(&bed);
    for (int round = 0; round < 40; round++) {
        memset(bed.log, 0, sizeof(bed.log));
        far_fill(&bed);
        turn(&bed);
        assert_true(strlen(bed.log) <= 2);
    }
    assert_in_range(bed.longest, 5000, READ_BYTES);
    close_bed(&bed);
}

static void p8_little_is_read_behind_bytes_that_had_to_wait(void **state)
{
    (void)state;
    struct bed bed;
    open_os(&bed);
    open_stream(&bed);
    for (int round = 0; round < 8; round++) {
        far_fill(&bed);
        turn(&bed);
    }
    bed.use_most = bed.got.len;
    far_fill(&bed);
    UNTIL(&bed, stream_held(bed.stream) > 2 * READ_FIRST_BYTES); /* reads had become long */
    bed.use_most = SIZE_MAX;
    stream_resume(bed.stream);
    turn(&bed);
    bed.use_most = bed.got.len;
    turns(&bed, 3);
    UNTIL(&bed, stream_held(bed.stream) >= READ_FIRST_BYTES);
    assert_true(stream_held(bed.stream) <= 2 * READ_FIRST_BYTES);
    close_bed(&bed);
}

/* A share that is spent as soon as a stream was shown input. */
struct small_share {
    struct loop_share share;
    const struct bed *bed;
    unsigned visits;
};

static bool shown_something(const struct loop_share *share)
{
    return LIST_ENTRY(share, const struct small_share, share)->bed->got.len > 0;
}

static bool never(const struct loop_share *share)
{
    (void)share;
    return false;
}

static void count_visit(struct loop_share *share)
{
    LIST_ENTRY(share, struct small_share, share)->visits++;
}

/* What one turn takes of a burst that is longer than the first read. */
static void take_burst(bool (*spent)(const struct loop_share *share), const char *log, size_t len)
{
    struct bed bed;
    struct small_share small = {.share = {.spent = spent, .visit = count_visit}, .bed = &bed};
    char burst[5001] = {0};
    memset(burst, 'x', sizeof(burst) - 1);
    open_os(&bed);
    open_stream(&bed);
    far_send(&bed, burst);
    bed.loop->verbs->sleep(bed.loop, bed.loop->clock->now_us(bed.loop->clock) + 1000000);
    (void)bed.loop->verbs->gather(bed.loop, &small.share);
    assert_string_equal(bed.log, log);
    assert_int_equal(bed.got.len, len);
    assert_int_equal(small.visits, 1);
    UNTIL(&bed, bed.got.len == sizeof(burst) - 1);
    close_bed(&bed);
}

static void both_reads_of_a_burst_are_one_visit_and_the_second_needs_a_share(void **state)
{
    (void)state;
    take_burst(never, "ii", 5000);
    take_burst(shown_something, "i", 4096);
}

static unsigned arrivals;

static void note_arrival(struct message *message)
{
    (void)message;
    arrivals++;
}

static void a_message_ends_the_sleep(void **state)
{
    (void)state;
    struct bed bed;
    struct message message = {.arrived = note_arrival};
    open_os(&bed);
    bed.loop->verbs->post(bed.loop, &message);
    loop_turn(bed.loop, INT64_MAX); /* else it would never end */
    assert_int_equal(arrivals, 1);
    close_bed(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_of_the_system_keep_the_contract),
        cmocka_unit_test(simulated_streams_keep_the_contract),
        cmocka_unit_test(a_silent_host_is_given_up_in_time),
        cmocka_unit_test(names_that_are_not_there_or_never_answered_fail),
        cmocka_unit_test(a_host_that_was_silent_gets_what_was_sent_meanwhile),
        cmocka_unit_test(descriptors_of_others_are_watched_until_told_otherwise),
        cmocka_unit_test(
            a_burst_is_taken_in_one_turn_and_short_input_between_does_not_tear_the_next),
        cmocka_unit_test(a_stream_with_much_input_has_two_reads_a_turn),
        cmocka_unit_test(p8_little_is_read_behind_bytes_that_had_to_wait),
        cmocka_unit_test(both_reads_of_a_burst_are_one_visit_and_the_second_needs_a_share),
        cmocka_unit_test(a_message_ends_the_sleep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
