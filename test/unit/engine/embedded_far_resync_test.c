/*
 * A resync of the journal, and lists, beside a list that brings all far jobs of a topic to memory
 * for some turns, and searches of a topic beside the departure of its jobs: none is missed. The
 * journal takes all, and reads no rows.
 */
#include "core/far.h"
#include "embedded_far_bed.h"
#include "port/journal.h"
#include "port/journal_control.h"
#include "port/restore.h"
#include "store/record.h"

enum {
    OF_T = JOBS / 3 * 2,
    FEWER = 30000,   /* the same, in three */
    OTHERS = 100000, /* looked at for a page of a list, in ten turns */
};

static struct {
    struct journal journal;
    struct restore restore;
    struct journal_status status;
    bool images[JOBS + 1]; /* by number */
} fake;

static void journal_begin(struct journal *journal, const struct journal_begin *begin)
{
    (void)journal;
    fake.status = (struct journal_status){
        .phase = JOURNAL_WRITES, .known = true, .made = true, .done = begin->batch};
}

static void journal_give(struct journal *journal, struct journal_batch *batch)
{
    struct batch_walk walk;
    (void)journal;
    batch_walk_init(&walk, journal_batch_at(batch), batch->payload_bytes);
    if (batch->kind == JOURNAL_IMAGES) {
        assert_int_equal(batch_walk_next(&walk), OK);
        uint64_t seq = walk.record.event.job.seq;
        if (seq <= JOBS)
            fake.images[seq] = true;
    }
    if (batch->numbered)
        fake.status.done = batch->number;
    journal_batch_free(batch);
}

static void journal_status(struct journal *journal, struct journal_status *out_status)
{
    (void)journal;
    *out_status = fake.status;
}

static enum err no_rows(struct restore *restore, const struct restore_query *query,
                        struct restore_reader *reader, struct restore_run **out_run,
                        const char **out_why)
{
    (void)restore;
    (void)query;
    (void)reader;
    (void)out_run;
    *out_why = "away";
    return ERR_AGAIN;
}

static const struct restore_verbs rows = {.begin = no_rows};

static struct restore *journal_restore(struct journal *journal)
{
    (void)journal;
    return &fake.restore;
}

static const struct journal_verbs journal_verbs = {.begin = journal_begin,
                                                   .give = journal_give,
                                                   .status = journal_status,
                                                   .restore = journal_restore};

static void follow(void)
{
    memset(&fake, 0, sizeof(fake));
    fake.journal.verbs = &journal_verbs;
    fake.restore.verbs = &rows;
    struct embedded_journal options = {
        .journal = &fake.journal, .max_lag_bytes = UINT64_MAX, .max_lag_us = INT64_MAX / 2};
    sim_disk_eager(bed.disk, true);
    assert_int_equal(embedded_follow(bed.embedded, &options), OK);
    sim_disk_eager(bed.disk, false);
}

static void journaled_turn(void)
{
    turn(NULL, NULL);
    fake.journal.changed(&fake.journal);
}

static void push_others(unsigned count)
{
    struct cmd cmd = {.kind = CMD_PUSH,
                      .push = {.topic = BYTES("v"),
                               .due_us = bed.loop.now_us + HORIZON_US / 2,
                               .ttr_us = SECOND_US}};
    uint64_t before = totals().jobs[JOB_DELAYED];
    for (unsigned i = 0; i < count; i++) {
        (void)bed.engine->verbs->submit(bed.engine, &cmd, NULL);
        if (i % 100 == 0)
            rest(1);
    }
    assert_int_equal(totals().jobs[JOB_DELAYED], before + count);
}

static uint64_t far_of_t(void)
{
    return core_far_count(embedded_core(bed.embedded), BYTES("t"), JOB_READY);
}

/* Until all ready jobs of t are in memory, since somebody lists them. */
static void wait_for_visit(struct ticket *ticket)
{
    struct cmd list = on_t(CMD_LIST, JOB_READY, JOBS);
    *ticket = (struct ticket){.answered = receive};
    bed.answer.there = false;
    assert_int_equal(far_of_t(), OF_T);
    (void)bed.engine->verbs->submit(bed.engine, &list, ticket);
    for (int i = 0; far_of_t() > 0; i++) {
        assert_true(i < TURNS_MAX && !bed.answer.there);
        journaled_turn();
    }
}

/* When the resync comes by the topic, all of its far jobs are in memory; when it comes by those in
   memory, they are far again. */
static void ready_jobs_that_somebody_lists_meanwhile_are_not_missed(void **state)
{
    struct ticket ticket;
    struct resync_status status = {0};
    unsigned missed = 0;
    const char *why;
    (void)state;
    wait_for_visit(&ticket);
    struct journal_control *control = embedded_journal_control(bed.embedded);
    assert_int_equal(control->verbs->resync(control, &why), OK);
    for (int i = 0; status.step != RESYNC_STEP_ROWS; i++) {
        assert_true(i < TURNS_MAX);
        journaled_turn();
        control->verbs->resync_status(control, &status);
    }
    for (int i = 0; i < 100; i++) /* those that are being read are given, too */
        journaled_turn();
    assert_true(bed.answer.there && bed.answer.reply.count == OF_T);
    assert_int_equal(far_of_t(), OF_T);
    for (unsigned seq = 1; seq <= JOBS; seq++)
        missed += !fake.images[seq];
    assert_int_equal(missed, 0);
}

