/*
 * A connection to Redis, against a listener of our own, and on a simulated network: when it is
 * given up, and that what had not reached the server then does not reach it later.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/redis/link.h"
#include "os/clock.h"
#include "os/loop.h"
#include "sim/loop.h"

enum { MANY_BYTES = 32 * 1024 * 1024, TURNS = 1000, TURN_US = 10000 };

static struct os_loop *os;
static struct loop *loop;

static int setup(void **state)
{
    static struct os_clock clock;
    (void)state;
    os_clock_init(&clock);
    os = os_loop_new(&clock.clock, 0);
    loop = os ? os_loop_port(os) : NULL;
    return os ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    os_loop_free(os);
    return 0;
}

/* Turns until the link is in that state. */
static void turns(const struct link *link, enum link_state state)
{
    for (int i = 0; i < TURNS && link->state != state; i++)
        loop_turn(loop, loop->now_us + TURN_US);
    assert_int_equal(link->state, state);
}

static void ignore(struct link_callbacks *callbacks, struct link *link)
{
    (void)callbacks;
    (void)link;
}

static void no_message(struct link_callbacks *callbacks, struct link *link, const redisReply *reply)
{
    (void)callbacks;
    (void)link;
    (void)reply;
}

static bool told;

static void lost(struct link_call *call, redisReply *reply)
{
    (void)call;
    assert_null(reply);
    told = true;
}

static void answered(struct link_call *call, redisReply *reply)
{
    (void)call;
    assert_non_null(reply);
    freeReplyObject(reply);
}

static int listen_somewhere(struct redis_address *out_address)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    *out_address = (struct redis_address){.host = "127.0.0.1", .port = ntohs(address.sin_port)};
    return fd;
}

/* A link that is up, and the server's end of it. */
struct served {
    struct link_callbacks callbacks;
    struct redis_address address;
    struct link link;
    int listener, fd;
};

static void open_served(struct served *served)
{
    char greeting[64];
    served->callbacks =
        (struct link_callbacks){.up = ignore, .down = ignore, .message = no_message};
    served->listener = listen_somewhere(&served->address);
    link_init(&served->link, &(struct link_options){.callbacks = &served->callbacks,
                                                    .loop = loop,
                                                    .user = "",
                                                    .password = "",
                                                    .timeout_us = 1000000});
    link_want(&served->link, &served->address);
    turns(&served->link, LINK_GREETING);
    served->fd = accept(served->listener, NULL, NULL);
    assert_true(served->fd >= 0);
    assert_true(read(served->fd, greeting, sizeof(greeting)) > 0);
    assert_int_equal(write(served->fd, "+PONG\r\n", 7), 7);
    turns(&served->link, LINK_UP);
    told = false;
}

static void close_served(struct served *served)
{
    link_fini(&served->link);
    (void)close(served->fd);
    (void)close(served->listener);
}

static void what_was_not_sent_when_a_link_failed_is_never_sent(void **state)
{
    static char room[1024 * 1024];
    struct link_call call = {.done = lost};
    struct served served;
    (void)state;
    open_served(&served);
    for (size_t sent = 0; sent < MANY_BYTES; sent += sizeof(room))
        buf_add(link_out(&served.link), room, sizeof(room));
    link_expect(&served.link, &call);
    link_flush(
        &served.link); /* as much as the kernel takes, which is more than the other end takes */
    link_fail(&served.link, "it does not answer");
    assert_true(told);
    ssize_t got = 1;
    while (got > 0)
        got = read(served.fd, room, sizeof(room));
    assert_int_equal(got, -1); /* and not 0, which is an orderly end behind all that was written */
    assert_int_equal(errno, ECONNRESET);
    close_served(&served);
}

