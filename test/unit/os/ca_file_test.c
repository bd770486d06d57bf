/* Which file of authorities a client library is given. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "os/ca_file.h"

static char folder[] = "/tmp/laterd-ca-XXXXXX";
static char there[64];

static int make_file(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(there, sizeof(there), "%s/ca.crt", folder);
    FILE *file = fopen(there, "w");
    assert_non_null(file);
    return fclose(file);
}

static int delete_file(void **state)
{
    (void)state;
    return unlink(there) || rmdir(folder);
}

static void find(const char *ca, enum err err, const char *want)
{
    const char *path = NULL;
    char why[CA_FILE_WHY_MAX] = "";
    assert_int_equal(ca_file_find(ca, &path, why), err);
    assert_string_equal(err ? why : path, want);
    assert_true(!err == (path != NULL));
}

static void the_configuration_comes_first(void **state)
{
    (void)state;
    assert_int_equal(setenv("SSL_CERT_FILE", "/nowhere", 1), 0);
    find(there, OK, there);
    find("/nowhere/ca.crt", ERR_NOT_FOUND, "it cannot be read: No such file or directory");
}

static void the_environment_names_the_systems(void **state)
{
    (void)state;
    assert_int_equal(setenv("SSL_CERT_FILE", there, 1), 0);
    find("", OK, there);
    assert_int_equal(setenv("SSL_CERT_FILE", "/nowhere", 1), 0);
    find("", ERR_NOT_FOUND,
         "the file that SSL_CERT_FILE names cannot be read: No such file or directory");
}

/* Which place of it is here, no test can know. */
static void else_it_is_a_file_that_can_be_read_or_none(void **state)
{
    (void)state;
    const char *path = NULL;
    char why[CA_FILE_WHY_MAX] = "";
    assert_int_equal(unsetenv("SSL_CERT_FILE"), 0);
    if (ca_file_find("", &path, why) == OK)
        assert_int_equal(access(path, R_OK), 0);
    else
        assert_non_null(why[0] ? why : NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_configuration_comes_first),
        cmocka_unit_test(the_environment_names_the_systems),
        cmocka_unit_test(else_it_is_a_file_that_can_be_read_or_none),
    };
    return cmocka_run_group_tests_name("os/ca_file", tests, make_file, delete_file);
}
