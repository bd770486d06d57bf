/*
 * What a daemon's connections hold while it, or Redis, is silent: two daemons on one server. Time
 * is simulated: what is waited for takes none.
 */
#include "base/codec.h"
#include "redis_bed.h"
#include "redis_forget.h"

enum { SILENT_US = 7 * SECOND_US }; /* longer than a daemon may be without being taken for dead */

static const struct bytes topic = {"t", 1};

static struct client push_one(void)
{
    struct cmd push = {.kind = CMD_PUSH,
                       .push = {.topic = topic, .due_us = 1, .ttr_us = 600 * INT64_C(1000000)}};
    return ask_for(&push, MS);
}

/* For a connection, as clients of beanstalkd have it. */
static struct cmd take_bound(int64_t wait_us)
{
    return (struct cmd){
        .kind = CMD_RESERVE,
        .reserve = {
            .topics = &topic, .topic_count = 1, .max = 1, .wait_us = wait_us, .bound = true}};
}

static struct client finish(const struct client *held)
{
    struct cmd end = {.kind = CMD_FINISH, .job = {.ref.seq = held->seq, .lease = held->lease}};
    return ask_for(&end, MS);
}

/* Two daemons that have heard of each other for long enough to say who is dead; the one that the
 * test is about has a job. */
static struct client begin_with_a_held_job(void)
{
    struct cmd take = take_bound(0);
    add_address(7000);
    start_pair();
    turns_of_both(6 * SECOND_US);
    assert_int_equal(push_one().err, OK);
    struct client held = ask_for(&take, MS);
    assert_int_equal(held.count, 1);
    return held;
}

/* The other daemon waits for a job. */
static void park_other(struct client *taker)
{
    struct cmd take = take_bound(60 * INT64_C(1000000));
    change_daemon();
    struct engine *port = redis_engine_port(engine);
    *taker = (struct client){.ticket.answered = client_answered};
    (void)port->verbs->submit(port, &take, &taker->ticket); /* the taker is told */
    change_daemon();
}

/* The holder is no more dead than Redis was. */
static void p4_who_holds_a_job_keeps_it_while_redis_is_away_for_long(void **state)
{
    static struct client taker;
    (void)state;
    struct client held = begin_with_a_held_job();
    park_other(&taker);
    sim_network_down(network, 0, true);
    turns_of_both(SILENT_US);
    sim_network_down(network, 0, false);
    change_daemon();
    turns(3 * SECOND_US); /* the other one is back first */
    change_daemon();
    turns_of_both(3 * SILENT_US);
    assert_int_equal(taker.count, 0);
    assert_int_equal(finish(&held).err, OK);
    stop_pair();
}

/* Its word that it lives is old, so what its connections held goes to others; when it goes on, its
 * client cannot end what another one holds now. */
static void p4_a_daemon_that_froze_finds_its_holds_given_to_others(void **state)
{
    static struct client taker;
    (void)state;
    struct client held = begin_with_a_held_job();
    park_other(&taker);
    change_daemon();
    turns(4 * SECOND_US);
    assert_int_equal(taker.count, 0);
    turns(5 * SECOND_US); /* of the other one alone */
    assert_int_equal(taker.count, 1);
    change_daemon();
    turns_of_both(100 * MS);
    assert_int_equal(finish(&held).err, ERR_STALE_LEASE);
    assert_int_equal(push_one().err, OK); /* it serves on */
    change_daemon();
    assert_int_equal(finish(&taker).err, OK);
    change_daemon();
    stop_pair();
}

/* The first daemon hears nothing any more, and cannot subscribe. */
static void deafen_the_first(void)
{
    struct list *all = &servers[0]->conns;
    sim_redis_settings(servers[0])->denied = " ssubscribe ";
    for (struct list *at = all->next; at != all; at = at->next) {
        struct sim_redis_conn *conn = LIST_ENTRY(at, struct sim_redis_conn, place);
        if (conn->channel_count) {
            conn->closed = true;
            return;
        }
    }
}

