/*
 * Far jobs through the embedded engine, on a simulated disk: whatever a command may do to a delayed
 * job it may do to one whose record lies in a slice. Listings and topics:
 * embedded_far_topic_test.c.
 */
#include "core/far.h"
#include "embedded_far_bed.h"
#include "engine/embedded/parts.h"

/* ---- one job ---- */

static void a_far_job_is_shown_whole_and_stays_far(void **state)
{
    (void)state;
    char body[40];
    for (unsigned number = 0; number < JOBS; number += 7) {
        assert_int_equal(ask_job(CMD_GET, number), OK);
        (void)snprintf(body, sizeof(body), "body of %u", number);
        assert_string_equal(bed.answer.body, body);
        assert_string_equal(bed.answer.properties, number % 5 ? "" : "target");
        assert_int_equal(bed.answer.job.due_us, due_of(number));
        assert_int_equal(bed.answer.job.priority, number);
        assert_int_equal(bed.answer.job.retry_count, number % 4 ? 0 : 2);
        assert_int_equal(bed.answer.job.state, JOB_DELAYED);
        struct cmd by_number = {.kind = CMD_GET, .job.ref.seq = bed.answer.job.ref.seq};
        assert_int_equal(ask(&by_number), OK);
        assert_string_equal(bed.answer.body, body);
    }
    assert_int_equal(ask_job(CMD_GET, JOBS), ERR_NOT_FOUND);
    assert_int_equal(totals().far, JOBS);
}

/* So that the other stages of a turn leave it the time. */
static void what_the_cleaner_will_take_of_a_turn_is_known_before(void **state)
{
    (void)state;
    struct budget budget = {.left_ns = BUDGET_UNLIMITED, .next_reading_ns = INT64_MIN};
    int64_t most_ns = 0;
    bed.engine->verbs->use_budget(bed.engine, &budget);
    for (unsigned number = JOBS; number < 3 * JOBS; number++) {
        assert_int_equal(push(number, due_of(number), IF_EXISTS_REJECT), OK);
        rest(1);
        most_ns = budget.excluded_next_ns > most_ns ? budget.excluded_next_ns : most_ns;
    }
    assert_in_range(most_ns, 1, 2000000);
    grow_log();
    rest(50);
    assert_int_equal(budget.excluded_next_ns, 0); /* there is nothing to clean */
    bed.engine->verbs->use_budget(bed.engine, NULL);
}

static void a_far_job_keeps_its_waits(void **state)
{
    (void)state;
    for (int again = 0; again < 2; again++) {
        assert_int_equal(ask_job(CMD_GET, 200), OK);
        assert_int_equal(bed.answer.job.retry_count, 2);
        assert_true(bed.answer.retry_us[0] == 5 && bed.answer.retry_us[1] == 7);
        assert_int_equal(again ? OK : ask_job(CMD_RUN, 200), OK); /* and is written again */
        restart();
    }
}

static void p5_a_far_job_that_was_deleted_stays_away_after_a_restart_too(void **state)
{
    (void)state;
    assert_int_equal(ask_job(CMD_DELETE, 8), OK);
    assert_int_equal(ask_job(CMD_DELETE, 8), ERR_NOT_FOUND);
    assert_int_equal(totals().far, JOBS - 1);
    restart();
    assert_int_equal(ask_job(CMD_GET, 8), ERR_NOT_FOUND);
    assert_int_equal(ask_job(CMD_GET, 9), OK);
    assert_int_equal(totals().jobs[JOB_DELAYED], JOBS - 1);
}

static void what_is_not_allowed_on_a_delayed_job_is_refused_and_leaves_it_far(void **state)
{
    (void)state;
    static const enum cmd_kind kinds[] = {CMD_FINISH, CMD_RELEASE, CMD_TOUCH, CMD_BURY};
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(ask_job(kinds[i], i), ERR_WRONG_STATE);
        assert_int_equal(bed.answer.reply.state, JOB_DELAYED);
    }
    char id[32];
    struct cmd stale = {.kind = CMD_DELETE, .job = {.ref.id = id_of(3, id), .lease = 77}};
    assert_int_equal(ask(&stale), ERR_STALE_LEASE);
    assert_int_equal(totals().far, JOBS);
}

