/*
 * Streams to names (os/resolve under os/stream), with a getaddrinfo() of our own in place of the C
 * library's: the loop goes on while DNS does not answer, and nothing is left when nobody waits for
 * it any more.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "os/loop.h"
#include "os/resolve.h"
#include "sim/clock.h"

enum { TIMEOUT_US = 1000000, TURN_US = 5000, TURNS = 2000, WAIT_MS = 10000 };

static int answers[2]; /* a byte for each look-up of slow.test that may be answered */
static atomic_uint look_ups;

/* slow.test answers when it is told to, good.test at once: 127.0.0.2 and then 127.0.0.1. Others
 * are nobody's; digits are the only ones that are asked for on the main thread. */
int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                struct addrinfo **out_found)
{
    char byte;
    (void)port;
    if (hints->ai_flags & AI_NUMERICHOST)
        return EAI_NONAME;
    atomic_fetch_add(&look_ups, 1);
    if (strcmp(host, "none.test") == 0)
        return EAI_NONAME;
    if (strcmp(host, "slow.test") == 0 && read(answers[0], &byte, 1) != 1)
        return EAI_AGAIN;
    struct addrinfo *found = calloc(2, sizeof(*found));
    struct sockaddr_in *addresses = calloc(2, sizeof(*addresses));
    for (int i = 0; i < 2; i++) {
        addresses[i] = (struct sockaddr_in){.sin_family = AF_INET,
                                            .sin_addr.s_addr = htonl(0x7f000002U - (uint32_t)i)};
        found[i].ai_addr = (struct sockaddr *)&addresses[i];
        found[i].ai_addrlen = sizeof(addresses[i]);
    }
    found->ai_next = found + 1;
    *out_found = found;
    return 0;
}

void freeaddrinfo(struct addrinfo *found)
{
    free(found->ai_addr);
    free(found);
}

/* ---- a loop, and streams of it ---- */

static struct sim_clock the_clock;
static struct os_loop *os;
static struct loop *loop;

struct end {
    struct stream *stream;
    unsigned opened;
    char error[160];
};

static void opened(struct stream *stream)
{
    ((struct end *)stream->user)->opened++;
}

static size_t input(struct stream *stream, struct bytes bytes)
{
    (void)stream;
    return bytes.len;
}

static void gone(struct stream *stream, bool half)
{
    struct end *end = stream->user;
    assert_false(half);
    (void)snprintf(end->error, sizeof(end->error), "%s", stream->error);
    end->stream = NULL;
}

static void connect_to(struct end *end, const char *host, uint16_t port, unsigned attempt)
{
    static const struct stream_handler handler = {.opened = opened, .input = input, .gone = gone};
    *end = (struct end){0};
    end->stream = loop->verbs->connect(loop, &(struct stream_options){.host = host,
                                                                      .port = port,
                                                                      .attempt = attempt,
                                                                      .timeout_us = TIMEOUT_US,
                                                                      .handler = &handler,
                                                                      .user = end});
}

static void turns_until_known(const struct end *end)
{
    for (int i = 0; i < TURNS && !end->opened && !end->error[0]; i++)
        loop_turn(loop, loop->now_us + TURN_US);
}

static int setup(void **state)
{
    (void)state;
    sim_clock_init(&the_clock, 1);
    atomic_store(&look_ups, 0);
    os = os_loop_new(&the_clock.clock, 0);
    loop = os ? os_loop_port(os) : NULL;
    return os ? 0 : -1;
}

/* No look-up is under way afterwards: each has a little of the heap. */
static int teardown(void **state)
{
    (void)state;
    os_loop_free(os);
    for (int i = 0; i < WAIT_MS && mem_used() > 0; i++)
        (void)poll(NULL, 0, 1);
    return mem_used() == 0 ? 0 : -1;
}

/* A port that is listened to on 127.0.0.1, and nowhere else. */
static int listen_somewhere(uint16_t *out_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    *out_port = ntohs(address.sin_port);
    return fd;
}

/* ---- */

static void a_slow_name_holds_nobody_up_and_is_known_in_the_end(void **state)
{
    struct end end;
    (void)state;
    connect_to(&end, "slow.test", 1, 0);
    for (int i = 0; i < 3; i++)
        loop_turn(loop, loop->now_us + TURN_US); /* and we are here */
    assert_false(end.opened || end.error[0]);
    assert_int_equal(write(answers[1], "x", 1), 1);
    turns_until_known(&end);
    assert_string_equal(end.error, "Connection refused"); /* there is nobody at 127.0.0.2 */
}

static void a_name_that_takes_too_long_is_given_up_and_its_answer_forgotten(void **state)
{
    struct end end;
    (void)state;
    connect_to(&end, "slow.test", 1, 0);
    the_clock.now_us += TIMEOUT_US - 1;
    loop_turn(loop, 0);
    assert_false(end.error[0]);
    the_clock.now_us += 1;
    loop_turn(loop, 0);
    loop_turn(loop, 0);
    assert_string_equal(end.error, STREAM_NAME_SLOW);
    assert_int_equal(write(answers[1], "x", 1), 1);
}

static void an_answer_after_the_loop_has_ended_is_forgotten(void **state)
{
    struct end end;
    (void)state;
    connect_to(&end, "slow.test", 1, 0);
    stream_close(end.stream, STREAM_DROP);
    os_loop_free(os);
    os = NULL;
    assert_true(mem_used() > 0); /* the thread has its question still */
    assert_int_equal(write(answers[1], "x", 1), 1);
}

static void a_name_that_nobody_has_is_told(void **state)
{
    struct end end;
    (void)state;
    connect_to(&end, "none.test", 1, 0);
    turns_until_known(&end);
    assert_string_equal(end.error, gai_strerror(EAI_NONAME));
}

static void each_address_of_a_name_gets_its_turn(void **state)
{
    struct end end;
    uint16_t port;
    (void)state;
    int listener = listen_somewhere(&port);
    connect_to(&end, "good.test", port, 2);
    turns_until_known(&end);
    assert_string_equal(end.error, "Connection refused"); /* by 127.0.0.2 */
    connect_to(&end, "good.test", port, 3);
    turns_until_known(&end);
    assert_int_equal(end.opened, 1);
    stream_close(end.stream, STREAM_DROP);
    (void)close(listener);
}

static void who_asks_for_the_same_name_shares_the_answer(void **state)
{
    struct end one, two;
    (void)state;
    connect_to(&one, "slow.test", 1, 0);
    connect_to(&two, "slow.test", 1, 0);
    assert_int_equal(write(answers[1], "x", 1), 1);
    turns_until_known(&one);
    turns_until_known(&two);
    assert_true(one.error[0] && two.error[0]);
    assert_int_equal(atomic_load(&look_ups), 1);
}

int main(void)
{
#define ON_A_LOOP(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        ON_A_LOOP(a_slow_name_holds_nobody_up_and_is_known_in_the_end),
        ON_A_LOOP(a_name_that_takes_too_long_is_given_up_and_its_answer_forgotten),
        ON_A_LOOP(an_answer_after_the_loop_has_ended_is_forgotten),
        ON_A_LOOP(a_name_that_nobody_has_is_told),
        ON_A_LOOP(each_address_of_a_name_gets_its_turn),
        ON_A_LOOP(who_asks_for_the_same_name_shares_the_answer),
    };
    if (pipe(answers))
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
