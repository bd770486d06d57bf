/*
 * A leader's terms: until when one lasts, what extends it, and what cannot begin it again. (What
 * candidates do with them is in claim_test.c and election_test.c.)
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "member/tenure.h"

#define SECOND_US  INT64_C(1000000)
#define TIMEOUT_US (6 * SECOND_US)
#define TERM_US    (4 * SECOND_US) /* two thirds: whoever waits for us waits for all of it */
#define SENT_US    (1000 * SECOND_US)

static struct tenure tenure;

static int set_up(void **state)
{
    (void)state;
    tenure_init(&tenure, TIMEOUT_US, SENT_US - SECOND_US);
    return 0;
}

static void lead(uint64_t epoch)
{
    assert_true(tenure_begin(&tenure, epoch, SENT_US, SENT_US + SECOND_US));
}

static void a_term_counts_from_its_request_and_not_from_the_answer(void **state)
{
    (void)state;
    lead(5);
    assert_int_equal(tenure.since_us, SENT_US + SECOND_US);
    assert_int_equal(tenure.terms, 1);
    assert_false(tenure_expire(&tenure, SENT_US + TERM_US - 1));
    assert_true(tenure_expire(&tenure, SENT_US + TERM_US));
    assert_false(tenure.leading);
    assert_int_equal(tenure.since_us, SENT_US + TERM_US);
    assert_false(tenure_expire(&tenure, SENT_US + TERM_US)); /* that was said */
}

static void an_answer_that_comes_at_the_deadline_begins_no_term(void **state)
{
    (void)state;
    assert_false(tenure_begin(&tenure, 5, SENT_US, SENT_US + TERM_US));
    assert_false(tenure.leading);
    assert_int_equal(tenure.epoch, 5); /* it is known all the same */
    assert_true(tenure_begin(&tenure, 6, SENT_US, SENT_US + TERM_US - 1));
}

/* Others may have led since, and what was done in a term must not be mixed with the next one. */
static void a_term_that_has_ended_does_not_begin_again_with_its_epoch(void **state)
{
    (void)state;
    lead(5);
    assert_true(tenure_extend(&tenure, 7, SENT_US + SECOND_US, SENT_US + SECOND_US));
    tenure_end(&tenure, LOSS_TAKEN, SENT_US + 2 * SECOND_US);
    assert_int_equal(tenure.loss, LOSS_TAKEN);
    assert_false(tenure_begin(&tenure, 6, SENT_US + 3 * SECOND_US, SENT_US + 3 * SECOND_US));
    assert_false(tenure_begin(&tenure, 7, SENT_US + 3 * SECOND_US, SENT_US + 3 * SECOND_US));
    assert_true(tenure_begin(&tenure, 8, SENT_US + 3 * SECOND_US, SENT_US + 3 * SECOND_US));
    assert_int_equal(tenure.loss, LOSS_NONE);
    assert_int_equal(tenure.terms, 2);
}

static void an_answer_to_an_older_request_does_not_shorten_the_term(void **state)
{
    (void)state;
    lead(5);
    assert_true(tenure_extend(&tenure, 5, SENT_US + 2 * SECOND_US, SENT_US + 2 * SECOND_US));
    assert_true(tenure_extend(&tenure, 5, SENT_US + SECOND_US, SENT_US + 3 * SECOND_US));
    assert_false(tenure_expire(&tenure, SENT_US + 2 * SECOND_US + TERM_US - 1));
    assert_true(tenure_expire(&tenure, SENT_US + 2 * SECOND_US + TERM_US));
}

static void after_the_deadline_no_answer_extends_the_term(void **state)
{
    (void)state;
    lead(5);
    int64_t end_us = SENT_US + TERM_US;
    assert_false(tenure_extend(&tenure, 5, end_us - 1, end_us + TENURE_LATE_REQUEST_US));
    assert_false(tenure.leading);
    assert_int_equal(tenure.loss, LOSS_UNANSWERED); /* the thread waited for that answer */
    assert_int_equal(tenure.deadline_us, 0);
}