static void as_much_as_a_server_reads_at_once_is_sent_early(void **state)
{
    enum { READ_AT_ONCE = 16 * 1024 };
    static char room[2 * READ_AT_ONCE];
    struct served served;
    (void)state;
    open_served(&served);
    buf_add(link_out(&served.link), room, READ_AT_ONCE - 1);
    link_flush_early(&served.link);
    assert_int_equal(recv(served.fd, room, sizeof(room), MSG_DONTWAIT), -1);
    buf_add(link_out(&served.link), room, 1);
    link_flush_early(&served.link);
    assert_int_equal(recv(served.fd, room, READ_AT_ONCE, MSG_WAITALL), READ_AT_ONCE);
    buf_add(link_out(&served.link), room, 1);
    link_flush(&served.link);
    assert_int_equal(recv(served.fd, room, sizeof(room), 0), 1);
    (void)close(served.fd); /* an error is told by the loop alone */
    served.fd = -1;
    buf_add(link_out(&served.link), room, READ_AT_ONCE);
    link_flush_early(&served.link);
    buf_add(link_out(&served.link), room, READ_AT_ONCE);
    link_flush_early(&served.link);
    assert_int_equal(served.link.state, LINK_UP);
    turns(&served.link, LINK_DOWN);
    close_served(&served);
}

static void an_answer_of_absurd_length_costs_the_connection(void **state)
{
    static const char nonsense[] = "*2147483647\r\n";
    struct link_call call = {.done = lost};
    struct served served;
    (void)state;
    open_served(&served);
    link_expect(&served.link, &call);
    assert_int_equal(write(served.fd, nonsense, strlen(nonsense)), strlen(nonsense));
    turns(&served.link, LINK_DOWN);
    assert_true(told);
    close_served(&served);
}

/* ---- time, on a simulated network ---- */

enum { TIMEOUT_US = 1000000 };

static struct sim_peer *far_end;
static unsigned downs;

static void far_accepted(struct sim_host *host, struct sim_peer *peer)
{
    (void)host;
    far_end = peer;
}

static void far_input(struct sim_host *host, struct sim_peer *peer, struct bytes bytes)
{
    (void)host;
    (void)peer;
    (void)bytes; /* it says nothing unless the test does */
}

static void far_closed(struct sim_host *host, struct sim_peer *peer, bool reset)
{
    (void)host;
    (void)peer;
    (void)reset;
    far_end = NULL;
}

static void count_down(struct link_callbacks *callbacks, struct link *link)
{
    (void)callbacks;
    (void)link;
    downs++;
}

struct timed {
    struct sim_clock clock;
    struct sim_net *net;
    struct sim_loop *sim;
    struct sim_host host;
    struct link link;
    struct link_counts counts;
};

static void pass(struct timed *timed, int64_t us)
{
    timed->clock.now_us += us;
    for (int i = 0; i < 3; i++) { /* there, back, and what is done about it */
        sim_net_run(timed->net);
        loop_turn(sim_loop_port(timed->sim), 0);
    }
}

static void begin_timed(struct timed *timed)
{
    static const struct sim_host_handler handler = {
        .accepted = far_accepted, .input = far_input, .closed = far_closed};
    static struct link_callbacks callbacks = {
        .up = ignore, .down = count_down, .message = no_message};
    sim_clock_init(&timed->clock, 1);
    timed->net = sim_net_new(&timed->clock, 1);
    timed->sim = sim_loop_new(timed->net, &timed->clock.clock);
    sim_host_add(timed->net, &timed->host, "10.0.0.1:6379", &handler);
    link_init(&timed->link, &(struct link_options){.callbacks = &callbacks,
                                                   .loop = sim_loop_port(timed->sim),
                                                   .user = "",
                                                   .password = "",
                                                   .counts = &timed->counts,
                                                   .timeout_us = TIMEOUT_US});
    timed->counts = (struct link_counts){0};
    link_want(&timed->link, &(struct redis_address){.host = "10.0.0.1", .port = 6379});
    downs = 0;
    told = false;
    pass(timed, 0);
    assert_int_equal(timed->link.state, LINK_GREETING);
}

static void end_timed(struct timed *timed)
{
    link_fini(&timed->link);
    sim_loop_free(timed->sim);
    sim_net_free(timed->net);
}

