/*
 * Reserves while a server does not answer, on simulated servers: nobody waits for it who can be
 * served by others, and nothing that was reserved is kept until it is over, or handed out twice.
 */
#include "redis_reserve_bed.h"

/* ---- a master that does not answer, and short reservations ---- */

/* One of the masters does not answer. `known`: that its partitions have jobs was learnt before (and
 * one job was taken). */
static void start_on_a_cluster(uint32_t jobs, int64_t each_ttr_us, bool known)
{
    use_cluster();
    start_with(MANY);
    ttr_us = each_ttr_us;
    push_all(1, jobs, true, 20);
    change_daemon();
    if (known)
        take(1, 1, 500 * MS);
    sim_network_cut(network, 1, 0, SIM_CUT_ALL);
}

/* The others have not got so many, and it has some: what they gave is not kept until its ttr is
 * over. */
static void p4_what_is_reserved_does_not_wait_for_more_until_it_is_over(void **state)
{
    (void)state;
    start_on_a_cluster(REQUEST, SHORT_US, true);
    take(1, REQUEST, 500 * MS);
    assert_true(taker.count > REQUEST / 4);
    assert_true(taker.took_us <= SHORT_US / 4 + 5 * MS);
    for (uint32_t i = 0; i < taker.count; i++)
        assert_true(taker.until_us[i] > now_us + SHORT_US / 2);
    sim_network_cut(network, 1, 0, SIM_WHOLE);
    stop_pair();
}

/* What was to come from there, of which nothing is known yet, the others give after 20 ms; and when
 * it comes in the end it goes back. */
static void many_jobs_do_not_wait_for_a_silent_partition(void **state)
{
    (void)state;
    start_on_a_cluster(JOBS, 60 * SECOND_US, false);
    take(1, REQUEST, 500 * MS);
    assert_int_equal(taker.count, REQUEST);
    assert_true(taker.took_us <= 30 * MS);
    uint32_t count = taker.count;
    take(1, REQUEST, 500 * MS);
    assert_int_equal(taker.count, REQUEST);
    assert_true(taker.took_us <= 30 * MS);
    count += taker.count;
    sim_network_cut(network, 1, 0, SIM_WHOLE);
    turns(5 * SECOND_US);
    for (take(1, REQUEST, 500 * MS); taker.count; take(1, REQUEST, 500 * MS))
        count += taker.count;
    assert_int_equal(count, JOBS);
    stop_pair();
}

static uint16_t port_of(uint32_t partition)
{
    return script_requests_node(&engine->calls, partition)->link.address.port;
}

static struct topic *topic_known(void)
{
    return topic_cache_find(&engine->consumers.topic_cache, topics[0]);
}

/* What is known of the partitions of one server, which may be wrong: so many close jobs, the best
 * of all, where nothing is under way for this consumer. Returns in how many. */
static uint32_t know_best_jobs_at(uint16_t port, const struct waiter *waiter, uint8_t close_jobs)
{
    struct topic *topic = topic_known();
    uint32_t count = 0;
    for (uint32_t i = 0; i < options.partitions; i++) {
        if (port_of(i) != port || (waiter && waiter->group->at[i].calls))
            continue;
        topic->hints[i] = (struct hint){
            .what = READY, .first = {.us = began_us}, .close_jobs = close_jobs, .at_us = now_us};
        count++;
    }
    return count;
}

/* The best jobs that are known are in partitions of a server that is silent: so many in each. */
static void begin_with_a_silent_server(uint8_t close_jobs)
{
    use_cluster();
    push_known(100, SECOND_US);
    assert_true(know_best_jobs_at(7000, NULL, close_jobs) > 1);
    sim_network_cut(network, 1, 0, SIM_CUT_ALL);
    turns(20 * MS); /* so that it has been silent for as long */
}

/* Each of the first takers has a job; the server answers again, and all others are there, too. */
static void end_with_all_jobs(uint32_t count)
{
    bool seen[EACH] = {false};
    for (uint32_t i = 0; i < count; i++)
        seen[(takers[i].due_us[0] - began_us) / 100] = true;
    sim_network_cut(network, 1, 0, SIM_WHOLE);
    turns(5 * SECOND_US);
    for (take(1, EACH, 500 * MS); taker.count; take(1, EACH, 500 * MS)) {
        for (uint32_t i = 0; i < taker.count; i++)
            seen[(taker.due_us[i] - began_us) / 100] = true;
        count += taker.count;
    }
    assert_int_equal(count, EACH);
    for (uint32_t i = 0; i < EACH; i++)
        assert_true(seen[i]);
}

