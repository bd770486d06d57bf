/*
 * Clocks: the daemons', Redis', and the queue's, which goes on evenly whatever the others show.
 * Time is simulated: what is waited for takes none.
 */
#include "engine/redis/clock_sync.h"
#include "redis_bed.h"
#include "redis_forget.h"

/* Else the next answer to a client has it read again. */
static uint64_t scripts_sent_since_the_clock_was_read(void)
{
    engine->calls.partitions[0].clock_read_us = options.loop->now_us;
    return scripts_sent();
}

/* Clocks that differ by less than 10 ms count as one; that must not make the promoter spin. */
static void p3_a_daemon_whose_clock_is_ahead_asks_a_few_times_for_a_due_job(void **state)
{
    (void)state;
    add_address(7000);
    options.partitions = 1;
    ahead_us = 8 * MS;
    assert_int_equal(start(), OK);
    turns(SECOND_US);
    int64_t due_us = now_us + SECOND_US;
    static struct client taker, pusher;
    a_job_for_who_waits(&taker, &pusher, due_us);
    while (now_us < due_us - 20 * MS)
        turn();
    assert_int_equal(taker.answers, 0);
    uint64_t before = scripts_sent_since_the_clock_was_read();
    while (!taker.answers)
        turn();
    assert_true(now_us >= due_us && now_us < due_us + 5 * MS);
    assert_int_equal(taker.count, 1);
    assert_true(scripts_sent() - before <= 5); /* of these are: a reserve, perhaps a heartbeat */
}

/* Else each push without delay would wait for the difference of the clocks, and for a promote. */
static void what_is_due_at_once_is_ready_at_once_though_redis_clock_is_behind(void **state)
{
    (void)state;
    struct cmd push = {.kind = CMD_PUSH,
                       .push = {.topic = {"t", 1}, .ttr_us = 60 * INT64_C(1000000)}};
    static struct client pusher;
    pusher = (struct client){.ticket.answered = client_answered};
    add_address(7000);
    options.partitions = 1;
    assert_int_equal(start(), OK);
    sim_redis_settings(servers[0])->ahead_us = -8 * MS;
    turns(2300 * MS); /* heartbeats show it */
    uint64_t before = scripts_sent_since_the_clock_was_read();
    push.push.due_us = options.loop->now_us;
    struct engine *port = redis_engine_port(engine);
    (void)port->verbs->submit(port, &push, &pusher.ticket);
    turns(20 * MS);
    assert_int_equal(pusher.answers, 1);
    assert_int_equal(scripts_sent() - before, 1); /* no promote */
}

static void begin_push(struct client *pusher)
{
    struct engine *port = redis_engine_port(engine);
    struct cmd push = {.kind = CMD_PUSH,
                       .push = {.topic = {"t", 1},
                                .due_us = options.loop->now_us,
                                .ttr_us = 60 * INT64_C(1000000)}};
    *pusher = (struct client){.ticket.answered = client_answered};
    (void)port->verbs->submit(port, &push, &pusher->ticket);
}

/* The clock is found to be behind between two pushes: the second is due no sooner for that. */
static void p5_jobs_that_are_due_at_once_keep_their_order(void **state)
{
    (void)state;
    static struct client pushers[2];
    add_address(7000);
    options.partitions = 1;
    assert_int_equal(start(), OK);
    turns(SECOND_US);
    begin_push(&pushers[0]);
    engine->space.behind_us[0] = 5 * MS;
    int64_t first_us = engine->space.at_once_us[0];
    turn();
    begin_push(&pushers[1]);
    assert_true(engine->space.at_once_us[0] >= first_us);
    turns(20 * MS);
    assert_int_equal(pushers[0].answers + pushers[1].answers, 2);
}

/* Three jobs, before, during and after two seconds in which Redis' clock is off by so much: each
   comes when it is due. */