static void a_far_job_that_is_not_run_is_not_written_again(void **state)
{
    (void)state;
    char id[32];
    struct cmd run = {.kind = CMD_RUN,
                      .job = {.ref.id = id_of(3, id), .has_due = true, .due_us = START_US}};
    assert_int_equal(ask(&run), ERR_WRONG_STATE); /* it is due at another time */
    assert_int_equal(totals().far, JOBS);
}

static void a_far_job_runs_now_and_keeps_what_it_has(void **state)
{
    (void)state;
    const struct bytes topics[] = {BYTES("t"), BYTES("u")};
    assert_int_equal(ask_job(CMD_RUN, 10), OK);
    assert_int_equal(ask_job(CMD_KICK, 15), OK);
    assert_int_equal(totals().jobs[JOB_READY], 2);
    restart();
    assert_int_equal(totals().jobs[JOB_READY], 2);
    struct cmd reserve = {.kind = CMD_RESERVE,
                          .reserve = {.topics = topics, .topic_count = 2, .max = 1}};
    assert_int_equal(ask(&reserve), OK);
    assert_string_equal(bed.answer.body, "body of 10");
    assert_string_equal(bed.answer.properties, "target");
    assert_int_equal(ask(&reserve), OK);
    assert_string_equal(bed.answer.body, "body of 15");
    assert_int_equal(ask_job(CMD_FINISH, 15), OK);
    restart();
    assert_int_equal(totals().jobs[JOB_RESERVED], 1);
    assert_int_equal(totals().jobs[JOB_DELAYED], JOBS - 2);
}

static void a_far_job_is_reserved_by_its_name(void **state)
{
    (void)state;
    assert_int_equal(ask_job(CMD_RESERVE_JOB, 20), OK);
    assert_string_equal(bed.answer.body, "body of 20");
    assert_string_equal(bed.answer.properties, "target");
    assert_int_equal(ask_job(CMD_RESERVE_JOB, 20), ERR_WRONG_STATE);
    struct cmd back = {.kind = CMD_RELEASE,
                       .job = {.ref.seq = bed.answer.job.ref.seq, .why = RELEASE_UNDELIVERED}};
    char id[32];
    back.job.ref = (struct job_ref){.id = id_of(20, id)};
    assert_int_equal(ask(&back), OK);
    assert_int_equal(bed.answer.job.state, JOB_DELAYED); /* where it was */
    grow_log();
    assert_int_equal(totals().far, JOBS); /* and goes again */
}

static void a_far_job_gets_another_due_time_priority_and_body(void **state)
{
    (void)state;
    char id[32];
    int64_t due_us = START_US + 5000 * HOUR_US;
    struct cmd later = {.kind = CMD_RESCHEDULE,
                        .job = {.ref.id = id_of(30, id), .has_due = true, .due_us = due_us}};
    struct cmd rewritten = {.kind = CMD_RESCHEDULE,
                            .job = {.ref.id = id_of(30, id),
                                    .has_body = true,
                                    .has_priority = true,
                                    .priority = 3,
                                    .body = BYTES("another")}};
    assert_int_equal(ask(&later), OK);
    assert_int_equal(bed.answer.job.due_us, due_us);
    for (int round = 0; round < 2; round++) { /* it is near; it is far again */
        assert_int_equal(totals().far, JOBS - !round);
        assert_int_equal(ask_job(CMD_GET, 30), OK);
        assert_int_equal(bed.answer.job.due_us, due_us);
        assert_string_equal(bed.answer.body, "body of 30");
        grow_log();
    }
    assert_int_equal(ask(&rewritten), OK);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(ask_job(CMD_GET, 30), OK);
        assert_int_equal(bed.answer.job.priority, 3);
        assert_int_equal(bed.answer.job.due_us, due_us);
        assert_string_equal(bed.answer.body, "another");
        assert_string_equal(bed.answer.properties, "target");
        restart();
    }
}

