/*
 * The embedded engine on a simulated disk: what its held replies cost, and disks that fail.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "engine/embedded/embedded.h"
#include "engine/embedded/parts.h"
#include "sim/disk.h"

enum {
    SEGMENT_BYTES = 1024 * 1024,
    ROUNDS = 4000,
    UNDER_WAY = 16,
    MANY_JOBS = 25000 /* a kick searches them over several turns */
};

struct bed {
    struct sim_disk *disk;
    struct embedded *embedded;
    struct engine *engine;
    struct loop loop; /* its time alone */
    struct ticket tickets[UNDER_WAY];
};

static unsigned answers; /* tickets know nothing of their bed */

static void count_answer(struct ticket *ticket, const struct reply *reply)
{
    (void)ticket;
    assert_int_equal(reply->err, OK);
    answers++;
}

static void open_bed_at(struct bed *bed, enum durability durability, int64_t now_us)
{
    if (!bed->disk)
        bed->disk = sim_disk_new();
    bed->loop.now_us = now_us;
    struct store_error error;
    struct embedded_options options = {
        .limits = {.jobs = 1000000, .topics = 10, .waiters = 10},
        .store = {.disk = sim_disk_port(bed->disk),
                  .segment_bytes = SEGMENT_BYTES,
                  .buffered = durability != DURABILITY_SYNC,
                  .recent_bytes = SEGMENT_BYTES,
                  .body_max = 1000,
                  .now_us = bed->loop.now_us,
                  .id_seed = 1},
        .durability = durability,
        .now_us = bed->loop.now_us,
        .loop = &bed->loop,
    };
    sim_disk_eager(bed->disk, true);
    assert_int_equal(embedded_open(&options, &bed->embedded, &error), OK);
    sim_disk_eager(bed->disk, false);
    bed->engine = embedded_engine(bed->embedded);
    answers = 0;
}

static void open_bed(struct bed *bed, enum durability durability)
{
    open_bed_at(bed, durability, 1000000);
}

static void close_bed(struct bed *bed)
{
    sim_disk_eager(bed->disk, true);
    embedded_close(bed->embedded);
    sim_disk_free(bed->disk);
}

/* A push with durability sync, and at once the job's end, so that no jobs pile up. */
static void push_and_end(struct bed *bed, struct ticket *ticket)
{
    static struct ticket ending = {.answered = count_answer};
    struct cmd push = {
        .kind = CMD_PUSH,
        .push = {
            .id = BYTES("a job"), .topic = BYTES("t"), .ttr_us = 1, .durability = DURABILITY_SYNC}};
    struct cmd delete = {.kind = CMD_DELETE, .job.ref.id = BYTES("a job")};
    *ticket = (struct ticket){.answered = count_answer};
    bed->engine->verbs->submit(bed->engine, &push, ticket);
    bed->engine->verbs->submit(bed->engine, &delete, &ending);
}

/* Each turn one operation of the disk ends while a new push has come: some are always held. */
static void p8_a_steady_stream_of_synced_pushes_takes_no_more_and_more_memory(void **state)
{
    (void)state;
    struct bed bed = {0};
    size_t early_bytes = 0;
    open_bed(&bed, DURABILITY_INTERVAL);
    for (unsigned i = 0; i < ROUNDS; i++) {
        bed.loop.now_us += 1000;
        bed.engine->verbs->begin(bed.engine);
        push_and_end(&bed, &bed.tickets[i % UNDER_WAY]);
        bed.engine->verbs->match(bed.engine);
        (void)bed.engine->verbs->end(bed.engine);
        (void)sim_disk_step(bed.disk, LANE_COMMIT);
        (void)sim_disk_step(bed.disk, LANE_BACKGROUND);
        (void)sim_disk_step(bed.disk, LANE_READ);
        assert_true(embedded_waiting_replies(bed.embedded) < UNDER_WAY);
        if (i == ROUNDS / 2) /* all spares are there: the simulated disk is in memory, too */
            early_bytes = mem_used();
    }
    assert_true(answers > ROUNDS);
    assert_true(mem_used() < early_bytes + 200000);
    close_bed(&bed);
}

