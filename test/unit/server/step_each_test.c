/* Commands that take many turns: whose turn it is, and what waits for the next one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/server.h"

enum { ITEMS = 3 };

static struct server server; /* of it only the budget is used */
static struct list items;

static struct item {
    struct list place;
    unsigned steps;
    bool again; /* puts itself on the list again, as a command does that is answered at once */
    bool stays; /* its step says that the budget is spent */
} all[ITEMS];

static bool step(struct list *place)
{
    struct item *item = LIST_ENTRY(place, struct item, place);
    item->steps++;
    if (item->again)
        list_add_tail(&items, &item->place);
    return item->stays;
}

static int setup(void **state)
{
    (void)state;
    list_init(&items);
    budget_begin(&server.budget, BUDGET_UNLIMITED);
    for (int i = 0; i < ITEMS; i++) {
        all[i] = (struct item){.steps = 0};
        list_init(&all[i].place);
        list_add_tail(&items, &all[i].place);
    }
    return 0;
}

static void what_a_step_adds_waits_for_the_next_turn(void **state)
{
    (void)state;
    for (int i = 0; i < ITEMS; i++)
        all[i].again = true;
    assert_false(server_step_each(&server, &items, step));
    for (int i = 0; i < ITEMS; i++)
        assert_int_equal(all[i].steps, 1);
    assert_ptr_equal(items.next, &all[0].place);
}

static void one_item_has_a_step_though_the_budget_is_spent(void **state)
{
    (void)state;
    budget_begin(&server.budget, 0);
    assert_true(server_step_each(&server, &items, step));
    assert_int_equal(all[0].steps, 1);
    assert_int_equal(all[1].steps, 0);
    assert_ptr_equal(items.next, &all[1].place);
}

static void an_item_that_is_not_done_goes_behind_the_others_and_ends_the_turn(void **state)
{
    (void)state;
    all[1].stays = true;
    assert_true(server_step_each(&server, &items, step));
    assert_int_equal(all[1].steps, 1);
    assert_int_equal(all[2].steps, 0);
    assert_ptr_equal(items.next, &all[2].place);
    assert_ptr_equal(items.prev, &all[1].place);
}

static void there_is_nothing_to_do_for_an_empty_list(void **state)
{
    (void)state;
    list_init(&items);
    assert_false(server_step_each(&server, &items, step));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(what_a_step_adds_waits_for_the_next_turn, setup),
        cmocka_unit_test_setup(one_item_has_a_step_though_the_budget_is_spent, setup),
        cmocka_unit_test_setup(an_item_that_is_not_done_goes_behind_the_others_and_ends_the_turn,
                               setup),
        cmocka_unit_test_setup(there_is_nothing_to_do_for_an_empty_list, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
