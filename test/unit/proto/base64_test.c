/* Base64: every length comes back, and nothing but the one right text is taken. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proto/base64.h"

static void data_of_every_length_comes_back_as_it_went(void **state)
{
    char data[70];
    (void)state;
    for (size_t len = 0; len < sizeof(data); len++) {
        struct buf packed = {0};
        struct arena scratch = {0};
        struct bytes unpacked;
        for (size_t i = 0; i < len; i++)
            data[i] = (char)(i * 37 + len);
        base64_write(&packed, bytes_of(data, len));
        assert_true(base64_read(buf_bytes(&packed), &scratch, &unpacked));
        assert_true(bytes_eq(unpacked, bytes_of(data, len)));
        buf_fini(&packed);
        arena_fini(&scratch);
    }
}

static void what_is_not_base64_is_refused(void **state)
{
    static const char *const bad[] = {"A",     "AA",   "AAA",  "A===", "AA=A",
                                      "AA\n=", "AA*=", "AB==", "AAB="};
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct arena scratch = {0};
        struct bytes untouched = BYTES("x");
        assert_false(base64_read(bytes_str(bad[i]), &scratch, &untouched));
        assert_int_equal(untouched.len, 1);
        arena_fini(&scratch);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_of_every_length_comes_back_as_it_went),
        cmocka_unit_test(what_is_not_base64_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