/* A body that lies in memory of its own is not copied when the command has to wait. */
static void a_body_that_waits_for_a_far_job_is_taken_over(void **state)
{
    (void)state;
    char id[32];
    for (int pushes = 0; pushes < 2; pushes++) {
        struct buf body = {0};
        buf_add_str(&body, pushes ? "pushed" : "rewritten");
        struct cmd push = {.kind = CMD_PUSH,
                           .push = {.id = id_of(33, id),
                                    .topic = BYTES("t"),
                                    .due_us = START_US + 9 * HOUR_US,
                                    .ttr_us = SECOND_US,
                                    .if_exists = IF_EXISTS_REPLACE,
                                    .body = buf_bytes(&body),
                                    .memory = &body}};
        struct cmd rewrite = {.kind = CMD_RESCHEDULE,
                              .job = {.ref.id = id_of(33, id),
                                      .has_body = true,
                                      .body = buf_bytes(&body),
                                      .memory = &body}};
        restart(); /* it is far, and nothing of it is in memory */
        grow_log();
        sim_disk_cold(bed.disk, true);
        assert_int_equal(ask(pushes ? &push : &rewrite), OK);
        assert_null(body.at);
        assert_int_equal(ask_job(CMD_GET, 33), OK);
        assert_string_equal(bed.answer.body, pushes ? "pushed" : "rewritten");
        sim_disk_cold(bed.disk, false);
    }
}

static void p5_an_id_that_a_far_job_has_is_taken(void **state)
{
    (void)state;
    uint64_t before = totals().pushed;
    assert_int_equal(push(40, START_US, IF_EXISTS_REJECT), ERR_EXISTS);
    assert_int_equal(push(40, START_US, IF_EXISTS_KEEP), OK);
    assert_true(bed.answer.reply.kept);
    assert_int_equal(bed.answer.job.due_us, due_of(40));
    assert_int_equal(totals().far, JOBS);
    assert_int_equal(push(40, START_US + 9 * HOUR_US, IF_EXISTS_REPLACE), OK);
    assert_true(bed.answer.reply.replaced);
    assert_int_equal(totals().pushed, before + 1);
    assert_int_equal(totals().jobs[JOB_DELAYED], JOBS);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(ask_job(CMD_GET, 40), OK);
        assert_int_equal(bed.answer.job.due_us, START_US + 9 * HOUR_US);
        restart();
        assert_int_equal(totals().jobs[JOB_DELAYED], JOBS);
    }
}

/* Two commands on one far job, asked in one turn: each is done, on what is there then. */
static void two_commands_on_one_far_job_do_not_lose_each_other(void **state)
{
    (void)state;
    char id[32];
    struct cmd look = {.kind = CMD_GET, .job.ref.id = id_of(50, id)};
    struct cmd end = {.kind = CMD_DELETE, .job.ref.id = id_of(50, id)};
    struct ticket ticket = {.answered = receive};
    bed.engine->verbs->begin(bed.engine);
    (void)bed.engine->verbs->submit(bed.engine, &end, NULL);
    bed.answer.there = false;
    assert_int_equal(bed.engine->verbs->submit(bed.engine, &look, &ticket), SUBMIT_PARKED);
    bed.engine->verbs->match(bed.engine);
    (void)bed.engine->verbs->end(bed.engine);
    for (int i = 0; i < 2000 && !bed.answer.there; i++)
        turn(NULL, NULL);
    assert_true(bed.answer.there);
    assert_int_equal(bed.answer.reply.err, ERR_NOT_FOUND);
    assert_int_equal(totals().jobs[JOB_DELAYED], JOBS - 1);
}

/* A client that sends many commands behind each other need not wait for each. */
static void commands_on_far_jobs_that_the_page_cache_has_are_done_at_once(void **state)
{
    (void)state;
    assert_int_equal(ask_job(CMD_GET, 51), OK); /* opens the slice's file */
    bed.engine->verbs->begin(bed.engine);
    for (unsigned number = 52; number < 60; number++) {
        char id[32];
        struct cmd end = {.kind = CMD_DELETE, .job.ref.id = id_of(number, id)};
        struct ticket ticket = {.answered = receive};
        bed.answer.there = false;
        assert_int_equal(bed.engine->verbs->submit(bed.engine, &end, &ticket), SUBMIT_PENDING);
        bed.engine->verbs->cancel(bed.engine, &ticket);
    }
    assert_int_equal(totals().jobs[JOB_DELAYED], JOBS - 8);
    assert_int_equal(totals().far, JOBS - 8);
    (void)bed.engine->verbs->end(bed.engine);
    rest(20);
    restart();
    assert_int_equal(totals().jobs[JOB_DELAYED], JOBS - 8);
}

