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

static void what_goes_into_urls_has_its_own_two_letters_and_no_padding(void **state)
{
    static const struct {
        struct bytes data;
        const char *text;
    } cases[] = {{{"", 0}, ""},
                 {{"\xff", 1}, "_w"},
                 {{"\xfb\xff", 2}, "-_8"},
                 {{"\xfb\xff", 3}, "-_8A"},
                 {{"\xfb\xff\0\1", 4}, "-_8AAQ"}};
    static const char *const bad[] = {"A", "_x", "-_9", "_w==", "/w", "+_8A", "-_8AA", "-_8A\n"};
    struct arena scratch = {0};
    struct bytes data;
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct buf text = {0};
        base64url_write(&text, cases[i].data);
        assert_true(bytes_eq(buf_bytes(&text), bytes_str(cases[i].text)));
        assert_true(base64url_read(buf_bytes(&text), &scratch, &data));
        assert_true(bytes_eq(data, cases[i].data));
        buf_fini(&text);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(base64url_read(bytes_str(bad[i]), &scratch, &data));
    arena_fini(&scratch);
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
        cmocka_unit_test(what_goes_into_urls_has_its_own_two_letters_and_no_padding),
        cmocka_unit_test(what_is_not_base64_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
