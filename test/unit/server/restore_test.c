/*
 * Restoring from a journal, and clearing all there is, in the sdmq dialect. The journal is a list
 * of rows that gives as many at a time as the test says.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "beanstalk_peer.h"
#include "engine/embedded/embedded.h"
#include "port/restore.h"
#include "server/server.h"
#include "wire.h"

enum { ROWS_MAX = 5000, ID_BYTES = 24 };

struct restore_run {
    bool open;
    struct restore_query query;
    char id[64];
    struct restore_reader *reader;
    unsigned next, shown; /* rows taken; rows that may be taken */
    unsigned unsettled;
};

/* The journal. */
static struct {
    struct restore restore;
    struct restore_row rows[ROWS_MAX];
    char ids[ROWS_MAX][ID_BYTES];
    unsigned count;
    struct restore_run runs[4];
    bool away, elsewhere, breaks; /* it cannot be asked; it fails after what is shown */
} journal;

static enum err journal_begin(struct restore *restore, const struct restore_query *query,
                              struct restore_reader *reader, struct restore_run **out_run,
                              const char **out_why)
{
    (void)restore;
    if (journal.elsewhere) {
        *out_why = "another one reads it";
        return ERR_NOT_LEADER;
    }
    if (journal.away) {
        *out_why = "MySQL is away";
        return ERR_AGAIN;
    }
    struct restore_run *run = journal.runs;
    while (run->open)
        run++;
    *run = (struct restore_run){.open = true, .query = *query, .reader = reader};
    assert_true(query->id.len < sizeof(run->id));
    if (query->id.len)
        memcpy(run->id, query->id.at, query->id.len);
    run->query.id.at = run->id;
    *out_run = run;
    return OK;
}

static bool is_wanted(const struct restore_run *run, const struct restore_row *row)
{
    if (run->query.id.len)
        return bytes_eq(row->push.id, run->query.id);
    return row->end == RESTORE_LIVES &&
           !(run->query.skip_overdue && row->push.due_us < run->query.now_us);
}

static struct restore_row *journal_take(struct restore_run *run)
{
    while (run->next < run->shown) {
        struct restore_row *row = &journal.rows[run->next++];
        if (is_wanted(run, row)) {
            run->unsettled++;
            return row;
        }
    }
    return NULL;
}

static void journal_settle(struct restore_run *run, struct restore_row *row)
{
    (void)row;
    assert_true(run->unsettled > 0);
    run->unsettled--;
}

static bool journal_ended(const struct restore_run *run, enum err *out_err, const char **out_why)
{
    if (journal.breaks && run->shown > 0 && run->next == run->shown) {
        *out_err = ERR_AGAIN;
        *out_why = "MySQL has gone away";
        return true;
    }
    return run->next == journal.count;
}

static void journal_close(struct restore_run *run)
{
    assert_true(run->open);
    assert_int_equal(run->unsettled, 0);
    run->open = false;
}

static const struct restore_verbs verbs = {.begin = journal_begin,
                                           .take = journal_take,
                                           .settle = journal_settle,
                                           .ended = journal_ended,
                                           .close = journal_close};

/* The engine's part of a resync. */
static struct {
    struct journal_control control;
    struct resync_status status;
    struct journal_health health;
    unsigned begun;
} resyncing;

static enum err resync_begin_fake(struct journal_control *control, const char **out_why)
{
    (void)control;
    *out_why = "it is under way";
    if (resyncing.status.state == RESYNC_RUNS)
        return ERR_EXISTS;
    resyncing.status = (struct resync_status){.state = RESYNC_RUNS, .jobs_total = 7};
    resyncing.begun++;
    return OK;
}

static void resync_status_fake(const struct journal_control *control,
                               struct resync_status *out_status)
{
    (void)control;
    *out_status = resyncing.status;
}

static void health_fake(const struct journal_control *control, struct journal_health *out_health)
{
    (void)control;
    *out_health = resyncing.health;
}

static void partition_fake(const struct journal_control *control, uint32_t partition,
                           struct journal_partition *out_partition)
{
    (void)control;
    *out_partition = (struct journal_partition){.entry = 10 + partition,
                                                .knows_lag = partition < 2,
                                                .lag_entries = partition,
                                                .lag_bytes = 100 * partition};
}

static const struct journal_control_verbs resync_fakes = {.resync = resync_begin_fake,
                                                          .resync_status = resync_status_fake,
                                                          .health = health_fake,
                                                          .partition = partition_fake};

/* ---- the bed ---- */

static struct world *world;
static struct sim_peer *peer;

