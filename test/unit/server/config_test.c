/* The configuration file: each error names its line, what is wrong, and what would be right. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "server/config/config.h"

static char path[] = "/tmp/laterd-config-XXXXXX";
static struct config config;
static struct config_error error;

/* Reads and checks a file that holds this. */
static enum err check(const char *text)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
    config_init(&config);
    enum err err = config_read(&config, path, &error);
    return err ? err : config_check(&config, &error);
}

static void expect_error(const char *text, const char *behind_path)
{
    assert_int_equal(check(text), ERR_INVALID);
    assert_int_equal(strncmp(error.text, path, strlen(path)), 0);
    assert_string_equal(error.text + strlen(path), behind_path);
}

static void a_section_without_its_bracket_names_its_line(void **state)
{
    (void)state;
    expect_error("# x\n[server\nhttp = 127.0.0.1:0\n",
                 ":2: the ] of a section is missing: write [server]");
    expect_error(" [limits ; all of them\njobs = 1\n",
                 ":1: the ] of a section is missing: write [limits]");
    expect_error("\xef\xbb\xbf[server\nhttp = 127.0.0.1:0\n",
                 ":1: the ] of a section is missing: write [server]");
}

static void the_first_line_that_is_wrong_is_named(void **state)
{
    (void)state;
    expect_error("[server]\nno sense\n\n[limits]\njbs = 1\n",
                 ":2: not a [section], a key = value, or a comment");
    expect_error("[limits]\njobs = x\nno sense\n",
                 ":2: jobs = x: must be a whole number from 1 to 2000000000 (to 268435455 with the "
                 "embedded engine)");
}

static void a_file_that_is_not_there_is_named_with_how_to_make_one(void **state)
{
    (void)state;
    assert_int_equal(config_read(&config, "/nonexistent/x.conf", &error), ERR_NOT_FOUND);
    assert_string_equal(error.text, "/nonexistent/x.conf: No such file or directory; laterd "
                                    "--print-config writes one with every key");
}

/* SIGHUP, where laterd was started with -c <(…): nobody writes to that pipe any more. */
static void a_pipe_is_not_read_again(void **state)
{
    enum { LONGEST_S = 20 };
    char pipe_path[sizeof(path) + 8];
    (void)state;
    (void)snprintf(pipe_path, sizeof(pipe_path), "%s.pipe", path);
    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    config_init(&config);
    config.again = true;
    (void)alarm(LONGEST_S); /* it would be waited for */
    assert_int_equal(config_read(&config, pipe_path, &error), ERR_INVALID);
    (void)alarm(0);
    assert_non_null(strstr(error.text, ".pipe: this is a pipe or a device"));
    assert_int_equal(unlink(pipe_path), 0);
    assert_int_equal(check("[server]\nlog_level = warn\n"), OK);
    config_init(&config);
    config.again = true;
    assert_int_equal(config_read(&config, path, &error), OK); /* a file is */
    assert_int_equal(config.log_level, LOG_WARN);
}

static void push_rules_are_read_and_bad_ones_refused(void **state)
{
    (void)state;
    assert_int_equal(check("[push]\nallow = 10.0.0.0/8, ::1\nallow = 127.0.0.1\nports = 9000+\n"
                           "unix_sockets = /run/a.sock, /run/b.sock\nunix_sockets = /c\n"
                           "proxy = http://u:p@proxy:3128\ntimeout = 30\n"),
                     OK);
    assert_int_equal(config.push_rule.allow_count, 3);
    assert_true(address_rule_allows_port(&config.push_rule, 9000));
    assert_false(address_rule_allows_port(&config.push_rule, 443));
    assert_string_equal(config.push_unix_sockets, "/run/a.sock\n/run/b.sock\n/c\n");
    assert_int_equal(config.push_timeout_us, 30000000);
    expect_error("[push]\nallow = 10.1.2.3/8\n",
                 ":2: push.allow = 10.1.2.3/8: an address must have no bits set behind its length: "
                 "write 10.0.0.0/8 for 10.1.2.3/8");
    expect_error("[push]\n\nports = https\n", ":3: push.ports = https: it must be ports such as "
                                              "443, 8000-8099 or 1024+, from 1 to 65535");
    expect_error("[push]\nunix_sockets = /a, b\n",
                 ":2: unix_sockets = /a, b: must be paths that begin with /, up to 107 bytes each, "
                 "between commas");
    expect_error("[push]\nproxy = u:secret@proxy:3128\n",
                 ":2: proxy = …: must be http://host:port, or with https or socks5h; up to 255 "
                 "bytes");
}

