/*
 * Requests whose answer is lost, or comes when nobody waits for it any more, and what a server
 * refuses: on a simulated Redis. Time is simulated: what is waited for takes none.
 */
#include "engine/redis/fetch_parts.h"
#include "redis_bed.h"

static const int64_t HOUR_US = INT64_C(3600) * SECOND_US;
static const struct bytes topic = {"v", 1};
static struct sim_cluster cluster;

static void start_on_one_server(void)
{
    options.partitions = 1;
    add_address(7000);
    assert_int_equal(start(), OK);
}

/* Its lease lasts for an hour: only what gives it back brings it again. */
static struct cmd a_push(void)
{
    return (struct cmd){.kind = CMD_PUSH, .push = {.topic = topic, .due_us = 1, .ttr_us = HOUR_US}};
}

static struct cmd a_reserve(void)
{
    return (struct cmd){.kind = CMD_RESERVE,
                        .reserve = {.topics = &topic, .topic_count = 1, .max = 1}};
}

static void begin(const struct cmd *cmd, struct client *client)
{
    struct engine *port = redis_engine_port(engine);
    *client = (struct client){.ticket.answered = client_answered};
    (void)port->verbs->submit(port, cmd, &client->ticket); /* the client is told */
}

/* What was on its way is lost with its connection; the path is whole then. */
static void lose_answers(void)
{
    sim_network_reset(network, 0, 0);
    sim_network_cut(network, 0, 0, SIM_WHOLE);
}

/* ---- answers that are lost ---- */

/* There is a job and a reserve is sent, but no answer of the server comes. Returns the job. */
static uint64_t reserve_unheard(const struct cmd *take, struct client *taker)
{
    struct cmd push = a_push();
    start_on_one_server();
    uint64_t seq = ask(&push, false).seq;
    sim_network_cut(network, 0, 0, SIM_CUT_ANSWERS);
    begin(take, taker);
    return seq;
}

static void p6_a_reserve_whose_answer_is_lost_brings_the_same_job(void **state)
{
    struct cmd take = a_reserve();
    static struct client taker;
    (void)state;
    uint64_t seq = reserve_unheard(&take, &taker);
    turns(10 * MS);
    assert_int_equal(taker.answers, 0);
    lose_answers();
    turns(SECOND_US);
    assert_int_equal(taker.err, OK);
    assert_int_equal(taker.count, 1);
    assert_int_equal(taker.seq, seq);
}

static void p6_a_reserve_whose_answer_comes_too_late_gives_its_job_back(void **state)
{
    struct cmd take = a_reserve();
    static struct client taker;
    (void)state;
    uint64_t seq = reserve_unheard(&take, &taker);
    turns(2500 * MS);
    assert_int_equal(taker.answers, 1);
    assert_int_equal(taker.err, ERR_AGAIN);
    lose_answers();
    turns(3 * SECOND_US);
    struct client second = ask(&take, false);
    assert_int_equal(second.count, 1);
    assert_int_equal(second.seq, seq);
}

/* Else the job would be nobody's until its ttr ends. */
static void p6_who_leaves_gives_back_what_a_reserve_under_way_brings(void **state)
{
    struct cmd take = a_reserve();
    static struct client taker;
    (void)state;
    take.reserve.wait_us = SECOND_US;
    uint64_t seq = reserve_unheard(&take, &taker);
    turns(10 * MS);
    struct engine *port = redis_engine_port(engine);
    port->verbs->drain(port);
    assert_int_equal(taker.err, ERR_DRAINING);
    redis_engine_leave(engine);
    for (int i = 0; i < 20; i++) {
        assert_false(redis_engine_left(engine));
        turn();
    }
    lose_answers();
    stop();
    assert_int_equal(taker.answers, 1);
    assert_int_equal(start(), OK);
    take.reserve.wait_us = 0;
    struct client second = ask(&take, false);
    assert_int_equal(second.count, 1);
    assert_int_equal(second.seq, seq);
}

/* ---- answers that come for another ---- */

/* Up to two jobs are reserved for one who waits 20 ms, and the answer does not come. `later_us`
 * after it asked, when it has gone, another asks; then the answer comes, late or, if it is lost, as
 * that to the same again. The other one is given this job alone. */
