/*
 * Far jobs through the embedded engine, on a simulated disk: whatever a command may do to a delayed
 * job it may do to one whose record lies in a slice, and listings show both kinds as one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/cursor.h"
#include "base/mem.h"
#include "engine/embedded/embedded.h"
#include "sim/disk.h"

enum { SEGMENT_BYTES = 256 * 1024, JOBS = 300, TURNS_MAX = 20000, LISTERS = 3, LISTED = 10 };

#define SECOND_US  INT64_C(1000000)
#define HOUR_US    (3600 * SECOND_US)
#define START_US   (1000000 * SECOND_US)
#define HORIZON_US (HOUR_US / 2)

/* What an answer said; its bytes are copies. */
struct answer {
    bool there;
    struct reply reply;
    struct job_view job; /* the first */
    char body[64], properties[64], id[64];
    uint64_t seqs[JOBS];
    char cursor[CURSOR_BYTES];
    int64_t next_due_us;
    uint64_t delayed;
};

/* A client that lists a topic again and again. */
struct lister {
    struct ticket ticket;
    bool asks;
    unsigned answers;
};

static struct {
    struct lister listers[LISTERS];
    bool lists;
    struct sim_disk *disk;
    struct embedded *embedded;
    struct engine *engine;
    struct loop loop;      /* its time alone */
    uint64_t memory_bytes; /* the limit; 0: none */
    struct answer answer;
} bed;

/* ---- asking ---- */

static void copy(char *room, struct bytes from)
{
    assert_true(from.len < 64);
    if (from.len)
        memcpy(room, from.at, from.len);
    room[from.len] = 0;
}

static void hear(struct ticket *ticket, const struct reply *reply)
{
    struct answer *answer = &bed.answer;
    (void)ticket;
    assert_false(answer->there);
    *answer = (struct answer){.there = true, .reply = *reply};
    for (uint32_t i = 0; reply->jobs && i < reply->count; i++)
        answer->seqs[i] = reply->jobs[i].ref.seq;
    if (reply->jobs && reply->count) {
        answer->job = reply->jobs[0];
        copy(answer->id, reply->jobs[0].ref.id);
        if (cmd_traits(reply->kind)->shows_bodies) {
            copy(answer->body, reply->jobs[0].body);
            copy(answer->properties, reply->jobs[0].properties);
        }
    }
    if (reply->topics) {
        answer->next_due_us = reply->topics->next_due_us;
        answer->delayed = reply->topics->jobs[JOB_DELAYED];
    }
    if (reply->cursor.len)
        memcpy(answer->cursor, reply->cursor.at, reply->cursor.len);
    answer->reply.cursor.at = answer->cursor;
}

static void hear_list(struct ticket *ticket, const struct reply *reply)
{
    struct lister *lister = LIST_ENTRY(ticket, struct lister, ticket);
    assert_int_equal(reply->err, OK);
    assert_int_equal(reply->count, LISTED);
    assert_true(reply->jobs[0].due_us == START_US + 2 * HOUR_US + 7 * SECOND_US); /* the first */
    lister->asks = false;
    lister->answers++;
}

static void list_again(struct lister *lister)
{
    struct cmd list = {.kind = CMD_LIST,
                       .topic = {.topic = BYTES("t"), .state = JOB_DELAYED, .max = LISTED}};
    lister->ticket = (struct ticket){.answered = hear_list};
    lister->asks = true;
    (void)bed.engine->verbs->submit(bed.engine, &list, &lister->ticket);
}

static void turn(const struct cmd *cmd, struct ticket *ticket)
{
    bed.engine->verbs->begin(bed.engine);
    for (unsigned i = 0; bed.lists && i < LISTERS; i++)
        if (!bed.listers[i].asks)
            list_again(&bed.listers[i]);
    if (cmd)
        (void)bed.engine->verbs->submit(bed.engine, cmd, ticket);
    bed.engine->verbs->match(bed.engine);
    (void)bed.engine->verbs->end(bed.engine);
    (void)sim_disk_step(bed.disk, LANE_COMMIT);
    (void)sim_disk_step(bed.disk, LANE_BACKGROUND);
    (void)sim_disk_step(bed.disk, LANE_READ);
    bed.loop.now_us += 10;
}

