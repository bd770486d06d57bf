/*
 * What the worker is given: no more at once than half of the memory of connections, but one thing
 * at least, in the order in which it came. Here the worker does nothing before it is told.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/offload.h"
#include "server/server.h"

enum { MEMORY = 100, SOME = 8 };

static struct server server;
static struct work *begun[SOME]; /* in the order in which they began */
static unsigned begun_count;
static struct offload offloads[SOME];

static void submit(struct worker *worker, struct work *work)
{
    (void)worker;
    begun[begun_count++] = work;
}

static const struct worker_verbs verbs = {.submit = submit};

static int set_up(void **state)
{
    static struct worker worker = {.verbs = &verbs};
    (void)state;
    server = (struct server){.worker = &worker, .buffers.max_bytes = MEMORY};
    list_init(&server.offloads);
    begun_count = 0;
    return 0;
}

static void ignore(struct work *work)
{
    (void)work;
}

static void offload(unsigned number, size_t bytes)
{
    offload_submit(&offloads[number], &server, bytes, ignore, ignore);
}

/* These have begun, and no others. */
static void expect_begun(unsigned count)
{
    assert_int_equal(begun_count, count);
    for (unsigned i = 0; i < count; i++)
        assert_ptr_equal(begun[i], &offloads[i].work);
}

static void p8_work_is_begun_while_there_is_memory_for_it(void **state)
{
    (void)state;
    offload(0, MEMORY / 4);
    offload(1, MEMORY / 4);
    expect_begun(2);
    offload(2, 1);
    expect_begun(2);
    offload_done(&offloads[0]);
    expect_begun(3);
    assert_int_equal(server.buffers.work_bytes, MEMORY / 4 + 1);
    offload_done(&offloads[1]);
    offload_done(&offloads[2]);
    assert_int_equal(server.buffers.work_bytes, 0);
}

/* Three that need so much memory: each begins when the one before it is done. */
static void expect_one_by_one(size_t first, size_t second, size_t third)
{
    offload(0, first);
    offload(1, second);
    offload(2, third);
    for (unsigned i = 0; i < 2; i++) {
        expect_begun(i + 1);
        offload_done(&offloads[i]);
    }
    expect_begun(3);
}

static void what_is_larger_than_the_memory_is_done_alone(void **state)
{
    (void)state;
    expect_one_by_one(1, 10 * MEMORY, 1);
}

/* Else a large request could wait forever while small ones come. */
static void what_would_fit_waits_behind_what_came_before_it(void **state)
{
    (void)state;
    expect_one_by_one(MEMORY / 4, MEMORY / 2, 1);
}

static void all_that_have_room_begin_when_a_large_one_is_done(void **state)
{
    (void)state;
    offload(0, MEMORY / 2);
    for (unsigned i = 1; i <= 3; i++)
        offload(i, MEMORY / 5);
    expect_begun(1);
    offload_done(&offloads[0]);
    expect_begun(3);
}

static void what_is_withdrawn_while_it_waits_never_begins(void **state)
{
    (void)state;
    offload(0, MEMORY / 2);
    offload(2, MEMORY / 2);
    offload(1, MEMORY / 2);
    assert_false(offload_withdraw(&offloads[0])); /* it is under way */
    assert_true(offload_withdraw(&offloads[2]));
    offload_done(&offloads[0]);
    expect_begun(2);
    assert_int_equal(server.buffers.work_bytes, MEMORY / 2);
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(p8_work_is_begun_while_there_is_memory_for_it),
        TEST(what_is_larger_than_the_memory_is_done_alone),
        TEST(what_would_fit_waits_behind_what_came_before_it),
        TEST(all_that_have_room_begin_when_a_large_one_is_done),
        TEST(what_is_withdrawn_while_it_waits_never_begins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
