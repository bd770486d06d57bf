/*
 * A connection to Redis that is given up, against a listener of our own: what had not reached the
 * server then does not reach it later.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/redis/link.h"

enum { MANY_BYTES = 32 * 1024 * 1024, TURNS = 1000 };

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

/* The server's end of a link that is up. */
static int bring_up(struct link *link, int epoll, int listener)
{
    char greeting[64];
    link_tick(link, 1);
    int fd = accept(listener, NULL, NULL);
    assert_true(fd >= 0);
    for (int i = 0; i < TURNS && link->state == LINK_CONNECTING; i++)
        link_poll(epoll, 1);
    assert_true(read(fd, greeting, sizeof(greeting)) > 0);
    assert_int_equal(write(fd, "+PONG\r\n", 7), 7);
    for (int i = 0; i < TURNS && link->state != LINK_UP; i++)
        link_poll(epoll, 1);
    assert_int_equal(link->state, LINK_UP);
    return fd;
}

static int open_test_link(struct link *link, struct link_callbacks *callbacks, int epoll,
                          int listener, const struct redis_address *address)
{
    link_init(link, &(struct link_options){.callbacks = callbacks,
                                           .epoll = epoll,
                                           .user = "",
                                           .password = "",
                                           .timeout_us = 1000000});
    link_want(link, address, 1);
    return bring_up(link, epoll, listener);
}

static void what_was_not_sent_when_a_link_failed_is_never_sent(void **state)
{
    static char room[1024 * 1024];
    struct link_callbacks callbacks = {.up = ignore, .down = ignore, .message = no_message};
    struct link_call call = {.done = lost};
    struct redis_address address;
    struct link link;
    (void)state;
    int epoll = epoll_create1(EPOLL_CLOEXEC), listener = listen_somewhere(&address);
    int fd = open_test_link(&link, &callbacks, epoll, listener, &address);
    for (size_t sent = 0; sent < MANY_BYTES; sent += sizeof(room))
        buf_add(link_out(&link), room, sizeof(room));
    link_expect(&link, &call);
    link_flush(&link); /* as much as the kernel takes, which is more than the other end takes */
    link_fail(&link, "it does not answer");
    assert_true(told);
    ssize_t got = 1;
    while (got > 0)
        got = read(fd, room, sizeof(room));
    assert_int_equal(got, -1); /* and not 0, which is an orderly end behind all that was written */
    assert_int_equal(errno, ECONNRESET);
    link_fini(&link);
    (void)close(fd);
    (void)close(listener);
    (void)close(epoll);
}

static void as_much_as_a_server_reads_at_once_is_sent_early(void **state)
{
    enum { READ_AT_ONCE = 16 * 1024 };
    static char room[2 * READ_AT_ONCE];
    struct link_callbacks callbacks = {.up = ignore, .down = ignore, .message = no_message};
    struct redis_address address;
    struct link link;
    (void)state;
    int epoll = epoll_create1(EPOLL_CLOEXEC), listener = listen_somewhere(&address);
    int fd = open_test_link(&link, &callbacks, epoll, listener, &address);
    buf_add(link_out(&link), room, READ_AT_ONCE - 1);
    link_flush_early(&link);
    assert_int_equal(recv(fd, room, sizeof(room), MSG_DONTWAIT), -1);
    buf_add(link_out(&link), room, 1);
    link_flush_early(&link);
    assert_int_equal(recv(fd, room, READ_AT_ONCE, MSG_WAITALL), READ_AT_ONCE);
    buf_add(link_out(&link), room, 1);
    link_flush(&link);
    assert_int_equal(recv(fd, room, sizeof(room), 0), 1);
    (void)close(fd); /* an error is told by link_flush() */
    link_poll(epoll, 1);
    buf_add(link_out(&link), room, READ_AT_ONCE);
    link_flush_early(&link);
    link_fini(&link);
    (void)close(listener);
    (void)close(epoll);
}

static void an_answer_of_absurd_length_costs_the_connection(void **state)
{
    static const char nonsense[] = "*2147483647\r\n";
    struct link_callbacks callbacks = {.up = ignore, .down = ignore, .message = no_message};
    struct link_call call = {.done = lost};
    struct redis_address address;
    struct link link;
    (void)state;
    int epoll = epoll_create1(EPOLL_CLOEXEC), listener = listen_somewhere(&address);
    int fd = open_test_link(&link, &callbacks, epoll, listener, &address);
    told = false;
    link_expect(&link, &call);
    assert_int_equal(write(fd, nonsense, strlen(nonsense)), strlen(nonsense));
    link_poll(epoll, 1);
    assert_int_equal(link.state, LINK_DOWN);
    assert_true(told);
    link_fini(&link);
    (void)close(fd);
    (void)close(listener);
    (void)close(epoll);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_not_sent_when_a_link_failed_is_never_sent),
        cmocka_unit_test(as_much_as_a_server_reads_at_once_is_sent_early),
        cmocka_unit_test(an_answer_of_absurd_length_costs_the_connection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
