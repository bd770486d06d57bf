/*
 * beanstalkd clients and a whole server on the simulated clock, network and disk: what each command
 * answers, in which order, and what becomes of jobs when a connection ends.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "beanstalk_peer.h"
#include "core/core.h"
#include "engine/embedded/embedded.h"
#include "server/server.h"
#include "test/unit/support/every.h"
#include "test/unit/support/refusing_engine.h"

enum { CLIENTS = 6, RANDOM_STEPS = 3000, LIVES = 40, MANY_JOBS = 25000 };

/* ---- words ---- */

static const char not_http[] =
    "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n"
    "Connection: close\r\nContent-Length: 130\r\n\r\n"
    "This is laterd's port for clients of beanstalkd (server.beanstalk). HTTP is spoken on another "
    "one (server.http), 9277 by default.\n";

/* What a browser sends for a page that posts commands as a form's text. */
static void a_web_page_cannot_give_commands(void **state)
{
    (void)state;
    static const char *const heads[] = {
        "POST / HTTP/1.1\r\nHost: 127.0.0.1:11300\r\nContent-Type: text/plain\r\n\r\n",
        "Host: 127.0.0.1:11300\r\n",
        "OPTIONS / HTTP/1.1\r\n",
    };
    struct world *world = begin(&(struct world_options){.seed = 1});
    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        struct sim_peer *page = join(world), *piecemeal = join(world);
        send_text(page, heads[i]);
        send_text(page, "put 0 0 60 4\r\nevil\r\nkick 9\r\n");
        settle(world);
        expect(page, not_http);
        assert_true(sim_peer_closed(page));
        for (const char *at = heads[i]; *at; at++) {
            sim_peer_send(piecemeal, bytes_of(at, 1));
            settle(world);
        }
        send_text(piecemeal, "put 0 0 60 4\r\nevil\r\n");
        settle(world);
        expect(piecemeal, not_http);
        sim_peer_free(page);
        sim_peer_free(piecemeal);
    }
    expect_figure(world, "stats\r\n", "total-jobs", "0");
    expect_figure(world, "stats\r\n", "current-connections", "1");
    world_free(world);
}

/* Answers that are owed come before it. */
static void http_behind_commands_ends_the_connection_when_they_are_answered(void **state)
{
    (void)state;
    struct world *world = begin(&(struct world_options){.seed = 1});
    struct sim_peer *peer = join(world);
    send_text(peer, "put 0 0 60 1\r\na\r\nGET / HTTP/1.1\r\nput 0 0 60 1\r\nb\r\n");
    settle(world);
    struct bytes have = sim_peer_received(peer);
    assert_true(bytes_starts(have, BYTES("INSERTED 1\r\nHTTP/1.1 400 ")));
    assert_true(sim_peer_closed(peer));
    sim_peer_free(peer);
    expect_figure(world, "stats\r\n", "total-jobs", "1");
    world_free(world);
}

