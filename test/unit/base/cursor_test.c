/* Cursors: they come back as they went, to their own listing alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cursor.h"

static const struct listing listing = {
    .engine = CURSOR_EMBEDDED, .state = 2, .topic = {.at = "topic", .len = 5}};

static void a_cursor_comes_back_as_it_went(void **state)
{
    static const struct cursor cursors[] = {
        {0}, {1, 2, 3}, {INT64_MIN, INT64_MAX, UINT64_MAX}, {INT64_MAX, INT64_MIN, 1}, {-1, -1, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof(cursors) / sizeof(cursors[0]); i++) {
        char room[CURSOR_BYTES];
        struct cursor back;
        struct bytes bytes = cursor_write(&listing, &cursors[i], room);
        assert_int_equal(bytes.len, CURSOR_BYTES);
        assert_int_equal(cursor_read(&listing, bytes, &back), OK);
        assert_memory_equal(&back, &cursors[i], sizeof(back));
    }
}

static void a_cursor_is_of_one_listing(void **state)
{
    const struct listing others[] = {
        {.engine = CURSOR_REDIS, .state = 2, .topic = BYTES("topic")},
        {.engine = CURSOR_EMBEDDED, .state = 1, .topic = BYTES("topic")},
        {.engine = CURSOR_EMBEDDED, .state = 2, .backwards = true, .topic = BYTES("topic")},
        {.engine = CURSOR_EMBEDDED, .state = 2, .topic = BYTES("topik")},
        {.engine = CURSOR_EMBEDDED, .state = 2, .topic = BYTES("topics")},
        {.engine = CURSOR_EMBEDDED, .state = 2, .topic = BYTES("topi")},
    };
    char room[CURSOR_BYTES];
    struct cursor back = {4, 5, 6};
    struct bytes bytes = cursor_write(&listing, &(struct cursor){1, 2, 3}, room);
    (void)state;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_int_equal(cursor_read(&others[i], bytes, &back), ERR_INVALID);
    assert_int_equal(back.first, 4); /* and nothing was written */
}

static void any_change_of_a_bit_or_of_the_length_is_noticed(void **state)
{
    char room[CURSOR_BYTES + 1] = {0};
    struct cursor back;
    (void)cursor_write(&listing, &(struct cursor){1700000000000000, 0, 42}, room);
    (void)state;
    for (size_t bit = 0; bit < CURSOR_BYTES * 8; bit++) {
        room[bit / 8] = (char)(room[bit / 8] ^ 1 << bit % 8);
        assert_int_equal(cursor_read(&listing, bytes_of(room, CURSOR_BYTES), &back), ERR_INVALID);
        room[bit / 8] = (char)(room[bit / 8] ^ 1 << bit % 8);
    }
    for (size_t len = 0; len <= sizeof(room); len++)
        assert_int_equal(cursor_read(&listing, bytes_of(room, len), &back),
                         len == CURSOR_BYTES ? OK : ERR_INVALID);
    assert_int_equal(cursor_read(&listing, (struct bytes){0}, &back), ERR_INVALID);
}

/* A client that lists while the server is brought up to date goes on with its cursor. */
static void the_bytes_stay_as_they_are(void **state)
{
    static const char bytes[CURSOR_BYTES] = "\1\1\2\0"
                                            "\1\2\3\4\5\6\7\10"
                                            "\11\0\0\0\0\0\0\0"
                                            "\12\0\0\0\0\0\0\0"
                                            "\xf7\x15\x93\xf7\xac\x81\x5c\1"; /* XXH3 */
    char room[CURSOR_BYTES];
    (void)state;
    (void)cursor_write(&listing, &(struct cursor){0x0807060504030201, 9, 10}, room);
    assert_memory_equal(room, bytes, CURSOR_BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cursor_comes_back_as_it_went),
        cmocka_unit_test(a_cursor_is_of_one_listing),
        cmocka_unit_test(any_change_of_a_bit_or_of_the_length_is_noticed),
        cmocka_unit_test(the_bytes_stay_as_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