/* As when a turn's end lets held replies go: no event follows, and the next turn frees them. */
static void what_a_turns_end_discards_is_freed_without_an_event(void **state)
{
    enum { PIECES = 5 };
    (void)state;
    struct bed bed = {0};
    struct budget budget = {0}; /* spent: a piece a turn */
    open_bed(&bed, DURABILITY_SYNC);
    bed.engine->verbs->use_budget(bed.engine, &budget);
    bed.engine->verbs->begin(bed.engine);
    struct buf held = {0};
    buf_reserve_to(&held, PIECES * (size_t)DISCARD_PIECE_BYTES,
                   PIECES * (size_t)DISCARD_PIECE_BYTES);
    discard_buf(&bed.embedded->discard, &held);
    for (unsigned i = 0; i < PIECES; i++) {
        assert_true(bed.engine->verbs->end(bed.engine) <= bed.loop.now_us);
        bed.engine->verbs->begin(bed.engine);
    }
    assert_int_equal(bed.embedded->discard.bytes, 0);
    assert_true(bed.engine->verbs->end(bed.engine) > bed.loop.now_us);
    bed.engine->verbs->use_budget(bed.engine, NULL);
    close_bed(&bed);
}

static struct reply last_reply;
static char last_body[16];

static void keep_answer(struct ticket *ticket, const struct reply *reply)
{
    (void)ticket;
    answers++;
    last_reply = *reply;
    if (reply->kind == CMD_RESERVE && reply->count)
        memcpy(last_body, reply->jobs[0].body.at, reply->jobs[0].body.len);
}

static void do_turn(struct bed *bed, const struct cmd *cmd, struct ticket *ticket)
{
    bed->loop.now_us += 1000;
    bed->engine->verbs->begin(bed->engine);
    if (cmd)
        bed->engine->verbs->submit(bed->engine, cmd, ticket);
    bed->engine->verbs->match(bed->engine);
    (void)bed->engine->verbs->end(bed->engine);
}

static void do_command(struct bed *bed, const struct cmd *cmd)
{
    struct ticket ticket = {.answered = keep_answer};
    unsigned before = answers;
    sim_disk_eager(bed->disk, true);
    do_turn(bed, cmd, &ticket);
    for (int turns = 0; turns < 20 && answers == before; turns++)
        do_turn(bed, NULL, NULL);
    assert_int_equal(answers, before + 1);
}

static void p2_a_job_is_not_buried_because_one_read_failed(void **state)
{
    (void)state;
    struct bed bed = {0};
    struct bytes topic = BYTES("t");
    struct cmd push = {
        .kind = CMD_PUSH,
        .push = {
            .id = BYTES("a job"), .topic = topic, .ttr_us = 3600000000, .body = BYTES("body")}};
    struct cmd reserve = {.kind = CMD_RESERVE,
                          .reserve = {.topics = &topic, .topic_count = 1, .max = 1}};
    open_bed(&bed, DURABILITY_SYNC);
    do_command(&bed, &push);
    assert_int_equal(last_reply.err, OK);
    embedded_close(bed.embedded); /* so that the body is on the disk only */
    open_bed(&bed, DURABILITY_SYNC);
    sim_disk_eager(bed.disk, true);
    for (int turns = 0; turns < 20; turns++)
        do_turn(&bed, NULL, NULL); /* until the disk has nothing else to do */
    sim_disk_bad(bed.disk, "wal-00000001", 0, SEGMENT_BYTES);
    do_command(&bed, &reserve);
    assert_int_equal(last_reply.err, ERR_IO);
    bed.loop.now_us += 2000000; /* long before its ttr would bring it back */
    sim_disk_bad(bed.disk, "", 0, 0);
    for (int turns = 0; turns < 20; turns++)
        do_turn(&bed, NULL, NULL);
    sim_disk_fail_at(bed.disk, sim_disk_points(bed.disk), EIO); /* it is tried again at once */
    do_command(&bed, &reserve);
    assert_int_equal(last_reply.err, OK);
    assert_int_equal(last_reply.count, 1);
    assert_memory_equal(last_body, "body", 4);
    close_bed(&bed);
}