/* It would else take effect after what others were told since. */
static void p5_a_command_whose_client_has_gone_is_not_done_later(void **state)
{
    (void)state;
    static const enum cmd_kind kinds[] = {CMD_GET,  CMD_RESERVE_JOB, CMD_DELETE,
                                          CMD_LIST, CMD_CLEAR_TOPIC, CMD_TOPIC};
    for (unsigned i = 0; i < 6; i++) {
        char id[32];
        struct cmd cmd = {.kind = kinds[i], .job.ref.id = id_of(60, id)};
        if (i >= 3)
            cmd.topic = (struct cmd_topic){.topic = BYTES("t"), .state = JOB_DELAYED, .max = 5};
        struct ticket ticket = {.answered = receive};
        bed.engine->verbs->begin(bed.engine);
        assert_int_equal(bed.engine->verbs->submit(bed.engine, &cmd, &ticket), SUBMIT_PARKED);
        bed.answer.there = false;
        (void)bed.engine->verbs->end(bed.engine); /* the disk reads */
        bed.engine->verbs->cancel(bed.engine, &ticket);
        rest(200);
        assert_false(bed.answer.there);
    }
    assert_int_equal(embedded_waiting_replies(bed.embedded), 0);
    assert_int_equal(totals().jobs[JOB_RESERVED], 0);
    assert_int_equal(totals().far, JOBS);
}

/* Far ones of seven days, near ones, and some that were deleted. */
static void jobs_near_and_far_that_are_due_by_some_times_are_counted(void **state)
{
    (void)state;
    enum { TIMES = 9, NEAR = 40 };
    int64_t until_us[TIMES] = {START_US, START_US + NEAR / 2 * SECOND_US};
    struct cmd cmd = {.kind = CMD_DUE, .topic = {.until_us = until_us, .until_count = TIMES}};
    for (unsigned day = 0; day < 7; day++)
        until_us[2 + day] = START_US + (12 + day * 24) * HOUR_US;
    for (unsigned i = 0; i < NEAR; i++)
        assert_int_equal(push(JOBS + i, START_US + (i + 1) * SECOND_US, IF_EXISTS_REJECT), OK);
    for (unsigned i = 0; i < JOBS; i += 5)
        assert_int_equal(ask_job(CMD_DELETE, i), OK);
    for (unsigned round = 0; round < 2; round++) {
        assert_int_equal(ask(&cmd), OK);
        assert_int_equal(bed.answer.reply.count, TIMES);
        assert_int_equal(bed.answer.due[0], 0);
        assert_int_equal(bed.answer.due[1], NEAR / 2);
        for (unsigned day = 0; day < 7; day++) {
            unsigned due = NEAR;
            for (unsigned i = 0; i < JOBS; i++)
                due += i % 5 && i % 7 <= day;
            uint64_t counted = bed.answer.due[2 + day];
            assert_true(counted + 60 >= due && counted <= due + 60); /* within a block */
            assert_true(day < 6 || counted == due);
        }
        restart();
    }
}

static struct engine_stats last_stats;

static void keep_stats(struct ticket *ticket, const struct reply *reply)
{
    (void)ticket;
    assert_non_null(reply->stats);
    last_stats = *reply->stats;
}

/* Those of the first day are due in two hours and some minutes. */
static void statistics_count_the_far_jobs_that_are_due_soon(void **state)
{
    (void)state;
    enum { NEAR = 40, SPANS = 4 };
    struct ticket ticket = {.answered = keep_stats};
    struct cmd ask_stats = {.kind = CMD_TOPICS,
                            .topic = {.max = 1, .stats = true, .due_within = true}};
    unsigned of_a_day = 0;
    for (unsigned i = 0; i < JOBS; i++)
        of_a_day += i % 7 == 0;
    for (unsigned i = 0; i < NEAR; i++)
        assert_int_equal(push(JOBS + i, bed.loop.now_us + 100 * SECOND_US, IF_EXISTS_REJECT), OK);
    assert_int_equal(totals().far, JOBS);
    turn(&ask_stats, &ticket);
    assert_int_equal(last_stats.due_within[0], 0);
    assert_int_equal(last_stats.due_within[1], NEAR);
    assert_int_equal(last_stats.due_within[2], NEAR);
    assert_int_equal(last_stats.due_within[3], NEAR + of_a_day);
}