/* The other one finds it silent, and is not told that it is back. */
static void p4_a_daemon_that_was_silent_for_a_moment_keeps_its_jobs_though_no_notice_is_heard(
    void **state)
{
    enum { SILENCES = 10 };
    static struct client taker;
    (void)state;
    struct client held = begin_with_a_held_job();
    park_other(&taker);
    deafen_the_first();
    for (int i = 0; i < SILENCES; i++) {
        change_daemon();
        turns(2200 * MS); /* of the other one alone */
        change_daemon();
        turns_of_both(6100 * MS);
        assert_int_equal(taker.count, 0);
    }
    assert_int_equal(finish(&held).err, OK);
    sim_redis_settings(servers[0])->denied = NULL;
    stop_pair();
}

/* After what it was told before. */
static void look_at_all(void)
{
    turn();
    (void)loop_update_time(options.loop);
    members_request_list(&engine->members);
    members_heartbeat(&engine->members);
    turn();
}

static bool holds_other_for_silent(void)
{
    assert_int_equal(engine->members.count, 1);
    return engine->members.others[0].silent;
}

/* Redis' clock was set back by an hour, so each daemon's bounds make the time of its scripts. The
   other one is less sure of the clock: by its bounds, the holder's heartbeat is from the future. */
static void p4_a_daemon_whose_heartbeat_is_from_the_future_keeps_its_jobs(void **state)
{
    static struct client taker;
    (void)state;
    struct client held = begin_with_a_held_job();
    park_other(&taker);
    other_engine->calls.partitions[0].clock.least_us -= 8 * MS;
    sim_redis_settings(servers[0])->ahead_us = -3600 * INT64_C(1000000);
    look_at_all();
    change_daemon();
    look_at_all();
    turn(); /* it is answered */
    assert_false(holds_other_for_silent());
    change_daemon();
    turns_of_both(2 * SECOND_US);
    assert_int_equal(taker.count, 0);
    assert_int_equal(finish(&held).err, OK);
    stop_pair();
}

/* Redis has lost who was there, by a save that was older, and the other one is the first to say
   that it lives. */
static void p4_a_daemon_whose_heartbeats_redis_lost_keeps_its_jobs(void **state)
{
    static struct client taker;
    (void)state;
    struct client held = begin_with_a_held_job();
    park_other(&taker);
    forget_heartbeats_of(servers[0], engine);
    change_daemon();
    look_at_all();
    turn(); /* it is answered */
    assert_true(holds_other_for_silent());
    change_daemon();
    turns_of_both(2 * SECOND_US);
    assert_int_equal(taker.count, 0);
    change_daemon();
    assert_false(holds_other_for_silent());
    change_daemon();
    assert_int_equal(finish(&held).err, OK);
    stop_pair();
}

/* It died just before. */
static void p6_what_was_held_by_a_daemon_whose_heartbeats_redis_lost_is_given_back(void **state)
{
    static struct client taker;
    (void)state;
    (void)begin_with_a_held_job();
    park_other(&taker);
    forget_heartbeats_of(servers[0], engine);
    change_daemon();
    turns(18 * SECOND_US); /* of the other one alone */
    assert_int_equal(taker.count, 1);
    change_daemon();
    stop_pair();
}

/* Its last heartbeat was noted by a clock that was an hour ahead. */
static void p6_what_was_held_by_a_daemon_that_died_in_the_future_is_given_back(void **state)
{
    static struct client taker;
    char record[9] = {SCRIPT_SERVES};
    struct buf set = {0};
    (void)state;
    (void)begin_with_a_held_job();
    park_other(&taker);
    put_u64(record + 1, (uint64_t)(now_us + 3600 * INT64_C(1000000)));
    buf_addf(&set, "*4\r\n$4\r\nHSET\r\n$7\r\n{q:0}:h\r\n$9\r\nh");
    buf_add(&set, engine->space.daemon, SCRIPT_NAME);
    buf_addf(&set, "\r\n$9\r\n");
    buf_add(&set, record, sizeof(record));
    buf_addf(&set, "\r\n");
    tell_server(servers[0], buf_bytes(&set));
    buf_fini(&set);
    change_daemon();
    turns(15 * SECOND_US); /* of the other one alone */
    assert_int_equal(taker.count, 1);
    change_daemon();
    stop_pair();
}

/* It leaves word in the partition whenever it comes back, later than it was last heard of: so it
 * looks like one that has just come when it is taken for dead. */