/* A reservation that is logged makes no haste, and no answer tells of it. */
static void what_nobody_was_promised_holds_up_no_answer(void **state)
{
    (void)state;
    struct bed bed = {0};
    struct bytes topic = BYTES("t");
    struct ticket ticket = {.answered = keep_answer};
    struct cmd push = {.kind = CMD_PUSH, .push = {.topic = topic, .ttr_us = 3600000000}};
    struct cmd reserve = {.kind = CMD_RESERVE,
                          .reserve = {.topics = &topic, .topic_count = 1, .max = 1}};
    struct cmd delete = {.kind = CMD_DELETE, .job.ref.id = BYTES("nobody")};
    open_bed(&bed, DURABILITY_SYNC);
    do_command(&bed, &push);
    do_command(&bed, &reserve);
    assert_int_equal(last_reply.err, OK);
    answers = 0;
    do_turn(&bed, &delete, &ticket);
    assert_int_equal(answers, 1);
    assert_int_equal(last_reply.err, ERR_NOT_FOUND);
    close_bed(&bed);
}

/* A restore counts by it how many jobs were there already. */
static void a_brief_reply_that_waits_for_the_disk_says_that_a_job_was_kept(void **state)
{
    (void)state;
    struct bed bed = {0};
    open_bed(&bed, DURABILITY_SYNC);
    sim_disk_eager(bed.disk, true);
    struct cmd cmd = {.kind = CMD_PUSH,
                      .push = {.topic = BYTES("t"),
                               .id = BYTES("a"),
                               .if_exists = IF_EXISTS_KEEP,
                               .due_us = bed.loop.now_us + 1000000,
                               .ttr_us = 1000000,
                               .brief = true}};
    struct ticket made = {.answered = keep_answer, .brief = true}, kept = made;
    unsigned before = answers;
    bed.engine->verbs->begin(bed.engine);
    bed.engine->verbs->submit(bed.engine, &cmd, &made);
    bed.engine->verbs->submit(bed.engine, &cmd, &kept);
    (void)bed.engine->verbs->end(bed.engine);
    for (int turns = 0; turns < 20 && answers < before + 2; turns++)
        do_turn(&bed, NULL, NULL);
    assert_int_equal(answers, before + 2);
    assert_int_equal(last_reply.err, OK);
    assert_true(last_reply.kept);
    close_bed(&bed);
}

static void fill_with_delayed_jobs(struct bed *bed)
{
    static struct ticket pushing = {.answered = count_answer};
    struct cmd push = {
        .kind = CMD_PUSH,
        .push = {.topic = BYTES("t"), .due_us = INT64_MAX / 2, .ttr_us = 1},
    };
    sim_disk_eager(bed->disk, true);
    for (unsigned i = 0; i < MANY_JOBS; i++)
        bed->engine->verbs->submit(bed->engine, &push, &pushing);
    for (int turns = 0; turns < 200; turns++)
        do_turn(bed, NULL, NULL); /* until the disk has nothing else to do */
    assert_int_equal(answers, MANY_JOBS);
}

/* The search began before the failure, and what waited for the disk then has been told of it. */
static void p7_a_search_that_ends_on_a_failed_store_is_no_success(void **state)
{
    (void)state;
    struct bed bed = {0};
    struct ticket kicking = {.answered = keep_answer}, pushing = {.answered = keep_answer};
    struct cmd kick = {
        .kind = CMD_KICK_TOPIC,
        .topic = {.topic = BYTES("t"), .max = 1, .state = JOB_DELAYED},
    };
    struct cmd push = {.kind = CMD_PUSH, .push = {.topic = BYTES("t"), .ttr_us = 1}};
    open_bed(&bed, DURABILITY_SYNC);
    fill_with_delayed_jobs(&bed);
    answers = 0;
    do_turn(&bed, &kick, &kicking);
    sim_disk_fail_at(bed.disk, sim_disk_points(bed.disk), EIO);
    bed.engine->verbs->submit(bed.engine, &push, &pushing);
    for (int turns = 0; turns < 20; turns++) {
        do_turn(&bed, NULL, NULL);
        if (answers > 0)
            assert_int_equal(last_reply.err, ERR_STORE_FAILED);
    }
    assert_int_equal(answers, 2);
    assert_int_equal(embedded_waiting_replies(bed.embedded), 0);
    close_bed(&bed);
}

