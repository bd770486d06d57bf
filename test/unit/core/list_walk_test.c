/*
 * Long listings of jobs in memory go on from page to page without looking at all jobs again, though
 * jobs come, end and change meanwhile.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "core/core_internal.h"
#include "core_bed.h"

enum {
    SECOND = 1000000,
    START = 1000 * SECOND,
    MANY = 20000, /* other jobs: a listing is done in slices */
    JOBS = 45000,
    PAGE = 500,
};

static struct core_bed bed;
static uint64_t memory_limit;

/* What the test knows of its jobs, by number. */
static struct known {
    int64_t due_us; /* 0: it is not there */
    bool changed;   /* since the listing began */
    unsigned listed;
} known[2 * JOBS + MANY];
static uint64_t shown[1000];
static uint32_t shown_count, rnd_state;
static int64_t now_us;

static uint32_t rnd(uint32_t below)
{
    rnd_state = rnd_state * 1664525 + 1013904223;
    return (rnd_state >> 8) % below;
}

static void note_reply(struct core_callbacks *callbacks, void *ctx, const struct reply *reply)
{
    core_bed_reply(callbacks, ctx, reply);
    if (reply->kind != CMD_LIST)
        return;
    shown_count = reply->count;
    for (uint32_t i = 0; i < reply->count; i++)
        shown[i] = reply->jobs[i].ref.seq;
}

static void open_bed(void)
{
    struct core_limits limits = {
        .jobs = 1000000, .topics = 100, .waiters = 1000, .memory_bytes = memory_limit};
    core_bed_open(&bed, limits, START);
    bed.callbacks.reply = note_reply;
    memset(known, 0, sizeof(known));
    rnd_state = 11;
    now_us = START;
}

static void close_bed(void)
{
    core_bed_close(&bed);
    assert_int_equal(mem_used(), 0);
}

static uint64_t push(const char *topic, int64_t due_us)
{
    struct cmd_push push = {.topic = bytes_str(topic), .due_us = due_us, .ttr_us = SECOND};
    (void)core_apply(bed.core, now_us, &(struct cmd){.kind = CMD_PUSH, .push = push}, &bed);
    assert_int_equal(bed.reply.err, OK);
    uint64_t seq = bed.first.ref.seq;
    if (topic[0] == 't')
        known[seq].due_us = due_us;
    return seq;
}

static void fill(unsigned jobs)
{
    for (unsigned i = 0; i < MANY; i++)
        (void)push("u", START + 3000 * INT64_C(1000000));
    for (unsigned i = 0; i < jobs; i++)
        (void)push("t", START + (int64_t)(1000 + rnd(1000)) * SECOND);
}

/* False: it has to look at all jobs. */
static bool list(struct cmd_topic page)
{
    struct cmd cmd = {.kind = CMD_LIST, .topic = page};
    unsigned replies = bed.replies;
    (void)core_apply(bed.core, now_us, &cmd, &bed);
    bool at_once = bed.replies > replies;
    while (bed.replies == replies)
        (void)core_tick(bed.core, now_us, 1000);
    assert_int_equal(bed.reply.err, OK);
    return at_once;
}

static bool precedes(uint64_t a, uint64_t b, bool backwards)
{
    int64_t a_us = known[a].due_us, b_us = known[b].due_us;
    return (a_us != b_us ? a_us < b_us : a < b) != backwards;
}

struct listing_run {
    unsigned pages, at_once;
    uint64_t last; /* the job shown last; 0: none */
    int64_t last_us;
};

static void note_page(struct listing_run *listing, bool backwards)
{
    for (uint32_t i = 0; i < shown_count; i++) {
        uint64_t seq = shown[i];
        assert_true(known[seq].due_us != 0);
        assert_int_equal(known[seq].listed++, 0);
        if (i > 0)
            assert_true(precedes(shown[i - 1], seq, backwards));
        int64_t due_us = known[seq].due_us;
        assert_true(!listing->last ||
                    (backwards ? due_us <= listing->last_us : due_us >= listing->last_us));
        listing->last = seq;
        listing->last_us = due_us;
    }
    listing->pages++;
}

static struct listing_run list_all(enum job_state state, bool backwards, uint32_t max,
                                   void (*between)(const struct listing_run *listing))
{
    struct cmd_topic page = {
        .topic = BYTES("t"), .max = max, .state = state, .backwards = backwards};
    struct listing_run listing = {.pages = 0};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        known[i] = (struct known){.due_us = known[i].due_us};
    do {
        listing.at_once += list(page);
        note_page(&listing, backwards);
        page.cursor = bed.reply.cursor;
        if (between && page.cursor.len) {
            static char cursor[CURSOR_BYTES];
            memcpy(cursor, bed.cursor, CURSOR_BYTES);
            page.cursor = bytes_of(cursor, CURSOR_BYTES);
            between(&listing);
        }
    } while (page.cursor.len);
    return listing;
}

