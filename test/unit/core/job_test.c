/*
 * A job's states, names and ids.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "core/cmd.h"
#include "core/job.h"
#include "core/retry.h"

static void the_moves_are_those_of_the_picture(void **state)
{
    (void)state;
    static const char *const picture[JOB_STATES] = {
        /* to:            gone delayed ready reserved buried */
        [JOB_GONE] = "     .    x       x     .        x",
        [JOB_DELAYED] = "  x    .       x     x        .",
        [JOB_READY] = "    x    .       .     x        .",
        [JOB_RESERVED] = " x    x       x     .        x",
        [JOB_BURIED] = "   x    .       x     x        .",
    };
    for (unsigned from = 0; from < JOB_STATES; from++) {
        unsigned to = 0;
        for (const char *at = picture[from]; *at; at++) {
            if (*at != ' ')
                assert_int_equal(job_may_move((enum job_state)from, (enum job_state)to++),
                                 *at == 'x');
        }
        assert_int_equal(to, JOB_STATES);
        assert_false(job_may_move((enum job_state)from, JOB_STATES));
        assert_false(job_may_move(JOB_STATES, (enum job_state)from));
    }
}

static void what_timers_and_queues_need_of_a_job_lies_together(void **state)
{
    (void)state;
    assert_true(offsetof(struct job, retry) < 64);
}

static void ids_of_every_length_are_kept(void **state)
{
    (void)state;
    char text[JOB_ID_MAX];
    uint32_t numbers[JOB_ID_MAX + 1];
    struct pool jobs;
    job_pool_init(&jobs);
    for (size_t len = 0; len <= JOB_ID_MAX; len++) {
        memset(text, 'a' + (int)(len % 26), len);
        numbers[len] = job_take(&jobs, len);
        struct job *job = pool_at(&jobs, numbers[len]);
        *job = (struct job){.seq = len + 1};
        job_id_set(job, bytes_of(text, len));
        assert_in_range(pool_bytes_of(&jobs, numbers[len]), sizeof(*job) + len,
                        sizeof(*job) + len + 3);
    }
    for (size_t len = 0; len <= JOB_ID_MAX; len++) {
        const struct job *job = pool_at(&jobs, numbers[len]);
        memset(text, 'a' + (int)(len % 26), len);
        assert_true(bytes_eq(job_id(job), bytes_of(text, len)));
        assert_int_equal(job->seq, len + 1);
    }
    pool_fini(&jobs);
    assert_int_equal(mem_used(), 0);
}

static struct job_ref parsed(const char *text)
{
    struct job_ref ref = {0};
    assert_true(job_ref_parse(bytes_str(text), &ref));
    return ref;
}

static void an_at_sign_and_a_number_is_a_server_made_id(void **state)
{
    (void)state;
    assert_int_equal(parsed("@1").seq, 1);
    assert_int_equal(parsed("@1").id.len, 0);
    assert_true(parsed("@18446744073709551615").seq == UINT64_MAX);
    static const char *const clients[] = {
        "@", "@0", "@007", "@1x", "@-1", "1", "x", "@18446744073709551616", "@@1", "@ 1"};
    for (size_t i = 0; i < sizeof(clients) / sizeof(clients[0]); i++)
        assert_true(bytes_eq(parsed(clients[i]).id, bytes_str(clients[i])));
    char long_id[JOB_ID_MAX + 1];
    memset(long_id, 'x', sizeof(long_id));
    struct job_ref ref;
    assert_false(job_ref_parse((struct bytes){0}, &ref));
    assert_false(job_ref_parse(bytes_of(long_id, sizeof(long_id)), &ref));
    assert_true(job_ref_parse(bytes_of(long_id, JOB_ID_MAX), &ref));
}

static void every_name_reads_back_as_itself(void **state)
{
    (void)state;
    static const uint64_t numbers[] = {1, 9, 10, 4294967296, UINT64_MAX};
    char room[JOB_TEXT_ID_MAX];
    for (size_t i = 0; i < 5; i++) {
        struct job_ref back, ref = {.seq = numbers[i]};
        assert_true(job_ref_parse(job_ref_text(&ref, room), &back));
        assert_true(back.seq == numbers[i] && back.id.len == 0);
    }
    struct job_ref ref = {.id = BYTES("mine"), .seq = 4};
    assert_true(bytes_eq(job_ref_text(&ref, room), BYTES("mine")));
}

static void states_have_names(void **state)
{
    (void)state;
    assert_string_equal(job_state_name(JOB_DELAYED), "delayed");
    assert_string_equal(job_state_name(JOB_STATES), "unknown");
}

static void equal_schedules_are_kept_once(void **state)
{
    (void)state;
    struct retries retries;
    retries_init(&retries, 1);
    int64_t waits_us[RETRY_STEPS_MAX];
    for (int i = 0; i < RETRY_STEPS_MAX; i++)
        waits_us[i] = i;
    assert_int_equal(retries_take(&retries, NULL, 0), 0);
    assert_null(retries_at(&retries, 0));
    uint32_t one = retries_take(&retries, waits_us, 3);
    uint32_t same = retries_take(&retries, waits_us, 3);
    uint32_t other = retries_take(&retries, waits_us, RETRY_STEPS_MAX);
    assert_int_equal(one, same);
    assert_int_not_equal(one, other);
    assert_int_equal(retries_at(&retries, other)->waits_us[63], 63);
    retries_give(&retries, one);
    assert_int_equal(retries_at(&retries, same)->count, 3);
    retries_give(&retries, same);
    retries_give(&retries, other);
    retries_give(&retries, 0);
    assert_int_equal(retries.pool.count, 0);
    retries_fini(&retries);
    assert_int_equal(mem_used(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_moves_are_those_of_the_picture),
        cmocka_unit_test(what_timers_and_queues_need_of_a_job_lies_together),
        cmocka_unit_test(ids_of_every_length_are_kept),
        cmocka_unit_test(an_at_sign_and_a_number_is_a_server_made_id),
        cmocka_unit_test(every_name_reads_back_as_itself),
        cmocka_unit_test(states_have_names),
        cmocka_unit_test(equal_schedules_are_kept_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