/* What submit says is what the sessions go by. */
static void submit_says_answered_pending_or_parked(void **state)
{
    (void)state;
    struct bed bed = {0};
    struct bytes topic = BYTES("t");
    struct ticket ticket = {.answered = keep_answer}, waiting = {.answered = keep_answer};
    struct cmd push = {.kind = CMD_PUSH, .push = {.topic = topic, .ttr_us = 1}};
    struct cmd get = {.kind = CMD_GET, .job.ref.id = BYTES("nobody")};
    struct cmd reserve = {.kind = CMD_RESERVE,
                          .reserve = {.topics = &topic, .topic_count = 1, .max = 1}};
    open_bed(&bed, DURABILITY_SYNC);
    assert_int_equal(bed.engine->verbs->submit(bed.engine, &get, &ticket), SUBMIT_ANSWERED);
    assert_int_equal(answers, 1);
    assert_int_equal(bed.engine->verbs->submit(bed.engine, &reserve, &ticket), SUBMIT_ANSWERED);
    assert_int_equal(answers, 2);
    reserve.reserve.wait_us = 1000;
    assert_int_equal(bed.engine->verbs->submit(bed.engine, &reserve, &waiting), SUBMIT_PARKED);
    assert_int_equal(answers, 2);
    bed.engine->verbs->cancel(bed.engine, &waiting);
    assert_int_equal(bed.engine->verbs->submit(bed.engine, &push, &ticket), SUBMIT_PENDING);
    assert_int_equal(answers, 2);
    sim_disk_eager(bed.disk, true);
    for (int turns = 0; turns < 5; turns++)
        do_turn(&bed, NULL, NULL);
    assert_int_equal(answers, 3);
    close_bed(&bed);
}

/* Nobody asks: it is done all the same, and nothing waits for the disk. */
static void a_command_without_a_ticket_is_done(void **state)
{
    (void)state;
    struct bed bed = {0};
    struct cmd push = {.kind = CMD_PUSH,
                       .push = {.id = BYTES("a job"), .topic = BYTES("t"), .ttr_us = 1}};
    struct cmd delete = {.kind = CMD_DELETE, .job.ref.id = BYTES("nobody")};
    struct cmd get = {.kind = CMD_GET, .job.ref.id = BYTES("a job")};
    open_bed(&bed, DURABILITY_SYNC);
    assert_int_equal(bed.engine->verbs->submit(bed.engine, &push, NULL), SUBMIT_ANSWERED);
    assert_int_equal(embedded_waiting_replies(bed.embedded), 0);
    assert_int_equal(bed.engine->verbs->submit(bed.engine, &delete, NULL), SUBMIT_ANSWERED);
    do_command(&bed, &get);
    assert_int_equal(last_reply.err, OK);
    assert_int_equal(bed.engine->verbs->submit(bed.engine, &push, NULL), SUBMIT_ANSWERED);
    close_bed(&bed);
}

struct described {
    struct metric_sink sink;
    unsigned metrics, facts, warnings;
    uint64_t records;
    const char *kind;
};

static void see_metric(struct metric_sink *sink, const struct metric *metric)
{
    struct described *described = (struct described *)sink;
    described->metrics++;
    assert_true(metric->help[0]);
    assert_int_equal(metric->type == METRIC_HISTOGRAM, metric->durations != NULL);
    if (strcmp(metric->name, "wal_records_total") == 0)
        described->records = metric->value;
}

static void see_fact(struct metric_sink *sink, const struct fact *fact)
{
    struct described *described = (struct described *)sink;
    described->facts++;
    if (strcmp(fact->name, "kind") == 0)
        described->kind = fact->text;
}

static void see_warning(struct metric_sink *sink, const char *what, uint64_t count)
{
    (void)what;
    (void)count;
    ((struct described *)sink)->warnings++;
}