static void add_row(const char *id, int64_t due_us, enum restore_end end)
{
    unsigned i = journal.count++;
    (void)snprintf(journal.ids[i], ID_BYTES, "%s", id);
    journal.rows[i] = (struct restore_row){
        .push = {.id = bytes_str(journal.ids[i]),
                 .topic = i % 2 ? BYTES("odd") : BYTES("even"),
                 .due_us = due_us,
                 .ttr_us = SECOND_US,
                 .body = BYTES("b")},
        .end = end,
    };
}

static int set_up(void **state)
{
    (void)state;
    memset(&journal, 0, sizeof(journal));
    memset(&resyncing, 0, sizeof(resyncing));
    resyncing.control.verbs = &resync_fakes;
    journal.restore.verbs = &verbs;
    world = begin(&(struct world_options){
        .seed = 1, .restore = &journal.restore, .journal = &resyncing.control, .split = true});
    peer = sim_loop_client(world_loop(world), WORLD_SDMQ);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    world_free(world);
    return 0;
}

static void ask(struct sim_peer *of, const char *target)
{
    struct buf data = {0};
    wire_request(&data, BYTES("GET"), bytes_str(target), "", BYTES(""));
    sim_peer_send(of, buf_bytes(&data));
    buf_fini(&data);
    settle(world);
}

/* So many rows more have come, of each query under way. */
static void show(unsigned count)
{
    for (size_t i = 0; i < sizeof(journal.runs) / sizeof(journal.runs[0]); i++) {
        struct restore_run *run = &journal.runs[i];
        if (!run->open)
            continue;
        run->shown = run->shown + count < journal.count ? run->shown + count : journal.count;
        run->reader->arrived(run->reader);
    }
    pass(world, 1);
    settle(world);
}

static const char *next_answer(void)
{
    static char text[1000];
    struct wire_answer answer = {0};
    size_t len = wire_cut(sim_peer_received(peer), &answer);
    if (len == 0)
        return NULL;
    (void)snprintf(text, sizeof(text), "%.*s", (int)answer.body.len, answer.body.at);
    sim_peer_take(peer, len);
    return text;
}

static void expect_answer(const char *part)
{
    const char *text = next_answer();
    if (!text || !strstr(text, part))
        fail_msg("want %s, have %s", part, text ? text : "nothing");
}

static void expect_nothing(void)
{
    assert_null(next_answer());
}

static void expect_open(unsigned want)
{
    unsigned open = 0;
    for (size_t i = 0; i < sizeof(journal.runs) / sizeof(journal.runs[0]); i++)
        open += journal.runs[i].open;
    assert_int_equal(open, want);
}

static void expect_jobs(const char *delayed, const char *ready)
{
    expect_figure(world, "stats\r\n", "current-jobs-delayed", delayed);
    expect_figure(world, "stats\r\n", "current-jobs-ready", ready);
}

static int64_t soon(void)
{
    return world_now_us(world) + 60 * SECOND_US;
}

/* ---- restores ---- */

static void what_has_not_ended_comes_back_once(void **state)
{
    (void)state;
    add_row("a", soon(), RESTORE_LIVES);
    add_row("done", soon(), RESTORE_FINISHED);
    add_row("past", 1, RESTORE_LIVES);
    add_row("deleted", 1, RESTORE_DELETED);
    for (int i = 0; i < 2; i++) {
        ask(peer, "/reStore");
        expect_nothing();
        show(2);
        expect_nothing();
        show(2);
        expect_answer("\"data\":\"花费了0 ms，恢复 2 行数据\"");
        expect_jobs("1", "1"); /* harmless twice */
        expect_open(0);
    }
}

static void with_expire_false_what_is_past_stays_away(void **state)
{
    (void)state;
    add_row("a", soon(), RESTORE_LIVES);
    add_row("past", 1, RESTORE_LIVES);
    ask(peer, "/reStore?expire=false");
    show(2);
    expect_answer("恢复 1 行数据");
    expect_jobs("1", "0");
}

static void thousands_come_in_slices(void **state)
{
    (void)state;
    for (unsigned i = 0; i < ROWS_MAX; i++) {
        char id[ID_BYTES];
        (void)snprintf(id, sizeof(id), "job-%u", i);
        add_row(id, soon(), RESTORE_LIVES);
    }
    ask(peer, "/reStore");
    show(3000);
    expect_jobs("3000", "0");
    expect_nothing();
    show(ROWS_MAX);
    expect_answer("恢复 5000 行数据");
    expect_jobs("5000", "0");
}

