/* URLs of coordination services: what is read, what is refused, and that no password is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "member/member_url.h"

static struct member_url url;
static struct member_error error;

static enum err take(const char *text)
{
    memset(&error, 0, sizeof(error));
    return member_url_read(text, "mysql", 3306, &url, &error);
}

static void all_parts_are_read(void **state)
{
    (void)state;
    assert_int_equal(take("mysql://me:a%20p%40ss@db1.example:3307/queue?tls=on"), OK);
    assert_string_equal(url.host, "db1.example");
    assert_int_equal(url.port, 3307);
    assert_string_equal(url.user, "me");
    assert_string_equal(url.password, "a p@ss");
    assert_string_equal(url.path, "/queue");
    assert_string_equal(url.query, "tls=on");
}

static void what_is_left_out_has_its_default(void **state)
{
    (void)state;
    assert_int_equal(take("mysql://h"), OK);
    assert_int_equal(url.port, 3306);
    assert_string_equal(url.user, "");
    assert_string_equal(url.path, "");
    assert_string_equal(url.query, "");
}

static void several_hosts_each_have_a_port(void **state)
{
    (void)state;
    assert_int_equal(take("mysql://a,b:1,[::1],[fe80::2]:99/x/"), OK);
    assert_string_equal(url.hosts, "a:3306,b:1,[::1]:3306,[fe80::2]:99");
    assert_int_equal(url.host_count, 4);
    assert_string_equal(url.path, "/x");
}

static void what_is_wrong_is_refused_without_the_password(void **state)
{
    static const char *const wrong[] = {"",
                                        "mysql",
                                        "mysql:/h",
                                        "redis://h",
                                        "mysql://",
                                        "mysql://a,",
                                        "mysql://,a",
                                        "mysql://a:0",
                                        "mysql://a:65536",
                                        "mysql://a:",
                                        "mysql://[a",
                                        "mysql://[]",
                                        "mysql://a b",
                                        "mysql://u:%zz@h",
                                        "mysql://u:%0@h",
                                        "mysql://u:%",
                                        "mysql://h/a b",
                                        "mysql://h\"/x",
                                        "mysql://u:%00@h/x"};
    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(take(wrong[i]), ERR_INVALID);
        assert_true(strncmp(error.text, "url: ", 5) == 0);
    }
    assert_int_equal(take("mysql://u:secret@h:x/db"), ERR_INVALID);
    assert_null(strstr(error.text, "secret"));
}

static void what_is_too_long_is_refused(void **state)
{
    char text[2048] = "mysql://u:";
    (void)state;
    memset(text + 10, 'p', 1000);
    memcpy(text + 1010, "@h/db", sizeof("@h/db"));
    assert_int_equal(take(text), ERR_INVALID);
    memset(text + 8, 'h', 1000);
    text[1008] = '\0';
    assert_int_equal(take(text), ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_parts_are_read),
        cmocka_unit_test(what_is_left_out_has_its_default),
        cmocka_unit_test(several_hosts_each_have_a_port),
        cmocka_unit_test(what_is_wrong_is_refused_without_the_password),
        cmocka_unit_test(what_is_too_long_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
