/*
 * What consumers of one daemon get of what another daemon pushes, on simulated servers: jobs that
 * lie beside known ones come in the same visit, Redis tells how many are left, and while pushes of
 * the consumers' own daemon bring what they want, nobody looks for others' jobs, nor for too long
 * does not.
 */
#include "redis_bed.h"

enum { PARTITIONS = 16, CONSUMERS = 8, LATER_US = 100 * MS + 1 };

static const struct bytes topic = {"t", 1};
static struct sim_cluster cluster;
static struct client takers[CONSUMERS], pusher;
static int64_t began_us;

static void start_two(bool in_a_cluster)
{
    options.partitions = PARTITIONS;
    options.waiters_max = 2 * CONSUMERS;
    add_address(7000);
    if (in_a_cluster) {
        options.url.topology = REDIS_CLUSTER;
        sim_cluster_init(&cluster, servers, MASTERS, MASTERS, 1);
        add_address(7001);
        add_address(7002);
    }
    start_pair();
    began_us = now_us;
}

/* An id whose jobs lie in that partition; in `room`. */
static struct bytes id_in(uint32_t partition, uint32_t number, char room[24])
{
    for (uint32_t i = 0;; i++) {
        int len = snprintf(room, 24, "%u-%u", number, i);
        struct cmd push = {
            .kind = CMD_PUSH,
            .push = {.id = bytes_of(room, (size_t)len), .topic = topic, .ttr_us = SECOND_US}};
        uint32_t of = 0;
        enum err err = OK;
        if (script_route(&engine->space, &push, &of, &err) == SCRIPT_ONE && of == partition)
            return push.push.id;
    }
}

static void submit_push(uint32_t partition, uint32_t number)
{
    struct engine *port = redis_engine_port(engine);
    char room[24];
    struct cmd push = {.kind = CMD_PUSH,
                       .push = {.topic = topic,
                                .id = id_in(partition, number, room),
                                .due_us = began_us + number,
                                .ttr_us = 60 * SECOND_US}};
    pusher = (struct client){.ticket.answered = client_answered};
    (void)port->verbs->submit(port, &push, &pusher.ticket); /* it is told */
}

static void push_to(uint32_t partition, uint32_t number)
{
    submit_push(partition, number);
    while (!pusher.answers)
        turn();
    assert_int_equal(pusher.err, OK);
}

/* `listed`: topics are served in the order listed, though there is one. */
static void submit_reserve_as(struct client *taker, int64_t wait_us, bool listed)
{
    struct engine *port = redis_engine_port(engine);
    struct cmd take = {.kind = CMD_RESERVE,
                       .reserve = {.topics = &topic,
                                   .topic_count = 1,
                                   .max = 1,
                                   .wait_us = wait_us,
                                   .listed_order = listed}};
    *taker = (struct client){.ticket.answered = client_answered, .clock_us = &now_us};
    (void)port->verbs->submit(port, &take, &taker->ticket); /* it is told */
}

static void submit_reserve(struct client *taker, int64_t wait_us)
{
    submit_reserve_as(taker, wait_us, false);
}

static enum err take_one(struct client *taker)
{
    submit_reserve(taker, 0);
    while (!taker->answers)
        turn();
    return taker->err;
}

static uint32_t partition_of(const struct client *taker)
{
    return (uint32_t)(taker->seq % PARTITIONS);
}

static struct hint *hint_of(uint32_t partition)
{
    return &topic_cache_find(&engine->consumers.topic_cache, topic)->hints[partition];
}

/* This daemon knows of one job in each of the first CONSUMERS partitions; the other one has pushed
 * as many more into the first of these. */
static void push_beside(void)
{
    start_two(false);
    assert_int_equal(take_one(&takers[0]), ERR_EMPTY);
    for (uint32_t i = 0; i < CONSUMERS; i++)
        push_to(i, i);
    change_daemon();
    for (uint32_t i = 0; i < CONSUMERS; i++)
        push_to(0, CONSUMERS + i);
    change_daemon();
    for (uint32_t i = 0; i < CONSUMERS; i++) {
        assert_int_equal(hint_of(i)->what, READY);
        assert_int_equal(hint_of(i)->close_jobs, 1);
    }
}

/* All have waited since one turn, and get a job each. Returns how many come from the first
 * partition. */
static uint32_t await_all(void)
{
    uint32_t of_first = 0;
    turns(5 * MS);
    for (uint32_t i = 0; i < CONSUMERS; i++) {
        assert_int_equal(takers[i].answers, 1);
        assert_int_equal(takers[i].count, 1);
        of_first += partition_of(&takers[i]) == 0;
    }
    return of_first;
}

static uint32_t take_at_once(void)
{
    for (uint32_t i = 0; i < CONSUMERS; i++)
        submit_reserve(&takers[i], SECOND_US);
    return await_all();
}