static unsigned count_missed(void)
{
    unsigned missed = 0;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        missed += known[i].due_us && !known[i].changed && known[i].listed == 0;
    return missed;
}

/* More jobs than are found at a time. */
static void a_long_listing_looks_at_all_jobs_a_few_times_only(void **state)
{
    (void)state;
    open_bed();
    fill(JOBS);
    for (int backwards = 0; backwards < 2; backwards++) {
        struct listing_run listing = list_all(JOB_DELAYED, backwards, PAGE, NULL);
        assert_int_equal(count_missed(), 0);
        assert_int_equal(listing.pages, JOBS / PAGE);
        assert_int_equal(listing.pages - listing.at_once, 3); /* the first page, and twice */
    }
    close_bed();
}

/* ---- jobs change between the pages ---- */

static void ask(enum cmd_kind kind, uint64_t seq, int64_t due_us)
{
    struct cmd cmd = {
        .kind = kind,
        .job = {.ref = {.seq = seq}, .bound = true, .has_due = due_us > 0, .due_us = due_us}};
    if (kind == CMD_RELEASE) {
        cmd.job.has_due = false;
        cmd.job.has_delay = true;
    }
    (void)core_apply(bed.core, now_us, &cmd, &bed);
}

/* A job of some number is pushed, ended, moved, reserved, given back; those that may be shown in
   either place, or not at all, are not missed. */
static void change_one(const struct listing_run *listing, bool behind)
{
    uint64_t seq = MANY + 1 + rnd(JOBS / 9);
    int64_t due_us = behind ? listing->last_us + 1 + (int64_t)rnd(100) * SECOND
                            : START + (int64_t)(1000 + rnd(1000)) * SECOND;
    switch (rnd(5)) {
    case 0:
        seq = push("t", due_us);
        known[seq].changed = due_us <= listing->last_us;
        return;
    case 1:
        ask(CMD_DELETE, seq, 0);
        known[seq].due_us = 0;
        return;
    case 2: ask(CMD_RESCHEDULE, seq, due_us); break;
    case 3:
        ask(CMD_RESERVE_JOB, seq, 0);
        ask(CMD_RELEASE, seq, due_us);
        break;
    default:
        ask(CMD_RESERVE_JOB, seq, 0);
        ask(CMD_FINISH, seq, 0);
        known[seq].due_us = 0;
        return;
    }
    if (known[seq].due_us == 0)
        return; /* it had ended */
    bool was_listed = known[seq].listed > 0;
    known[seq].due_us = due_us;
    known[seq].changed = was_listed || due_us <= listing->last_us;
    known[seq].listed = 0;
}

static void change_some(const struct listing_run *listing)
{
    for (unsigned i = 0; i < 60; i++)
        change_one(listing, i % 2);
    list_walks_valid(bed.core);
}

static void jobs_that_come_and_change_between_pages_are_listed(void **state)
{
    (void)state;
    open_bed();
    fill(JOBS / 9);
    struct listing_run listing = list_all(JOB_DELAYED, false, PAGE / 5, change_some);
    assert_int_equal(count_missed(), 0);
    assert_true(listing.pages >= 40);
    assert_int_equal(listing.pages - listing.at_once, 2);
    close_bed();
}

/* ---- the end of a walk ---- */

static char kept_cursor[CURSOR_BYTES];

/* The second page: what it leaves is kept. */
static struct cmd_topic begin_listing(void)
{
    struct cmd_topic page = {.topic = BYTES("t"), .max = PAGE, .state = JOB_DELAYED};
    assert_false(list(page));
    page.cursor = bytes_of(kept_cursor, CURSOR_BYTES);
    memcpy(kept_cursor, bed.cursor, CURSOR_BYTES);
    assert_false(list(page));
    memcpy(kept_cursor, bed.cursor, CURSOR_BYTES);
    return page;
}

static void a_walk_ends_when_nobody_comes_or_memory_is_short(void **state)
{
    (void)state;
    open_bed();
    fill(JOBS / 9);
    struct cmd_topic page = begin_listing();
    int64_t until_us = core_next_us(bed.core);
    assert_true(until_us > now_us && until_us <= now_us + 10 * SECOND);
    now_us = until_us;
    (void)core_tick(bed.core, now_us, 1000);
    assert_true(list_empty(&bed.core->walks));
    assert_false(list(page));
    assert_false(list_empty(&bed.core->walks));
    bed.core->limits.memory_bytes = 1;
    (void)core_tick(bed.core, now_us, 1000);
    assert_true(list_empty(&bed.core->walks));
    assert_false(list(page)); /* it is the same page all the same */
    assert_true(shown_count == PAGE && list_empty(&bed.core->walks));
    close_bed();
}

