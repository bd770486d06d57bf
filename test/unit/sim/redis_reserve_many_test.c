/*
 * A reserve of many jobs, whichever partitions they are in, on simulated servers: how many round
 * trips and scripts it takes, that it is handed no more than it asked for, in order, and that
 * nothing is lost of what comes for a client that has gone.
 */
#include "redis_reserve_bed.h"
#include "test/unit/support/every.h"

/* Where the jobs lie, and what it may take to get many of them. */
struct layout {
    uint32_t partitions, topic_count;
    bool with_ids; /* in all partitions, else in that of the topic */
};

static const struct layout layouts[] = {
    {MANY, 1, true}, {MANY, 3, true}, {16, 1, true}, {16, 1, false}, {16, 3, false}, {1, 3, true},
};

/* As much as that of the others: it comes with them. */
static void many_jobs_come_in_few_round_trips_wherever_they_are(void **state)
{
    (void)state;
    size_t step =
        sim_every() == 1 ? 1 : 3; /* the first, which has most partitions, and the fourth */
    for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i += step) {
        const struct layout *at = &layouts[i];
        const uint32_t calls = JOBS / 32 + at->partitions;
        start_with(at->partitions);
        push_all(at->topic_count, JOBS, at->with_ids, 20);
        change_daemon();
        for (uint32_t left = JOBS; left; left -= taker.count) {
            take(at->topic_count, REQUEST, 500 * MS);
            assert_int_equal(taker.count, left < REQUEST ? left : REQUEST);
            assert_true(taker.took_us <=
                        (left < REQUEST ? 5 : 4) * MS + (int64_t)at->partitions / 32 * MS);
            assert_true(taker.scripts <= calls + at->partitions / 2);
        }
        again();
    }
}

/* … and no server has more than 32 of these calls to answer at a time, so that others who ask it do
 * not wait behind all of them. */
static void a_server_has_few_calls_of_a_reserve_to_answer(void **state)
{
    (void)state;
    for (unsigned servers_count = 1; servers_count <= MASTERS; servers_count += MASTERS - 1) {
        uint32_t most = 0;
        if (servers_count > 1)
            use_cluster();
        start_with(MANY);
        push_all(1, JOBS, true, 20);
        change_daemon();
        submit(1, REQUEST, 500 * MS);
        while (!taker.answers) {
            uint32_t calls = taker.ticket.held ? calls_of_a_server(taker.ticket.held) : 0;
            most = calls > most ? calls : most;
            turn();
        }
        assert_int_equal(taker.count, REQUEST);
        assert_int_equal(most, 32);
        again();
    }
}

/* Looks are not among these 32: there is one into each partition, and on one server 32 of them are
 * one script, which is short. */
static void looks_of_a_reserve_are_one_for_each_partition_and_few_scripts(void **state)
{
    enum { WORK_MAX = 4000 }; /* words: see redis_scripts_bed.h */
    (void)state;
    start_with(MANY);
    push_all(1, JOBS, true, 20);
    change_daemon();
    turns(500 * MS);          /* between two heartbeats */
    submit(1, 100, 500 * MS); /* fewer than there are partitions */
    *sim_lua_ledger() = (struct sim_lua_ledger){0};
    const struct waiter *waiter = taker.ticket.held;
    turn_alone();
    for (uint32_t i = 0; i < options.partitions; i++)
        assert_int_equal(waiter->group->at[i].calls, 1);
    pass(MS);
    assert_int_equal(sim_lua_ledger()->runs, MANY / 32);
    assert_in_range(sim_lua_ledger()->most_work, 1, WORK_MAX);
    await();
    assert_int_equal(taker.count, 100);
    stop_pair();
}

/* Looks into many topics take Redis longer, so there are rounds of them, as short as calls for jobs
 * are; and the best job is found all the same. */