/* With a budget for one step a turn. */
static void counting_goes_on_a_step_a_turn_with_no_budget_left_and_can_be_cancelled(void **state)
{
    (void)state;
    struct budget budget = {0};
    enum { TURNS_MOST = 100 };
    int64_t until_us = INT64_MAX;
    struct cmd cmd = {.kind = CMD_DUE, .topic = {.until_us = &until_us, .until_count = 1}};
    struct ticket tickets[] = {{.answered = receive}, {.answered = receive}};
    bed.engine->verbs->use_budget(bed.engine, &budget); /* nothing is left of it */
    for (unsigned cancels = 0; cancels < 2; cancels++) {
        for (unsigned i = 0; i < 2; i++)
            assert_int_equal(bed.engine->verbs->submit(bed.engine, &cmd, &tickets[i]),
                             SUBMIT_PENDING);
        assert_int_equal(embedded_waiting_replies(bed.embedded), 2);
        for (unsigned i = 0; i < 2; i++) {
            bed.answer.there = false;
            if (i && cancels)
                bed.engine->verbs->cancel(bed.engine, &tickets[i]);
            for (unsigned turns = 0;
                 embedded_waiting_replies(bed.embedded) > 1 - i && turns < TURNS_MOST; turns++)
                rest(1);
            assert_int_equal(embedded_waiting_replies(bed.embedded), 1 - i);
            assert_true(bed.answer.there == !(i && cancels));
        }
    }
    bed.engine->verbs->use_budget(bed.engine, NULL);
}

static void what_waits_at_the_end_is_told_so(void **state)
{
    (void)state;
    char id[32];
    struct cmd look = {.kind = CMD_GET, .job.ref.id = id_of(70, id)};
    struct ticket ticket = {.answered = receive};
    bed.answer.there = false;
    bed.engine->verbs->begin(bed.engine);
    (void)bed.engine->verbs->submit(bed.engine, &look, &ticket);
    restart();
    assert_true(bed.answer.there);
    assert_int_equal(bed.answer.reply.err, ERR_STORE_FAILED);
}

/* x with x * odd = 1. */
static uint64_t inverse(uint64_t odd)
{
    uint64_t x = odd;
    for (int i = 0; i < 6; i++)
        x *= 2 - odd * x;
    return x;
}

/* The shard of the core's index that has the number (core/far.c, hash_seq). */
static uint64_t shard_of(uint64_t seq)
{
    return (seq >> 8) * UINT64_C(0x9e3779b97f4a7c15) >> 52;
}

/* Another number, of which the core's index has the same place (core/far.c, hash_seq). */
static uint64_t twin_of(uint64_t seq)
{
    const uint64_t first = UINT64_C(0x9e3779b97f4a7c15), second = UINT64_C(0xff51afd7ed558ccd),
                   third = UINT64_C(0xc4ceb9fe1a85ec53);
    uint64_t of_seq = seq * first;
    of_seq = (of_seq ^ of_seq >> 33) * second;
    of_seq = (of_seq ^ of_seq >> 33) * third;
    of_seq ^= of_seq >> 33;
    for (uint64_t change = 1;;
         change++) { /* below what the index keeps of it: mostly of another shard */
        uint64_t hash = of_seq ^ change;
        hash = (hash ^ hash >> 33) * inverse(third);
        hash = (hash ^ hash >> 33) * inverse(second);
        uint64_t twin = (hash ^ hash >> 33) * inverse(first);
        if (shard_of(twin) == shard_of(seq))
            return twin;
    }
}

static enum err bring_back(uint64_t number, const char *id)
{
    return ask(&(struct cmd){.kind = CMD_PUSH,
                             .push = {.id = bytes_str(id),
                                      .topic = BYTES("t"),
                                      .due_us = START_US + 100 * HOUR_US,
                                      .ttr_us = SECOND_US,
                                      .if_exists = IF_EXISTS_KEEP,
                                      .number = number,
                                      .body = BYTES("from the journal")}});
}

