/* What the log says of an election, and how often. Standard error is a file meanwhile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "laterd/member_log.h"

enum { SECOND_US = 1000 * 1000 };

static struct member_log member_log;
static struct member_view view;
static char said[4096];

/* Looks at that time; `said` is what was written. Returns when it wants to look again. */
static int64_t look_at_us(int64_t now_us)
{
    FILE *file = tmpfile();
    assert_non_null(file);
    int before = dup(STDERR_FILENO);
    assert_true(before >= 0 && dup2(fileno(file), STDERR_FILENO) >= 0);
    int64_t next_us = member_log_update(&member_log, &view, now_us);
    assert_true(dup2(before, STDERR_FILENO) >= 0);
    (void)close(before); /* nothing is lost with it */
    rewind(file);
    said[fread(said, 1, sizeof(said) - 1, file)] = '\0';
    (void)fclose(file);
    return next_us;
}

static bool says(const char *words)
{
    return strstr(said, words) != NULL;
}

static int begin(void **state)
{
    (void)state;
    view = (struct member_view){.role = MEMBER_WAITING, .why = "not connected yet"};
    member_log_init(&member_log, "redis", "http://own", 100 * SECOND_US);
    return 0;
}

static void a_start_has_a_second_to_connect_in(void **state)
{
    (void)state;
    assert_int_equal(look_at_us(100 * SECOND_US), 101 * SECOND_US);
    assert_string_equal(said, "");
    view.connected = true;
    assert_int_equal(look_at_us(100 * SECOND_US + SECOND_US / 2), INT64_MAX);
    assert_string_equal(said, "");
}

static void a_start_without_the_service_says_so_then_once_a_minute(void **state)
{
    (void)state;
    (void)snprintf(view.why, sizeof(view.why), "Redis is away: refused");
    assert_int_equal(look_at_us(101 * SECOND_US), 161 * SECOND_US);
    assert_true(says("member_away service=redis away_s=1 why=\"Redis is away: refused\" hint=\""));
    assert_true(says("without it nobody begins to lead"));
    assert_int_equal(look_at_us(120 * SECOND_US), 161 * SECOND_US);
    assert_string_equal(said, "");
    assert_int_equal(look_at_us(161 * SECOND_US), 221 * SECOND_US);
    assert_true(says("away_s=61"));
    view.connected = true;
    assert_int_equal(look_at_us(170 * SECOND_US), INT64_MAX);
    assert_true(says("member_back service=redis away_s=70"));
}

static void a_leader_says_at_once_that_the_service_is_away(void **state)
{
    (void)state;
    view = (struct member_view){.role = MEMBER_LEADING, .epoch = 3, .connected = true};
    (void)look_at_us(110 * SECOND_US);
    view.connected = false;
    assert_int_equal(look_at_us(111 * SECOND_US), 171 * SECOND_US);
    assert_true(says("member_away service=redis away_s=0 why=\"it does not answer\""));
    assert_true(says("this laterd serves until two thirds of member.timeout"));
}

static void each_end_of_a_term_has_its_reason_and_what_to_do(void **state)
{
    static const struct {
        enum member_loss loss;
        const char *why, *hint;
    } cases[] = {
        {LOSS_UNANSWERED, "why=\"no answer came", "raise member.timeout"},
        {LOSS_PAUSED, "why=\"this process did not run", "look for what paused it"},
        {LOSS_EXPIRED, "why=\"the coordination service has ended", "raise member.timeout"},
        {LOSS_DELETED, "why=\"the node or row", "delete nothing"},
        {LOSS_TAKEN, "was written by another", "newest_epoch=9"},
        {LOSS_RESIGNED, "has resigned", "line before"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        (void)begin(state);
        view = (struct member_view){.role = MEMBER_LEADING, .epoch = 8, .connected = true};
        member_log_term_ended(&member_log, 8);
        (void)look_at_us(110 * SECOND_US); /* the member's thread has not noticed yet */
        assert_string_equal(said, "");
        view.role = MEMBER_WAITING;
        view.epoch = 9;
        view.loss = cases[i].loss;
        (void)look_at_us(111 * SECOND_US);
        assert_true(says("leads_no_longer epoch=8") && says(cases[i].why) && says(cases[i].hint));
        (void)look_at_us(112 * SECOND_US);
        assert_string_equal(said, "");
    }
}

static void a_service_that_is_away_is_the_reason_why_nothing_was_answered(void **state)
{
    (void)state;
    view = (struct member_view){.epoch = 8, .loss = LOSS_UNANSWERED};
    (void)snprintf(view.why, sizeof(view.why), "ZooKeeper at h:1 does not answer");
    member_log_term_ended(&member_log, 8);
    (void)look_at_us(111 * SECOND_US);
    assert_true(says("leads_no_longer") && says("why=\"ZooKeeper at h:1 does not answer\""));
}

static void who_leads_instead_is_said_once_and_again_when_it_is_another(void **state)
{
    (void)state;
    view = (struct member_view){.connected = true, .epoch = 4, .leader = "http://a"};
    (void)look_at_us(110 * SECOND_US);
    assert_true(says("waits leader=http://a epoch=4"));
    (void)look_at_us(111 * SECOND_US);
    assert_string_equal(said, "");
    (void)snprintf(view.leader, sizeof(view.leader), "http://b");
    view.epoch = 5;
    (void)look_at_us(112 * SECOND_US);
    assert_true(says("waits leader=http://b epoch=5"));
    assert_false(says("earlier life"));
}

static void an_earlier_life_that_leads_still_is_named_as_that(void **state)
{
    (void)state;
    view = (struct member_view){.connected = true, .epoch = 4, .leader = "http://own"};
    (void)look_at_us(110 * SECOND_US);
    assert_true(says("waits leader=http://own epoch=4 why=\"this is our own URL: an earlier life"));
    assert_true(says("hint=\"nothing is to be done"));
    (void)look_at_us(111 * SECOND_US);
    assert_string_equal(said, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_start_has_a_second_to_connect_in, begin),
        cmocka_unit_test_setup(a_start_without_the_service_says_so_then_once_a_minute, begin),
        cmocka_unit_test_setup(a_leader_says_at_once_that_the_service_is_away, begin),
        cmocka_unit_test_setup(each_end_of_a_term_has_its_reason_and_what_to_do, begin),
        cmocka_unit_test_setup(a_service_that_is_away_is_the_reason_why_nothing_was_answered,
                               begin),
        cmocka_unit_test_setup(who_leads_instead_is_said_once_and_again_when_it_is_another, begin),
        cmocka_unit_test_setup(an_earlier_life_that_leads_still_is_named_as_that, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