/* Each visit of a partition costs Redis as much as several jobs of one. */
static void what_lies_beside_a_known_job_comes_with_it(void **state)
{
    (void)state;
    push_beside();
    assert_int_equal(take_at_once(), CONSUMERS);
    for (uint32_t i = 0; i < CONSUMERS; i++) /* nothing more was taken, and given back */
        assert_int_equal(hint_of(i)->what, READY);
    assert_int_equal(take_at_once(), 1);
    assert_int_equal(take_one(&takers[0]), ERR_EMPTY);
    stop_pair();
}

/* Nobody else was told of it: it is not left where it is because another partition has enough. */
static void p2_a_job_that_this_daemon_alone_was_told_of_is_taken(void **state)
{
    (void)state;
    uint32_t of_last = 0;
    push_beside();
    hint_of(CONSUMERS - 1)->notified_alone = true;
    assert_int_equal(take_at_once(), CONSUMERS - 1);
    for (uint32_t i = 0; i < CONSUMERS; i++)
        of_last += partition_of(&takers[i]) == CONSUMERS - 1;
    assert_int_equal(of_last, 1);
    stop_pair();
}

/* Of two dialects, one of which always says that topics are served in the order listed: for one
 * topic that is the same. */
static void who_waits_for_one_topic_shares_it_with_all_others(void **state)
{
    (void)state;
    push_beside();
    for (uint32_t i = 0; i < CONSUMERS; i++)
        submit_reserve_as(&takers[i], SECOND_US, i % 2 == 0);
    assert_int_equal(await_all(), CONSUMERS);
    for (uint32_t i = 0; i < CONSUMERS; i++) /* nothing more was taken, and given back */
        assert_int_equal(hint_of(i)->what, READY);
    stop_pair();
}

static void what_is_due_much_later_does_not_come_with_a_known_job(void **state)
{
    (void)state;
    start_two(false);
    assert_int_equal(take_one(&takers[0]), ERR_EMPTY);
    turns(LATER_US);
    for (uint32_t i = 0; i < CONSUMERS; i++)
        push_to(i, i);
    change_daemon();
    push_to(0, LATER_US);
    change_daemon();
    assert_int_equal(take_at_once(), 1);
    stop_pair();
}

/* A promote of ours made a job ready there, of which nobody else is told, while what was asked of
 * that partition comes from another one. */
static void p2_a_promoted_job_is_not_left_to_a_reserve_that_may_not_be_done(void **state)
{
    (void)state;
    push_beside();
    for (uint32_t i = 0; i < CONSUMERS; i++)
        submit_reserve(&takers[i], SECOND_US);
    turn_alone();
    consumers_promoted(&engine->consumers, topic, CONSUMERS - 1);
    assert_true(hint_of(CONSUMERS - 1)->notified_alone);
    assert_int_equal(await_all(), CONSUMERS);
    assert_false(hint_of(CONSUMERS - 1)->notified_alone); /* nobody here needs it: it is told on */
    stop_pair();
}

/* … so that the next ones are asked for there. */
static void redis_tells_how_many_close_jobs_are_left(void **state)
{
    (void)state;
    static const uint32_t told[] = {4, 4, 3, 2, 1};
    start_two(false);
    assert_int_equal(take_one(&takers[0]), ERR_EMPTY);
    change_daemon();
    for (uint32_t i = 0; i < 6; i++)
        push_to(3, i);
    change_daemon();
    turns(5 * MS);
    for (size_t i = 0; i < sizeof(told) / sizeof(told[0]); i++) {
        assert_int_equal(take_one(&takers[0]), OK);
        assert_int_equal(hint_of(3)->close_jobs, told[i]);
    }
    stop_pair();
}

/* We took the last job of a partition, and left no mark there. */
static void take_last_of(uint32_t partition, uint32_t number)
{
    push_to(partition, number);
    assert_int_equal(take_one(&takers[0]), OK);
    assert_int_equal(hint_of(partition)->what, TAKEN);
}

/* A push and a reserve, one after the other: no look, and no mark that the other daemon's next push
 * would have to answer by a notice. */
static void who_waits_takes_what_is_pushed_here_and_looks_for_nothing_else(void **state)
{
    (void)state;
    start_two(false);
    assert_int_equal(take_one(&takers[0]), ERR_EMPTY);
    take_last_of(1, 1);
    take_last_of(2, 2);
    uint64_t before = scripts_sent();
    submit_push(3, 3);
    submit_reserve(&takers[0], SECOND_US);
    turns(5 * MS);
    assert_int_equal(takers[0].answers, 1);
    assert_int_equal(partition_of(&takers[0]), 3);
    assert_int_equal(scripts_sent() - before, 2);
    stop_pair();
}