/* A number that finds the place of another job's record is not that job's. */
static void what_is_brought_back_is_left_out_only_if_its_number_lives(void **state)
{
    (void)state;
    uint64_t places[FAR_CANDIDATES_MAX];
    assert_int_equal(ask_job(CMD_GET, 70), OK);
    uint64_t seq = bed.answer.job.ref.seq;
    struct job_ref twin = {.seq = twin_of(seq)};
    assert_int_equal(core_far_find(embedded_core(bed.embedded), &twin, places), 1);
    assert_int_equal(core_far_only(embedded_core(bed.embedded), &twin, true, places), 1);
    assert_int_equal(bring_back(seq, "by-number"), OK);
    assert_true(bed.answer.reply.kept);
    assert_int_equal(totals().jobs[JOB_DELAYED], JOBS);
    assert_int_equal(bring_back(twin.seq, "by-twin"), OK);
    assert_false(bed.answer.reply.kept);
    assert_int_equal(totals().jobs[JOB_DELAYED], JOBS + 1);
    assert_int_equal(bring_back(1000000, "by-nobody"), OK);
    assert_false(bed.answer.reply.kept);
    assert_int_equal(bring_back(twin.seq, "by-twin"), OK); /* again: by its id */
    assert_true(bed.answer.reply.kept);
    assert_int_equal(totals().jobs[JOB_DELAYED], JOBS + 2);
    assert_int_equal(totals().far, JOBS);
}

static int setup_history(void **state, bool cold)
{
    (void)state;
    memset(&bed, 0, sizeof(bed));
    bed.keeps_history = true;
    return set_up(cold);
}

static int setup_cold_history(void **state)
{
    return setup_history(state, true);
}

static int setup_warm_history(void **state)
{
    return setup_history(state, false);
}

/* It is kept by the id that its client has chosen. */
static void the_history_of_a_far_job_is_found_by_its_number(void **state)
{
    (void)state;
    char id[32];
    assert_int_equal(ask_job(CMD_GET, 70), OK);
    struct cmd by_number = {.kind = CMD_GET,
                            .job = {.ref.seq = bed.answer.job.ref.seq, .history = true}};
    struct cmd by_id = {.kind = CMD_GET, .job = {.ref.id = id_of(70, id), .history = true}};
    assert_int_equal(ask(&by_number), OK);
    assert_int_equal(bed.answer.reply.happening_count, 1);
    assert_int_equal(ask(&by_id), OK);
    assert_int_equal(bed.answer.reply.happening_count, 1);
    by_number.job.ref.seq = 1000000;
    assert_int_equal(ask(&by_number), ERR_NOT_FOUND);
    assert_int_equal(totals().far, JOBS);
}

enum { ASKERS = 8 };

static unsigned histories;

static void count_history(struct ticket *ticket, const struct reply *reply)
{
    (void)ticket;
    assert_int_equal(reply->err, OK);
    assert_int_equal(reply->happening_count, 1);
    histories++;
}

/* However many searches have ended. Those that nobody waits for any more are freed as well. */
static void p8_histories_are_answered_one_a_turn_with_no_budget_left(void **state)
{
    (void)state;
    char id[32];
    unsigned most = 0;
    struct budget budget = {0};
    struct ticket tickets[ASKERS];
    struct cmd cmd = {.kind = CMD_GET, .job = {.ref.id = id_of(70, id), .history = true}};
    histories = 0;
    bed.engine->verbs->use_budget(bed.engine, &budget); /* nothing is left of it */
    bed.engine->verbs->begin(bed.engine);
    for (unsigned i = 0; i < ASKERS; i++) {
        tickets[i] = (struct ticket){.answered = count_history};
        assert_int_equal(bed.engine->verbs->submit(bed.engine, &cmd, &tickets[i]), SUBMIT_PARKED);
    }
    bed.engine->verbs->cancel(bed.engine, &tickets[ASKERS / 2]);
    for (unsigned turns = 0; embedded_waiting_replies(bed.embedded) > 0; turns++) {
        unsigned before = histories;
        assert_true(turns < TURNS_MAX);
        while (sim_disk_step(bed.disk, LANE_READ))
            continue;
        rest(1);
        most = histories - before > most ? histories - before : most;
    }
    assert_int_equal(histories, ASKERS - 1);
    assert_int_equal(most, 1);
    bed.engine->verbs->use_budget(bed.engine, NULL);
}

static int setup_without_horizon(void **state)
{
    (void)state;
    memset(&bed, 0, sizeof(bed));
    bed.no_horizon = true;
    bed.disk = sim_disk_new();
    bed.loop.now_us = START_US;
    open_engine();
    return 0;
}

