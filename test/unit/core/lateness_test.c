/*
 * Lateness: buckets that reach a year, percentiles of the last minute and of all time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "core/lateness.h"

#define SECOND INT64_C(1000000)
#define DAY    (86400 * SECOND)
#define START  (INT64_C(1790000000) * SECOND)

static int64_t quantile(const struct lateness *lateness, enum lateness_span span, int64_t now_us,
                        unsigned per_mille)
{
    int64_t us;
    lateness_quantiles_us(lateness, span, now_us, &per_mille, &us, 1);
    return us;
}

static void add(struct lateness *lateness, int64_t now_us, int64_t late_us)
{
    lateness_add(lateness, now_us, lateness_bucket(late_us));
}

static void count(struct lateness_histogram *histogram, int64_t late_us)
{
    lateness_count(histogram, lateness_bucket(late_us), late_us);
}

static void each_bound_begins_the_next_bucket(void **state)
{
    (void)state;
    for (unsigned i = 0; i + 1 < LATENESS_BUCKETS; i++) {
        assert_true(lateness_bound_us(i) < lateness_bound_us(i + 1));
        assert_int_equal(lateness_bucket(lateness_bound_us(i) - 1), i);
        assert_int_equal(lateness_bucket(lateness_bound_us(i)), i + 1);
    }
    assert_int_equal(lateness_bucket(INT64_MIN), 0);
    assert_int_equal(lateness_bucket(0), 0);
    assert_int_equal(lateness_bucket(INT64_MAX), LATENESS_BUCKETS - 1);
}

static void a_bound_is_at_most_twice_the_one_before_up_to_a_year(void **state)
{
    (void)state;
    assert_int_equal(lateness_bound_us(0), 50);
    for (unsigned i = 1; i + 1 < LATENESS_BUCKETS; i++)
        assert_true(lateness_bound_us(i) <= 2 * lateness_bound_us(i - 1));
    assert_true(lateness_bound_us(LATENESS_BUCKETS - 2) > 365 * DAY);
    assert_int_equal(lateness_bound_us(LATENESS_BUCKETS - 1), INT64_MAX);
}

/* As `later stats --help` says. */
static void a_percentile_is_at_most_43_percent_above_what_it_stands_for_and_twice_beyond_26_seconds(
    void **state)
{
    enum { FINE_US = 26 * 1000 * 1000 };
    (void)state;
    for (unsigned i = 1; i < LATENESS_BUCKETS - 1; i++) {
        int64_t least_us = lateness_bound_us(i - 1), bound_us = lateness_bound_us(i);
        assert_true(100 * bound_us <= (bound_us <= FINE_US ? 143 : 200) * least_us);
        if (least_us > FINE_US)
            assert_true(bound_us == 2 * least_us);
    }
}

static void hours_late_are_shown_as_hours(void **state)
{
    (void)state;
    static const int64_t late_us[] = {27 * SECOND, 3600 * SECOND, 3 * DAY, 365 * DAY};
    for (size_t i = 0; i < 4; i++) {
        struct lateness lateness = {0};
        add(&lateness, START, late_us[i]);
        for (int span = LATENESS_ALL_TIME; span <= LATENESS_LAST_MINUTE; span++) {
            int64_t shown_us = quantile(&lateness, (enum lateness_span)span, START, 500);
            assert_true(shown_us > late_us[i] && shown_us <= 2 * late_us[i]);
        }
    }
}

static void what_is_later_than_all_buckets_counts_as_the_last_bound(void **state)
{
    (void)state;
    struct lateness lateness = {0};
    add(&lateness, START, INT64_MAX);
    int64_t most_us = lateness_bound_us(LATENESS_BUCKETS - 2);
    assert_int_equal(quantile(&lateness, LATENESS_ALL_TIME, START, 500), most_us);
    assert_int_equal(quantile(&lateness, LATENESS_LAST_MINUTE, START, 999), most_us);
}

static void nothing_handed_out_shows_as_zero(void **state)
{
    (void)state;
    struct lateness lateness = {0};
    assert_int_equal(quantile(&lateness, LATENESS_ALL_TIME, START, 990), 0);
    assert_int_equal(quantile(&lateness, LATENESS_LAST_MINUTE, START, 990), 0);
    add(&lateness, 0, 5); /* times near zero and before it are times like others */
    assert_int_equal(quantile(&lateness, LATENESS_LAST_MINUTE, 0, 990), 50);
}

