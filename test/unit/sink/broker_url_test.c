/* URLs that list servers: what is read, and that what is wrong is said without showing it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sink/broker_url.h"

static const struct broker_url_kind kind = {.plain = "kafka", .tls = "kafkas", .port = 9092};

static void hosts_ports_and_a_user_are_read(void **state)
{
    struct broker_url url;
    struct broker_url_error error;
    char room[200];
    (void)state;
    assert_int_equal(
        broker_url_read(BYTES("kafkas://me%40x:p%2Fw@a,b.example:19092,[::1],[fe80::1]:7/?m=1&n=2"),
                        &kind, &url, &error),
        OK);
    assert_true(url.tls);
    assert_string_equal(url.user, "me@x");
    assert_string_equal(url.password, "p/w");
    broker_url_hosts(&url, room, sizeof(room));
    assert_string_equal(room, "a:9092,b.example:19092,[::1]:9092,[fe80::1]:7");
    assert_true(bytes_eq(broker_url_option(&url, BYTES("n")), BYTES("2")));
    assert_int_equal(broker_url_option(&url, BYTES("o")).len, 0);
    broker_url_hosts(&url, room, 10); /* cut, and ended */
    assert_int_equal(strlen(room), 9);
}

static void what_is_wrong_is_refused_and_never_shown(void **state)
{
    static const char *const wrong[] = {
        "",
        "kafka:",
        "kafka://",
        "kafka://,",
        "kafka://a,",
        "kafka://a,,b",
        "kafka://a:",
        "kafka://a:0",
        "kafka://a:65536",
        "kafka://a:1x",
        "kafka://[::1",
        "kafka://[]:1",
        "kafka://[x]:1",
        "kafka://a b",
        "kafka://a/b",
        "kafka://@a",
        "kafka://:hunter2@a",
        "kafka://me:hunter2%@a",
        "kafka://me:hunter2%0g@a",
        "kafka://me:hunter2%00@a",
        "amqp://me:hunter2@a",
        "kafka://a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a",
    };
    struct broker_url url;
    struct broker_url_error error;
    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        if (broker_url_read(bytes_str(wrong[i]), &kind, &url, &error) != ERR_INVALID)
            fail_msg("%s", wrong[i]);
        assert_non_null(strstr(error.text, "url: "));
        assert_null(strstr(error.text, "hunter2"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts_ports_and_a_user_are_read),
        cmocka_unit_test(what_is_wrong_is_refused_and_never_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