/* So many partitions of one server are thought to have jobs. */
static void know_jobs_at(const struct node *node, uint32_t count)
{
    for (uint32_t i = 0; i < PARTITIONS && count; i++) {
        if (script_requests_node(&engine->calls, i) != node)
            continue;
        *hint_of(i) = (struct hint){
            .what = READY, .first = {.us = began_us}, .close_jobs = 1, .at_us = now_us};
        count--;
    }
}

/* They are not in the group of those who want each job's own ttr. */
static void submit_reserve_with_ttr(struct client *taker)
{
    struct engine *port = redis_engine_port(engine);
    struct cmd take = {.kind = CMD_RESERVE,
                       .reserve = {.topics = &topic,
                                   .topic_count = 1,
                                   .max = 1,
                                   .wait_us = SECOND_US,
                                   .ttr_us = 30 * SECOND_US}};
    *taker = (struct client){.ticket.answered = client_answered, .clock_us = &now_us};
    (void)port->verbs->submit(port, &take, &taker->ticket); /* it is told */
}

/* The first daemon gets no answer from this server any more. */
static void cut_off(const struct node *node)
{
    for (unsigned i = 0; i < MASTERS; i++) {
        if (node->link.address.port == 7000 + i)
            sim_network_cut(network, 1, i, SIM_CUT_ALL);
    }
}

static void stop_mended_pair(void)
{
    for (unsigned i = 0; i < MASTERS; i++)
        sim_network_cut(network, 1, i, SIM_WHOLE);
    turns(5 * SECOND_US);
    stop_pair();
}

/* A push to a silent server is not answered: within so long (`us`) a job of the other daemon, in a
 * partition whose last job was taken, is found though nobody was told of it. `known`: so many
 * partitions of that server are thought to have jobs. `groups`: of one consumer each. */
static void take_anothers_job(uint32_t known, uint32_t groups, int64_t us)
{
    uint32_t there = 0, silent = 0;
    start_two(true);
    const struct node *silent_node = script_requests_node(&engine->calls, 0);
    while (script_requests_node(&engine->calls, there) == silent_node)
        there++;
    submit_reserve(&takers[0], SECOND_US); /* which leaves marks where there is nothing */
    turns(5 * MS);
    push_to(there, 1);
    turns(5 * MS);
    assert_int_equal(takers[0].answers, 1);
    assert_int_equal(hint_of(there)->what, TAKEN);
    cut_off(silent_node);
    know_jobs_at(silent_node, known);
    submit_push(silent, 2);
    submit_reserve(&takers[0], SECOND_US);
    if (groups > 1)
        submit_reserve_with_ttr(&takers[1]);
    change_daemon();
    push_to(there, 3);
    change_daemon();
    int64_t pushed_us = now_us;
    turns(40 * MS);
    const struct client *taker = &takers[groups > 1 && takers[1].answers];
    assert_int_equal(taker->answers, 1);
    assert_int_equal(partition_of(taker), there);
    assert_true(taker->answered_us - pushed_us <= us);
    stop_mended_pair();
}

static void p2_others_jobs_do_not_wait_for_pushes_that_are_under_way(void **state)
{
    (void)state;
    take_anothers_job(0, 1, 25 * MS);
}

static void p2_others_jobs_do_not_wait_for_those_that_a_silent_server_may_have(void **state)
{
    (void)state;
    take_anothers_job(2, 1, 25 * MS);
}

/* The one job that it brings is only for one of them, so they do not both wait for it. */
static void two_groups_do_not_expect_the_same_push(void **state)
{
    (void)state;
    take_anothers_job(0, 2, 10 * MS);
}

/* A look into a silent server's partition is not answered, and its consumer has gone: of a job that
 * this daemon alone is told of elsewhere, another one is told at once. */
static void p2_a_told_job_is_passed_on_though_a_server_is_silent(void **state)
{
    (void)state;
    uint32_t there = 0;
    start_two(true);
    const struct node *silent = script_requests_node(&engine->calls, 0);
    while (script_requests_node(&engine->calls, there) == silent)
        there++;
    cut_off(silent);
    submit_reserve(&takers[0], 100 * MS);
    turns(150 * MS);
    assert_int_equal(takers[0].answers, 1);
    assert_int_equal(takers[0].count, 0);
    uint64_t before = scripts_sent();
    consumers_ready(&engine->consumers, topic, there, NOTIFIED_ALONE);
    assert_true(hint_of(there)->notified_alone);
    turn();
    assert_false(hint_of(there)->notified_alone);
    assert_true(scripts_sent() > before);
    stop_mended_pair();
}