/* Cleaning tells of jobs that it relocates. Commands by id must not be looked up twice for that. */
static void without_a_horizon_no_command_asks_for_far_jobs(void **state)
{
    (void)state;
    struct store_stats stats;
    for (unsigned number = 0; number < JOBS; number++)
        assert_int_equal(push(number, due_of(number), IF_EXISTS_REJECT), OK);
    grow_log();
    store_stats(bed.embedded->store, &stats);
    assert_true(stats.relocated_jobs > 0);
    assert_false(bed.embedded->has_far);
    assert_int_equal(ask_job(CMD_GET, 3), OK);
}

/* ---- time ---- */

static void p3_far_jobs_come_when_they_are_due_and_not_before(void **state)
{
    (void)state;
    unsigned came = 0;
    struct bytes topics[] = {BYTES("t"), BYTES("u")};
    struct cmd reserve = {.kind = CMD_RESERVE,
                          .reserve = {.topics = topics, .topic_count = 2, .max = 50}};
    while (came < JOBS) {
        bed.loop.now_us += HOUR_US / 4;
        rest(60);
        unsigned due = 0;
        for (unsigned number = 0; number < JOBS; number++)
            due += due_of(number) <= bed.loop.now_us;
        while (ask(&reserve) == OK) {
            uint32_t count = bed.answer.reply.count;
            uint64_t seqs[JOBS];
            memcpy(seqs, bed.answer.seqs, sizeof(seqs));
            assert_true(bed.answer.job.due_us <= bed.loop.now_us);
            came += count;
            for (uint32_t i = 0; i < count; i++) {
                struct cmd finish = {.kind = CMD_FINISH, .job.ref.seq = seqs[i]};
                assert_int_equal(ask(&finish), OK);
            }
        }
        assert_true(came >= due);
        assert_int_equal(totals().jobs[JOB_DELAYED], JOBS - came);
        if (came > JOBS / 2 && totals().far > 0 && due % 5 == 0)
            restart();
    }
    assert_int_equal(totals().far, 0);
}

static void p8_far_jobs_do_not_come_beyond_the_limit_of_memory(void **state)
{
    (void)state;
    bed.memory_bytes = 1;
    restart();
    bed.loop.now_us += INT64_C(10) * 24 * HOUR_US; /* all are due */
    rest(1000);
    assert_int_equal(totals().far, JOBS);
    assert_int_equal(push(JOBS, START_US, IF_EXISTS_REJECT), ERR_MEMORY_LIMIT);
    assert_int_equal(ask_job(CMD_RUN, 3), ERR_MEMORY_LIMIT); /* it would stay */
    assert_int_equal(ask_job(CMD_GET, 3), OK);
    assert_int_equal(ask_job(CMD_DELETE, 3), OK);
    assert_int_equal(totals().far, JOBS - 1);
    bed.memory_bytes = 0;
    restart();
    for (int i = 0; i < 100 && totals().far > 0; i++) {
        bed.loop.now_us += SECOND_US;
        rest(20);
    }
    assert_int_equal(totals().far, 0);
    assert_int_equal(totals().jobs[JOB_READY], JOBS - 1);
}

/* The remedy for memory that is short: all far jobs are deleted. */
static void p8_pushes_are_taken_again_when_those_that_waited_have_ended(void **state)
{
    (void)state;
    enum { LIMIT = 64 * 1024 * 1024 };
    bed.memory_bytes = LIMIT;
    restart();
    char *ballast = mem_alloc(LIMIT);
    bed.loop.now_us += INT64_C(10) * 24 * HOUR_US; /* all are due */
    rest(50);
    assert_int_equal(push(JOBS, START_US, IF_EXISTS_REJECT), ERR_MEMORY_LIMIT);
    for (unsigned number = 0; number < JOBS; number++)
        assert_int_equal(ask_job(CMD_DELETE, number), OK);
    rest(100);
    mem_free(ballast);
    bed.loop.now_us += SECOND_US;
    rest(20);
    assert_int_equal(push(JOBS, START_US, IF_EXISTS_REJECT), OK);
}

