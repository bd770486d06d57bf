/* Far jobs that may be a client's bytes: which of them hide a job of the log. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#include "store/recovery/strays.h"

enum { JOBS = 10000 };

static struct event job_of(uint64_t seq, const char *id)
{
    return (struct event){.kind = EVENT_JOB, .job = {.seq = seq}, .id = bytes_str(id)};
}

static void a_stray_of_a_higher_number_hides_once(void **state)
{
    (void)state;
    struct strays strays = {0};
    struct event event;
    uint64_t seq = 0;
    char id[16];
    for (unsigned i = 0; i < JOBS; i++) {
        (void)snprintf(id, sizeof(id), "%u", i);
        event = job_of(2 * JOBS - i, id);
        strays_add(&strays, &event);
    }
    strays_sort(&strays);
    for (unsigned i = 0; i < JOBS; i++) {
        (void)snprintf(id, sizeof(id), "%u", i);
        event = job_of(5 * JOBS, id);
        assert_false(strays_hides(&strays, &event, &seq)); /* a lower one hides nothing */
        event = job_of(1, id);
        assert_true(strays_hides(&strays, &event, &seq));
        assert_int_equal(seq, 2 * JOBS - i);
        assert_false(strays_hides(&strays, &event, &seq));
    }
    event = job_of(1, "none");
    assert_false(strays_hides(&strays, &event, &seq));
    strays_fini(&strays);
}

static void the_jobs_own_record_replaces_a_stray(void **state)
{
    (void)state;
    struct strays strays = {0};
    struct event event = job_of(7, "a");
    uint64_t seq = 0;
    strays_add(&strays, &event);
    strays_sort(&strays);
    event = job_of(7, "b");
    assert_false(strays_hides(&strays, &event, &seq));
    event = job_of(3, "a");
    assert_false(strays_hides(&strays, &event, &seq));
    strays_fini(&strays);
}

static void each_slice_is_noted_once(void **state)
{
    (void)state;
    struct strays strays = {0};
    for (uint32_t i = 0; i < 3 * 40; i++)
        strays_note_slice(&strays, 1 + i % 40);
    assert_int_equal(strays.slice_count, 40);
    strays_fini(&strays);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stray_of_a_higher_number_hides_once),
        cmocka_unit_test(the_jobs_own_record_replaces_a_stray),
        cmocka_unit_test(each_slice_is_noted_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