static enum err ask(const struct cmd *cmd)
{
    struct ticket ticket = {.answered = hear};
    bed.answer.there = false;
    turn(cmd, &ticket);
    for (int i = 0; !bed.answer.there; i++) {
        assert_true(i < TURNS_MAX);
        turn(NULL, NULL);
    }
    core_valid(embedded_core(bed.embedded));
    return bed.answer.reply.err;
}

static void rest(int turns)
{
    for (int i = 0; i < turns; i++)
        turn(NULL, NULL);
}

static struct bytes id_of(unsigned number, char room[32])
{
    (void)snprintf(room, 32, "%s-%03u", number % 2 ? "a-long-id-of-a-client" : "job", number);
    return bytes_str(room);
}

static enum err ask_job(enum cmd_kind kind, unsigned number)
{
    char id[32];
    return ask(&(struct cmd){.kind = kind, .job = {.ref.id = id_of(number, id)}});
}

static int64_t due_of(unsigned number)
{
    return START_US + (2 + number % 7 * 24) * HOUR_US + number * SECOND_US;
}

static enum err push(unsigned number, int64_t due_us, enum if_exists if_exists)
{
    static const int64_t waits_us[] = {5, 7};
    char id[32], body[40];
    (void)snprintf(body, sizeof(body), "body of %u", number);
    struct cmd cmd = {.kind = CMD_PUSH,
                      .push = {.id = id_of(number, id),
                               .topic = number % 3 ? BYTES("t") : BYTES("u"),
                               .due_us = due_us,
                               .ttr_us = 60 * SECOND_US,
                               .priority = number,
                               .if_exists = if_exists,
                               .body = bytes_str(body),
                               .properties = number % 5 ? BYTES("") : BYTES("target"),
                               .retry_us = waits_us,
                               .retry_count = number % 4 ? 0 : 2}};
    return ask(&cmd);
}

/* ---- the bed ---- */

static void open_engine(void)
{
    struct store_error error;
    struct embedded_options options = {
        .limits = {.jobs = 1000000, .topics = 10, .waiters = 10, .memory_bytes = bed.memory_bytes},
        .store = {.disk = sim_disk_port(bed.disk),
                  .segment_bytes = SEGMENT_BYTES,
                  .horizon_us = HORIZON_US,
                  .checkpoint_bytes = 1,
                  .recent_bytes = SEGMENT_BYTES,
                  .body_max = 100000,
                  .now_us = bed.loop.now_us,
                  .id_seed = 1},
        .durability = DURABILITY_SYNC,
        .now_us = bed.loop.now_us,
        .loop = &bed.loop,
    };
    sim_disk_eager(bed.disk, true);
    assert_int_equal(embedded_open(&options, &bed.embedded, &error), OK);
    sim_disk_eager(bed.disk, false);
    bed.engine = embedded_engine(bed.embedded);
}

static struct core_totals totals(void)
{
    struct core_totals now;
    core_totals(embedded_core(bed.embedded), &now);
    return now;
}

/* The log grows until the cleaner has come by all that is in it. */
static void grow_log(void)
{
    static char body[60000];
    for (int i = 0; i < 30; i++) {
        struct cmd filler = {.kind = CMD_PUSH,
                             .push = {.id = BYTES("filler"),
                                      .topic = BYTES("f"),
                                      .due_us = bed.loop.now_us,
                                      .ttr_us = SECOND_US,
                                      .body = bytes_of(body, sizeof(body))}};
        assert_int_equal(ask(&filler), OK);
        assert_int_equal(ask(&(struct cmd){.kind = CMD_DELETE, .job.ref.id = BYTES("filler")}), OK);
        rest(50);
    }
}