static struct client take_what_was_anothers(uint64_t seq, int64_t later_us, int64_t wait_us,
                                            bool lost)
{
    struct cmd take = a_reserve();
    static struct client gone, taker;
    sim_network_cut(network, 0, 0, SIM_CUT_ANSWERS);
    take.reserve.wait_us = 20 * MS;
    take.reserve.max = 2;
    begin(&take, &gone);
    turns(later_us);
    assert_int_equal(gone.answers, 1);
    assert_int_equal(gone.count, 0);
    take.reserve.wait_us = wait_us;
    take.reserve.max = 1;
    int64_t came_us = now_us;
    begin(&take, &taker);
    if (lost)
        lose_answers();
    sim_network_cut(network, 0, 0, SIM_WHOLE);
    turns(300 * MS);
    assert_int_equal(taker.answers, 1);
    assert_int_equal(taker.count, 1);
    assert_int_equal(taker.seq, seq);
    taker.until_us -= came_us;
    return taker;
}

/* The same of one job with a ttr of a second. */
static struct client take_anothers_only_job(int64_t later_us, int64_t wait_us, bool lost)
{
    struct cmd push = a_push();
    push.push.ttr_us = SECOND_US;
    start_on_one_server();
    return take_what_was_anothers(ask(&push, false).seq, later_us, wait_us, lost);
}

/* Its client counts the ttr from when it asked: before that is over, the job is nobody else's. */
static void p4_who_asks_later_is_not_given_the_rest_of_anothers_reservation(void **state)
{
    (void)state;
    struct client taker = take_anothers_only_job(600 * MS, SECOND_US, true);
    assert_in_range(taker.until_us, SECOND_US, SECOND_US + 300 * MS);
}

/* There is a job: it is not told that there is none. */
static void p4_who_asks_later_and_does_not_wait_is_given_all_of_a_reservation(void **state)
{
    (void)state;
    struct client taker = take_anothers_only_job(600 * MS, 0, false);
    assert_in_range(taker.until_us, SECOND_US, SECOND_US + 300 * MS);
}

/* Most of it is left: to give it back and ask again would cost two more requests. */
static void who_asks_a_moment_later_is_given_what_another_did_not_wait_for(void **state)
{
    (void)state;
    struct client taker = take_anothers_only_job(100 * MS, SECOND_US, true);
    assert_in_range(taker.until_us, 850 * MS, SECOND_US - 50 * MS);
}

/* … though another call was sent to that partition since it asked. */
static void p4_a_later_call_does_not_make_anothers_reservation_its_own(void **state)
{
    static struct client gone, taker;
    struct cmd push = a_push(), take = a_reserve();
    (void)state;
    start_on_one_server();
    push.push.ttr_us = SECOND_US;
    uint64_t seq = ask(&push, false).seq;
    sim_network_cut(network, 0, 0, SIM_CUT_ANSWERS);
    take.reserve.wait_us = 20 * MS;
    begin(&take, &gone);
    turns(600 * MS);
    assert_int_equal(gone.answers, 1);
    take.reserve.wait_us = SECOND_US;
    int64_t asked_us = now_us;
    begin(&take, &taker);
    turn();
    const struct waiter *waiter = taker.ticket.held;
    (void)wait_group_fetch_for(waiter->group, 1, 0, 1, (struct fetch_options){0});
    sim_network_cut(network, 0, 0, SIM_WHOLE);
    turns(300 * MS);
    assert_int_equal(taker.count, 1);
    assert_int_equal(taker.seq, seq);
    assert_in_range(taker.until_us - asked_us, SECOND_US, SECOND_US + 300 * MS);
}

/* The answer to a reserve comes when the ttr of its job is over: late or, if it is lost, as that to
 * the same again. Who waits for it gets the job by a reservation that has hardly begun. */
static void wait_until_it_is_over(bool lost)
{
    struct cmd push = a_push(), take = a_reserve();
    static struct client taker;
    start_on_one_server();
    push.push.ttr_us = SECOND_US;
    uint64_t seq = ask(&push, false).seq;
    take.reserve.wait_us = 10 * SECOND_US;
    sim_network_cut(network, 0, 0, SIM_CUT_ANSWERS);
    begin(&take, &taker);
    taker.clock_us = &now_us;
    turns(1200 * MS);
    assert_int_equal(taker.answers, 0);
    if (lost)
        lose_answers();
    sim_network_cut(network, 0, 0, SIM_WHOLE);
    turns(SECOND_US);
    assert_int_equal(taker.count, 1);
    assert_int_equal(taker.seq, seq);
    assert_in_range(taker.until_us - taker.answered_us, 900 * MS, SECOND_US);
}

