/* A journal that is away: what is handed out, sent and refused meanwhile, on a virtual clock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/embedded/embedded.h"
#include "pump_bed.h"

#define HOOK "{\"target\":{\"type\":\"http\",\"url\":\"https://shop.example/\"},\"jitter\":0}"

enum { STEP_US = 100 * 1000 };

/* A journal whose database commits at once, or is away. */
struct database {
    struct journal journal;
    bool away, known;
    uint64_t given, done;
    int64_t oldest_us;
};

static void nothing_begins(struct journal *journal, const struct journal_begin *begin)
{
    ((struct database *)journal)->done = begin->batch;
}

static void take(struct journal *journal, struct journal_batch *batch)
{
    struct database *database = (struct database *)journal;
    database->given = batch->number;
    if (!database->oldest_us)
        database->oldest_us = batch->clock_us;
    mem_free(batch);
}

static void report(struct journal *journal, struct journal_status *out_status)
{
    struct database *database = (struct database *)journal;
    database->known |= !database->away;
    if (!database->away && database->given > database->done) {
        database->done = database->given;
        database->oldest_us = 0;
    }
    *out_status = (struct journal_status){
        .phase = database->away ? JOURNAL_AWAY : JOURNAL_WRITES,
        .known = database->known,
        .done = database->done,
        .oldest_us = database->oldest_us,
    };
}

static void stopped(struct journal *journal, const char *why)
{
    (void)journal;
    print_error("%s\n", why);
    assert_true(false);
}

static void ended(struct journal *journal, struct bytes id, uint64_t seq)
{
    (void)journal;
    (void)id;
    (void)seq;
}

static const struct journal_verbs verbs = {
    .begin = nothing_begins, .give = take, .status = report, .stop = stopped, .ended = ended};

static void follow(struct bed *bed, struct database *database, struct embedded_journal options)
{
    database->journal.verbs = &verbs;
    options.journal = &database->journal;
    assert_int_equal(embedded_follow(world_embedded(bed->world), &options), OK);
}

static void pass(struct bed *bed, struct database *database, int64_t us)
{
    for (; us > 0; us -= STEP_US) {
        bed_pass(bed, STEP_US);
        database->journal.changed(&database->journal);
    }
}

static uint64_t unread;

static const struct embedded_journal before = {
    .before = true,
    .refuse = true,
    .max_lag_bytes = UINT64_MAX,
    .max_lag_us = INT64_MAX,
};

static void answer_in_5s(struct bed *bed, const struct delivery *delivery,
                         struct sim_answer *answer)
{
    (void)bed;
    (void)delivery;
    bed_say(answer, 200, 5 * SECOND_US);
}

static void p3_what_was_delivered_while_the_journal_is_away_is_not_sent_again(void **state)
{
    struct bed *bed = *state;
    static struct database database = {.away = false}; /* the bed ends after the test */
    follow(bed, &database, before);
    pass(bed, &database, SECOND_US);
    bed->answer = answer_in_5s;
    bed_settings(bed, "orders", HOOK);
    bed_push(bed, "orders", "one", 0, "");
    pass(bed, &database, SECOND_US);
    assert_int_equal(bed->seen_count, 1);
    database.away = true;
    pass(bed, &database, 600 * SECOND_US);
    assert_int_equal(bed->seen_count, 1);
    assert_int_equal(bed_jobs(bed, JOB_RESERVED), 1);
    database.away = false;
    pass(bed, &database, 5 * SECOND_US);
    assert_int_equal(bed->seen_count, 1);
    assert_int_equal(bed_jobs(bed, JOB_RESERVED), 0);
    assert_int_equal(bed_counts(bed)->stale, 0);
}

static void p3_nothing_is_sent_while_the_journal_is_away_and_no_attempt_counts(void **state)
{
    struct bed *bed = *state;
    static struct database database = {.away = false}; /* the bed ends after the test */
    follow(bed, &database, before);
    pass(bed, &database, SECOND_US);
    bed_settings(bed, "orders", HOOK);
    bed_push(bed, "orders", "one", 5 * SECOND_US, "");
    pass(bed, &database, SECOND_US);
    database.away = true;
    pass(bed, &database, 600 * SECOND_US);
    assert_int_equal(bed->seen_count, 0);
    assert_int_equal(bed_jobs(bed, JOB_READY), 1);
    database.away = false;
    pass(bed, &database, 60 * SECOND_US);
    assert_int_equal(bed->seen_count, 1);
    assert_int_equal(bed->seen[0].attempt, 1);
    assert_int_equal(bed_jobs(bed, JOB_READY), 0);
}

struct consumer {
    struct ticket ticket;
    enum err err;
    unsigned answers;
};