static void a_greeting_that_is_not_answered_ends_the_link_which_comes_back_later(void **state)
{
    static struct timed timed;
    (void)state;
    begin_timed(&timed);
    pass(&timed, TIMEOUT_US - 1);
    assert_int_equal(timed.link.state, LINK_GREETING);
    pass(&timed, 1);
    assert_int_equal(timed.link.state, LINK_DOWN);
    assert_string_equal(timed.link.error, STREAM_SLOW);
    assert_int_equal(downs, 1);
    pass(&timed, 100000); /* later than 50 ms and a quarter */
    assert_int_equal(timed.link.state, LINK_GREETING);
    end_timed(&timed);
}

/* Answers to earlier calls move the time on. */
static void a_server_that_is_silent_for_too_long_is_left(void **state)
{
    static struct timed timed;
    struct link_call first = {.done = answered}, second = {.done = lost};
    (void)state;
    begin_timed(&timed);
    sim_peer_send(far_end, BYTES("+PONG\r\n"));
    pass(&timed, 0);
    assert_int_equal(timed.link.state, LINK_UP);
    link_expect(&timed.link, &first);
    pass(&timed, TIMEOUT_US / 2);
    link_expect(&timed.link, &second);
    sim_peer_send(far_end, BYTES("+OK\r\n"));
    pass(&timed, 0);
    pass(&timed, TIMEOUT_US - 1);
    assert_int_equal(timed.link.state, LINK_UP);
    assert_false(told);
    pass(&timed, 1);
    assert_int_equal(timed.link.state, LINK_DOWN);
    assert_string_equal(timed.link.error, "it does not answer");
    assert_true(told);
    end_timed(&timed);
}

/* To leave it would have all that it has to do sent again, to do once more. */
static void a_server_with_much_to_do_is_not_left_while_it_answers(void **state)
{
    static struct timed timed;
    struct link_call calls[4];
    (void)state;
    begin_timed(&timed);
    sim_peer_send(far_end, BYTES("+PONG\r\n"));
    pass(&timed, 0);
    for (int i = 0; i < 4; i++) {
        calls[i] = (struct link_call){.done = answered};
        link_expect(&timed.link, &calls[i]);
    }
    for (int i = 0; i < 4; i++) {
        pass(&timed, TIMEOUT_US - 1);
        sim_peer_send(far_end, BYTES("+OK\r\n"));
        pass(&timed, 0);
        assert_int_equal(timed.link.state, LINK_UP);
    }
    pass(&timed, 10 * TIMEOUT_US);
    assert_int_equal(timed.link.state, LINK_UP); /* nothing is owed */
    end_timed(&timed);
}

static void round_trips_are_counted_by_how_long_they_took(void **state)
{
    static struct timed timed;
    static const int64_t took_us[] = {64, 65, 5000, 100000};
    static const unsigned buckets[] = {0, 1, 7, 11};
    (void)state;
    begin_timed(&timed);
    sim_peer_send(far_end, BYTES("+PONG\r\n"));
    pass(&timed, 0);
    timed.counts = (struct link_counts){0};
    for (int i = 0; i < 4; i++) {
        struct link_call call = {.done = answered};
        link_expect(&timed.link, &call);
        pass(&timed, took_us[i]);
        sim_peer_send(far_end, BYTES("+OK\r\n"));
        pass(&timed, 0);
        assert_int_equal(timed.counts.round_trips[buckets[i]], 1);
        assert_true(took_us[i] <= link_counts_bound_us(buckets[i]));
        assert_true(buckets[i] == 0 || took_us[i] > link_counts_bound_us(buckets[i] - 1));
    }
    assert_int_equal(timed.counts.round_trips_us, 64 + 65 + 5000 + 100000);
    assert_int_equal(link_counts_bound_us(LINK_TIMES - 1), INT64_MAX);
    end_timed(&timed);
}

