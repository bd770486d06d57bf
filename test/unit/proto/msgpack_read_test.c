/* MessagePack, a value at a time: every kind of byte, cut anywhere, and claims that are not kept.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proto/msgpack_read.h"

/* One value that is all of the text; cut short anywhere it is none. */
static struct msgpack_value only(struct bytes text)
{
    struct msgpack msgpack;
    struct msgpack_value value = {.kind = MSGPACK_NIL};
    msgpack_init(&msgpack, text);
    assert_true(msgpack_next(&msgpack, &value));
    assert_true(msgpack_end(&msgpack));
    for (size_t len = 0; len < text.len; len++) {
        struct msgpack_value untouched = {.number = 42};
        msgpack_init(&msgpack, bytes_of(text.at, len));
        assert_false(msgpack_next(&msgpack, &untouched));
        assert_int_equal(untouched.number, 42);
    }
    return value;
}

static void integers_of_every_size_are_read(void **state)
{
    const struct {
        struct bytes text;
        enum msgpack_kind kind;
        uint64_t number;
    } good[] = {
        {BYTES("\0"), MSGPACK_UNSIGNED, 0},
        {BYTES("\x7f"), MSGPACK_UNSIGNED, 127},
        {BYTES("\xcc\xff"), MSGPACK_UNSIGNED, 255},
        {BYTES("\xcd\x01\x02"), MSGPACK_UNSIGNED, 0x102},
        {BYTES("\xce\x01\x02\x03\x04"), MSGPACK_UNSIGNED, 0x1020304},
        {BYTES("\xcf\xff\xff\xff\xff\xff\xff\xff\xff"), MSGPACK_UNSIGNED, UINT64_MAX},
        {BYTES("\xd0\x7f"), MSGPACK_UNSIGNED, 127},
        {BYTES("\xd3\0\0\0\0\0\0\x01\0"), MSGPACK_UNSIGNED, 256},
    };
    const struct bytes negative[] = {
        BYTES("\xff"),           BYTES("\xe0"),
        BYTES("\xd0\x80"),       BYTES("\xd1\xff\xff"),
        BYTES("\xd2\x80\0\0\0"), BYTES("\xd3\xff\xff\xff\xff\xff\xff\xff\xff")};
    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct msgpack_value value = only(good[i].text);
        assert_int_equal(value.kind, good[i].kind);
        assert_true(value.number == good[i].number);
    }
    for (size_t i = 0; i < sizeof(negative) / sizeof(negative[0]); i++)
        assert_int_equal(only(negative[i]).kind, MSGPACK_NEGATIVE);
}

static void texts_of_every_size_are_read(void **state)
{
    const struct bytes texts[] = {
        BYTES("\xa2hi"),           BYTES("\xd9\x02hi"), BYTES("\xda\0\x02hi"),
        BYTES("\xdb\0\0\0\x02hi"), BYTES("\xc4\x02hi"), BYTES("\xc5\0\x02hi"),
        BYTES("\xc6\0\0\0\x02hi"),
    };
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct msgpack_value value = only(texts[i]);
        assert_int_equal(value.kind, MSGPACK_TEXT);
        assert_true(bytes_eq(value.text, BYTES("hi")));
    }
    assert_int_equal(only(BYTES("\xa0")).text.len, 0);
}

static void other_kinds_are_told_apart(void **state)
{
    (void)state;
    assert_int_equal(only(BYTES("\xc0")).kind, MSGPACK_NIL);
    assert_int_equal(only(BYTES("\xc3")).kind, MSGPACK_BOOL);
    assert_int_equal(only(BYTES("\xca\0\0\0\0")).kind, MSGPACK_FLOAT);
    assert_int_equal(only(BYTES("\xcb\0\0\0\0\0\0\0\0")).kind, MSGPACK_FLOAT);
    assert_int_equal(only(BYTES("\xd4\x01x")).kind, MSGPACK_EXTENSION);
    assert_int_equal(only(BYTES("\xd8\x01xxxxxxxxxxxxxxxx")).kind, MSGPACK_EXTENSION);
    assert_int_equal(only(BYTES("\xc7\x02\x01xx")).kind, MSGPACK_EXTENSION);
    assert_int_equal(only(BYTES("\xc9\0\0\0\x01\x01x")).kind, MSGPACK_EXTENSION);
    assert_int_equal(only(BYTES("\x83")).number, 3);
    assert_int_equal(only(BYTES("\x94")).number, 4);
    assert_int_equal(only(BYTES("\x80")).kind, MSGPACK_MAP);
    assert_int_equal(only(BYTES("\x8f")).kind, MSGPACK_MAP);
    assert_int_equal(only(BYTES("\x90")).kind, MSGPACK_ARRAY);
    assert_int_equal(only(BYTES("\xdc\x01\0")).number, 256);
    assert_int_equal(only(BYTES("\xdd\0\0\x01\0")).kind, MSGPACK_ARRAY);
    assert_int_equal(only(BYTES("\xde\0\x05")).kind, MSGPACK_MAP);
    assert_int_equal(only(BYTES("\xdf\xff\xff\xff\xff")).number, UINT32_MAX);
    struct msgpack msgpack;
    struct msgpack_value value;
    msgpack_init(&msgpack, BYTES("\xc1"));
    assert_false(msgpack_next(&msgpack, &value));
}

static bool skipped(struct bytes text)
{
    struct msgpack msgpack;
    struct msgpack_value value;
    msgpack_init(&msgpack, text);
    return msgpack_next(&msgpack, &value) && msgpack_skip(&msgpack, &value) &&
           msgpack_end(&msgpack);
}

static void what_is_inside_is_skipped_however_deep(void **state)
{
    char deep[100000];
    (void)state;
    memset(deep, 0x91, sizeof(deep)); /* an array of one, that has an array of one, … */
    assert_false(skipped(bytes_of(deep, sizeof(deep))));
    deep[sizeof(deep) - 1] = 7;
    assert_true(skipped(bytes_of(deep, sizeof(deep))));
    assert_true(skipped(BYTES("\x82\x01\x92\x02\xa1x\x03\x80")));
    assert_false(skipped(BYTES("\x82\x01\x92\x02\xa1x\x03")));
    assert_true(skipped(BYTES("\x05")));
}

static void a_claim_of_many_values_costs_nothing(void **state)
{
    (void)state;
    assert_false(skipped(BYTES("\xdf\xff\xff\xff\xff\x01\x02")));
    assert_false(skipped(BYTES("\x91\xdd\xff\xff\xff\xff\xdd\xff\xff\xff\xff")));
    assert_false(skipped(BYTES("\xdb\xff\xff\xff\xffx")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_of_every_size_are_read),
        cmocka_unit_test(texts_of_every_size_are_read),
        cmocka_unit_test(other_kinds_are_told_apart),
        cmocka_unit_test(what_is_inside_is_skipped_however_deep),
        cmocka_unit_test(a_claim_of_many_values_costs_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