static void survive_a_leap_of(int64_t leap_us)
{
    static struct client takers[3], pushers[3];
    add_address(7000);
    options.partitions = 2;
    assert_int_equal(start(), OK);
    turns(3 * SECOND_US);
    int64_t began_us = now_us;
    for (unsigned i = 0; i < 3; i++)
        a_job_for_who_waits(&takers[i], &pushers[i], began_us + SECOND_US * (1 + 2 * (int)i));
    turns(began_us + 1900 * MS - now_us);
    assert_int_equal(takers[0].count, 1);
    sim_redis_settings(servers[0])->ahead_us = leap_us;
    turns(began_us + 3 * SECOND_US - now_us - 10 * MS);
    assert_int_equal(takers[1].answers, 0);
    turns(100 * MS);
    assert_int_equal(takers[1].count, 1);
    turns(began_us + 3900 * MS - now_us);
    sim_redis_settings(servers[0])->ahead_us = 0;
    turns(began_us + 5 * SECOND_US - now_us - 10 * MS);
    assert_int_equal(takers[2].answers, 0);
    turns(100 * MS);
    assert_int_equal(takers[2].count, 1);
}

static void p3_redis_clock_may_be_an_hour_back_for_a_while(void **state)
{
    (void)state;
    survive_a_leap_of(-3600 * INT64_C(1000000));
}

static void p3_redis_clock_may_be_an_hour_ahead_for_a_while(void **state)
{
    (void)state;
    survive_a_leap_of(3600 * INT64_C(1000000));
}

/* No heartbeat has shown the leap yet: the bounds of each request keep the clock right. */
static void p3_a_job_that_is_due_right_after_a_leap_comes_in_time(void **state)
{
    static struct client taker, pusher;
    (void)state;
    add_address(7000);
    options.partitions = 1;
    assert_int_equal(start(), OK);
    turns(3400 * MS); /* between two heartbeats */
    int64_t due_us = now_us + 40 * MS;
    a_job_for_who_waits(&taker, &pusher, due_us);
    turns(10 * MS);
    sim_redis_settings(servers[0])->ahead_us = -3600 * INT64_C(1000000);
    turns(20 * MS);
    assert_int_equal(taker.answers, 0);
    turns(due_us + 20 * MS - now_us);
    assert_int_equal(taker.count, 1);
}

/* Somebody puts another key in the place of the reserved jobs, and the set back a second later. */
static void p2_a_job_that_a_script_left_halfway_is_found_again(void **state)
{
    static struct client taker, pusher;
    struct buf filler = {0};
    (void)state;
    add_address(7000);
    options.partitions = 1;
    assert_int_equal(start(), OK);
    turns(3 * SECOND_US);
    buf_addf(&filler, "*4\r\n$4\r\nZADD\r\n$7\r\n{q:0}:l\r\n$4\r\n+inf\r\n$65\r\n");
    for (int i = 0; i < 65; i++)
        buf_add_char(&filler, (char)0xff);
    buf_add_str(&filler, "\r\n");
    tell_server(servers[0], BYTES("*2\r\n$3\r\nDEL\r\n$7\r\n{q:0}:l\r\n"));
    tell_server(servers[0], BYTES("*3\r\n$3\r\nSET\r\n$7\r\n{q:0}:l\r\n$1\r\nx\r\n"));
    a_job_for_who_waits(&taker, &pusher, now_us);
    turns(SECOND_US);
    assert_int_equal(pusher.err, OK);
    assert_int_equal(taker.count, 0);
    tell_server(servers[0], BYTES("*2\r\n$3\r\nDEL\r\n$7\r\n{q:0}:l\r\n"));
    tell_server(servers[0], buf_bytes(&filler));
    buf_fini(&filler);
    turns(2 * SECOND_US);
    if (!taker.count)
        a_job_for_who_waits(&taker, &pusher, now_us + 60 * INT64_C(1000000));
    turns(2 * SECOND_US);
    assert_int_equal(taker.count, 1);
}

/* As another daemon sets a partition's clock for the n-th time, so many seconds ahead (1 to 9). */
static void set_seconds_ahead(unsigned partition, unsigned seconds, unsigned times)
{
    struct buf set = {0};
    buf_addf(
        &set,
        "*6\r\n$4\r\nHSET\r\n$7\r\n{q:%u}:h\r\n$1\r\no\r\n$7\r\n%u000000\r\n$1\r\nn\r\n$18\r\n%u "
        "%lld\r\n",
        partition, seconds, times, (long long)now_us + (int64_t)seconds * SECOND_US);
    tell_server(servers[0], buf_bytes(&set));
    buf_fini(&set);
}

static void set_five_seconds_ahead(unsigned partition)
{
    set_seconds_ahead(partition, 5, 1);
}

/* Another daemon has set the partition's clock five seconds ahead, since ours stood still: it is
   heard of by a heartbeat, and what is due is planned by it. */
