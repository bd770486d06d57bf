/* beanstalkd's command line, as configuration. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/config/beanstalkd_options.h"

enum { WORDS_MAX = 16 };

static struct config config;
static struct beanstalkd_options options;
static struct config_error error;

/* Reads "-b DIR -f0" as if typed behind the name of the program. */
static enum err read_line(const char *line)
{
    static char text[512];
    char *words[WORDS_MAX + 1] = {"beanstalkd"};
    int count = 1;
    char *rest = text;
    assert_true(strlen(line) < sizeof(text));
    memcpy(text, line, strlen(line) + 1);
    for (char *word = strsep(&rest, " "); word && *word; word = strsep(&rest, " ")) {
        assert_true(count < WORDS_MAX);
        words[count++] = word;
    }
    optind = 0; /* getopt starts over */
    config_init(&config);
    return beanstalkd_options_read(count, words, &config, &options, &error);
}

static void the_defaults_are_those_of_beanstalkd(void **state)
{
    (void)state;
    assert_int_equal(read_line(""), OK);
    assert_int_equal(config.listeners[PROTOCOL_HTTP].count, 0);
    assert_int_equal(config.listeners[PROTOCOL_BEANSTALK].count, 1);
    assert_string_equal(config.listeners[PROTOCOL_BEANSTALK].at[0].address, "0.0.0.0:11300");
    assert_false(options.persist);
    assert_null(options.user);
    assert_int_equal(options.wish, BEANSTALKD_RUN);
    assert_int_equal(config.durability, DURABILITY_INTERVAL);
    assert_int_equal(config.interval_us, 50000);
    assert_int_equal(config.job_bytes, 65535);
    assert_int_equal(config.segment_bytes, 10485760);
    assert_int_equal(config.log_level, LOG_WARN);
    assert_int_equal(config_check(&config, &error), OK);
}

static void an_option_may_touch_its_value_or_others(void **state)
{
    (void)state;
    assert_int_equal(read_line("-f0 -Vp23 -b/var/x -z 7"), OK);
    assert_int_equal(config.durability, DURABILITY_SYNC);
    assert_int_equal(config.log_level, LOG_INFO);
    assert_string_equal(config.listeners[PROTOCOL_BEANSTALK].at[0].address, "0.0.0.0:23");
    assert_string_equal(config.data_dir, "/var/x");
    assert_true(options.persist);
    assert_int_equal(config.job_bytes, 7);
    assert_int_equal(read_line("-f 0"), OK);
    assert_int_equal(config.durability, DURABILITY_SYNC);
}

static void the_last_word_on_syncing_is_the_one_that_counts(void **state)
{
    (void)state;
    assert_int_equal(read_line("-F"), OK);
    assert_int_equal(config.durability, DURABILITY_OS);
    assert_int_equal(config.interval_us, 0);
    assert_int_equal(read_line("-F -f 200"), OK);
    assert_int_equal(config.durability, DURABILITY_INTERVAL);
    assert_int_equal(config.interval_us, 200000);
}

static void a_sync_comes_at_least_once_a_day(void **state)
{
    (void)state;
    assert_int_equal(read_line("-f 86399999"), OK);
    assert_int_equal(config.interval_us, INT64_C(86399999000));
    assert_int_equal(read_line("-f 9223372036854775"), OK);
    assert_int_equal(config.interval_us, INT64_C(86400000000));
}

