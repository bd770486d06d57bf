/*
 * A client that epoll refuses is closed, and no other is accepted for a while. Sockets on this
 * machine; epoll_ctl() is this file's own, for the limits are the system's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "os/clock.h"
#include "test/unit/os/clients.h"

enum {
    CLIENTS = 3,
    PAUSE_US = 200 * 1000,
    TURN_US = 20 * 1000,
    LONG_US = 1000 * 1000,
    TURNS_MAX = 1000,
};

static int refuse_with;  /* errno of what adds a client; 0: nothing is refused */
static unsigned refused; /* clients */
static int listen_fd, other_listen_fd;
static unsigned accepted_count;

int epoll_ctl(int epoll, int what, int fd, struct epoll_event *event)
{
    if (refuse_with && what == EPOLL_CTL_ADD && fd != listen_fd && fd != other_listen_fd) {
        refused++;
        errno = refuse_with;
        return -1;
    }
    return (int)syscall(SYS_epoll_ctl, epoll, what, fd, event);
}

static int64_t longest_us; /* that the loop was ready to sleep */

int epoll_pwait2(int epoll, struct epoll_event *events, int max, const struct timespec *limit,
                 const sigset_t *signals)
{
    int64_t us = limit ? limit->tv_sec * INT64_C(1000000) + limit->tv_nsec / 1000 : INT64_MAX;
    longest_us = us > longest_us ? us : longest_us;
    return (int)syscall(SYS_epoll_pwait2, epoll, events, max, limit, signals, NSIG / 8);
}

static void accepted(struct acceptor *acceptor, struct stream *stream, unsigned listener)
{
    (void)acceptor, (void)listener;
    stream->handler = &drop_all;
    accepted_count++;
}

static void read_log(int fd, char out_text[static 4096])
{
    ssize_t len = pread(fd, out_text, 4095, 0);
    assert_true(len >= 0);
    out_text[len] = '\0';
}

static void refuse(int why, const char *hint)
{
    struct os_clock clock;
    struct acceptor acceptor = {.accepted = accepted};
    struct os_loop *os = accepting_loop(&clock, &acceptor);
    struct loop *loop = os_loop_port(os);
    struct sockaddr_in address = listen_here(os, CLIENTS, &listen_fd);
    int fds[CLIENTS];
    for (int i = 0; i < CLIENTS; i++)
        fds[i] = connect_to(&address);
    refused = accepted_count = 0;
    refuse_with = why;
    FILE *log = tmpfile();
    int stderr_fd = dup(STDERR_FILENO);
    assert_non_null(log);
    (void)dup2(fileno(log), STDERR_FILENO);
    for (int turn = 0; turn < TURNS_MAX && !refused; turn++)
        loop_turn(loop, loop->now_us + TURN_US);
    int64_t paused_us = loop->now_us;
    loop_turn(loop, loop->now_us + TURN_US);
    (void)dup2(stderr_fd, STDERR_FILENO);
    (void)close(stderr_fd);
    char text[4096], byte;
    read_log(fileno(log), text);
    (void)fclose(log);
    assert_int_equal(refused, 1);
    assert_int_equal(os_loop_count(os), 0);
    assert_int_equal(recv(fds[0], &byte, 1, 0), 0); /* closed */
    assert_non_null(strstr(text, "accept_paused"));
    assert_non_null(strstr(text, hint));
    refuse_with = 0;
    longest_us = 0;
    loop_turn(loop, loop->now_us + LONG_US);
    assert_true(longest_us > 0 && longest_us <= PAUSE_US); /* nothing else ends it */
    for (int turn = 0; turn < TURNS_MAX && accepted_count < CLIENTS - 1; turn++)
        loop_turn(loop, loop->now_us + TURN_US);
    assert_int_equal(accepted_count, CLIENTS - 1); /* the others wait until the pause is over */
    assert_true(loop->now_us - paused_us >= PAUSE_US - TURN_US);
    for (int i = 0; i < CLIENTS; i++)
        (void)close(fds[i]);
    os_loop_free(os);
}

