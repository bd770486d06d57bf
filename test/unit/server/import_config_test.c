/* The Go server's configuration in laterd's words: what is kept, defaulted and refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/mem.h"
#include "server/config/import_config.h"

static struct config_error error;

/* The answer as a string, for the caller to free. */
static char *converted(const char *text)
{
    struct buf out = {0};
    assert_int_equal(import_config_convert(bytes_str(text), &out, &error), OK);
    buf_add_char(&out, '\0');
    return out.at;
}

static void expect_in(const char *text, const char *wanted)
{
    char *out = converted(text);
    if (!strstr(out, wanted))
        fail_msg("no \"%s\" in:\n%s", wanted, out);
    mem_free(out);
}

static void expect_refused(struct bytes text, const char *why)
{
    struct buf out = {0};
    assert_int_equal(import_config_convert(text, &out, &error), ERR_INVALID);
    assert_string_equal(error.text, why);
    buf_fini(&out);
}

static void an_empty_file_gives_the_go_servers_defaults(void **state)
{
    (void)state;
    expect_in("", "\nhttp = 0.0.0.0:9277,delay-queue\n");
    expect_in("", "\nbeanstalk = none\n");
    expect_in("", "\nblock_timeout = 178s\n");
    expect_in("", "--layout delay-queue redis://127.0.0.1:6379/1\n");
    expect_in("bind_address =\nredis.db = \n", "\nhttp = 0.0.0.0:9277,delay-queue\n");
}

static void a_configuration_of_laterd_is_refused(void **state)
{
    (void)state;
    struct buf sample = {0};
    config_print(&sample);
    expect_refused(buf_bytes(&sample),
                   "this is a configuration of laterd already: it has the section [server], and no "
                   "key of the Go server; check it with laterd -c FILE --check-config");
    buf_fini(&sample);
    expect_in("[redis]\nhost = x\n", "# The Go server does not look at: host\n");
    expect_in("redis.db = 3\n[server]\nhttp = x\n", "redis://127.0.0.1:6379/3\n");
}

static void values_are_read_as_the_go_server_reads_them(void **state)
{
    (void)state;
    expect_in("\xef\xbb\xbf  bind_address = '127.0.0.1:80'  # here\r\n",
              "\nhttp = 127.0.0.1:80,delay-queue\n");
    expect_in("bind_address = :80", "\nhttp = 0.0.0.0:80,delay-queue\n");
    expect_in("bind_address: [::1]:80", "\nhttp = [::1]:80,delay-queue\n");
    expect_in("queue_block_timeout = 30;x\n", "\nblock_timeout = 30s\n");
    expect_in("queue_block_timeout = 30\nqueue_block_timeout = 31\n", "\nblock_timeout = 31s\n");
    expect_in("queue_block_timeout = soon\n",
              "# queue_block_timeout is not a number: the Go server used its default, 178");
    expect_in("queue_block_timeout = 0\n", "\nblock_timeout = 86400s\n");
    expect_in("[any]\nqueue_block_timeout = 5\n", "\nblock_timeout = 178s\n");
    expect_in("bucket = 5\n", "\n# The Go server does not look at: bucket\n");
}

static void the_import_command_has_the_names_but_never_the_password(void **state)
{
    static const char text[] = "bucket_name = b_%d\nqueue_name = \"it's %s\"\nredis.db = 7\n"
                               "redis.host = 10.0.0.7:6380\nredis.password = `s3;cret`\n";
    char *out = converted(text);
    (void)state;
    assert_non_null(strstr(out, " --bucket-name 'b_%d' --queue-name 'it'\\''s %s' "
                                "redis://10.0.0.7:6380/7\n"
                                "# with redis.password in the environment's "
                                "LATER_REDIS_PASSWORD.\n"));
    assert_null(strstr(out, "s3"));
    mem_free(out);
}

static void what_cannot_be_meant_is_refused_with_its_line(void **state)
{
    (void)state;
    expect_refused(BYTES("bucket_size = 3\nnonsense\n"), "line 2: not a key = value, or a comment");
    expect_refused(BYTES("bind_address = a\x01:1\n"), "line 1: a control character, or not UTF-8");
    expect_refused(BYTES("bind_address = 9277\n"),
                   "bind_address = 9277 is no HOST:PORT, as 0.0.0.0:9277 is");
    expect_refused(BYTES("bind_address = 'a:1,none'\n"),
                   "bind_address = a:1,none is no HOST:PORT, as 0.0.0.0:9277 is");
    expect_refused(BYTES("bind_address = \0:1\n"), "line 1: a control character, or not UTF-8");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_file_gives_the_go_servers_defaults),
        cmocka_unit_test(a_configuration_of_laterd_is_refused),
        cmocka_unit_test(values_are_read_as_the_go_server_reads_them),
        cmocka_unit_test(the_import_command_has_the_names_but_never_the_password),
        cmocka_unit_test(what_cannot_be_meant_is_refused_with_its_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