static void a_link_that_nobody_wants_does_not_come_back(void **state)
{
    static struct timed timed;
    (void)state;
    begin_timed(&timed);
    link_rest(&timed.link);
    assert_int_equal(timed.link.state, LINK_DOWN);
    pass(&timed, 10 * TIMEOUT_US);
    assert_int_equal(timed.link.state, LINK_DOWN);
    assert_null(far_end);
    end_timed(&timed);
}

/* Else a start that waits for it would end with "not needed any more". */
static void that_a_link_was_not_needed_is_no_error_once_it_is_wanted_again(void **state)
{
    static struct timed timed;
    (void)state;
    begin_timed(&timed);
    struct redis_address address = timed.link.address;
    link_rest(&timed.link);
    assert_string_equal(timed.link.error, "");
    link_want(&timed.link, &address);
    assert_string_equal(timed.link.error, "");
    link_fail(&timed.link, "it is loading");
    link_rest(&timed.link); /* it is down: why is still told */
    link_want(&timed.link, &address);
    assert_string_equal(timed.link.error, "it is loading");
    end_timed(&timed);
}

struct turned {
    struct link_call call;
    struct timed *timed;
};

static void rest_and_want_again(struct link_call *call, redisReply *reply)
{
    struct link *link = &((struct turned *)call)->timed->link; /* its first member */
    struct redis_address address = link->address;
    freeReplyObject(reply);
    link_rest(link);
    assert_true(link->doomed); /* it ends when replies have been handed out */
    link_want(link, &address);
}

/* A link that is up, whose one call is answered. */
static void answer_a_call(struct turned *turned)
{
    begin_timed(turned->timed);
    sim_peer_send(far_end, BYTES("+PONG\r\n"));
    pass(turned->timed, 0);
    link_expect(&turned->timed->link, &turned->call);
    sim_peer_send(far_end, BYTES("+OK\r\n"));
    pass(turned->timed, 0);
}

static void nor_if_it_is_wanted_again_before_it_has_ended(void **state)
{
    static struct timed timed;
    struct turned turned = {.call.done = rest_and_want_again, .timed = &timed};
    (void)state;
    answer_a_call(&turned);
    assert_int_equal(downs, 1);
    assert_string_equal(timed.link.error, "");
    assert_true(timed.link.wanted);
    pass(&timed, 100000);
    assert_int_equal(timed.link.state, LINK_GREETING);
    end_timed(&timed);
}

/* It fails, and then nobody wants it: why it failed is still told. */
static void fail_and_rest(struct link_call *call, redisReply *reply)
{
    struct link *link = &((struct turned *)call)->timed->link;
    freeReplyObject(reply);
    link_fail(link, "it is loading");
    link_rest(link);
}

static void a_failure_before_a_rest_is_still_told(void **state)
{
    static struct timed timed;
    struct turned turned = {.call.done = fail_and_rest, .timed = &timed};
    (void)state;
    answer_a_call(&turned);
    assert_int_equal(timed.link.state, LINK_DOWN);
    assert_string_equal(timed.link.error, "it is loading");
    end_timed(&timed);
}

int main(void)
{
#define LINKED(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        LINKED(what_was_not_sent_when_a_link_failed_is_never_sent),
        LINKED(as_much_as_a_server_reads_at_once_is_sent_early),
        LINKED(an_answer_of_absurd_length_costs_the_connection),
        cmocka_unit_test(a_greeting_that_is_not_answered_ends_the_link_which_comes_back_later),
        cmocka_unit_test(a_server_that_is_silent_for_too_long_is_left),
        cmocka_unit_test(a_server_with_much_to_do_is_not_left_while_it_answers),
        cmocka_unit_test(round_trips_are_counted_by_how_long_they_took),
        cmocka_unit_test(a_link_that_nobody_wants_does_not_come_back),
        cmocka_unit_test(that_a_link_was_not_needed_is_no_error_once_it_is_wanted_again),
        cmocka_unit_test(nor_if_it_is_wanted_again_before_it_has_ended),
        cmocka_unit_test(a_failure_before_a_rest_is_still_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