static void a_key_that_is_set_twice_is_refused_with_both_lines(void **state)
{
    (void)state;
    expect_error("[limits]\njobs = 1\n[store]\n[limits]\njobs = 2\n",
                 ":5: limits.jobs is set in line 2 already; take one of the two lines away");
    assert_int_equal(check("[server]\nhttp = a:1\nhttp = b:2\nhosts = a\nhosts = b\n"), OK);
    assert_int_equal(config.listeners[PROTOCOL_HTTP].count, 2);
    assert_string_equal(config.hosts, " a b");
    assert_int_equal(check("[server]# ours\nhosts = a\n[limits] ; ours\njobs = 1\n"), OK);
}

static void a_second_file_goes_over_the_first(void **state)
{
    (void)state;
    static const char text[] = "[limits]\njobs = 1\n[server]\nhosts = a\nhttp = a:1\n"
                               "[push]\nallow = ::1\nunix_sockets = /a\n";
    assert_int_equal(check(text), OK);
    assert_int_equal(config_read(&config, path, &error), OK);
    assert_string_equal(config.hosts, " a");
    assert_int_equal(config.listeners[PROTOCOL_HTTP].count, 1);
    assert_int_equal(config.push_rule.allow_count, 1);
    assert_string_equal(config.push_unix_sockets, "/a\n");
}

static void values_that_do_not_fit_name_the_line_and_both_values(void **state)
{
    (void)state;
    expect_error("[limits]\nbody_bytes = 16M\n",
                 ":2: limits.body_bytes = 16M: must not be above limits.request_bytes (8M, the "
                 "default)");
    expect_error("[limits]\n\nrequest_bytes = 16K\n",
                 ":3: limits.body_bytes = 1M (the default): must not be above "
                 "limits.request_bytes (16K in line 3)");
    expect_error("[limits]\nrequest_bytes = 16K\nbody_bytes = 17K\n",
                 ":3: limits.body_bytes = 17K: must not be above limits.request_bytes (16K in line "
                 "2)");
    expect_error("[store]\nmax_bytes = 1M\n",
                 ":2: store.max_bytes = 1M: must be 0, or at least 64M, four times "
                 "store.segment_bytes (16M, the default)");
    expect_error("[store]\nsegment_bytes = 300001\n",
                 ":2: store.segment_bytes = 300001: must be a multiple of 4096");
    expect_error("[limits]\nmemory_bytes = 1K\n",
                 ":2: limits.memory_bytes = 1K: must be 0, or at least 4M: laterd itself takes "
                 "about that much");
    expect_error("[limits]\nmemory_bytes = 4194303\n",
                 ":2: limits.memory_bytes = 4194303: must be 0, or at least 4M: laterd itself "
                 "takes about that much");
    assert_int_equal(check("[limits]\nmemory_bytes = 4M\n"), OK);
    expect_error("[limits]\njobs = 268435456\n",
                 ":2: limits.jobs = 268435456: must not be above 268435455: the embedded engine "
                 "holds no more");
    expect_error(
        "[push]\nhost_rate = 5\n",
        ":2: host_rate = 5: must be a number in a time of 1ms to 1d, such as 100/s, 5/m or "
        "1/10s; or 0");
    expect_error("[defaults]\nttr = 400d\n",
                 ":2: defaults.ttr = 400d: must not be above limits.ttr_seconds (365d, the "
                 "default)");
    expect_error(
        "[server]\nbeanstalk = none\nhttp = none\n",
        ":3: server.http, server.beanstalk and server.sdmq are all none: there must be a listener, "
        "such as http = 127.0.0.1:9277");
    expect_error("[redis]\nprefix = {a}\n",
                 ":2: prefix = {a}: must be 1 to 64 bytes without { and }");
}

