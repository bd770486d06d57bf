/*
 * Calls of scripts and their places in the ring of answers, without a Redis: no call shares a place
 * with another that is not answered yet.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "redis/call.h"

enum { PARTITIONS = 2, TIMEOUT_US = 1000 };

struct place_test {
    struct script_space space;
    struct redis_url url;
    struct topology topology; /* of no nodes: nothing is ever sent */
    struct calls calls;
    unsigned given_up;
};

static int setup(void **state)
{
    static struct place_test test;
    test = (struct place_test){.topology.options.url = &test.url};
    if (script_space_init(&test.space, BYTES("laterd"), PARTITIONS, "daemon-1"))
        return -1;
    calls_init(&test.calls, &(struct calls_options){.space = &test.space,
                                                    .topology = &test.topology,
                                                    .timeout_us = TIMEOUT_US});
    *state = &test;
    return 0;
}

static int teardown(void **state)
{
    struct place_test *test = *state;
    calls_fini(&test->calls);
    script_space_fini(&test->space);
    return 0;
}

static void given_up(void *owner, struct call *call, enum err err, const struct bytes *parts,
                     uint32_t count)
{
    (void)call;
    (void)parts;
    (void)count;
    assert_int_equal(err, ERR_AGAIN);
    ((struct place_test *)owner)->given_up++;
}

/* Sends one more, and says which place it got. */
static uint32_t send_one(struct place_test *test, uint32_t partition)
{
    struct call *call = calls_new(&test->calls, partition);
    assert_non_null(call);
    calls_send(call, test, given_up);
    return call->id.place;
}

static void the_place_of_an_ended_call_is_taken_again(void **state)
{
    struct place_test *test = *state;
    assert_int_equal(send_one(test, 0), 0);
    calls_tick(&test->calls, TIMEOUT_US / 2);
    assert_int_equal(send_one(test, 0), 1);
    assert_int_equal(send_one(test, 1), 0); /* each partition has a ring of its own */
    calls_tick(&test->calls, TIMEOUT_US);   /* the first is too old */
    assert_int_equal(test->given_up, 1);
    assert_int_equal(send_one(test, 0), 0);
    assert_int_equal(send_one(test, 0), 2);
}

static void as_many_calls_as_there_are_places_may_be_unanswered(void **state)
{
    struct place_test *test = *state;
    static bool seen[SCRIPT_RING];
    for (uint32_t i = 0; i < SCRIPT_RING; i++) {
        uint32_t place = send_one(test, 1);
        assert_true(place < SCRIPT_RING && !seen[place]);
        seen[place] = true;
    }
    assert_null(calls_new(&test->calls, 1));
    struct call *unkept = calls_new_unkept(&test->calls, 1); /* needs none, and gives none back */
    calls_send(unkept, test, given_up);
    assert_null(calls_new(&test->calls, 1));
    calls_tick(&test->calls, TIMEOUT_US);
    assert_int_equal(test->given_up, SCRIPT_RING + 1);
    assert_int_equal(send_one(test, 1), 0);
}

/* A call that is tried until its answer is known. */
static struct call *send_must(struct place_test *test)
{
    struct call *call = calls_new(&test->calls, 0);
    call->must = true;
    script_ask_promote(&call->request, &test->space, &call->id, 1); /* any request */
    calls_send(call, test, given_up);
    return call;
}

static void what_may_have_been_done_is_given_up_with_its_answer(void **state)
{
    struct place_test *test = *state;
    struct call *done = send_must(test);
    (void)send_must(test); /* nobody has it yet: it takes nothing twice */
    done->on_link.done(&done->on_link, NULL);
    calls_tick(&test->calls, 10 * TIMEOUT_US);
    assert_int_equal(test->given_up, 0);
    calls_give_up(&test->calls, 1);
    assert_int_equal(test->given_up, 0);
    calls_give_up(&test->calls, 0);
    assert_int_equal(test->given_up, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_place_of_an_ended_call_is_taken_again, setup, teardown),
        cmocka_unit_test_setup_teardown(as_many_calls_as_there_are_places_may_be_unanswered, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(what_may_have_been_done_is_given_up_with_its_answer, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