static void p4_who_waits_is_not_given_a_reservation_that_is_over(void **state)
{
    (void)state;
    wait_until_it_is_over(false);
}

static void p4_who_waits_is_not_given_what_was_over_before_the_reserve_was_repeated(void **state)
{
    (void)state;
    wait_until_it_is_over(true);
}

/* Else nobody would ever get it. */
static void p2_a_job_whose_ttr_is_shorter_than_an_answer_takes_is_handed_out(void **state)
{
    struct cmd push = a_push(), take = a_reserve();
    (void)state;
    start_on_one_server();
    push.push.ttr_us = 1;
    uint64_t seq = ask(&push, false).seq;
    take.reserve.wait_us = 500 * MS;
    struct client taker = ask(&take, false);
    assert_int_equal(taker.count, 1);
    assert_int_equal(taker.seq, seq);
}

/* … nor if nobody waits for as many answers as are given back. */
static void p2_a_job_whose_ttr_is_shorter_than_an_answer_takes_is_handed_out_to_the_impatient(
    void **state)
{
    struct cmd push = a_push(), take = a_reserve();
    unsigned asked = 0;
    uint32_t count = 0;
    (void)state;
    start_on_one_server();
    push.push.ttr_us = 1;
    assert_int_equal(ask(&push, false).err, OK);
    take.reserve.wait_us = 2 * MS;
    for (; asked < 10 && !count; asked++)
        count = ask(&take, false).count;
    assert_int_equal(count, 1);
    assert_in_range(asked, 2, 9); /* else it is no test */
}

/* Two jobs are reserved for one who has gone, and the reservation of the first alone is too old for
 * who asks next: the second must not overtake it. */
static void p5_a_job_that_goes_back_is_not_overtaken_by_those_behind_it(void **state)
{
    struct cmd push = a_push(), take = a_reserve();
    (void)state;
    start_on_one_server();
    push.push.ttr_us = SECOND_US;
    uint64_t first = ask(&push, false).seq;
    push.push.ttr_us = HOUR_US;
    uint64_t second = ask(&push, false).seq;
    (void)take_what_was_anothers(first, 600 * MS, SECOND_US, false);
    assert_int_equal(ask(&take, false).seq, second);
}

/* ---- marks that are lost ---- */

static const struct node *node_at(uint32_t partition)
{
    return script_requests_node(&engine->calls, partition);
}

static bool has_mark(struct sim_redis *server, uint32_t partition)
{
    struct sim_redis_conn *conn = sim_redis_accept(server);
    struct buf command = {0};
    buf_addf(&command, "*3\r\n$7\r\nHEXISTS\r\n$%d\r\n{q:%u}:h\r\n$3\r\n#wv\r\n",
             partition < 10 ? 7 : 8, partition);
    sim_redis_input(conn, buf_bytes(&command));
    bool has = bytes_eq(buf_bytes(sim_redis_output(conn)), BYTES(":1\r\n"));
    sim_redis_hang_up(conn);
    buf_fini(&command);
    return has;
}

static void start_on_a_cluster(void)
{
    options.url.topology = REDIS_CLUSTER;
    options.partitions = 16;
    sim_cluster_init(&cluster, servers, SERVERS, MASTERS, 1);
    for (uint16_t i = 0; i < MASTERS; i++) {
        add_address((uint16_t)(7000 + i));
        sim_redis_follow(servers[MASTERS + i], servers[i]);
    }
    assert_int_equal(start(), OK);
}

static unsigned master_of(uint64_t seq)
{
    return node_at((uint32_t)(seq % options.partitions))->link.address.port - 7000u;
}

/* A replica that has not got it takes over: it is left there again, at once. */
static void p2_who_waits_leaves_word_again_where_a_replica_takes_over(void **state)
{
    struct cmd push = a_push(), take = a_reserve();
    static struct client taker;
    (void)state;
    start_on_a_cluster();
    uint32_t partition = (uint32_t)(ask(&push, false).seq % options.partitions);
    assert_int_equal(ask(&take, false).count, 1); /* the topic is there, and nothing is ready */
    unsigned master = master_of(partition);
    sim_redis_settings(servers[MASTERS + master])->lag_us = INT64_MAX;
    take.reserve.wait_us = 60 * INT64_C(1000000);
    begin(&take, &taker);
    turns(2 * SECOND_US);
    assert_true(has_mark(servers[master], partition));
    assert_false(has_mark(servers[MASTERS + master], partition));
    sim_cluster_take_over(&cluster, servers[MASTERS + master], servers[master]);
    while (!node_at(partition) || node_at(partition)->link.address.port != 7000 + MASTERS + master)
        turn();
    turns(20 * MS); /* it asks again without that, too, but only within a second */
    assert_true(has_mark(servers[MASTERS + master], partition));
}