static void every_command_answers_in_its_words(void **state)
{
    static const struct {
        const char *expect_line, *receive;
    } story[] = {
        {"put 7 0 10 3\r\none\r\n", "INSERTED 1\r\n"},
        {"put 5 0 0 0\r\n\r\n", "INSERTED 2\r\n"},
        {"put 0 9 10 5\r\nthree\r\n", "INSERTED 3\r\n"},
        {"peek-ready\r\n", "FOUND 2 0\r\n\r\n"},
        {"peek-delayed\r\n", "FOUND 3 5\r\nthree\r\n"},
        {"peek-buried\r\n", "NOT_FOUND\r\n"},
        {"peek 1\r\n", "FOUND 1 3\r\none\r\n"},
        {"peek 9\r\n", "NOT_FOUND\r\n"},
        {"reserve\r\n", "RESERVED 2 0\r\n\r\n"},
        {"reserve-job 2\r\n", "NOT_FOUND\r\n"},
        {"kick-job 2\r\n", "NOT_FOUND\r\n"},
        {"touch 2\r\n", "TOUCHED\r\n"},
        {"touch 1\r\n", "NOT_FOUND\r\n"},
        {"release 1 0 0\r\n", "NOT_FOUND\r\n"},
        {"bury 1 0\r\n", "NOT_FOUND\r\n"},
        {"bury 2 4\r\n", "BURIED\r\n"},
        {"bury 2 4\r\n", "NOT_FOUND\r\n"},
        {"peek-buried\r\n", "FOUND 2 0\r\n\r\n"},
        {"kick 0\r\n", "KICKED 0\r\n"},
        {"kick 9\r\n", "KICKED 1\r\n"}, /* the buried one, and then the delayed one: */
        {"kick 9\r\n", "KICKED 1\r\n"},
        {"kick 9\r\n", "KICKED 0\r\n"},
        {"reserve-job 1\r\n", "RESERVED 1 3\r\none\r\n"},
        {"release 1 1 1\r\n", "RELEASED\r\n"},
        {"kick-job 1\r\n", "KICKED\r\n"},
        {"kick-job 1\r\n", "NOT_FOUND\r\n"},
        {"delete 1\r\n", "DELETED\r\n"},
        {"delete 1\r\n", "NOT_FOUND\r\n"},
        {"reserve-with-timeout 0\r\n", "RESERVED 3 5\r\nthree\r\n"},
        {"delete 3\r\n", "DELETED\r\n"},
        {"delete 2\r\n", "DELETED\r\n"},
        {"reserve-with-timeout 0\r\n", "TIMED_OUT\r\n"},
        {"list-tube-used\r\n", "USING default\r\n"},
        {"use t\r\n", "USING t\r\n"},
        {"list-tube-used\r\n", "USING t\r\n"},
        {"watch t\r\n", "WATCHING 2\r\n"},
        {"watch t\r\n", "WATCHING 2\r\n"},
        {"watch u\r\n", "WATCHING 3\r\n"},
        {"list-tubes\r\n", "OK 22\r\n---\n- default\n- t\n- u\n\r\n"},
        {"list-tubes-watched\r\n", "OK 22\r\n---\n- default\n- t\n- u\n\r\n"},
        {"ignore nobody\r\n", "WATCHING 3\r\n"},
        {"ignore default\r\n", "WATCHING 2\r\n"},
        {"ignore u\r\n", "WATCHING 1\r\n"},
        {"ignore t\r\n", "NOT_IGNORED\r\n"},
        {"pause-tube t 1\r\n", "PAUSED\r\n"},
        {"pause-tube t 0\r\n", "PAUSED\r\n"},
        {"pause-tube default 0\r\n", "PAUSED\r\n"},
        {"pause-tube nobody 1\r\n", "NOT_FOUND\r\n"},
        {"stats-tube nobody\r\n", "NOT_FOUND\r\n"},
        {"stats-job 1\r\n", "NOT_FOUND\r\n"},
        {"put 0 0 1 1\r\nabc", "EXPECTED_CRLF\r\n"},
        {"put 0 0 1 9\r\n", ""},
        {"quit\r\n123\r\n", "JOB_TOO_BIG\r\n"}, /* swallowed, not done */
    };
    struct world *world = begin(&(struct world_options){.seed = 1, .beanstalk_body_bytes = 8});
    struct sim_peer *ann = join(world);
    (void)state;
    for (size_t i = 0; i < sizeof(story) / sizeof(story[0]); i++)
        send_line(world, ann, story[i].expect_line, story[i].receive);
    assert_false(sim_peer_closed(ann));
    core_valid(world_core(world));
    world_free(world);
}

static void a_refused_line_does_not_end_the_connection(void **state)
{
    struct world *world = begin(&(struct world_options){.seed = 1});
    struct sim_peer *ann = join(world);
    (void)state;
    send_line(world, ann, "hello\r\n", "UNKNOWN_COMMAND\r\n");
    send_line(world, ann, "peek x\r\n", "BAD_FORMAT\r\n");
    send_line(world, ann, "put 0 0 1 1\r\na\r\n", "INSERTED 1\r\n");
    world_free(world);
}

static void jobs_come_by_priority_then_id_across_tubes(void **state)
{
    struct world *world = begin(&(struct world_options){.seed = 1});
    struct sim_peer *ann = join(world);
    (void)state;
    send_line(world, ann,
              "use a\r\nput 5 1 60 1\r\n1\r\nuse b\r\nput 5 0 60 1\r\n2\r\nput 4 0 60 1\r\n3\r\n"
              "use c\r\nput 1 0 60 1\r\n4\r\nwatch a\r\nwatch b\r\nignore default\r\n",
              "USING a\r\nINSERTED 1\r\nUSING b\r\nINSERTED 2\r\nINSERTED 3\r\nUSING c\r\n"
              "INSERTED 4\r\nWATCHING 2\r\nWATCHING 3\r\nWATCHING 2\r\n");
    pass(world, SECOND_US); /* job 1 was due last and comes before 2: its id is lower */
    send_line(world, ann, "reserve\r\nreserve\r\nreserve\r\nreserve-with-timeout 0\r\n",
              "RESERVED 3 1\r\n3\r\nRESERVED 1 1\r\n1\r\nRESERVED 2 1\r\n2\r\nTIMED_OUT\r\n");
    send_line(world, ann, "release 2 5 0\r\nrelease 1 5 0\r\nreserve\r\n",
              "RELEASED\r\nRELEASED\r\nRESERVED 1 1\r\n1\r\n");
    world_free(world);
}

static void tubes_live_while_somebody_needs_them(void **state)
{
    struct world *world = begin(&(struct world_options){.seed = 1});
    struct sim_peer *ann = join(world), *bob = join(world);
    (void)state;
    send_line(world, ann, "use jobs\r\nput 0 0 1 0\r\n\r\nuse other\r\n",
              "USING jobs\r\nINSERTED 1\r\nUSING other\r\n");
    send_line(world, bob, "watch seen\r\nlist-tubes\r\n",
              "WATCHING 2\r\nOK 36\r\n---\n- default\n- seen\n- other\n- jobs\n\r\n");
    assert_string_equal(figure(world, bob, "stats-tube seen\r\n", "current-watching"), "1");
    assert_string_equal(figure(world, bob, "stats-tube other\r\n", "current-using"), "1");
    assert_string_equal(figure(world, bob, "stats-tube jobs\r\n", "current-jobs-ready"), "1");
    assert_string_equal(figure(world, bob, "stats\r\n", "current-tubes"), "4");
    sim_peer_free(ann);
    send_line(world, bob, "delete 1\r\nignore seen\r\nlist-tubes\r\n",
              "DELETED\r\nWATCHING 1\r\nOK 14\r\n---\n- default\n\r\n");
    send_line(world, bob, "stats-tube jobs\r\n", "NOT_FOUND\r\n");
    send_line(world, bob, "pause-tube jobs 1\r\n", "NOT_FOUND\r\n");
    world_free(world);
}

