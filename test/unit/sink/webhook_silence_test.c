/* Which receivers get new connections, because one of theirs brings no answers any more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#include "sink/webhook/silence.h"

enum { PORT = 40000, SECOND_US = 1000000 };

static const char host[] = "shop.example:443";

/* An answer came at second 10, and a request of second 20 has none at second 35. */
static bool wants_new(const char *first_line)
{
    struct silence silence = {0};
    silence_heard(&silence, PORT, bytes_str(first_line), 10 * SECOND_US);
    silence_timed_out(&silence, PORT, host, 20 * SECOND_US, 35 * SECOND_US);
    return silence_wants_new(&silence, host, 35 * SECOND_US);
}

static void only_connections_that_are_kept_are_left(void **state)
{
    (void)state;
    assert_true(wants_new("HTTP/2 200 \r\n"));
    assert_false(wants_new("HTTP/1.1 200 OK\r\n")); /* libcurl has closed it */
}

static void one_that_answered_others_meanwhile_is_only_slow(void **state)
{
    struct silence silence = {0};
    (void)state;
    silence_heard(&silence, PORT, BYTES("HTTP/2 200 \r\n"), 25 * SECOND_US);
    silence_timed_out(&silence, PORT, host, 20 * SECOND_US, 35 * SECOND_US);
    assert_false(silence_wants_new(&silence, host, 35 * SECOND_US));
    silence_timed_out(&silence, PORT + 1, host, 20 * SECOND_US, 35 * SECOND_US); /* not known */
    silence_timed_out(&silence, 0, host, 30 * SECOND_US, 35 * SECOND_US);        /* no connection */
    assert_false(silence_wants_new(&silence, host, 35 * SECOND_US));
}

/* The port of a connection of HTTP/2 that ended is another's now: perhaps one of HTTP/1. */
static void what_was_heard_on_an_earlier_connection_of_the_port_says_nothing(void **state)
{
    struct silence silence = {0};
    (void)state;
    silence_heard(&silence, PORT, BYTES("HTTP/2 200 \r\n"), 10 * SECOND_US);
    silence_timed_out(&silence, PORT, host, 1000 * (int64_t)SECOND_US, 1015 * (int64_t)SECOND_US);
    assert_false(silence_wants_new(&silence, host, 1015 * (int64_t)SECOND_US));
}

/* Requests with a long time-out came while the first of them waited. */
static void requests_that_waited_long_mark_it_too(void **state)
{
    struct silence silence = {0};
    (void)state;
    silence_heard(&silence, PORT, BYTES("HTTP/2 200 \r\n"), 10 * SECOND_US);
    silence_timed_out(&silence, PORT, host, 600 * (int64_t)SECOND_US, 1200 * (int64_t)SECOND_US);
    assert_true(silence_wants_new(&silence, host, 1200 * (int64_t)SECOND_US));
}

static void it_lasts_until_the_silent_one_is_too_old(void **state)
{
    struct silence silence = {0};
    (void)state;
    silence_heard(&silence, PORT, BYTES("HTTP/2 200 \r\n"), 1);
    silence_timed_out(&silence, PORT, host, 2, SECOND_US);
    assert_false(silence_wants_new(&silence, "shop.example:8443", SECOND_US));
    assert_true(silence_wants_new(&silence, host, (SILENCE_AGE_S + 1) * (int64_t)SECOND_US));
    silence_timed_out(&silence, PORT, host, 2, 60 * SECOND_US); /* another that was under way */
    assert_true(silence_wants_new(&silence, host, (SILENCE_AGE_S + 60) * (int64_t)SECOND_US));
    assert_false(silence_wants_new(&silence, host, (SILENCE_AGE_S + 63) * (int64_t)SECOND_US));
}

/* A balancer has forgotten them all, while a busy receiver of HTTP/1 closes each connection. */
static void however_many_are_silent_at_once_none_is_forgotten(void **state)
{
    enum { MANY = 300 };
    struct silence silence = {0};
    char name[OUTCOME_ADDRESS_MAX];
    (void)state;
    for (long i = 0; i < MANY; i++)
        silence_heard(&silence, 1024 + 7 * i, BYTES("HTTP/2 200 \r\n"), 1);
    for (long port = 1024; port <= UINT16_MAX; port++)
        silence_heard(&silence, port, BYTES("HTTP/1.1 200 OK\r\n"), 3);
    for (long i = 0; i < MANY; i++) {
        (void)snprintf(name, sizeof(name), "h%ld:443", i);
        silence_timed_out(&silence, 1024 + 7 * i, name, 2, SECOND_US);
    }
    for (long i = 0; i < MANY; i++) {
        (void)snprintf(name, sizeof(name), "h%ld:443", i);
        assert_true(silence_wants_new(&silence, name, SECOND_US));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_connections_that_are_kept_are_left),
        cmocka_unit_test(one_that_answered_others_meanwhile_is_only_slow),
        cmocka_unit_test(what_was_heard_on_an_earlier_connection_of_the_port_says_nothing),
        cmocka_unit_test(requests_that_waited_long_mark_it_too),
        cmocka_unit_test(it_lasts_until_the_silent_one_is_too_old),
        cmocka_unit_test(however_many_are_silent_at_once_none_is_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