static void a_place_is_that_of_the_last_line(void **state)
{
    (void)state;
    assert_int_equal(check("[server]\nhttp = a:1\nhttp = b:2\n[engine]\nengine = redis\n"), OK);
    assert_int_equal(config.listeners[PROTOCOL_HTTP].at[0].place.line, 2);
    assert_int_equal(config.listeners[PROTOCOL_HTTP].at[1].place.line, 3);
    assert_int_equal(config_place(&config, "engine", "engine").line, 5);
    assert_string_equal(config_place(&config, "engine", "engine").path, path);
    assert_string_equal(config_place_text(config_place(&config, "redis", "url")).text, "");
}

static void a_long_path_leaves_room_for_the_error(void **state)
{
    (void)state;
    char name[300];
    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    struct config_place place = {.path = name, .line = UINT32_MAX};
    struct config_place_text text = config_place_text(place);
    assert_string_equal(text.text + strlen(text.text) - 13, ":4294967295: ");
}

static int make_file(void **state)
{
    (void)state;
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

/* What is behind the path in each line. */
static void expect_warnings(const char *text, const char *expected)
{
    struct buf out = {0};
    assert_int_equal(check(text), OK);
    config_add_warnings(&config, &out);
    buf_add_char(&out, '\0');
    if (expected) {
        assert_int_equal(strncmp(out.at, path, strlen(path)), 0);
        assert_string_equal(out.at + strlen(path), expected);
    } else {
        assert_string_equal(out.at, "");
    }
    buf_fini(&out);
}

static void bare_numbers_are_seconds_and_warned_of_where_hours_or_days_are_usual(void **state)
{
    (void)state;
    expect_warnings("[store]\nhistory = 30\n",
                    ":2: warning: store.history = 30 is 30 seconds: write 30s, or 30m, 30h, 30d if "
                    "you mean those\n");
    assert_int_equal(config.history_us, 30000000);
    expect_warnings("[store]\nhorizon = 1\n",
                    ":2: warning: store.horizon = 1 is 1 second: write 1s, or 1m, 1h, 1d if you "
                    "mean those\n");
    expect_warnings("[push]\ndisable_after = 5\n",
                    ":2: warning: push.disable_after = 5 is 5 seconds: write 5s, or 5m, 5h, 5d if "
                    "you mean those\n");
    expect_warnings("[store]\nhistory = 0\nhorizon = 90s\n[push]\ndisable_after = 0\ntimeout = 15\n"
                    "[limits]\nidle_seconds = 60\n[journal]\nurl = $U\nmax_lag_time = 1w\n"
                    "[defaults]\nttr = 30\n",
                    NULL);
    expect_warnings("", NULL);
}

static void an_interval_of_syncs_says_its_unit(void **state)
{
    (void)state;
    assert_int_equal(check("[store]\ndurability = interval:50ms\n"), OK);
    assert_int_equal(config.interval_us, 50000);
    expect_error("[store]\ndurability = interval:50\n",
                 ":2: durability = interval:50: must be sync, os, or interval:1ms to interval:60s");
}

static void keys_that_have_no_effect_are_warned_of(void **state)
{
    (void)state;
    expect_warnings("[store]\nhorizon = 0\nburied_in_memory = 10\n",
                    ":3: warning: store.buried_in_memory has no effect: with store.horizon = 0 no "
                    "job leaves memory\n");
    expect_warnings(
        "[store]\nmax_bytes = 64M\nburied_in_memory = 10\n",
        ":3: warning: store.buried_in_memory has no effect: store.max_bytes (64M) keeps "
        "the log below store.checkpoint_bytes (256M)\n");
    expect_warnings("[store]\nhorizon = 0\nready_in_memory = 10\n",
                    ":3: warning: store.ready_in_memory has no effect: with store.horizon = 0 no "
                    "job leaves memory\n");
    expect_warnings("[store]\nmax_bytes = 64M\n", NULL);
    expect_warnings("[store]\nhorizon = 0\n", NULL);
    expect_warnings("[store]\nmax_bytes = 1G\nburied_in_memory = 10\n", NULL);
}

static void jobs_that_max_bytes_has_no_room_for_are_warned_of(void **state)
{
    (void)state;
    expect_warnings(
        "[store]\nsegment_bytes = 256K\nmax_bytes = 1M\n",
        ":3: warning: store.max_bytes (1M) has room for jobs of 240K; larger ones, up to "
        "limits.body_bytes (1M), are refused\n");
    expect_warnings(
        "[store]\nsegment_bytes = 256K\nmax_bytes = 4M\n[beanstalk]\njob_bytes = 2M\n",
        ":3: warning: store.max_bytes (4M) has room for jobs of 1512K; larger ones, up to "
        "beanstalk.job_bytes (2M), are refused\n");
    expect_warnings("[store]\nsegment_bytes = 256K\nmax_bytes = 4M\n", NULL);
    expect_warnings("[store]\nmax_bytes = 64M\n", NULL);
}

static void keys_of_a_section_that_has_no_effect_are_warned_of(void **state)
{
    (void)state;
    expect_warnings("[redis]\nurl = redis://127.0.0.1:6379\n", /* it is the default */
                    ":2: warning: redis.url is set, but nothing is kept there: that needs engine = "
                    "redis under [engine]\n");
    expect_warnings("[engine]\nengine = redis\n[redis]\nurl = redis://127.0.0.1:6379\n", NULL);
    expect_warnings("[redis]\nwait_replicas = 1\n",
                    ":2: warning: redis.wait_replicas has no effect: that needs engine = redis "
                    "under [engine]\n");
    expect_warnings("[engine]\nengine = redis\n[redis]\nwait_replicas = 1\n", NULL);
    expect_warnings("[engine]\nengine = redis\n[store]\ndata_dir = /x\ndurability = sync\n"
                    "recent_bytes = 1M\nhorizon = 1d\n",
                    ":5: warning: store.durability, and 2 more of [store], have no effect: engine "
                    "= redis keeps nothing on this disk\n");
    expect_warnings("[store]\ndurability = os\nrecent_bytes = 1M\n", NULL);
    expect_warnings("[journal]\nmode = before\non_lag = detach\n",
                    ":2: warning: journal.mode, and 1 more of [journal], have no effect: there is "
                    "no journal without journal.url\n");
    expect_warnings("[journal]\nurl = $JOURNAL\nmode = before\n", NULL);
    expect_warnings("[journal]\nurl =\n", NULL);
    expect_warnings("[member]\nname = a\n", ":2: warning: member.name has no effect: there is no "
                                            "election without member.url\n");
    expect_warnings("[member]\nurl = alone\nname = a\n", NULL);
}

static void a_line_that_is_too_long_or_no_text_is_refused(void **state)
{
    char text[8192] = "[server]\nhosts = ";
    (void)state;
    memset(text + strlen(text), 'a', 5000);
    assert_int_equal(check(text), ERR_INVALID);
    assert_non_null(strstr(error.text, ":2: the line is longer than "));
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fwrite("[server]\nlog_level\0 = info\n", 1, 28, file), 28);
    assert_int_equal(fclose(file), 0);
    config_init(&config);
    assert_int_equal(config_read(&config, path, &error), ERR_INVALID);
    assert_string_equal(error.text + strlen(path),
                        ":2: the line has a NUL byte: is this a text file?");
}

