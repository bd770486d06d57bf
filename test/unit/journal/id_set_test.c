/* A set of ids against what was put into it, while it grows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#include "base/hash.h"
#include "journal/id_set.h"

enum { IDS = 100 * 1000 };

static struct bytes id_of(unsigned i, char room[16])
{
    return bytes_of(room, (size_t)snprintf(room, 16, "id-%u", i));
}

static void it_has_what_was_added_and_nothing_else(void **state)
{
    (void)state;
    struct id_set set = {.count = 0};
    char room[16];
    assert_false(id_set_has(&set, BYTES("id-0")));
    for (unsigned i = 0; i < IDS; i++) {
        id_set_add(&set, id_of(i, room));
        id_set_add(&set, id_of(i / 2, room)); /* twice is once */
        assert_true(id_set_has(&set, id_of(i, room)));
        assert_true(id_set_has(&set, id_of((unsigned)(hash_of(&i, sizeof(i)) % (i + 1)), room)));
        assert_false(id_set_has(&set, id_of(i + 1, room)));
    }
    assert_int_equal(set.count, IDS);
    for (unsigned i = 0; i < IDS; i++)
        assert_true(id_set_has(&set, id_of(i, room)));
    id_set_fini(&set);
    assert_false(id_set_has(&set, BYTES("id-0")));
}

static void no_addition_moves_more_than_some(void **state)
{
    (void)state;
    struct id_set set = {.count = 0};
    char room[16];
    for (unsigned i = 0; i < IDS; i++) {
        size_t moved = set.moved, slots = set.slot_count;
        bool grew = set.old != NULL;
        id_set_add(&set, id_of(i, room));
        assert_true(set.slot_count == slots || !grew); /* the growth before had ended */
        assert_true(!set.old || set.slot_count != slots || set.moved - moved <= ID_SET_MOVES);
    }
    id_set_fini(&set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_has_what_was_added_and_nothing_else),
        cmocka_unit_test(no_addition_moves_more_than_some),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