static void what_is_due_is_planned_by_the_clock_that_another_has_set(void **state)
{
    static struct client taker, pusher;
    (void)state;
    add_address(7000);
    options.partitions = 1;
    assert_int_equal(start(), OK);
    turns(3 * SECOND_US);
    int64_t began_us = now_us;
    a_job_for_who_waits(&taker, &pusher, began_us + 10 * SECOND_US);
    turns(SECOND_US);
    set_five_seconds_ahead(0);
    turns(began_us + 4900 * MS - now_us);
    assert_int_equal(taker.answers, 0);
    turns(200 * MS);
    assert_int_equal(taker.count, 1);
}

/* A heartbeat tells of the clock of partition 0 only; of another one a promote does. */
static void a_promoter_hears_that_the_clock_was_set(void **state)
{
    static struct client takers[8], pushers[8];
    (void)state;
    add_address(7000);
    options.partitions = 2;
    assert_int_equal(start(), OK);
    turns(3 * SECOND_US);
    const struct queue_clock *clock = &engine->calls.partitions[1].clock;
    assert_int_equal(clock->set_count, 0);
    for (unsigned i = 0; i < 8; i++) /* some of them into partition 1 */
        a_job_for_who_waits(&takers[i], &pushers[i], now_us + 400 * MS);
    turns(100 * MS); /* the clock was read again, and is believed for a second */
    set_five_seconds_ahead(1);
    turns(500 * MS);
    assert_int_equal(clock->set_count, 1);
    assert_int_equal(clock->shift_us, 5 * SECOND_US);
}

/* The correction is in Redis: a daemon that starts now finds the right time, too. */
static void p3_a_leap_is_set_right_for_daemons_that_come_later(void **state)
{
    static struct client taker, pusher;
    (void)state;
    add_address(7000);
    assert_int_equal(start(), OK);
    turns(3 * SECOND_US);
    int64_t due_us = now_us + 20 * SECOND_US;
    struct client nobody;
    a_job_for_who_waits(&taker, &pusher, due_us);
    sim_redis_settings(servers[0])->ahead_us = 3600 * INT64_C(1000000);
    turns(SECOND_US);
    stop();
    assert_int_equal(start(), OK);
    a_job_for_who_waits(&taker, &nobody, due_us + 3600 * INT64_C(1000000));
    turns(due_us - now_us - 10 * MS);
    assert_int_equal(taker.answers, 0);
    turns(100 * MS);
    assert_int_equal(taker.count, 1);
}

/* A partition that was lost is created again by a request that Redis is slow to execute: its clock
   is not set back by that. Else jobs that are due at once would have to be made ready, until the
   clock is set. */
static void a_clock_that_starts_again_late_is_not_set_back(void **state)
{
    static struct client pusher;
    (void)state;
    add_address(7000);
    options.partitions = 1;
    assert_int_equal(start(), OK);
    turns(3 * SECOND_US);
    keyspace_clear(&servers[0]->keys);
    sim_network_cut(network, 0, 0, SIM_CUT_ALL);
    partition_init_again(&engine->partition_init, 0);
    turns(500 * MS);
    sim_network_cut(network, 0, 0, SIM_WHOLE);
    begin_push(&pusher);
    while (!pusher.answers)
        turn();
    assert_int_equal(pusher.err, OK);
    assert_int_equal(engine->calls.partitions[0].clock.shift_us, 0);
}

/* The same, and Redis' clock is ahead by so much from then on: the queue's is not, but late at
 * most. */
static void start_the_clock_again_after_a_leap_of(int64_t leap_us, int64_t late_us)
{
    static struct client taker, pusher;
    add_address(7000);
    options.partitions = 1;
    assert_int_equal(start(), OK);
    turns(3 * SECOND_US);
    keyspace_clear(&servers[0]->keys);
    sim_redis_settings(servers[0])->ahead_us = leap_us;
    sim_network_cut(network, 0, 0, SIM_CUT_ALL);
    partition_init_again(&engine->partition_init, 0);
    turns(500 * MS);
    sim_network_cut(network, 0, 0, SIM_WHOLE);
    int64_t due_us = now_us + SECOND_US;
    a_job_for_who_waits(&taker, &pusher, due_us);
    turns(due_us - now_us - 10 * MS);
    assert_int_equal(taker.answers, 0);
    turns(late_us);
    assert_int_equal(taker.count, 1);
}