static int setup(void **state)
{
    (void)state;
    memset(&bed, 0, sizeof(bed));
    bed.disk = sim_disk_new();
    sim_disk_cold(bed.disk, true); /* the disk's threads read whatever is not in the process */
    bed.loop.now_us = START_US;
    open_engine();
    for (unsigned number = 0; number < JOBS; number++)
        assert_int_equal(push(number, due_of(number), IF_EXISTS_REJECT), OK);
    grow_log();
    assert_int_equal(totals().far, JOBS);
    assert_int_equal(totals().jobs[JOB_DELAYED], JOBS);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    core_valid(embedded_core(bed.embedded));
    sim_disk_eager(bed.disk, true);
    embedded_close(bed.embedded);
    sim_disk_free(bed.disk);
    return mem_used() == 0 ? 0 : -1;
}

static void restart(void)
{
    sim_disk_eager(bed.disk, true);
    embedded_close(bed.embedded);
    open_engine();
    core_valid(embedded_core(bed.embedded));
}

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
    struct ticket ticket = {.answered = hear};
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
        struct ticket ticket = {.answered = hear};
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

static void what_waits_at_the_end_is_told_so(void **state)
{
    (void)state;
    char id[32];
    struct cmd look = {.kind = CMD_GET, .job.ref.id = id_of(70, id)};
    struct ticket ticket = {.answered = hear};
    bed.answer.there = false;
    bed.engine->verbs->begin(bed.engine);
    (void)bed.engine->verbs->submit(bed.engine, &look, &ticket);
    restart();
    assert_true(bed.answer.there);
    assert_int_equal(bed.answer.reply.err, ERR_STORE_FAILED);
}

/* ---- a topic's jobs ---- */

static bool is_of_t(unsigned number)
{
    return number % 3 != 0;
}

static int64_t first_due_of_t(void)
{
    int64_t first_us = INT64_MAX;
    for (unsigned number = 0; number < JOBS; number++) {
        if (is_of_t(number) && due_of(number) < first_us)
            first_us = due_of(number);
    }
    return first_us;
}

/* All pages of a listing, far and near: each job once, in order of due time, or backwards. */
static unsigned list_in_order(uint32_t max, bool backwards)
{
    bool seen[2 * JOBS + 100] = {0};
    struct cmd cmd = {
        .kind = CMD_LIST,
        .topic = {.topic = BYTES("t"), .state = JOB_DELAYED, .backwards = backwards, .max = max}};
    int64_t last_us = backwards ? INT64_MAX : 0;
    unsigned shown = 0;
    for (int page = 0; page < 2 * JOBS; page++) {
        assert_int_equal(ask(&cmd), OK);
        assert_true(bed.answer.reply.count <= max);
        if (bed.answer.reply.count) {
            int64_t due_us = bed.answer.job.due_us;
            assert_true(backwards ? due_us <= last_us : due_us >= last_us);
            last_us = bed.answer.job.due_us;
        }
        for (uint32_t i = 0; i < bed.answer.reply.count; i++) {
            assert_false(seen[bed.answer.seqs[i]]);
            seen[bed.answer.seqs[i]] = true;
        }
        shown += bed.answer.reply.count;
        if (bed.answer.reply.cursor.len == 0)
            return shown;
        static char cursor[CURSOR_BYTES];
        memcpy(cursor, bed.answer.cursor, CURSOR_BYTES);
        cmd.topic.cursor = bytes_of(cursor, CURSOR_BYTES);
    }
    fail_msg("the listing does not end");
    return 0;
}

static unsigned list_all(uint32_t max)
{
    unsigned shown = list_in_order(max, false);
    assert_int_equal(list_in_order(max, true), shown);
    return shown;
}

static void a_listing_shows_far_and_near_jobs_once_each_in_order(void **state)
{
    (void)state;
    assert_int_equal(list_all(17), JOBS / 3 * 2);
    for (unsigned number = JOBS; number < JOBS + 40; number++) /* near ones between them */
        assert_int_equal(push(number, due_of(number), IF_EXISTS_REJECT), OK);
    unsigned all = JOBS / 3 * 2 + 26;
    assert_int_equal(list_all(1), all);
    assert_int_equal(list_all(13), all);
    assert_int_equal(list_all(JOBS), all);
    rest(10);
    assert_true(totals().far >= JOBS); /* those that were brought in have left again */
}