/* ---- what a server refuses ---- */

static uint64_t jobs_there(void)
{
    struct cmd look = {.kind = CMD_TOPIC, .topic = {.topic = topic}};
    struct client seen = ask_for(&look, MS);
    return seen.jobs[JOB_DELAYED] + seen.jobs[JOB_READY] + seen.jobs[JOB_RESERVED] +
           seen.jobs[JOB_BURIED];
}

static uint64_t take_one(uint64_t *out_lease)
{
    struct cmd take = a_reserve();
    struct client taker = ask_for(&take, MS);
    assert_int_equal(taker.count, 1);
    *out_lease = taker.lease;
    return taker.seq;
}

static enum err finish(uint64_t seq, uint64_t lease)
{
    struct cmd done = {.kind = CMD_FINISH, .job = {.ref.seq = seq, .lease = lease}};
    return ask_for(&done, MS).err;
}

/* What makes room goes on: jobs are reserved and finished, and then there is room again. */
static void p8_a_full_redis_refuses_a_push_at_once_and_lets_jobs_be_finished(void **state)
{
    struct cmd push = a_push();
    uint64_t seq, lease;
    (void)state;
    start_on_one_server();
    assert_int_equal(ask_for(&push, MS).err, OK);
    assert_int_equal(ask_for(&push, MS).err, OK);
    seq = take_one(&lease);
    sim_redis_settings(servers[0])->full = true;
    int64_t asked_us = now_us;
    assert_int_equal(ask_for(&push, MS).err, ERR_MEMORY_LIMIT);
    assert_true(now_us - asked_us < 100 * MS);
    assert_int_equal(finish(seq, lease), OK);
    seq = take_one(&lease);
    assert_int_equal(finish(seq, lease), OK);
    assert_int_equal(jobs_there(), 0);
    sim_redis_settings(servers[0])->full = false;
    turns(3 * SECOND_US);
    assert_int_equal(jobs_there(), 0); /* it was refused for good */
    assert_int_equal(ask_for(&push, MS).err, OK);
}

/* "Not now" within its time, whatever is asked; nothing of it is done, then or later. */
static void refuses_all(bool *fault)
{
    struct cmd push = a_push();
    uint64_t lease;
    start_on_one_server();
    assert_int_equal(ask_for(&push, MS).err, OK);
    uint64_t seq = take_one(&lease);
    turns(SECOND_US);
    *fault = true;
    int64_t asked_us = now_us;
    assert_int_equal(ask_for(&push, MS).err, ERR_AGAIN);
    assert_in_range(now_us - asked_us, 2 * SECOND_US - MS, 2 * SECOND_US + 100 * MS);
    assert_int_equal(finish(seq, lease), ERR_AGAIN);
    struct engine *port = redis_engine_port(engine);
    assert_int_equal(port->verbs->health(port), ERR_AGAIN);
    *fault = false;
    turns(3 * SECOND_US);
    assert_int_equal(port->verbs->health(port), OK);
    assert_int_equal(jobs_there(), 1);
    assert_int_equal(finish(seq, lease), OK);
    assert_int_equal(jobs_there(), 0);
}

static void p8_without_enough_replicas_a_push_is_refused_within_its_time(void **state)
{
    (void)state;
    refuses_all(&sim_redis_settings(servers[0])->few_replicas);
}

static void p8_a_redis_that_cannot_save_refuses_a_push_within_its_time(void **state)
{
    (void)state;
    refuses_all(&sim_redis_settings(servers[0])->cannot_save);
}

