/* Leases of jobs whose bodies are being read, when many end at once: the process was stopped. */
#include "embedded_far_bed.h"

enum { CLIENTS = 60, RENEW_NS = 150, MOST_NS = 20 * RENEW_NS };

static struct ticket tickets[CLIENTS];
static unsigned answers;

static void hear_job(struct ticket *ticket, const struct reply *reply)
{
    (void)ticket;
    assert_int_equal(reply->err, OK);
    assert_int_equal(reply->count, 1);
    assert_true(reply->jobs[0].until_us > bed.loop.now_us);
    answers++;
}

static int setup(void **state)
{
    (void)state;
    memset(&bed, 0, sizeof(bed));
    bed.no_horizon = true;
    fill(true);
    restart(); /* no body is in memory */
    return 0;
}

/* A turn in which no read of the disk ends. */
static void turn_without_reads(void)
{
    bed.engine->verbs->begin(bed.engine);
    bed.engine->verbs->match(bed.engine);
    (void)bed.engine->verbs->end(bed.engine);
    (void)sim_disk_step(bed.disk, LANE_COMMIT);
    (void)sim_disk_step(bed.disk, LANE_BACKGROUND);
}

static void p8_leases_that_end_at_once_are_renewed_in_slices_and_none_ends(void **state)
{
    (void)state;
    const struct bytes topics[] = {BYTES("t"), BYTES("u")};
    const struct cmd reserve = {.kind = CMD_RESERVE,
                                .reserve = {.topics = topics, .topic_count = 2, .max = 1}};
    struct budget budget = {.left_ns = BUDGET_UNLIMITED};
    bed.loop.now_us += 1000 * HOUR_US; /* all jobs are due */
    rest(100);
    answers = 0;
    for (unsigned i = 0; i < CLIENTS; i++) {
        tickets[i] = (struct ticket){.answered = hear_job};
        assert_int_equal(bed.engine->verbs->submit(bed.engine, &reserve, &tickets[i]),
                         SUBMIT_PENDING);
    }
    turn_without_reads();
    assert_int_equal(totals().jobs[JOB_RESERVED], CLIENTS);
    bed.loop.now_us += 61 * SECOND_US;
    bed.engine->verbs->use_budget(bed.engine, &budget);
    for (unsigned i = 0; i < CLIENTS; i++) {
        budget.left_ns = 0;
        turn_without_reads();
        assert_true(budget.left_ns > -MOST_NS || i + 1 == CLIENTS); /* then leases are looked at */
        assert_int_equal(totals().jobs[JOB_RESERVED], CLIENTS);
    }
    bed.engine->verbs->use_budget(bed.engine, NULL);
    for (int i = 0; i < TURNS_MAX && answers < CLIENTS; i++)
        turn(NULL, NULL);
    assert_int_equal(answers, CLIENTS);
    assert_int_equal(totals().timeouts, 0);
    bed.loop.now_us += 61 * SECOND_US; /* nobody finishes them */
    rest(100);
    assert_int_equal(totals().timeouts, CLIENTS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            p8_leases_that_end_at_once_are_renewed_in_slices_and_none_ends, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