/* One of its partitions is asked for the jobs of all, since it has most, or several for a job each:
 * the others give them after 20 ms, and what comes in the end goes back. */
static void p2_several_consumers_do_not_wait_for_a_silent_server(void **state)
{
    (void)state;
    static const uint8_t close_jobs[] = {CONSUMERS, 1};
    for (size_t i = 0; i < sizeof(close_jobs) / sizeof(close_jobs[0]); i++) {
        begin_with_a_silent_server(close_jobs[i]);
        uint32_t asked = ask_at_once(30 * MS);
        assert_true(close_jobs[i] == 1 ? asked > 1 : asked == 1);
        end_with_all_jobs(CONSUMERS);
        again();
    }
}

/* The same if there is only one, or each comes in a turn of its own. */
static void p2_one_consumer_does_not_wait_for_a_silent_server(void **state)
{
    (void)state;
    struct cmd cmd = reserve_of(1, 1, 500 * MS);
    for (uint32_t count = 1; count <= CONSUMERS; count += CONSUMERS - 1) {
        begin_with_a_silent_server(1);
        for (uint32_t i = 0; i < count; i++) {
            submit_as(&takers[i], &cmd);
            turn();
        }
        turns(30 * MS);
        for (uint32_t i = 0; i < count; i++) {
            assert_int_equal(takers[i].count, 1);
            assert_true(takers[i].took_us <= 30 * MS);
        }
        end_with_all_jobs(count);
        again();
    }
}

/* Of all partitions it is known that they have no jobs, which is wrong, but for one of that server,
 * of which that much is known. Returns another server's partition that has some. */
static uint32_t know_none_but_at(uint16_t port, enum hint_kind what, uint32_t *out_partition)
{
    struct hint *hints = topic_known()->hints;
    uint32_t with_jobs = 0;
    for (uint32_t i = 0; i < options.partitions; i++) {
        if (port_of(i) == port)
            *out_partition = i;
        else if (hints[i].what == READY)
            with_jobs = i;
        hints[i] = (struct hint){.what = EMPTY, .at_us = now_us};
    }
    hints[*out_partition].what = (uint8_t)what;
    return with_jobs;
}

/* It is asked for the job of one who waits: what has become ready elsewhere meanwhile is not waited
 * for longer than 20 ms, whatever it is asked for: since its last job was taken, since nothing is
 * known of it, or behind a promote. */
static void p2_who_has_asked_one_partition_does_not_wait_for_a_silent_server(void **state)
{
    (void)state;
    static const enum hint_kind known[] = {TAKEN, UNKNOWN, EMPTY};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        struct cmd cmd = reserve_of(1, 1, 500 * MS);
        uint32_t of_silent = 0;
        begin_with_a_silent_server(1);
        struct consumers *consumers = &engine->consumers;
        uint32_t with_jobs = know_none_but_at(7000, known[i], &of_silent);
        submit_as(&takers[0], &cmd);
        turn();
        const struct waiter *waiter = takers[0].ticket.held;
        if (known[i] == EMPTY) {
            consumers->hit_group = waiter->group;
            consumers->hit_streak = 10;
            consumers_promoting(consumers, of_silent);
        }
        assert_int_equal(waiter->group->at[of_silent].calls, 1);
        consumers_ready(consumers, topics[0], with_jobs, NOTIFIED_ALL);
        turns(30 * MS);
        assert_int_equal(takers[0].count, 1);
        assert_true(takers[0].took_us <= 30 * MS);
        consumers_forget(consumers);
        end_with_all_jobs(1);
        again();
    }
}

/* A list of topics whose order counts: the first one's jobs are all on the silent server, of which
 * nothing is known, or which is thought to have some. */
static void ask_for_a_list(bool known)
{
    struct cmd cmd = reserve_of(2, 1, 500 * MS);
    use_cluster();
    push_known(100, SECOND_US);
    cmd.reserve.topics = (const struct bytes[]){{"0", 1}, topics[0]};
    cmd.reserve.listed_order = true;
    if (known) {
        struct topic *first = topic_cache_need(&engine->consumers.topic_cache, BYTES("0"));
        topic_cache_rest(&engine->consumers.topic_cache, first);
        for (uint32_t i = 0; i < options.partitions; i++) {
            bool there = port_of(i) == 7000;
            first->hints[i] = (struct hint){.what = there ? READY : EMPTY,
                                            .first = {.us = began_us},
                                            .close_jobs = 1,
                                            .at_us = now_us};
        }
    }
    sim_network_cut(network, 1, 0, SIM_CUT_ALL);
    turns(20 * MS);
    submit_as(&takers[0], &cmd);
}

