/* mysql://… and what of it is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "journal/url.h"

static void test_all_parts_are_read(void **state)
{
    struct journal_url url;
    const char *why = NULL;
    (void)state;
    assert_int_equal(
        journal_url_read(BYTES("mysql://me:p%40%3A:s@[::1]:3307/jobs?tls=verify"), &url, &why), OK);
    assert_string_equal(url.user, "me");
    assert_string_equal(url.password, "p@::s");
    assert_string_equal(url.host, "::1");
    assert_string_equal(url.database, "jobs");
    assert_int_equal(url.port, 3307);
    assert_int_equal(url.tls, JOURNAL_TLS_VERIFY);
    assert_int_equal(journal_url_read(BYTES("mysql://u@/d?socket=/run/m.sock&tls=on"), &url, &why),
                     OK);
    assert_string_equal(url.socket, "/run/m.sock");
    assert_string_equal(url.host, "");
    assert_int_equal(url.tls, JOURNAL_TLS_ON);
    assert_int_equal(journal_url_read(BYTES("mysql://u@db.example/d"), &url, &why), OK);
    assert_int_equal(url.port, 3306);
    assert_int_equal(url.tls, JOURNAL_TLS_OFF);
}

static void test_what_is_wrong_is_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "mysql:/u@h/d",
        "mysql://",
        "mysql://u@h",
        "mysql://@h/d",
        "mysql://u@h/",
        "mysql://u@/d",
        "mysql://u@h:x/d",
        "mysql://u@h:65536/d",
        "mysql://u@[::1/d",
        "mysql://u@[::1]x/d",
        "mysql://u%zz@h/d",
        "mysql://u%00@h/d",
        "mysql://u%4@h/d",
        "mysql://u@h/d?socket=run",
        "mysql://u@h/d?tls",
        "mysql://u@h/d?a=b",
    };
    struct journal_url url = {.port = 9};
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        const char *why = NULL;
        assert_int_equal(journal_url_read(bytes_str(bad[i]), &url, &why), ERR_INVALID);
        assert_non_null(why);
        assert_int_equal(url.port, 9);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_parts_are_read),
        cmocka_unit_test(test_what_is_wrong_is_refused),
    };
    return cmocka_run_group_tests_name("journal/url", tests, NULL, NULL);
}