/* Another topic may have its number then. */
static void a_walk_ends_with_its_topic(void **state)
{
    (void)state;
    open_bed();
    fill(JOBS / 9);
    struct cmd_topic page = begin_listing();
    for (uint64_t seq = MANY + 1; seq <= MANY + JOBS / 9; seq++)
        ask(CMD_DELETE, seq, 0);
    (void)core_apply(bed.core, now_us,
                     &(struct cmd){.kind = CMD_REMOVE_TOPIC, .topic = {.topic = BYTES("t")}}, &bed);
    assert_int_equal(bed.reply.err, OK);
    uint64_t other = push("v", START + 1500 * INT64_C(1000000));
    uint64_t seq = push("t", START + 3000 * INT64_C(1000000));
    assert_true(other != seq);
    assert_false(list(page));
    assert_int_equal(shown_count, 1);
    assert_int_equal(shown[0], seq);
    close_bed();
}

static void forget_another_topic(void)
{
    uint64_t seq = push("w", START + 3000 * INT64_C(1000000));
    ask(CMD_DELETE, seq, 0);
    (void)core_apply(bed.core, now_us,
                     &(struct cmd){.kind = CMD_REMOVE_TOPIC, .topic = {.topic = BYTES("w")}}, &bed);
    assert_int_equal(bed.reply.err, OK);
}

static void a_walk_does_not_end_with_another_topic(void **state)
{
    (void)state;
    open_bed();
    fill(JOBS / 9);
    struct cmd_topic page = begin_listing();
    forget_another_topic();
    list_walks_valid(bed.core);
    assert_true(list(page));
    assert_int_equal(shown_count, PAGE);
    close_bed();
}

/* Each listing keeps what it has found, the last four of them. */
static void as_many_walks_are_kept_as_may_be(void **state)
{
    enum { WALKS = 6 };
    static char cursors[WALKS][CURSOR_BYTES];
    (void)state;
    open_bed();
    fill(JOBS / 9);
    for (unsigned i = 0; i < WALKS; i++) {
        struct cmd_topic page = {.topic = BYTES("t"), .max = 10 + i, .state = JOB_DELAYED};
        (void)list(page);
        page.cursor = bed.reply.cursor;
        assert_false(list(page));
        memcpy(cursors[i], bed.cursor, CURSOR_BYTES);
    }
    for (unsigned i = 0; i < WALKS; i++) {
        struct cmd_topic page = {.topic = BYTES("t"), .max = 10, .state = JOB_DELAYED};
        page.cursor = bytes_of(cursors[WALKS - 1 - i], CURSOR_BYTES);
        assert_int_equal(list(page), i < LIST_WALKS_MAX);
    }
    close_bed();
}

/* ---- what a page skips ---- */

enum { IN_ORDER = 9000 };

/* Jobs whose order is that of their numbers; the second page has been listed. */
static struct cmd_topic begin_listing_in_order(uint64_t *out_next)
{
    fill(0);
    for (unsigned i = 0; i < IN_ORDER; i++)
        (void)push("t", START + (int64_t)(1000 + i) * SECOND);
    struct cmd_topic page = begin_listing();
    *out_next = shown[PAGE - 1] + 1;
    assert_int_equal(*out_next, MANY + 1 + 2 * PAGE);
    return page;
}

/* More than a page skips have left between those that are shown: all jobs are looked at. */
static void p2_a_page_skips_only_some_jobs_that_have_left(void **state)
{
    (void)state;
    open_bed();
    uint64_t next;
    struct cmd_topic page = begin_listing_in_order(&next);
    for (uint64_t seq = next; seq <= MANY + IN_ORDER; seq++)
        if ((seq - next) % 10 != 0)
            ask(CMD_DELETE, seq, 0);
    assert_false(list(page));
    assert_int_equal(shown_count, PAGE);
    for (uint32_t i = 0; i < PAGE; i++)
        assert_int_equal(shown[i], next + 10 * i);
    close_bed();
}

