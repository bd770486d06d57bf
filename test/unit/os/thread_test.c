/* Waiting for the end of a thread. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "os/thread.h"

static int64_t wall_shift_s;

/* In place of the C library's: the wall clock is wrong by so much. */
int clock_gettime(clockid_t clock, struct timespec *out_now)
{
    if (syscall(SYS_clock_gettime, clock, out_now) != 0)
        return -1;
    if (clock == CLOCK_REALTIME)
        out_now->tv_sec += wall_shift_s;
    return 0;
}

static void *ends_soon(void *arg)
{
    (void)arg;
    (void)usleep(200 * 1000);
    return NULL;
}

static void *waits_for_a_byte(void *arg)
{
    char byte;
    ssize_t got = read(*(int *)arg, &byte, 1);
    (void)got;
    return NULL;
}

/* As if it were set back at that moment: the time until then would have passed already. */
static void a_thread_is_waited_for_whatever_the_wall_clock_says(void **state)
{
    (void)state;
    pthread_t thread;
    wall_shift_s = -3600;
    assert_int_equal(thread_start(&thread, ends_soon, NULL), 0);
    assert_true(thread_join_within(thread, 60 * 1000 * 1000));
    wall_shift_s = 0;
}

static void a_thread_that_does_not_end_is_not_waited_for_longer(void **state)
{
    (void)state;
    pthread_t thread;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(thread_start(&thread, waits_for_a_byte, &ends[0]), 0);
    assert_false(thread_join_within(thread, 1000));
    assert_false(thread_join_within(thread, 0));
    assert_false(thread_join_within(thread, -1));
    assert_int_equal(write(ends[1], "x", 1), 1);
    assert_true(thread_join_within(thread, 60 * 1000 * 1000));
    (void)close(ends[0]);
    (void)close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_is_waited_for_whatever_the_wall_clock_says),
        cmocka_unit_test(a_thread_that_does_not_end_is_not_waited_for_longer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