/* A master that has become a replica is read-only. */
static void p8_a_read_only_redis_refuses_a_push_within_its_time(void **state)
{
    struct cmd push = a_push();
    (void)state;
    start_on_one_server();
    assert_int_equal(ask_for(&push, MS).err, OK);
    sim_redis_follow(servers[1], servers[0]);
    sim_redis_catch_up(servers[1]);
    sim_redis_follow(servers[1], NULL);
    sim_redis_follow(servers[0], servers[1]);
    int64_t asked_us = now_us;
    assert_int_equal(ask_for(&push, MS).err, ERR_AGAIN);
    assert_in_range(now_us - asked_us, 2 * SECOND_US - MS, 2 * SECOND_US + 100 * MS);
    sim_redis_follow(servers[0], NULL);
    turns(3 * SECOND_US);
    assert_int_equal(jobs_there(), 1);
    assert_int_equal(ask_for(&push, MS).err, OK);
}

/* What only the master has may be lost with it: it is not acknowledged, though it is done there. */
static void p2_what_too_few_replicas_have_is_not_acknowledged(void **state)
{
    struct cmd push = a_push();
    (void)state;
    options.wait_replicas = 1;
    sim_redis_follow(servers[1], servers[0]);
    start_on_one_server();
    assert_int_equal(ask_for(&push, MS).err, OK);
    sim_redis_settings(servers[1])->lag_us = INT64_MAX;
    int64_t asked_us = now_us;
    assert_int_equal(ask_for(&push, MS).err, ERR_AGAIN);
    assert_in_range(now_us - asked_us, SECOND_US, 2 * SECOND_US + 100 * MS);
    turns(3 * SECOND_US);
    struct engine *port = redis_engine_port(engine);
    assert_int_equal(port->verbs->health(port), ERR_AGAIN);
    sim_redis_settings(servers[1])->lag_us = 0;
    turns(3 * SECOND_US);
    assert_int_equal(port->verbs->health(port), OK);
    assert_int_equal(ask_for(&push, MS).err, OK);
    assert_int_equal(jobs_there(), 3);
}

static bool has_free_places_only(const struct partition *partition)
{
    uint64_t taken = 0;
    for (unsigned i = 0; i < CALL_RING_WORDS; i++)
        taken |= partition->ring_taken[i];
    return taken == 0;
}

/* The second push is answered, but no WAIT was sent behind it, when the connection ends, as it does
 * at once with a map that names another master. This one may never be there again. */
static void p8_an_answer_that_waits_for_replicas_ends_with_its_connection(void **state)
{
    static struct client first, second;
    const struct cmd push = a_push();
    (void)state;
    options.wait_replicas = 1;
    sim_redis_follow(servers[1], servers[0]);
    start_on_one_server();
    begin(&push, &first);
    turn_alone();
    begin(&push, &second);
    turn_alone(); /* the WAIT for the first one is under way */
    pass(10 * MS);
    (void)loop_update_time(options.loop);
    (void)options.loop->verbs->gather(options.loop, NULL);
    assert_int_equal(first.answers, 1);
    assert_int_equal(second.answers, 0);
    sim_network_cut(network, 0, 0, SIM_CUT_ALL);
    link_fail(&engine->topology.nodes[0].link, "it has gone");
    assert_int_equal(second.answers, 1);
    assert_int_equal(second.err, ERR_AGAIN);
    assert_true(has_free_places_only(&engine->calls.partitions[0]));
    sim_network_cut(network, 0, 0, SIM_WHOLE);
    turns(5 * SECOND_US);
    assert_int_equal(jobs_there(), 2);
}

static void why_redis_is_away_names_the_kind_of_its_error_and_nobody(void **state)
{
    struct redis_error why = {.text = ""};
    (void)state;
    start_on_one_server();
    assert_false(redis_reason(engine, &why));
    sim_redis_settings(servers[0])->denied = " ping ";
    sim_redis_restart(servers[0], SIM_REDIS_KEEPS_ALL);
    turns(4 * SECOND_US);
    assert_true(redis_reason(engine, &why));
    assert_memory_equal(why.text, "Redis is away since ", 20);
    assert_string_equal(why.text + strlen(why.text) - 8, ": NOPERM");
    assert_string_equal(redis_reason_of_turn(engine), why.text);
    sim_redis_settings(servers[0])->denied = NULL;
    turns(4 * SECOND_US);
    assert_null(redis_reason_of_turn(engine));
}

