/* base/rfc3339: the ends of what can be written, zones, clocks that are set, and durations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rfc3339.h"

#define SECOND_US INT64_C(1000000)
#define HOUR_US   (3600 * SECOND_US)

static int64_t read_or(const char *text, int64_t otherwise)
{
    int64_t us;
    return rfc3339_read(bytes_str(text), &us) ? us : otherwise;
}

static void times_outside_1970_to_9999_are_clamped_or_refused(void **state)
{
    char room[RFC3339_ROOM];
    (void)state;
    assert_int_equal(read_or("1969-12-31T23:59:59Z", -1), 0);
    assert_int_equal(read_or("1970-01-01T00:00:00+08:00", -1), 0);
    assert_int_equal(read_or("9999-12-31T23:59:59.999999Z", -1), RFC3339_MAX_US);
    assert_int_equal(read_or("9999-12-31T23:59:59-00:01", -1), -1);
    size_t len = rfc3339_print(INT64_MAX, room);
    assert_true(bytes_eq(bytes_of(room, len), BYTES("9999-12-31T23:59:59.999999Z")));
    len = rfc3339_print(INT64_MIN, room);
    assert_true(bytes_eq(bytes_of(room, len), BYTES("1970-01-01T00:00:00.000Z")));
}

static void a_zone_is_less_than_a_day(void **state)
{
    (void)state;
    assert_int_equal(read_or("1970-01-02T00:00:00+23:59", -1), 60 * SECOND_US);
    assert_int_equal(read_or("1970-01-01T00:00:00-23:59", -1), 86340 * SECOND_US);
    assert_int_equal(read_or("1970-01-05T00:00:00+24:00", -1), -1);
    assert_int_equal(read_or("1970-01-05T00:00:00+00:60", -1), -1);
}

/* An hour before SET_US, two from there on; `back`: the other way round. */
#define SET_US (1000 * 24 * HOUR_US)
static int64_t ahead(int64_t at_us)
{
    return at_us < SET_US ? HOUR_US : 2 * HOUR_US;
}

static int64_t back(int64_t at_us)
{
    return at_us < SET_US ? 2 * HOUR_US : HOUR_US;
}

static int64_t local(const char *text, int64_t (*east_us)(int64_t at_us))
{
    int64_t us;
    assert_true(rfc3339_read_local(bytes_str(text), east_us, &us));
    return us - SET_US; /* which is 1972-09-27T00:00Z */
}

static void local_times_beside_a_clock_that_is_set_are_the_right_ones(void **state)
{
    (void)state;
    assert_int_equal(local("1972-09-27 00:59:59", ahead), -SECOND_US);
    assert_int_equal(local("1972-09-27 02:00:00", ahead), 0);
    assert_int_equal(local("1972-09-27 01:30:00", ahead), HOUR_US / 2); /* no clock showed it */
    assert_int_equal(local("1972-09-27 00:59:59", back), -HOUR_US - SECOND_US);
    assert_int_equal(local("1972-09-27 01:30:00", back), -HOUR_US / 2); /* the first of two */
    assert_int_equal(local("1972-09-27 02:00:00", back), HOUR_US);
}

static void durations_that_do_not_fit_are_refused(void **state)
{
    int64_t us;
    char room[DURATION_ROOM];
    (void)state;
    assert_true(duration_read(BYTES("9223372036854775807us"), &us) && us == INT64_MAX);
    assert_false(duration_read(BYTES("9223372036854775808us"), &us));
    assert_false(duration_read(BYTES("9223372036854775807us1us"), &us));
    assert_false(duration_read(BYTES("106751992d"), &us));
    assert_string_equal(duration_print(0, room), "0s");
    assert_string_equal(duration_print(2 * 24 * HOUR_US, room), "2d");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_outside_1970_to_9999_are_clamped_or_refused),
        cmocka_unit_test(a_zone_is_less_than_a_day),
        cmocka_unit_test(local_times_beside_a_clock_that_is_set_are_the_right_ones),
        cmocka_unit_test(durations_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