static void at_the_limit_of_watches_accepting_pauses_and_the_log_names_it(void **state)
{
    (void)state;
    refuse(ENOSPC, "max_user_watches");
}

static void without_kernel_memory_accepting_pauses_and_the_log_names_it(void **state)
{
    (void)state;
    refuse(ENOMEM, "memory");
}

static bool closed(int fd)
{
    char byte;
    return recv(fd, &byte, 1, MSG_DONTWAIT) == 0;
}

/* Clients of both wait: in each pause one client is closed, of each listener in turn. */
static void a_pause_is_for_all_listeners_and_each_is_first_after_one(void **state)
{
    (void)state;
    enum { EACH = 3 };
    struct os_clock clock;
    struct acceptor acceptor = {.accepted = accepted};
    struct os_loop *os = accepting_loop(&clock, &acceptor);
    struct loop *loop = os_loop_port(os);
    struct sockaddr_in addresses[2] = {listen_here(os, EACH, &listen_fd),
                                       listen_here(os, EACH, &other_listen_fd)};
    int fds[2][EACH];
    for (int i = 0; i < 2 * EACH; i++)
        fds[i % 2][i / 2] = connect_to(&addresses[i % 2]);
    refused = accepted_count = 0;
    refuse_with = ENOSPC;
    for (unsigned pause = 1; pause <= 4; pause++) {
        for (int turn = 0; turn < TURNS_MAX && refused < pause; turn++)
            loop_turn(loop, loop->now_us + TURN_US);
        assert_int_equal(refused, pause);
        assert_int_equal(os_loop_count(os), 0);
        for (unsigned i = 0; i < 4; i++) /* the first of each, then the second of each */
            assert_int_equal(closed(fds[i % 2][i / 2]), i < pause);
    }
    refuse_with = 0;
    for (int turn = 0; turn < TURNS_MAX && accepted_count < 2; turn++)
        loop_turn(loop, loop->now_us + TURN_US);
    assert_int_equal(accepted_count, 2);
    for (int i = 0; i < 2 * EACH; i++)
        (void)close(fds[i % 2][i / 2]);
    os_loop_free(os);
}

/* As those for other protocols are when the store has been read, which may be in a pause. */
static void a_listener_that_is_added_in_a_pause_begins_with_the_others(void **state)
{
    (void)state;
    struct os_clock clock;
    struct acceptor acceptor = {.accepted = accepted};
    struct os_loop *os = accepting_loop(&clock, &acceptor);
    struct loop *loop = os_loop_port(os);
    struct sockaddr_in first = listen_here(os, CLIENTS, &listen_fd), second;
    int fds[2] = {connect_to(&first), -1};
    refused = accepted_count = 0;
    refuse_with = ENOSPC;
    for (int turn = 0; turn < TURNS_MAX && !refused; turn++)
        loop_turn(loop, loop->now_us + TURN_US);
    assert_int_equal(refused, 1);
    refuse_with = 0;
    second = listen_here(os, CLIENTS, &other_listen_fd);
    fds[1] = connect_to(&second);
    loop_turn(loop, loop->now_us + TURN_US);
    assert_int_equal(accepted_count, 0); /* the pause is for it, too */
    for (int turn = 0; turn < TURNS_MAX && accepted_count < 1; turn++)
        loop_turn(loop, loop->now_us + TURN_US);
    assert_int_equal(accepted_count, 1);
    for (int i = 0; i < 2; i++)
        (void)close(fds[i]);
    os_loop_free(os);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(at_the_limit_of_watches_accepting_pauses_and_the_log_names_it),
        cmocka_unit_test(without_kernel_memory_accepting_pauses_and_the_log_names_it),
        cmocka_unit_test(a_pause_is_for_all_listeners_and_each_is_first_after_one),
        cmocka_unit_test(a_listener_that_is_added_in_a_pause_begins_with_the_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