/* It has come into its state again so many times, without another place in the order. */
static void p2_a_page_skips_only_some_entries_of_one_job(void **state)
{
    (void)state;
    for (unsigned times = 3000; times <= 6000; times += 3000) {
        open_bed();
        uint64_t next;
        struct cmd_topic page = begin_listing_in_order(&next);
        for (unsigned i = 0; i < times; i++)
            ask(CMD_RESCHEDULE, next + 1, known[next + 1].due_us);
        list_walks_valid(bed.core);
        int64_t before_ns = bed.core->budget->left_ns;
        assert_int_equal(list(page), times == 3000);
        assert_true(before_ns - bed.core->budget->left_ns > 3000 * 200); /* for the skipped ones */
        assert_int_equal(shown_count, PAGE);
        for (uint32_t i = 0; i < PAGE; i++)
            assert_int_equal(shown[i], next + i);
        close_bed();
    }
}

/* ---- many at a time ---- */

static uint32_t count_walks(bool whole)
{
    uint32_t count = 0;
    const struct list *all = &bed.core->walks;
    for (const struct list *link = all->next; link != all; link = link->next)
        count += LIST_ENTRY(link, const struct list_walk, link)->whole == whole;
    return count;
}

static void begin_page(struct cmd_topic page)
{
    (void)core_apply(bed.core, now_us, &(struct cmd){.kind = CMD_LIST, .topic = page}, &bed);
}

/* All others answer one page, and keep nothing. */
static void p8_only_some_scans_look_for_more_than_a_page(void **state)
{
    enum { SCANS = 100 };
    (void)state;
    open_bed();
    fill(JOBS / 9);
    struct cmd_topic page = {.topic = BYTES("t"), .max = PAGE, .state = JOB_DELAYED};
    assert_false(list(page));
    memcpy(kept_cursor, bed.cursor, CURSOR_BYTES);
    page.cursor = bytes_of(kept_cursor, CURSOR_BYTES);
    unsigned replies = bed.replies;
    uint64_t first = 0;
    for (unsigned i = 0; i < SCANS; i++)
        begin_page(page);
    assert_int_equal(count_walks(false), LIST_WALKS_MAX);
    while (bed.replies < replies + SCANS) {
        (void)core_tick(bed.core, now_us, 1000);
        assert_true(count_walks(false) <= LIST_WALKS_MAX && count_walks(true) <= LIST_WALKS_MAX);
        if (bed.replies > replies && !first)
            first = shown[0];
    }
    assert_true(first == shown[0] && shown_count == PAGE); /* with a walk or without */
    close_bed();
}

/* One that is still looking is in front of it, and stays. */
static void p8_a_walk_ends_though_others_are_under_way(void **state)
{
    (void)state;
    open_bed();
    fill(JOBS / 9);
    struct cmd_topic page = begin_listing(), other = page;
    for (int short_of_memory = 0; short_of_memory < 2; short_of_memory++) {
        static char cursor[CURSOR_BYTES];
        other.cursor = BYTES("");
        other.max = PAGE - 1;
        assert_false(list(other));
        memcpy(cursor, bed.cursor, CURSOR_BYTES);
        other.cursor = bytes_of(cursor, CURSOR_BYTES);
        unsigned replies = bed.replies;
        begin_page(other);
        assert_int_equal(bed.replies, replies);
        assert_true(list(page));
        assert_true(count_walks(true) == 1 && count_walks(false) == 1);
        now_us += short_of_memory ? 0 : 10 * SECOND;
        bed.core->limits.memory_bytes = short_of_memory ? 1 : 0;
        (void)core_tick(bed.core, now_us, 1000);
        assert_true(count_walks(true) == 0 && count_walks(false) == 1);
        while (bed.replies == replies + 1)
            (void)core_tick(bed.core, now_us, 1000);
        now_us += 10 * SECOND; /* what it has found is not kept any more either */
        (void)core_tick(bed.core, now_us, 1000);
        assert_true(list_empty(&bed.core->walks));
        if (!short_of_memory)
            page = begin_listing();
    }
    close_bed();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_long_listing_looks_at_all_jobs_a_few_times_only),
        cmocka_unit_test(jobs_that_come_and_change_between_pages_are_listed),
        cmocka_unit_test(a_walk_ends_when_nobody_comes_or_memory_is_short),
        cmocka_unit_test(a_walk_ends_with_its_topic),
        cmocka_unit_test(a_walk_does_not_end_with_another_topic),
        cmocka_unit_test(as_many_walks_are_kept_as_may_be),
        cmocka_unit_test(p2_a_page_skips_only_some_jobs_that_have_left),
        cmocka_unit_test(p2_a_page_skips_only_some_entries_of_one_job),
        cmocka_unit_test(p8_only_some_scans_look_for_more_than_a_page),
        cmocka_unit_test(p8_a_walk_ends_though_others_are_under_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
