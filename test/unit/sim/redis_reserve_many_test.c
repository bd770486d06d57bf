/*
 * A reserve of many jobs, whichever partitions they are in, on simulated servers: how many round
 * trips and scripts it takes, that it is handed no more than it asked for, in order, and that
 * nothing is lost of what comes for a client that has gone.
 */
#include "base/mem.h"
#include "engine/redis/consumers_parts.h"
#include "redis_bed.h"

enum { MANY = 256, JOBS = 1984, JOBS_MAX = 2048, REQUEST = 500, SHORT_US = 300 * MS };

static const struct bytes topics[] = {{"a", 1}, {"b", 1}, {"c", 1}};
static unsigned failed_pushes, answered_pushes;
static int64_t ttr_us, began_us, step_us; /* between the due times of jobs */

/* Who asks for many, and what came. */
struct taker {
    struct ticket ticket;
    unsigned answers;
    enum err err;
    uint32_t count;
    uint64_t seqs[JOBS_MAX];
    int64_t due_us[JOBS_MAX], until_us[JOBS_MAX];
    char topic[JOBS_MAX];
    int64_t asked_us, took_us;
    uint64_t scripts;
};

static struct taker taker;

static void taken(struct ticket *ticket, const struct reply *reply)
{
    struct taker *of = (struct taker *)ticket; /* its first member */
    of->answers++;
    of->err = reply->err;
    of->count = reply->count;
    assert_in_range(reply->count, 0, JOBS_MAX);
    for (uint32_t i = 0; i < reply->count; i++) {
        of->seqs[i] = reply->jobs[i].ref.seq;
        of->due_us[i] = reply->jobs[i].due_us;
        of->until_us[i] = reply->jobs[i].until_us;
        of->topic[i] = reply->jobs[i].topic.at[0];
    }
    of->took_us = now_us - of->asked_us;
}

static struct cmd reserve_of(uint32_t topic_count, uint32_t max, int64_t wait_us)
{
    return (struct cmd){
        .kind = CMD_RESERVE,
        .reserve = {.topics = topics, .topic_count = topic_count, .max = max, .wait_us = wait_us}};
}

static void submit_cmd(const struct cmd *cmd)
{
    struct engine *port = redis_engine_port(engine);
    turn(); /* it knows what time it is */
    taker = (struct taker){.ticket.answered = taken, .asked_us = now_us};
    taker.scripts = scripts_sent();
    (void)port->verbs->submit(port, cmd, &taker.ticket); /* it is told */
}

static void submit(uint32_t topic_count, uint32_t max, int64_t wait_us)
{
    struct cmd cmd = reserve_of(topic_count, max, wait_us);
    submit_cmd(&cmd);
}

/* Redis does all that it has read from one client before it serves another. */
static void assert_few_calls_are_under_way(void)
{
    const struct waiter *waiter = taker.ticket.held;
    for (uint32_t i = 0; waiter && i < options.partitions; i++)
        assert_in_range(waiter->group->at[i].calls, 0, 5);
}

/* The most calls that any server has to answer. */
static uint32_t calls_of_a_server(const struct waiter *waiter)
{
    uint32_t of_servers[MASTERS] = {0}, most = 0;
    for (uint32_t i = 0; i < options.partitions; i++) {
        const struct node *node = script_requests_node(&engine->calls, i);
        uint32_t *of_server = &of_servers[node - engine->topology.nodes];
        *of_server += waiter->group->at[i].calls;
        most = *of_server > most ? *of_server : most;
    }
    return most;
}

static void await(void)
{
    while (!taker.answers) {
        turn();
        assert_few_calls_are_under_way();
    }
    taker.scripts = scripts_sent() - taker.scripts;
}

/* Each job once, and no reservation that is over. */
static void assert_jobs_are_distinct(void)
{
    for (uint32_t i = 0; i < taker.count; i++) {
        for (uint32_t before = 0; before < i; before++)
            assert_int_not_equal(taker.seqs[before], taker.seqs[i]);
    }
}

static void take(uint32_t topic_count, uint32_t max, int64_t wait_us)
{
    submit(topic_count, max, wait_us);
    await();
    assert_in_range(taker.count, 0, max);
    assert_jobs_are_distinct();
}

static void pushed(struct ticket *ticket, const struct reply *reply)
{
    mem_free(ticket);
    answered_pushes++;
    failed_pushes += reply->err != OK;
}

static enum if_exists if_exists;

/* Ids of the client's own spread the jobs over the partitions; without, all are in the topic's. */
static void push(uint32_t topic, uint32_t number, bool with_id, uint32_t body_bytes)
{
    static const char body[64 * 1024];
    struct engine *port = redis_engine_port(engine);
    struct ticket *ticket = mem_zalloc(sizeof(*ticket));
    char id[16];
    int len = snprintf(id, sizeof(id), "%u-%u", topic, number);
    ticket->answered = pushed;
    struct cmd cmd = {.kind = CMD_PUSH,
                      .push = {.topic = topics[topic],
                               .id = bytes_of(id, with_id ? (size_t)len : 0),
                               .due_us = began_us + number * step_us,
                               .ttr_us = ttr_us,
                               .if_exists = if_exists,
                               .body = bytes_of(body, body_bytes)}};
    (void)port->verbs->submit(port, &cmd, ticket); /* it is told */
    if (number % 100 == 0)
        turn();
}