/* The request that was to take it fails: whether the job is still there the next answer says. */
static void p2_that_a_told_job_was_requested_is_kept_when_the_request_fails(void **state)
{
    (void)state;
    push_beside();
    hint_of(0)->notified_alone = true;
    submit_reserve(&takers[0], SECOND_US);
    turn_alone();
    assert_true(hint_of(0)->alone_call);
    sim_redis_settings(servers[0])->denied = " evalsha ";
    int64_t until_us = now_us + 2 * SECOND_US;
    while (!hint_of(0)->failed && now_us < until_us)
        turn();
    sim_redis_settings(servers[0])->denied = NULL;
    assert_true(hint_of(0)->failed);
    assert_true(hint_of(0)->alone_call);
    turns(2 * SECOND_US);
    assert_int_equal(takers[0].count, 1);
    stop_mended_pair();
}

static uint64_t requests_sent_to(uint32_t partition)
{
    return engine->calls.partitions[partition].number;
}

/* Two groups have requests under way to a partition. The first one brings a job and tells that one
 * is left; the second one takes that, and finds none more. We are notified of another job before
 * both are answered: that the second one found none is outdated, whatever the first one said. */
static void p2_a_notice_outdates_all_requests_that_are_under_way(void **state)
{
    (void)state;
    start_two(false);
    assert_int_equal(take_one(&takers[0]), ERR_EMPTY);
    push_to(0, 1);
    push_to(0, 2);
    uint64_t before = requests_sent_to(0);
    submit_reserve(&takers[0], SECOND_US);
    submit_reserve_with_ttr(&takers[1]);
    submit_reserve_with_ttr(&takers[2]);
    turn_alone();
    assert_int_equal(requests_sent_to(0), before + 2);
    consumers_ready(&engine->consumers, topic, 0, NOTIFIED_ALL);
    turns(5 * MS);
    assert_int_equal(takers[0].answers + takers[1].answers + takers[2].answers, 2);
    assert_int_equal(requests_sent_to(0), before + 3); /* for the one who waits on */
    assert_int_equal(hint_of(0)->what, EMPTY);
    stop_pair();
}

/* A request that was sent before we were notified says nothing of the job, whatever it finds. */
static void p2_that_a_told_job_was_requested_is_kept_when_an_earlier_request_ends(void **state)
{
    (void)state;
    start_two(false);
    assert_int_equal(take_one(&takers[0]), ERR_EMPTY);
    take_last_of(0, 1);
    uint64_t before = requests_sent_to(0);
    submit_reserve(&takers[0], SECOND_US);
    turn_alone();
    assert_int_equal(requests_sent_to(0), before + 1);
    uint64_t later_call = engine->consumers.last_call + 1;
    topic_requested_alone(topic_cache_find(&engine->consumers.topic_cache, topic), 0, later_call);
    turns(5 * MS);
    assert_int_equal(hint_of(0)->what, EMPTY);
    assert_int_equal(hint_of(0)->alone_call, later_call);
    stop_pair();
}

/* A push that makes no job is no reason to wait any longer. */
static void p2_a_push_that_is_refused_is_waited_for_no_longer(void **state)
{
    (void)state;
    start_two(false);
    assert_int_equal(take_one(&takers[0]), ERR_EMPTY);
    take_last_of(1, 1); /* whose id is there */
    change_daemon();
    push_to(1, 2);
    change_daemon();
    submit_push(1, 1);
    submit_reserve(&takers[0], SECOND_US);
    turns(6 * MS);
    assert_int_equal(pusher.err, ERR_EXISTS);
    assert_int_equal(takers[0].answers, 1);
    stop_pair();
}

int main(void)
{
#define STARTED(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        STARTED(what_lies_beside_a_known_job_comes_with_it),
        STARTED(p2_a_job_that_this_daemon_alone_was_told_of_is_taken),
        STARTED(who_waits_for_one_topic_shares_it_with_all_others),
        STARTED(what_is_due_much_later_does_not_come_with_a_known_job),
        STARTED(p2_a_promoted_job_is_not_left_to_a_reserve_that_may_not_be_done),
        STARTED(p2_that_a_told_job_was_requested_is_kept_when_the_request_fails),
        STARTED(p2_a_notice_outdates_all_requests_that_are_under_way),
        STARTED(p2_that_a_told_job_was_requested_is_kept_when_an_earlier_request_ends),
        STARTED(redis_tells_how_many_close_jobs_are_left),
        STARTED(who_waits_takes_what_is_pushed_here_and_looks_for_nothing_else),
        STARTED(p2_others_jobs_do_not_wait_for_pushes_that_are_under_way),
        STARTED(p2_others_jobs_do_not_wait_for_those_that_a_silent_server_may_have),
        STARTED(p2_a_told_job_is_passed_on_though_a_server_is_silent),
        STARTED(two_groups_do_not_expect_the_same_push),
        STARTED(p2_a_push_that_is_refused_is_waited_for_no_longer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