static void why_redis_is_away_names_a_cluster_that_is_too_large(void **state)
{
    struct redis_error why = {.text = ""};
    (void)state;
    start_on_one_server();
    engine->topology.left_out = 1; /* as topology.c counts them */
    script_requests_close(&engine->calls, 0);
    assert_true(redis_reason(engine, &why));
    assert_memory_equal(why.text, "the cluster has more than 64 masters", 36);
}

/* A right is taken away between two writes, and given back; the connection stays as it is. */
static void p2_a_job_that_a_script_without_a_right_left_is_found_again_by_itself(void **state)
{
    static struct client pusher, taker;
    const struct cmd push = a_push();
    struct cmd take = a_reserve();
    (void)state;
    take.reserve.wait_us = HOUR_US;
    start_on_one_server();
    turns(10 * SECOND_US);
    begin(&push, &pusher);
    turns(100 * MS);
    sim_redis_settings(servers[0])->denied = " zadd ";
    begin(&take, &taker);
    turns(100 * MS);
    sim_redis_settings(servers[0])->denied = NULL;
    turns(SECOND_US);
    assert_int_equal(pusher.err, OK);
    assert_int_equal(taker.count, 0);
    uint64_t connects = engine->topology.counts.connects;
    turns(8 * SECOND_US);
    assert_int_equal(taker.count, 1);
    assert_int_equal(engine->topology.counts.connects, connects);
}

/* Its answer is lost, and when it is sent again it is refused, until a right is given back. */
static void p6_a_reserve_that_is_refused_when_it_is_sent_again_gives_its_job_back(void **state)
{
    struct cmd take = a_reserve();
    static struct client taker;
    (void)state;
    uint64_t seq = reserve_unheard(&take, &taker);
    turns(10 * MS);
    lose_answers();
    turn();
    for (turn_alone(); !script_requests_is_open(&engine->calls, 0); turn_alone())
        pass(MS);
    sim_redis_settings(servers[0])->denied = " hmget ";
    turns(4 * SECOND_US);
    assert_int_equal(taker.answers, 1);
    assert_int_equal(taker.err, ERR_AGAIN);
    sim_redis_settings(servers[0])->denied = NULL;
    turns(2 * SECOND_US);
    struct client second = ask(&take, false);
    assert_int_equal(second.count, 1);
    assert_int_equal(second.seq, seq);
}

int main(void)
{
#define STARTED(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        STARTED(p6_a_reserve_whose_answer_is_lost_brings_the_same_job),
        STARTED(p6_a_reserve_whose_answer_comes_too_late_gives_its_job_back),
        STARTED(p6_who_leaves_gives_back_what_a_reserve_under_way_brings),
        STARTED(p4_who_asks_later_is_not_given_the_rest_of_anothers_reservation),
        STARTED(p4_who_asks_later_and_does_not_wait_is_given_all_of_a_reservation),
        STARTED(who_asks_a_moment_later_is_given_what_another_did_not_wait_for),
        STARTED(p4_a_later_call_does_not_make_anothers_reservation_its_own),
        STARTED(p4_who_waits_is_not_given_a_reservation_that_is_over),
        STARTED(p2_a_job_whose_ttr_is_shorter_than_an_answer_takes_is_handed_out),
        STARTED(p2_a_job_whose_ttr_is_shorter_than_an_answer_takes_is_handed_out_to_the_impatient),
        STARTED(p4_who_waits_is_not_given_what_was_over_before_the_reserve_was_repeated),
        STARTED(p5_a_job_that_goes_back_is_not_overtaken_by_those_behind_it),
        STARTED(p2_who_waits_leaves_word_again_where_a_replica_takes_over),
        STARTED(p8_a_full_redis_refuses_a_push_at_once_and_lets_jobs_be_finished),
        STARTED(p8_without_enough_replicas_a_push_is_refused_within_its_time),
        STARTED(p8_a_redis_that_cannot_save_refuses_a_push_within_its_time),
        STARTED(p8_a_read_only_redis_refuses_a_push_within_its_time),
        STARTED(p2_what_too_few_replicas_have_is_not_acknowledged),
        STARTED(p8_an_answer_that_waits_for_replicas_ends_with_its_connection),
        STARTED(why_redis_is_away_names_the_kind_of_its_error_and_nobody),
        STARTED(why_redis_is_away_names_a_cluster_that_is_too_large),
        STARTED(p2_a_job_that_a_script_without_a_right_left_is_found_again_by_itself),
        STARTED(p6_a_reserve_that_is_refused_when_it_is_sent_again_gives_its_job_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