static void a_ca_that_no_certificate_is_compared_with_is_warned_of(void **state)
{
    static const char *const without[] = {"alone", "redis://h", "zookeeper://h",
                                          "mysql://u:rediss@h/d", "mysql://u@h/d?tls=on"},
                             *const with[] = {"rediss://h", "rediss+sentinel://h/m",
                                              "mysql://u@h/d?tls=verify", "$MEMBER", "file:/url"};
    char text[200];
    (void)state;
    for (size_t i = 0; i < sizeof(without) / sizeof(without[0]); i++) {
        (void)snprintf(text, sizeof(text), "[member]\nurl = %s\nca = /a\n", without[i]);
        expect_warnings(text, ":3: warning: member.ca has no effect: that needs a member.url with "
                              "rediss:// or tls=verify\n");
    }
    for (size_t i = 0; i < sizeof(with) / sizeof(with[0]); i++) {
        (void)snprintf(text, sizeof(text), "[member]\nurl = %s\nca = /a\n", with[i]);
        expect_warnings(text, NULL);
    }
    expect_warnings("[member]\nurl = redis://h\n", NULL);
    expect_warnings("[journal]\nurl = mysql://u@h/d?tls=on\nca = /a\n",
                    ":3: warning: journal.ca has no effect: that needs a journal.url with "
                    "tls=verify\n");
    expect_warnings("[journal]\nurl = mysql://u@h/d?socket=/s&tls=verify\nca = /a\n", NULL);
    expect_warnings("[journal]\nurl = $U\nca = /a\n", NULL);
}

