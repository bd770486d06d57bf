/* sink/webhook/secrets: which key a reference stands for, and what stands for none. */
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

#include "sink/webhook/secrets.h"

static struct secrets secrets;
static struct secret_problem problem;
static char folder[] = "/tmp/laterd-secrets-XXXXXX";

/* The first byte of the key; 0: there is none. */
static char key_of(const char *reference)
{
    const struct signing_key *key = NULL;
    return secrets_find(&secrets, bytes_str(reference), &key, &problem) ? '\0' : (char)key->at[0];
}

/* Writes a key of 24 bytes of `letter` to a file that is then put in place. */
static const char *put_key(char letter)
{
    static char reference[128];
    char path[64], fresh[64];
    (void)snprintf(path, sizeof(path), "%s/key", folder);
    (void)snprintf(fresh, sizeof(fresh), "%s/fresh", folder);
    FILE *file = fopen(fresh, "w");
    assert_non_null(file);
    (void)fprintf(file, "whsec_");
    for (int i = 0; i < 8; i++) /* three letters each */
        (void)fputs(letter == 'a' ? "YWFh" : "YmJi", file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(rename(fresh, path), 0);
    (void)snprintf(reference, sizeof(reference), "file:%s", path);
    return reference;
}

static void a_file_that_was_replaced_is_read_again_and_one_that_went_has_no_key(void **state)
{
    (void)state;
    const char *reference = put_key('a');
    assert_int_equal(key_of(reference), 'a');
    assert_int_equal(key_of(reference), 'a');
    (void)put_key('b');
    assert_int_equal(key_of(reference), 'b');
    assert_int_equal(unlink(reference + 5), 0);
    assert_int_equal(key_of(reference), '\0');
    assert_int_equal(secrets.kept[0].key.len, 0); /* and none is left in memory */
    assert_non_null(strstr(problem.text, "cannot be read"));
}

static void what_names_no_secret_is_refused_without_being_shown(void **state)
{
    (void)state;
    static char longest[TARGET_PATH_MAX + 2];
    const struct signing_key *key;
    memset(longest, 'x', sizeof(longest));
    longest[0] = '$';
    assert_int_equal(secrets_find(&secrets, bytes_of(longest, TARGET_PATH_MAX + 1), &key, &problem),
                     ERR_INVALID);
    assert_non_null(strstr(problem.text, "must be named as"));
    assert_int_equal(secrets_find(&secrets, BYTES("$A\0B"), &key, &problem), ERR_INVALID);
    assert_non_null(strstr(problem.text, "must be named as"));
    assert_int_equal(key_of("whsec_YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFh"), '\0');
    assert_null(strstr(problem.text, "YWFh"));
    assert_int_equal(key_of("file:key"), '\0');
    assert_non_null(strstr(problem.text, "absolute"));
}

/* More than are kept: each replaces another, and none is given another's key. */
static void a_secret_in_the_place_of_another_is_its_own(void **state)
{
    (void)state;
    char name[32], reference[33];
    for (unsigned i = 0; i < 2 * SECRETS_KEPT + 1; i++) {
        (void)snprintf(name, sizeof(name), "%s%u", i % 2 ? "SECRET_" : "LONG_SECRET_", i);
        (void)snprintf(reference, sizeof(reference), "$%s", name);
        (void)setenv(name,
                     i % 3 ? "whsec_YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFh"
                           : "whsec_YmJiYmJiYmJiYmJiYmJiYmJiYmJiYmJi",
                     1);
        assert_int_equal(key_of(reference), i % 3 ? 'a' : 'b');
    }
}

/* Opening a pipe waits for its writer; a device may do something. */
static void the_probe_opens_nothing_but_files(void **state)
{
    char path[64], why[200];
    (void)state;
    (void)snprintf(path, sizeof(path), "%s/pipe", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(secrets_probe(REFERENCE_FILE, bytes_str(path), why, sizeof(why)), ERR_INVALID);
    assert_non_null(strstr(why, "a pipe or a device"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(secrets_probe(REFERENCE_FILE, bytes_str(folder), why, sizeof(why)),
                     ERR_INVALID);
    assert_non_null(strstr(why, "a directory"));
}

static int set_up(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    secrets_forget(&secrets);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_that_was_replaced_is_read_again_and_one_that_went_has_no_key),
        cmocka_unit_test(what_names_no_secret_is_refused_without_being_shown),
        cmocka_unit_test(a_secret_in_the_place_of_another_is_its_own),
        cmocka_unit_test(the_probe_opens_nothing_but_files),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