static void p3_a_clock_that_starts_again_late_does_not_follow_a_leap(void **state)
{
    (void)state;
    start_the_clock_again_after_a_leap_of(3600 * INT64_C(1000000), 100 * MS);
}

/* It may as well be a later request: that is answered so late that the clock is read again, and
   set. */
static void p3_a_clock_that_starts_again_late_does_not_follow_a_small_leap(void **state)
{
    (void)state;
    start_the_clock_again_after_a_leap_of(800 * MS, 100 * MS);
}

/* A daemon that has just come believes who sets the clock, but not its own request that has created
 * the partition: the jobs of the lost one are still there. */
static void p3_a_clock_that_a_new_daemon_starts_again_late_does_not_follow_a_small_leap(
    void **state)
{
    static struct client taker, pusher;
    (void)state;
    add_address(7000);
    options.partitions = 1;
    assert_int_equal(start(), OK);
    int64_t due_us = now_us + 3 * SECOND_US;
    a_job_for_who_waits(&taker, &pusher, due_us);
    turns(900 * MS);
    tell_server(servers[0], BYTES("*2\r\n$3\r\nDEL\r\n$7\r\n{q:0}:h\r\n"));
    sim_redis_settings(servers[0])->ahead_us = 300 * MS;
    sim_network_cut(network, 0, 0, SIM_CUT_ALL);
    partition_init_again(&engine->partition_init, 0);
    turns(500 * MS);
    sim_network_cut(network, 0, 0, SIM_WHOLE);
    turns(due_us - now_us - 10 * MS);
    assert_int_equal(taker.answers, 0);
    turns(600 * MS);
    assert_int_equal(taker.count, 1);
}

/* Redis' clock has leapt, and our request for it is long on its way. */
static void read_a_leapt_clock_slowly(struct client *pusher)
{
    const struct partition *partition = &engine->calls.partitions[0];
    sim_redis_settings(servers[0])->ahead_us = 3600 * INT64_C(1000000);
    begin_push(pusher);
    for (turn_alone(); !partition->clock_pending; turn_alone())
        pass(MS);
    sim_network_cut(network, 1, 0, SIM_CUT_ALL);
    turns(400 * MS);
    sim_network_cut(network, 1, 0, SIM_WHOLE);
    turns(100 * MS);
    assert_int_equal(partition->clock.set_count, 1);
}

/* The other daemon is stopped meanwhile. It knows the clock better, and would set it ahead again:
   so it must not have been set by what was long on its way. */
static void p4_a_lease_does_not_end_early_when_a_leap_was_seen_late(void **state)
{
    static const struct bytes topic = {"t", 1};
    static struct client pusher, next;
    struct cmd take = {
        .kind = CMD_RESERVE,
        .reserve = {.topics = &topic, .topic_count = 1, .max = 1, .ttr_us = SECOND_US}};
    (void)state;
    add_address(7000);
    options.partitions = 1;
    start_pair();
    turns_of_both(3500 * MS);
    read_a_leapt_clock_slowly(&pusher);
    struct client held = ask_for(&take, MS);
    assert_int_equal(held.count, 1);
    take.reserve.wait_us = 60 * INT64_C(1000000);
    struct engine *port = redis_engine_port(engine);
    next = (struct client){.ticket.answered = client_answered};
    (void)port->verbs->submit(port, &take, &next.ticket);
    turns_of_both(held.until_us - now_us - 30 * MS);
    assert_int_equal(next.answers, 0);
    turns_of_both(SECOND_US);
    assert_int_equal(next.count, 1);
    stop_pair();
}

/* So long is each of the next readings of the clock on its way there. */
static void turns_with_slow_readings(int64_t us, const int64_t *slow_us, unsigned count)
{
    const struct partition *partition = &engine->calls.partitions[0];
    int64_t sent_us = partition->clock_sent_us, whole_us = INT64_MAX;
    unsigned readings = 0;
    for (int64_t until_us = now_us + us; now_us < until_us;) {
        turn_alone();
        if (partition->clock_sent_us != sent_us && readings < count) {
            sim_network_cut(network, 0, 0, SIM_CUT_ALL);
            whole_us = now_us + slow_us[readings++];
            sent_us = partition->clock_sent_us;
        }
        pass(MS);
        if (now_us >= whole_us) {
            sim_network_cut(network, 0, 0, SIM_WHOLE);
            whole_us = INT64_MAX;
        }
    }
    assert_int_equal(readings, count);
}