static void a_paused_tube_gives_nothing_until_its_time(void **state)
{
    struct world *world = begin(&(struct world_options){.seed = 1});
    struct sim_peer *ann = join(world);
    (void)state;
    send_line(world, ann, "put 0 0 60 0\r\n\r\npause-tube default 5\r\nreserve\r\n",
              "INSERTED 1\r\nPAUSED\r\n");
    pass(world, 5 * SECOND_US - 1);
    expect(ann, "");
    pass(world, 1);
    expect(ann, "RESERVED 1 0\r\n\r\n");
    world_free(world);
}

static void statistics_count_what_clients_do(void **state)
{
    struct world *world = begin(&(struct world_options){.seed = 1, .beanstalk_body_bytes = 8});
    struct sim_peer *ann = join(world), *bob = join(world);
    (void)state;
    send_line(world, ann, "put 3 0 9 1\r\na\r\nput 2000 0 9 1\r\nb\r\nput 0 0 1 9\r\n123456789\r\n",
              "INSERTED 1\r\nINSERTED 2\r\nJOB_TOO_BIG\r\n");
    send_text(bob, "watch none\r\nignore default\r\nreserve\r\n");
    expect_figure(world, "stats\r\n", "cmd-put", "3");
    expect_figure(world, "stats\r\n", "current-producers", "1");
    expect_figure(world, "stats\r\n", "current-workers", "1");
    expect_figure(world, "stats\r\n", "current-waiting", "1");
    expect_figure(world, "stats\r\n", "current-connections", "3");
    expect_figure(world, "stats\r\n", "total-connections", "8");
    expect_figure(world, "stats\r\n", "current-jobs-urgent", "1");
    expect_figure(world, "stats\r\n", "current-jobs-ready", "2");
    expect_figure(world, "stats\r\n", "max-job-size", "8");
    expect_figure(world, "stats\r\n", "draining", "false");
    expect_figure(world, "stats-tube none\r\n", "current-waiting", "1");
    expect_figure(world, "stats-job 2\r\n", "pri", "2000");
    sim_peer_free(ann);
    sim_peer_free(bob);
    expect_figure(world, "stats\r\n", "current-producers", "0");
    expect_figure(world, "stats\r\n", "current-workers", "0");
    expect_figure(world, "stats\r\n", "current-waiting", "0");
    world_free(world);
}

/* ---- P6 ---- */

enum ending { END_QUIT, END_SHUT, END_RESET, ENDINGS };

static void end_connection(struct sim_peer *peer, enum ending how)
{
    if (how == END_QUIT)
        send_text(peer, "quit\r\n");
    else if (how == END_SHUT)
        sim_peer_shut(peer);
    else
        sim_peer_reset(peer);
}

static void note_due(void *ctx, const struct job *job)
{
    ((int64_t *)ctx)[job->seq] = job->due_us;
}

/* A long turn must not take its beginning for the time at which a client asked. */
static void p3_a_delay_counts_from_when_its_put_came(void **state)
{
    struct world *world = begin(&(struct world_options){.seed = 1});
    struct sim_peer *ann = join(world), *bob = join(world);
    int64_t due_us[3] = {0};
    (void)state;
    settle(world);
    send_text(ann, "put 0 9 60 1\r\na\r\n");
    send_text(bob, "put 0 9 60 1\r\nb\r\n");
    world_drift_clock(world, 1000); /* a millisecond for everything that is done in the turn */
    (void)world_step(world, world_now_us(world) + SECOND_US);
    world_drift_clock(world, 0);
    settle(world);
    core_each(world_core(world), note_due, due_us);
    assert_true(due_us[1] && due_us[2] - due_us[1] >= 1000);
    world_free(world);
}

static void p6_what_a_connection_held_goes_back_at_once(void **state)
{
    (void)state;
    for (int how = 0; how < ENDINGS; how++) {
        struct world *world = begin(&(struct world_options){.seed = 1, .disk_us = 100});
        struct sim_peer *ann = join(world), *bob = join(world);
        /* The answer to the first reserve waits behind those to the puts, that to the second does
           not. */
        send_text(ann, "put 0 0 60 1\r\na\r\nput 0 0 60 1\r\nb\r\nreserve\r\n");
        pass(world, SECOND_US);
        send_text(ann, "reserve\r\n");
        pass(world, 3 * SECOND_US);
        expect(ann, "INSERTED 1\r\nINSERTED 2\r\nRESERVED 1 1\r\na\r\nRESERVED 2 1\r\nb\r\n");
        send_line(world, bob, "reserve\r\n", "");
        end_connection(ann, (enum ending)how);
        settle(world); /* not later: nobody else makes turns */
        expect(bob, "RESERVED 1 1\r\na\r\n");
        assert_int_equal(world_server(world)->counts.abandoned, 2); /* both had been received */
        send_line(world, bob, "reserve\r\n", "RESERVED 2 1\r\nb\r\n");
        assert_string_equal(figure(world, bob, "stats-job 1\r\n", "reserves"), "2");
        core_valid(world_core(world));
        world_free(world);
    }
}

