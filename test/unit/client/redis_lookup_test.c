/*
 * A Redis server that has a name, with a getaddrinfo() of our own in place of the C library's: the
 * daemon goes on while DNS does not answer, and nothing is left when nobody waits for it any more.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/mem.h"
#include "client/redis/link.h"

enum { TIMEOUT_US = 1000000, WAIT_MS = 10000 };

static int answers[2]; /* a byte for each look-up of slow.test that may be answered */

/* slow.test answers when it is told to, good.test at once: 127.0.0.2 and then 127.0.0.1. Others
 * are nobody's; digits are the only ones that are asked for on the main thread. */
int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                struct addrinfo **out_found)
{
    char byte;
    uint64_t number;
    bool digits = hints->ai_flags & AI_NUMERICHOST;
    if (digits || strcmp(host, "none.test") == 0)
        return EAI_NONAME;
    if (strcmp(host, "slow.test") == 0 && read(answers[0], &byte, 1) != 1)
        return EAI_AGAIN;
    assert_true(bytes_to_u64(bytes_str(port), &number));
    struct addrinfo *found = calloc(2, sizeof(*found));
    struct sockaddr_in *addresses = calloc(2, sizeof(*addresses));
    for (int i = 0; i < 2; i++) {
        addresses[i] = (struct sockaddr_in){.sin_family = AF_INET,
                                            .sin_port = htons((uint16_t)number),
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

/* No look-up is under way: each has a little of the heap. */
static void wait_for_rest(void)
{
    for (int i = 0; i < WAIT_MS && mem_used() > 0; i++)
        (void)poll(NULL, 0, 1);
    assert_int_equal(mem_used(), 0);
}

static void ignore(struct link_callbacks *callbacks, struct link *link)
{
    (void)callbacks;
    (void)link;
}

static struct link_callbacks callbacks = {.up = ignore, .down = ignore};

static void make_link(struct link *link, int epoll, const char *host, uint16_t port)
{
    struct redis_address address = {.port = port};
    memcpy(address.host, host, strlen(host) + 1);
    link_init(link, &(struct link_options){.callbacks = &callbacks,
                                           .epoll = epoll,
                                           .user = "",
                                           .password = "",
                                           .timeout_us = TIMEOUT_US});
    link_want(link, &address, 1);
}

static void wait_for_news(int epoll)
{
    struct pollfd one = {.fd = epoll, .events = POLLIN};
    assert_int_equal(poll(&one, 1, WAIT_MS), 1);
    link_poll(epoll, 2);
}

/* A port that is free, or listened to, on 127.0.0.1. */
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

static void a_slow_name_holds_nobody_up_and_is_connected_to_in_the_end(void **state)
{
    struct link link;
    uint16_t port;
    (void)state;
    int epoll = epoll_create1(EPOLL_CLOEXEC), listener = listen_somewhere(&port);
    make_link(&link, epoll, "slow.test", port);
    link_tick(&link, 1);
    assert_int_equal(link.state, LINK_LOOKING_UP); /* and we are here */
    assert_true(link_next_us(&link) == 1 + TIMEOUT_US);
    assert_int_equal(write(answers[1], "x", 1), 1);
    wait_for_news(epoll);
    assert_int_not_equal(link.state, LINK_LOOKING_UP);
    link_fini(&link);
    wait_for_rest();
    (void)close(listener);
    (void)close(epoll);
}

static void a_name_that_takes_too_long_is_given_up_and_its_answer_forgotten(void **state)
{
    struct link link;
    (void)state;
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    make_link(&link, epoll, "slow.test", 1);
    link_tick(&link, 1);
    link_tick(&link, 1 + TIMEOUT_US);
    assert_int_equal(link.state, LINK_DOWN);
    assert_string_equal(link.error, "looking up its name takes too long");
    link_fini(&link);
    assert_true(mem_used() > 0); /* the thread has its question still */
    assert_int_equal(write(answers[1], "x", 1), 1);
    wait_for_rest(); /* it answered nobody, and ended */
    (void)close(epoll);
}

static void a_name_that_nobody_has_is_told(void **state)
{
    struct link link;
    (void)state;
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    make_link(&link, epoll, "none.test", 1);
    link_tick(&link, 1);
    wait_for_news(epoll);
    assert_int_equal(link.state, LINK_DOWN);
    assert_string_equal(link.error, gai_strerror(EAI_NONAME));
    link_fini(&link);
    wait_for_rest();
    (void)close(epoll);
}

static void each_address_of_a_name_gets_its_turn(void **state)
{
    struct link link;
    uint16_t port;
    (void)state;
    int epoll = epoll_create1(EPOLL_CLOEXEC), listener = listen_somewhere(&port);
    make_link(&link, epoll, "good.test", port);
    int64_t now_us = 1;
    link_tick(&link, now_us);
    for (int i = 0; i < 100 && link.state != LINK_GREETING; i++) {
        now_us = link.state == LINK_DOWN ? link.retry_at_us : now_us;
        link_tick(&link, now_us);
        struct pollfd one = {.fd = epoll, .events = POLLIN};
        (void)poll(&one, 1, 100);
        link_poll(epoll, now_us);
    }
    assert_int_equal(link.state, LINK_GREETING); /* 127.0.0.2 refused, 127.0.0.1 did not */
    assert_int_equal(link.attempt, 1);
    link_fini(&link);
    wait_for_rest();
    (void)close(listener);
    (void)close(epoll);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slow_name_holds_nobody_up_and_is_connected_to_in_the_end),
        cmocka_unit_test(a_name_that_takes_too_long_is_given_up_and_its_answer_forgotten),
        cmocka_unit_test(a_name_that_nobody_has_is_told),
        cmocka_unit_test(each_address_of_a_name_gets_its_turn),
    };
    if (pipe(answers))
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
