/* Far jobs with large bodies: commands on them take the memory of their records over, and end at
 * any time. */
#include "embedded_far_bed.h"

enum { OLD_BODY_BYTES = 60000 };

static bool old_body_shown;

static void see_old_body(struct ticket *ticket, const struct reply *reply)
{
    (void)ticket;
    assert_int_equal(reply->err, OK);
    assert_int_equal(reply->jobs->body.len, OLD_BODY_BYTES);
    for (size_t i = 0; i < OLD_BODY_BYTES; i++)
        assert_int_equal(reply->jobs->body.at[i], 'a' + i % 7);
    assert_true(bytes_eq(reply->jobs->properties, BYTES("labels")));
    old_body_shown = true;
}

/* The log takes over what was read of a far job that is changed; the thread that writes copies it.
 */
static void a_large_old_body_is_not_copied_in_the_turn(void **state)
{
    (void)state;
    struct buf body = {0};
    struct budget budget = {.left_ns = BUDGET_UNLIMITED};
    buf_reserve(&body, OLD_BODY_BYTES);
    for (size_t i = 0; i < OLD_BODY_BYTES; i++)
        body.at[i] = (char)('a' + i % 7);
    body.len = OLD_BODY_BYTES;
    struct cmd push = {.kind = CMD_PUSH,
                       .push = {.id = BYTES("large"),
                                .topic = BYTES("t"),
                                .due_us = START_US + 9 * HOUR_US,
                                .ttr_us = SECOND_US,
                                .properties = BYTES("labels"),
                                .body = buf_bytes(&body)}};
    bed.batch_full = 16 * 1024;
    restart();
    assert_int_equal(ask(&push), OK);
    buf_fini(&body);
    grow_log();
    assert_int_equal(totals().far, JOBS + 1);
    bed.engine->verbs->use_budget(bed.engine, &budget);
    struct cmd later = {
        .kind = CMD_RESCHEDULE,
        .job = {.ref.id = BYTES("large"), .has_due = true, .due_us = START_US + 99 * HOUR_US}};
    assert_int_equal(ask(&later), OK);
    assert_true(BUDGET_UNLIMITED - budget.left_ns < OLD_BODY_BYTES / 4);
    bed.engine->verbs->use_budget(bed.engine, NULL);
    assert_int_equal(totals().far, JOBS);
    for (int round = 0; round < 3; round++) { /* soon after that, after a restart, far again */
        struct ticket ticket = {.answered = see_old_body};
        struct cmd get = {.kind = CMD_GET, .job.ref.id = BYTES("large")};
        old_body_shown = false;
        turn(&get, &ticket);
        for (int i = 0; i < TURNS_MAX && !old_body_shown; i++)
            turn(NULL, NULL);
        assert_true(old_body_shown);
        if (round == 0)
            restart();
        else if (round == 1)
            grow_log();
    }
    assert_int_equal(totals().far, JOBS + 1);
}

enum { LARGE_BYTES = 600000 };

static void see_large(struct ticket *ticket, const struct reply *reply)
{
    (void)ticket;
    assert_int_equal(reply->err, OK);
    assert_int_equal(reply->jobs->body_len, LARGE_BYTES);
    old_body_shown = true;
}

static void see_any(struct ticket *ticket, const struct reply *reply)
{
    (void)ticket;
    (void)reply;
    bed.answer.there = true;
}

/* Its first bytes say how long it is; then all of it is read. It is freed a piece at a time. */
static void commands_on_a_large_far_job_end_at_any_time(void **state)
{
    static const enum cmd_kind kinds[] = {CMD_GET, CMD_TOUCH};
    (void)state;
    struct buf body = {0};
    buf_reserve(&body, LARGE_BYTES);
    memset(body.at, 'l', LARGE_BYTES);
    body.len = LARGE_BYTES;
    struct cmd push = {.kind = CMD_PUSH,
                       .push = {.id = BYTES("large"),
                                .topic = BYTES("t"),
                                .due_us = START_US + 9 * HOUR_US,
                                .ttr_us = SECOND_US,
                                .body = buf_bytes(&body)}};
    assert_int_equal(ask(&push), OK);
    buf_fini(&body);
    grow_log();
    assert_int_equal(totals().far, JOBS + 1);
    for (unsigned i = 0; i < 8; i++) {
        struct cmd cmd = {.kind = kinds[i / 4], .job.ref.id = BYTES("large")};
        struct ticket ticket = {.answered = see_any};
        bed.answer.there = false;
        bed.engine->verbs->begin(bed.engine);
        assert_int_equal(bed.engine->verbs->submit(bed.engine, &cmd, &ticket), SUBMIT_PARKED);
        (void)bed.engine->verbs->end(bed.engine);
        for (unsigned reads = 0; reads < i % 4 && !bed.answer.there; reads++) {
            (void)sim_disk_step(bed.disk, LANE_READ);
            bed.engine->verbs->begin(bed.engine);
            (void)bed.engine->verbs->end(bed.engine);
        }
        if (!bed.answer.there)
            bed.engine->verbs->cancel(bed.engine, &ticket);
        rest(200);
    }
    struct ticket ticket = {.answered = see_large};
    struct cmd run = {.kind = CMD_RUN, .job.ref.id = BYTES("large")};
    old_body_shown = false;
    turn(&run, &ticket);
    for (int i = 0; i < TURNS_MAX && !old_body_shown; i++)
        turn(NULL, NULL);
    assert_true(old_body_shown);
    assert_int_equal(totals().far, JOBS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_large_old_body_is_not_copied_in_the_turn),
        COLD(commands_on_a_large_far_job_end_at_any_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
