/* What everybody may read of a command line has no password, and not even its length. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/argv_secret.h"

enum { ROOM = 64 };

/* As argv has it: what was there before lies behind the NUL. */
static void check_url(const char *given, const char *left)
{
    static const char nothing[ROOM];
    char url[ROOM] = {0};
    struct buf copy = {0};
    buf_add_str(&copy, "what was there before");
    memcpy(url, given, strlen(given));
    argv_take_url(url, &copy);
    assert_string_equal(copy.at, given);
    assert_string_equal(url, left);
    assert_memory_equal(url + strlen(left), nothing, ROOM - strlen(left));
    buf_fini(&copy);
}

static void a_password_of_a_url_is_covered(void **state)
{
    (void)state;
    check_url("redis://user:s3cret@host:6379/1", "redis://user:*@host:6379/1");
    check_url("redis://:s3cret@host/1", "redis://:*@host/1");
    check_url("redis://:x@host", "redis://:*@host");
    check_url("redis://:p:q@r@host/1", "redis://:*@host/1");
    check_url("https://a:bc@host/prefix", "https://a:*@host/prefix");
    check_url("a:bc@host:9277", "a:*@host:9277"); /* later --server takes it without a scheme */
}

static void a_url_without_a_password_stays(void **state)
{
    static const char *const urls[] = {
        "redis://host:6379/1",
        "redis://user@host:6379/1",
        "redis://user:@host/1",
        "unix:///run/a:b@c.socket",
        "unix:/run/a:b@c.socket",
        "http://127.0.0.1:9277",
        "https://[::1]:9277/prefix",
        "host:9277",
        "",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++)
        check_url(urls[i], urls[i]);
}

static void check_header(const char *given, const char *left)
{
    char header[ROOM] = {0};
    memcpy(header, given, strlen(given));
    argv_cover_header(header);
    assert_string_equal(header, left);
}

static void a_value_of_a_header_is_covered(void **state)
{
    (void)state;
    check_header("Authorization: Bearer abc", "Authorization: *");
    check_header("X-Key:abc", "X-Key:*");
    check_header("X-Key: ", "X-Key: ");
    check_header("X-Key:", "X-Key:");
    check_header("no header", "no header");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_password_of_a_url_is_covered),
        cmocka_unit_test(a_url_without_a_password_stays),
        cmocka_unit_test(a_value_of_a_header_is_covered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
