/* Numbers of one to ten bytes, and bytes that are none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/mem.h"
#include "store/varint.h"

/* What the format says, byte by byte. Returns how many it takes; 0: it is no number. */
static size_t read_slowly(const char *at, size_t len, uint64_t *out_number)
{
    *out_number = 0;
    for (size_t i = 0; i < len && i < VARINT_MAX; i++) {
        uint64_t bits = (uint8_t)at[i] & 0x7f;
        if (i == VARINT_MAX - 1 && (uint8_t)at[i] > 1)
            return 0;
        *out_number |= bits << 7 * i;
        if ((uint8_t)at[i] < 0x80)
            return i + 1;
    }
    return 0;
}

/* The bytes lie at the end of their memory: a sanitizer sees what is read behind them. */
static void compare(const char *bytes, size_t len)
{
    uint64_t want;
    size_t taken = read_slowly(bytes, len, &want);
    char *at = mem_alloc(len + 1);
    memcpy(at + 1, bytes, len);
    struct varint_reader reader = {at + 1, at + 1 + len, true};
    uint64_t got = varint_get(&reader);
    assert_int_equal(reader.good, taken > 0);
    assert_true(got == (taken ? want : 0));
    assert_true(reader.at <= reader.end);
    if (taken)
        assert_int_equal(reader.at - (at + 1), taken);
    mem_free(at);
}

static void any_bytes_are_read_as_the_format_says(void **state)
{
    (void)state;
    uint64_t random = 7;
    for (unsigned round = 0; round < 40000; round++) {
        char bytes[16];
        size_t len = round % (sizeof(bytes) + 1), number_bytes = round / 17 % 12;
        for (size_t i = 0; i < sizeof(bytes); i++) {
            random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            bytes[i] = (char)((random >> 56 & 0x7f) | (i < number_bytes ? 0x80 : 0));
        }
        compare(bytes, len);
    }
}

static void what_was_written_is_read(void **state)
{
    (void)state;
    for (unsigned bit = 0; bit < 64; bit++) {
        for (unsigned less = 0; less < 3; less++) {
            uint64_t number = (UINT64_C(1) << bit) - less;
            char room[VARINT_MAX + 8] = {0};
            char *end = varint_put(room, number);
            struct varint_reader reader = {room, room + sizeof(room), true};
            assert_true(varint_get(&reader) == number && reader.good);
            assert_ptr_equal(reader.at, end);
            for (size_t len = 0; len <= (size_t)(end - room); len++)
                compare(room, len);
            assert_int_equal(varint_unfold(varint_fold((int64_t)number)), (int64_t)number);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_bytes_are_read_as_the_format_says),
        cmocka_unit_test(what_was_written_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