static void jobs_depart_while_clients_list_without_a_pause(void **state)
{
    (void)state;
    bed.lists = true;
    for (unsigned number = JOBS; number < 2 * JOBS; number++)
        assert_int_equal(push(number, due_of(number), IF_EXISTS_REJECT), OK);
    grow_log();
    unsigned answers = bed.listers[0].answers;
    print_message("%u far jobs of %u, %u listings\n", (unsigned)totals().far, 2 * JOBS, answers);
    assert_true(totals().far > 2 * JOBS - 10 && answers > JOBS / 2);
    bed.lists = false;
    for (int i = 0; bed.listers[0].asks || bed.listers[1].asks || bed.listers[2].asks; i++) {
        assert_true(i < TURNS_MAX);
        turn(NULL, NULL);
    }
    restart();
    assert_int_equal(totals().jobs[JOB_DELAYED], 2 * JOBS);
}

static void the_first_delayed_job_is_found_among_far_ones(void **state)
{
    (void)state;
    struct cmd peek = {.kind = CMD_PEEK, .topic = {.topic = BYTES("t"), .state = JOB_DELAYED}};
    struct cmd view = {.kind = CMD_TOPIC, .topic.topic = BYTES("t")};
    assert_int_equal(ask(&peek), OK);
    assert_int_equal(bed.answer.job.due_us, first_due_of_t());
    assert_true(strncmp(bed.answer.body, "body of ", 8) == 0);
    assert_int_equal(ask(&view), OK);
    assert_int_equal(bed.answer.next_due_us, first_due_of_t());
    assert_int_equal(bed.answer.delayed, JOBS / 3 * 2);
    rest(10);
    assert_int_equal(totals().far, JOBS);
}

static void far_jobs_are_kicked_in_order_of_their_due_time(void **state)
{
    (void)state;
    struct cmd kick = {.kind = CMD_KICK_TOPIC,
                       .topic = {.topic = BYTES("t"), .state = JOB_DELAYED, .max = 10}};
    assert_int_equal(ask(&kick), OK);
    assert_int_equal(bed.answer.reply.count, 10);
    assert_true(bed.answer.reply.more);
    assert_int_equal(totals().jobs[JOB_READY], 10);
    restart();
    assert_int_equal(totals().jobs[JOB_READY], 10);
    struct cmd peek = {.kind = CMD_PEEK, .topic = {.topic = BYTES("t"), .state = JOB_DELAYED}};
    assert_int_equal(ask(&peek), OK);
    unsigned earlier = 0; /* than the first that is left */
    for (unsigned number = 0; number < JOBS; number++)
        earlier += is_of_t(number) && due_of(number) < bed.answer.job.due_us;
    assert_int_equal(earlier, 10);
}

static void a_topic_is_cleared_of_far_jobs(void **state)
{
    (void)state;
    struct cmd clear = {.kind = CMD_CLEAR_TOPIC,
                        .topic = {.topic = BYTES("t"), .state = JOB_DELAYED, .max = 60}};
    assert_int_equal(push(JOBS, due_of(JOBS - 1), IF_EXISTS_REJECT), OK); /* of u */
    assert_int_equal(push(JOBS + 1, due_of(JOBS - 1), IF_EXISTS_REJECT), OK);
    unsigned cleared = 0;
    do {
        assert_int_equal(ask(&clear), OK);
        assert_true(bed.answer.reply.count > 0 && bed.answer.reply.count <= 60);
        cleared += bed.answer.reply.count;
    } while (bed.answer.reply.more);
    assert_int_equal(cleared, JOBS / 3 * 2 + 1);
    assert_int_equal(totals().jobs[JOB_DELAYED], JOBS / 3 + 1);
    restart();
    assert_int_equal(totals().jobs[JOB_DELAYED], JOBS / 3 + 1);
    assert_int_equal(totals().far, JOBS / 3);
}