static void p1_nothing_is_said_before_what_came_back_is_durable(void **state)
{
    (void)state;
    add_row("a", soon(), RESTORE_LIVES);
    world_hold_disk(world, true);
    ask(peer, "/reStore");
    show(1);
    pass(world, SECOND_US);
    expect_nothing();
    world_hold_disk(world, false);
    pass(world, SECOND_US);
    expect_answer("恢复 1 行数据");
}

static void one_job_comes_back_by_its_id_whatever_became_of_it(void **state)
{
    (void)state;
    add_row("a", soon(), RESTORE_LIVES);
    add_row("x:1", soon(), RESTORE_FINISHED);
    ask(peer, "/reStore/x%3A1");
    show(2);
    expect_answer("{\"success\":true,\"code\":200,\"message\":null,\"data\":null}");
    expect_jobs("1", "0");
    ask(peer, "/reStoreJob?jobId=nobody");
    show(2);
    expect_answer("{\"success\":false,\"code\":500,\"message\":\"Job不存在!\",\"data\":null}");
}

static void a_restore_goes_on_without_its_client_and_no_other_beside_it(void **state)
{
    (void)state;
    add_row("a", soon(), RESTORE_LIVES);
    add_row("b", soon(), RESTORE_LIVES);
    struct sim_peer *leaver = sim_loop_client(world_loop(world), WORLD_SDMQ);
    ask(leaver, "/reStore");
    show(1);
    sim_peer_free(leaver);
    settle(world);
    expect_open(1);
    ask(peer, "/reStore");
    expect_answer("a restore is under way");
    show(2);
    expect_open(0);
    expect_jobs("2", "0");
    ask(peer, "/reStore");
    show(2);
    expect_answer("恢复 2 行数据");
}

static void a_journal_that_is_away_or_goes_away_is_said(void **state)
{
    (void)state;
    add_row("a", soon(), RESTORE_LIVES);
    add_row("b", soon(), RESTORE_LIVES);
    journal.away = true;
    ask(peer, "/reStore");
    expect_answer("\"success\":false,\"code\":500,\"message\":\"MySQL is away\"");
    journal.away = false;
    journal.elsewhere = true;
    ask(peer, "/reStore");
    expect_answer("\"success\":false,\"code\":500,\"message\":\"another one reads it\"");
    journal.elsewhere = false;
    journal.breaks = true;
    ask(peer, "/reStore");
    show(1);
    expect_answer("\"success\":false,\"code\":500,\"message\":\"MySQL has gone away\"");
    expect_jobs("1", "0");
    expect_open(0);
}

static void a_server_that_takes_no_pushes_ends_the_restore(void **state)
{
    (void)state;
    add_row("a", soon(), RESTORE_LIVES);
    world_refuse_pushes(world);
    ask(peer, "/reStore");
    show(1);
    expect_answer("\"success\":false");
    expect_open(0);
    expect_jobs("0", "0");
}

static void v1_restores_with_counts(void **state)
{
    (void)state;
    struct sim_peer *other = sim_loop_client(world_loop(world), WORLD_DELAY_QUEUE);
    static const struct {
        const char *body, *answer;
    } cases[] = {{"{}", "{\"rows\":2,\"created\":2,\"kept\":0,\"refused\":0,\"ms\":0}"},
                 {"{\"expire\":false}", "{\"rows\":1,\"created\":0,\"kept\":1,"},
                 {"{\"id\":\"past\"}", "{\"rows\":1,\"created\":0,\"kept\":1,"},
                 {"{\"id\":\"nobody\"}", "\"detail\":\"the journal has no job with this id\""},
                 {"{\"expire\":1}", "\"code\":\"bad_field\",\"field\":\"expire\""},
                 {"{\"all\":true}", "\"code\":\"unknown_field\""}};
    add_row("a", soon(), RESTORE_LIVES);
    add_row("past", 1, RESTORE_LIVES);
    peer = other;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct buf data = {0};
        wire_request(&data, BYTES("POST"), BYTES("/v1/restore"), "application/json",
                     bytes_str(cases[i].body));
        sim_peer_send(peer, buf_bytes(&data));
        buf_fini(&data);
        settle(world);
        show(2);
        expect_answer(cases[i].answer);
    }
    journal.away = true;
    struct buf data = {0};
    wire_request(&data, BYTES("POST"), BYTES("/v1/restore"), NULL, BYTES(""));
    sim_peer_send(peer, buf_bytes(&data));
    buf_fini(&data);
    settle(world);
    expect_answer("\"status\":503,\"code\":\"journal_down\"");
}

/* An engine that answers a push when the test says, as one in Redis does. */
static struct {
    const struct engine_verbs *real;
    struct engine_verbs verbs;
    struct ticket *held; /* of the push */
} late;