/* The network has become slow when the clock leaps. It is late by as much for good. */
static void p4_a_clock_is_set_by_the_fastest_of_slow_answers(void **state)
{
    static const int64_t slow_us[] = {60 * MS, 400 * MS, 400 * MS, 400 * MS};
    static const int64_t leap_us = 3600 * INT64_C(1000000);
    static struct client pusher;
    (void)state;
    add_address(7000);
    options.partitions = 1;
    assert_int_equal(start(), OK);
    turns(3500 * MS);
    sim_redis_settings(servers[0])->ahead_us = leap_us;
    begin_push(&pusher);
    turns_with_slow_readings(3 * SECOND_US, slow_us, 4);
    const struct queue_clock *clock = &engine->calls.partitions[0].clock;
    assert_int_equal(clock->set_count, 1);
    assert_in_range(-(clock->shift_us + leap_us), 0, 100 * MS);
}

/* An answer that was long on its way tells little of the clock, and then that leaps. */
static void p3_a_leap_after_a_slow_answer_makes_no_job_early(void **state)
{
    static struct client taker, pusher;
    (void)state;
    add_address(7000);
    options.partitions = 1;
    assert_int_equal(start(), OK);
    const struct partition *partition = &engine->calls.partitions[0];
    turns(3 * SECOND_US);
    int64_t due_us = now_us + 700 * MS;
    a_job_for_who_waits(&taker, &pusher, due_us);
    turns(20 * MS);
    sim_redis_settings(servers[0])->ahead_us = 5 * MS; /* too little for a leap */
    sim_network_cut(network, 0, 0, SIM_CUT_ALL);
    partition_init_again(&engine->partition_init, 0);
    turns(400 * MS);
    sim_network_cut(network, 0, 0, SIM_WHOLE);
    for (turn_alone(); partition->clock.least_us < 4 * MS; turn_alone())
        pass(MS);
    sim_redis_settings(servers[0])->ahead_us = 3600 * INT64_C(1000000);
    turns(due_us - now_us - 30 * MS);
    assert_int_equal(taker.answers, 0);
    turns(100 * MS);
    assert_int_equal(taker.count, 1);
}

/* The machine of one daemon stood still for a moment, too short to say whose clock is right. */
static void two_daemons_whose_clocks_differ_a_little_do_not_set_it_in_turn(void **state)
{
    static struct client pushers[200];
    (void)state;
    add_address(7000);
    options.partitions = 1;
    start_pair();
    turns_of_both(3 * SECOND_US);
    struct queue_clock *clock = &other_engine->calls.partitions[0].clock;
    clock->least_us += 15 * MS;
    clock->most_us += 15 * MS;
    for (unsigned i = 0; i < 200; i++) {
        begin_push(&pushers[i]);
        turns_of_both(10 * MS);
        change_daemon();
    }
    turns_of_both(100 * MS);
    assert_in_range(engine->calls.partitions[0].clock.set_count, 1, 3);
    assert_int_equal(pushers[199].answers, 1);
    stop_pair();
}

static void knows_the_clock(const struct redis_engine *daemon, uint64_t set_count)
{
    const struct queue_clock *clock = &daemon->calls.partitions[1].clock;
    assert_int_equal(clock->set_count, set_count);
    assert_true(clock->most_us < 20 * MS && clock->least_us > -20 * MS);
}

/* The machine of one stood still, so it sets the clock back, and the other sets it right. A daemon
   that is not told goes on by what it has set, as Redis' own clock is as before. */
static void p4_each_daemon_is_told_that_a_clock_was_set(void **state)
{
    (void)state;
    add_address(7000);
    options.partitions = 2;
    start_pair();
    turns_of_both(3500 * MS);
    struct queue_clock *clock = &engine->calls.partitions[1].clock;
    clock->least_us -= SECOND_US;
    clock->most_us -= SECOND_US;
    clock_sync_was_set(&engine->calls, 1);
    turns_of_both(50 * MS);
    knows_the_clock(engine, 2);
    knows_the_clock(other_engine, 2);
    stop_pair();
}

