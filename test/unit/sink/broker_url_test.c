/* URLs that list servers: what is read, and that what is wrong is said without showing it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "sink/broker_url.h"
#include "sink/reference.h"

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

static void a_user_has_up_to_255_bytes(void **state)
{
    struct broker_url url;
    struct broker_url_error error;
    char user[BROKER_WORD_BYTES + 1] = "", text[BROKER_WORD_BYTES + 32];
    (void)state;
    memset(user, 'u', BROKER_WORD_BYTES);
    (void)snprintf(text, sizeof(text), "kafka://%s@a", user + 1);
    assert_int_equal(broker_url_read(bytes_str(text), &kind, &url, &error), OK);
    assert_string_equal(url.user, user + 1);
    (void)snprintf(text, sizeof(text), "kafka://%s@a", user);
    assert_int_equal(broker_url_read(bytes_str(text), &kind, &url, &error), ERR_INVALID);
}

/* A line of so many letters, with or without an end, behind file: */
static enum err read_line_of(size_t letters, const char *end, struct buf *out, char why[160])
{
    char name[] = "/tmp/reference-XXXXXX", reference[64];
    int fd = mkstemp(name);
    FILE *file = fdopen(fd, "w");
    assert_non_null(file);
    for (size_t i = 0; i < letters; i++)
        (void)fputc('a', file);
    (void)fputs(end, file);
    assert_int_equal(fclose(file), 0);
    (void)snprintf(reference, sizeof(reference), "file:%s", name);
    out->len = 0;
    enum err err = reference_read(reference, out, why, 160);
    assert_int_equal(unlink(name), 0);
    return err;
}

static void a_line_that_is_too_long_to_be_referred_to_is_not_cut(void **state)
{
    struct buf out = {0};
    char why[160] = "";
    (void)state;
    assert_int_equal(read_line_of(4095, "", &out, why), OK);
    assert_int_equal(out.len, 4096); /* with its NUL */
    assert_int_equal(read_line_of(4095, "\nmore", &out, why), OK);
    assert_int_equal(read_line_of(4095, "\r\n", &out, why), OK);
    assert_int_equal(read_line_of(4096, "", &out, why), ERR_INVALID);
    assert_int_equal(read_line_of(4094, "\nmore", &out, why), OK);
    assert_int_equal(read_line_of(4096, "\n", &out, why), ERR_INVALID);
    assert_int_equal(out.len, 0);
    assert_non_null(strstr(why, ": its first line is longer than 4095 bytes"));
    assert_int_equal(read_line_of(0, "\nmore", &out, why), ERR_NOT_FOUND);
    buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts_ports_and_a_user_are_read),
        cmocka_unit_test(a_user_has_up_to_255_bytes),
        cmocka_unit_test(what_is_wrong_is_refused_and_never_shown),
        cmocka_unit_test(a_line_that_is_too_long_to_be_referred_to_is_not_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