static void an_engine_describes_itself_to_who_wants_to_know(void **state)
{
    (void)state;
    struct bed bed = {0};
    struct described described = {
        .sink = {.metric = see_metric, .fact = see_fact, .warning = see_warning}};
    struct metric_sink wants_nothing = {0};
    struct cmd push = {.kind = CMD_PUSH, .push = {.topic = BYTES("t"), .ttr_us = 1}};
    open_bed(&bed, DURABILITY_SYNC);
    do_command(&bed, &push);
    bed.engine->verbs->describe(bed.engine, &described.sink);
    assert_true(described.metrics > 10);
    assert_true(described.records > 0);
    assert_string_equal(described.kind, "embedded");
    assert_true(described.facts > 5);
    assert_int_equal(described.warnings, 0);
    bed.engine->verbs->describe(bed.engine, &wants_nothing);
    close_bed(&bed);
}

static struct engine_stats last_stats;
static bool had_stats;

static void keep_stats(struct ticket *ticket, const struct reply *reply)
{
    (void)ticket;
    had_stats = reply->stats != NULL;
    if (had_stats)
        last_stats = *reply->stats;
}

/* Over all topics, however few of them are shown, and only to who asks. */
static void statistics_are_over_all_topics(void **state)
{
    (void)state;
    struct bed bed = {0};
    struct ticket ticket = {.answered = keep_stats};
    struct cmd ask = {.kind = CMD_TOPICS, .topic = {.max = 1, .stats = true}};
    open_bed(&bed, DURABILITY_SYNC);
    for (int i = 0; i < 3; i++) {
        char name = (char)('a' + i);
        struct cmd push = {.kind = CMD_PUSH,
                           .push = {.topic = bytes_of(&name, 1),
                                    .due_us = bed.loop.now_us + 120 * INT64_C(1000000),
                                    .ttr_us = 1}};
        do_command(&bed, &push);
    }
    assert_int_equal(bed.engine->verbs->submit(bed.engine, &ask, &ticket), SUBMIT_ANSWERED);
    assert_true(had_stats);
    assert_int_equal(last_stats.topics, 3);
    assert_int_equal(last_stats.jobs[JOB_DELAYED], 3);
    assert_int_equal(last_stats.pushed, 3);
    assert_true(last_stats.log.records_written >= 3);
    assert_int_equal(last_stats.due_within[1], 0); /* nobody asked for these */
    ask.topic.due_within = true;
    (void)bed.engine->verbs->submit(bed.engine, &ask, &ticket);
    assert_int_equal(last_stats.due_within[0], 0);
    assert_int_equal(last_stats.due_within[1], 3);
    ask.topic.stats = false;
    (void)bed.engine->verbs->submit(bed.engine, &ask, &ticket);
    assert_false(had_stats);
    close_bed(&bed);
}

#define HOUR_US INT64_C(3600000000)

static uint64_t push_delayed(struct bed *bed, int64_t delay_us)
{
    struct cmd push = {
        .kind = CMD_PUSH,
        .push = {.topic = BYTES("t"), .due_us = bed->loop.now_us + delay_us, .ttr_us = HOUR_US},
    };
    do_command(bed, &push);
    assert_int_equal(last_reply.err, OK);
    struct core_totals totals;
    core_totals(embedded_core(bed->embedded), &totals);
    return totals.seq_next - 1;
}

static uint64_t jobs_in(const struct bed *bed, enum job_state state)
{
    struct core_totals totals;
    core_totals(embedded_core(bed->embedded), &totals);
    core_valid(embedded_core(bed->embedded));
    return totals.jobs[state];
}

static void pass_time(struct bed *bed, int64_t span_us)
{
    sim_disk_eager(bed->disk, true);
    for (int64_t end_us = bed->loop.now_us + span_us; bed->loop.now_us < end_us;) {
        bed->loop.now_us += span_us / 20;
        do_turn(bed, NULL, NULL);
    }
}

/* Ends the process, in order or not, and begins the next with this time. */
static void restart_at(struct bed *bed, bool killed, enum durability durability, int64_t now_us)
{
    if (killed)
        sim_disk_cut_at(bed->disk, sim_disk_points(bed->disk));
    embedded_close(bed->embedded);
    if (killed)
        sim_disk_kill(bed->disk);
    open_bed_at(bed, durability, now_us);
}