static enum submitted late_submit(struct engine *engine, const struct cmd *cmd,
                                  struct ticket *ticket)
{
    if (cmd->kind != CMD_PUSH)
        return late.real->submit(engine, cmd, ticket);
    late.held = ticket;
    return SUBMIT_PENDING;
}

static void a_count_of_rows_never_goes_down(void **state)
{
    (void)state;
    struct engine *engine = embedded_engine(world_embedded(world));
    const struct restore_counts *counts = &world_server(world)->restored;
    late.real = engine->verbs;
    late.verbs = *engine->verbs;
    late.verbs.submit = late_submit;
    engine->verbs = &late.verbs;
    add_row("a", soon(), RESTORE_LIVES);
    ask(peer, "/reStore");
    show(1);
    uint64_t shown = counts->all.rows; /* /metrics has it as a counter */
    late.held->answered(late.held, &(struct reply){.err = ERR_NOT_FOUND, .kind = CMD_PUSH});
    pass(world, 1);
    settle(world);
    expect_answer("恢复 0 行数据");
    assert_true(counts->all.rows >= shown);
    assert_int_equal(counts->all.rows, 0);
    engine->verbs = late.real;
}

/* ---- deletes ---- */

static void a_delete_of_a_finished_job_is_an_error(void **state)
{
    (void)state;
    add_row("x", soon(), RESTORE_FINISHED);
    add_row("y", soon(), RESTORE_DELETED);
    ask(peer, "/delete?jobId=x");
    expect_nothing();
    show(2);
    expect_answer("{\"success\":false,\"code\":500,\"message\":\"任务 x 已经完成\",\"data\":null}");
    ask(peer, "/delete?jobId=y");
    show(2);
    expect_answer("\"success\":true");
    ask(peer, "/delete?jobId=nobody");
    show(2);
    expect_answer("\"success\":true");
    expect_open(0);
    journal.away = true; /* then nobody knows: the job is not there */
    ask(peer, "/delete?jobId=x");
    expect_answer("\"success\":true");
}

static void a_delete_of_a_live_job_asks_no_journal(void **state)
{
    (void)state;
    add_row("a", soon(), RESTORE_LIVES);
    ask(peer, "/reStore");
    show(1);
    expect_answer("恢复 1 行数据");
    ask(peer, "/delete?jobId=a");
    expect_answer("\"success\":true");
    expect_jobs("0", "0");
    expect_open(0);
}

static void who_leaves_ends_the_question(void **state)
{
    (void)state;
    struct sim_peer *leaver = sim_loop_client(world_loop(world), WORLD_SDMQ);
    add_row("x", soon(), RESTORE_FINISHED);
    ask(leaver, "/delete?jobId=x");
    expect_open(1);
    sim_peer_free(leaver);
    settle(world);
    expect_open(0);
}

static void a_server_that_ends_ends_its_restores(void **state)
{
    (void)state;
    add_row("a", soon(), RESTORE_LIVES);
    ask(peer, "/reStore");
    expect_open(1);
    world_crash(world, WORLD_KILL);
    expect_open(0);
}

/* ---- clearing ---- */

static void all_is_cleared_beyond_a_page_of_topics(void **state)
{
    (void)state;
    struct sim_peer *other = sim_loop_client(world_loop(world), WORLD_DELAY_QUEUE);
    struct buf data = {0};
    for (unsigned i = 0; i < 200; i++) {
        char target[64];
        (void)snprintf(target, sizeof(target), "/v1/topics/t-%u/jobs", i);
        wire_request(&data, BYTES("POST"), bytes_str(target), "application/json",
                     i % 2 ? BYTES("{\"delay\":\"1h\"}") : BYTES("{\"state\":\"buried\"}"));
    }
    sim_peer_send(other, buf_bytes(&data));
    buf_fini(&data);
    settle(world);
    ask(peer, "/clearAll");
    expect_answer("删除 200 行数据");
    expect_jobs("0", "0");
    expect_figure(world, "stats\r\n", "current-jobs-buried", "0");
    ask(peer, "/clearAll");
    expect_answer("删除 0 行数据");
}

static void ask_v1(const char *method, const char *target, const char *part)
{
    struct buf data = {0};
    wire_request(&data, bytes_str(method), bytes_str(target), "application/json",
                 method[0] == 'P' ? BYTES("{}") : BYTES(""));
    sim_peer_send(peer, buf_bytes(&data));
    buf_fini(&data);
    settle(world);
    expect_answer(part);
}