static void a_shorter_timeout_shortens_the_term_and_may_end_it(void **state)
{
    (void)state;
    lead(5);
    tenure_set_timeout(&tenure, 2 * TIMEOUT_US, SENT_US, SENT_US + SECOND_US);
    assert_int_equal(tenure.deadline_us, SENT_US + TERM_US); /* the next answer extends it */
    tenure_set_timeout(&tenure, TIMEOUT_US / 2, SENT_US, SENT_US + SECOND_US);
    assert_int_equal(tenure.deadline_us, SENT_US + TERM_US / 2);
    tenure_set_timeout(&tenure, TIMEOUT_US / 4, SENT_US, SENT_US + SECOND_US);
    assert_false(tenure.leading); /* that second is the whole term */
    assert_int_equal(tenure.loss, LOSS_UNANSWERED);
    assert_true(tenure_begin(&tenure, 6, SENT_US + SECOND_US, SENT_US + SECOND_US));
    assert_int_equal(tenure.deadline_us, SENT_US + 2 * SECOND_US);
}

/* An operator looks for a suspended machine in one case, and at the service in the other. */
static void a_process_that_notices_the_end_late_was_paused(void **state)
{
    static const struct {
        bool (*expire)(struct tenure *tenure, int64_t now_us);
        int64_t late_us;
    } ways[] = {{tenure_expire, TENURE_LATE_US},
                {tenure_expire_after_request, TENURE_LATE_REQUEST_US}};
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        (void)set_up(NULL);
        lead(5);
        assert_true(ways[i].expire(&tenure, SENT_US + TERM_US + ways[i].late_us));
        assert_int_equal(tenure.loss, LOSS_UNANSWERED);
        (void)set_up(NULL);
        lead(5);
        assert_true(ways[i].expire(&tenure, SENT_US + TERM_US + ways[i].late_us + 1));
        assert_int_equal(tenure.loss, LOSS_PAUSED);
    }
}

static void the_newest_epoch_of_others_is_known_and_none_while_we_lead(void **state)
{
    (void)state;
    tenure_note_epoch(&tenure, 9);
    tenure_note_epoch(&tenure, 8);
    assert_int_equal(tenure.epoch, 9);
    lead(10);
    tenure_note_epoch(&tenure, 11);
    assert_int_equal(tenure.epoch, 10); /* the log is written with ours */
}

static void the_end_of_a_term_that_is_over_changes_nothing(void **state)
{
    (void)state;
    lead(5);
    tenure_end(&tenure, LOSS_TAKEN, SENT_US + SECOND_US);
    tenure_end(&tenure, LOSS_RESIGNED, SENT_US + 2 * SECOND_US);
    assert_int_equal(tenure.loss, LOSS_TAKEN);
    assert_int_equal(tenure.since_us, SENT_US + SECOND_US);
}

static void who_leads_wakes_up_at_the_deadline_at_the_latest(void **state)
{
    (void)state;
    int64_t end_us = SENT_US + TERM_US;
    assert_int_equal(tenure_wake_us(&tenure, end_us), end_us); /* without a term there is none */
    lead(5);
    assert_int_equal(tenure_wake_us(&tenure, end_us + 1), end_us);
    assert_int_equal(tenure_wake_us(&tenure, end_us - 1), end_us - 1);
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_term_counts_from_its_request_and_not_from_the_answer),
        TEST(an_answer_that_comes_at_the_deadline_begins_no_term),
        TEST(a_term_that_has_ended_does_not_begin_again_with_its_epoch),
        TEST(an_answer_to_an_older_request_does_not_shorten_the_term),
        TEST(after_the_deadline_no_answer_extends_the_term),
        TEST(a_shorter_timeout_shortens_the_term_and_may_end_it),
        TEST(a_process_that_notices_the_end_late_was_paused),
        TEST(the_newest_epoch_of_others_is_known_and_none_while_we_lead),
        TEST(the_end_of_a_term_that_is_over_changes_nothing),
        TEST(who_leads_wakes_up_at_the_deadline_at_the_latest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