/*
 * One job was pushed when it was due, one fell due without anything being logged, one is not due.
 * Then the clock is set back, and there are three restarts: of what the first one knows the others
 * must know, too, though the log's clock is behind the due times by then.
 */
static void restart_with_a_clock_set_back(bool killed, enum durability durability)
{
    struct bed bed = {0};
    int64_t start_us = 100 * HOUR_US;
    open_bed_at(&bed, durability, start_us);
    (void)push_delayed(&bed, 0);
    (void)push_delayed(&bed, 1000000);
    (void)push_delayed(&bed, 2 * HOUR_US);
    pass_time(&bed, 3000000);
    assert_int_equal(jobs_in(&bed, JOB_READY), 2);
    restart_at(&bed, killed, durability, start_us - HOUR_US);
    assert_int_equal(jobs_in(&bed, JOB_READY), 2);
    assert_int_equal(jobs_in(&bed, JOB_DELAYED), 1);
    (void)push_delayed(&bed,
                       1000000); /* P3: it is not due, though the log's clock was later once */
    pass_time(&bed, 500000);
    assert_int_equal(jobs_in(&bed, JOB_READY), 2);
    restart_at(&bed, killed, durability, start_us - HOUR_US + 600000);
    assert_int_equal(jobs_in(&bed, JOB_READY), 2);
    assert_int_equal(jobs_in(&bed, JOB_DELAYED), 2);
    pass_time(&bed, 2000000);
    assert_int_equal(jobs_in(&bed, JOB_READY), 3);
    restart_at(&bed, killed, durability, start_us - 2 * HOUR_US);
    assert_int_equal(jobs_in(&bed, JOB_READY), 3);
    assert_int_equal(jobs_in(&bed, JOB_DELAYED), 1);
    close_bed(&bed);
}

static void what_was_ready_stays_so_when_the_clock_is_set_back_at_a_restart(void **state)
{
    (void)state;
    for (int killed = 0; killed < 2; killed++) {
        restart_with_a_clock_set_back(killed, DURABILITY_SYNC);
        restart_with_a_clock_set_back(killed, DURABILITY_OS);
    }
}

/* What falls due unseen costs one block a second at most, and an idle store nothing. */
static void the_time_is_logged_only_when_something_fell_due(void **state)
{
    (void)state;
    struct bed bed = {0};
    struct store_stats before, after;
    open_bed_at(&bed, DURABILITY_SYNC, HOUR_US);
    for (int i = 0; i < 1000; i++)
        (void)push_delayed(&bed, 2 * HOUR_US + i * 10000 - bed.loop.now_us);
    pass_time(&bed, 5000000);
    store_stats(embedded_store(bed.embedded), &before);
    pass_time(&bed, 5000000); /* nothing falls due */
    store_stats(embedded_store(bed.embedded), &after);
    assert_int_equal(after.batches, before.batches);
    bed.loop.now_us = 2 * HOUR_US - 1000;
    while (jobs_in(&bed, JOB_READY) < 1000)
        pass_time(&bed, 200000);
    pass_time(&bed, 5000000);
    store_stats(embedded_store(bed.embedded), &after);
    assert_in_range(after.batches - before.batches, 8, 14); /* in 11 s */
    before = after;
    pass_time(&bed, HOUR_US);
    store_stats(embedded_store(bed.embedded), &after);
    assert_int_equal(after.batches, before.batches);
    close_bed(&bed);
}

/* ---- a reserve of many jobs, on machines of any speed ---- */

enum { READY_JOBS = 600, RESERVE_MIN = 64, GATHER_NS = 900000 };

struct slow_meter {
    struct budget_meter meter;
    int64_t at_us;
    unsigned looks, fast_looks; /* so many of which tell of no more time than estimated */
};

/* Each look is at the end of 50 us of estimated work, which then takes 1 ms. */
static int64_t slow_us(struct budget_meter *meter)
{
    struct slow_meter *slow = (struct slow_meter *)meter; /* its first member */
    slow->at_us += slow->looks++ < slow->fast_looks ? 50 : 1000;
    return slow->at_us;
}

/* All of that time was the thread's own. */
static int64_t slow_cpu_us(struct budget_meter *meter)
{
    return ((struct slow_meter *)meter)->at_us;
}