/* The connection has gone with the process; nobody else can finish the job, so nobody waits. */
static void p6_a_crash_gives_back_what_connections_held(void **state)
{
    struct world *world = begin(&(struct world_options){.seed = 1});
    struct sim_peer *ann = join(world);
    (void)state;
    send_line(world, ann, "put 0 0 600 1\r\na\r\n", "INSERTED 1\r\n");
    send_line(world, ann, "reserve\r\n", "RESERVED 1 1\r\na\r\n");
    send_line(world, ann, "touch 1\r\n", "TOUCHED\r\n");
    world_crash(world, WORLD_KILL);
    assert_int_equal(world_boot(world), OK);
    send_line(world, join(world), "reserve-with-timeout 0\r\n", "RESERVED 1 1\r\na\r\n");
    sim_peer_free(ann);
    world_free(world);
}

static void p6_a_job_that_did_not_arrive_counts_no_attempt(void **state)
{
    struct world *world = begin(&(struct world_options){.seed = 1});
    struct sim_peer *ann = join(world), *bob = join(world);
    (void)state;
    send_line(world, ann, "put 0 0 60 1\r\na\r\n", "INSERTED 1\r\n");
    sim_peer_window(ann, 4);
    send_line(world, ann, "reserve\r\n", "RESE");
    assert_string_equal(figure(world, bob, "stats-job 1\r\n", "reserves"), "1");
    sim_peer_free(ann);
    settle(world);
    assert_string_equal(figure(world, bob, "stats-job 1\r\n", "state"), "ready");
    assert_string_equal(figure(world, bob, "stats-job 1\r\n", "reserves"), "0");
    world_free(world);
}

static void p6_who_has_gone_while_waiting_gets_no_job(void **state)
{
    struct world *world = begin(&(struct world_options){.seed = 1});
    struct sim_peer *ann = join(world), *bob = join(world);
    (void)state;
    send_line(world, ann, "reserve\r\n", "");
    send_text(bob, "put 0 0 60 1\r\na\r\n"); /* both in one turn */
    sim_peer_free(ann);
    settle(world);
    expect(bob, "INSERTED 1\r\n");
    assert_string_equal(figure(world, bob, "stats-job 1\r\n", "reserves"), "0");
    world_free(world);
}

static void p6_a_half_closed_client_that_waits_times_out(void **state)
{
    struct world *world = begin(&(struct world_options){.seed = 1});
    struct sim_peer *ann = join(world), *bob = join(world);
    (void)state;
    send_line(world, ann, "reserve\r\nput 0 0 60 1\r\na\r\n", "");
    sim_peer_shut(ann);
    settle(world); /* what it had asked behind the wait is done yet */
    expect(ann, "TIMED_OUT\r\nINSERTED 1\r\n");
    assert_true(sim_peer_closed(ann));
    assert_string_equal(figure(world, bob, "stats-job 1\r\n", "state"), "ready");
    sim_peer_free(ann);
    ann = join(world);
    send_text(ann, "reserve\r\nreserve\r\n"); /* what is ready it may have; it waits for nothing */
    sim_peer_shut(ann);
    settle(world);
    expect(ann, "RESERVED 1 1\r\na\r\nTIMED_OUT\r\n");
    assert_true(sim_peer_closed(ann));
    assert_string_equal(figure(world, bob, "stats-job 1\r\n", "state"), "ready");
    world_free(world);
}

static void p4_a_job_belongs_to_who_reserved_it(void **state)
{
    struct world *world = begin(&(struct world_options){.seed = 1});
    struct sim_peer *ann = join(world), *bob = join(world);
    (void)state;
    send_line(world, ann, "put 0 0 2 1\r\na\r\nreserve\r\n", "INSERTED 1\r\nRESERVED 1 1\r\na\r\n");
    send_line(world, bob, "delete 1\r\nrelease 1 0 0\r\nbury 1 0\r\ntouch 1\r\nreserve-job 1\r\n",
              "NOT_FOUND\r\nNOT_FOUND\r\nNOT_FOUND\r\nNOT_FOUND\r\nNOT_FOUND\r\n");
    pass(world, 2 * SECOND_US); /* its ttr is over */
    send_line(world, bob, "reserve\r\n", "RESERVED 1 1\r\na\r\n");
    send_line(world, ann, "touch 1\r\nrelease 1 0 0\r\nbury 1 0\r\ndelete 1\r\n",
              "NOT_FOUND\r\nNOT_FOUND\r\nNOT_FOUND\r\nNOT_FOUND\r\n");
    sim_peer_free(ann); /* and has nothing to give back */
    settle(world);
    send_line(world, bob, "touch 1\r\ndelete 1\r\n", "TOUCHED\r\nDELETED\r\n");
    world_free(world);
}