static void push_some(uint32_t topic_count, uint32_t from, uint32_t jobs, bool with_id,
                      uint32_t body_bytes)
{
    answered_pushes = failed_pushes = 0;
    for (uint32_t i = 0; i < jobs; i++)
        push(i % topic_count, from + i, with_id, body_bytes);
    while (answered_pushes < jobs)
        turn();
    assert_int_equal(failed_pushes, 0);
}

/* … and they are due, and known to be. */
static void push_all(uint32_t topic_count, uint32_t jobs, bool with_id, uint32_t body_bytes)
{
    push_some(topic_count, 0, jobs, with_id, body_bytes);
    turns(SECOND_US);
}

static void use_cluster(void)
{
    static struct sim_cluster cluster;
    options.url.topology = REDIS_CLUSTER;
    sim_cluster_init(&cluster, servers, MASTERS, MASTERS, 1);
    add_address(7001);
    add_address(7002);
}

static void start_with(uint32_t partitions)
{
    options.partitions = partitions;
    ttr_us = 60 * SECOND_US;
    step_us = 1;
    began_us = now_us - SECOND_US;
    add_address(7000);
    assert_int_equal(start(), OK);
    start_second(); /* which knows nothing yet of what the other one pushes */
    change_daemon();
}

/* For the next case of a test. */
static void again(void)
{
    stop_pair();
    (void)teardown(NULL);
    (void)setup(NULL);
}

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
    for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
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
    for (unsigned turn_count = 0; turn_count < 8; turn_count++) {
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

enum { CONSUMERS = 8, EACH = 32 };

static struct taker takers[CONSUMERS];

/* They wait for a job each in one turn, and get it within so long. Returns how many partitions are
 * asked at first. */
static uint32_t ask_at_once(int64_t us)
{
    struct engine *port = redis_engine_port(engine);
    struct cmd cmd = reserve_of(1, 1, 500 * MS);
    uint32_t asked = 0;
    for (uint32_t i = 0; i < CONSUMERS; i++) {
        takers[i] = (struct taker){.ticket.answered = taken, .asked_us = now_us};
        (void)port->verbs->submit(port, &cmd, &takers[i].ticket); /* it is told */
    }
    turn_alone();
    const struct waiter *waiter = takers[0].ticket.held;
    for (uint32_t i = 0; i < options.partitions; i++)
        asked += waiter->group->at[i].calls;
    turns(us);
    for (uint32_t i = 0; i < CONSUMERS; i++)
        assert_int_equal(takers[i].count, 1);
    return asked;
}

/* Jobs in 16 partitions, which this daemon has pushed while it knew that there were no others. */
static void push_known(int64_t between_us, int64_t before_us)
{
    options.waiters_max = CONSUMERS;
    start_with(16);
    change_daemon();
    step_us = between_us;
    began_us = now_us - before_us;
    take(1, 1, 0);
    assert_int_equal(taker.count, 0);
    push_some(1, 0, EACH, true, 20);
}

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

/* What is known of the partitions of one server, which may be wrong: so many close jobs, the best
 * of all, where nothing is under way for this consumer. Returns in how many. */
static uint32_t know_best_jobs_at(uint16_t port, const struct waiter *waiter, uint8_t close_jobs)
{
    struct topic *topic = topic_cache_find(&engine->consumers.topic_cache, topics[0]);
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

/* One of its partitions is asked for the jobs of all, since it has most: the others give them after
 * 20 ms, and what comes in the end goes back. */
static void p2_several_consumers_do_not_wait_for_a_silent_server(void **state)
{
    (void)state;
    static bool seen[JOBS_MAX];
    uint32_t count = CONSUMERS;
    use_cluster();
    push_known(100, SECOND_US);
    assert_true(know_best_jobs_at(7000, NULL, CONSUMERS) > 1);
    sim_network_cut(network, 1, 0, SIM_CUT_ALL);
    turns(20 * MS); /* so that it has been silent for as long */
    assert_int_equal(ask_at_once(30 * MS), 1);
    memset(seen, 0, sizeof(seen));
    for (uint32_t i = 0; i < CONSUMERS; i++)
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
        STARTED(many_jobs_come_in_few_round_trips_wherever_they_are),
        STARTED(a_server_has_few_calls_of_a_reserve_to_answer),
        STARTED(what_partitions_lack_is_taken_from_those_that_have_more),
        STARTED(many_jobs_of_one_partition_come_in_exact_order),
        STARTED(many_jobs_of_all_partitions_are_in_order_as_far_as_they_go),
        STARTED(many_jobs_of_a_list_come_topic_by_topic),
        STARTED(large_jobs_are_not_reserved_beyond_what_the_answer_holds),
        STARTED(large_jobs_are_not_reserved_for_the_next_one_beyond_its_answer),
        STARTED(several_consumers_are_served_from_few_partitions),
        STARTED(several_consumers_get_the_oldest_jobs_if_these_are_not_close),
        STARTED(a_job_that_is_pushed_again_counts_once),
        STARTED(one_consumer_gets_the_best_jobs_of_all_partitions),
        STARTED(many_jobs_do_not_wait_for_a_silent_partition),
        STARTED(p2_several_consumers_do_not_wait_for_a_silent_server),
        STARTED(a_server_that_answers_none_of_many_calls_is_asked_for_no_more),
        STARTED(what_has_come_does_not_wait_for_a_silent_partition),
        STARTED(p2_of_many_jobs_none_is_lost_when_the_client_goes),
        STARTED(p4_what_is_reserved_does_not_wait_for_more_until_it_is_over),
        STARTED(p4_a_job_that_was_over_while_it_waited_for_others_is_not_handed_out),
        STARTED(p4_a_job_is_not_handed_out_twice_though_all_is_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