static void what_is_for_tls_or_sentinels_is_warned_of_where_there_are_none(void **state)
{
    static const char redis[] = "[engine]\nengine = redis\n[redis]\n";
    char text[300];
    (void)state;
    (void)snprintf(text, sizeof(text), "%stls_key = /k\nurl = redis://rediss\n", redis);
    expect_warnings(text, ":4: warning: redis.tls_key has no effect: that needs a redis.url with "
                          "rediss\n");
    (void)snprintf(text, sizeof(text), "%ssentinel_user = u\nurl = rediss://h\ntls_ca = /c\n",
                   redis);
    expect_warnings(text, ":4: warning: redis.sentinel_user has no effect: that needs a redis.url "
                          "with +sentinel://\n");
    (void)snprintf(text, sizeof(text),
                   "%ssentinel_user = u\nurl = rediss+sentinel://h/m\ntls_ca = /c\n", redis);
    expect_warnings(text, NULL);
    for (int i = 0; i < 2; i++) {
        (void)snprintf(text, sizeof(text), "%ssentinel_user = u\nurl = %s\ntls_ca = /c\n", redis,
                       i ? "file:/u" : "$U");
        expect_warnings(text, NULL);
    }
    expect_warnings("[broker.a]\ntype = nats\nurl = nats://h\nkey = /k\n",
                    ":1: warning: [broker.a] key has no effect: that needs a url with "
                    "nats+tls://\n");
    expect_warnings("[broker.a]\ntype = amqp\nurl = amqps://h\nca = /c\n[broker.b]\ntype = "
                    "kafka\nurl = $K\nca = /c\n[broker.c]\ntype = redis\nurl = redis://h\n",
                    NULL);
}

static void memory_for_one_purpose_is_below_that_for_all(void **state)
{
    (void)state;
    expect_warnings("[limits]\nmemory_bytes = 1G\n[store]\nrecent_bytes = 2G\n",
                    ":4: warning: store.recent_bytes (2G) is not below limits.memory_bytes (1G): "
                    "pushes are refused when so much is filled\n");
    expect_warnings("[limits]\nmemory_bytes = 1G\nbuffer_bytes = 1G\n",
                    ":3: warning: limits.buffer_bytes (1G) is not below limits.memory_bytes (1G): "
                    "no connection is closed before pushes are refused\n");
    expect_warnings("[limits]\nmemory_bytes = 1G\nbuffer_bytes = 512M\n", NULL);
    expect_warnings("[store]\nrecent_bytes = 2G\n", NULL);
}

static void what_stands_behind_the_bracket_of_a_section_is_refused(void **state)
{
    (void)state;
    expect_error("[engine] engine = redis\n",
                 ":1: behind the ] of a section stands \"engine = redis\": write it in a line of "
                 "its own");
    expect_error("[server]\n[broker.a]type = nats\n",
                 ":2: behind the ] of a section stands \"type = nats\": write it in a line of its "
                 "own");
    assert_int_equal(check("[limits]  ; x\njobs = 5\n[server]\t# ]\n"), OK);
    assert_int_equal(config.jobs, 5);
}

/* Three sentinels have long names in a cluster of containers. */
static void a_value_may_be_as_long_as_its_key_says(void **state)
{
    char text[700] = "[engine]\nengine = redis\r\n[redis]\n  url : redis://", *end;
    (void)state;
    end = text + strlen(text);
    memset(end, 'h', 503);
    memcpy(end + 503, "  \r\n", 5);
    assert_int_equal(check(text), OK);
    assert_int_equal(strlen(config.redis_url), 511);
    memcpy(end + 503, "h\n", 3);
    expect_error(text, ":4: url = …: must be redis://…, up to 511 bytes");
}

