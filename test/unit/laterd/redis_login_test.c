/* Who connections to Redis log in as, where the configuration names it by reference. */
#include "laterd/redis_login.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/clock.h"
#include "os/loop.h"

enum { PATIENCE_US = 20 * 1000 * 1000 };

static char folder[] = "/tmp/laterd-login-XXXXXX";
static char url_path[64], guard_path[64], url_reference[80], guard_reference[80];
static struct os_clock system_clock;
static struct os_loop *loop;
static unsigned changes, complaints;
static char complaint[REDIS_ERROR_MAX];

static void write_line(const char *path, const char *line)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fprintf(file, "%s\nsecond line\n", line) > 0);
    assert_int_equal(fclose(file), 0);
}

static int setup(void **state)
{
    (void)state;
    changes = complaints = 0;
    complaint[0] = '\0';
    (void)unlink(url_path);
    (void)unlink(guard_path);
    (void)unsetenv("LOGIN_TEST");
    return 0;
}

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    (void)snprintf(url_path, sizeof(url_path), "%s/url", folder);
    (void)snprintf(guard_path, sizeof(guard_path), "%s/guard", folder);
    (void)snprintf(url_reference, sizeof(url_reference), "file:%s", url_path);
    (void)snprintf(guard_reference, sizeof(guard_reference), "file:%s", guard_path);
    os_clock_init(&system_clock);
    loop = os_loop_new(&system_clock.clock, 0);
    return loop ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)setup(state);
    os_loop_free(loop);
    return rmdir(folder);
}

static void changed(struct redis_login *login)
{
    (void)login;
    changes++;
}

static void unread(struct redis_login *login, const char *why)
{
    (void)login;
    complaints++;
    (void)snprintf(complaint, sizeof(complaint), "%s", why);
}

static struct redis_login login_of(const char *url, const char *sentinel_password)
{
    return (struct redis_login){.url = url,
                                .sentinel_password = sentinel_password,
                                .loop = os_loop_port(loop),
                                .changed = changed,
                                .unread = unread};
}

static struct redis_login login_read(const char *url, const char *sentinel_password)
{
    struct redis_login login = login_of(url, sentinel_password);
    struct redis_error error;
    assert_int_equal(redis_login_read(&login, &error), OK);
    return login;
}

static void refused(const char *url, const char *sentinel_password, enum err err, const char *says)
{
    struct redis_login login = login_of(url, sentinel_password);
    struct redis_error error = {.text = ""};
    assert_int_equal(redis_login_read(&login, &error), err);
    if (strncmp(error.text, says, strlen(says)) != 0)
        fail_msg("'%s' does not begin with '%s'", error.text, says);
}

/* Reads again, if there is something to be read, and waits for it. */
static void read_again(struct redis_login *login)
{
    int64_t until_us = loop_update_time(login->loop) + PATIENCE_US;
    redis_login_again(login);
    while (login->reading && login->loop->now_us < until_us)
        loop_turn(login->loop, until_us);
    assert_null(login->reading);
}

/* ---- at the start ---- */

static void a_url_stands_for_itself_for_a_variable_or_for_a_line_of_a_file(void **state)
{
    (void)state;
    assert_int_equal(setenv("LOGIN_TEST", "redis://jobs:s%40crt@h:7000/3", 1), 0);
    write_line(url_path, "redis://jobs:s%40crt@h:7000/3");
    const char *const texts[] = {"redis://jobs:s%40crt@h:7000/3", "$LOGIN_TEST", url_reference};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct redis_secrets now = login_read(texts[i], "").now;
        assert_string_equal(now.url.user, "jobs");
        assert_string_equal(now.url.password, "s@crt");
        assert_string_equal(now.url.addresses[0].host, "h");
        assert_int_equal(now.url.db, 3);
        assert_string_equal(now.sentinel_password, "");
    }
}

