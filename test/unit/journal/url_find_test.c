/* The URL and the password of a file are those that it has now. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "journal/url_find.h"

struct file {
    char path[64], reference[80];
};

static void write_file(const struct file *file, const char *text)
{
    FILE *out = fopen(file->path, "we");
    assert_non_null(out);
    assert_true(fputs(text, out) >= 0);
    assert_int_equal(fclose(out), 0);
}

static struct file make_file(const char *text)
{
    struct file file = {.path = "/tmp/laterd-url-find-XXXXXX"};
    int fd = mkstemp(file.path);
    assert_true(fd >= 0);
    assert_int_equal(close(fd), 0);
    (void)snprintf(file.reference, sizeof(file.reference), "file:%s", file.path); /* it fits */
    write_file(&file, text);
    return file;
}

static void a_password_that_was_replaced_is_found(void **state)
{
    struct file file = make_file("old\n");
    struct journal_url start, now;
    char why[JOURNAL_FIND_WHY_MAX];
    static const char text[] = "mysql://me:ignored@db/jobs";
    (void)state;
    assert_int_equal(journal_url_find(text, file.reference, &start, why), OK);
    assert_string_equal(start.password, "old");
    write_file(&file, "new and longer\n");
    assert_int_equal(journal_url_find_user(text, file.reference, &start, &now, why), OK);
    assert_string_equal(now.user, "me");
    assert_string_equal(now.password, "new and longer");
    assert_string_equal(now.database, "jobs");
    (void)unlink(file.path); /* in /tmp */
}

/* The cursor is in the database of the start. */
static void of_a_url_that_was_replaced_only_the_user_counts(void **state)
{
    struct file file = make_file("mysql://me:old@db/jobs\n");
    struct journal_url start, now;
    char why[JOURNAL_FIND_WHY_MAX];
    (void)state;
    assert_int_equal(journal_url_find(file.reference, "", &start, why), OK);
    write_file(&file, "mysql://you:new@elsewhere:1/others?tls=on\n");
    assert_int_equal(journal_url_find_user(file.reference, "", &start, &now, why), OK);
    assert_string_equal(now.user, "you");
    assert_string_equal(now.password, "new");
    assert_string_equal(now.host, "db");
    assert_string_equal(now.database, "jobs");
    assert_int_equal(now.port, JOURNAL_PORT);
    assert_int_equal(now.tls, JOURNAL_TLS_OFF);
    (void)unlink(file.path); /* in /tmp */
}

static void what_cannot_be_read_is_named(void **state)
{
    struct journal_url start = {.port = 1}, now = {.port = 2};
    char why[JOURNAL_FIND_WHY_MAX], word[JOURNAL_WORD_MAX + 1];
    (void)state;
    assert_int_equal(journal_url_find("mysql://u@h/d", "file:/no/such", &now, why), ERR_NOT_FOUND);
    assert_string_equal(why, "password: /no/such: No such file or directory");
    assert_int_equal(journal_url_find_user("file:/no/such", "", &start, &now, why), ERR_NOT_FOUND);
    assert_string_equal(why, "url: /no/such: No such file or directory");
    assert_int_equal(journal_url_find("mysql://u@h", "", &now, why), ERR_INVALID);
    assert_string_equal(why, "url: the database is missing: mysql://user@host/database");
    memset(word, 'x', sizeof(word) - 1);
    word[sizeof(word) - 1] = '\0';
    assert_int_equal(journal_url_find("mysql://u@h/d", word, &now, why), ERR_INVALID);
    assert_string_equal(why, "password: longer than 255 bytes");
    assert_int_equal(now.port, 2); /* nothing was written */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_password_that_was_replaced_is_found),
        cmocka_unit_test(of_a_url_that_was_replaced_only_the_user_counts),
        cmocka_unit_test(what_cannot_be_read_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
