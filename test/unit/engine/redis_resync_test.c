/*
 * A resync of the journal without a Redis and without MySQL: what it makes of calls that fail. The
 * scripts and the whole are in test/unit/sim/redis_restore_scripts_test.c and test/black/journal.
 */
#include "redis_calls_bed.h"

#include "base/codec.h"
#include "base/mem.h"
#include "engine/redis/journal_feed.h"
#include "engine/redis/journal_resync.h"
#include "engine/redis/script_parts.h"

enum { SECOND_US = 1000 * 1000, THERE = 1 /* the script's state of a journal */ };

/* ---- MySQL ---- */

static struct restore_row row = {.push.id = {"a", 1}};
static bool has_row;
static struct restore_reader *reader;

static enum err begin_query(struct restore *restore, const struct restore_query *query,
                            struct restore_reader *of, struct restore_run **out_run,
                            const char **out_why)
{
    (void)query;
    (void)out_why;
    reader = of;
    *out_run = (struct restore_run *)(void *)restore; /* never looked into */
    return OK;
}

static struct restore_row *take_row(struct restore_run *run)
{
    (void)run;
    struct restore_row *taken = has_row ? &row : NULL;
    has_row = false;
    return taken;
}

static void settle_row(struct restore_run *run, struct restore_row *of)
{
    (void)run;
    (void)of;
}

static bool query_ended(const struct restore_run *run, enum err *out_err, const char **out_why)
{
    (void)run;
    (void)out_err;
    (void)out_why;
    return false;
}

static void close_query(struct restore_run *run)
{
    (void)run;
}

static const struct restore_verbs restore_verbs = {.begin = begin_query,
                                                   .take = take_row,
                                                   .settle = settle_row,
                                                   .ended = query_ended,
                                                   .close = close_query};
static struct restore restore = {.verbs = &restore_verbs};

static void give(struct journal *journal, struct journal_batch *batch)
{
    (void)journal;
    mem_free(batch);
}

static struct restore *restore_of(struct journal *journal)
{
    (void)journal;
    return &restore;
}

static const struct journal_verbs journal_verbs = {.give = give, .restore = restore_of};

/* ---- the bed ---- */

struct resync_bed {
    struct calls_bed calls;
    struct redis_journal_feed feed;
    struct journal journal;
};

static int setup(void **state)
{
    static struct resync_bed bed;
    if (!calls_bed_open(&bed.calls))
        return -1;
    calls_bed_at(&bed.calls, SECOND_US);
    bed.journal = (struct journal){.verbs = &journal_verbs};
    bed.feed = (struct redis_journal_feed){
        .options = {.space = &bed.calls.space, .calls = &bed.calls.calls, .loop = &bed.calls.loop},
        .journal = &bed.journal,
        .joined = true,
        .lease_until_us = INT64_MAX};
    bed.feed.resync = redis_resync_new(&bed.feed);
    *state = &bed;
    return 0;
}

static int teardown(void **state)
{
    struct resync_bed *bed = *state;
    redis_resync_closed(bed->feed.resync, false);
    script_requests_fini(&bed->calls.calls);
    redis_resync_free(bed->feed.resync);
    calls_bed_close(&bed->calls);
    return 0;
}

static void ignore(void *owner, struct script_request *call, enum err err,
                   const struct bytes *parts, uint32_t count)
{
    (void)owner;
    (void)call;
    (void)err;
    (void)parts;
    (void)count;
}

/* The last call to the partition; NULL: there is none, or it was answered. */
static struct script_request *call_to(struct resync_bed *bed, uint32_t partition)
{
    struct list *calls = &bed->calls.calls.partitions[partition].calls;
    struct script_request *call = LIST_ENTRY(calls->prev, struct script_request, place);
    return list_empty(calls) || call->done == ignore ? NULL : call;
}