static void so_does_the_sentinels_password(void **state)
{
    (void)state;
    assert_int_equal(setenv("LOGIN_TEST", "guard", 1), 0);
    write_line(guard_path, "guard");
    const char *const texts[] = {"guard", "$LOGIN_TEST", guard_reference};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_string_equal(login_read("redis://h", texts[i]).now.sentinel_password, "guard");
}

static void passwords_that_are_not_there_are_the_defaults(void **state)
{
    struct redis_login login = login_of("redis://jobs@h", "");
    struct redis_error error;
    (void)state;
    login.default_password = "p%40ss";
    login.default_sentinel_password = "guard";
    assert_int_equal(redis_login_read(&login, &error), OK);
    assert_string_equal(login.now.url.password, "p%40ss"); /* as it is */
    assert_string_equal(login.now.sentinel_password, "guard");
    login.url = "redis://:own@h";
    login.sentinel_password = "own";
    assert_int_equal(redis_login_read(&login, &error), OK);
    assert_string_equal(login.now.url.password, "own");
    assert_string_equal(login.now.sentinel_password, "own");
}

static void what_is_missing_may_be_there_at_the_next_start_and_what_is_wrong_may_not(void **state)
{
    static char long_word[REDIS_WORD_MAX + 1];
    (void)state;
    memset(long_word, 'x', REDIS_WORD_MAX);
    refused("$LOGIN_TEST", "", ERR_NOT_FOUND,
            "redis.url: the environment has no variable LOGIN_TEST");
    assert_int_equal(setenv("LOGIN_TEST", "", 1), 0);
    refused("$LOGIN_TEST", "", ERR_NOT_FOUND, "redis.url: the environment");
    refused(url_reference, "", ERR_NOT_FOUND, "redis.url: /tmp/laterd-login-");
    write_line(url_path, "");
    refused(url_reference, "", ERR_NOT_FOUND, "redis.url: /tmp/laterd-login-");
    write_line(url_path, "http://jobs:secret@h");
    refused(url_reference, "", ERR_INVALID, "redis.url must begin with redis://");
    write_line(url_path, "redis://jobs:secret@");
    refused(url_reference, "", ERR_INVALID, "redis.url: no host");
    refused("redis://h", guard_reference, ERR_NOT_FOUND,
            "redis.sentinel_password: /tmp/laterd-login-");
    write_line(guard_path, long_word);
    refused("redis://h", guard_reference, ERR_INVALID, "redis.sentinel_password: longer than 255");
}

/* ---- again ---- */

static void user_and_passwords_are_read_again_and_servers_are_not(void **state)
{
    (void)state;
    write_line(url_path, "redis://jobs:0ld@h:7000/3");
    write_line(guard_path, "0ld");
    struct redis_login login = login_read(url_reference, guard_reference);
    read_again(&login);
    assert_int_equal(changes, 0); /* they are the same */
    write_line(url_path, "redis://work:n3w@other:8000/4");
    read_again(&login);
    assert_int_equal(changes, 1);
    assert_string_equal(login.now.url.user, "work");
    assert_string_equal(login.now.url.password, "n3w");
    assert_string_equal(login.now.url.addresses[0].host, "h");
    assert_int_equal(login.now.url.addresses[0].port, 7000);
    assert_int_equal(login.now.url.db, 3);
    write_line(guard_path, "n3w");
    read_again(&login);
    assert_int_equal(changes, 2);
    assert_string_equal(login.now.sentinel_password, "n3w");
}

static void a_default_that_is_in_use_is_no_change(void **state)
{
    struct redis_login login;
    struct redis_error error;
    (void)state;
    write_line(url_path, "redis://jobs@h");
    login = login_of(url_reference, "");
    login.default_password = "default";
    assert_int_equal(redis_login_read(&login, &error), OK);
    read_again(&login);
    assert_int_equal(changes, 0);
    assert_string_equal(login.now.url.password, "default");
}