static void a_server_has_few_looks_into_many_topics_to_answer(void **state)
{
    enum { TOPICS = 64 };
    (void)state;
    char names[TOPICS][4];
    struct bytes many[TOPICS];
    uint32_t most = 0;
    start_with(MANY);
    push_all(1, 300, true, 20);
    change_daemon();
    for (uint32_t i = 0; i < TOPICS; i++) {
        int len = snprintf(names[i], sizeof(names[i]), "t%u", i);
        many[i] = i ? bytes_of(names[i], (size_t)len) : topics[0];
    }
    struct cmd cmd = reserve_of(1, 1, 500 * MS);
    cmd.reserve.topics = many;
    cmd.reserve.topic_count = TOPICS;
    submit_cmd(&cmd);
    while (!taker.answers) {
        const struct waiter *waiter = taker.ticket.held;
        uint32_t calls = calls_of_a_server(waiter);
        most = calls > most ? calls : most;
        turn();
    }
    assert_int_equal(most, 32);
    assert_int_equal(taker.count, 1);
    assert_int_equal(taker.due_us[0], began_us);
    stop_pair();
}

/* One partition has most of them: what the others lack is taken there, by as few calls. */
static void what_partitions_lack_is_taken_from_those_that_have_more(void **state)
{
    (void)state;
    start_with(16);
    push_all(1, REQUEST - 50, false, 20);
    push_some(1, REQUEST, 50, true, 20);
    change_daemon();
    take(1, REQUEST, 500 * MS);
    assert_int_equal(taker.count, REQUEST);
    assert_true(taker.took_us <= 4 * MS);
    assert_in_range(taker.scripts, 1, 48);
    stop_pair();
}

/* In one partition, and wherever redis.order says topic, the oldest come first, in each reserve and
 * from one to the next. */
static void many_jobs_of_one_partition_come_in_exact_order(void **state)
{
    (void)state;
    for (unsigned one = 0; one < 2; one++) {
        int64_t last_us = 0;
        start_with(one ? 1 : 16);
        push_all(1, JOBS, one, 20);
        change_daemon();
        for (uint32_t left = JOBS; left; left -= taker.count) {
            take(1, 33 + left % 300, 500 * MS);
            assert_true(taker.count > 0);
            for (uint32_t i = 0; i < taker.count; i++) {
                assert_true(taker.due_us[i] >= last_us);
                last_us = taker.due_us[i];
            }
        }
        again();
    }
}

/* What comes of several partitions is sorted, and of each the oldest come first. */
static void many_jobs_of_all_partitions_are_in_order_as_far_as_they_go(void **state)
{
    (void)state;
    start_with(16);
    push_all(1, JOBS, true, 20);
    change_daemon();
    int64_t last_us[16] = {0};
    for (uint32_t left = JOBS; left; left -= taker.count) {
        take(1, REQUEST, 500 * MS);
        for (uint32_t i = 0; i < taker.count; i++) {
            assert_true(i == 0 || taker.due_us[i] >= taker.due_us[i - 1]);
            assert_true(taker.due_us[i] >= last_us[taker.seqs[i] % 16]);
            last_us[taker.seqs[i] % 16] = taker.due_us[i];
        }
    }
    stop_pair();
}

/* The list's order holds for many, too: all of the first topic before any of the second. */
static void many_jobs_of_a_list_come_topic_by_topic(void **state)
{
    (void)state;
    start_with(16);
    push_all(3, 900, true, 20);
    change_daemon();
    struct cmd cmd = reserve_of(3, 280, 500 * MS);
    cmd.reserve.listed_order = true;
    submit_cmd(&cmd);
    await();
    assert_int_equal(taker.count, 280);
    for (uint32_t i = 0; i < 280; i++) /* there are 300 */
        assert_int_equal(taker.topic[i], 'a');
    stop_pair();
}

/* A reserve ends at 512 KB of bodies: so many are asked for as fit, by the size of the first ones.
 */
static void large_jobs_are_not_reserved_beyond_what_the_answer_holds(void **state)
{
    (void)state;
    start_with(16);
    push_all(1, 400, false, 8000);
    change_daemon();
    take(1, REQUEST, 500 * MS); /* which learns where they are */
    take(1, REQUEST, 500 * MS);
    assert_in_range(taker.count, 64, 70);
    assert_in_range(taker.scripts, 1, 8); /* what is given back takes one for each */
    again();
    start_with(16);
    push_all(1, 400, true, 30000); /* in all of them */
    change_daemon();
    take(1, REQUEST, 500 * MS);
    take(1, 100, 500 * MS);
    assert_in_range(taker.count, 17, 18);
    stop_pair();
}