static void a_resync_and_a_restore_exclude_each_other(void **state)
{
    (void)state;
    ask_v1("GET", "/v1/journal",
           "\"restore\":{\"state\":\"none\"},\"resync\":{\"state\":\"none\"}");
    add_row("a", 0, RESTORE_LIVES);
    ask(sim_loop_client(world_loop(world), WORLD_SDMQ), "/reStore");
    ask_v1("POST", "/v1/journal/resync", "restore_under_way");
    assert_int_equal(resyncing.begun, 0);
    show(1);
    ask_v1("GET", "/v1/journal", "{\"state\":\"done\",\"of\":0,\"rows\":1,\"created\":1");
    ask_v1("POST", "/v1/journal/resync", "{\"state\":\"running\",\"step\":\"waits\",\"of\":7");
    ask_v1("POST", "/v1/journal/resync", "resync_under_way");
    ask_v1("POST", "/v1/restore", "resync_under_way");
    ask(peer, "/reStoreJob?jobId=a"); /* its row may be an old one */
    expect_answer("a resync of the journal is under way");
    resyncing.status.state = RESYNC_DONE;
    ask_v1("POST", "/v1/journal/resync", "running");
    assert_int_equal(resyncing.begun, 2);
}

static void how_the_journal_is_is_shown(void **state)
{
    (void)state;
    resyncing.health = (struct journal_health){.state = JOURNAL_STATE_WAITS,
                                               .since_us = world_now_us(world),
                                               .error = "2002: \"no\"",
                                               .hint = "start it",
                                               .refuses_pushes = true,
                                               .knows_lag = true,
                                               .lag_entries = 3,
                                               .lag_bytes = 512,
                                               .lag_us = 12 * SECOND_US + 1,
                                               .rejected = 4,
                                               .partitions = 3};
    ask_v1("GET", "/v1/journal",
           "{\"journal\":true,\"state\":\"waits\",\"state_ms\":0,"
           "\"error\":\"2002: \\\"no\\\"\",\"hint\":\"start it\",\"writer\":null,"
           "\"refuses_pushes\":true,\"mode\":\"after\",\"on_lag\":\"refuse\","
           "\"lag\":{\"entries\":3,\"bytes\":512,\"seconds\":12},\"cursor\":null,"
           "\"epoch\":null,\"rejected\":4,\"partitions\":[{\"partition\":0,\"cursor\":10,"
           "\"entries\":0,\"bytes\":0,\"refuses_pushes\":false},{\"partition\":1,"
           "\"cursor\":11,\"entries\":1,\"bytes\":100,\"refuses_pushes\":false},"
           "{\"partition\":2,\"cursor\":12,\"entries\":null,\"bytes\":null,"
           "\"refuses_pushes\":false}]");
    resyncing.health =
        (struct journal_health){.state = JOURNAL_STATE_ELSEWHERE, .writer = "10.0.0.2, process 7"};
    ask_v1("GET", "/v1/journal", "\"state\":\"elsewhere\"");
    ask_v1("GET", "/v1/journal", "\"writer\":\"10.0.0.2, process 7\"");
    ask_v1("GET", "/v1/journal", "\"lag\":null");
    ask_v1("GET", "/v1/journal", "\"partitions\":[]");
    resyncing.health = (struct journal_health){.state = JOURNAL_STATE_WAITS};
    ask_v1("GET", "/v1/journal", "\"lag\":null"); /* nobody may say that MySQL has all */
    resyncing.health = (struct journal_health){.knows_cursor = true, .cursor = 812, .epoch = 3};
    ask_v1("GET", "/v1/journal", "\"cursor\":812,\"epoch\":3");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_has_not_ended_comes_back_once),
        TEST(with_expire_false_what_is_past_stays_away),
        TEST(thousands_come_in_slices),
        TEST(p1_nothing_is_said_before_what_came_back_is_durable),
        TEST(one_job_comes_back_by_its_id_whatever_became_of_it),
        TEST(a_restore_goes_on_without_its_client_and_no_other_beside_it),
        TEST(a_journal_that_is_away_or_goes_away_is_said),
        TEST(a_server_that_takes_no_pushes_ends_the_restore),
        TEST(v1_restores_with_counts),
        TEST(a_count_of_rows_never_goes_down),
        TEST(a_delete_of_a_finished_job_is_an_error),
        TEST(a_delete_of_a_live_job_asks_no_journal),
        TEST(who_leaves_ends_the_question),
        TEST(a_server_that_ends_ends_its_restores),
        TEST(a_resync_and_a_restore_exclude_each_other),
        TEST(how_the_journal_is_is_shown),
        TEST(all_is_cleared_beyond_a_page_of_topics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
