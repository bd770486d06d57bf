/* Which Host a request may name: addresses, localhost, and the server's own names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proto/http/host.h"

static void only_names_that_nobody_can_point_elsewhere_are_known(void **state)
{
    (void)state;
    static const struct {
        const char *host;
        bool known;
    } cases[] = {
        {"", true},
        {"127.0.0.1", true},
        {"127.0.0.1:9277", true},
        {"10.255.0.1:80", true},
        {"[::1]", true},
        {"[::1]:9277", true},
        {"[::ffff:10.0.0.1]:1", true},
        {"localhost", true},
        {"LocalHost:9277", true},
        {"localhost.", true},
        {"localhost.:9277", true},
        {"queue.example", true},
        {"Queue.Example:1", true},
        {"queue.example.", true},
        {"other", true},
        {"evil.example", false},
        {"evil.example:9277", false},
        {"queue.example.evil", false},
        {"xqueue.example", false},
        {"localhost.evil.example", false},
        {"127.0.0.1.evil.example", false},
        {"evil127.0.0.1", false},
        {"127.0.0.1.", false},
        {"127.0.0", false},
        {"127.0.0.1.1", false},
        {"127.0.0.", false},
        {"1.2.3.", false},
        {"127.0.0.256", false},
        {"4294967423.0.0.1", false},
        {"127.0.0.0x1", false},
        {"127..0.1", false},
        {"1271", false},
        {".127.0.0.1", false},
        {"[::1", false},
        {"[]", false},
        {"[evil.example]", false},
        {"[::1].evil.example", false},
        {":9277", false},
        {".", false},
        {",", false},
        {" ", false},
        {"*", false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct bytes names = BYTES("queue.example, other  third.example,");
        if (host_is_known(bytes_str(cases[i].host), names) != cases[i].known)
            fail_msg("%s", cases[i].host);
        if (cases[i].host[0] && !host_is_known(bytes_str(cases[i].host), BYTES("a,*")))
            fail_msg("%s is no name to a server that takes any", cases[i].host);
    }
    assert_false(host_is_known(BYTES("evil.example"), bytes_of(NULL, 0)));
}

static void a_name_of_the_configuration_has_no_port_and_no_path(void **state)
{
    (void)state;
    assert_true(host_is_name(BYTES("queue-1.example_x.org")));
    assert_true(host_is_name(BYTES("*")));
    assert_false(host_is_name(BYTES("")));
    assert_false(host_is_name(BYTES("queue:9277")));
    assert_false(host_is_name(BYTES("http://queue")));
    assert_false(host_is_name(BYTES("*.example")));
    char longest[254]; /* DNS has no longer ones than 253 bytes */
    memset(longest, 'a', sizeof(longest));
    assert_true(host_is_name(bytes_of(longest, 253)));
    assert_false(host_is_name(bytes_of(longest, 254)));
    assert_int_equal(host_without_port(BYTES("a:1")).len, 1);
    assert_int_equal(host_without_port(BYTES("a1")).len, 2);
    assert_int_equal(host_without_port(BYTES("[::1]:80")).len, 5);
    assert_int_equal(host_without_port(BYTES("a:")).len, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_names_that_nobody_can_point_elsewhere_are_known),
        cmocka_unit_test(a_name_of_the_configuration_has_no_port_and_no_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