/* … nor for the next who waits, who has none yet: what is given back takes one script for each. */
static void large_jobs_are_not_reserved_for_the_next_one_beyond_its_answer(void **state)
{
    (void)state;
    static struct taker other;
    struct cmd cmd = reserve_of(1, REQUEST, 500 * MS);
    start_with(16);
    push_all(1, 400, false, 10000);
    change_daemon();
    take(1, REQUEST, 500 * MS);
    assert_in_range(taker.count, 52, 54);
    uint64_t before = scripts_sent();
    submit_cmd(&cmd);
    struct engine *port = redis_engine_port(engine);
    other = (struct taker){.ticket.answered = taken, .asked_us = now_us};
    (void)port->verbs->submit(port, &cmd, &other.ticket); /* it is told */
    while (!other.answers)
        turn();
    await();
    assert_in_range(taker.count, 52, 54);
    assert_in_range(other.count, 52, 54);
    turns(100 * MS); /* for what is given back */
    assert_in_range(scripts_sent() - before, 1, 30);
    stop_pair();
}

/* The client goes while jobs are on their way to it, at any time: another one gets all of them,
 * long before their ttr is over. */
static void p2_of_many_jobs_none_is_lost_when_the_client_goes(void **state)
{
    (void)state;
    unsigned step = sim_every() == 1 ? 1 : 3;
    for (unsigned turn_count = 0; turn_count < 8; turn_count += step) {
        struct engine *port;
        uint32_t count = 0;
        start_with(16);
        push_all(1, JOBS, turn_count % 2, 20);
        change_daemon();
        port = redis_engine_port(engine);
        submit(1, REQUEST, 500 * MS);
        for (unsigned i = 0; i < turn_count / 2; i++)
            turn();
        if (taker.answers)
            count = taker.count;
        else
            port->verbs->cancel(port, &taker.ticket);
        turns(SECOND_US);
        for (take(1, REQUEST, 0); taker.count; take(1, REQUEST, 0))
            count += taker.count;
        assert_int_equal(count, JOBS);
        again();
    }
}

/* ---- several consumers at once ---- */

/* The most close jobs that this daemon knows of in a partition. */
static uint32_t most_close_jobs(void)
{
    const struct topic *topic = consumers_topic(&engine->consumers, topics[0]);
    uint32_t most = 0;
    for (uint32_t i = 0; i < options.partitions; i++) {
        uint32_t close_jobs = topic->hints[i].close_jobs;
        most = close_jobs > most ? close_jobs : most;
    }
    return most;
}

/* A push of a job that is there makes none more, whether it keeps the job or replaces it. */
static void a_job_that_is_pushed_again_counts_once(void **state)
{
    (void)state;
    static const enum if_exists again_as[] = {IF_EXISTS_KEEP, IF_EXISTS_REPLACE};
    push_known(0, SECOND_US);
    uint32_t most = most_close_jobs();
    assert_in_range(most, 2, EACH - 1);
    for (size_t i = 0; i < 2; i++) {
        if_exists = again_as[i];
        push_some(1, 0, EACH, true, 20);
        assert_int_equal(most_close_jobs(), most);
    }
    if_exists = IF_EXISTS_REJECT;
    stop_pair();
}

/* … and one that is deleted was one of those that were known. */
static void a_job_that_is_deleted_counts_no_more(void **state)
{
    (void)state;
    push_known(0, SECOND_US);
    uint32_t most = most_close_jobs();
    for (uint32_t number = 0; number < EACH; number++) {
        char id[8];
        int len = snprintf(id, sizeof(id), "0-%u", number);
        struct cmd cmd = {.kind = CMD_DELETE, .job.ref.id = bytes_of(id, (size_t)len)};
        submit_cmd(&cmd);
        while (!taker.answers)
            turn();
        assert_int_equal(taker.err, OK);
        assert_in_range(most_close_jobs(), 0, most);
    }
    stop_pair();
}

/* Jobs that are due within some milliseconds of each other come from few partitions: each of these
 * costs Redis as much as several of its jobs. */
static void several_consumers_are_served_from_few_partitions(void **state)
{
    (void)state;
    push_known(100, SECOND_US);
    assert_in_range(ask_at_once(5 * MS), 1, CONSUMERS / 2);
    stop_pair();
}