static void addresses_become_laterds(void **state)
{
    static const struct {
        const char *line, *address;
    } cases[] = {
        {"-l 127.0.0.1 -p 0", "127.0.0.1:0"}, {"-l ::1", "[::1]:11300"},
        {"-l [::1] -p 5", "[::1]:5"},         {"-l unix:/run/b -p 5", "unix:/run/b"},
        {"-p 65535 -l host", "host:65535"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(read_line(cases[i].line), OK);
        assert_string_equal(config.listeners[PROTOCOL_BEANSTALK].at[0].address, cases[i].address);
    }
}

static void log_files_are_rounded_up_and_kept_within_bounds(void **state)
{
    (void)state;
    assert_int_equal(read_line("-s 262145"), OK);
    assert_int_equal(config.segment_bytes, 266240);
    assert_int_equal(read_line("-s 0"), OK);
    assert_int_equal(config.segment_bytes, 262144);
    assert_int_equal(read_line("-s 99999999999"), OK);
    assert_int_equal(config.segment_bytes, 1073741824);
}

static void a_job_size_above_ours_is_cut_with_a_notice(void **state)
{
    (void)state;
    assert_int_equal(read_line("-z 67108864"), OK);
    assert_string_equal(options.notice, "");
    assert_int_equal(read_line("-z 1073741824"), OK);
    assert_int_equal(config.job_bytes, 67108864);
    assert_non_null(strstr(options.notice, "67108864"));
}

static void every_V_says_more_until_all_is_said(void **state)
{
    (void)state;
    assert_int_equal(read_line("-V -V"), OK);
    assert_int_equal(config.log_level, LOG_DEBUG);
    assert_int_equal(read_line("-VVVVV"), OK);
    assert_int_equal(config.log_level, LOG_DEBUG);
}

static void http_is_added_by_its_own_option(void **state)
{
    (void)state;
    assert_int_equal(read_line("--http 127.0.0.1:80 --http [::1]:80,none -u me -c -n"), OK);
    assert_int_equal(config.listeners[PROTOCOL_HTTP].count, 2);
    assert_int_equal(config.listeners[PROTOCOL_HTTP].at[1].dialect, DIALECT_NONE);
    assert_string_equal(options.user, "me");
}

static void help_and_version_go_before_all_behind_them(void **state)
{
    (void)state;
    assert_int_equal(read_line("-h -Q"), OK);
    assert_int_equal(options.wish, BEANSTALKD_SHOW_HELP);
    assert_int_equal(read_line("-b x -v"), OK);
    assert_int_equal(options.wish, BEANSTALKD_SHOW_VERSION);
}

static void what_is_wrong_is_told_in_beanstalkds_words(void **state)
{
    static const struct {
        const char *line, *text;
    } cases[] = {
        {"-Q", "unknown flag: -Q"},
        {"--data-dir x", "unknown flag: --data-dir"},
        {"-V stray", "unknown argument: stray"},
        {"-p", "flag requires an argument: -p"},
        {"-Vp", "flag requires an argument: -p"},
        {"--http", "flag requires an argument: --http"},
        {"-z 1k", "invalid size: 1k"},
        {"-s -1", "invalid size: -1"},
        {"-f soon", "invalid size: soon"},
        {"-f 99999999999999999", "invalid size: 99999999999999999"},
        {"-p 65536", "invalid port: 65536"},
        {"-p http", "invalid port: http"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(read_line(cases[i].line), ERR_INVALID);
        assert_string_equal(error.text, cases[i].text);
    }
}

static void it_is_wanted_by_name_or_by_the_first_argument(void **state)
{
    static char *const named[] = {"/usr/libexec/laterd/beanstalkd", "-v"};
    static char *const asked[] = {"laterd", "--beanstalkd"};
    static char *const late[] = {"./beanstalkd/laterd", "-v", "--beanstalkd"};
    (void)state;
    assert_true(beanstalkd_wanted(2, (char **)named));
    assert_true(beanstalkd_wanted(2, (char **)asked));
    assert_false(beanstalkd_wanted(3, (char **)late));
    assert_false(beanstalkd_wanted(0, (char **)late));
}

static void a_log_of_beanstalkd_is_found_by_its_files(void **state)
{
    char directory[] = "/tmp/laterd-options-XXXXXX", path[64], name[32];
    (void)state;
    assert_non_null(mkdtemp(directory));
    assert_false(beanstalkd_binlog_find("/nowhere", name, sizeof(name)));
    assert_false(beanstalkd_binlog_find(directory, name, sizeof(name)));
    (void)snprintf(path, sizeof(path), "%s/binlog.x", directory);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_false(beanstalkd_binlog_find(directory, name, sizeof(name)));
    (void)rmdir(path);
    (void)snprintf(path, sizeof(path), "%s/binlog.12", directory);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_true(beanstalkd_binlog_find(directory, name, sizeof(name)));
    assert_string_equal(name, "binlog.12");
    (void)rmdir(path);
    (void)rmdir(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_defaults_are_those_of_beanstalkd),
        cmocka_unit_test(an_option_may_touch_its_value_or_others),
        cmocka_unit_test(the_last_word_on_syncing_is_the_one_that_counts),
        cmocka_unit_test(a_sync_comes_at_least_once_a_day),
        cmocka_unit_test(addresses_become_laterds),
        cmocka_unit_test(log_files_are_rounded_up_and_kept_within_bounds),
        cmocka_unit_test(a_job_size_above_ours_is_cut_with_a_notice),
        cmocka_unit_test(every_V_says_more_until_all_is_said),
        cmocka_unit_test(http_is_added_by_its_own_option),
        cmocka_unit_test(help_and_version_go_before_all_behind_them),
        cmocka_unit_test(what_is_wrong_is_told_in_beanstalkds_words),
        cmocka_unit_test(it_is_wanted_by_name_or_by_the_first_argument),
        cmocka_unit_test(a_log_of_beanstalkd_is_found_by_its_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