/* Takes a job of t, and gives it back until `due_us`. False: there is none. */
static bool take_and_put_off(int64_t due_us, uint32_t releases)
{
    struct bytes t = BYTES("t");
    struct cmd take = {.kind = CMD_RESERVE,
                       .reserve = {.topics = &t, .topic_count = 1, .max = 1, .ttr_us = HOUR_US}};
    if (ask(&take) != OK)
        return false;
    assert_int_equal(bed.answer.job.counts.releases, releases);
    assert_true(bed.answer.job.body.len > 0);
    struct cmd put_off = {.kind = CMD_RELEASE,
                          .job = {.ref.seq = bed.answer.job.ref.seq,
                                  .lease = bed.answer.job.lease,
                                  .has_delay = true,
                                  .due_us = due_us}};
    assert_int_equal(ask(&put_off), OK);
    return true;
}

/* A consumer that gives each job back until later, and takes it again then, has them in memory only
   for a while. */
static void p8_far_jobs_that_were_put_off_leave_memory_again(void **state)
{
    enum { OF_T = JOBS / 3 * 2, STAY = 20, TIMES = 3 };
    (void)state;
    bed.put_off_stay = STAY;
    bed.ready_stay = JOBS;
    restart();
    for (uint32_t times = 0; times < TIMES; times++) {
        bed.loop.now_us += 1000 * HOUR_US;
        for (int i = 0; i < 100 && totals().far > 0; i++) {
            bed.loop.now_us += SECOND_US;
            rest(20);
        }
        assert_int_equal(totals().far, 0);
        unsigned taken = 0;
        while (take_and_put_off(bed.loop.now_us + 500 * HOUR_US + taken * SECOND_US, times))
            taken++;
        assert_int_equal(taken, OF_T);
        assert_in_range(totals().far, 0, OF_T / 2);
        if (times == 1)
            restart();
        for (int i = 0; i < 200; i++) {
            bed.loop.now_us += 10000;
            rest(1);
        }
        grow_log();
        assert_int_equal(totals().jobs[JOB_DELAYED], OF_T);
        assert_in_range(totals().far, OF_T - STAY, OF_T);
        restart();
        assert_int_equal(list_in_order(JOB_DELAYED, 17, false), OF_T);
        assert_in_range(totals().far, OF_T - STAY, OF_T);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_far_job_is_shown_whole_and_stays_far),
        COLD(what_the_cleaner_will_take_of_a_turn_is_known_before),
        TEST(a_far_job_keeps_its_waits),
        TEST(p5_a_far_job_that_was_deleted_stays_away_after_a_restart_too),
        TEST(what_is_not_allowed_on_a_delayed_job_is_refused_and_leaves_it_far),
        TEST(a_far_job_that_is_not_run_is_not_written_again),
        TEST(a_far_job_runs_now_and_keeps_what_it_has),
        TEST(a_far_job_is_reserved_by_its_name),
        TEST(a_far_job_gets_another_due_time_priority_and_body),
        TEST(a_body_that_waits_for_a_far_job_is_taken_over),
        TEST(p5_an_id_that_a_far_job_has_is_taken),
        TEST(two_commands_on_one_far_job_do_not_lose_each_other),
        WARM(commands_on_far_jobs_that_the_page_cache_has_are_done_at_once),
        COLD(p5_a_command_whose_client_has_gone_is_not_done_later),
        TEST(jobs_near_and_far_that_are_due_by_some_times_are_counted),
        TEST(statistics_count_the_far_jobs_that_are_due_soon),
        TEST(counting_goes_on_a_step_a_turn_with_no_budget_left_and_can_be_cancelled),
        TEST(what_waits_at_the_end_is_told_so),
        TEST(what_is_brought_back_is_left_out_only_if_its_number_lives),
        cmocka_unit_test_setup_teardown(the_history_of_a_far_job_is_found_by_its_number,
                                        setup_cold_history, teardown),
        cmocka_unit_test_setup_teardown(the_history_of_a_far_job_is_found_by_its_number,
                                        setup_warm_history, teardown),
        cmocka_unit_test_setup_teardown(p8_histories_are_answered_one_a_turn_with_no_budget_left,
                                        setup_warm_history, teardown),
        cmocka_unit_test_setup_teardown(without_a_horizon_no_command_asks_for_far_jobs,
                                        setup_without_horizon, teardown),
        TEST(p3_far_jobs_come_when_they_are_due_and_not_before),
        TEST(p8_far_jobs_do_not_come_beyond_the_limit_of_memory),
        TEST(p8_pushes_are_taken_again_when_those_that_waited_have_ended),
        TEST(p8_far_jobs_that_were_put_off_leave_memory_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
