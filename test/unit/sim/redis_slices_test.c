/*
 * What the Redis engine does for many consumers and calls is done in slices, each turn as far as
 * its budget goes, and all of them have their turn. On a simulated network; time is simulated.
 */
#include "engine/redis/consumers_parts.h"
#include "redis_bed.h"

static unsigned dirty_groups(void)
{
    unsigned count = 0;
    const struct list *dirty = &engine->consumers.dirty;
    for (const struct list *at = dirty->next; at != dirty; at = at->next)
        count++;
    return count;
}

static unsigned answered_of(const struct client *clients, unsigned count)
{
    unsigned answered = 0;
    for (unsigned i = 0; i < count; i++)
        answered += clients[i].answers;
    return answered;
}

enum { WAITERS = 30 };
static struct client clients[WAITERS];

/* Each waits for a topic of its own. */
static struct engine *start_with_waiters(void)
{
    options.partitions = 1;
    options.waiters_max = WAITERS;
    options.topics_max = 0;
    add_address(7000);
    assert_int_equal(start(), OK);
    struct engine *port = redis_engine_port(engine);
    for (unsigned i = 0; i < WAITERS; i++) {
        char name[16];
        struct bytes topic = bytes_of(name, (size_t)snprintf(name, sizeof(name), "t%02u", i));
        struct cmd take = {
            .kind = CMD_RESERVE,
            .reserve = {
                .topics = &topic, .topic_count = 1, .max = 1, .wait_us = 60 * INT64_C(1000000)}};
        clients[i] = (struct client){.ticket.answered = client_answered};
        (void)port->verbs->submit(port, &take, &clients[i].ticket);
    }
    return port;
}

/* As when marks are gone: each group that waits must ask again; and as at the end: each wait ends.
 */
static void p8_all_who_wait_are_served_in_slices(void **state)
{
    struct budget spent = {0};
    (void)state;
    struct engine *port = start_with_waiters();
    turns(100 * MS);
    assert_int_equal(dirty_groups(), 0);
    port->verbs->use_budget(port, &spent);
    consumers_forget(&engine->consumers);
    for (unsigned left = WAITERS; left > 0; left--) {
        assert_int_equal(dirty_groups(), left);
        port->verbs->match(port);
    }
    assert_int_equal(dirty_groups(), 0);
    port->verbs->drain(port);
    for (unsigned ended = 1; ended <= WAITERS; ended++) {
        assert_int_equal(answered_of(clients, WAITERS), ended);
        port->verbs->match(port);
    }
    port->verbs->use_budget(port, NULL);
    turns(100 * MS);
    assert_int_equal(answered_of(clients, WAITERS), WAITERS);
    assert_int_equal(clients[0].err, ERR_DRAINING);
}

static unsigned groups_with_calls(void)
{
    unsigned count = 0;
    const struct list *groups = &engine->consumers.groups;
    for (const struct list *at = groups->next; at != groups; at = at->next)
        count += LIST_ENTRY(at, struct wait_group, place)->calls > 0;
    return count;
}

static void p8_who_changes_in_each_turn_has_a_turn_too(void **state)
{
    struct budget spent = {0};
    (void)state;
    struct engine *port = start_with_waiters();
    turns(100 * MS);
    assert_int_equal(groups_with_calls(), 0);
    port->verbs->use_budget(port, &spent);
    for (unsigned i = 0; i < WAITERS; i++) {
        consumers_forget(&engine->consumers);
        port->verbs->match(port);
    }
    assert_int_equal(groups_with_calls(), WAITERS);
    port->verbs->use_budget(port, NULL);
    turns(100 * MS);
}

enum { CALLS = 250, GIVEN_UP_AT_A_TIME = 100 };
static struct client callers[CALLS];

static bool somebody_is_answered(const struct loop_share *share)
{
    (void)share;
    return answered_of(callers, CALLS) > 0;
}

/* Their time is over at one moment. */
static void p8_calls_are_given_up_in_slices(void **state)
{
    struct cmd push = {.kind = CMD_PUSH, .push = {.topic = BYTES("t"), .ttr_us = SECOND_US}};
    struct loop_share share = {.spent = somebody_is_answered};
    (void)state;
    options.partitions = 1;
    add_address(7000);
    assert_int_equal(start(), OK);
    struct engine *port = redis_engine_port(engine);
    sim_network_cut(network, 0, 0, SIM_CUT_ALL);
    for (unsigned i = 0; i < CALLS; i++) {
        callers[i] = (struct client){.ticket.answered = client_answered};
        (void)port->verbs->submit(port, &push, &callers[i].ticket);
    }
    turns(1900 * MS);
    assert_int_equal(answered_of(callers, CALLS), 0);
    pass(200 * MS);
    (void)loop_update_time(options.loop);
    for (unsigned i = 0; i < 1000 && !somebody_is_answered(&share); i++)
        (void)loop_expire(options.loop, &share);
    assert_in_range(answered_of(callers, CALLS), 1, GIVEN_UP_AT_A_TIME);
    turns(10 * MS);
    assert_int_equal(answered_of(callers, CALLS), CALLS);
    assert_int_equal(callers[CALLS - 1].err, ERR_AGAIN);
}

/* Redis answers others on this connection, so it stays; these are late. */
static void p8_calls_that_a_slow_server_has_are_all_given_up(void **state)
{
    struct cmd push = {.kind = CMD_PUSH, .push = {.topic = BYTES("t"), .ttr_us = SECOND_US}};
    (void)state;
    options.partitions = 1;
    add_address(7000);
    assert_int_equal(start(), OK);
    struct engine *port = redis_engine_port(engine);
    sim_network_cut(network, 0, 0, SIM_CUT_ALL);
    for (unsigned i = 0; i < CALLS; i++) {
        callers[i] = (struct client){.ticket.answered = client_answered};
        (void)port->verbs->submit(port, &push, &callers[i].ticket);
    }
    turns(1900 * MS);
    script_requests_node(&engine->calls, 0)->link.received_us = now_us;
    pass(200 * MS);
    turns(50 * MS);
    assert_int_equal(answered_of(callers, CALLS), CALLS);
}

int main(void)
{
#define STARTED(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    static const struct CMUnitTest tests[] = {
        STARTED(p8_all_who_wait_are_served_in_slices),
        STARTED(p8_who_changes_in_each_turn_has_a_turn_too),
        STARTED(p8_calls_are_given_up_in_slices),
        STARTED(p8_calls_that_a_slow_server_has_are_all_given_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