/* … but what is due more than 50 ms later is no reason: each job comes from another partition then,
 * the best first. */
static void several_consumers_get_the_oldest_jobs_if_these_are_not_close(void **state)
{
    (void)state;
    bool first = false;
    push_known(51 * MS, 2 * SECOND_US);
    assert_int_equal(ask_at_once(5 * MS), CONSUMERS);
    for (uint32_t i = 0; i < CONSUMERS; i++)
        first = first || takers[i].due_us[0] == began_us;
    assert_true(first);
    stop_pair();
}

/* What one consumer asks for is promised in order: it has the best of as many partitions. */
static void one_consumer_gets_the_best_jobs_of_all_partitions(void **state)
{
    (void)state;
    bool seen[16] = {false};
    push_known(100, SECOND_US);
    take(1, CONSUMERS, 500 * MS);
    assert_int_equal(taker.count, CONSUMERS);
    assert_int_equal(taker.due_us[0], began_us);
    for (uint32_t i = 0; i < CONSUMERS; i++) {
        assert_false(seen[taker.seqs[i] % 16]);
        seen[taker.seqs[i] % 16] = true;
    }
    stop_pair();
}

/* ---- very many consumers at once ---- */

enum { CROWD = 400 };

static uint32_t crowd_jobs;

static void crowd_answered(struct ticket *ticket, const struct reply *reply)
{
    (void)ticket;
    assert_int_equal(reply->err, OK);
    assert_int_equal(reply->count, 1);
    crowd_jobs++;
}

/* Where a new queue's only partition has jobs for all of them, they do not wait for one call of 32
 * jobs after the other; nor are there more calls under way than others can wait for. */
static void very_many_consumers_are_served_in_few_round_trips(void **state)
{
    (void)state;
    static struct ticket tickets[CROWD];
    struct cmd cmd = reserve_of(1, 1, 500 * MS);
    options.waiters_max = CROWD;
    start_with(1);
    push_all(1, JOBS, true, 20);
    change_daemon();
    turn();
    struct engine *port = redis_engine_port(engine);
    int64_t asked_us = now_us;
    uint64_t scripts = scripts_sent();
    crowd_jobs = 0;
    for (uint32_t i = 0; i < CROWD; i++) {
        tickets[i] = (struct ticket){.answered = crowd_answered};
        (void)port->verbs->submit(port, &cmd, &tickets[i]); /* it is told */
    }
    while (crowd_jobs < CROWD) {
        taker.ticket.held = tickets[CROWD - 1].held; /* NULL: it was answered */
        assert_few_calls_are_under_way();
        turn();
    }
    taker.ticket.held = NULL;
    assert_true(now_us - asked_us <= 6 * MS);
    assert_in_range(scripts_sent() - scripts, 1, CROWD / 32 + 2); /* as many as one by one */
    stop_pair();
}

int main(void)
{
#define STARTED(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        STARTED(many_jobs_come_in_few_round_trips_wherever_they_are),
        STARTED(a_server_has_few_calls_of_a_reserve_to_answer),
        STARTED(looks_of_a_reserve_are_one_for_each_partition_and_few_scripts),
        STARTED(a_server_has_few_looks_into_many_topics_to_answer),
        STARTED(what_partitions_lack_is_taken_from_those_that_have_more),
        STARTED(many_jobs_of_one_partition_come_in_exact_order),
        STARTED(many_jobs_of_all_partitions_are_in_order_as_far_as_they_go),
        STARTED(many_jobs_of_a_list_come_topic_by_topic),
        STARTED(large_jobs_are_not_reserved_beyond_what_the_answer_holds),
        STARTED(large_jobs_are_not_reserved_for_the_next_one_beyond_its_answer),
        STARTED(several_consumers_are_served_from_few_partitions),
        STARTED(several_consumers_get_the_oldest_jobs_if_these_are_not_close),
        STARTED(a_job_that_is_pushed_again_counts_once),
        STARTED(a_job_that_is_deleted_counts_no_more),
        STARTED(one_consumer_gets_the_best_jobs_of_all_partitions),
        STARTED(very_many_consumers_are_served_in_few_round_trips),
        STARTED(p2_of_many_jobs_none_is_lost_when_the_client_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