static void a_job_whose_ttr_is_over_may_be_deleted_by_anybody(void **state)
{
    struct world *world = begin(&(struct world_options){.seed = 1});
    struct sim_peer *ann = join(world);
    (void)state;
    send_line(world, ann, "put 0 0 1 1\r\na\r\nreserve\r\n", "INSERTED 1\r\nRESERVED 1 1\r\na\r\n");
    pass(world, SECOND_US);
    assert_string_equal(figure(world, ann, "stats-job 1\r\n", "timeouts"), "1");
    send_line(world, ann, "delete 1\r\n", "DELETED\r\n");
    world_free(world);
}

static void what_ran_out_before_its_client_left_counts_as_no_abandoned_job(void **state)
{
    struct world *world = begin(&(struct world_options){.seed = 1});
    struct sim_peer *ann = join(world);
    (void)state;
    send_line(world, ann, "put 0 0 1 1\r\na\r\nput 0 0 60 1\r\nb\r\nreserve\r\nreserve\r\n",
              "INSERTED 1\r\nINSERTED 2\r\nRESERVED 1 1\r\na\r\nRESERVED 2 1\r\nb\r\n");
    pass(world, 3 * SECOND_US);
    sim_peer_free(ann);
    settle(world);
    assert_int_equal(world_server(world)->counts.abandoned, 1);
    world_free(world);
}

/* As with journal.mode = before without its database, or in Redis: nothing has become of the hold.
 */
static void p4_what_is_refused_for_a_while_ends_no_hold(void **state)
{
    static const struct {
        const char *line, *answer;
        enum cmd_kind kind;
    } ends[] = {{"touch 1\r\n", "TOUCHED\r\n", CMD_TOUCH},
                {"release 1 0 0\r\n", "RELEASED\r\n", CMD_RELEASE},
                {"bury 1 0\r\n", "BURIED\r\n", CMD_BURY},
                {"delete 1\r\n", "DELETED\r\n", CMD_DELETE}};
    (void)state;
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        struct world *world = begin(&(struct world_options){.seed = 1});
        struct engine *engine = embedded_engine(world_embedded(world));
        struct sim_peer *ann = join(world), *bob = join(world);
        send_line(world, ann, "put 0 0 60 1\r\na\r\nreserve\r\n",
                  "INSERTED 1\r\nRESERVED 1 1\r\na\r\n");
        refuse_next(engine, ends[i].kind, 1, ERR_JOURNAL_DOWN);
        send_line(world, ann, ends[i].line, "OUT_OF_MEMORY\r\n");
        send_line(world, bob, "delete 1\r\n", "NOT_FOUND\r\n");
        send_line(world, ann, ends[i].line, ends[i].answer);
        sim_peer_free(ann);
        world_free(world);
        world = begin(&(struct world_options){.seed = 1});
        engine = embedded_engine(world_embedded(world));
        ann = join(world);
        send_line(world, ann, "put 0 0 60 1\r\na\r\nreserve\r\n",
                  "INSERTED 1\r\nRESERVED 1 1\r\na\r\n");
        refuse_next(engine, ends[i].kind, 1, ERR_AGAIN);
        send_line(world, ann, ends[i].line, "OUT_OF_MEMORY\r\n");
        sim_peer_free(ann); /* it goes back at once */
        send_line(world, join(world), "reserve-with-timeout 0\r\n", "RESERVED 1 1\r\na\r\n");
        world_free(world);
    }
}

/* ---- DEADLINE_SOON ---- */

static void in_the_last_second_of_a_hold_nobody_waits(void **state)
{
    struct world *world = begin(&(struct world_options){.seed = 1});
    struct sim_peer *ann = join(world);
    (void)state;
    send_line(world, ann, "put 0 0 3 1\r\na\r\nreserve\r\n", "INSERTED 1\r\nRESERVED 1 1\r\na\r\n");
    send_line(world, ann, "reserve-with-timeout 0\r\n", "TIMED_OUT\r\n");
    send_line(world, ann, "reserve-with-timeout 1\r\n", "");
    pass(world, SECOND_US);
    expect(ann, "TIMED_OUT\r\n");
    send_line(world, ann, "reserve\r\n", "");
    pass(world, SECOND_US - 1);
    expect(ann, "");
    pass(world, 1);
    expect(ann, "DEADLINE_SOON\r\n");
    send_line(world, ann, "reserve-with-timeout 0\r\nreserve\r\n",
              "DEADLINE_SOON\r\nDEADLINE_SOON\r\n");
    send_line(world, ann, "put 0 0 3 1\r\nb\r\nreserve\r\n", "INSERTED 2\r\nRESERVED 2 1\r\nb\r\n");
    send_line(world, ann, "touch 1\r\nreserve-with-timeout 1\r\n", "TOUCHED\r\n");
    pass(world, SECOND_US);
    expect(ann, "TIMED_OUT\r\n");
    pass(world, 2 * SECOND_US); /* both are over: nothing is held */
    send_line(world, ann, "reserve\r\nreserve\r\nreserve-with-timeout 0\r\n",
              "RESERVED 1 1\r\na\r\nRESERVED 2 1\r\nb\r\nTIMED_OUT\r\n");
    world_free(world);
}