static void a_comment_may_stand_behind_a_value(void **state)
{
    (void)state;
    assert_int_equal(check("[server] # of all\nlog_level = warn\t# more\nhosts = # none\n"
                           "[store]\ndata_dir = /a#b # c\n[limits]\njobs = 7 ; few # or many\n"
                           "[broker.a] # one\ntype = nats # x\nurl = nats://h/#x # y\n"),
                     OK);
    assert_int_equal(config.log_level, LOG_WARN);
    assert_string_equal(config.hosts, "");
    assert_string_equal(config.data_dir, "/a#b");
    assert_int_equal(config.jobs, 7);
    assert_string_equal(config.brokers[0].url, "nats://h/#x");
}

static void a_value_in_quotation_marks_is_refused(void **state)
{
    (void)state;
    expect_error("[store]\ndata_dir = \"/a\"\n",
                 ":2: data_dir: write the value without quotation marks");
    expect_error("[broker.a]\nurl = 'nats://h' # x\n",
                 ":2: url: write the value without quotation marks");
    assert_int_equal(check("[redis]\nsentinel_password = \"\n"), OK);
}

static void sizes_have_suffixes_of_powers_of_1024_and_no_others(void **state)
{
    static const struct {
        const char *text;
        int64_t bytes;
    } good[] = {{"8192", 8192},
                {"64K", 65536},
                {"64KiB", 65536},
                {"2M", 2 << 20},
                {"2MiB", 2 << 20},
                {"1G", INT64_C(1) << 30},
                {"1GiB", 1 << 30},
                {"3T", INT64_C(3) << 40},
                {"3TiB", INT64_C(3) << 40},
                {"8388607T", INT64_C(8388607) << 40}};
    static const char *const bad[] = {"10GB",
                                      "64KB",
                                      "64k",
                                      "64Ki",
                                      "64i",
                                      "64B",
                                      "64iB",
                                      "1.5G",
                                      "GiB",
                                      "K",
                                      "",
                                      "64 K",
                                      "8388608T",
                                      "9007199254740992K",
                                      "9223372036854775808"};
    int64_t bytes = -1;
    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_true(config_bytes(bytes_str(good[i].text), &bytes));
        assert_int_equal(bytes, good[i].bytes);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(config_bytes(bytes_str(bad[i]), &bytes));
    expect_error(
        "[store]\nmax_bytes = 10GB\n",
        ":2: max_bytes = 10GB: must be bytes, such as 4096, 64K, 32M or 1GiB (units: K M G "
        "T, KiB MiB GiB TiB; powers of 1024), from 0 up");
    expect_error("[store]\nmax_bytes = 64m\n",
                 ":2: max_bytes = 64m: units are capital letters: write 64M");
    expect_error("[limits]\nmemory_bytes = 1k\n",
                 ":2: memory_bytes = 1k: units are capital letters: write 1K");
    expect_error("[limits]\nmemory_bytes = 16mib\n",
                 ":2: memory_bytes = 16mib: units are capital letters: write 16MiB");
    expect_error(
        "[limits]\nmemory_bytes = 1kb\n",
        ":2: memory_bytes = 1kb: must be bytes, such as 4096, 64K, 32M or 1GiB (units: K M "
        "G T, KiB MiB GiB TiB; powers of 1024), from 0 up, and 0 or at least 4M");
}

static void a_time_that_is_too_long_is_refused(void **state)
{
    int64_t us = -1;
    (void)state;
    assert_true(config_duration(BYTES("9223372036854"), 1000000, &us));
    assert_int_equal(us, INT64_C(9223372036854000000));
    assert_false(config_duration(BYTES("9223372036855"), 1000000, &us));
    assert_false(config_duration(BYTES("18446744073709551615"), 1000000, &us));
    assert_false(config_duration(BYTES("18446744073710"), 1000000, &us)); /* 448,384 modulo 2^64 */
}
static void expect_differences(const char *text, const char *expected)
{
    static struct config before;
    struct buf out = {0};
    before = config;
    assert_int_equal(check(text), OK);
    config_add_differences(&before, &config, &out);
    buf_add_char(&out, '\0');
    assert_string_equal(out.at, expected);
    buf_fini(&out);
}