static void the_last_minute_forgets_what_all_time_keeps(void **state)
{
    (void)state;
    for (int64_t at_us = START; at_us < START + 30 * SECOND; at_us += SECOND / 2) {
        struct lateness lateness = {0};
        add(&lateness, at_us, 3600 * SECOND);
        add(&lateness, at_us, 10);
        assert_true(quantile(&lateness, LATENESS_LAST_MINUTE, at_us + 60 * SECOND, 990) >
                    3600 * SECOND);
        assert_int_equal(quantile(&lateness, LATENESS_LAST_MINUTE, at_us + 90 * SECOND, 990), 0);
        add(&lateness, at_us + 90 * SECOND, 10);
        assert_int_equal(quantile(&lateness, LATENESS_LAST_MINUTE, at_us + 90 * SECOND, 990), 50);
        assert_true(quantile(&lateness, LATENESS_ALL_TIME, at_us + 90 * SECOND, 990) >
                    3600 * SECOND);
        add(&lateness, at_us + 365 * DAY, 10);
        assert_int_equal(quantile(&lateness, LATENESS_LAST_MINUTE, at_us + 365 * DAY, 990), 50);
    }
}

static void full_counters_keep_the_percentiles(void **state)
{
    (void)state;
    struct lateness lateness = {0};
    lateness.ever[0] = UINT32_MAX - 1000000;
    lateness.ever[20] = UINT32_MAX / 50; /* two per cent */
    for (int i = 0; i < 3000000; i++)
        add(&lateness, START, i % 50 ? 10 : 60000);
    for (int span = LATENESS_ALL_TIME; span <= LATENESS_LAST_MINUTE; span++) {
        assert_int_equal(quantile(&lateness, (enum lateness_span)span, START, 970), 50);
        assert_true(quantile(&lateness, (enum lateness_span)span, START, 990) > 50000);
    }
}

static void the_histogram_counts_everything_once(void **state)
{
    (void)state;
    struct lateness_histogram histogram = {0};
    count(&histogram, -5);
    count(&histogram, 300);
    assert_int_equal(histogram.counts[0], 1);
    assert_int_equal(histogram.counts[lateness_bucket(300)], 1);
    assert_int_equal(histogram.sum_us, 300);
    for (int i = 0; i < 3; i++)
        count(&histogram, INT64_MAX);
    assert_int_equal(histogram.counts[LATENESS_BUCKETS - 1], 3);
    assert_true(histogram.sum_us == UINT64_MAX); /* it stops there */
}

static void a_topic_spends_little_on_it(void **state)
{
    (void)state;
    assert_true(sizeof(struct lateness) <= 640);
}

static void a_job_is_late_since_it_was_due_and_there(void **state)
{
    (void)state;
    assert_int_equal(lateness_us(100, 50, 130), 30);
    assert_int_equal(lateness_us(100, 120, 130), 10); /* pushed when it was due already */
    assert_int_equal(lateness_us(100, 50, 90), 0);
    assert_int_equal(lateness_us(INT64_MIN, INT64_MIN, 1), INT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_bound_begins_the_next_bucket),
        cmocka_unit_test(a_bound_is_at_most_twice_the_one_before_up_to_a_year),
        cmocka_unit_test(
            a_percentile_is_at_most_43_percent_above_what_it_stands_for_and_twice_beyond_26_seconds),
        cmocka_unit_test(hours_late_are_shown_as_hours),
        cmocka_unit_test(what_is_later_than_all_buckets_counts_as_the_last_bound),
        cmocka_unit_test(nothing_handed_out_shows_as_zero),
        cmocka_unit_test(the_last_minute_forgets_what_all_time_keeps),
        cmocka_unit_test(full_counters_keep_the_percentiles),
        cmocka_unit_test(the_histogram_counts_everything_once),
        cmocka_unit_test(a_topic_spends_little_on_it),
        cmocka_unit_test(a_job_is_late_since_it_was_due_and_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
