/* Work that is longer than a turn may be is done in slices, counted against the budget. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/mem.h"
#include "core_bed.h"
#include "test/unit/support/every.h"

enum { SECOND = 1000000, START = 1000 * SECOND, TURN_NS = 1000 * 1000, LOOK_NS = 12 };

static struct core_bed bed;
static struct budget budget;

static int setup(void **state)
{
    (void)state;
    core_bed_open(&bed, (struct core_limits){.jobs = 1000000, .topics = 20000, .waiters = 20000},
                  START);
    core_use_budget(bed.core, &budget);
    budget.left_ns = BUDGET_UNLIMITED;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    core_bed_close(&bed);
    return mem_used() == 0 ? 0 : -1;
}

static void push_delayed(unsigned count)
{
    struct cmd_push push = {.topic = BYTES("t"), .due_us = START + SECOND, .ttr_us = SECOND};
    for (unsigned i = 0; i < count; i++) {
        (void)core_apply(bed.core, START, &(struct cmd){.kind = CMD_PUSH, .push = push}, &bed);
        assert_int_equal(bed.reply.err, OK);
    }
}

static uint64_t park(const struct cmd *cmd)
{
    uint64_t parked = core_apply(bed.core, START, cmd, &bed);
    assert_true(parked != 0);
    return parked;
}

static void a_drain_answers_a_slice_of_those_who_wait(void **state)
{
    enum { WAITERS = 10000 };
    (void)state;
    const struct bytes topic = BYTES("t");
    const struct cmd reserve = {
        .kind = CMD_RESERVE,
        .reserve = {.topics = &topic, .topic_count = 1, .max = 1, .wait_us = INT64_MAX}};
    for (unsigned i = 0; i < WAITERS; i++)
        (void)park(&reserve);
    unsigned slices = 0, before = bed.replies;
    bool more = true;
    for (; more; slices++) {
        unsigned answered = bed.replies;
        budget.left_ns = TURN_NS;
        more = core_drain(bed.core, ERR_DRAINING);
        assert_true(bed.replies - answered <= TURN_NS / 1000);
        assert_true(bed.replies > answered);
        assert_int_equal(bed.reply.err, ERR_DRAINING);
    }
    assert_int_equal(bed.replies - before, WAITERS);
    assert_true(slices >= 10);
}

/* How much work it was; at most a slice of it in each tick. */
static int64_t run_all(void)
{
    int64_t spent_ns = 0;
    bool more = true;
    while (more) {
        budget.left_ns = TURN_NS;
        more = core_tick(bed.core, START, 1000);
        int64_t slice_ns = TURN_NS - budget.left_ns;
        assert_true(slice_ns < 2 * TURN_NS);
        spent_ns += slice_ns;
    }
    return spent_ns;
}

static void kicks_of_one_topic_do_not_look_for_one_anothers_jobs(void **state)
{
    enum { JOBS = 200000, EACH = 10000, CLIENTS = 15 };
    (void)state;
    push_delayed(JOBS);
    const struct cmd kick = {.kind = CMD_KICK_TOPIC,
                             .topic = {.topic = BYTES("t"), .state = JOB_DELAYED, .max = EACH}};
    struct core_totals before, after;
    core_totals(bed.core, &before);
    uint64_t handles[CLIENTS];
    for (unsigned i = 0; i < CLIENTS; i++)
        handles[i] = park(&kick);
    unsigned replies = bed.replies;
    int64_t spent_ns = run_all();
    assert_int_equal(bed.replies - replies, CLIENTS);
    core_totals(bed.core, &after);
    assert_int_equal(after.kicked - before.kicked, CLIENTS * EACH);
    int64_t looks_ns = (int64_t)CLIENTS * JOBS * LOOK_NS,
            changes_ns = (int64_t)CLIENTS * EACH * 1750;
    print_message("%lld ms for %lld ms of looks and changes\n", (long long)spent_ns / 1000000,
                  (long long)(looks_ns + changes_ns) / 1000000);
    assert_true(spent_ns < (looks_ns + changes_ns) * 3 / 2);
    core_cancel(bed.core, handles[0]); /* they are through: nothing happens */
}

static void the_next_kick_goes_on_when_the_first_ones_client_leaves(void **state)
{
    enum { JOBS = 50000, EACH = 100 };
    (void)state;
    push_delayed(JOBS);
    const struct cmd kick = {.kind = CMD_KICK_TOPIC,
                             .topic = {.topic = BYTES("t"), .state = JOB_DELAYED, .max = EACH}};
    uint64_t first = park(&kick);
    (void)park(&kick);
    budget.left_ns = 1;
    assert_true(core_tick(bed.core, START, 1000));
    core_cancel(bed.core, first);
    unsigned before = bed.replies;
    (void)run_all();
    assert_int_equal(bed.replies, before + 1);
    assert_int_equal(bed.reply.count, EACH);
}