static void p6_what_was_held_by_a_daemon_that_died_just_after_it_came_back_is_given_back(
    void **state)
{
    static struct client taker;
    (void)state;
    (void)begin_with_a_held_job();
    park_other(&taker);
    turns_of_both(600 * MS); /* between two heartbeats */
    sim_network_reset(network, 1, 0);
    turns_of_both(100 * MS);
    change_daemon();
    turns(12 * SECOND_US); /* of the other one alone */
    assert_int_equal(taker.count, 1);
    change_daemon();
    stop_pair();
}

/* A daemon where nobody waits has asked to be told of jobs, so all are told that there is one for
 * the first daemon that waits. This one hangs, so it is the next one's. */
static void p6_a_job_for_a_daemon_that_hangs_is_another_ones_within_a_second(void **state)
{
    static struct client first, second, pusher;
    struct cmd take = take_bound(0), wait = take_bound(60 * INT64_C(1000000));
    struct cmd push = {.kind = CMD_PUSH,
                       .push = {.topic = topic, .due_us = 1, .ttr_us = SECOND_US}};
    (void)state;
    options.partitions = 1;
    struct client held = begin_with_a_held_job();
    assert_int_equal(finish(&held).err, OK);
    assert_int_equal(ask_for(&take, MS).err, ERR_EMPTY);
    park_other(&first);
    turns_of_both(50 * MS);
    second = pusher = (struct client){.ticket.answered = client_answered};
    (void)redis_engine_port(engine)->verbs->submit(redis_engine_port(engine), &wait,
                                                   &second.ticket); /* it is told */
    turns_of_both(50 * MS);
    change_daemon();
    (void)redis_engine_port(engine)->verbs->submit(redis_engine_port(engine), &push,
                                                   &pusher.ticket); /* the same */
    turn();
    change_daemon();
    turns(SECOND_US + 20 * MS); /* of the other one alone */
    assert_int_equal(first.count, 0);
    assert_int_equal(second.count, 1);
    stop_pair();
}

/* Nobody but who waits for what does not come; and a heartbeat a second. */
static void a_daemon_with_one_who_waits_asks_once_a_second(void **state)
{
    static struct client taker;
    struct cmd take = take_bound(60 * INT64_C(1000000));
    (void)state;
    add_address(7000);
    options.partitions = 16;
    assert_int_equal(start(), OK);
    assert_int_equal(push_one().err, OK);
    assert_int_equal(ask_for(&take, MS).count, 1);
    taker = (struct client){.ticket.answered = client_answered};
    (void)redis_engine_port(engine)->verbs->submit(redis_engine_port(engine), &take,
                                                   &taker.ticket); /* the taker is told */
    turns(15 * SECOND_US);
    uint64_t before = 0, after = 0;
    for (uint32_t i = 0; i < options.partitions; i++)
        before += engine->calls.partitions[i].number;
    turns(20 * SECOND_US);
    for (uint32_t i = 0; i < options.partitions; i++)
        after += engine->calls.partitions[i].number;
    assert_in_range(after - before, 19, 21);
    assert_int_equal(taker.answers, 0);
}

int main(void)
{
#define STARTED(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        STARTED(p4_who_holds_a_job_keeps_it_while_redis_is_away_for_long),
        STARTED(p4_a_daemon_that_froze_finds_its_holds_given_to_others),
        STARTED(p4_a_daemon_that_was_silent_for_a_moment_keeps_its_jobs_though_no_notice_is_heard),
        STARTED(p4_a_daemon_whose_heartbeat_is_from_the_future_keeps_its_jobs),
        STARTED(p4_a_daemon_whose_heartbeats_redis_lost_keeps_its_jobs),
        STARTED(p6_what_was_held_by_a_daemon_whose_heartbeats_redis_lost_is_given_back),
        STARTED(p6_what_was_held_by_a_daemon_that_died_in_the_future_is_given_back),
        STARTED(p6_what_was_held_by_a_daemon_that_died_just_after_it_came_back_is_given_back),
        STARTED(p6_a_job_for_a_daemon_that_hangs_is_another_ones_within_a_second),
        STARTED(a_daemon_with_one_who_waits_asks_once_a_second),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
