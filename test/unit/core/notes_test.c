/*
 * Notes of failed attempts in replay: whatever order and gaps their numbers have, the last
 * JOB_NOTES_MAX are kept, and each other one's record dies once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/mem.h"
#include "core/replay.h"
#include "core_bed.h"

enum { SEQ = 3, START = 1000, DIED_MAX = 64 };

static uint64_t died[DIED_MAX];
static unsigned died_count;

static void note_death(struct event_sink *sink, struct stored record)
{
    (void)sink;
    assert_true(died_count < DIED_MAX);
    died[died_count++] = record.where;
}

/* Its record is at the place that its number says. */
static void replay(struct core_bed *bed, uint32_t number)
{
    struct event event = {
        .kind = EVENT_NOTE,
        .job = {.seq = SEQ},
        .note = {.at_us = number, .number = number},
        .body = BYTES("why"),
        .record = {.where = number, .bytes = 48},
    };
    assert_int_equal(core_replay(bed->core, &event), OK);
}

static void begin(struct core_bed *bed)
{
    struct event job = {
        .kind = EVENT_JOB,
        .job = {.seq = SEQ, .state = JOB_READY},
        .topic = BYTES("topic"),
        .ttr_us = 1,
        .record = {.where = UINT64_C(1) << 40, .bytes = 200},
    };
    core_bed_open(bed, (struct core_limits){.jobs = 10, .topics = 10, .waiters = 10}, START);
    bed->sink.died = note_death;
    died_count = 0;
    assert_int_equal(core_replay(bed->core, &job), OK);
}

static void end(struct core_bed *bed)
{
    core_replayed(bed->core, START);
    core_bed_close(bed);
    assert_int_equal(mem_used(), 0);
}

/* `count` notes are kept, up to this number; `places` of them have one, the others never came. */
static void check(const struct core_bed *bed, uint32_t last, uint32_t count, uint32_t places)
{
    struct note_place at[JOB_NOTES_MAX];
    uint32_t with_place = 0;
    assert_int_equal(core_note_places(bed->core, SEQ, at), count);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(at[i].number, last - count + 1 + i);
        assert_true(at[i].stored.where == 0 || at[i].stored.where == at[i].number);
        with_place += at[i].stored.where != 0;
    }
    assert_int_equal(with_place, places);
}

static void the_last_five_are_kept(void **state)
{
    (void)state;
    struct core_bed bed;
    begin(&bed);
    for (uint32_t number = 1; number <= 12; number++) {
        uint32_t kept = number < JOB_NOTES_MAX ? number : JOB_NOTES_MAX;
        replay(&bed, number);
        check(&bed, number, kept, kept);
        assert_int_equal(died_count, number - kept);
    }
    for (unsigned i = 0; i < died_count; i++)
        assert_int_equal(died[i], i + 1);
    end(&bed);
}

static void gaps_of_any_width_are_passed_over(void **state)
{
    (void)state;
    for (uint32_t gap = 0; gap < 9; gap++) {
        struct core_bed bed;
        uint32_t lost = gap + 1 < JOB_NOTES_MAX ? gap + 1 : JOB_NOTES_MAX;
        begin(&bed);
        for (uint32_t number = 1; number <= 5; number++)
            replay(&bed, number);
        replay(&bed, 6 + gap);
        check(&bed, 6 + gap, JOB_NOTES_MAX, 1 + JOB_NOTES_MAX - lost);
        assert_int_equal(died_count, lost);
        end(&bed);
    }
}

static void an_older_one_comes_later(void **state)
{
    (void)state;
    struct core_bed bed;
    begin(&bed);
    replay(&bed, 9);
    replay(&bed, 5); /* of the last five */
    check(&bed, 9, JOB_NOTES_MAX, 2);
    assert_int_equal(died_count, 0);
    replay(&bed, 4); /* not any more */
    check(&bed, 9, JOB_NOTES_MAX, 2);
    assert_int_equal(died_count, 1);
    end(&bed);
}

/* Bytes of the disk may name any number. At once: not number by number. */
static void the_highest_number_is_the_newest(void **state)
{
    (void)state;
    struct core_bed bed;
    begin(&bed);
    replay(&bed, 10);
    replay(&bed, UINT32_MAX - 1);
    check(&bed, UINT32_MAX - 1, JOB_NOTES_MAX, 1);
    assert_int_equal(died_count, 1);
    end(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_five_are_kept),
        cmocka_unit_test(gaps_of_any_width_are_passed_over),
        cmocka_unit_test(an_older_one_comes_later),
        cmocka_unit_test(the_highest_number_is_the_newest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