static void a_touch_that_is_refused_extends_no_hold(void **state)
{
    struct world *world = begin(&(struct world_options){.seed = 1});
    struct sim_peer *ann = join(world);
    (void)state;
    send_line(world, ann, "put 0 0 3 1\r\na\r\nreserve\r\n", "INSERTED 1\r\nRESERVED 1 1\r\na\r\n");
    pass(world, SECOND_US);
    refuse_next(embedded_engine(world_embedded(world)), CMD_TOUCH, 2, ERR_AGAIN);
    send_line(world, ann, "touch 1\r\ntouch 1\r\n", "OUT_OF_MEMORY\r\nOUT_OF_MEMORY\r\n");
    pass(world, SECOND_US);
    send_line(world, ann, "reserve\r\n", "DEADLINE_SOON\r\n");
    world_free(world);
}

static void a_ttr_of_one_second_is_soon_at_once(void **state)
{
    struct world *world = begin(&(struct world_options){.seed = 1});
    struct sim_peer *ann = join(world);
    (void)state;
    send_line(world, ann, "put 0 0 0 1\r\na\r\nreserve\r\nreserve\r\n",
              "INSERTED 1\r\nRESERVED 1 1\r\na\r\nDEADLINE_SOON\r\n");
    world_free(world);
}

/* ---- order, the disk, the end ---- */

static void a_thousand_commands_at_once_are_answered_in_order(void **state)
{
    struct buf asked = {0}, wanted = {0};
    (void)state;
    for (unsigned i = 1; i <= 200; i++) {
        buf_addf(&asked, "put 0 0 60 %u\r\n%0*u\r\nlist-tube-used\r\nreserve\r\nhm\r\n", i, (int)i,
                 i);
        buf_addf(&asked, "delete %u\r\n", i);
        buf_addf(&wanted, "INSERTED %u\r\nUSING default\r\nRESERVED %u %u\r\n%0*u\r\n", i, i, i,
                 (int)i, i);
        buf_addf(&wanted, "UNKNOWN_COMMAND\r\nDELETED\r\n");
    }
    buf_add_char(&wanted, 0);
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct world *world =
            begin(&(struct world_options){.seed = seed, .split = seed > 1, .disk_us = 200});
        struct sim_peer *ann = join(world);
        sim_peer_send(ann, buf_bytes(&asked));
        pass(world, 60 * SECOND_US);
        expect(ann, wanted.at);
        world_free(world);
    }
    buf_fini(&asked);
    buf_fini(&wanted);
}

static void behind_a_reserve_that_waits_nothing_is_done(void **state)
{
    struct world *world = begin(&(struct world_options){.seed = 1});
    struct sim_peer *ann = join(world), *bob = join(world);
    (void)state;
    send_line(world, ann, "reserve-with-timeout 5\r\nput 0 0 60 1\r\na\r\nhm\r\n", "");
    send_line(world, bob, "peek-ready\r\n", "NOT_FOUND\r\n");
    pass(world, 5 * SECOND_US);
    expect(ann, "TIMED_OUT\r\nINSERTED 1\r\nUNKNOWN_COMMAND\r\n");
    world_free(world);
}

/* Among so many jobs the delayed ones of a tube are looked for over several turns. */
static void behind_a_long_search_nothing_is_done(void **state)
{
    struct world *world = begin(&(struct world_options){.seed = 1});
    struct sim_peer *ann = join(world);
    struct buf asked = {0};
    (void)state;
    for (unsigned i = 0; i < MANY_JOBS; i++)
        buf_add_str(&asked, "put 0 100 60 0\r\n\r\n");
    sim_peer_send(ann, buf_bytes(&asked));
    pass(world, 10 * SECOND_US);
    struct bytes have = sim_peer_received(ann);
    assert_true(bytes_starts(have, BYTES("INSERTED 1\r\n")));
    sim_peer_take(ann, have.len);
    send_line(world, ann, "kick 2\r\nreserve-with-timeout 0\r\npeek-delayed\r\nreserve\r\n",
              "KICKED 2\r\nRESERVED 1 0\r\n\r\nFOUND 3 0\r\n\r\nRESERVED 2 0\r\n\r\n");
    buf_fini(&asked);
    world_free(world);
}

static void p1_inserted_and_deleted_mean_durable(void **state)
{
    struct world *world = begin(&(struct world_options){.seed = 1});
    struct sim_peer *ann = join(world);
    (void)state;
    world_hold_disk(world, true);
    send_line(world, ann,
              "put 0 0 60 1\r\na\r\nreserve\r\nuse t\r\ndelete 1\r\nput 0 0 60 1\r\nb\r\n", "");
    world_hold_disk(world, false);
    settle(world);
    expect(ann, "INSERTED 1\r\nRESERVED 1 1\r\na\r\nUSING t\r\nDELETED\r\nINSERTED 2\r\n");
    world_crash(world, WORLD_POWER);
    assert_int_equal(world_boot(world), OK);
    struct sim_peer *bob = join(world);
    send_line(world, bob, "peek 1\r\npeek 2\r\n", "NOT_FOUND\r\nFOUND 2 1\r\nb\r\n");
    world_free(world);
}