static void damage(void *ctx, const char *name)
{
    (void)ctx;
    if (strncmp(name, "slice-", 6) != 0)
        return;
    for (uint64_t byte = 4096; sim_disk_flip(bed.disk, name, byte * 8); byte += 64)
        continue;
}

static void clearing_ends_though_far_jobs_cannot_be_read(void **state)
{
    (void)state;
    struct disk *disk = sim_disk_port(bed.disk);
    struct cmd clear = {.kind = CMD_CLEAR_TOPIC,
                        .topic = {.topic = BYTES("t"), .state = JOB_DELAYED, .max = 60}};
    assert_int_equal(disk->verbs->list(disk, damage, NULL), OK);
    unsigned asked = 0;
    do {
        assert_int_equal(ask(&clear), OK);
        assert_true(asked++ < 100);
    } while (bed.answer.reply.more);
    assert_true(totals().jobs[JOB_DELAYED] > JOBS / 3); /* they are told of, not hidden */
}

/* A byte of a job in the middle of its first block. */
static void damage_one(void *ctx, const char *name)
{
    uint64_t len = 0;
    if (strncmp(name, "slice-", 6) != 0)
        return;
    const char *at = sim_disk_file(bed.disk, name, &len);
    for (uint64_t byte = 2 * 4096; at && byte + 8 < len; byte++) {
        if (memcmp(at + byte, "body of ", 8) != 0)
            continue;
        assert_true(sim_disk_flip(bed.disk, name, byte * 8));
        ++*(unsigned *)ctx;
        return;
    }
}

static void jobs_beside_a_damaged_one_are_listed(void **state)
{
    (void)state;
    struct disk *disk = sim_disk_port(bed.disk);
    unsigned damaged = 0, listed = 0;
    assert_int_equal(disk->verbs->list(disk, damage_one, &damaged), OK);
    assert_true(damaged > 0 && damaged < 10);
    struct bytes topics[] = {BYTES("t"), BYTES("u")};
    for (unsigned i = 0; i < 2; i++) {
        struct cmd list = {.kind = CMD_LIST,
                           .topic = {.topic = topics[i], .state = JOB_DELAYED, .max = JOBS}};
        assert_int_equal(ask(&list), OK);
        listed += bed.answer.reply.count;
    }
    assert_int_equal(listed, JOBS - damaged);
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

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_far_job_is_shown_whole_and_stays_far),
        TEST(p5_a_far_job_that_was_deleted_stays_away_after_a_restart_too),
        TEST(what_is_not_allowed_on_a_delayed_job_is_refused_and_leaves_it_far),
        TEST(a_far_job_that_is_not_run_is_not_written_again),
        TEST(a_far_job_runs_now_and_keeps_what_it_has),
        TEST(a_far_job_is_reserved_by_its_name),
        TEST(a_far_job_gets_another_due_time_priority_and_body),
        TEST(p5_an_id_that_a_far_job_has_is_taken),
        TEST(two_commands_on_one_far_job_do_not_lose_each_other),
        TEST(p5_a_command_whose_client_has_gone_is_not_done_later),
        TEST(what_waits_at_the_end_is_told_so),
        TEST(a_listing_shows_far_and_near_jobs_once_each_in_order),
        TEST(jobs_depart_while_clients_list_without_a_pause),
        TEST(the_first_delayed_job_is_found_among_far_ones),
        TEST(far_jobs_are_kicked_in_order_of_their_due_time),
        TEST(a_topic_is_cleared_of_far_jobs),
        TEST(clearing_ends_though_far_jobs_cannot_be_read),
        TEST(jobs_beside_a_damaged_one_are_listed),
        TEST(p3_far_jobs_come_when_they_are_due_and_not_before),
        TEST(p8_far_jobs_do_not_come_beyond_the_limit_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