static uint32_t reserved; /* jobs */

static void count_reserved(struct ticket *ticket, const struct reply *reply)
{
    (void)ticket;
    reserved = reply->err ? 0 : reply->count;
}

static void push_ready(struct bed *bed)
{
    for (unsigned i = 0; i < READY_JOBS; i++) {
        struct cmd push = {.kind = CMD_PUSH, .push = {.topic = BYTES("t"), .ttr_us = 60000000}};
        bed->engine->verbs->submit(bed->engine, &push, NULL);
    }
    for (unsigned i = 0; i < 4; i++) {
        (void)bed->engine->verbs->end(bed->engine);
        (void)sim_disk_step(bed->disk, LANE_COMMIT);
        bed->engine->verbs->begin(bed->engine);
    }
}

static uint32_t reserve_with(struct bed *bed, struct budget *budget)
{
    struct bytes topic = BYTES("t");
    struct ticket ticket = {.answered = count_reserved};
    struct cmd reserve = {.kind = CMD_RESERVE,
                          .reserve = {.topics = &topic, .topic_count = 1, .max = READY_JOBS}};
    bed->engine->verbs->use_budget(bed->engine, budget);
    bed->engine->verbs->submit(bed->engine, &reserve, &ticket);
    bed->engine->verbs->use_budget(bed->engine, NULL);
    return reserved;
}

static void a_reserve_takes_no_more_jobs_than_there_is_time_for(void **state)
{
    (void)state;
    static const unsigned fast_looks[] = {UINT32_MAX, 0, 8, 10, 12, 14};
    for (unsigned i = 0; i < sizeof(fast_looks) / sizeof(fast_looks[0]); i++) {
        struct bed bed = {0};
        struct slow_meter slow = {.meter = {slow_us, slow_cpu_us}, .fast_looks = fast_looks[i]};
        struct budget budget = {.meter = &slow.meter};
        open_bed(&bed, DURABILITY_OS);
        push_ready(&bed);
        budget_begin(&budget, GATHER_NS);
        uint32_t count = reserve_with(&bed, &budget);
        /* Nothing more was begun when the budget was spent, but for the least. */
        assert_in_range(count, RESERVE_MIN, GATHER_NS / 2500 + 1);
        assert_true(fast_looks[i] < UINT32_MAX || count >= GATHER_NS / 2600);
        assert_true(fast_looks[i] > 0 || count == RESERVE_MIN);
        uint32_t looks_beyond = slow.looks > fast_looks[i] ? slow.looks - fast_looks[i] : 0;
        /* The first slow one leaves half, as nobody can tell yet whose time it was. */
        assert_true(looks_beyond <= 3 + RESERVE_MIN * 2500 / BUDGET_METER_NS);
        for (unsigned turn = 0; turn < 3; turn++) {
            bed.engine->verbs->begin(bed.engine);
            (void)bed.engine->verbs->end(bed.engine);
        }
        /* What was taken and not read can be taken again. */
        assert_int_equal(reserve_with(&bed, NULL), READY_JOBS - count);
        close_bed(&bed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_nobody_was_promised_holds_up_no_answer),
        cmocka_unit_test(a_brief_reply_that_waits_for_the_disk_says_that_a_job_was_kept),
        cmocka_unit_test(submit_says_answered_pending_or_parked),
        cmocka_unit_test(a_command_without_a_ticket_is_done),
        cmocka_unit_test(an_engine_describes_itself_to_who_wants_to_know),
        cmocka_unit_test(statistics_are_over_all_topics),
        cmocka_unit_test(p7_a_search_that_ends_on_a_failed_store_is_no_success),
        cmocka_unit_test(what_a_turns_end_discards_is_freed_without_an_event),
        cmocka_unit_test(p2_a_job_is_not_buried_because_one_read_failed),
        cmocka_unit_test(what_was_ready_stays_so_when_the_clock_is_set_back_at_a_restart),
        cmocka_unit_test(the_time_is_logged_only_when_something_fell_due),
        cmocka_unit_test(p8_a_steady_stream_of_synced_pushes_takes_no_more_and_more_memory),
        cmocka_unit_test(a_reserve_takes_no_more_jobs_than_there_is_time_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
