/* The topics of a reserve, compared with the dullest list: the same names, in the same order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#include "proto/api/topic_list.h"

enum { MOST = 1000 };

/* Adds "0", "7", "14" … modulo `different`, `adds` times. */
static void add_all(uint32_t most, unsigned different, unsigned adds)
{
    static char names[MOST][16];
    struct arena arena = {0};
    struct topic_list list;
    bool there[MOST] = {false};
    uint32_t count = 0;
    unsigned order[MOST];
    topic_list_init(&list, &arena, most);
    for (unsigned i = 0; i < adds; i++) {
        unsigned number = i * 7 % different;
        (void)snprintf(names[number], sizeof(names[number]), "%u", number);
        bool fits = there[number] || count < most;
        if (!there[number] && fits) {
            there[number] = true;
            order[count++] = number;
        }
        assert_int_equal(topic_list_add(&list, bytes_str(names[number])), fits);
        assert_int_equal(list.count, count);
    }
    for (uint32_t i = 0; i < count; i++)
        assert_true(bytes_eq(list.at[i], bytes_str(names[order[i]])));
    arena_fini(&arena);
}

static void a_few_are_kept_once_in_their_order(void **state)
{
    (void)state;
    add_all(1, 1, 3);
    add_all(1, 2, 4);
    add_all(31, 31, 70);
    add_all(32, 32, 70);
}

static void many_are_kept_once_in_their_order(void **state)
{
    (void)state;
    add_all(33, 33, 70);
    add_all(64, 200, 500);
    add_all(1000, 999, 3000);
}

static void memory_goes_by_what_is_named_not_by_the_limit(void **state)
{
    enum { LIMIT = 1000 * 1000, NAMED = 40 };
    static char names[NAMED][16];
    struct arena arena = {0};
    struct topic_list list;
    (void)state;
    topic_list_init(&list, &arena, LIMIT);
    for (unsigned i = 0; i < NAMED; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "%u", i);
        assert_true(topic_list_add(&list, bytes_str(names[i])));
    }
    assert_in_range(arena.held, 1, 64 * 1024); /* a block of the arena */
    arena_fini(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_few_are_kept_once_in_their_order),
        cmocka_unit_test(many_are_kept_once_in_their_order),
        cmocka_unit_test(memory_goes_by_what_is_named_not_by_the_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