/* Each end finds its scan at once: by its place, not by looking at the others. */
static void thousands_of_parked_searches_end_by_their_handles(void **state)
{
    enum { SEARCHES = 8000, JOBS = 30000 };
    const unsigned searches = SEARCHES / sim_every() / 2 * 2;
    (void)state;
    static uint64_t handles[SEARCHES];
    push_delayed(JOBS);
    budget.left_ns = 1;
    const struct cmd list = {.kind = CMD_LIST,
                             .topic = {.topic = BYTES("t"), .state = JOB_DELAYED, .max = 1}};
    for (unsigned i = 0; i < searches; i++)
        handles[i] = park(&list);
    unsigned before = bed.replies;
    for (unsigned i = searches; i-- > 0;)
        if (i % 2)
            core_cancel(bed.core, handles[i]);
    for (unsigned i = 1; i < searches; i += 2) {
        uint64_t again = park(&list); /* in the places of those that have ended */
        assert_true(again != handles[i]);
        core_cancel(bed.core, handles[i]); /* an old handle: not its matter */
        core_cancel(bed.core, again);
    }
    (void)run_all();
    assert_int_equal(bed.replies - before, searches / 2);
}

enum { TOPICS = 4000 };

/* A reserve of TOPICS topics, t0 and so on, that waits a second if it must. */
static struct cmd reserve_of_many(uint32_t max)
{
    static char names[TOPICS][8];
    static struct bytes topics[TOPICS];
    for (unsigned i = 0; i < TOPICS; i++)
        topics[i] = bytes_of(names[i], (size_t)snprintf(names[i], sizeof(names[i]), "t%u", i));
    return (struct cmd){
        .kind = CMD_RESERVE,
        .reserve = {.topics = topics, .topic_count = TOPICS, .max = max, .wait_us = SECOND}};
}

static void push_ready(const char *topic)
{
    struct cmd cmd = {.kind = CMD_PUSH,
                      .push = {.topic = bytes_str(topic), .due_us = START, .ttr_us = SECOND}};
    (void)core_apply(bed.core, START, &cmd, &bed);
    assert_int_equal(bed.reply.err, OK);
}

/* All that have gone are known in one turn, before jobs are matched (P6). */
static void clients_that_leave_thousands_of_topics_leave_them_in_later_ticks(void **state)
{
    enum { CLIENTS = 20 };
    (void)state;
    uint64_t handles[CLIENTS + 1];
    const struct cmd reserve = reserve_of_many(1);
    for (unsigned i = 0; i <= CLIENTS; i++)
        handles[i] = park(&reserve);
    push_ready("t7");
    unsigned replies = bed.replies;
    budget.left_ns = 0;
    for (unsigned i = 0; i < CLIENTS; i++) {
        core_cancel(bed.core, handles[i]);
        core_cancel(bed.core, handles[i]); /* once more: it is not there */
    }
    assert_int_equal(budget.left_ns, 0);
    core_valid(bed.core);
    budget.left_ns = TURN_NS;
    assert_false(core_match(bed.core, START, 10)); /* it goes to the one that is still there */
    assert_int_equal(bed.replies, replies + 1);
    assert_int_equal(bed.reply.count, 1);
    core_valid(bed.core);
    assert_int_equal(core_next_us(bed.core), START);
    assert_true(run_all() >= (int64_t)CLIENTS * TOPICS * 40);
    struct core_totals totals;
    core_totals(bed.core, &totals);
    assert_int_equal(totals.waiters, 0);
    assert_true(core_next_us(bed.core) > START);
}

/* When the budget is spent before. */
static void waits_for_thousands_of_topics_end_one_at_a_time(void **state)
{
    enum { CLIENTS = 20 };
    (void)state;
    const struct cmd reserve = reserve_of_many(1);
    for (unsigned i = 0; i < CLIENTS; i++)
        (void)park(&reserve);
    for (unsigned i = 0; i < CLIENTS / 2; i++) {
        unsigned replies = bed.replies;
        budget.left_ns = 0;
        assert_true(core_tick(bed.core, START + SECOND, 1000));
        assert_int_equal(bed.replies, replies + 1);
        assert_int_equal(bed.reply.err, ERR_EMPTY);
    }
    for (unsigned i = CLIENTS / 2; i < CLIENTS; i++) {
        unsigned replies = bed.replies;
        budget.left_ns = 0;
        assert_int_equal(core_drain(bed.core, ERR_DRAINING), i + 1 < CLIENTS);
        assert_int_equal(bed.replies, replies + 1);
    }
}

static void a_reserve_of_thousands_of_topics_takes_few_jobs_when_the_budget_is_spent(void **state)
{
    (void)state;
    const struct cmd many = reserve_of_many(1000);
    core_cancel(bed.core, park(&many)); /* now there are these topics */
    (void)run_all();
    for (unsigned i = 0; i < 100; i++)
        push_ready("t9");
    budget.left_ns = 0;
    (void)core_apply(bed.core, START, &many, &bed);
    assert_int_equal(bed.reply.count, 4); /* each looks at thousands of topics */
    struct cmd one = many;
    one.reserve.topics += 9;
    one.reserve.topic_count = 1;
    (void)core_apply(bed.core, START, &one, &bed);
    assert_int_equal(bed.reply.count, 64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_drain_answers_a_slice_of_those_who_wait, setup, teardown),
        cmocka_unit_test_setup_teardown(kicks_of_one_topic_do_not_look_for_one_anothers_jobs, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(the_next_kick_goes_on_when_the_first_ones_client_leaves,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(thousands_of_parked_searches_end_by_their_handles, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            clients_that_leave_thousands_of_topics_leave_them_in_later_ticks, setup, teardown),
        cmocka_unit_test_setup_teardown(waits_for_thousands_of_topics_end_one_at_a_time, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            a_reserve_of_thousands_of_topics_takes_few_jobs_when_the_budget_is_spent, setup,
            teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