static void p2_a_list_does_not_wait_for_a_silent_server(void **state)
{
    (void)state;
    for (unsigned known = 0; known < 2; known++) {
        ask_for_a_list(known);
        turns(50 * MS);
        assert_int_equal(takers[0].count, 1);
        assert_true(takers[0].took_us <= 45 * MS); /* a look, and a reserve */
        end_with_all_jobs(1);
        again();
    }
}

/* … but for one that answers others, as long as it does: it may have jobs of the first topic. */
static void a_list_waits_for_a_server_that_answers_others(void **state)
{
    (void)state;
    for (unsigned known = 0; known < 2; known++) {
        uint32_t partition = 0;
        ask_for_a_list(known);
        while (port_of(partition) != 7000)
            partition++;
        struct node *node = script_requests_node(&engine->calls, partition);
        for (unsigned i = 0; i < 100; i++) {
            node->link.received_us = now_us;
            turn();
            assert_int_equal(takers[0].answers, 0);
        }
        turns(50 * MS);
        assert_int_equal(takers[0].count, 1);
        end_with_all_jobs(1);
        again();
    }
}

/* Where answers have taken long they are waited for longer, but not for more than 100 ms. */
static void a_silent_server_is_waited_for_100_ms_at_most(void **state)
{
    (void)state;
    struct cmd cmd = reserve_of(1, 1, 500 * MS);
    begin_with_a_silent_server(1);
    turns(100 * MS);
    engine->consumers.answer_us = SECOND_US;
    submit_as(&takers[0], &cmd);
    turns(110 * MS);
    assert_int_equal(takers[0].count, 1);
    assert_true(takers[0].took_us >= 100 * MS);
    end_with_all_jobs(1);
    stop_pair();
}

/* Its server answers all that it is sent; but to a partition that is not open nothing is sent. */
static void p2_who_waits_does_not_wait_for_a_partition_that_is_not_open(void **state)
{
    (void)state;
    struct cmd cmd = reserve_of(1, 1, 500 * MS);
    uint32_t closed = 0;
    use_cluster();
    push_known(100, SECOND_US);
    struct node *node = script_requests_node(&engine->calls, closed);
    topic_known()->hints[closed] = (struct hint){
        .what = READY, .first = {.us = began_us - 1}, .close_jobs = 1, .at_us = now_us};
    engine->calls.partitions[closed].open_at = NULL; /* and nobody opens it yet */
    submit_as(&takers[0], &cmd);
    for (unsigned i = 0; i < 30; i++) {
        node->link.received_us = now_us;
        turn();
    }
    assert_int_equal(takers[0].count, 1);
    script_requests_open(&engine->calls, closed, node,
                         script_requests_places(&engine->calls, closed));
    consumers_forget(&engine->consumers);
    end_with_all_jobs(1);
    stop_pair();
}

/* Its answers take up to 60 ms, as those of a Redis that is far away do: all partitions are looked
 * at, as long as it takes, before one is asked. */
static void who_is_far_from_redis_gets_the_best_job_of_all_partitions(void **state)
{
    enum { LEARNING = 10, JUDGED = 10 };
    (void)state;
    bool taken_before[EACH] = {false};
    use_cluster();
    start_with(16);
    push_all(1, EACH, true, 20);
    change_daemon();
    sim_network_faults(network, &(struct sim_faults){.late_us = 30 * MS, .late_per_mille = 1000});
    for (uint32_t i = 0; i < LEARNING + JUDGED; i++) {
        uint32_t best = 0;
        consumers_forget(&engine->consumers);
        take(1, 1, 500 * MS);
        assert_int_equal(taker.count, 1);
        while (taken_before[best])
            best++;
        if (i >= LEARNING)
            assert_int_equal(taker.due_us[0] - began_us, best);
        taken_before[taker.due_us[0] - began_us] = true;
    }
    sim_network_faults(network, &(struct sim_faults){.late_us = 0});
    stop_pair();
}