static void p7_a_failed_disk_is_said_in_words(void **state)
{
    struct world *world = begin(&(struct world_options){.seed = 1});
    struct sim_peer *ann = join(world), *bob = join(world);
    (void)state;
    send_line(world, ann, "put 0 0 60 1\r\na\r\nreserve\r\n",
              "INSERTED 1\r\nRESERVED 1 1\r\na\r\n");
    send_line(world, bob, "watch t\r\nignore default\r\nreserve\r\n",
              "WATCHING 2\r\nWATCHING 1\r\n");
    sim_disk_fail_at(world_disk(world), sim_disk_points(world_disk(world)), EIO);
    send_line(world, ann, "touch 1\r\nput 0 0 60 1\r\nb\r\npeek 1\r\n",
              "INTERNAL_ERROR\r\nINTERNAL_ERROR\r\nFOUND 1 1\r\na\r\n");
    expect(bob, "INTERNAL_ERROR\r\n");
    send_line(world, ann, "put 0 0 60 1\r\nc\r\ndelete 1\r\nreserve\r\n",
              "INTERNAL_ERROR\r\nINTERNAL_ERROR\r\nINTERNAL_ERROR\r\n");
    world_free(world);
}

static void in_drain_mode_puts_are_refused_and_all_else_goes_on(void **state)
{
    struct world *world = begin(&(struct world_options){.seed = 1});
    struct sim_peer *ann = join(world);
    (void)state;
    send_line(world, ann, "put 0 0 60 1\r\na\r\n", "INSERTED 1\r\n");
    world_refuse_pushes(world);
    send_line(world, ann, "put 0 0 60 1\r\nb\r\nreserve\r\ndelete 1\r\n",
              "DRAINING\r\nRESERVED 1 1\r\na\r\nDELETED\r\n");
    send_line(world, ann, "reserve-with-timeout 1\r\n", "");
    pass(world, SECOND_US);
    expect(ann, "TIMED_OUT\r\n");
    expect_figure(world, "stats\r\n", "draining", "true");
    world_free(world);
}

static void at_the_end_waits_are_answered_and_holds_go_back(void **state)
{
    struct world *world = begin(&(struct world_options){.seed = 1});
    struct sim_peer *ann = join(world), *bob = join(world), *cid = join(world);
    (void)state;
    send_line(world, ann, "put 0 0 60 1\r\na\r\nreserve\r\n",
              "INSERTED 1\r\nRESERVED 1 1\r\na\r\n");
    send_line(world, bob, "reserve\r\n", "");
    send_line(world, cid, "put 0 0 60 1\r\n", "");
    world_drain(world);
    settle(world);
    assert_true(sim_peer_closed(ann));
    expect(bob, "TIMED_OUT\r\n");
    assert_true(sim_peer_closed(bob));
    send_line(world, cid, "b\r\npeek 1\r\n", "INSERTED 2\r\n"); /* it had begun before */
    assert_true(sim_peer_closed(cid));
    settle(world);
    assert_false(world_is_up(world));
    assert_int_equal(world_boot(world), OK);
    expect_figure(world, "stats-job 1\r\n", "state", "ready");
    world_free(world);
}

/* ---- anything at all ---- */

static void add_random_command(struct sim_random *random, struct buf *out)
{
    static const char *const words[] = {
        "reserve-with-timeout 1",
        "reserve-with-timeout 0",
        "reserve",
        "peek-ready",
        "peek-buried",
        "stats",
        "list-tubes",
        "kick 2",
        "watch a",
        "watch b",
        "ignore a",
        "ignore default",
        "use a",
        "use default",
        "pause-tube a 1",
        "stats-tube a",
        "quit",
        "nonsense",
        "peek-delayed",
    };
    static const char *const on_jobs[] = {"delete %u",    "release %u 3 0", "release %u 9 1",
                                          "bury %u 1",    "touch %u",       "kick-job %u",
                                          "stats-job %u", "reserve-job %u", "peek %u"};
    unsigned id = 1 + (unsigned)sim_random_below(random, 60);
    switch (sim_random_below(random, 3)) {
    case 0:
        buf_addf(out, "put %u %u %u 3\r\nabc\r\n", (unsigned)sim_random_below(random, 3),
                 (unsigned)sim_random_below(random, 2), (unsigned)sim_random_below(random, 4));
        return;
    case 1:
        buf_add_str(out, words[sim_random_below(random, sizeof(words) / sizeof(words[0]))]);
        break;
    default: {
        char line[64];
        const char *form = on_jobs[sim_random_below(random, sizeof(on_jobs) / sizeof(on_jobs[0]))];
        const char *at = strchr(form, '%');
        (void)snprintf(line, sizeof(line), "%.*s%u%s", (int)(at - form), form, id, at + 2);
        buf_add_str(out, line);
    }
    }
    buf_add_str(out, "\r\n");
}

