/*
 * A bed for reserves on simulated servers: jobs that another daemon pushes, and clients who ask for
 * many at once, or several who ask for one each.
 */
#ifndef LATERD_TEST_REDIS_RESERVE_BED_H
#define LATERD_TEST_REDIS_RESERVE_BED_H

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

static inline void taken(struct ticket *ticket, const struct reply *reply)
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

static inline struct cmd reserve_of(uint32_t topic_count, uint32_t max, int64_t wait_us)
{
    return (struct cmd){
        .kind = CMD_RESERVE,
        .reserve = {.topics = topics, .topic_count = topic_count, .max = max, .wait_us = wait_us}};
}

static inline void submit_as(struct taker *who, const struct cmd *cmd)
{
    struct engine *port = redis_engine_port(engine);
    *who = (struct taker){.ticket.answered = taken, .asked_us = now_us};
    who->scripts = scripts_sent();
    (void)port->verbs->submit(port, cmd, &who->ticket); /* it is told */
}

static inline void submit_cmd(const struct cmd *cmd)
{
    turn(); /* it knows what time it is */
    submit_as(&taker, cmd);
}

static inline void submit(uint32_t topic_count, uint32_t max, int64_t wait_us)
{
    struct cmd cmd = reserve_of(topic_count, max, wait_us);
    submit_cmd(&cmd);
}

/* Redis does all that it has read from one client before it serves another. */
static inline void assert_few_calls_are_under_way(void)
{
    const struct waiter *waiter = taker.ticket.held;
    for (uint32_t i = 0; waiter && i < options.partitions; i++)
        assert_in_range(waiter->group->at[i].calls, 0, 5);
}

/* The most calls that any server has to answer. */
static inline uint32_t calls_of_a_server(const struct waiter *waiter)
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

static inline void await(void)
{
    while (!taker.answers) {
        turn();
        assert_few_calls_are_under_way();
    }
    taker.scripts = scripts_sent() - taker.scripts;
}

/* Each job once, and no reservation that is over. */
static inline void assert_jobs_are_distinct(void)
{
    for (uint32_t i = 0; i < taker.count; i++) {
        for (uint32_t before = 0; before < i; before++)
            assert_int_not_equal(taker.seqs[before], taker.seqs[i]);
    }
}

static inline void take(uint32_t topic_count, uint32_t max, int64_t wait_us)
{
    submit(topic_count, max, wait_us);
    await();
    assert_in_range(taker.count, 0, max);
    assert_jobs_are_distinct();
}

static inline void pushed(struct ticket *ticket, const struct reply *reply)
{
    mem_free(ticket);
    answered_pushes++;
    failed_pushes += reply->err != OK;
}

static enum if_exists if_exists;

/* Ids of the client's own spread the jobs over the partitions; without, all are in the topic's. */
static inline void push(uint32_t topic, uint32_t number, bool with_id, uint32_t body_bytes)
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

static inline void push_some(uint32_t topic_count, uint32_t from, uint32_t jobs, bool with_id,
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
static inline void push_all(uint32_t topic_count, uint32_t jobs, bool with_id, uint32_t body_bytes)
{
    push_some(topic_count, 0, jobs, with_id, body_bytes);
    turns(SECOND_US);
}

static inline void use_cluster(void)
{
    static struct sim_cluster cluster;
    options.url.topology = REDIS_CLUSTER;
    sim_cluster_init(&cluster, servers, MASTERS, MASTERS, 1);
    add_address(7001);
    add_address(7002);
}

static inline void start_with(uint32_t partitions)
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
static inline void again(void)
{
    stop_pair();
    (void)teardown(NULL);
    (void)setup(NULL);
}

/* ---- several consumers at once ---- */

enum { CONSUMERS = 8, EACH = 32 };

static struct taker takers[CONSUMERS];

/* They wait for a job each in one turn, and get it within so long. Returns how many partitions are
 * asked at first. */
static inline uint32_t ask_at_once(int64_t us)
{
    struct cmd cmd = reserve_of(1, 1, 500 * MS);
    uint32_t asked = 0;
    for (uint32_t i = 0; i < CONSUMERS; i++)
        submit_as(&takers[i], &cmd);
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
static inline void push_known(int64_t between_us, int64_t before_us)
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

#endif
