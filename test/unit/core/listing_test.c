/* CMD_LIST: long listings in slices, and what their cursors lead to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "core_bed.h"

enum { SECOND = 1000000, START = 1000 * SECOND };

static struct core_bed bed;

static int setup(void **state)
{
    (void)state;
    core_bed_open(&bed, (struct core_limits){.jobs = 1000000, .topics = 100, .waiters = 1000},
                  START);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    core_bed_close(&bed);
    return mem_used() == 0 ? 0 : -1;
}

static void push(const char *topic, int64_t due_us)
{
    struct cmd_push push = {.topic = bytes_str(topic), .due_us = due_us, .ttr_us = SECOND};
    (void)core_apply(bed.core, START, &(struct cmd){.kind = CMD_PUSH, .push = push}, &bed);
    assert_int_equal(bed.reply.err, OK);
}

/* The handle if it is parked, else 0. */
static uint64_t list(struct cmd_topic page)
{
    uint64_t parked =
        core_apply(bed.core, START, &(struct cmd){.kind = CMD_LIST, .topic = page}, &bed);
    return parked;
}

static void a_long_listing_is_read_in_slices_and_can_be_cancelled(void **state)
{
    (void)state;
    for (int i = 0; i < 50000; i++)
        push("t", START + SECOND + 50000 - i);
    struct cmd_topic page = {.topic = BYTES("t"), .max = 10, .state = JOB_DELAYED};
    uint64_t cancelled = list(page);
    unsigned before = bed.replies;
    assert_true(list(page) != 0);
    core_cancel(bed.core, cancelled);
    assert_int_equal(core_next_us(bed.core), START);
    unsigned ticks = 0;
    while (core_tick(bed.core, START, 1000))
        ticks++;
    assert_true(ticks >= 3);
    assert_int_equal(bed.replies, before + 1);
    assert_int_equal(bed.reply.count, 10);
    assert_int_equal(bed.first.due_us, START + SECOND + 1);
    page.cursor = bed.reply.cursor;
    assert_int_equal(page.cursor.len, CURSOR_BYTES);
    assert_true(list(page) != 0);
    memset(bed.cursor, 0, sizeof(bed.cursor)); /* a command's bytes are borrowed for the call */
    while (core_tick(bed.core, START, 1000))
        ;
    assert_int_equal(bed.reply.count, 10);
    assert_int_equal(bed.first.due_us, START + SECOND + 11);
}

static void the_last_page_has_no_cursor(void **state)
{
    struct cmd_topic page = {.topic = BYTES("t"), .max = 2, .state = JOB_DELAYED};
    (void)state;
    for (int i = 0; i < 4; i++)
        push("t", START + SECOND); /* of one instant: their numbers decide */
    assert_int_equal(list(page), 0);
    assert_int_equal(bed.reply.count, 2);
    assert_int_equal(bed.first.ref.seq, 1);
    assert_int_equal(bed.reply.cursor.len, CURSOR_BYTES);
    page.cursor = bed.reply.cursor;
    assert_int_equal(list(page), 0);
    assert_int_equal(bed.reply.count, 2);
    assert_int_equal(bed.first.ref.seq, 3);
    assert_int_equal(bed.reply.cursor.len, 0);
}

static void pages_go_backwards_from_the_last_job(void **state)
{
    struct cmd_topic page = {
        .topic = BYTES("t"), .max = 2, .state = JOB_DELAYED, .backwards = true};
    static const uint64_t firsts[] = {5, 3, 1};
    (void)state;
    for (int i = 0; i < 3; i++)
        push("t", START + SECOND); /* of one instant: the highest number is the last */
    for (int i = 0; i < 2; i++)
        push("t", START + 2 * SECOND);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(list(page), 0);
        assert_int_equal(bed.reply.count, i < 2 ? 2 : 1);
        assert_int_equal(bed.first.ref.seq, firsts[i]);
        assert_int_equal(bed.reply.cursor.len, i < 2 ? CURSOR_BYTES : 0);
        page.cursor = bed.reply.cursor;
    }
}

static void assert_refused(struct cmd_topic page)
{
    assert_int_equal(list(page), 0);
    assert_int_equal(bed.reply.err, ERR_INVALID);
    assert_int_equal(bed.reply.kind, CMD_LIST);
}

static void a_cursor_of_another_listing_is_refused(void **state)
{
    struct cmd_topic page = {.topic = BYTES("t"), .max = 1, .state = JOB_DELAYED};
    char cursor[CURSOR_BYTES];
    (void)state;
    for (int i = 0; i < 2; i++) {
        push("t", START + SECOND);
        push("u", START + SECOND);
    }
    (void)list(page);
    memcpy(cursor, bed.reply.cursor.at, CURSOR_BYTES);
    page.cursor = bytes_of(cursor, CURSOR_BYTES);
    struct cmd_topic other = page;
    other.topic = BYTES("u");
    assert_refused(other);
    other.topic = BYTES("nothing"); /* whether there is such a topic does not matter */
    assert_refused(other);
    other = page;
    other.state = JOB_BURIED;
    assert_refused(other);
    other = page;
    other.backwards = true;
    assert_refused(other);
    other = page;
    other.cursor.len--;
    assert_refused(other);
    cursor[9] ^= 1;
    assert_refused(page);
    struct listing shared = {.engine = CURSOR_REDIS, .state = JOB_DELAYED, .topic = page.topic};
    (void)cursor_write(&shared, &(struct cursor){0}, cursor);
    assert_refused(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_long_listing_is_read_in_slices_and_can_be_cancelled,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(the_last_page_has_no_cursor, setup, teardown),
        cmocka_unit_test_setup_teardown(pages_go_backwards_from_the_last_job, setup, teardown),
        cmocka_unit_test_setup_teardown(a_cursor_of_another_listing_is_refused, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