/* Answers it: all jobs of the partition have entries, or one that a row's job is not there. */
static void answer(struct resync_bed *bed, uint32_t partition, uint64_t looked)
{
    struct script_request *call = call_to(bed, partition);
    char head[SCRIPT_ANSWER_BYTES] = {0};
    put_u8(head + 1, THERE);
    put_u32(head + 4, 1);
    put_u64(head + 8, looked);
    put_u64(head + 24, (uint64_t)bed->calls.loop.now_us);
    struct bytes parts[] = {bytes_of(head, sizeof(head)), BYTES("0 0")};
    assert_non_null(call);
    void (*done)(void *owner, struct script_request *of, enum err err, const struct bytes *at,
                 uint32_t count) = call->done;
    call->done = ignore; /* its time will be up */
    done(call->owner, call, OK, parts, 2);
}

static struct resync_status status_at(struct resync_bed *bed, int64_t now_us)
{
    struct resync_status status;
    calls_bed_at(&bed->calls, now_us);
    redis_resync_look(bed->feed.resync);
    redis_resync_status(bed->feed.resync, &status);
    return status;
}

/* A partition may have nothing to do for long, while others have jobs or MySQL reads rows. */
static void a_call_that_fails_after_a_long_rest_is_tried_again(void **state)
{
    struct resync_bed *bed = *state;
    const char *why;
    int64_t now_us = bed->calls.loop.now_us;
    assert_int_equal(redis_resync_begin(bed->feed.resync, &why), OK);
    assert_int_equal(status_at(bed, now_us).step, RESYNC_STEP_JOBS);
    for (uint32_t i = 0; i < PARTITIONS; i++)
        answer(bed, i, 0);
    assert_int_equal(status_at(bed, ++now_us).step, RESYNC_STEP_ROWS);
    now_us += 100 * (int64_t)SECOND_US;
    (void)status_at(bed, now_us);
    has_row = true;
    reader->arrived(reader);
    (void)status_at(bed, ++now_us); /* asks for the row's job */
    now_us += 2 * TIMEOUT_US;
    assert_int_equal(status_at(bed, now_us).state, RESYNC_RUNS);
    int64_t until_us = now_us + 50 * (int64_t)SECOND_US;
    while (now_us < until_us)
        assert_int_equal(status_at(bed, now_us += SECOND_US / 5).state, RESYNC_RUNS);
    until_us = now_us + 20 * (int64_t)SECOND_US;
    while (now_us < until_us)
        (void)status_at(bed, now_us += SECOND_US / 5);
    struct resync_status status = status_at(bed, now_us);
    assert_int_equal(status.state, RESYNC_FAILED);
    assert_non_null(strstr(status.why, "Redis does not answer"));
}

/* Each id is looked up once. It was again and again, with an entry each time, while Redis' clock
 * was not ours: the number of ids was read as a time. */
static void ids_are_looked_up_once_whatever_the_clocks_show(void **state)
{
    struct resync_bed *bed = *state;
    static const int64_t ahead_us[] = {0, SECOND_US, -SECOND_US};
    const char *why;
    int64_t now_us = 10 * (int64_t)SECOND_US;
    for (size_t n = 0; n < sizeof(ahead_us) / sizeof(ahead_us[0]); n++) {
        for (uint32_t i = 0; i < PARTITIONS; i++)
            bed->calls.space.ahead_us[i] = ahead_us[n];
        assert_int_equal(redis_resync_begin(bed->feed.resync, &why), OK);
        (void)status_at(bed, ++now_us);
        for (uint32_t i = 0; i < PARTITIONS; i++)
            answer(bed, i, 0);
        (void)status_at(bed, ++now_us);
        has_row = true;
        reader->arrived(reader);
        (void)status_at(bed, ++now_us); /* asks for the row's job */
        uint32_t asked = call_to(bed, 0) ? 0 : 1;
        answer(bed, asked, 1);
        assert_int_equal(status_at(bed, ++now_us).closed, 1);
        assert_null(call_to(bed, asked));
        redis_resync_closed(bed->feed.resync, false);
        now_us += 2 * TIMEOUT_US;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_call_that_fails_after_a_long_rest_is_tried_again, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(ids_are_looked_up_once_whatever_the_clocks_show, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