/* Ends, one way or another, the job that the client has been handed last. */
static void use_job(struct sim_random *random, struct sim_peer *peer, struct buf *out)
{
    static const char *const verbs[] = {"delete", "touch", "delete", "bury", "release"};
    struct bytes have = sim_peer_received(peer);
    uint64_t verb = sim_random_below(random, sizeof(verbs) / sizeof(verbs[0]));
    const char *at = have.len ? memmem(have.at, have.len, "RESERVED ", 9) : NULL;
    size_t digits = 0;
    while (at && at[9 + digits] >= '0' && at[9 + digits] <= '9')
        digits++;
    if (digits)
        buf_addf(out, "%s %.*s%s\r\n", verbs[verb], (int)digits, at + 9,
                 verb == 3   ? " 1"
                 : verb == 4 ? " 1 0"
                             : "");
    sim_peer_take(peer, have.len);
}

static void random_life(uint64_t seed)
{
    struct world *world =
        begin(&(struct world_options){.seed = seed, .split = seed % 2, .disk_us = 300});
    struct sim_random *random = world_random(world);
    struct sim_peer *peers[CLIENTS] = {NULL};
    struct buf bytes = {0};
    for (int step = 0; step < RANDOM_STEPS; step++) {
        struct sim_peer **peer = &peers[sim_random_below(random, CLIENTS)];
        if (*peer && (sim_peer_closed(*peer) || sim_random_chance(random, 30))) {
            sim_peer_free(*peer);
            *peer = NULL;
        }
        if (!*peer)
            *peer = join(world);
        bytes.len = 0;
        use_job(random, *peer, &bytes);
        for (uint64_t i = sim_random_below(random, 6); i > 0; i--)
            add_random_command(random, &bytes);
        sim_peer_send(*peer, buf_bytes(&bytes));
        if (sim_random_chance(random, 20))
            sim_peer_shut(*peer);
        if (sim_random_chance(random, 500))
            pass(world, (int64_t)sim_random_below(random, SECOND_US));
        if (step % 100 == 0)
            core_valid(world_core(world));
    }
    for (int i = 0; i < CLIENTS; i++) {
        if (peers[i])
            sim_peer_free(peers[i]);
    }
    settle(world);
    struct core_totals totals;
    core_totals(world_core(world), &totals);
    assert_int_equal(totals.jobs[JOB_RESERVED], 0);
    assert_int_equal(totals.waiters, 0);
    assert_true(totals.pushed > 100 && totals.finished > 10);
    expect_figure(world, "stats\r\n", "current-connections", "1");
    expect_figure(world, "stats-tube default\r\n", "current-using", "1");
    expect_figure(world, "stats-tube default\r\n", "current-watching", "1");
    core_valid(world_core(world));
    buf_fini(&bytes);
    world_free(world);
}

static void after_any_life_nothing_is_held_or_waited_for(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= sim_lives(LIVES); seed++)
        random_life(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_command_answers_in_its_words),
        cmocka_unit_test(a_refused_line_does_not_end_the_connection),
        cmocka_unit_test(a_web_page_cannot_give_commands),
        cmocka_unit_test(http_behind_commands_ends_the_connection_when_they_are_answered),
        cmocka_unit_test(jobs_come_by_priority_then_id_across_tubes),
        cmocka_unit_test(tubes_live_while_somebody_needs_them),
        cmocka_unit_test(a_paused_tube_gives_nothing_until_its_time),
        cmocka_unit_test(statistics_count_what_clients_do),
        cmocka_unit_test(p6_what_a_connection_held_goes_back_at_once),
        cmocka_unit_test(p6_a_job_that_did_not_arrive_counts_no_attempt),
        cmocka_unit_test(p6_a_crash_gives_back_what_connections_held),
        cmocka_unit_test(p3_a_delay_counts_from_when_its_put_came),
        cmocka_unit_test(p6_who_has_gone_while_waiting_gets_no_job),
        cmocka_unit_test(p6_a_half_closed_client_that_waits_times_out),
        cmocka_unit_test(p4_a_job_belongs_to_who_reserved_it),
        cmocka_unit_test(p4_what_is_refused_for_a_while_ends_no_hold),
        cmocka_unit_test(a_job_whose_ttr_is_over_may_be_deleted_by_anybody),
        cmocka_unit_test(what_ran_out_before_its_client_left_counts_as_no_abandoned_job),
        cmocka_unit_test(in_the_last_second_of_a_hold_nobody_waits),
        cmocka_unit_test(a_touch_that_is_refused_extends_no_hold),
        cmocka_unit_test(a_ttr_of_one_second_is_soon_at_once),
        cmocka_unit_test(a_thousand_commands_at_once_are_answered_in_order),
        cmocka_unit_test(behind_a_reserve_that_waits_nothing_is_done),
        cmocka_unit_test(behind_a_long_search_nothing_is_done),
        cmocka_unit_test(p1_inserted_and_deleted_mean_durable),
        cmocka_unit_test(p7_a_failed_disk_is_said_in_words),
        cmocka_unit_test(in_drain_mode_puts_are_refused_and_all_else_goes_on),
        cmocka_unit_test(at_the_end_waits_are_answered_and_holds_go_back),
        cmocka_unit_test(after_any_life_nothing_is_held_or_waited_for),
    };
    log_level_set((enum log_level)(LOG_ERROR + 1)); /* failing disks are not news here */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