static void what_cannot_be_read_again_is_told_once_and_changes_nothing(void **state)
{
    (void)state;
    write_line(url_path, "redis://jobs:0ld@h");
    struct redis_login login = login_read(url_reference, "");
    write_line(url_path, "http://jobs:n3w@h");
    for (int i = 0; i < 3; i++)
        read_again(&login);
    assert_int_equal(complaints, 1);
    assert_non_null(strstr(complaint, "redis.url must begin with"));
    assert_null(strstr(complaint, "n3w"));
    assert_string_equal(login.now.url.password, "0ld");
    write_line(url_path, "redis://jobs:n3w@h");
    read_again(&login);
    assert_string_equal(login.now.url.password, "n3w");
    (void)unlink(url_path);
    read_again(&login);
    assert_int_equal(complaints, 2);
    assert_int_equal(changes, 1);
}

/* A pipe in place of the file: to open it waits for somebody who writes. */
static void a_file_that_takes_long_is_told_once_and_taken_when_it_comes(void **state)
{
    (void)state;
    write_line(url_path, "redis://jobs:old@h");
    struct redis_login login = login_read(url_reference, "");
    assert_int_equal(unlink(url_path), 0);
    assert_int_equal(mkfifo(url_path, 0600), 0);
    int64_t until_us = loop_update_time(login.loop) + PATIENCE_US;
    redis_login_again(&login);
    while (complaints == 0 && login.loop->now_us < until_us)
        loop_turn(login.loop, until_us);
    assert_string_equal(complaint, "redis.url: its file takes long to be read");
    loop_turn(login.loop, until_us); /* the next look */
    assert_int_equal(complaints, 1);
    redis_login_again(&login); /* is that which is under way */
    write_line(url_path, "redis://jobs:new@h");
    while (login.reading && login.loop->now_us < until_us)
        loop_turn(login.loop, until_us);
    assert_string_equal(login.now.url.password, "new");
    assert_int_equal(changes, 1);
    assert_false(login.complained);
}

static void without_a_file_nothing_is_read_again(void **state)
{
    (void)state;
    assert_int_equal(setenv("LOGIN_TEST", "redis://h", 1), 0);
    struct redis_login login = login_read("$LOGIN_TEST", "guard");
    redis_login_again(&login);
    assert_null(login.reading);
    redis_login_stop(&login);
}

static void nothing_is_told_after_it_was_stopped(void **state)
{
    (void)state;
    write_line(url_path, "redis://jobs:0ld@h");
    struct redis_login login = login_read(url_reference, "");
    write_line(url_path, "redis://jobs:n3w@h");
    (void)loop_update_time(login.loop);
    redis_login_again(&login);
    assert_non_null(login.reading);
    redis_login_stop(&login);
    assert_null(login.reading);
    assert_false(timer_is_armed(&login.look));
    assert_int_equal(changes, 0);
    read_again(&login);
    assert_int_equal(changes, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_url_stands_for_itself_for_a_variable_or_for_a_line_of_a_file,
                               setup),
        cmocka_unit_test_setup(so_does_the_sentinels_password, setup),
        cmocka_unit_test_setup(passwords_that_are_not_there_are_the_defaults, setup),
        cmocka_unit_test_setup(
            what_is_missing_may_be_there_at_the_next_start_and_what_is_wrong_may_not, setup),
        cmocka_unit_test_setup(user_and_passwords_are_read_again_and_servers_are_not, setup),
        cmocka_unit_test_setup(a_default_that_is_in_use_is_no_change, setup),
        cmocka_unit_test_setup(what_cannot_be_read_again_is_told_once_and_changes_nothing, setup),
        cmocka_unit_test_setup(a_file_that_takes_long_is_told_once_and_taken_when_it_comes, setup),
        cmocka_unit_test_setup(without_a_file_nothing_is_read_again, setup),
        cmocka_unit_test_setup(nothing_is_told_after_it_was_stopped, setup),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