static uint32_t listed;

static void count_listed(struct ticket *ticket, const struct reply *reply)
{
    (void)ticket;
    assert_int_equal(reply->err, OK);
    listed = reply->count;
}

/* They depart while all jobs in memory are searched for the other list. */
static void two_lists_at_a_time_have_all_jobs(void **state)
{
    struct cmd list = on_t(CMD_LIST, JOB_READY, JOBS);
    struct ticket ticket, second = {.answered = count_listed};
    (void)state;
    wait_for_visit(&ticket);
    listed = 0;
    (void)bed.engine->verbs->submit(bed.engine, &list, &second);
    for (int i = 0; i < 200; i++)
        journaled_turn();
    assert_true(bed.answer.there && bed.answer.reply.count == OF_T);
    assert_int_equal(listed, OF_T);
    assert_int_equal(far_of_t(), OF_T);
}

/* ---- searches beside a departure ---- */

/* All jobs of t, and which is its first, in a search of several turns each. */
static void look_for_all(unsigned *searches)
{
    struct cmd list = on_t(CMD_LIST, JOB_DELAYED, JOBS), peek = on_t(CMD_PEEK, JOB_DELAYED, 0);
    assert_int_equal(ask(&list), OK);
    assert_int_equal(bed.answer.reply.count, OF_T);
    assert_int_equal(ask(&peek), OK);
    assert_true(bed.answer.job.due_us == START_US + 2 * HOUR_US + 7 * SECOND_US);
    *searches += 2;
}

/* A job that comes and goes: the log becomes longer, so that jobs depart. */
static void grow_by_one(void)
{
    static char body[60000];
    struct cmd filler = {.kind = CMD_PUSH,
                         .push = {.topic = BYTES("f"),
                                  .due_us = START_US,
                                  .ttr_us = SECOND_US,
                                  .body = bytes_of(body, sizeof(body))}};
    assert_int_equal(ask(&filler), OK);
    assert_int_equal(ask(&(struct cmd){.kind = CMD_DELETE, .job.ref.seq = bed.answer.job.ref.seq}),
                     OK);
}

/* Others list its first ones all the time, which does not keep them in memory. */
static void searches_beside_a_departure_miss_no_job(void **state)
{
    unsigned searches = 0;
    (void)state;
    bed.lists = true;
    for (int i = 0; totals().far < JOBS - 10; i++) {
        assert_true(i < 100);
        grow_by_one();
        look_for_all(&searches);
    }
    print_message("%u searches, %u lists\n", searches, bed.listers[0].answers);
    bed.lists = false;
    while (bed.listers[0].asks || bed.listers[1].asks || bed.listers[2].asks)
        turn(NULL, NULL);
}

enum { CROWD = 70 }; /* more than the core asks about one by one */
static struct lister crowd[CROWD];

static void hear_others(struct ticket *ticket, const struct reply *reply)
{
    struct lister *lister = LIST_ENTRY(ticket, struct lister, ticket);
    assert_int_equal(reply->err, OK);
    lister->asks = false;
    lister->answers++;
}

static void crowd_lists_others(void)
{
    struct cmd list = {.kind = CMD_LIST,
                       .topic = {.topic = BYTES("v"), .state = JOB_DELAYED, .max = 1}};
    for (unsigned i = 0; i < CROWD; i++) {
        if (crowd[i].asks)
            continue;
        crowd[i].ticket = (struct ticket){.answered = hear_others};
        crowd[i].asks = true;
        (void)bed.engine->verbs->submit(bed.engine, &list, &crowd[i].ticket);
    }
}

/* Nor do very many searches of another topic keep jobs of t in memory for good. */
static void a_crowd_that_searches_another_topic_holds_no_departure_up_for_ever(void **state)
{
    (void)state;
    memset(crowd, 0, sizeof(crowd));
    bed.beside = crowd_lists_others;
    for (int i = 0; totals().far < JOBS - 10; i++) {
        assert_true(i < 100);
        grow_by_one();
        rest(20);
    }
    assert_true(crowd[0].answers > 0);
    bed.beside = NULL;
    for (unsigned i = 0; i < CROWD; i++)
        while (crowd[i].asks)
            turn(NULL, NULL);
}

static int setup_near(void **state)
{
    (void)state;
    memset(&bed, 0, sizeof(bed));
    bed.disk = sim_disk_new();
    bed.loop.now_us = START_US;
    open_engine();
    push_others(FEWER);
    for (unsigned number = 0; number < JOBS; number++)
        assert_int_equal(push(number, due_of(number), IF_EXISTS_REJECT), OK);
    assert_int_equal(totals().far, 0);
    return 0;
}

static int setup(void **state)
{
    (void)state;
    memset(&bed, 0, sizeof(bed));
    bed.readies = true;
    fill(false);
    push_others(OTHERS);
    follow();
    journaled_turn();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(ready_jobs_that_somebody_lists_meanwhile_are_not_missed,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(two_lists_at_a_time_have_all_jobs, setup, teardown),
        cmocka_unit_test_setup_teardown(searches_beside_a_departure_miss_no_job, setup_near,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            a_crowd_that_searches_another_topic_holds_no_departure_up_for_ever, setup_near,
            teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