/* Of partition 1; another one each time. */
static struct cmd a_push_with_an_id(char id[16])
{
    static unsigned last;
    struct cmd push = {.kind = CMD_PUSH, .push = {.topic = BYTES("t"), .due_us = 1, .ttr_us = 1}};
    uint32_t partition = 0;
    enum err err;
    while (partition != 1) {
        push.push.id = bytes_of(id, (size_t)snprintf(id, 16, "%u", ++last));
        assert_int_equal(script_route(&engine->space, &push, &partition, &err), SCRIPT_ONE);
    }
    return push;
}

/* Two daemons, of which the one that all is about does not make what is due in partition 1 ready:
   so no promote of its own tells it that the clock was set. */
static void start_beside_the_promoter(void)
{
    add_address(7000);
    options.partitions = 2;
    start_pair();
    turns_of_both(6500 * MS);
    if (members_own(&engine->members, 1))
        change_daemon();
    assert_false(members_own(&engine->members, 1));
}

static void push_to_partition_1(void)
{
    static struct client pusher;
    char id[16];
    struct cmd push = a_push_with_an_id(id);
    struct engine *port = redis_engine_port(engine);
    pusher = (struct client){.ticket.answered = client_answered};
    (void)port->verbs->submit(port, &push, &pusher.ticket);
    turns(20 * MS);
    assert_int_equal(pusher.answers, 1);
}

/* The notice is lost. What was read a second ago is not believed any more. */
static void a_clock_that_was_set_is_known_when_the_partition_is_used(void **state)
{
    (void)state;
    start_beside_the_promoter();
    const struct queue_clock *clock = &engine->calls.partitions[1].clock;
    for (unsigned times = 1; times <= 3; times++) {
        set_seconds_ahead(1, 2 * times, times);
        push_to_partition_1();
        assert_int_equal(clock->set_count, times);
        turns_of_both(SECOND_US);
    }
    stop_pair();
}

/* Nor what was read before a connection ended that may have lost notices, though it does not come
   back. */
static void a_clock_that_was_set_is_known_when_its_partition_is_not_heard(void **state)
{
    (void)state;
    start_beside_the_promoter();
    sim_redis_settings(servers[0])->denied = " subscribe ssubscribe ";
    set_five_seconds_ahead(1);
    link_fail(&engine->subscription.listeners[0].link, "its connection was reset");
    turns(20 * MS);
    assert_false(subscription_is_complete(&engine->subscription));
    assert_int_equal(engine->calls.partitions[1].clock.set_count, 1);
    sim_redis_settings(servers[0])->denied = NULL;
    turns_of_both(3 * SECOND_US);
    stop_pair();
}

int main(void)
{
#define STARTED(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        STARTED(p3_a_daemon_whose_clock_is_ahead_asks_a_few_times_for_a_due_job),
        STARTED(what_is_due_at_once_is_ready_at_once_though_redis_clock_is_behind),
        STARTED(p5_jobs_that_are_due_at_once_keep_their_order),
        STARTED(p3_redis_clock_may_be_an_hour_back_for_a_while),
        STARTED(p3_redis_clock_may_be_an_hour_ahead_for_a_while),
        STARTED(p3_a_job_that_is_due_right_after_a_leap_comes_in_time),
        STARTED(p2_a_job_that_a_script_left_halfway_is_found_again),
        STARTED(a_promoter_hears_that_the_clock_was_set),
        STARTED(what_is_due_is_planned_by_the_clock_that_another_has_set),
        STARTED(p3_a_leap_is_set_right_for_daemons_that_come_later),
        STARTED(a_clock_that_starts_again_late_is_not_set_back),
        STARTED(p3_a_clock_that_starts_again_late_does_not_follow_a_leap),
        STARTED(p3_a_clock_that_starts_again_late_does_not_follow_a_small_leap),
        STARTED(p3_a_clock_that_a_new_daemon_starts_again_late_does_not_follow_a_small_leap),
        STARTED(p4_a_lease_does_not_end_early_when_a_leap_was_seen_late),
        STARTED(p3_a_leap_after_a_slow_answer_makes_no_job_early),
        STARTED(two_daemons_whose_clocks_differ_a_little_do_not_set_it_in_turn),
        STARTED(p4_each_daemon_is_told_that_a_clock_was_set),
        STARTED(a_clock_that_was_set_is_known_when_the_partition_is_used),
        STARTED(a_clock_that_was_set_is_known_when_its_partition_is_not_heard),
        STARTED(p4_a_clock_is_set_by_the_fastest_of_slow_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