static void consumed(struct ticket *ticket, const struct reply *reply)
{
    struct consumer *consumer = LIST_ENTRY(ticket, struct consumer, ticket);
    consumer->err = reply->err;
    consumer->answers++;
}

static void reserve(struct bed *bed, struct consumer *consumer)
{
    static const struct principal nobody = {.protocol = PROTOCOL_KINDS};
    struct bytes topic = BYTES("plain");
    struct cmd cmd = {.kind = CMD_RESERVE,
                      .reserve = {.topics = &topic,
                                  .topic_count = 1,
                                  .max = 1,
                                  .wait_us = 60 * SECOND_US,
                                  .ttr_us = 60 * SECOND_US}};
    *consumer = (struct consumer){.ticket.answered = consumed};
    (void)server_submit(bed_server(bed), &nobody, &cmd, &consumer->ticket);
}

static void who_waits_for_a_job_is_told_that_the_journal_is_away(void **state)
{
    struct bed *bed = *state;
    static struct database database = {.away = false}; /* the bed ends after the test */
    struct consumer waits, comes;
    follow(bed, &database, before);
    pass(bed, &database, SECOND_US);
    reserve(bed, &waits);
    pass(bed, &database, SECOND_US);
    assert_int_equal(waits.answers, 0);
    database.away = true;
    pass(bed, &database, SECOND_US);
    assert_int_equal(waits.answers, 1);
    assert_int_equal(waits.err, ERR_JOURNAL_DOWN);
    reserve(bed, &comes);
    assert_int_equal(comes.answers, 1);
    assert_int_equal(comes.err, ERR_JOURNAL_DOWN);
}

static void the_time_of_its_lag_runs_before_its_first_connection(void **state)
{
    struct bed *bed = *state;
    static struct database database = {.away = true}; /* the bed ends after the test */
    struct embedded_journal options = before;
    struct engine *engine = embedded_engine(world_embedded(bed->world));
    options.before = false;
    options.max_lag_us = 60 * SECOND_US;
    follow(bed, &database, options);
    pass(bed, &database, 120 * SECOND_US);
    assert_int_equal(engine->verbs->health(engine), OK); /* it lacks nothing */
    bed_push(bed, "plain", "one", 0, "");
    pass(bed, &database, 59 * SECOND_US);
    assert_int_equal(engine->verbs->health(engine), OK);
    pass(bed, &database, 2 * SECOND_US);
    assert_int_equal(engine->verbs->health(engine), ERR_JOURNAL_BEHIND);
    database.away = false;
    pass(bed, &database, SECOND_US);
    assert_int_equal(engine->verbs->health(engine), OK);
}

static void count_unread(struct metric_sink *sink, const char *what, uint64_t count)
{
    (void)sink;
    if (strcmp(what, "journal cannot read the log") == 0)
        unread += count;
}

static uint64_t warned_unread(struct bed *bed)
{
    struct engine *engine = embedded_engine(world_embedded(bed->world));
    struct metric_sink sink = {.warning = count_unread};
    unread = 0;
    engine->verbs->describe(engine, &sink);
    return unread;
}

static void a_log_that_cannot_be_read_is_told_of_and_read_when_it_can_be(void **state)
{
    struct bed *bed = *state;
    static struct database database = {.away = true},
                           again = {.away = true}; /* the bed ends after the test */
    struct embedded_journal options = before;
    options.before = false;
    follow(bed, &database, options);
    bed_push(bed, "plain", "one", 60 * SECOND_US, "");
    pass(bed, &database, SECOND_US);
    world_crash(bed->world, WORLD_KILL);
    assert_int_equal(world_boot(bed->world), OK);
    follow(bed, &again, options);
    struct sim_disk *disk = world_disk(bed->world);
    sim_disk_bad(disk, "wal-00000001", 0, UINT64_MAX);
    again.away = false;
    pass(bed, &again, SECOND_US);
    assert_int_equal(warned_unread(bed), 1);
    sim_disk_bad(disk, "wal-00000001", 0, 0);
    pass(bed, &again, SECOND_US);
    assert_int_equal(warned_unread(bed), 0);
    assert_int_equal(again.done, store_synced(world_store(bed->world)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BED_TEST(p3_what_was_delivered_while_the_journal_is_away_is_not_sent_again),
        BED_TEST(p3_nothing_is_sent_while_the_journal_is_away_and_no_attempt_counts),
        BED_TEST(who_waits_for_a_job_is_told_that_the_journal_is_away),
        BED_TEST(a_log_that_cannot_be_read_is_told_of_and_read_when_it_can_be),
        BED_TEST(the_time_of_its_lag_runs_before_its_first_connection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
