/*
 * A candidate of an election by a row, alone with the service: how long it waits for a holder, when
 * it asks next, and what ends its term. (Several candidates are in election_test.c.)
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "member/claim.h"

#define SECOND_US  INT64_C(1000000)
#define TIMEOUT_US (6 * SECOND_US)
#define START_US   (1000 * SECOND_US)

static struct claim claim;
static struct claim_row row; /* the service's */

static int set_up(void **state)
{
    (void)state;
    row = (struct claim_row){.exists = false};
    claim_init(
        &claim,
        &(struct member_options){.timeout_us = TIMEOUT_US, .instance = 7, .advertise = "http://us"},
        START_US);
    return 0;
}

/* Another process holds the row. */
static void other_holds(int64_t timeout_us)
{
    row = (struct claim_row){.exists = true,
                             .epoch = 5,
                             .count = 9,
                             .timeout_us = timeout_us,
                             .holder = "other",
                             .url = "http://other"};
}

/* The service does what was asked. */
static void answer(int64_t now_us)
{
    const struct claim_request *request = &claim.request;
    struct claim_answer answer = {.done = false};
    bool fits = request->make ? !row.exists
                              : row.exists && row.epoch == request->from_epoch &&
                                    row.count == request->from_count;
    if (request->write && fits) {
        row = request->to;
        answer.done = true;
    }
    answer.row = row;
    claim_answered(&claim, &answer, now_us);
}

/* Asks, and is answered at once. True: it asked to write. */
static bool asks_to_write(int64_t now_us)
{
    bool writes = claim_request(&claim, now_us)->write;
    answer(now_us);
    return writes;
}

static void begin_to_lead(void)
{
    (void)asks_to_write(START_US);
    assert_true(asks_to_write(START_US + TIMEOUT_US));
    assert_true(claim.tenure.leading);
}

/* Its machine may have been told a longer time-out than ours: it may lead until that is over. */
static void a_holder_has_the_longer_of_both_timeouts(void **state)
{
    static const int64_t theirs_us[] = {2 * SECOND_US, 10 * SECOND_US};
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        int64_t wait_us = theirs_us[i] > TIMEOUT_US ? theirs_us[i] : TIMEOUT_US;
        (void)set_up(NULL);
        other_holds(theirs_us[i]);
        assert_false(asks_to_write(START_US));
        assert_string_equal(claim_leader(&claim), "http://other");
        assert_false(asks_to_write(START_US + wait_us - 1));
        assert_true(asks_to_write(START_US + wait_us));
        assert_true(claim.tenure.leading);
        assert_int_equal(claim.tenure.epoch, 6);
        assert_string_equal(claim_leader(&claim), ""); /* it is us */
    }
}

static void who_has_resigned_claims_nothing_until_its_rest_is_over(void **state)
{
    (void)state;
    begin_to_lead();
    int64_t now_us = START_US + TIMEOUT_US + SECOND_US;
    claim_resign(&claim, 60 * SECOND_US, now_us);
    assert_false(claim.tenure.leading);
    assert_int_equal(claim_next_us(&claim), now_us); /* to give it back */
    assert_true(asks_to_write(now_us));
    assert_string_equal(row.holder, "");
    assert_false(asks_to_write(now_us + 60 * SECOND_US - 1));
    assert_true(asks_to_write(now_us + 60 * SECOND_US));
    assert_true(claim.tenure.leading);
}

/* What it had asked before it resigned may have made the row its own. */
static void a_row_that_was_won_while_resigning_is_given_back_at_once(void **state)
{
    (void)state;
    (void)asks_to_write(START_US);
    int64_t now_us = START_US + TIMEOUT_US;
    assert_true(claim_request(&claim, now_us)->write);
    claim_resign(&claim, 60 * SECOND_US, now_us + 1000);
    answer(now_us + 2000);
    assert_false(claim.tenure.leading);
    assert_int_equal(claim_next_us(&claim), now_us + 2000);
    assert_true(asks_to_write(now_us + 2000));
    assert_string_equal(row.holder, "");
}

/* While nothing was heard somebody may have made the row, and led, and the row may have gone. */
static void the_wait_for_a_row_that_is_not_there_starts_again_after_a_loss(void **state)
{
    (void)state;
    assert_false(asks_to_write(START_US));
    (void)claim_request(&claim, START_US + 5 * SECOND_US);
    claim_unanswered(&claim, START_US + 5 * SECOND_US);
    assert_false(asks_to_write(START_US + TIMEOUT_US));
    assert_false(asks_to_write(START_US + 2 * TIMEOUT_US - 1));
    assert_true(asks_to_write(START_US + 2 * TIMEOUT_US));
}

/* The term counts from when it was asked for, so the next request does, too. */
static void the_next_request_counts_from_the_last_one_not_from_its_answer(void **state)
{
    (void)state;
    begin_to_lead();
    int64_t sent_us = claim_next_us(&claim);
    assert_int_equal(sent_us, START_US + TIMEOUT_US + TIMEOUT_US / TENURE_PARTS);
    (void)claim_request(&claim, sent_us);
    answer(sent_us + SECOND_US);
    assert_true(claim.tenure.leading);
    assert_int_equal(claim_next_us(&claim), sent_us + TIMEOUT_US / TENURE_PARTS);
}

/* The service was set back to an older state: others may have had the epochs behind it. */
static void an_older_row_of_its_own_ends_the_term(void **state)
{
    (void)state;
    begin_to_lead();
    struct claim_row older = row;
    claim_raise(&claim, 20, START_US + TIMEOUT_US + 1000);
    assert_true(asks_to_write(START_US + TIMEOUT_US + 2000));
    assert_int_equal(claim.tenure.epoch, 21);
    row = older;
    (void)asks_to_write(START_US + TIMEOUT_US + SECOND_US);
    assert_false(claim.tenure.leading);
    assert_int_equal(claim.tenure.loss, LOSS_TAKEN);
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_holder_has_the_longer_of_both_timeouts),
        TEST(who_has_resigned_claims_nothing_until_its_rest_is_over),
        TEST(a_row_that_was_won_while_resigning_is_given_back_at_once),
        TEST(the_wait_for_a_row_that_is_not_there_starts_again_after_a_loss),
        TEST(the_next_request_counts_from_the_last_one_not_from_its_answer),
        TEST(an_older_row_of_its_own_ends_the_term),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