static void keys_whose_values_differ_are_named(void **state)
{
    static const char brokers[] = "[broker.a]\ntype = nats\nurl = nats://h\n"
                                  "[broker.b]\ntype = redis\nurl = redis://h\n";
    (void)state;
    assert_int_equal(check(""), OK);
    expect_differences("# a comment, and a default\n[limits]\n\ntopics = 100000\n", "");
    expect_differences("[server]\nhttp = 127.0.0.1:1\nhosts = a.example\n[store]\ndata_dir = /d\n"
                       "durability = interval:1s\nsegment_bytes = 1M\n[defaults]\nretry = 1s 2s\n",
                       "server.http server.hosts store.data_dir store.durability "
                       "store.segment_bytes defaults.retry");
    assert_int_equal(check("[push]\nallow = 10.0.0.0/8\n"), OK);
    expect_differences("[push]\nallow = 11.0.0.0/8\nports = 80\nhost_rate = 1/s\n"
                       "unix_sockets = /s\njob_targets = off\nproxy = http://p:1\nordered = on\n",
                       "push.host_rate push.ordered push.job_targets push.allow push.ports "
                       "push.proxy push.unix_sockets");
    assert_int_equal(check(brokers), OK);
    expect_differences("[broker.b]\ntype = redis\nurl = redis://other\nwindow = 5\n"
                       "[broker.c]\ntype = nats\nurl = nats://h\n",
                       "broker.a broker.b.url broker.b.window broker.c");
    assert_int_equal(check("[engine]\nengine = redis\n[redis]\nurl = redis://a\n"), OK);
    expect_differences("[server]\nlog_level = warn\n[redis]\nurl = redis://a\n",
                       "server.log_level engine.engine");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_section_without_its_bracket_names_its_line),
        cmocka_unit_test(the_first_line_that_is_wrong_is_named),
        cmocka_unit_test(a_file_that_is_not_there_is_named_with_how_to_make_one),
        cmocka_unit_test(a_pipe_is_not_read_again),
        cmocka_unit_test(push_rules_are_read_and_bad_ones_refused),
        cmocka_unit_test(a_key_that_is_set_twice_is_refused_with_both_lines),
        cmocka_unit_test(a_second_file_goes_over_the_first),
        cmocka_unit_test(values_that_do_not_fit_name_the_line_and_both_values),
        cmocka_unit_test(a_place_is_that_of_the_last_line),
        cmocka_unit_test(bare_numbers_are_seconds_and_warned_of_where_hours_or_days_are_usual),
        cmocka_unit_test(an_interval_of_syncs_says_its_unit),
        cmocka_unit_test(keys_that_have_no_effect_are_warned_of),
        cmocka_unit_test(jobs_that_max_bytes_has_no_room_for_are_warned_of),
        cmocka_unit_test(keys_of_a_section_that_has_no_effect_are_warned_of),
        cmocka_unit_test(a_line_that_is_too_long_or_no_text_is_refused),
        cmocka_unit_test(a_ca_that_no_certificate_is_compared_with_is_warned_of),
        cmocka_unit_test(what_is_for_tls_or_sentinels_is_warned_of_where_there_are_none),
        cmocka_unit_test(memory_for_one_purpose_is_below_that_for_all),
        cmocka_unit_test(what_stands_behind_the_bracket_of_a_section_is_refused),
        cmocka_unit_test(a_value_may_be_as_long_as_its_key_says),
        cmocka_unit_test(a_comment_may_stand_behind_a_value),
        cmocka_unit_test(a_value_in_quotation_marks_is_refused),
        cmocka_unit_test(sizes_have_suffixes_of_powers_of_1024_and_no_others),
        cmocka_unit_test(a_time_that_is_too_long_is_refused),
        cmocka_unit_test(a_long_path_leaves_room_for_the_error),
        cmocka_unit_test(keys_whose_values_differ_are_named),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