/* Neither looks nor jobs that are known there: what was to come from it the others give at once. */
static void a_server_that_answers_none_of_many_calls_is_asked_for_no_more(void **state)
{
    (void)state;
    for (unsigned known = 0; known < 2; known++) {
        start_on_a_cluster(JOBS, 60 * SECOND_US, false);
        take(1, REQUEST, 500 * MS);
        assert_int_equal(taker.count, REQUEST);
        submit(1, 100, 500 * MS); /* fewer than there are partitions */
        const struct waiter *waiter = taker.ticket.held;
        if (known)
            assert_in_range(know_best_jobs_at(7000, waiter, 1), 10, 90);
        while (!taker.answers) {
            assert_in_range(calls_of_a_server(waiter), 0, 32);
            turn();
        }
        assert_int_equal(taker.count, 100);
        assert_true(taker.took_us <= 10 * MS);
        sim_network_cut(network, 1, 0, SIM_WHOLE);
        again();
    }
}

/* Too few elsewhere, and reservations that run for a minute: what has come is answered when nobody
 * else is waited for any more, whether the partitions were asked for jobs or only looked into. */
static void what_has_come_does_not_wait_for_a_silent_partition(void **state)
{
    (void)state;
    static const uint32_t wanted[] = {REQUEST, 20};
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        start_on_a_cluster(wanted[i], 60 * SECOND_US, false);
        take(1, wanted[i], 500 * MS);
        assert_in_range(taker.count, wanted[i] / 4, wanted[i] - 1);
        assert_true(taker.took_us <= 30 * MS);
        sim_network_cut(network, 1, 0, SIM_WHOLE);
        again();
    }
}

/* It has some jobs, and waits for the others. */
static struct waiter *wait_with_some(void)
{
    start_on_a_cluster(REQUEST, SHORT_US, true);
    submit(1, REQUEST, 500 * MS);
    struct waiter *waiter = taker.ticket.held;
    while (!waiter->job_count)
        turn();
    turns(30 * MS); /* so that nobody has more for it */
    assert_int_equal(taker.answers, 0);
    return waiter;
}

/* It is ready or another's by then. (Daemons that stand still for long have such jobs.) */
static void p4_a_job_that_was_over_while_it_waited_for_others_is_not_handed_out(void **state)
{
    (void)state;
    struct waiter *waiter = wait_with_some();
    uint32_t some = waiter->job_count;
    uint64_t over = waiter->jobs[0].ref.seq;
    waiter->jobs[0].until_us = now_us;
    await();
    assert_int_equal(taker.count, some - 1);
    for (uint32_t i = 0; i < taker.count; i++)
        assert_int_not_equal(taker.seqs[i], over);
    sim_network_cut(network, 1, 0, SIM_WHOLE);
    stop_pair();
}

/* … nor when it was reserved twice, and all is over. */
static void p4_a_job_is_not_handed_out_twice_though_all_is_over(void **state)
{
    (void)state;
    struct waiter *waiter = wait_with_some();
    uint32_t some = waiter->job_count;
    waiter->jobs[waiter->job_count++] = waiter->jobs[0];
    waiter->group->wanted--;
    pass(2 * SHORT_US);
    await();
    assert_int_equal(taker.count, some);
    assert_jobs_are_distinct();
    sim_network_cut(network, 1, 0, SIM_WHOLE);
    stop_pair();
}

int main(void)
{
#define STARTED(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        STARTED(many_jobs_do_not_wait_for_a_silent_partition),
        STARTED(p2_several_consumers_do_not_wait_for_a_silent_server),
        STARTED(p2_one_consumer_does_not_wait_for_a_silent_server),
        STARTED(p2_who_has_asked_one_partition_does_not_wait_for_a_silent_server),
        STARTED(p2_a_list_does_not_wait_for_a_silent_server),
        STARTED(a_list_waits_for_a_server_that_answers_others),
        STARTED(a_silent_server_is_waited_for_100_ms_at_most),
        STARTED(p2_who_waits_does_not_wait_for_a_partition_that_is_not_open),
        STARTED(who_is_far_from_redis_gets_the_best_job_of_all_partitions),
        STARTED(a_server_that_answers_none_of_many_calls_is_asked_for_no_more),
        STARTED(what_has_come_does_not_wait_for_a_silent_partition),
        STARTED(p4_what_is_reserved_does_not_wait_for_more_until_it_is_over),
        STARTED(p4_a_job_that_was_over_while_it_waited_for_others_is_not_handed_out),
        STARTED(p4_a_job_is_not_handed_out_twice_though_all_is_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
